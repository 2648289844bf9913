"""`Formula`: the score of a model as a sum over features, with the names that a target uses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import sparse

from .._typing import Vector
from ..errors import DataError

if TYPE_CHECKING:
    from ..model import LinearModel, Term

Shift = float | Literal["training"]  #: a constant, or the one that training ranges determine


@dataclass(frozen=True)
class Formula:
    """The score ``constant + Σ (missing if x is missing else weight · clip(log?(x)))``.

    Attributes
    ----------
    terms : tuple of Term
        One per feature with a contribution, with the name that the target uses.
    columns : tuple of int
        Position of each term's feature among the features of the model, from 0.
    names : tuple of str
        Names of all features of the model.
    given : frozenset of str
        Names that come from ``features=``. Targets that have expressions use them verbatim.
    constant : float
        Constant part of the score; see `training_shift`.
    """

    terms: tuple[Term, ...]
    columns: tuple[int, ...]
    names: tuple[str, ...]
    given: frozenset[str] = frozenset()
    constant: float = 0.0

    @classmethod
    def of(
        cls,
        model: LinearModel,
        features: Mapping[str, str] | None = None,
        shift: Shift | None = None,
    ) -> Formula:
        """Return the formula of a model, with other names and a constant.

        Parameters
        ----------
        model : LinearModel
        features : mapping, optional
            Name in the target for names of the model. Other features keep their names.
        shift : float or "training", optional
            The constant.
        """
        features = {} if features is None else features
        names = model.names()
        _check_features(features, names)
        _check_distinct(names, "the model has")
        terms = [term for term in map(_plain, model.terms()) if term.weight or term.missing]
        if not terms:
            raise DataError("the model has no weight other than 0, so there is nothing to export")
        place = {name: column for column, name in enumerate(names)}
        formula = cls(
            tuple(term._replace(name=features.get(term.name, term.name)) for term in terms),
            tuple(place[term.name] for term in terms),
            tuple(features.get(name, name) for name in names),
            frozenset(features.values()),
        )
        _check_distinct([term.name for term in formula.terms], "features= gives")
        return formula if shift is None else formula.shifted(shift)

    def shifted(self, shift: Shift) -> Formula:
        """Return the formula with a constant."""
        if shift == "training":
            return replace(self, constant=training_shift(self.terms))
        if isinstance(shift, bool | str) or not math.isfinite(shift):
            raise DataError(f"shift is {shift!r}; expected a finite number or 'training'")
        return replace(self, constant=float(shift))

    def scores(self, X: Any) -> Vector:
        """Score the rows of a checked matrix in double precision."""
        total = np.full(X.shape[0], self.constant)
        for term, values in zip(self.terms, self.values(X), strict=True):
            total += contribution(term, values)
        return total

    def values(self, X: Any) -> list[Vector]:
        """Return the raw values of each term's feature in the rows of a checked matrix."""
        if sparse.issparse(X):
            X = X.tocsc()[:, list(self.columns)].toarray()
            return list(X.T.astype(np.float64))
        return [np.asarray(X[:, column], dtype=np.float64) for column in self.columns]


def contribution(term: Term, values: Vector | float) -> Vector:
    """Return the part of the score that a feature has for raw values; NaN is a missing value."""
    values = np.asarray(values, dtype=np.float64)
    part = np.sign(values) * np.log1p(np.abs(values)) if term.log else values
    if term.low is not None or term.high is not None:
        part = np.clip(part, term.low, term.high)
    part = term.weight * part
    return part if term.missing is None else np.where(np.isnan(values), term.missing, part)


def training_shift(terms: tuple[Term, ...]) -> float:
    """Return a constant that makes scores positive within the ranges of the training data.

    A contribution is monotone in its feature, so its minimum is at an end of the range. The
    constant is minus the sum of the minima, and the largest rounding error of a sum in single
    precision. Scores of rows within the ranges are then at least 0, also if an engine rounds.
    """
    lowest, largest = 0.0, 0.0
    for term in terms:
        if term.minimum is None or term.maximum is None:
            raise DataError(
                "shift='training' needs the ranges of the training data, which this model does "
                "not have. Pass a number, such as shift=100."
            )
        ends = contribution(term, np.array([term.minimum, term.maximum])).tolist()
        if term.missing is not None:
            ends.append(term.missing)
        lowest += min(ends)
        largest += max(map(abs, ends))
    error = float(np.finfo(np.float32).eps) * (len(terms) + 1)
    return max(0.0, -lowest) + 2 * error * largest


def require_linear(formula: Formula, target: str) -> None:
    """Raise a `DataError` unless each contribution is weight × value, with 0 for missing values."""
    for term in formula.terms:
        if term.log:
            reason = "is replaced by its logarithm"
        elif term.low is not None or term.high is not None:
            reason = "is clipped"
        elif not reads_missing_as_zero(term):
            reason = "has a contribution of its own if it is missing"
        else:
            continue
        raise DataError(
            f"{target} cannot express that feature {term.name!r} {reason}. Export to vespa, sql, "
            "onnx, pmml, c or python, or train without this step."
        )


def reads_missing_as_zero(term: Term) -> bool:
    """Tell whether a missing value may be replaced by 0 before scoring."""
    return term.missing is None or term.missing == float(contribution(term, 0.0))


def _plain(term: Term) -> Term:
    """Return a term in which limits that limit nothing, and rules that refuse, are None."""
    low, high, missing = (
        None if value is None or not math.isfinite(value) else value
        for value in (term.low, term.high, term.missing)
    )
    return term._replace(low=low, high=high, missing=missing)


def _check_features(features: Mapping[str, str], names: list[str]) -> None:
    known = set(names)
    for name, other in features.items():
        if name not in known:
            raise DataError(
                f"features= names {name!r}, which is not a feature of the model; its features are "
                f"{', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}"
            )
        if not isinstance(other, str) or not other.strip():
            raise DataError(f"features[{name!r}] is {other!r}; expected a name of the target")


def _check_distinct(names: list[str], who: str) -> None:
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"{who} {count} features with the name {name!r}; use distinct names")
