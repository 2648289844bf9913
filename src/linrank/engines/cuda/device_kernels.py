"""Kernels of a graphics card: pair sums, the domination loss, and products with X."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda, float32, float64, int32, types
from numpy.typing import NDArray
from scipy import sparse

from ..._util.types import Integers, Vector
from ...counting.explicit import ExplicitPlan, pair_loss
from ...counting.plan import BASE, LEVELS, START, UNIT, PairPlan
from ...losses.domination import DominationPlan
from ...losses.loss import Hinges
from ...matrix.rows import UserMatrix
from .device import (
    GROUP,
    INDEX,
    THREADS,
    WARP,
    DeviceArray,
    Kernel,
    bitonic,
    block_max,
    block_sum,
    check_room,
    check_rows,
    empty,
    first_beyond,
    first_within,
    launch,
    launch_over,
    precedes,
    sum_before,
    sum_behind,
    to_device,
    zeros,
)

# --------------------------------------------------------------------------------------------------
# Pair sums on the device with tables of running sums.
#
# Each class copies the plan of the host to the device, in the form that its kernels read.
# `GroupedPairs` is for the kernels that do all in one launch, and `GridPairs` for larger queries.
# Other layouts have such classes below, and `linrank.papers.jin2014` has one.


# --------------------------------------------------------------------------------------------------
# The fused kernels: scores, pair sums and X'u of whole queries in one launch.
#
# A block works on a *group*: one query whose documents fit in shared memory (`sizes.GROUP`), or
# several short queries that together have at most one document per thread. All steps run over the
# documents of the group, so short queries keep all threads busy.
#
# X is read tile by tile. The last tile is still in shared memory when X'u is computed, so a group
# of one tile is read once. The other tiles of a larger group are read again. They come from the
# second-level cache if it holds the groups of all running blocks. A group of several queries is
# therefore limited to one document per thread.
#
# The pair sums are those of `linrank.counting.tables`, one digit at a time. There are two tables
# over the documents of each query by increasing score. `high` has, at each place, the sum up to
# this place over documents with a digit above c. `low` has the sum from this place on over all
# other documents. Documents of digit c find their partners above in `high`, and documents of digit
# c + 1 their partners below in `low`. Each query has sums of its own and nothing is subtracted, so
# a sum over no partners is exactly zero.


#: Three blocks share the registers of a multiprocessor. The simulator does not have this option.
BOUNDS: dict[str, tuple[int, int]] = (
    {} if config.ENABLE_CUDASIM else {"launch_bounds": (THREADS, 3)}
)


class GroupPlan(NamedTuple):
    """The documents of all groups; group g has the documents ``ptr[g]:ptr[g + 1]``.

    Each document has its row in the data, its digit, the ``first`` document of its query and the
    one after the ``last``, its weight, the weight of its query, and its offset. ``offset`` is empty
    if no document has one. Each group has ``levels``, the largest number of levels of its queries.
    """

    ptr: DeviceArray
    levels: DeviceArray
    rows: DeviceArray
    digit: DeviceArray
    first: DeviceArray
    last: DeviceArray
    weight: DeviceArray
    query_weight: DeviceArray
    offset: DeviceArray


class GroupState(NamedTuple):
    """The active pairs at the scores last linearised.

    ``order`` has the documents of each query by increasing score. For each hinge and each place in
    this order, ``above`` is the first place with s_j − s_i ≥ τ, and ``below`` the first place with
    s_i − s_j < τ. ``scores`` has an entry for each document, ``curvature`` one for each row.
    """

    order: DeviceArray
    above: DeviceArray
    below: DeviceArray
    scores: DeviceArray
    curvature: DeviceArray


class DeviceHinges(NamedTuple):
    """A loss as in `linrank.losses.loss.Hinges`: τ, and the scales of its counts and values."""

    tau: DeviceArray
    counts: DeviceArray
    values: DeviceArray


# Steps of a block ---------------------------------------------------------------------------------


@cuda.jit(device=True)
def sort_group(plan, state, m0, n, s, segments, keys, items):  # type: ignore[no-untyped-def]
    """Sort the documents of each query by score; leaves the sorted scores in `keys`."""
    for p in range(cuda.threadIdx.x, n, THREADS):
        segments[p] = plan.first[m0 + p]
        keys[p] = s[p]
        items[p] = p
    cuda.syncthreads()
    bitonic(segments, keys, items, n)
    for p in range(cuda.threadIdx.x, n, THREADS):
        state.order[m0 + p] = m0 + items[p]
    cuda.syncthreads()


@cuda.jit(device=True)
def find_ends(plan, state, taus, m0, n, keys):  # type: ignore[no-untyped-def]
    """Find, for each hinge, where the active partners of each document end."""
    for p in range(cuda.threadIdx.x, n, THREADS):
        a, b = plan.first[m0 + p] - m0, plan.last[m0 + p] - m0
        for t in range(len(taus)):
            state.above[t, m0 + p] = m0 + first_beyond(keys, a, b, keys[p], taus[t])
            state.below[t, m0 + p] = m0 + first_within(keys, a, b, keys[p], taus[t])
    cuda.syncthreads()


@cuda.jit(device=True)
def fill_tables(plan, state, m0, n, x, c, high, low, partial):  # type: ignore[no-untyped-def]
    """Fill high[p] with Σ x over digits above c up to p, and low[p] with all others from p on.

    Both sums are over the query of p. Each thread sums a piece of the list, then adds the sums of
    the pieces before it and behind it. A piece lies within one query, because a group of several
    queries has at most one document per thread.
    """
    i = cuda.threadIdx.x
    piece = (n + THREADS - 1) // THREADS
    a = min(i * piece, n)
    b = min(a + piece, n)
    up, down = 0.0, 0.0
    for p in range(a, b):
        doc = state.order[m0 + p]
        above = plan.digit[doc] > c
        high[p] = x[doc - m0] if above else 0.0
        low[p] = 0.0 if above else x[doc - m0]
        up += high[p]
        down += low[p]
    first, last = i, i  # threads with documents of the query
    if a < n:
        first, last = (plan.first[m0 + a] - m0) // piece, (plan.last[m0 + a] - m0 - 1) // piece
    used = (n + piece - 1) // piece
    up, down = sum_before(up, first, used, partial), sum_behind(down, last, used, partial)
    for p in range(a, b):
        up += high[p]
        high[p] = up
    for p in range(b - 1, a - 1, -1):
        down += low[p]
        low[p] = down
    cuda.syncthreads()


@cuda.jit(device=True)
def partners(plan, state, m0, p, t, above, high, low):  # type: ignore[no-untyped-def]
    """Return Σ x over the active partners of the document at place p, above it or below it."""
    if above:
        end = state.above[t, m0 + p]
        return high[end - 1 - m0] if end > plan.first[m0 + p] else 0.0
    start = state.below[t, m0 + p]
    return low[start - m0] if start < plan.last[m0 + p] else 0.0


@cuda.jit(device=True)
def add_counts(plan, state, hinges, m0, n, c, s, u, high, low, curvature):  # type: ignore[no-untyped-def]
    """Add the terms of the partners' weights to u and `curvature`; return those of the loss.

    The tables are those of digit c, and s has centred scores. u becomes the gradient divided by the
    weight of the document, without the terms of the partners' scores.
    """
    loss = 0.0
    for p in range(cuda.threadIdx.x, n, THREADS):
        doc = state.order[m0 + p]
        above = plan.digit[doc] == c
        if above or plan.digit[doc] == c + 1:
            own, score = plan.weight[doc] * plan.query_weight[doc], s[doc - m0]
            for t in range(len(hinges.tau)):
                count = partners(plan, state, m0, p, t, above, high, low)
                quadratic = hinges.counts[0, t] * count
                slope = hinges.counts[1, t] * count * (1.0 if above else -1.0)
                curvature[plan.rows[doc]] += 2.0 * own * quadratic
                u[doc - m0] += slope + 2.0 * quadratic * score
                loss += 0.5 * own * (hinges.counts[2, t] * count + score * slope)
    cuda.syncthreads()
    return loss


@cuda.jit(device=True)
def add_values(plan, state, hinges, m0, n, c, factor, u, high, low):  # type: ignore[no-untyped-def]
    """Add factor·Σ_t c_t Σ x over the active partners in the tables of digit c to u."""
    for p in range(cuda.threadIdx.x, n, THREADS):
        doc = state.order[m0 + p]
        above = plan.digit[doc] == c
        if above or plan.digit[doc] == c + 1:
            for t in range(len(hinges.tau)):
                total = partners(plan, state, m0, p, t, above, high, low)
                u[doc - m0] += factor * hinges.values[t] * total
    cuda.syncthreads()


@cuda.jit(device=True)
def centre(plan, state, m0, n, s, x):  # type: ignore[no-untyped-def]
    """Subtract the score of the median document of its query from each score.

    Only differences of scores matter. The median depends neither on a few documents with very
    different scores nor on the order of the rows.
    """
    for m in range(cuda.threadIdx.x, n, THREADS):
        middle = state.order[(plan.first[m0 + m] + plan.last[m0 + m]) // 2]
        x[m] = s[m] - s[middle - m0]
    cuda.syncthreads()
    for m in range(cuda.threadIdx.x, n, THREADS):
        s[m] = x[m]
    cuda.syncthreads()


@cuda.jit(device=True)
def linearize_group(plan, state, hinges, g, s, x, u, high, low, partial, curvature):  # type: ignore[no-untyped-def]
    """Return this thread's part of the loss of a group; compute the gradient u in the scores s."""
    m0, n = plan.ptr[g], plan.ptr[g + 1] - plan.ptr[g]
    centre(plan, state, m0, n, s, x)
    for m in range(cuda.threadIdx.x, n, THREADS):
        x[m] = plan.weight[m0 + m]
        u[m] = 0.0
        curvature[plan.rows[m0 + m]] = 0.0
    cuda.syncthreads()
    loss = 0.0
    for c in range(plan.levels[g] - 1):
        fill_tables(plan, state, m0, n, x, c, high, low, partial)
        loss += add_counts(plan, state, hinges, m0, n, c, s, u, high, low, curvature)
    for m in range(cuda.threadIdx.x, n, THREADS):
        x[m] *= s[m]
    cuda.syncthreads()
    for c in range(plan.levels[g] - 1):
        fill_tables(plan, state, m0, n, x, c, high, low, partial)
        add_values(plan, state, hinges, m0, n, c, -2.0, u, high, low)
    for m in range(cuda.threadIdx.x, n, THREADS):
        loss += 0.5 * x[m] * plan.query_weight[m0 + m] * u[m]
        u[m] *= plan.weight[m0 + m] * plan.query_weight[m0 + m]
    cuda.syncthreads()
    return loss


@cuda.jit(device=True)
def curve_group(plan, state, hinges, g, s, u, high, low, partial):  # type: ignore[no-untyped-def]
    """Compute the Hessian product u = H s for a group, at the scores last linearised."""
    m0, n = plan.ptr[g], plan.ptr[g + 1] - plan.ptr[g]
    centre(plan, state, m0, n, s, u)
    for m in range(cuda.threadIdx.x, n, THREADS):
        s[m] = plan.weight[m0 + m] * u[m]
        u[m] = 0.0
    cuda.syncthreads()
    for c in range(plan.levels[g] - 1):
        fill_tables(plan, state, m0, n, s, c, high, low, partial)
        add_values(plan, state, hinges, m0, n, c, -2.0, u, high, low)
    for m in range(cuda.threadIdx.x, n, THREADS):
        own = plan.weight[m0 + m]
        u[m] *= own * plan.query_weight[m0 + m]
        u[m] += state.curvature[plan.rows[m0 + m]] * s[m] / own  # no document here weighs 0
    cuda.syncthreads()


# Kernels ------------------------------------------------------------------------------------------


def _make_evaluate(kind: types.Float) -> Kernel:
    """Make the kernel for X of float32 or float64; a tile in shared memory has the type of X."""

    @cuda.jit(**BOUNDS)
    def evaluate_groups(X, base, g0, g1, plan, state, hinges, v, shape, sums, losses):  # type: ignore[no-untyped-def]
        """Compute the loss at the weights v and its gradient, over the groups g0, …, g1 − 1."""
        tile = cuda.shared.array(0, kind)
        s = cuda.shared.array(GROUP, float64)
        x = cuda.shared.array(GROUP, float64)
        u = cuda.shared.array(GROUP, float64)
        high = cuda.shared.array(GROUP, float64)
        low = cuda.shared.array(GROUP, float64)
        partial = cuda.shared.array(THREADS, float64)
        segments = cuda.shared.array(GROUP, int32)
        items = cuda.shared.array(GROUP, int32)
        loss = 0.0
        for g in range(g0 + cuda.blockIdx.x, g1, cuda.gridDim.x):
            m0, n = plan.ptr[g], plan.ptr[g + 1] - plan.ptr[g]
            score_tiles(X, base, plan.rows, m0, n, v, shape, tile, s, partial)
            for m in range(cuda.threadIdx.x, n, THREADS):
                if len(plan.offset) > 0:
                    s[m] -= plan.offset[m0 + m]
                state.scores[m0 + m] = s[m]
            sort_group(plan, state, m0, n, s, segments, high, items)
            find_ends(plan, state, hinges.tau, m0, n, high)
            loss += linearize_group(
                plan, state, hinges, g, s, x, u, high, low, partial, state.curvature
            )
            out = sums[cuda.blockIdx.x]
            add_tiles(X, base, plan.rows, m0, n, u, shape, True, tile, partial, out)
        loss = block_sum(loss, partial)
        if cuda.threadIdx.x == 0:
            losses[cuda.blockIdx.x, 0] += loss

    return evaluate_groups


def _make_curve(kind: types.Float) -> Kernel:
    """Make the kernel for X of float32 or float64; a tile in shared memory has the type of X."""

    @cuda.jit(**BOUNDS)
    def curve_groups(X, base, g0, g1, plan, state, hinges, v, shape, sums):  # type: ignore[no-untyped-def]
        """Compute the Hessian product with v, over the groups g0, …, g1 − 1."""
        tile = cuda.shared.array(0, kind)
        s = cuda.shared.array(GROUP, float64)
        u = cuda.shared.array(GROUP, float64)
        high = cuda.shared.array(GROUP, float64)
        low = cuda.shared.array(GROUP, float64)
        partial = cuda.shared.array(THREADS, float64)
        for g in range(g0 + cuda.blockIdx.x, g1, cuda.gridDim.x):
            m0, n = plan.ptr[g], plan.ptr[g + 1] - plan.ptr[g]
            score_tiles(X, base, plan.rows, m0, n, v, shape, tile, s, partial)
            curve_group(plan, state, hinges, g, s, u, high, low, partial)
            out = sums[cuda.blockIdx.x]
            add_tiles(X, base, plan.rows, m0, n, u, shape, True, tile, partial, out)

    return curve_groups


#: The kernels ``evaluate_groups`` and ``curve_groups``, by the type of X.
FUSED_KERNELS = {
    np.dtype(kind.name): (_make_evaluate(kind), _make_curve(kind)) for kind in (float32, float64)
}

#: Bytes of shared memory that these two kernels use in addition to the tile.
FUSED_BYTES = 8 * (6 * GROUP + THREADS), 8 * (4 * GROUP + THREADS)


@cuda.jit(**BOUNDS)
def value_of_groups(plan, state, hinges, unused, losses):  # type: ignore[no-untyped-def]
    """Compute the value of another loss with the same τ, at the scores last linearised."""
    s = cuda.shared.array(GROUP, float64)
    x = cuda.shared.array(GROUP, float64)
    u = cuda.shared.array(GROUP, float64)
    high = cuda.shared.array(GROUP, float64)
    low = cuda.shared.array(GROUP, float64)
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for g in range(cuda.blockIdx.x, len(plan.ptr) - 1, cuda.gridDim.x):
        m0 = plan.ptr[g]
        for m in range(cuda.threadIdx.x, plan.ptr[g + 1] - m0, THREADS):
            s[m] = state.scores[m0 + m]
        cuda.syncthreads()
        loss += linearize_group(plan, state, hinges, g, s, x, u, high, low, partial, unused)
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


# --------------------------------------------------------------------------------------------------
# Sort and prefix sums over the whole grid: for long queries, many levels and sparse data.
#
# Each step that the fused kernels do within a block is a launch of its own here.
#
# - Sort: the documents of a node (see `linrank.counting.plan`) are sorted in chunks within shared
#   memory. Sorted runs are then merged two by two: each document finds its place by a binary search
#   in the other run.
# - Running sums, upward and downward: each chunk is summed, the sums of the chunks are turned into
#   running sums, and each chunk adds its own running sums to what comes before it.
#
# No two threads add to the same place, so all sums have a fixed order. Nothing is subtracted, so a
# sum over no partners is exactly zero.


GRID_START, END, NODE = range(3)  #: columns of `GridPlan.chunks`


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
        start = plan.chunks[k, GRID_START]
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
def find_grid_ends(plan, state, taus):  # type: ignore[no-untyped-def]
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
            for p in range(chunks[k, GRID_START] + cuda.threadIdx.x, chunks[k, END], THREADS):
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
def fill_grid_tables(chunks, digit, docs, x, totals, tables):  # type: ignore[no-untyped-def]
    """Compute ``tables[c, p]`` = Σ x over the node of p up to p, or from p on, for each c."""
    partial = cuda.shared.array(THREADS, float64)
    half, last = len(totals) // 2, THREADS - 1
    for k in range(cuda.blockIdx.x, len(chunks), cuda.gridDim.x):
        a, b = piece_of(chunks[k, GRID_START], chunks[k, END])
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
def add_grid_counts(plan, state, hinges, tables, u, curvature, losses):  # type: ignore[no-untyped-def]
    """Compute the terms of the partners' weights, as `fused.add_counts` does in a block."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for m in range(cuda.grid(1), len(plan.rows), cuda.gridsize(1)):
        row = plan.rows[m]
        score = centred(plan.rows, plan.middle, state.docs, state.scores, m)
        quadratic, slope, value = 0.0, 0.0, 0.0
        for layer in range(len(state.place)):
            p = state.place[layer, m]
            if p >= 0:
                for t in range(len(hinges.tau)):
                    higher = partners_above(plan, state, tables, p, t)
                    lower = partners_below(plan, state, tables, p, t)
                    quadratic += hinges.counts[0, t] * (higher + lower)
                    slope += hinges.counts[1, t] * (higher - lower)
                    value += hinges.counts[2, t] * (higher + lower)
        own = plan.weight[m] * plan.query_weight[m]
        curvature[row] = 2.0 * own * quadratic
        u[row] = own * (slope + 2.0 * quadratic * score)
        loss += 0.5 * own * (value + score * slope)
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit
def add_grid_values(plan, state, hinges, tables, x, u, losses):  # type: ignore[no-untyped-def]
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


# --------------------------------------------------------------------------------------------------
# Pair sums on the device with tables of running sums.


def device_hinges(hinges: Hinges) -> DeviceHinges:
    """Copy the table of a loss to the device."""
    return DeviceHinges(
        to_device(hinges.tau), to_device(hinges.counts.scale), to_device(hinges.values.scale[0])
    )


def gap_hinges(hinges: Hinges, m: int) -> DeviceHinges:
    """Return the loss max(0, τ_m − t) as a table with the same τ, on the device."""
    only = np.zeros(len(hinges.tau))
    only[m] = 1.0
    counts = np.array([0.0 * only, only, hinges.tau * only])
    return DeviceHinges(to_device(hinges.tau), to_device(counts), to_device(0.0 * only))


def _documents(plan: PairPlan, queries: Integers) -> tuple[Integers, Integers]:
    """Return the rows of the compared documents of some queries, and their number per query."""
    ptr, level = plan.query_ptr, plan.level
    chosen = np.zeros(len(ptr) - 1, bool)
    chosen[queries] = True
    rows = np.flatnonzero(np.repeat(chosen, np.diff(ptr)) & (level >= 0))
    query = np.searchsorted(ptr, rows, side="right") - 1
    return rows, np.bincount(query, minlength=len(ptr) - 1)[queries]


def _weights(
    plan: PairPlan, rows: Integers, queries: Integers, sizes: Integers
) -> tuple[Vector, Vector]:
    """Return the weights of documents, and of their queries."""
    own = plan.weight[rows] if len(plan.weight) else np.ones(len(rows))
    return own, np.repeat(plan.query_weight[queries], sizes)


class GroupedPairs:
    """The pairs of short queries with few levels, for the fused kernels.

    Attributes
    ----------
    rows : int64 array
        The rows of the documents, group by group.
    heads : int64 array
        The first row of each group.
    ptr : int64 array
        Group g has the rows ``rows[ptr[g]:ptr[g + 1]]``.
    """

    def __init__(
        self, plan: PairPlan, queries: Integers, starts: list[int], curvature: DeviceArray
    ) -> None:
        rows, sizes = _documents(plan, queries)
        ends = np.cumsum(sizes)
        own, query_weight = _weights(plan, rows, queries, sizes)
        part = np.searchsorted(starts, plan.query_ptr[queries], side="right")
        cuts = group_queries(sizes, part, THREADS)
        self.ptr = np.concatenate([[0], ends])[cuts]
        levels = plan.nodes[plan.query_nodes[queries], LEVELS]
        self.rows, self.heads = rows, rows[self.ptr[:-1]]
        self.plan = GroupPlan(
            ptr=to_device(self.ptr, np.int64),
            levels=to_device(np.maximum.reduceat(levels, cuts[:-1]), np.int64),
            rows=to_device(rows, INDEX),
            digit=to_device(plan.level[rows], np.uint8),
            first=to_device(np.repeat(ends - sizes, sizes), INDEX),
            last=to_device(np.repeat(ends, sizes), INDEX),
            weight=to_device(own),
            query_weight=to_device(query_weight),
            offset=to_device(plan.offset[rows] if len(plan.offset) else np.empty(0)),
        )
        self._curvature = curvature

    def set_hinges(self, hinges: Hinges) -> None:
        """Replace the loss."""
        n, T = len(self.rows), len(hinges.tau)
        self._tables, self.hinges = hinges, device_hinges(hinges)
        self.state = GroupState(
            order=empty(n, INDEX),
            above=empty((T, n), INDEX),
            below=empty((T, n), INDEX),
            scores=empty(n),
            curvature=self._curvature,
        )

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs weight·max(0, τ_m − t) to `losses`, at the scores last linearised."""
        unused = empty(self._curvature.shape)
        launch(
            value_of_groups, len(self.ptr) - 1, self.plan, self.state,
            gap_hinges(self._tables, m), unused, losses,
        )  # fmt: skip


def group_queries(sizes: Integers, part: Integers, room: int) -> Integers:
    """Return the first query of each group, and the number of queries.

    A group has consecutive queries of one part of X that have at most `room` documents together, or
    a single query with more documents.

    Examples
    --------
    >>> group_queries(np.array([3, 4, 2, 9]), np.zeros(4, int), 8).tolist()
    [0, 2, 3, 4]
    """
    cuts, held = [0], 0
    for q, size in enumerate(sizes.tolist()):
        if q and (held + size > room or part[q] != part[q - 1]):
            cuts.append(q)
            held = 0
        held += size
    return np.array([*cuts, len(sizes)])


class GridPairs:
    """The pairs of long queries, many levels or a sparse X, for the kernels of `grid`."""

    def __init__(
        self, plan: PairPlan, queries: Integers, scores: DeviceArray, curvature: DeviceArray
    ) -> None:
        rows, sizes = _documents(plan, queries)
        own, query_weight = _weights(plan, rows, queries, sizes)
        nodes, query, layer = _nodes(plan, queries)
        heads = np.searchsorted(query, np.arange(len(queries)))  # each query's first node
        lengths = np.diff(plan.nodes[:, START])[nodes]
        node_ptr = np.concatenate([[0], np.cumsum(lengths)])
        n_places = int(node_ptr[-1])
        check_rows(n_places, "places of documents")
        n_chunks = -(-lengths // GROUP)
        node_chunks = np.concatenate([[0], np.cumsum(n_chunks)])
        owner = np.repeat(np.arange(len(nodes)), n_chunks)
        start = node_ptr[owner] + GROUP * (np.arange(len(owner)) - node_chunks[owner])
        end = np.minimum(start + GROUP, node_ptr[owner + 1])
        self.rows, self.n_places = rows, n_places
        self.device_rows = to_device(rows, INDEX)
        self.n_chunks, self.n_nodes = len(owner), len(nodes)
        self.n_layers, self.longest = int(layer.max()) + 1, int(lengths.max())
        self.n_tables = 2 * (int(plan.nodes[nodes, LEVELS].max()) - 1)
        self.plan = GridPlan(
            rows=to_device(rows, INDEX),
            level=to_device(plan.level[rows], INDEX),
            middle=to_device(np.repeat(node_ptr[heads] + sizes // 2, sizes), INDEX),
            weight=to_device(own),
            query_weight=to_device(query_weight),
            node_ptr=to_device(node_ptr, np.int64),
            node_chunks=to_device(node_chunks, np.int64),
            levels=to_device(plan.nodes[nodes, LEVELS], INDEX),
            unit=to_device(plan.nodes[nodes, UNIT], INDEX),
            base=to_device(plan.nodes[nodes, BASE], INDEX),
            layer=to_device(layer, INDEX),
            chunks=to_device(np.column_stack([start, end, owner]), np.int64),
            node=to_device(np.repeat(np.arange(len(nodes)), lengths), INDEX),
        )
        self._docs = _place(
            plan.nodes[nodes, UNIT], query, layer, np.repeat(np.arange(len(queries)), sizes),
            plan.level[rows],
        )  # fmt: skip
        self._scores, self._curvature = scores, curvature

    def set_hinges(self, hinges: Hinges) -> None:
        """Replace the loss."""
        n, T = self.n_places, len(hinges.tau)
        n_bytes = 8 * self.n_tables * n + n * (33 + 8 * T)
        check_room(n_bytes, "the tables of pair sums", "engine='threads'")
        self._tables, self.hinges = hinges, device_hinges(hinges)
        self._totals = empty((self.n_tables, self.n_chunks))
        self._sums = empty((self.n_tables, n))
        self._x = empty(len(self.rows))
        self._spare = empty(n, INDEX), empty(n)
        self.state = GridState(
            docs=to_device(self._docs, INDEX),
            keys=empty(n),
            digit=empty(n, np.uint8),
            place=to_device(np.full((self.n_layers, len(self.rows)), -1), INDEX),
            above=empty((T, n), INDEX),
            below=empty((T, n), INDEX),
            scores=self._scores,
            curvature=self._curvature,
        )

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient u in the scores, and add the loss to `losses`."""
        self.sort()
        launch_over(self.n_places, find_grid_ends, self.plan, self.state, self.hinges.tau)
        self._evaluate(self.hinges, u, self._curvature, losses)

    def _evaluate(
        self,
        hinges: DeviceHinges,
        u: DeviceArray,
        curvature: DeviceArray,
        losses: DeviceArray,
    ) -> None:
        n, known = len(self.rows), (self.plan, self.state, hinges, self._sums)
        self._fill(self.plan.weight)
        launch_over(n, add_grid_counts, *known, u, curvature, losses)
        self._fill(self._take_values(self._scores))
        launch_over(n, add_grid_values, *known, self._x, u, losses)

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v in the scores."""
        x = self._take_values(v)
        self._fill(x)
        known = self.plan, self.state, self.hinges, self._sums
        launch_over(len(self.rows), curve, *known, x, u)

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs weight·max(0, τ_m − t) to `losses`, at the scores last linearised."""
        shape = self._curvature.shape
        self._evaluate(gap_hinges(self._tables, m), empty(shape), empty(shape), losses)

    def sort(self) -> None:
        """Sort the documents of each node by score: in chunks, which are then merged."""
        docs, keys = self.state.docs, self.state.keys
        launch(sort_chunks, self.n_chunks, self.plan, self._scores, docs, keys)
        other, width = self._spare, GROUP
        while width < self.longest:
            launch_over(self.n_places, merge_runs, self.plan, width, docs, keys, *other)
            (docs, keys), other, width = other, (docs, keys), 2 * width
        self._spare, self.state = other, self.state._replace(docs=docs, keys=keys)

    # The next kernels get only the arrays that they read: each argument adds to the launch time.

    def _take_values(self, scores: DeviceArray) -> DeviceArray:
        """Compute the weighted and centred scores x."""
        plan = self.plan
        known = plan.rows, plan.middle, plan.weight, self.state.docs
        launch_over(len(self.rows), take_values, *known, scores, self._x)
        return self._x

    def _fill(self, x: DeviceArray) -> None:
        """Fill the tables of running sums of x."""
        known = self.plan.chunks, self.state.digit, self.state.docs, x, self._totals
        launch(sum_chunks, self.n_chunks, *known)
        launch(scan_chunks, self.n_nodes, self.plan.node_chunks, self._totals)
        launch(fill_grid_tables, self.n_chunks, *known, self._sums)


def _nodes(plan: PairPlan, queries: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the nodes of some queries, the number of the query of each node, and its layer.

    A new layer starts where the unit changes.
    """
    counts = np.diff(plan.query_nodes)[queries]
    query, first = np.repeat(np.arange(len(queries)), counts), np.cumsum(counts) - counts
    nodes = np.arange(len(query)) + (plan.query_nodes[queries] - first)[query]
    changes = np.cumsum(np.diff(plan.nodes[nodes, UNIT], prepend=0) != 0)
    return nodes, query, changes - changes[first][query]


def _place(
    unit: Integers, query: Integers, layer: Integers, owner: Integers, level: NDArray[np.int32]
) -> Integers:
    """Return the documents of each node, in the order of their rows.

    ``unit``, ``query`` and ``layer`` are the unit of the digits, the query and the layer of each
    node. ``owner`` and ``level`` are the query and the level of each document.
    """
    docs, nodes = [], []
    for depth in range(int(layer.max()) + 1):
        here = np.flatnonzero(layer == depth)
        queries, heads = np.unique(query[here], return_index=True)
        head = np.full(int(query[-1]) + 1, -1)
        head[queries] = here[heads]
        mine = np.flatnonzero(head[owner] >= 0)
        node = head[owner[mine]]
        if depth:  # a node has the documents with one digit in the layer before
            node = node + level[mine] // unit[node - 1]
        docs.append(mine)
        nodes.append(node)
    return np.concatenate(docs)[np.argsort(np.concatenate(nodes), kind="stable")]


# --------------------------------------------------------------------------------------------------
# Pairs that are listed one by one: any weights and margins, and the exact logistic loss.
#
# One thread per pair computes its derivatives. One thread per document then sums the derivatives of
# its pairs, which are listed by document as well. No two threads write to the same place.


#: With NUMBA_DISABLE_JIT=1, `pair_loss` is the Python function itself.
pair_derivatives = cuda.jit(device=True)(pair_loss.py_func)


class ListedPlan(NamedTuple):
    """The pairs, by pair and by document.

    Each pair has the rows of its ``upper`` and its ``lower`` document, its ``weight``, and
    ``shift``, its margin minus 1; ``shift`` is empty if all margins are 1. The pairs of row i are
    ``pairs[ptr[i]:ptr[i + 1]]``: k if i is the upper document of pair k, and −1 − k if it is the
    lower one.
    """

    upper: DeviceArray
    lower: DeviceArray
    weight: DeviceArray
    shift: DeviceArray
    ptr: DeviceArray
    pairs: DeviceArray


class ListedState(NamedTuple):
    """The first and the second derivative of each pair, and the sums of the latter per row."""

    slope: DeviceArray
    pair_curvature: DeviceArray
    curvature: DeviceArray


class ListedHinges(NamedTuple):
    """The fields of `linrank.losses.loss.Hinges` that `pair_loss` reads, on the device."""

    tau: DeviceArray
    a: DeviceArray
    c: DeviceArray
    exact: bool


@cuda.jit
def evaluate_pairs(plan, hinges, scores, slope, pair_curvature, losses):  # type: ignore[no-untyped-def]
    """Compute the loss of each pair and its derivatives."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for k in range(cuda.grid(1), len(plan.upper), cuda.gridsize(1)):
        t = scores[plan.upper[k]] - scores[plan.lower[k]]
        if len(plan.shift) > 0:
            t -= plan.shift[k]
        value, first, second = pair_derivatives(hinges, t)
        loss += plan.weight[k] * value
        slope[k] = plan.weight[k] * first
        pair_curvature[k] = plan.weight[k] * second
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit
def gather_slopes(plan, state, u):  # type: ignore[no-untyped-def]
    """Sum the gradient u in the scores, and the curvature of each row."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        total, curvature = 0.0, 0.0
        for e in range(plan.ptr[i], plan.ptr[i + 1]):
            k = plan.pairs[e]
            pair = k if k >= 0 else -1 - k
            total += state.slope[pair] if k >= 0 else -state.slope[pair]
            curvature += state.pair_curvature[pair]
        u[i] = total
        state.curvature[i] = curvature


@cuda.jit
def curve_pairs(plan, state, v, u):  # type: ignore[no-untyped-def]
    """Compute u = A'D(Av) (Chapelle & Keerthi 2010, §3), row by row."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        total = 0.0
        for e in range(plan.ptr[i], plan.ptr[i + 1]):
            k = plan.pairs[e]
            pair = k if k >= 0 else -1 - k
            partner = plan.lower[pair] if k >= 0 else plan.upper[pair]
            total += state.pair_curvature[pair] * (v[i] - v[partner])
        u[i] = total


class ListedPairs:
    """Pairs that are listed one by one."""

    def __init__(self, plan: ExplicitPlan, scores: DeviceArray, curvature: DeviceArray) -> None:
        counts = np.diff(plan.query_nodes)
        start = np.repeat(plan.query_ptr[:-1], counts)
        upper, lower = start + plan.upper, start + plan.lower
        check_rows(2 * len(upper), "pairs, twice")
        weight = np.repeat(plan.query_weight, counts)
        if len(plan.weight):
            weight = weight * plan.weight
        both = np.concatenate([upper, lower])
        entry = np.concatenate([np.arange(len(upper)), -1 - np.arange(len(upper))])
        self.rows = np.unique(both)
        self.device_rows = to_device(self.rows, INDEX)
        n_docs = int(plan.query_ptr[-1])
        ptr = np.concatenate([[0], np.cumsum(np.bincount(both, minlength=n_docs))])
        self.plan = ListedPlan(
            upper=to_device(upper, INDEX),
            lower=to_device(lower, INDEX),
            weight=to_device(weight),
            shift=to_device(plan.shift),
            ptr=to_device(ptr, np.int64),
            pairs=to_device(entry[np.argsort(both, kind="stable")], INDEX),
        )
        self.state = ListedState(zeros(len(upper)), zeros(len(upper)), curvature)
        self._scores, self.n_pairs = scores, len(upper)

    def set_hinges(self, hinges: Hinges) -> None:
        """Replace the loss."""
        self._tables = hinges
        self.hinges = ListedHinges(
            to_device(hinges.tau), to_device(hinges.a), to_device(hinges.c), hinges.exact
        )

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient u in the scores, and add the loss to `losses`."""
        state = self.state
        launch_over(
            self.n_pairs, evaluate_pairs, self.plan, self.hinges, self._scores, state.slope,
            state.pair_curvature, losses,
        )  # fmt: skip
        launch_over(len(u), gather_slopes, self.plan, state, u)

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v in the scores."""
        launch_over(len(u), curve_pairs, self.plan, self.state, v, u)

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs weight·max(0, τ_m − t) to `losses`, at the scores last linearised."""
        tau = self._tables.tau[m : m + 1]
        hinges = ListedHinges(to_device(tau), to_device([1.0]), to_device([0.0]), False)
        unused = empty(self.n_pairs), empty(self.n_pairs)
        launch_over(self.n_pairs, evaluate_pairs, self.plan, hinges, self._scores, *unused, losses)


# --------------------------------------------------------------------------------------------------
# The domination loss on the device: one block per query, level by level.
#
# The formulas are those of `linrank.losses.domination`. The loops over the documents of a level are
# shared by the threads of a block.


class LevelPlan(NamedTuple):
    """A `linrank.losses.domination.DominationPlan` that numbers documents by their rows.

    The weights are never empty: they are 1 if none are given.
    """

    query_weight: DeviceArray
    query_nodes: DeviceArray
    group_ptr: DeviceArray
    rows: DeviceArray
    upper: DeviceArray
    lower: DeviceArray


class LevelState(NamedTuple):
    """A `linrank.losses.domination.DominationState`; ``sums`` has the sum of each level."""

    share: DeviceArray
    slack: DeviceArray
    chance: DeviceArray
    curvature: DeviceArray
    total: DeviceArray
    decay: DeviceArray
    pull: DeviceArray
    sums: DeviceArray


@cuda.jit
def evaluate_levels(plan, state, scores, u, losses):  # type: ignore[no-untyped-def]
    """Compute the loss and its gradient u in the scores."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for q in range(cuda.blockIdx.x, len(plan.query_weight), cuda.gridDim.x):
        g0, g1 = plan.query_nodes[q], plan.query_nodes[q + 1]
        top, total = -math.inf, 0.0
        for g in range(g0, g1):
            if g > g0:
                loss += plan.query_weight[q] * _dominate(
                    plan, state, g, scores, top, total, u, partial
                )
            else:
                _begin(plan, state, g, u)
            if cuda.threadIdx.x == 0:
                state.total[g] = total
            if g < g1 - 1:
                top, total = _join(plan, state, g, scores, top, total, partial)
        cuda.syncthreads()
        _hand_down(plan, state, q, u)
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit(device=True)
def _begin(plan, state, g, u):  # type: ignore[no-untyped-def]
    """Set the terms of the lowest level, which dominates no document, to 0."""
    for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
        u[plan.rows[k]] = 0.0
    if cuda.threadIdx.x == 0:
        state.sums[g] = 0.0


@cuda.jit(device=True)
def _dominate(plan, state, g, scores, top, total, u, partial):  # type: ignore[no-untyped-def]
    """Return this thread's part of Σ u_i·ℓ_i over level g; store Σ u_i t_i e^{top} in `sums`."""
    level = top + math.log(total)  # log Z
    loss, pull = 0.0, 0.0
    for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
        i = plan.rows[k]
        lead = scores[i] - level
        small = math.exp(-abs(lead))
        win, lose = 1.0 / (1.0 + small), small / (1.0 + small)
        if lead < 0.0:
            win, lose = lose, win
        loss += plan.upper[i] * (math.log1p(small) + max(0.0, -lead))
        state.chance[i] = win
        state.slack[i] = lose / total
        pull += plan.upper[i] * lose / total
        u[i] = -plan.upper[i] * lose
    pull = block_sum(pull, partial)
    if cuda.threadIdx.x == 0:
        state.sums[g] = pull
    return loss


@cuda.jit(device=True)
def _join(plan, state, g, scores, top, total, partial):  # type: ignore[no-untyped-def]
    """Add level g to Z; return the top and the total of the next level."""
    a, b = plan.group_ptr[g], plan.group_ptr[g + 1]
    new_top = top
    for k in range(a + cuda.threadIdx.x, b, THREADS):
        new_top = max(new_top, scores[plan.rows[k]])
    new_top = block_max(new_top, partial)
    shares = 0.0
    for k in range(a + cuda.threadIdx.x, b, THREADS):
        j = plan.rows[k]
        state.share[j] = plan.lower[j] * math.exp(scores[j] - new_top)
        shares += state.share[j]
    decay = math.exp(top - new_top)
    total = decay * total + block_sum(shares, partial)
    if cuda.threadIdx.x == 0:
        state.decay[g] = decay
    return new_top, total


@cuda.jit(device=True)
def _hand_down(plan, state, q, u):  # type: ignore[no-untyped-def]
    """Add the terms of all levels above to each gradient, from the highest level down."""
    query_weight, g0 = plan.query_weight[q], plan.query_nodes[q]
    pull = 0.0
    for g in range(plan.query_nodes[q + 1] - 1, g0 - 1, -1):
        if cuda.threadIdx.x == 0:
            state.pull[g] = pull
        for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
            i = plan.rows[k]
            term = state.share[i] * pull
            u[i] = query_weight * (u[i] + term)
            if g > g0:
                term += state.chance[i] * plan.upper[i]
            state.curvature[i] = query_weight * term
        pull = state.sums[g] + state.decay[g] * pull


@cuda.jit
def curve_levels(plan, state, v, u):  # type: ignore[no-untyped-def]
    """Compute the Hessian product u = H v at the scores last linearised."""
    partial = cuda.shared.array(THREADS, float64)
    for q in range(cuda.blockIdx.x, len(plan.query_weight), cuda.gridDim.x):
        g0, g1 = plan.query_nodes[q], plan.query_nodes[q + 1]
        if g0 < g1:
            centre = v[plan.rows[plan.group_ptr[g0]]]  # H is zero on constants
            below = 0.0  # Σ w_j e^{z_j − top} v_j over the levels below
            for g in range(g0, g1):
                below = _curve_level(plan, state, g, g > g0, v, centre, below, u, partial)
            cuda.syncthreads()
            _hand_down_product(plan, state, q, v, centre, u)
            cuda.syncthreads()


@cuda.jit(device=True)
def _curve_level(plan, state, g, dominates, v, centre, below, u, partial):  # type: ignore[no-untyped-def]
    """Add the terms of a level as the dominating one; return `below` of the next level."""
    total, pull, joined = state.total[g], 0.0, 0.0
    for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
        i = plan.rows[k]
        value = v[i] - centre
        joined += state.share[i] * value
        u[i] = 0.0
        if dominates:
            deviation = state.slack[i] * (total * value - below)  # v_i − E_i
            u[i] = plan.upper[i] * state.chance[i] * deviation
            pull += plan.upper[i] * state.slack[i] * (value - deviation)
    pull, joined = block_sum(pull, partial), block_sum(joined, partial)
    if cuda.threadIdx.x == 0:
        state.sums[g] = pull
    return state.decay[g] * below + joined


@cuda.jit(device=True)
def _hand_down_product(plan, state, q, v, centre, u):  # type: ignore[no-untyped-def]
    """Add the terms of each level as a dominated one, from the highest level down."""
    pull = 0.0
    for g in range(plan.query_nodes[q + 1] - 1, plan.query_nodes[q] - 1, -1):
        for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
            i = plan.rows[k]
            back = state.share[i] * (state.pull[g] * (v[i] - centre) - pull)
            u[i] = plan.query_weight[q] * (u[i] + back)
        pull = state.sums[g] + state.decay[g] * pull


class DominationLevels:
    """The documents of each query by level, for the domination loss."""

    def __init__(self, plan: DominationPlan, scores: DeviceArray, curvature: DeviceArray) -> None:
        n_docs, n_groups = int(plan.query_ptr[-1]), len(plan.group_ptr) - 1
        owner = np.repeat(plan.query_ptr[:-1], np.diff(plan.query_nodes))
        rows = np.repeat(owner, np.diff(plan.group_ptr)) + plan.docs
        ones = np.ones(n_docs)
        self.rows = np.sort(rows)
        self.device_rows = to_device(self.rows, INDEX)
        self.plan = LevelPlan(
            query_weight=to_device(plan.query_weight),
            query_nodes=to_device(plan.query_nodes, np.int64),
            group_ptr=to_device(plan.group_ptr, np.int64),
            rows=to_device(rows, INDEX),
            upper=to_device(plan.upper if len(plan.upper) else ones),
            lower=to_device(plan.lower if len(plan.lower) else ones),
        )
        self.state = LevelState(
            share=zeros(n_docs),
            slack=zeros(n_docs),
            chance=zeros(n_docs),
            curvature=curvature,
            total=zeros(n_groups),
            decay=zeros(n_groups),
            pull=zeros(n_groups),
            sums=zeros(n_groups),
        )
        self._scores = scores

    def set_hinges(self, hinges: Hinges) -> None:
        """Do nothing: the loss has no hinges."""

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient u in the scores, and add the loss to `losses`."""
        n_queries = len(self.plan.query_weight)
        launch(evaluate_levels, n_queries, self.plan, self.state, self._scores, u, losses)

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v in the scores."""
        launch(curve_levels, len(self.plan.query_weight), self.plan, self.state, v, u)

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Do nothing: the loss has no hinges."""


# --------------------------------------------------------------------------------------------------
# Products with X on the device: tiles of rows, and the products of a library.


# --------------------------------------------------------------------------------------------------
# Products Xv and X'u on the device, one tile of X in shared memory at a time.
#
# When a tile is copied, neighbouring threads read neighbouring numbers, so that their reads are
# combined. The tile is then read from shared memory by rows (for scores) or by columns (for X'u).
# The rows of a tile are an odd number of places apart, so that threads that read one column of many
# rows use different memory banks.


@cuda.jit(device=True)
def load_tile(X, base, rows, first, n, f0, width, tile):  # type: ignore[no-untyped-def]
    """Copy the features f0, …, f0 + width − 1 of the rows ``rows[first:first + n]`` to the tile.

    The first row of X is row `base` of the data. A warp copies a whole row, so that it can request
    the next numbers of the row before the first ones have arrived.
    """
    stride, lane = width | 1, cuda.threadIdx.x % WARP
    for r in range(cuda.threadIdx.x // WARP, n, THREADS // WARP):
        row = rows[first + r] - base
        for f in range(lane, width, WARP):
            tile[r * stride + f] = X[row, f0 + f]
    cuda.syncthreads()


@cuda.jit(device=True)
def dot_tile(tile, n, f0, width, v, s, start, partial):  # type: ignore[no-untyped-def]
    """Add x_r · v over the features of the tile to ``s[start + r]``; threads share rows."""
    i, stride, lanes = cuda.threadIdx.x, width | 1, THREADS // n
    r, lane = i % n, i // n
    total = 0.0
    if lane < lanes:
        for f in range(lane, width, lanes):
            total += tile[r * stride + f] * v[f0 + f]
    partial[i] = total
    cuda.syncthreads()
    if i < n:
        for k in range(1, lanes):
            total += partial[k * n + i]
        s[start + i] += total
    cuda.syncthreads()


@cuda.jit(device=True)
def add_tile(tile, n, f0, width, u, start, partial, out):  # type: ignore[no-untyped-def]
    """Add Σ_r u[start + r] x_rf to ``out[f0 + f]``; threads share columns if these are few."""
    i, stride = cuda.threadIdx.x, width | 1
    if width >= THREADS:
        for f in range(i, width, THREADS):
            total = 0.0
            for r in range(n):
                total += u[start + r] * tile[r * stride + f]
            out[f0 + f] += total
    else:
        lanes, f, lane = THREADS // width, i % width, i // width
        total = 0.0
        if lane < lanes:
            for r in range(lane, n, lanes):
                total += u[start + r] * tile[r * stride + f]
        partial[i] = total
        cuda.syncthreads()
        if i < width:
            for k in range(1, lanes):
                total += partial[k * width + i]
            out[f0 + i] += total
    cuda.syncthreads()


@cuda.jit(device=True)
def score_tiles(X, base, rows, first, n, v, shape, tile, s, partial):  # type: ignore[no-untyped-def]
    """Compute s[r] = x_r · v for the rows ``rows[first:first + n]``, in tiles of a given shape."""
    tile_rows, tile_columns = shape
    for r in range(cuda.threadIdx.x, n, THREADS):
        s[r] = 0.0
    cuda.syncthreads()
    for r in range(0, n, tile_rows):
        for f in range(0, X.shape[1], tile_columns):
            height, width = min(tile_rows, n - r), min(tile_columns, X.shape[1] - f)
            load_tile(X, base, rows, first + r, height, f, width, tile)
            dot_tile(tile, height, f, width, v, s, r, partial)


@cuda.jit(device=True)
def add_tiles(X, base, rows, first, n, u, shape, known, tile, partial, out):  # type: ignore[no-untyped-def]
    """Add Σ_r u[r] x_r to `out`, last tile first; if `known`, that tile is in shared memory."""
    tile_rows, tile_columns = shape
    d = X.shape[1]
    r = (n - 1) // tile_rows * tile_rows
    while r >= 0:
        f = (d - 1) // tile_columns * tile_columns
        while f >= 0:
            height, width = min(tile_rows, n - r), min(tile_columns, d - f)
            if not known:
                load_tile(X, base, rows, first + r, height, f, width, tile)
            known = False
            add_tile(tile, height, f, width, u, r, partial, out)
            f -= tile_columns
        r -= tile_rows


def _make_row_kernels(kind: types.Float) -> tuple[Kernel, Kernel]:
    """Make the kernels for X of float32 or float64; a tile in shared memory has the type of X."""

    @cuda.jit
    def score_rows(X, base, rows, offset, m0, m1, v, shape, scores):  # type: ignore[no-untyped-def]
        """Compute x_i · v − offset_i for the documents i = rows[m0], …, rows[m1 − 1]."""
        tile = cuda.shared.array(0, kind)
        s = cuda.shared.array(THREADS, float64)
        partial = cuda.shared.array(THREADS, float64)
        height = shape[0]
        for first in range(m0 + cuda.blockIdx.x * height, m1, cuda.gridDim.x * height):
            n = min(height, m1 - first)
            score_tiles(X, base, rows, first, n, v, shape, tile, s, partial)
            if cuda.threadIdx.x < n:
                row = rows[first + cuda.threadIdx.x]
                own = offset[row] if len(offset) > 0 else 0.0
                scores[row] = s[cuda.threadIdx.x] - own
            cuda.syncthreads()

    @cuda.jit
    def add_rows(X, base, rows, m0, m1, u, shape, sums):  # type: ignore[no-untyped-def]
        """Add Σ u_i x_i over the documents i = rows[m0], …, rows[m1 − 1] to the sums of a block."""
        tile = cuda.shared.array(0, kind)
        own = cuda.shared.array(THREADS, float64)
        partial = cuda.shared.array(THREADS, float64)
        out, height = sums[cuda.blockIdx.x], shape[0]
        for first in range(m0 + cuda.blockIdx.x * height, m1, cuda.gridDim.x * height):
            n = min(height, m1 - first)
            if cuda.threadIdx.x < n:
                own[cuda.threadIdx.x] = u[rows[first + cuda.threadIdx.x]]
            cuda.syncthreads()
            add_tiles(X, base, rows, first, n, own, shape, False, tile, partial, out)

    return score_rows, add_rows


#: The kernels ``score_rows`` and ``add_rows``, by the type of X.
ROW_KERNELS = {
    np.dtype(np.float32): _make_row_kernels(float32),
    np.dtype(np.float64): _make_row_kernels(float64),
}


@cuda.jit
def score_csr(indptr, indices, data, offset, v, scores):  # type: ignore[no-untyped-def]
    """Compute x_i · v − offset_i for all rows of a CSR matrix, with one warp per row."""
    partial = cuda.shared.array(THREADS, float64)
    i, lane = cuda.threadIdx.x, cuda.threadIdx.x % WARP
    n_rows = THREADS // WARP
    for first in range(cuda.blockIdx.x * n_rows, len(scores), cuda.gridDim.x * n_rows):
        row, total = first + i // WARP, 0.0
        if row < len(scores):
            for e in range(indptr[row] + lane, indptr[row + 1], WARP):
                total += data[e] * v[indices[e]]
        partial[i] = total
        cuda.syncthreads()
        if lane == 0 and row < len(scores):
            for k in range(1, WARP):
                total += partial[i + k]
            scores[row] = total - (offset[row] if len(offset) > 0 else 0.0)
        cuda.syncthreads()


@cuda.jit
def multiply_csc(indptr, indices, data, u, out):  # type: ignore[no-untyped-def]
    """Compute X'u for a CSC matrix, with one block per column."""
    partial = cuda.shared.array(THREADS, float64)
    for f in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        total = 0.0
        for e in range(indptr[f] + cuda.threadIdx.x, indptr[f + 1], THREADS):
            total += data[e] * u[indices[e]]
        total = block_sum(total, partial)
        if cuda.threadIdx.x == 0:
            out[f] = total


@cuda.jit
def add_up(sums, out):  # type: ignore[no-untyped-def]
    """Compute out = Σ_b sums[b], in a fixed order, with one block per entry of `out`."""
    partial = cuda.shared.array(THREADS, float64)
    for f in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        total = 0.0
        for b in range(cuda.threadIdx.x, sums.shape[0], THREADS):
            total += sums[b, f]
        total = block_sum(total, partial)
        if cuda.threadIdx.x == 0:
            out[f] = total


@cuda.jit
def clear(array):  # type: ignore[no-untyped-def]
    """Set a matrix to zero."""
    for k in range(cuda.grid(1), array.size, cuda.gridsize(1)):
        array[k // array.shape[1], k % array.shape[1]] = 0.0


#: Bytes of shared memory that `score_rows` and `add_rows` use in addition to the tile.
ROW_BYTES = 8 * 2 * THREADS


# --------------------------------------------------------------------------------------------------
# Products with X in float32 by a library, as in Jin & Lin 2014, §3.1: Sgemv of cuBLAS.
#
# CuPy calls cuBLAS for a dense X and cuSPARSE for a sparse one. Its arrays and those of numba share
# their memory through ``__cuda_array_interface__``, so nothing is copied between the two. In
# numba's simulator there is no card, and the library is numpy with copies of the arrays.


class LibraryProducts:
    """Xv and X'u in float32, computed by a library.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_docs, n_features)
    """

    def __init__(self, X: UserMatrix) -> None:
        self._simulated = bool(config.ENABLE_CUDASIM)
        self._X = _on_host(X) if self._simulated else _on_card(X)

    def score(self, v: Vector) -> DeviceArray:
        """Return Xv on the device."""
        scores = self._X @ self._array(np.ascontiguousarray(v, np.float32))
        return cuda.to_device(scores) if self._simulated else cuda.as_cuda_array(scores)

    def gather(self, u: DeviceArray) -> Vector:
        """Return X'u on the host."""
        total = self._X.T @ self._array(u)
        return np.asarray(total if self._simulated else total.get(), np.float64)

    def dot(self, u: DeviceArray, v: DeviceArray) -> float:
        """Return u'v."""
        return float(self._array(u) @ self._array(v))

    def _array(self, array: Any) -> Any:
        """Return an array of the library with the values of one on the host or the device."""
        if self._simulated:
            return array.copy_to_host() if hasattr(array, "copy_to_host") else array
        import cupy

        return cupy.asarray(array)


def _on_host(X: UserMatrix) -> Any:
    return X.astype(np.float32, copy=False)


def _on_card(X: UserMatrix) -> Any:
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    X = _on_host(X)
    return csr_matrix(sparse.csr_matrix(X)) if sparse.issparse(X) else cupy.asarray(X)
