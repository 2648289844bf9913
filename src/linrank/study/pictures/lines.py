"""Pictures with a line for each method: along C, during training, and along the cutoffs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..._draw import C_AXIS, LEAST_SHOWN, plain
from ..._typing import Vector
from .marks import (
    legend_beside,
    legend_beside_all,
    line,
    marker,
    over_folds,
    set_wide_scale,
    short_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
