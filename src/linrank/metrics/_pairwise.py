"""Metrics of pairs: pairwise accuracy, the all-pairs error, the area under the ROC curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import njit
from ..errors import DataError
from ._measure import PerQuery, measure
from ._ranking import Floats, Ranking
from ._rules import check_choice


@njit
def _pairs_range(lists, first, last, ideal, pairs, undecided):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        n_pairs, n_undecided, same, tied, alike = 0, 0, 0, 0, 0
        for i in range(a, b):
            # How many of the items above share the label; the score; both.
            same = same + 1 if i > a and ideal[i] == ideal[i - 1] else 0
            tied = tied + 1 if lists.tied[i] else 0
            alike = alike + 1 if lists.tied[i] and lists.labels[i] == lists.labels[i - 1] else 0
            n_pairs += i - a - same
            n_undecided += tied - alike
        pairs[q] = n_pairs
        undecided[q] = n_undecided


def _count_pairs(ranking: Ranking) -> tuple[Floats, Floats]:
    # The wrong pairs of each query, in which equal scores count one half, and all of its pairs.
    ranking = ranking.averaged
    pairs, undecided = np.empty(ranking.n_queries), np.empty(ranking.n_queries)
    ranking.each_query(_pairs_range, ranking.lists, ranking.ideal, pairs, undecided)
    # In a group of equal scores the largest label stands first, so that labels in the
    # wrong order have scores in the wrong order.
    return ranking.n_wrong + undecided / 2, pairs


def _part(counted: Floats, pairs: Floats, average: str) -> PerQuery:
    values = np.full(len(pairs), np.nan)
    np.divide(counted, pairs, out=values, where=pairs > 0)
    return PerQuery(values, pairs if average == "pairs" else np.minimum(pairs, 1.0))


def pairwise_values(ranking: Ranking, average: str = "pairs") -> PerQuery:
    """Compute the pairwise accuracy of each query, weighted by its pairs or by one."""
    wrong, pairs = _count_pairs(ranking)
    return _part(pairs - wrong, pairs, average)


def all_pairs_values(ranking: Ranking, average: str = "pairs") -> PerQuery:
    """Compute the all-pairs error of each query, weighted by its pairs or by one."""
    return _part(*_count_pairs(ranking), average)


def auc_values(ranking: Ranking, average: str = "pairs") -> PerQuery:
    """Compute the area under the ROC curve of each query, weighted by its pairs or by one."""
    labels = ranking.lists.labels
    low, high = labels.min(), labels.max()
    other = (labels != low) & (labels != high)
    if other.any():
        raise DataError(
            f"auc needs two distinct labels but y has {low:g}, {labels[other.argmax()]:g} "
            f"and {high:g}; for graded labels use pairwise_accuracy"
        )
    return pairwise_values(ranking, average)


def pairwise_accuracy(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    average: str = "pairs",
    per_query: bool = False,
) -> Any:
    """Accuracy = (pairs i, j of one query with y_i > y_j and s_i > s_j) / (pairs with y_i > y_j).

    A pair of equal scores counts one half. Lee and Lin, Neural Computation 26 (2014),
    section 4.4, but there a pair of equal scores counts 0. Also known as the concordance
    index; computed in O(l log l) for a list of length l. A query without pairs is skipped.

    Parameters
    ----------
    y, scores, qid, per_query
        As in `ndcg`.
    average : {"pairs", "queries"}
        Whether the mean weighs all pairs or all queries alike.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN where there is no pair.

    Examples
    --------
    >>> from linrank.metrics import pairwise_accuracy
    >>> pairwise_accuracy([2, 1, 0], [0.3, 0.5, 0.3])  # wrong, undecided, right
    0.5
    """
    check_choice("average", average, ("pairs", "queries"))
    return measure(
        lambda ranking, rules: pairwise_values(ranking, average),
        y, scores, qid, per_query=per_query,
    )  # fmt: skip


def all_pairs_error(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    average: str = "pairs",
    per_query: bool = False,
) -> Any:
    """Error = (pairs i, j of one query with y_i > y_j and s_i < s_j) / (pairs with y_i > y_j).

    This is 1 − `pairwise_accuracy`: a pair of equal scores counts one half, and a query
    without pairs is skipped. Lower is better. Stevens, Bengio and Singer, Efficient Learning
    of Sparse Ranking Functions, tables 1.2 and 1.3, which give means over queries.

    Parameters
    ----------
    y, scores, qid, average, per_query
        As in `pairwise_accuracy`.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN where there is no pair.

    Examples
    --------
    >>> from linrank.metrics import all_pairs_error
    >>> all_pairs_error([2, 1, 0, 0], [0.4, 0.5, 0.3, 0.4])  # 1 wrong, 1 undecided, 3 right
    0.3
    """
    check_choice("average", average, ("pairs", "queries"))
    return measure(
        lambda ranking, rules: all_pairs_values(ranking, average),
        y, scores, qid, per_query=per_query,
    )  # fmt: skip


def auc(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    average: str = "pairs",
    per_query: bool = False,
) -> Any:
    """AUC = P(s_i > s_j) + P(s_i = s_j)/2 for a random positive i and negative j of one query.

    The larger of the two labels is the positive one. With several queries, pairs are
    formed within each; see `pairwise_accuracy`, which this equals for two labels.

    Parameters
    ----------
    y, scores, qid, average, per_query
        As in `pairwise_accuracy`; `y` holds at most two distinct labels.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN where there is no pair.

    Examples
    --------
    >>> from linrank.metrics import auc
    >>> auc([-1, -1, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    check_choice("average", average, ("pairs", "queries"))
    return measure(
        lambda ranking, rules: auc_values(ranking, average),
        y, scores, qid, per_query=per_query,
    )  # fmt: skip
