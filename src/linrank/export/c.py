"""A function in C."""

from __future__ import annotations

import re

from .._text import printable
from .._version import __version__
from ..errors import DataError
from .expression import Syntax, write_sum
from .formula import Formula

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SYNTAX = Syntax(
    log="copysign(log1p(fabs({x})), {x})",
    low="fmax({x}, {limit})",
    high="fmin({x}, {limit})",
    missing="(isnan({x}) ? {missing} : {present})",
    choice="({x} {test} {limit} ? {yes} : {no})",
)


def write_c(formula: Formula, *, name: str = "score") -> str:
    """Write the score as a function of an array: ``double score(const double *x)``.

    The array has the values of all features of the model, in their order. NaN is a missing value,
    so the file must not be compiled with ``-ffast-math``.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the function.
    """
    if not _NAME.fullmatch(name):
        raise DataError(f"name is {name!r}; expected an identifier of C, such as 'score'")
    score = write_sum(formula, [f"x[{column}]" for column in formula.columns], _SYNTAX, " " * 8)
    used = "".join(
        f" *   x[{column}]  {_comment(name)}\n"
        for column, name in zip(formula.columns, formula.used, strict=True)
    )
    return (
        f"/* Written by linrank {__version__}. x has {len(formula.names)} values; NaN is a missing "
        f"value. Used are\n{used} */\n"
        "#include <math.h>\n\n"
        f"double {name}(const double *x)\n"
        "{\n"
        f"    return {score};\n"
        "}\n"
    )


def _comment(name: str) -> str:
    """Return a name in a form that ends no comment and continues no line."""
    return printable(name).replace("*/", "* /").replace("/*", "/ *").replace("\\", "\\\\")
