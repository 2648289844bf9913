"""Positions of the values of X on their axes: the number of the cell plus the place in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._jit import by_type, njit
from .._rows import CSR, Matrix, kernel_matrix, n_tasks, row_ranges
from .._simd import LOOKUP, STEPS
from .._threads import resolve_threads, run
from .._typing import Integers, Vector
from .axis import Axis
from .names import BasisName

Storage: TypeAlias = type[np.uint8] | type[np.uint16] | type[np.float32]  #: of positions

BLOCK_ROWS = 256  #: rows whose positions are found at a time; they stay in the cache
BLOCK_FEATURES = 8  #: features of a block; eight numbers fill a cache line of X
COUNTED = 32  #: knots that are compared one by one, in SIMD vectors; more are searched by halving

SINGLE = 2.0**-23  #: relative distance of two numbers of single precision
#: Values of X from which positions have 16 bits. Fewer have single precision, which is more exact.
MANY = 2**24


class _Axes(NamedTuple):
    """The axes of all features, as kernels read them."""

    starts: Integers  #: the cells of feature j are starts[j], …, starts[j + 1] − 1
    knots: Vector  #: at the place of each cell its upper knot; the last two cells have none
    anchors: Vector  #: the value of each cell at which its place is 0; see `Axis.anchors`
    widths: Vector  #: the length of each cell
    levels: NDArray[np.bool_]
    first: Integers  #: the cell of each feature that has the position 0
    inside: bool  #: whether the place in a cell counts


def choose_storage(axes: Sequence[Axis], basis: BasisName, n_rows: int, n_more: int = 0) -> Storage:
    """Return the type of the positions of training data.

    Positions of step functions are bytes if that suffices. Others are numbers of single precision.
    If there are many, they are integers of 16 bits in units of 1/4096, which need half the memory.
    These integers cannot hold more than 16 bins, and so no `n_more` pairs of features.

    Examples
    --------
    >>> axes = 8 * [Axis([0.0, 2.0])]
    >>> [choose_storage(axes, "ramp", n_rows).__name__ for n_rows in (2**20, 2**22)]
    ['float32', 'uint16']
    """
    n_cells = max(axis.n_cells for axis in axes)
    if basis == "step" and n_cells <= 256:
        return np.uint8
    many = len(axes) * n_rows >= MANY
    return np.uint16 if many and n_cells <= LOOKUP and not n_more else np.float32


def find_positions(
    X: Matrix, axes: Sequence[Axis], basis: BasisName, storage: Storage,
    n_threads: int | None = None, n_more: int = 0,
) -> NDArray[Any]:  # fmt: skip
    """Return the positions of all values, of shape (n_features + n_more, n_rows).

    For broken lines, the position of a value is the number of a knot plus the place behind it. For
    step functions and splines, it is the number of a cell (`Axis.cells`) plus the place in it. Step
    functions have no places. Values beyond the first and the last knot have the place 0. Missing
    values have the last position. The type of the positions is that of `choose_storage`. The last
    `n_more` rows are left for the caller.

    Examples
    --------
    >>> axes, X = [Axis([0.0, 2.0])], np.array([[-1.0], [0.5], [2.0], [np.nan]])
    >>> find_positions(X, axes, "ramp", np.float32).tolist()
    [[0.0, 0.25, 1.0, 2.0]]
    >>> find_positions(X, axes, "ramp", np.uint16).tolist()
    [[0, 1024, 4096, 8192]]
    >>> find_positions(X, axes, "step", np.uint8).tolist()
    [[0, 1, 2, 3]]
    """
    out = np.empty((len(axes) + n_more, X.shape[0]), storage)
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
def _store(out, i, z):  # type: ignore[no-untyped-def]
    """Write a position; the size of its type is known when the kernel is compiled."""
    out[i] = np.floor(z * STEPS + 0.5) if out.itemsize == 2 else z


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
            _store(out, i, cell - 1 if is_known else n if x[i] == x[i] else missing)
    elif axes.inside and n > 0:
        low, high = knots[0], knots[n - 1]
        for i in range(len(x)):
            value, cell = x[i], cells[i]
            # Clipped values have the place 0 in the outer cells, and no difference overflows.
            within = low if value < low else high if value > high else value
            place = (within - anchors[cell]) / widths[cell]
            whole = np.float64(max(0, np.int64(cell) - first))
            # The stored position of a value below a knot stays below that of the knot.
            place = min(place, 1.0 - (1.0 / STEPS if out.itemsize == 2 else (whole + 1.0) * SINGLE))
            _store(out, i, whole + place if value == value else missing)
    else:
        for i in range(len(x)):
            _store(out, i, max(0, np.int64(cells[i]) - first) if x[i] == x[i] else missing)


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
