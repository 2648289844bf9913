"""Sums over preference pairs through tables of level-wise prefix sums.

For a document i and values x of the documents of its query, the losses need

    Σ x_j  over the active pairs (j, i): level j > level i and s_j − s_i < τ      (above)
    Σ x_j  over the active pairs (i, j): level j < level i and s_i − s_j < τ      (below)

These are γ⁺ and γ⁻ of Lee & Lin 2014, §2.2, and with x = 1 their l⁺ and l⁻. If the documents are
sorted by score, the partners with s_j − s_i < τ are a prefix (above) or a suffix (below) of the
list. Its end is found once per score vector.

For every position and every level c, a table has two sums: over the documents before the position
with a level > c, and over the documents from the position on with a level ≤ c. Each wanted sum is
an entry of this table, without a search or a branch. The table costs O(k) additions per document.
No sums are subtracted: a sum over few partners is as exact as its terms, and a sum over no partners
is zero. This matters if C is large.

If there are many levels (k > `RADIX`), levels are written as numbers of a few digits in a radix b ≤
`RADIX`. Two levels are ordered by the first digit in which they differ. Every pair therefore
belongs to exactly one *node*: the documents that share the digits before it. A node is a small
problem with b levels. A query with k levels has ⌈log_b k⌉ layers of nodes and costs O(b log_b k)
per document. If k ≤ `RADIX`, the query has one node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._simd import WIDTH, add_product, load, store
from .._sort import sort_by_key
from .._typing import Integers, Vector
from .plan import BASE, LEVELS, START, UNIT, PairPlan

RADIX = 13  #: levels in one node, at most; 13 levels fill three SIMD vectors of sums of each kind
COLUMNS = RADIX - 1  #: columns of each kind in the table of a node with `RADIX` levels


class TableState(NamedTuple):
    """The active pairs at the scores last linearised.

    ``docs`` has the documents of each node by increasing score, and ``digit`` their digits there.
    For each hinge and position, ``above`` and ``below`` are the places of the sums over the active
    partners in the table of the node (see `_mark_active`). ``curvature`` has, for each document,
    the sum of the second derivatives of its active pairs.
    """

    docs: NDArray[np.uint32]
    digit: NDArray[np.uint8]
    above: NDArray[np.uint32]
    below: NDArray[np.uint32]
    curvature: Vector


class TableScratch(NamedTuple):
    """Buffers of one thread, large enough for its largest query.

    Documents are sorted before sums are computed. ``keys`` and ``table`` therefore share memory,
    and so do ``docs`` and the last row of ``sums``.
    """

    keys: Vector
    docs: NDArray[np.uint32]
    table: Vector
    cursor: Integers
    values: Vector
    sums: Vector


def make_state(plan: PairPlan, docs: NDArray[np.uint32], n_hinges: int) -> TableState:
    """Allocate a state for the plan. Kernels sort `docs` in place."""
    shape = (n_hinges, len(docs))
    return TableState(
        docs=docs,
        digit=np.empty(len(docs), np.uint8),
        above=np.empty(shape, np.uint32),
        below=np.empty(shape, np.uint32),
        curvature=np.zeros(len(plan.level)),
    )


def make_scratch(plan: PairPlan, n: int) -> TableScratch:
    """Allocate the buffers of one thread, for queries of up to n documents."""
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
    """Return the length of a row of the table of a node.

    There are two sums for each level except one. With more than two levels, the sums of each kind
    fill whole SIMD vectors.
    """
    return 2 if levels == 2 else (levels + 2) // 4 * 8


row_length = njit(_row_length, inner=True)

#: ``LARGER[digit * COLUMNS + c]`` is 1 if documents of this digit count in column c of the sums
#: before a position, and 0 otherwise. `OTHERS` is the same for the sums from a position on.
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
    """Sort the documents of query q by score, and pass the order on to all its nodes."""
    first, last = plan.query_nodes[q], plan.query_nodes[q + 1]
    level = plan.level[plan.query_ptr[q] : plan.query_ptr[q + 1]]
    a, b = plan.nodes[first, START], plan.nodes[first + 1, START]
    sort_by_key(scores, state.docs[a:b], scratch.keys, scratch.docs)
    unit = np.uint32(plan.nodes[first, UNIT])  # divides three times as fast as int64
    for p in range(a, b):
        state.digit[p] = np.uint32(level[state.docs[p]]) // unit
    head = first + 1
    while head < last:  # the nodes of the next layer share a unit; each has a span of levels
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
    """Find the places of the sums over active partners, for each hinge τ and position.

    ``above`` is in the row of the first document with s_j − s_i ≥ τ: the sum over the documents
    before it with a larger digit. ``below`` is in the row of the first document with s_i − s_j < τ:
    the sum over the documents from it on with a smaller digit.
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
    """Find the first position with s_j − s_i ≥ τ, and the first with s_i − s_j < τ, in one loop.

    Each difference is compared once. Both documents of a pair therefore agree on whether the pair
    is active, however the difference is rounded.
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
    """Replace positions by places in the table."""
    length, n = row_length(levels), len(digits)
    half = length // 2
    for p in range(n):
        digit = np.uint32(digits[p])
        # A document without partners reads a zero: of row 0 (nothing before it) or of row n.
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
        # Slices count from 0, so numba does not test whether an index is negative.
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
    """Fill row p with sums of x over the documents before p, and over those from p on.

    The sums before p are over the digits > 0, > 1, …, and those from p on over the digits ≤ 0, ≤ 1,
    …. Four columns are summed at a time.
    """
    n, half = len(docs), length // 2
    for c in range(0, half, WIDTH):
        sums = load(LARGER, 0)  # zeros, because digit 0 counts in no column
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
    """Fill the table of a node with two levels, which has one column of each kind."""
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
    """Read the sums over partners above and below from the table, and add them to out."""
    for p in range(len(docs)):
        out[docs[p]] += scale * (table[above[p]] + sign * table[below[p]])
