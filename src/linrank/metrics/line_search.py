"""Exact line searches of a ranking metric.

Along a line, document i has the score s_i + α·t_i. The ranking of a query changes only where two
scores are equal: at the break points α = (s_i − s_j)/(t_j − t_i). A metric is therefore a step
function of α. The search finds all its steps, sorts them, and returns an α from the best interval.

1. For each relevant document i, the break points with all documents of its query are found and
   sorted. A walk along them follows the rank of i, and its place among the relevant documents.
2. Each change of the term of i in the metric (`MetricTables`) is a step.
3. The steps of all queries are sorted, and their running sum is the metric.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .._compile.jit import njit
from .._util.parallel import run, split
from .._util.types import Integers, Vector
from ..counting.sort import sort_by_key
from ..errors import DataError
from .evaluation import Metric
from .ranked_lists import Rules, apply_gain, discounts

# --------------------------------------------------------------------------------------------------
# Metrics as sums over the relevant documents.


#: The metrics that are sums over relevant documents, and whether they need a cut-off.
SUMS = {"ndcg": False, "map": False, "mrr": False, "p": True, "recall": True, "hit-rate": True}
_LEAST_EXPONENT = -1000.0  #: of gains relative to the largest one; 2 to a smaller one is 0


class MetricTables(NamedTuple):
    """A metric as the sum Σ_i share_i·of_rank[r_i]·of_place[p_i] over the relevant documents.

    r_i is the rank of document i in its query, and p_i its place among the relevant documents of
    the query, both from 0. Shares contain the weights of the queries, whose sum is 1.

    Attributes
    ----------
    docs : int64 array
        The relevant documents of all queries, in the order of their rows.
    ptr : int64 array of shape (n_queries + 1,)
        The relevant documents of query q are ``docs[ptr[q]:ptr[q + 1]]``.
    share : float64 array, one number for each relevant document
    of_rank, of_place : float64 arrays
        `of_rank` ends at the cut-off: later ranks count 0. The last entry of `of_place` holds for
        all later places.

    Examples
    --------
    >>> from linrank.metrics import parse_metric, resolve_rules
    >>> y, ptr = np.array([0.0, 1.0, 1.0]), np.array([0, 3])
    >>> tables = MetricTables.of(y, ptr, parse_metric("map"), resolve_rules())
    >>> tables.docs.tolist(), tables.share.tolist(), tables.of_place.tolist()
    ([1, 2], [0.5, 0.5], [1.0, 2.0, 3.0])
    """

    docs: Integers
    ptr: Integers
    share: Vector
    of_rank: Vector
    of_place: Vector

    @classmethod
    def of(
        cls, y: Vector, query_ptr: Integers, metric: Metric, rules: Rules,
        query_weight: Vector | None = None,
    ) -> MetricTables:  # fmt: skip
        """Return the tables of a metric for labels.

        Parameters
        ----------
        y : float64 array of shape (n_docs,)
        query_ptr : int64 array
        metric : Metric
            One of `SUMS`.
        rules : Rules
        query_weight : float64 array of shape (n_queries,), optional
        """
        kind, sizes = check_sum(metric), np.diff(query_ptr)
        depth = int(sizes.max()) if metric.k is None else min(metric.k, int(sizes.max()))
        query = np.repeat(np.arange(len(sizes)), sizes)
        of_rank = 1.0 / np.arange(1.0, depth + 1) if kind in ("map", "mrr") else np.ones(depth)
        if kind == "ndcg":
            gains, of_rank = _gains(y, rules), discounts(rules.discount, depth)
            totals = _best_sums(gains, query, query_ptr, of_rank)
        else:
            gains = (y >= (rules.rel if metric.rel is None else metric.rel)).astype(np.float64)
            totals = np.add.reduceat(gains, query_ptr[:-1])
        if kind in ("mrr", "hit-rate", "p"):
            totals = np.where(totals > 0, float(metric.k or 1) if kind == "p" else 1.0, 0.0)
        first_only = np.array([1.0, 0.0])
        of_place = {"map": np.arange(1.0, depth + 1), "mrr": first_only, "hit-rate": first_only}
        weight = np.ones(len(sizes)) if query_weight is None else query_weight
        counted = weight * (totals > 0) if rules.no_relevant == "skip" else weight
        if metric.k is not None and kind in rules.zero_if_short:
            weight = weight * (sizes >= metric.k)
        docs = np.flatnonzero(gains)
        part = weight / max(counted.sum(), np.finfo(float).tiny) / np.where(totals > 0, totals, 1)
        share = gains[docs] * part[query[docs]]
        return cls(
            docs, np.searchsorted(docs, query_ptr), share, of_rank, of_place.get(kind, np.ones(1))
        )


def check_sum(metric: Metric) -> str:
    """Return the kind of a metric that is a sum over relevant documents; refuse other metrics."""
    kind = metric.kind.name
    if kind not in SUMS or (SUMS[kind] and metric.k is None):
        known = ", ".join(f"{name}@k" if needs_k else name for name, needs_k in SUMS.items())
        raise DataError(f"{metric.name} cannot be optimised directly. Use one of {known}")
    return kind


def _gains(y: Vector, rules: Rules) -> Vector:
    """Return the gains of labels, divided by a constant so that they are at most 1."""
    labels, gain = apply_gain(y, rules.gain)
    labels = np.maximum(labels, 0.0)
    top = float(labels.max())
    if gain == "linear":
        return labels / (top or 1.0)
    return -np.expm1(-labels * math.log(2.0)) * np.exp2(np.maximum(labels - top, _LEAST_EXPONENT))


def _best_sums(gains: Vector, query: Integers, query_ptr: Integers, of_rank: Vector) -> Vector:
    """Return the largest Σ_r gain·of_rank[r] of each query."""
    falling = gains[np.lexsort((-gains, query))]
    rank = np.arange(len(gains)) - query_ptr[query]
    weight = np.append(of_rank, 0.0)[np.minimum(rank, len(of_rank))]
    return np.add.reduceat(falling * weight, query_ptr[:-1])


# --------------------------------------------------------------------------------------------------
# `LineSearch`: the best point of a line.


NARROWEST = 1e-7  #: width of an interval relative to |α|; narrower ones are rounding errors
SLACK = 1e-10  #: difference of two values of the metric that counts as rounding
_SMALL_WORK = 100_000  #: pairs of documents below which more tasks take longer


class LineOptimum(NamedTuple):
    """The best point of a line.

    Attributes
    ----------
    alpha : float
        A point of the best interval; 0 if no interval is better than that of 0.
    value, here : float
        The metric at this point, and at 0.
    """

    alpha: float
    value: float
    here: float


class Bends(NamedTuple):
    """Lines with a bend: the score s + α·t grows by ``size·max(0, α − at)``.

    Attributes
    ----------
    at, size : float64 arrays of shape (n_docs,)
    """

    at: Vector
    size: Vector


class _SearchBuffers(NamedTuple):
    """The buffers of `_find_steps` for one range of queries."""

    alpha: Vector
    change: Vector
    cross: Vector
    kinds: Integers
    order: Integers
    spare: Vector
    spare_order: Integers


_STRAIGHT = Bends(np.empty(0), np.empty(0))
_MOST = 3  #: break points of two lines with a bend each


class LineSearch:
    """Exact line searches of one metric on given documents.

    Documents whose scores are equal all along a line are ranked in the worst order. With R relevant
    documents in each query of n documents, a search takes O(R·n·log n) time per query.

    Parameters
    ----------
    y : float64 array of shape (n_docs,)
        Labels.
    query_ptr : int64 array
    tables : MetricTables
        The metric of these labels.
    n_threads : int

    Examples
    --------
    >>> from linrank.metrics import parse_metric, resolve_rules
    >>> y, ptr = np.array([0.0, 1.0, 0.0]), np.array([0, 3])
    >>> tables = MetricTables.of(y, ptr, parse_metric("mrr"), resolve_rules())
    >>> found = LineSearch(y, ptr, tables).along(np.array([3.0, 1.0, 2.0]), np.array([0, 1, 0.5]))
    >>> found.alpha > 2, found.value, round(found.here, 3)  # α = 2 makes all scores 3
    (True, 1.0, 0.333)
    """

    def __init__(
        self, y: Vector, query_ptr: Integers, tables: MetricTables, n_threads: int = 1
    ) -> None:
        self.y, self.query_ptr, self.tables, self.n_threads = y, query_ptr, tables, n_threads
        self._start = np.zeros(len(query_ptr) - 1)
        sizes = np.diff(query_ptr)
        work = np.concatenate([[0], np.cumsum(sizes * np.diff(tables.ptr))])
        n_tasks = n_threads if work[-1] < _SMALL_WORK else 4 * n_threads
        self._tasks = []
        for first, last in split(work, n_tasks) if work[-1] else []:
            most, n = _MOST * int(work[last] - work[first]), _MOST * int(sizes[first:last].max())
            self._tasks.append((first, last, _SearchBuffers(
                np.empty(most), np.empty(most), np.empty(n), np.empty(n, np.int64),
                np.empty(n, np.int64), np.empty(2 * n), np.empty(2 * n, np.int64),
            )))  # fmt: skip

    def value(self, scores: Vector) -> float:
        """Return the metric of scores."""
        return self.along(scores, np.zeros(len(scores))).here

    def along(
        self, scores: Vector, slopes: Vector, low: float = -np.inf, high: float = np.inf,
        bends: Bends = _STRAIGHT,
    ) -> LineOptimum:  # fmt: skip
        """Return the best point of the line ``scores + alpha·slopes`` with low ≤ alpha ≤ high.

        Of equally good intervals, the widest one is taken.

        Parameters
        ----------
        scores, slopes : float64 arrays of shape (n_docs,)
        low, high : float
            Limits of alpha, between which 0 lies. With bends, `low` is finite.
        bends : Bends, optional
        """
        self._start[:] = 0.0
        given = (self.y, self.query_ptr, self.tables, np.asarray(scores, np.float64),
                 np.asarray(slopes, np.float64), bends, low, high, self._start)  # fmt: skip
        tasks = [(first, last, *given, buffers) for first, last, buffers in self._tasks]
        counts = run(_find_steps, tasks, self.n_threads)
        start = float(self._start.sum())
        if not sum(counts):
            return LineOptimum(0.0, start, start)
        used = [(task[2], n) for task, n in zip(self._tasks, counts, strict=True)]
        alpha = np.concatenate([buffers.alpha[:n] for buffers, n in used])
        change = np.concatenate([buffers.change[:n] for buffers, n in used])
        order = np.argsort(alpha)
        return LineOptimum(*_best_interval(alpha[order], change[order], start, low, high))


@njit
def _find_steps(first, last, y, query_ptr, tables, scores, slopes, bends, low, high, out, spare):  # type: ignore[no-untyped-def]
    # Stores the steps of the queries first, …, last − 1, adds the metric at `low` to `out`, and
    # returns the number of steps.
    n_steps = 0
    for q in range(first, last):
        for p in range(tables.ptr[q], tables.ptr[q + 1]):
            rank, place, n, n_up = _crossings(
                tables.docs[p], q, y, query_ptr, tables, scores, slopes, bends, low, high, spare
            )
            if rank - n_up >= len(tables.of_rank):
                continue  # the document never reaches the cut-off
            value = _term(tables, rank, place)
            out[q] += tables.share[p] * value
            for k in range(n):
                spare.order[k] = k
            sort_by_key(spare.cross, spare.order[:n], spare.spare, spare.spare_order)
            for k in range(n):
                kind = spare.kinds[spare.order[k]]
                rank += 1 if kind > 0 else -1
                place += kind // 2 if kind > 0 else -(-kind // 2)
                after = _term(tables, rank, place)
                if after != value:
                    spare.alpha[n_steps] = spare.spare[k]
                    spare.change[n_steps] = tables.share[p] * (after - value)
                    n_steps += 1
                    value = after
    return n_steps


@njit(inner=True)
def _term(tables, rank, place):  # type: ignore[no-untyped-def]
    if rank >= len(tables.of_rank):
        return 0.0
    return tables.of_rank[rank] * tables.of_place[min(place, len(tables.of_place) - 1)]


@njit(inner=True)
def _crossings(i, q, y, query_ptr, tables, scores, slopes, bends, low, high, buffers):  # type: ignore[no-untyped-def]
    # Returns the rank and the place of document i just after `low`, the number of break points, and
    # how many of them move i up. Kinds are ±1, or ±2 if the other document is relevant; they are
    # negative if i moves up.
    rank, place, n, n_up = 0, 0, 0, 0
    next_relevant, last_relevant = tables.ptr[q], tables.ptr[q + 1]
    for j in range(query_ptr[q], query_ptr[q + 1]):
        kind = 1
        if next_relevant < last_relevant and tables.docs[next_relevant] == j:
            next_relevant += 1
            kind = 2
        if j == i:
            continue
        before = n
        wins_ties = y[j] < y[i] or (y[j] == y[i] and j < i)  # the worst order
        rise, gap = slopes[j] - slopes[i], scores[i] - scores[j]
        if len(bends.at) > 0:
            above, n = _bent(i, j, rise, gap, wins_ties, bends, low, high, buffers.cross, n)
        elif rise == 0.0:
            above = gap < 0.0 or (gap == 0.0 and wins_ties)
        else:
            alpha = gap / rise
            above = (alpha <= low) == (rise > 0.0)
            if low < alpha < high:
                buffers.cross[n] = alpha
                n += 1
        goes_up = above
        for k in range(before, n):
            buffers.kinds[k] = -kind if goes_up else kind
            n_up += goes_up
            goes_up = not goes_up
        rank += above
        place += above and kind == 2
    return rank, place, n, n_up


@njit(inner=True)
def _bent(i, j, rise, gap, wins_ties, bends, low, high, cross, n):  # type: ignore[no-untyped-def]
    # Returns whether j is above i just after `low`, and the number of break points: the zeros of
    # the difference of two lines with a bend each, between which it is linear.
    one, two = min(bends.at[i], bends.at[j]), max(bends.at[i], bends.at[j])
    left, at_left = low, _lead(i, j, rise, gap, bends, low)
    known, above = at_left != 0.0, at_left > 0.0
    first = above
    for part in range(3):
        right = min(max(one if part == 0 else two, left), high) if part < 2 else high
        if right <= left:
            continue
        if np.isinf(right):
            slope = rise + (bends.size[j] - bends.size[i])
            at_right, zero = slope, left - at_left / slope if slope != 0.0 else left
        else:
            at_right = _lead(i, j, rise, gap, bends, right)
            step = at_left - at_right
            zero = left + (right - left) * (at_left / step) if step != 0.0 else left
        if at_right != 0.0:
            if not known:
                known, first = True, at_right > 0.0
                above = first
            elif above != (at_right > 0.0):
                cross[n] = zero
                n += 1
                above = not above
        left, at_left = right, at_right
    return first if known else wins_ties, n


@njit(inner=True)
def _lead(i, j, rise, gap, bends, alpha):  # type: ignore[no-untyped-def]
    # The score of j minus that of i.
    bent = bends.size[j] * max(0.0, alpha - bends.at[j])
    return (rise * alpha - gap) + (bent - bends.size[i] * max(0.0, alpha - bends.at[i]))


@njit
def _best_interval(alpha, change, value, low, high):  # type: ignore[no-untyped-def]
    # Returns a point of the best interval between sorted break points, its value, and the value at
    # 0. If no interval is better than that of 0, the point is 0.
    n = len(alpha)
    usual = abs(alpha[n // 4]) + abs(alpha[n // 2]) + abs(alpha[n - 1 - n // 4])
    usual = usual if usual > 0.0 else 1.0
    best, at, width, here = -np.inf, 0.0, 0.0, np.inf
    left, k = low, 0
    while True:
        right = alpha[k] if k < n else high
        if left <= 0.0 <= right:
            here = min(here, value)  # the worst order, if 0 is a break point
        size = right - left
        wide = size > NARROWEST * (usual if np.isinf(size) else usual + min(abs(left), abs(right)))
        if wide and (value > best + SLACK or (value > best - SLACK and size > width)):
            best, width = value, size
            if np.isinf(left):
                at = right - max(usual, abs(right))
            elif np.isinf(right):
                at = left + max(usual, abs(left))
            else:
                at = 0.5 * (left + right)
        if k == n:
            break
        left = alpha[k]
        while k < n and alpha[k] == left:
            value += change[k]
            k += 1
    if best <= here + SLACK:
        return 0.0, here, here
    return at, best, here
