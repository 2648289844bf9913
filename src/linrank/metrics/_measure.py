"""From the caller's arrays to a metric's value: what all public metrics share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.checks import group_by_query
from ..errors import DataError
from ._ranking import Floats, Ranking
from ._rules import SKIP, Rules, apply_gain, resolve_rules


class PerQuery(NamedTuple):
    """A metric's value in each query (NaN: undefined) and the weight of each in the mean."""

    values: Floats
    weights: Floats

    @classmethod
    def settle(cls, values: Floats, no_relevant: float | str) -> PerQuery:
        """Decide what the queries without a relevant document, which are NaN here, count as."""
        missing = np.isnan(values)
        if no_relevant == SKIP:
            return cls(values, np.where(missing, 0.0, 1.0))
        return cls(np.where(missing, float(no_relevant), values), np.ones(len(values)))

    def mean(self) -> float:
        """Return the weighted mean; NaN where no query has a weight.

        Sums are rounded once, so that they do not depend on the order of the queries.
        """
        counted = self.weights > 0.0
        total = math.fsum(self.weights)
        if total == 0.0:
            return math.nan
        return math.fsum(self.values[counted] * self.weights[counted]) / total

    @property
    def n_skipped(self) -> int:
        """The number of queries that are left out of the mean."""
        return int(np.count_nonzero(self.weights == 0.0))


class Grouped(NamedTuple):
    """The caller's documents grouped by query, and how to give back one value per query."""

    y: Floats
    scores: Floats
    query_ptr: NDArray[np.int64]
    query_ids: NDArray[Any]  #: in the order in which the queries first appear
    appearance: NDArray[np.int64] | None  #: that order; None: it is the order here

    def in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Put one value per query in the order in which the queries first appear in the rows."""
        return values if self.appearance is None else values[self.appearance]


def group(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    query_ptr: Any = None,
    ties: str = "average",
    doc_ids: Any = None,
) -> Grouped:
    """Check the caller's arrays and bring the rows of each query together.

    Where they stand together already, `query_ptr` can take the place of `qid`, and the
    numbers of the queries that of their ids. For the tie policy "docno", rows of a query
    are put in descending order of their ids.
    """
    y, scores = check_vector("y", y), check_vector("scores", scores)
    for name, other in (("scores", scores), ("qid", qid), ("doc_ids", doc_ids)):
        if other is not None and _length(name, other) != len(y):
            raise DataError(f"{name} has {len(other)} entries but y has {len(y)}: give as many")
    if query_ptr is None:
        query_ptr, query_ids, order = group_by_query(qid, len(y))
    elif qid is not None:
        raise DataError("qid and query_ptr cannot both be given: they say the same")
    else:
        query_ptr, order = _check_query_ptr(query_ptr, len(y)), None
        query_ids = np.arange(len(query_ptr) - 1)
    # The sort by query is stable: the first row of a query here is its first row there.
    appearance = None if order is None else np.argsort(order[query_ptr[:-1]])
    if ties == "docno" and doc_ids is not None:
        order = _by_doc_id(doc_ids, query_ptr, order)
    if order is not None:
        y, scores = y[order], scores[order]
    if appearance is not None:
        query_ids = query_ids[appearance]
    return Grouped(y, scores, query_ptr, query_ids, appearance)


def _by_doc_id(
    doc_ids: Any, query_ptr: NDArray[np.int64], order: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    codes = np.unique([str(doc) for doc in doc_ids], return_inverse=True)[1]
    order = np.arange(len(codes)) if order is None else order
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    return order[np.lexsort((-codes[order], query))]


def _length(name: str, values: Any) -> int:
    try:
        return len(values)
    except TypeError:
        raise DataError(f"{name} is {values!r}; expected one entry per document") from None


def _check_query_ptr(query_ptr: Any, n_docs: int) -> NDArray[np.int64]:
    query_ptr = np.asarray(query_ptr)
    good = query_ptr.ndim == 1 and len(query_ptr) > 1 and query_ptr.dtype.kind in "iu"
    if not good or query_ptr[0] != 0 or query_ptr[-1] != n_docs or (np.diff(query_ptr) < 1).any():
        raise DataError(f"query_ptr must be whole numbers that rise from 0 to {n_docs}, len(y)")
    return query_ptr.astype(np.int64)


def check_vector(name: str, values: Any) -> Floats:
    """Return a vector of finite float64 numbers, or say in a sentence what is wrong."""
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
    y: Any,
    scores: Any,
    qid: Any,
    *,
    flavour: str = "standard",
    per_query: bool = False,
    doc_ids: Any = None,
    **explicit: Any,
) -> Any:
    """Compute a public metric, from the caller's arguments to the mean or one value per query.

    `explicit` are the arguments that override the flavour's rules where they are not None.
    """
    rules = resolve_rules(flavour, doc_ids=doc_ids, **explicit)
    labels, gain = apply_gain(check_vector("y", y), rules.gain)
    data = group(labels, scores, qid, ties=rules.ties, doc_ids=doc_ids)
    ranking = Ranking(data.y, data.scores, data.query_ptr, rules.ties)
    result = compute(ranking, replace(rules, gain=gain))
    return data.in_order(result.values) if per_query else result.mean()
