"""Metrics of relevant and irrelevant documents: precision, MAP, recall, hit rate, RBP."""

from __future__ import annotations

from numbers import Real

import numpy as np

from .._compile.jit import njit
from .._util.types import Vector
from ..errors import DataError
from .ranked_lists import (
    BinaryOptions,
    PerQuery,
    Ranking,
    RelevanceOptions,
    Rules,
    metric,
    tie_end,
)

__all__ = ["average_precision", "hit_rate", "precision", "r_precision", "rbp", "recall"]

# --------------------------------------------------------------------------------------------------
# Precision and average precision: metrics of binary relevance.


@njit(inner=True)
def count_relevant(labels, start, stop, rel):  # type: ignore[no-untyped-def]
    """Return the number of relevant labels among ``labels[start:stop]``."""
    relevant = 0
    for i in range(start, stop):
        relevant += labels[i] >= rel
    return relevant


@njit(inner=True)
def walk_relevant(labels, tied, rel, k, average):  # type: ignore[no-untyped-def]
    """Return the expected number of relevant documents among the first k.

    If `average`, return the expected sum of the precisions at the ranks of relevant documents.
    """
    # In a group of t equal scores with r relevant documents, each rank holds a relevant document
    # with probability r/t. Given that it does, each rank of the group above it does with
    # probability (r − 1)/(t − 1) (McSherry and Najork, ECIR 2008).
    total, before = 0.0, 0
    for start in range(min(k, len(labels))):
        if tied[start]:
            continue
        end = tie_end(tied, start)
        r, t = count_relevant(labels, start, end, rel), end - start
        slope = (r - 1) / max(t - 1, 1)
        for i in range(start, min(end, k) if r > 0 else start):
            above = before + 1 + (i - start) * slope
            total += r / t * (above / (i + 1) if average else 1.0)
        before += r
    return total


@njit
def _precision_range(lists, first, last, rel, k, average, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        labels, tied = lists.labels[a:b], lists.tied[a:b]
        relevant = count_relevant(labels, 0, b - a, rel)
        if relevant == 0:
            out[q] = np.nan
        else:
            total = walk_relevant(labels, tied, rel, min(k, lists.n_listed[q]), average)
            out[q] = total / relevant if average else total


def _run(ranking: Ranking, rules: Rules, k: int | None, average: bool) -> Vector:
    return ranking.compute(_precision_range, float(rules.rel), ranking.depth(k), average)


@metric("p", RelevanceOptions, aliases=("precision",))
def precision(ranking: Ranking, rules: Rules, k: int | None) -> PerQuery:
    """Compute P@k = (relevant documents among the first k) / k.

    A list shorter than k is filled up with irrelevant documents. With the flavour letor3 it
    counts 0 instead.

    Parameters
    ----------
    y, scores, qid, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    k : int, optional
        Cut-off. None: the length of each list.
    rel : float, optional
        Smallest relevant label. None: that of the flavour, which is 2 for mslr and otherwise 1.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import precision
    >>> precision([1, 0, 2, 0], [4.0, 3.0, 2.0, 1.0], k=2)
    0.5
    """
    values = _run(ranking, rules, k, False) / (np.maximum(ranking.n_listed, 1) if k is None else k)
    if k is not None and "p" in rules.zero_if_short:
        values[(ranking.n_listed < k) & ~np.isnan(values)] = 0.0
    return PerQuery.fill(values, rules.no_relevant)


@metric("map", RelevanceOptions, aliases=("ap", "average-precision", "mean-average-precision"))
def average_precision(ranking: Ranking, rules: Rules, k: int | None) -> PerQuery:
    """Compute AP = (1/R) Σ_r P@r, summed over the ranks r ≤ k of relevant documents.

    R is the number of relevant documents of the query. As in trec_eval's map_cut, R also counts
    those beyond the cut-off. The mean of AP over the queries is MAP.

    Parameters
    ----------
    y, scores, qid, k, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    rel : float, optional
        Smallest relevant label. None: that of the flavour, which is 2 for mslr and otherwise 1.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import average_precision
    >>> average_precision([0, 1, 0, 2], [4.0, 3.0, 2.0, 1.0])  # (1/2 + 2/4) / 2
    0.5
    """
    return PerQuery.fill(_run(ranking, rules, k, True), rules.no_relevant)


# --------------------------------------------------------------------------------------------------
# Recall, R-precision and hit rate: metrics of how many relevant documents are found.


@njit
def _recall_range(lists, first, last, rel, k, out):  # type: ignore[no-untyped-def]
    # A cut-off of 0 is the number of relevant documents of each query.
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        labels, tied = lists.labels[a:b], lists.tied[a:b]
        relevant = count_relevant(labels, 0, b - a, rel)
        cutoff = min(relevant if k == 0 else k, lists.n_listed[q])
        found = walk_relevant(labels, tied, rel, cutoff, False) if relevant else np.nan
        out[q] = found / max(relevant, 1)


@njit
def _chance_of_hit(labels, tied, rel, k):  # type: ignore[no-untyped-def]
    # Returns the probability that one of the first k documents is relevant. In a group of t equal
    # scores with r relevant documents, m random ones are all irrelevant with probability
    # Π_{i<m} (t − r − i)/(t − i).
    for start in range(min(k, len(labels))):
        if tied[start]:
            continue
        end = tie_end(tied, start)
        relevant = count_relevant(labels, start, end, rel)
        if relevant > 0:
            missed = 1.0
            for i in range(min(end, k) - start):
                missed *= max(end - start - relevant - i, 0) / (end - start - i)
            return 1.0 - missed
    return 0.0


@njit
def _hit_range(lists, first, last, rel, k, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        labels, tied = lists.labels[a:b], lists.tied[a:b]
        relevant = count_relevant(labels, 0, b - a, rel)
        depth = min(k, lists.n_listed[q])
        out[q] = _chance_of_hit(labels, tied, rel, depth) if relevant > 0 else np.nan


@metric("recall", RelevanceOptions, aliases=("r",))
def recall(ranking: Ranking, rules: Rules, k: int | None) -> PerQuery:
    """Compute recall@k = (relevant documents among the first k) / (relevant documents).

    Parameters
    ----------
    y, scores, qid, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    k : int, optional
        Cut-off. None: the length of each list, for which recall is 1.
    rel : float, optional
        Smallest relevant label. None: that of the flavour, which is 2 for mslr and otherwise 1.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import recall
    >>> recall([1, 0, 2, 1], [4.0, 3.0, 2.0, 1.0], k=3)
    0.6666666666666666
    """
    values = ranking.compute(_recall_range, float(rules.rel), ranking.depth(k))
    return PerQuery.fill(values, rules.no_relevant)


@metric("r-precision", BinaryOptions, aliases=("rprec", "r-prec"))
def r_precision(ranking: Ranking, rules: Rules) -> PerQuery:
    """Compute R-precision = P@R, where R is the number of relevant documents of the query.

    R-precision is also recall@R.

    Parameters
    ----------
    y, scores, qid, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    rel : float, optional
        Smallest relevant label. None: that of the flavour, which is 2 for mslr and otherwise 1.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import r_precision
    >>> r_precision([1, 0, 2, 0], [4.0, 3.0, 2.0, 1.0])
    0.5
    """
    values = ranking.compute(_recall_range, float(rules.rel), 0)
    return PerQuery.fill(values, rules.no_relevant)


@metric("hit-rate", RelevanceOptions, aliases=("success", "hr"))
def hit_rate(ranking: Ranking, rules: Rules, k: int | None) -> PerQuery:
    """Compute the hit rate at k: 1 if a relevant document is among the first k, otherwise 0.

    trec_eval calls it success. If ties are averaged, the value is the probability of a hit.

    Parameters
    ----------
    y, scores, qid, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    k : int, optional
        Cut-off. None: the length of each list, for which the hit rate is 1.
    rel : float, optional
        Smallest relevant label. None: that of the flavour, which is 2 for mslr and otherwise 1.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import hit_rate
    >>> hit_rate([0, 1, 0, 0], [2.0, 1.0, 2.0, 1.0], qid=["a", "a", "b", "b"], k=1)
    0.0
    >>> hit_rate([0, 1, 0], [2.0, 1.0, 1.0], k=2)  # one of two equal scores is at rank 2
    0.5
    """
    values = ranking.compute(_hit_range, float(rules.rel), ranking.depth(k))
    return PerQuery.fill(values, rules.no_relevant)


# --------------------------------------------------------------------------------------------------
# Rank-biased precision: the metric of a reader who goes on with a fixed probability.


PERSISTENCE = 0.8  #: default probability that the reader goes on, as in ir_measures


@njit
def _rbp(labels, tied, rel, k, p):  # type: ignore[no-untyped-def]
    # In a group of t equal scores with r relevant documents, each rank holds a relevant document
    # with probability r/t.
    total, reached = 0.0, 1.0
    for start in range(min(k, len(labels))):
        if tied[start]:
            continue
        end = tie_end(tied, start)
        share = count_relevant(labels, start, end, rel) / (end - start)
        for _ in range(start, min(end, k)):
            total += share * reached
            reached *= p
    return (1.0 - p) * total


@njit
def _rbp_range(lists, first, last, rel, k, p, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        labels, tied = lists.labels[a:b], lists.tied[a:b]
        relevant = count_relevant(labels, 0, b - a, rel)
        depth = min(k, lists.n_listed[q])
        out[q] = _rbp(labels, tied, rel, depth, p) if relevant > 0 else np.nan


class RBPOptions(RelevanceOptions):
    """Arguments of `rbp`."""

    p: float = PERSISTENCE


def check_persistence(p: float) -> float:
    """Return the persistence p as a float between 0 and 1."""
    if isinstance(p, bool) or not isinstance(p, Real) or not 0.0 < p < 1.0:
        raise DataError(f"p is {p!r}; expected a probability between 0 and 1, such as 0.8")
    return float(p)


@metric("rbp", RBPOptions, aliases=("rank-biased-precision",))
def rbp(ranking: Ranking, rules: Rules, k: int | None, p: float) -> PerQuery:
    """Compute RBP@k = (1 − p) Σ_{r≤k} p^(r−1)·[document r is relevant], rank-biased precision.

    p is the probability that a reader goes on to the next document. Relevance is binary. RBP of
    a perfect list of l documents is 1 − p^l, which is below 1. Moffat and Zobel, TOIS 2008.

    Parameters
    ----------
    y, scores, qid, k, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    p : float
        Persistence, between 0 and 1.
    rel : float, optional
        Smallest relevant label. None: that of the flavour, which is 2 for mslr and otherwise 1.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import rbp
    >>> rbp([1, 0, 1], [3.0, 2.0, 1.0], p=0.5)  # 1/2 + 1/8
    0.625
    """
    values = ranking.compute(_rbp_range, float(rules.rel), ranking.depth(k), check_persistence(p))
    return PerQuery.fill(values, rules.no_relevant)
