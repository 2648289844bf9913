"""From data to the pairs in the form that a way of counting needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import choice
from .._jit import njit
from .._typing import Vector
from ..data.ranking import RankingData
from ..errors import DataError
from . import explicit, tables, trees, two_level
from .explicit import ExplicitPlan, list_pairs
from .plan import Levels, plan_pairs, rank_labels, running_sums
from .preferences import Preferences, ideal_discounts
from .sweep import STRUCTURES
from .two_level import MERGED, TwoLevelPlan, group_by_level

#: The ways to sum over pairs, by name; ``auto`` chooses.
COUNTINGS = ("auto", "tables", "explicit", "two-level", *STRUCTURES)

MAX_PAIRS = 10**8  #: most pairs that are listed one by one (about 3 GB)
MANY_LEVELS = 5000  #: from here on sweeps with Fenwick trees are faster than tables
PAIR_BYTES = 32  #: what a listed pair takes with its weight, margin and second derivative


class Layout(NamedTuple):
    """The pairs of all queries, laid out for one way of counting.

    ``mass`` has the number of pairs of each query, and the sum of their weights.
    """

    counting: str
    plan: Any
    docs: NDArray[np.uint32]
    mass: Vector

    def make_state(self, n_hinges: int) -> Any:
        """Room for what depends on the scores, for a loss with so many hinges."""
        if self.counting == "explicit":
            return explicit.make_state(self.plan)
        if self.counting == "two-level":
            return two_level.make_state(self.plan, self.docs)
        if self.counting == "tables":
            return tables.make_state(self.plan, self.docs, n_hinges)
        return trees.make_state(self.plan, self.docs, n_hinges, STRUCTURES[self.counting])

    def make_scratch(self, n: int) -> Any:
        """Buffers of one thread for queries of up to n documents."""
        if self.counting == "explicit":
            return explicit.ExplicitScratch(np.empty(0))
        if self.counting == "two-level":
            return two_level.make_scratch(n)
        return (tables if self.counting == "tables" else trees).make_scratch(self.plan, n)


class DocumentWeights(NamedTuple):
    """Weights of queries, and of documents as the upper and the lower one of a pair."""

    query: Vector
    upper: Vector | None
    lower: Vector | None

    def of_pairs(self, upper: NDArray[Any], lower: NDArray[Any]) -> Vector | None:
        """What pairs weigh, given their rows; None where all weigh 1."""
        if self.upper is None:
            return None
        weight = self.upper[upper]
        return weight if self.lower is None else weight * self.lower[lower]


def lay_out(
    data: RankingData, preferences: Preferences, counting: str, exact: bool, n_threads: int
) -> Layout:
    """Lay out the pairs of the data for a way of counting.

    Parameters
    ----------
    data : RankingData
    preferences : Preferences
    counting : str
        One of `COUNTINGS`.
    exact : bool
        Whether the loss is no table of hinges, so that pairs must be listed.
    n_threads : int
    """
    choice("counting", counting, COUNTINGS)
    query_weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    if data.pairs is not None:
        return _given_pairs(data, query_weight, counting, preferences)
    levels = rank_labels(data, query_weight, n_threads)
    data, levels = _fold_propensity(data, levels)
    offsets = preferences.offsets(data)
    chosen = _choose(counting, preferences, data, levels, exact)
    if chosen == "explicit":
        weights = document_weights(data, query_weight)
        return _explicit(data, weights, preferences, levels, offsets, exact)
    if chosen == "two-level":
        return _two_level(data, document_weights(data, query_weight), preferences, levels, offsets)
    most = tables.RADIX if chosen == "tables" else None
    plan, docs = plan_pairs(data, query_weight, levels, most, offsets)
    return Layout(chosen, plan, docs, levels.mass)


def _choose(
    counting: str, preferences: Preferences, data: RankingData, levels: Levels, exact: bool
) -> str:
    """The way of counting to use, if the one that was asked for can count these pairs."""
    if exact:
        if counting not in ("auto", "explicit"):
            raise DataError(
                f"counting={counting!r} sums tables of hinges, which loss='logistic_exact' is not: "
                "use counting='explicit', or loss='logistic', which is close to it"
            )
        return "explicit"
    if preferences.plain and data.propensity is None:
        return _fastest(data, levels) if counting == "auto" else counting
    if counting not in ("auto", "explicit", "two-level"):
        what = "propensity with more than two levels" if preferences.plain else (
            f"pairs={preferences.pairs!r}" if preferences.rescale is None
            else f"rescale={preferences.rescale!r} with delta={preferences.delta_name!r}"
        )  # fmt: skip
        raise DataError(
            f"counting={counting!r} gives all pairs one weight and one margin, but {what} does "
            "not: use counting='two-level' or 'explicit' (or 'auto', which chooses)"
        )
    if counting == "auto":
        few = min(MAX_PAIRS, _two_level_work(preferences, data, levels))
        return "explicit" if _n_pairs(preferences, data, levels) <= few else "two-level"
    return counting


def _fastest(data: RankingData, levels: Levels) -> str:
    """What was measured to be the fastest for so many levels in the query of a document."""
    mean = float(np.diff(data.query_ptr) @ levels.n_levels) / data.n_docs
    return "fenwick" if mean > MANY_LEVELS else "tables"


def document_weights(data: RankingData, query_weight: Vector) -> DocumentWeights:
    """What queries and documents weigh; a propensity divides the weight of an upper document."""
    if data.propensity is None:
        return DocumentWeights(query_weight, data.weight, data.weight)
    upper = 1.0 / data.propensity
    if data.weight is not None:
        upper *= data.weight
    return DocumentWeights(query_weight, upper, data.weight)


def _fold_propensity(data: RankingData, levels: Levels) -> tuple[RankingData, Levels]:
    """With two levels, a document has one role, so its propensity is part of its weight."""
    if data.propensity is None or levels.n_levels.max() > 2:
        return data, levels
    weight = np.ones(data.n_docs) if data.weight is None else data.weight.copy()
    upper = levels.level == 1
    weight[upper] /= data.propensity[upper]
    first = data.query_ptr[:-1]
    parts = [np.add.reduceat(weight * (levels.level == k), first) for k in (0, 1)]
    levels.mass[:, 1] = parts[0] * parts[1]
    return data.replace(weight=weight, propensity=None), levels


# Pairs one by one ---------------------------------------------------------------------------


def _explicit(
    data: RankingData,
    weights: DocumentWeights,
    preferences: Preferences,
    levels: Levels,
    offsets: Vector | None,
    exact: bool,
) -> Layout:
    n_pairs = _n_pairs(preferences, data, levels)
    if n_pairs > MAX_PAIRS:
        other = _instead(preferences, levels, exact)
        raise DataError(
            f"there are {n_pairs:,} pairs, which would take {n_pairs * PAIR_BYTES / 1e9:.1f} GB "
            f"listed one by one; at most {MAX_PAIRS:,} are: use {other}"
        )
    query_nodes = np.empty(data.n_queries + 1, np.int64)
    upper, lower = np.empty((2, n_pairs), np.uint32)
    adjacent = preferences.pairs == "adjacent"
    groups = group_documents(levels, data.query_ptr)
    list_pairs(*groups, adjacent, query_nodes, upper, lower)
    start = np.repeat(data.query_ptr[:-1], np.diff(query_nodes))
    i, j = start + upper, start + lower
    weight, shift = weights.of_pairs(i, j), None
    if preferences.rescale is not None and not preferences.separable:
        discount = ideal_discounts(levels.level, data.query_ptr)
        delta = preferences.deltas(data.y[i], data.y[j], (discount[i], discount[j]))
        slack, shift = preferences.weight_and_shift(delta)
        weight = slack if weight is None else weight if slack is None else weight * slack
    if offsets is not None:
        shift = offsets[i] - offsets[j] - 1.0
    return _explicit_layout(data, weights.query, query_nodes, upper, lower, weight, shift)


def _instead(preferences: Preferences, levels: Levels, exact: bool) -> str:
    """What to use where pairs are too many to be listed."""
    if exact:
        return "loss='logistic', which is within 0.003 of it and never lists them"
    if preferences.plain:
        return "counting='auto', which never lists them"
    if _n_problems(levels.n_levels, preferences).sum() <= MAX_PAIRS:
        return "counting='two-level', which never lists them"
    return "labels with fewer levels, or rescale='margin' with delta='label-squared'"


def _n_problems(k: NDArray[np.int64], preferences: Preferences) -> NDArray[np.int64]:
    """How many two-level problems queries of k levels make."""
    by_level = preferences.pairs == "all" and not preferences.plain
    return k * (k - 1) // 2 if by_level else np.maximum(k - 1, 0)


def _explicit_layout(
    data: RankingData,
    query_weight: Vector,
    query_nodes: NDArray[np.int64],
    upper: NDArray[np.uint32],
    lower: NDArray[np.uint32],
    weight: Vector | None,
    shift: Vector | None,
) -> Layout:
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
    return Layout("explicit", plan, np.empty(0, np.uint32), mass)


def _given_pairs(
    data: RankingData, query_weight: Vector, counting: str, preferences: Preferences
) -> Layout:
    """The pairs that the user gave; documents are grouped by what is compared with what."""
    if counting not in ("auto", "explicit"):
        raise DataError(
            f"counting={counting!r} finds the pairs by labels, but pairs are given one by one: use "
            "counting='explicit'"
        )
    if preferences != Preferences():
        raise DataError(
            "pairs, rescale and delta speak of labels, but pairs are given one by one: give them "
            "their weights and margins instead"
        )
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
    return _explicit_layout(
        data, query_weight, query_nodes, np.ascontiguousarray(upper), np.ascontiguousarray(lower),
        weight, shift,
    )  # fmt: skip


# Problems of two levels ---------------------------------------------------------------------


def _group_sizes(levels: Levels, query_ptr: NDArray[np.int64]) -> tuple[Any, Any]:
    """How many documents each level of each query has, and where the levels of a query begin."""
    n_groups = np.where(levels.n_levels > 1, levels.n_levels, 0)
    query_groups = np.concatenate([[0], np.cumsum(n_groups)])
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    used = (levels.level >= 0) & (levels.n_levels > 1)[query]
    group = query_groups[query[used]] + levels.level[used]
    return np.bincount(group, minlength=query_groups[-1]), query_groups


def group_documents(levels: Levels, query_ptr: NDArray[np.int64]) -> tuple[Any, Any, Any]:
    """The documents of each level, where the levels begin among them, and a query's levels."""
    sizes, query_groups = _group_sizes(levels, query_ptr)
    group_ptr = np.zeros(len(sizes) + 1, np.int64)
    docs = np.empty(int(sizes.sum()), np.uint32)
    group_by_level(query_ptr, levels.level, query_groups, group_ptr, docs)
    return docs, group_ptr, query_groups


def _n_pairs(preferences: Preferences, data: RankingData, levels: Levels) -> int:
    if preferences.pairs == "all":
        return int(levels.mass[:, 0].sum())
    sizes, query_groups = _group_sizes(levels, data.query_ptr)
    query = np.repeat(np.arange(data.n_queries), np.diff(query_groups))
    return int((sizes[1:] * sizes[:-1])[query[1:] == query[:-1]].sum())


def _two_level_work(preferences: Preferences, data: RankingData, levels: Levels) -> int:
    """How many documents the two-level problems hold together, at most.

    A product over n listed pairs takes less time than one over two-level problems with n documents:
    7 ms and 20 ms for one relevant document among a million.
    """
    if preferences.pairs == "adjacent":
        return 2 * data.n_docs
    return int(np.diff(data.query_ptr) @ (levels.n_levels - 1))


def _two_level(
    data: RankingData,
    weights: DocumentWeights,
    preferences: Preferences,
    levels: Levels,
    offsets: Vector | None,
) -> Layout:
    docs, group_ptr, query_groups = group_documents(levels, data.query_ptr)
    query_nodes, nodes = _problems(query_groups, preferences)
    query = np.repeat(np.arange(data.n_queries), np.diff(query_nodes))
    factor, shift = np.ones(len(nodes)), np.zeros(len(nodes))
    if preferences.rescale is not None and not preferences.separable:
        # A group's first document speaks for its label and its place in the ideal ranking.
        owner = np.repeat(data.query_ptr[:-1], np.diff(query_groups))
        row = owner + docs[group_ptr[:-1]]
        label, place = data.y[row], ideal_discounts(levels.level, data.query_ptr)[row]
        i, j = nodes.T
        delta = preferences.deltas(label[i], label[j], (place[i], place[j]))
        slack, moved = preferences.weight_and_shift(delta)
        factor = factor if slack is None else slack
        shift = shift if moved is None else moved
    ones = np.ones(data.n_docs)
    plan = TwoLevelPlan(
        query_ptr=data.query_ptr,
        query_weight=weights.query,
        offset=np.empty(0) if offsets is None else offsets,
        upper=ones if weights.upper is None else weights.upper,
        lower=ones if weights.lower is None else weights.lower,
        query_groups=query_groups,
        group_ptr=group_ptr,
        query_nodes=query_nodes,
        nodes=nodes,
        factor=factor,
        shift=shift,
    )
    count = _node_mass(plan, docs, ones, ones)
    total = factor * _node_mass(plan, docs, plan.upper, plan.lower)
    mass = [np.bincount(query, values, data.n_queries) for values in (count, total)]
    # Without pairs, numpy's counts are integers, and no share can be written to these.
    return Layout("two-level", plan, docs, np.column_stack(mass).astype(np.float64))


def _problems(
    query_groups: NDArray[np.int64], preferences: Preferences
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two-level problems of each query."""
    k = np.diff(query_groups)
    by_level = preferences.pairs == "all" and not preferences.plain
    n_nodes = _n_problems(k, preferences)
    if n_nodes.sum() > MAX_PAIRS:
        raise DataError(
            f"rescale={preferences.rescale!r} compares every two levels, of which there are "
            f"{n_nodes.sum():,}; at most {MAX_PAIRS:,} can be handled: use labels with fewer "
            "levels, or rescale='margin' with delta='label-squared', for any number of levels"
        )
    query_nodes = np.concatenate([[0], np.cumsum(n_nodes)])
    nodes = np.empty((int(query_nodes[-1]), 2), np.int64)
    lower = MERGED if preferences.pairs == "all" else 0
    _fill_problems(query_groups, by_level, lower, nodes)
    return query_nodes, nodes


@njit
def _fill_problems(query_groups, by_level, lower, nodes):  # type: ignore[no-untyped-def]
    """Every two groups of a query, or each group with `MERGED` or with the one before it."""
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
    """Σ upper_i·lower_j over the pairs of each problem."""
    if not len(docs):
        return np.zeros(0)
    owner = np.repeat(plan.query_ptr[:-1], np.diff(plan.query_groups))
    row = np.repeat(owner, np.diff(plan.group_ptr)) + docs
    tops, lows = (np.add.reduceat(x[row], plan.group_ptr[:-1]) for x in (upper, lower))
    below = np.empty_like(lows)
    running_sums(lows, np.unique(plan.query_groups), below)
    i, j = plan.nodes.T
    return tops[i] * np.where(j == MERGED, below[i - 1], lows[j])
