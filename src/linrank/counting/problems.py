"""Layout of pairs as problems of two levels, for the kernels of `linrank.counting.two_level`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._typing import Integers, Vector
from ..errors import DataError
from . import comparison
from .base import Layout
from .comparison import Comparison, Groups
from .plan import running_sums
from .preferences import ideal_discounts
from .two_level import (
    MERGED,
    TwoLevelPlan,
    TwoLevelScratch,
    TwoLevelState,
    make_scratch,
    make_state,
)


@dataclass(frozen=True)
class TwoLevelLayout(Layout):
    """Pairs as problems of two levels each."""

    weighs_pairs: ClassVar[bool] = True

    plan: TwoLevelPlan

    def make_state(self, n_hinges: int) -> TwoLevelState:
        """Allocate the state, which does not depend on the number of hinges."""
        return make_state(self.plan, self.docs)

    def make_scratch(self, n: int) -> TwoLevelScratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""
        return make_scratch(n)


def lay_out_problems(counting: str, case: Comparison) -> TwoLevelLayout:
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


def _factors_and_shifts(case: Comparison, groups: Groups, nodes: Integers) -> tuple[Vector, Vector]:
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


def _problems(query_groups: Integers, case: Comparison) -> tuple[Integers, Integers]:
    """Return `TwoLevelPlan.query_nodes` and `TwoLevelPlan.nodes`."""
    preferences, by_level = case.preferences, case.compares_every_two_levels()
    n_nodes = case.n_problems(np.diff(query_groups))
    if n_nodes.sum() > comparison.MAX_PAIRS:
        raise DataError(
            f"rescale={preferences.rescale!r} compares every two levels, which makes "
            f"{n_nodes.sum():,} pairs of levels; the limit is {comparison.MAX_PAIRS:,}. Use labels "
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
