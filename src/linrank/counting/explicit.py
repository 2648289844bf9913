"""Sums over preference pairs that are listed one by one: PRSVM's sparse matrix A.

A row of A has +1 for the upper and −1 for the lower document of a pair (Chapelle & Keerthi
2010, §3), and a Hessian product is A'D(Av), with D the second derivatives of the pairs: O(p).
It is the only way that takes any pairs at all, each with its own weight and margin.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit


class ExplicitPlan(NamedTuple):
    """The pairs of query q are ``query_nodes[q]:query_nodes[q + 1]``.

    ``upper`` and ``lower`` count documents from the first one of their query. ``weight`` is
    empty when all pairs weigh 1, ``shift`` when all margins are 1 (it is the margin less 1).
    """

    query_ptr: NDArray[np.int64]
    query_weight: NDArray[np.float64]
    offset: NDArray[np.float64]
    query_nodes: NDArray[np.int64]
    upper: NDArray[np.uint32]
    lower: NDArray[np.uint32]
    weight: NDArray[np.float64]
    shift: NDArray[np.float64]


class ExplicitState(NamedTuple):
    """The second derivative of each pair (D), and their sums per document."""

    bend: NDArray[np.float64]
    curvature: NDArray[np.float64]


class ExplicitScratch(NamedTuple):
    """Nothing is needed."""

    unused: NDArray[np.float64]


def make_state(plan: ExplicitPlan) -> ExplicitState:
    """A state for the plan; it says nothing until scores have been seen."""
    return ExplicitState(np.zeros(len(plan.upper)), np.zeros(int(plan.query_ptr[-1])))


@njit
def list_pairs(docs, group_ptr, query_groups, adjacent, query_nodes, upper, lower):  # type: ignore[no-untyped-def]
    """List the pairs of all queries, given their documents by level: O(documents + pairs).

    The documents of group g are ``docs[group_ptr[g]:group_ptr[g + 1]]``. Query q has the groups
    ``query_groups[q]:query_groups[q + 1]``, one per level. The lower partners of a group are the
    documents between the query's first group, or the previous group if `adjacent`, and its own.
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
    """The loss of query q and its gradient in the scores."""
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
    """ℓ(t), ℓ'(t) and ℓ''(t): of the table of hinges, or of the exact logistic loss."""
    if hinges.exact:
        decay = math.exp(-abs(t))
        chance = 1.0 / (1.0 + decay)  # of the more likely order
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
    """``out = A'D(Av)`` for query q, D at the scores last linearised."""
    for i in range(len(v)):
        out[i] = 0.0
    for p in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        i, j = plan.upper[p], plan.lower[p]
        pull = state.bend[p] * (v[i] - v[j])
        out[i] += pull
        out[j] -= pull


@njit(inner=True)
def gaps_explicit(plan, state, hinges, q, scores, gaps, scratch):  # type: ignore[no-untyped-def]
    """``gaps[m] += Σ_p weight·max(0, τ_m − t_p)``."""
    for p in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        t = scores[plan.upper[p]] - scores[plan.lower[p]]
        if len(plan.shift) > 0:
            t -= plan.shift[p]
        weight = plan.query_weight[q]
        if len(plan.weight) > 0:
            weight *= plan.weight[p]
        for m in range(len(hinges.tau)):
            gaps[m] += weight * max(0.0, hinges.tau[m] - t)
