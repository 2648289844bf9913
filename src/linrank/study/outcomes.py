"""What the runs of a study found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._typing import Integers, Vector

PATH_FEATURES = 20  #: features whose weights along a path are kept, for pictures
LONGEST_CURVE = 2**20  #: steps of a solver that are kept; pictures show fewer


class Trial(NamedTuple):
    """One setting of a method on one fold."""

    setting: dict[str, Any]
    valid: float  #: the metric on the validation part, by which settings are chosen
    test: float  #: the metric on the test part
    n_features: int | None  #: features in use; None if the model does not tell
    seconds: float  #: of the fit; along a path, from the solution for the C before


class Brief(NamedTuple):
    """What a table shows of a run: the chosen trial, and the seconds of the whole run."""

    trial: Trial
    seconds: float


@dataclass(frozen=True)
class Curve:
    """How a solver approached the optimum, from weights of 0, with the chosen setting."""

    seconds: Vector
    products: Integers
    objective: Vector
    gradient_norm: Vector


@dataclass(frozen=True)
class Weights:
    """Weights of the chosen setting, and those of the largest features along a path of C."""

    coef: Vector
    Cs: Vector
    features: Integers
    path: Vector  #: of shape (n_Cs, len(features))
    names: list[str]  #: of all features


@dataclass(frozen=True)
class Outcome:
    """What a run found.

    Attributes
    ----------
    trials : list of Trial
        One trial, or one for each C of a path.
    chosen : int
        The trial with the best validation metric.
    scores : float64 array
        Scores of the documents of the test part with the chosen trial.
    n_features : int
        Features of the data; those that are zero in all documents count, too.
    n_used : int or None
        Features that the chosen model uses; None if it does not tell.
    train_seconds, score_seconds : float
        Seconds of a fit with the chosen setting, and of scoring the test part.
    total_seconds : float
        Seconds of the whole run.
    weights : Weights, optional
        For linear models.
    curve : Curve, optional
        For models of linrank's own solvers.
    notes : list of str
        Sentences of warnings.
    """

    trials: list[Trial]
    chosen: int
    scores: Vector
    n_features: int
    n_used: int | None
    train_seconds: float
    score_seconds: float
    total_seconds: float
    weights: Weights | None = None
    curve: Curve | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> Trial:
        """The chosen trial."""
        return self.trials[self.chosen]
