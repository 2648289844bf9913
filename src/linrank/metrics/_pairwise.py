"""Pairwise accuracy, all-pairs error and the area under the ROC curve: metrics of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from .._checks import choice
from .._jit import njit
from .._typing import Vector
from ..errors import DataError
from ._measure import PerQuery, measure
from ._ranking import Ranking
from .names import PAIR_AVERAGES, PairAverageName


@njit
def _pairs_range(lists, first, last, ideal, pairs, undecided, distinct):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        n_pairs, n_undecided, n_distinct, same, tied, alike = 0, 0, 0, 0, 0, 0
        for i in range(a, b):
            # Number of documents above position i in either list that share its label, its
            # score, or both.
            same = same + 1 if i > a and ideal[i] == ideal[i - 1] else 0
            tied = tied + 1 if lists.tied[i] else 0
            alike = alike + 1 if lists.tied[i] and lists.labels[i] == lists.labels[i - 1] else 0
            n_pairs += i - a - same
            n_undecided += tied - alike
            n_distinct += i - a - tied
        pairs[q] = n_pairs
        undecided[q] = n_undecided
        distinct[q] = n_distinct


class PairOptions(TypedDict, total=False):
    """Arguments of metrics of pairs."""

    average: PairAverageName


class PairCounts(NamedTuple):
    """Numbers of pairs of each query."""

    pairs: Vector  #: of different labels
    wrong: Vector  #: of different labels, with the smaller label ranked first
    undecided: Vector  #: of different labels and equal scores
    distinct: Vector  #: of different scores, whatever the labels


def count_pairs(ranking: Ranking) -> PairCounts:
    """Count the pairs of each query."""
    ranking = ranking.averaged
    pairs, undecided, distinct = (np.empty(ranking.n_queries) for _ in range(3))
    ranking.each_query(_pairs_range, ranking.lists, ranking.ideal, pairs, undecided, distinct)
    # In a group of equal scores the largest label is first, so `n_wrong` counts no pair of equal
    # score.
    return PairCounts(pairs, ranking.n_wrong.astype(np.float64), undecided, distinct)


def pairwise_values(ranking: Ranking, average: PairAverageName = "pairs") -> PerQuery:
    """Compute the pairwise accuracy of each query, with equal weights or weights by pairs."""
    pairs, wrong, undecided, _ = count_pairs(ranking)
    right = pairs - (wrong + undecided / 2)
    return PerQuery.ratio(right, pairs, by_total=average == "pairs")


def strict_values(ranking: Ranking, average: PairAverageName = "pairs") -> PerQuery:
    """Compute the strict pairwise accuracy of each query, in which equal scores are wrong."""
    pairs, wrong, undecided, _ = count_pairs(ranking)
    return PerQuery.ratio(pairs - wrong - undecided, pairs, by_total=average == "pairs")


def all_pairs_values(ranking: Ranking, average: PairAverageName = "pairs") -> PerQuery:
    """Compute the all-pairs error of each query, with equal weights or weights by pairs."""
    pairs, wrong, undecided, _ = count_pairs(ranking)
    return PerQuery.ratio(wrong + undecided / 2, pairs, by_total=average == "pairs")


def auc_values(ranking: Ranking, average: PairAverageName = "pairs") -> PerQuery:
    """Compute the AUC of each query, with equal weights or weights by pairs."""
    labels = ranking.lists.labels
    low, high = labels.min(), labels.max()
    other = (labels != low) & (labels != high)
    if other.any():
        raise DataError(
            f"auc needs at most two distinct labels but y has {low:g}, "
            f"{labels[other.argmax()]:g} and {high:g}; for graded labels use pairwise_accuracy"
        )
    return pairwise_values(ranking, average)


def _measure_pairs(
    compute: Callable[[Ranking, PairAverageName], PerQuery],
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None,
    average: PairAverageName,
    per_query: bool,
) -> float | Vector:
    choice("average", average, PAIR_AVERAGES)
    return measure(
        lambda ranking, _: compute(ranking, average), y, scores, qid, per_query=per_query
    )


@overload
def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[PairOptions],
) -> float: ...
@overload
def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[PairOptions],
) -> Vector: ...
def pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    average: PairAverageName = "pairs",
    per_query: bool = False,
) -> float | Vector:
    """Compute #{pairs with y_i > y_j and s_i > s_j} / #{pairs with y_i > y_j}.

    A pair (i, j) consists of two documents of one query. A pair of equal scores counts one half;
    in `strict_pairwise_accuracy` it counts 0. The metric is also known as the concordance index.
    The time is O(l log l) for a list of l documents. A query without pairs is skipped.

    Parameters
    ----------
    y, scores, qid, per_query
        As in `ndcg`.
    average : {"pairs", "queries"}
        Whether all pairs or all queries have the same weight in the mean.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN if there is no pair.

    Examples
    --------
    >>> from linrank.metrics import pairwise_accuracy
    >>> pairwise_accuracy([2, 1, 0], [0.3, 0.5, 0.3])  # wrong, undecided, right
    0.5
    """
    return _measure_pairs(pairwise_values, y, scores, qid, average, per_query)


@overload
def strict_pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[PairOptions],
) -> float: ...
@overload
def strict_pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[PairOptions],
) -> Vector: ...
def strict_pairwise_accuracy(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    average: PairAverageName = "pairs",
    per_query: bool = False,
) -> float | Vector:
    """Compute the pairwise accuracy in which a pair of equal scores is wrong.

    This is #{pairs with y_i > y_j and s_i > s_j} / #{pairs with y_i > y_j}, as in Lee and Lin,
    Neural Computation 26 (2014), section 4.4. In `pairwise_accuracy`, a pair of equal scores
    counts one half. A query without pairs is skipped.

    Parameters
    ----------
    y, scores, qid, average, per_query
        As in `pairwise_accuracy`.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN if there is no pair.

    Examples
    --------
    >>> from linrank.metrics import strict_pairwise_accuracy
    >>> strict_pairwise_accuracy([2, 1, 0], [0.3, 0.5, 0.3])  # wrong, undecided, right
    0.3333333333333333
    """
    return _measure_pairs(strict_values, y, scores, qid, average, per_query)


@overload
def all_pairs_error(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[PairOptions],
) -> float: ...
@overload
def all_pairs_error(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[PairOptions],
) -> Vector: ...
def all_pairs_error(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    average: PairAverageName = "pairs",
    per_query: bool = False,
) -> float | Vector:
    """Compute #{pairs with y_i > y_j and s_i < s_j} / #{pairs with y_i > y_j}; lower is better.

    This is 1 − `pairwise_accuracy`: a pair of equal scores counts one half, and a query
    without pairs is skipped. Stevens, Bengio and Singer, Efficient Learning of Sparse Ranking
    Functions, tables 1.2 and 1.3, which use ``average="queries"``.

    Parameters
    ----------
    y, scores, qid, average, per_query
        As in `pairwise_accuracy`.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN if there is no pair.

    Examples
    --------
    >>> from linrank.metrics import all_pairs_error
    >>> all_pairs_error([2, 1, 0, 0], [0.4, 0.5, 0.3, 0.4])  # 1 wrong, 1 undecided, 3 right
    0.3
    """
    return _measure_pairs(all_pairs_values, y, scores, qid, average, per_query)


@overload
def auc(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[PairOptions],
) -> float: ...
@overload
def auc(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[PairOptions],
) -> Vector: ...
def auc(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    average: PairAverageName = "pairs",
    per_query: bool = False,
) -> float | Vector:
    """Compute the area under the ROC curve, P(s_i > s_j) + P(s_i = s_j)/2.

    i is a random positive and j a random negative document of the same query. The larger of the
    two labels is the positive one. For two labels, AUC is equal to `pairwise_accuracy`.

    Parameters
    ----------
    y, scores, qid, average, per_query
        As in `pairwise_accuracy`; `y` holds at most two distinct labels.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN if there is no pair.

    Examples
    --------
    >>> from linrank.metrics import auc
    >>> auc([-1, -1, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return _measure_pairs(auc_values, y, scores, qid, average, per_query)
