"""Sort and prefix sums over the whole grid: for long queries, many levels and sparse data.

What the fused kernels do within a block, a launch does here. The documents of a node (see
`linrank.counting.plan`) are sorted in chunks within shared memory, and sorted runs are merged two
by two, each document finding its place by a binary search in the other run. Running sums, upward
and downward, are made in chunks as well: the sums of chunks, running sums of these, and those
within each chunk on top of what comes before it. Nothing is added twice to one place by different
threads, so all sums are in a fixed order; and nothing is subtracted, so that a sum over no partners
is zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import cuda, float64, int32

from .blocks import bitonic, block_sum, first_beyond, first_within, precedes, sum_before, sum_behind
from .sizes import GROUP, THREADS

START, END, NODE = range(3)  #: columns of `GridPlan.chunks`


class GridPlan(NamedTuple):
    """Documents, numbered one after the other, and places in the nodes of all layers.

    Of documents: their row, level, the place in the middle of their query, their weight and their
    query's. Of nodes: where their places and their chunks begin, the number of levels, unit and
    base of their digits, and their layer. Of chunks: their first place, the one behind their last
    one, and their node. ``node`` is that of each place. The tables of running sums are those of
    `linrank.counting.tables`: of the digits above 0, above 1, … up to a place, and then of the
    digits up to 0, up to 1, … from it on.
    """

    rows: Any
    level: Any
    middle: Any
    weight: Any
    query_weight: Any
    node_ptr: Any
    node_chunks: Any
    levels: Any
    unit: Any
    base: Any
    layer: Any
    chunks: Any
    node: Any


class GridState(NamedTuple):
    """The pairs as seen from one score vector.

    ``docs`` has the documents of each node by increasing score, ``keys`` their scores and
    ``digit`` their digits; ``place[l, m]`` is where document m stands in layer l; ``above`` and
    ``below`` are as for `fused.GroupState`. ``scores`` and ``curvature`` are those of rows.
    """

    docs: Any
    keys: Any
    digit: Any
    place: Any
    above: Any
    below: Any
    scores: Any
    curvature: Any


# Sorting ------------------------------------------------------------------------------------------


@cuda.jit
def sort_chunks(plan, scores, docs, keys):  # type: ignore[no-untyped-def]
    """Sort the documents of each chunk by score."""
    segments = cuda.shared.array(GROUP, int32)
    near_keys = cuda.shared.array(GROUP, float64)
    near_docs = cuda.shared.array(GROUP, int32)
    for k in range(cuda.blockIdx.x, len(plan.chunks), cuda.gridDim.x):
        start = plan.chunks[k, START]
        n = plan.chunks[k, END] - start
        for p in range(cuda.threadIdx.x, n, THREADS):
            segments[p] = 0
            near_docs[p] = docs[start + p]
            near_keys[p] = scores[plan.rows[docs[start + p]]]
        cuda.syncthreads()
        bitonic(segments, near_keys, near_docs, n)
        for p in range(cuda.threadIdx.x, n, THREADS):
            docs[start + p], keys[start + p] = near_docs[p], near_keys[p]
        cuda.syncthreads()


@cuda.jit
def merge_runs(plan, width, docs, keys, out_docs, out_keys):  # type: ignore[no-untyped-def]
    """Merge sorted runs of a width, the first with the second and so on, within each node."""
    for p in range(cuda.grid(1), len(docs), cuda.gridsize(1)):
        start, end = plan.node_ptr[plan.node[p]], plan.node_ptr[plan.node[p] + 1]
        run = (p - start) // width
        pair = start + run // 2 * 2 * width
        a = start + (run ^ 1) * width  # the other run of the two
        b = min(a + width, end)
        low = min(a, end)
        a = low
        while low < b:
            middle = (low + b) // 2
            if precedes(0, keys[middle], docs[middle], 0, keys[p], docs[p]):
                low = middle + 1
            else:
                b = middle
        spot = pair + (p - start - run * width) + (low - a)
        out_docs[spot], out_keys[spot] = docs[p], keys[p]


@cuda.jit
def find_ends(plan, state, taus):  # type: ignore[no-untyped-def]
    """Find digits, places, and for each hinge where the active partners of each document end."""
    for p in range(cuda.grid(1), len(state.docs), cuda.gridsize(1)):
        node, doc, key = plan.node[p], state.docs[p], state.keys[p]
        a, b = plan.node_ptr[node], plan.node_ptr[node + 1]
        state.digit[p] = plan.level[doc] // plan.unit[node] - plan.base[node]
        state.place[plan.layer[node], doc] = p
        for t in range(len(taus)):
            state.above[t, p] = first_beyond(state.keys, a, b, key, taus[t])
            state.below[t, p] = first_within(state.keys, a, b, key, taus[t])


# Running sums -------------------------------------------------------------------------------------


@cuda.jit
def sum_chunks(chunks, digit, docs, x, totals):  # type: ignore[no-untyped-def]
    """``totals[c, k]`` = Σ x over chunk k, for each table c."""
    partial = cuda.shared.array(THREADS, float64)
    half = len(totals) // 2
    for k in range(cuda.blockIdx.x, len(chunks), cuda.gridDim.x):
        for c in range(half):
            up, down = 0.0, 0.0
            for p in range(chunks[k, START] + cuda.threadIdx.x, chunks[k, END], THREADS):
                if digit[p] > c:
                    up += x[docs[p]]
                else:
                    down += x[docs[p]]
            up, down = block_sum(up, partial), block_sum(down, partial)
            if cuda.threadIdx.x == 0:
                totals[c, k], totals[half + c, k] = up, down


@cuda.jit
def scan_chunks(node_chunks, totals):  # type: ignore[no-untyped-def]
    """Turn the sums of a node's chunks into the sums of all chunks before each of them, or behind.

    Before it for digits above c, behind it for the others.
    """
    partial = cuda.shared.array(THREADS, float64)
    half, last = len(totals) // 2, THREADS - 1
    for node in range(cuda.blockIdx.x, len(node_chunks) - 1, cuda.gridDim.x):
        a, b = piece_of(node_chunks[node], node_chunks[node + 1])
        for c in range(half):
            up, down = 0.0, 0.0
            for k in range(a, b):
                up += totals[c, k]
                down += totals[half + c, k]
            up, down = sum_before(up, 0, THREADS, partial), sum_behind(down, last, THREADS, partial)
            for k in range(a, b):
                own = totals[c, k]
                totals[c, k] = up
                up += own
            for k in range(b - 1, a - 1, -1):
                own = totals[half + c, k]
                totals[half + c, k] = down
                down += own


@cuda.jit
def fill_tables(chunks, digit, docs, x, totals, tables):  # type: ignore[no-untyped-def]
    """``tables[c, p]`` = Σ x over the documents of p's node up to p, or from p on, for each c."""
    partial = cuda.shared.array(THREADS, float64)
    half, last = len(totals) // 2, THREADS - 1
    for k in range(cuda.blockIdx.x, len(chunks), cuda.gridDim.x):
        a, b = piece_of(chunks[k, START], chunks[k, END])
        for c in range(half):
            up, down = 0.0, 0.0
            for p in range(a, b):
                if digit[p] > c:
                    up += x[docs[p]]
                else:
                    down += x[docs[p]]
            up = totals[c, k] + sum_before(up, 0, THREADS, partial)
            down = totals[half + c, k] + sum_behind(down, last, THREADS, partial)
            for p in range(a, b):
                if digit[p] > c:
                    up += x[docs[p]]
                tables[c, p] = up
            for p in range(b - 1, a - 1, -1):
                if digit[p] <= c:
                    down += x[docs[p]]
                tables[half + c, p] = down


@cuda.jit(device=True)
def piece_of(start, end):  # type: ignore[no-untyped-def]
    """The piece of a list that a thread adds up."""
    piece = (end - start + THREADS - 1) // THREADS
    a = min(start + cuda.threadIdx.x * piece, end)
    return a, min(a + piece, end)


# Sums of documents --------------------------------------------------------------------------------


@cuda.jit(device=True)
def partners_above(plan, state, tables, p, t):  # type: ignore[no-untyped-def]
    """Σ x over the active partners above the document at place p."""
    node, digit, end = plan.node[p], state.digit[p], state.above[t, p]
    if digit == plan.levels[node] - 1 or end == plan.node_ptr[node]:
        return 0.0
    return tables[digit, end - 1]


@cuda.jit(device=True)
def partners_below(plan, state, tables, p, t):  # type: ignore[no-untyped-def]
    """Σ x over the active partners below the document at place p."""
    node, digit, start = plan.node[p], state.digit[p], state.below[t, p]
    if digit == 0 or start == plan.node_ptr[node + 1]:
        return 0.0
    return tables[len(tables) // 2 + digit - 1, start]


@cuda.jit(device=True)
def centred(rows, middle, docs, scores, m):  # type: ignore[no-untyped-def]
    """The score of document m less that of its query's document of median score.

    As `fused.centre`.
    """
    return scores[rows[m]] - scores[rows[docs[middle[m]]]]


@cuda.jit
def take_values(rows, middle, weight, docs, scores, x):  # type: ignore[no-untyped-def]
    """``x`` = weight × centred score."""
    for m in range(cuda.grid(1), len(x), cuda.gridsize(1)):
        x[m] = weight[m] * centred(rows, middle, docs, scores, m)


@cuda.jit
def add_counts(plan, state, hinges, tables, u, curvature, losses):  # type: ignore[no-untyped-def]
    """What the partners' weights give: as `fused.add_counts`, for every document."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for m in range(cuda.grid(1), len(plan.rows), cuda.gridsize(1)):
        row = plan.rows[m]
        score = centred(plan.rows, plan.middle, state.docs, state.scores, m)
        bend, slope, value = 0.0, 0.0, 0.0
        for layer in range(len(state.place)):
            p = state.place[layer, m]
            if p >= 0:
                for t in range(len(hinges.tau)):
                    higher = partners_above(plan, state, tables, p, t)
                    lower = partners_below(plan, state, tables, p, t)
                    bend += hinges.counts[0, t] * (higher + lower)
                    slope += hinges.counts[1, t] * (higher - lower)
                    value += hinges.counts[2, t] * (higher + lower)
        own = plan.weight[m] * plan.query_weight[m]
        curvature[row] = 2.0 * own * bend
        u[row] = own * (slope + 2.0 * bend * score)
        loss += 0.5 * own * (value + score * slope)
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit
def add_values(plan, state, hinges, tables, x, u, losses):  # type: ignore[no-untyped-def]
    """Take from u what the partners' scores give, and end the sum of the loss."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for m in range(cuda.grid(1), len(plan.rows), cuda.gridsize(1)):
        row = plan.rows[m]
        own = plan.weight[m] * plan.query_weight[m]
        u[row] -= 2.0 * own * sum_values(plan, state, hinges, tables, m)
        loss += 0.5 * (x[m] / plan.weight[m]) * u[row]
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit
def curve(plan, state, hinges, tables, x, u):  # type: ignore[no-untyped-def]
    """``u = H v`` from the tables of x, the weighted and centred v."""
    for m in range(cuda.grid(1), len(plan.rows), cuda.gridsize(1)):
        row, own = plan.rows[m], plan.weight[m] * plan.query_weight[m]
        total = sum_values(plan, state, hinges, tables, m)
        u[row] = state.curvature[row] * x[m] / plan.weight[m] - 2.0 * own * total


@cuda.jit(device=True)
def sum_values(plan, state, hinges, tables, m):  # type: ignore[no-untyped-def]
    """``Σ_t c_t Σ x`` over the active partners of document m, in all layers."""
    total = 0.0
    for layer in range(len(state.place)):
        p = state.place[layer, m]
        if p >= 0:
            for t in range(len(hinges.tau)):
                higher = partners_above(plan, state, tables, p, t)
                lower = partners_below(plan, state, tables, p, t)
                total += hinges.values[t] * (higher + lower)
    return total
