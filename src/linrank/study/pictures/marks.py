"""Marks of methods, legends and scales that the pictures of a study share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._draw import LINES, colour, short
from ..._typing import Vector

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
