"""Penalties that are not convex, as a sequence of weighted l1 problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..penalties import L1
from .base import Iterate, Vector
from .proximal_newton import ProximalNewton
from .result import Result, Status
from .sparse import SparseSolver

INNER = 0.1  #: how much more exactly than `tol` the l1 problems are solved
FIXED = 1e8  #: times the steepest slope: a price that no feature can pay


@dataclass
class Reweighted(SparseSolver):
    """``w ← argmin f(w) + Σ_j β_j|w_j|`` with β_j = g'(|w_j|) (Laporte et al. 2014, algorithm 2).

    It begins with β = 1: the l1 solution. As g is concave, each problem is an upper bound on
    the next objective that touches it at w, so the objective falls from step to step. A
    weight of 0 stays 0 where g'(0) is infinite (lp). The l1 problems are solved by
    `ProximalNewton`, each from the solution before.

    Stops, at a critical point, when a step lowers the objective by less than `tol` of it. There
    may be better critical points elsewhere; this one is never worse than the l1 solution.
    """

    def _minimise(self) -> Status:
        penalty = self.problem.penalty
        status = self._step(penalty.weights, start=True)
        for _ in range(self.max_iter):
            if status is not None:
                return status
            status = self._step(penalty.weights * penalty.slope(np.abs(self.point.w)))
        return Status.MAX_ITER

    def _step(self, beta: Vector, start: bool = False) -> Status | None:
        """Solve one l1 problem and go to its solution; a status where that is the end."""
        price = FIXED * max(1.0, float(np.abs(self.point.gradient).max()), self.slope_at_zero)
        result = self._solve(np.minimum(beta, price))
        w = np.where(beta > price, 0.0, result.coef)
        trial = Iterate(w, *self.problem.value_grad(w))
        fall = self.point.value - trial.value
        if start or fall > 0:
            self.point = trial
            self._record()
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if start and not w.any():
            return Status.CRITICAL
        return Status.CRITICAL if not start and fall <= self.tol * abs(trial.value) else None

    def _solve(self, beta: Vector) -> Result:
        inner = self.problem.with_penalty(L1(weights=beta))
        result = ProximalNewton(tol=INNER * self.tol).solve(inner, self.point.w)
        self.problem.n_evaluations += result.n_evaluations
        return result
