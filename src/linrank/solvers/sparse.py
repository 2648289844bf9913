"""What the solvers of sparse problems share: criticality, and a duality gap from any gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import norm
from scipy.optimize import minimize_scalar

from ..penalties import ElasticNet
from .base import Solver, Vector


@dataclass
class SparseSolver(Solver):
    """A method that minimises f(w) + Ω(w), a `SparseProblem`.

    ``point.value`` is the objective, ``point.gradient`` the gradient of f alone, and a gradient
    norm is the distance of −∇f to the subdifferential of Ω: 0 at a critical point.

    For convex Ω there is a lower bound on the optimum. With u_p = −ℓ'(t_p), the dual variables
    s·C·u_p for 0 ≤ s ≤ 1 have the dual value

        −C·Σ_p ℓ*(−s·u_p) − Ω*(−s·∇f)  ≥  s·(f(w) − w'∇f(w)) − Ω*(−s·∇f),

    by the convexity of the conjugate ℓ* and ℓ*(0) = −min ℓ = 0: so it takes any convex loss, and
    nothing but f and its gradient. For l1, Ω* is 0 while s·|∂f/∂w_j| ≤ β_j, and infinite beyond.
    Stops when the gap to the best bound is at most `tol` of the objective or, where there is no
    bound, when the distance is at most `tol` of ‖∇f(0)‖.
    """

    def _relative_norm(self) -> float:
        away = self.problem.penalty.distance(self.point.w, self.point.gradient)
        size = float(norm(away, check_finite=False))
        return size / self.slope_at_zero if self.slope_at_zero > 0 else 0.0

    def _is_done(self) -> bool:
        """Raise the bound with what is known here, and see whether it is near enough."""
        self.bound = max(self.bound, self._dual_value())
        gap, away = self._gap(), self._relative_norm()
        if not self.point.w.any():
            return away == 0.0  # no feature is no ranker, however small the gap
        return away <= self.tol if gap is None else gap <= self.tol

    def _dual_value(self) -> float:
        penalty, w, gradient = self.problem.penalty, self.point.w, self.point.gradient
        if not penalty.convex or not penalty.weights.all():
            return -np.inf
        inner = self.point.value - penalty.value(w) - float(w @ gradient)
        if isinstance(penalty, ElasticNet) and penalty.ratio < 1:
            return _elastic_net_dual(inner, gradient, penalty)
        steepest = float(np.max(np.abs(gradient) / penalty.weights))
        return inner * min(1.0, 1.0 / steepest) if steepest > 0 else inner


def _elastic_net_dual(inner: float, gradient: Vector, penalty: ElasticNet) -> float:
    """The largest s·inner − Ω*(−s·gradient) for 0 ≤ s ≤ 1."""
    beta, rho = penalty.weights, penalty.ratio

    def dual(s: float) -> float:
        excess = np.maximum(s * np.abs(gradient) - rho * beta, 0.0)
        return s * inner - float(np.sum(excess**2 / (2.0 * (1.0 - rho) * beta)))

    found = minimize_scalar(lambda s: -dual(s), bounds=(0.0, 1.0), method="bounded")
    return max(dual(1.0), dual(float(found.x)))
