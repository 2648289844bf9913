"""Rank profiles of Vespa."""

from __future__ import annotations

import re
from typing import Literal

from ..errors import DataError
from .expression import Syntax, write_sum
from .formula import Formula

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARGUMENT = r"""([^(){}"'#,\s]+|"[^"\\\n]*"|[A-Za-z_@][\w@$]*\([^(){}"'#\n]*\)(\.[\w.]+)?)"""
_FEATURE = re.compile(
    rf"[A-Za-z_@][\w@$]*(\(\s*{_ARGUMENT}(\s*,\s*{_ARGUMENT})*\s*\))?(\.[\w.]+)?", re.ASCII
)

_SYNTAX = Syntax(
    log="if ({x} < 0, -log(1 - {x}), log(1 + {x}))",
    low="max({x}, {limit})",
    high="min({x}, {limit})",
    missing="if (isNan({x}), {missing}, {present})",
    choice="if ({x} {test} {limit}, {yes}, {no})",
)


def write_vespa(
    formula: Formula,
    *,
    name: str = "linrank",
    inherits: str = "default",
    phase: Literal["first-phase", "second-phase"] = "first-phase",
) -> str:
    """Write a rank profile with the score as a function.

    Features are rank features such as ``bm25(title)`` or ``attribute(popularity)``, which
    ``features=`` usually gives. NaN is a missing value, as in attributes of type float without a
    value.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the rank profile. Its function has this name with ``_score``.
    inherits : str
        Rank profile that this one inherits.
    phase : {"first-phase", "second-phase"}
        Where the score ranks documents.
    """
    for value in (name, inherits):
        if not _NAME.fullmatch(value):
            raise DataError(f"{value!r} is not a name of a rank profile; use letters, digits and _")
    for feature in formula.used:
        if not _FEATURE.fullmatch(feature):
            raise DataError(
                f"feature {feature!r} is not a rank feature of Vespa. Give one, such as "
                f"features={{{feature!r}: 'attribute(popularity)'}} (--feature-map)."
            )
    score = write_sum(formula, formula.used, _SYNTAX, " " * 12)
    return (
        f"rank-profile {name} inherits {inherits} {{\n"
        f"    function {name}_score() {{\n"
        "        expression {\n"
        f"            {score}\n"
        "        }\n"
        "    }\n"
        f"    {phase} {{\n"
        f"        expression: {name}_score\n"
        "    }\n"
        "}\n"
    )
