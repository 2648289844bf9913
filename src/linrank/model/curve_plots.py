"""Plots of curves and surfaces: the form, the training documents, the band and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._draw import COLOURS, REST, number_text, short
from .._typing import Vector
from .curves import Curve, Surface
from .heat_maps import draw_surface, largest_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE_HEIGHT = 2.8  #: height of a plot of its own, in inches
COLUMNS = 3  #: plots in a row of a grid
SIZE = 2.5, 1.85  #: width and height of a plot of a grid, in inches
MARGIN = 0.6  #: room beyond the outer knots, in mean widths of a cell
READABLE = 0.4  #: least median width of a cell on an axis of values, in mean widths of a cell
HISTOGRAM = 0.2  #: height of the histogram, as a share of the plot
LABELS = 3, 9  #: labels on an axis of a plot of a grid, and of a plot of its own
POINTS = 12  #: points of a polynomial in a cell
NAME_LENGTH = 16  #: characters of a name above a plot of a grid


class Part(NamedTuple):
    """A curve or a surface, with the names of its features."""

    function: Curve | Surface
    names: Sequence[str]

    @property
    def title(self) -> str:
        """The name of the feature, or of the pair."""
        return " × ".join(self.names)


def _columns(n_parts: int) -> int:
    """Return the number of plots in a row: at most `COLUMNS`, and two for four plots."""
    return 2 if n_parts == 4 else min(COLUMNS, n_parts)


def grid_size(n_parts: int) -> tuple[float, float]:
    """Return the width and height of a grid of plots, in inches."""
    n_columns = _columns(n_parts)
    n_rows = -(-n_parts // n_columns)
    return SIZE[0] * n_columns, 0.2 + SIZE[1] * n_rows


def draw_grid(figure: Figure, parts: Sequence[Part]) -> Axes:
    """Draw curves and surfaces in a grid, and return the first axes.

    All curves have the same range of values, and all surfaces the same colours.
    """
    curves = [part.function for part in parts if isinstance(part.function, Curve)]
    surfaces = [part.function for part in parts if isinstance(part.function, Surface)]
    limits = _common_limits(curves)
    n_columns = _columns(len(parts))
    axes = figure.subplots(-(-len(parts) // n_columns), n_columns, squeeze=False).ravel()
    for ax, part in zip(axes, parts, strict=False):
        if isinstance(part.function, Surface):
            largest = largest_value(surfaces)
            draw_surface(ax, part.function, part.names, largest, LABELS[0] - 1, NAME_LENGTH)
        else:
            draw_curve(ax, part.function, limits, LABELS[0])
            ax.set_title(short(part.title, NAME_LENGTH), fontsize=8.5)
        if part.function.spread is not None:
            spread = f"{part.function.spread:.2g}"
            ax.set_title(spread, loc="right", fontsize="small", color="#666666")
    for ax in axes[len(parts) :]:
        ax.remove()
    if curves:
        figure.supylabel("contribution to the score", fontsize="medium")
    first: Axes = axes[0]
    return first


def draw_one(ax: Axes, part: Part) -> None:
    """Draw a curve or a surface on axes of their own, with all labels."""
    if isinstance(part.function, Surface):
        largest = largest_value([part.function])
        draw_surface(ax, part.function, part.names, largest, LABELS[1], 2 * NAME_LENGTH)
    else:
        draw_curve(ax, part.function, _common_limits([part.function]), LABELS[1])
        ax.set_ylabel("contribution to the score")
    ax.set_title(short(part.title, 4 * NAME_LENGTH))


def draw_curve(ax: Axes, curve: Curve, limits: tuple[float, float], n_labels: int) -> None:
    """Draw a curve, minus its mean, above a histogram of the training documents.

    Missing values are an open circle on the right, and levels are points. If a few cells would take
    most of an axis of values, every cell has the same room.
    """
    view = _View.of(curve)
    style: dict[str, Any] = {"color": COLOURS[0], "linewidth": 1.6, "zorder": 3}
    ax.axhline(0.0, color="#666666", linewidth=0.8)
    if curve.axis.levels:
        x, y = view.levels(curve)
        ax.plot(x, y, "o", markersize=4.0, **style)
    else:
        x, y = view.line(curve, curve.pieces)
        ax.plot(x, y, **style)
    _draw_band(ax, curve, view)
    if view.missing is not None:
        value = curve.pieces[-1, 0] - view.mean
        ax.plot([view.missing], [value], "o", markersize=4.5, markerfacecolor="none", **style)
    _draw_histogram(ax, curve, view)
    low, high = limits
    room = (high - low) / (1.0 - HISTOGRAM - 0.08) * (HISTOGRAM + 0.03)
    ax.set_ylim(low - room, high + 0.25 * room)
    _set_ticks(ax, curve, view, n_labels)


@dataclass(frozen=True)
class _View:
    """Where the parts of a curve are drawn.

    Attributes
    ----------
    edges : float64 array of shape (n_cells,)
        Borders of the cells on the axis, without that of missing values.
    to_scale : bool
        Whether places on the axis are values.
    missing : float or None
        Place of missing values; None if there are none in the training data.
    mean : float
        What is subtracted from the curve.
    """

    edges: Vector
    to_scale: bool
    missing: float | None
    mean: float

    @classmethod
    def of(cls, curve: Curve) -> _View:
        to_scale, edges = _edges(curve)
        unit = np.diff(edges).mean() if len(edges) > 1 else 1.0
        has_missing = curve.counts is None or curve.counts[-1] > 0
        place = float(edges[-1] + 0.9 * unit) if has_missing else None
        return cls(edges, to_scale, place, curve.mean or 0.0)

    @property
    def unit(self) -> float:
        """The mean width of a cell."""
        return float(np.diff(self.edges).mean()) if len(self.edges) > 1 else 1.0

    def line(self, curve: Curve, pieces: Vector) -> tuple[Vector, Vector]:
        """Return the places and the values of a curve with these pieces, cell by cell."""
        n_points = POINTS if pieces.shape[1] > 2 else 2
        inside, widths = np.linspace(0.0, 1.0, n_points), np.diff(self.edges)
        x, y = [], []
        last = len(widths) - 1
        for cell, (a, b) in enumerate(pairwise(self.edges)):
            t = inside
            if cell in (0, last):  # t is counted in widths of the neighbour
                neighbour = widths[min(max(cell, 1), max(last - 1, 0))]
                t = (inside - (cell == 0)) * (b - a) / neighbour
            x.append(a + inside * (b - a))
            y.append(np.polynomial.polynomial.polyval(t, pieces[cell]) - self.mean)
        return np.concatenate(x), np.concatenate(y)

    def levels(self, curve: Curve) -> tuple[Vector, Vector]:
        """Return the places and the values of the levels."""
        n_levels = len(self.edges) - 1
        return np.arange(n_levels, dtype=np.float64), curve.pieces[:n_levels, 0] - self.mean


def _edges(curve: Curve) -> tuple[bool, Vector]:
    """Return whether the axis is one of values, and the borders of the cells on it."""
    knots, widths = curve.axis.knots, np.diff(curve.axis.knots)
    if curve.axis.levels:
        other = curve.counts is None or curve.counts[-2] > 0
        return False, np.arange(len(knots) + (2.0 if other else 1.0)) - 0.5
    if not len(knots):
        return False, np.array([-0.5, 0.5])
    to_scale = len(knots) > 1 and bool(np.median(widths) >= READABLE * widths.mean())
    places = knots if to_scale else np.arange(len(knots) * 1.0)
    margin = MARGIN * (widths.mean() if to_scale else 1.0)
    return to_scale, np.concatenate([places[:1] - margin, places, places[-1:] + margin])


def _common_limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return the lowest and the highest value that is drawn; bands may be cut."""
    values, bands = [np.zeros(1)], [np.zeros(1)]
    for curve in curves:
        view = _View.of(curve)
        read = view.levels if curve.axis.levels else lambda c, v=view: v.line(c, c.pieces)
        values.append(read(curve)[1])
        if view.missing is not None:
            values.append(curve.pieces[-1:, 0] - view.mean)
        bands += [part[:, 0] - view.mean for part in curve.band or ()]
    found, around = np.concatenate(values), np.concatenate(bands)
    low, high = float(found.min()), float(found.max())
    room = 0.3 * (high - low)
    low, high = max(low - room, min(low, around.min())), min(high + room, max(high, around.max()))
    return (low, high) if high > low else (low - 1.0, high + 1.0)


def _draw_band(ax: Axes, curve: Curve, view: _View) -> None:
    """Draw the limits of a curve: an area, or lines at single points."""
    if curve.band is None:
        return
    lower, upper = curve.band
    if not curve.axis.levels:
        x, low = view.line(curve, lower)
        high = view.line(curve, upper)[1]
        ax.fill_between(x, low, high, color=COLOURS[0], alpha=0.2, linewidth=0.0)
    cells = list(range(len(view.edges) - 1)) if curve.axis.levels else []
    places = [float(cell) for cell in cells]
    if view.missing is not None:
        cells, places = [*cells, len(lower) - 1], [*places, view.missing]
    low, high = lower[cells, 0] - view.mean, upper[cells, 0] - view.mean
    ax.vlines(places, low, high, color=COLOURS[0], alpha=0.4, linewidth=1.6)


def _draw_histogram(ax: Axes, curve: Curve, view: _View) -> None:
    """Draw the density of the training documents along the bottom."""
    if curve.counts is None or not curve.counts.any():
        return
    widths = np.diff(view.edges)
    heights = curve.counts[: len(widths)] / widths
    left = view.edges[:-1]
    if curve.axis.levels:
        left, widths = left + 0.2, np.full(len(widths), 0.6)
    if view.missing is not None:
        left = np.append(left, view.missing - 0.3 * view.unit)
        widths = np.append(widths, 0.6 * view.unit)
        heights = np.append(heights, curve.counts[-1] / (0.6 * view.unit))
    heights = HISTOGRAM * heights / heights.max()
    ax.bar(
        left, heights, widths, align="edge", color=REST, alpha=0.45, linewidth=0.0,
        transform=ax.get_xaxis_transform(),
    )  # fmt: skip


def _set_ticks(ax: Axes, curve: Curve, view: _View, n_labels: int) -> None:
    """Label some knots or levels, and below them the places of other levels and missing values."""
    knots, right = curve.axis.knots, view.edges[-1]
    ax.set_xlim(view.edges[0], right if view.missing is None else view.missing + 0.6 * view.unit)
    below = "\n"
    if view.to_scale:
        places, labels = _round_ticks(knots[0], knots[-1], n_labels)
    else:
        most = min(len(knots), 2 * n_labels if curve.axis.levels else n_labels)
        chosen = np.linspace(0, len(knots) - 1, most).round().astype(int)
        places, labels = chosen.tolist(), [number_text(knots[k]) for k in chosen]
        if curve.axis.levels and len(view.edges) - 1 > len(knots):
            places, labels = [*places, float(len(knots))], [*labels, f"{below}other"]
            below = "\n\n"
    if view.missing is not None:
        places, labels = [*places, view.missing], [*labels, f"{below}missing"]
    ax.set_xticks(places, labels)
    ax.tick_params(labelsize="small")
    if not (view.to_scale or curve.axis.levels) and len(knots) > 1:
        ax.annotate(
            "not to scale", (0.0, 0.0), (0.0, -15.0), xycoords="axes fraction", va="top",
            textcoords="offset points", fontsize="small", fontstyle="italic", color="#666666",
        )  # fmt: skip


def _round_ticks(low: float, high: float, n_labels: int) -> tuple[list[float], list[str]]:
    """Return round numbers between two values, and their texts."""
    from matplotlib.ticker import MaxNLocator

    found = np.asarray(MaxNLocator(n_labels).tick_values(low, high))
    places = found[(found >= low) & (found <= high)].tolist()
    return places, [number_text(place) for place in places]
