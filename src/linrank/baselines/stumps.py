"""Stumps (thresholds of single features): binning, search for the best stump, and models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .._jit import by_type, njit
from .._rows import choose_columns, copy_columns, kernel_matrix
from .._typing import Array, Integers, Vector
from ..data.checks import Matrix, check_finite, check_matrix, holds_missing
from ..errors import DataError
from ..model import Column, Content, Model, numbers
from .base import TIE_TOLERANCE

BLOCK = 2**12  #: documents that are scored at a time; more need more memory
LOWEST = float(np.finfo(np.float64).min)  #: threshold below all values, but not below missing ones

Codes: TypeAlias = NDArray[np.uint8] | NDArray[np.uint32]  #: bin numbers
Flags: TypeAlias = NDArray[np.bool_]


class Stumps(NamedTuple):
    """Parameters of the score H(x) = Σ_t alpha_t·[x_f > threshold_t] with f = feature_t."""

    feature: Integers
    threshold: Vector
    alpha: Vector


class DenseBins(NamedTuple):
    """Bin numbers of a dense matrix.

    ``codes[f, i]`` is the number of thresholds of feature f below its value in document i. If
    ``has_missing[f]``, bin 0 holds the documents without a value, and no others.
    """

    codes: Codes
    n_bins: Integers
    has_missing: Flags


class SparseBins(NamedTuple):
    """Bin numbers of the stored entries of a sparse matrix, feature by feature.

    Feature f owns the entries ``ptr[f]:ptr[f + 1]``, and ``zero[f]`` is the bin of the value 0.
    `has_missing` is that of `DenseBins`.
    """

    ptr: Integers
    docs: NDArray[np.int32]
    codes: Codes
    zero: Integers
    n_bins: Integers
    has_missing: Flags


def number_values(
    X: Matrix, rows: Integers, weight: Vector, n_thresholds: int | None
) -> tuple[DenseBins | SparseBins, list[Vector]]:
    """Choose the thresholds of each feature, and replace its values in the rows by bin numbers."""
    few = n_thresholds is not None and n_thresholds + holds_missing(X) < 2**8
    dtype = np.uint8 if few else np.uint32
    if sparse.issparse(X):
        return _number_sparse(sparse.csc_array(X[rows]), weight, n_thresholds, dtype)
    thresholds: list[Vector] = []
    codes = np.empty((X.shape[1], len(rows)), dtype)
    for f in range(X.shape[1]):
        values = X[rows, f].astype(np.float64)
        thresholds.append(choose_thresholds(values, weight, n_thresholds))
        codes[f] = _find_bins(thresholds[f], values)
    return DenseBins(codes, *_describe_bins(thresholds)), thresholds


def _number_sparse(
    X: sparse.csc_array,
    weight: Vector,
    n_thresholds: int | None,
    dtype: type[np.uint8] | type[np.uint32],
) -> tuple[SparseBins, list[Vector]]:
    thresholds: list[Vector] = []
    codes = np.empty(X.nnz, dtype)
    for f in range(X.shape[1]):
        own = slice(X.indptr[f], X.indptr[f + 1])
        mass = weight[X.indices[own]]
        values, rest = X.data[own].astype(np.float64), weight.sum() - mass.sum()
        if len(values) < X.shape[0]:
            values, mass = np.append(values, 0.0), np.append(mass, rest)
        thresholds.append(choose_thresholds(values, mass, n_thresholds))
        codes[own] = _find_bins(thresholds[f], X.data[own])
    zero = np.array([np.searchsorted(t, 0.0) for t in thresholds])
    ptr, docs = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    return SparseBins(ptr, docs, codes, zero, *_describe_bins(thresholds)), thresholds


def _find_bins(thresholds: Vector, values: Vector) -> Integers:
    """Return the number of thresholds below each value; 0 if the value is missing."""
    return np.where(np.isnan(values), 0, np.searchsorted(thresholds, values))


def _describe_bins(thresholds: list[Vector]) -> tuple[Integers, Flags]:
    """Return the number of bins of each feature, and whether bin 0 holds missing values."""
    n_bins = np.array([len(t) + 1 for t in thresholds])
    return n_bins, np.array([LOWEST in t[:1] for t in thresholds])


def choose_thresholds(values: Vector, mass: Vector, n: int | None) -> Vector:
    """Return all distinct values but the largest or, if these are more than n, n quantiles.

    The masses are the weights of the values in the quantiles. If some values are missing (NaN),
    `LOWEST` is a threshold, too, which separates the missing values from the others.

    Examples
    --------
    >>> choose_thresholds(np.array([3.0, 1.0, 2.0, 1.0]), np.ones(4), None)
    array([1., 2.])
    >>> choose_thresholds(np.arange(100.0), np.ones(100), 3)
    array([24., 49., 74.])
    """
    known = ~np.isnan(values)
    if not known.all():
        found = choose_thresholds(values[known], mass[known], n)
        return np.append(LOWEST, found) if known.any() else found
    levels, inverse = np.unique(values, return_inverse=True)
    if n is None or len(levels) - 1 <= n:
        return levels[:-1]
    upto = np.cumsum(np.bincount(inverse, mass))
    picked = np.unique(np.searchsorted(upto, upto[-1] * np.arange(1, n + 1) / (n + 1)))
    return levels[picked[picked < len(levels) - 1]]


def _fill_dense(bins, f, potential, sums):  # type: ignore[no-untyped-def]
    codes = bins.codes[f]
    for i in range(len(codes)):
        sums[codes[i]] += potential[i]


def _fill_sparse(bins, f, potential, sums):  # type: ignore[no-untyped-def]
    # All potentials sum to 0, so documents without an entry have minus the sum of the entries.
    total = 0.0
    for e in range(bins.ptr[f], bins.ptr[f + 1]):
        value = potential[bins.docs[e]]
        sums[bins.codes[e]] += value
        total += value
    sums[bins.zero[f]] -= total


def _add_dense(bins, f, k, default, alpha, scores):  # type: ignore[no-untyped-def]
    codes = bins.codes[f]
    for i in range(len(codes)):
        if codes[i] > k or (default and codes[i] == 0):
            scores[i] += alpha


def _add_sparse(bins, f, k, default, alpha, scores):  # type: ignore[no-untyped-def]
    # Adds alpha up to a constant that is the same for all documents: those without an entry stay
    # as they are. The constant cancels in score differences.
    base = bins.zero[f] > k
    for e in range(bins.ptr[f], bins.ptr[f + 1]):
        above = bins.codes[e] > k or (default and bins.codes[e] == 0)
        if above != base:
            scores[bins.docs[e]] += alpha if above else -alpha


_fill = by_type(
    0, {DenseBins: njit(_fill_dense, inner=True), SparseBins: njit(_fill_sparse, inner=True)}
)
_add = by_type(
    0, {DenseBins: njit(_add_dense, inner=True), SparseBins: njit(_add_sparse, inner=True)}
)


@njit(allocates=True)
def best_stump(bins, potential):  # type: ignore[no-untyped-def]
    """Return feature, number of the threshold, default and r of the stump with the largest |r|.

    The default is the value of the stump for missing values. It is 1 only if the feature has
    missing values and this enlarges |r|. The feature is −1 if r is 0 for all stumps.
    """
    buffer = np.empty(bins.n_bins.max())
    feature, threshold, default, best = -1, 0, False, 0.0
    for f in range(len(bins.n_bins)):
        sums = buffer[: bins.n_bins[f]]
        sums[:] = 0.0
        _fill(bins, f, potential, sums)
        r = 0.0
        for k in range(len(sums) - 1, 0, -1):
            r += sums[k]
            if abs(r) > abs(best) + TIE_TOLERANCE:
                feature, threshold, default, best = f, k - 1, False, r
            if bins.has_missing[f] and abs(r + sums[0]) > abs(best) + TIE_TOLERANCE:
                feature, threshold, default, best = f, k - 1, True, r + sums[0]
    return feature, threshold, default, best


@njit
def add_stump(bins, f, k, default, alpha, scores):  # type: ignore[no-untyped-def]
    """Add alpha to the scores of the documents whose value is above threshold k of feature f.

    If `default` is true, add it to those whose value is missing, too.
    """
    _add(bins, f, k, default, alpha, scores)


class StumpModel(Model):
    """Model with the score ``Σ_t alpha_t·[x_f > threshold_t]``.

    If x_f is missing (NaN), the default of the stump takes the place of [x_f > threshold_t].

    Parameters
    ----------
    stumps : Stumps
        Feature, threshold and alpha of each stump.
    n_features : int
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.
    defaults : array of shape (n_stumps,), optional
        Default of each stump, 0 or 1. None: missing values are refused.

    Examples
    --------
    >>> stumps = Stumps(np.array([0, 1]), np.array([0.5, 2.0]), np.array([1.0, -0.25]))
    >>> StumpModel(stumps, n_features=2).predict([[1.0, 1.0], [1.0, 3.0], [0.5, 3.0]]).tolist()
    [1.0, 0.75, -0.25]
    >>> model = StumpModel(stumps, n_features=2, defaults=[0, 1])
    >>> model.predict([[np.nan, 3.0], [1.0, np.nan]]).tolist()
    [-0.25, 0.75]
    """

    format = "linrank-stumps"
    is_additive = True

    def __init__(
        self,
        stumps: Stumps,
        n_features: int,
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
        defaults: ArrayLike | None = None,
    ) -> None:
        feature = np.array(stumps.feature, np.int64)
        threshold, alpha = (np.array(x, np.float64) for x in (stumps.threshold, stumps.alpha))
        if not feature.shape == threshold.shape == alpha.shape == (feature.size,):
            raise DataError("features, thresholds and alphas must be vectors of one length")
        if feature.size and not 0 <= feature.min() <= feature.max() < n_features:
            raise DataError(f"features of stumps must be among 0, …, {n_features - 1}")
        if not np.isfinite([threshold, alpha]).all():
            raise DataError("thresholds and alphas must be finite numbers")
        super().__init__(n_features, feature_names, index_base, settings, training)
        self.stumps = Stumps(feature, threshold, alpha)
        self.defaults: Flags | None = None
        if defaults is not None:
            if np.shape(defaults) != feature.shape or not np.isin(defaults, (0, 1)).all():
                raise DataError("defaults must be 0 or 1 for each stump")
            self.defaults = np.array(defaults, np.bool_)

    @property
    def fills(self) -> bool:
        """Whether documents may have missing values."""
        return self.defaults is not None

    @property
    def version(self) -> int:
        """The oldest layout of model files that can hold this model."""
        return 2 if self.fills else 1

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        X = check_matrix(X)
        check_finite(X, None, allow_missing=self.fills)
        scores = np.zeros(X.shape[0])
        for first in range(0, X.shape[0], BLOCK):
            block = scores[first : first + BLOCK]
            for part in self._walk(X, first, first + len(block)):
                block += part
        return scores

    def staged_scores(self, X: Matrix) -> Iterator[Vector]:
        """Yield the scores of a checked matrix by the first stump, the first two, and so on."""
        scores = np.zeros(X.shape[0])
        for part in self._walk(X, 0, X.shape[0]):
            scores = scores + part
            yield scores

    def _walk(self, X: Matrix, first: int, last: int) -> Iterator[Vector]:
        """Yield the part of each stump in the scores of some documents."""
        used, column = np.unique(self.stumps.feature, return_inverse=True)
        values = np.zeros((len(used), last - first))
        chosen = choose_columns(used, self.n_features)
        copy_columns(kernel_matrix(X), first, last, chosen, values)
        _, threshold, alpha = self.stumps
        for t, k in enumerate(column):
            above = values[k] > threshold[t]
            if self.defaults is not None and self.defaults[t]:
                above |= np.isnan(values[k])
            yield alpha[t] * above

    def parts(self, X: Array, documents: Array | None = None) -> Vector:
        """Return the part of each feature in the scores of some rows. See `Model.parts`."""
        parts = np.zeros(X.shape)
        walk = self._walk(check_matrix(X), 0, len(X))
        for f, part in zip(self.stumps.feature, walk, strict=True):
            parts[:, f] += part
        return parts

    def facts(self) -> dict[str, object]:
        """Return the number of stumps."""
        return {"stumps": len(self.stumps.feature)}

    def columns(self) -> list[Column]:
        """Return the number of stumps of each feature, and the sum of their absolute weights."""
        feature, size = self.stumps.feature, np.abs(self.stumps.alpha)
        counts = np.bincount(feature, minlength=self.n_features)
        weights = np.bincount(feature, size, minlength=self.n_features)
        return [
            Column("stumps", counts, "number of stumps"),
            Column("total_weight", weights, "sum of the absolute weights of the stumps"),
        ]

    def _parameters(self) -> Content:
        content: Content = {
            "features": self.stumps.feature.tolist(),
            "thresholds": self.stumps.threshold.tolist(),
            "alphas": self.stumps.alpha.tolist(),
        }
        if self.defaults is not None:
            content["defaults"] = self.defaults.astype(int).tolist()
        return content

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        feature = numbers(content, "features")
        if not all(type(f) is int for f in feature):
            raise DataError("features must be whole numbers")
        threshold, alpha = (np.array(numbers(content, name)) for name in ("thresholds", "alphas"))
        if "defaults" in content:
            shared["defaults"] = numbers(content, "defaults")
        stumps = Stumps(np.array(feature, np.int64), threshold, alpha)
        return cls(stumps, content["n_features"], **shared)
