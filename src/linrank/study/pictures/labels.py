"""Labels beside points, at places where they overlap as little as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._typing import Vector
from .marks import short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.text import Annotation

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
