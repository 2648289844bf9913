"""The base class of the solvers for penalties without a derivative, with a duality gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import norm

from .base import Solver

PRECISE_GAP = 1e-6  #: relative gap at which a method may end because of rounding


@dataclass
class SparseSolver(Solver):
    """A method that minimises f(w) + Ω(w), for a penalty Ω without a derivative.

    ``point.value`` is the objective, ``point.gradient`` the gradient of f alone, and a gradient
    norm is the distance of −∇f to the subdifferential of Ω: 0 at a critical point.

    For convex Ω there is a lower bound on the optimum. The gradient ∇f at any w is a point of the
    dual, and so is s·∇f for 0 ≤ s ≤ 1, with the dual value

        −f*(s·∇f) − Ω*(−s·∇f)  ≥  s·(f(w) − w'∇f(w)) − Ω*(−s·∇f),

    by the convexity of the conjugate f* and f*(0) = −min f ≤ 0: so it takes any convex loss that is
    never below 0, and nothing but f and its gradient. For l1, Ω* is 0 while s·|∂f/∂w_j| ≤ β_j, and
    infinite beyond: near the optimum, where s must be 1 − ε, the bound is off by ε·f.

    For the squared hinge, whose ℓ*(−u) = u²/4 − u is known, the left side itself is
    s·(2f(w) − w'∇f(w)) − s²·f(w), for every s ≥ 0. Near the optimum it is off by ε·Ω + ε²·f only.

    Stops when the gap to the best bound is at most `tol` of the objective or, where there is no
    bound, when the distance is at most `tol` of ‖∇f(0)‖.
    """

    def _distance(self) -> float:
        away = self.problem.penalty.distance(self.point.w, self.point.gradient)
        return float(norm(away, check_finite=False))

    def _relative_norm(self) -> float:
        """Return the distance in units of ‖∇f(0)‖ or, where that is 0, of the costs of features."""
        unit = self.slope_at_zero or float(norm(self.problem.penalty.weights))
        return self._distance() / unit if unit > 0 else 0.0

    def _gradient_is_small(self) -> bool:
        """Return whether the point is as near to the optimum as rounding allows."""
        gap = self._gap()
        return super()._gradient_is_small() if gap is None else gap <= max(self.tol, PRECISE_GAP)

    def _is_done(self) -> bool:
        """Raise the lower bound with the dual value here, and return whether the gap is small."""
        self.bound = max(self.bound, self._dual_value())
        gap, away = self._gap(), self._relative_norm()
        if not self.point.w.any():
            return away == 0.0  # w = 0 ranks nothing, however small the gap is
        return away <= self.tol if gap is None else gap <= self.tol

    def _dual_value(self) -> float:
        penalty, w, gradient = self.problem.penalty, self.point.w, self.point.gradient
        if not penalty.convex or not penalty.weights.all():
            return -np.inf
        loss = self.point.value - penalty.value(w)
        conjugate = loss - float(w @ gradient)
        if self.problem.engine.loss.squared:
            return penalty.best_dual(conjugate + loss, loss, gradient, np.inf)
        return penalty.best_dual(conjugate, 0.0, gradient, 1.0)
