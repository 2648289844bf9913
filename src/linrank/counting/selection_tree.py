"""The selection tree: levels in the leaves of a full binary tree (Lee & Lin 2014, §2.4–2.5).

    Larger(m) = Larger(parent of m) + (sum of the sibling of m, if m is a left child)

The tree is implicit, after Knuth: node 2^⌈log2 k⌉ + c is the leaf of level c, node ⌊m/2⌋ is the
parent of node m, and odd nodes are right children. The second half of the array ``sums`` has the
leaves. The root, node 1, has no sibling, so its sum is not needed. Every operation costs O(log k).
"""

from __future__ import annotations

from .._jit import njit


@njit(inner=True)
def n_leaves(k):  # type: ignore[no-untyped-def]
    """Return 2^⌈log2 k⌉, for k ≥ 1."""
    n = 1
    while n < k:
        n *= 2
    return n


@njit(inner=True)
def insert(sums, level, x):  # type: ignore[no-untyped-def]
    """Add x under a level."""
    m = len(sums) // 2 + level
    while m > 1:
        sums[m] += x
        m //= 2


@njit(inner=True)
def larger(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under higher levels."""
    m, sum_ = len(sums) // 2 + level, 0.0
    while m > 1:
        if m % 2 == 0:
            sum_ += sums[m + 1]
        m //= 2
    return sum_


@njit(inner=True)
def smaller(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under lower levels."""
    m, sum_ = len(sums) // 2 + level, 0.0
    while m > 1:
        if m % 2 == 1:
            sum_ += sums[m - 1]
        m //= 2
    return sum_
