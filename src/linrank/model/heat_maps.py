"""Plots of surfaces as heat maps, in colours that colour-blind readers can distinguish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._draw import number_text, short
from .._tables import NEGATIVE, POSITIVE
from .._typing import Integers
from ..features.axis import Axis
from .curves import Surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

#: Steps of the colours: an odd number, so that 0 has a colour of its own. With 50 or more,
#: matplotlib would make the colour bar of an .svg file a bitmap, which pages do not load.
N_COLOURS = 33


def largest_value(surfaces: Sequence[Surface]) -> float:
    """Return the largest distance of a surface from its mean, for a common scale of colours."""
    found = [np.abs(surface.values - (surface.mean or 0.0)).max() for surface in surfaces]
    return float(max(found, default=0.0)) or 1.0


def draw_surface(
    ax: Axes, surface: Surface, names: Sequence[str], largest: float, n_labels: int, length: int
) -> None:  # fmt: skip
    """Draw a surface, minus its mean: blue where it raises the score, vermilion where it lowers it.

    Every cell has the same room. A cross marks cells without training documents. `length` is the
    number of characters of a name.
    """
    views = [_View.of(axis, _totals(surface, k), n_labels) for k, axis in enumerate(surface.axes)]
    shown = surface.values[np.ix_(views[0].cells, views[1].cells)] - (surface.mean or 0.0)
    edges = [np.arange(len(view.cells) + 1) for view in views]
    mesh = ax.pcolormesh(*edges, shown.T, cmap=_colours(), vmin=-largest, vmax=largest)
    if surface.counts is not None:
        empty = surface.counts[np.ix_(views[0].cells, views[1].cells)] == 0
        x, y = np.nonzero(empty)
        ax.plot(x + 0.5, y + 0.5, "x", color="#666666", markersize=3.0, markeredgewidth=0.7)
    below = [f"\n{text}" if text.isalpha() else text for text in views[0].labels]
    ax.set_xticks(views[0].places, below)
    ax.set_yticks(views[1].places, views[1].labels)
    ax.grid(visible=False)
    ax.tick_params(labelsize="small")
    ax.set_xlabel(short(names[0], length), fontsize="small")
    ax.set_ylabel(short(names[1], length), fontsize="small")
    bar = ax.figure.colorbar(mesh, ax=ax, fraction=0.08, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize="small", length=2.0)
    bar.set_ticks([-largest, 0.0, largest], labels=[f"{-largest:.2g}", "0", f"{largest:.2g}"])


class _View(NamedTuple):
    """The cells of an axis that are drawn, and its labels."""

    cells: Integers
    places: list[float]
    labels: list[str]

    @classmethod
    def of(cls, axis: Axis, counts: Integers | None, n_labels: int) -> _View:
        n_knots = len(axis.knots)
        n_plain = n_knots if axis.levels else n_knots + 1
        names = {n_knots: "other"} if axis.levels else {}
        names[n_knots + 1] = "missing"
        more = [cell for cell in names if counts is None or counts[cell] > 0]
        cells = np.array([*range(n_plain), *more], np.int64)
        chosen = np.unique(np.linspace(0, n_knots - 1, min(n_labels, n_knots)).round())
        shift = 0.5 if axis.levels else 1.0  # of a level, and of the border that a knot is
        places = [float(k) + shift for k in chosen]
        labels = [number_text(axis.knots[int(k)]) for k in chosen]
        places += [n_plain + k + 0.5 for k in range(len(more))]
        return cls(cells, places, labels + [names[cell] for cell in more])


def _totals(surface: Surface, axis: int) -> Integers | None:
    """Return the training documents in each cell of one axis."""
    return None if surface.counts is None else surface.counts.sum(axis=1 - axis)


def _colours() -> Colormap:
    from matplotlib.colors import LinearSegmentedColormap

    steps = [NEGATIVE, "#f7f7f7", POSITIVE]
    return LinearSegmentedColormap.from_list("linrank", steps, N=N_COLOURS)
