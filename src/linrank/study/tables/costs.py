"""Tables of costs: features in use, seconds, and the Pareto front of quality and costs."""

from __future__ import annotations

import math

from ...report.table import Cell, Column, Table, Value
from ..analysis import Analysis
from ..results import known_mean
from .rows import of_data, place, place_columns, places

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
    columns = [Column("method"), *(Column(data, "number", 2) for data in ratios)]
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
        Column("features", "number", 1, "Features in use, mean over the folds."),
        Column("fewest", "count", help="In a fold."),
        Column("most", "count", help="In a fold."),
        Column("ratio", "number", 2, RATIO),
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
        Column("training", "seconds", help="One fit with the chosen setting, mean over the folds."),
        Column("all settings", "seconds", help="All fits of a fold and their measurement, mean."),
        Column("settings", "number", 0, "Settings that were tried in a fold, mean."),
        Column("scoring", "seconds", help="Scoring the test part of a fold, mean."),
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
        Column(metric, "number"),
        Column("ratio", "number", 2, RATIO),
        Column("training", "seconds"),
        Column("on the front", help="Whether no other method is as good in all three."),
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
        told = "unknown" if unknown else "yes" if is_best else "no"
        rows.append([*place(analysis, data, method), *criteria, Cell(told, strong=is_best)])
    title = f"Pareto front of {metric}, sparsity and training time{of_data(analysis)}"
    note = (
        "A method is on the front if no other method is at least as good in all three criteria and "
        "better in one."
    )
    return Table("pareto", title, columns, rows, note)
