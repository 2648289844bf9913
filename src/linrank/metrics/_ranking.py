"""Documents of each query sorted by score, once for all metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._jit import njit
from .._lazy import lazy_property
from .._threads import resolve_threads, run, split
from .._typing import Integers, Mask, Vector
from .names import TieName

_RUN = 16  # documents per run that is sorted by insertion; longer runs are merged
_SMALL = 20_000  # rows up to which one thread is faster than several


@njit(inner=True)
def _below(key, value, other_key, other_value, direction):  # type: ignore[no-untyped-def]
    return key < other_key or (key == other_key and direction * value < direction * other_value)


@njit(inner=True)
def _merge_sort(keys, values, start, stop, direction, spare_keys, spare_values):  # type: ignore[no-untyped-def]
    # Sorts keys[start:stop] in place from large to small, stably, and moves the values along.
    # The spare arrays hold at least stop − start numbers. Returns the number of pairs that were
    # in the wrong order.
    wrong = 0
    for low in range(start, stop, _RUN):
        for i in range(low + 1, min(low + _RUN, stop)):
            key, value, j = keys[i], values[i], i
            while j > low and _below(keys[j - 1], values[j - 1], key, value, direction):
                keys[j], values[j] = keys[j - 1], values[j - 1]
                j -= 1
            keys[j], values[j] = key, value
            wrong += i - j
    width = _RUN
    while width < stop - start:
        for middle in range(start + width, stop, 2 * width):
            low, high = middle - width, min(middle + width, stop)
            wrong += _merge(keys, values, low, middle, high, direction, spare_keys, spare_values)
        width *= 2
    return wrong


@njit(inner=True)
def _merge(keys, values, low, middle, high, direction, spare_keys, spare_values):  # type: ignore[no-untyped-def]
    if not _below(keys[middle - 1], values[middle - 1], keys[middle], values[middle], direction):
        return 0
    width = middle - low
    for i in range(width):
        spare_keys[i], spare_values[i] = keys[low + i], values[low + i]
    wrong, left, right, out = 0, 0, middle, low
    while left < width:
        if right < high and _below(
            spare_keys[left], spare_values[left], keys[right], values[right], direction
        ):
            keys[out], values[out] = keys[right], values[right]
            right += 1
            wrong += width - left
        else:
            keys[out], values[out] = spare_keys[left], spare_values[left]
            left += 1
        out += 1
    return wrong


@njit(inner=True)
def tie_end(tied, start):  # type: ignore[no-untyped-def]
    """Return the end of the group of equal scores that begins at `start`."""
    end = start + 1
    while end < len(tied) and tied[end]:
        end += 1
    return end


@njit
def _sort_range(query_ptr, first, last, keys, values, direction, spare_keys, spare_values, wrong):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        start, stop = query_ptr[q], query_ptr[q + 1]
        spare = spare_keys[start:stop], spare_values[start:stop]
        wrong[q] = _merge_sort(keys, values, start, stop, direction, *spare)


class Lists(NamedTuple):
    """The ranked lists of all queries, as arguments of kernels.

    Query q owns the positions ``query_ptr[q]:query_ptr[q + 1]``, from the highest score to the
    lowest. ``tied[i]`` is True if position i has the same score as position i − 1. Positions after
    the first ``n_listed[q]`` hold documents that a run has not retrieved. They count as relevant
    documents of the query, but have no rank.
    """

    query_ptr: Integers
    labels: Vector
    tied: Mask
    n_listed: Integers


#: Order of the labels within a group of equal scores: 1 falling, −1 rising, 0 as in the rows.
#: Groups that are averaged are sorted too, so that rounding does not depend on the order of rows.
_DIRECTION: dict[TieName, int] = {
    "average": 1,
    "optimistic": 1,
    "pessimistic": -1,
    "stable": 0,
    "docno": 0,
}


class Ranking:
    """Labels of every query, sorted by score.

    Parameters
    ----------
    y, scores : float64 arrays of shape (n_docs,)
        Labels and scores, grouped by query.
    query_ptr : int64 array of shape (n_queries + 1,)
        Query q owns the rows ``query_ptr[q]:query_ptr[q + 1]``.
    ties : str
        Tie policy; see `Rules`. "docno" expects the rows of a query sorted by document id.
    n_threads : int, optional
    n_listed : int64 array of shape (n_queries,), optional
        Number of documents of each query that have a rank. The others must have lower scores.
        None: all documents.

    Attributes
    ----------
    lists : Lists
        The sorted labels. Positions are marked as tied only if ties are averaged.
    sizes, n_listed : int64 arrays of shape (n_queries,)
        Documents per query, and those that have a rank.

    Examples
    --------
    >>> from linrank.metrics import parse_metric, resolve_rules
    >>> y, scores = np.array([0.0, 1.0, 1.0, 0.0]), np.array([3.0, 2.0, 5.0, 4.0])
    >>> ranking = Ranking(y, scores, np.array([0, 2, 4]), "average")
    >>> parse_metric("mrr").values(ranking, resolve_rules()).values.tolist()
    [0.5, 1.0]
    """

    def __init__(
        self,
        y: Vector,
        scores: Vector,
        query_ptr: Integers,
        ties: TieName,
        n_threads: int | None = None,
        n_listed: Integers | None = None,
    ) -> None:
        self.query_ptr = np.array(query_ptr, np.int64)
        self.sizes = np.diff(self.query_ptr)
        self.n_listed = self.sizes if n_listed is None else np.array(n_listed, np.int64)
        self.n_threads = resolve_threads(n_threads)
        self.ties = ties
        self._scores, labels, _ = self._sort(scores, y, _DIRECTION[ties])
        tied = np.zeros(len(labels), np.bool_)
        if ties == "average":
            np.equal(self._scores[1:], self._scores[:-1], out=tied[1:])
            tied[self.query_ptr[:-1]] = False
        self.lists = Lists(self.query_ptr, labels, tied, self.n_listed)

    def each_query(self, kernel: Callable[..., None], lists: object, *arguments: object) -> None:
        """Run ``kernel(lists, first, last, *arguments)`` over all queries, in threads."""
        chunks = 4 * self.n_threads if self.query_ptr[-1] > _SMALL else 1
        spans = split(self.query_ptr, chunks)
        run(kernel, [(lists, first, last, *arguments) for first, last in spans], self.n_threads)

    def compute(self, kernel: Callable[..., None], *arguments: object) -> Vector:
        """Return one number per query: ``kernel(lists, first, last, *arguments, out)``."""
        values = np.empty(self.n_queries)
        self.each_query(kernel, self.lists, *arguments, values)
        return values

    def _sort(
        self, keys: Vector, values: Vector, direction: int
    ) -> tuple[Vector, Vector, Integers]:
        """Sort each query's keys from large to small, stably, and carry the values along.

        Among equal keys, values fall for direction 1, rise for −1, and stay for 0. Returns
        both, and for each query the number of pairs that were in the wrong order.
        """
        # The kernels sort copies, which always have the same dtype and memory layout. One
        # signature is therefore compiled for all callers.
        keys, values = np.array(keys), np.array(values)
        wrong = np.empty(self.n_queries, np.int64)
        spare = np.empty_like(keys), np.empty_like(values)
        arguments = (keys, values, direction, *spare, wrong)
        self.each_query(_sort_range, self.query_ptr, *arguments)
        return keys, values, wrong

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.sizes)

    @lazy_property
    def averaged(self) -> Ranking:
        """The same ranking with the tie policy "average"."""
        if self.ties == "average":
            return self
        labels = self.lists.labels
        return Ranking(
            labels, self._scores, self.query_ptr, "average", self.n_threads, self.n_listed
        )

    @lazy_property
    def _by_label(self) -> tuple[Vector, Integers]:
        labels, _, wrong = self._sort(self.lists.labels, self.lists.labels, 0)
        return labels, wrong

    @property
    def ideal(self) -> Vector:
        """Labels of each query from large to small; sorted when first read."""
        return self._by_label[0]

    @property
    def n_wrong(self) -> Integers:
        """Number of pairs of each query in which the smaller label is ranked first."""
        return self._by_label[1]

    def depth(self, k: int | None) -> int:
        """Return the largest rank that a metric with cut-off `k` uses in any query."""
        longest = int(self.sizes.max())
        return longest if k is None else min(k, longest)
