"""`LinearFormula`: the score of a linear model, as a sum of weighted features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np

from .._typing import Vector
from ..errors import DataError
from .expression import Syntax, write_term
from .formula import Formula, Kind, check_distinct, renamed

if TYPE_CHECKING:
    from ..model import Term


@runtime_checkable
class HasTerms(Protocol):
    """What the formula of a linear model needs; see `linrank.LinearModel`."""

    def names(self) -> list[str]:
        """Return the names of all features."""

    def terms(self) -> list[Term]:
        """Return the parts of the features in the score."""


@dataclass(frozen=True)
class LinearFormula(Formula):
    """The score ``constant + Σ (missing if x is missing else weight · clip(log?(x)))``.

    Attributes
    ----------
    terms : tuple of Term
        One per column, with the name that the target uses.
    """

    kind: ClassVar[Kind] = "linear"

    terms: tuple[Term, ...] = ()

    @classmethod
    def of(cls, model: HasTerms, features: Mapping[str, str] | None = None) -> Self:
        """Return the formula of a model, with other names; see `renamed`."""
        names = model.names()
        shared = renamed(names, features)
        terms = [term for term in map(_plain, model.terms()) if term.weight or term.missing]
        if not terms:
            raise DataError("the model has no weight other than 0, so there is nothing to export")
        place = {name: column for column, name in enumerate(names)}
        columns = tuple(place[term.name] for term in terms)
        named = zip(terms, columns, strict=True)
        formula = cls(
            columns,
            terms=tuple(term._replace(name=shared["names"][column]) for term, column in named),
            **shared,
        )
        check_distinct(formula.used, "features= gives")
        return formula

    def parts(self, X: Any) -> Iterator[Vector]:
        """Yield the contribution of each feature to the scores of rows."""
        values = self.values(X)
        for column, term in zip(self.columns, self.terms, strict=True):
            yield contribution(term, values[column])

    def ranges(self) -> list[tuple[float, float]]:
        """Return the range of each term; its ends are those of the feature, by monotonicity."""
        found = []
        for term in self.terms:
            if term.minimum is None or term.maximum is None:
                raise DataError(
                    "shift='training' needs the ranges of the training data, which this model does "
                    "not have. Pass a number, such as shift=100."
                )
            ends = contribution(term, np.array([term.minimum, term.maximum])).tolist()
            if term.missing is not None:
                ends.append(term.missing)
            found.append((min(ends), max(ends)))
        return found

    def texts(self, references: Mapping[int, str], syntax: Syntax) -> list[str]:
        """Return each weighted feature as text."""
        pairs = zip(self.columns, self.terms, strict=True)
        return [write_term(term, references[column], syntax) for column, term in pairs]

    def unlike_zero(self) -> str | None:
        """Return a feature whose missing values have another contribution than the value 0."""
        return next((t.name for t in self.terms if not reads_missing_as_zero(t)), None)


def contribution(term: Term, values: Vector | float) -> Vector:
    """Return the part of the score that a feature has for raw values; NaN is a missing value."""
    values = np.asarray(values, dtype=np.float64)
    part = np.sign(values) * np.log1p(np.abs(values)) if term.log else values
    if term.low is not None or term.high is not None:
        part = np.clip(part, term.low, term.high)
    part = term.weight * part
    return part if term.missing is None else np.where(np.isnan(values), term.missing, part)


def require_linear(formula: LinearFormula, target: str) -> None:
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
