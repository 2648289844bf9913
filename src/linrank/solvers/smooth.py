"""Stopping rules of the solvers that need a loss with a derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from scipy.linalg import norm

from .._checks import choice
from .._typing import Vector
from ..problem import Face, Problem
from .base import Iterate, Solver, state
from .conjugate_gradients import conjugate_gradients
from .preconditioner import Estimate, Preconditioner, estimate_hessian, invert
from .result import Status

StopName = Literal["optimum", "gradient", "decrement"]

TARGET_GAP = 0.01  #: f(w) − f*, as a fraction of ε·f(w), at which rule "optimum" stops
MAX_PRODUCTS = 250  #: largest number of Hessian products for one Newton step
MATRIX_REMAINDER = 1e-6  #: fraction of g'P⁻¹g that may remain after a Newton step near the optimum
SAMPLE_REMAINDER = 0.3  #: the same fraction if P is the Hessian of a sample
FAR_GAP = 0.1  #: f(w) − f*, as a fraction of ε·f(w), above which rule "gradient" has not converged
HIDDEN_CHANGE = 1e-12  #: relative change of f that rounding can hide from a line search
LEAST_FALL = 0.5  #: smallest factor by which ‖g‖ must fall before the next distance estimate


class Distance(NamedTuple):
    """An estimate of f(w) − f*, with the Newton step and the preconditioner it is based on.

    A bound has no step. ``remainder`` is the fraction of g'P⁻¹g that may remain after the step.
    """

    distance: float
    step: Vector | None = None
    precondition: Preconditioner = np.asarray
    remainder: float = 0.0


@dataclass
class SmoothSolver(Solver):
    """Base class of the solvers that need a smooth loss, with their stopping rule.

    A solver stops when both

        ‖g(w)‖ ≤ ε‖g(0)‖     and     f(w) − f* ≤ 0.01·ε·f(w).

    The first condition alone (Lee & Lin 2014, eq. 38) can hold far from the optimum f*: if
    features have different scales, if C is large, and after a warm start. `distance_to_optimum`
    therefore estimates the distance f(w) − f*.

    Parameters
    ----------
    stop : {"optimum", "gradient"}
        ``gradient``: stop on the first condition alone, as the papers do. If the objective can
        then still fall by more than 0.1·ε·f(w), the status is `Status.FAR`.
    """

    stop: StopName = "optimum"
    stops: ClassVar[tuple[StopName, ...]] = ("optimum", "gradient")  #: the rules of the solver
    _norm_to_estimate: float = state(default=np.inf)  #: ‖g‖ below which to estimate the distance

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("stop", self.stop, self.stops)

    def _prepare(self) -> None:
        self._norm_to_estimate = np.inf

    def _has_arrived(self) -> bool:
        """Return whether the stopping rule is met."""
        if not self._gradient_is_small():
            return False
        return self.stop == "gradient" or self._is_near_optimum(self._goal())

    def _goal(self) -> float:
        """Return the distance f(w) − f* at which to stop."""
        return TARGET_GAP * self.tol * self.point.value

    def _face(self) -> Problem | Face:
        """Return the problem in the features that bounds leave free at the current point."""
        return self.problem.face(self.point.w, self.point.gradient)

    def _is_near_optimum(self, goal: float) -> bool:
        """Return whether f(w) − f* is at most `goal`.

        An estimate can cost as much as the fit so far. If the estimate is too large, the next one
        is made after ‖g‖ has fallen, because the distance is proportional to ‖g‖².
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
        """Estimate f(w) − f*, as exactly as a comparison with `goal` needs it.

        The cost of the estimate is limited by `affordable`, or else by the cost of the fit so far.
        """
        spent = self._spent_work() if affordable is None else affordable
        return distance_to_optimum(self._face(), self.point.gradient, goal, spent)

    def _model_holds(self, found: Distance) -> bool:
        """Return whether the gradient falls along the Newton step as the quadratic model predicts.

        The model includes the curvature of all active pairs. Pairs that reach their margin along
        the step become inactive. Then a part of the gradient remains, and the distance to the
        optimum is larger than the estimate. Rounding errors in the Hessian have the same effect.
        At the end of the step, the bound ½‖g‖² or the remaining fraction of g'P⁻¹g decides. A
        distance that is a bound, or that rounding hides, needs no check.
        """
        if found.step is None or found.distance <= HIDDEN_CHANGE * abs(self.point.value):
            return True
        there = self.problem.clip(self.point.w + found.step)
        end = Iterate(there, *self.problem.value_grad(there))
        self.problem.value_grad(self.point.w)  # Hessian products refer to the last evaluated point.
        return self._fell_as_predicted(found, self.point, end)

    def _fell_as_predicted(self, found: Distance, start: Iterate, end: Iterate) -> bool:
        """Return whether the gradient at the end of a Newton step confirms `found`."""
        fall = max(0.0, start.value - end.value)
        if fall + self.problem.gap_bound(end.gradient) <= self.tol * start.value:
            return True
        before, after = (
            float(point.gradient @ found.precondition(point.gradient)) for point in (start, end)
        )
        return after <= found.remainder * before

    def _spent_work(self) -> int:
        """Return the evaluations and Hessian products of this fit so far."""
        work, before = self.problem.engine.work, self._work_before
        return work.evaluations - before.evaluations + work.products - before.products

    def _allowed(self) -> float:
        return FAR_GAP * super()._allowed()

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f*; rule "optimum" has already found it to be small."""
        return 0.0 if self.stop == "optimum" else self._distance_to_optimum(goal).distance

    def _status_at_rest(self) -> Status:
        """Return the status if no step lowers the objective; rounding may be the reason."""
        noise = max(self._noise(), HIDDEN_CHANGE * abs(self.point.value))
        goal, small = self._goal(), self._gradient_is_small()
        found = self._distance_to_optimum(max(noise, goal) if small else noise, affordable=np.inf)
        if small and found.distance <= goal and self._model_holds(found):
            return Status.CONVERGED
        return Status.PRECISION if found.distance <= noise else Status.STUCK


def distance_to_optimum(
    problem: Problem | Face, gradient: Vector, goal: float, spent: float
) -> Distance:
    """Estimate f(w) − f* at the last evaluated w, as exactly as a comparison with `goal` needs it.

    The estimates, in the order in which they are tried:

    1. the bound ½‖g‖² (`Problem.gap_bound`), which costs nothing;
    2. the Newton decrement ½ g'P⁻¹g with P the Hessian, or a sample of it, if a matrix costs no
       more than `spent`;
    3. otherwise, the decrease of a Newton step and a bound on what its residual hides
       (`certifying_step`), from at most `spent` Hessian products.

    Parameters
    ----------
    problem : Problem or Face
    gradient : float64 array
        The gradient at the last w given to ``problem.value_grad``.
    goal : float
    spent : float
        Evaluations and Hessian products that the fit has taken so far.
    """
    bound = problem.gap_bound(gradient)
    if bound <= goal:
        return Distance(bound)
    estimate = estimate_hessian(problem, spent)
    if estimate.is_spoilt():
        return Distance(bound)
    P = problem.hessian(estimate.of_loss)
    precondition = invert(P)
    step = -precondition(gradient)
    decrement = -0.5 * float(gradient @ step)
    if P.ndim == 2 or not 0 < decrement <= goal:
        return Distance(decrement, step, precondition, remainder_of(estimate))
    step, distance = certifying_step(problem, gradient, precondition, float(P.max()), goal, spent)
    return Distance(distance, step, precondition)


def estimated_distance(problem: Problem, w: Vector, goal: float, spent: float) -> float:
    """Estimate f(w) − f* at any w, as exactly as a comparison with `goal` needs it.

    Far from the optimum, the pairs that a Newton step s makes active or inactive can hide a part
    of the distance from `distance_to_optimum`. The estimate is therefore at least the actual
    decrease f(w) − f(w + s), plus the Newton decrement at w + s.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01)
    >>> zero = np.zeros(problem.n_features)
    >>> far = estimated_distance(problem, zero, goal=1.0, spent=1)
    >>> far > 0.5 * problem.value_grad(zero)[0]
    True
    """
    value, gradient = problem.value_grad(w)
    found = distance_to_optimum(problem, gradient, goal, spent)
    if found.step is None or found.distance > goal:
        return found.distance
    after, slope = problem.value_grad(w + found.step)
    rest = 0.5 * float(slope @ found.precondition(slope))
    return max(found.distance, value - after + rest)


def remainder_of(estimate: Estimate) -> float:
    """Return the fraction of g'P⁻¹g that may remain after a Newton step near the optimum."""
    if estimate.is_diagonal:
        return 0.0
    return MATRIX_REMAINDER if estimate.exact else SAMPLE_REMAINDER


def certifying_step(
    problem: Problem | Face,
    gradient: Vector,
    precondition: Preconditioner,
    largest: float,
    goal: float,
    spent: float,
) -> tuple[Vector, float]:
    """Return a Newton step s, and the estimate −½ g's + ½‖r‖² of f(w) − f*.

    The residual r = −g − Hs hides at most ½‖r‖² (`Problem.gap_bound`) of the decrease. This is at
    most ½·max(P)·r'P⁻¹r for a diagonal P, whose largest entry is `largest`. Conjugate gradients
    reduce this bound below `goal`, unless they reach `spent` products.

    Returns
    -------
    step : float64 array
    distance : float
    """
    size = float(gradient @ precondition(gradient))
    most = int(min(max(spent, 1), MAX_PRODUCTS))
    solved = conjugate_gradients(
        problem.hessp, -gradient, precondition, goal / (largest * size), most
    )
    distance = problem.gap_bound(solved.residual) - 0.5 * float(gradient @ solved.x)
    return solved.x, distance
