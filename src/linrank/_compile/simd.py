"""SIMD vectors of four, eight or sixteen numbers, as values that kernels keep in registers.

LLVM vectorises simple loops by itself, but neither several running sums in one loop, such as the
columns of a table, nor look-ups in a table that fits in registers. Without compilation, the
functions of this module work on arrays. Kernels use the instructions of `linrank._compile.compiler`
instead. A processor without vectors of eight numbers uses two vectors of four.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._util.types import Vector

SimdVector: TypeAlias = NDArray[np.floating[Any]]  #: a SIMD vector; without compilation, an array
SimdVectors: TypeAlias = NDArray[
    np.floating[Any]
]  #: several SIMD vectors; without compilation, rows

LOOKUP = 16  #: pieces of a curve that `interpolate` can look up
#: Factor of a position before it is rounded down. An integer k becomes the end of piece k − 1, and
#: the next larger number of single precision stays in piece k.
SHRINK = 1 - 2.0**-24
STEPS = 4096  #: steps of a bin in positions of 16 bits; positions below `LOOKUP` then fit


def four() -> SimdVector:
    """Return a SIMD vector of four zeros."""
    return np.zeros(4)


def eight() -> SimdVector:
    """Return a SIMD vector of eight zeros."""
    return np.zeros(8)


def sixteen() -> SimdVector:
    """Return a SIMD vector of sixteen zeros of single precision."""
    return np.zeros(16, dtype=np.float32)


def buffer(like: SimdVector, n: int) -> NDArray[Any]:
    """Return an array of n numbers on the stack, with the precision of a SIMD vector.

    The size n must be written as a number or a constant. The array is valid until the kernel that
    asks for it returns.
    """
    return np.zeros(n, dtype=like.dtype)


def load(like: SimdVector, array: NDArray[Any], i: int) -> SimdVector:
    """Return ``array[i : i + n]`` as a SIMD vector of n numbers; i must not be negative.

    Integers of 16 bits are positions in units of 1/`STEPS`.
    """
    values = array[i : i + len(like)].astype(like.dtype)
    return values / like.dtype.type(STEPS) if array.dtype == np.uint16 else values


def store(array: Vector, i: int, values: SimdVector) -> None:
    """Write a SIMD vector of double precision to ``array[i : i + n]``; i must not be negative."""
    array[i : i + len(values)] = values


def add_at(array: Vector, i: int, values: SimdVector) -> None:
    """Add a SIMD vector to ``array[i : i + n]``; i must not be negative."""
    array[i : i + len(values)] += values


def add_product(values: SimdVector, x: float, others: SimdVector) -> SimdVector:
    """Return values + x·others."""
    return values + x * others


# Curves that are linear between nodes -----------------------------------------------------------


def has_lookup() -> bool:
    """Return whether `interpolate` has an instruction of its own (AVX-512); else it is undefined.

    Without compilation the result is True.
    """
    return True


def slopes(like: SimdVector, table: Vector, i: int, factor: float) -> SimdVector:
    """Return the slopes of `LOOKUP` pieces, times a factor.

    Piece k joins the nodes ``table[i + k]`` and ``table[i + k + 1]``. The result has the precision
    of the SIMD vector `like`.
    """
    return (np.diff(table[i : i + LOOKUP + 1]) * factor).astype(like.dtype)


def offsets(like: SimdVector, table: Vector, i: int, shift: int, factor: float) -> SimdVector:
    """Return the values of the lines through `LOOKUP` pieces at the position 0, times a factor.

    Piece k begins at the position k − shift.
    """
    start = np.arange(LOOKUP) - shift
    values = table[i : i + LOOKUP] - start * np.diff(table[i : i + LOOKUP + 1])
    return (values * factor).astype(like.dtype)


def interpolate(
    total: SimdVector, offset: SimdVector, slope: SimdVector, z: SimdVector, shift: int
) -> SimdVector:
    """Return total + the values of a curve at the positions z, by its `offsets` and `slopes`."""
    piece = np.floor(z.astype(np.float64) * SHRINK).astype(np.int64) + shift
    piece %= LOOKUP
    return total + offset[piece] + slope[piece] * z


def hinges(like: SimdVector, n: int) -> SimdVectors:
    """Return zeros for the sums of `add_hinges`, for two curves and n nodes.

    The number n must be written as a number or a constant.
    """
    return np.zeros((2 * n, len(like)), dtype=like.dtype)


def add_hinges(
    sums: SimdVectors, u: SimdVector, z0: SimdVector, z1: SimdVector, first: int | None
) -> SimdVectors:
    """Return the bank sums + u·max(z, k), with the nodes k = first, first + 1, … of both curves.

    If `first` is None, the nodes begin at 0, and no position z may be negative.
    """
    k = np.arange(len(sums) // 2, dtype=sums.dtype)[:, None] + sums.dtype.type(first or 0)
    return sums + u * np.concatenate([np.maximum(z0, k), np.maximum(z1, k)])


def store_hinges(array: Vector, sums: SimdVectors) -> int:
    """Write the sum of each vector of a bank to an array, and return the number of nodes.

    The array must have room for a multiple of the numbers in a vector.
    """
    array[: len(sums)] = sums.sum(axis=1)
    return len(sums) // 2


# --------------------------------------------------------------------------------------------------
# Prefetching of rows from memory before they are needed.


CACHE_LINE = 64  #: bytes of a line of the cache


def prefetch_row(X: NDArray[np.floating[Any]], i: int) -> None:
    """Start to load row i of a dense X into the cache, without waiting for it.

    Kernels use an instruction of LLVM (`linrank._compile.compiler`). Without compilation the
    function does nothing. Results are the same.
    """


def prefetch(X: NDArray[Any], i: int, f: int) -> None:
    """Start to load the cache line of ``X[i, f]``, as `prefetch_row` does; f may be too large."""
