"""Products of a range of rows with a vector, for dense, CSR and binned matrices.

Kernels call `matvec` and `rmatvec` for any storage of X: numba chooses the implementation by type.
A CSR matrix is passed to kernels as a `CSR` tuple of its three arrays, a binned matrix as a
`Binned` tuple. Kernels read and write the vectors of a binned matrix in another form: `expand`
makes it, and `contract` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._compile.jit import Kernel, by_type, njit
from .._compile.simd import CACHE_LINE, prefetch_row
from .._util.maps import check_maps, read_only
from .._util.parallel import resolve_threads, run, split
from .._util.types import Integers, Vector
from .binned import (
    Binned,
    BinnedMatrix,
    advance_binned,
    copy_columns_binned,
    copy_rows_binned,
    matvec_binned,
    rmatvec_binned,
)

PREFETCH_BYTES = 12288  #: bytes between a row that is read and one that is prefetched, in order
PREFETCH_ROWS = 4  #: the same distance in rows, if rows are read in random order
TASKS_PER_THREAD = 4  #: parts of X per thread; with more, a busy core delays a pass less
TASK_BYTES = 2**21  #: smallest size of such a part of X; starting smaller ones would cost more
LONG_ROW = 2048  #: bytes of a row above which the hardware prefetcher is fast enough by itself

Floats: TypeAlias = NDArray[np.floating[Any]]  #: numbers of single or double precision
UserMatrix: TypeAlias = Floats | sparse.csr_array  #: X as users hold it
Columns: TypeAlias = tuple[Integers, Integers]  #: chosen features; see `choose_columns`


class CSR(NamedTuple):
    """The arrays of a CSR matrix: row i has the entries ``data[indptr[i]:indptr[i + 1]]``."""

    indptr: Integers
    indices: NDArray[np.int32]
    data: Floats


KernelMatrix: TypeAlias = Floats | CSR | Binned  #: X as kernels read it
AnyMatrix: TypeAlias = UserMatrix | BinnedMatrix  #: X as `RankingData` holds it


def kernel_matrix(X: AnyMatrix) -> KernelMatrix:
    """Return X in the form that kernels read: the array itself, a `CSR` or a `Binned`.

    The arrays are marked read-only, as memory-mapped arrays are, so that each kernel is compiled
    once. A file that has changed since it was mapped raises an error, because reading the map
    could end the process.
    """
    if isinstance(X, BinnedMatrix):
        return X.kernel_form
    check_maps(X)
    if isinstance(X, np.ndarray):
        return read_only(X)
    return CSR(read_only(X.indptr), read_only(X.indices), read_only(X.data))


def aligned_zeros(n_rows: int, n_columns: int) -> Vector:
    """Allocate a matrix of zeros in which each row starts at a cache line.

    Two rows then never share a line. Sums over the rows of X are written once per row of X. A
    product takes 25 % longer if SIMD vectors of these sums cross the border of two lines.
    """
    line = CACHE_LINE // 8
    width = -(-n_columns // line) * line
    numbers = np.zeros(n_rows * width + line - 1)
    first = -numbers.ctypes.data // 8 % line
    return numbers[first : first + n_rows * width].reshape(n_rows, width)[:, :n_columns]


@njit(fast=True)
def _matvec_dense(X, first, last, v, out):  # type: ignore[no-untyped-def]
    # One row at a time: the hardware prefetcher follows a single stream from memory best.
    for i in range(first, last):
        total = 0.0
        for f in range(X.shape[1]):
            total += X[i, f] * v[f]
        out[i - first] = total


@njit(fast=True)
def _matvec_csr(X, first, last, v, out):  # type: ignore[no-untyped-def]
    # Numba tests signed indices for being negative, which would cost more than the product.
    for i in range(first, last):
        total = 0.0
        a, b = X.indptr[i], X.indptr[i + 1]
        values, features = X.data[a:b], X.indices[a:b]
        for e in range(len(values)):
            total += values[e] * v[np.uint32(features[e])]
        out[i - first] = total


@njit(fast=True)
def _rmatvec_dense(X, first, last, u, out):  # type: ignore[no-untyped-def]
    # Four rows at a time: the rows are in the cache, so reading and writing `out` would dominate.
    i = first
    while i + 4 <= last:
        u0, u1, u2, u3 = u[i - first], u[i - first + 1], u[i - first + 2], u[i - first + 3]
        for f in range(X.shape[1]):
            out[f] += u0 * X[i, f] + u1 * X[i + 1, f] + u2 * X[i + 2, f] + u3 * X[i + 3, f]
        i += 4
    while i < last:
        for f in range(X.shape[1]):
            out[f] += u[i - first] * X[i, f]
        i += 1


@njit(fast=True)
def _rmatvec_csr(X, first, last, u, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        a, b, factor = X.indptr[i], X.indptr[i + 1], u[i - first]
        values, features = X.data[a:b], X.indices[a:b]
        for e in range(len(values)):
            out[np.uint32(features[e])] += factor * values[e]


@njit(fast=True, inner=True)
def _advance_dense(X, first, last, u, out, next_first, next_last, v, s):  # type: ignore[no-untyped-def]
    if X.shape[1] * X.itemsize > LONG_ROW:
        _rmatvec_dense(X, first, last, u, out)
        _matvec_dense(X, next_first, next_last, v, s)
        return
    # Both in one loop: rows of the first range come from the cache while others come from memory.
    # Two rows of each at a time, so that `v` and `out` are read half as often.
    n = min(last - first, next_last - next_first) // 2 * 2
    ahead = PREFETCH_BYTES // (X.shape[1] * X.itemsize)
    for r in range(0, n, 2):
        i, j = first + r, next_first + r
        if j + ahead + 1 < len(X):
            prefetch_row(X, j + ahead)
            prefetch_row(X, j + ahead + 1)
        u0, u1, s0, s1 = u[r], u[r + 1], 0.0, 0.0
        for f in range(X.shape[1]):
            s0 += X[j, f] * v[f]
            s1 += X[j + 1, f] * v[f]
            out[f] += u0 * X[i, f] + u1 * X[i + 1, f]
        s[r], s[r + 1] = s0, s1
    _matvec_dense(X, next_first + n, next_last, v, s[n:])
    _rmatvec_dense(X, first + n, last, u[n:], out)


@njit(fast=True, inner=True)
def _advance_csr(X, first, last, u, out, next_first, next_last, v, s):  # type: ignore[no-untyped-def]
    _rmatvec_csr(X, first, last, u, out)
    _matvec_csr(X, next_first, next_last, v, s)


@njit(fast=True)
def _rmatvec_squares_dense(X, first, last, u, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        for f in range(X.shape[1]):
            out[f] += u[i - first] * X[i, f] * X[i, f]


@njit(fast=True)
def _rmatvec_squares_csr(X, first, last, u, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        a, b, factor = X.indptr[i], X.indptr[i + 1], u[i - first]
        values, features = X.data[a:b], X.indices[a:b]
        for e in range(len(values)):
            out[np.uint32(features[e])] += factor * values[e] * values[e]


@njit
def _copy_columns_dense(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    features, _ = chosen
    for k in range(len(features)):  # reads have strides but hit the cache; writes are in order
        f = features[k]
        for i in range(first, last):
            out[k, i - first] = X[i, f]


@njit
def _copy_columns_csr(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    _, place = chosen
    for i in range(first, last):
        for e in range(X.indptr[i], X.indptr[i + 1]):
            k = place[X.indices[e]]
            if k >= 0:
                out[k, i - first] = X.data[e]


@njit
def _copy_rows_dense(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    features, _ = chosen
    for i in range(first, last):
        for k in range(len(features)):
            out[i - first, k] = X[i, np.uint64(features[k])]


@njit
def _copy_rows_csr(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    _, place = chosen
    out[: last - first] = 0.0
    for i in range(first, last):
        for e in range(X.indptr[i], X.indptr[i + 1]):
            k = place[X.indices[e]]
            if k >= 0:
                out[i - first, k] = X.data[e]


def _by_storage(dense: Kernel, csr: Kernel, binned: Kernel, doc: str) -> Callable[..., None]:
    """Return one function for all storages, callable from Python and from other kernels."""
    function = by_type(0, {CSR: csr, Binned: binned}, dense)
    function.__doc__ = doc
    return function


matvec = _by_storage(
    _matvec_dense,
    _matvec_csr,
    matvec_binned,
    "Compute ``out[i] = x_{first + i} · v`` for the rows first, …, last − 1.",
)
rmatvec = _by_storage(
    _rmatvec_dense,
    _rmatvec_csr,
    rmatvec_binned,
    "Add ``Σ_i u[i] x_{first + i}`` over the rows first, …, last − 1 to ``out``.",
)
rmatvec_squares = _by_storage(
    _rmatvec_squares_dense,
    _rmatvec_squares_csr,
    rmatvec_binned,
    "Add ``Σ_i u[i] x²_{first + i}`` to ``out``, with the squares of the entries of a row.",
)
copy_columns = _by_storage(
    _copy_columns_dense,
    _copy_columns_csr,
    copy_columns_binned,
    "Compute ``out[k, i] = x_{first + i, features[k]}`` for the features of `choose_columns`; "
    "``out`` must be zero before.",
)
copy_rows = _by_storage(
    _copy_rows_dense,
    _copy_rows_csr,
    copy_rows_binned,
    "Compute ``out[i, k] = x_{first + i, features[k]}`` for the features of `choose_columns`.",
)
advance = _by_storage(
    _advance_dense,
    _advance_csr,
    advance_binned,
    "Compute `rmatvec` of one range of rows and `matvec` of the next range in one loop: "
    "``advance(X, first, last, u, out, next_first, next_last, v, s)``.",
)


def expand(X: AnyMatrix, v: Vector) -> Vector:
    """Return v in the form in which `matvec` reads it."""
    return X.expand(v) if isinstance(X, BinnedMatrix) else v


def for_products(X: KernelMatrix) -> KernelMatrix:
    """Return X for Hessian products, which need less precision than gradients."""
    return X._replace(single=True) if isinstance(X, Binned) else X


def contract(X: AnyMatrix, sums: Vector) -> Vector:
    """Return X'u, given the sums of `rmatvec`."""
    return X.contract(sums) if isinstance(X, BinnedMatrix) else sums


def contract_squares(X: AnyMatrix, sums: Vector) -> Vector:
    """Return ``Σ_i u_i x_i²``, given the sums of `rmatvec_squares`."""
    return X.contract_squares(sums) if isinstance(X, BinnedMatrix) else sums


def n_sums(X: AnyMatrix) -> int:
    """Return how many numbers `rmatvec` sums."""
    return X.n_powers * X.n_bins if isinstance(X, BinnedMatrix) else int(X.shape[1])


def n_square_sums(X: AnyMatrix) -> int:
    """Return how many numbers `rmatvec_squares` sums."""
    return X.n_moments * X.n_bins if isinstance(X, BinnedMatrix) else int(X.shape[1])


def n_entries(X: AnyMatrix) -> int:
    """Return the number of stored entries of X."""
    return int(X.size if isinstance(X, np.ndarray | BinnedMatrix) else X.nnz)


def dense_rows(X: AnyMatrix, rows: Integers) -> UserMatrix:
    """Return some rows of X; those of a binned matrix as an array."""
    found = X[rows]
    return found.toarray() if isinstance(found, BinnedMatrix) else found


def choose_columns(features: Integers, n_features: int) -> Columns:
    """Return the chosen features, and for each feature of X its place among them, or −1.

    Examples
    --------
    >>> choose_columns(np.array([0, 3]), 4)
    (array([0, 3]), array([ 0, -1, -1,  1]))
    """
    place: Integers = np.full(n_features, -1)
    place[features] = np.arange(len(features))
    return features, place


def n_tasks(X: AnyMatrix, n_threads: int) -> int:
    """Return into how many parts to cut a pass over X.

    Threads take one part after another. If another process keeps a core busy, the thread on that
    core takes fewer parts.

    Examples
    --------
    >>> n_tasks(np.zeros((10, 2)), 2), n_tasks(np.zeros((1_000_000, 2)), 2)
    (2, 7)
    """
    n_bytes = X.nbytes if isinstance(X, np.ndarray | BinnedMatrix) else X.data.nbytes
    most = TASKS_PER_THREAD * n_threads if n_threads > 1 else 1
    return max(n_threads, min(most, n_bytes // TASK_BYTES))


def row_ranges(X: AnyMatrix, n_parts: int) -> list[tuple[int, int]]:
    """Cut the rows of X into contiguous ranges of about equal work."""
    even = np.arange(X.shape[0] + 1)
    ptr = even if isinstance(X, np.ndarray | BinnedMatrix) else X.indptr
    return split(ptr, n_parts)


def multiply(X: AnyMatrix, w: Vector, n_threads: int | None = None) -> Vector:
    """Compute Xw in threads, without a copy of X.

    X must be in the form that `linrank.data.validation.check_matrix` returns.

    Examples
    --------
    >>> multiply(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    array([-1., -1.])
    """
    n_threads = resolve_threads(n_threads)
    matrix, out, w = kernel_matrix(X), np.empty(X.shape[0]), expand(X, w)
    ranges = row_ranges(X, n_tasks(X, n_threads))
    run(matvec, [(matrix, a, b, w, out[a:b]) for a, b in ranges], n_threads)
    return out
