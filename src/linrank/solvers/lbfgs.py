"""L-BFGS: a quasi-Newton method from scipy, to check the others by."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import norm
from scipy.optimize import OptimizeResult, minimize

from .base import Iterate, Solver, Vector
from .newton import estimate_hessian, invert
from .result import Status

MEMORY = 10  #: pairs of differences that stand for the Hessian
ROUNDING = 1e-12  #: an estimated distance to the optimum below this part of f is rounding


@dataclass
class LBFGS(Solver):
    """Limited-memory BFGS (Liu & Nocedal 1989), as scipy's L-BFGS-B without bounds.

    Stops on ‖g(w)‖ ≤ ε‖g(0)‖ (Lee & Lin 2014, eq. 38). For smooth losses. It needs values
    and gradients only, and shares no step with the Newton methods.

    The first step has the length min(f/‖g‖, ‖g‖): the one brings the tangent down to 0, and
    the optimum is no farther than the other, because the penalty ½‖w‖² is a part of f.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.path import make_problem
    >>> result = LBFGS().solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.converged, result.n_products
    (True, 0)
    """

    _trial: Iterate = field(init=False, repr=False)
    _start: Iterate = field(init=False, repr=False)
    _unit: float = field(init=False, repr=False)
    _slope: float = field(init=False, repr=False)

    def _minimise(self) -> Status:
        if self._gradient_is_small():
            return Status.CONVERGED
        self._start = self.point
        self._slope = float(norm(self.point.gradient))
        self._unit = min(self.point.value / self._slope, self._slope)
        found = minimize(
            self._evaluate,
            np.zeros_like(self.point.w),
            jac=True,
            method="L-BFGS-B",
            callback=self._advance,
            options={
                "maxcor": MEMORY,
                "maxiter": self.max_iter,
                "maxfun": np.inf,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        if self._gradient_is_small():
            return Status.CONVERGED
        if found.nit >= self.max_iter:
            return Status.MAX_ITER
        return Status.PRECISION if self._is_hidden() else Status.STUCK

    def _evaluate(self, v: Vector) -> tuple[float, Vector]:
        """The objective for scipy: with units in which the first step and slope are 1."""
        w = self._start.w + self._unit * v
        self._trial = Iterate(w, *self.problem.value_grad(w))
        return self._trial.value / self._unit / self._slope, self._trial.gradient / self._slope

    def _advance(self, intermediate_result: OptimizeResult) -> None:
        """Take the point that scipy has accepted: the last that it evaluated."""
        self.point = self._trial
        self._record()
        if self._gradient_is_small():
            raise StopIteration

    def _is_hidden(self) -> bool:
        """Whether what is left to gain, ½g'P⁻¹g with P ≈ H, drowns in the objective's rounding."""
        gradient = self.problem.value_grad(self.point.w)[1]
        P = self.problem.hessian(estimate_hessian(self.problem, np.inf).of_loss)
        decrement = 0.5 * float(gradient @ invert(P)(gradient))
        return decrement <= ROUNDING * abs(self.point.value)
