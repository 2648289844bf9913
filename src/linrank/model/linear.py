"""`LinearModel`: weights, and what is done to the features before they are weighted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .._util.lazy import lazy_property
from .._util.maps import check_maps
from .._util.parallel import resolve_threads, run
from .._util.types import Array, Integers, Mask, Vector
from ..data.validation import MAX_FEATURES, Matrix
from ..errors import DataError
from ..features.preprocessing import BLOCK_ENTRIES, Preprocessing, lowest_scores
from ..matrix.rows import multiply
from ..matrix.summary import FAR, FeatureSummary, warn_of_range
from .model import QUICK_ENTRIES, Content, FeatureColumn, Model, numbers

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


# --------------------------------------------------------------------------------------------------
# `fold_pipeline`: the steps of a scikit-learn pipeline, as the preprocessing of a model.
#
# Every step that can be folded turns columns into columns of the form
#
#     value = scale·x + offset, limited to [low, high], or `missing` if x is missing
#
# where x is one of the given features. `Columns` holds these numbers for all columns, and each step
# is a function from columns to columns.


@dataclass(frozen=True)
class WeightedColumns:
    """Columns that are functions of one given feature each.

    Attributes
    ----------
    source : int64 array
        The given feature of each column.
    scale, offset : float64 arrays
        The value is scale·x + offset. An indicator has scale 0.
    low, high : float64 arrays
        Limits of x; −inf and inf if there are none.
    missing : float64 array
        The value if x is missing; NaN if missing values are not filled.
    """

    source: Integers
    scale: Vector
    offset: Vector
    low: Vector
    high: Vector
    missing: Vector

    @classmethod
    def given(cls, n: int) -> WeightedColumns:
        """Return the given features themselves."""
        ones, nothing = np.ones(n), np.full(n, np.nan)
        return cls(np.arange(n), ones, 0 * ones, -np.inf * ones, np.inf * ones, nothing)

    def affine(self, factor: Any, shift: Any) -> WeightedColumns:
        """Return ``(value − shift)·factor``."""
        return replace(
            self, scale=self.scale * factor, offset=(self.offset - shift) * factor,
            missing=(self.missing - shift) * factor,
        )  # fmt: skip

    def clipped(self, low: float, high: float) -> WeightedColumns:
        """Return values limited to [low, high]."""
        is_value = self.scale != 0
        scale = np.where(is_value, self.scale, 1.0)
        ends = np.sort([(limit - self.offset) / scale for limit in (low, high)], axis=0)
        return replace(
            self, low=np.clip(self.low, *ends), high=np.clip(self.high, *ends),
            offset=np.where(is_value, self.offset, np.clip(self.offset, low, high)),
            missing=np.clip(self.missing, low, high),
        )  # fmt: skip

    def take(self, chosen: Integers | Mask) -> WeightedColumns:
        """Return some of the columns."""
        return WeightedColumns(*(values[chosen] for values in vars(self).values()))

    def joined(self, other: WeightedColumns) -> WeightedColumns:
        """Return the columns of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return WeightedColumns(*(np.concatenate(pair) for pair in pairs))


Fold = Callable[[Any, WeightedColumns], WeightedColumns]


def _standard(step: Any, columns: WeightedColumns) -> WeightedColumns:
    scale = 1.0 if step.scale_ is None else step.scale_
    return columns.affine(1.0 / scale, step.mean_ if step.with_mean else 0.0)


def _min_max(step: Any, columns: WeightedColumns) -> WeightedColumns:
    columns = columns.affine(step.scale_, -step.min_ / step.scale_)
    return columns.clipped(*step.feature_range) if step.clip else columns


def _max_abs(step: Any, columns: WeightedColumns) -> WeightedColumns:
    columns = columns.affine(1.0 / step.scale_, 0.0)
    return columns.clipped(-1.0, 1.0) if getattr(step, "clip", False) else columns


def _robust(step: Any, columns: WeightedColumns) -> WeightedColumns:
    scale = 1.0 if step.scale_ is None else step.scale_
    return columns.affine(1.0 / scale, 0.0 if step.center_ is None else step.center_)


def _imputer(step: Any, columns: WeightedColumns) -> WeightedColumns:
    value = step.missing_values
    if not (isinstance(value, float) and np.isnan(value)):
        raise DataError(f"it fills {value!r} instead of NaN")
    try:
        fill = np.asarray(step.statistics_, dtype=np.float64)
    except ValueError:
        raise DataError("it fills with values that are no numbers") from None
    known = ~np.isnan(columns.missing)
    filled = replace(columns, missing=np.where(known, columns.missing, fill))
    kept = filled.take(~np.isnan(fill))  # features without any value are dropped
    if step.indicator_ is None:
        return kept
    marked = columns.take(step.indicator_.features_)
    zeros, ones = np.zeros(len(marked.source)), np.ones(len(marked.source))
    return kept.joined(replace(marked, scale=zeros, offset=zeros, missing=ones))


def _selector(step: Any, columns: WeightedColumns) -> WeightedColumns:
    return columns.take(step.get_support(indices=True))


def _column_transformer(step: Any, columns: WeightedColumns) -> WeightedColumns:
    found = columns.take(np.empty(0, np.int64))
    for name, part, chosen in step.transformers_:
        places = _places(chosen, step, len(columns.source))
        if not len(places) or (isinstance(part, str) and part == "drop"):
            continue  # scikit-learn does not fit parts without columns
        try:
            folded = _fold(part, columns.take(places))
        except DataError as error:
            raise DataError(f"its part {name!r}: {error}") from None
        weight = (step.transformer_weights or {}).get(name, 1.0)
        found = found.joined(folded.affine(weight, 0.0))
    return found


def _places(chosen: Any, step: Any, n: int) -> Integers:
    """Return the positions of the columns of a part of a ColumnTransformer."""
    names = list(getattr(step, "feature_names_in_", range(n)))
    if isinstance(chosen, slice):
        first, last = chosen.start, chosen.stop
        if isinstance(first, str) or isinstance(last, str):  # names include the last one
            first = None if first is None else names.index(first)
            last = None if last is None else names.index(last) + 1
        return np.arange(n)[first : last : chosen.step]
    chosen = np.atleast_1d(np.asarray(chosen))
    if chosen.dtype.kind in "UO":
        return np.array([names.index(name) for name in chosen], np.int64)
    return np.arange(n)[chosen if len(chosen) else []]


#: The steps that can be folded, by the name of their class in scikit-learn.
FOLDS: dict[str, Fold] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": _max_abs,
    "RobustScaler": _robust,
    "SimpleImputer": _imputer,
    "ColumnTransformer": _column_transformer,
}


def _fold(step: Any, columns: WeightedColumns) -> WeightedColumns:
    """Return the columns after one step, or raise a `DataError` that says why that cannot be."""
    from sklearn.feature_selection import SelectorMixin
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    if step is None or (isinstance(step, str) and step == "passthrough"):
        return columns
    if isinstance(step, FunctionTransformer) and step.func is None:
        return columns
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            columns = _fold(inner, columns)
        return columns
    if isinstance(step, SelectorMixin):
        return _selector(step, columns)
    kind = type(step)
    if kind.__name__ not in FOLDS or not kind.__module__.startswith("sklearn."):
        known = ", ".join([*FOLDS, "feature selectors"])
        raise DataError(f"{kind.__name__} cannot be folded into the weights; these can: {known}")
    return FOLDS[kind.__name__](step, columns)


def fold_pipeline(pipe: Pipeline) -> LinearModel:
    """Return the model of a fitted pipeline, whose last step is a linear ranker.

    Parameters
    ----------
    pipe : sklearn.pipeline.Pipeline

    Raises
    ------
    DataError
        If a step cannot be folded; the message names it.
    """
    from sklearn.pipeline import Pipeline

    if not isinstance(pipe, Pipeline):
        raise DataError(f"pipe is a {type(pipe).__name__}; expected a fitted sklearn Pipeline")
    *steps, (last, ranker) = pipe.steps
    model = getattr(ranker, "model_", None)
    if not isinstance(model, LinearModel):
        raise DataError(
            f"the last step {last!r} is {type(ranker).__name__}; expected a fitted linear ranker "
            "such as RankSVM"
        )
    if not steps:
        return model
    own = model.preprocessing
    if own is not None and (not own.only_scales or own.fill is not None):
        raise DataError(
            f"the pipeline has the steps {', '.join(repr(name) for name, _ in steps)} before a "
            f"ranker with steps of its own: {own.words()}. Use one of both."
        )
    known = next(part for _, part in pipe.steps if hasattr(part, "n_features_in_"))
    n_features, names = known.n_features_in_, getattr(known, "feature_names_in_", None)
    columns = WeightedColumns.given(n_features)
    for name, step in steps:
        try:
            columns = _fold(step, columns)
        except DataError as error:
            raise DataError(f"step {name!r} of the pipeline cannot be saved: {error}") from None
    if len(columns.source) != model.n_features:
        raise DataError(
            f"the steps of the pipeline give {len(columns.source)} features, but the ranker has "
            f"{model.n_features}. Fit the pipeline as a whole."
        )
    given = _Given(columns, model, n_features)
    return LinearModel(
        given.coef(), preprocessing=given.preprocessing(), summary=given.summary(),
        feature_names=None if names is None else list(names), index_base=model.index_base,
        settings=model.settings, training=model.training,
    )  # fmt: skip


class _Given:
    """The given features of a pipeline: what becomes of each, and its part in the score."""

    def __init__(self, columns: WeightedColumns, model: LinearModel, n_features: int) -> None:
        is_value = columns.scale != 0
        self.n_features, self.summary_of_columns = n_features, model.summary
        self.is_value, self.value = is_value, columns.take(is_value)
        self.weights = self._spread(model.coef[is_value], 0.0)
        if len(np.unique(self.value.source)) < len(self.value.source):
            twice = np.flatnonzero(np.bincount(self.value.source) > 1)[0]
            raise DataError(f"feature {twice} of the pipeline is used in two columns. Use it once.")
        value, indicator = self.value, columns.take(~is_value)
        self.fill = (value.missing - value.offset) / value.scale
        # Preprocessing limits what it fills. An indicator makes up for a fill beyond the limits.
        excess = self.fill - np.clip(self.fill, value.low, value.high)
        self.fill = self.fill - excess
        excess = np.nan_to_num(excess)
        self.indicators = np.unique(np.append(indicator.source, value.source[excess != 0]))
        parts = model.coef[~is_value] * (indicator.missing - indicator.offset)
        self.marks = self._spread(excess * value.scale, 0.0) * self.weights
        np.add.at(self.marks, indicator.source, parts)

    def _spread(self, values: Vector, otherwise: float) -> Vector:
        """Return a number for each given feature, for numbers of the columns."""
        out = np.full(self.n_features, otherwise)
        out[self.value.source] = values
        return out

    def coef(self) -> Vector:
        """Return the weights of the features after preprocessing."""
        return np.append(self.weights, self.marks[self.indicators])

    def preprocessing(self) -> Preprocessing:
        """Return the steps of the pipeline."""
        value, largest = self.value, np.finfo(float).max
        found: dict[str, Any] = {
            "n_features": self.n_features,
            "shift": self._spread(-value.offset / value.scale, 0.0),
            "factor": self._spread(value.scale, 1.0),
        }
        if not np.isnan(self.fill).all() or len(self.indicators):
            found |= {"fill": self._spread(self.fill, 0.0), "indicators": self.indicators}
        if np.isfinite(value.low).any() or np.isfinite(value.high).any():
            found["low"] = self._spread(np.maximum(value.low, -largest), -largest)
            found["high"] = self._spread(np.minimum(value.high, largest), largest)
        return Preprocessing(**found)

    def summary(self) -> FeatureSummary | None:
        """Return the statistics of the given features, after filling; 0 if they are not used."""
        if self.summary_of_columns is None:
            return None
        value = self.value
        low, high, mean, deviation = (
            values[self.is_value] for values in vars(self.summary_of_columns).values()
        )
        low, high, mean = ((v - value.offset) / value.scale for v in (low, high, mean))
        deviation = deviation / np.abs(value.scale)
        return FeatureSummary(
            *(self._spread(v, 0.0)
              for v in (np.minimum(low, high), np.maximum(low, high), mean, deviation))
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# `LinearModel`: weights, and what is done to the features before they are weighted.


LARGEST = np.finfo(float).max
#: Entries of X that `quick_scores` compares with the training range; more take more time.
COMPARED_ENTRIES = 2**11
NEAR = 1.5 / (FAR + 0.5)  #: one width beyond the training range, in the units of `_Near`


class _Near(NamedTuple):
    """Values x of a row that are near the training range: |(x − centre)·per_width| ≤ 1."""

    centre: Vector
    per_width: Vector  # tiny for features without a limit


class LinearModel(Model):
    """Linear model with the score ``w'x``, where x may be preprocessed.

    Parameters
    ----------
    coef : array of shape (n_features,)
        Weights w of the features after `preprocessing`.
    feature_names : sequence of str, optional
    index_base : {0, 1}
        Number of the first feature in the LETOR files that the model was trained on.
    settings : mapping, optional
        Parameters of the training.
    training : mapping, optional
        Outcome of the training, such as the number of iterations.
    preprocessing : Preprocessing, optional
        What is done to the features before they are weighted.
    summary : FeatureSummary, optional
        Statistics of the features in the training data, followed by those of their positions if
        they have weights, too.

    Attributes
    ----------
    coef : float64 array of shape (n_features,)
        Weights of the given features. Scaling is folded into them. With a logarithm or limits, they
        multiply the value after these steps. With ``scale="query"``, they are the weights of the
        scaled features.
    query_coef : float64 array of shape (n_features,) or None
        With ``scale="both"``, the weights of the positions: of the features that are scaled to the
        range from 0 to 1 within each query.
    missing : float64 array of shape (n_features,) or None
        The part of each feature in the score if its value is missing; NaN if that is refused.
    scaled_coef : float64 array
        Weights of the features after `preprocessing`, as the solver found them.

    Examples
    --------
    >>> model = LinearModel([1.0, -0.5], feature_names=["bm25", "length"])
    >>> model.predict([[2.0, 1.0], [1.0, 4.0]]).tolist()
    [1.5, -1.0]
    >>> model.predict({"length": 1.0, "bm25": 2.0}).tolist()
    [1.5]
    >>> model.largest(1)
    [('bm25', 1.0)]
    """

    format = "linrank-model"
    most_features = MAX_FEATURES  # the file holds a weight for each of them
    is_additive = True

    def __init__(
        self,
        coef: ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
        preprocessing: Preprocessing | None = None,
        summary: FeatureSummary | None = None,
    ) -> None:
        try:
            self.scaled_coef: Vector = np.array(coef, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"coef cannot be read as numbers: {error}") from None
        if self.scaled_coef.ndim != 1 or not np.isfinite(self.scaled_coef).all():
            raise DataError("coef must be a vector of finite numbers")
        self.preprocessing = preprocessing
        self.summary = summary
        self.coef: Vector = self.scaled_coef
        self.missing: Vector | None = None
        n_features = len(self.scaled_coef)
        if preprocessing is not None:
            if n_features != preprocessing.n_outputs:
                raise DataError(
                    f"coef has {n_features} weights, but preprocessing gives "
                    f"{preprocessing.n_outputs} features. Use one weight per feature."
                )
            self.coef, self.missing = preprocessing.fold(self.scaled_coef)
            n_features = preprocessing.n_features
        super().__init__(n_features, feature_names, index_base, settings, training)

    @classmethod
    def from_pipeline(cls, pipe: Pipeline) -> LinearModel:
        """Make the model of a fitted scikit-learn pipeline that ends with a linear ranker.

        Scalers, `SimpleImputer`, feature selectors and a `ColumnTransformer` of these are folded
        into the weights. Other steps are refused by name.

        Examples
        --------
        >>> from linrank import RankSVM
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> pipe = make_pipeline(StandardScaler(), RankSVM()).fit([[10.0], [30.0]], [0, 1])
        >>> model = LinearModel.from_pipeline(pipe)
        >>> bool(np.ptp(pipe.predict([[10.0], [30.0]]) - model.predict([[10.0], [30.0]])) < 1e-9)
        True
        """
        return fold_pipeline(pipe)

    @property
    def needs_qid(self) -> bool:
        """Whether features are scaled within each query."""
        return self.preprocessing is not None and self.preprocessing.by_query

    @property
    def query_coef(self) -> Vector | None:
        """The weights of positions in the range of the query, beside those of the features."""
        steps = self.preprocessing
        if steps is None or not steps.beside:
            return None
        return self.scaled_coef[self.n_features : steps.n_values]

    @property
    def is_linear(self) -> bool:
        """Whether scores are ``X @ coef`` for documents without missing values."""
        return self.preprocessing is None or self.preprocessing.is_linear

    @property
    def fills(self) -> bool:
        """Whether missing values of some features are replaced."""
        return self.missing is not None

    @property
    def version(self) -> int:
        """The oldest layout of model files that can hold this model."""
        return 1 if self.preprocessing is None else 2

    def with_coef(self, coef: ArrayLike, **training: object) -> LinearModel:
        """Return a copy with other weights, and with more entries in `training`."""
        model = LinearModel(
            coef,
            feature_names=self.feature_names,
            index_base=self.index_base,
            settings=self.settings,
            training=self.training | training,
            preprocessing=self.preprocessing,
            summary=self.summary,
        )
        model.categories = self.categories
        return model

    def predict(self, X: Any, qid: ArrayLike | None = None) -> Vector:
        """Score documents; higher is better. See `Model.predict`.

        A `FeatureRangeWarning` names features that are far outside the range of the training data.
        """
        scores = self.quick_scores(X)
        return super().predict(X, qid) if scores is None else scores

    def quick_scores(self, X: Any) -> Vector | None:
        """Score a small array with a few checks, for servers; None if `predict` must check more.

        The scores are those of `predict`. A score is not finite if a value is missing or infinite.
        The rows that are compared with the training range are near it: one row within `FAR` widths,
        and several rows within one width. `predict` then gives no warning.
        """
        if type(X) is not np.ndarray or X.dtype.char not in "df" or not self._is_quick:
            return None
        check_maps(X)
        shape, centre, per_width = X.shape, *self._near
        if shape[-1:] != centre.shape or len(shape) > 2 or not 0 < X.size <= QUICK_ENTRIES:
            return None
        rows = X if len(shape) == 2 else X[None]
        distance = rows[:: 1 + X.size // COMPARED_ENTRIES] - centre
        distance *= per_width
        distance = np.abs(distance, distance).reshape(-1)
        largest = distance[distance.argmax()]  # faster than `max`; NaN is the largest
        if not largest <= (1.0 if len(rows) == 1 else NEAR):
            return None
        scores = rows.dot(self.coef)
        return scores if scores.dot(scores) <= LARGEST else None

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        if self.preprocessing is None or (self.is_linear and self.missing is None):
            return _product(X, self.coef)
        if not (self.needs_qid or sparse.issparse(X)):
            return self._scores_of_values(X)
        # Preprocessed values in single precision would give other scores than the exports.
        rows = self.preprocessing.apply(X.astype(np.float64, copy=False), query_ptr)
        scores = _product(rows, self.scaled_coef)
        if not sparse.issparse(X):
            return scores
        steps = self.preprocessing
        if self.needs_qid and query_ptr is not None:
            weights = self.scaled_coef[: steps.n_values].copy()
            first = steps.n_values - self.n_features  # of the positions
            weights[:first] = 0.0
            weights[first + steps.unscaled] = 0.0
            scores -= lowest_scores(rows, weights, query_ptr)
            if not steps.beside:
                return scores
        return scores + float(self.coef @ steps.at_zero())

    def _scores_of_values(self, X: Matrix) -> Vector:
        """Return the scores of dense rows with a logarithm, limits or missing values."""
        steps, scores = self.preprocessing, np.empty(X.shape[0])
        assert steps is not None
        of_indicators = self.scaled_coef[steps.n_values :]
        block = max(1, BLOCK_ENTRIES // self.n_features)

        def score(first: int) -> None:
            rows = X[first : first + block]
            part = steps.transformed(rows) @ self.coef
            part += np.isnan(rows[:, steps.indicators]) @ of_indicators
            scores[first : first + block] = part

        run(score, [(first,) for first in range(0, X.shape[0], block)], resolve_threads())
        return scores

    def _checked_scores(self, X: Matrix, query_ptr: Integers | None) -> Vector:
        scores = super()._checked_scores(X, query_ptr)
        if self.summary is not None:
            warn_of_range(X, self.summary.first(self.n_features), self.used, self.names)
        return scores

    def _filled(self, X: Matrix) -> Matrix:
        return X if self.preprocessing is None else self.preprocessing.filled(X)

    @lazy_property
    def _is_quick(self) -> bool:
        """Whether `quick_scores` applies to this model."""
        return self.is_linear and not self.needs_qid

    @lazy_property
    def used(self) -> Integers:
        """The features that have a part in the score, as numbers from 0 on."""
        used = self.scaled_coef[: self.n_features] != 0
        if self.query_coef is not None:
            used |= self.query_coef != 0
        if self.missing is not None:
            used |= np.nan_to_num(self.missing) != 0
        return np.flatnonzero(used)

    @lazy_property
    def _near(self) -> _Near:
        """The values that are within `FAR` widths of the training range, of features in use."""
        least = np.full(self.n_features, np.finfo(float).tiny)  # 0 times infinity would be NaN
        if self.summary is None:
            return _Near(0.0 * least, least)
        low, high, per_width = self.summary.minimum, self.summary.maximum, least.copy()
        with np.errstate(over="ignore", divide="ignore"):
            per_width[self.used] = 1.0 / ((FAR + 0.5) * (high - low)[self.used])
        return _Near(0.5 * low + 0.5 * high, np.where(high > low, per_width, least))

    def largest(self, n: int) -> list[tuple[str, float]]:
        """Return names and weights of the n features with the largest absolute weights.

        If features have two weights, they are ordered by importance; see `columns`.
        """
        sizes = self.coef if self.query_coef is None else self.columns()[-1].values
        order = np.argsort(-np.abs(sizes), kind="stable")[:n]
        return [(self.part_name(f), float(self.coef[f])) for f in order.tolist()]

    @property
    def standardized_coef(self) -> Vector | None:
        """Weights times the standard deviations of their features; None if these are not known.

        They do not depend on the units of the features, so they say which features matter.
        """
        if self.summary is None:
            return None
        return self.coef * self.summary.first(self.n_features).deviation

    @property
    def mean_parts(self) -> Vector | None:
        """The part of each feature in the score at the training means; None if not known."""
        if self.summary is None:
            return None
        if self.query_coef is None:
            return self.coef * self.summary.mean
        parts = np.append(self.coef, self.query_coef) * self.summary.mean
        return parts.reshape(2, -1).sum(axis=0)

    def parts(self, X: Array, documents: Array | None = None) -> Vector:
        """Return the part of each feature in the scores of some rows. See `Model.parts`."""
        steps = self.preprocessing
        if steps is None:
            return X.astype(np.float64) * self.coef
        if self.needs_qid:
            rows, d = X if documents is None else np.vstack([documents, X]), self.n_features
            scaled = steps.apply(rows.astype(np.float64))[-len(X) :] * self.scaled_coef
            parts = scaled[:, :d].copy()
            np.add.at(parts.T, steps.companions, scaled[:, d:].T)
            return parts
        parts = steps.transformed(X) * self.coef
        return parts if self.missing is None else np.where(np.isnan(X), self.missing, parts)

    def facts(self) -> dict[str, object]:
        """Return what is done to the features before they are weighted, in words."""
        return {} if self.preprocessing is None else {"preprocessing": self.preprocessing.words()}

    def columns(self) -> list[FeatureColumn]:
        """Return the weights and, if the deviations are known, the standardised weights.

        If features have two weights, both are returned, and their importance.
        """
        positions, of_range = self.query_coef, "range of the feature in its query"
        unit = of_range if self.needs_qid and positions is None else "unit of the feature"
        found = [FeatureColumn("weight", self.coef, f"weight (score per {unit})")]
        if positions is not None:
            meaning = f"weight in the query (score per {of_range})"
            found.append(FeatureColumn("weight_in_query", positions, meaning))
            if self.summary is not None:
                sizes = np.abs(np.append(self.coef, positions) * self.summary.deviation)
                meaning = "importance (sum of the absolute standardised weights)"
                found.append(FeatureColumn("importance", sizes.reshape(2, -1).sum(axis=0), meaning))
        elif self.standardized_coef is not None:
            meaning = "standardised weight (score per standard deviation of the feature)"
            found.append(FeatureColumn("standardized_weight", self.standardized_coef, meaning))
        return found

    def terms(self) -> list[Term]:
        """Return the parts of the features that have one in the score, in the order of features.

        The sum of the parts is the score. A model that scales within queries has no such form, and
        raises a `DataError`.

        Examples
        --------
        >>> LinearModel([0.0, 2.0], feature_names=["a", "b"]).terms()[0][:3]
        ('b', 2.0, False)
        """
        return terms_of(self)

    def _parameters(self) -> Content:
        content: Content = {"weights": self.coef.tolist()}
        if self.preprocessing is not None:
            content["scaled_weights"] = self.scaled_coef.tolist()
            content["preprocessing"] = self.preprocessing.describe()
        if self.summary is not None:
            content["summary"] = {name: v.tolist() for name, v in vars(self.summary).items()}
        return content

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        steps = content.get("preprocessing")
        if steps is not None:
            shared["preprocessing"] = Preprocessing.from_description(steps)
        if content.get("summary") is not None:
            n_values = shared["preprocessing"].n_values if steps else content["n_features"]
            shared["summary"] = FeatureSummary.from_content(content["summary"], n_values)
        name = "weights" if steps is None else "scaled_weights"
        model = cls(numbers(content, name), **shared)
        if model.n_features != content["n_features"]:
            raise DataError(
                f"{model.n_features} weights where n_features is {content['n_features']}. Use one "
                "weight per feature."
            )
        weights = np.array(numbers(content, "weights"), dtype=np.float64)
        same = weights.shape == model.coef.shape and np.allclose(
            model.coef, weights, rtol=1e-6, atol=0.0
        )
        if not same:
            raise DataError("weights and scaled_weights contradict each other")
        return model


def _product(X: Matrix, w: Vector) -> Vector:
    """Return Xw. BLAS takes any layout of a dense X, but only double precision without a copy."""
    if sparse.issparse(X) or (X.dtype != np.float64 and X.flags.c_contiguous):
        return multiply(X, w)
    check_maps(X)
    return np.asarray(X @ w, dtype=np.float64)


# --------------------------------------------------------------------------------------------------
# `Term`: the part of one feature in a linear score, which exports write as a formula.


class Term(NamedTuple):
    """The part of one feature in a linear score.

    The part is `missing` if the value is missing, and otherwise `weight` times the value. If `log`
    is set, the value x is first replaced by sign(x)·log(1 + |x|). Then it is limited to `low` and
    `high`.
    """

    name: str
    weight: float
    log: bool = False
    low: float | None = None
    high: float | None = None
    missing: float | None = None  #: None: missing values were refused in training
    shift: float | None = None  #: in training, the value was scaled as (value − shift)·factor
    factor: float | None = None
    minimum: float | None = None  #: range of x in the training data, if it is known
    maximum: float | None = None
    mean: float | None = None  #: mean and standard deviation of the value that `weight` multiplies
    deviation: float | None = None
    may_be_missing: bool = True  #: False: the training data had a value in every row


def terms_of(model: LinearModel) -> list[Term]:
    """Return the parts of the features of a model; see `LinearModel.terms`."""
    if model.needs_qid:
        raise DataError(
            "this model scales features within each query, so its score is no formula of one "
            "document. Train with another scale, such as scale='standard' (--scale standard)."
        )
    return given_terms(model)


def given_terms(model: LinearModel) -> list[Term]:
    """Return the parts of the features in use, without those of positions in queries."""
    steps, names = model.preprocessing, model.names()
    columns: dict[str, Vector | None] = {"weight": model.coef, "missing": model.missing}
    if steps is not None:
        columns |= {name: getattr(steps, name) for name in ("low", "high", "shift", "factor")}
    if model.summary is not None:
        columns |= vars(model.summary.first(model.n_features))
    known = {
        name: [None if np.isnan(v) else v for v in values.tolist()]
        for name, values in columns.items()
        if values is not None
    }
    log = steps is not None and steps.log
    complete = set() if model.profile is None else model.profile.complete(model.n_features)
    return [
        Term(
            names[f],
            log=log,
            may_be_missing=f not in complete,
            **{name: values[f] for name, values in known.items()},
        )
        for f in model.used.tolist()
    ]
