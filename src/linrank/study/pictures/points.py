"""Pictures with a point for each method: quality against sparsity or cost, and removed features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from ..._draw import plain
from ..._typing import Mask, Vector
from .labels import Panel, label_points
from .marks import (
    legend_below_all,
    legend_beside,
    legend_beside_all,
    line,
    marker,
    numbered,
    set_wide_scale,
    short_names,
    text_colour,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

PANELS_IN_A_ROW = 2
DATA_SET_LENGTH = 16  #: letters of the name of a data set, which is above a narrow panel
PANEL_HEIGHT = 2.4  #: inches of a panel without methods
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
    figure.set_figheight((PANEL_HEIGHT + ROOM_FOR_A_LABEL * len(names)) * rows)
    panels = []
    for d, data_set in enumerate(short_names(data_sets, DATA_SET_LENGTH)):
        ax = figure.add_subplot(rows, columns, d + 1)
        mean = _draw_mean(ax, values[d][np.isfinite(sparsity[d])])
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


def _draw_mean(ax: Axes, values: Vector) -> float:
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
