"""Metrics of pairs: accuracy, AUC, rank correlations, domination, preferences."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._compile.jit import njit
from .._util.checks import choice
from .._util.types import Integers, Vector
from ..choices import DOMINATION_AVERAGES, PAIR_AVERAGES, DominationAverageName, PairAverageName
from ..data.pairs import listed_pairs
from ..errors import DataError
from .ranked_lists import (
    MetricOptions,
    NoOptions,
    PerQuery,
    Ranking,
    Rules,
    check_vector,
    metric,
    tie_end,
)

__all__ = [
    "all_pairs_error",
    "auc",
    "domination_error",
    "kendall",
    "pairwise_accuracy",
    "preference_accuracy",
    "right_pairs",
    "spearman",
    "strict_pairwise_accuracy",
]

# --------------------------------------------------------------------------------------------------
# Numbers of pairs of each query.


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


# --------------------------------------------------------------------------------------------------
# Spearman's ρ and Kendall's τ-b: correlation of the scores with the labels of a query.


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


@metric("spearman", NoOptions)
def spearman(ranking: Ranking, rules: Rules) -> PerQuery:
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
    by_score = ranking.averaged
    by_label = Ranking(
        _mean_ranks(by_score), by_score.lists.labels, by_score.query_ptr, "average",
        by_score.n_threads,
    )  # fmt: skip
    values = by_label.compute(_spearman_range, _mean_ranks(by_label))
    return PerQuery.fill(np.clip(values, -1.0, 1.0), "skip")


@metric("kendall", NoOptions, aliases=("tau", "kendall-tau-b"))
def kendall(ranking: Ranking, rules: Rules) -> PerQuery:
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
    found = count_pairs(ranking)
    right = found.pairs - found.wrong - found.undecided
    scale = np.sqrt(found.pairs * found.distinct)
    values = np.where(found.pairs > 0, 0.0, np.nan)
    np.divide(right - found.wrong, scale, out=values, where=scale > 0)
    return PerQuery.fill(np.clip(values, -1.0, 1.0), "skip")


# --------------------------------------------------------------------------------------------------
# Pairwise accuracy, the area under the ROC curve and all-pairs error: metrics of pairs.


class PairOptions(MetricOptions):
    """Arguments of metrics of pairs."""

    average: PairAverageName = "pairs"

    def check(self) -> None:
        choice("average", self.average, PAIR_AVERAGES)


def _pairwise_values(ranking: Ranking, average: PairAverageName) -> PerQuery:
    pairs, wrong, undecided, _ = count_pairs(ranking)
    right = pairs - (wrong + undecided / 2)
    return PerQuery.ratio(right, pairs, by_total=average == "pairs")


@metric("pairwise-accuracy", PairOptions)
def pairwise_accuracy(ranking: Ranking, rules: Rules, average: PairAverageName) -> PerQuery:
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
    return _pairwise_values(ranking, average)


@metric("strict-pairwise-accuracy", PairOptions)
def strict_pairwise_accuracy(ranking: Ranking, rules: Rules, average: PairAverageName) -> PerQuery:
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
    pairs, wrong, undecided, _ = count_pairs(ranking)
    return PerQuery.ratio(pairs - wrong - undecided, pairs, by_total=average == "pairs")


@metric("auc", PairOptions)
def auc(ranking: Ranking, rules: Rules, average: PairAverageName) -> PerQuery:
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
    labels = ranking.lists.labels
    low, high = labels.min(), labels.max()
    other = (labels != low) & (labels != high)
    if other.any():
        raise DataError(
            f"auc needs at most two distinct labels but y has {low:g}, "
            f"{labels[other.argmax()]:g} and {high:g}; for graded labels use pairwise_accuracy"
        )
    return _pairwise_values(ranking, average)


@metric("all-pairs-error", PairOptions, greater_is_better=False)
def all_pairs_error(ranking: Ranking, rules: Rules, average: PairAverageName) -> PerQuery:
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
    pairs, wrong, undecided, _ = count_pairs(ranking)
    return PerQuery.ratio(wrong + undecided / 2, pairs, by_total=average == "pairs")


# --------------------------------------------------------------------------------------------------
# Domination error: the share of documents that are ranked below one with a lower label.


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


class DominationOptions(MetricOptions):
    """Arguments of `domination_error`."""

    average: DominationAverageName = "queries"

    def check(self) -> None:
        choice("average", self.average, DOMINATION_AVERAGES)


@metric("domination-error", DominationOptions, greater_is_better=False)
def domination_error(ranking: Ranking, rules: Rules, average: DominationAverageName) -> PerQuery:
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
    ranking = ranking.averaged
    errors, dominating = np.empty(ranking.n_queries), np.empty(ranking.n_queries)
    ranking.each_query(_domination_range, ranking.lists, errors, dominating)
    return PerQuery.ratio(errors, dominating, by_total=average == "documents")


# --------------------------------------------------------------------------------------------------
# Accuracy on listed preferences, which need no labels.


def right_pairs(scores: Vector, pairs: Integers) -> Vector:
    """Return 1 for each pair whose preferred item has the higher score, ½ for equal scores.

    Parameters
    ----------
    scores : float64 array of shape (n_items,)
    pairs : integer array of shape (n_pairs, 2)
        Places in `scores`: the first item of each pair is preferred to the second.

    Returns
    -------
    float64 array of shape (n_pairs,)

    Examples
    --------
    >>> right_pairs(np.array([0.5, 2.0, 2.0]), np.array([[1, 0], [0, 2], [1, 2]])).tolist()
    [1.0, 0.0, 0.5]
    """
    upper, lower = scores[pairs[:, 0]], scores[pairs[:, 1]]
    return (upper > lower) + 0.5 * (upper == lower)


def preference_accuracy(scores: ArrayLike, pairs: Any, weight: ArrayLike | None = None) -> float:
    """Compute the share of pairs whose preferred item has the higher score.

    A pair of equal scores counts one half, as in `pairwise_accuracy`.

    Parameters
    ----------
    scores : array of shape (n_items,)
        Higher is better.
    pairs : integer array of shape (n_pairs, 2), or frame
        Places in `scores`: the first item of each pair is preferred to the second. A frame has
        columns with the names that `read_pairs` knows, such as winner and loser.
    weight : array of shape (n_pairs,), optional
        By default the weights of a frame, or 1.

    Returns
    -------
    float

    Examples
    --------
    >>> from linrank.metrics import preference_accuracy
    >>> preference_accuracy([0.5, 2.0, 2.0], [[1, 0], [0, 2], [1, 2], [2, 0]])
    0.625
    """
    scores = check_vector("scores", scores)
    listed = listed_pairs(pairs, None, len(scores), weight, weight_name="weight")
    return float(np.average(right_pairs(scores, listed.rows), weights=listed.weight))
