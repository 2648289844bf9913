"""ERR and reciprocal rank: metrics of a reader who scans the list and stops (cascade model)."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from numbers import Real
from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from .._jit import njit
from .._typing import Vector
from ..errors import DataError
from ._measure import PerQuery, measure
from ._ndcg import exp2_gain
from ._ranking import Ranking, tie_end
from ._rules import (
    CutoffOptions,
    NoRelevant,
    RelevanceOptions,
    Rules,
    check_cutoff,
    warn_of_negative,
)
from .names import FlavourName, TieName

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


class ERROptions(CutoffOptions, total=False):
    """Arguments of `err`."""

    max_label: float | None


def reciprocal_rank_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute the reciprocal rank of each query."""
    return _run(ranking, rules, k, False, rules.rel)


def err_values(
    ranking: Ranking, rules: Rules, k: int | None = None, max_label: float | None = None
) -> PerQuery:
    """Compute ERR of each query."""
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


@overload
def reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[RelevanceOptions],
) -> float: ...
@overload
def reciprocal_rank(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[RelevanceOptions],
) -> Vector: ...
def reciprocal_rank(
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
    return measure(
        partial(reciprocal_rank_values, k=check_cutoff(k)),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


@overload
def err(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[ERROptions],
) -> float: ...
@overload
def err(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[ERROptions],
) -> Vector: ...
def err(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    k: int | None = None,
    max_label: float | None = None,
    flavour: FlavourName = "standard",
    no_relevant: NoRelevant | None = None,
    ties: TieName | None = None,
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
) -> float | Vector:
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
    return measure(
        partial(err_values, k=check_cutoff(k), max_label=max_label),
        y, scores, qid, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
