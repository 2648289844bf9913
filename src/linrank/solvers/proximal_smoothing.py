"""Smoothing with a penalty that selects features: losses with corners and convex penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._typing import Vector
from ..problem import Problem
from .base import Iterate, state
from .fista import FISTA
from .linear_program import is_small_program, solve_program
from .needs import Needs
from .proximal_newton import ProximalNewton
from .result import Result, Status
from .smoothing import FIRST_WIDTH, SHRINKAGE, SMALLEST_WIDTH, Smoothing

FIRST_TOL = 0.1  #: relative gap to which the first smoothed problem is solved
TOL_REDUCTION = 0.2  #: factor of that gap if the optimisation is the larger part of the gap
SMALLEST_TOL = 1e-12  #: relative gap below which rounding dominates
NEWTON_STEPS = 100  #: most proximal Newton steps of a smoothed problem
FISTA_STEPS = 10_000  #: most proximal gradient steps of a fit


@dataclass
class ProximalSmoothing(Smoothing):
    """Proximal Newton for a loss whose corners are smoothed over a shrinking width μ.

    The smoothed losses are those of `Smoothing`. Each smoothed problem Ω(w) + C·L_μ(w) is solved
    by `ProximalNewton`, starting from the solution for the larger μ. With g = C·∇L_μ(w) and the
    part c of the gap that is due to the smoothing (`Smoothing`), the dual value

        s·(C·L(w) − w'g − c) − Ω*(−s·g)    for any    0 ≤ s ≤ 1

    is a lower bound on the optimum, because the multipliers of the pairs stay feasible if they
    are multiplied by s. The largest value over s is used.

    If smoothing makes no more progress, an l1 problem of at most 2,000 pairs is solved as a linear
    program (`scipy.optimize.linprog`). Its multipliers give a bound of their own.

    The solver stops when the gap to the best bound is at most `tol` of the objective. If a feature
    has no cost, there is no bound. The solver then stops when a smoothed problem that is solved to
    `tol` has an objective within `tol` of the objective itself.

    Parameters
    ----------
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> from linrank.penalties import L1
    >>> data = make_ranking(random_state=0)
    >>> problem = make_problem(data, C=1e-3, loss="hinge", penalty=L1())
    >>> result = ProximalSmoothing(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    name: ClassVar[str] = "proximal-smoothing"
    needs: ClassVar[Needs] = Needs(loss="cornered", penalties=("convex", "group"), bounds=True)
    _gradient_steps: int = state()  #: proximal gradient steps that are left

    def _minimise(self) -> Status:
        mu, w = FIRST_WIDTH, self.point.w
        self._width = mu
        smoothed = self.problem.with_engine(
            self.problem.engine.with_loss(self._loss().smoothed(mu))
        )
        inner = ProximalNewton(FIRST_TOL, NEWTON_STEPS)
        self._gradient_steps = 0 if is_small_program(self.problem) else FISTA_STEPS
        for _ in range(self.max_iter):
            result = self._solve(inner, smoothed, w)
            w = result.coef
            corner, rest = self._certify_penalised(smoothed, w)
            self._record()
            if self.bound == -np.inf:
                rest = inner.tol * self.point.value
            exact = max(corner, rest) <= self.tol * self.point.value
            if self._is_done() or (self.bound == -np.inf and exact and result.converged):
                return Status.CONVERGED
            if not result.converged or mu < SMALLEST_WIDTH:
                return self._finish()
            if rest <= corner:
                mu *= SHRINKAGE
                self._width = mu
                smoothed.engine.change_loss(self._loss().smoothed(mu))
            elif inner.tol > SMALLEST_TOL:
                inner.tol = max(TOL_REDUCTION * inner.tol, SMALLEST_TOL)
            else:  # The next smoothed problem would be the same one.
                return self._finish()
        return Status.MAX_ITER

    def _finish(self) -> Status:
        """Solve a linear program of few pairs, where smoothing makes no more progress."""
        found = solve_program(self.problem) if is_small_program(self.problem) else None
        if found is not None:
            value, away = self.problem.value_grad(found.w)[0], found.gradient
            self.bound = max(self.bound, found.bound)
            if value <= self.point.value:
                self.point = Iterate(found.w, value, self.problem.penalty.distance(found.w, away))
            self._record()
        return Status.CONVERGED if self._is_done() else self._status_at_rest()

    def _solve(self, inner: ProximalNewton, smoothed: Problem, w: Vector) -> Result:
        """Solve a smoothed problem by proximal Newton or, where that is stuck, by FISTA.

        If μ is small, all pairs may lie outside of the smoothed corners. The Hessian is then 0 and
        says nothing about a step, but proximal gradients still descend.
        """
        result = inner.solve(smoothed, w)
        if not (result.converged or result.status is Status.INTERRUPTED) and self._gradient_steps:
            gradients = FISTA(tol=inner.tol, max_iter=self._gradient_steps)
            result = gradients.solve(smoothed, result.coef)
            self._gradient_steps -= result.n_iter
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f*; without a lower bound, the stopping rule has found it to be small."""
        return 0.0 if self.bound == -np.inf else super()._excess(goal)

    def _is_done(self) -> bool:
        """Return whether the gap is small; w = 0 is only accepted if it is the optimum."""
        gap = self._gap()
        if gap is None or gap > self.tol:
            return False
        return bool(self.point.w.any()) or self.problem.smallest_C() >= self.problem.C

    def _certify_penalised(self, smoothed: Problem, w: Vector) -> tuple[float, float]:
        """Keep the best objective and dual value; return the two parts of the gap."""
        penalty = self.problem.penalty
        smoothed_value, gradient = smoothed.value_grad(w)
        value, corner = self._value_and_corner(smoothed, w, smoothed_value)
        rest = 0.0
        if penalty.weights.all():
            rise = value - penalty.value(w) - float(w @ gradient) - corner
            dual = penalty.best_dual(rise, 0.0, gradient, 1.0)
            self._raise_bound(dual, value + float(np.abs(w) @ np.abs(gradient)) + corner)
            rest = value - corner - dual
        if value <= self.point.value or not self.point.w.any():
            self.point = Iterate(w, value, penalty.distance(w, gradient))
        return corner, rest
