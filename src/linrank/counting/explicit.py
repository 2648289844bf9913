"""Sums over preference pairs that are listed one by one: the sparse matrix A of PRSVM.

A row of A has +1 for the upper and −1 for the lower document of a pair (Chapelle & Keerthi 2010,
§3). A Hessian product is A'D(Av), where D has the second derivatives of the pairs, and costs O(p)
for p pairs. This is the only counting for arbitrary pairs, each with a weight and a margin of its
own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._typing import Integers, Vector


class ExplicitPlan(NamedTuple):
    """The pairs of all queries; query q has the pairs ``query_nodes[q]:query_nodes[q + 1]``.

    ``upper`` and ``lower`` are documents, counted from the first one of their query. ``weight`` is
    empty if all pairs weigh 1. ``shift`` is the margin minus 1, and empty if all margins are 1.
    """

    query_ptr: Integers
    query_weight: Vector
    offset: Vector
    query_nodes: Integers
    upper: NDArray[np.uint32]
    lower: NDArray[np.uint32]
    weight: Vector
    shift: Vector


class ExplicitState(NamedTuple):
    """The second derivative of each pair (D), and the sums of these for each document."""

    bend: Vector
    curvature: Vector


class ExplicitScratch(NamedTuple):
    """Buffers of one thread: the kernels need none."""

    unused: Vector


def make_state(plan: ExplicitPlan) -> ExplicitState:
    """Allocate a state for the plan."""
    return ExplicitState(np.zeros(len(plan.upper)), np.zeros(int(plan.query_ptr[-1])))


@njit
def list_pairs(docs, group_ptr, query_groups, adjacent, query_nodes, upper, lower):  # type: ignore[no-untyped-def]
    """List the pairs of all queries, given their documents by level: O(documents + pairs).

    Group g has the documents ``docs[group_ptr[g]:group_ptr[g + 1]]``. Query q has the groups
    ``query_groups[q]:query_groups[q + 1]``, one per level. The lower partners of a group are all
    documents of lower groups of the query or, if `adjacent`, those of the group before it.
    """
    p = 0
    for q in range(len(query_groups) - 1):
        query_nodes[q] = p
        for group in range(query_groups[q] + 1, query_groups[q + 1]):
            start = group_ptr[group]
            first = group_ptr[group - 1 if adjacent else query_groups[q]]
            for i in range(start, group_ptr[group + 1]):
                for j in range(first, start):
                    upper[p], lower[p] = docs[i], docs[j]
                    p += 1
    query_nodes[len(query_groups) - 1] = p


@njit(inner=True)
def linearize_explicit(plan, state, hinges, q, scores, gradient, scratch):  # type: ignore[no-untyped-def]
    """Compute the loss of query q and its gradient in the scores."""
    first, query_weight = plan.query_ptr[q], plan.query_weight[q]
    for i in range(len(scores)):
        gradient[i] = 0.0
        state.curvature[first + i] = 0.0
    loss = 0.0
    for p in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        i, j = plan.upper[p], plan.lower[p]
        t = scores[i] - scores[j]
        if len(plan.shift) > 0:
            t -= plan.shift[p]
        value, slope, bend = pair_loss(hinges, t)
        weight = query_weight
        if len(plan.weight) > 0:
            weight *= plan.weight[p]
        loss += weight * value
        gradient[i] += weight * slope
        gradient[j] -= weight * slope
        state.bend[p] = weight * bend
        state.curvature[first + i] += weight * bend
        state.curvature[first + j] += weight * bend
    return loss


@njit(inner=True)
def pair_loss(hinges, t):  # type: ignore[no-untyped-def]
    """Return ℓ(t), ℓ'(t) and ℓ''(t) for a table of hinges, or for the exact logistic loss."""
    if hinges.exact:
        decay = math.exp(-abs(t))
        chance = 1.0 / (1.0 + decay)  # probability of the more likely order
        wrong = 1.0 - chance if t > 0 else chance
        return math.log1p(decay) + max(0.0, -t), -wrong, chance * (1.0 - chance)
    value, slope, bend = 0.0, 0.0, 0.0
    for m in range(len(hinges.tau)):
        gap = hinges.tau[m] - t
        if gap > 0.0:
            value += gap * (hinges.a[m] + hinges.c[m] * gap)
            slope -= hinges.a[m] + 2.0 * hinges.c[m] * gap
            bend += 2.0 * hinges.c[m]
    return value, slope, bend


@njit(inner=True)
def curve_explicit(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """Compute ``out = A'D(Av)`` for query q, with D at the scores last linearised."""
    for i in range(len(v)):
        out[i] = 0.0
    for p in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        i, j = plan.upper[p], plan.lower[p]
        pull = state.bend[p] * (v[i] - v[j])
        out[i] += pull
        out[j] -= pull


@njit(inner=True)
def gaps_explicit(plan, state, hinges, q, scores, gaps, scratch):  # type: ignore[no-untyped-def]
    """Add Σ_p weight·max(0, τ_m − t_p) to ``gaps[m]``."""
    for p in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        t = scores[plan.upper[p]] - scores[plan.lower[p]]
        if len(plan.shift) > 0:
            t -= plan.shift[p]
        weight = plan.query_weight[q]
        if len(plan.weight) > 0:
            weight *= plan.weight[p]
        for m in range(len(hinges.tau)):
            gaps[m] += weight * max(0.0, hinges.tau[m] - t)
