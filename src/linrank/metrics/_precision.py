"""Metrics of binary relevance at every rank: precision and average precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._jit import njit
from ._measure import PerQuery, measure
from ._ranking import Ranking, tie_end
from ._rules import Rules, check_cutoff


@njit
def _count(labels, start, stop, rel):  # type: ignore[no-untyped-def]
    relevant = 0
    for i in range(start, stop):
        relevant += labels[i] >= rel
    return relevant


@njit
def _walk(labels, tied, rel, k, average):  # type: ignore[no-untyped-def]
    # Expected number of relevant documents in the first k; or expected sum of the
    # precisions at the ranks of relevant ones. McSherry and Najork, ECIR 2008: of a
    # group of t equal scores, r of them relevant, each rank holds a relevant one with
    # probability r/t, and then (r − 1)/(t − 1) of each of the group's ranks above it.
    total, before = 0.0, 0
    for start in range(min(k, len(labels))):
        if tied[start]:
            continue
        end = tie_end(tied, start)
        r, t = _count(labels, start, end, rel), end - start
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
        relevant = _count(labels, 0, b - a, rel)
        if relevant == 0:
            out[q] = np.nan
        else:
            total = _walk(labels, tied, rel, k, average)
            out[q] = total / relevant if average else total


def _run(ranking: Ranking, rules: Rules, k: int | None, average: bool) -> Any:
    values = np.empty(ranking.n_queries)
    arguments = (float(rules.rel), ranking.depth(k), average, values)
    ranking.each_query(_precision_range, ranking.lists, *arguments)
    return values


def precision_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute P@k of each query; without k, the share of relevant documents in its whole list."""
    values = _run(ranking, rules, k, False) / (ranking.sizes if k is None else k)
    if k is not None and "p" in rules.zero_if_short:
        values[(ranking.sizes < k) & ~np.isnan(values)] = 0.0
    return PerQuery.settle(values, rules.no_relevant)


def average_precision_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute the average precision of each query."""
    return PerQuery.settle(_run(ranking, rules, k, True), rules.no_relevant)


def precision(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    k: int | None = None,
    rel: float | None = None,
    flavour: str = "standard",
    no_relevant: float | str | None = None,
    ties: str | None = None,
    per_query: bool = False,
    doc_ids: Any = None,
) -> Any:
    """P@k = (relevant documents among the first k) / k.

    A list shorter than k is filled up with irrelevant documents (letor3: counts 0).

    Parameters
    ----------
    k : int, optional
        The cut-off; None: the length of each list.
    rel : float, optional
        The smallest label that is relevant; the flavour's (1, for mslr 2) when None.
    y, scores, qid, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import precision
    >>> precision([1, 0, 2, 0], [4.0, 3.0, 2.0, 1.0], k=2)
    0.5
    """
    k = check_cutoff(k)
    return measure(
        lambda ranking, rules: precision_values(ranking, rules, k),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


def average_precision(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    k: int | None = None,
    rel: float | None = None,
    flavour: str = "standard",
    no_relevant: float | str | None = None,
    ties: str | None = None,
    per_query: bool = False,
    doc_ids: Any = None,
) -> Any:
    """AP = (1/R) Σ_r P@r over the ranks r ≤ k of relevant documents, R of them in the query.

    Its mean over the queries is MAP. As in trec_eval's map_cut, a cut-off shortens the
    sum but R stays the number of all relevant documents.

    Parameters
    ----------
    y, scores, qid, k, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    rel : float, optional
        The smallest label that is relevant; the flavour's (1, for mslr 2) when None.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import average_precision
    >>> average_precision([0, 1, 0, 2], [4.0, 3.0, 2.0, 1.0])  # (1/2 + 2/4) / 2
    0.5
    """
    k = check_cutoff(k)
    return measure(
        lambda ranking, rules: average_precision_values(ranking, rules, k),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
