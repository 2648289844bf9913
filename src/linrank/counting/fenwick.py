"""The binary indexed tree over levels (Fenwick 1994): O(log k) for everything, in k + 1 sums.

    sums[m] = Σ of what was added under the keys m − b, …, m − 1,  b the lowest bit of m.

Both sweeps go upward here, side by side, each with a tree of its own: partners above are keyed by
the level from the top, and those below are what all documents of lower levels sum to, less those
that are not within the margin any more. Two walks that do not wait for each other take little
longer than one.
"""

from __future__ import annotations

from .._jit import njit


@njit(inner=True)
def sweep(level, k, x, high, low, above, below, sums):  # type: ignore[no-untyped-def]
    """Fill ``above`` and ``below`` (see `linrank.counting.sweep`); ``sums`` has 3k + 2 places."""
    higher, passed, lower = sums[: k + 1], sums[k + 1 : 2 * k + 2], sums[2 * k + 2 : 3 * k + 2]
    sums[: 3 * k + 2] = 0.0
    for p in range(len(level)):
        lower[level[p]] += x[p]
    total = 0.0
    for c in range(k):
        total, lower[c] = total + lower[c], total
    j, i = 0, 0
    for p in range(len(level)):
        while j < high[p]:
            insert(higher, k - 1 - level[j], x[j])
            j += 1
        while i < low[p]:
            insert(passed, level[i], x[i])
            i += 1
        above[p] = smaller(higher, k - 1 - level[p])
        below[p] = lower[level[p]] - smaller(passed, level[p])


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
