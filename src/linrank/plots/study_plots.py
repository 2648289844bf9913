"""Pictures of a study, drawn from names and arrays on axes or figures of matplotlib.

The colours of text, axes and grids are those of ``matplotlib.rcParams`` when a picture is drawn.
The k-th method has the same colour, marker and line style in all pictures. A method without
results keeps its place if its values are NaN; it is left out of the picture and of the legend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from .._util.text import NEGATIVE, POSITIVE, count
from .._util.types import Mask, Vector
from . import C_AXIS, LEAST_SHOWN, LINES, colour, plain, short

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes
    from matplotlib.text import Annotation


# --------------------------------------------------------------------------------------------------
# Marks of methods, legends and scales that the pictures of a study share.


SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")  #: markers; they are filled, then hollow
WIDE = 20.0  #: ratio of the largest to the smallest value above which a scale is logarithmic
LINE_HEIGHT = 0.19  #: inches of a line of a legend
LETTER, HANDLE = 0.07, 0.75  #: inches of a letter, and of the marker and margins, in a legend


def marker(k: int, size: float = 5.0) -> dict[str, Any]:
    """Return the colour and the marker of the k-th method, as arguments of ``ax.plot``.

    The first 16 methods have 16 different markers, so that colours are not needed.
    """
    hollow = k // len(SHAPES) % 2 == 1
    return {
        "color": colour(k),
        "marker": SHAPES[k % len(SHAPES)],
        "markersize": size * (1.3 if SHAPES[k % len(SHAPES)] == "*" else 1.0),
        "markerfacecolor": "none" if hollow else colour(k),
    }


def line(k: int, size: float = 3.5) -> dict[str, Any]:
    """Return the colour, marker and line style of the k-th method, as arguments of ``ax.plot``."""
    return {**marker(k, size), "linestyle": LINES[k % len(LINES)], "linewidth": 1.3}


def text_colour() -> str:
    """Return the present colour of text."""
    import matplotlib

    return matplotlib.rcParams["text.color"]


def set_wide_scale(ax: Axes, axis: str, values: Vector) -> None:
    """Make a scale logarithmic if its values differ by orders of magnitude.

    If some values are 0, the scale is linear between 0 and the smallest positive value.
    """
    known = values[np.isfinite(values)]
    positive = known[known > 0]
    if not len(positive) or positive.max() < WIDE * positive.min():
        return
    if known.min() > 0:
        ax.set(**{f"{axis}scale": "log"})
    else:
        set_scale = ax.set_xscale if axis == "x" else ax.set_yscale
        set_scale("symlog", linthresh=positive.min(), linscale=0.5)


def legend_beside(ax: Axes) -> None:
    """List what is drawn to the right of the axes."""
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0)


def legend_beside_all(figure: Figure) -> None:
    """List what is drawn in any axes of a figure to the right of them, each name once."""
    found = unique_handles(figure.axes)
    if found:
        figure.legend(found.values(), found.keys(), loc="outside right upper")


def legend_below_all(figure: Figure) -> None:
    """List what is drawn in any axes of a figure below them, each name once.

    The figure becomes higher, so that the axes keep their size.
    """
    found = unique_handles(figure.axes)
    if found:
        width = HANDLE + LETTER * max(map(len, found))
        columns = max(1, int(figure.get_figwidth() / width))
        rows = -(-len(found) // columns)
        figure.set_figheight(figure.get_figheight() + LINE_HEIGHT * (rows + 1))
        figure.legend(found.values(), found.keys(), loc="outside lower left", ncols=columns)


def unique_handles(axes: Sequence[Axes]) -> dict[str, Artist]:
    """Return the artists with a label by their labels, in the order in which they were drawn."""
    return {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }


def over_folds(values: Vector) -> tuple[Vector, Vector, Vector]:
    """Return mean, minimum and maximum over the rows, of the numbers that are not NaN."""
    known = np.ma.masked_invalid(np.atleast_2d(np.asarray(values, dtype=np.float64)))
    mean, low, high = known.mean(axis=0), known.min(axis=0), known.max(axis=0)
    return tuple(np.ma.filled(found, np.nan) for found in (mean, low, high))  # type: ignore[return-value]


def short_names(names: Sequence[str], length: int = 24) -> list[str]:
    """Shorten names at their ends, or in the middle if the short names would not differ.

    Examples
    --------
    >>> short_names(["ranksvm", "a method with many options"])
    ['ranksvm', 'a method with many opti…']
    >>> short_names(["a method with many options A", "a method with many options B"])
    ['a method wi…ny options A', 'a method wi…ny options B']
    """
    half = length // 2
    middle = [n if len(n) <= length else f"{n[: half - 1]}…{n[-half:]}" for n in names]
    for attempt in (names, middle):
        found = [short(name, length) for name in attempt]
        if len(set(found)) == len(found):
            return found
    return [short(f"{k}: {name}", length) for k, name in enumerate(names, 1)]


def numbered(names: Sequence[str]) -> list[str]:
    """Return short names with their numbers, which begin at 1."""
    return [f"{k}  {name}" for k, name in enumerate(short_names(names), 1)]


# --------------------------------------------------------------------------------------------------
# Labels beside points, at places where they overlap as little as possible.


DISTANCES = (5.0, 12.0, 20.0, 30.0, 42.0)  #: points between a marker and its label
ANGLES = np.deg2rad((0, 180, 90, 270, 45, 315, 135, 225, 22, 338, 158, 202, 67, 293, 113, 247))
SIDES = np.tile(np.column_stack([np.cos(ANGLES), np.sin(ANGLES)]), (len(DISTANCES), 1))
DISTANCE = np.repeat(DISTANCES, len(ANGLES))
OFFSETS = DISTANCE[:, None] * SIDES  #: places of labels, nearest first
HAS_LEADER = DISTANCES[1] <= DISTANCE  #: whether a line joins the marker and its label
MARKER_SIZE = 7.0  #: points of the square around a marker that labels avoid
MARGIN = 1.0  #: points around a label that other labels avoid
OVERLAP = 100.0  #: cost of a square point of a label that is hidden; a point of distance costs 1
ON_LINE = 0.5  #: cost of a point of the panel's line, or of another leader, on a label
LEADER = 2.0  #: cost of a point of a leader that crosses a label or a marker
CLEARANCE = 6.0  #: points around another marker in which a label seems to belong to it
AMBIGUOUS = 15.0  #: cost of a label without a leader in this clearance
FONT_SIZE = 8.0


class Panel(NamedTuple):
    """Axes with one point for each method; a point with NaN is not drawn."""

    ax: Axes
    x: Vector
    y: Vector
    line: Vector  #: rows (x, y) of the corners of a line that labels avoid if there is room


def label_points(panels: Sequence[Panel], names: Sequence[str], legend: Callable[[], None]) -> None:
    """Write the names beside the points, or numbers if the names do not fit.

    The layout of the figure is computed, because the room for labels depends on it.

    Parameters
    ----------
    panels : sequence of Panel
        Panels of one figure.
    names : sequence of str
    legend : callable
        Draws a legend with the numbers of the names. It is called if the names do not fit.
    """
    from matplotlib.backends.backend_agg import RendererAgg

    figure = panels[0].ax.figure.canvas.figure
    renderer = RendererAgg(1, 1, figure.dpi)
    figure.draw_without_rendering()
    attempts = [_label(panel, short_names(names), renderer) for panel in panels]
    if all(fits for _, fits in attempts):
        return
    for texts, _ in attempts:
        for text in texts:
            text.remove()
    legend()
    figure.draw_without_rendering()
    for panel in panels:
        _label(panel, [str(k + 1) for k in range(len(names))], renderer)


def _label(
    panel: Panel, labels: Sequence[str], renderer: RendererBase
) -> tuple[list[Annotation], bool]:
    """Label the points of a panel, and tell whether no label overlaps anything but its line."""
    drawn = np.flatnonzero(np.isfinite(panel.x) & np.isfinite(panel.y))
    unit = panel.ax.figure.dpi / 72.0  # pixels of a point; the lengths below are in points
    at = _positions(panel, np.column_stack([panel.x[drawn], panel.y[drawn]])) / unit
    inside = np.array([panel.ax.bbox.extents]) / unit
    taken = np.hstack([at - MARKER_SIZE / 2, at + MARKER_SIZE / 2])
    claimed = taken + CLEARANCE * np.array([-1.0, -1.0, 1.0, 1.0])
    line = _dots(_positions(panel, panel.line) / unit)
    texts, fits = [], True
    for k in np.lexsort((at[:, 1], at[:, 0])):
        text = _annotate(panel, drawn[k], labels[drawn[k]])
        size = np.array(text.get_window_extent(renderer).size) / unit + 2 * MARGIN
        offsets = OFFSETS + SIDES * size / 2
        boxes = np.hstack([at[k] + offsets - size / 2, at[k] + offsets + size / 2])
        lost = size.prod() - _overlaps(boxes, inside)[:, 0] + _overlaps(boxes, taken).sum(axis=1)
        costs = DISTANCE + OVERLAP * lost + ON_LINE * _overlaps(boxes, line).sum(axis=1)
        costs += LEADER * HAS_LEADER * _crossed(at[k], offsets, np.delete(taken, k, axis=0))
        is_near = _overlaps(boxes, np.delete(claimed, k, axis=0)).any(axis=1)
        costs += AMBIGUOUS * (is_near & ~HAS_LEADER)
        best = int(np.argmin(np.round(costs, 3)))  # the first of equally good places
        text.set_position(tuple(offsets[best]))
        if HAS_LEADER[best]:
            line = np.vstack([line, _dots(np.array([at[k], at[k] + offsets[best]]))])
        elif text.arrow_patch:
            text.arrow_patch.set_visible(False)
        taken = np.vstack([taken, boxes[best]])
        texts.append(text)
        fits &= bool(lost[best] < 1e-3)
    return texts, fits


def _crossed(at: Vector, offsets: Vector, taken: Vector) -> Vector:
    """Return the length within taken boxes of the line from a point to each offset."""
    steps = offsets[:, None] * np.linspace(0.0, 1.0, 20)[None, :, None]
    dots = (at + steps)[:, :, None]
    inner = (dots > taken[:, :2]) & (dots < taken[:, 2:])
    within = np.any(np.all(inner, axis=3), axis=2)
    return within.mean(axis=1) * np.hypot(*offsets.T)


def _positions(panel: Panel, points: Vector) -> Vector:
    return panel.ax.transData.transform(points.reshape(-1, 2))


def _dots(corners: Vector) -> Vector:
    """Return boxes of one point that cover a line through the corners."""
    if len(corners) < 2:
        return np.empty((0, 4))
    lengths = np.append(0.0, np.cumsum(np.hypot(*np.diff(corners, axis=0).T)))
    along = np.arange(0.0, lengths[-1] + 1.0)
    at = np.column_stack([np.interp(along, lengths, corners[:, axis]) for axis in (0, 1)])
    return np.hstack([at - 0.5, at + 0.5])


def _annotate(panel: Panel, i: int, label: str) -> Annotation:
    import matplotlib

    text = panel.ax.annotate(
        label, (panel.x[i], panel.y[i]), xytext=(0, 0), textcoords="offset points",
        ha="center", va="center", fontsize=FONT_SIZE, annotation_clip=False,
        arrowprops={
            "arrowstyle": "-", "linewidth": 0.6, "color": matplotlib.rcParams["axes.edgecolor"],
            "shrinkA": 0.0, "shrinkB": 3.0,
        },
    )  # fmt: skip
    text.set_in_layout(False)  # the label is inside the axes, and must not move them
    return text


def _overlaps(boxes: Vector, others: Vector) -> Vector:
    """Return the area that each box shares with each other box; a box is (x0, y0, x1, y1)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.clip(high - low, 0.0, None).prod(axis=2)


# --------------------------------------------------------------------------------------------------
# Pictures with a line for each method: along C, during training, and along the cutoffs.


PANEL_HEIGHT = 2.3  #: inches of a panel that shares its x axis with others
CHOSEN_SIZE = 8.0  #: points of the marker at a chosen C
MOST_BANDS = 6  #: methods above which bands would hide each other, and are not drawn
MOST_TICKS = 12  #: cutoffs above which not every cutoff has a tick


def draw_along_C(
    figure: Figure, names: Sequence[str], Cs: Sequence[Vector], values: Sequence[Vector],
    n_features: Sequence[Vector], seconds: Sequence[Vector], *, metric: str,
    chosen: Sequence[Sequence[float]] | None = None,
) -> Figure:  # fmt: skip
    """Draw a metric, the features in use and the training time against C, in three panels.

    Lines are means over the folds that have a result. Bands reach from the smallest to the
    largest fold; they are left out if there are more than six methods. Large
    markers are at the chosen values of C.

    Parameters
    ----------
    figure : Figure
        An empty figure. Its height is set.
    names : sequence of str
        Names of the methods.
    Cs : sequence of float64 arrays of shape (n_Cs,)
        The grid of each method, in increasing order.
    values, n_features, seconds : sequences of float64 arrays of shape (n_folds, n_Cs)
        The three quantities for each method; NaN if there is no result.
    metric : str
        Name of the metric.
    chosen : sequence of sequences of float, optional
        The C of each method that each of its folds chose.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> Cs, values = [np.array([0.5, 1.0])], [np.array([[0.4, 0.5], [0.3, 0.4]])]
    >>> counts, seconds = [np.array([[3, 5], [2, 5]])], [np.array([[0.1, 0.2], [0.1, 0.3]])]
    >>> figure = draw_along_C(
    ...     Figure(), ["l1"], Cs, values, counts, seconds, metric="MAP", chosen=[[1.0, 0.5]]
    ... )
    >>> [ax.get_ylabel() for ax in figure.axes]
    ['MAP', 'features in use', 'training time (s)']
    """
    figure.set_layout_engine("constrained")
    figure.set_figheight(3 * PANEL_HEIGHT)
    panels = figure.subplots(3, 1, sharex=True)
    chosen = chosen or [()] * len(names)
    for ax, found in zip(panels, (values, n_features, seconds), strict=True):
        for k, name in enumerate(short_names(names)):
            _draw_folds(ax, k, name, Cs[k], found[k], chosen[k], band=len(names) <= MOST_BANDS)
    panels[0].set_xscale("log", base=2)
    panels[0].set_ylabel(plain(metric))
    panels[0].set_title("Mean over folds (large markers: chosen C)")
    panels[1].set_ylabel("features in use")
    panels[2].set_ylabel("training time (s)")
    panels[2].set_xlabel(C_AXIS)
    set_wide_scale(panels[2], "y", np.concatenate([np.ravel(found) for found in seconds]))
    legend_beside_all(figure)
    return figure


def _draw_folds(
    ax: Axes, k: int, name: str, Cs: Vector, values: Vector, chosen: Sequence[float],
    *, band: bool,
) -> None:  # fmt: skip
    """Draw the mean over the folds, their range, and large markers at the chosen values of C."""
    mean, low, high = over_folds(values)
    if not np.isfinite(mean).any():
        return
    (drawn,) = ax.plot(Cs, mean, label=name, **line(k, 3.0))
    if band:
        ax.fill_between(Cs, low, high, color=drawn.get_color(), alpha=0.15, linewidth=0.0)
    marked = np.isin(Cs, np.asarray(chosen, dtype=np.float64))
    if marked.any():
        ax.plot(Cs[marked], mean[marked], linestyle="none", zorder=3, **marker(k, CHOSEN_SIZE))


def draw_convergence(
    figure: Figure, names: Sequence[str], distances: Sequence[Vector], seconds: Sequence[Vector],
    products: Sequence[Vector],
) -> Figure:  # fmt: skip
    """Draw the distance to the optimum against time and against Hessian-vector products.

    This is the form of figures 5 to 7 of Lee and Lin (2014).

    Parameters
    ----------
    figure : Figure
        An empty figure.
    names : sequence of str
        Names of the methods or solvers.
    distances : sequence of float64 arrays of shape (n_iterations,)
        (f − f*) / f* for the objective f after each iteration. Distances below 1e-16 are not drawn.
    seconds, products : sequences of float64 arrays of shape (n_iterations,)
        Time and products that were used up to each iteration. NaN leaves the point out, for
        example if a solver uses no products.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> distances, seconds = [np.array([1.0, 0.1, 1e-5])], [np.array([0.0, 0.2, 0.3])]
    >>> figure = draw_convergence(
    ...     Figure(), ["newton"], distances, seconds, [np.array([0, 8, 20])]
    ... )
    >>> [ax.get_yscale() for ax in figure.axes]
    ['log', 'log']
    """
    figure.set_layout_engine("constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for ax, found in zip(panels, (seconds, products), strict=True):
        for k, name in enumerate(short_names(names)):
            shown = np.where(distances[k] > LEAST_SHOWN, distances[k], np.nan)
            if np.isfinite(shown + found[k]).any():
                ax.plot(found[k], shown, label=name, **line(k))
        ends = [np.nanmax(used) for used in found if np.isfinite(used).any()]
        set_wide_scale(ax, "x", np.array(ends))
    panels[0].set_yscale("log")
    panels[0].set_ylabel("relative distance to the optimum")
    panels[0].set_xlabel("training time (s)")
    panels[1].set_xlabel("Hessian-vector products")
    legend_beside_all(figure)
    return figure


def draw_cutoffs(
    ax: Axes, names: Sequence[str], cutoffs: Sequence[int], values: Vector, *, metric: str = "NDCG"
) -> Axes:
    """Draw a metric against its cutoff k, such as NDCG@k.

    Parameters
    ----------
    ax : Axes
    names : sequence of str
        Names of the methods.
    cutoffs : sequence of int
        The values of k.
    values : float64 array of shape (n_methods, n_cutoffs)
        The metric; NaN if there is no result.
    metric : str
        Name of the metric without a cutoff.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> values = np.array([[0.40, 0.42], [0.41, 0.43]])
    >>> draw_cutoffs(Figure().subplots(), ["l1", "log"], [1, 2], values)
    <Axes: xlabel='k', ylabel='NDCG@k'>
    """
    for k, name in enumerate(short_names(names)):
        if np.isfinite(values[k]).any():
            ax.plot(cutoffs, values[k], label=name, **line(k, 4.5))
    ax.set_xlabel("k")
    ax.set_ylabel(f"{plain(metric)}@k")
    if len(cutoffs) <= MOST_TICKS:
        ax.set_xticks(cutoffs)
    else:
        ax.locator_params(axis="x", integer=True)
    legend_beside(ax)
    return ax


# --------------------------------------------------------------------------------------------------
# Pictures of tests: differences between two methods by query, and average ranks of many.


TIE = 1e-12  #: differences up to this are rounding, and count as ties
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
            alpha=(1.0, 0.6)[k], label=f"{labels[k]} is better: {count(n, 'query', 'queries')}",
        )  # fmt: skip
    ties = count(len(found) - wins - losses, "query", "queries")
    ax.plot([], [], " ", color=text_colour(), label=f"ties: {ties}")
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


# --------------------------------------------------------------------------------------------------
# Pictures with a point for each method: quality against sparsity or cost, and removed features.


PANELS_IN_A_ROW = 2
DATA_SET_LENGTH = 16  #: letters of the name of a data set, which is above a narrow panel
POINTS_HEIGHT = 2.4  #: inches of a panel without methods
ROOM_FOR_A_LABEL = 0.06  #: inches that a method adds to the height of a panel
REMOVED = "share of removed features (1 − sparsity ratio)"
ROW_SHIFT = 0.25  #: distance of the dots of two data sets, in rows
LEAST_OF_A_RADAR = 3  #: data sets below which a radar has no area


def draw_tradeoff(
    figure: Figure, names: Sequence[str], data_sets: Sequence[str], sparsity: Vector,
    values: Vector, *, metric: str,
) -> Figure:  # fmt: skip
    """Draw a metric against the sparsity ratio, with one panel for each data set.

    A dotted line shows the mean of the metric over the methods. This is figure 3 of
    Laporte et al. (2014). If the names of the methods do not fit beside their markers, numbers
    take their place, and a legend below the panels explains them.

    Parameters
    ----------
    figure : Figure
        An empty figure. Its height is set.
    names : sequence of str
        Names of the methods.
    data_sets : sequence of str
    sparsity : float64 array of shape (n_data_sets, n_methods)
        Features in use divided by features with values; NaN if there is no result.
    values : float64 array of shape (n_data_sets, n_methods)
        The metric; NaN if there is no result.
    metric : str
        Name of the metric.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> sparsity, values = np.array([[0.6, 0.2]]), np.array([[0.46, 0.47]])
    >>> figure = draw_tradeoff(Figure(), ["l1", "log"], ["MQ2007"], sparsity, values, metric="MAP")
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['log', 'l1']
    """
    figure.set_layout_engine("constrained")
    columns = min(PANELS_IN_A_ROW, len(data_sets))
    rows = -(-len(data_sets) // columns)
    figure.set_figheight((POINTS_HEIGHT + ROOM_FOR_A_LABEL * len(names)) * rows)
    panels = []
    for d, data_set in enumerate(short_names(data_sets, DATA_SET_LENGTH)):
        ax = figure.add_subplot(rows, columns, d + 1)
        mean = _draw_mean_line(ax, values[d][np.isfinite(sparsity[d])])
        _draw_marks(ax, numbered(names), sparsity[d], values[d])
        ax.set_xlim(-0.03, 1.03)
        known = np.isfinite(mean)
        ax.set_title(
            f"{data_set} (dotted: mean {mean:.4f})" if known else f"{data_set}: no results"
        )
        if d + columns >= len(data_sets):
            ax.set_xlabel("sparsity ratio (features in use / with values)")
        if d % columns == 0:
            ax.set_ylabel(plain(metric))
        corners = np.array([[0.0, mean], [1.0, mean]] if known else [])
        panels.append(Panel(ax, sparsity[d], values[d], corners))
    label_points(panels, names, lambda: legend_below_all(figure))
    return figure


def draw_pareto(
    ax: Axes, names: Sequence[str], costs: Vector, values: Vector, front: Mask, *, cost: str,
    metric: str,
) -> Axes:  # fmt: skip
    """Draw a metric against a cost such as training time, and join the Pareto front.

    The axis of the costs is logarithmic if they differ by orders of magnitude. If the names of
    the methods do not fit beside their markers, numbers take their place, and a legend beside
    the axes explains them.

    Parameters
    ----------
    ax : Axes
        Labels are placed for the present size of the axes; draw on other axes of the figure first.
    names : sequence of str
        Names of the methods.
    costs, values : float64 arrays of shape (n_methods,)
        The cost and the metric; NaN if there is no result.
    front : bool array of shape (n_methods,)
        Which methods are on the front.
    cost : str
        Description of the cost with its unit, such as ``"training time (s)"``.
    metric : str
        Name of the metric.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> seconds, values = np.array([0.1, 1.0, 9.0]), np.array([0.41, 0.47, 0.45])
    >>> front = np.array([True, True, False])
    >>> _ = draw_pareto(ax, ["a", "b", "c"], seconds, values, front, cost="time", metric="MAP")
    >>> ax.get_xscale(), [text.get_text() for text in ax.texts]
    ('log', ['a', 'b', 'c'])
    """
    known = np.isfinite(costs) & np.isfinite(values)
    joined = np.flatnonzero(known & front)
    joined = joined[np.lexsort((values[joined], costs[joined]))]
    ax.plot(
        costs[joined], values[joined], color=text_colour(), linestyle="--", linewidth=1.0,
        zorder=1.5,
    )  # fmt: skip
    _draw_marks(ax, numbered(names), costs, values)
    set_wide_scale(ax, "x", costs[known])
    ax.set_xlabel(plain(cost))
    ax.set_ylabel(plain(metric))
    ax.set_title("Pareto front (dashed)")
    front_line = np.column_stack([costs[joined], values[joined]])
    label_points([Panel(ax, costs, values, front_line)], names, lambda: legend_beside(ax))
    return ax


def _draw_marks(ax: Axes, labels: Sequence[str], x: Vector, y: Vector) -> None:
    """Draw a marker for each method that has a result."""
    for k in np.flatnonzero(np.isfinite(x) & np.isfinite(y)):
        ax.plot(x[k], y[k], linestyle="none", label=labels[int(k)], **marker(int(k), 6.0))
    ax.margins(0.12)


def _draw_mean_line(ax: Axes, values: Vector) -> float:
    """Draw a line at the mean of the values that are not NaN, and return it."""
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) else np.nan
    ax.axhline(mean, color=text_colour(), linestyle=":", linewidth=1.0, zorder=1.5)
    return mean


def draw_removed(
    figure: Figure, names: Sequence[str], data_sets: Sequence[str], sparsity: Vector
) -> Figure:
    """Draw the share of removed features, 1 − sparsity ratio, over the data sets, as a radar.

    This is figure 2 of Laporte et al. (2014): larger is sparser. A radar of fewer than three data
    sets has no area. Then a row for each method is drawn instead, with a dot for each data set.

    Parameters
    ----------
    figure : Figure
        An empty figure. Its height is set.
    names : sequence of str
        Names of the methods.
    data_sets : sequence of str
    sparsity : float64 array of shape (n_data_sets, n_methods)
        Features in use divided by features with values; NaN if there is no result.

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> sparsity = np.array([[0.28, 0.12], [0.39, 0.09], [0.6, 0.29]])
    >>> names, data_sets = ["l1", "log"], ["Ohsumed", "MQ2008", "MQ2007"]
    >>> draw_removed(Figure(), names, data_sets, sparsity).axes[0].name
    'polar'
    >>> draw_removed(Figure(), names, data_sets[:2], sparsity[:2]).axes[0].name
    'rectilinear'
    """
    figure.set_layout_engine("constrained")
    if len(data_sets) < LEAST_OF_A_RADAR:
        figure.set_figheight(1.3 + 0.25 * len(names))
        _draw_dots(figure.add_subplot(), names, data_sets, 1.0 - sparsity)
        legend_beside_all(figure)
    else:
        figure.set_figheight(4.2)
        ax = cast("PolarAxes", figure.add_subplot(projection="polar"))
        _draw_radar(ax, names, data_sets, 1.0 - sparsity)
        legend_below_all(figure)
    return figure


def _draw_radar(
    ax: PolarAxes, names: Sequence[str], data_sets: Sequence[str], shares: Vector
) -> None:
    angles = np.linspace(0.0, 2 * np.pi, len(data_sets), endpoint=False)
    around = np.append(angles, 2 * np.pi)
    for k, name in enumerate(short_names(names)):
        if np.isfinite(shares[:, k]).any():
            ax.plot(around, np.append(shares[:, k], shares[0, k]), label=name, **line(k))
    ax.set_theta_zero_location("N")
    ax.set_theta_direction(-1)
    ax.set_xticks(angles, short_names(data_sets, DATA_SET_LENGTH))
    for angle, text in zip(angles, ax.get_xticklabels(), strict=True):
        side = np.round(np.sin(angle), 6)  # to the right of the centre if it is positive
        text.set_horizontalalignment("left" if side > 0 else "right" if side < 0 else "center")
    ax.tick_params(axis="x", pad=1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_yticks([0.25, 0.5, 0.75, 1.0])
    ax.set_rlabel_position(np.rad2deg(angles[1] / 2))  # between the axes of two data sets
    ax.set_title(REMOVED, pad=12.0)


def _draw_dots(ax: Axes, names: Sequence[str], data_sets: Sequence[str], shares: Vector) -> None:
    rows = np.arange(len(names))
    for d, data_set in enumerate(short_names(data_sets, DATA_SET_LENGTH)):
        shift = ROW_SHIFT * (d - (len(data_sets) - 1) / 2)  # equal shares do not hide each other
        ax.plot(shares[d], rows + shift, linestyle="none", label=data_set, **marker(d, 6.0))
    ax.set_yticks(rows, short_names(names))
    ax.set_ylim(len(names) - 0.5, -0.5)  # the first name is on top
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel(REMOVED)
