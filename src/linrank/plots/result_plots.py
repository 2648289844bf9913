"""Plots of fits, models, explanations, evaluations and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._util.checks import choice
from .._util.text import NEGATIVE, POSITIVE, count, same_decimals
from .._util.types import Integers, Vector
from ..errors import DataError
from . import (
    C_AXIS,
    COLOURS,
    LEAST_SHOWN,
    LINES,
    REST,
    colour,
    drawn,
    plain,
    power_of_two,
    save_figure,
    short,
)  # fmt: skip

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..comparison import Comparison
    from ..metrics.evaluation import Evaluation
    from ..model.model import Explanation, ShowsParts
    from ..solvers.result import Result
    from ..training.selection import RegularizationPath


BAR_HEIGHT = 0.27  #: inches of a bar with its margin


def height_of_bars(n: int) -> float:
    """Return the height of a figure with n bars, in inches."""
    return 1.0 + BAR_HEIGHT * max(n, 2)


def plot_convergence(result: Result, ax: Axes | None) -> Axes:
    """Draw gradient, objective and duality gap by iteration; see `Result.plot`."""
    steps = result.history
    objective = np.array([step.objective for step in steps])
    above = (objective - result.objective) / (abs(result.objective) or 1.0)
    gradient = np.array([step.gradient_norm for step in steps])
    gap = np.array([np.nan if step.gap is None else step.gap for step in steps])
    curves = {"relative gradient norm": gradient, "objective above its end": above}
    if not np.isnan(gap).all():
        curves["relative duality gap"] = gap
    iterations = [step.iteration for step in steps]
    n_iter = count(result.n_iter, "iteration")
    title = f"{result.status.name.capitalize()}: {n_iter}, {result.seconds:.2f} s"
    return drawn(lambda axes: draw_history(axes, iterations, curves, title), ax)


def plot_features(model: ShowsParts, ax: Axes | None, top: int, column: str | None) -> Axes:
    """Draw the features with the largest weights as bars; see `LinearModel.plot`."""
    columns = {known.name: known for known in model.columns()}
    if not columns:
        raise DataError(f"a {type(model).__name__} has no weights of features to plot")
    choice("column", column, [None, *columns])
    shown = model.columns()[-1] if column is None else columns[column]
    values = shown.values
    order = np.argsort(-np.abs(values), kind="stable")[: min(top, np.count_nonzero(values))]
    title = f"{len(order)} of {count(model.n_features, 'feature')}, by {shown.title}"
    names, sizes = list(map(model.part_name, order.tolist())), values[order].tolist()
    return drawn(
        lambda axes: draw_bars(axes, names, sizes, title=title, label=shown.meaning),
        ax,
        height_of_bars(len(order)),
    )


def plot_explanation(explanation: Explanation, ax: Axes | None, top: int) -> Axes:
    """Draw the largest contributions as bars; see `Explanation.plot`."""
    shown, left = explanation.largest(top), explanation.rest(top)
    rest_name, rest = ("", None) if left is None else left
    difference = " difference" if explanation.other is not None else ""
    title = explanation.title[0].upper() + explanation.title[1:]

    def draw(axes: Axes) -> None:
        draw_bars(
            axes, [name for name, _ in shown], [size for _, size in shown], rest=rest,
            rest_name=rest_name, title=title, label=f"contribution to the score{difference}",
        )  # fmt: skip

    return drawn(draw, ax, height_of_bars(len(shown) + (rest is not None)))


def plot_distribution(evaluation: Evaluation, ax: Axes | None) -> Axes:
    """Draw the distribution of each metric over the queries; see `Evaluation.plot`."""
    curves = {
        f"{name}: mean {evaluation.mean[name]:.4f}": values
        for name, values in evaluation.per_query.items()
    }
    title = f"Distribution over {evaluation.n_queries:,} queries"
    return drawn(lambda axes: draw_distribution(axes, curves, title), ax)


def plot_comparison(
    found: Comparison, metric: str, differences: Vector, ax: Axes | None
) -> Axes:  # fmt: skip
    """Draw the difference of a metric in each query; see `Comparison.plot`."""
    wins, ties, losses = found.metrics[metric].counts
    title = f"{metric}: B is better in {wins:,} queries, equal in {ties:,}, worse in {losses:,}"
    return drawn(lambda axes: draw_sorted(axes, differences, title, f"{metric}: B − A"), ax)


def plot_weights(path: RegularizationPath, ax: Axes | None, names: Sequence[str] | None) -> Axes:
    """Draw the largest weights against C; see `RegularizationPath.plot`."""
    shown = names or [str(f) for f in range(1, path.coefs.shape[1] + 1)]
    return drawn(lambda axes: draw_weights(axes, path.Cs, path.coefs, shown), ax)


def plot_metric(
    Cs: Vector, values: Vector, metric: str, ax: Axes | None, greater_is_better: bool
) -> Axes:
    """Draw a metric against C, with a mark at the best C; see `RegularizationPath.plot_metric`."""
    best = int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))
    return drawn(lambda axes: draw_metric(axes, Cs, values, best, metric, "Best"), ax)


def draw_bars(
    ax: Axes, names: Sequence[str], values: Sequence[float], *, title: str, label: str,
    rest: float | None = None, rest_name: str = "",
) -> None:  # fmt: skip
    """Draw horizontal bars with their values, the first name on top.

    `rest` is a last bar in grey, for all that has no bar of its own.
    """
    values, colours = list(values), [NEGATIVE if v < 0 else POSITIVE for v in values]
    labels = [short(name) for name in names]
    if rest is not None:
        values, colours, labels = [*values, rest], [*colours, REST], [*labels, rest_name]
    places = np.arange(len(values))
    bars = ax.barh(places, values, color=colours, height=0.7)
    ax.bar_label(bars, same_decimals(values), padding=3)
    ax.axvline(0.0, color="#666666", linewidth=0.8)
    ax.set_yticks(places, labels)
    ax.set_ylim(len(values) - 0.4, -0.6)  # the first name is on top
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.28)  # room for the values
    ax.set_title(title)
    ax.set_xlabel(label)
    ax.set_ylabel("feature")


def draw_history(
    ax: Axes, iterations: Sequence[int], curves: Mapping[str, Vector], title: str
) -> None:
    """Draw quantities that should fall towards 0 against the iterations, on a log scale."""
    marker = "o" if len(iterations) < 50 else ""
    for k, (name, values) in enumerate(curves.items()):
        shown = np.where(values > LEAST_SHOWN, values, np.nan)
        ax.semilogy(
            iterations, shown, marker=marker, linestyle=LINES[k % len(LINES)], color=COLOURS[k],
            markersize=3.5, linewidth=1.4, label=name,
        )  # fmt: skip
    ax.set_title(title)
    ax.set_xlabel("iteration")
    ax.set_ylabel("relative size (log scale)")
    ax.locator_params(axis="x", integer=True)
    _legend_inside(ax, "best")


def draw_distribution(ax: Axes, values: Mapping[str, Vector], title: str) -> None:
    """Draw, for each name, the share of values that are at most as large as the one on the axis."""
    for k, (name, found) in enumerate(values.items()):
        known = found[~np.isnan(found)]
        if len(known):
            ax.ecdf(
                known, color=COLOURS[k % len(COLOURS)], linestyle=LINES[k % len(LINES)],
                linewidth=1.6, label=plain(name),
            )  # fmt: skip
    ax.set_title(title)
    ax.set_xlabel("value of the metric in a query")
    ax.set_ylabel("share of queries up to this value")
    ax.set_yticks(np.linspace(0.0, 1.0, 6))
    ax.set_ylim(0.0, 1.05 + 0.12 * len(values))  # the legend is above the curves
    _legend_inside(ax, "upper left")


def draw_sorted(ax: Axes, differences: Vector, title: str, label: str) -> None:
    """Draw differences in descending order: positive ones blue, negative ones red."""
    known = -np.sort(-differences[~np.isnan(differences)])
    edges = np.arange(len(known) + 1) + 0.5
    for c, part in ((POSITIVE, np.maximum(known, 0.0)), (NEGATIVE, np.minimum(known, 0.0))):
        ax.stairs(part, edges, fill=True, color=c)
    ax.axhline(0.0, color="#666666", linewidth=0.8)
    ax.set_title(plain(title))
    ax.set_xlabel("queries, sorted by difference")
    ax.set_ylabel(plain(label))
    ax.locator_params(axis="x", integer=True)


def _legend_inside(ax: Axes, place: str) -> None:
    """Put the legend inside, because axes of a larger figure have no room beside them."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc=place, frameon=True, framealpha=0.8, edgecolor="none")


def draw_metric(ax: Axes, Cs: Vector, values: Vector, best: int, metric: str, word: str) -> None:
    """Draw a metric against C, with a mark at the best C or another chosen one."""
    ax.semilogx(Cs, values, "o-", base=2, color=COLOURS[0], markersize=3.5, linewidth=1.4)
    ax.plot(Cs[best], values[best], "D", color=COLOURS[1], markersize=7, zorder=3)
    ax.axvline(Cs[best], color=COLOURS[1], linewidth=0.8, linestyle=":")
    ax.set_title(f"{word}: {values[best]:.4f} at C = {power_of_two(Cs[best])}")
    ax.set_xlabel(C_AXIS)
    ax.set_ylabel(f"mean {plain(metric)}")
    ax.margins(y=0.1)


def draw_weights(
    ax: Axes, Cs: Vector, coefs: Vector, names: Sequence[str], marked: int | None = None,
    word: str = "Chosen",
) -> None:  # fmt: skip
    """Draw the weights that are largest at the marked C, and then those largest at any C.

    Without a mark, the largest are those at the largest C.
    """
    at = len(Cs) - 1 if marked is None else marked
    where = "largest C" if marked is None else f"{word.lower()} C"
    here, anywhere = np.abs(coefs[at]), np.abs(coefs).max(axis=0)
    largest = np.lexsort((-anywhere, -here))[: min(len(COLOURS), np.count_nonzero(anywhere))]
    shown = largest[np.argsort(-coefs[-1, largest], kind="stable")]  # the order of the legend
    for k, feature in enumerate(shown):
        ax.semilogx(
            Cs, coefs[:, feature], base=2, color=colour(k), linestyle=LINES[k % len(LINES)],
            linewidth=1.4, label=short(names[feature]),
        )  # fmt: skip
    ax.axhline(0.0, color="#666666", linewidth=0.8)
    if marked is not None:
        ax.axvline(Cs[marked], color=COLOURS[1], linewidth=0.8, linestyle=":")
    title, n_used = "Weights", np.count_nonzero(here[shown])
    if n_used < len(shown):
        title += f" ({count(len(shown), 'feature')}, {n_used} of them in use at the {where})"
    elif 0 < n_used < len(here):
        title += f" (the {n_used} largest at the {where})"
    ax.set_title(title)
    ax.set_xlabel(C_AXIS)
    ax.set_ylabel("weight w (score per unit of the feature)")
    if len(shown):
        ax.legend(title="feature", loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def draw_features(ax: Axes, n_features: Integers, values: Vector, best: int, metric: str) -> None:
    """Draw a metric against the number of features with a weight."""
    ax.plot(n_features, values, "o-", color=COLOURS[0], markersize=3.5, linewidth=1.0)
    ax.plot(n_features[best], values[best], "D", color=COLOURS[1], markersize=7, zorder=3)
    ax.set_title(f"{count(n_features[best], 'feature')}, {values[best]:.4f}")
    ax.set_xlabel("features with a weight")
    ax.set_ylabel(f"mean {plain(metric)}")
    ax.locator_params(axis="x", integer=True)
    ax.margins(y=0.1)


def plot_path(
    path: str | os.PathLike[str],
    Cs: Vector,
    values: Vector,
    coefs: Vector,
    *,
    metric: str,
    names: Sequence[str],
    chosen: int | None = None,
    greater_is_better: bool = True,
) -> None:
    """Plot a metric and the largest weights against C.

    If some weights are 0, the metric is also plotted against the number of selected features.

    Parameters
    ----------
    path : path-like
        Name of the plot file, which ends in .png, .svg or .pdf. An existing file is replaced
        when the new one is complete.
    Cs : float64 array of shape (n_Cs,)
    values : float64 array of shape (n_Cs,)
        Metric for each C; NaN if it is undefined.
    coefs : float64 array of shape (n_Cs, n_features)
        Weights for each C.
    metric : str
        Description of the values, such as ``"ndcg@10 on vali.txt"``.
    names : sequence of str
        Names of the features.
    chosen : int, optional
        Index of the C to mark. None: that of the best value.
    greater_is_better : bool
        Whether larger values are better; False for errors.
    """
    best = int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))
    word = "Best" if chosen in (None, best) else "Chosen"
    best = best if chosen is None else chosen
    n_features = np.count_nonzero(coefs, axis=1)
    sparse = bool((n_features < coefs.shape[1]).any())
    heights = (1, 1.2, 1) if sparse else (1, 1.2)

    def draw(figure: Figure) -> None:
        above, below, *last = figure.subplots(len(heights), 1, height_ratios=heights)
        above.sharex(below)
        draw_metric(above, Cs, values, best, metric, word)
        above.label_outer()
        draw_weights(below, Cs, coefs, names, best, word)
        for axes in last:
            draw_features(axes, n_features, values, best, metric)

    save_figure(path, draw, (7.5, 9.0 if sparse else 6.5))
