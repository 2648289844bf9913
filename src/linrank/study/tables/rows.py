"""Columns and rows that several tables of a study share."""

from __future__ import annotations

from collections.abc import Iterator

from ...report.table import SMALLEST_P, Column, Value
from ..analysis import Analysis


def place_columns(analysis: Analysis) -> list[Column]:
    """Return the columns that name a row: the data set, if there are several, and the method."""
    names = [Column("method")]
    return [Column("data set"), *names] if len(analysis.results.data_sets) > 1 else names


def place(analysis: Analysis, data: str, method: str) -> list[Value]:
    """Return the cells of `place_columns`."""
    return [data, method] if len(analysis.results.data_sets) > 1 else [method]


def places(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Yield all data sets with their methods, the best method first."""
    for data in analysis.results.data_sets:
        order = analysis.order(data)
        rest = [method for method in analysis.results.methods if method not in order]
        for method in [*order, *rest]:
            yield data, method


def of_data(analysis: Analysis) -> str:
    """Return the end of a title: the name of the data set if there is only one."""
    data_sets = analysis.results.data_sets
    return f" on {data_sets[0]}" if len(data_sets) == 1 else ""


def fold_names(analysis: Analysis) -> list[str]:
    """Return the names of the folds of all data sets, each once."""
    return list(dict.fromkeys(fold for _, fold in analysis.results.tests))


def p_text(p_value: float) -> str:
    """Return a p-value as a part of a sentence.

    Examples
    --------
    >>> p_text(0.0123), p_text(1e-9)
    ('p = 0.012', 'p < 0.001')
    """
    return f"p < {SMALLEST_P:g}" if p_value < SMALLEST_P else f"p = {p_value:.3f}"
