"""Functions in C, Java, JavaScript, Rust and Python."""

from __future__ import annotations

import itertools
import json
import keyword
import re
from typing import NamedTuple

from .._util.text import printable
from .._version import __version__
from ..errors import DataError
from .formula import Formula, Syntax, define_positions, write_sum

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: The syntax of expressions in Java, which Painless shares.
JAVA = Syntax(
    log="Math.copySign(Math.log1p(Math.abs({x})), {x})",
    low="Math.max({x}, {limit})",
    high="Math.min({x}, {limit})",
    missing="(Double.isNaN({x}) ? {missing} : {present})",
    choice="({x} {test} {limit} ? {yes} : {no})",
)


class _Language(NamedTuple):
    """How a language writes a function of arrays.

    Attributes
    ----------
    title : str
    syntax : Syntax
    array : str
        An argument.
    variable : str
        The definition of a variable.
    text : str
        The function. ``{note}`` is a comment of several lines.
    """

    title: str
    syntax: Syntax
    array: str
    variable: str
    text: str


_C = _Language(
    "C",
    Syntax(
        log="copysign(log1p(fabs({x})), {x})",
        low="fmax({x}, {limit})",
        high="fmin({x}, {limit})",
        missing="(isnan({x}) ? {missing} : {present})",
        choice="({x} {test} {limit} ? {yes} : {no})",
    ),
    "const double *{}",
    "    const double {} = {};\n",
    "{note}#include <math.h>\n\ndouble {name}({arrays})\n{{\n{variables}    return {score};\n}}\n",
)
_JAVA = _Language(
    "Java",
    JAVA,
    "double[] {}",
    "        final double {} = {};\n",
    "{note}public final class {name} {{\n    private {name}() {{}}\n\n"
    "    public static double score({arrays}) {{\n{variables}        return {score};\n    }}\n}}\n",
)
_RUST = _Language(
    "Rust",
    Syntax(
        log="{x}.abs().ln_1p().copysign({x})",
        low="f64::max({x}, {limit})",
        high="f64::min({x}, {limit})",
        missing="(if {x}.is_nan() {{ {missing} }} else {{ {present} }})",
        choice="(if {x} {test} {limit} {{ {yes} }} else {{ {no} }})",
    ),
    "{}: &[f64]",
    "    let {}: f64 = {};\n",
    "{note}#[allow(unused_parens, clippy::all)]\n"
    "pub fn {name}({arrays}) -> f64 {{\n{variables}    let score: f64 = {score};\n    score\n}}\n",
)
_JAVASCRIPT = Syntax(
    log="(Math.sign({x}) * Math.log1p(Math.abs({x})))",
    low="Math.max({x}, {limit})",
    high="Math.min({x}, {limit})",
    missing="(isNaN({x}) ? {missing} : {present})",
    choice="({x} {test} {limit} ? {yes} : {no})",
    equal="===",
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
    return _function(formula, name, _C)


def write_java(formula: Formula, *, name: str = "Score") -> str:
    """Write the score as a class with the method ``static double score(double[] x)``.

    The array has the values of all features of the model, in their order. NaN is a missing value.
    If the model scales features within queries, two more arrays hold the lowest and the highest
    value of each feature.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the class.
    """
    return _function(formula, name, _JAVA)


def write_rust(formula: Formula, *, name: str = "score") -> str:
    """Write the score as a function of a slice: ``pub fn score(x: &[f64]) -> f64``.

    The slice has the values of all features of the model, in their order. NaN is a missing value.
    If the model scales features within queries, two more slices hold the lowest and the highest
    value of each feature.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the function.
    """
    return _function(formula, name, _RUST)


def write_javascript(formula: Formula, *, name: str = "score") -> str:
    """Write the score as a function of an object with values by feature names.

    null, undefined and NaN are missing values. If the model scales features within queries, two
    more arguments hold the lowest and the highest value of each feature. A second function, named
    as in ``scoreQuery``, takes an array of all documents of a query and returns their scores.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the function.
    """
    _check_name(name, "JavaScript")
    references = {column: f"x{column}" for column in formula.columns}
    places = dict(zip(formula.columns, map(json.dumps, formula.used), strict=True))
    lines = {references[j]: _javascript_value(formula, j, place) for j, place in places.items()}
    lines |= define_positions(formula, references, places, _JAVASCRIPT)
    values = "".join(f"    const {local} = {text};\n" for local, text in lines.items())
    score = write_sum(formula, references, _JAVASCRIPT, " " * 8)
    arguments = ", ".join(_arguments(formula))
    text = (
        f"// Written by linrank {__version__}.\n"
        f"function {name}({arguments}) {{\n{values}    return {score};\n}}\n"
    )
    if not formula.positions:
        return text
    known = [
        f"[{places[j]}]: {p.fill!r}" for j, p in formula.positions.items() if p.fill is not None
    ]
    return text + _SCORE_QUERY.format(
        name=name, fill=", ".join(known), names=", ".join(places[j] for j in formula.positions)
    )


def _javascript_value(formula: Formula, j: int, place: str) -> str:
    """Return the value of feature j of the object x; texts become numbers."""
    if j in formula.tests:
        column, value = formula.tests[j]
        same = "== null" if value is None else f"=== {json.dumps(value)}"
        return f"+(x[{json.dumps(column)}] {same})"
    if j not in formula.codes:
        return f"x[{place}] ?? NaN"
    codes = json.dumps([[value, k] for k, value in enumerate(formula.codes[j])])
    return f"x[{place}] == null ? NaN : new Map({codes}).get(x[{place}]) ?? -1"


_SCORE_QUERY = """
// The scores of all documents of a query.
function {name}Query(documents) {{
    const low = Object.create(null), high = Object.create(null), fill = {{{fill}}};
    for (const name of [{names}]) {{
        const values = documents.map(x => isNaN(x[name] ?? NaN) ? fill[name] : x[name])
            .filter(value => value !== undefined);
        low[name] = values.reduce((a, b) => Math.min(a, b), Infinity);
        high[name] = values.reduce((a, b) => Math.max(a, b), -Infinity);
    }}
    return documents.map(x => {name}(x, low, high));
}}
"""


def _check_name(name: str, title: str) -> None:
    if not _NAME.fullmatch(name):
        raise DataError(f"name is {name!r}; expected an identifier of {title}, such as 'score'")


def _arguments(formula: Formula) -> list[str]:
    return ["x", "low", "high"] if formula.positions else ["x"]


def _function(formula: Formula, name: str, language: _Language) -> str:
    """Write a function of an array of the values of all features."""
    _check_name(name, language.title)
    references = {column: f"x[{column}]" for column in formula.columns}
    places = {column: str(column) for column in formula.columns}
    variables = define_positions(formula, references, places, language.syntax)
    return language.text.format(
        note=_note(formula),
        name=name,
        arrays=", ".join(map(language.array.format, _arguments(formula))),
        variables="".join(itertools.starmap(language.variable.format, variables.items())),
        score=write_sum(formula, references, language.syntax, " " * 8),
    )


def _note(formula: Formula) -> str:
    """Return a comment that says what the arrays hold."""
    used = "".join(
        f" *   x[{column}]  {_comment(feature)}{_comment_on_fill(formula, column)}\n"
        for column, feature in zip(formula.columns, formula.used, strict=True)
    )
    ranges = (
        "\n * low and high have the smallest and the largest value of each feature in the query."
        if formula.positions
        else ""
    )
    return (
        f"/* Written by linrank {__version__}. x has {len(formula.names)} values; NaN is a missing "
        f"value.{ranges} Used are\n{used} */\n"
    )


def _comment_on_fill(formula: Formula, column: int) -> str:
    position = formula.positions.get(column)
    if position is None or position.fill is None:
        return ""
    return f"; a missing value counts as {position.fill!r} in low and high"


def _comment(name: str) -> str:
    """Return a name in a form that ends no comment and continues no line."""
    return printable(name).replace("*/", "* /").replace("/*", "/ *").replace("\\", "\\\\")


# --------------------------------------------------------------------------------------------------
# A function in Python, without any import but `math`.


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

    None and NaN are missing values. The mapping needs an entry for each feature with a weight. If
    the model scales features within queries, two more arguments map names to the lowest and the
    highest value. A second function, named as in ``score_query``, takes a list of all documents of
    a query and returns their scores.

    Parameters
    ----------
    formula : Formula
    name : str
        Name of the function.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name in _USED:
        raise DataError(f"name is {name!r}; expected a free identifier of Python, such as 'score'")
    places = {j: ascii(feature) for j, feature in zip(formula.columns, formula.used, strict=True)}
    references = {j: f"x[{place}]" for j, place in places.items()}
    references |= {j: _test(*formula.tests[j]) for j in formula.columns if j in formula.tests}
    codes = {
        j: {None: None} | {value: k for k, value in enumerate(formula.codes[j])}
        for j in formula.columns if j in formula.codes
    }  # fmt: skip
    variables = {f"c{j}": f"{own!a}.get({references[j]}, -1)" for j, own in codes.items()}
    references |= {j: f"c{j}" for j in codes}
    for j in formula.positions:  # None has no place between numbers, and NaN has none, too
        variables[f"x{j}"] = f"math.nan if {references[j]} is None else {references[j]}"
        references[j] = f"x{j}"
    variables |= define_positions(formula, references, places, _SYNTAX)
    score = write_sum(formula, references, _SYNTAX, " " * 8)
    text = (
        f'"""Written by linrank {__version__}."""\n\n'
        "import math\n\n\n"
        f"def {name}(x{', low, high' if formula.positions else ''}):\n"
        '    """Return the score of a document, given a mapping from names to values."""\n'
        + "".join(f"    {local} = {text}\n" for local, text in variables.items())
        + "    return (\n"
        f"        {score}\n"
        "    )\n"
    )
    if not formula.positions:
        return text
    fill = {j: p.fill for j, p in formula.positions.items() if p.fill is not None}
    return text + _PYTHON_QUERY.format(
        name=name,
        fill=", ".join(f"{places[j]}: {value!r}" for j, value in fill.items()),
        names=", ".join(places[j] for j in formula.positions),
    )


def _test(column: str, value: str | None) -> str:
    """Return whether a column has a value, which counts as 1 or 0."""
    text = f"x[{column!a}]"
    if value is None:
        return f"({text} is None or {text} != {text})"
    return f"({text} == {value!a})"


_PYTHON_QUERY = '''

def {name}_query(documents):
    """Return the scores of all documents of a query."""
    low, high, fill = {{}}, {{}}, {{{fill}}}
    for name in [{names}]:
        values = [x[name] for x in documents]
        values = [fill.get(name) if x is None or x != x else x for x in values]
        values = [x for x in values if x is not None]
        low[name], high[name] = min(values, default=0.0), max(values, default=0.0)
    return [{name}(x, low, high) for x in documents]
'''
