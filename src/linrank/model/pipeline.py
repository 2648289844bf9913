"""`fold_pipeline`: the steps of a scikit-learn pipeline, as the preprocessing of a model.

Every step that can be folded turns columns into columns of the form

    value = scale·x + offset, limited to [low, high], or `missing` if x is missing

where x is one of the given features. `Columns` holds these numbers for all columns, and each step
is a function from columns to columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Integers, Mask, Vector
from ..errors import DataError
from ..features.preprocessing import Preprocessing
from ..features.summary import FeatureSummary
from .linear import LinearModel

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


@dataclass(frozen=True)
class Columns:
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
    def given(cls, n: int) -> Columns:
        """Return the given features themselves."""
        ones, nothing = np.ones(n), np.full(n, np.nan)
        return cls(np.arange(n), ones, 0 * ones, -np.inf * ones, np.inf * ones, nothing)

    def affine(self, factor: Any, shift: Any) -> Columns:
        """Return ``(value − shift)·factor``."""
        return replace(
            self, scale=self.scale * factor, offset=(self.offset - shift) * factor,
            missing=(self.missing - shift) * factor,
        )  # fmt: skip

    def clipped(self, low: float, high: float) -> Columns:
        """Return values limited to [low, high]."""
        is_value = self.scale != 0
        scale = np.where(is_value, self.scale, 1.0)
        ends = np.sort([(limit - self.offset) / scale for limit in (low, high)], axis=0)
        return replace(
            self, low=np.clip(self.low, *ends), high=np.clip(self.high, *ends),
            offset=np.where(is_value, self.offset, np.clip(self.offset, low, high)),
            missing=np.clip(self.missing, low, high),
        )  # fmt: skip

    def take(self, chosen: Integers | Mask) -> Columns:
        """Return some of the columns."""
        return Columns(*(values[chosen] for values in vars(self).values()))

    def joined(self, other: Columns) -> Columns:
        """Return the columns of both."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Columns(*(np.concatenate(pair) for pair in pairs))


Fold = Callable[[Any, Columns], Columns]


def _standard(step: Any, columns: Columns) -> Columns:
    scale = 1.0 if step.scale_ is None else step.scale_
    return columns.affine(1.0 / scale, step.mean_ if step.with_mean else 0.0)


def _min_max(step: Any, columns: Columns) -> Columns:
    columns = columns.affine(step.scale_, -step.min_ / step.scale_)
    return columns.clipped(*step.feature_range) if step.clip else columns


def _max_abs(step: Any, columns: Columns) -> Columns:
    columns = columns.affine(1.0 / step.scale_, 0.0)
    return columns.clipped(-1.0, 1.0) if getattr(step, "clip", False) else columns


def _robust(step: Any, columns: Columns) -> Columns:
    scale = 1.0 if step.scale_ is None else step.scale_
    return columns.affine(1.0 / scale, 0.0 if step.center_ is None else step.center_)


def _imputer(step: Any, columns: Columns) -> Columns:
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


def _selector(step: Any, columns: Columns) -> Columns:
    return columns.take(step.get_support(indices=True))


def _column_transformer(step: Any, columns: Columns) -> Columns:
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


def _fold(step: Any, columns: Columns) -> Columns:
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
    if model.preprocessing is not None:
        raise DataError(
            f"the pipeline has the steps {', '.join(repr(name) for name, _ in steps)} before a "
            "ranker with scale or missing. Use one of both."
        )
    known = next(part for _, part in pipe.steps if hasattr(part, "n_features_in_"))
    n_features, names = known.n_features_in_, getattr(known, "feature_names_in_", None)
    columns = Columns.given(n_features)
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

    def __init__(self, columns: Columns, model: LinearModel, n_features: int) -> None:
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
