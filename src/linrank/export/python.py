"""A function in Python, without any import but `math`."""

from __future__ import annotations

import keyword

from .._version import __version__
from ..errors import DataError
from .expression import Syntax, write_sum
from .formula import Formula

_USED = ("math", "abs", "max", "min")  # names that the function itself calls

_SYNTAX = Syntax(
    log="math.copysign(math.log1p(abs({x})), {x})",
    low="max({x}, {limit})",
    high="min({x}, {limit})",
    missing="({missing} if {x} is None or {x} != {x} else {present})",
    choice="({yes} if {x} {test} {limit} else {no})",
)


def write_python(formula: Formula, *, name: str = "score") -> str:
    """Write the score as a function of a mapping from feature names to values.

    None and NaN are missing values. The mapping needs an entry for each feature with a weight.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the function.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name in _USED:
        raise DataError(f"name is {name!r}; expected a free identifier of Python, such as 'score'")
    score = write_sum(formula, [f"x[{name!a}]" for name in formula.used], _SYNTAX, " " * 8)
    return (
        f'"""Written by linrank {__version__}."""\n\n'
        "import math\n\n\n"
        f"def {name}(x):\n"
        '    """Return the score of a document, given a mapping from names to values."""\n'
        "    return (\n"
        f"        {score}\n"
        "    )\n"
    )
