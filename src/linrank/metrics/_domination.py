"""Metrics of documents against all that should stand below them: the domination error."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import njit
from ._measure import PerQuery, measure
from ._ranking import Ranking, tie_end
from ._rules import check_choice


@njit
def _domination(labels, tied):  # type: ignore[no-untyped-def]
    # The expected number of documents with a lower label above them, and the number of those
    # with a lower label anywhere.
    lowest, above = np.inf, np.inf
    for label in labels:
        lowest = min(lowest, label)
    errors, dominating = 0.0, 0
    for start in range(len(labels)):
        if tied[start]:
            continue
        end = tie_end(tied, start)
        lower = 0  # how many of the group have a lower label: labels fall within a group
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


def domination_values(ranking: Ranking, average: str = "queries") -> PerQuery:
    """Compute the domination error of each query, weighted by its documents or by one."""
    ranking = ranking.averaged
    errors, dominating = np.empty(ranking.n_queries), np.empty(ranking.n_queries)
    ranking.each_query(_domination_range, ranking.lists, errors, dominating)
    values = np.full(ranking.n_queries, np.nan)
    np.divide(errors, dominating, out=values, where=dominating > 0)
    weights = dominating if average == "documents" else np.minimum(dominating, 1.0)
    return PerQuery(values, weights)


def domination_error(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    average: str = "queries",
    per_query: bool = False,
) -> Any:
    """Error = (documents i with s_j > s_i for some j in D(i)) / (documents i with D(i) not empty).

    D(i) are the documents of i's query with a lower label, y_j < y_i: one of them above i is
    an error, more are no worse. Lower is better. Stevens, Bengio and Singer, Efficient
    Learning of Sparse Ranking Functions, section 1.2.

    Documents of equal score stand in random order, and the error is the expected one: where
    no j in D(i) has a larger score than i and t of them have an equal one, i counts
    t/(t + 1), the probability that it is not the first of these. (In the paper it counts 0, by
    which equal scores for all documents would be perfect.) Computed in O(l log l) for a list
    of length l. A query whose labels are all equal is skipped.

    Parameters
    ----------
    y, scores, qid, per_query
        As in `ndcg`.
    average : {"queries", "documents"}
        Whether the mean weighs all queries alike, as in the paper's tables 1.2 and 1.3, or all
        documents i.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN where all labels are equal.

    Examples
    --------
    >>> from linrank.metrics import domination_error
    >>> domination_error([2, 1, 0, 0], [3.0, 1.0, 2.0, 0.0])  # right, wrong
    0.5
    """
    check_choice("average", average, ("queries", "documents"))
    return measure(
        lambda ranking, rules: domination_values(ranking, average),
        y, scores, qid, per_query=per_query,
    )  # fmt: skip
