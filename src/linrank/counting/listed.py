"""Layout of pairs that are stored one by one, for the kernels of `linrank.counting.explicit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .._typing import Integers, Vector
from ..data.ranking import RankingData
from ..errors import DataError
from . import comparison
from .base import Layout
from .comparison import Comparison, document_weights
from .explicit import ExplicitPlan, ExplicitScratch, ExplicitState, list_pairs, make_state
from .preferences import ideal_discounts

PAIR_BYTES = 32  #: memory of a listed pair with its weight, margin and second derivative


@dataclass(frozen=True)
class ExplicitLayout(Layout):
    """Pairs that are stored one by one."""

    lists_pairs: ClassVar[bool] = True
    weighs_pairs: ClassVar[bool] = True

    plan: ExplicitPlan

    def make_state(self, n_hinges: int) -> ExplicitState:
        """Allocate the state, which does not depend on the number of hinges."""
        return make_state(self.plan)

    def make_scratch(self, n: int) -> ExplicitScratch:
        """Return empty buffers: the kernels need none."""
        return ExplicitScratch(np.empty(0))


def lay_out_listed(counting: str, case: Comparison) -> ExplicitLayout:
    """List the pairs that follow from the labels."""
    data, preferences, n_pairs = case.data, case.preferences, case.n_pairs()
    if n_pairs > comparison.MAX_PAIRS:
        raise DataError(
            f"there are {n_pairs:,} pairs, which would take {n_pairs * PAIR_BYTES / 1e9:.1f} GB "
            f"listed one by one; the limit is {comparison.MAX_PAIRS:,} pairs. Use "
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


def _instead(case: Comparison) -> str:
    """Return what to use if there are too many pairs to list."""
    if case.exact:
        return "loss='logistic', which is within 0.003 of it and lists no pairs"
    if case.preferences.plain:
        return "counting='auto', which lists no pairs"
    if case.n_problems(case.levels.n_levels).sum() <= comparison.MAX_PAIRS:
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
