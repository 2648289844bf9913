"""The binary indexed tree over levels (Fenwick 1994): O(log k) per operation, in k + 1 sums.

    sums[m] = the sum of all x added under the keys m − b, …, m − 1, with b the lowest set bit of m.

Two sweeps run in the same loop, each with a tree of its own. The upward sweep sums the partners
above; its keys are levels counted from the top. The downward sweep sums the partners below. The two
sweeps are independent, so the processor overlaps them, and both take little longer than one.
Nothing is subtracted, so no digits are lost.
"""

from __future__ import annotations

from .._jit import njit


@njit(inner=True)
def sweep(level, k, x, high, low, above, below, sums):  # type: ignore[no-untyped-def]
    """Fill ``above`` and ``below`` (see `linrank.counting.sweep`); ``sums`` has 2k + 2 places."""
    higher, lower = sums[: k + 1], sums[k + 1 : 2 * k + 2]
    sums[: 2 * k + 2] = 0.0
    n = len(level)
    j, i = 0, n
    for p in range(n):
        while j < high[p]:
            insert(higher, k - 1 - level[j], x[j])
            j += 1
        above[p] = smaller(higher, k - 1 - level[p])
        r = n - 1 - p
        while i > low[r]:
            i -= 1
            insert(lower, level[i], x[i])
        below[r] = smaller(lower, level[r])


@njit(inner=True)
def insert(sums, key, x):  # type: ignore[no-untyped-def]
    """Add x under a key."""
    m = key + 1
    while m < len(sums):
        sums[m] += x
        m += m & -m


@njit(inner=True)
def smaller(sums, key):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under lower keys."""
    m, sum_ = key, 0.0
    while m > 0:
        sum_ += sums[m]
        m &= m - 1
    return sum_
