"""Output of a study: the report as a page, tables, pictures, values by query, and runs."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from .._util.files import atomic_write, write_error
from .._util.text import count, printable
from .._util.types import Vector
from .._version import __version__
from ..data.trec import Qrels, Run, write_qrels, write_run
from ..plots import has_matplotlib, new_figure, write_figure
from ..plots.result_plots import draw_weights
from ..plots.study_plots import (
    draw_along_C,
    draw_convergence,
    draw_critical_difference,
    draw_cutoffs,
    draw_differences,
    draw_pareto,
    draw_removed,
    draw_tradeoff,
    height_of_ranks,
)
from ..report.page import (
    NO_PICTURES,
    Block,
    Code,
    Details,
    Facts,
    Items,
    Page,
    Picture,
    Section,
    Table,
    TableColumn,
    svg_of,
    write_page,
)
from ..statistics import same_up_to_rounding
from .analysis import LEVEL, Analysis, MethodComparison
from .protocol import safe_names
from .results import FoldResult, Outcome, StudyResults, TestPart, known_mean
from .summary_tables import (
    changed_table,
    decrease_table,
    difference_table,
    feature_table,
    fold_table,
    method_table,
    missing_table,
    p_text,
    pareto_table,
    rank_table,
    seconds_table,
    setting_table,
    sparsity_table,
    summary_table,
    test_table,
    version_table,
    warning_table,
    worst_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --------------------------------------------------------------------------------------------------
# Output of a study: the report as a page, tables, pictures, values by query, and runs.


# --------------------------------------------------------------------------------------------------
# Sentences about the results of a study: the best methods, the sparsest, the fastest, and gaps.


SHOWN_GAPS = 10  #: sentences about missing folds; the table of failures has all


def best_sentences(analysis: Analysis, data: str) -> list[str]:
    """Say which method is best on a data set, and which ones are significantly worse."""
    metric = analysis.metric
    order = analysis.order(data)
    if not order:
        return [f"{data}: no method has a value of {metric}."]
    best, others = order[0], order[1:]
    lead = f"{best} has the best mean {metric} on {data}: {analysis.mean(data, best):.4f}."
    if not others:
        return [f"{lead} No other method has a result, so nothing is compared."]
    found = analysis.against_best(data, metric)
    said = [f"{lead} {_second(analysis, found[others[0]])}"]
    worse = [method for method in others if found[method].significant]
    equal = [method for method in others if not found[method].significant]
    if worse:
        said.append(f"{listed(worse)} {_are(worse)} significantly worse than {best}.")
    if equal:
        said.append(f"{listed(equal)} {_are(equal)} not significantly worse than {best}.")
    return said


def _second(analysis: Analysis, second: MethodComparison) -> str:
    """Compare the best method with the second one."""
    if not second.n:
        return f"It has no query in common with {second.method}."
    if second.note:
        return f"Compared with {second.method}, {second.note}."
    gap = f"{abs(second.difference):.4f} ({100 * abs(second.relative):.1f} %)"
    leads = (second.difference < 0) == analysis.greater_is_better()
    way = "ahead of" if leads else "behind"  # the order is that of means over folds
    return f"Over all queries it is {gap} {way} {second.method} ({p_text(second.one_sided)})."


def cost_sentences(analysis: Analysis, data: str) -> list[str]:
    """Say which methods are the sparsest and the fastest on a data set."""
    order = analysis.order(data)
    said = []
    ratios = {method: analysis.sparsity(data, method) for method in order}
    sparsest = _smallest(ratios)
    if sparsest is not None and ratios[sparsest] < 1.0:
        n_used = known_mean(analysis.results.used(data, sparsest))
        said.append(
            f"{sparsest} is the sparsest method on {data}. It uses {n_used:.3g} features on "
            f"average ({100 * ratios[sparsest]:.0f} %){_against_best(analysis, data, sparsest)}."
        )
    seconds = {method: analysis.train_seconds(data, method) for method in order}
    fastest = _smallest(seconds)
    if fastest is not None and len(order) > 1:
        time = TableColumn("time", "seconds", 2).format(seconds[fastest])
        said.append(
            f"{fastest} is the fastest method on {data}. A fit takes {time} on average"
            f"{_against_best(analysis, data, fastest)}."
        )
    return said


def _against_best(analysis: Analysis, data: str, method: str) -> str:
    """Return the end of a sentence: how much is lost against the best method."""
    found = analysis.against_best(data, analysis.metric).get(method)
    if found is None or not found.n or math.isnan(found.relative):
        return ""
    word = "significant" if found.significant else "not significant"
    way = "below" if found.relative < 0 else "above"
    share = f"{100 * abs(found.relative):.1f} %"
    return f", and its {analysis.metric} is {share} {way} the best ({word})"


def _smallest(values: dict[str, float]) -> str | None:
    known = {method: value for method, value in values.items() if not math.isnan(value)}
    return min(known, key=lambda method: known[method], default=None)


def gap_sentences(analysis: Analysis) -> list[str]:
    """Say what is missing: failed runs, folds without results, and other problems."""
    results = analysis.results
    gaps = []
    for data in results.data_sets:
        for method in results.methods:
            folds = analysis.missing_folds(data, method)
            n_folds = len(results.folds(data))
            if len(folds) == n_folds:
                gaps.append(f"{method} has no result on {data}.")
            elif folds:
                gaps.append(
                    f"{method} has no result on {len(folds)} of {n_folds} folds of {data}: "
                    f"{', '.join(folds)}. Other methods are compared with it on the other folds."
                )
    said = list(results.problems)
    if results.missing:
        failed = count(len(results.missing), "run")
        said.append(f"{failed} failed; see Settings for the reasons.")
    said += gaps[:SHOWN_GAPS]
    if len(gaps) > SHOWN_GAPS:
        said.append(f"{len(gaps) - SHOWN_GAPS:,} more methods lack folds.")
    return said


def small_sentences(analysis: Analysis) -> list[str]:
    """Say where there are too few queries for tests, and which methods are equal everywhere."""
    said = []
    weighted = [metric for metric in analysis.results.metrics
                if analysis.results.weighs_queries(metric)]  # fmt: skip
    if weighted:
        said.append(
            f"{listed(weighted)}: each query counts once in tables and tests. Settings are chosen "
            "by the mean of linrank evaluate, which weights queries by their pairs or documents."
        )
    for data in analysis.results.data_sets:
        n, n_defined = len(analysis.results.queries(data)), analysis.n_defined(data)
        if n == 1:
            said.append(f"{data} has one query. Tests and intervals say nothing about it.")
        if n_defined < n:
            said.append(
                f"{data}: {analysis.metric} is undefined in {n - n_defined:,} of {n:,} queries, "
                "which are left out of means and tests."
            )
        twins = [
            f"{one.method} and {one.reference}"
            for one in analysis.against_best(data, analysis.metric).values()
            if one.n and one.counts.ties == one.n
        ]
        if twins:
            said.append(f"{data}: {listed(twins)} have the same value in every query.")
    return said


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


# --------------------------------------------------------------------------------------------------
# Pictures of the results of a study: which ones there are, and the numbers that they show.


CUTOFFS = tuple(range(1, 11))
MOST_STEPS = 200  #: iterations of a solver in a picture; others are left out evenly


@dataclass(frozen=True)
class Drawing:
    """A picture that has not been drawn yet.

    Attributes
    ----------
    key : str
        Short name for HTML ids and names of files.
    caption, alt : str
        Sentences below the picture, and a sentence for readers who cannot see it.
    draw : callable
        Draws on an empty figure.
    height : float
        Inches of the figure.
    """

    key: str
    caption: str
    alt: str
    draw: Callable[[Figure], object]
    height: float = 3.4


def cutoff_drawing(analysis: Analysis, data: str) -> Drawing:
    """NDCG@k against k."""
    methods = analysis.results.methods
    values = np.array([[analysis.mean(data, m, f"ndcg@{k}") for k in CUTOFFS] for m in methods])
    return Drawing(
        f"cutoffs-{analysis.keys[data]}",
        f"NDCG@k of the test parts of {data}, mean over the folds.",
        f"Lines of NDCG@k against k from 1 to {CUTOFFS[-1]}, one for each method.",
        lambda figure: draw_cutoffs(figure.subplots(), methods, CUTOFFS, values),
    )  # fmt: skip


def difference_drawing(analysis: Analysis, data: str) -> Drawing | None:
    """Draw the differences of the two best methods; None if there is none."""
    order = analysis.order(data)
    if len(order) < 2:
        return None
    first, second = order[:2]
    a, b = (analysis.results.per_query(data, method) for method in (first, second))
    if same_up_to_rounding(a, b)[~np.isnan(a - b)].all():
        return None
    interval = analysis.difference_interval(data, first, second)
    return Drawing(
        f"differences-{analysis.keys[data]}",
        f"{data}: {analysis.metric} of {first} minus that of {second} in each query. They are the "
        "two best methods.",
        f"Bars of the differences in {analysis.metric} by query, from the largest to the smallest.",
        lambda figure: draw_differences(
            figure.subplots(), (first, second), a - b, metric=analysis.metric, interval=interval,
            level=LEVEL, greater_is_better=analysis.greater_is_better(),
        ),
    )  # fmt: skip


def rank_drawing(analysis: Analysis) -> Drawing | None:
    """Draw average ranks; None if there are fewer than two methods or no fold that all have."""
    found = analysis.ranks()
    methods = found.methods
    if not found.n or len(methods) < 2:
        return None
    return Drawing(
        "ranks", f"Average ranks by {analysis.metric}; 1 is the best. Bars join methods that the "
        f"Nemenyi test does not distinguish over {found.n} folds.",
        "A critical-difference diagram: the methods on a line of average ranks.",
        lambda figure: draw_critical_difference(
            figure.subplots(), methods, found.ranks, found.critical_difference, found.groups
        ),
        height_of_ranks(len(methods)),
    )  # fmt: skip


def sparsity_drawings(analysis: Analysis) -> Iterator[Drawing]:
    """Yield pictures of the sparsity ratio, if some methods leave out features."""
    data_sets, methods = analysis.results.data_sets, analysis.results.methods
    ratios = np.array([[analysis.sparsity(data, m) for m in methods] for data in data_sets])
    values = np.array([[analysis.mean(data, m) for m in methods] for data in data_sets])
    if not (ratios < 1.0).any():
        return
    corner = "upper left" if analysis.greater_is_better() else "lower left"
    yield Drawing(
        "sparsity", f"{analysis.metric} against the sparsity ratio. The best place is on the "
        f"{corner}. Dotted: the mean over the methods.",
        f"Points of {analysis.metric} against the sparsity ratio, one for each method.",
        partial(draw_tradeoff, names=methods, data_sets=data_sets, sparsity=ratios, values=values,
                metric=analysis.metric),
    )  # fmt: skip
    if len(data_sets) == 1:  # the picture above shows the same ratios
        return
    yield Drawing(
        "removed", "Share of the features that the chosen models do not use, mean over the folds.",
        "The share of removed features of each method on each data set.",
        partial(draw_removed, names=methods, data_sets=data_sets, sparsity=ratios),
    )  # fmt: skip


def pareto_drawing(analysis: Analysis, data: str) -> Drawing | None:
    """Draw quality against training time; None if no time is known."""
    methods = analysis.results.methods
    seconds = np.array([analysis.train_seconds(data, method) for method in methods])
    values = np.array([analysis.mean(data, method) for method in methods])
    if not np.isfinite(seconds + values).any():
        return None
    front = analysis.time_front(data)
    return Drawing(
        f"time-{analysis.keys[data]}",
        f"{data}: {analysis.metric} against the seconds of one fit with the chosen setting.",
        f"Points of {analysis.metric} against training time, with the Pareto front of both.",
        lambda figure: draw_pareto(
            figure.subplots(), methods, seconds, values, front, cost="training time (s)",
            metric=analysis.metric,
        ),
    )  # fmt: skip


def along_C_drawing(analysis: Analysis, data: str) -> Drawing | None:
    """Draw quality, features and seconds against C; None if no method varies C."""
    results = analysis.results
    found = {
        method: [results.found[data, fold, method] for fold in results.folds(data)
                 if (data, fold, method) in results.found]
        for method in results.methods
    }  # fmt: skip
    lines = {method: _along_C(folds) for method, folds in found.items()}
    if all(line is None for line in lines.values()):
        return None
    none = np.empty(0), np.empty((1, 0)), np.empty((1, 0)), np.empty((1, 0)), ()
    # Methods that do not vary C have empty lines, such that others keep their colours.
    parts = list(zip(*(none if line is None else line for line in lines.values()), strict=True))
    Cs, values, n_features, seconds, chosen = parts
    metric = f"{analysis.metric} (validation)"
    return Drawing(
        f"path-{analysis.keys[data]}",
        f"{data}: {analysis.metric} of the validation parts, features in use and seconds of each "
        "fit against C, mean over the folds. Along a path, a fit starts at the solution of the C "
        "before.",
        "Lines of the metric, the number of features and the training time against C.",
        lambda figure: draw_along_C(
            figure, list(lines), Cs, values, n_features, seconds, metric=metric, chosen=chosen
        ),
    )  # fmt: skip


def _along_C(
    folds: Sequence[FoldResult],
) -> tuple[Vector, Vector, Vector, Vector, Sequence[float]] | None:
    """Return values of C that all folds cover, and what each fold has there.

    The values are those of the first fold. Other folds are interpolated on the logarithmic scale.
    """
    paths = [_path(found) for found in folds]
    if not paths or any(len(path) < 2 for path in paths):
        return None
    low, high = max(path[0, 0] for path in paths), min(path[-1, 0] for path in paths)
    Cs = paths[0][:, 0]
    Cs = Cs[(Cs >= low) & (Cs <= high)]  # means of some of the folds would jump
    if not len(Cs):
        return None
    at = np.log(Cs)
    found = np.array([
        [np.interp(at, np.log(path[:, 0]), path[:, k]) for path in paths]
        for k in (1, 2, 3)
    ])  # fmt: skip
    chosen = [one.outcome.best.setting["C"] for one in folds]
    nearest = [float(Cs[np.argmin(np.abs(at - np.log(C)))]) for C in chosen]
    return Cs, found[0], found[1], found[2], nearest


def _path(found: FoldResult) -> Vector:
    """Return rows (C, metric, features, seconds) of the trials that differ from the best in C."""
    best = found.outcome.best.setting
    if not isinstance(best.get("C"), float | int):
        return np.empty((0, 4))
    rows = [
        (t.setting["C"], t.valid, np.nan if t.n_features is None else t.n_features, t.seconds)
        for t in found.trials
        if {**t.setting, "C": best["C"]} == best
        and isinstance(t.setting["C"], float | int)
        and t.setting["C"] > 0
    ]
    return np.array(sorted(rows), dtype=np.float64).reshape(-1, 4)


def _first_outcomes(analysis: Analysis, data: str) -> tuple[str, dict[str, Outcome]]:
    """Return the first fold that has results, and the outcomes of its methods."""
    results = analysis.results
    for fold in results.folds(data):
        found = {
            method: results.found[data, fold, method].outcome
            for method in results.methods
            if (data, fold, method) in results.found
        }
        if found:
            return fold, found
    return "", {}


def weight_drawing(analysis: Analysis, data: str) -> Drawing | None:
    """Draw the weights along a path of the best method that has one; None without such a method."""
    fold, found = _first_outcomes(analysis, data)
    paths = (
        (method, found[method].weights, found[method].best.setting)
        for method in analysis.order(data) if method in found
    )  # fmt: skip
    method, weights, setting = next(
        (path for path in paths if path[1] is not None and len(path[1].Cs)), ("", None, {})
    )
    if weights is None:
        return None
    names = [weights.names[feature] for feature in weights.features]
    marked = int(np.argmin(np.abs(np.log(weights.Cs / setting["C"]))))
    return Drawing(
        f"weights-{analysis.keys[data]}",
        f"{data}, {fold}: the largest weights of {method} along the path of C. The dotted line is "
        "at the chosen C.",
        f"Lines of the largest weights of {method} against C.",
        lambda figure: draw_weights(figure.subplots(), weights.Cs, weights.path, names, marked),
    )


def convergence_drawing(analysis: Analysis, data: str) -> Drawing | None:
    """Draw how solvers approached their optima; None if no method has a history."""
    fold, found = _first_outcomes(analysis, data)
    methods = analysis.results.methods
    nothing = np.full(1, np.nan)
    distances: list[Vector] = []
    seconds: list[Vector] = []
    products: list[Vector] = []
    for method in methods:
        curve = found[method].curve if method in found else None
        if curve is None:
            for column in (distances, seconds, products):
                column.append(nothing)
            continue
        last = float(curve.objective.min())
        shown = np.unique(np.linspace(0, len(curve.objective) - 1, MOST_STEPS).astype(np.int64))
        distances.append((curve.objective[shown] - last) / abs(last or 1.0))
        seconds.append(curve.seconds[shown])
        counts = curve.products[shown].astype(np.float64)
        products.append(counts if counts.any() else np.full(len(counts), np.nan))
    if not any(np.isfinite(distance).any() for distance in distances):
        return None
    return Drawing(
        f"convergence-{analysis.keys[data]}",
        f"{data}, {fold}: distance of the objective to its last value during one fit with the "
        "chosen setting. Methods that use no Hessian-vector products are on the left only.",
        "Lines of the relative distance to the optimum against time and products.",
        lambda figure: draw_convergence(figure, methods, distances, seconds, products),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# The parts of the report of a study: sentences, tables and pictures, in their order.


@dataclass(frozen=True)
class FoldedPart:
    """Contents that are shown when a reader opens them."""

    title: str
    contents: Sequence[Content]


Content = str | Facts | Items | Code | Table | Drawing | FoldedPart


@dataclass(frozen=True)
class PagePart:
    """A part of the report with a heading."""

    key: str
    title: str
    contents: Sequence[Content]


def study_parts(analysis: Analysis, command: str = "") -> list[PagePart]:
    """Return the parts of the report; parts without contents are left out."""
    parts = [
        PagePart("summary", "Summary", _summary(analysis)),
        PagePart("quality", "Quality", _quality(analysis)),
        PagePart("tests", "Tests", _tests(analysis)),
        PagePart("sparsity", "Sparsity", _sparsity(analysis)),
        PagePart("time", "Time", _time(analysis)),
        PagePart("ranks", "Ranks", _ranks(analysis)),
        PagePart("queries", "Queries", _queries(analysis)),
        PagePart("settings", "Settings", _settings(analysis)),
        PagePart("repeat", "Repeat", _repeat(analysis, command)),
    ]
    return [part for part in parts if part.contents]


def walk(contents: Iterable[Content]) -> Iterator[Content]:
    """Yield contents, and those that are folded."""
    for content in contents:
        yield content
        if isinstance(content, FoldedPart):
            yield from walk(content.contents)


def _summary(analysis: Analysis) -> list[Content]:
    results = analysis.results
    n_queries = sum(len(test.query_ids) for test in results.tests.values())
    n_fits = sum(len(found.trials) for found in results.found.values())
    facts = [
        ("Data sets", len(results.data_sets)), ("Folds", len(results.tests)),
        ("Test queries", n_queries), ("Methods", len(results.methods)), ("Fits", n_fits),
        ("Failed runs", len(results.missing)),
    ]  # fmt: skip
    gaps = [*gap_sentences(analysis), *small_sentences(analysis)]
    limits: list[Content] = ["Please note:", Items(gaps)] if gaps else []
    return [
        Facts([(name, f"{n:,}") for name, n in facts]),
        *_findings(analysis),
        *limits,
        summary_table(analysis),
    ]


def _findings(analysis: Analysis) -> list[Content]:
    """Return the sentences about the methods; those about costs are folded if there are many."""
    data_sets = analysis.results.data_sets
    bests = [best_sentences(analysis, data) for data in data_sets]
    said = [cost_sentences(analysis, data) for data in data_sets]
    if len(data_sets) == 1:
        return [Items([*bests[0], *said[0]])]
    costs = [" ".join(sentences) for sentences in said if sentences]
    folded = _folded("Sparsest and fastest methods", [Items(costs)] if costs else [])
    return [Items([" ".join(sentences) for sentences in bests]), *folded]


def _by_metric(
    analysis: Analysis, *makers: Callable[[Analysis, str], Table | None]
) -> list[Content]:
    """Return the tables of the metric that chose the settings, and those of others folded."""
    first, *others = (
        _known(*(make(analysis, metric) for make in makers)) for metric in analysis.results.metrics
    )
    return [*first, *_folded("Other metrics", [table for tables in others for table in tables])]


def _by_data(
    analysis: Analysis, *makers: Callable[[Analysis, str], Table | Drawing | None]
) -> list[Content]:
    """Return what is made for the first data set, and others folded below it."""
    first, *others = (
        (data, _known(*(make(analysis, data) for make in makers)))
        for data in analysis.results.data_sets
    )
    return [*first[1], *(one for data, made in others for one in _folded(data, made))]


def _folded(title: str, contents: Sequence[Content]) -> list[Content]:
    return [FoldedPart(title, contents)] if contents else []


def _known(*contents: Content | None) -> list[Content]:
    return [content for content in contents if content is not None]


def _quality(analysis: Analysis) -> list[Content]:
    several = len(analysis.results.methods) > 1
    return [
        *_by_metric(analysis, fold_table),
        *(_by_metric(analysis, decrease_table) if several else []),
        *_by_data(analysis, cutoff_drawing),
    ]


def _tests(analysis: Analysis) -> list[Content]:
    found = [
        *_by_metric(analysis, difference_table, test_table),
        *_by_data(analysis, difference_drawing),
    ]
    return found or ["There is one method with results, so nothing is tested."]


def _sparsity(analysis: Analysis) -> list[Content]:
    return [
        sparsity_table(analysis),
        *sparsity_drawings(analysis),
        feature_table(analysis),
        *_by_data(analysis, weight_drawing),
    ]


def _time(analysis: Analysis) -> list[Content]:
    return [
        seconds_table(analysis),
        pareto_table(analysis),
        *_by_data(analysis, pareto_drawing, along_C_drawing, convergence_drawing),
    ]


def _ranks(analysis: Analysis) -> list[Content]:
    if len(analysis.results.methods) < 2:
        return []
    return _known(rank_table(analysis), rank_drawing(analysis))


def _queries(analysis: Analysis) -> list[Content]:
    return _by_data(analysis, worst_table, changed_table)


def _settings(analysis: Analysis) -> list[Content]:
    results = analysis.results
    protocol = (
        "Each method is fitted to the training part of a fold with every setting. The setting with "
        f"the best mean {results.metric} on the validation part is kept, and the test part is "
        f"scored with it. Metrics follow the conventions of flavour {results.flavour!r}."
    )
    return _known(
        protocol, method_table(analysis), setting_table(analysis), missing_table(analysis),
        warning_table(analysis),
    )  # fmt: skip


def _repeat(analysis: Analysis, command: str) -> list[Content]:
    times = sorted(time for time, _ in analysis.results.made)
    when = (
        f"The runs were made from {_minute(times[0])} to {_minute(times[-1])} (UTC)."
        if times
        else None
    )
    code = Code(command, "Repeat the study") if command else None
    return _known(code, when, version_table(analysis))


def _minute(time: str) -> str:
    """Return the date and the minute of a time of ISO 8601."""
    return time[:16].replace("T", " ")


# --------------------------------------------------------------------------------------------------
# The report of a study as a page.


NAMED_DATA_SETS = 3  #: data sets that a title names; of more, it has the number


def study_page(results: StudyResults, command: str = "", baseline: str | None = None) -> Page:
    """Return the report of a study as a page, with its summary first.

    Parameters
    ----------
    results : StudyResults
    command : str
        The command that repeats the study; it is shown at the end.
    baseline : str, optional
        The method with which all others are compared. None: the best method of each data set.
    """
    draws = has_matplotlib()
    sections = [
        Section(part.key, part.title, list(_blocks(part.contents, draws)))
        for part in study_parts(Analysis(results, baseline), command)
    ]
    lead = (
        f"Settings are chosen by {results.metric} on validation data; all other numbers are of "
        "test data, unless they say so."
    )
    lead = lead if draws else f"{lead} {NO_PICTURES}"
    footer = f"Made by linrank {__version__}."
    return Page(_title(results), sections, lead, footer)


def _title(results: StudyResults) -> str:
    names = results.data_sets
    on = listed(names) if len(names) <= NAMED_DATA_SETS else f"{len(names)} data sets"
    return f"{count(len(results.methods), 'method')} on {on}"


def _blocks(contents: Sequence[Content], draws: bool) -> Iterator[Block]:
    """Draw pictures, or leave them out; leave out what is then empty."""
    for content in contents:
        if isinstance(content, Drawing):
            if draws:
                yield picture(content)
        elif isinstance(content, FoldedPart):
            inner = list(_blocks(content.contents, draws))
            if inner:
                yield Details(content.title, inner)
        else:
            yield content


def picture(drawing: Drawing) -> Picture:
    """Draw a picture for a page."""
    with new_figure(drawing.height) as figure:
        drawing.draw(figure)
        return Picture(drawing.key, drawing.caption, drawing.alt, svg_of(figure))


# --------------------------------------------------------------------------------------------------
# Files of the results of a study: the report, tables, pictures, per-query values and TREC runs.


StrPath = str | os.PathLike[str]
PER_QUERY = "per_query.csv"
READ_ME = "README.txt"


def write_report(
    path: StrPath, results: StudyResults, command: str = "", *, baseline: str | None = None
) -> None:
    """Write the report of a study: one HTML file that needs no network.

    Parameters
    ----------
    path : path-like
        The file, which is replaced when the new one is complete.
    results : StudyResults
    command : str
        The command that repeats the study.
    baseline : str, optional
        The method with which all others are compared. None: the best method of each data set.
    """
    write_page(path, study_page(results, command, baseline))


def write_tables(folder: StrPath, results: StudyResults, *, baseline: str | None = None) -> None:
    """Write the tables and pictures of a study, and the metrics of each query, to a folder.

    A table is written as text (.txt), CSV (.csv), LaTeX (.tex) and JSON (.json), and a picture as
    .svg and .pdf. Pictures are left out if matplotlib is not installed. ``per_query.csv`` has a
    row for each query and method.

    Parameters
    ----------
    folder : path-like
        The folder, which is made if it does not exist. Files of the same names are replaced.
    results, baseline
        As in `write_report`.
    """
    place = _folder(folder)
    parts = study_parts(Analysis(results, baseline))
    for content in walk(content for part in parts for content in part.contents):
        if isinstance(content, Table):
            _write_table(place, content)
        elif isinstance(content, Drawing) and has_matplotlib():
            _write_drawing(place, content)
    with atomic_write(place / PER_QUERY, "w") as file:
        _write_queries(file, results)


def _write_table(folder: Path, table: Table) -> None:
    forms = {
        ".txt": f"{table.to_text()}\n",
        ".csv": table.to_csv(),
        ".tex": table.to_latex(),
        ".json": f"{table.to_json()}\n",
    }
    for suffix, text in forms.items():
        with atomic_write(folder / f"{table.key}{suffix}", "w") as file:
            file.write(text)


def _write_drawing(folder: Path, drawing: Drawing) -> None:
    with new_figure(drawing.height) as figure:
        drawing.draw(figure)
        for suffix in (".svg", ".pdf"):
            write_figure(figure, folder / f"picture-{drawing.key}{suffix}")


def _write_queries(file: IO[str], results: StudyResults) -> None:
    """Write the metrics of each query and method as CSV; undefined values are empty."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["data", "fold", "query", "method", *results.metrics])
    for (data, fold), test in results.tests.items():
        for method in results.methods:
            if (data, fold, method) not in results.found:
                continue
            columns = [
                results.fold_values(data, fold, method, metric) for metric in results.metrics
            ]
            for q, values in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
                texts = map(printable, (data, fold, test.query_ids[q], method))
                writer.writerow([*texts, *("" if v != v else repr(v) for v in values)])


def write_runs(folder: StrPath, results: StudyResults) -> None:
    """Write the judgements and the rankings of the test parts as files of TREC.

    The file ``DATA/FOLD/qrels.txt`` has the labels of a test part, and ``DATA/FOLD/METHOD.run`` the
    scores of a method. Names in paths have lower-case letters, digits and hyphens; ``README.txt``
    lists them. If the documents of a data set have no ids, they are numbered within their
    query from 1 on. Queries whose ids have blanks are numbered from 1 on.

    Parameters
    ----------
    folder : path-like
        The folder, which is made if it does not exist. Files of the same names are replaced.
    results : StudyResults
    """
    place = _folder(folder)
    data_names, method_names = safe_names(results.data_sets), safe_names(results.methods)
    lines = []
    for data in results.data_sets:
        fold_names = safe_names(results.folds(data))
        for fold in results.folds(data):
            inner = Path(data_names[data], fold_names[fold])
            lines += [f"{inner.as_posix()}: {fold} of {data}"]
            _folder(place / inner)
            lines += _write_fold(place / inner, results, data, fold, method_names)
    lines += [f"{name}.run: {method}" for method, name in method_names.items()]
    with atomic_write(place / READ_ME, "w") as file:
        file.writelines(f"{printable(line)}\n" for line in lines)


def _write_fold(
    folder: Path, results: StudyResults, data: str, fold: str, names: dict[str, str]
) -> Iterator[str]:
    """Write the files of one fold, and yield sentences about numbered queries and documents."""
    test = results.tests[data, fold]
    queries, doc_ids = _ids(test)
    if queries != test.query_ids:
        yield "  The queries are numbered from 1 on, because their ids have blanks."
    if doc_ids != test.doc_ids:
        yield "  The documents of each query are numbered from 1 on, because they have no ids."
    qid = np.repeat(np.array(queries, dtype=object), np.diff(test.query_ptr)).tolist()
    write_qrels(folder / "qrels.txt", Qrels(qid, doc_ids, test.y))
    for method, name in names.items():
        found = results.found.get((data, fold, method))
        if found is not None:
            scores = found.outcome.scores
            rows = np.flatnonzero(~np.isnan(scores))  # a run of another tool may lack documents
            run = Run([qid[k] for k in rows], [doc_ids[k] for k in rows], scores[rows], name)
            write_run(folder / f"{name}.run", run)


def _ids(test: TestPart) -> tuple[list[str], list[str]]:
    """Return ids of queries and documents that TREC files can have."""
    queries = test.query_ids
    if not _are_words(queries):
        queries = [str(q) for q in range(1, len(queries) + 1)]
    doc_ids = test.doc_ids
    if doc_ids is None or not _are_words(doc_ids):
        sizes = np.diff(test.query_ptr).tolist()
        doc_ids = [f"{q}-{k}" for q, n in zip(queries, sizes, strict=True) for k in range(1, n + 1)]
    return queries, doc_ids


def _are_words(ids: Sequence[str]) -> bool:
    return all(text.split() == [text] for text in ids)


def _folder(path: StrPath) -> Path:
    """Make a folder if it does not exist."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    return Path(path)
