"""Names of the steps of preprocessing, as types for type checkers and for the command line."""

from __future__ import annotations

from typing import Literal, get_args

ScaleName = Literal["standard", "minmax", "robust", "maxabs", "query"]
MissingName = Literal["zero", "median", "indicator"]

SCALES: tuple[ScaleName, ...] = get_args(ScaleName)
MISSING: tuple[MissingName, ...] = get_args(MissingName)
