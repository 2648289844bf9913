"""Stopping rules of the solvers that need a loss with a derivative."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg import norm

from .._checks import choice
from ..problem import Problem
from .base import Solver, Vector
from .conjugate_gradients import conjugate_gradients
from .preconditioner import Estimate, Preconditioner, estimate_hessian, invert
from .result import Status

STOPS = ("optimum", "gradient")  #: names of the stopping rules
GAP = 0.01  #: largest estimated f(w) − f* of rule "optimum", as a part of ε·f(w)
FAR = 0.1  #: f(w) − f*, as a part of ε·f(w), above which rule "gradient" counts as not converged
MOST_PRODUCTS = 250  #: Hessian products that one Newton step may take
LEFT_BY_MATRIX = 1e-6  #: part of g'P⁻¹g that a Newton step may leave near the optimum
LEFT_BY_SAMPLE = 0.3  #: the same with a sampled Hessian P
HIDDEN = 1e-12  #: relative differences of f that line searches cannot rely on
LEAST_FALL = 0.5  #: the distance is estimated again when ‖g‖ has fallen by this factor, or sooner


@dataclass
class SmoothSolver(Solver):
    """Base of the solvers that need a smooth loss, with their stopping rule.

    They stop when both

        ‖g(w)‖ ≤ ε‖g(0)‖     and     f(w) − f* ≤ 0.01·ε·f(w).

    The first condition alone (Lee & Lin 2014, eq. 38) can hold far from the optimum f*: when
    features have different scales, when C is large, and at a warm start. The distance
    f(w) − f* is therefore estimated, see `distance_to_optimum`.

    Parameters
    ----------
    stop : {"optimum", "gradient"}
        ``gradient``: stop on the first condition alone, as the papers do. If the objective can
        then still fall by more than 0.1·ε·f(w), the status is `Status.FAR`.
    """

    stop: str = "optimum"
    _norm_to_estimate: float = field(default=np.inf, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("stop", self.stop, STOPS)

    def _prepare(self) -> None:
        self._norm_to_estimate = np.inf

    def _has_arrived(self) -> bool:
        if not self._gradient_is_small():
            return False
        return self.stop == "gradient" or self._is_near_optimum(self._goal())

    def _goal(self) -> float:
        """The distance f(w) − f* at which to stop."""
        return GAP * self.tol * self.point.value

    def _is_near_optimum(self, goal: float) -> bool:
        """Whether f(w) − f* is at most `goal`.

        An estimate can cost as much as the fit so far. After one that was too large, the next
        one waits until ‖g‖, whose square the distance follows, has fallen.
        """
        size = float(norm(self.point.gradient))
        if size > self._norm_to_estimate:
            return False
        found = self._distance_to_optimum(goal)
        if found.distance <= goal and self._model_holds(found):
            return True
        fall = float(np.sqrt(min(1.0, goal / found.distance))) if found.distance > 0 else 1.0
        self._norm_to_estimate = size * max(LEAST_FALL, fall)
        return False

    def _distance_to_optimum(self, goal: float, affordable: float | None = None) -> Distance:
        """f(w) − f*, as exactly as a comparison with `goal` needs it.

        The estimate may cost as much as the fit so far, or as is `affordable`.
        """
        spent = self._spent_work() if affordable is None else affordable
        return distance_to_optimum(self.problem, self.point.gradient, goal, spent)

    def _model_holds(self, found: Distance) -> bool:
        """Whether the gradient falls along the Newton step as the quadratic model says.

        The model counts the curvature of all active pairs. Pairs that the step brings to their
        margin become inactive on the way: then a part of the gradient stays, and the optimum is
        farther away than the estimate. The same shows where rounding has spoilt the Hessian. At
        the end of the step, the bound ½‖g‖² can decide, or else how much of g'P⁻¹g is left. A
        distance that is a bound itself, or that rounding hides, needs no model.
        """
        if found.step is None or found.distance <= HIDDEN * abs(self.point.value):
            return True
        before, there = self.point.gradient, self.point.w + found.step
        value, after = self.problem.value_grad(there)
        self.problem.value_grad(self.point.w)  # Hessian products refer to the last evaluated point
        fall = max(0.0, self.point.value - value)
        if fall + self.problem.gap_bound(after) <= self.tol * self.point.value:
            return True
        left = float(after @ found.precondition(after)) / float(before @ found.precondition(before))
        return left <= found.most_left

    def _spent_work(self) -> int:
        """Evaluations and Hessian products of this fit so far."""
        work, before = self.problem.engine.work, self._work_before
        return work.evaluations - before.evaluations + work.products - before.products

    def _status_on_arrival(self) -> Status:
        """The status when the stopping rule is met."""
        if self.stop == "optimum":
            return Status.CONVERGED
        allowed = FAR * self.tol * self.point.value
        near = self._distance_to_optimum(allowed).distance <= allowed
        return Status.CONVERGED if near else Status.FAR

    def _status_at_rest(self) -> Status:
        """The status when no step lowers the objective: rounding alone may be the reason."""
        noise, goal = max(self._noise(), HIDDEN * abs(self.point.value)), self._goal()
        small = self._gradient_is_small()
        found = self._distance_to_optimum(max(noise, goal) if small else noise, affordable=np.inf)
        if small and found.distance <= goal and self._model_holds(found):
            return Status.CONVERGED
        return Status.PRECISION if found.distance <= noise else Status.STUCK


class Distance(NamedTuple):
    """An estimate of f(w) − f*, with the Newton step and the preconditioner that it comes from.

    A bound has no step. ``most_left`` is the part of g'P⁻¹g that may be left behind the step.
    """

    distance: float
    step: Vector | None = None
    precondition: Preconditioner = np.asarray
    most_left: float = 0.0


def distance_to_optimum(problem: Problem, gradient: Vector, goal: float, spent: float) -> Distance:
    """Estimate f(w) − f* at the last evaluated w, as exactly as a comparison with `goal` needs it.

    The estimates, in the order in which they are tried:

    1. the bound ½‖g‖² (`Problem.gap_bound`), which costs nothing;
    2. the Newton decrement ½ g'P⁻¹g with P the Hessian, or a sample of it, if a matrix costs no
       more than `spent`;
    3. else the decrease of a Newton step and what its residual hides (`certifying_step`), from at
       most `spent` Hessian products.

    Parameters
    ----------
    problem : Problem
    gradient : float64 array
        At the last w given to ``problem.value_grad``.
    goal : float
    spent : float
        Evaluations and Hessian products that the fit has taken so far.
    """
    bound = problem.gap_bound(gradient)
    if bound <= goal:
        return Distance(bound)
    estimate = estimate_hessian(problem, spent)
    if estimate.is_spoilt:
        return Distance(bound)
    P = problem.hessian(estimate.of_loss)
    precondition = invert(P)
    step = -precondition(gradient)
    decrement = -0.5 * float(gradient @ step)
    if P.ndim == 2 or not 0 < decrement <= goal:
        return Distance(decrement, step, precondition, most_left(estimate))
    step, distance, _ = certifying_step(
        problem, gradient, precondition, float(P.max()), goal, spent
    )
    return Distance(distance, step, precondition)


def most_left(estimate: Estimate) -> float:
    """The part of g'P⁻¹g that a Newton step with this estimate may leave near the optimum."""
    if estimate.of_loss.ndim == 1:
        return 0.0
    return LEFT_BY_MATRIX if estimate.exact else LEFT_BY_SAMPLE


def certifying_step(
    problem: Problem,
    gradient: Vector,
    precondition: Preconditioner,
    largest: float,
    goal: float,
    spent: float,
) -> tuple[Vector, float, int]:
    """A Newton step s, and the estimate −½ g's + ½‖r‖² of f(w) − f* that it gives.

    The residual r = −g − Hs hides at most ½‖r‖² (`Problem.gap_bound`) of the decrease. This is
    at most ½·max(P)·r'P⁻¹r, with a diagonal P of which `largest` is the largest entry. Conjugate
    gradients make that smaller than `goal`, unless they reach as many products as `spent`.

    Returns
    -------
    step : float64 array
    distance : float
    n_products : int
    """
    size = float(gradient @ precondition(gradient))
    most = int(min(max(spent, 1), MOST_PRODUCTS))
    step, residual, n_products = conjugate_gradients(
        problem.hessp, -gradient, precondition, goal / (largest * size), most
    )
    distance = problem.gap_bound(residual) - 0.5 * float(gradient @ step)
    return step, distance, n_products
