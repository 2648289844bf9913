"""The fused kernels: scores, pair sums and X'u of whole queries in one launch.

A block works on a *group*: one query whose documents fit in shared memory (`sizes.GROUP`), or
several short queries that together have at most one document per thread. All steps run over the
documents of the group, so short queries keep all threads busy.

X is read tile by tile. The last tile is still in shared memory when X'u is computed, so a group of
one tile is read once. The other tiles of a larger group are read again. They come from the
second-level cache if it holds the groups of all running blocks. A group of several queries is
therefore limited to one document per thread.

The pair sums are those of `linrank.counting.tables`, one digit at a time. There are two tables over
the documents of each query by increasing score. `high` has, at each place, the sum up to this
place over documents with a digit above c. `low` has the sum from this place on over all other
documents. Documents of digit c find their partners above in `high`, and documents of digit c + 1
their partners below in `low`. Each query has sums of its own and nothing is subtracted, so a sum
over no partners is exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import config, cuda, float32, float64, int32, types

from .blocks import bitonic, block_sum, first_beyond, first_within, sum_before, sum_behind
from .device import DeviceArray, Kernel
from .rows import add_tiles, score_tiles
from .sizes import GROUP, THREADS

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
    """A loss as in `linrank.losses.base.Hinges`: τ, and the scales of its counts and values."""

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
                bend = hinges.counts[0, t] * count
                slope = hinges.counts[1, t] * count * (1.0 if above else -1.0)
                curvature[plan.rows[doc]] += 2.0 * own * bend
                u[doc - m0] += slope + 2.0 * bend * score
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
