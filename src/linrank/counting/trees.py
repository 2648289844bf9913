"""Sums over preference pairs by sweeps with an order-statistic structure.

This is algorithm 2 of Lee & Lin 2014 in the form that the losses need. `count_active` sorts the
documents of a query by score, and finds where the active partners of each document end.
`add_pair_sums` sweeps over the sorted documents, with one of `linrank.counting.sweep.STRUCTURES`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._sort import sort_by_key
from .._typing import Vector
from .plan import LEVELS, START, PairPlan
from .sweep import SweepWork, make_work, sweep


class TreeState(NamedTuple):
    """The active pairs at the scores last linearised.

    ``docs`` has the documents of each query by increasing score, and ``level`` their levels. For
    each hinge and position, ``high`` is the number of documents with s_j − s_i < τ, and ``low``
    the first document with s_i − s_j < τ. ``curvature`` has, for each document, the sum of the
    second derivatives of its active pairs. ``structure`` is a value of `STRUCTURES`.
    """

    docs: NDArray[np.uint32]
    level: NDArray[np.int32]
    high: NDArray[np.uint32]
    low: NDArray[np.uint32]
    curvature: Vector
    structure: int


class TreeScratch(NamedTuple):
    """Buffers of one thread, large enough for its largest query."""

    keys: Vector
    docs: NDArray[np.uint32]
    values: Vector
    sums: Vector
    ranked: Vector
    above: Vector
    below: Vector
    work: SweepWork


def make_state(
    plan: PairPlan, docs: NDArray[np.uint32], n_hinges: int, structure: int
) -> TreeState:
    """Allocate a state for the plan. Kernels sort `docs` in place."""
    shape = (n_hinges, len(docs))
    return TreeState(
        docs=docs,
        level=np.empty(len(docs), np.int32),
        high=np.empty(shape, np.uint32),
        low=np.empty(shape, np.uint32),
        curvature=np.zeros(len(plan.level)),
        structure=structure,
    )


def make_scratch(plan: PairPlan, n: int) -> TreeScratch:
    """Allocate the buffers of one thread, for queries of up to n documents."""
    return TreeScratch(
        keys=np.empty(2 * n),
        docs=np.empty(2 * n, np.uint32),
        values=np.empty(n),
        sums=np.empty((3, n)),
        ranked=np.empty(n),
        above=np.empty(n),
        below=np.empty(n),
        work=make_work(n, int(plan.nodes[:-1, LEVELS].max(initial=2))),
    )


@njit(inner=True)
def count_active(plan, state, q, scores, hinges, x, scratch, sums):  # type: ignore[no-untyped-def]
    """Find the active pairs of query q for each hinge, and compute sums of weights x over them."""
    _find_active(plan, state, q, scores, hinges.tau, scratch)
    sums[:] = 0.0
    add_pair_sums(plan, state, q, x, hinges.counts, 1.0, scratch, sums)


@njit(inner=True)
def _find_active(plan, state, q, scores, taus, scratch):  # type: ignore[no-untyped-def]
    """Find the active pairs of query q for each hinge τ: s_i − s_j < τ."""
    node = plan.query_nodes[q]
    a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
    docs, ranked, n = state.docs[a:b], scratch.keys, b - a
    sort_by_key(scores, docs, scratch.keys, scratch.docs)
    for p in range(n):
        state.level[a + p] = plan.level[plan.query_ptr[q] + docs[p]]
    for t in range(len(taus)):
        high, low = 0, 0
        for p in range(n):
            while high < n and ranked[high] - ranked[p] < taus[t]:
                high += 1
            while low < n and ranked[p] - ranked[low] >= taus[t]:
                low += 1
            state.high[t, a + p], state.low[t, a + p] = high, low


@njit(inner=True)
def add_pair_sums(plan, state, q, x, wanted, factor, scratch, out):  # type: ignore[no-untyped-def]
    """Add the `Wanted` sums of x over the active partners of every document of query q."""
    node = plan.query_nodes[q]
    a, b = plan.nodes[node, START], plan.nodes[node + 1, START]
    docs, ranked, n = state.docs[a:b], scratch.ranked[: b - a], b - a
    above, below = scratch.above[:n], scratch.below[:n]
    for p in range(n):
        ranked[p] = x[docs[p]]
    for t in range(len(state.high)):
        sweep(
            state.structure, state.level[a:b], plan.nodes[node, LEVELS], ranked,
            state.high[t, a:b], state.low[t, a:b], above, below, scratch.work,
        )  # fmt: skip
        for r in range(len(out)):
            scale, sign = factor * wanted.scale[r, t], wanted.sign[r]
            for p in range(n):
                out[r, docs[p]] += scale * (above[p] + sign * below[p])
