"""Sums over preference pairs that are listed one by one: the sparse matrix A of PRSVM.

A row of A has +1 for the upper and −1 for the lower document of a pair (Chapelle & Keerthi 2010,
§3). A Hessian product is A'D(Av), where D has the second derivatives of the pairs, and costs O(p)
for p pairs. This is the only counting for arbitrary pairs, each with a weight and a margin of its
own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.types import Integers, Vector
from ..data.ranking import RankingData
from ..errors import DataError
from . import plan
from .plan import Layout, LevelComparison, document_weights
from .preferences import ideal_discounts


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

    second: Vector
    curvature: Vector


class ExplicitScratch(NamedTuple):
    """Buffers of one thread: the kernels need none."""

    unused: Vector


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
        value, slope, second = pair_loss(hinges, t)
        weight = query_weight
        if len(plan.weight) > 0:
            weight *= plan.weight[p]
        loss += weight * value
        gradient[i] += weight * slope
        gradient[j] -= weight * slope
        state.second[p] = weight * second
        state.curvature[first + i] += weight * second
        state.curvature[first + j] += weight * second
    return loss


@njit(inner=True)
def pair_loss(hinges, t):  # type: ignore[no-untyped-def]
    """Return ℓ(t), ℓ'(t) and ℓ''(t) for a table of hinges, or for the exact logistic loss."""
    if hinges.exact:
        decay = math.exp(-abs(t))
        chance = 1.0 / (1.0 + decay)  # probability of the more likely order
        wrong = 1.0 - chance if t > 0 else chance
        return math.log1p(decay) + max(0.0, -t), -wrong, chance * (1.0 - chance)
    value, slope, second = 0.0, 0.0, 0.0
    for m in range(len(hinges.tau)):
        gap = hinges.tau[m] - t
        if gap > 0.0:
            value += gap * (hinges.a[m] + hinges.c[m] * gap)
            slope -= hinges.a[m] + 2.0 * hinges.c[m] * gap
            second += 2.0 * hinges.c[m]
    return value, slope, second


@njit(inner=True)
def curve_explicit(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """Compute ``out = A'D(Av)`` for query q, with D at the scores last linearised."""
    for i in range(len(v)):
        out[i] = 0.0
    for p in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        i, j = plan.upper[p], plan.lower[p]
        pull = state.second[p] * (v[i] - v[j])
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


# --------------------------------------------------------------------------------------------------
# Layout of pairs that are stored one by one, for the kernels of `linrank.counting.explicit`.


PAIR_BYTES = 32  #: memory of a listed pair with its weight, margin and second derivative


@dataclass(frozen=True)
class ExplicitLayout(Layout):
    """Pairs that are stored one by one."""

    lists_pairs: ClassVar[bool] = True
    weighs_pairs: ClassVar[bool] = True

    plan: ExplicitPlan

    def make_state(self, n_hinges: int) -> ExplicitState:
        """Allocate the state, which does not depend on the number of hinges."""
        n_docs = int(self.plan.query_ptr[-1])
        return ExplicitState(np.zeros(len(self.plan.upper)), np.zeros(n_docs))

    def make_scratch(self, n: int) -> ExplicitScratch:
        """Return empty buffers: the kernels need none."""
        return ExplicitScratch(np.empty(0))


def lay_out_listed(counting: str, case: LevelComparison) -> ExplicitLayout:
    """List the pairs that follow from the labels."""
    data, preferences, n_pairs = case.data, case.preferences, case.n_pairs()
    if n_pairs > plan.MAX_PAIRS:
        raise DataError(
            f"there are {n_pairs:,} pairs, which would take {n_pairs * PAIR_BYTES / 1e9:.1f} GB "
            f"listed one by one; the limit is {plan.MAX_PAIRS:,} pairs. Use "
            f"{_instead(case)}."
        )
    query_nodes = np.empty(data.n_queries + 1, np.int64)
    upper, lower = np.empty((2, n_pairs), np.uint32)
    adjacent = preferences.pairs == "adjacent"
    list_pairs(*case.groups(), adjacent, query_nodes, upper, lower)
    start = np.repeat(data.query_ptr[:-1], np.diff(query_nodes))
    i, j = start + upper, start + lower
    weight, shift = case.weights().of_pairs(i, j), None
    if preferences.rescale is not None and not preferences.separable:
        discount = ideal_discounts(case.levels.level, data.query_ptr)
        delta = preferences.deltas(data.y[i], data.y[j], (discount[i], discount[j]))
        slack, shift = preferences.weight_and_shift(delta)
        weight = slack if weight is None else weight if slack is None else weight * slack
    if case.offsets is not None:
        shift = case.offsets[i] - case.offsets[j] - 1.0
    return _layout(data, case.query_weight, query_nodes, upper, lower, weight, shift)


def _instead(case: LevelComparison) -> str:
    """Return what to use if there are too many pairs to list."""
    if case.exact:
        return "loss='logistic', which is within 0.003 of it and lists no pairs"
    if case.preferences.plain:
        return "counting='auto', which lists no pairs"
    if case.n_problems(case.levels.n_levels).sum() <= plan.MAX_PAIRS:
        return "counting='two-level', which lists no pairs"
    return "labels with fewer levels, or rescale='margin' with delta='label-squared'"


def lay_out_given(data: RankingData, query_weight: Vector) -> ExplicitLayout:
    """Lay out the pairs that the user listed; each query is a group of connected documents."""
    assert data.pairs is not None
    rows = data.pairs.rows
    query = np.searchsorted(data.query_ptr, rows[:, 0], side="right") - 1
    order = np.argsort(query, kind="stable")
    query, rows = query[order], rows[order]
    query_nodes = np.searchsorted(query, np.arange(data.n_queries + 1))
    upper, lower = (rows - data.query_ptr[query][:, None]).T.astype(np.uint32)
    weight = document_weights(data, query_weight).of_pairs(rows[:, 0], rows[:, 1])
    given = data.pairs.weight
    if given is not None:
        weight = given[order] if weight is None else weight * given[order]
    shift = None if data.pairs.margin is None else data.pairs.margin[order] - 1.0
    return _layout(
        data, query_weight, query_nodes, np.ascontiguousarray(upper), np.ascontiguousarray(lower),
        weight, shift,
    )  # fmt: skip


def _layout(
    data: RankingData,
    query_weight: Vector,
    query_nodes: Integers,
    upper: NDArray[np.uint32],
    lower: NDArray[np.uint32],
    weight: Vector | None,
    shift: Vector | None,
) -> ExplicitLayout:
    """Make the layout of listed pairs; weight and shift may be None, which stands for 1 and 0."""
    counts = np.diff(query_nodes)
    query = np.repeat(np.arange(data.n_queries), counts)
    total = counts if weight is None else np.bincount(query, weight, data.n_queries)
    plan = ExplicitPlan(
        query_ptr=data.query_ptr,
        query_weight=query_weight,
        offset=np.empty(0),
        query_nodes=query_nodes,
        upper=upper,
        lower=lower,
        weight=np.empty(0) if weight is None else weight,
        shift=np.empty(0) if shift is None else shift,
    )
    mass = np.column_stack([counts, total]).astype(np.float64)
    return ExplicitLayout("explicit", plan, np.empty(0, np.uint32), mass)
