"""SQL expressions for SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..errors import DataError
from .expression import Syntax, write_sum
from .formula import Formula

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


def write_sql(formula: Formula, *, dialect: Dialect = "postgresql") -> str:
    """Write the score as an SQL expression, for a column list or ``ORDER BY … DESC``.

    Features are columns with quoted names. A name from ``features=`` is an SQL expression, such as
    ``d.popularity``. NULL and NaN are missing values. If the training data had none, the score of
    a row with one is NULL or NaN.

    Parameters
    ----------
    formula : Formula
    dialect : {"postgresql", "duckdb", "sqlite"}
        SQLite needs its mathematical functions if the model has logarithms.
    """
    words = _WORDS[dialect]
    syntax = Syntax(
        log="CASE WHEN {x} < 0 THEN -LN(1 - {x}) ELSE LN(1 + {x}) END",
        low=f"{words.greatest}({{x}}, {{limit}})",
        high=f"{words.least}({{x}}, {{limit}})",
        missing=f"CASE WHEN {words.is_missing} THEN {{missing}} ELSE {{present}} END",
        choice="CASE WHEN {x} {test} {limit} THEN {yes} ELSE {no} END",
        equal="=",
        number=_double,
    )
    columns = [
        name if name in formula.given else _quote(name, words.quote) for name in formula.used
    ]
    references = [f"CAST({column} AS {words.double})" for column in columns]
    score = write_sum(formula, references, syntax)
    if formula.kind == "additive":  # PostgreSQL reads the values of steps as decimals
        score = f"CAST({score} AS {words.double})"
    return score + "\n"


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
