"""Pictures of the results of a study: which ones there are, and the numbers that they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .._typing import Vector
from ..statistics import same_up_to_rounding
from .analysis import LEVEL, Analysis
from .outcomes import Outcome
from .pictures import (
    draw_along_C,
    draw_convergence,
    draw_critical_difference,
    draw_cutoffs,
    draw_differences,
    draw_pareto,
    draw_removed,
    draw_tradeoff,
    draw_weights,
    height_of_ranks,
)
from .results import FoldResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
