"""Pictures of tests: differences between two methods by query, and average ranks of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..._draw import plain
from ..._tables import NEGATIVE, POSITIVE
from ..._typing import Vector
from .marks import short_names, text_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIE = 1e-12  #: differences up to this are rounding, and count as ties
MOST_TICKS = 12  #: ranks above which only every second one is written
BAR_STEP = 0.4  #: distance of the bars that join methods, in rows of labels


def draw_differences(
    ax: Axes, names: tuple[str, str], differences: Vector, *, metric: str,
    interval: tuple[float, float] | None = None, level: float = 0.95,
    greater_is_better: bool = True,
) -> Axes:  # fmt: skip
    """Draw the differences between two methods in each query, from the largest to the smallest.

    The legend has the numbers of queries that each method wins and of ties, and the mean
    difference with its interval.

    Parameters
    ----------
    ax : Axes
    names : tuple of two str
        Names of the methods a and b.
    differences : float64 array of shape (n_queries,)
        Metric of a − metric of b; NaN for a query without a value, which is left out.
    metric : str
        Name of the metric.
    interval : tuple of two floats, optional
        Confidence interval of the mean difference.
    level : float
        Level of the interval, which the legend names.
    greater_is_better : bool
        False for errors: the second method is then better where the difference is positive.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> differences = np.array([0.2, -0.1, 0.0, 0.3])
    >>> _ = draw_differences(ax, ("l1", "l2"), differences, metric="MAP", interval=(-0.1, 0.3))
    >>> for text in ax.get_legend().get_texts():
    ...     print(text.get_text())
    l1 is better: 2 queries
    l2 is better: 1 query
    ties: 1 query
    mean: +0.1000
    95 % interval: [-0.1000, +0.3000]
    """
    found = -np.sort(-differences[~np.isnan(differences)])
    wins, losses = int(np.count_nonzero(found > TIE)), int(np.count_nonzero(found < -TIE))
    edges = np.arange(len(found) + 1.0)
    labels = short_names(names, 20)  # two columns of the legend fit into the figure
    labels = labels if greater_is_better else labels[::-1]
    for k, (shown, n) in enumerate(((found > TIE, wins), (found < -TIE, losses))):
        ax.stairs(
            np.where(shown, found, 0.0), edges, fill=True, color=(POSITIVE, NEGATIVE)[k],
            alpha=(1.0, 0.6)[k], label=f"{labels[k]} is better: {_queries(n)}",
        )  # fmt: skip
    ax.plot([], [], " ", color=text_colour(), label=f"ties: {_queries(len(found) - wins - losses)}")
    ax.axhline(0.0, color=text_colour(), linewidth=0.8)
    if len(found):
        _draw_mean(ax, float(found.mean()), interval, level)
    ax.set_xlabel("queries, sorted by their difference")
    ax.set_ylabel(f"difference in {plain(metric)}")
    ax.margins(x=0.01)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.01), borderaxespad=0.0, ncols=2)
    return ax


def _draw_mean(ax: Axes, mean: float, interval: tuple[float, float] | None, level: float) -> None:
    ax.axhline(mean, color=text_colour(), linestyle="--", linewidth=1.2, label=f"mean: {mean:+.4f}")
    if interval is not None and np.isfinite(interval).all():
        low, high = interval
        label = f"{100 * level:g} % interval: [{low:+.4f}, {high:+.4f}]"
        ax.axhspan(low, high, color=text_colour(), alpha=0.2, linewidth=0.0, label=label)


def _queries(n: int) -> str:
    return "1 query" if n == 1 else f"{n:,} queries"


def height_of_ranks(n: int) -> float:
    """Return the height of a critical-difference diagram of n methods, in inches."""
    return 1.2 + 0.16 * n


def draw_critical_difference(
    ax: Axes, names: Sequence[str], ranks: Vector, critical_difference: float,
    groups: Sequence[Sequence[int]],
) -> Axes:  # fmt: skip
    """Draw the critical-difference diagram of Demšar (2006): average ranks on a line.

    Bars join methods that do not differ. The best rank, 1, is on the left.

    Parameters
    ----------
    ax : Axes
        Axes of about `height_of_ranks` inches.
    names : sequence of str
        Names of the methods.
    ranks : float64 array of shape (n_methods,)
        Average ranks; a method with NaN is left out.
    critical_difference : float
        Smallest significant difference of two ranks; NaN if it is not known.
    groups : sequence of sequences of int
        Indices of methods that do not differ. Groups of one method are not drawn.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> ranks = np.array([1.2, 2.9, 1.9])
    >>> _ = draw_critical_difference(ax, ["a", "b", "c"], ranks, 0.8, [(0, 2)])
    >>> sorted(text.get_text() for text in ax.texts)
    ['1', '2', '3', 'CD = 0.80', 'a (1.20)', 'b (2.90)', 'c (1.90)']
    """
    order = np.argsort(ranks, kind="stable")[: np.count_nonzero(~np.isnan(ranks))]
    last = max(2, len(order))
    end = max(last, 1.0 + np.nan_to_num(critical_difference))
    _draw_scale(ax, last)
    if np.isfinite(critical_difference):
        _draw_distance(ax, critical_difference)
    depth = _draw_groups(ax, [ranks[list(group)] for group in groups])
    labels, n_left = short_names(names), -(-len(order) // 2)
    for side, chosen in (("right", order[:n_left]), ("left", order[n_left:][::-1])):
        x = 1.0 - 0.02 * last if side == "right" else end + 0.02 * last
        for row, k in enumerate(chosen):
            y = depth + 0.6 + row
            ax.plot([ranks[k], ranks[k], x], [0.0, y, y], color=text_colour(), linewidth=0.8)
            label = f"{labels[k]} ({ranks[k]:.2f})"
            ax.annotate(label, (x, y), (-3 if side == "right" else 3, 0),
                        textcoords="offset points", ha=side, va="center")  # fmt: skip
    ax.set_xlim(1.0 - 0.02 * last, end + 0.02 * last)
    ax.set_ylim(depth + 0.6 + n_left, -2.6)
    ax.set_axis_off()
    return ax


def _draw_scale(ax: Axes, last: int) -> None:
    """Draw the line of ranks with its ticks at y = 0; y grows downwards."""
    ax.plot([1, last], [0, 0], color=text_colour(), linewidth=1.2)
    for rank in range(1, last + 1):
        ax.plot([rank, rank], [0.0, -0.3], color=text_colour(), linewidth=1.0)
        if last <= MOST_TICKS or rank % 2 == 1:
            ax.text(rank, -0.4, str(rank), ha="center", va="bottom")


def _draw_distance(ax: Axes, critical_difference: float) -> None:
    ax.plot(
        [1.0, 1.0 + critical_difference], [-1.7, -1.7], color=text_colour(), linewidth=1.2,
        marker="|", markersize=6.0,
    )  # fmt: skip
    label = f"CD = {critical_difference:.2f}"
    ax.text(1.0 + critical_difference / 2, -1.9, label, ha="center", va="bottom")


def _draw_groups(ax: Axes, groups: Sequence[Vector]) -> float:
    """Draw a bar for each group, in levels in which bars do not touch, and return their depth."""
    ends: list[float] = []  # right end of the last bar of each level
    bars = [(np.nanmin(g), np.nanmax(g)) for g in groups if np.count_nonzero(~np.isnan(g)) > 1]
    for low, high in sorted(bars):
        free = [level for level, end in enumerate(ends) if end < low - 0.1]
        level = free[0] if free else len(ends)
        ends[level : level + 1] = [high]
        y = BAR_STEP * (level + 1)
        ax.plot([low - 0.04, high + 0.04], [y, y], color=text_colour(), linewidth=3.5,
                solid_capstyle="round", gid="group")  # fmt: skip
    return BAR_STEP * len(ends)
