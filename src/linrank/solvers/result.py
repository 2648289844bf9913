"""What a solver returns."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Status(enum.Enum):
    """Why a solver stopped; the value is a sentence for people."""

    CONVERGED = "The stopping rule is met."
    CRITICAL = "A critical point is reached; where the penalty is not convex, others may be better."
    SETTLED = "The objective has settled; how far the optimum is, is not known."
    FAR = (
        "The gradient is as small as the stopping rule asks, but the optimum is far: the objective "
        "can still fall by more than 0.1·tol of its value."
    )
    PRECISION = "The objective cannot be lowered further in double precision."
    STUCK = "No step lowers the objective: rounding hides the slope."
    MAX_ITER = "The largest number of iterations was reached before the stopping rule was met."
    INTERRUPTED = "Interrupted; these are the best weights so far."


class Step(NamedTuple):
    """One line of a solver's history."""

    iteration: int
    objective: float
    gradient_norm: float  #: relative to the gradient at w = 0
    products: int  #: Hessian products so far
    seconds: float
    gap: float | None = None  #: relative duality gap, where the solver knows it


@dataclass
class Result:
    """The weights that a solver found, and how it went.

    Attributes
    ----------
    coef : float64 array
    status : Status
    objective, gradient_norm : float
        At ``coef``; the norm is relative to that of the gradient at w = 0.
    n_iter, n_products, n_evaluations : int
        Outer iterations, Hessian products, and evaluations of value and gradient.
    seconds : float
    history : list of Step
    gap : float, optional
        From solvers that know a lower bound on the optimum: how far the objective is above
        that bound, as a part of the objective. The optimum is nearer than this.
    """

    coef: NDArray[np.float64]
    status: Status
    objective: float
    gradient_norm: float
    n_iter: int
    n_products: int
    n_evaluations: int
    seconds: float
    history: list[Step] = field(repr=False)
    gap: float | None = None

    @property
    def n_selected(self) -> int:
        """How many features have a weight."""
        return int(np.count_nonzero(self.coef))

    @property
    def converged(self) -> bool:
        """Whether the weights are as good as the stopping rule, or the arithmetic, allows.

        `Status.SETTLED` counts: stochastic solvers know no distance to the optimum.
        """
        return self.status in (
            Status.CONVERGED, Status.CRITICAL, Status.SETTLED, Status.PRECISION
        )  # fmt: skip

    @property
    def message(self) -> str:
        """One sentence on how it ended and where it stands."""
        gap = "" if self.gap is None else f"relative duality gap {self.gap:.1e}, "
        return (
            f"{self.status.value} {self.n_iter} iterations, {self.n_products} Hessian products, "
            f"objective {self.objective:.6g}, {gap}"
            f"gradient at {self.gradient_norm:.1e} of its start, {self.seconds:.2f} s."
        )
