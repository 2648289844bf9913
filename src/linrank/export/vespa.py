"""Rank profiles of Vespa."""

from __future__ import annotations

import re
from typing import Literal

from .._util.checks import whole_number
from ..errors import DataError
from .formula import Formula, Syntax, write_sum, write_value

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
    rerank: int = 100,
) -> str:
    """Write a rank profile with the score as a function.

    Features are rank features such as ``bm25(title)`` or ``attribute(popularity)``, which
    ``features=`` usually gives. NaN is a missing value, as in attributes of type float without a
    value.

    If the model scales features within queries, the score is the expression of the global phase,
    in which ``normalize_linear`` scales them. A feature that is equal in all documents is 0.5
    there instead of 0, which adds the same number to all scores. In an additive model, documents
    without a value of this feature do not get this number.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the rank profile. Its function has this name with ``_score``.
    inherits : str
        Rank profile that this one inherits.
    phase : {"first-phase", "second-phase"}
        Where the score ranks documents.
    rerank : int
        The number of documents that the global phase scales and ranks.
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
    pair = formula.pair_with_position()
    if pair is not None:
        raise DataError(
            f"Vespa scales feature {pair!r} within the query to 0.5 where linrank has 0, if all "
            "documents have the same value, and this model has an interaction with it. Train with "
            "interactions=0, or export to sql or onnx."
        )
    references = dict(zip(formula.columns, formula.used, strict=True))
    functions = {}
    for j, position in formula.positions.items():
        value = write_value(position, references[j], _SYNTAX)
        if value != references[j]:  # Vespa scales features and functions, but no expressions
            functions[f"{name}_{j}"], value = value, f"{name}_{j}"
        references[formula.position(j)] = f"normalize_linear({value})"
    score = write_sum(formula, references, _SYNTAX, " " * 12)
    if formula.positions:
        whole_number("rerank", rerank, least=1)
        last = (
            f"    global-phase {{\n        rerank-count: {rerank}\n"
            f"        expression {{\n            {score}\n        }}\n    }}\n"
        )
    else:
        functions[f"{name}_score"] = score
        last = f"    {phase} {{\n        expression: {name}_score\n    }}\n"
    written = "".join(
        f"    function {function}() {{\n"
        f"        expression {{\n            {text}\n        }}\n    }}\n"
        for function, text in functions.items()
    )
    return f"rank-profile {name} inherits {inherits} {{\n{written}{last}}}\n"
