"""`Formula`: the score of a model as a sum of terms, with the names that a target uses."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse

from .._typing import Vector
from ..errors import DataError

if TYPE_CHECKING:
    from .expression import Syntax

Kind = Literal["linear", "additive"]  #: kinds of models that can be exported
Shift = float | Literal["training"]  #: a constant, or the one that training ranges determine


@dataclass(frozen=True)
class Formula(ABC):
    """The score ``constant + Σ terms``, in which a term is a function of one or two features.

    Attributes
    ----------
    columns : tuple of int
        Positions of the features that have a part in the score, from 0, in increasing order.
    names : tuple of str
        Names of all features of the model, as the target uses them.
    given : frozenset of str
        Names that come from ``features=``. Targets that have expressions use them verbatim.
    constant : float
        Constant part of the score; see `training_shift`.
    """

    kind: ClassVar[Kind]

    columns: tuple[int, ...]
    names: tuple[str, ...]
    given: frozenset[str] = frozenset()
    constant: float = 0.0

    @property
    def used(self) -> list[str]:
        """The names of the features that have a part in the score."""
        return [self.names[column] for column in self.columns]

    def shifted(self, shift: Shift | None) -> Self:
        """Return the formula with a constant; without one if `shift` is None."""
        if shift is None:
            return self
        if shift == "training":
            return replace(self, constant=training_shift(self.ranges()))
        if isinstance(shift, bool | str) or not math.isfinite(shift):
            raise DataError(f"shift is {shift!r}; expected a finite number or 'training'")
        return replace(self, constant=float(shift))

    def scores(self, X: Any) -> Vector:
        """Score the rows of a checked matrix in double precision."""
        total = np.full(X.shape[0], self.constant)
        for part in self.parts(X):
            total += part
        return total

    def values(self, X: Any) -> dict[int, Vector]:
        """Return the raw values of each used feature in the rows of a checked matrix."""
        if sparse.issparse(X):
            X = X.tocsc()[:, list(self.columns)].toarray().astype(np.float64)
            return dict(zip(self.columns, X.T, strict=True))
        return {column: np.asarray(X[:, column], dtype=np.float64) for column in self.columns}

    @abstractmethod
    def parts(self, X: Any) -> Iterator[Vector]:
        """Yield the value of each term in the rows of a checked matrix, in double precision."""

    @abstractmethod
    def ranges(self) -> list[tuple[float, float]]:
        """Return the lowest and highest value of each term within the ranges of training data."""

    @abstractmethod
    def texts(self, references: Mapping[int, str], syntax: Syntax) -> list[str]:
        """Return each term as text; `references` stand for the raw values of the columns."""

    @abstractmethod
    def unlike_zero(self) -> str | None:
        """Return a feature whose missing values must not be replaced by 0; None if none has."""


def training_shift(ranges: Sequence[tuple[float, float]]) -> float:
    """Return a constant that makes scores positive within the ranges of the training data.

    The constant is minus the sum of the lowest values of the terms, and the largest rounding error
    of a sum in single precision. Scores of rows within the ranges are then at least 0, also if an
    engine rounds.

    Examples
    --------
    >>> round(training_shift([(-2.0, 6.0), (-4.0, 0.0)]), 4)
    6.0
    """
    lowest = sum(low for low, _ in ranges)
    largest = sum(max(abs(low), abs(high)) for low, high in ranges)
    error = float(np.finfo(np.float32).eps) * (len(ranges) + 1)
    return max(0.0, -lowest) + 2 * error * largest


def renamed(names: Sequence[str], features: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the attributes ``names`` and ``given`` of a formula, and check the names.

    Parameters
    ----------
    names : sequence of str
        Names of the features of the model.
    features : mapping, optional
        Name in the target for names of the model. Other features keep their names.
    """
    features = {} if features is None else features
    _check_features(features, names)
    check_distinct(names, "the model has")
    return {
        "names": tuple(features.get(name, name) for name in names),
        "given": frozenset(features.values()),
    }


def _check_features(features: Mapping[str, str], names: Sequence[str]) -> None:
    known = set(names)
    for name, other in features.items():
        if name not in known:
            raise DataError(
                f"features= names {name!r}, which is not a feature of the model; its features are "
                f"{', '.join(map(repr, names[:5]))}{', …' if len(names) > 5 else ''}"
            )
        if not isinstance(other, str) or not other.strip():
            raise DataError(f"features[{name!r}] is {other!r}; expected a name of the target")


def check_distinct(names: Iterable[str], who: str) -> None:
    """Raise a `DataError` if two features have the same name."""
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise DataError(f"{who} {count} features with the name {name!r}; use distinct names")
