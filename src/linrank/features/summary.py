"""Statistics of features: range, mean, standard deviation and quantiles."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from .._jit import by_type, njit
from .._rows import CSR, kernel_matrix, n_tasks, row_ranges
from .._threads import resolve_threads, run
from .._typing import Mask, Vector
from ..data.checks import Matrix
from ..errors import DataError

BLOCK_COLUMNS = 16  #: features whose quantiles are computed at a time; more take more memory
FAR = 10.0  #: distance from the training range at which one value is a warning, in its widths
OFTEN = 0.05  #: share of documents whose distance of one width is a warning
CONSTANT = 16 * np.finfo(float).eps  #: deviations below this multiple of the mean are rounding


@dataclass(frozen=True)
class FeatureSummary:
    """Statistics of each feature in the training data; missing values are left out.

    Attributes
    ----------
    minimum, maximum : float64 arrays of shape (n_features,)
        Range of the values as given.
    mean, deviation : float64 arrays of shape (n_features,)
        Mean and standard deviation of the values that the weights multiply. They differ from those
        of the given values if preprocessing is not linear.
    """

    minimum: Vector
    maximum: Vector
    mean: Vector
    deviation: Vector

    @classmethod
    def from_content(cls, content: Any, n_features: int) -> Self:
        """Make the statistics from the entry of a model file; raise a `DataError` if damaged."""
        names = [entry.name for entry in fields(cls)]
        if not isinstance(content, dict) or content.keys() != set(names):
            raise DataError(f"summary must have the entries {', '.join(names)}")
        found = [np.array(content[name], dtype=np.float64) for name in names]
        if any(values.shape != (n_features,) or np.isnan(values).any() for values in found):
            raise DataError(f"summary must have {n_features} numbers in each entry")
        return cls(*found)


class _Sums(NamedTuple):
    """Running statistics of each feature; `total` and `squares` are those of x − origin."""

    low: Vector
    high: Vector
    n_values: Vector
    total: Vector
    squares: Vector


@njit
def _add_dense(X, first, last, origin, low, high, count, total, squares):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        for f in range(X.shape[1]):
            x = np.float64(X[i, f])
            known = x == x
            d = x - origin[f] if known else 0.0
            low[f] = x if x < low[f] else low[f]
            high[f] = x if x > high[f] else high[f]
            count[f] += 1.0 if known else 0.0
            total[f] += d
            squares[f] += d * d


@njit
def _add_csr(X, first, last, origin, low, high, count, total, squares):  # type: ignore[no-untyped-def]
    for e in range(X.indptr[first], X.indptr[last]):
        x, f = np.float64(X.data[e]), X.indices[e]
        if x == x:
            low[f] = x if x < low[f] else low[f]
            high[f] = x if x > high[f] else high[f]
            count[f] += 1.0
            total[f] += x
            squares[f] += x * x


_add = by_type(0, {CSR: _add_csr}, _add_dense)


def summarise(X: Matrix, n_threads: int | None = None) -> FeatureSummary:
    """Compute range, mean and standard deviation of each feature in one pass over X.

    Sums are those of x − x₀, where x₀ is the first row. Without it, the deviation of a feature with
    an offset of 1e8 would lose all digits. A feature without any value has the range 0 to 0.

    Examples
    --------
    >>> found = summarise(np.array([[1.0, 5.0], [3.0, np.nan]]))
    >>> found.minimum.tolist(), found.maximum.tolist(), found.deviation.tolist()
    ([1.0, 5.0], [3.0, 5.0], [1.0, 0.0])
    """
    n_threads, d = resolve_threads(n_threads), X.shape[1]
    origin = np.zeros(d)
    if not sparse.issparse(X):
        np.copyto(origin, X[0], where=np.isfinite(X[0]))
    ranges = row_ranges(X, n_tasks(X, n_threads))
    parts = [
        _Sums(np.full(d, np.inf), np.full(d, -np.inf), *(np.zeros(d) for _ in range(3)))
        for _ in ranges
    ]
    matrix = kernel_matrix(X)
    run(
        _add,
        [(matrix, a, b, origin, *p) for (a, b), p in zip(ranges, parts, strict=True)],
        n_threads,
    )
    low = np.minimum.reduce([part.low for part in parts])
    high = np.maximum.reduce([part.high for part in parts])
    count, total, squares = (
        np.sum([part[k] for part in parts], axis=0) for k in range(2, len(_Sums._fields))
    )
    if sparse.issparse(X):
        stored = _stored(X)
        low, high = (np.where(stored < X.shape[0], limit(side, 0.0), side)
                     for limit, side in ((np.minimum, low), (np.maximum, high)))  # fmt: skip
        count = count + (X.shape[0] - stored)  # entries that are not stored are 0
    empty = count == 0
    count = np.maximum(count, 1.0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0.0))
    mean += origin
    deviation[deviation <= CONSTANT * np.abs(mean)] = 0.0
    return FeatureSummary(np.where(empty, 0.0, low), np.where(empty, 0.0, high), mean, deviation)


def _stored(X: sparse.csr_array) -> Vector:
    """Return the number of stored entries of each feature, missing values included."""
    return np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)


def quantiles(X: Matrix, q: tuple[float, ...]) -> Vector:
    """Return quantiles of each feature, as an array of shape (len(q), n_features).

    Missing values are left out. A feature without any value has the quantiles 0.

    Examples
    --------
    >>> quantiles(np.array([[1.0], [2.0], [4.0], [np.nan]]), (0.5,)).tolist()
    [[2.0]]
    """
    found = np.zeros((len(q), X.shape[1]))
    if sparse.issparse(X):
        columns = sparse.csc_array(X)
        for f in range(X.shape[1]):
            entries = columns.data[columns.indptr[f] : columns.indptr[f + 1]]
            found[:, f] = _quantiles_with_zeros(entries, X.shape[0] - len(entries), q)
        return found
    for f in range(0, X.shape[1], BLOCK_COLUMNS):
        for column in np.asarray(X[:, f : f + BLOCK_COLUMNS], dtype=np.float64).T:
            found[:, f] = _quantiles_with_zeros(column, 0, q)
            f += 1
    return found


def _quantiles_with_zeros(values: Vector, n_zeros: int, q: tuple[float, ...]) -> Vector:
    """Return quantiles of some values and of `n_zeros` zeros, interpolated as numpy does."""
    values = values[~np.isnan(values)]
    n = len(values) + n_zeros
    if not n:
        return np.zeros(len(q))
    if not n_zeros:
        return np.quantile(values, q)
    values = np.sort(values)
    n_below = int(np.searchsorted(values, 0.0))

    def at(k: int) -> float:
        if n_below <= k < n_below + n_zeros:
            return 0.0
        return float(values[k if k < n_below else k - n_zeros])

    places = [(n - 1) * share for share in q]
    ends = [(at(int(p)), at(min(int(p) + 1, n - 1)), p % 1) for p in places]
    return np.array([below + part * (above - below) for below, above, part in ends])


def outside(X: Matrix, summary: FeatureSummary) -> Mask:
    """Return which features of some documents are far outside their training range.

    A feature is far outside if a value is more than `FAR` widths of the range away from it, or if
    the share `OFTEN` of the documents is more than one width away. Single values of features with
    long tails are no warning. Features that were constant in the training data have no width, and
    are never outside.

    Examples
    --------
    >>> trained = summarise(np.array([[0.0, 1.0], [2.0, 1.0]]))
    >>> outside(np.array([[5.0, 9.0]]), trained).tolist()
    [True, False]
    """
    width = summary.maximum - summary.minimum
    width[width == 0] = np.inf
    if sparse.issparse(X):
        feature, values = X.indices, X.data
        beyond = np.maximum(summary.minimum[feature] - values, values - summary.maximum[feature])
        beyond = np.nan_to_num(beyond, nan=0.0) / width[feature]
        n_far = np.bincount(feature[beyond > FAR], minlength=X.shape[1])
        n_near = np.bincount(feature[beyond > 1.0], minlength=X.shape[1])
    else:
        beyond = np.maximum(summary.minimum - X, X - summary.maximum) / width
        n_far, n_near = (beyond > FAR).sum(axis=0), (beyond > 1.0).sum(axis=0)
    return (n_far > 0) | (n_near > OFTEN * X.shape[0])
