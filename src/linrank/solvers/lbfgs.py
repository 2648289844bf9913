"""L-BFGS: the quasi-Newton method of scipy, an independent check of the other solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import norm

from .._util.types import Vector
from .result import Status
from .smooth import SmoothSolver
from .solver import Iterate, Needs, state

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


MEMORY = 10  #: differences of gradients that approximate the Hessian; more need more memory


@dataclass
class LBFGS(SmoothSolver):
    """Limited-memory BFGS (Liu & Nocedal 1989), as scipy's L-BFGS-B without bounds.

    The stopping rule is that of `SmoothSolver`. Steps need values and gradients only, and share no
    code with the Newton methods. Hessian products only estimate the distance to the optimum.

    The first step has the length min(f/‖g‖, ‖g‖). At the length f/‖g‖ the tangent is 0. The
    distance to the optimum is at most ‖g‖, because the penalty ½‖w‖² is a part of f.

    Parameters
    ----------
    tol, max_iter, callback, stop
        See `Solver` and `Newton`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> result = LBFGS().solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.converged, result.n_products
    (True, 0)
    """

    name: ClassVar[str] = "lbfgs"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("l2",))
    _trial: Iterate = state()
    _start: Iterate = state()
    _unit: float = state()
    _slope: float = state()
    _arrived: bool = state()

    def _minimise(self) -> Status:
        from scipy.optimize import minimize  # slow import, which no other solver needs

        if self._has_arrived():
            return Status.CONVERGED
        self._start, self._arrived = self.point, False
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
        if self._arrived:
            return Status.CONVERGED
        return Status.MAX_ITER if found.nit >= self.max_iter else self._status_at_rest()

    def _evaluate(self, v: Vector) -> tuple[float, Vector]:
        """Return the objective for scipy, in units in which the first step and slope are 1."""
        w = self._start.w + self._unit * v
        self._trial = Iterate(w, *self.problem.value_grad(w))
        return self._trial.value / self._unit / self._slope, self._trial.gradient / self._slope

    def _advance(self, intermediate_result: OptimizeResult) -> None:
        """Move to the point that scipy has accepted, which is the last evaluated one."""
        self.point = self._trial
        self._record()
        self._arrived = self._has_arrived()
        if self._arrived:
            raise StopIteration
