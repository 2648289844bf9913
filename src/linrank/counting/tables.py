"""Sums over preference pairs through tables of level-wise prefix sums.

For a document i and values x of the documents of its query, the losses need

    Σ x_j  over the active pairs (j, i): level j > level i and s_j − s_i < τ      (above)
    Σ x_j  over the active pairs (i, j): level j < level i and s_i − s_j < τ      (below)

(γ⁺ and γ⁻ of Lee & Lin 2014, §2.2; with x = 1 their l⁺ and l⁻.) With the documents
sorted by score, "s_j − s_i < τ" is a prefix (above) or a suffix (below) of the list, found
once per score vector. So per level c two sums are kept for every position: of the documents before
it with a level > c, and of those from it on with a level ≤ c. Each wanted sum is an entry of
that table: no search, no branch, O(k) additions per document. And no subtraction: a sum over few
partners is as exact as these are, and one over none is zero, which counts when C is large.

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
from .._simd import WIDTH, add_product, load, store
from .._sort import sort_by_key
from .plan import BASE, LEVELS, START, UNIT, PairPlan

RADIX = 13  #: most levels in one node: three SIMD vectors of sums of each kind
COLUMNS = RADIX - 1  #: of each kind in the table of such a node


class TableState(NamedTuple):
    """The pairs as seen from one score vector.

    docs, digit : the documents of each node by increasing score, and their digits there.
    above, below : per hinge of the loss and position, where in the node's table the sums
        over the active partners above and below are (see `_mark_active`).
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
    work = np.empty(max(2 * n, (n + 1) * _row_length(levels)))
    sums = np.empty((3, n))
    return TableScratch(
        keys=work[: 2 * n],
        docs=sums[2].view(np.uint32),
        table=work,
        cursor=np.empty(int(np.diff(plan.query_nodes).max()) + 1, np.int64),
        values=np.empty(n),
        sums=sums,
    )


def _row_length(levels: int) -> int:
    """Entries of a row of a node's table: two per level but one, in whole vectors if not one."""
    return 2 if levels == 2 else (levels + 2) // 4 * 8


row_length = njit(_row_length, inner=True)

#: ``LARGER[digit * COLUMNS + c]``: whether a document of that digit is in the sums of column c of
#: those before a position. The others are in those from it on.
LARGER = (np.arange(RADIX)[:, None] > np.arange(COLUMNS)).astype(np.float64).ravel()
OTHERS = 1.0 - LARGER


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
    unit = np.uint32(plan.nodes[first, UNIT])  # unsigned and short: a third of the time to divide
    for p in range(a, b):
        state.digit[p] = np.uint32(level[state.docs[p]]) // unit
    head = first + 1
    while head < last:  # the next layer: nodes that share a unit, one per span of levels
        span, unit = unit, np.uint32(plan.nodes[head, UNIT])
        tail = head
        while tail < last and plan.nodes[tail, UNIT] == unit:
            scratch.cursor[tail - head] = plan.nodes[tail, START]
            tail += 1
        for p in range(a, b):
            doc = state.docs[p]
            group = np.uint32(level[doc]) // span
            spot = scratch.cursor[group]
            scratch.cursor[group] = spot + 1
            state.docs[spot] = doc
            state.digit[spot] = np.uint32(level[doc]) // unit - plan.nodes[head + group, BASE]
        head = tail


@njit(inner=True)
def _mark_active(plan, state, q, scores, taus, ranked):  # type: ignore[no-untyped-def]
    """Find, for each hinge τ and position, where the sums over the active partners are.

    ``above`` points to the row of the first document with s_j − s_i ≥ τ, to the sum of those before
    it with a larger digit; ``below`` to the row of the first with s_i − s_j < τ, to the sum of
    those from it on with a smaller digit.
    """
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
        levels = plan.nodes[node, LEVELS]
        if levels < 2:
            continue
        docs, digits = state.docs[a:b], state.digit[a:b]
        for p in range(len(docs)):
            ranked[p] = scores[docs[p]]
        for t in range(len(taus)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            _find_ends(ranked, taus[t], above, below)
            _point_to_ends(digits, levels, above, below)


@njit(inner=True)
def _find_ends(ranked, tau, above, below):  # type: ignore[no-untyped-def]
    """The first position with s_j − s_i ≥ τ, and the first with s_i − s_j < τ, in one walk.

    A pair is found to be active once, so its two ends agree, however the difference is rounded.
    """
    n, high = len(above), 0
    for p in range(n):
        while high < n and ranked[high] - ranked[p] < tau:
            below[high] = p
            high += 1
        above[p] = high
    below[high:] = n


@njit(inner=True)
def _point_to_ends(digits, levels, above, below):  # type: ignore[no-untyped-def]
    """Turn positions into places in the table."""
    length, n = row_length(levels), len(digits)
    half = length // 2
    for p in range(n):
        digit = np.uint32(digits[p])
        # Row 0 has nothing before it, and row n nothing from it on: no partners there.
        above[p] = above[p] * length + digit if digit < levels - 1 else 0
        below[p] = below[p] * length + half + digit - 1 if digit > 0 else n * length + half


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
        length = row_length(levels)
        if levels == 2:
            _fill_two_columns(docs, digits, x, table)
        else:
            _fill_table(docs, digits, x, length, table)
        for t in range(len(state.above)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            for r in range(len(out)):
                scale, sign = factor * wanted.scale[r, t], wanted.sign[r]
                _add_sums(docs, above, below, table, scale, sign, out[r])


@njit(fast=True, inner=True)
def _fill_table(docs, digits, x, length, table):  # type: ignore[no-untyped-def]
    """Row p: sums of x over the documents before p, and over those from p on, four at a time.

    Before p, of the digits > 0, > 1, …; from p on, of the digits ≤ 0, ≤ 1, ….
    """
    n, half = len(docs), length // 2
    for c in range(0, half, WIDTH):
        sums = load(LARGER, 0)  # digit 0 is larger than none: all zeros
        o = c
        store(table, o, sums)
        for p in range(n):
            o += length
            sums = add_product(sums, x[docs[p]], load(LARGER, digits[p] * COLUMNS + c))
            store(table, o, sums)
        sums = load(LARGER, 0)
        o += half
        store(table, o, sums)
        for p in range(n - 1, -1, -1):
            o -= length
            sums = add_product(sums, x[docs[p]], load(OTHERS, digits[p] * COLUMNS + c))
            store(table, o, sums)


@njit(fast=True, inner=True)
def _fill_two_columns(docs, digits, x, table):  # type: ignore[no-untyped-def]
    """`_fill_table` for two levels: the upper documents before p, the lower ones from p on."""
    n = len(docs)
    upper, lower = 0.0, 0.0
    table[0] = 0.0
    for p in range(n):
        upper += x[docs[p]] * digits[p]
        table[2 * p + 2] = upper
    table[2 * n + 1] = 0.0
    for p in range(n - 1, -1, -1):
        lower += x[docs[p]] * (1.0 - digits[p])
        table[2 * p + 1] = lower


@njit(fast=True, inner=True)
def _add_sums(docs, above, below, table, scale, sign, out):  # type: ignore[no-untyped-def]
    """Look the sums over partners above and below up in the table, and add them to out."""
    for p in range(len(docs)):
        out[docs[p]] += scale * (table[above[p]] + sign * table[below[p]])
