"""The binary indexed tree over levels (Fenwick 1994): O(log k) for everything, in k + 1 sums.

    sums[m] = Σ of what was added under the keys m − b, …, m − 1,  b the lowest bit of m.

Two sweeps go side by side, each with a tree of its own: upward for the partners above, which are
keyed by the level from the top, and downward for those below. Two walks that do not wait for each
other take little longer than one, and nothing is subtracted, so no digits are lost.
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
    """Σ of what was added under lower keys."""
    m, sum_ = key, 0.0
    while m > 0:
        sum_ += sums[m]
        m &= m - 1
    return sum_
