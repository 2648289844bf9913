"""The base class of the solvers for penalties without a derivative, with a duality gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import norm

from .._typing import Vector
from ..penalties.base import SeparablePenalty
from ..penalties.convex import L1
from .base import Solver

BARRIER_COST = 1e100  #: cost that keeps a weight at 0, for features with an infinite g'(0)
PRECISE_GAP = 1e-6  #: relative gap at which a solver may stop because of rounding


@dataclass
class SparseSolver(Solver):
    """Base class of the solvers of f(w) + Ω(w) for a penalty Ω without a derivative.

    ``point.value`` is the objective, and ``point.gradient`` is the gradient of f alone. A gradient
    norm is the distance of −∇f to the subdifferential of Ω, which is 0 at a critical point.

    For convex Ω there is a lower bound on the optimum. For any w and 0 ≤ s ≤ 1, the vector s·∇f is
    a point of the dual, with the dual value

        −f*(s·∇f) − Ω*(−s·∇f)  ≥  s·(f(w) − w'∇f(w)) − Ω*(−s·∇f),

    because the conjugate f* is convex and f*(0) = −min f ≤ 0. The bound holds for any convex loss
    that is never negative, and needs only f and its gradient. For l1, Ω* is 0 if s·|∂f/∂w_j| ≤ β_j
    for all j, and otherwise infinite. Near the optimum s must be 1 − ε, and the error is ε·f.

    For the squared hinge, ℓ*(−u) = u²/4 − u is known, and the left side without Ω* is
    s·(2f(w) − w'∇f(w)) − s²·f(w) for every s ≥ 0. Near the optimum its error is only ε·Ω + ε²·f.

    A solver stops when the gap to the best bound is at most `tol` of the objective. If there is no
    bound, it stops when the distance is at most `tol` of ‖∇f(0)‖.
    """

    def _distance(self) -> float:
        away = self.problem.penalty.distance(self.point.w, self.point.gradient)
        return float(norm(away, check_finite=False))

    def _relative_norm(self) -> float:
        """Return the distance divided by ‖∇f(0)‖ or, if that is 0, by the norm of the costs."""
        unit = self.slope_at_zero or float(norm(self.problem.penalty.weights))
        return self._distance() / unit if unit > 0 else 0.0

    def _gradient_is_small(self) -> bool:
        """Return whether the point is as near to the optimum as rounding allows."""
        gap = self._gap()
        return super()._gradient_is_small() if gap is None else gap <= max(self.tol, PRECISE_GAP)

    def _is_done(self) -> bool:
        """Raise the lower bound with the dual value here, and return whether the gap is small."""
        penalty, w = self.problem.penalty, self.point.w
        size = abs(self.point.value) + float(np.abs(w) @ np.abs(self.point.gradient))
        self._raise_bound(self._dual_value(), size + penalty.value(w))
        gap, away = self._gap(), self._relative_norm()
        if not self.point.w.any():
            return away == 0.0  # w = 0 ranks nothing, even if the gap is small
        return away <= self.tol if gap is None else gap <= self.tol

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f* by the lower bound or, without one, by a proximal Newton step.

        For a concave penalty, the step is that of the l1 problem of `Reweighted` at w. It promises
        no decrease at a critical point.
        """
        if self.bound > -np.inf:
            return Solver._excess(self, goal)
        from .proximal_newton import ProximalNewton  # that module imports this one

        problem = self.problem
        if not problem.penalty.convex:
            problem = problem.with_penalty(L1(self._tangents(), bounds=problem.penalty.limits))
        return ProximalNewton().promise_at(problem, self.point.w)

    def _tangents(self) -> Vector:
        """Return the slopes β_j·g'(|w_j|) of a concave penalty, limited to `BARRIER_COST`."""
        penalty = self.problem.penalty
        assert isinstance(penalty, SeparablePenalty)
        return np.minimum(penalty.prices(self.point.w), BARRIER_COST)

    def _dual_value(self) -> float:
        penalty, w, gradient = self.problem.penalty, self.point.w, self.point.gradient
        if not penalty.convex or not penalty.weights.all():
            return -np.inf
        loss = self.point.value - penalty.value(w)
        conjugate = loss - float(w @ gradient)
        if self.problem.engine.loss.squared:
            return penalty.best_dual(conjugate + loss, loss, gradient, np.inf)
        return penalty.best_dual(conjugate, 0.0, gradient, 1.0)
