"""Level counters: one running sum per level (Lee & Lin 2014, end of §2.2).

An insertion is one addition. The queries Larger and Smaller sum the levels on one side: O(k).
"""

from __future__ import annotations

from .._jit import njit


@njit(inner=True)
def insert(sums, level, x):  # type: ignore[no-untyped-def]
    """Add x under a level."""
    sums[level] += x


@njit(fast=True, inner=True)
def larger(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under higher levels."""
    sum_ = 0.0
    for c in range(level + 1, len(sums)):
        sum_ += sums[c]
    return sum_


@njit(fast=True, inner=True)
def smaller(sums, level):  # type: ignore[no-untyped-def]
    """Return the sum of all x that were added under lower levels."""
    sum_ = 0.0
    for c in range(level):
        sum_ += sums[c]
    return sum_
