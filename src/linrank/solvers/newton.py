"""Preconditioned Newton: few Hessian products, whatever the scale of the features."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..problem import Problem
from .base import ROUNDING, Iterate, Vector
from .conjugate_gradients import conjugate_gradients
from .preconditioner import Estimate, Preconditioner, estimate_hessian, invert
from .result import Status
from .smooth import MOST_PRODUCTS, Distance, SmoothSolver, certifying_step, most_left

ARMIJO = 1e-4  #: part of the predicted decrease that a step must reach
PATIENT = 30  #: steps after which a fit comes from smaller C; few need twenty
STRIDE = np.sqrt(10.0)  #: from one of these to the next, and …
ROUGH = 1e-4  #: … the tolerance on the way
LOOSE = 0.1  #: the part of a gradient that a Newton step may leave at most, …
TIGHT = 1e-8  #: … and one past a corner, where all that is left can be in few pairs
LITTLE = 1e-4  #: the part of a step that draws in the pairs that spoil it


@dataclass
class Newton(SmoothSolver):
    """Newton's method with preconditioned conjugate gradients and a line search.

    Each iteration solves H s = −g approximately, with a preconditioner P ≈ H: a diagonal at
    first, and for up to `DENSE_LIMIT` features, when that has cost enough, the Cholesky factor of
    the Hessian of a sample of queries, scaled to unit diagonal. It stops as `SmoothSolver` says.
    """

    _estimate: Estimate | None = field(default=None, init=False, repr=False)

    def begin(self, problem: Problem, w: Vector, slope: float) -> None:
        """Get ready to `advance` from w; `slope` is the norm of the gradient at w = 0."""
        self.problem, self.slope_at_zero = problem, slope
        self.point = Iterate(w, *problem.value_grad(w))
        self._estimate = None
        self._prepare()

    def _prepare(self) -> None:
        """Begin with the estimate that the last problem ended with, if only C has changed."""
        self._precondition: Preconditioner | None = None
        self._estimated_at: Iterate | None = None
        self._gain_at: Iterate | None = None
        if self._estimate is None or self._estimate.engine is not self.problem.engine:
            self._estimate, self._spent = None, 0.0

    def _minimise(self) -> Status:
        for iteration in range(self.max_iter):
            if self._has_arrived():
                return self._status_on_arrival()
            if iteration == PATIENT:
                self._come_from_smaller_C()
            if not self.advance():
                return self._status_at_rest()
            self._record()
        return self._status_on_arrival() if self._has_arrived() else Status.MAX_ITER

    def _come_from_smaller_C(self) -> None:
        """Begin where the penalty outweighs the loss, and follow the solution to this C.

        Where C is so large that hardly a pair is active, which ones are changes with every step,
        and all steps are short. From a solution with a smaller C few of them change.
        """
        problem, w = self.problem, np.zeros(self.problem.n_features)
        problem.value_grad(w)
        least = 1.0 / (float(problem.engine.hessian_diagonal().max()) + 1.0 / problem.C)
        n_steps = int(np.ceil(np.log(problem.C / least) / np.log(STRIDE)))
        for C in np.geomspace(least, problem.C, n_steps + 1)[:-1]:
            easier = problem.with_C(float(C))
            result = Newton(tol=ROUGH, max_iter=PATIENT).solve(easier, w)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            w = result.coef
        there = Iterate(w, *problem.value_grad(w))
        if there.value < self.point.value:
            self.point = there
        else:
            problem.value_grad(self.point.w)
        self._estimate = None

    def _is_near_optimum(self, goal: float) -> bool:
        """Whether f(w) − f* is at most `goal`, by a bound or with an estimate made at this point.

        A matrix of an earlier iterate can count pairs that are no longer active, and a diagonal
        ignores correlations. Both can underestimate the distance, so neither decides. Where a
        matrix costs more than the fit so far, a Newton step decides instead; it is taken if it
        lowers the objective by more than `goal`.
        """
        if self.problem.gap_bound(self.point.gradient) <= goal:
            return True
        if self._decrement() <= goal and self._estimated_at is not self.point:
            self._estimate = None
        if self._decrement() > goal:
            return False
        assert self._estimate is not None
        if self._estimate.is_spoilt:
            return False
        if self._estimate.of_loss.ndim == 1:
            return self._step_is_short(goal)
        step = -self._preconditioner(self.point.gradient)
        left = most_left(self._estimate)
        return self._model_holds(Distance(self._decrement(), step, self._preconditioner, left))

    def _step_is_short(self, goal: float) -> bool:
        """Whether a Newton step proves that f(w) − f* is at most `goal`; otherwise take it."""
        assert self._estimate is not None
        gradient = self.point.gradient
        if not gradient.any():
            return True
        largest = float(self.problem.hessian(self._estimate.of_loss).max())
        step, distance, n_products = certifying_step(
            self.problem, gradient, self._preconditioner, largest, goal, self._spent
        )
        self._spent += n_products
        found = Distance(distance, step, self._preconditioner)
        if distance <= goal and self._model_holds(found):
            return True
        if self._line_search(step):
            self._record()
        return False

    def _distance_to_optimum(self, goal: float, affordable: float | None = None) -> Distance:
        """The decrease that the Newton step at this point promises, if one was computed."""
        if self._gain_at is self.point:
            precondition = self._preconditioner  # may make an estimate
            assert self._estimate is not None
            return Distance(self._gain, self._last_step, precondition, most_left(self._estimate))
        return super()._distance_to_optimum(goal, affordable)

    def _decrement(self) -> float:
        """½ g'P⁻¹g: about how far the objective is from its optimum."""
        return 0.5 * float(self.point.gradient @ self._preconditioner(self.point.gradient))

    def advance(self) -> bool:
        """Take one Newton step; False where no step lowers the objective.

        Pairs that are right at their margin may be missing in the Hessian, and a step that draws
        them in climbs at once. Then they are let in: in such a corner of the gradient the Hessian
        of a point a little along that step is as good as the one that was used.
        """
        step = self._newton_direction()
        if self._line_search(step):
            return True
        if self._estimated_at is not self.point:  # the estimate may be what led astray
            self._estimate = None
            step = self._newton_direction()
            if self._line_search(step):
                return True
        self.problem.value_grad(self.point.w + LITTLE * step)
        return self._line_search(self._newton_direction(TIGHT))

    @property
    def _preconditioner(self) -> Preconditioner:
        """The one that is in use, or one for the Hessian at the current point."""
        if self._estimate is None:
            self._estimate = estimate_hessian(self.problem, self._spent)
            self._estimated_at = self.point
            self._speed, self._regret = 0.0, 0.0
            self._precondition = None
        if self._precondition is None:
            self._precondition = invert(self.problem.hessian(self._estimate.of_loss))
        return self._precondition

    def _newton_direction(self, most: float = LOOSE) -> Vector:
        """Solve H s = −g until the residual, in the norm of P⁻¹, is a small part of g."""
        precondition = self._preconditioner
        relative = self._relative_norm()
        needed = LOOSE * (self.tol / relative) ** 2  # no more than the stopping rule asks for
        forcing = min(most, max(relative, needed))
        step, _, n_products = conjugate_gradients(
            self.problem.hessp, -self.point.gradient, precondition, forcing, MOST_PRODUCTS
        )
        self._judge(n_products, -np.log(forcing))
        self._gain, self._gain_at = -0.5 * float(self.point.gradient @ step), self.point
        self._last_step = step
        return step

    def _judge(self, n_products: int, gain: float) -> None:
        """Drop an estimate when what it has cost too much would have paid for another one.

        One that has aged costs products more than it would have needed at the speed, in gain per
        product, that it had when it was new. Of a diagonal it is all products, where a matrix
        could be had instead.
        """
        assert self._estimate is not None
        self._spent += n_products
        self._speed = self._speed or gain / n_products
        self._regret += max(0.0, n_products - gain / self._speed)
        if self._regret > self._estimate.cost or self._spent > self._estimate.enough:
            self._estimate = None

    def _line_search(self, step: Vector) -> bool:
        """Move along the step, 1, ½, ¼, … of it, to where the objective falls enough.

        Close to the optimum the objective's change drowns in rounding; there a step is good
        when the slope along it has not turned too steep upward (Hager & Zhang 2005).
        """
        slope = float(self.point.gradient @ step)
        part = 1.0
        for _ in range(30):
            w = self.point.w + part * step
            trial = Iterate(w, *self.problem.value_grad(w))
            change = trial.value - self.point.value
            flat = abs(change) <= ROUNDING * abs(self.point.value)
            if change <= ARMIJO * part * slope or (
                flat and abs(float(trial.gradient @ step)) <= (1 - 2 * ARMIJO) * abs(slope)
            ):
                self.point = trial
                return True
            part *= max(0.1, min(0.5, -0.5 * part * slope / (change - part * slope)))
        self.problem.value_grad(self.point.w)
        return False
