"""Sort and prefix sums over the whole grid: for long queries, many levels and sparse data.

Each step that the fused kernels do within a block is a launch of its own here.

- Sort: the documents of a node (see `linrank.counting.plan`) are sorted in chunks within shared
  memory. Sorted runs are then merged two by two: each document finds its place by a binary search
  in the other run.
- Running sums, upward and downward: each chunk is summed, the sums of the chunks are turned into
  running sums, and each chunk adds its own running sums to what comes before it.

No two threads add to the same place, so all sums have a fixed order. Nothing is subtracted, so a
sum over no partners is exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import cuda, float64, int32

from .blocks import bitonic, block_sum, first_beyond, first_within, precedes, sum_before, sum_behind
from .device import DeviceArray
from .sizes import GROUP, THREADS

START, END, NODE = range(3)  #: columns of `GridPlan.chunks`


class GridPlan(NamedTuple):
    """Consecutively numbered documents, and places in the nodes of all layers.

    - Each document has its row, its level, the place in the ``middle`` of its query, its weight and
      the weight of its query.
    - Each node has the starts of its places and of its chunks, its number of levels, the unit and
      the base of its digits, and its layer.
    - Each chunk has its first place, the place after its last one, and its node.
    - Each place has its ``node``.

    The tables of running sums are those of `linrank.counting.tables`: first the sums over digits
    above 0, above 1, … up to a place, then the sums over digits up to 0, up to 1, … from it on.
    """

    rows: DeviceArray
    level: DeviceArray
    middle: DeviceArray
    weight: DeviceArray
    query_weight: DeviceArray
    node_ptr: DeviceArray
    node_chunks: DeviceArray
    levels: DeviceArray
    unit: DeviceArray
    base: DeviceArray
    layer: DeviceArray
    chunks: DeviceArray
    node: DeviceArray


class GridState(NamedTuple):
    """The active pairs at the scores last linearised.

    ``docs`` has the documents of each node by increasing score, ``keys`` their scores and
    ``digit`` their digits. ``place[l, m]`` is the place of document m in layer l, or −1. ``above``
    and ``below`` are as in `fused.GroupState`. ``scores`` and ``curvature`` have an entry per row.
    """

    docs: DeviceArray
    keys: DeviceArray
    digit: DeviceArray
    place: DeviceArray
    above: DeviceArray
    below: DeviceArray
    scores: DeviceArray
    curvature: DeviceArray


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
    """Merge sorted runs of a given width two by two, within each node."""
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
    """Find the digits and places of documents, and where their active partners end."""
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
    """Compute ``totals[c, k]`` = Σ x over chunk k, for each table c."""
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
    """Replace the sum of each chunk by the sum of all chunks of the node before it, or behind it.

    Sums over digits above c run from the first chunk, and all other sums from the last one.
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
    """Compute ``tables[c, p]`` = Σ x over the node of p up to p, or from p on, for each c."""
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
    """Return the piece of a list that a thread sums."""
    piece = (end - start + THREADS - 1) // THREADS
    a = min(start + cuda.threadIdx.x * piece, end)
    return a, min(a + piece, end)


# Sums of documents --------------------------------------------------------------------------------


@cuda.jit(device=True)
def partners_above(plan, state, tables, p, t):  # type: ignore[no-untyped-def]
    """Return Σ x over the active partners above the document at place p."""
    node, digit, end = plan.node[p], state.digit[p], state.above[t, p]
    if digit == plan.levels[node] - 1 or end == plan.node_ptr[node]:
        return 0.0
    return tables[digit, end - 1]


@cuda.jit(device=True)
def partners_below(plan, state, tables, p, t):  # type: ignore[no-untyped-def]
    """Return Σ x over the active partners below the document at place p."""
    node, digit, start = plan.node[p], state.digit[p], state.below[t, p]
    if digit == 0 or start == plan.node_ptr[node + 1]:
        return 0.0
    return tables[len(tables) // 2 + digit - 1, start]


@cuda.jit(device=True)
def centred(rows, middle, docs, scores, m):  # type: ignore[no-untyped-def]
    """Return the score of document m minus the score of the median document of its query.

    `fused.centre` does the same.
    """
    return scores[rows[m]] - scores[rows[docs[middle[m]]]]


@cuda.jit
def take_values(rows, middle, weight, docs, scores, x):  # type: ignore[no-untyped-def]
    """Compute x = weight × centred score."""
    for m in range(cuda.grid(1), len(x), cuda.gridsize(1)):
        x[m] = weight[m] * centred(rows, middle, docs, scores, m)


@cuda.jit
def add_counts(plan, state, hinges, tables, u, curvature, losses):  # type: ignore[no-untyped-def]
    """Compute the terms of the partners' weights, as `fused.add_counts` does in a block."""
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
    """Subtract the terms of the partners' scores from u, and complete the loss."""
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
    """Compute the Hessian product u = H v from the tables of x, the weighted and centred v."""
    for m in range(cuda.grid(1), len(plan.rows), cuda.gridsize(1)):
        row, own = plan.rows[m], plan.weight[m] * plan.query_weight[m]
        total = sum_values(plan, state, hinges, tables, m)
        u[row] = state.curvature[row] * x[m] / plan.weight[m] - 2.0 * own * total


@cuda.jit(device=True)
def sum_values(plan, state, hinges, tables, m):  # type: ignore[no-untyped-def]
    """Return Σ_t c_t Σ x over the active partners of document m, in all layers."""
    total = 0.0
    for layer in range(len(state.place)):
        p = state.place[layer, m]
        if p >= 0:
            for t in range(len(hinges.tau)):
                higher = partners_above(plan, state, tables, p, t)
                lower = partners_below(plan, state, tables, p, t)
                total += hinges.values[t] * (higher + lower)
    return total
