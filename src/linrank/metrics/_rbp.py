"""Rank-biased precision: the metric of a reader who goes on with a fixed probability."""

from __future__ import annotations

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
from ._precision import count_relevant
from ._ranking import Ranking, tie_end
from ._rules import NoRelevant, RelevanceOptions, Rules, check_cutoff
from .names import FlavourName, TieName

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


class RBPOptions(RelevanceOptions, total=False):
    """Arguments of `rbp`."""

    p: float


def check_persistence(p: float) -> float:
    """Return the persistence p as a float between 0 and 1."""
    if isinstance(p, bool) or not isinstance(p, Real) or not 0.0 < p < 1.0:
        raise DataError(f"p is {p!r}; expected a probability between 0 and 1, such as 0.8")
    return float(p)


def rbp_values(
    ranking: Ranking, rules: Rules, k: int | None = None, p: float = PERSISTENCE
) -> PerQuery:
    """Compute RBP of each query."""
    values = ranking.compute(_rbp_range, float(rules.rel), ranking.depth(k), check_persistence(p))
    return PerQuery.fill(values, rules.no_relevant)


@overload
def rbp(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[False] = False,
    **options: Unpack[RBPOptions],
) -> float: ...
@overload
def rbp(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    per_query: Literal[True],
    **options: Unpack[RBPOptions],
) -> Vector: ...
def rbp(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    p: float = PERSISTENCE,
    k: int | None = None,
    rel: float | None = None,
    flavour: FlavourName = "standard",
    no_relevant: NoRelevant | None = None,
    ties: TieName | None = None,
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
) -> float | Vector:
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
    return measure(
        partial(rbp_values, k=check_cutoff(k), p=p),
        y, scores, qid, rel=rel, flavour=flavour, no_relevant=no_relevant, ties=ties,
        per_query=per_query, doc_ids=doc_ids,
    )  # fmt: skip
