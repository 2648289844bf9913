"""Plots of curves and surfaces: the form, the training documents, the band and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._util.checks import known_names
from .._util.text import NEGATIVE, POSITIVE
from .._util.types import Integers, Vector
from ..errors import DataError
from . import COLOURS, REST, drawn, drawn_figure, number_text, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from typing_extensions import TypeIs

    from ..features.basis import Axis
    from ..model.additive import AdditiveModel
    from ..model.curves import Curve, Surface


# --------------------------------------------------------------------------------------------------
# Plots of surfaces as heat maps, in colours that colour-blind readers can distinguish.


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

    Every cell has the same room. A cross marks cells without training documents, and a dot cells
    whose band contains 0. `length` is the number of characters of a name.
    """
    views = [
        _SurfaceView.of(axis, _totals(surface, k), n_labels) for k, axis in enumerate(surface.axes)
    ]
    drawn_cells, mean = np.ix_(views[0].cells, views[1].cells), surface.mean or 0.0
    shown = surface.values[drawn_cells] - mean
    edges = [np.arange(len(view.cells) + 1) for view in views]
    mesh = ax.pcolormesh(*edges, shown.T, cmap=_colours(), vmin=-largest, vmax=largest)
    empty = np.zeros(shown.shape, bool)
    if surface.counts is not None:
        empty = surface.counts[drawn_cells] == 0
    marks = {"x": empty}
    if surface.band is not None:
        low, high = (limit[drawn_cells] - mean for limit in surface.band)
        marks["."] = (low <= 0.0) & (high >= 0.0) & ~empty
    for mark, cells in marks.items():
        x, y = np.nonzero(cells)
        if len(x):
            ax.plot(x + 0.5, y + 0.5, mark, color="#666666", markersize=3.0, markeredgewidth=0.7)
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


class _SurfaceView(NamedTuple):
    """The cells of an axis that are drawn, and its labels."""

    cells: Integers
    places: list[float]
    labels: list[str]

    @classmethod
    def of(cls, axis: Axis, counts: Integers | None, n_labels: int) -> _SurfaceView:
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


# --------------------------------------------------------------------------------------------------
# Plots of curves and surfaces: the form, the training documents, the band and missing values.


PAGE_HEIGHT = 2.8  #: height of a plot of its own, in inches
COLUMNS = 3  #: plots in a row of a grid
SIZE = 2.5, 1.85  #: width and height of a plot of a grid, in inches
MARGIN = 0.6  #: room beyond the outer knots, in mean widths of a cell
READABLE = 0.4  #: least median width of a cell on an axis of values, in mean widths of a cell
HISTOGRAM = 0.2  #: height of the histogram, as a share of the plot
LABELS = 2, 9  #: labels on an axis of a surface in a grid, and in a plot of its own
WIDTHS = 24, 80  #: letters below an axis of a plot of a grid, and of a plot of its own
LETTERS = 8  #: letters of a label, and the room beside it
POINTS = 12  #: points of a polynomial in a cell
NAME_LENGTH = 16  #: characters of a name above a plot of a grid


class PlottedPart(NamedTuple):
    """A curve or a surface, with the names of its features."""

    function: Curve | Surface
    names: Sequence[str]

    @property
    def title(self) -> str:
        """The name of the feature, or of the pair."""
        return " × ".join(self.names)


def is_surface(function: Curve | Surface) -> TypeIs[Surface]:
    """Tell whether a function has two features. This room is below that of models."""
    return hasattr(function, "axes")


def plot_curve(model: AdditiveModel, feature: int | str, ax: Axes | None) -> Axes:
    """Draw one curve or surface; see `AdditiveModel.plot_curve`."""
    drawings = model.drawings()
    by_title = {part.title: [part] for parts in drawings.values() for part in parts}
    if isinstance(feature, str):
        names = model.part_names()
        if feature not in {*names, *by_title}:
            raise DataError(f"feature is {feature!r}; {known_names(feature, names)}")
        shown = drawings.get(names.index(feature)) if feature in names else by_title[feature]
    else:
        shown = drawings.get(feature)
    if shown is None:
        raise DataError(f"feature {feature} has no curve, because it has no part in the score")
    if len(shown) == 1:
        return drawn(lambda axes: draw_one(axes, shown[0]), ax, PAGE_HEIGHT)
    if ax is not None:
        raise DataError(
            f"feature {feature!r} has two curves, but ax is one plot. Use ax=None, or draw one of "
            f"them, such as feature={shown[1].title!r}."
        )
    return drawn_figure(lambda figure: draw_grid(figure, shown), grid_size(len(shown)))


def draw_curves(model: AdditiveModel, figure: Figure, top: int) -> Axes:
    """Draw the most important curves and surfaces on a figure, and return the first axes."""
    drawings = model.drawings()
    shown = [drawings[part] for part in model.ordered().tolist() if part in drawings][:top]
    if not shown:
        raise DataError("this model has no curves to plot")
    return draw_grid(figure, [one for parts in shown for one in parts])


def _columns(n_parts: int) -> int:
    """Return the number of plots in a row: at most `COLUMNS`, and two for four plots."""
    return 2 if n_parts == 4 else min(COLUMNS, n_parts)


def grid_size(n_parts: int) -> tuple[float, float]:
    """Return the width and height of a grid of plots, in inches."""
    n_columns = _columns(n_parts)
    n_rows = -(-n_parts // n_columns)
    return SIZE[0] * n_columns, 0.2 + SIZE[1] * n_rows


def draw_grid(figure: Figure, parts: Sequence[PlottedPart]) -> Axes:
    """Draw curves and surfaces in a grid, and return the first axes.

    All curves have the same range of values, and all surfaces the same colours.
    """
    surfaces = [part.function for part in parts if is_surface(part.function)]
    curves = [part.function for part in parts if not is_surface(part.function)]
    limits = _common_limits(curves)
    n_columns = _columns(len(parts))
    axes = figure.subplots(-(-len(parts) // n_columns), n_columns, squeeze=False).ravel()
    for ax, part in zip(axes, parts, strict=False):
        if is_surface(part.function):
            largest = largest_value(surfaces)
            draw_surface(ax, part.function, part.names, largest, LABELS[0], NAME_LENGTH)
        else:
            draw_curve(ax, part.function, limits, WIDTHS[0])
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


def draw_one(ax: Axes, part: PlottedPart) -> None:
    """Draw a curve or a surface on axes of their own, with all labels."""
    if is_surface(part.function):
        largest = largest_value([part.function])
        draw_surface(ax, part.function, part.names, largest, LABELS[1], 2 * NAME_LENGTH)
    else:
        draw_curve(ax, part.function, _common_limits([part.function]), WIDTHS[1])
        ax.set_ylabel("contribution to the score")
    ax.set_title(short(part.title, 4 * NAME_LENGTH))


def draw_curve(ax: Axes, curve: Curve, limits: tuple[float, float], n_letters: int) -> None:
    """Draw a curve, minus its mean, above a histogram of the training documents.

    Missing values are an open circle on the right, and levels are points. The axis is described by
    `_Scale`; short marks are knots. Labels have about `n_letters` letters together.
    """
    view = _CurveView.of(curve)
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
    _set_ticks(ax, curve, view, n_letters)


@dataclass(frozen=True)
class _Scale:
    """Where the knots of ordered values are on the axis of a plot.

    Knots are placed by their values. If a few cells would then take most of the axis, they are
    placed by their logarithms, and 0 has a place of its own. If there are negative values, or if
    logarithms do not help, every cell has the same room.
    """

    name: Literal["values", "log", "knots"]
    knots: Vector
    places: Vector

    @classmethod
    def of(cls, knots: Vector) -> _Scale:
        if _is_readable(knots):
            return cls("values", knots, knots)
        has_zero = int(len(knots) > 0 and knots[0] == 0.0)
        if len(knots) > has_zero + 1 and knots[has_zero] > 0.0:
            places = np.log10(knots[has_zero:])
            zero = places[:has_zero] - np.diff(places).mean()
            places = np.append(zero, places)
            if _is_readable(places):
                return cls("log", knots, places)
        return cls("knots", knots, np.arange(len(knots) * 1.0))

    def inside(self, places: Vector, cell: int, axis: Axis) -> Vector:
        """Return t, where a value is in a cell of the axis, for places on the plot."""
        knot = max(0, cell - 1)
        if self.name == "log" and self.knots[knot] > 0.0:
            return (10.0**places - axis.anchors[cell]) / axis.widths[cell]
        width = np.diff(self.places)[min(knot, len(self.places) - 2)] if len(self.places) > 1 else 1
        return (places - self.places[knot]) / width


def _is_readable(places: Vector) -> bool:
    """Return whether no few cells between knots take most of an axis."""
    widths = np.diff(places)
    return len(widths) > 0 and bool(np.median(widths) >= READABLE * widths.mean())


@dataclass(frozen=True)
class _CurveView:
    """Where the parts of a curve are drawn.

    Attributes
    ----------
    edges : float64 array of shape (n_cells,)
        Borders of the cells on the axis, without that of missing values.
    scale : _Scale or None
        The scale of ordered values; None for levels.
    missing : float or None
        Place of missing values; None if there are none in the training data.
    mean : float
        What is subtracted from the curve.
    """

    edges: Vector
    scale: _Scale | None
    missing: float | None
    mean: float

    @classmethod
    def of(cls, curve: Curve) -> _CurveView:
        scale, edges = _edges(curve)
        unit = np.diff(edges).mean() if len(edges) > 1 else 1.0
        has_missing = curve.counts is None or curve.counts[-1] > 0
        place = float(edges[-1] + 0.9 * unit) if has_missing else None
        return cls(edges, scale, place, curve.mean or 0.0)

    @property
    def unit(self) -> float:
        """The mean width of a cell."""
        return float(np.diff(self.edges).mean()) if len(self.edges) > 1 else 1.0

    def line(self, curve: Curve, pieces: Vector) -> tuple[Vector, Vector]:
        """Return the places and the values of a curve with these pieces, cell by cell."""
        scale = self.scale
        assert scale is not None
        n_points = POINTS if pieces.shape[1] > 2 or scale.name == "log" else 2
        inside = np.linspace(0.0, 1.0, n_points)
        x, y = [], []
        for cell, (a, b) in enumerate(pairwise(self.edges)):
            x.append(a + inside * (b - a))
            t = scale.inside(x[-1], cell, curve.axis) if len(scale.places) else 0.0 * inside
            y.append(np.polynomial.polynomial.polyval(t, pieces[cell]) - self.mean)
        return np.concatenate(x), np.concatenate(y)

    def levels(self, curve: Curve) -> tuple[Vector, Vector]:
        """Return the places and the values of the levels."""
        n_levels = len(self.edges) - 1
        return np.arange(n_levels, dtype=np.float64), curve.pieces[:n_levels, 0] - self.mean


def _edges(curve: Curve) -> tuple[_Scale | None, Vector]:
    """Return the scale of the axis, and the borders of the cells on it."""
    knots = curve.axis.knots
    if curve.axis.levels:
        other = curve.counts is None or curve.counts[-2] > 0
        return None, np.arange(len(knots) + (2.0 if other else 1.0)) - 0.5
    scale = _Scale.of(knots)
    places = scale.places
    if not len(places):
        return scale, np.array([-0.5, 0.5])
    margin = MARGIN * (np.diff(places).mean() if len(places) > 1 else 1.0)
    return scale, np.concatenate([places[:1] - margin, places, places[-1:] + margin])


def _common_limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return the lowest and the highest value that is drawn; bands may be cut."""
    values, bands = [np.zeros(1)], [np.zeros(1)]
    for curve in curves:
        view = _CurveView.of(curve)
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


def _draw_band(ax: Axes, curve: Curve, view: _CurveView) -> None:
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


def _draw_histogram(ax: Axes, curve: Curve, view: _CurveView) -> None:
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


def _set_ticks(ax: Axes, curve: Curve, view: _CurveView, n_letters: int) -> None:
    """Label some knots or levels, and below them the places of other levels and missing values."""
    right = view.edges[-1]
    ax.set_xlim(view.edges[0], right if view.missing is None else view.missing + 0.6 * view.unit)
    below = "\n"
    places, labels = _labelled(curve, view, n_letters)
    if curve.axis.levels and len(view.edges) - 1 > len(curve.axis.knots):
        places, labels = [*places, float(len(curve.axis.knots))], [*labels, f"{below}other"]
        below = "\n\n"
    if view.missing is not None:
        places, labels = [*places, view.missing], [*labels, f"{below}missing"]
    ax.set_xticks(places, labels)
    ax.tick_params(labelsize="small")
    if view.scale is None or view.scale.name == "values" or len(curve.axis.knots) < 2:
        return
    ax.set_xticks(view.scale.places, minor=True)
    text = "logarithmic" if view.scale.name == "log" else "evenly spaced knots"
    ax.annotate(
        text, (0.0, 0.0), (0.0, -15.0), xycoords="axes fraction", va="top",
        textcoords="offset points", fontsize="small", fontstyle="italic", color="#666666",
    )  # fmt: skip


def _labelled(curve: Curve, view: _CurveView, n_letters: int) -> tuple[list[float], list[str]]:
    """Return places on the axis and their labels, which have about `n_letters` letters together."""
    knots, scale = curve.axis.knots, view.scale
    if scale is not None and scale.name == "values":
        return _round_ticks(knots[0], knots[-1], n_letters // LETTERS)
    texts = list(map(number_text, knots))
    if scale is not None and scale.name == "log":
        has_zero = int(knots[0] == 0.0)
        places, labels = _powers_of_ten(scale.places[has_zero:], n_letters // LETTERS)
        if len(places) > 1:
            return [*scale.places[:has_zero], *places], [*texts[:has_zero], *labels]
    longest = max(map(len, texts), default=1)
    most = min(len(knots), max(2, n_letters // (longest + 3)))
    chosen = np.linspace(0, len(knots) - 1, most).round().astype(int).tolist()
    return [float(k if scale is None else scale.places[k]) for k in chosen], [
        texts[k] for k in chosen
    ]


def _powers_of_ten(places: Vector, n_labels: int) -> tuple[list[float], list[str]]:
    """Return some powers of ten between the first and the last logarithm, and their texts."""
    found = np.arange(np.ceil(places[0]), np.floor(places[-1]) + 1.0)
    found = found[:: max(1, -(-len(found) // n_labels))]
    return found.tolist(), [number_text(10.0**power) for power in found]


def _round_ticks(low: float, high: float, n_labels: int) -> tuple[list[float], list[str]]:
    """Return round numbers between two values, and their texts."""
    from matplotlib.ticker import MaxNLocator

    found = np.asarray(MaxNLocator(n_labels).tick_values(low, high))
    places = found[(found >= low) & (found <= high)].tolist()
    return places, [number_text(place) for place in places]
