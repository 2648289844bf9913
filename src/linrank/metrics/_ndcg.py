"""NDCG at a cut-off, and its mean over all cut-offs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._jit import njit
from ._measure import PerQuery, measure
from ._ranking import Ranking, tie_end
from ._rules import Gain, Rules, check_cutoff, discounts


@njit
def exp2_gain(label, top):  # type: ignore[no-untyped-def]
    """``(2^label − 1) / 2^top``: overflows for no label up to `top`, exact for tiny ones too."""
    if label <= 0.0:
        return 0.0
    return -math.expm1(-label * math.log(2.0)) * 2.0 ** (label - top)


@njit
def _gain(label, top, exponential):  # type: ignore[no-untyped-def]
    # Divided by a power or by the largest label: the scale cancels in the ratio.
    return exp2_gain(label, top) if exponential else max(label, 0.0) / top


@njit
def _ndcg(labels, tied, ideal, weights, exponential, mean):  # type: ignore[no-untyped-def]
    top = ideal[0]
    if top <= 0.0:
        return np.nan
    stop = min(len(weights), len(labels))
    dcg, best, total = 0.0, 0.0, 0.0
    for start in range(stop):
        if tied[start]:
            continue  # seen with the group that it belongs to
        end = tie_end(tied, start)
        gain = 0.0
        for i in range(start, end):
            gain += _gain(labels[i], top, exponential)
        gain /= end - start
        for i in range(start, min(end, stop)):
            dcg += gain * weights[i]
            best += _gain(ideal[i], top, exponential) * weights[i]
            total += dcg / best
    return total / stop if mean else dcg / best


@njit
def _ndcg_range(lists, first, last, ideal, weights, exponential, mean, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        a, b = lists.query_ptr[q], lists.query_ptr[q + 1]
        labels, tied = lists.labels[a:b], lists.tied[a:b]
        out[q] = _ndcg(labels, tied, ideal[a:b], weights, exponential, mean)


def ndcg_values(
    ranking: Ranking, rules: Rules, k: int | None = None, *, mean: bool = False
) -> PerQuery:
    """Compute NDCG@k of each query, or the mean of NDCG@1, NDCG@2, … up to the end of its list."""
    weights = discounts(rules.discount, ranking.depth(k))
    values = np.empty(ranking.n_queries)
    exponential = rules.gain == "exp2"
    ranking.each_query(
        _ndcg_range, ranking.lists, ranking.ideal, weights, exponential, mean, values
    )
    if k is not None and "ndcg" in rules.zero_if_short:
        values[(ranking.sizes < k) & ~np.isnan(values)] = 0.0
    return PerQuery.settle(values, rules.no_relevant)


def ndcg(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    k: int | None = None,
    flavour: str = "standard",
    gain: Gain | None = None,
    discount: str | None = None,
    no_relevant: float | str | None = None,
    ties: str | None = None,
    per_query: bool = False,
    doc_ids: Any = None,
) -> Any:
    """NDCG@k = Σ_{r≤k} gain(y_r)·discount(r), divided by its value in the best order.

    y_r is the label at rank r when a query's documents are sorted by score, best first.
    Järvelin and Kekäläinen, ACM TOIS 20 (2002); with gain 2^y − 1, Burges et al., ICML 2005.

    Parameters
    ----------
    y : array of shape (n_docs,)
        Labels: any finite numbers; larger is more relevant, below 0 counts as 0.
    scores : array of shape (n_docs,)
        The documents' scores: higher is ranked better.
    qid : array of shape (n_docs,), optional
        The query of each document: any type, in any order. None: all form one query.
    k : int, optional
        The cut-off; None: the whole list.
    flavour : {"standard", "letor3", "letor4", "mslr", "trec"}
        Whose conventions to follow (see `linrank.metrics`). Each of the following
        arguments, when given, overrides its flavour's.
    gain : {"exp2", "linear"}, callable or mapping, optional
        2^max(y, 0) − 1, max(y, 0), or the caller's own gain of a label. Labels of any
        size are fine: the ratio is computed without ever forming 2^y.
    discount : {"log2", "letor"}, optional
        1/log2(r + 1), or 1/max(1, log2 r).
    no_relevant : {0, 1, "skip", nan}, optional
        What a query counts as in which every gain is 0. "skip": it is left out.
    ties : {"average", "stable", "pessimistic", "optimistic", "docno"}, optional
        How documents of equal score are ordered: all orders averaged (exactly), the
        order of the rows, worst first, best first, or descending document ids.
    per_query : bool
        Return one value per query, in the order in which the queries first appear in
        the rows (NaN for skipped ones), instead of their mean.
    doc_ids : sequence of str, optional
        Document ids for ``ties="docno"``. The trec flavour uses them when they are
        given and otherwise keeps the order of the rows.

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
    k = check_cutoff(k)
    return measure(
        lambda ranking, rules: ndcg_values(ranking, rules, k),
        y, scores, qid, flavour=flavour, gain=gain, discount=discount, no_relevant=no_relevant,
        ties=ties, per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


def mean_ndcg(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    flavour: str = "standard",
    gain: Gain | None = None,
    discount: str | None = None,
    no_relevant: float | str | None = None,
    ties: str | None = None,
    per_query: bool = False,
    doc_ids: Any = None,
) -> Any:
    """MeanNDCG = (1/l) Σ_{k=1..l} NDCG@k, over all positions of a query's list of length l.

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
    return measure(
        lambda ranking, rules: ndcg_values(ranking, rules, mean=True),
        y, scores, qid, flavour=flavour, gain=gain, discount=discount, no_relevant=no_relevant,
        ties=ties, per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
