"""NDCG at a cut-off, and the mean of NDCG over all cut-offs."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from .._jit import njit
from .._typing import Vector
from ._measure import PerQuery, measure
from ._ranking import Ranking, tie_end
from ._rules import (
    Gain,
    ListOptions,
    NoRelevant,
    Rules,
    check_cutoff,
    discounts,
    warn_of_negative,
)
from .names import DiscountName, FlavourName, TieName


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


class GainOptions(ListOptions, total=False):
    """Arguments of metrics that have gains and discounts."""

    gain: Gain | None
    discount: DiscountName | None


class NDCGOptions(GainOptions, total=False):
    """Arguments of `ndcg`."""

    k: int | None


def ndcg_values(
    ranking: Ranking, rules: Rules, k: int | None = None, *, mean: bool = False
) -> PerQuery:
    """Compute NDCG@k of each query, or the mean of NDCG@1, NDCG@2, … up to the end of its list."""
    warn_of_negative(ranking.lists.labels, rules.gain)
    weights = discounts(rules.discount, ranking.depth(k))
    values = ranking.compute(_ndcg_range, ranking.ideal, weights, rules.gain == "exp2", mean)
    if k is not None and "ndcg" in rules.zero_if_short:
        values[(ranking.n_listed < k) & ~np.isnan(values)] = 0.0
    return PerQuery.fill(values, rules.no_relevant)


@overload
def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[NDCGOptions],
) -> float: ...
@overload
def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[NDCGOptions],
) -> Vector: ...
def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = None,
    flavour: FlavourName = "standard",
    gain: Gain | None = None,
    discount: DiscountName | None = None,
    no_relevant: NoRelevant | None = None,
    ties: TieName | None = None,
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
) -> float | Vector:
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
    return measure(
        partial(ndcg_values, k=check_cutoff(k)),
        y, scores, qid, flavour=flavour, gain=gain, discount=discount, no_relevant=no_relevant,
        ties=ties, per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


@overload
def mean_ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[GainOptions],
) -> float: ...
@overload
def mean_ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[GainOptions],
) -> Vector: ...
def mean_ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    flavour: FlavourName = "standard",
    gain: Gain | None = None,
    discount: DiscountName | None = None,
    no_relevant: NoRelevant | None = None,
    ties: TieName | None = None,
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
) -> float | Vector:
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
    return measure(
        partial(ndcg_values, mean=True),
        y, scores, qid, flavour=flavour, gain=gain, discount=discount, no_relevant=no_relevant,
        ties=ties, per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
