"""Tables of a study: quality, costs, and records of queries, settings and failures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..report.page import SMALLEST_P, Cell, Table, TableColumn, Value
from ..statistics import most_changed, worst
from .analysis import ALPHA, LEVEL, Analysis, MethodComparison
from .results import known_mean

# --------------------------------------------------------------------------------------------------
# Columns and rows that several tables of a study share.


def place_columns(analysis: Analysis) -> list[TableColumn]:
    """Return the columns that name a row: the data set, if there are several, and the method."""
    names = [TableColumn("method")]
    return [TableColumn("data set"), *names] if len(analysis.results.data_sets) > 1 else names


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


# --------------------------------------------------------------------------------------------------
# Tables of quality: means, folds, the decrease against the best method, tests and ranks.


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
        TableColumn(first, "number", help="Mean over the folds of their means over queries."),
        TableColumn(
            LOW, "number", help=f"Lower end of the bootstrap interval of {first}, by query."
        ),
        TableColumn(HIGH, "number", help="Upper end of this interval."),
        *(TableColumn(metric, "number") for metric in others),
        TableColumn("features", "number", 1, "Features in use, mean over the folds."),
        TableColumn(
            "training", "seconds", help="One fit with the chosen setting, mean over the folds."
        ),
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
        *(TableColumn(fold, "number") for fold in folds),
        TableColumn("mean", "number"),
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
    columns = [TableColumn("method"), *(TableColumn(data, "percent", 1) for data in data_sets)]
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
        TableColumn(LOW, "signed", help="Lower end of the bootstrap interval of the difference."),
        TableColumn(HIGH, "signed", help="Upper end of this interval."),
    ]
    columns = [
        *_reference_columns(analysis, found),
        TableColumn("difference", "signed", help="Mean over the queries that both methods have."),
        *(interval if metric == analysis.metric else []),
        TableColumn(
            "relative", "percent", 1, "The difference, divided by the mean of the reference."
        ),
        TableColumn("wins", "count", help="Queries in which the method is better."),
        TableColumn("ties", "count", help="Queries in which both are equal."),
        TableColumn("losses", "count", help="Queries in which the method is worse."),
        TableColumn("queries", "count", help="Queries that both methods have."),
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
    random = TableColumn("randomised p", "p", help="Fisher's randomisation test, two-sided.")
    columns = [
        *_reference_columns(analysis, found),
        TableColumn("one-sided p", "p", help="Paired t-test."),
        TableColumn(
            "Holm p", "p", help="The one-sided p, adjusted for the methods of the data set."
        ),
        TableColumn("two-sided p", "p", help="Paired t-test."),
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
) -> list[TableColumn]:
    """Return the columns that name a comparison; the title has the reference if it is the same."""
    several = len({one.reference for _, one in found}) > 1
    return [*place_columns(analysis), *([TableColumn("against")] if several else [])]


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
        TableColumn("method"),
        TableColumn("average rank", "number", 2, "1 is the best; equal methods share their ranks."),
        TableColumn(
            "not different from", help="Methods whose ranks are within the critical distance."
        ),
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


# --------------------------------------------------------------------------------------------------
# Tables of costs: features in use, seconds, and the Pareto front of quality and costs.


RATIO = (
    "Features in use divided by the features that are not 0 in all training documents, mean over "
    "the folds."
)


def sparsity_table(analysis: Analysis) -> Table:
    """Return the sparsity ratio of each method on each data set (Laporte et al. 2014, table IV)."""
    results = analysis.results
    ratios = {
        data: [analysis.sparsity(data, method) for method in results.methods]
        for data in results.data_sets
    }
    if len(ratios) > 1:
        ratios["mean"] = [known_mean(row) for row in zip(*ratios.values(), strict=True)]
    columns = [TableColumn("method"), *(TableColumn(data, "number", 2) for data in ratios)]
    cells = map(_smallest_bold, ratios.values())
    rows = [[method, *found] for method, *found in zip(results.methods, *cells, strict=True)]
    note = f"{RATIO} Methods whose models do not tell their features have no value."
    return Table("sparsity", "Sparsity ratio", columns, rows, note)


def _smallest_bold(values: list[float]) -> list[Cell]:
    least = min((value for value in values if not math.isnan(value)), default=math.nan)
    return [Cell(value, strong=value == least) for value in values]


def feature_table(analysis: Analysis) -> Table:
    """Return the number of features in use: mean, smallest and largest over the folds."""
    columns = [
        *place_columns(analysis),
        TableColumn("features", "number", 1, "Features in use, mean over the folds."),
        TableColumn("fewest", "count", help="In a fold."),
        TableColumn("most", "count", help="In a fold."),
        TableColumn("ratio", "number", 2, RATIO),
    ]
    rows: list[list[Value | Cell]] = []
    for data, method in places(analysis):
        used = [int(n) for n in analysis.results.used(data, method) if not math.isnan(n)]
        extent = [sum(used) / len(used), min(used), max(used)] if used else [None] * 3
        ratio = analysis.sparsity(data, method)
        rows.append([*place(analysis, data, method), *extent, ratio])
    return Table("features", f"Features in use{of_data(analysis)}", columns, rows)


def seconds_table(analysis: Analysis) -> Table:
    """Return the seconds of training and scoring."""
    results = analysis.results
    columns = [
        *place_columns(analysis),
        TableColumn(
            "training", "seconds", help="One fit with the chosen setting, mean over the folds."
        ),
        TableColumn(
            "all settings", "seconds", help="All fits of a fold and their measurement, mean."
        ),
        TableColumn("settings", "number", 0, "Settings that were tried in a fold, mean."),
        TableColumn("scoring", "seconds", help="Scoring the test part of a fold, mean."),
    ]
    rows = [
        [
            *place(analysis, data, method),
            analysis.train_seconds(data, method),
            known_mean(results.total_seconds(data, method)),
            known_mean(results.n_settings(data, method)),
            known_mean(results.score_seconds(data, method)),
        ]
        for data, method in places(analysis)
    ]
    note = "Runs at the same time slow each other down, so compare seconds of one study only."
    return Table("seconds", f"Training and scoring time{of_data(analysis)}", columns, rows, note)


def pareto_table(analysis: Analysis) -> Table:
    """Return which methods no other one beats in quality, sparsity and time."""
    metric = analysis.metric
    columns = [
        *place_columns(analysis),
        TableColumn(metric, "number"),
        TableColumn("ratio", "number", 2, RATIO),
        TableColumn("training", "seconds"),
        TableColumn("on the front", help="Whether no other method is as good in all three."),
    ]
    results = analysis.results
    fronts = {
        data: dict(zip(results.methods, analysis.front(data).tolist(), strict=True))
        for data in results.data_sets
    }
    rows: list[list[Value | Cell]] = []
    for data, method in places(analysis):
        criteria = [
            analysis.mean(data, method),
            analysis.sparsity(data, method),
            analysis.train_seconds(data, method),
        ]
        unknown = any(map(math.isnan, criteria))
        is_best = fronts[data][method]
        answer = "unknown" if unknown else "yes" if is_best else "no"
        rows.append([*place(analysis, data, method), *criteria, Cell(answer, strong=is_best)])
    title = f"Pareto front of {metric}, sparsity and training time{of_data(analysis)}"
    note = (
        "A method is on the front if no other method is at least as good in all three criteria and "
        "better in one."
    )
    return Table("pareto", title, columns, rows, note)


# --------------------------------------------------------------------------------------------------
# Tables of queries, settings, failures and versions.


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
        TableColumn("query"), TableColumn("fold"),
        *(TableColumn(method, "number") for method in order[:2]),
        TableColumn("documents", "count"),
        TableColumn("label > 0", "count", help="Documents with a label above 0."),
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
        TableColumn("query"), TableColumn("fold"),
        *(TableColumn(method, "number") for method in order[:2]),
        TableColumn("difference", "signed"),
        TableColumn("documents", "count"),
        TableColumn("label > 0", "count", help="Documents with a label above 0."),
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
    columns = [*place_columns(analysis), *map(TableColumn, folds)]
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
    return Table("methods", "Methods", [TableColumn("method"), TableColumn("settings")], rows)


def missing_table(analysis: Analysis) -> Table | None:
    """Return the runs that failed; None if there are none."""
    missing = analysis.results.missing
    if not missing:
        return None
    columns = [TableColumn(name) for name in ("method", "data set", "fold", "setting", "reason")]
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
    columns = [TableColumn("method"), TableColumn("warning"), TableColumn("folds", "count")]
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
    columns = [TableColumn("program"), TableColumn("version"), TableColumn("runs", "count")]
    rows: list[list[Value]] = [
        [program, number, count] for (program, number), count in counts.items()
    ]
    return Table("versions", "Versions", columns, rows)
