"""Which pairs there are: what the labels decide, before any score is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.checks import choice
from .._util.parallel import run, split
from .._util.types import Integers, Vector
from ..choices import NORMALIZATIONS
from ..data.ranking import RankingData
from .preferences import Preferences
from .sort import sort_by_key, sort_in_threads

if TYPE_CHECKING:
    from ..data.ranking import RankingData

START, LEVELS, UNIT, BASE = range(4)  #: columns of `PairPlan.nodes`
DIGIT_BITS = 3  #: bits of a level in each digit but the first; 8 digits fill one SIMD vector


class PairPlan(NamedTuple):
    """The pairs of all queries as nodes (`linrank.counting.tables` defines nodes and digits).

    Query q has the nodes ``query_nodes[q]:query_nodes[q + 1]``: none if it has no pairs. Node m has
    the positions ``nodes[m, START]:nodes[m + 1, START]`` of the state. In node m, a document of
    level v has the digit ``v // nodes[m, UNIT] − nodes[m, BASE]``, one of ``nodes[m, LEVELS]``
    digits. ``level`` is −1 for documents that are left out. ``weight`` is empty if all documents
    weigh 1. ``offset`` is subtracted from the scores before documents are compared; it is empty if
    no document has one.
    """

    query_ptr: Integers
    level: NDArray[np.int32]
    weight: Vector
    query_weight: Vector
    offset: Vector
    query_nodes: Integers
    nodes: Integers


class Wanted(NamedTuple):
    """Combinations of pair sums that a kernel computes, numbered by r.

    Sum r adds ``factor·Σ_t scale[r, t]·(Σ_above x_j + sign[r]·Σ_below x_j)`` over the hinges t to
    ``out[r, i]``.
    """

    scale: Vector
    sign: Vector


class Levels(NamedTuple):
    """The levels of documents, the number of levels of each query, and the mass of its pairs.

    ``level`` is −1 for documents that are left out. ``mass`` has the number of pairs of each query,
    and the sum of w_i·w_j over them.
    """

    level: NDArray[np.int32]
    n_levels: Integers
    mass: Vector


def rank_labels(data: RankingData, query_weight: Vector, n_threads: int) -> Levels:
    """Number the distinct labels of each query from 0 upward.

    Documents of weight 0 and queries of weight 0 are left out.
    """
    levels = Levels(
        level=np.empty(data.n_docs, np.int32),
        n_levels=np.empty(data.n_queries, np.int64),
        mass=np.empty((data.n_queries, 2)),
    )
    weight = np.empty(0) if data.weight is None else data.weight
    tasks = []
    for a, b in split(data.query_ptr, n_threads):
        n = int(np.diff(data.query_ptr[a : b + 1]).max())
        scratch = np.empty(n, np.uint32), np.empty(2 * n, np.uint32), np.empty(2 * n)
        tasks.append((data.y, data.query_ptr, weight, query_weight, a, b, *levels, *scratch))
    run(_rank_labels, tasks, n_threads)
    return levels


def plan_pairs(
    data: RankingData,
    query_weight: Vector,
    levels: Levels,
    most: int | None,
    offsets: Vector | None,
) -> tuple[PairPlan, NDArray[np.uint32]]:
    """Lay out the pairs of all queries in nodes of at most `most` levels.

    Parameters
    ----------
    data : RankingData
    query_weight : float64 array
    levels : Levels
    most : int or None
        If None, each query has one node.
    offsets : float64 array, optional
        What is subtracted from the score of each document.

    Returns
    -------
    plan : PairPlan
    docs : uint32 array
        A place for each document of each node. The documents of the first node of a query are
        filled in, in row order; kernels fill in the others.
    """
    n_levels = levels.n_levels
    layers = count_layers(n_levels, most)
    has_pairs = n_levels > 1
    n_used = np.add.reduceat(levels.level >= 0, data.query_ptr[:-1], dtype=np.int64)
    n_nodes = np.count_nonzero(has_pairs)
    for depth in range(1, int(layers.max())):
        span = 1 << DIGIT_BITS * depth
        n_nodes += int((-(-n_levels // span))[has_pairs & (depth < layers)].sum())
    plan = PairPlan(
        query_ptr=data.query_ptr,
        level=levels.level,
        weight=np.empty(0) if data.weight is None else data.weight,
        query_weight=query_weight,
        offset=np.empty(0) if offsets is None else offsets,
        query_nodes=np.empty(data.n_queries + 1, np.int64),
        nodes=np.empty((n_nodes + 1, 4), np.int64),
    )
    docs = np.empty(int((n_used * layers)[has_pairs].sum()), np.uint32)
    _lay_out_nodes(plan, n_levels, layers, docs)
    return plan, docs


@njit
def _rank_labels(  # type: ignore[no-untyped-def]
    y, query_ptr, weight, query_weight, q0, q1, level, n_levels, mass, docs, tmp_docs, tmp_keys
):
    """Do what `rank_labels` does, for the queries q0, …, q1 − 1."""
    for q in range(q0, q1):
        first = query_ptr[q]
        labels = y[first : query_ptr[q + 1]]
        n = 0
        for i in range(len(labels)):
            level[first + i] = -1
            if query_weight[q] > 0.0 and (len(weight) == 0 or weight[first + i] > 0.0):
                docs[n] = i
                n += 1
        sort_by_key(labels, docs[:n], tmp_keys, tmp_docs)
        k, start, n_pairs, weight_below, weight_here, total = 0, 0, 0.0, 0.0, 0.0, 0.0
        for p in range(n):
            if p > 0 and labels[docs[p]] > labels[docs[p - 1]]:
                k, start = k + 1, p
                weight_below += weight_here
                weight_here = 0.0
            own = 1.0 if len(weight) == 0 else weight[first + docs[p]]
            level[first + docs[p]] = k
            n_pairs += start
            total += own * weight_below
            weight_here += own
        n_levels[q] = k + 1
        mass[q, 0] = n_pairs
        mass[q, 1] = total


def count_layers(k: Integers, most: int | None) -> Integers:
    """Return the number of digits of k levels, where the first digit has at most `most` values.

    Examples
    --------
    >>> count_layers(np.array([2, 16, 17, 128, 129]), most=16)
    array([1, 1, 2, 2, 3])
    """
    layers = np.ones_like(k)
    if most is not None:
        while (short := most << DIGIT_BITS * (layers - 1) < k).any():
            layers += short
    return layers


@njit
def _lay_out_nodes(plan, n_levels, n_layers, docs):  # type: ignore[no-untyped-def]
    """Fill the nodes of the plan, and put the documents of each query into its first node.

    The children of a node follow the children of the nodes before it in the same layer.
    """
    node, position = 0, 0
    plan.nodes[0, START] = 0
    for q in range(len(n_levels)):
        plan.query_nodes[q] = node
        k = n_levels[q]
        if k < 2:
            continue
        level = plan.level[plan.query_ptr[q] : plan.query_ptr[q + 1]]
        for layer in range(n_layers[q]):
            unit = 1 << DIGIT_BITS * (n_layers[q] - 1 - layer)
            span = unit << DIGIT_BITS if layer > 0 else k
            head = node
            for group in range((k + span - 1) // span):
                base = group * span // unit
                plan.nodes[node, UNIT] = unit
                plan.nodes[node, BASE] = base
                plan.nodes[node, LEVELS] = (min((group + 1) * span, k) - 1) // unit - base + 1
                plan.nodes[node + 1, START] = 0
                node += 1
            for i in range(len(level)):
                if level[i] >= 0:
                    plan.nodes[head + level[i] // span + 1, START] += 1
            for m in range(head, node):
                plan.nodes[m + 1, START] += plan.nodes[m, START]
        for i in range(len(level)):
            if level[i] >= 0:
                docs[position] = i
                position += 1
        position = plan.nodes[node, START]
    plan.query_nodes[len(n_levels)] = node


@njit
def running_sums(values, starts, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums[k]`` with values[a] + … + values[k], where a is the last start ≤ k.

    The starts increase. A sum over the first places of a segment is then one entry, instead of a
    difference of two sums, so values before the segment cause no rounding error in it.
    """
    segment, total = 0, 0.0
    for k in range(len(values)):
        if segment < len(starts) and starts[segment] == k:
            segment, total = segment + 1, 0.0
        total += values[k]
        sums[k] = total


@njit(fast=True, inner=True)
def centre_of(x, activity):  # type: ignore[no-untyped-def]
    """Return the mean of x over documents, each weighted by the weight of its active pairs.

    Only differences of scores matter, so any number may be subtracted from all of them. With this
    mean, the sums over the heaviest active pairs lose the fewest digits. A document without active
    pairs has no influence.
    """
    total, mass = 0.0, 0.0
    for i in range(len(x)):
        total += activity[i] * x[i]
        mass += activity[i]
    return total / mass if mass > 0.0 else 0.0


# --------------------------------------------------------------------------------------------------
# The interface of a layout: preference pairs in the form that one family of kernels reads.


class Plan(Protocol):
    """The fields that the plans of all layouts share; a plan is a NamedTuple."""

    @property
    def query_ptr(self) -> Integers:
        """Query q has the rows ``query_ptr[q]:query_ptr[q + 1]``."""

    @property
    def query_weight(self) -> Vector:
        """The factor of the loss of each query."""

    @property
    def offset(self) -> Vector:
        """What is subtracted from each score before documents are compared; empty if nothing."""

    @property
    def query_nodes(self) -> Integers:
        """Query q has the nodes ``query_nodes[q]:query_nodes[q + 1]``: none if it has no pairs.

        What a node is depends on the layout.
        """

    def _replace(self, *, query_weight: Vector) -> Self: ...


class State(Protocol):
    """What a kernel derives from the scores and keeps for Hessian products."""

    @property
    def curvature(self) -> Vector:
        """The sum of the second derivatives of the pairs of each document."""


class Scratch(Protocol):
    """Buffers of one thread; each family of kernels has its own."""


@dataclass(frozen=True)
class Layout(ABC):
    """The pairs of all queries, in the form that one family of kernels reads.

    Attributes
    ----------
    counting : str
        The name of the algorithm that sums over the pairs.
    plan : Plan
        What the labels and the preferences decide, before any score is known.
    docs : uint32 array
        Documents that the kernels sort by score, counted from the first document of their query.
    mass : float64 array of shape (n_queries, 2)
        The number of pairs of each query, and the sum of their weights.
    lists_pairs : bool
        Whether each pair is stored by itself. Only such a layout accepts pairs that a user
        lists, and a pairwise loss that is not a table of hinges.
    weighs_pairs : bool
        Whether pairs of one query may differ in weight and margin, beyond weights and offsets
        of documents.
    """

    lists_pairs: ClassVar[bool] = False
    weighs_pairs: ClassVar[bool] = False

    counting: str
    plan: Plan
    docs: NDArray[np.uint32]
    mass: Vector

    @abstractmethod
    def make_state(self, n_hinges: int) -> State:
        """Allocate the state for a loss with that many hinges; kernels fill it from scores."""

    @abstractmethod
    def make_scratch(self, n: int) -> Scratch:
        """Allocate the buffers of one thread, for queries of up to n documents."""

    def sort_query(  # noqa: B027 (a layout need not sort)
        self, q: int, scores: Vector, scratch: Scratch, n_threads: int
    ) -> None:
        """Sort the documents of query q by score, with several threads.

        The engine calls this for very large queries. The kernel, which runs on one thread, then
        finds the documents sorted. A layout whose kernels do not sort whole queries does nothing.
        """

    def total_weight(self) -> float:
        """Return the weight of all pairs, query weights included."""
        return float(self.plan.query_weight @ self.mass[:, 1])

    def normalized(self, normalize: str) -> Self:
        """Divide the query weights by the weight of the pairs.

        Parameters
        ----------
        normalize : {"pairs", "queries"}
            Whether to divide by the weight of all pairs, or each query weight by the weight of the
            query's own pairs.
        """
        choice("normalize", normalize, (None, *NORMALIZATIONS))
        weight, mass = self.plan.query_weight, self.mass[:, 1]
        if normalize == "pairs":
            total = self.total_weight()
            divided = weight / total if total > 0 else weight
        else:
            divided = np.divide(weight, mass, out=np.zeros_like(mass), where=mass > 0)
        return replace(self, plan=self.plan._replace(query_weight=divided))

    def with_own_documents(self) -> Self:
        """Copy the documents, so that two engines can sort them by different scores."""
        return replace(self, docs=self.docs.copy())


@dataclass(frozen=True)
class NodeLayout(Layout):
    """Pairs by the digits of their levels (`PairPlan`), for kernels that sort whole queries."""

    plan: PairPlan

    def sort_query(self, q: int, scores: Vector, scratch: Any, n_threads: int) -> None:
        """Sort the documents of query q by score, with several threads."""
        node, nodes = self.plan.query_nodes[q], self.plan.nodes
        if node < self.plan.query_nodes[q + 1]:
            docs = self.docs[nodes[node, START] : nodes[node + 1, START]]
            sort_in_threads(scores, docs, scratch.keys, scratch.docs, n_threads)


# --------------------------------------------------------------------------------------------------
# Which documents of the data are compared, and how many pairs that makes.


MAX_PAIRS = 10**8  #: pairs that may be stored one by one; more would take over 3 GB


class DocumentWeights(NamedTuple):
    """Weights of queries, and of documents as the upper and as the lower document of a pair.

    ``upper`` and ``lower`` are None if all documents weigh 1.
    """

    query: Vector
    upper: Vector | None
    lower: Vector | None

    def of_pairs(self, upper: NDArray[Any], lower: NDArray[Any]) -> Vector | None:
        """Return the weights of pairs, given the rows of their documents; None if all are 1."""
        if self.upper is None:
            return None
        weight = self.upper[upper]
        return weight if self.lower is None else weight * self.lower[lower]


class Groups(NamedTuple):
    """The documents of each level of each query, counted from the first of their query.

    Query q has the groups ``query_groups[q]:query_groups[q + 1]``, one per level, and none if it
    has one level only. Group g has the documents ``docs[group_ptr[g]:group_ptr[g + 1]]``.
    """

    docs: NDArray[np.uint32]
    group_ptr: Integers
    query_groups: Integers


class LevelComparison(NamedTuple):
    """The labels of the data as levels, and the preferences between them.

    Attributes
    ----------
    data : RankingData
    query_weight : float64 array
    preferences : Preferences
    levels : Levels
    offsets : float64 array or None
        What is subtracted from each score before documents are compared.
    exact : bool
        Whether the loss is not a table of hinges.
    """

    data: RankingData
    query_weight: Vector
    preferences: Preferences
    levels: Levels
    offsets: Vector | None
    exact: bool

    def weights(self) -> DocumentWeights:
        """Return the weights of queries and documents."""
        return document_weights(self.data, self.query_weight)

    def groups(self) -> Groups:
        """Return the documents of each level."""
        return group_documents(self.levels, self.data.query_ptr)

    def n_pairs(self) -> int:
        """Count the pairs."""
        if self.preferences.pairs == "all":
            return int(self.levels.mass[:, 0].sum())
        sizes, query_groups = _group_sizes(self.levels, self.data.query_ptr)
        query = np.repeat(np.arange(self.data.n_queries), np.diff(query_groups))
        return int((sizes[1:] * sizes[:-1])[query[1:] == query[:-1]].sum())

    def n_problems(self, n_levels: Integers) -> Integers:
        """Count the two-level problems of queries with these numbers of levels."""
        if self.compares_every_two_levels():
            return n_levels * (n_levels - 1) // 2
        return np.maximum(n_levels - 1, 0)

    def compares_every_two_levels(self) -> bool:
        """Whether every two levels have a weight and a margin of their own."""
        return self.preferences.pairs == "all" and not self.preferences.plain

    def two_level_work(self) -> int:
        """Bound the number of documents in all two-level problems together.

        A product over n listed pairs takes less time than one over two-level problems with n
        documents: 7 ms and 20 ms for one relevant document among a million.
        """
        if self.preferences.pairs == "adjacent":
            return 2 * self.data.n_docs
        return int(np.diff(self.data.query_ptr) @ (self.levels.n_levels - 1))


def document_weights(data: RankingData, query_weight: Vector) -> DocumentWeights:
    """Return what queries and documents weigh.

    A propensity divides the weight of a document in pairs in which it is the upper one.
    """
    if data.propensity is None:
        return DocumentWeights(query_weight, data.weight, data.weight)
    upper = 1.0 / data.propensity
    if data.weight is not None:
        upper *= data.weight
    return DocumentWeights(query_weight, upper, data.weight)


def group_documents(levels: Levels, query_ptr: Integers) -> Groups:
    """Group the documents of each query by level."""
    sizes, query_groups = _group_sizes(levels, query_ptr)
    group_ptr = np.zeros(len(sizes) + 1, np.int64)
    docs = np.empty(int(sizes.sum()), np.uint32)
    group_by_level(query_ptr, levels.level, query_groups, group_ptr, docs)
    return Groups(docs, group_ptr, query_groups)


def _group_sizes(levels: Levels, query_ptr: Integers) -> tuple[Integers, Integers]:
    """Return the number of documents in each group, and `Groups.query_groups`."""
    n_groups = np.where(levels.n_levels > 1, levels.n_levels, 0)
    query_groups = np.concatenate([[0], np.cumsum(n_groups)])
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    used = (levels.level >= 0) & (levels.n_levels > 1)[query]
    group = query_groups[query[used]] + levels.level[used]
    return np.bincount(group, minlength=query_groups[-1]), query_groups


@njit
def group_by_level(query_ptr, level, query_groups, group_ptr, docs):  # type: ignore[no-untyped-def]
    """Fill the positions of each group, and its documents in row order."""
    for q in range(len(query_ptr) - 1):
        first, last = query_groups[q], query_groups[q + 1]
        if first == last:
            continue
        rows = level[query_ptr[q] : query_ptr[q + 1]]
        start = group_ptr[first]
        for g in range(first, last):
            group_ptr[g + 1] = 0
        for i in range(len(rows)):
            if rows[i] >= 0:
                group_ptr[first + rows[i] + 1] += 1
        for g in range(first, last):
            group_ptr[g + 1] += group_ptr[g]
        for i in range(len(rows)):
            if rows[i] >= 0:
                docs[group_ptr[first + rows[i]]] = i
                group_ptr[first + rows[i]] += 1
        for g in range(last, first, -1):  # undo: the start of each group has moved to its end
            group_ptr[g] = group_ptr[g - 1]
        group_ptr[first] = start
