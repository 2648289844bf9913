"""The selection tree: levels in the leaves of a full binary tree (Lee & Lin 2014, §2.4–2.5).

    Larger(m) = Larger(parent of m) + (sum of the sibling of m, if m is a left child)

Knuth's implicit tree: 2^⌈log2 k⌉ + c is the leaf of level c, ⌊m/2⌋ the parent of m, and odd
nodes are right children. Half of the array ``sums`` is leaves; the root, node 1, is nobody's
sibling, so its sum is not kept. O(log k) for everything.
"""

from __future__ import annotations

from .._jit import njit


@njit(inner=True)
def n_leaves(k):  # type: ignore[no-untyped-def]
    """2^⌈log2 k⌉, for k ≥ 1."""
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
    """Σ of what was added under higher levels."""
    m, sum_ = len(sums) // 2 + level, 0.0
    while m > 1:
        if m % 2 == 0:
            sum_ += sums[m + 1]
        m //= 2
    return sum_


@njit(inner=True)
def smaller(sums, level):  # type: ignore[no-untyped-def]
    """Σ of what was added under lower levels."""
    m, sum_ = len(sums) // 2 + level, 0.0
    while m > 1:
        if m % 2 == 1:
            sum_ += sums[m - 1]
        m //= 2
    return sum_
