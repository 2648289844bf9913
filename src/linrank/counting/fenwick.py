"""The binary indexed tree over levels (Fenwick 1994): O(log k) for everything, in k + 1 sums.

    sums[m] = Σ of what was added under the levels m − b, …, m − 1,  b the lowest bit of m

and ``sums[0]`` is the sum of all.
"""

from __future__ import annotations

from .._jit import njit


@njit(inner=True)
def insert(sums, level, x):  # type: ignore[no-untyped-def]
    """Add x under a level."""
    sums[0] += x
    m = level + 1
    while m < len(sums):
        sums[m] += x
        m += m & -m


@njit(inner=True)
def larger(sums, level):  # type: ignore[no-untyped-def]
    """Σ of what was added under higher levels."""
    return sums[0] - smaller(sums, level + 1)


@njit(inner=True)
def smaller(sums, level):  # type: ignore[no-untyped-def]
    """Σ of what was added under lower levels."""
    m, sum_ = level, 0.0
    while m > 0:
        sum_ += sums[m]
        m &= m - 1
    return sum_
