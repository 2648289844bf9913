"""Precision and average precision: metrics of binary relevance."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from .._jit import njit
from .._typing import Vector
from ._measure import PerQuery, measure
from ._ranking import Ranking, tie_end
from ._rules import NoRelevant, RelevanceOptions, Rules, check_cutoff
from .names import FlavourName, TieName


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


def precision_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute P@k of each query; without k, the share of relevant documents in its list."""
    values = _run(ranking, rules, k, False) / (np.maximum(ranking.n_listed, 1) if k is None else k)
    if k is not None and "p" in rules.zero_if_short:
        values[(ranking.n_listed < k) & ~np.isnan(values)] = 0.0
    return PerQuery.fill(values, rules.no_relevant)


def average_precision_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute the average precision of each query."""
    return PerQuery.fill(_run(ranking, rules, k, True), rules.no_relevant)


@overload
def precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[RelevanceOptions],
) -> float: ...
@overload
def precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[RelevanceOptions],
) -> Vector: ...
def precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = None,
    rel: float | None = None,
    flavour: FlavourName = "standard",
    no_relevant: NoRelevant | None = None,
    ties: TieName | None = None,
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
) -> float | Vector:
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
    return measure(
        partial(precision_values, k=check_cutoff(k)),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


@overload
def average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[RelevanceOptions],
) -> float: ...
@overload
def average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[RelevanceOptions],
) -> Vector: ...
def average_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = None,
    rel: float | None = None,
    flavour: FlavourName = "standard",
    no_relevant: NoRelevant | None = None,
    ties: TieName | None = None,
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
) -> float | Vector:
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
    return measure(
        partial(average_precision_values, k=check_cutoff(k)),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
