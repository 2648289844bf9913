"""Spearman's ρ and Kendall's τ-b: correlation of the scores with the labels of a query."""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from .._jit import njit
from .._typing import Vector
from ._measure import PerQuery, measure
from ._pairwise import count_pairs
from ._ranking import Ranking, tie_end


@njit
def _mean_ranks_range(lists, first, last, out):  # type: ignore[no-untyped-def]
    # The ranks are relative to their mean in the query, so that a sum of products is a covariance.
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        tied = lists.tied[a:b]
        for start in range(b - a):
            if not tied[start]:
                end = tie_end(tied, start)
                out[a + start : a + end] = 0.5 * (start + end - (b - a))


@njit
def _spearman_range(lists, first, last, ranks, out):  # type: ignore[no-untyped-def]
    # `lists` is sorted by label and carries the ranks of the scores; `ranks` are those of the
    # labels.
    for q in range(first, last):
        together, of_labels, of_scores = 0.0, 0.0, 0.0
        for i in range(lists.query_ptr[q], lists.query_ptr[q + 1]):
            together += ranks[i] * lists.labels[i]
            of_labels += ranks[i] * ranks[i]
            of_scores += lists.labels[i] * lists.labels[i]
        if of_labels == 0.0:
            out[q] = np.nan
        elif of_scores == 0.0:
            out[q] = 0.0
        else:
            out[q] = together / math.sqrt(of_labels * of_scores)


def _mean_ranks(ranking: Ranking) -> Vector:
    ranks = np.empty(int(ranking.query_ptr[-1]))
    ranking.each_query(_mean_ranks_range, ranking.lists, ranks)
    return ranks


def spearman_values(ranking: Ranking) -> PerQuery:
    """Compute Spearman's ρ of each query."""
    by_score = ranking.averaged
    by_label = Ranking(
        _mean_ranks(by_score), by_score.lists.labels, by_score.query_ptr, "average",
        by_score.n_threads,
    )  # fmt: skip
    values = by_label.compute(_spearman_range, _mean_ranks(by_label))
    return PerQuery.fill(np.clip(values, -1.0, 1.0), "skip")


def kendall_values(ranking: Ranking) -> PerQuery:
    """Compute Kendall's τ-b of each query."""
    found = count_pairs(ranking)
    right = found.pairs - found.wrong - found.undecided
    scale = np.sqrt(found.pairs * found.distinct)
    values = np.where(found.pairs > 0, 0.0, np.nan)
    np.divide(right - found.wrong, scale, out=values, where=scale > 0)
    return PerQuery.fill(np.clip(values, -1.0, 1.0), "skip")


@overload
def spearman(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
) -> float: ...
@overload
def spearman(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, per_query: Literal[True]
) -> Vector: ...
def spearman(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, per_query: bool = False
) -> float | Vector:
    """Compute Spearman's ρ: the Pearson correlation of the ranks of labels and scores.

    Documents with equal labels or scores get the mean of their ranks, as in
    ``scipy.stats.spearmanr``. If all labels of a query are equal, ρ is undefined and the query is
    skipped; this includes queries with one document. If only the scores are all equal, ρ is 0,
    its mean over random orders. All queries have the same weight in the mean.

    Parameters
    ----------
    y, scores, qid, per_query
        As in `ndcg`.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN if the labels do not differ.

    Examples
    --------
    >>> from linrank.metrics import spearman
    >>> spearman([1, 2, 3], [0.1, 0.3, 0.2])
    0.5
    """
    return measure(lambda ranking, _: spearman_values(ranking), y, scores, qid, per_query=per_query)


@overload
def kendall(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
) -> float: ...
@overload
def kendall(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, per_query: Literal[True]
) -> Vector: ...
def kendall(
    y: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None, *, per_query: bool = False
) -> float | Vector:
    """Compute Kendall's τ-b = (concordant − discordant pairs) / √(n_y·n_s).

    n_y and n_s are the numbers of pairs of documents with different labels and with different
    scores. τ-b is also the default of ``scipy.stats.kendalltau``. If all labels of a query are
    equal, τ-b is undefined and the query is skipped; this includes queries with one document. If
    only the scores are all equal, τ-b is 0. All queries have the same weight in the mean. The
    time is O(l log l) for a list of l documents.

    Parameters
    ----------
    y, scores, qid, per_query
        As in `ndcg`.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN if the labels do not differ.

    Examples
    --------
    >>> from linrank.metrics import kendall
    >>> kendall([1, 2, 3], [0.1, 0.3, 0.2])  # 2 concordant pairs, 1 discordant
    0.3333333333333333
    """
    return measure(lambda ranking, _: kendall_values(ranking), y, scores, qid, per_query=per_query)
