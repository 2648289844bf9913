"""Expressions of Lucene's module ``expressions``, in the syntax of JavaScript."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .._typing import Vector
from ..errors import DataError
from .expression import Syntax, write_sum
from .formula import Formula

_IDENTIFIER = r"[A-Za-z_$][A-Za-z0-9_$]*"
_INDEX = r"""(\[('[^'\\]*'|"[^"\\]*"|0|[1-9][0-9]*)\])*"""
_VARIABLE = re.compile(rf"{_IDENTIFIER}{_INDEX}(\.{_IDENTIFIER}{_INDEX})*")

_SYNTAX = Syntax(
    log="({x} < 0 ? -ln(1 - {x}) : ln(1 + {x}))",
    low="max({x}, {limit})",
    high="min({x}, {limit})",
    missing="{present}",  # Lucene reads a missing value as 0
    choice="({x} {test} {limit} ? {yes} : {no})",
)


def write_lucene(formula: Formula) -> str:
    """Write the score as an expression for ``JavascriptCompiler.compile``.

    Features are variables, to which the program binds doc values or ``_score``. Lucene replaces
    scores below 0 by 0, so that documents tie; ``shift="training"`` avoids negative scores.
    """
    for name in formula.used:
        if not _VARIABLE.fullmatch(name):
            raise DataError(
                f"feature {name!r} is not a variable of a Lucene expression. Give it a name "
                f"such as features={{{name!r}: 'popularity'}}."
            )
    unlike = formula.unlike_zero()
    if unlike is not None:
        raise DataError(
            f"Lucene reads missing values of feature {unlike!r} as 0, but the model was trained "
            "otherwise. Export to vespa, sql, onnx, c or python, or train with 0 for missing "
            "values."
        )
    return write_sum(formula, formula.used, _SYNTAX) + "\n"


def score_in_float32(formula: Formula, X: Any) -> Vector:
    """Score rows as Lucene does: a sum in double precision, rounded once, and at least 0."""
    with np.errstate(over="ignore"):
        rounded = formula.scores(X).astype(np.float32).astype(np.float64)
    return np.maximum(rounded, 0.0)
