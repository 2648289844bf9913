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
from .._threads import run, split

RADIX = 9  #: most levels in one node
MAX_WIDTH = 2 * (RADIX - 1)  #: columns of the table of such a node


START, LEVELS, UNIT, BASE = range(4)  #: columns of `PairPlan.nodes`


class PairPlan(NamedTuple):
    """What is known about the pairs before any score is: it depends on the labels only.

    Query q has the nodes ``query_nodes[q]:query_nodes[q + 1]``: none where it has no pairs.
    Node m owns the positions ``nodes[m, START]:nodes[m + 1, START]`` of a `PairState`; a
    document of level v has the digit ``v // nodes[m, UNIT] − nodes[m, BASE]`` in it, one of
    ``nodes[m, LEVELS]``. ``weight`` is empty when all weights are 1.
    """

    query_ptr: NDArray[np.int64]
    level: NDArray[np.int32]
    weight: NDArray[np.float64]
    query_weight: NDArray[np.float64]
    query_nodes: NDArray[np.int64]
    nodes: NDArray[np.int64]


class PairState(NamedTuple):
    """The pairs as seen from one score vector.

    docs, digit : the documents of each node by increasing score, and their digits there.
    above, below : per hinge of the loss and position, where in the node's table the sums
        over the active partners above and below end (see `mark_active`).
    curvature : per document, the sum of the second derivatives of its active pairs, but for
        the factor of its own weight.
    """

    docs: NDArray[np.uint32]
    digit: NDArray[np.uint8]
    above: NDArray[np.uint32]
    below: NDArray[np.uint32]
    curvature: NDArray[np.float64]


class Wanted(NamedTuple):
    """Combinations of pair sums; see `add_pair_sums`."""

    source: NDArray[np.int64]
    scale: NDArray[np.float64]
    sign: NDArray[np.float64]


class PairScratch(NamedTuple):
    """Buffers of one thread, large enough for its largest query."""

    keys: NDArray[np.float64]
    docs: NDArray[np.uint32]
    table: NDArray[np.float64]
    cursor: NDArray[np.int64]
    values: NDArray[np.float64]
    sums: NDArray[np.float64]


def make_scratch(n: int) -> PairScratch:
    """Buffers for queries of up to n documents."""
    return PairScratch(
        keys=np.empty(2 * n),
        docs=np.empty(2 * n, np.uint32),
        table=np.empty((n + 1) * MAX_WIDTH),
        cursor=np.empty(n + 1, np.int64),
        values=np.empty((2, n)),
        sums=np.empty((4, n)),
    )


@njit(inner=True)
def table_width(levels):  # type: ignore[no-untyped-def]
    """Columns of a node's table: two per level but one, rounded up to whole SIMD vectors."""
    return (2 * (levels - 1) + 3) // 4 * 4


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


# The plan: from labels to nodes ------------------------------------------------------------


def plan_pairs(
    y: NDArray[np.float64],
    query_ptr: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    query_weight: NDArray[np.float64],
    n_threads: int,
) -> tuple[PairPlan, NDArray[np.uint32], NDArray[np.float64]]:
    """Lay out the pairs of all queries.

    Documents of weight 0 and queries of weight 0 are left out, as if they were not there.

    Returns
    -------
    plan : PairPlan
    docs : uint32 array
        Room for the documents of each node. Those of a query's first node stand there in
        row order, where the first sort by score begins; `sort_query` fills the others.
    mass : float64 array of shape (n_queries, 2)
        The number of pairs of each query, and the sum of w_i·w_j over them.
    """
    n_docs, n_queries = len(y), len(query_ptr) - 1
    weight = np.empty(0) if weight is None else weight
    level = np.empty(n_docs, np.int32)
    n_levels = np.empty(n_queries, np.int64)
    mass = np.empty((n_queries, 2))
    tasks = [
        (y, query_ptr, weight, query_weight, a, b, level, n_levels, mass)
        for a, b in split(query_ptr, n_threads)
    ]
    run(_rank_labels, tasks, n_threads)
    layers, radix = _layers_and_radix(n_levels)
    has_pairs = n_levels > 1
    n_used = np.add.reduceat(level >= 0, query_ptr[:-1], dtype=np.int64)
    spans = [radix**depth for depth in range(1, int(layers.max()) + 1)]
    n_nodes = sum(
        int((-(-n_levels // span))[has_pairs & (depth <= layers)].sum())
        for depth, span in enumerate(spans, 1)
    )
    plan = PairPlan(
        query_ptr=query_ptr,
        level=level,
        weight=weight,
        query_weight=query_weight,
        query_nodes=np.empty(n_queries + 1, np.int64),
        nodes=np.empty((n_nodes + 1, 4), np.int64),
    )
    docs = np.empty(int((n_used * layers)[has_pairs].sum()), np.uint32)
    _lay_out_nodes(plan, n_levels, layers, radix, docs)
    return plan, docs, mass


@njit
def _rank_labels(y, query_ptr, weight, query_weight, q0, q1, level, n_levels, mass):  # type: ignore[no-untyped-def]
    """Number the distinct labels of each query from 0 upward; −1 marks a left-out document."""
    largest = 0
    for q in range(q0, q1):
        largest = max(largest, query_ptr[q + 1] - query_ptr[q])
    docs = np.empty(largest, np.uint32)
    tmp_docs = np.empty(2 * largest, np.uint32)
    tmp_keys = np.empty(2 * largest)
    for q in range(q0, q1):
        first = query_ptr[q]
        labels = y[first : query_ptr[q + 1]]
        n = 0
        for i in range(len(labels)):
            level[first + i] = -1
            if query_weight[q] > 0.0 and (len(weight) == 0 or weight[first + i] > 0.0):
                docs[n] = i
                n += 1
        sort_by_key(labels, docs[:n], tmp_keys, tmp_docs)
        k, start, n_pairs, weight_below, weight_here, total = 0, 0, 0.0, 0.0, 0.0, 0.0
        for p in range(n):
            if p > 0 and labels[docs[p]] > labels[docs[p - 1]]:
                k, start = k + 1, p
                weight_below += weight_here
                weight_here = 0.0
            own = 1.0 if len(weight) == 0 else weight[first + docs[p]]
            level[first + docs[p]] = k
            n_pairs += start
            total += own * weight_below
            weight_here += own
        n_levels[q] = k + 1
        mass[q, 0] = n_pairs
        mass[q, 1] = total


def _layers_and_radix(k: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For k levels: the fewest digits that can number them, and the smallest radix that does.

    Examples
    --------
    >>> _layers_and_radix(np.array([2, 9, 10, 82]))
    (array([1, 1, 2, 3]), array([2, 9, 4, 5]))
    """
    layers = np.ones_like(k)
    while (short := RADIX**layers < k).any():
        layers += short
    radix = np.full_like(k, 2)
    while (short := radix**layers < k).any():
        radix += short
    return layers, radix


@njit
def _lay_out_nodes(plan, n_levels, n_layers, radices, docs):  # type: ignore[no-untyped-def]
    """Fill the plan's nodes, and put the documents of each query into its first node.

    The node of a document in a further layer follows from its level: the layer's first
    node plus ``level // span`` (see `sort_query`), so no table of nodes is kept.
    """
    node, position = 0, 0
    plan.nodes[0, START] = 0
    for q in range(len(n_levels)):
        plan.query_nodes[q] = node
        k = n_levels[q]
        if k < 2:
            continue
        layers, radix = n_layers[q], radices[q]
        level = plan.level[plan.query_ptr[q] : plan.query_ptr[q + 1]]
        for layer in range(layers):
            span = radix ** (layers - layer)
            unit = span // radix
            head = node
            for group in range((k + span - 1) // span):
                plan.nodes[node, UNIT] = unit
                plan.nodes[node, BASE] = group * radix
                plan.nodes[node, LEVELS] = (
                    (min((group + 1) * span, k) - 1) // unit - group * radix + 1
                )
                plan.nodes[node + 1, START] = 0
                node += 1
            for i in range(len(level)):
                if level[i] >= 0:
                    plan.nodes[head + level[i] // span + 1, START] += 1
            for m in range(head, node):
                plan.nodes[m + 1, START] += plan.nodes[m, START]
        for i in range(len(level)):
            if level[i] >= 0:
                docs[position] = i
                position += 1
        position = plan.nodes[node, START]
    plan.query_nodes[len(n_levels)] = node


# One query: from scores to active pairs, from values to sums -----------------------------------


@njit(inner=True)
def sort_query(plan, state, q, scores, scratch):  # type: ignore[no-untyped-def]
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
def mark_active(plan, state, q, scores, taus, ranked):  # type: ignore[no-untyped-def]
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
def add_pair_sums(plan, state, q, x, wanted, factor, table, out):  # type: ignore[no-untyped-def]
    """Add sums of values over the active partners of every document of query q.

    ``out[r, i] += factor·Σ_t scale[r, t]·(Σ_above x[m, j] + sign[r]·Σ_below x[m, j])`` over
    the hinges t, with m = source[r]: as many combinations r as the caller wants, from one
    table per row of x.
    """
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
        levels = plan.nodes[node, LEVELS]
        if levels < 2:
            continue
        # Slices, so that indices count from 0 and need no test for being negative.
        docs, digits = state.docs[a:b], state.digit[a:b]
        totals = table[(b - a) * table_width(levels) + levels - 2 :]
        for m in range(len(x)):
            _fill_table(docs, digits, x[m], levels, table)
            for t in range(len(state.above)):
                above, below = state.above[t, a:b], state.below[t, a:b]
                for r in range(len(out)):
                    if wanted.source[r] == m:
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
def _add_sums(docs, digits, above, below, table, totals, scale, sign, out):  # type: ignore[no-untyped-def]
    """Look the sums over partners above and below up in the table, and add them to out."""
    for p in range(len(docs)):
        higher = table[above[p]]
        lower = totals[digits[p]] - table[below[p]]
        out[docs[p]] += scale * (higher + sign * lower)


def make_state(plan: PairPlan, docs: NDArray[np.uint32], n_hinges: int) -> PairState:
    """A state for the plan; it says nothing until scores have been seen."""
    shape = (n_hinges, len(docs))
    return PairState(
        docs=docs,
        digit=np.empty(len(docs), np.uint8),
        above=np.empty(shape, np.uint32),
        below=np.empty(shape, np.uint32),
        curvature=np.zeros(len(plan.level)),
    )
