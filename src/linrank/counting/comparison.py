"""Which documents of the data are compared, and how many pairs that makes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._typing import Integers, Vector
from ..data.ranking import RankingData
from .plan import Levels
from .preferences import Preferences
from .two_level import group_by_level

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


class Comparison(NamedTuple):
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
