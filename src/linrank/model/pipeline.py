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
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = [(limit - self.offset) / self.scale for limit in (low, high)]
        return replace(
            self, low=np.fmax(self.low, np.fmin(*ends)), high=np.fmin(self.high, np.fmax(*ends)),
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
    return columns.affine(1.0 / scale, 0.0 if step.mean_ is None else step.mean_)


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
    parts = [None] * len(columns.source)
    found: Columns | None = None
    for name, part, chosen in step.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        places = _places(chosen, step, len(parts))
        try:
            folded = _fold(part, columns.take(places))
        except DataError as error:
            raise DataError(f"its part {name!r}: {error}") from None
        found = folded if found is None else found.joined(folded)
    if found is None:
        raise DataError("it drops all columns")
    return found


def _places(chosen: Any, step: Any, n: int) -> Integers:
    """Return the positions of the columns of a part of a ColumnTransformer."""
    if callable(chosen):
        raise DataError("its columns are chosen by a function")
    if isinstance(chosen, slice) and not isinstance(chosen.start, str):
        return np.arange(n)[chosen]
    chosen = np.atleast_1d(np.asarray(chosen))
    if chosen.dtype.kind in "UO" and len(chosen):
        names = list(step.feature_names_in_)
        return np.array([names.index(name) for name in chosen])
    return np.arange(n)[chosen] if chosen.dtype == bool else chosen.astype(np.int64)


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
    *steps, (last, ranker) = pipe.steps
    model = getattr(ranker, "model_", None)
    if not isinstance(model, LinearModel):
        raise DataError(
            f"the last step {last!r} is {type(ranker).__name__}; expected a fitted linear ranker "
            "such as RankSVM"
        )
    if not steps:
        return model
    columns = Columns.given(int(pipe.n_features_in_))
    for name, step in steps:
        try:
            columns = _fold(step, columns)
        except DataError as error:
            raise DataError(f"step {name!r} of the pipeline cannot be saved: {error}") from None
    if model.preprocessing is not None:
        raise DataError(
            f"the pipeline has the steps {', '.join(repr(name) for name, _ in steps)} before a "
            "ranker with scale or missing. Use one of both."
        )
    names = getattr(pipe, "feature_names_in_", None)
    return LinearModel(
        **_parameters(columns, model.coef, int(pipe.n_features_in_)),
        feature_names=None if names is None else list(names), index_base=model.index_base,
        settings=model.settings, training=model.training,
    )  # fmt: skip


def _parameters(columns: Columns, weights: Vector, n_features: int) -> dict[str, Any]:
    """Return the weights of a model and its preprocessing, given the weights of columns."""
    is_value = columns.scale != 0
    value, indicator = columns.take(is_value), columns.take(~is_value)
    if len(np.unique(value.source)) < len(value.source):
        twice = np.flatnonzero(np.bincount(value.source) > 1)[0]
        raise DataError(f"feature {twice} of the pipeline is used in two columns. Use it once.")

    def spread(values: Vector, otherwise: float) -> Vector:
        out = np.full(n_features, otherwise)
        out[value.source] = values
        return out

    found: dict[str, Any] = {
        "n_features": n_features,
        "shift": spread(-value.offset / value.scale, 0.0),
        "factor": spread(value.scale, 1.0),
    }
    if not np.isnan(columns.missing).all():
        found["fill"] = spread((value.missing - value.offset) / value.scale, 0.0)
        found["indicators"] = np.unique(indicator.source)
    if np.isfinite(value.low).any() or np.isfinite(value.high).any():
        largest = np.finfo(float).max
        found["low"] = spread(np.maximum(value.low, -largest), -largest)
        found["high"] = spread(np.minimum(value.high, largest), largest)
    effect = weights[~is_value] * (indicator.missing - indicator.offset)
    marks = np.bincount(indicator.source, effect, minlength=n_features)[np.unique(indicator.source)]
    coef = np.append(spread(weights[is_value], 0.0), marks)
    return {"coef": coef, "preprocessing": Preprocessing(**found)}
