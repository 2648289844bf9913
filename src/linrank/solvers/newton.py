"""Newton's method with preconditioned conjugate gradients and a line search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from .._typing import Vector
from ..errors import DataError
from ..problem import Face, Problem
from .base import ROUNDING, Iterate, state
from .conjugate_gradients import conjugate_gradients
from .needs import Needs
from .preconditioner import AgeingPreconditioner
from .result import Status
from .smooth import MAX_PRODUCTS, Distance, SmoothSolver, certifying_step, remainder_of


@dataclass(frozen=True)
class NewtonSettings:
    """Constants of Newton's method.

    Attributes
    ----------
    sufficient_decrease : float
        Fraction of the predicted decrease that a step must reach (Armijo's condition). Larger
        values shorten steps.
    max_backtracks : int
        Trials of a line search before it fails.
    continuation_after : int
        Newton steps before a fit falls back to continuation in C. Few fits need twenty.
    continuation_factor : float
        Ratio of neighbouring values of C in the continuation. Larger values make fewer, harder
        fits.
    continuation_tol : float
        Tolerance of the fits of the continuation. Larger values make these fits faster and rougher.
    loosest_forcing : float
        Largest fraction of g'P⁻¹g that a Newton step may leave. Larger values take fewer products
        per step and more steps.
    corner_forcing : float
        The same fraction for the last attempt of `Newton.advance`, past pairs on their margin.
    corner_step : float
        Relative step length that activates pairs which lie exactly on their margin.
    bound_rounds : int
        Largest number of linear systems in a step with bounds. Each system holds more features at
        their bounds.
    """

    sufficient_decrease: float = 1e-4
    max_backtracks: int = 30
    continuation_after: int = 30
    continuation_factor: float = float(np.sqrt(10.0))
    continuation_tol: float = 1e-4
    loosest_forcing: float = 0.1
    corner_forcing: float = 1e-8
    corner_step: float = 1e-4
    bound_rounds: int = 8


class Step(NamedTuple):
    """A Newton step from a point, and the decrease that the quadratic model predicts."""

    origin: Iterate
    step: Vector
    promise: float


@dataclass
class Newton(SmoothSolver):
    """Newton's method with preconditioned conjugate gradients and a line search.

    Each iteration solves H s = −g approximately with a preconditioner P ≈ H, and moves along s.
    P is a diagonal at first. When the Hessian products so far have cost as much as a matrix, P
    becomes the Hessian of a sample of queries, scaled to unit diagonal and factored by Cholesky.
    For more than `HessianSettings.dense_limit` features, P stays a diagonal.

    With bounds, a step minimises the quadratic model over an active set. Features at a bound that
    blocks the descent stay there. Features that the step would take beyond a bound are moved to
    the bound, and the system is solved again for the others. The gradient is that of the free
    features (`Problem.value_grad`), so the stopping rule and its certificates hold unchanged.

    The stopping rule is that of `SmoothSolver`.

    Parameters
    ----------
    settings : NewtonSettings
        Constants of the method.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> result = Newton(tol=1e-6).solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.converged
    True
    """

    settings: NewtonSettings = NewtonSettings()
    name: ClassVar[str] = "newton"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("l2",), bounds=True)
    _preconditioner: AgeingPreconditioner = state(default_factory=AgeingPreconditioner)
    _last: Step | None = state(default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.settings, NewtonSettings):
            raise DataError(f"settings is {self.settings!r}; expected NewtonSettings(...)")

    def begin(self, problem: Problem, w: Vector, slope: float) -> None:
        """Prepare to `advance` from w; `slope` is the norm of the gradient at w = 0."""
        self.problem, self.slope_at_zero = problem, slope
        self.point = Iterate(w, *problem.value_grad(w))
        self._set_unit()
        self._preconditioner.discard()
        self._prepare()

    def _prepare(self) -> None:
        super()._prepare()
        self._preconditioner.begin(self.problem.engine)
        self._last = None

    def _minimise(self) -> Status:
        for iteration in range(self.max_iter):
            if self._has_arrived():
                return self._status_on_arrival()
            if iteration == self.settings.continuation_after:
                self._continue_from_smaller_C()
            if not self.advance():
                return self._status_at_rest()
            self._record()
        return self._status_on_arrival() if self._has_arrived() else Status.MAX_ITER

    def advance(self) -> bool:
        """Take one Newton step; return False if no step lowers the objective.

        If the line search fails, the preconditioner may be the reason, so the step is computed
        again with a preconditioner made at the current point. If that line search also fails, the
        Hessian may lack pairs that lie exactly on their margin. The objective then rises at once
        along the step. The Hessian at a point a little further along the step has these pairs.
        """
        last = self._last
        is_known = last is not None and last.origin is self.point  # a step that proved too long
        step = last.step if last is not None and is_known else self._newton_step()
        if self._line_search(step):
            return True
        if self._preconditioner.made_at is not self.point:
            self._preconditioner.discard()
            step = self._newton_step()
            if self._line_search(step):
                return True
        self.problem.value_grad(self.point.w + self.settings.corner_step * step)
        return self._line_search(self._newton_step(self.settings.corner_forcing))

    def _newton_step(self, loosest: float | None = None) -> Vector:
        """Minimise the quadratic model g's + ½ s'Hs within the bounds, approximately.

        Conjugate gradients end when the residual is a small fraction of g, in the norm of P⁻¹. The
        fraction is no smaller than the stopping rule needs. Features that a step takes beyond a
        bound are moved to the bound, and the system is solved again for the others.
        """
        relative = self._relative_norm()
        loosest = self.settings.loosest_forcing if loosest is None else loosest
        needed = self.settings.loosest_forcing * (self.tol / relative) ** 2
        forcing = min(loosest, max(relative, needed))
        w, gradient, face = self.point.w, self.point.gradient, self._face()
        step, right = np.zeros_like(w), -gradient
        for _ in range(self.settings.bound_rounds):
            _, precondition = self._preconditioner.at(face, self.point)
            change, _, n_products = conjugate_gradients(
                face.hessp, right, precondition, forcing, MAX_PRODUCTS
            )
            self._preconditioner.judge(n_products, -np.log(forcing))
            step = step + change
            beyond = face.beyond_bounds(w + step)
            if beyond is None:
                break
            assert isinstance(face, Face)
            face = face.without(beyond)
            step = np.where(face.free, 0.0, self.problem.clip(w + step) - w)
            right = np.where(face.free, -gradient - self.problem.hessp(step), 0.0)
            if not right.any():
                break
        self._last = self._feasible(step)
        return self._last.step

    def _feasible(self, step: Vector) -> Step:
        """Return a step within the bounds, and the decrease that it promises.

        If the step is not a direction of descent, the projected gradient, scaled by the diagonal of
        the Hessian, takes its place.
        """
        w, gradient, problem = self.point.w, self.point.gradient, self.problem
        if problem.penalty.limits is None:
            return Step(self.point, step, -0.5 * float(gradient @ step))
        step = problem.clip(w + step) - w
        if float(gradient @ step) >= 0:
            step = problem.clip(w - gradient / problem.hessian_diagonal()) - w
        return Step(self.point, step, -float(gradient @ step))

    def _line_search(self, step: Vector) -> bool:
        """Shorten the step until the objective falls enough, and move.

        Close to the optimum, rounding hides the change of the objective. A step is then accepted
        if the slope at its end is not too steep upward (Hager & Zhang 2005).
        """
        slope, least = float(self.point.gradient @ step), self.settings.sufficient_decrease
        part = 1.0
        for _ in range(self.settings.max_backtracks):
            w = self.problem.clip(self.point.w + part * step)
            trial = Iterate(w, *self.problem.value_grad(w))
            change = trial.value - self.point.value
            flat = abs(change) <= ROUNDING * abs(self.point.value)
            if change <= least * part * slope or (
                flat and abs(float(trial.gradient @ step)) <= (1 - 2 * least) * abs(slope)
            ):
                self.point = trial
                return True
            part *= max(0.1, min(0.5, -0.5 * part * slope / (change - part * slope)))
        self.problem.value_grad(self.point.w)
        return False

    def _continue_from_smaller_C(self) -> None:
        """Follow the solution from a small C, at which the penalty dominates, to this C.

        If C is so large that few pairs are active, the set of active pairs changes in every step,
        and all steps are short. Between neighbouring values of C, few pairs change.
        """
        problem, settings = self.problem, self.settings
        w = problem.clip(np.zeros(problem.n_features))
        problem.value_grad(w)
        least = 1.0 / (float(problem.engine.hessian_diagonal().max()) + 1.0 / problem.C)
        n_steps = np.log(problem.C / least) / np.log(settings.continuation_factor)
        for C in np.geomspace(least, problem.C, int(np.ceil(n_steps)) + 1)[:-1]:
            rough = replace(
                self, tol=settings.continuation_tol, max_iter=settings.continuation_after,
                stop="optimum", callback=None,
            )  # fmt: skip
            result = rough.solve(problem.with_C(float(C)), w)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            w = result.coef
        there = Iterate(w, *problem.value_grad(w))
        if there.value < self.point.value:
            self.point = there
        else:
            problem.value_grad(self.point.w)
        self._preconditioner.discard()

    def _is_near_optimum(self, goal: float) -> bool:
        """Return whether f(w) − f* is at most `goal`, by a bound or an estimate.

        A diagonal preconditioner ignores correlations, and a matrix built at an earlier iterate
        may count pairs that are no longer active. Both can underestimate the distance. Convergence
        is therefore only declared with a matrix built at the current iterate. If a matrix costs
        more than the fit so far, a Newton step decides instead. The step is taken if it does not
        prove convergence.
        """
        if self.problem.gap_bound(self.point.gradient) <= goal:
            return True
        decrement = self._decrement()
        if decrement <= goal and self._preconditioner.made_at is not self.point:
            self._preconditioner.discard()
            decrement = self._decrement()
        if decrement > goal:
            return False
        estimate, precondition = self._preconditioner.at(self._face(), self.point)
        if estimate.is_spoilt():
            return False
        if estimate.is_diagonal:
            return self._step_is_short(goal)
        step = -precondition(self.point.gradient)
        return self._model_holds(Distance(decrement, step, precondition, remainder_of(estimate)))

    def _step_is_short(self, goal: float) -> bool:
        """Return whether a Newton step proves that f(w) − f* ≤ `goal`; keep the step."""
        gradient, face = self.point.gradient, self._face()
        if not gradient.any():
            return True
        estimate, precondition = self._preconditioner.at(face, self.point)
        largest = float(face.hessian(estimate.of_loss).max())
        step, distance, n_products = certifying_step(
            face, gradient, precondition, largest, goal, self._preconditioner.spent
        )
        self._preconditioner.spent += n_products
        if distance <= goal and self._model_holds(Distance(distance, step, precondition)):
            return True
        self._last = self._feasible(step)
        return False

    def _distance_to_optimum(self, goal: float, affordable: float | None = None) -> Distance:
        """Return the predicted decrease of the last Newton step, if it started at this point."""
        if self._last is None or self._last.origin is not self.point:
            return super()._distance_to_optimum(goal, affordable)
        estimate, precondition = self._preconditioner.at(self._face(), self.point)
        return Distance(self._last.promise, self._last.step, precondition, remainder_of(estimate))

    def _decrement(self) -> float:
        """Return ½ g'P⁻¹g, an estimate of the distance from the optimum."""
        _, precondition = self._preconditioner.at(self._face(), self.point)
        return 0.5 * float(self.point.gradient @ precondition(self.point.gradient))
