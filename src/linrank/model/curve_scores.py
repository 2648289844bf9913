"""Scores of sums of curves and surfaces, by kernels that read each row once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._jit import njit
from .._maps import read_only
from .._typing import Array, Integers, Vector
from ..features.axis import LARGEST, Axis
from .curves import Curve, Surface

#: Columns of `Tables.plan`.
FEATURE, KNOTS, N_KNOTS, LEVELS, CELLS = range(5)
COUNTED = 16  #: knots that are compared one by one, in SIMD vectors; a longer search halves first


class Tables(NamedTuple):
    """Curves and surfaces as arrays that kernels read.

    The first axes are those of the curves. Those of the surfaces follow, two of each.
    """

    plan: Integers  #: one row per axis; see `FEATURE` and the other columns
    knots: Vector  #: of all axes
    cells: Vector  #: one row per cell of a curve: anchor, width, and coefficients
    values: Vector  #: of all surfaces, row by row
    n_curves: int


def make_tables(curves: Sequence[Curve], surfaces: Sequence[Surface]) -> Tables:
    """Return curves and surfaces as arrays that `score_rows` reads."""
    width = 2 + max((curve.pieces.shape[1] for curve in curves), default=0)
    plan, knots, cells, values = [], [np.empty(0)], [np.empty((0, width))], [np.empty(0)]
    n_knots = n_cells = n_values = 0

    def add(feature: int, axis: Axis, first: int) -> None:
        nonlocal n_knots
        plan.append((feature, n_knots, len(axis.knots), axis.levels, first))
        knots.append(axis.knots)
        n_knots += len(axis.knots)

    for curve in curves:
        add(curve.feature, curve.axis, n_cells)
        cells.append(np.zeros((curve.axis.n_cells, width)))
        cells[-1][:, 0], cells[-1][:, 1] = curve.axis.anchors, curve.axis.widths
        cells[-1][:, 2 : 2 + curve.pieces.shape[1]] = curve.pieces
        n_cells += curve.axis.n_cells
    for surface in surfaces:
        for feature, axis in zip(surface.features, surface.axes, strict=True):
            add(feature, axis, n_values)
        values.append(surface.values.ravel())
        n_values += surface.values.size
    table = np.array(plan, np.int64).reshape(len(plan), 5)
    joined = [read_only(np.concatenate(found)) for found in (knots, cells, values)]
    return Tables(read_only(table), joined[0], joined[1], joined[2], len(curves))


def score_rows(tables: Tables, X: Array, out: Vector) -> None:
    """Write the sums of all curves and surfaces for the rows of a dense matrix to `out`.

    The numbers are those of `Curve.__call__` and `Surface.__call__`, bit for bit, added in order.
    """
    _score_rows(tables, read_only(np.ascontiguousarray(X)), out)


@njit
def _score_rows(tables, X, out):  # type: ignore[no-untyped-def]
    for i in range(len(X)):
        row, total = X[i], 0.0
        for a in range(tables.n_curves):
            total += _curve(tables, a, row)
        for a in range(tables.n_curves, len(tables.plan), 2):
            total += _surface(tables, a, row)
        out[i] = total


@njit(inner=True)
def _curve(tables, a, row):  # type: ignore[no-untyped-def]
    """Return the value of the curve with axis a."""
    x = np.float64(row[np.uint64(tables.plan[a, FEATURE])])
    if np.isinf(x):
        return np.nan
    cell = tables.cells[np.uint64(tables.plan[a, CELLS] + _cell(tables, a, x))]
    t = 0.0 if np.isnan(x) else min(max((x - cell[0]) / cell[1], -LARGEST), LARGEST)
    value = cell[len(cell) - 1]
    for p in range(len(cell) - 2, 1, -1):
        value = value * t + cell[p]
    return value


@njit(inner=True)
def _surface(tables, a, row):  # type: ignore[no-untyped-def]
    """Return the value of the surface with axes a and a + 1."""
    x = np.float64(row[np.uint64(tables.plan[a, FEATURE])])
    z = np.float64(row[np.uint64(tables.plan[a + 1, FEATURE])])
    if np.isinf(x) or np.isinf(z):
        return np.nan
    n_columns = tables.plan[a + 1, N_KNOTS] + 2
    place = _cell(tables, a, x) * n_columns + _cell(tables, a + 1, z)
    return tables.values[np.uint64(tables.plan[a, CELLS] + place)]


@njit(inner=True)
def _cell(tables, a, x):  # type: ignore[no-untyped-def]
    """Return the cell of a finite or missing value; see `Axis.cells`."""
    first, size = tables.plan[a, KNOTS], tables.plan[a, N_KNOTS]
    start, n_left = first, size
    while n_left > COUNTED:
        half = n_left // 2
        start = start + half if x >= tables.knots[np.uint64(start + half)] else start
        n_left -= half
    place = start - first  # the number of knots that are at most x
    for k in range(n_left):  # without branches that depend on x: they would be mispredicted
        place += x >= tables.knots[np.uint64(start + k)]
    if tables.plan[a, LEVELS]:
        known = place > 0 and tables.knots[np.uint64(first + place - 1)] == x
        place = place - 1 if known else size
    return size + 1 if np.isnan(x) else place
