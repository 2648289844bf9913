"""SQL expressions for SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..errors import DataError
from .formula import Formula, Syntax, write_sum, write_value

Dialect = Literal["sqlite", "duckdb", "postgresql"]


class _Words(NamedTuple):
    """What differs between dialects."""

    double: str  # name of the type
    least: str
    greatest: str
    is_missing: str
    quote: str = '"'  # mark around names of columns


_DOUBLE = _Words("DOUBLE PRECISION", "LEAST", "GREATEST", "{x} IS NULL OR {x} = 'NaN'")
_WORDS: dict[Dialect, _Words] = {
    # SQLite stores NaN as NULL. It reads "name" as a text if there is no such column, and a text
    # counts as 0. In backquotes, a name that does not exist is an error.
    "sqlite": _Words("REAL", "MIN", "MAX", "{x} IS NULL", "`"),
    "duckdb": _DOUBLE,
    "postgresql": _DOUBLE,
}


def write_sql(formula: Formula, *, dialect: Dialect = "postgresql", partition: str = "") -> str:
    """Write the score as an SQL expression, for a column list or ``ORDER BY … DESC``.

    Features are columns with quoted names. A name from ``features=`` is an SQL expression, such as
    ``d.popularity``. NULL and NaN are missing values. If the training data had none, the score of
    a row with one is NULL or NaN. Columns of text are compared with the values of the training
    data.

    If the model scales features within queries, the expression has window functions. They see the
    rows that WHERE leaves, before LIMIT.

    Parameters
    ----------
    formula : Formula
    dialect : {"postgresql", "duckdb", "sqlite"}
        SQLite needs its mathematical functions if the model has logarithms.
    partition : str
        SQL expression of the query of a row, such as ``qid``. By default, all rows are one query.
    """
    words = _WORDS[dialect]
    window = f"OVER (PARTITION BY {partition})" if partition else "OVER ()"
    syntax = Syntax(
        log="CASE WHEN {x} < 0 THEN -LN(1 - {x}) ELSE LN(1 + {x}) END",
        low=f"{words.greatest}({{x}}, {{limit}})",
        high=f"{words.least}({{x}}, {{limit}})",
        missing=f"CASE WHEN {words.is_missing} THEN {{missing}} ELSE {{present}} END",
        choice="CASE WHEN {x} {test} {limit} THEN {yes} ELSE {no} END",
        equal="=",
        number=_double,
    )
    references = {
        j: f"CAST({_column(formula, j, words.quote)} AS {words.double})" for j in formula.columns
    }
    for j, position in formula.positions.items():
        value = write_value(position, references[j], syntax)
        known = value
        if position.fill is None and formula.kind == "additive":  # NaN is the largest number
            known = syntax.missing.format(x=references[j], missing="NULL", present=value)
        low, high = f"MIN({known}) {window}", f"MAX({known}) {window}"
        width = f"COALESCE(NULLIF({high} - {low}, 0), 1)"
        references[formula.position(j)] = f"(({value} - {low}) / {width})"
    score = write_sum(formula, references, syntax)
    if formula.kind == "additive":  # PostgreSQL reads the values of steps as decimals
        score = f"CAST({score} AS {words.double})"
    return score + "\n"


def _column(formula: Formula, j: int, mark: str) -> str:
    """Return the value of feature j; columns of text become numbers."""
    name = formula.names[j]
    if j in formula.tests:
        column, value = formula.tests[j]
        same = " IS NULL" if value is None else f" = {_literal(value)}"
        return f"CASE WHEN {_quote(column, mark)}{same} THEN 1 ELSE 0 END"
    column = name if name in formula.given else _quote(name, mark)
    if j not in formula.codes:
        return column
    codes = "".join(f" WHEN {_literal(v)} THEN {k}" for k, v in enumerate(formula.codes[j]))
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE CASE {column}{codes} ELSE -1 END END"


def _literal(text: str) -> str:
    if "\0" in text:
        raise DataError(f"the value {text!r} contains a NUL, which SQL cannot quote; rename it")
    return "'" + text.replace("'", "''") + "'"


def _double(number: float) -> str:
    """Return a number with an exponent, because DuckDB reads others as decimals."""
    text = repr(number)
    return text if "e" in text else text + "e0"


def _quote(name: str, mark: str) -> str:
    if "\0" in name:
        raise DataError(
            f"feature {name!r} contains a NUL, which SQL cannot quote; give another name in "
            "features="
        )
    return mark + name.replace(mark, 2 * mark) + mark
