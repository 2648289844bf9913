"""`BinnedMatrix`: a wide matrix of basis functions of a few features, stored as positions in bins.

A feature has bins 0, 1, …. The position of a value is the number of its bin plus its place t in the
bin, 0 ≤ t < 1. A column of the matrix is either linear between its values at whole positions, or a
polynomial of t in each bin. Products therefore need neither the columns nor their number: X·v looks
up the sum of all columns at the position of each row and feature, and X'u sums u by bins.

`expand` turns a vector v into the table that is looked up, and `contract` turns the sums by bins
into X'u.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._compile.jit import njit
from .._compile.simd import (
    LOOKUP,
    STEPS,
    add_at,
    add_hinges,
    buffer,
    eight,
    has_lookup,
    hinges,
    interpolate,
    load,
    offsets,
    prefetch,
    sixteen,
    slopes,
    store_hinges,
)
from .._util.lazy import lazy_property
from .._util.maps import read_only
from .._util.types import Integers, Vector

# --------------------------------------------------------------------------------------------------
# Products with a design matrix of curves that is never stored.
#
# A feature's value is stored as a *position* z: the number of its bin plus the place in the bin.
# Each feature has a *curve*, which is given by a table. X·v is the sum of the curves at the
# positions of a row. Xᵀ·u is the derivative of Σ u·(X·v) with respect to the table.
#
# If the table has one number per row, row k is a *node*: the value of the curve at the position k.
# The curve is linear between nodes. If the table has several numbers per row, row b has the
# coefficients of a polynomial in z − b for bin b. The table has the constants of all rows first,
# then all coefficients of z − b, and so on.
#
# Positions are numbers of single precision, or integers. Integers of 8 bits are nodes themselves,
# and those of 16 bits are in units of 1/`STEPS`.
#
# Positions are stored feature by feature, so that SIMD vectors hold rows. Two facts make curves
# with few nodes fast:
#
# - The pieces of a curve fit in registers. Some processors look them up with one instruction.
# - The sums of Xᵀ·u are second differences of Σ u·max(z, k) over the nodes k, which need no
#   look-up.


BLOCK = 512  #: largest number of rows of a block; its scores stay in the first-level cache
HINGES = 24  #: room for the sums that `_add_differences` needs, a multiple of SIMD vectors
STEP = 16  #: rows of a window are a multiple of the widest SIMD vector


class Binned(NamedTuple):
    """The arrays of a `linrank.matrix.binned.BinnedMatrix`, as kernels read them.

    ``positions[j, i]`` is the position of row i in feature j. The curve of feature j has the rows
    ``starts[j]:starts[j + 1]`` of the table. Column c of the matrix belongs to feature
    ``owner[c]``. Its polynomials are ``shapes[shape_starts[c]:shape_starts[c + 1]]``, power by
    power.

    If ``single`` is true, curves of few nodes are computed in single precision within a block of
    rows. With 8 bins, the error of a sum is then up to 3e-7 of the sum of its absolute terms. It
    grows with the number of nodes. Hessian products need no more, but gradients do.
    """

    positions: NDArray[Any]  #: float32, uint8, or uint16 in units of 1/`STEPS`
    starts: Integers
    owner: Integers
    shape_starts: Integers
    shapes: Vector
    single: bool


@njit(inner=True)
def position(X, j, i):  # type: ignore[no-untyped-def]
    """Return the position of row i in feature j, as a number."""
    z = np.float64(X.positions[j, i])
    return z / STEPS if X.positions.itemsize == 2 else z  # known when the kernel is compiled


@njit(inner=True)
def _blocks(first, last):  # type: ignore[no-untyped-def]
    """Return into how many blocks of about equal size to cut a range of rows."""
    return (last - first + BLOCK - 1) // BLOCK


@njit(inner=True)
def _is_short(X, j):  # type: ignore[no-untyped-def]
    """Return whether feature j has so few nodes that SIMD vectors are faster."""
    n = X.starts[j + 1] - X.starts[j]
    return 1 < n <= LOOKUP + 1


@njit(inner=True)
def _window(X, first, last):  # type: ignore[no-untyped-def]
    """Return the first row and the size of a window around a block; the size is 0 if none fits."""
    size = (last - first + STEP - 1) // STEP * STEP
    n_rows = X.positions.shape[1]
    return (min(first, n_rows - size), size) if size <= n_rows else (first, 0)


# Scores --------------------------------------------------------------------------------------


@njit
def matvec_binned(X, first, last, table, out):  # type: ignore[no-untyped-def]
    """Compute ``out[i] = Σ_j curve_j(z_{first + i, j})`` for the rows first, …, last − 1."""
    n_blocks = _blocks(first, last)
    for block in range(n_blocks):
        a = first + (last - first) * block // n_blocks
        b = first + (last - first) * (block + 1) // n_blocks
        scores = out[a - first : b - first]
        scores[:] = 0.0
        if len(table) > X.starts[-1]:
            for j in range(len(X.positions)):
                if len(table) == 4 * X.starts[-1]:  # a constant degree is faster
                    _add_polynomial(X, j, a, b, table, 3, scores)
                else:
                    _add_polynomial(X, j, a, b, table, len(table) // X.starts[-1] - 1, scores)
        elif X.single:
            _add_curves(X, a, b, table, scores, sixteen(), 16)
        else:
            _add_curves(X, a, b, table, scores, eight(), 8)


@njit(fast=True, inner=True)
def _add_polynomial(X, j, first, last, table, degree, scores):  # type: ignore[no-untyped-def]
    n, start = np.uint64(X.starts[-1]), X.starts[j]
    for i in range(first, last):
        z = position(X, j, i)
        b = np.int64(z)
        t, place = z - b, np.uint64(start + b)
        value = table[place + np.uint64(degree) * n]
        for power in range(degree - 1, -1, -1):
            value = value * t + table[place + np.uint64(power) * n]
        scores[i - first] += value


@njit(fast=True, inner=True)
def _add_curve(X, j, first, last, table, scores):  # type: ignore[no-untyped-def]
    start, end = X.starts[j], len(table) - 1
    for i in range(first, last):
        z = position(X, j, i)
        b = np.int64(z)
        value = table[np.uint64(start + b)]
        if X.positions.itemsize > 1:  # known when the kernel is compiled: integers have no place
            value += (z - b) * (table[np.uint64(min(start + b + 1, end))] - value)
        scores[i - first] += value


@njit(inner=True)
def _add_curves(X, first, last, table, out, like, width):  # type: ignore[no-untyped-def]
    start, size = _window(X, first, last)
    fits = has_lookup() and size > 0 and len(table) > LOOKUP
    if fits:
        scores = buffer(eight(), BLOCK)
        scores[:size] = 0.0
        for j in range(0, len(X.positions), 4):
            _add_four(X, j, start, size, table, scores, like, width)
        for i in range(first, last):
            out[i - first] = scores[i - start]
    for j in range(len(X.positions)):
        if not (fits and _is_short(X, j)):
            _add_curve(X, j, first, last, table, out)


@njit(inner=True)
def _add_four(X, j, start, size, table, scores, like, width):  # type: ignore[no-untyped-def]
    """Add the curves of up to four features; those that do not count are multiplied by zero."""
    z0, s0, a0, b0 = _curve(X, j, start, size, table, like)
    z1, s1, a1, b1 = _curve(X, j + 1, start, size, table, like)
    z2, s2, a2, b2 = _curve(X, j + 2, start, size, table, like)
    z3, s3, a3, b3 = _curve(X, j + 3, start, size, table, like)
    later, ahead = _next(X, j, start, size)
    for i in range(0, size, width):
        for f in range(4):
            prefetch(X.positions, later + f, ahead + i)
        total = interpolate(like, a0, b0, load(like, z0, i), s0)
        total = interpolate(total, a1, b1, load(like, z1, i), s1)
        total = interpolate(total, a2, b2, load(like, z2, i), s2)
        total = interpolate(total, a3, b3, load(like, z3, i), s3)
        add_at(scores, i, total)


@njit(inner=True)
def _next(X, j, start, size):  # type: ignore[no-untyped-def]
    """Return the feature and the row from which to prefetch: those of the next four features."""
    return (j + 4, start) if j + 4 < len(X.positions) else (0, start + size)


@njit(inner=True)
def _curve(X, j, start, size, table, like):  # type: ignore[no-untyped-def]
    """Return the positions in a window, and the pieces that the table has from a place on.

    The last rows of the table are read from an earlier place, and the pieces are shifted.
    """
    factor = 1.0 if j < len(X.positions) and _is_short(X, j) else 0.0
    j = min(j, len(X.positions) - 1)
    place = min(X.starts[j], len(table) - LOOKUP - 1)
    shift = X.starts[j] - place
    z = X.positions[j, start : start + size]
    a, b = offsets(like, table, place, shift, factor), slopes(like, table, place, factor)
    return z, shift, a, b


# Sums over rows ------------------------------------------------------------------------------


@njit
def rmatvec_binned(X, first, last, u, sums):  # type: ignore[no-untyped-def]
    """Add the derivatives of ``Σ_i u[i]·Σ_j curve_j(z_{first + i, j})`` in the table to `sums`."""
    n_blocks = _blocks(first, last)
    for block in range(n_blocks):
        a = first + (last - first) * block // n_blocks
        b = first + (last - first) * (block + 1) // n_blocks
        weights = u[a - first : b - first]
        if len(sums) > X.starts[-1]:
            for j in range(len(X.positions)):
                if len(sums) == 4 * X.starts[-1]:
                    _count_powers(X, j, a, b, weights, 3, sums)
                else:
                    _count_powers(X, j, a, b, weights, len(sums) // X.starts[-1] - 1, sums)
        elif X.single:
            _count_curves(X, a, b, weights, sums, sixteen(), 16)
        else:
            _count_curves(X, a, b, weights, sums, eight(), 8)


@njit(inner=True)
def _count_powers(X, j, first, last, u, degree, sums):  # type: ignore[no-untyped-def]
    n, start = np.uint64(X.starts[-1]), X.starts[j]
    for i in range(first, last):
        z = position(X, j, i)
        b = np.int64(z)
        t, value, place = z - b, u[i - first], np.uint64(start + b)
        sums[place] += value
        for power in range(1, degree + 1):
            value *= t
            sums[place + np.uint64(power) * n] += value


@njit(inner=True)
def _count_curve(X, j, first, last, u, sums):  # type: ignore[no-untyped-def]
    start, end = X.starts[j], len(sums) - 1
    for i in range(first, last):
        z = position(X, j, i)
        b = np.int64(z)
        upper = u[i - first] * (z - b)
        sums[np.uint64(start + b)] += u[i - first] - upper
        if X.positions.itemsize > 1:  # known when the kernel is compiled
            sums[np.uint64(min(start + b + 1, end))] += upper


@njit(inner=True)
def _count_curves(X, first, last, u, sums, like, width):  # type: ignore[no-untyped-def]
    start, size = _window(X, first, last)
    if size > 0:
        weights, total = buffer(like, BLOCK), 0.0
        weights[:size] = 0.0
        for i in range(len(u)):
            weights[first - start + i] = u[i]
            total += u[i]
        for j in range(0, len(X.positions), 2):
            _count_two(X, j, start, size, weights, total, sums, like, width)
    for j in range(len(X.positions)):
        if not (size > 0 and _is_short(X, j)):
            _count_curve(X, j, first, last, u, sums)


@njit(inner=True)
def _count_two(X, j, start, size, u, total, sums, like, width):  # type: ignore[no-untyped-def]
    """Add the sums of up to two features. Sums that do not count are not used."""
    window = j, min(j + 1, len(X.positions) - 1), start, size
    n0, n1 = _n_hinges(X, j), _n_hinges(X, j + 1)
    m0, m1 = buffer(eight(), HINGES), buffer(eight(), HINGES)
    n = max(n0, n1)
    if n == 9:
        k = _sum_hinges(X, window, u, width, like, hinges(like, 9), None, m0, m1)
    elif n > 4:
        k = _sum_hinges(X, window, u, width, like, hinges(like, 8), None, m0, m1)
    elif n > 0:
        k = _sum_hinges(X, window, u, width, like, hinges(like, 4), None, m0, m1)
    else:
        k = 0
    if k < n:
        _sum_hinges(X, window, u, width, like, hinges(like, 8), k, m0, m1)
    _add_differences(m0, n0, total, X.starts[j], sums)
    _add_differences(m1, n1, total, X.starts[min(j + 1, len(X.positions))], sums)


@njit(inner=True)
def _n_hinges(X, j):  # type: ignore[no-untyped-def]
    """Return how many sums Σ u·max(z, k) feature j needs; 0 if there is no such feature."""
    return X.starts[j + 1] - X.starts[j] - 1 if j < len(X.positions) and _is_short(X, j) else 0


@njit(inner=True)
def _sum_hinges(X, window, u, width, like, bank, first, m0, m1):  # type: ignore[no-untyped-def]
    """Compute Σ u·max(z, k) of two features for nodes k from `first` on, or from 0 on if None."""
    j0, j1, start, size = window
    z0, z1 = X.positions[j0, start : start + size], X.positions[j1, start : start + size]
    for i in range(0, size, width):
        prefetch(X.positions, j0, start + size + i)  # the next block
        prefetch(X.positions, j1, start + size + i)
        bank = add_hinges(bank, load(like, u, i), load(like, z0, i), load(like, z1, i), first)
    found = buffer(eight(), 32)
    n, k = store_hinges(found, bank), 0 if first is None else first
    for m in range(n):
        m0[k + m + 1], m1[k + m + 1] = found[m], found[n + m]
    return k + n


@njit(inner=True)
def _add_differences(m, n, total, start, sums):  # type: ignore[no-untyped-def]
    """Add the second differences of m[k + 1] = Σ u·max(z, k) to the sums of a feature.

    The first n of these sums are given. As 0 ≤ z ≤ n, the one before them is equal to the first,
    and one after them is k·Σ u.
    """
    if n > 0:
        m[0], m[n + 1], m[n + 2] = m[1], n * total, (n + 1) * total
        for k in range(n + 1):
            sums[start + k] += m[k] - 2 * m[k + 1] + m[k + 2]


# --------------------------------------------------------------------------------------------------
# `BinnedMatrix`: a wide matrix of basis functions of a few features, stored as positions in bins.


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """A matrix of shape (n_rows, n_columns) whose columns are functions of single features.

    Parameters
    ----------
    positions : uint8, uint16 or float32 array of shape (n_features, n_rows)
        The bin of each value plus its place t in the bin. Numbers of 16 bits are in units of
        1/4096.
    shapes : sequence of arrays of shape (n_powers, n_bins, n_columns)
        The columns of each feature. If n_powers is 1, column c is linear between its values
        ``shape[0, b, c]`` at the whole positions b. Otherwise it is ``Σ_p shape[p, b, c]·t^p`` in
        bin b. All shapes have the same number of powers.

    Examples
    --------
    >>> ramp = np.array([[[0.0], [1.0]]])  # from 0 to 1 in bin 0
    >>> X = BinnedMatrix(np.array([[0.25, 1.0]], np.float32), [ramp])
    >>> X.toarray().tolist()
    [[0.25], [1.0]]
    """

    positions: NDArray[Any]
    shapes: Sequence[Vector]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return int(self.positions.shape[1]), len(self.owner)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the positions."""
        return self.positions.dtype

    @property
    def size(self) -> int:
        """The number of positions."""
        return int(self.positions.size)

    @property
    def nbytes(self) -> int:
        """The bytes of the positions."""
        return int(self.positions.nbytes)

    @property
    def n_powers(self) -> int:
        """The numbers per bin in the table that is looked up."""
        return int(self.shapes[0].shape[0])

    @lazy_property
    def starts(self) -> Integers:
        """The first bin of each feature among the bins of all features, and their number."""
        return np.concatenate([[0], np.cumsum([shape.shape[1] for shape in self.shapes])])

    @lazy_property
    def owner(self) -> Integers:
        """The feature of each column."""
        return np.repeat(np.arange(len(self.shapes)), [shape.shape[2] for shape in self.shapes])

    @property
    def n_bins(self) -> int:
        """The number of bins of all features."""
        return int(self.starts[-1])

    @lazy_property
    def polynomials(self) -> list[Vector]:
        """The columns as polynomials of t in each bin, in the form of `shapes`."""
        if self.n_powers > 1:
            return list(self.shapes)
        return [
            np.concatenate([shape, np.diff(shape, axis=1, append=shape[:, -1:])])
            for shape in self.shapes
        ]

    @lazy_property
    def kernel_form(self) -> Binned:
        """The arrays that kernels read."""
        shapes = [np.moveaxis(shape, 2, 0).ravel() for shape in self.polynomials]
        sizes = np.array([shape.shape[0] * shape.shape[1] for shape in self.polynomials])
        starts = np.concatenate([[0], np.cumsum(sizes[self.owner])]).astype(np.int64)
        return Binned(
            positions=read_only(self.positions),
            starts=read_only(self.starts),
            owner=read_only(self.owner),
            shape_starts=read_only(starts),
            shapes=read_only(np.concatenate(shapes)),
            single=False,
        )

    @lazy_property
    def _map(self) -> sparse.csr_array:
        """The linear map from a vector to the table of all bins, power by power."""
        return sparse.csr_array(sparse.vstack([
            sparse.block_diag([shape[p] for shape in self.shapes]) for p in range(self.n_powers)
        ]))  # fmt: skip

    @lazy_property
    def _map_back(self) -> sparse.csr_array:
        return sparse.csr_array(self._map.T)

    @lazy_property
    def _map_squares_back(self) -> sparse.csr_array:
        """The linear map from sums of u·t^q by bins to the sums of u·x² of the columns."""
        n = self.polynomials[0].shape[0]

        def square(shape: Vector, q: int) -> Vector:
            """Return the coefficient of t^q in the squared polynomials."""
            pairs = [(p, q - p) for p in range(n) if 0 <= q - p < n]
            return np.sum([shape[p] * shape[r] for p, r in pairs], axis=0)

        blocks = [
            sparse.block_diag([square(shape, q) for shape in self.polynomials])
            for q in range(2 * n - 1)
        ]
        return sparse.csr_array(sparse.vstack(blocks).T)

    def expand(self, v: Vector) -> Vector:
        """Return the table of X·v: its values or polynomials in all bins, power by power."""
        return self._map @ v

    def contract(self, sums: Vector) -> Vector:
        """Return X'u, given the sums of `rmatvec_binned` in the order of `expand`."""
        return self._map_back @ sums

    @property
    def n_moments(self) -> int:
        """The powers of t whose sums by bins give sums of squares: 0, …, n_moments − 1."""
        return 2 * self.polynomials[0].shape[0] - 1

    def contract_squares(self, sums: Vector) -> Vector:
        """Return ``Σ_i u_i x_i²``, given the sums of u·t^q by bins for q < n_moments."""
        return self._map_squares_back @ sums

    def __getitem__(self, rows: Integers | slice) -> BinnedMatrix:
        """Return some rows."""
        return replace(self, positions=np.ascontiguousarray(self.positions[:, rows]))

    def toarray(self) -> Vector:
        """Return all columns as a dense matrix."""
        out = np.empty(self.shape)
        columns = np.arange(self.shape[1])
        copy_rows_binned(self.kernel_form, 0, self.shape[0], (columns, columns), out)
        return out


def bins_of(positions: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bins of positions.

    Examples
    --------
    >>> bins_of(np.array([0.5, 2.75], np.float32)).tolist()
    [0, 2]
    >>> bins_of(np.array([4095, 4096], np.uint16)).tolist()
    [0, 1]
    """
    whole = positions // STEPS if positions.dtype == np.uint16 else positions
    return whole.astype(np.uint16)


@njit(inner=True)
def advance_binned(X, first, last, u, out, next_first, next_last, v, s):  # type: ignore[no-untyped-def]
    """Compute `rmatvec_binned` of one range of rows, and `matvec_binned` of the next."""
    rmatvec_binned(X, first, last, u, out)
    matvec_binned(X, next_first, next_last, v, s)


@njit(inner=True)
def _entry(X, i, c):  # type: ignore[no-untyped-def]
    """Return the entry of row i and column c."""
    j = X.owner[c]
    n_bins = X.starts[j + 1] - X.starts[j]
    end = X.shape_starts[c + 1]
    z = position(X, j, i)
    b = np.int64(z)
    t = z - np.float64(b)
    total = 0.0
    for k in range(end - n_bins, X.shape_starts[c] - 1, -n_bins):
        total = total * t + X.shapes[k + b]
    return total


@njit
def copy_columns_binned(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    """Compute the chosen columns of a range of rows, one after another."""
    columns, _ = chosen
    for k in range(len(columns)):
        for i in range(first, last):
            out[k, i - first] = _entry(X, i, columns[k])


@njit
def copy_rows_binned(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    """Compute the chosen columns of a range of rows, row by row."""
    columns, _ = chosen
    for k in range(len(columns)):
        for i in range(first, last):
            out[i - first, k] = _entry(X, i, columns[k])
