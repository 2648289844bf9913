"""Statistics of features: range, mean, standard deviation, quantiles, and warnings about them.

Range, mean and deviation come from the pass over X that computes a product Xv. The product is
computed for a block of rows. These rows are then still in the cache, where their statistics cost
little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from .._compile.jit import njit
from .._util.parallel import resolve_threads, run
from .._util.types import Integers, Mask, Vector
from ..errors import DataError, FeatureRangeWarning, FeatureScaleWarning, warn
from .rows import UserMatrix, kernel_matrix, matvec, n_tasks, row_ranges

BLOCK_BYTES = 2**16  #: bytes of X in a block of rows; larger blocks leave the first-level caches
MOST_SUMMARISED = 10_000  #: features of which a model file holds statistics, if it has no more
CONSTANT = 16 * np.finfo(float).eps  #: deviations below this multiple of the mean are rounding
BLOCK_COLUMNS = 16  #: features whose quantiles are computed at a time; more take more memory
CHECKED_ROWS = 100  #: documents whose features are compared with the training range
FAR = 10.0  #: distance from the training range at which one value is a warning, in its widths
OFTEN = 0.05  #: share of documents whose distance of one width is a warning
SCALE_RATIO = 1e12  #: ratio of two deviations from which on a fit without `scale` gets a warning


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

    def first(self, n: int) -> FeatureSummary:
        """Return the statistics of the first n features."""
        return FeatureSummary(*(values[:n] for values in vars(self).values()))

    @classmethod
    def from_content(cls, content: Any, n_features: int) -> Self:
        """Make the statistics from the entry of a model file; raise a `DataError` if damaged."""
        names = [entry.name for entry in fields(cls)]
        if not isinstance(content, dict) or content.keys() != set(names):
            raise DataError(f"summary must have the entries {', '.join(names)}")
        found = cls(*(finite_numbers(content[n], f"{n} of summary", n_features) for n in names))
        if (found.minimum > found.maximum).any() or (found.deviation < 0).any():
            raise DataError("summary has a minimum above the maximum, or a negative deviation")
        return found


def finite_numbers(values: object, name: str, n: int, optional: bool = False) -> Vector:
    """Return a list of n finite numbers in a model file as an array.

    If `optional` is true, numbers may be null, which becomes NaN.
    """
    kinds = (int, float, type(None)) if optional else (int, float)
    if not isinstance(values, list) or any(type(v) not in kinds for v in values):
        raise DataError(f"{name} is not a list of numbers")
    if len(values) != n:
        raise DataError(f"{name} has {len(values)} entries for {n} features")
    if not all(v is None or np.isfinite(float(v)) for v in values):
        raise DataError(f"{name} has numbers that are not finite")
    return np.array(values, dtype=np.float64)


# Range, mean and deviation -----------------------------------------------------------------------


class _Sums(NamedTuple):
    """Running statistics of each feature in some rows.

    `total` and `squares` are those of x − origin, where `origin` is the first value. Without it,
    the deviation of a feature with an offset of 1e8 would lose all digits.
    """

    low: Vector
    high: Vector
    n_values: Vector
    origin: Vector
    total: Vector
    squares: Vector


def summarise(
    X: UserMatrix, n_threads: int | None = None, weight: Vector | None = None
) -> FeatureSummary:
    """Compute range, mean and standard deviation of each feature in one pass over X.

    A feature without any value has the range 0 to 0. A row of weight 2 counts as two rows, and a
    row of weight 0 does not count.

    Examples
    --------
    >>> found = summarise(np.array([[1.0, 5.0], [3.0, np.nan]]))
    >>> found.minimum.tolist(), found.maximum.tolist(), found.deviation.tolist()
    ([1.0, 5.0], [3.0, 5.0], [1.0, 0.0])
    >>> summarise(np.array([[1.0], [4.0], [9.0]]), weight=np.array([2.0, 1.0, 0.0])).mean.tolist()
    [2.0]
    """
    if not sparse.issparse(X):
        return multiply_and_summarise(X, np.ones(X.shape[1]), n_threads, weight)[1]
    n_threads, weight = resolve_threads(n_threads), np.empty(0) if weight is None else weight
    ranges = row_ranges(X, n_tasks(X, n_threads))
    matrix, parts = kernel_matrix(X), [_no_sums(X.shape[1]) for _ in ranges]
    tasks = [(matrix, a, b, weight, *part) for (a, b), part in zip(ranges, parts, strict=True)]
    run(_add_csr, tasks, n_threads)
    return _joined([*parts, _zeros(X, weight)])


def multiply_and_summarise(
    X: UserMatrix, v: Vector, n_threads: int | None = None, weight: Vector | None = None
) -> tuple[Vector, FeatureSummary]:
    """Compute Xv and the statistics of the features of a dense X in one pass; see `summarise`.

    No entry of v may be 0: Xv tells which rows have missing values.

    Examples
    --------
    >>> product, found = multiply_and_summarise(np.array([[1.0, 5.0], [3.0, 7.0]]), np.ones(2))
    >>> product.tolist(), found.mean.tolist()
    ([6.0, 10.0], [2.0, 6.0])
    """
    n_threads, weight = resolve_threads(n_threads), np.empty(0) if weight is None else weight
    ranges = row_ranges(X, n_tasks(X, n_threads))
    matrix, out, parts = kernel_matrix(X), np.empty(len(X)), [_no_sums(len(v)) for _ in ranges]
    block = max(1, BLOCK_BYTES // max(1, X.shape[1] * X.dtype.itemsize))
    tasks = [
        (matrix, a, b, block, v, out[a:b], weight, *part)
        for (a, b), part in zip(ranges, parts, strict=True)
    ]
    run(_multiply_and_add, tasks, n_threads)
    return out, _joined(parts)


def _no_sums(n_features: int) -> _Sums:
    ends = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    return _Sums(*ends, *np.zeros((4, n_features)))


@njit
def _multiply_and_add(  # type: ignore[no-untyped-def]
    X, first, last, block, v, out, weight, low, high, count, origin, total, squares
):
    """Compute Xv, and add rows to the statistics, one block of rows after another.

    A row without missing values gives each feature an origin. If the product of each row of a block
    is finite, all rows after the first are therefore added by a loop without tests. Rows with
    weights are added one by one.
    """
    for a in range(first, last, block):
        b = min(a + block, last)
        matvec(X, a, b, v, out[a - first : b - first])
        known = len(weight) == 0
        for i in range(a - first, b - first):
            known &= np.isfinite(out[i])
        middle = a + 1 if known else b
        _add_rows(X, a, middle, weight, low, high, count, origin, total, squares)
        _add_known_rows(X, middle, b, weight, low, high, count, origin, total, squares)


@njit(inner=True)
def _add_rows(X, first, last, weight, low, high, count, origin, total, squares):  # type: ignore[no-untyped-def]
    """Add rows that may have weights and missing values."""
    for i in range(first, last):
        c = weight[i] if len(weight) else 1.0
        if c == 0.0:
            continue
        for f in range(X.shape[1]):
            x = np.float64(X[i, f])
            known = x == x
            origin[f] = x if known and count[f] == 0.0 else origin[f]
            d = x - origin[f] if known else 0.0
            low[f] = x if x < low[f] else low[f]
            high[f] = x if x > high[f] else high[f]
            count[f] += c if known else 0.0
            total[f] += c * d
            squares[f] += c * d * d


@njit(inner=True)
def _add_known_rows(X, first, last, weight, low, high, count, origin, total, squares):  # type: ignore[no-untyped-def]
    """Do what `_add_rows` does for rows without weights and missing values, four at a time."""
    n = (last - first) // 4 * 4
    for f in range(X.shape[1]):
        count[f] += n
    for i in range(first, first + n, 4):
        for f in range(X.shape[1]):
            a, b = np.float64(X[i, f]), np.float64(X[i + 1, f])
            c, d = np.float64(X[i + 2, f]), np.float64(X[i + 3, f])
            least, least_too = a if a < b else b, c if c < d else d
            most, most_too = a if a > b else b, c if c > d else d
            least = least if least < least_too else least_too
            most = most if most > most_too else most_too
            low[f] = least if least < low[f] else low[f]
            high[f] = most if most > high[f] else high[f]
            a, b, c, d = a - origin[f], b - origin[f], c - origin[f], d - origin[f]
            total[f] += (a + b) + (c + d)
            squares[f] += (a * a + b * b) + (c * c + d * d)
    _add_rows(X, first + n, last, weight, low, high, count, origin, total, squares)


@njit
def _add_csr(X, first, last, weight, low, high, count, origin, total, squares):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        c = weight[i] if len(weight) else 1.0
        if c == 0.0:
            continue
        for e in range(X.indptr[i], X.indptr[i + 1]):
            x, f = np.float64(X.data[e]), X.indices[e]
            if x == x:
                if count[f] == 0.0:
                    origin[f] = x
                d = x - origin[f]
                low[f] = x if x < low[f] else low[f]
                high[f] = x if x > high[f] else high[f]
                count[f] += c
                total[f] += c * d
                squares[f] += c * d * d


def _zeros(X: sparse.csr_array, weight: Vector) -> _Sums:
    """Return the statistics of the entries that are not stored, which are 0."""
    d, weight = X.shape[1], weight if len(weight) else np.ones(X.shape[0])
    of_entries = np.repeat(weight, np.diff(X.indptr))
    n_stored = np.bincount(X.indices[of_entries > 0], minlength=d)
    n_zeros = weight.sum() - np.bincount(X.indices, of_entries, d)
    n_zeros[n_stored == np.count_nonzero(weight)] = 0.0  # the difference may be a rounding error
    end = np.where(n_zeros > 0, 0.0, np.inf)
    nothing = np.zeros(X.shape[1])
    return _Sums(end, -end, n_zeros, nothing, nothing, nothing)


def _joined(parts: list[_Sums]) -> FeatureSummary:
    """Return the statistics of all rows (Chan, Golub & LeVeque 1983, eq. 2.1).

    Deviations of values above 1e154 overflow. They are replaced by their upper limit, which is half
    of the range.
    """
    low = np.minimum.reduce([part.low for part in parts])
    high = np.maximum.reduce([part.high for part in parts])
    counts = np.array([part.n_values for part in parts])
    n = counts.sum(axis=0)
    low, high = np.where(n > 0, low, 0.0), np.where(n > 0, high, 0.0)
    totals, squares = (np.array([part[k] for part in parts]) for k in (4, 5))
    share = counts / np.maximum(n, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        shifts = totals / np.maximum(counts, 1.0)
        means = np.array([part.origin for part in parts]) + shifts
        mean = np.clip((share * means).sum(axis=0), low, high)
        within = (squares - totals * shifts).sum(axis=0) / np.maximum(n, 1.0)
        deviation = np.sqrt(np.maximum(within + (share * (means - mean) ** 2).sum(axis=0), 0.0))
    deviation = np.where(np.isfinite(deviation), deviation, 0.5 * high - 0.5 * low)
    mean = np.where(np.isfinite(mean), mean, 0.5 * high + 0.5 * low)
    deviation[deviation <= CONSTANT * np.abs(mean)] = 0.0
    return FeatureSummary(low, high, mean, deviation)


# Quantiles, and warnings --------------------------------------------------------------------------


def quantiles(X: UserMatrix, q: tuple[float, ...]) -> Vector:
    """Return quantiles of each feature, as an array of shape (len(q), n_features).

    Missing values are left out. A feature without any value has the quantiles 0.

    Examples
    --------
    >>> quantiles(np.array([[1.0], [2.0], [4.0], [np.nan]]), (0.5,)).tolist()
    [[2.0]]
    """
    found = np.zeros((len(q), X.shape[1]))
    if sparse.issparse(X):
        by_column = sparse.csc_array(X)
        for f in np.flatnonzero(~_quantiles_are_zero(X, q)):
            entries = by_column.data[by_column.indptr[f] : by_column.indptr[f + 1]]
            found[:, f] = _quantiles_with_zeros(entries, X.shape[0] - len(entries), q)
        return found
    for first in range(0, X.shape[1], BLOCK_COLUMNS):
        columns = np.asarray(X[:, first : first + BLOCK_COLUMNS], dtype=np.float64).T
        for k, column in enumerate(columns):
            found[:, first + k] = _quantiles_with_zeros(column, 0, q)
    return found


def _quantiles_are_zero(X: sparse.csr_array, q: tuple[float, ...]) -> Mask:
    """Return the features whose quantiles all lie among zeros, which most do in sparse data."""
    n_negative, n_positive = (
        np.bincount(X.indices[chosen], minlength=X.shape[1]) for chosen in (X.data < 0, X.data > 0)
    )
    n = X.shape[0] - np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1])
    first, last = (n - 1) * min(q), (n - 1) * max(q)
    return (n_negative <= first) & (last <= n - 1 - n_positive)


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


SCALE_HERE = "Scale the features, as scale='standard' (--scale standard) does."
SCALE_BEFORE = "Scale the features first, for example with scikit-learn's StandardScaler."


def warn_of_scales(deviation: Vector, names: Sequence[str], advice: str = SCALE_HERE) -> None:
    """Warn if the standard deviations of two features differ by more than `SCALE_RATIO`."""
    varying = np.flatnonzero(deviation > 0)
    if not len(varying):
        return
    order = varying[np.argsort(deviation[varying])]
    small, large = order[0], order[-1]
    if deviation[small] < deviation[large] / SCALE_RATIO:
        warn(
            f"the scales of the features differ by a factor of more than {SCALE_RATIO:.0e}, which "
            f"costs digits: the standard deviation of {names[large]!r} is {deviation[large]:.2g}, "
            f"and that of {names[small]!r} is {deviation[small]:.2g}. {advice}",
            FeatureScaleWarning,
        )


def outside(X: UserMatrix, summary: FeatureSummary) -> Mask:
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
    low, high = summary.minimum, summary.maximum
    with np.errstate(over="ignore"):
        width = np.where(high > low, high - low, np.inf)
        if sparse.issparse(X):
            n_far, n_near = _count_sparse(X, low, high, width)
        elif ((X.min(axis=0) >= low - width) & (X.max(axis=0) <= high + width)).all():
            return np.zeros(X.shape[1], np.bool_)  # the usual case, which must be fast
        else:
            beyond = np.maximum(low - X, X - high) / width
            n_far, n_near = ((beyond > limit).sum(axis=0) for limit in (FAR, 1.0))
    return (n_far > 0) | (n_near > OFTEN * X.shape[0])


def _count_sparse(
    X: sparse.csr_array, low: Vector, high: Vector, width: Vector
) -> tuple[Integers, Integers]:
    """Count the values of each feature that are more than `FAR` and 1 widths out of the range."""
    feature, d = X.indices, X.shape[1]
    beyond = np.maximum(low[feature] - X.data, X.data - high[feature]) / width[feature]
    of_zero = np.maximum(low, -high) / width
    n_zeros = X.shape[0] - np.bincount(feature, minlength=d)
    n_far, n_near = (
        np.bincount(feature[beyond > limit], minlength=d) + n_zeros * (of_zero > limit)
        for limit in (FAR, 1.0)
    )
    return n_far, n_near


def warn_of_range(
    X: UserMatrix, summary: FeatureSummary, used: Integers, names: Callable[[], list[str]]
) -> None:
    """Warn of features that are far outside their training range; see `outside`.

    Only the features `used` count, and of many documents only some are compared. `names` returns
    the names of all features.
    """
    rows = X[:: -(-X.shape[0] // CHECKED_ROWS)]
    far = used[outside(rows, summary)[used]]
    if len(far):
        f = int(far[0])
        more = f" and {len(far) - 1} more" if len(far) > 1 else ""
        warn(
            f"feature {names()[f]}{more} is far outside its range in the training data, "
            f"{summary.minimum[f]:.6g} to {summary.maximum[f]:.6g}. Check that the features are "
            "computed and scaled as in training.",
            FeatureRangeWarning,
        )
