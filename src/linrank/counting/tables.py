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

If there are many levels (k > `MOST_LEVELS`), levels are written as numbers of a few digits. Each
digit but the first has `DIGIT_BITS` bits. Two levels are ordered by the first digit in which they
differ. Every pair therefore belongs to exactly one *node*: the documents that share the digits
before it. A node is a small problem with at most `MOST_LEVELS` levels. A query with k levels has
O(log k) layers of nodes, and costs O(log k) per document. If k ≤ `MOST_LEVELS`, the query has one
node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._compile.simd import add_product, eight, four, load, store
from .._util.types import Vector
from .plan import DIGIT_BITS, LEVELS, START, UNIT, LevelComparison, NodeLayout, plan_pairs
from .sort import sort_by_key

MOST_LEVELS = 16  #: largest number of levels in a node; sums fill two vectors of eight numbers
COLUMNS = 16  #: columns of each kind in the widest table


class TableState(NamedTuple):
    """The active pairs at the scores last linearised.

    ``docs`` has the documents of each node by increasing score, and ``digit`` their digits there.
    For each hinge and position, ``above`` and ``below`` are the places of the sums over the active
    partners in the table of the node (see `_point_to_ends`). ``curvature`` has, for each document,
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
    values: Vector
    sums: Vector


def _row_length(levels: int) -> int:
    """Return the length of a row of the table of a node.

    There are two sums for each level except one. With more than two levels, the sums of each kind
    fill a vector of four or vectors of eight numbers.
    """
    if levels <= 2:
        return 2
    return 8 if levels <= 5 else (levels + 6) // 8 * 16


row_length = njit(_row_length, inner=True)

#: ``LARGER[digit * COLUMNS + c]`` is 1 if documents of this digit count in column c of the sums
#: before a position, and 0 otherwise. `OTHERS` is the same for the sums from a position on.
LARGER = (np.arange(MOST_LEVELS)[:, None] > np.arange(COLUMNS)).astype(np.float64).ravel()
OTHERS = 1.0 - LARGER
EQUAL = np.eye(MOST_LEVELS).ravel()  #: ``EQUAL[digit * COLUMNS + c]`` is 1 if the digit is c


# One query: from scores to active pairs, from values to sums -----------------------------------


@njit(inner=True)
def count_active(plan, state, q, scores, hinges, x, scratch, sums):  # type: ignore[no-untyped-def]
    """Find the active pairs of query q for each hinge, and add up the weights x of partners.

    A pair is active for the hinge τ if s_i − s_j < τ. ``sums`` gets the sums ``hinges.counts``. The
    partners of documents are searched for in the first node only. Each other node gets the order
    of its documents, and the ends of their partners, from the node above it.
    """
    first, last = plan.query_nodes[q], plan.query_nodes[q + 1]
    level = plan.level[plan.query_ptr[q] : plan.query_ptr[q + 1]]
    _search_first_node(plan, state, first, scores, level, hinges.tau, scratch)
    sums[:] = 0.0
    # Several nodes need tables of counts. If all documents weigh 1, these tables have the sums.
    counted, child = last - first > 1 and len(plan.weight) == 0, first + 1
    for node in range(first, last):
        a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
        docs, digits, levels = state.docs[a:b], state.digit[a:b], plan.nodes[node, LEVELS]
        if counted or plan.nodes[node, UNIT] > 1:
            _fill_counts(digits, levels, scratch.table)
        if plan.nodes[node, UNIT] > 1:
            _pass_down(plan, state, level, node, child, scratch.table)
            child += levels
        if levels < 2:
            continue
        if not counted:
            _fill_table(docs, digits, levels, x, scratch.table)
        for t in range(len(hinges.tau)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            if counted:
                _count_partners(
                    docs, digits, levels, above, below, scratch.table, hinges.counts, t, sums
                )
            _point_to_ends(digits, levels, above, below)
            if not counted:
                _add_counts(docs, above, below, scratch.table, hinges.counts, t, sums)


@njit(inner=True)
def _search_first_node(plan, state, node, scores, level, taus, scratch):  # type: ignore[no-untyped-def]
    """Sort the documents of a query, and find the ends of their partners."""
    a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
    docs, digits = state.docs[a:b], state.digit[a:b]
    sort_by_key(scores, docs, scratch.keys, scratch.docs)
    shift = _shift(plan, node)
    for p in range(len(docs)):
        digits[p] = level[docs[p]] >> shift
    for t in range(len(taus)):
        _find_ends(scratch.keys, taus[t], state.above[t, a:b], state.below[t, a:b])


@njit(inner=True)
def _shift(plan, node):  # type: ignore[no-untyped-def]
    """Return the number of bits of a level below its digit in a node."""
    shift = 0
    while 1 << shift < plan.nodes[node, UNIT]:
        shift += DIGIT_BITS
    return shift


@njit(inner=True)
def _find_ends(ranked, tau, above, below):  # type: ignore[no-untyped-def]
    """Find the first position with s_j − s_i ≥ τ, and the first with s_i − s_j < τ.

    Each difference is compared once. Both documents of a pair therefore agree on whether the pair
    is active, however the difference is rounded. The lower and the upper half of the documents are
    searched in the same loop, because each step waits for the one before it.
    """
    n = len(above)
    middle = n // 2
    start, end = 0, n
    while start < end:  # the first position with s_j − s_i ≥ τ for the document in the middle
        half = (start + end) // 2
        if ranked[half] - ranked[middle] < tau:
            start = half + 1
        else:
            end = half
    p, high, r, top = 0, 0, middle, start
    while p < middle and high < start and r < n and top < n:
        p, high = _step(ranked, tau, p, high, above, below)
        r, top = _step(ranked, tau, r, top, above, below)
    while p < middle and high < start:
        p, high = _step(ranked, tau, p, high, above, below)
    while r < n and top < n:
        r, top = _step(ranked, tau, r, top, above, below)
    above[p:middle] = start
    above[r:] = n
    below[high:start] = middle
    below[top:] = n


@njit(inner=True)
def _step(ranked, tau, p, high, above, below):  # type: ignore[no-untyped-def]
    """Advance one of two positions, without a branch: a wrong guess would cost ten steps."""
    active = np.int64(ranked[high] - ranked[p] < tau)
    above[p] = high
    below[high] = p
    return p + 1 - active, high + active


def _columns(levels: int) -> int:
    """Return half the length of a row of a table of counts, which has room for each digit."""
    return 8 if levels <= 8 else 16


count_columns = njit(_columns, inner=True)


@njit(fast=True, inner=True)
def _fill_counts(digits, levels, table):  # type: ignore[no-untyped-def]
    """Fill row p with the numbers of documents before p, by digit.

    First come those with the digit 0, 1, …, and then those with a digit > 0, > 1, ….
    """
    columns, zeros = count_columns(levels), eight()
    for c in range(0, columns, 8):
        equal, larger, o = zeros, zeros, c
        store(table, o, equal)
        store(table, o + columns, larger)
        for p in range(len(digits)):
            o += 2 * columns
            place = np.int64(digits[p]) * COLUMNS + c
            equal = add_product(equal, 1.0, load(zeros, EQUAL, place))
            larger = add_product(larger, 1.0, load(zeros, LARGER, place))
            store(table, o, equal)
            store(table, o + columns, larger)


@njit(inner=True)
def _pass_down(plan, state, level, node, child, table):  # type: ignore[no-untyped-def]
    """Pass the documents of a node, and the ends of their partners, on to its child nodes.

    Counts (`_fill_counts`) are the same positions among the documents of one digit.
    """
    a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
    docs, digits = state.docs[a:b], state.digit[a:b]
    length, shift = 2 * count_columns(plan.nodes[node, LEVELS]), _shift(plan, child)
    for p in range(len(docs)):
        digit = np.int64(digits[p])
        spot = plan.nodes[child + digit, START] + np.int64(table[p * length + digit])
        state.docs[spot] = docs[p]
        state.digit[spot] = (level[docs[p]] >> shift) & ((1 << DIGIT_BITS) - 1)
    for t in range(len(state.above)):
        above, below = state.above[t], state.below[t]
        for p in range(len(docs)):
            digit = np.int64(digits[p])
            spot = plan.nodes[child + digit, START] + np.int64(table[p * length + digit])
            above[spot] = np.int64(table[np.int64(above[a + p]) * length + digit])
            below[spot] = np.int64(table[np.int64(below[a + p]) * length + digit])


@njit(inner=True)
def _count_partners(docs, digits, levels, above, below, table, counts, t, sums):  # type: ignore[no-untyped-def]
    """Do what `_add_counts` does for documents of weight 1, from a table of counts."""
    n, columns = len(docs), count_columns(levels)
    s0, s1, s2 = counts.scale[0, t], counts.scale[1, t], counts.scale[2, t]
    for p in range(n):
        doc, digit = docs[p], np.int64(digits[p])
        upper = table[np.int64(above[p]) * 2 * columns + columns + digit]
        start = np.int64(below[p])
        here, end = start * 2 * columns + digit, n * 2 * columns + digit
        others = table[end] - table[here] + table[end + columns] - table[here + columns]
        lower = np.float64(n - start) - others
        sums[0, doc] += s0 * (upper + lower)
        sums[1, doc] += s1 * (upper - lower)
        sums[2, doc] += s2 * (upper + lower)


@njit(inner=True)
def _point_to_ends(digits, levels, above, below):  # type: ignore[no-untyped-def]
    """Replace the ends of partners by the places of the sums over them in the table.

    ``above`` was the first document with s_j − s_i ≥ τ. It becomes the place of the sum over the
    documents before it with a larger digit. ``below`` was the first document with s_i − s_j < τ. It
    becomes the place of the sum over the documents from it on with a smaller digit.
    """
    length, n = row_length(levels), len(digits)
    half = length // 2
    for p in range(n):
        digit = np.uint32(digits[p])
        # A document without partners reads a zero: of row 0 (nothing before it) or of row n.
        above[p] = above[p] * length + digit if digit < levels - 1 else 0
        below[p] = below[p] * length + half + digit - 1 if digit > 0 else n * length + half


@njit(fast=True, inner=True)
def _add_counts(docs, above, below, table, counts, t, sums):  # type: ignore[no-untyped-def]
    """Add the sums of hinge t to the three sums of each document (see `Wanted`)."""
    s0, s1, s2 = counts.scale[0, t], counts.scale[1, t], counts.scale[2, t]
    for p in range(len(docs)):
        doc, upper, lower = docs[p], table[above[p]], table[below[p]]
        sums[0, doc] += s0 * (upper + lower)
        sums[1, doc] += s1 * (upper - lower)
        sums[2, doc] += s2 * (upper + lower)


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
        _fill_table(docs, digits, levels, x, table)
        for t in range(len(state.above)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            for r in range(len(out)):
                scale, sign = factor * wanted.scale[r, t], wanted.sign[r]
                _add_sums(docs, above, below, table, scale, sign, out[r])


@njit(fast=True, inner=True)
def _fill_table(docs, digits, levels, x, table):  # type: ignore[no-untyped-def]
    """Fill row p with sums of x over the documents before p, and over those from p on.

    The sums before p are over the digits > 0, > 1, …, and those from p on over the digits ≤ 0, ≤ 1,
    ….
    """
    length = row_length(levels)
    if length == 2:
        _fill_two_columns(docs, digits, x, table)
    elif length == 8:
        _fill_columns(docs, digits, x, length, 0, four(), table)
    else:
        for c in range(0, length // 2, 8):
            _fill_columns(docs, digits, x, length, c, eight(), table)


@njit(fast=True, inner=True)
def _fill_columns(docs, digits, x, length, c, zeros, table):  # type: ignore[no-untyped-def]
    """Fill as many columns of each kind, from column c on, as a SIMD vector has numbers."""
    sums, o = zeros, c
    store(table, o, sums)
    for p in range(len(docs)):
        o += length
        sums = add_product(sums, x[docs[p]], load(zeros, LARGER, np.int64(digits[p]) * COLUMNS + c))
        store(table, o, sums)
    sums = zeros
    o += length // 2
    store(table, o, sums)
    for p in range(len(docs) - 1, -1, -1):
        o -= length
        sums = add_product(sums, x[docs[p]], load(zeros, OTHERS, np.int64(digits[p]) * COLUMNS + c))
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


# --------------------------------------------------------------------------------------------------
# Sums over preference pairs for many values of each document at once.
#
# A Hessian as a matrix needs the sums of `linrank.counting.tables` for every feature. The features
# of a document lie side by side, so SIMD vectors hold several features. The ends of partners never
# decrease from one document to the next. Running sums by level therefore take the place of a table.


@njit(inner=True)
def add_row_sums(plan, state, q, x, wanted, factor, buffer, out):  # type: ignore[no-untyped-def]
    """Do what `add_pair_sums` does for each column of a matrix x, with weights of documents.

    The value of a document is its row of x times its weight. The first of the `Wanted` sums is
    multiplied by the weight of the document that it belongs to. ``buffer`` has room for a row of
    x per level of a node.
    """
    sums = buffer[: COLUMNS * x.shape[1]].reshape((COLUMNS, x.shape[1]))
    weight = plan.weight[plan.query_ptr[q] :] if len(plan.weight) > 0 else plan.weight
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
        levels = plan.nodes[node, LEVELS]
        if levels < 2:
            continue
        docs, digits = state.docs[a:b], state.digit[a:b]
        for t in range(len(state.above)):
            above, below = state.above[t, a:b], state.below[t, a:b]
            scale = factor * wanted.scale[0, t]
            _sweep_up(docs, digits, levels, above, weight, x, scale, sums, out)
            _sweep_down(docs, digits, levels, below, weight, x, scale * wanted.sign[0], sums, out)


@njit(inner=True)
def _sweep_up(docs, digits, levels, above, weight, x, scale, sums, out):  # type: ignore[no-untyped-def]
    """Add the sums over partners above; ``sums[c]`` is over the digits > c before an end."""
    length, end = row_length(levels), 0
    sums[: levels - 1] = 0.0
    for p in range(len(docs)):
        digit = np.int64(digits[p])
        if digit < levels - 1:
            last = above[p] // length  # see `_point_to_ends`
            while end < last:
                for c in range(digits[end]):
                    _add_row(weight, docs[end], 1.0, x[docs[end]], sums[c])
                end += 1
            _add_row(weight, docs[p], scale, sums[digit], out[docs[p]])


@njit(inner=True)
def _sweep_down(docs, digits, levels, below, weight, x, scale, sums, out):  # type: ignore[no-untyped-def]
    """Add the sums over partners below; ``sums[c]`` is over the digits ≤ c from a start on."""
    length, start = row_length(levels), len(docs)
    sums[: levels - 1] = 0.0
    for p in range(len(docs) - 1, -1, -1):
        digit = np.int64(digits[p])
        if digit > 0:
            first = below[p] // length
            while start > first:
                start -= 1
                for c in range(digits[start], levels - 1):
                    _add_row(weight, docs[start], 1.0, x[docs[start]], sums[c])
            _add_row(weight, docs[p], scale, sums[digit - 1], out[docs[p]])


@njit(fast=True, inner=True)
def _add_row(weight, doc, scale, row, out):  # type: ignore[no-untyped-def]
    """Add a row to another one, times a scale and the weight of a document if it has one."""
    factor = scale * weight[doc] if len(weight) > 0 else scale
    for f in range(len(row)):
        out[f] += factor * row[f]


# --------------------------------------------------------------------------------------------------
# Layout of pairs in nodes, for the tables.


@dataclass(frozen=True)
class TableLayout(NodeLayout):
    """Pairs in nodes of at most `MOST_LEVELS` levels."""

    def make_state(self, n_hinges: int) -> TableState:
        """Allocate the state for a loss with that many hinges. Kernels sort `docs` in place."""
        shape = (n_hinges, len(self.docs))
        return TableState(
            docs=self.docs,
            digit=np.empty(len(self.docs), np.uint8),
            above=np.empty(shape, np.uint32),
            below=np.empty(shape, np.uint32),
            curvature=np.zeros(len(self.plan.level)),
        )

    def make_scratch(self, n: int) -> TableScratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""
        levels = int(self.plan.nodes[:-1, LEVELS].max(initial=2))
        work = np.empty(max(2 * n, (n + 1) * max(_row_length(levels), 2 * _columns(levels))))
        sums = np.empty((3, n))
        return TableScratch(
            keys=work[: 2 * n],
            docs=sums[2].view(np.uint32),
            table=work,
            values=np.empty(n),
            sums=sums,
        )


def lay_out_tables(counting: str, case: LevelComparison) -> TableLayout:
    """Lay out the pairs in nodes of at most `MOST_LEVELS` levels."""
    plan, docs = plan_pairs(case.data, case.query_weight, case.levels, MOST_LEVELS, case.offsets)
    return TableLayout(counting, plan, docs, case.levels.mass)
