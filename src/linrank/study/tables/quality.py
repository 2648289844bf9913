"""Tables of quality: means, folds, the decrease against the best method, tests and ranks."""

from __future__ import annotations

import math

from ...report.table import Cell, Column, Table, Value
from ..analysis import ALPHA, LEVEL, Analysis, MethodComparison
from ..results import known_mean
from .rows import fold_names, of_data, p_text, place, place_columns, places

WORSE, INCOMPLETE = "*", "†"
#: The rule by which all tables mark differences from the best method.
TEST = (
    f"one-sided paired t-test over queries, {100 * ALPHA:g} %, adjusted for the number of methods "
    "by Holm"
)
LOW, HIGH = f"{100 * LEVEL:g} % low", f"{100 * LEVEL:g} % high"


def summary_table(analysis: Analysis) -> Table:
    """Return the means of all metrics, with features and seconds; the best means are bold."""
    results = analysis.results
    first, *others = results.metrics
    columns = [
        *place_columns(analysis),
        Column(first, "number", help="Mean over the folds of their means over queries."),
        Column(LOW, "number", help=f"Lower end of the bootstrap interval of {first}, by query."),
        Column(HIGH, "number", help="Upper end of this interval."),
        *(Column(metric, "number") for metric in others),
        Column("features", "number", 1, "Features in use, mean over the folds."),
        Column("training", "seconds", help="One fit with the chosen setting, mean over the folds."),
    ]
    rows = [
        [
            *place(analysis, data, method),
            _mean_cell(analysis, data, method, first),
            *analysis.interval(data, method),
            *(_mean_cell(analysis, data, method, metric) for metric in others),
            known_mean(results.used(data, method)),
            analysis.train_seconds(data, method),
        ]
        for data, method in places(analysis)
    ]
    note = _summary_note(rows)
    return Table("summary", f"Summary{of_data(analysis)}", columns, rows, note)


def _mean_cell(analysis: Analysis, data: str, method: str, metric: str) -> Cell:
    """Return a mean, with a mark if it is significantly worse than the best or lacks folds."""
    found = analysis.against_best(data, metric).get(method)
    mark = WORSE if found is not None and found.significant else ""
    mean = analysis.mean(data, method, metric)
    mark += INCOMPLETE if analysis.missing_folds(data, method) and not math.isnan(mean) else ""
    is_best = not math.isnan(mean) and analysis.is_best(data, method, metric)
    return Cell(mean, strong=is_best, mark=mark)


def _summary_note(rows: list[list[Value | Cell]]) -> str:
    marks = "".join(cell.mark for row in rows for cell in row if isinstance(cell, Cell))
    said = []
    if WORSE in marks:
        said.append(f"{WORSE} Significantly worse than the best ({TEST}).")
    if INCOMPLETE in marks:
        said.append(
            f"{INCOMPLETE} Some folds are missing: the mean is that of the other folds, and tests "
            "use the queries that both methods have."
        )
    return " ".join(said)


def fold_table(analysis: Analysis, metric: str) -> Table:
    """Return the mean of a metric in each fold."""
    folds = fold_names(analysis)
    columns = [
        *place_columns(analysis),
        *(Column(fold, "number") for fold in folds),
        Column("mean", "number"),
    ]
    rows: list[list[Value | Cell]] = []
    for data, method in places(analysis):
        means = analysis.results.fold_means(data, method, metric)
        found = dict(zip(analysis.results.folds(data), means, strict=True))
        mean = _mean_cell(analysis, data, method, metric)
        values = [found.get(fold) for fold in folds]
        rows.append([*place(analysis, data, method), *values, Cell(mean.value, None, mean.strong)])
    key = f"folds-{analysis.metric_keys[metric]}"
    return Table(key, f"{metric} by fold{of_data(analysis)}", columns, rows)


def decrease_table(analysis: Analysis, metric: str) -> Table:
    """Return the best mean of each data set, and the decrease of methods that are worse.

    These are tables V and VI of Laporte et al. (2014), with p-values that are adjusted by Holm.
    """
    methods, data_sets = analysis.results.methods, analysis.results.data_sets
    columns = [Column("method"), *(Column(data, "percent", 1) for data in data_sets)]
    cells: list[list[Cell]] = []
    for data in data_sets:
        found = analysis.against_best(data, metric)
        best = analysis.best(data, metric)
        mean = None if best is None else f"{analysis.mean(data, best, metric):.4f}"
        cells.append(
            [
                Cell(0.0, mean, strong=True) if m == best else _decrease_cell(found.get(m))
                for m in methods
            ]
        )
    rows = [[method, *found] for method, *found in zip(methods, *cells, strict=True)]
    note = (
        "The best method of a data set has its mean. Other methods have the change in percent with "
        f"its adjusted p-value if the best method is significantly better ({TEST}), and ~ "
        "otherwise."
    )
    key = f"decrease-{analysis.metric_keys[metric]}"
    return Table(key, f"Decrease of {metric} against the best method", columns, rows, note)


def _decrease_cell(found: MethodComparison | None) -> Cell:
    if found is None or not found.n:
        return Cell(None)
    if not found.significant:
        return Cell(found.relative, "~")
    return Cell(found.relative, f"{100 * found.relative:+.1f} % ({p_text(found.adjusted)})")


def difference_table(analysis: Analysis, metric: str) -> Table | None:
    """Return the differences from the baseline or the best method; None with one method."""
    found = _references(analysis, metric)
    if not found:
        return None
    interval = [
        Column(LOW, "signed", help="Lower end of the bootstrap interval of the difference."),
        Column(HIGH, "signed", help="Upper end of this interval."),
    ]
    columns = [
        *_reference_columns(analysis, found),
        Column("difference", "signed", help="Mean over the queries that both methods have."),
        *(interval if metric == analysis.metric else []),
        Column("relative", "percent", 1, "The difference, divided by the mean of the reference."),
        Column("wins", "count", help="Queries in which the method is better."),
        Column("ties", "count", help="Queries in which both are equal."),
        Column("losses", "count", help="Queries in which the method is worse."),
        Column("queries", "count", help="Queries that both methods have."),
    ]
    rows = [
        [
            *_reference_cells(analysis, found, data, one),
            one.difference, *(one.interval or ()), one.relative, *one.counts, one.n,
        ]
        for data, one in found
    ]  # fmt: skip
    title = f"Differences in {metric} from {_against(analysis, found)}"
    note = " ".join(
        f"{data}: {one.method} and {one.reference} are compared in the {one.n:,} queries that both "
        f"have; {one.n_unshared:,} queries have a result of only one of them."
        for data, one in found if one.n_unshared
    )  # fmt: skip
    return Table(f"differences-{analysis.metric_keys[metric]}", title, columns, rows, note)


def test_table(analysis: Analysis, metric: str) -> Table | None:
    """Return tests of all methods against the baseline or the best; None with one method."""
    found = _references(analysis, metric)
    if not found:
        return None
    random = Column("randomised p", "p", help="Fisher's randomisation test, two-sided.")
    columns = [
        *_reference_columns(analysis, found),
        Column("one-sided p", "p", help="Paired t-test."),
        Column("Holm p", "p", help="The one-sided p, adjusted for the methods of the data set."),
        Column("two-sided p", "p", help="Paired t-test."),
        *([random] if metric == analysis.metric else []),
    ]
    rows = [
        [
            *_reference_cells(analysis, found, data, one),
            one.one_sided, Cell(one.adjusted, strong=one.significant), one.two_sided,
            *([] if one.randomized is None else [one.randomized]),
        ]
        for data, one in found
    ]  # fmt: skip
    title = f"Tests of {metric} against {_against(analysis, found)}"
    note = _test_note(analysis, found)
    return Table(f"tests-{analysis.metric_keys[metric]}", title, columns, rows, note)


test_table.__test__ = False  # type: ignore[attr-defined]  # not a test of pytest


def _references(analysis: Analysis, metric: str) -> list[tuple[str, MethodComparison]]:
    return [
        (data, one)
        for data in analysis.results.data_sets
        for one in analysis.against_reference(data, metric).values()
    ]


def _against(analysis: Analysis, found: list[tuple[str, MethodComparison]]) -> str:
    """Return the reference of all rows as a part of a title."""
    names = {one.reference for _, one in found}
    return f"{names.pop()}{of_data(analysis)}" if len(names) == 1 else "the best method"


def _reference_columns(
    analysis: Analysis, found: list[tuple[str, MethodComparison]]
) -> list[Column]:
    """Return the columns that name a comparison; the title has the reference if it is the same."""
    several = len({one.reference for _, one in found}) > 1
    return [*place_columns(analysis), *([Column("against")] if several else [])]


def _reference_cells(
    analysis: Analysis, found: list[tuple[str, MethodComparison]], data: str, one: MethodComparison
) -> list[Value]:
    several = len({one.reference for _, one in found}) > 1
    return [*place(analysis, data, one.method), *([one.reference] if several else [])]


def _test_note(analysis: Analysis, found: list[tuple[str, MethodComparison]]) -> str:
    question = "the best method is better than the method of the row"
    if analysis.baseline is not None:
        question = f"the method of the row is better than {analysis.baseline}"
    said = [
        f"One-sided tests ask whether {question}. A difference is significant if its Holm p is "
        f"below {ALPHA:g}."
    ]
    if analysis.baseline is None:
        said.append(
            "The best method is known from the same queries, so these tests are optimistic."
        )
    for note in dict.fromkeys(one.note for _, one in found if one.note):
        where = [f"{one.method} on {data}" for data, one in found if one.note == note]
        said.append(f"{', '.join(where)}: {note}.")
    return " ".join(said)


def rank_table(analysis: Analysis) -> Table:
    """Return the average rank of each method over the folds of all data sets."""
    found = analysis.ranks()
    methods = found.methods
    columns = [
        Column("method"),
        Column("average rank", "number", 2, "1 is the best; equal methods share their ranks."),
        Column("not different from", help="Methods whose ranks are within the critical distance."),
    ]
    rows = []
    for k in sorted(range(len(methods)), key=lambda k: found.ranks[k]):
        same = {j for group in found.groups if k in group for j in group} - {k}
        names = ", ".join(methods[j] for j in sorted(same))
        names = "all other methods" if len(same) == len(methods) - 1 > 1 else names
        rows.append([methods[k], found.ranks[k], names])
    title = f"Average ranks by {analysis.metric}"
    return Table("ranks", title, columns, rows, _rank_note(analysis))


def _rank_note(analysis: Analysis) -> str:
    found = analysis.ranks()
    said = [f"Methods are ranked in each of {found.n} blocks; a block is a fold of a data set."]
    without = [name for name in analysis.results.methods if name not in found.methods]
    if without:
        said.append(f"Methods without any result are left out: {', '.join(without)}.")
    if found.n_left_out:
        said.append(f"{found.n_left_out} blocks are left out, because a method has no value there.")
    if found.test is None:
        said.append("The Friedman test needs at least three methods.")
    elif found.test.note:
        said.append(f"Friedman test: {found.test.note}.")
    else:
        found_p = p_text(found.test.p_value)
        said.append(f"Friedman test: chi-squared = {found.test.statistic:.2f}, {found_p}.")
    if not math.isnan(found.critical_difference):
        said.append(
            f"Nemenyi test: ranks differ at {100 * ALPHA:g} % if they are at least "
            f"{found.critical_difference:.2f} apart."
        )
    said.append("Folds of one data set share training data, so these tests are optimistic.")
    return " ".join(said)
