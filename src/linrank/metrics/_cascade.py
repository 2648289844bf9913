"""Metrics of a reader who goes down the list and stops: ERR and reciprocal rank."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from .._jit import njit
from ..errors import DataError
from ._measure import PerQuery, measure
from ._ndcg import exp2_gain
from ._ranking import Ranking, tie_end
from ._rules import Rules, check_cutoff

_NEGLIGIBLE = 41.5  # exp(−41.5) < 1e-18: below the last bit of any value here


@njit
def _stop(label, graded, threshold):  # type: ignore[no-untyped-def]
    if graded:
        return exp2_gain(label, threshold)
    return 1.0 if label >= threshold else 0.0


@njit
def _depth(mean, limit):  # type: ignore[no-untyped-def]
    # Maclaurin's inequality: P_m <= (1 − mean)^m, so that few of the P_m are needed.
    if mean <= 0.0 or mean >= 1.0:
        return 1 if mean > 0.0 else 0
    needed = _NEGLIGIBLE / -math.log1p(-mean)
    return limit if needed >= limit else 1 + int(needed)


@njit
def _go_on(labels, start, end, graded, threshold, depth, p):  # type: ignore[no-untyped-def]
    # p[m]: the expected product of 1 − R over m random members of the group. Adding
    # the j-th member mixes p[m] with p[m − 1], never with a larger number: stable.
    # Members with R = 0 come first, for which all products are 1.
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


@njit
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
        out[q] = _cascade(labels, tied, k, graded, threshold, p) if relevant else np.nan


def _run(ranking: Ranking, rules: Rules, k: int | None, graded: bool, threshold: float) -> PerQuery:
    values = np.empty(ranking.n_queries)
    arguments = (ranking.depth(None), ranking.depth(k), graded, float(threshold), values)
    ranking.each_query(_cascade_range, ranking.lists, *arguments)
    return PerQuery.settle(values, rules.no_relevant)


def reciprocal_rank_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute the reciprocal rank of each query: a reader who stops at any relevant document."""
    return _run(ranking, rules, k, False, rules.rel)


def err_values(
    ranking: Ranking, rules: Rules, k: int | None = None, max_label: float | None = None
) -> PerQuery:
    """Compute ERR of each query."""
    largest = float(ranking.lists.labels.max())
    if max_label is None:
        max_label = largest
    elif not isinstance(max_label, Real) or not largest <= max_label < math.inf:
        raise DataError(
            f"max_label is {max_label!r}; expected a number of at least {largest:g}, "
            "the largest label in y"
        )
    return _run(ranking, rules, k, True, max_label)


def reciprocal_rank(
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
    """RR = 1 / (rank of the first relevant document), 0 where that rank exceeds k.

    Its mean over the queries is MRR.

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
    >>> from linrank.metrics import reciprocal_rank
    >>> reciprocal_rank([0, 1, 0, 2], [4.0, 3.0, 2.0, 1.0])
    0.5
    """
    k = check_cutoff(k)
    return measure(
        lambda ranking, rules: reciprocal_rank_values(ranking, rules, k),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


def err(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    k: int | None = None,
    max_label: float | None = None,
    flavour: str = "standard",
    no_relevant: float | str | None = None,
    ties: str | None = None,
    per_query: bool = False,
    doc_ids: Any = None,
) -> Any:
    """ERR@k = Σ_{r≤k} (1/r) R_r Π_{i<r} (1 − R_i), with R = (2^max(y, 0) − 1) / 2^max_label.

    Expected reciprocal rank: a reader stops at a document with probability R.
    Chapelle, Metzler, Zhang and Grinspan, CIKM 2009.

    Parameters
    ----------
    y, scores, qid, k, flavour, no_relevant, ties, per_query, doc_ids
        As in `ndcg`.
    max_label : float, optional
        The top of the scale of labels; None: the largest label in `y`.

    Returns
    -------
    float or array of shape (n_queries,)

    Examples
    --------
    >>> from linrank.metrics import err
    >>> err([1, 0, 1], [3.0, 2.0, 1.0])  # 1/2 + 1/3 · 1/2 · 1/2
    0.5833333333333334
    """
    k = check_cutoff(k)
    return measure(
        lambda ranking, rules: err_values(ranking, rules, k, max_label),
        y, scores, qid, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
