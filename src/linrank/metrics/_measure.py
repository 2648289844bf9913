"""Steps that all public metrics share: check and group the arrays, rank, and average."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._typing import Integers, Vector
from ..data.checks import group_by_query
from ..errors import DataError
from ._ranking import Ranking
from ._rules import NoRelevant, RuleOptions, Rules, apply_gain, resolve_rules
from .names import FlavourName, TieName


class PerQuery(NamedTuple):
    """Values of a metric, one per query, and the weights of the queries in the mean.

    A value is NaN where the metric is undefined.

    Attributes
    ----------
    values : float64 array of shape (n_queries,)
    weights : float64 array of shape (n_queries,)
        0 for queries that are left out of the mean.

    Examples
    --------
    >>> found = PerQuery.fill(np.array([0.5, np.nan, 1.0]), no_relevant="skip")
    >>> found.mean(), found.n_skipped
    (0.75, 1)
    """

    values: Vector
    weights: Vector

    @classmethod
    def fill(cls, values: Vector, no_relevant: NoRelevant) -> PerQuery:
        """Give queries without a relevant document, whose values are NaN, the value of the rules.

        With "skip" they get the weight 0 instead.
        """
        missing = np.isnan(values)
        if no_relevant == "skip":
            return cls(values, np.where(missing, 0.0, 1.0))
        return cls(np.where(missing, float(no_relevant), values), np.ones(len(values)))

    @classmethod
    def ratio(cls, counted: Vector, totals: Vector, *, by_total: bool) -> PerQuery:
        """Return counted/totals, and NaN with the weight 0 where a total is 0.

        Other queries have the weight 1, or their total if `by_total`.
        """
        values = np.full(len(totals), np.nan)
        np.divide(counted, totals, out=values, where=totals > 0)
        return cls(values, totals if by_total else np.minimum(totals, 1.0))

    def mean(self) -> float:
        """Return the weighted mean; NaN if no query has a weight.

        Sums are exact until they are rounded once, so the mean does not depend on the order of
        the queries.
        """
        counted = self.weights > 0.0
        total = math.fsum(self.weights)
        if total == 0.0:
            return math.nan
        return math.fsum(self.values[counted] * self.weights[counted]) / total

    @property
    def n_skipped(self) -> int:
        """Number of queries that are left out of the mean."""
        return int(np.count_nonzero(self.weights == 0.0))


class Grouped(NamedTuple):
    """Documents grouped by query, and the order in which the queries first appear in the rows."""

    y: Vector
    scores: Vector
    query_ptr: Integers
    query_ids: NDArray[Any]  #: in order of first appearance
    appearance: Integers | None  #: order of first appearance; None if the groups have it already

    def in_order(self, values: Vector) -> Vector:
        """Put one value per query in the order in which the queries first appear in the rows."""
        return values if self.appearance is None else values[self.appearance]


def group(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None = None,
    *,
    query_ptr: ArrayLike | None = None,
    ties: TieName = "average",
    doc_ids: Collection[object] | None = None,
) -> Grouped:
    """Check the caller's arrays and bring the rows of each query together.

    If the rows of each query are contiguous, `query_ptr` can be given instead of `qid`; the
    queries are then identified by their number. With the tie policy "docno", the rows of a query
    are sorted by descending document id.
    """
    y, scores = check_vector("y", y), check_vector("scores", scores)
    for name, other in (("scores", scores), ("qid", qid), ("doc_ids", doc_ids)):
        if other is not None and (n := _length(name, other)) != len(y):
            raise DataError(f"{name} has {n} entries but y has {len(y)}: pass one per document")
    if query_ptr is None:
        pointers, query_ids, order = group_by_query(qid, len(y))
    elif qid is not None:
        raise DataError("qid and query_ptr cannot both be given; pass one of them")
    else:
        pointers, order = _check_query_ptr(query_ptr, len(y)), None
        query_ids = np.arange(len(pointers) - 1)
    # The sort by query is stable, so the first grouped row of a query is its first row in the
    # caller's arrays.
    appearance = None if order is None else np.argsort(order[pointers[:-1]])
    if ties == "docno" and doc_ids is not None:
        order = _by_doc_id(doc_ids, pointers, order)
    if order is not None:
        y, scores = y[order], scores[order]
    if appearance is not None:
        query_ids = query_ids[appearance]
    return Grouped(y, scores, pointers, query_ids, appearance)


def _by_doc_id(
    doc_ids: Collection[object], query_ptr: Integers, order: Integers | None
) -> Integers:
    codes = np.unique([str(doc) for doc in doc_ids], return_inverse=True)[1]
    order = np.arange(len(codes)) if order is None else order
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    return order[np.lexsort((-codes[order], query))]


def _length(name: str, values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        raise DataError(f"{name} is {values!r}; expected one entry per document") from None


def _check_query_ptr(query_ptr: ArrayLike, n_docs: int) -> Integers:
    query_ptr = np.asarray(query_ptr)
    good = query_ptr.ndim == 1 and len(query_ptr) > 1 and query_ptr.dtype.kind in "iu"
    if not good or query_ptr[0] != 0 or query_ptr[-1] != n_docs or (np.diff(query_ptr) < 1).any():
        raise DataError(
            f"query_ptr must be an array of whole numbers that rise from 0 to {n_docs}, len(y)"
        )
    return query_ptr.astype(np.int64)


def check_vector(name: str, values: ArrayLike) -> Vector:
    """Return a vector of finite float64 numbers, or raise a `DataError`."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"{name} has {values.ndim} dimensions; expected one number per document")
    if len(values) == 0:
        raise DataError(f"{name} is empty; expected one number per document")
    if values.dtype.kind not in "biufO":
        raise DataError(f"{name} has the dtype {values.dtype}; expected real numbers")
    try:
        values = np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers: {error}") from None
    if not np.isfinite(values).all():
        row = np.flatnonzero(~np.isfinite(values))[0]
        raise DataError(f"{name}[{row}] is {values[row]}; expected finite numbers")
    return values


def measure(
    compute: Callable[[Ranking, Rules], PerQuery],
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | None,
    *,
    flavour: FlavourName = "standard",
    per_query: bool = False,
    doc_ids: Collection[object] | None = None,
    **overrides: Unpack[RuleOptions],
) -> float | Vector:
    """Evaluate a public metric: return its mean, or one value per query.

    `overrides` replace the rules of the flavour, unless they are None.
    """
    rules = resolve_rules(flavour, doc_ids=doc_ids, **overrides)
    labels, gain = apply_gain(check_vector("y", y), rules.gain)
    data = group(labels, scores, qid, ties=rules.ties, doc_ids=doc_ids)
    ranking = Ranking(data.y, data.scores, data.query_ptr, rules.ties)
    result = compute(ranking, replace(rules, gain=gain))
    return data.in_order(result.values) if per_query else result.mean()
