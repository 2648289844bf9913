"""Weighted features with normalisers, as Solr and the plugin of Elasticsearch compute them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._typing import Vector
from ..errors import DataError
from .linear import LinearFormula, require_linear

if TYPE_CHECKING:
    from ..model import Term

Normalizers = Literal["fold", "emit"]
LARGEST = float(np.finfo(np.float32).max)  #: the largest number that the engines can hold
SMALLEST = float(np.finfo(np.float32).tiny)  #: smaller standard deviations lose digits or become 0


class Scaling(NamedTuple):
    """A normaliser: the engine computes ``(x − shift) / width``."""

    kind: Literal["standard", "min_max"]
    shift: float
    width: float


class Weighted(NamedTuple):
    """A feature with its weight in the engine. The column of a constant feature is None."""

    name: str
    weight: float
    column: int | None
    scaling: Scaling | None = None


def weighted_features(
    formula: LinearFormula, target: str, normalizers: Normalizers, constant: str | None
) -> list[Weighted]:
    """Return the features of an engine that knows weights and normalisers only.

    Parameters
    ----------
    formula : LinearFormula
    target : str
        Name of the engine in messages.
    normalizers : {"fold", "emit"}
        Whether the scaling of the training is part of the weights, or a normaliser. Without a
        constant feature, scores with normalisers differ from those of the model by a constant.
    constant : str, optional
        Name of a feature that is 1 for all documents. Its weight is the constant of the formula.
    """
    require_linear(formula, target)
    if formula.constant and constant is None:
        raise DataError(
            f"{target} has no constant term, so shift= needs a feature that is 1 for all "
            "documents. Give its name, such as constant='one' (--option constant=one)."
        )
    features = [
        _weigh(term, column, normalizers, target)
        for term, column in zip(formula.terms, formula.columns, strict=True)
    ]
    if normalizers == "emit" and not any(feature.scaling for feature in features):
        raise DataError(
            "normalizers='emit' needs a model whose features were scaled in training. Use "
            "normalizers='fold'."
        )
    if constant is not None:
        if constant in (feature.name for feature in features):
            raise DataError(f"constant is {constant!r}, which is the name of another feature")
        dropped = math.fsum(f.weight * f.scaling.shift / f.scaling.width
                            for f in features if f.scaling)  # fmt: skip
        features.append(Weighted(constant, formula.constant + dropped, None))
    return features


def _weigh(term: Term, column: int, normalizers: Normalizers, target: str) -> Weighted:
    scaling = _scaling(term) if normalizers == "emit" else None
    weight = term.weight if scaling is None else term.weight * scaling.width
    if abs(weight) > LARGEST:
        raise DataError(
            f"the weight {weight:g} of feature {term.name!r} is too large for {target}, which "
            "computes in single precision. Multiply the feature by a power of ten in training."
        )
    if scaling is not None and not SMALLEST <= scaling.width <= LARGEST:
        raise DataError(
            f"the scale {scaling.width:g} of feature {term.name!r} is outside the single precision "
            f"of {target}. Use normalizers='fold'."
        )
    return Weighted(term.name, weight, column, scaling)


def _scaling(term: Term) -> Scaling | None:
    """Return the normaliser of a feature; None if it was not scaled, or is constant."""
    if not term.factor:
        return None
    shift, width = term.shift or 0.0, 1.0 / term.factor
    if term.minimum is not None and term.maximum is not None:
        spans = math.isclose(width, term.maximum - term.minimum, rel_tol=1e-12)
        if spans and shift == term.minimum:
            return Scaling("min_max", shift, width)
    return Scaling("standard", shift, width)


def sum_in_float32(
    formula: LinearFormula,
    X: Any,
    *,
    normalizers: Normalizers = "fold",
    constant: str | None = None,
    **_: object,
) -> Vector:
    """Score rows as the engines do: values, products and sums in single precision, in order."""
    features = weighted_features(formula, "the engine", normalizers, constant)
    values = formula.values(X)
    total = np.zeros(X.shape[0], dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for feature in features:
            value = np.ones_like(total)
            if feature.column is not None:
                known = np.nan_to_num(values[feature.column], nan=0.0)  # missing values are 0
                value = known.astype(np.float32)
            if feature.scaling is not None:
                shift, width = np.float32(feature.scaling.shift), np.float32(feature.scaling.width)
                value = (value - shift) / width
            total += value * np.float32(feature.weight)
    return total.astype(np.float64)
