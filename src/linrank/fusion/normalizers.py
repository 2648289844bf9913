"""Normalisers of search engines: scores of one retriever in one query, made comparable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from .._compile.jit import njit
from .._util.checks import choice, positive_number
from .._util.types import Integers, Vector

NormalizerName: TypeAlias = Literal[
    "none", "minmax", "minmax-elasticsearch", "minmax-opensearch", "minmax-vespa", "l2", "zscore",
    "zscore-opensearch", "dbsf", "rank", "rrf",
]  # fmt: skip
RRF_K = 60.0  #: usual rank constant k of 1/(k + rank)
FLOOR = 0.001  #: smallest score of OpenSearch for a document that a sub-query returned


class ListStatistics(NamedTuple):
    """Statistics of each list: arrays of shape (n_queries, n_retrievers); 0 for empty lists."""

    n: Vector
    low: Vector
    high: Vector
    mean: Vector
    deviation: Vector  #: of a sample: divided by n − 1
    norm: Vector


class Affine(NamedTuple):
    """The score s becomes (s − shift)·factor, or `constant` where `is_constant`."""

    shift: Vector
    factor: Vector
    constant: Vector
    missing: Vector  #: the value of a document that the retriever did not return


def _affine(
    shift: Vector, width: Vector, constant: Vector | float, missing: Vector | float = 0.0
) -> Affine:
    """Return (s − shift)/width; lists of width 0 get `constant`, by a factor that is NaN."""
    factor = np.full_like(width, np.nan)
    np.divide(1.0, width, out=factor, where=width > 0)
    shape = width.shape
    return Affine(shift, factor, np.broadcast_to(constant, shape), np.broadcast_to(missing, shape))


def _minmax(found: ListStatistics, constant: Vector | float) -> Affine:
    return _affine(found.low, found.high - found.low, constant)


def _vespa(found: ListStatistics) -> Affine:
    width = found.high - found.low
    scale = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
    return _affine(found.low, width, 0.5, np.where(width > 0, -found.low * scale, 0.5))


def _zscore(found: ListStatistics) -> Affine:
    lowest = np.zeros_like(found.mean)
    np.divide(found.low - found.mean, found.deviation, out=lowest, where=found.deviation > 0)
    return _affine(found.mean, found.deviation, 0.0, lowest)


def _dbsf(found: ListStatistics) -> Affine:
    return _affine(found.mean - 3.0 * found.deviation, 6.0 * found.deviation, 0.5)


_AFFINE: dict[str, Callable[[ListStatistics], Affine]] = {
    "none": lambda found: _affine(np.zeros_like(found.mean), np.ones_like(found.mean), 0.0),
    "minmax": lambda found: _minmax(found, 1.0),
    "minmax-elasticsearch": lambda found: _minmax(found, found.low),
    "minmax-opensearch": lambda found: _minmax(found, 1.0),
    "minmax-vespa": _vespa,
    "l2": lambda found: _affine(np.zeros_like(found.norm), found.norm, 0.0),
    "zscore": _zscore,
    "zscore-opensearch": lambda found: _affine(found.mean, found.deviation, found.low),
    "dbsf": _dbsf,
}
NORMALIZERS: tuple[str, ...] = (*_AFFINE, "rank", "rrf")


@dataclass(frozen=True)
class Normalizer:
    """A normaliser of the scores that one retriever gives to the documents of one query.

    A score s of a list with the smallest score a, the largest score b, the mean m, the standard
    deviation σ (divided by n − 1) and the rank r (from 1) becomes:

    - ``"none"``: s.
    - ``"minmax"``: (s − a)/(b − a); 1 if a = b. This is the relative score fusion of Weaviate.
    - ``"minmax-elasticsearch"``: the same; s if a = b.
    - ``"minmax-opensearch"``: the same; 1 if a = b, and 0.001 for the last document.
    - ``"minmax-vespa"``: the same; ½ if a = b. Documents that were not returned have s = 0 and
      belong to the list.
    - ``"l2"``: s/√Σs².
    - ``"zscore"``: (s − m)/σ; 0 if σ = 0. Documents that were not returned get that of a.
    - ``"zscore-opensearch"``: the same, and 0.001 if this is not positive; b if s = m, a if σ = 0.
    - ``"dbsf"``: (s − m + 3σ)/6σ; ½ if σ = 0. This is the fusion by distributions of Qdrant.
    - ``"rank"``: 1 − (r − 1)/n.
    - ``"rrf"``: 1/(k + r).

    Documents that the retriever did not return get 0, unless the list says otherwise.

    Parameters
    ----------
    name : str
    k : float
        The rank constant of ``"rrf"``.

    Examples
    --------
    >>> scores = np.array([[4.0], [1.0], [np.nan], [2.0]])
    >>> Normalizer("minmax").apply(scores, np.array([0, 4])).ravel().round(3).tolist()
    [1.0, 0.0, 0.0, 0.333]
    >>> Normalizer("rrf").apply(scores, np.array([0, 4])).ravel().round(4).tolist()
    [0.0164, 0.0159, 0.0, 0.0161]
    """

    name: NormalizerName = "minmax"
    k: float = RRF_K

    def __post_init__(self) -> None:
        choice("normalizer", self.name, NORMALIZERS)
        positive_number("k", self.k)

    @property
    def uses_ranks(self) -> bool:
        """Whether only the order of the scores counts."""
        return self.name in ("rank", "rrf")

    def apply(self, scores: Vector, query_ptr: Integers) -> Vector:
        """Return the normalised scores of all retrievers.

        Parameters
        ----------
        scores : float64 array of shape (n_docs, n_retrievers)
            NaN for documents that a retriever did not return.
        query_ptr : int64 array
            The rows of query q are ``query_ptr[q]:query_ptr[q + 1]``.
        """
        if self.uses_ranks:
            return self.of_ranks(ranks_of(scores, query_ptr), query_ptr)
        if self.name == "minmax-vespa":
            scores = np.nan_to_num(scores, nan=0.0)
        out = np.empty_like(scores)
        found = list_statistics(scores, query_ptr)
        _apply_affine(scores, query_ptr, *_AFFINE[self.name](found), out)
        returned = ~np.isnan(scores)
        if self.name == "minmax-opensearch":
            out[returned & (out == 0.0)] = FLOOR
        elif self.name == "zscore-opensearch":
            query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
            varies = found.deviation[query] > 0
            out[returned & varies & (out <= 0.0)] = FLOOR
            at_mean = returned & (scores == found.mean[query])
            out[at_mean] = found.high[query][at_mean]
        return out

    def of_ranks(self, ranks: Integers, query_ptr: Integers) -> Vector:
        """Return the normalised scores, given ranks from 1; 0 is a document not returned."""
        if self.name == "rrf":
            return np.where(ranks > 0, 1.0 / (self.k + ranks), 0.0)
        sizes = np.maximum.reduceat(ranks, query_ptr[:-1])
        n = np.repeat(sizes, np.diff(query_ptr), axis=0)
        return np.where(ranks > 0, 1.0 - (ranks - 1.0) / np.maximum(n, 1), 0.0)


def list_statistics(scores: Vector, query_ptr: Integers) -> ListStatistics:
    """Return statistics of the scores of each retriever in each query; NaN is left out."""
    shape = (len(query_ptr) - 1, scores.shape[1])
    found = ListStatistics(*(np.zeros(shape) for _ in ListStatistics._fields))
    _fill_statistics(scores, query_ptr, *found)
    return found


def ranks_of(scores: Vector, query_ptr: Integers) -> Integers:
    """Return the rank of each document in each list, from 1; 0 if it was not returned.

    Documents of equal score keep the order of their rows.

    Examples
    --------
    >>> ranks_of(np.array([[1.0], [np.nan], [3.0], [1.0]]), np.array([0, 4])).ravel().tolist()
    [2, 0, 1, 3]
    """
    ranks = np.zeros(scores.shape, np.int64)
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    for r, column in enumerate(scores.T):
        rows = np.flatnonzero(~np.isnan(column))
        rows = rows[np.lexsort((-column[rows], query[rows]))]
        starts = np.searchsorted(query[rows], np.arange(len(query_ptr)))
        ranks[rows, r] = np.arange(len(rows)) - starts[query[rows]] + 1
    return ranks


@njit
def _fill_statistics(scores, query_ptr, n, low, high, mean, deviation, norm):  # type: ignore[no-untyped-def]
    n_retrievers = scores.shape[1]
    for q in range(len(query_ptr) - 1):
        for i in range(query_ptr[q], query_ptr[q + 1]):
            for r in range(n_retrievers):
                s = scores[i, r]
                if s == s:
                    low[q, r] = s if n[q, r] == 0.0 or s < low[q, r] else low[q, r]
                    high[q, r] = s if n[q, r] == 0.0 or s > high[q, r] else high[q, r]
                    n[q, r] += 1.0
                    mean[q, r] += (s - mean[q, r]) / n[q, r]
                    norm[q, r] += s * s
        for i in range(query_ptr[q], query_ptr[q + 1]):
            for r in range(n_retrievers):
                s = scores[i, r]
                if s == s:
                    deviation[q, r] += (s - mean[q, r]) ** 2
        for r in range(n_retrievers):
            norm[q, r] = np.sqrt(norm[q, r])
            if low[q, r] == high[q, r]:  # rounding must not make a constant list vary
                mean[q, r], deviation[q, r] = low[q, r], 0.0
            elif n[q, r] > 1.0:
                deviation[q, r] = np.sqrt(deviation[q, r] / (n[q, r] - 1.0))


@njit
def _apply_affine(scores, query_ptr, shift, factor, constant, missing, out):  # type: ignore[no-untyped-def]
    for q in range(len(query_ptr) - 1):
        for i in range(query_ptr[q], query_ptr[q + 1]):
            for r in range(scores.shape[1]):
                s = scores[i, r]
                if s != s:
                    out[i, r] = missing[q, r]
                elif factor[q, r] != factor[q, r]:
                    out[i, r] = constant[q, r]
                else:
                    out[i, r] = (s - shift[q, r]) * factor[q, r]
