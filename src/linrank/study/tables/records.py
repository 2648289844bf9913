"""Tables of queries, settings, failures and versions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ...report.table import Column, Table, Value
from ...statistics import most_changed, worst
from ..analysis import Analysis
from .rows import fold_names, of_data, place, place_columns, places

SHOWN_QUERIES = 10  #: queries of a data set in a table


def worst_table(analysis: Analysis, data: str) -> Table | None:
    """Return the queries in which the best method is worst; None without a method."""
    order = analysis.order(data)
    if not order:
        return None
    values = [analysis.results.per_query(data, method) for method in order[:2]]
    found = worst(values[0], SHOWN_QUERIES, greater_is_better=analysis.greater_is_better())
    sizes, n_relevant = _sizes(analysis, data)
    columns = [
        Column("query"), Column("fold"),
        *(Column(method, "number") for method in order[:2]),
        Column("documents", "count"),
        Column("label > 0", "count", help="Documents with a label above 0."),
    ]  # fmt: skip
    queries = analysis.results.queries(data)
    rows = [
        [queries[q][1], queries[q][0], *(column[q] for column in values), sizes[q], n_relevant[q]]
        for q in found.tolist()
    ]
    title = f"Worst queries of {order[0]} by {analysis.metric} on {data}"
    return Table(f"worst-{analysis.keys[data]}", title, columns, rows)


def changed_table(analysis: Analysis, data: str) -> Table | None:
    """Return the queries that differ most between the two best methods; None with one method."""
    order = analysis.order(data)
    if len(order) < 2:
        return None
    a, b = (analysis.results.per_query(data, method) for method in order[:2])
    sizes, n_relevant = _sizes(analysis, data)
    columns = [
        Column("query"), Column("fold"),
        *(Column(method, "number") for method in order[:2]),
        Column("difference", "signed"),
        Column("documents", "count"),
        Column("label > 0", "count", help="Documents with a label above 0."),
    ]  # fmt: skip
    queries = analysis.results.queries(data)
    rows = [
        [queries[q][1], queries[q][0], a[q], b[q], a[q] - b[q], sizes[q], n_relevant[q]]
        for q in most_changed(a, b, SHOWN_QUERIES).tolist()
    ]
    title = f"Most changed queries between {order[0]} and {order[1]} on {data}"
    note = "" if rows else f"{order[0]} and {order[1]} have the same value in every query."
    return Table(f"changed-{analysis.keys[data]}", title, columns, rows, note)


def _sizes(analysis: Analysis, data: str) -> tuple[list[int], list[int]]:
    """Return the numbers of documents, and of those with a label above 0, of all queries."""
    results = analysis.results
    tests = [results.tests[data, fold] for fold in results.folds(data)]
    sizes = np.concatenate([np.diff(test.query_ptr) for test in tests])
    n_relevant = np.concatenate([
        np.add.reduceat(np.append(test.y > 0, False), test.query_ptr[:-1], dtype=np.int64)
        for test in tests
    ])  # fmt: skip
    return sizes.tolist(), n_relevant.tolist()


def setting_table(analysis: Analysis) -> Table | None:
    """Return the setting that each fold chose; None if no method varies a parameter."""
    results = analysis.results
    folds = fold_names(analysis)
    rows: list[list[Value]] = []
    for data, method in places(analysis):
        chosen = dict(zip(results.folds(data), results.chosen(data, method), strict=True))
        if any(chosen.values()):
            texts = [setting_text(chosen.get(fold)) for fold in folds]
            rows.append([*place(analysis, data, method), *texts])
    if not rows:
        return None
    columns = [*place_columns(analysis), *map(Column, folds)]
    note = (
        f"Settings are chosen by {results.metric} on the validation part of each fold. Methods "
        "without a choice are left out."
    )
    return Table("chosen", f"Chosen settings{of_data(analysis)}", columns, rows, note)


def setting_text(setting: dict[str, Any] | None) -> str | None:
    """Return a setting as text, with numbers of four digits.

    Examples
    --------
    >>> setting_text({"C": 0.0006743042629960187, "metric": "map"})
    'C=0.0006743, metric=map'
    """
    if setting is None:
        return None
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in setting.items()
    )


def method_table(analysis: Analysis) -> Table:
    """Return the exact settings of each method."""
    results = analysis.results
    rows = [[method, results.settings.get(method)] for method in results.methods]
    return Table("methods", "Methods", [Column("method"), Column("settings")], rows)


def missing_table(analysis: Analysis) -> Table | None:
    """Return the runs that failed; None if there are none."""
    missing = analysis.results.missing
    if not missing:
        return None
    columns = [Column(name) for name in ("method", "data set", "fold", "setting", "reason")]
    rows = [
        [one.method, one.data, one.fold, setting_text(one.setting), one.reason] for one in missing
    ]
    return Table("missing", "Runs that failed", columns, rows)


def warning_table(analysis: Analysis) -> Table | None:
    """Return the warnings of the chosen runs, each once; None if there are none."""
    said = Counter(
        (method, note)
        for (_, _, method), found in analysis.results.found.items()
        for note in found.outcome.notes
    )
    if not said:
        return None
    columns = [Column("method"), Column("warning"), Column("folds", "count")]
    rows: list[list[Value]] = [[method, note, count] for (method, note), count in said.items()]
    return Table("warnings", "Warnings of the chosen fits", columns, rows)


def version_table(analysis: Analysis) -> Table | None:
    """Return the versions of programs with which the runs were made; None if they are unknown."""
    counts = Counter(
        (program, number)
        for _, versions in analysis.results.made
        for program, number in versions.items()
    )
    if not counts:
        return None
    columns = [Column("program"), Column("version"), Column("runs", "count")]
    rows: list[list[Value]] = [
        [program, number, count] for (program, number), count in counts.items()
    ]
    return Table("versions", "Versions", columns, rows)
