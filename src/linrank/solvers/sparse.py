"""What the solvers of sparse problems share: criticality, and a duality gap from any gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import norm

from ..penalties import Penalty
from .base import Solver, Vector

PRECISE = 1e-6  #: a gap at which rounding may end a method that was to come nearer


@dataclass
class SparseSolver(Solver):
    """A method that minimises f(w) + Ω(w), a `SparseProblem`.

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
        """The distance in units of ‖∇f(0)‖ or, where f is flat there, of what features cost."""
        unit = self.slope_at_zero or float(norm(self.problem.penalty.weights))
        return self._distance() / unit if unit > 0 else 0.0

    def _gradient_is_small(self) -> bool:
        """Whether this is as near as rounding lets it come: by the gap, where one is known."""
        gap = self._gap()
        return super()._gradient_is_small() if gap is None else gap <= max(self.tol, PRECISE)

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
        loss = self.point.value - penalty.value(w)
        conjugate = loss - float(w @ gradient)
        if self.problem.engine.loss.squared:
            return highest_dual(conjugate + loss, loss, gradient, penalty, np.inf)
        return highest_dual(conjugate, 0.0, gradient, penalty, 1.0)


def highest_dual(rise: float, bend: float, gradient: Vector, penalty: Penalty, end: float) -> float:
    """The largest ``rise·s − bend·s² − Ω*(−s·gradient)`` for 0 ≤ s ≤ end.

    Ω* has a part for each feature, 0 up to s = l1/|gradient| and a parabola (without an l2 part: a
    wall) from there on. The derivative falls with s: it is followed from one such knot to the next.
    """
    l1, l2 = penalty.parts()
    steep = np.abs(gradient)
    with np.errstate(divide="ignore", invalid="ignore"):
        knots, pulls = l1 / steep, steep**2 / l2
    end = min(end, float(np.min(knots[l2 == 0], initial=np.inf)))
    order = np.argsort(knots)[: np.count_nonzero(knots < end)]
    knots, pulls = knots[order], pulls[order]
    bends = 2.0 * bend + np.concatenate([[0.0], np.cumsum(pulls)])
    rises = rise + np.concatenate([[0.0], np.cumsum(pulls * knots)])
    past = int(np.count_nonzero(rises[:-1] > bends[:-1] * knots))  # knots before the highest point
    s = min(end, max(0.0, rises[past] / bends[past])) if bends[past] > 0 else min(end, 1.0)
    used = slice(0, past)
    return s * (rise - bend * s) - 0.5 * float(np.sum(pulls[used] * (s - knots[used]) ** 2))
