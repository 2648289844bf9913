"""What all metrics share: conventions, ranked lists, and means over queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, update_wrapper
from inspect import Parameter, Signature, get_annotations, signature
from numbers import Real
from types import FunctionType, ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    Unpack,
    dataclass_transform,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._compile.jit import njit
from .._util.checks import choice, whole_number
from .._util.lazy import lazy_property
from .._util.parallel import resolve_threads, run, split
from .._util.types import Integers, Mask, Vector
from ..choices import DISCOUNTS, FLAVOURS, GAINS, TIES, DiscountName, FlavourName, GainName, TieName
from ..counting.sort import sort_by_key
from ..data.validation import group_by_query
from ..errors import DataError, NegativeLabelsWarning, warn

__all__ = ["PerQuery", "Ranking", "resolve_rules"]

# --------------------------------------------------------------------------------------------------
# Conventions in which definitions of a metric differ: gains, discounts, ties and flavours.


Gain: TypeAlias = GainName | Callable[[float], float] | Mapping[float, float]
NoRelevant: TypeAlias = float | Literal["skip"]  #: 0, 1, NaN or "skip"


@dataclass(frozen=True)
class Rules:
    """The conventions that a metric follows where its definition leaves a choice.

    Attributes
    ----------
    gain : {"exp2", "linear"}, callable or mapping
        Gain of a label in NDCG.
    discount : {"log2", "letor"}
        Discount of a rank in NDCG.
    rel : float
        Smallest label that counts as relevant in binary metrics.
    no_relevant : {0, 1, "skip", nan}
        Value of a query without a relevant document.
    ties : {"average", "stable", "pessimistic", "optimistic", "docno"}
        Order of documents of equal score.
    zero_if_short : frozenset of str
        Names of the metrics that are 0 at a cut-off beyond the end of the list.
    """

    gain: Gain = "exp2"
    discount: DiscountName = "log2"
    rel: float = 1.0
    no_relevant: NoRelevant = "skip"
    ties: TieName = "average"
    zero_if_short: frozenset[str] = frozenset()


class RuleOptions(TypedDict, total=False):
    """Arguments of metrics that override the rules of a flavour, unless they are None."""

    gain: Gain | None
    discount: DiscountName | None
    rel: float | None
    no_relevant: NoRelevant | None
    ties: TieName | None


_LETOR = Rules(discount="letor", no_relevant=0.0, ties="stable", zero_if_short=frozenset({"ndcg"}))

_RULES: dict[FlavourName, Rules] = {
    "standard": Rules(),
    "letor3": replace(_LETOR, zero_if_short=frozenset({"ndcg", "p"})),
    "letor4": _LETOR,
    "mslr": replace(_LETOR, rel=2.0),
    "trec": Rules(gain="linear", no_relevant=0.0, ties="docno"),
}


def resolve_rules(
    flavour: FlavourName = "standard",
    *,
    doc_ids: Collection[object] | None = None,
    **overrides: Unpack[RuleOptions],
) -> Rules:
    """Return the rules of a flavour, with every override that is not None in their place.

    Parameters
    ----------
    flavour : str
        See `linrank.metrics`.
    doc_ids : sequence, optional
        Identifiers of the documents, which ``ties="docno"`` needs.
    **overrides
        ``gain``, ``discount``, ``rel``, ``no_relevant`` and ``ties``, as in `linrank.ndcg`.

    Returns
    -------
    Rules

    Examples
    --------
    >>> resolve_rules("mslr", no_relevant="skip").rel
    2.0
    """
    choice("flavour", flavour, FLAVOURS)
    given: dict[str, Any] = {name: value for name, value in overrides.items() if value is not None}
    for name, value in given.items():
        _CHECKS[name](value)
    if given.get("ties") == "docno" and doc_ids is None:
        raise DataError('ties="docno" needs doc_ids; pass one identifier per document')
    return replace(_RULES[flavour], **given)


def _check_gain(gain: object) -> None:
    if not callable(gain) and not isinstance(gain, Mapping):
        more = "or a function of the label, or a mapping from labels to gains"
        choice("gain", gain, GAINS, more)


def _check_no_relevant(value: object) -> None:
    is_number = isinstance(value, Real) and (value in (0, 1) or math.isnan(value))
    if not is_number and not (isinstance(value, str) and value == "skip"):
        raise DataError(f'no_relevant is {value!r}; expected 0, 1, "skip" or nan')


def _check_rel(rel: object) -> None:
    if isinstance(rel, bool) or not isinstance(rel, Real) or not math.isfinite(rel):
        raise DataError(
            f"rel is {rel!r}; expected a finite number, the smallest label that counts as relevant"
        )


_CHECKS: dict[str, Callable[[object], None]] = {
    "gain": _check_gain,
    "discount": lambda value: choice("discount", value, DISCOUNTS),
    "rel": _check_rel,
    "no_relevant": _check_no_relevant,
    "ties": lambda value: choice("ties", value, TIES),
}


def check_cutoff(k: int | None) -> int | None:
    """Return a cut-off as an int, or None for the whole list."""
    return None if k is None else whole_number("k", k)


def discounts(kind: DiscountName, n: int) -> Vector:
    """Compute the discounts of the ranks r = 1, …, n: 1/log2(r + 1), or LETOR's 1/max(1, log2 r).

    Examples
    --------
    >>> discounts("letor", 4).tolist()
    [1.0, 1.0, 0.6309297535714575, 0.5]
    """
    ranks = np.arange(1, n + 1, dtype=np.float64)
    if kind == "letor":
        return 1.0 / np.maximum(1.0, np.log2(ranks))
    return 1.0 / np.log2(ranks + 1.0)


def warn_of_negative(y: Vector, gain: Gain) -> None:
    """Warn if a negative label has the same gain as another label, because both gains are 0."""
    if isinstance(gain, str) and y.min() < 0:
        if len(np.unique(y[y <= 0])) < 2:
            return  # Labels such as -1 and 1 keep their order.
        formula = "2^y - 1" if gain == "exp2" else "y"
        warn(
            f"y has negative labels, down to {y.min():g}, whose gain {formula} counts as 0, like "
            "that of the label 0. Add a constant to the labels, so that the smallest is 0, or use "
            "a metric without gains, such as pairwise-accuracy.",
            NegativeLabelsWarning,
        )


def apply_gain(y: Vector, gain: Gain) -> tuple[Vector, GainName]:
    """Replace labels by the gains of a function or mapping.

    Returns the new labels and the name of the gain to apply to them.

    Examples
    --------
    >>> apply_gain(np.array([0.0, 2.0, 1.0]), {0: 0, 1: 5, 2: 6})
    (array([0., 6., 5.]), 'linear')
    """
    if isinstance(gain, str):
        return y, gain
    labels, inverse = np.unique(y, return_inverse=True)
    gains = np.empty(len(labels))
    for i, label in enumerate(labels.tolist()):
        if isinstance(gain, Mapping) and label not in gain:
            raise DataError(f"gain has no entry for the label {label:g}, which occurs in y; add it")
        gains[i] = gain[label] if isinstance(gain, Mapping) else gain(label)
        if not 0.0 <= gains[i] < math.inf:
            raise DataError(
                f"gain of the label {label:g} is {gains[i]}; gains must be finite and at least 0"
            )
    return gains[inverse], "linear"


# --------------------------------------------------------------------------------------------------
# Documents of each query sorted by score, once for all metrics.


_RUN = 16  # documents per run that is sorted by insertion; longer runs are merged
_TOP = 32  # ranks up to which only the first documents are sorted; more take more moves
_LEVELS = 16  # distinct labels of a query up to which they are counted; more take more comparisons
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


class _Buffers(NamedTuple):
    """The buffers of a kernel that sorts, for lists of up to n documents."""

    keys: Vector
    spare_keys: Vector
    docs: Integers
    spare_docs: Integers


@njit(inner=True)
def _find_best(values, depth, best):  # type: ignore[no-untyped-def]
    # Stores the largest values from large to small, and returns the last of them. Few values are
    # larger than the values before them, so that most take one comparison.
    best[:depth] = -np.inf
    for i in range(len(values)):
        value, p = values[i], depth - 1
        if value > best[p]:
            while p > 0 and best[p - 1] < value:
                best[p] = best[p - 1]
                p -= 1
            best[p] = value
    return best[depth - 1]


@njit
def _rank_range(query_ptr, first, last, scores, y, direction, depth, ranked, labels, buffers):  # type: ignore[no-untyped-def]
    # Sorts the scores of each query from large to small, and carries the labels along. Among equal
    # scores, labels fall for direction 1, rise for −1, and stay in the order of rows for 0. With a
    # depth above 0, documents below that rank follow in any order.
    keys, docs, found = buffers.keys, buffers.docs, buffers.spare_keys
    for q in range(first, last):
        a, b = query_ptr[q], query_ptr[q + 1]
        least = -np.inf
        if 0 < depth < b - a:
            least = _find_best(scores[a:b], depth, found)
        n, place = 0, b
        for i in range(b - a):
            if scores[a + i] >= least:
                keys[i], docs[n] = -scores[a + i], i
                n += 1
            else:
                place -= 1
                ranked[place], labels[place] = scores[a + i], y[a + i]
        sort_by_key(keys[: b - a], docs[:n], found[: 2 * n], buffers.spare_docs[: 2 * n])
        for p in range(n):
            ranked[a + p], labels[a + p] = -found[p], y[a + docs[p]]
        start = 0
        while start < n and direction != 0:
            end = start + 1
            while end < n and found[end] == found[start]:
                end += 1
            if end > start + 1:
                spare = keys, found[n : 2 * n]
                _merge_sort(ranked, labels, a + start, a + end, direction, *spare)
            start = end


@njit
def _ideal_range(query_ptr, first, last, labels, depth, ideal, buffers):  # type: ignore[no-untyped-def]
    # Sorts the labels of each query from large to small: by counting, if there are few levels. With
    # a depth above 0, only the labels up to that rank are stored.
    levels, counts, found = buffers.keys, buffers.docs, buffers.spare_keys
    for q in range(first, last):
        a, n = query_ptr[q], query_ptr[q + 1] - query_ptr[q]
        if depth > 0:
            top = min(depth, n)
            _find_best(labels[a : a + n], top, ideal[a : a + top])
            continue
        n_levels = 0
        for i in range(a, a + n):
            label, k = labels[i], 0
            while k < n_levels and levels[k] > label:
                k += 1
            if k < n_levels and levels[k] == label:
                counts[k] += 1
                continue
            n_levels += 1
            if n_levels > _LEVELS:
                break
            for m in range(n_levels - 1, k, -1):
                levels[m], counts[m] = levels[m - 1], counts[m - 1]
            levels[k], counts[k] = label, 1
        if n_levels <= _LEVELS:
            i = a
            for k in range(n_levels):
                ideal[i : i + counts[k]] = levels[k]
                i += counts[k]
            continue
        for i in range(n):
            levels[i], counts[i] = -labels[a + i], i
        sort_by_key(levels[:n], counts[:n], found[: 2 * n], buffers.spare_docs[: 2 * n])
        for p in range(n):
            ideal[a + p] = -found[p]


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
    depth : int, optional
        The largest rank that metrics use. Documents below it, and their labels, may have any
        order. None: all ranks.

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
        depth: int | None = None,
    ) -> None:
        self.query_ptr = np.array(query_ptr, np.int64)
        self.sizes = np.diff(self.query_ptr)
        self.n_listed = self.sizes if n_listed is None else np.array(n_listed, np.int64)
        self.n_threads = resolve_threads(n_threads)
        self.ties = ties
        self._top = depth if depth is not None and depth <= _TOP else 0
        # The arrays have one dtype and layout, so that one signature is compiled for all callers.
        self._scores, labels = np.empty(len(y)), np.empty(len(y))
        given = (np.require(values, np.float64, ["C", "A", "W"]) for values in (scores, y))
        self._sort(_rank_range, *given, _DIRECTION[ties], self._top, self._scores, labels)
        tied = np.zeros(len(labels), np.bool_)
        if ties == "average":
            np.equal(self._scores[1:], self._scores[:-1], out=tied[1:])
            tied[self.query_ptr[:-1]] = False
        self.lists = Lists(self.query_ptr, labels, tied, self.n_listed)

    def each_query(self, kernel: Callable[..., None], lists: object, *arguments: object) -> None:
        """Run ``kernel(lists, first, last, *arguments)`` over all queries, in threads."""
        spans = self._spans()
        run(kernel, [(lists, first, last, *arguments) for first, last in spans], self.n_threads)

    def _spans(self) -> list[tuple[int, int]]:
        """Return the ranges of queries that a kernel gets at a time."""
        return split(self.query_ptr, 4 * self.n_threads if self.query_ptr[-1] > _SMALL else 1)

    def _sort(self, kernel: Callable[..., None], *arguments: object) -> None:
        """Run a kernel that sorts, with buffers for each range of queries."""
        n = max(_LEVELS, _TOP, int(self.sizes.max()))
        tasks = [
            (self.query_ptr, *span, *arguments, _Buffers(
                np.empty(n), np.empty(2 * n), np.empty(n, np.int64), np.empty(2 * n, np.int64)
            ))
            for span in self._spans()
        ]  # fmt: skip
        run(kernel, tasks, self.n_threads)

    def compute(self, kernel: Callable[..., None], *arguments: object) -> Vector:
        """Return one number per query: ``kernel(lists, first, last, *arguments, out)``."""
        values = np.empty(self.n_queries)
        self.each_query(kernel, self.lists, *arguments, values)
        return values

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
    def ideal(self) -> Vector:
        """Labels of each query from large to small; sorted when first read.

        Labels below the depth are not defined.
        """
        ideal = np.empty(len(self.lists.labels))
        self._sort(_ideal_range, self.lists.labels, self._top, ideal)
        return ideal

    @lazy_property
    def n_wrong(self) -> Integers:
        """Number of pairs of each query in which the smaller label is ranked first."""
        wrong, labels = np.empty(self.n_queries, np.int64), self.lists.labels.copy()
        arguments = labels, labels.copy(), 0, np.empty_like(labels), np.empty_like(labels), wrong
        self.each_query(_sort_range, self.query_ptr, *arguments)
        return wrong

    def depth(self, k: int | None) -> int:
        """Return the largest rank that a metric with cut-off `k` uses in any query."""
        longest = int(self.sizes.max())
        return longest if k is None else min(k, longest)


# --------------------------------------------------------------------------------------------------
# Steps that all public metrics share: check and group the arrays, rank, and average.


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
    given, values = values, np.asarray(values)
    if values.ndim == 0:
        raise DataError(
            f"{name} is of the type {type(given).__name__}; expected one number per document. "
            "Metrics compare labels with scores, such as evaluate(data.y, ranker.predict(data.X), "
            "data.qid)"
        )
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


# --------------------------------------------------------------------------------------------------
# Public metrics: a function of a ranking, with the checks and the mean that all metrics share.


if TYPE_CHECKING:
    P = ParamSpec("P")

    class PublicMetric(Protocol[P]):
        """Type of a public metric with the options P: the mean, or one value per query."""

        # At run time `per_query` is a keyword only, which cannot be declared before `P`.
        @overload
        def __call__(
            self,
            y: ArrayLike,
            scores: ArrayLike,
            qid: ArrayLike | None = None,
            per_query: Literal[False] = False,
            *args: P.args,
            **options: P.kwargs,
        ) -> float: ...
        @overload
        def __call__(
            self,
            y: ArrayLike,
            scores: ArrayLike,
            qid: ArrayLike | None = None,
            per_query: Literal[True] = True,
            *args: P.args,
            **options: P.kwargs,
        ) -> Vector: ...


@dataclass_transform(kw_only_default=True)
class MetricOptions:
    """Arguments of a metric beside `y`, `scores`, `qid` and `per_query`.

    A subclass declares them with types and defaults. Type checkers read it as a dataclass, which
    would take longer to import. `check` runs before the data are read.
    """

    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        cls._defaults = {name: getattr(cls, name) for name in cls.types()}

    def __init__(self, **given: Any) -> None:
        vars(self).update(self._defaults | given)
        self.check()

    @classmethod
    def types(cls) -> dict[str, str]:
        """Return the type of each argument, as it is written."""
        declared = map(get_annotations, cls.__mro__[-3::-1])  # without MetricOptions and object
        return {name: type_ for types in declared for name, type_ in types.items()}

    def check(self) -> None:
        """Raise a `DataError` if an argument is wrong."""


class NoOptions(MetricOptions):
    """Arguments of metrics that have only those of all metrics."""

    def __init__(self) -> None:  # tells type checkers that there are none
        super().__init__()


class ListOptions(MetricOptions):
    """Arguments that all metrics of ranked lists share; `linrank.ndcg` describes them."""

    flavour: FlavourName = "standard"
    no_relevant: NoRelevant | None = None
    ties: TieName | None = None
    doc_ids: Collection[object] | None = None


class CutoffOptions(ListOptions):
    """Arguments of metrics of ranked lists with a cut-off."""

    k: int | None = None

    def check(self) -> None:
        self.k = check_cutoff(self.k)


class BinaryOptions(ListOptions):
    """Arguments of metrics of binary relevance without a cut-off."""

    rel: float | None = None


class RelevanceOptions(CutoffOptions, BinaryOptions):
    """Arguments of metrics of binary relevance."""


#: Order of the usual keyword arguments in signatures. Other arguments come before them.
_ORDER = (
    "k", "max_label", "rel", "flavour", "gain", "discount", "no_relevant", "ties", "per_query",
    "doc_ids",
)  # fmt: skip


@dataclass(frozen=True)
class MetricKind:
    """Entry of the registry: a metric without a cut-off and other options.

    Attributes
    ----------
    name : str
        Name in `parse_metric`.
    compute : callable
        ``compute(ranking, rules, **own)`` returns a `PerQuery`. `own` are the options that are
        not rules, such as a cut-off.
    options : subclass of MetricOptions
    aliases : tuple of str
        Other names in `parse_metric`.
    greater_is_better : bool
    """

    name: str
    compute: Callable[..., PerQuery]
    options: Callable[..., MetricOptions]
    aliases: tuple[str, ...] = ()
    greater_is_better: bool = True

    @lazy_property
    def defaults(self) -> dict[str, Any]:
        """All options of the metric with their defaults."""
        return vars(self.options())

    def values(self, ranking: Ranking, rules: Rules, **own: object) -> PerQuery:
        """Compute the metric for each query of a ranking; other options have their defaults."""
        usual = {name: value for name, value in self.defaults.items() if name not in _FOR_RULES}
        return self.compute(ranking, rules, **usual | own)

    def measure(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        qid: ArrayLike | None = None,
        *,
        per_query: bool = False,
        **given: Any,
    ) -> float | Vector:
        """Compute the mean of the metric, or one value per query."""
        for name in given:
            if name not in self.defaults:
                function = self.compute.__name__
                raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        own = vars(self.options(**given))
        shared = {name: own.pop(name) for name in _FOR_RULES if name in own}
        rules = resolve_rules(**shared)
        labels, gain = apply_gain(check_vector("y", y), rules.gain)
        data = group(labels, scores, qid, ties=rules.ties, doc_ids=shared.get("doc_ids"))
        depth = own.get("k")
        ranking = Ranking(data.y, data.scores, data.query_ptr, rules.ties, depth=depth)
        result = self.compute(ranking, replace(rules, gain=gain), **own)
        return data.in_order(result.values) if per_query else result.mean()


#: Options that choose the rules; a metric reads the others.
_FOR_RULES = ("flavour", "doc_ids", *_CHECKS)


def metric(
    name: str,
    options: Callable[P, MetricOptions],
    *,
    aliases: tuple[str, ...] = (),
    greater_is_better: bool = True,
) -> Callable[[Callable[..., PerQuery]], PublicMetric[P]]:
    """Turn a function of a ranking into a public metric, which `parse_metric` knows too.

    Parameters
    ----------
    name : str
        Name in `parse_metric`, in lower case.
    options : subclass of MetricOptions
        Arguments of the public metric beside `y`, `scores`, `qid` and `per_query`.
    aliases : tuple of str
        Other names in `parse_metric`.
    greater_is_better : bool
        False for errors.

    Returns
    -------
    callable
        Decorator of a function ``(ranking, rules, **own)`` that returns a `PerQuery`. The
        arguments `own` are the options that are not rules, such as `k`. The docstring describes
        the public metric.
    """

    def decorate(compute: Callable[..., PerQuery]) -> PublicMetric[P]:
        kind = MetricKind(name, compute, options, aliases, greater_is_better)

        def public(
            y: Any, scores: Any, qid: Any = None, *, per_query: bool = False, **given: Any
        ) -> Any:
            return kind.measure(y, scores, qid, per_query=per_query, **given)

        # doctest runs the examples of functions whose globals are those of the module.
        found: Any = FunctionType(
            public.__code__, compute.__globals__, None, public.__defaults__, public.__closure__
        )
        found.__kwdefaults__ = public.__kwdefaults__
        update_wrapper(found, compute, ("__module__", "__name__", "__qualname__", "__doc__"))
        found.__signature__ = _signature(options)
        found.kind = kind
        return found

    return decorate


@cache
def _signature(options: Callable[[], MetricOptions]) -> Signature:
    """Return the signature of a public metric: that of `measure`, with the options in `given`."""
    general, usual = signature(MetricKind.measure), options()
    _, *first, per_query, _ = general.parameters.values()
    keywords = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=vars(usual)[name], annotation=type_)
        for name, type_ in usual.types().items()
    ]
    keywords.append(per_query)
    keywords.sort(key=lambda one: _ORDER.index(one.name) if one.name in _ORDER else -1)
    return general.replace(parameters=[*first, *keywords])


def metric_kinds(module: ModuleType) -> list[MetricKind]:
    """Return the metrics that a module declares, in their order."""
    found = (getattr(value, "kind", None) for value in vars(module).values())
    return [kind for kind in found if isinstance(kind, MetricKind)]
