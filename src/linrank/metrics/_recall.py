"""Recall, R-precision and hit rate: metrics of how many relevant documents are found."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from .._jit import njit
from .._typing import Vector
from ._measure import PerQuery, measure
from ._precision import count_relevant, walk_relevant
from ._ranking import Ranking, tie_end
from ._rules import BinaryOptions, NoRelevant, RelevanceOptions, Rules, check_cutoff
from .names import FlavourName, TieName


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


def recall_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute recall@k of each query."""
    values = ranking.compute(_recall_range, float(rules.rel), ranking.depth(k))
    return PerQuery.fill(values, rules.no_relevant)


def r_precision_values(ranking: Ranking, rules: Rules) -> PerQuery:
    """Compute the R-precision of each query."""
    values = ranking.compute(_recall_range, float(rules.rel), 0)
    return PerQuery.fill(values, rules.no_relevant)


def hit_rate_values(ranking: Ranking, rules: Rules, k: int | None = None) -> PerQuery:
    """Compute the hit rate at k of each query."""
    values = ranking.compute(_hit_range, float(rules.rel), ranking.depth(k))
    return PerQuery.fill(values, rules.no_relevant)


@overload
def recall(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[RelevanceOptions],
) -> float: ...
@overload
def recall(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[RelevanceOptions],
) -> Vector: ...
def recall(
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
    return measure(
        partial(recall_values, k=check_cutoff(k)),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


@overload
def r_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[BinaryOptions],
) -> float: ...
@overload
def r_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[BinaryOptions],
) -> Vector: ...
def r_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    rel: float | None = None,
    flavour: FlavourName = "standard",
    no_relevant: NoRelevant | None = None,
    ties: TieName | None = None,
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
) -> float | Vector:
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
    return measure(
        r_precision_values, y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant,
        ties=ties, per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip


@overload
def hit_rate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[RelevanceOptions],
) -> float: ...
@overload
def hit_rate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[RelevanceOptions],
) -> Vector: ...
def hit_rate(
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
    return measure(
        partial(hit_rate_values, k=check_cutoff(k)),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
