"""Names of steps of preprocessing and of bases, as types for checkers and for the command line."""

from __future__ import annotations

from typing import Literal, get_args

ScaleName = Literal["standard", "minmax", "robust", "maxabs", "query"]
MissingName = Literal["zero", "median", "indicator"]
BasisName = Literal["ramp", "step", "spline"]
EndsName = Literal["flat", "linear"]

SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
MISSING: tuple[MissingName, ...] = get_args(MissingName)
BASES: tuple[BasisName, ...] = get_args(BasisName)
ENDS: tuple[EndsName, ...] = get_args(EndsName)
