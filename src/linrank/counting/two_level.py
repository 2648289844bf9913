"""Sums over preference pairs through two-level problems.

PRSVM+ (Chapelle & Keerthi 2010, §4.2) writes the pairs of a query as a union of problems with two
levels each: the documents of level r are compared with those of all lower levels. If the scores of
both sides are sorted, the active partners of a document are a suffix of the lower list or a prefix
of the upper list. Two moving pointers find their ends: O(l·k) for l documents of k levels.

The same kernels handle pairs with different weights and margins. If δ depends on the levels (§6.2),
there is one problem for every two levels. If only neighbouring levels are compared (Lee & Lin 2014,
§5), there is one problem for every two neighbouring levels. Each problem has a weight and a margin
of its own. A document may have different weights as the upper and as the lower one of a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.types import Integers, Vector
from ..errors import DataError
from . import plan
from .plan import Groups, Layout, LevelComparison, centre_of, running_sums
from .preferences import ideal_discounts
from .sort import sort_by_key

MERGED = -1  #: number of a lower group that stands for all groups below the upper one
UPPER, LOWER = range(2)  #: columns of `TwoLevelPlan.nodes`


class TwoLevelPlan(NamedTuple):
    """The two-level problems of all queries.

    Query q has the groups ``query_groups[q]:query_groups[q + 1]``, one per level, and the problems
    ``query_nodes[q]:query_nodes[q + 1]``. Group g has the positions
    ``group_ptr[g]:group_ptr[g + 1]`` of the state. Problem m compares the group ``nodes[m, UPPER]``
    with the group ``nodes[m, LOWER]`` (or `MERGED`). Its loss is multiplied by ``factor[m]``, and
    its margin is 1 + ``shift[m]``. ``upper`` and ``lower`` are the weights of documents in these
    roles.
    """

    query_ptr: Integers
    query_weight: Vector
    offset: Vector
    upper: Vector
    lower: Vector
    query_groups: Integers
    group_ptr: Integers
    query_nodes: Integers
    nodes: Integers
    factor: Vector
    shift: Vector


class TwoLevelState(NamedTuple):
    """The documents of each group by increasing score, these scores, and the curvatures."""

    docs: NDArray[np.uint32]
    ranked: Vector
    curvature: Vector


class TwoLevelScratch(NamedTuple):
    """Buffers of one thread, large enough for its largest query."""

    keys: Vector
    docs: NDArray[np.uint32]
    merged: NDArray[np.uint32]
    merged_keys: Vector
    values: Vector
    upper_sums: Vector
    lower_sums: Vector


@njit(inner=True)
def linearize_two_level(plan, state, hinges, q, scores, gradient, scratch):  # type: ignore[no-untyped-def]
    """Compute the loss of query q and its gradient in the scores.

    With p_i = m − s_i and r_j = τ − m + s_j for some centre m, the gap of a pair is p_i + r_j. Let
    u and v be the weights of upper and lower documents, and W = Σ v_j and S = Σ v_j r_j over the
    active partners of i. The gradient of i is −u_i ((a + 2c p_i) W + 2cS), and i adds
    u_i p_i ((a + c p_i) W + cS) to the loss. The lower document j has the same sums with u_i and
    p_i, and the opposite sign of the gradient. At a solution for a large C, all p, r and gaps are
    small. No digits cancel then.
    """
    first, query_weight = plan.query_ptr[q], plan.query_weight[q]
    _sort_groups(plan, state, q, scores, scratch)
    weighted = scratch.values
    for i in range(len(scores)):
        gradient[i] = 0.0
        state.curvature[first + i] = 0.0
    upper, lower = plan.upper[first:], plan.lower[first:]
    W, V = scratch.upper_sums, scratch.lower_sums
    loss, n_merged = 0.0, 0
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        tops, top_keys = _upper_list(plan, state, node)
        lows, low_keys, n_merged = _lower_list(plan, state, node, scratch, n_merged)
        factor = query_weight * plan.factor[node]
        for t in range(len(hinges.tau)):
            tau, a, c = hinges.tau[t] + plan.shift[node], hinges.a[t], hinges.c[t]
            _active_sums(tops, top_keys, lows, low_keys, tau, upper, lower, W[0], V[0])
            for p in range(len(tops)):
                W[1, p] = upper[tops[p]] * W[0, p]
            centre = centre_of(top_keys, W[1])
            for p in range(len(tops)):
                weighted[0, tops[p]] = upper[tops[p]] * (centre - top_keys[p])
            for p in range(len(lows)):
                weighted[1, lows[p]] = lower[lows[p]] * (low_keys[p] - centre + tau)
            _active_sums(tops, top_keys, lows, low_keys, tau, weighted[0], weighted[1], W[1], V[1])
            for p in range(len(tops)):
                i, own = tops[p], factor * upper[tops[p]]
                part = centre - top_keys[p]
                loss += part * own * ((a + c * part) * W[0, p] + c * W[1, p])
                gradient[i] -= own * ((a + 2 * c * part) * W[0, p] + 2 * c * W[1, p])
                state.curvature[first + i] += 2 * c * own * W[0, p]
            for p in range(len(lows)):
                j, own = lows[p], factor * lower[lows[p]]
                part = low_keys[p] - centre + tau
                loss += part * own * ((a + c * part) * V[0, p] + c * V[1, p])
                gradient[j] += own * ((a + 2 * c * part) * V[0, p] + 2 * c * V[1, p])
                state.curvature[first + j] += 2 * c * own * V[0, p]
    return loss


@njit(inner=True)
def curve_two_level(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """Compute ``out = H v`` for query q, with the Hessian H at the scores last linearised."""
    first, query_weight = plan.query_ptr[q], plan.query_weight[q]
    upper, lower = plan.upper[first:], plan.lower[first:]
    weighted = scratch.values
    centre = centre_of(v, state.curvature[first:])
    for i in range(len(v)):
        weighted[0, i] = upper[i] * (v[i] - centre)
        weighted[1, i] = lower[i] * (v[i] - centre)
        out[i] = state.curvature[first + i] * (v[i] - centre)
    W, V = scratch.upper_sums[1], scratch.lower_sums[1]
    n_merged = 0
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        tops, top_keys = _upper_list(plan, state, node)
        lows, low_keys, n_merged = _lower_list(plan, state, node, scratch, n_merged)
        for t in range(len(hinges.tau)):
            tau = hinges.tau[t] + plan.shift[node]
            second = 2.0 * query_weight * plan.factor[node] * hinges.c[t]
            _active_sums(tops, top_keys, lows, low_keys, tau, weighted[0], weighted[1], W, V)
            for p in range(len(tops)):
                out[tops[p]] -= second * upper[tops[p]] * W[p]
            for p in range(len(lows)):
                out[lows[p]] -= second * lower[lows[p]] * V[p]


@njit(inner=True)
def gaps_two_level(plan, state, hinges, q, scores, gaps, scratch):  # type: ignore[no-untyped-def]
    """Add Σ_p weight·max(0, τ_m − t_p) to ``gaps[m]``, at the scores last linearised."""
    first, query_weight = plan.query_ptr[q], plan.query_weight[q]
    upper, lower = plan.upper[first:], plan.lower[first:]
    W, V = scratch.upper_sums[0], scratch.lower_sums[0]
    n_merged = 0
    for node in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
        tops, top_keys = _upper_list(plan, state, node)
        lows, low_keys, n_merged = _lower_list(plan, state, node, scratch, n_merged)
        for t in range(len(hinges.tau)):
            tau, total = hinges.tau[t] + plan.shift[node], 0.0
            _active_sums(tops, top_keys, lows, low_keys, tau, upper, lower, W, V)
            for p in range(len(tops)):
                W[p] *= upper[tops[p]]
            centre = centre_of(top_keys, W)
            for p in range(len(tops)):
                total += (centre - top_keys[p]) * W[p]
            for p in range(len(lows)):
                total += (low_keys[p] - centre + tau) * lower[lows[p]] * V[p]
            gaps[t] += query_weight * plan.factor[node] * total


@njit(inner=True)
def _sort_groups(plan, state, q, scores, scratch):  # type: ignore[no-untyped-def]
    """Sort each group of query q by score."""
    for group in range(plan.query_groups[q], plan.query_groups[q + 1]):
        a, b = plan.group_ptr[group], plan.group_ptr[group + 1]
        sort_by_key(scores, state.docs[a:b], scratch.keys, scratch.docs)
        for p in range(a, b):
            state.ranked[p] = scores[state.docs[p]]


@njit(inner=True)
def _upper_list(plan, state, node):  # type: ignore[no-untyped-def]
    """Return the upper documents of a problem by score, and their scores."""
    group = plan.nodes[node, UPPER]
    a, b = plan.group_ptr[group], plan.group_ptr[group + 1]
    return state.docs[a:b], state.ranked[a:b]


@njit(inner=True)
def _lower_list(plan, state, node, scratch, n_merged):  # type: ignore[no-untyped-def]
    """Return the lower documents of a problem by score, their scores, and the number merged.

    With `MERGED`, each call merges one more group into the list.
    """
    group = plan.nodes[node, LOWER]
    if group != MERGED:
        a, b = plan.group_ptr[group], plan.group_ptr[group + 1]
        return state.docs[a:b], state.ranked[a:b], 0
    group = plan.nodes[node, UPPER] - 1
    a, b = plan.group_ptr[group], plan.group_ptr[group + 1]
    n, left, new = n_merged + b - a, n_merged - 1, b - 1
    docs, keys = scratch.merged[:n], scratch.merged_keys[:n]
    for p in range(n - 1, -1, -1):
        if left < 0 or (new >= a and state.ranked[new] >= keys[left]):
            docs[p], keys[p] = state.docs[new], state.ranked[new]
            new -= 1
        else:
            docs[p], keys[p] = docs[left], keys[left]
            left -= 1
    return docs, keys, n


@njit(inner=True)
def _active_sums(tops, top_keys, lows, low_keys, tau, x_upper, x_lower, upper_sums, lower_sums):  # type: ignore[no-untyped-def]
    """Sum x over the lower documents with s_i − s_j < τ for each upper one, and vice versa.

    The lower list is summed from its end and the upper list from its start. Each running sum
    therefore contains active partners only, and inactive documents cause no rounding error.
    """
    total, b = 0.0, len(lows)
    for p in range(len(tops) - 1, -1, -1):
        while b > 0 and top_keys[p] - low_keys[b - 1] < tau:
            b -= 1
            total += x_lower[lows[b]]
        upper_sums[p] = total
    total, a = 0.0, 0
    for p in range(len(lows)):
        while a < len(tops) and top_keys[a] - low_keys[p] < tau:
            total += x_upper[tops[a]]
            a += 1
        lower_sums[p] = total


# --------------------------------------------------------------------------------------------------
# Layout of pairs as problems of two levels, for the kernels of `linrank.counting.two_level`.


@dataclass(frozen=True)
class TwoLevelLayout(Layout):
    """Pairs as problems of two levels each."""

    weighs_pairs: ClassVar[bool] = True

    plan: TwoLevelPlan

    def make_state(self, n_hinges: int) -> TwoLevelState:
        """Allocate the state for any number of hinges. Kernels sort `docs` in place."""
        n, n_docs = len(self.docs), len(self.plan.upper)
        return TwoLevelState(self.docs, np.empty(n), np.zeros(n_docs))

    def make_scratch(self, n: int) -> TwoLevelScratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""
        return TwoLevelScratch(
            keys=np.empty(2 * n),
            docs=np.empty(2 * n, np.uint32),
            merged=np.empty(n, np.uint32),
            merged_keys=np.empty(n),
            values=np.empty((2, n)),
            upper_sums=np.empty((2, n)),
            lower_sums=np.empty((2, n)),
        )


def lay_out_problems(counting: str, case: LevelComparison) -> TwoLevelLayout:
    """Write the pairs of each query as problems of two levels."""
    data, weights, groups = case.data, case.weights(), case.groups()
    query_nodes, nodes = _problems(groups.query_groups, case)
    query = np.repeat(np.arange(data.n_queries), np.diff(query_nodes))
    factor, shift = _factors_and_shifts(case, groups, nodes)
    ones = np.ones(data.n_docs)
    plan = TwoLevelPlan(
        query_ptr=data.query_ptr,
        query_weight=weights.query,
        offset=np.empty(0) if case.offsets is None else case.offsets,
        upper=ones if weights.upper is None else weights.upper,
        lower=ones if weights.lower is None else weights.lower,
        query_groups=groups.query_groups,
        group_ptr=groups.group_ptr,
        query_nodes=query_nodes,
        nodes=nodes,
        factor=factor,
        shift=shift,
    )
    count = _node_mass(plan, groups.docs, ones, ones)
    total = factor * _node_mass(plan, groups.docs, plan.upper, plan.lower)
    mass = [np.bincount(query, values, data.n_queries) for values in (count, total)]
    # Without pairs, np.bincount returns integers. The masses must be floats in every case.
    mass_of_queries = np.column_stack(mass).astype(np.float64)
    return TwoLevelLayout("two-level", plan, groups.docs, mass_of_queries)


def _factors_and_shifts(
    case: LevelComparison, groups: Groups, nodes: Integers
) -> tuple[Vector, Vector]:
    """Return what multiplies the loss of each problem, and what is added to its margin of 1."""
    data, preferences = case.data, case.preferences
    factor, shift = np.ones(len(nodes)), np.zeros(len(nodes))
    if preferences.rescale is None or preferences.separable:
        return factor, shift
    # All documents of a group share their label and their discount: the first one is read.
    owner = np.repeat(data.query_ptr[:-1], np.diff(groups.query_groups))
    row = owner + groups.docs[groups.group_ptr[:-1]]
    label, place = data.y[row], ideal_discounts(case.levels.level, data.query_ptr)[row]
    i, j = nodes.T
    delta = preferences.deltas(label[i], label[j], (place[i], place[j]))
    slack, moved = preferences.weight_and_shift(delta)
    return factor if slack is None else slack, shift if moved is None else moved


def _problems(query_groups: Integers, case: LevelComparison) -> tuple[Integers, Integers]:
    """Return `TwoLevelPlan.query_nodes` and `TwoLevelPlan.nodes`."""
    preferences, by_level = case.preferences, case.compares_every_two_levels()
    n_nodes = case.n_problems(np.diff(query_groups))
    if n_nodes.sum() > plan.MAX_PAIRS:
        raise DataError(
            f"rescale={preferences.rescale!r} compares every two levels, which makes "
            f"{n_nodes.sum():,} pairs of levels; the limit is {plan.MAX_PAIRS:,}. Use labels "
            "with fewer levels, or rescale='margin' with delta='label-squared', which has no limit."
        )
    query_nodes = np.concatenate([[0], np.cumsum(n_nodes)])
    nodes = np.empty((int(query_nodes[-1]), 2), np.int64)
    lower = MERGED if preferences.pairs == "all" else 0
    _fill_problems(query_groups, by_level, lower, nodes)
    return query_nodes, nodes


@njit
def _fill_problems(query_groups, by_level, lower, nodes):  # type: ignore[no-untyped-def]
    """Pair every two groups of a query, or each group with `MERGED` or with the one before it."""
    node = 0
    for q in range(len(query_groups) - 1):
        for upper in range(query_groups[q] + 1, query_groups[q + 1]):
            first = query_groups[q] if by_level else upper - 1
            for other in range(first, upper):
                nodes[node, 0] = upper
                nodes[node, 1] = MERGED if lower == MERGED and not by_level else other
                node += 1


def _node_mass(
    plan: TwoLevelPlan, docs: NDArray[np.uint32], upper: Vector, lower: Vector
) -> Vector:
    """Return Σ upper_i·lower_j over the pairs of each problem."""
    if not len(docs):
        return np.zeros(0)
    owner = np.repeat(plan.query_ptr[:-1], np.diff(plan.query_groups))
    row = np.repeat(owner, np.diff(plan.group_ptr)) + docs
    tops, lows = (np.add.reduceat(x[row], plan.group_ptr[:-1]) for x in (upper, lower))
    below = np.empty_like(lows)
    running_sums(lows, np.unique(plan.query_groups), below)
    i, j = plan.nodes.T
    return tops[i] * np.where(j == MERGED, below[i - 1], lows[j])
