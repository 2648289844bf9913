"""`Preprocessing`: fitted steps that turn given features into those that the weights multiply."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from .._util.checks import boolean, choice, whole_number
from .._util.parallel import resolve_threads, run, split
from .._util.types import Integers, Mask, Vector
from ..choices import MISSING, SCALES, MissingName, ScaleName
from ..data.columns import names_or_numbers
from ..data.matching import with_features
from ..data.ranking import RankingData
from ..data.validation import MAX_FEATURES, Matrix, check_matrix
from ..errors import DataError
from ..matrix.rows import multiply, n_entries, row_ranges
from ..matrix.summary import (
    MOST_SUMMARISED,
    SCALE_BEFORE,
    FeatureSummary,
    finite_numbers,
    quantiles,
    summarise,
    warn_of_scales,
)

BLOCK_ENTRIES = 2**15  #: entries of X that are transformed at a time; they stay in the cache


class FoldedWeights(NamedTuple):
    """A linear score in terms of the given features.

    It is ``Σ_f (missing_f if x_f is missing else coef_f·g(x_f))``, where g is the logarithm and the
    clipping of the preprocessing, if any. If missing_f is NaN, a missing value is refused.
    """

    coef: Vector
    missing: Vector | None


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """Fitted steps: ``x → (clip(log(fill(x))) − shift)·factor``, then columns of indicators.

    Every step is optional, and all work on each feature by itself. If X is sparse, the outcome for
    x = 0 is subtracted from each value, so that zeros stay zeros. The scores of a query then differ
    from those of dense rows by the same number, which changes no order.

    Attributes
    ----------
    n_features : int
        Number of the given features.
    fill : float64 array of shape (n_features,) or None
        The value in place of a missing one. NaN: missing values of this feature are refused.
    indicators : int64 array
        Features for which a column says whether the value is missing; these columns come last.
    log : bool
        Whether x becomes sign(x)·log(1 + |x|).
    low, high : float64 arrays of shape (n_features,) or None
        Limits of the values, after the logarithm.
    shift, factor : float64 arrays of shape (n_features,) or None
    by_query : bool
        Whether each feature is scaled to the range from 0 to 1 within each query, as LETOR's
        QueryLevelNorm does. A feature that is constant in a query becomes 0 there. Missing values
        that are not filled stay missing, and count for no range.
    beside : bool
        Whether the features that are scaled within queries, called positions, come beside the
        others instead of in their place. `shift` and `factor` then scale the others.
    unscaled : int64 array
        Features that `by_query` leaves as they are: those that stand for values of text. Their
        positions are 0.
    """

    n_features: int
    fill: Vector | None = None
    indicators: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    log: bool = False
    low: Vector | None = None
    high: Vector | None = None
    shift: Vector | None = None
    factor: Vector | None = None
    by_query: bool = False
    beside: bool = False
    unscaled: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def n_values(self) -> int:
        """The number of features after preprocessing, without indicators."""
        return self.n_features * (2 if self.beside else 1)

    @property
    def n_outputs(self) -> int:
        """The number of features after preprocessing."""
        return self.n_values + len(self.indicators)

    @property
    def companions(self) -> Integers:
        """The given feature of each feature that preprocessing adds."""
        return np.append(np.arange(self.n_values - self.n_features), self.indicators)

    @property
    def is_linear(self) -> bool:
        """Whether scores are linear in the given features, apart from missing ones."""
        return not (self.log or self.by_query or self.low is not None)

    @property
    def only_scales(self) -> bool:
        """Whether the steps are (x − shift)·factor, apart from missing values that are filled."""
        return self.is_linear and self.factor is not None and not len(self.indicators)

    def names(self, given: list[str]) -> list[str]:
        """Return the names of the features after preprocessing."""
        positions = [position_name(name) for name in given] if self.beside else []
        return given + positions + [f"{given[f]} is missing" for f in self.indicators]

    def words(self) -> str:
        """Return the steps in words, in their order.

        Examples
        --------
        >>> Preprocessing(1, log=True, by_query=True).words()
        'sign(x)·log(1 + |x|), scaled to 0 … 1 within each query'
        """
        steps = []
        if self.fill is not None:
            with_indicator = len(self.indicators)
            more = f" (with an indicator for {with_indicator} features)" if with_indicator else ""
            steps.append(f"missing values replaced{more}")
        if self.log:
            steps.append("sign(x)·log(1 + |x|)")
        if self.low is not None:
            steps.append("limited to a range per feature")
        if self.factor is not None:
            steps.append("scaled as (x − shift)·factor per feature")
        if self.by_query:
            what = "beside their places from 0 to 1" if self.beside else "scaled to 0 … 1"
            steps.append(f"{what} within each query")
        return ", ".join(steps)

    def apply_to(self, data: RankingData, n_threads: int | None = None) -> RankingData:
        """Return data with preprocessed features."""
        names = None if data.feature_names is None else self.names(data.feature_names)
        X = self.apply(data.X, data.query_ptr, n_threads)
        has_missing = data.has_missing and self.fill is None
        return data.replace(X=X, feature_names=names, has_missing=has_missing)

    def apply(
        self, X: Matrix, query_ptr: Integers | None = None, n_threads: int | None = None
    ) -> Matrix:
        """Return the preprocessed rows of a checked matrix, in the precision of X.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_docs, n_features)
        query_ptr : int64 array, optional
            The rows of each query. None: all rows belong to one query.

        Examples
        --------
        >>> steps = Preprocessing(2, fill=np.array([0.0, 7.0]), log=True)
        >>> steps.apply(np.array([[np.e - 1, np.nan]])).round(2).tolist()
        [[1.0, 2.08]]
        """
        rows = np.array([0, X.shape[0]]) if query_ptr is None else query_ptr
        if sparse.issparse(X):
            return self._apply_sparse(X, rows)
        out = np.empty((X.shape[0], self.n_outputs), X.dtype)
        n_threads = resolve_threads(n_threads)
        if self.by_query:
            ranges = [(rows[a : b + 1],) for a, b in split(rows, 4 * n_threads)]
        else:
            step = max(1, BLOCK_ENTRIES // X.shape[1])
            ranges = [
                (np.append(np.arange(a, b, step), b),) for a, b in row_ranges(X, 4 * n_threads)
            ]
        run(lambda ptr: self._fill_blocks(X, out, ptr), ranges, n_threads)
        return out

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is an error later
    def _fill_blocks(self, X: Matrix, out: Matrix, ptr: Integers) -> None:
        """Compute the rows of `out`, one block of rows after another."""
        d = self.n_features
        for first, last in pairwise(ptr):
            given = X[first:last]
            rows = self.transformed(given)
            if self.beside:
                out[first:last, d : 2 * d] = self._positions(rows.copy())
            if self.by_query and not self.beside:
                rows = self._positions(rows)
            elif self.factor is not None and self.shift is not None:
                rows = (rows - self.shift) * self.factor
            out[first:last, :d] = rows
            out[first:last, self.n_values :] = np.isnan(given[:, self.indicators])

    def _positions(self, rows: Vector) -> Vector:
        """Scale the values of the documents of one query, in place."""
        low, high = np.fmin.reduce(rows, axis=0), np.fmax.reduce(rows, axis=0)
        low[self.unscaled], high[self.unscaled] = 0.0, 1.0
        width = high - low
        rows -= low
        np.divide(rows, width, out=rows, where=width > 0)
        if self.beside:
            rows[:, self.unscaled] = 0.0
        return rows

    def filled(self, X: Matrix) -> Matrix:
        """Return a copy of X in which missing values are filled; others are those of X."""
        X = X.copy()
        if self.fill is not None:
            values = X.data if sparse.issparse(X) else X
            fill = self.fill[X.indices] if sparse.issparse(X) else self.fill
            np.copyto(values, fill, where=np.isnan(values), casting="same_kind")
        return X

    def transformed(self, X: Matrix) -> Vector:
        """Return ``g(x) = clip(log(fill(x)))`` of dense rows, in double precision."""
        rows = np.array(X, dtype=np.float64)
        if self.fill is not None:
            np.copyto(rows, self.fill, where=np.isnan(rows))
        if self.log:
            rows = np.copysign(np.log1p(np.abs(rows)), rows)
        if self.low is not None:
            np.clip(rows, self.low, self.high, out=rows)
        return rows

    def _apply_sparse(self, X: sparse.csr_array, query_ptr: Integers) -> Matrix:
        """Return a CSR matrix with transformed entries; zeros stay zeros."""
        missing = np.isnan(X.data)
        out = sparse.csr_array((self._entries(X), X.indices, X.indptr), shape=X.shape)
        parts = [out]
        if self.beside:
            parts.append(self._sparse_positions(out, query_ptr))
        if self.by_query and not self.beside:
            parts = [self._sparse_positions(out, query_ptr)]
        elif self.factor is not None:
            out.data *= self.factor[X.indices]
        if len(self.indicators):
            parts.append(self._indicator_columns(X, missing))
        found = sparse.hstack(parts, format="csr") if len(parts) > 1 else parts[0]
        return check_matrix(found.astype(X.dtype, copy=False))

    def _sparse_positions(self, X: sparse.csr_array, query_ptr: Integers) -> sparse.csr_array:
        """Return transformed entries divided by the width of the range in their query."""
        found = _query_ranges(X, query_ptr)
        is_unscaled, width = np.isin(found.feature, self.unscaled), found.high - found.low
        scale = np.divide(1.0, width, out=0.0 * width, where=width > 0)
        scale[is_unscaled] = 0.0 if self.beside else 1.0
        values = X.data * scale[found.of_entry]
        return sparse.csr_array((values, X.indices, X.indptr), shape=X.shape)

    def _entries(self, X: sparse.csr_array) -> Vector:
        """Return g(x) − g(0) of the stored entries."""
        values, feature = np.array(X.data, dtype=np.float64), X.indices
        if self.fill is not None:
            np.copyto(values, self.fill[feature], where=np.isnan(values))
        if self.log:
            values = np.copysign(np.log1p(np.abs(values)), values)
        if self.low is not None and self.high is not None:
            np.clip(values, self.low[feature], self.high[feature], out=values)
            values -= self.at_zero()[feature]
        return values

    def at_zero(self) -> Vector:
        """Return g(0) of each feature, which is not 0 if 0 is beyond the limits."""
        zero = np.zeros(self.n_features)
        return zero if self.low is None else np.clip(zero, self.low, self.high)

    def _indicator_columns(self, X: sparse.csr_array, missing: Mask) -> sparse.csr_array:
        place = np.full(self.n_features, -1)
        place[self.indicators] = np.arange(len(self.indicators))
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[missing]
        column = place[X.indices[missing]]
        row, column = row[column >= 0], column[column >= 0]
        shape = (X.shape[0], len(self.indicators))
        return sparse.csr_array((np.ones(len(row)), (row, column)), shape=shape)

    def fold(self, weights: Vector) -> FoldedWeights:
        """Return the weights of the given features, for weights of the preprocessed ones.

        The constant ``−Σ_f w_f·factor_f·shift_f`` is left out: it is the same for all documents.
        Weights of features that are scaled within queries stay as they are. Those of `beside` are
        no part of the result.

        Examples
        --------
        >>> steps = Preprocessing(1, shift=np.array([5.0]), factor=np.array([0.5]))
        >>> steps.fold(np.array([3.0])).coef.tolist()
        [1.5]
        """
        d = self.n_features
        coef = weights[:d] if self.factor is None else weights[:d] * self.factor
        if self.fill is None:
            return FoldedWeights(coef, None)
        missing = coef * self.transformed(self.fill[None])[0]
        missing[self.indicators] += weights[self.n_values :]
        return FoldedWeights(coef, missing)

    def unfold(self, coef: Vector) -> Vector:
        """Return weights of the preprocessed features, for folded weights of the given ones.

        Weights of indicators and of positions beside the features are 0.
        """
        scaled = coef if self.factor is None else coef / self.factor
        return np.append(scaled, np.zeros(len(self.companions)))

    def describe(self) -> dict[str, Any]:
        """Return the steps as plain data, for model files, without those that are not taken."""
        found: dict[str, Any] = {"n_features": self.n_features}
        for name in ("log", "by_query", "beside"):
            if getattr(self, name):
                found[name] = True
        for name in ("fill", "low", "high", "shift", "factor"):
            values = getattr(self, name)
            if values is not None:
                found[name] = [None if np.isnan(v) else v for v in values.tolist()]
        for name in ("indicators", "unscaled"):
            if len(getattr(self, name)):
                found[name] = getattr(self, name).tolist()
        return found

    @classmethod
    def from_description(cls, content: object) -> Self:
        """Make the steps from the entry of a model file; raise a `DataError` if it is damaged."""
        if not isinstance(content, dict):
            raise DataError("preprocessing is not an object")
        unknown = content.keys() - {entry.name for entry in fields(cls)}
        if unknown:
            raise DataError(
                f"preprocessing has the unknown step {min(unknown)!r}. Upgrade linrank."
            )
        d = whole_number("n_features of preprocessing", content["n_features"], most=MAX_FEATURES)
        found: dict[str, Any] = {"n_features": d}
        for name in ("log", "by_query", "beside"):
            found[name] = boolean(f"{name} of preprocessing", content.get(name, False))
        for name in ("fill", "low", "high", "shift", "factor"):
            if name in content:
                found[name] = finite_numbers(
                    content[name], f"{name} of preprocessing", d, optional=name == "fill"
                )
        for name in ("indicators", "unscaled"):
            if name in content:
                found[name] = _features(content[name], name, d)
        steps = cls(**found)
        steps._check_steps()
        return steps

    def _check_steps(self) -> None:
        """Raise a `DataError` for steps that contradict each other."""
        for one, other in (("low", "high"), ("shift", "factor")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise DataError(f"preprocessing must have both {one} and {other}, or neither")
        if self.low is not None and self.high is not None and (self.low > self.high).any():
            raise DataError("preprocessing has a limit low above high")
        if self.by_query and self.factor is not None and not self.beside:
            raise DataError("preprocessing scales both by query and by factor")
        if self.beside and not self.by_query:
            raise DataError("preprocessing has features beside others, but scales none by query")
        if len(self.indicators) and self.fill is None:
            raise DataError("preprocessing has indicators, but fills no missing values")


def position_name(feature: str) -> str:
    """Return the name of a feature that is scaled within queries, beside the given one."""
    return f"{feature} in its query"


class QueryRanges(NamedTuple):
    """Ranges of features within queries, for features with stored entries in the query."""

    query: Integers
    feature: Integers
    low: Vector
    high: Vector
    of_entry: Integers  #: the range to which each stored entry belongs


def _query_ranges(X: sparse.csr_array, query_ptr: Integers) -> QueryRanges:
    sizes = np.diff(query_ptr)
    row_query = np.repeat(np.arange(len(sizes)), sizes)
    query = np.repeat(row_query, np.diff(X.indptr))
    order = np.lexsort((X.indices, query))
    query, feature, values = query[order], X.indices[order], X.data[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(query) != 0) | (np.diff(feature) != 0)
    starts = np.flatnonzero(is_first)
    of_entry = np.empty(len(order), np.int64)
    of_entry[order] = np.cumsum(is_first) - 1
    if not len(starts):
        return QueryRanges(query, feature, values, values, of_entry)
    counts = np.diff(np.append(starts, len(order)))
    low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
    has_zeros = counts < sizes[query[starts]]
    low, high = (np.where(has_zeros, limit(side, 0.0), side)
                 for limit, side in ((np.fmin, low), (np.fmax, high)))  # fmt: skip
    return QueryRanges(query[starts], feature[starts], low, high, of_entry)


def lowest_scores(X: sparse.csr_array, w: Vector, query_ptr: Integers) -> Vector:
    """Return, for each row, the score Σ_f w_f·min_f of the lowest values in its query.

    Features beyond the length of w are left out.
    """
    found = _query_ranges(X, query_ptr)
    part = np.append(w, np.zeros(X.shape[1] - len(w)))[found.feature] * found.low
    sizes = np.diff(query_ptr)
    return np.repeat(np.bincount(found.query, part, minlength=len(sizes)), sizes)


def _features(values: object, name: str, n: int) -> Integers:
    is_list = isinstance(values, list) and all(type(v) is int and 0 <= v < n for v in values)
    if not is_list or len(set(values)) < len(values):  # type: ignore[call-overload, arg-type]
        raise DataError(f"{name} of preprocessing are not different features from 0 to {n - 1}")
    return np.array(values, dtype=np.int64)


# --------------------------------------------------------------------------------------------------
# `FeatureSteps`: which preprocessing is wanted, and how it is fitted to training data.


QUARTILES = (0.25, 0.5, 0.75)
#: A width below this multiple of the largest value counts as 0. Scaling by a smaller width would
#: give scores an error of more than 2e-4 of a weight, because the folded weights multiply x itself.
CONSTANT = 1e-12
COMMON_VARIANCE = 300.0  #: sum of the variances after ``scale="common"``; larger is a larger C


@dataclass(frozen=True)
class FeatureSteps:
    """The steps of preprocessing that a training fits: fill, logarithm, clip, scale.

    Parameters
    ----------
    log : bool
        Replace x by sign(x)·log(1 + |x|).
    clip : float or None
        Limit each feature to its quantiles `clip` and 1 − `clip` in the training data; 0 is its
        range.
    scale : {None, "auto", "standard", "minmax", "robust", "maxabs", "common", "query", "both"}
        ``standard``: (x − mean)/deviation; ``minmax``: to the range 0 to 1; ``robust``:
        (x − median)/(distance of the quartiles); ``maxabs``: x/max|x|; ``common``: all features
        times one number, so that their variances add up to 300; ``query``: to the range 0 to 1
        within each query. With ``both``, a feature has two weights or curves: of x divided by its
        deviation if X is dense, and of x as ``query`` scales it. A feature that is constant in the
        training data is not scaled. Nor is one that is 1 for a value of a column of text, except
        by ``common``. ``auto``: see
        `for_data`.
    missing : {None, "zero", "median", "indicator"}
        The value of missing features; ``indicator`` is the median with a weight of its own for the
        fact that a value is missing.

    Examples
    --------
    >>> FeatureSteps.parse("log1p+standard", None)
    FeatureSteps(log=True, clip=None, scale='standard', missing=None)
    >>> FeatureSteps.parse("clip:0.01+minmax", "median").clip
    0.01
    """

    log: bool = False
    clip: float | None = None
    scale: ScaleName | None = None
    missing: MissingName | None = None

    @classmethod
    def parse(cls, scale: str | None, missing: str | None) -> Self:
        """Return the steps for the options `scale` and `missing` of estimators."""
        if missing is not None:
            choice("missing", missing, MISSING, "and None")
        if scale is None:
            return cls(missing=missing)  # type: ignore[arg-type]
        if not isinstance(scale, str):
            raise DataError(f"scale is {scale!r}; expected a text such as 'standard'")
        parts = scale.replace(" ", "").split("+")
        log = parts[0] == "log1p"
        parts = parts[log:]
        clip = _quantile(parts.pop(0)) if parts and parts[0].startswith("clip") else None
        last: Any = parts.pop(0) if parts else None
        if parts or (last is not None and last not in SCALES):
            raise DataError(
                f"scale is {scale!r}; expected log1p, clip or clip:QUANTILE, and one of "
                f"{', '.join(SCALES)}, in this order and joined by +, such as 'log1p+standard'"
            )
        return cls(log, clip, last, missing)  # type: ignore[arg-type]

    @property
    def is_empty(self) -> bool:
        """Whether features are used as they are given."""
        return self == FeatureSteps()

    @property
    def is_linear(self) -> bool:
        """Whether scores stay linear in the given features, apart from missing ones."""
        return not (self.log or self.by_query) and self.clip is None

    @property
    def by_query(self) -> bool:
        """Whether scores depend on the other documents of a query."""
        return self.scale in ("query", "both")

    @property
    def name(self) -> str | None:
        """The text that `parse` takes as `scale`; None if there is no such step."""
        clip = None if self.clip is None else "clip" if self.clip == 0 else f"clip:{self.clip:g}"
        parts = [part for part in ("log1p" if self.log else None, clip, self.scale) if part]
        return "+".join(parts) or None

    def for_data(self, data: RankingData) -> Self:
        """Return the steps with a scaling in place of "auto".

        It is "standard" if X is dense. In a sparse X, deviations of their own would make rare
        features large, so that all features are scaled by one number: "common".
        """
        if self.scale != "auto":
            return self
        return replace(self, scale="common" if data.is_sparse else "standard")

    def fit(self, data: RankingData, n_threads: int | None = None) -> Preprocessing | None:
        """Return the fitted steps; None if features are used as they are given."""
        if self.scale == "auto":
            return self.for_data(data).fit(data, n_threads)
        if self.is_empty:
            return None
        X: Matrix = data.X
        origin: Vector | float = 0.0  # what was subtracted from the values so that zeros stay zeros
        found: dict[str, Any] = {"n_features": data.n_features, "log": self.log}
        if self.missing is not None:
            found["fill"] = np.zeros(X.shape[1])
            if self.missing != "zero":
                found["fill"] = quantiles(X, (0.5,))[0]
        if self.log or (self.missing is not None and data.has_missing):
            X = Preprocessing(**found).apply(X, None, n_threads)
        if self.clip is not None:
            low, high = _limits(X, self.clip, data, n_threads)
            low[data.indicators], high[data.indicators] = 0.0, 1.0
            found |= {"low": low, "high": high}
            clipped = Preprocessing(data.n_features, low=low, high=high)
            X = clipped.apply(X, None, n_threads)
            origin = clipped.at_zero() if data.is_sparse else 0.0
        if self.missing == "indicator":
            found["indicators"] = features_with_gaps(data.X)
        if self.by_query:
            found |= {"by_query": True, "unscaled": np.union1d(data.indicators, data.codes)}
        if self.scale == "both":
            found["beside"] = True
            if not data.is_sparse:
                factor = _scaling(X, origin, "standard", data, n_threads)["factor"]
                found |= {"shift": np.zeros(data.n_features), "factor": factor}
        elif self.scale is not None and not self.by_query:
            found |= _scaling(X, origin, self.scale, data, n_threads)
        return Preprocessing(**found)


def _quantile(step: str) -> float:
    """Return the quantile in ``clip:QUANTILE``; 0 without a quantile."""
    name, _, text = step.partition(":")
    try:
        share = float(text or 0) if name == "clip" else np.nan
    except ValueError:
        share = np.nan
    if not 0 <= share < 0.5:
        raise DataError(f"{step!r} in scale; expected clip:QUANTILE with 0 ≤ QUANTILE < 0.5")
    return share


def _row_weight(data: RankingData) -> Vector | None:
    """Return the weight of each document times that of its query; None without weights."""
    of_query = data.row_query_weight
    if data.weight is None or of_query is None:
        return of_query if data.weight is None else data.weight
    return data.weight * of_query


def features_with_gaps(X: Matrix) -> Any:
    """Return the numbers of the features that have missing values."""
    if sparse.issparse(X):
        return np.unique(X.indices[np.isnan(X.data)]).astype(np.int64)
    return np.flatnonzero(np.isnan(X).any(axis=0))


def _limits(
    X: Matrix, share: float, data: RankingData, n_threads: int | None
) -> tuple[Vector, Vector]:
    if share > 0:
        low, high = quantiles(X, (share, 1.0 - share))
        return low, high
    found = _summary_of(X, data, n_threads)
    return found.minimum.copy(), found.maximum.copy()


def _summary_of(
    X: Matrix, data: RankingData, n_threads: int | None, weight: Vector | None = None
) -> FeatureSummary:
    """Return the statistics of X; those of the given features may be known."""
    if X is data.X and weight is None:
        return data.feature_summary(n_threads)
    return summarise(X, n_threads, weight)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def _scaling(
    X: Matrix,
    origin: Vector | float,
    scale: ScaleName,
    data: RankingData,
    n_threads: int | None,
) -> dict[str, Vector]:
    """Return shift and factor of each feature, whose values are X + origin.

    Features of width 0 keep the factor 1. Quantiles do not depend on the weights of the rows.
    """
    found = _summary_of(X, data, n_threads, _row_weight(data))
    if scale == "common":
        return _common_scaling(found.deviation)
    minimum, maximum = found.minimum + origin, found.maximum + origin
    largest = np.maximum(np.abs(minimum), np.abs(maximum))
    if scale == "standard":
        shift, width = found.mean + origin, found.deviation
    elif scale == "minmax":
        shift, width = minimum, maximum - minimum
    elif scale == "maxabs":
        shift, width = np.zeros(X.shape[1]), largest
    else:
        low, shift, high = quantiles(X, QUARTILES) + origin
        width = np.where(high - low > CONSTANT * largest, high - low, found.deviation)
    factor = 1.0 / width
    usable = (width > CONSTANT * largest) & np.isfinite(width) & np.isfinite(factor)
    factor = np.where(usable, factor, 1.0)
    shift[data.indicators], factor[data.indicators] = 0.0, 1.0
    return {"shift": shift, "factor": factor}


def _common_scaling(deviation: Vector) -> dict[str, Vector]:
    """Return the factor √(300/Σ_f deviation_f²) for all features, and no shift."""
    factor = float(np.sqrt(COMMON_VARIANCE / np.float64(deviation @ deviation)))
    usable = 0.0 < factor < np.inf
    return {
        "shift": np.zeros(len(deviation)),
        "factor": np.full(len(deviation), factor if usable else 1.0),
    }


# --------------------------------------------------------------------------------------------------
# `Prepared`: training data before and after preprocessing.


COPIED_BYTES = 2**26  #: bytes of X up to which a scaled copy is made; more take more memory


def warn_of_given_scales(data: RankingData, n_threads: int | None = None) -> None:
    """Warn if scales differ too much; for rankers that have no parameter ``scale``."""
    if data.n_features <= MOST_SUMMARISED:
        warn_of_scales(
            data.feature_summary(n_threads).deviation,
            names_or_numbers(data.feature_names, data.n_features, data.index_base),
            SCALE_BEFORE,
        )


@dataclass(frozen=True)
class Prepared:
    """Training data as given, the preprocessing that was fitted to them, and its outcome.

    Attributes
    ----------
    given : RankingData
    steps : Preprocessing or None
        None: the features are used as they are given.
    data : RankingData
        The data with preprocessed features. With `factor`, their scaling is left out.
    factor : float64 array of shape (n_features,) or None
        What the columns of `data` are multiplied by wherever they are weighted. A large X that only
        has to be scaled is not copied. The shift is left out, because it changes no ranking.
    """

    given: RankingData
    steps: Preprocessing | None
    data: RankingData
    factor: Vector | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls,
        data: RankingData,
        steps: Preprocessing | None,
        n_threads: int | None = None,
        copy: bool = False,
    ) -> Self:
        """Apply fitted steps to the training data; with `copy`, also the scaling of a large X."""
        if steps is None:
            return cls(data, None, data)
        size = n_entries(data.X) * data.X.dtype.itemsize
        if copy or size <= COPIED_BYTES or not steps.only_scales or data.has_missing:
            return cls(data, steps, steps.apply_to(data, n_threads))
        return cls(data, steps, data, factor=steps.factor)

    def apply(self, data: RankingData, n_threads: int | None = None) -> RankingData:
        """Return other data with the same features, preprocessed as `data` is."""
        data = with_features(data, self.given.feature_names, self.given.n_features)
        if self.steps is None or (self.factor is not None and not data.has_missing):
            return data
        steps = self.steps
        if self.factor is not None:
            steps = replace(steps, shift=None, factor=None)
        return steps.apply_to(data, n_threads)

    def scores(self, data: RankingData, coef: Vector, n_threads: int | None = None) -> Vector:
        """Return the scores of the outcome of `apply`, for weights of preprocessed features."""
        return multiply(data.X, coef if self.factor is None else coef * self.factor, n_threads)

    def weight_names(self, names: list[str]) -> list[str]:
        """Return the names of the preprocessed features, given those of the features."""
        return names if self.steps is None else self.steps.names(names)

    def summary(self, n_threads: int | None = None) -> FeatureSummary | None:
        """Return the statistics of the features for a model; None if there are very many."""
        d = self.given.n_features
        if d > MOST_SUMMARISED:
            return None
        found = self.given.feature_summary(n_threads)
        if self.steps is None:
            warn_of_scales(
                found.deviation,
                names_or_numbers(self.given.feature_names, d, self.given.index_base),
            )
        if self.steps is None or (self.steps.only_scales and not self.given.has_missing):
            return found
        values = summarise(self.data.X, n_threads)
        if self.steps.beside:
            return self._summary_of_both(found, values)
        mean, deviation = values.mean[:d], values.deviation[:d]
        if self.steps.factor is not None and self.steps.shift is not None:
            shift = self.steps.at_zero() if self.data.is_sparse else self.steps.shift
            mean, deviation = mean / self.steps.factor + shift, deviation / self.steps.factor
        return FeatureSummary(found.minimum, found.maximum, mean, deviation)

    def _summary_of_both(self, given: FeatureSummary, outcome: FeatureSummary) -> FeatureSummary:
        """Return the statistics of the features, followed by those of their positions."""
        d, steps = self.given.n_features, self.steps
        assert steps is not None
        factor = np.ones(d) if steps.factor is None else steps.factor
        origin = steps.at_zero() if self.data.is_sparse else np.zeros(d)
        low, high, mean, deviation = (values[d : 2 * d] for values in vars(outcome).values())
        return FeatureSummary(
            np.append(given.minimum, low),
            np.append(given.maximum, high),
            np.append(outcome.mean[:d] / factor + origin, mean),
            np.append(outcome.deviation[:d] / factor, deviation),
        )
