"""Domination error: the share of documents that are ranked below one with a lower label."""

from __future__ import annotations

from typing import Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from .._checks import choice
from .._jit import njit
from .._typing import Vector
from ._measure import PerQuery, measure
from ._ranking import Ranking, tie_end
from .names import DOMINATION_AVERAGES, DominationAverageName


@njit(inner=True)
def _domination(labels, tied):  # type: ignore[no-untyped-def]
    # Returns the expected number of documents that are ranked below a document with a lower
    # label, and the number of documents for which a lower label exists in the query.
    lowest, above = np.inf, np.inf
    for label in labels:
        lowest = min(lowest, label)
    errors, dominating = 0.0, 0
    for start in range(len(labels)):
        if tied[start]:
            continue
        end = tie_end(tied, start)
        # `lower` counts the documents of the group with a lower label than position i. Labels fall
        # within a group, so these documents follow i.
        lower = 0
        for i in range(end - 1, start - 1, -1):
            if i < end - 1 and labels[i] > labels[i + 1]:
                lower = end - 1 - i
            if labels[i] > lowest:
                dominating += 1
                errors += 1.0 if above < labels[i] else lower / (lower + 1)
        above = min(above, labels[end - 1])
    return errors, dominating


@njit
def _domination_range(lists, first, last, errors, dominating):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        errors[q], dominating[q] = _domination(lists.labels[a:b], lists.tied[a:b])


class DominationOptions(TypedDict, total=False):
    """Arguments of `domination_error`."""

    average: DominationAverageName


def domination_values(ranking: Ranking, average: DominationAverageName = "queries") -> PerQuery:
    """Compute the domination error of each query, with equal weights or weights by documents."""
    ranking = ranking.averaged
    errors, dominating = np.empty(ranking.n_queries), np.empty(ranking.n_queries)
    ranking.each_query(_domination_range, ranking.lists, errors, dominating)
    return PerQuery.ratio(errors, dominating, by_total=average == "documents")


@overload
def domination_error(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[DominationOptions],
) -> float: ...
@overload
def domination_error(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[DominationOptions],
) -> Vector: ...
def domination_error(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    average: DominationAverageName = "queries",
    per_query: bool = False,
) -> float | Vector:
    """Compute #{i : s_j > s_i for some j in D(i)} / #{i : D(i) is not empty}; lower is better.

    D(i) is the set of documents j of the query of i with a lower label, y_j < y_i. A document
    counts as one error if at least one document of D(i) is ranked above it. Stevens, Bengio and
    Singer, Efficient Learning of Sparse Ranking Functions, section 1.2.

    Documents of equal score are in random order, and the result is the expected error. If no j
    in D(i) has a larger score than i and t of them have an equal score, i counts t/(t + 1), the
    probability that i is not the first of them. (In the paper i counts 0, so that equal scores
    for all documents would be perfect.) The time is O(l log l) for a list of l documents. A
    query whose labels are all equal is skipped.

    Parameters
    ----------
    y, scores, qid, per_query
        As in `ndcg`.
    average : {"queries", "documents"}
        Whether all queries have the same weight in the mean, as in the paper's tables 1.2 and
        1.3, or all documents i with a non-empty D(i).

    Returns
    -------
    float or array of shape (n_queries,)
        NaN if all labels of each query are equal.

    Examples
    --------
    >>> from linrank.metrics import domination_error
    >>> domination_error([2, 1, 0, 0], [3.0, 1.0, 2.0, 0.0])  # right, wrong
    0.5
    """
    choice("average", average, DOMINATION_AVERAGES)
    return measure(
        lambda ranking, _: domination_values(ranking, average),
        y, scores, qid, per_query=per_query,
    )  # fmt: skip
