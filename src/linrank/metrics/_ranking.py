"""Documents in the order of their scores, query by query: sorted once, read by every metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._lazy import lazy_property
from .._threads import resolve_threads, run, split

Floats = NDArray[np.float64]

_RUN = 16  # runs this short are sorted by insertion; longer ones are merged
_SMALL = 20_000  # rows below which handing work to threads costs more than it saves


@njit
def _below(key, value, other_key, other_value, direction):  # type: ignore[no-untyped-def]
    return key < other_key or (key == other_key and direction * value < direction * other_value)


@njit
def _merge_sort(keys, values, start, stop, direction, spare_keys, spare_values):  # type: ignore[no-untyped-def]
    # In place, stable; the spare arrays hold at least stop − start numbers. Returns the
    # number of pairs that stood in the wrong order.
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


@njit
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


@njit
def tie_end(tied, start):  # type: ignore[no-untyped-def]
    """Find where the group of equal scores that begins at `start` ends."""
    end = start + 1
    while end < len(tied) and tied[end]:
        end += 1
    return end


@njit(allocates=True)
def _sort_range(query_ptr, first, last, longest, keys, values, direction, wrong):  # type: ignore[no-untyped-def]
    spare_keys, spare_values = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        start, stop = query_ptr[q], query_ptr[q + 1]
        wrong[q] = _merge_sort(keys, values, start, stop, direction, spare_keys, spare_values)


class Lists(NamedTuple):
    """The ranked lists of all queries, as kernels take them.

    Query q owns the positions ``query_ptr[q]:query_ptr[q + 1]``, best score first;
    ``tied[i]`` says that position i shares its score with position i − 1.
    """

    query_ptr: NDArray[np.int64]
    labels: Floats
    tied: NDArray[np.bool_]


#: How labels are ordered within a group of equal scores; see `Ranking._sort`. A group that is
#: averaged is sorted too, so that not even rounding depends on the order of the rows.
_DIRECTION = {"average": 1, "optimistic": 1, "pessimistic": -1, "stable": 0, "docno": 0}


class Ranking:
    """Labels in the order of the scores, for every query.

    Parameters
    ----------
    y, scores : float64 arrays, grouped by query
    query_ptr : int64 array
    ties : str
        The tie policy; see `Rules`. "docno" expects rows in the order of the documents' ids.
    n_threads : int or None

    Attributes
    ----------
    lists : Lists
        What metrics of ranks walk over: has groups only where ties are averaged.
    sizes : int64 array of shape (n_queries,)
    """

    def __init__(
        self,
        y: Floats,
        scores: Floats,
        query_ptr: NDArray[np.int64],
        ties: str,
        n_threads: int | None = None,
    ) -> None:
        self.query_ptr = np.array(query_ptr, np.int64)
        self.sizes = np.diff(self.query_ptr)
        self.n_threads = resolve_threads(n_threads)
        self.ties = ties
        self._scores, labels, _ = self._sort(scores, y, _DIRECTION[ties])
        tied = np.zeros(len(labels), np.bool_)
        if ties == "average":
            np.equal(self._scores[1:], self._scores[:-1], out=tied[1:])
            tied[self.query_ptr[:-1]] = False
        self.lists = Lists(self.query_ptr, labels, tied)

    def each_query(self, kernel: Callable[..., Any], lists: Any, *arguments: Any) -> None:
        """Run ``kernel(lists, first, last, *arguments)`` over all queries, in threads."""
        chunks = 4 * self.n_threads if self.query_ptr[-1] > _SMALL else 1
        spans = split(self.query_ptr, chunks)
        run(kernel, [(lists, first, last, *arguments) for first, last in spans], self.n_threads)

    def _sort(
        self, keys: Floats, values: Floats, direction: int
    ) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Sort each query's keys from large to small, stably, and carry the values along.

        Among equal keys, values fall for direction 1, rise for −1, and stay for 0. Returns
        both, and for each query the number of pairs that stood in the wrong order.
        """
        # Kernels sort copies, which also have one dtype, layout and mutability.
        keys, values = np.array(keys), np.array(values)
        wrong = np.empty(self.n_queries, np.int64)
        arguments = (self.depth(None), keys, values, direction, wrong)
        self.each_query(_sort_range, self.query_ptr, *arguments)
        return keys, values, wrong

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.sizes)

    @lazy_property
    def averaged(self) -> Ranking:
        """The same ranking with its groups of equal scores, whatever the policy here."""
        if self.ties == "average":
            return self
        labels = self.lists.labels
        return Ranking(labels, self._scores, self.query_ptr, "average", self.n_threads)

    @lazy_property
    def _by_label(self) -> tuple[Floats, NDArray[np.int64]]:
        labels, _, wrong = self._sort(self.lists.labels, self.lists.labels, 0)
        return labels, wrong

    @property
    def ideal(self) -> Floats:
        """The labels of each query from large to small."""
        return self._by_label[0]

    @property
    def n_wrong(self) -> NDArray[np.int64]:
        """The number of pairs of each query in which the smaller label stands first."""
        return self._by_label[1]

    def depth(self, k: int | None) -> int:
        """Return the deepest rank that a metric with cut-off `k` looks at in any query."""
        longest = int(self.sizes.max())
        return longest if k is None else min(k, longest)
