"""Sums over preference pairs through tables of level-wise prefix sums.

For a document i and values x of the documents of its query, the losses need

    Σ x_j  over the active pairs (j, i): level j > level i and s_j − s_i < τ      (above)
    Σ x_j  over the active pairs (i, j): level j < level i and s_i − s_j < τ      (below)

(γ⁺ and γ⁻ of Lee & Lin 2014, §2.2; with x = 1 their l⁺ and l⁻.) With the documents
sorted by score, "s_j − s_i < τ" is a prefix (above) or a suffix (below) of the list, found
once per score vector. So per level c two prefix sums are kept, of the documents with a
level > c and of those with a level < c, and each wanted sum is one entry of that table,
or the difference of two: no search, no branch, O(k) additions per document.

When levels are many (k > `RADIX`), levels are written as numbers of a few digits in a
radix b ≤ `RADIX`. Two levels are ordered by the first digit in which they differ, so every
pair belongs to exactly one *node*: the documents that share the digits before it. A node
is a small problem with b levels. A query with k levels has ⌈log_b k⌉ layers of nodes and
costs O(b log_b k) per document; k ≤ `RADIX` is one node, the query itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._sort import sort_by_key
from .plan import BASE, LEVELS, START, UNIT, PairPlan

RADIX = 9  #: most levels in one node
MAX_WIDTH = 2 * (RADIX - 1)  #: columns of the table of such a node


class TableState(NamedTuple):
    """The pairs as seen from one score vector.

    docs, digit : the documents of each node by increasing score, and their digits there.
    above, below : per hinge of the loss and position, where in the node's table the sums
        over the active partners above and below end (see `_mark_active`).
    curvature : per document, the sum of the second derivatives of its active pairs.
    """

    docs: NDArray[np.uint32]
    digit: NDArray[np.uint8]
    above: NDArray[np.uint32]
    below: NDArray[np.uint32]
    curvature: NDArray[np.float64]


class TableScratch(NamedTuple):
    """Buffers of one thread, large enough for its largest query.

    Sorting comes before the sums, so ``keys`` and ``table`` share their memory, and so do
    ``docs`` and the last row of ``sums``.
    """

    keys: NDArray[np.float64]
    docs: NDArray[np.uint32]
    table: NDArray[np.float64]
    cursor: NDArray[np.int64]
    values: NDArray[np.float64]
    sums: NDArray[np.float64]


def make_state(plan: PairPlan, docs: NDArray[np.uint32], n_hinges: int) -> TableState:
    """A state for the plan; it says nothing until scores have been seen. It sorts `docs`."""
    shape = (n_hinges, len(docs))
    return TableState(
        docs=docs,
        digit=np.empty(len(docs), np.uint8),
        above=np.empty(shape, np.uint32),
        below=np.empty(shape, np.uint32),
        curvature=np.zeros(len(plan.level)),
    )


def make_scratch(plan: PairPlan, n: int) -> TableScratch:
    """Buffers for queries of up to n documents."""
    levels = int(plan.nodes[:-1, LEVELS].max(initial=2))
    work = np.empty(max(2 * n, (n + 1) * _table_width(levels)))
    sums = np.empty((3, n))
    return TableScratch(
        keys=work[: 2 * n],
        docs=sums[2].view(np.uint32),
        table=work,
        cursor=np.empty(int(np.diff(plan.query_nodes).max()) + 1, np.int64),
        values=np.empty(n),
        sums=sums,
    )


def _table_width(levels: int) -> int:
    """Columns of a node's table: two per level but one, in whole SIMD vectors if more than two."""
    return 2 if levels == 2 else (2 * (levels - 1) + 3) // 4 * 4


table_width = njit(_table_width, inner=True)


def _level_masks() -> NDArray[np.float64]:
    """``masks[levels, digit, column]``, flat: whether a document of that digit counts there.

    Column c < levels − 1 sums the digits > c; column levels − 2 + c sums the digits < c.
    """
    masks = np.zeros((RADIX + 1, RADIX, MAX_WIDTH))
    for levels in range(2, RADIX + 1):
        for digit in range(levels):
            for c in range(levels - 1):
                masks[levels, digit, c] = digit > c
                masks[levels, digit, levels - 1 + c] = digit < c + 1
    return masks.ravel()


MASKS = _level_masks()


# One query: from scores to active pairs, from values to sums -----------------------------------


@njit(inner=True)
def find_active(plan, state, q, scores, taus, scratch):  # type: ignore[no-untyped-def]
    """Find the active pairs of query q for each hinge τ: s_i − s_j < τ."""
    _sort_nodes(plan, state, q, scores, scratch)
    _mark_active(plan, state, q, scores, taus, scratch.keys)


@njit(inner=True)
def _sort_nodes(plan, state, q, scores, scratch):  # type: ignore[no-untyped-def]
    """Sort the documents of every node of query q by score: once, then handed down."""
    first, last = plan.query_nodes[q], plan.query_nodes[q + 1]
    level = plan.level[plan.query_ptr[q] : plan.query_ptr[q + 1]]
    a, b = plan.nodes[first, START], plan.nodes[first + 1, START]
    sort_by_key(scores, state.docs[a:b], scratch.keys, scratch.docs)
    for p in range(a, b):
        state.digit[p] = level[state.docs[p]] // plan.nodes[first, UNIT]
    head = first + 1
    while head < last:  # the next layer: nodes that share a unit, one per span of levels
        span = plan.nodes[head - 1, UNIT]
        tail = head
        while tail < last and plan.nodes[tail, UNIT] == plan.nodes[head, UNIT]:
            scratch.cursor[tail - head] = plan.nodes[tail, START]
            tail += 1
        for p in range(a, b):
            doc = state.docs[p]
            group = level[doc] // span
            spot = scratch.cursor[group]
            scratch.cursor[group] = spot + 1
            state.docs[spot] = doc
            state.digit[spot] = (
                level[doc] // plan.nodes[head, UNIT] - plan.nodes[head + group, BASE]
            )
        head = tail


@njit(inner=True)
def _mark_active(plan, state, q, scores, taus, ranked):  # type: ignore[no-untyped-def]
    """Find, for each hinge τ and position, where the sums over the active partners end.

    ``above`` points to the row of the first document with s_j − s_i ≥ τ, ``below`` to that
    of the first with s_i − s_j < τ, each in the column of the document's own digit. Both
    tests are the same rounded subtraction, so the two ends of a pair always agree.
    """
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
        levels = plan.nodes[node, LEVELS]
        if levels < 2:
            continue
        docs, digits, width, n = state.docs[a:b], state.digit[a:b], table_width(levels), b - a
        for p in range(n):
            ranked[p] = scores[docs[p]]
        for t in range(len(taus)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            high, low = 0, 0
            for p in range(n):
                digit = np.int64(digits[p])
                while high < n and ranked[high] - ranked[p] < taus[t]:
                    high += 1
                while low < n and ranked[p] - ranked[low] >= taus[t]:
                    low += 1
                # Row 0 is all zeros, and the last row minus itself is zero: no partners there.
                above[p] = high * width + digit if digit < levels - 1 else 0
                below[p] = (low if digit > 0 else n) * width + levels - 2 + digit


@njit(fast=True, inner=True)
def add_pair_sums(plan, state, q, x, wanted, factor, scratch, out):  # type: ignore[no-untyped-def]
    """Add the `Wanted` sums of x over the active partners of every document of query q."""
    table = scratch.table
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
        levels = plan.nodes[node, LEVELS]
        if levels < 2:
            continue
        # Slices, so that indices count from 0 and need no test for being negative.
        docs, digits = state.docs[a:b], state.digit[a:b]
        totals = table[(b - a) * table_width(levels) + levels - 2 :]
        if levels == 2:
            _fill_two_columns(docs, digits, x, table)
        else:
            _fill_table(docs, digits, x, levels, table)
        for t in range(len(state.above)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            for r in range(len(out)):
                scale, sign = factor * wanted.scale[r, t], wanted.sign[r]
                _add_sums(docs, digits, above, below, table, totals, scale, sign, out[r])


@njit(fast=True, inner=True)
def _fill_table(docs, digits, x, levels, table):  # type: ignore[no-untyped-def]
    """Row p of the table: sums of x over the first p documents, in each column's digits."""
    width = table_width(levels)
    masks = MASKS[levels * RADIX * MAX_WIDTH :]
    for c in range(0, width, 4):  # four columns at a time: one SIMD register
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        table[c], table[c + 1], table[c + 2], table[c + 3] = 0.0, 0.0, 0.0, 0.0
        o = c
        for p in range(len(docs)):
            o += width
            value = x[docs[p]]
            m = digits[p] * MAX_WIDTH + c
            t0 += value * masks[m]
            t1 += value * masks[m + 1]
            t2 += value * masks[m + 2]
            t3 += value * masks[m + 3]
            table[o], table[o + 1], table[o + 2], table[o + 3] = t0, t1, t2, t3


@njit(fast=True, inner=True)
def _fill_two_columns(docs, digits, x, table):  # type: ignore[no-untyped-def]
    """`_fill_table` for two levels: the upper documents, and the lower ones."""
    t0, t1 = 0.0, 0.0
    table[0], table[1] = 0.0, 0.0
    for p in range(len(docs)):
        value, upper = x[docs[p]], np.float64(digits[p])
        t0 += value * upper
        t1 += value * (1.0 - upper)
        table[2 * p + 2], table[2 * p + 3] = t0, t1


@njit(fast=True, inner=True)
def _add_sums(docs, digits, above, below, table, totals, scale, sign, out):  # type: ignore[no-untyped-def]
    """Look the sums over partners above and below up in the table, and add them to out."""
    for p in range(len(docs)):
        higher = table[above[p]]
        lower = totals[digits[p]] - table[below[p]]
        out[docs[p]] += scale * (higher + sign * lower)
