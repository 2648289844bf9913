"""Metrics of graded labels and of cascades: NDCG, reciprocal rank, ERR."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from .._compile.jit import njit
from ..choices import DiscountName
from ..errors import DataError
from .ranked_lists import (
    CutoffOptions,
    Gain,
    ListOptions,
    PerQuery,
    Ranking,
    RelevanceOptions,
    Rules,
    discounts,
    metric,
    tie_end,
    warn_of_negative,
)

__all__ = ["err", "mean_ndcg", "ndcg", "reciprocal_rank"]

# --------------------------------------------------------------------------------------------------
# NDCG at a cut-off, and the mean of NDCG over all cut-offs.


@njit(inner=True)
def exp2_gain(label, top):  # type: ignore[no-untyped-def]
    """Return (2^label − 1) / 2^top, and 0 for negative labels.

    The result does not overflow for labels up to `top`, and is exact for tiny labels too.
    """
    if label <= 0.0:
        return 0.0
    return -math.expm1(-label * math.log(2.0)) * 2.0 ** (label - top)


@njit(inner=True)
def _gain(label, top, exponential):  # type: ignore[no-untyped-def]
    # NDCG is a ratio, so gains may be divided by a constant: 2^top, or the largest label.
    return exp2_gain(label, top) if exponential else max(label, 0.0) / top


@njit(inner=True)
def _ndcg(labels, tied, n_listed, ideal, weights, exponential, mean):  # type: ignore[no-untyped-def]
    top = ideal[0]
    if top <= 0.0:
        return np.nan
    last = min(len(weights), len(labels))
    stop = min(last, n_listed)
    dcg, best, total = 0.0, 0.0, 0.0
    for start in range(stop):
        if tied[start]:
            continue  # the position was handled with the start of its group
        end = tie_end(tied, start)
        gain = 0.0
        for i in range(start, end):
            gain += _gain(labels[i], top, exponential)
        gain /= end - start
        for i in range(start, min(end, stop)):
            dcg += gain * weights[i]
            best += _gain(ideal[i], top, exponential) * weights[i]
            total += dcg / best
    if mean:
        return total / max(stop, 1)
    for i in range(stop, last):
        best += _gain(ideal[i], top, exponential) * weights[i]
    return dcg / best


@njit
def _ndcg_range(lists, first, last, ideal, weights, exponential, mean, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        labels, tied = lists.labels[a:b], lists.tied[a:b]
        n_listed = lists.n_listed[q]
        out[q] = _ndcg(labels, tied, n_listed, ideal[a:b], weights, exponential, mean)


class GainOptions(ListOptions):
    """Arguments of metrics that have gains and discounts."""

    gain: Gain | None = None
    discount: DiscountName | None = None


class NDCGOptions(CutoffOptions, GainOptions):
    """Arguments of `ndcg`."""


def _ndcg_values(ranking: Ranking, rules: Rules, k: int | None, mean: bool) -> PerQuery:
    # Computes NDCG@k of each query, or the mean of NDCG@1, NDCG@2, … up to the end of its list.
    warn_of_negative(ranking.lists.labels, rules.gain)
    weights = discounts(rules.discount, ranking.depth(k))
    values = ranking.compute(_ndcg_range, ranking.ideal, weights, rules.gain == "exp2", mean)
    if k is not None and "ndcg" in rules.zero_if_short:
        values[(ranking.n_listed < k) & ~np.isnan(values)] = 0.0
    return PerQuery.fill(values, rules.no_relevant)


@metric("ndcg", NDCGOptions)
def ndcg(ranking: Ranking, rules: Rules, k: int | None) -> PerQuery:
    """Compute NDCG@k = Σ_{r≤k} gain(y_r)·discount(r), divided by its largest possible value.

    y_r is the label at rank r when the documents of a query are sorted by score, best first.
    Järvelin and Kekäläinen, ACM TOIS 20 (2002); with gain 2^y − 1, Burges et al., ICML 2005.

    Parameters
    ----------
    y : array of shape (n_docs,)
        Labels: any finite numbers. Larger is more relevant; labels below 0 count as 0.
    scores : array of shape (n_docs,)
        Scores of the documents: documents with higher scores are ranked first.
    qid : array of shape (n_docs,), optional
        Query of each document: any type, in any order. None: all documents form one query.
    k : int, optional
        Cut-off. None: the whole list.
    flavour : {"standard", "letor3", "letor4", "mslr", "trec"}
        Evaluation tool whose conventions are followed (see `linrank.metrics`). `gain`,
        `discount`, `no_relevant` and `ties` override the conventions of the flavour.
    gain : {"exp2", "linear"}, callable or mapping, optional
        2^max(y, 0) − 1, max(y, 0), or a function or mapping from labels to gains. Labels may
        have any size, because 2^y is never computed. There is a warning if a negative label
        has the same gain as another label.
    discount : {"log2", "letor"}, optional
        1/log2(r + 1), or 1/max(1, log2 r).
    no_relevant : {0, 1, "skip", nan}, optional
        Value of a query in which all gains are 0. "skip": the query is left out.
    ties : {"average", "stable", "pessimistic", "optimistic", "docno"}, optional
        Order of documents of equal score: the exact average over all orders, the order of the
        rows, worst first, best first, or descending document ids.
    per_query : bool
        Return one value per query instead of the mean, in the order in which the queries first
        appear in the rows. Skipped queries are NaN.
    doc_ids : sequence of str, optional
        Document ids for ``ties="docno"``. Without them, the trec flavour keeps the order of the
        rows.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN when every query is skipped.

    Examples
    --------
    >>> from linrank.metrics import ndcg
    >>> y, scores = [2, 0, 1, 0, 3], [0.9, 0.8, 0.7, 0.5, 0.6]
    >>> round(ndcg(y, scores, ["a", "a", "a", "b", "b"]), 4)
    0.982
    >>> ndcg(y, scores, ["a", "a", "a", "b", "b"], k=1, per_query=True).tolist()
    [1.0, 1.0]
    """
    return _ndcg_values(ranking, rules, k, False)


@metric("mean-ndcg", GainOptions)
def mean_ndcg(ranking: Ranking, rules: Rules) -> PerQuery:
    """Compute MeanNDCG = (1/l) Σ_{k=1..l} NDCG@k for lists of l documents.

    With ``flavour="letor4"`` or ``"mslr"`` this is the MeanNDCG of Microsoft's scripts.

    Parameters
    ----------
    y, scores, qid, flavour, gain, discount, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import mean_ndcg
    >>> mean_ndcg([0, 1], [2.0, 1.0], flavour="letor4")  # (0 + 1) / 2
    0.5
    """
    return _ndcg_values(ranking, rules, None, True)


# --------------------------------------------------------------------------------------------------
# ERR and reciprocal rank: metrics of a reader who scans the list and stops (cascade model).


_NEGLIGIBLE = 41.5  # −ln of the largest omitted probability: exp(−41.5) < 1e-18 is below rounding


@njit(inner=True)
def _stop(label, graded, threshold):  # type: ignore[no-untyped-def]
    # Returns R, the probability that the reader stops at a document with this label.
    if graded:
        return exp2_gain(label, threshold)
    return 1.0 if label >= threshold else 0.0


@njit(inner=True)
def _depth(mean, limit):  # type: ignore[no-untyped-def]
    # Returns how many of the probabilities p[m] of `_go_on` are needed. By Maclaurin's
    # inequality p[m] ≤ (1 − mean)^m, so that most of them are negligible in a large group.
    if mean <= 0.0 or mean >= 1.0:
        return 1 if mean > 0.0 else 0
    needed = _NEGLIGIBLE / -math.log1p(-mean)
    return limit if needed >= limit else 1 + int(needed)


@njit(inner=True)
def _go_on(labels, start, end, graded, threshold, depth, p):  # type: ignore[no-untyped-def]
    # Computes p[m], the expected product of 1 − R over m random members of the group. Adding the
    # j-th member averages p[m] with a multiple ≤ 1 of p[m − 1], which is numerically stable.
    # Members with R = 0 are added first, since all their products are 1.
    j = 0
    for i in range(start, end):
        j += _stop(labels[i], graded, threshold) == 0.0
    for m in range(depth + 1):
        p[m] = 1.0 if m <= j else 0.0
    for i in range(start, end):
        r = _stop(labels[i], graded, threshold)
        if r > 0.0:
            j += 1
            for m in range(min(j, depth), 0, -1):
                p[m] = (m * (1.0 - r) * p[m - 1] + (j - m) * p[m]) / j


@njit(inner=True)
def _cascade(labels, tied, k, graded, threshold, p):  # type: ignore[no-untyped-def]
    total, reached = 0.0, 1.0
    for start in range(min(k, len(labels))):
        if tied[start] or reached == 0.0:
            continue
        end = tie_end(tied, start)
        stops, passes = 0.0, 1.0
        for i in range(start, end):
            r = _stop(labels[i], graded, threshold)
            stops += r
            passes *= 1.0 - r
        depth = _depth(stops / (end - start), min(end, k) - start)
        if end - start > 1:
            _go_on(labels, start, end, graded, threshold, depth, p)
        else:
            p[0], p[1] = 1.0, passes
        for m in range(1, depth + 1):
            total += reached * (p[m - 1] - p[m]) / (start + m)
        reached *= passes
    return total


@njit(allocates=True)
def _cascade_range(lists, first, last, longest, k, graded, threshold, out):  # type: ignore[no-untyped-def]
    p = np.empty(longest + 1)
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        labels, tied = lists.labels[a:b], lists.tied[a:b]
        relevant = False
        for i in range(len(labels)):
            relevant |= labels[i] > 0.0 if graded else labels[i] >= threshold
        depth = min(k, lists.n_listed[q])
        out[q] = _cascade(labels, tied, depth, graded, threshold, p) if relevant else np.nan


def _run(ranking: Ranking, rules: Rules, k: int | None, graded: bool, threshold: float) -> PerQuery:
    longest, depth = ranking.depth(None), ranking.depth(k)
    values = ranking.compute(_cascade_range, longest, depth, graded, float(threshold))
    return PerQuery.fill(values, rules.no_relevant)


class ERROptions(CutoffOptions):
    """Arguments of `err`."""

    max_label: float | None = None


@metric(
    "mrr", RelevanceOptions, aliases=("rr", "recip-rank", "reciprocal-rank", "mean-reciprocal-rank")
)
def reciprocal_rank(ranking: Ranking, rules: Rules, k: int | None) -> PerQuery:
    """Compute RR = 1 / (rank of the first relevant document), or 0 if that rank exceeds k.

    The mean of RR over the queries is MRR.

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
    >>> from linrank.metrics import reciprocal_rank
    >>> reciprocal_rank([0, 1, 0, 2], [4.0, 3.0, 2.0, 1.0])
    0.5
    """
    return _run(ranking, rules, k, False, rules.rel)


@metric("err", ERROptions, aliases=("expected-reciprocal-rank",))
def err(ranking: Ranking, rules: Rules, k: int | None, max_label: float | None) -> PerQuery:
    """Compute ERR@k = Σ_{r≤k} (1/r) R_r Π_{i<r} (1 − R_i), the expected reciprocal rank.

    R = (2^max(y, 0) − 1) / 2^max_label is the probability that a reader who has reached a
    document stops there. Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.

    Parameters
    ----------
    y, scores, qid, k, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    max_label : float, optional
        Largest label of the scale. None: the largest label in `y`.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import err
    >>> err([1, 0, 1], [3.0, 2.0, 1.0])  # 1/2 + 1/3 · 1/2 · 1/2
    0.5833333333333334
    """
    warn_of_negative(ranking.lists.labels, "exp2")
    largest = float(ranking.lists.labels.max())
    if max_label is None:
        max_label = largest
    elif not isinstance(max_label, Real) or not largest <= max_label < math.inf:
        raise DataError(
            f"max_label is {max_label!r}; expected a finite number of at least {largest:g}, the "
            "largest label in y"
        )
    return _run(ranking, rules, k, True, max_label)
