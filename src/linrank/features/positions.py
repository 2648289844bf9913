"""Positions of the values of X on their axes: the number of the cell plus the place in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import by_type, njit
from .._rows import CSR, Matrix, kernel_matrix, n_tasks, row_ranges
from .._threads import resolve_threads, run
from .._typing import Integers, Vector
from .axis import Axis
from .names import BasisName

BLOCK_ROWS = 256  #: rows whose positions are found at a time; they stay in the cache
BLOCK_FEATURES = 8  #: features of a block; eight numbers fill a cache line of X
COUNTED = 32  #: knots that are compared one by one, in SIMD vectors; more are searched by halving

SINGLE = 2.0**-23  #: relative distance of two numbers of single precision


class _Axes(NamedTuple):
    """The axes of all features, as kernels read them."""

    starts: Integers  #: the cells of feature j are starts[j], …, starts[j + 1] − 1
    knots: Vector  #: at the place of each cell its upper knot; the last two cells have none
    anchors: Vector  #: the value of each cell at which its place is 0; see `Axis.anchors`
    widths: Vector  #: the length of each cell
    levels: NDArray[np.bool_]
    first: Integers  #: the cell of each feature that has the position 0
    inside: bool  #: whether the place in a cell counts


def find_positions(
    X: Matrix, axes: Sequence[Axis], basis: BasisName, n_threads: int | None = None, n_more: int = 0
) -> NDArray[Any]:
    """Return the positions of all values, of shape (n_features + n_more, n_rows).

    For broken lines, the position of a value is the number of a knot plus the place behind it. For
    step functions and splines, it is the number of a cell (`Axis.cells`) plus the place in it. Step
    functions have no places. Values beyond the first and the last knot have the place 0. Missing
    values have the last position. Positions of step functions are bytes if that suffices, others
    are numbers of single precision. The last `n_more` rows are left for the caller.

    Examples
    --------
    >>> axes, X = [Axis([0.0, 2.0])], np.array([[-1.0], [0.5], [2.0], [np.nan]])
    >>> find_positions(X, axes, "ramp").tolist()
    [[0.0, 0.25, 1.0, 2.0]]
    >>> find_positions(X, axes, "step").tolist()
    [[0, 1, 2, 3]]
    """
    is_narrow = basis == "step" and max(axis.n_cells for axis in axes) <= 256
    out = np.empty((len(axes) + n_more, X.shape[0]), np.uint8 if is_narrow else np.float32)
    known = _kernel_axes(axes, basis)
    n_threads, matrix = resolve_threads(n_threads), kernel_matrix(X)
    ranges = row_ranges(X, n_tasks(X, n_threads))
    blocks = np.empty((len(ranges), BLOCK_FEATURES, BLOCK_ROWS))
    cells = np.empty((len(ranges), BLOCK_ROWS), np.uint64)
    found = out[: len(axes)]
    tasks = [(matrix, a, b, known, blocks[k], cells[k], found) for k, (a, b) in enumerate(ranges)]
    run(_locate, tasks, n_threads)
    return out


def _kernel_axes(axes: Sequence[Axis], basis: BasisName) -> _Axes:
    sizes = [axis.n_cells for axis in axes]
    levels = np.array([axis.levels for axis in axes], np.bool_)
    has_knots = np.array([len(axis.knots) > 0 for axis in axes])
    return _Axes(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([np.append(axis.knots, [0.0, 0.0]) for axis in axes]),
        np.concatenate([axis.anchors for axis in axes]),
        np.concatenate([axis.widths for axis in axes]),
        levels,
        ((basis == "ramp") & ~levels & has_knots).astype(np.int64),
        basis != "step",
    )


@njit(inner=True)
def _count(knots, x, cells):  # type: ignore[no-untyped-def]
    """Count the knots ≤ x for each x, in loops without branches that depend on x."""
    n = len(knots)
    cells[:] = np.uint64(0)
    if n <= COUNTED:
        for k in range(n):
            knot = knots[k]
            for i in range(len(x)):
                cells[i] += np.uint64(x[i] >= knot)
        return
    while n > 0:
        half = np.uint64((n + 1) // 2)
        for i in range(len(x)):
            cell = cells[i]
            cells[i] = cell + half if x[i] >= knots[cell + half - np.uint64(1)] else cell
        n //= 2


@njit(inner=True)
def _locate_feature(axes, j, x, cells, out):  # type: ignore[no-untyped-def]
    """Compute the positions of some values of feature j."""
    start, n = axes.starts[j], axes.starts[j + 1] - axes.starts[j] - 2
    knots, anchors = axes.knots[start : start + n], axes.anchors[start : start + n + 2]
    widths, first = axes.widths[start : start + n + 2], axes.first[j]
    _count(knots, x, cells)
    missing = n + 1 - first
    if axes.levels[j]:
        for i in range(len(x)):
            cell = np.int64(cells[i])
            is_known = cell > 0 and knots[cell - 1] == x[i]
            out[i] = cell - 1 if is_known else n if x[i] == x[i] else missing
    elif axes.inside and n > 0:
        low, high = knots[0], knots[n - 1]
        for i in range(len(x)):
            value, cell = x[i], cells[i]
            # Clipped values have the place 0 in the outer cells, and no difference overflows.
            within = low if value < low else high if value > high else value
            place = (within - anchors[cell]) / widths[cell]
            whole = np.float64(max(0, np.int64(cell) - first))
            # Rounded to single precision, the position of a value below a knot stays below it.
            place = min(place, 1.0 - (whole + 1.0) * SINGLE)
            out[i] = whole + place if value == value else missing
    else:
        for i in range(len(x)):
            out[i] = max(0, np.int64(cells[i]) - first) if x[i] == x[i] else missing


@njit
def _locate_dense(X, first, last, axes, block, cells, out):  # type: ignore[no-untyped-def]
    for a in range(first, last, BLOCK_ROWS):
        n = min(BLOCK_ROWS, last - a)
        for f in range(0, X.shape[1], BLOCK_FEATURES):
            width = min(BLOCK_FEATURES, X.shape[1] - f)
            for i in range(n):
                for k in range(width):
                    block[k, i] = X[a + i, f + k]
            for k in range(width):
                _locate_feature(axes, f + k, block[k, :n], cells[:n], out[f + k, a : a + n])


@njit
def _locate_csr(X, first, last, axes, block, cells, out):  # type: ignore[no-untyped-def]
    value = block[0, :1]
    value[0] = 0.0
    for j in range(len(out)):
        _locate_feature(axes, j, value, cells[:1], out[j, first : first + 1])
        out[j, first:last] = out[j, first]
    for i in range(first, last):
        for e in range(X.indptr[i], X.indptr[i + 1]):
            j = X.indices[e]
            value[0] = X.data[e]
            _locate_feature(axes, j, value, cells[:1], out[j, i : i + 1])


_locate = by_type(0, {CSR: _locate_csr}, _locate_dense)
