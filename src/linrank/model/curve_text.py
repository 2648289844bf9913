"""Curves and surfaces as short texts, for terminals and tables."""

from __future__ import annotations

import numpy as np

from .._typing import Vector
from .curves import Curve, Surface

BLOCKS = "▁▂▃▄▅▆▇█"  #: from the lowest to the highest value
ROUNDING = 1e-12  #: smaller parts of the size of a curve are shown as 0
WIDTH = 16  #: characters of a curve
LARGEST_SURFACE = 30  #: cells of a surface that is shown as text


def text_of_curve(curve: Curve) -> str:
    """Return a curve as a row of blocks: its heights in equal steps of its cells.

    Each cell between two knots has the same room, so that heavy tails take no more room than other
    parts. Levels have one block each. The lowest and the highest block are the extremes of the
    curve, so only the form of two curves can be compared.

    Examples
    --------
    >>> from linrank.features.axis import Axis
    >>> line = Curve(0, Axis([0.0, 9.0, 10.0]), [[0, 0], [0, 1], [1, 1], [2, 0], [0, 0]])
    >>> text_of_curve(line)
    '▁▁▂▂▃▃▄▄▅▅▆▆▇▇██'
    """
    return _blocks(_heights(curve))


def text_of_surface(surface: Surface) -> str:
    """Return a surface as groups of blocks: one group per cell of the first feature.

    Cells of missing values and of other levels are left out. Large surfaces are shown as "…".

    Examples
    --------
    >>> from linrank.features.axis import Axis
    >>> axes = Axis([0.5]), Axis([0.5])
    >>> text_of_surface(Surface((0, 1), axes, [[0, 0, 0], [0, 7, 0], [0, 0, 0]]))
    '▁▁ ▁█'
    """
    rows, columns = (axis.n_cells - (2 if axis.levels else 1) for axis in surface.axes)
    values = surface.values[:rows, :columns]
    if not 0 < values.size <= LARGEST_SURFACE:
        return "…"
    text = _blocks(values.ravel())
    return " ".join(text[k : k + columns] for k in range(0, len(text), columns))


def remark_of(function: Curve | Surface) -> tuple[str, str, str, str]:
    """Return the form of a curve or surface, and a curve at its ends and for missing values."""
    if isinstance(function, Surface):
        return text_of_surface(function), "", "", ""
    first, last = [_signed(function, end) for end in _ends(function)] or ["", ""]
    return text_of_curve(function), first, last, _signed(function, function.pieces[-1, 0])


def sentences_of(name: str, function: Curve | Surface) -> str:
    """Return what a curve or a surface does, in words.

    Examples
    --------
    >>> from linrank.features.axis import Axis
    >>> line = Curve(0, Axis([0.0, 10.0]), [[0, 0], [0, 2], [2, 0], [0.5, 0]])
    >>> sentences_of("bm25", line)
    'bm25 goes from +0 at 0 to +2 at 10, between +0 and +2. Missing values have +0.5.'
    """
    if isinstance(function, Surface):
        values = function.values.ravel()
        return f"{name} lies between {_between(function, values)}."
    ends, knots = _ends(function), function.axis.knots
    way = f"{name} lies"
    if ends:
        first, last = (_signed(function, end) for end in ends)
        way = f"{name} goes from {first} at {knots[0]:.4g} to {last} at {knots[-1]:.4g},"
    missing = f"Missing values have {_signed(function, function.pieces[-1, 0])}."
    heights = np.append(_heights(function), ends)
    return f"{way} between {_between(function, heights)}. {missing}" if len(heights) else missing


def _between(function: Curve | Surface, values: Vector) -> str:
    return f"{_signed(function, values.min())} and {_signed(function, values.max())}"


def _signed(function: Curve | Surface, value: float) -> str:
    """Return a value, minus the mean, with three digits; what rounding has left is 0."""
    mean = function.mean or 0.0
    is_rounding = abs(value - mean) <= ROUNDING * (function.extent + abs(mean))
    return f"{0.0 if is_rounding else value - mean:+.3g}"


def _ends(curve: Curve) -> list[float]:
    """Return the curve at its first and its last knot; nothing for levels, which have no order."""
    knots = curve.axis.knots
    if curve.axis.levels or not len(knots):
        return []
    ends = curve(knots[[0, -1]]) if curve.degree else curve.pieces[[0, -2], 0]
    return ends.tolist()


def _heights(curve: Curve) -> Vector:
    """Return the curve at up to `WIDTH` places."""
    knots = curve.axis.knots
    if curve.axis.levels:
        return curve(knots[:WIDTH])
    if curve.degree == 0 or len(knots) < 2:
        return curve.pieces[:-1, 0]
    places = (np.arange(WIDTH) + 0.5) * (len(knots) - 1) / WIDTH
    return curve(np.interp(places, np.arange(len(knots)), knots))


def _blocks(values: Vector) -> str:
    if not len(values):
        return ""
    low, high = float(values.min()), float(values.max())
    if not high > low:
        return BLOCKS[0] * len(values)
    with np.errstate(over="ignore"):  # the extremes of a curve may be far from each other
        places = (values / 2 - low / 2) / (high / 2 - low / 2) * len(BLOCKS)
    return "".join(BLOCKS[min(int(place), len(BLOCKS) - 1)] for place in places)
