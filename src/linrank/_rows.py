"""Products of a range of rows with a vector, for dense and CSR matrices alike.

Kernels call `matvec` and `rmatvec` without knowing how X is stored: numba picks the
implementation by type. A CSR matrix travels as a `CSR` tuple of its three arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._jit import by_type, njit
from ._maps import check_maps
from ._prefetch import CACHE_LINE, prefetch_row
from ._threads import resolve_threads, run, split

AHEAD = 4  #: how many rows ahead memory is asked for
LONG_ROW = 2048  #: bytes of a row from which on the hardware asks for it early enough by itself


class CSR(NamedTuple):
    """The arrays of a CSR matrix: row i holds ``data[indptr[i]:indptr[i + 1]]``."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[Any]


def kernel_matrix(X: Any) -> Any:
    """The form of X that kernels take: the array itself, or a `CSR`.

    Always read-only, as memory-mapped arrays are, so that each kernel is compiled once. What is
    mapped from a file that has changed since is refused: reading it could end the process.
    """
    check_maps(X)
    if sparse.issparse(X):
        return CSR(read_only(X.indptr), read_only(X.indices), read_only(X.data))
    return read_only(X)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, not to be written through this view."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view


def aligned_zeros(n_rows: int, n_columns: int) -> NDArray[np.float64]:
    """Zeros; each row begins a cache line, so that no two share one.

    Sums over rows of X are written to once for each row: vectors that lie across two lines made a
    product a quarter slower.
    """
    line = CACHE_LINE // 8
    width = -(-n_columns // line) * line
    numbers = np.zeros(n_rows * width + line - 1)
    first = -numbers.ctypes.data // 8 % line
    return numbers[first : first + n_rows * width].reshape(n_rows, width)[:, :n_columns]


@njit(fast=True)
def _matvec_dense(X, first, last, v, out):  # type: ignore[no-untyped-def]
    # One row at a time: a single stream from memory is what the prefetcher follows best.
    for i in range(first, last):
        total = 0.0
        for f in range(X.shape[1]):
            total += X[i, f] * v[f]
        out[i - first] = total


@njit(fast=True)
def _matvec_csr(X, first, last, v, out):  # type: ignore[no-untyped-def]
    # Unsigned indices need no test for being negative, which would cost more than the product.
    for i in range(first, last):
        total = 0.0
        a, b = X.indptr[i], X.indptr[i + 1]
        values, features = X.data[a:b], X.indices[a:b]
        for e in range(len(values)):
            total += values[e] * v[np.uint32(features[e])]
        out[i - first] = total


@njit(fast=True)
def _rmatvec_dense(X, first, last, u, out):  # type: ignore[no-untyped-def]
    # Four rows at a time: the rows come from the cache, so the sums' own traffic counts.
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
    # Both at once: the rows behind come from the cache while those ahead come from memory.
    n = min(last - first, next_last - next_first)
    for r in range(n):
        if next_first + r + AHEAD < len(X):
            prefetch_row(X, next_first + r + AHEAD)
        total = 0.0
        for f in range(X.shape[1]):
            total += X[next_first + r, f] * v[f]
            out[f] += u[r] * X[first + r, f]
        s[r] = total
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
    for k in range(len(features)):  # read from the cache in strides, write to memory in order
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


def _by_storage(dense: Any, csr: Any, doc: str) -> Any:
    """One function for both storages, callable from Python and from other kernels."""
    function = by_type(0, {CSR: csr}, dense)
    function.__doc__ = doc
    return function


matvec = _by_storage(
    _matvec_dense, _matvec_csr, "``out[i] = x_{first + i} · v`` for the rows first, …, last − 1."
)
rmatvec = _by_storage(
    _rmatvec_dense, _rmatvec_csr, "``out += Σ_i u[i] x_{first + i}`` over the rows of a range."
)
rmatvec_squares = _by_storage(
    _rmatvec_squares_dense, _rmatvec_squares_csr, "``out += Σ_i u[i] x²_{first + i}``, x² by entry."
)
copy_columns = _by_storage(
    _copy_columns_dense,
    _copy_columns_csr,
    "``out[k, i] = x_{first + i, features[k]}``: rows into columns; `out` is zero before. What is "
    "chosen are the features, and for each feature of X its place among them, or −1.",
)
advance = _by_storage(
    _advance_dense,
    _advance_csr,
    "``advance(X, first, last, u, out, next_first, next_last, v, s)``: `rmatvec` of one range of "
    "rows and `matvec` of the next, in one walk.",
)


def choose_columns(features: NDArray[np.int64], n_features: int) -> tuple[Any, Any]:
    """What `copy_columns` takes as chosen: the features, and the place of each feature among them.

    Examples
    --------
    >>> choose_columns(np.array([0, 3]), 4)
    (array([0, 3]), array([ 0, -1, -1,  1]))
    """
    place: NDArray[np.int64] = np.full(n_features, -1)
    place[features] = np.arange(len(features))
    return features, place


def row_ranges(X: Any, n_parts: int) -> list[tuple[int, int]]:
    """Cut the rows of X into contiguous ranges of about equal work."""
    if sparse.issparse(X):
        return split(X.indptr, n_parts)
    return split(np.arange(X.shape[0] + 1), n_parts)


def multiply(X: Any, w: NDArray[np.float64], n_threads: int | None = None) -> NDArray[np.float64]:
    """``Xw`` in threads, without a copy of X; X as `linrank.data.checks.check_matrix` leaves it.

    Examples
    --------
    >>> multiply(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    array([-1., -1.])
    """
    n_threads = resolve_threads(n_threads)
    matrix, out = kernel_matrix(X), np.empty(X.shape[0])
    run(matvec, [(matrix, a, b, w, out[a:b]) for a, b in row_ranges(X, n_threads)], n_threads)
    return out
