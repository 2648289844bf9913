"""Newton's method with preconditioned conjugate gradients and a line search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from .._util.types import Vector
from ..errors import DataError
from ..problem import Face, Problem
from .result import Status
from .smooth import (
    HIDDEN_CHANGE,
    MAX_PRODUCTS,
    AgeingPreconditioner,
    Distance,
    Estimate,
    Preconditioner,
    SmoothSolver,
    Solution,
    conjugate_gradients,
    remainder_of,
)
from .solver import ROUNDING, Iterate, Needs, state


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
    goal_part : float
        Estimate that a step aims at, as a fraction of the estimate that ends the fit. Larger values
        take fewer products, and more steps just miss the end.
    corner_forcing : float
        The same fraction for the last attempt of `Newton.advance`, past pairs on their margin.
    last_forcing : float
        The same fraction for a step that may be the last, if P is not a reliable sample. Larger
        values take fewer products and let the residual hide more.
    agreement : float
        Largest factor between the promise of a step and ½ g'P⁻¹g with which an unreliable P may
        prove convergence. Larger values accept worse preconditioners.
    corner_step : float
        Relative step length that activates pairs which lie exactly on their margin.
    sample_share : float
        Fraction of the rows in the sample whose solution a fit starts from. Larger values make
        the sample more expensive, and its solution closer.
    sample_rows : int
        Smallest number of rows per feature in this sample. Larger values leave more fits without
        a sample.
    largest_sample : float
        Largest fraction of the rows in this sample. If it needs more rows, a fit starts from 0.
    sample_tol : float
        Tolerance of the fit of the sample. Larger values make this fit faster and rougher.
    largest_share : float
        Largest factor by which the sample may lack loss at w = 0, relative to its rows. If it lacks
        more, a fit starts from 0. Larger values accept samples that represent the data less well.
    bound_rounds : int
        Largest number of linear systems in a step with bounds. Each system holds more features at
        their bounds.
    """

    sufficient_decrease: float = 1e-4
    max_backtracks: int = 30
    continuation_after: int = 30
    continuation_factor: float = float(np.sqrt(10.0))
    continuation_tol: float = 1e-5
    loosest_forcing: float = 0.1
    goal_part: float = 0.5
    corner_forcing: float = 1e-8
    last_forcing: float = 1e-7
    agreement: float = 4.0
    corner_step: float = 1e-4
    sample_share: float = 1 / 16
    sample_rows: int = 100
    largest_sample: float = 1 / 6
    sample_tol: float = 0.02
    largest_share: float = 4.0
    bound_rounds: int = 8


class NewtonStep(NamedTuple):
    """A Newton step from a point, with the distance to the optimum that it predicts there.

    ``promise`` is the decrease that the quadratic model predicts for the step, which was computed
    with the preconditioner of ``estimate``.
    """

    origin: Iterate
    found: Distance
    promise: float
    estimate: Estimate


@dataclass
class Newton(SmoothSolver):
    """Newton's method with preconditioned conjugate gradients and a line search.

    Each iteration solves H s = −g approximately with a preconditioner P ≈ H, and moves along s.
    A fit from w = 0 starts from the solution for a sample of the queries, if there are many more
    rows than features. P is then the matrix of that sample. Otherwise P is a diagonal at first.
    When the Hessian products so far have cost half as much as a matrix, P
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
    tol, max_iter, callback
        See `Solver`.
    stop : {"optimum", "gradient"}
        ``optimum``: stop near the optimum. ``gradient``: stop on ‖g(w)‖ ≤ ε‖g(0)‖ alone, as the
        papers do.

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
    _last: NewtonStep | None = state(default=None)
    _reached: Iterate | None = state(default=None)  #: the end of the last step, if taken in full

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.settings, NewtonSettings):
            raise DataError(f"settings is {self.settings!r}; expected NewtonSettings(...)")

    def begin(self, problem: Problem, w: Vector, slope: float) -> None:
        """Prepare to `advance` from w; `slope` is the norm of the gradient at w = 0."""
        self.problem, self.slope_at_zero, self.value_at_zero = problem, slope, np.inf
        self.point = Iterate(w, *problem.value_grad(w))
        self._set_unit()
        self._preconditioner.discard()
        self._prepare()

    def _prepare(self) -> None:
        super()._prepare()
        self._preconditioner.begin(self.problem.engine)
        self._last = self._reached = None

    def _minimise(self) -> Status:
        if not self.point.w.any():
            self._start_from_sample()
        for iteration in range(self.max_iter):
            if self._has_arrived():
                return Status.CONVERGED
            if iteration == self.settings.continuation_after:
                self._continue_from_smaller_C()
            if not self.advance():
                return self._status_at_rest()
            self._record()
        return Status.CONVERGED if self._has_arrived() else Status.MAX_ITER

    def _start_from_sample(self) -> None:
        """Move to the solution for a sample of the queries, if the data are large enough.

        A pass over the sample costs a fraction of a pass over the data. Its solution is close to
        that of all data if the sample has many more rows than features. C is multiplied by the
        ratio of both losses at w = 0, because the loss is a sum over pairs.
        """
        problem, settings = self.problem, self.settings
        n_docs = problem.engine.data.n_docs
        n_rows = max(int(settings.sample_share * n_docs), settings.sample_rows * problem.n_features)
        if n_rows > settings.largest_sample * n_docs:
            return
        engine = problem.engine.sample(n_rows)
        if engine is None or engine.at_zero[0] <= 0:  # margins can make the loss 0
            return
        share = problem.engine.at_zero[0] / engine.at_zero[0]
        if share > settings.largest_share * n_docs / n_rows:
            return
        rough = replace(self, tol=settings.sample_tol, stop="optimum", callback=None)
        found = rough.solve(problem.with_engine(engine).with_C(share * problem.C))
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        there = Iterate(found.coef, *problem.value_grad(found.coef))
        if there.value < self.point.value:
            self.point = there
            self._preconditioner.adopt(rough._preconditioner, share, problem.engine)
        else:
            problem.value_grad(self.point.w)

    def advance(self) -> bool:
        """Take one Newton step; return False if no step lowers the objective.

        If the line search fails, the preconditioner may be the reason, so the step is computed
        again with a preconditioner made at the current point. If that line search also fails, the
        Hessian may lack pairs that lie exactly on their margin. The objective then rises at once
        along the step. The Hessian at a point a little further along the step has these pairs.
        """
        step = self._newton_step()
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
        self._last = None  # frees its matrix before another one is made
        w, gradient, face = self.point.w, self.point.gradient, self._face()
        step, right = np.zeros_like(w), -gradient
        forcing, most = self._accuracy(face, loosest)
        for _ in range(self.settings.bound_rounds):
            estimate, precondition = self._preconditioner.at(face, self.point)
            solved = conjugate_gradients(face.hessp, right, precondition, forcing, most)
            self._preconditioner.judge(solved.n_products, -np.log(forcing))
            step = step + solved.x
            beyond = face.beyond_bounds(w + step)
            if beyond is None:
                break
            assert isinstance(face, Face)
            face = face.without(beyond)
            step = np.where(face.free, 0.0, self.problem.clip(w + step) - w)
            right = np.where(face.free, -gradient - self.problem.hessp(step), 0.0)
            if not right.any():
                break
        step, promise = self._feasible(step)
        distance = promise + self._hidden(face, estimate, solved)
        if not estimate.is_diagonal and not estimate.is_reliable():
            distance = max(distance, self._checked_decrement(precondition, promise))
        found = Distance(distance, step, precondition, remainder_of(estimate))
        self._last, self._reached = NewtonStep(self.point, found, promise, estimate), None
        return step

    def _accuracy(self, face: Problem | Face, loosest: float | None) -> tuple[float, int]:
        """Return the fraction of g'P⁻¹g that a step may leave, and its largest number of products.

        The fraction is no smaller than the stopping rule needs. If the estimate ½ g'P⁻¹g says that
        this step may be the last, the step must also prove it. A matrix that is not reliable at
        this point is then made again. For a diagonal P, the step must leave a residual with a small
        bound ½‖r‖². A matrix that is not a reliable sample must leave at most `last_forcing`. It
        can overestimate the curvature by many orders of magnitude.
        """
        relative, goal = self._relative_norm(), self._goal()
        loosest = self.settings.loosest_forcing if loosest is None else loosest
        estimate, size = self._decrement(face)
        needed = self.settings.goal_part * goal / (0.5 * size)
        if self._compares_gradients():
            needed = self.settings.loosest_forcing * (self.tol / relative) ** 2
        forcing = min(loosest, max(relative, needed))
        if 0.5 * size > goal:
            return forcing, MAX_PRODUCTS
        is_new = self._preconditioner.made_at is self.point
        if not (estimate.is_diagonal or is_new or estimate.is_reliable()):
            del estimate  # two matrices need not be in memory at once
            self._preconditioner.discard()
            estimate, size = self._decrement(face)
        if estimate.is_diagonal:
            largest = float(face.hessian(estimate.of_loss).max())
            most = int(min(max(self._preconditioner.spent, 1), MAX_PRODUCTS))
            return min(forcing, goal / (largest * size)), most
        if not estimate.is_reliable():
            forcing = min(forcing, self.settings.last_forcing)
        return forcing, MAX_PRODUCTS

    def _decrement(self, face: Problem | Face) -> tuple[Estimate, float]:
        """Return the estimate of the Hessian, and g'P⁻¹g."""
        estimate, precondition = self._preconditioner.at(face, self.point)
        return estimate, float(self.point.gradient @ precondition(self.point.gradient))

    def _hidden(self, face: Problem | Face, estimate: Estimate, solved: Solution) -> float:
        """Return an estimate of the decrease that the residual r of a step hides.

        It is at most ½‖r‖², which is used for a diagonal, and about ½ r'P⁻¹r for a matrix.
        """
        if estimate.is_spoilt():
            return np.inf
        if estimate.is_diagonal:
            return face.gap_bound(solved.residual)
        return 0.5 * solved.size

    def _checked_decrement(self, precondition: Preconditioner, promise: float) -> float:
        """Return ½ g'P⁻¹g, or infinity if it does not agree with the promise of the step.

        If they differ, P is not close to the Hessian: the sample is too small, or rounding has
        spoilt the inverse. Differences that rounding hides have no effect.
        """
        gradient, factor = self.point.gradient, self.settings.agreement
        decrement = 0.5 * float(gradient @ precondition(gradient))
        if decrement <= HIDDEN_CHANGE * abs(self.point.value):
            return decrement
        return decrement if promise / factor <= decrement <= factor * promise else np.inf

    def _feasible(self, step: Vector) -> tuple[Vector, float]:
        """Return a step within the bounds, and the decrease that it promises.

        If the step is not a direction of descent, the projected gradient, scaled by the diagonal of
        the Hessian, takes its place.
        """
        w, gradient, problem = self.point.w, self.point.gradient, self.problem
        if problem.penalty.limits is None:
            return step, -0.5 * float(gradient @ step)
        step = problem.clip(w + step) - w
        if float(gradient @ step) >= 0:
            step = problem.clip(w - gradient / problem.hessian_diagonal()) - w
        return step, -float(gradient @ step)

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
                self.point, self._reached = trial, trial if part == 1.0 else None
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
        """Return whether the step that led to w shows that f(w) − f* is at most `goal`.

        A preconditioner alone proves nothing: a diagonal ignores correlations, and a matrix built
        at an earlier iterate may count pairs that are no longer active. A Newton step is solved
        with the Hessian at its origin. If it promised at most `goal` there, and the gradient fell
        as the step predicted, then f(w) − f* is at most `goal`, because f(w) is lower than f there.
        """
        if not self.point.gradient.any():
            return True
        if self._last is None or self._reached is not self.point:
            return False
        origin, found, *_ = self._last
        if found.distance <= HIDDEN_CHANGE * abs(self.point.value):
            return True
        if found.distance > goal:
            return self._decrement_is_small(self._last, goal)
        return self._fell_as_predicted(found, origin, self.point)

    def _decrement_is_small(self, last: NewtonStep, goal: float) -> bool:
        """Return whether ½ g'P⁻¹g at the end of a step is at most `goal`.

        P must be a sample that is reliable here, and g'P⁻¹g must have fallen along the step. The
        estimate is multiplied by the ratio of the promise of the step and ½ g'P⁻¹g at its origin,
        if P has underestimated the promise.
        """
        if not np.isfinite(last.found.distance) or not last.estimate.is_reliable():
            return False
        before, after = (
            0.5 * float(point.gradient @ last.found.precondition(point.gradient))
            for point in (last.origin, self.point)
        )
        fell = after <= last.found.remainder * before
        return fell and after * max(1.0, last.promise / before) <= goal

    def _distance_to_optimum(self, goal: float, affordable: float | None = None) -> Distance:
        """Return the promise of the last Newton step, if it started at this point."""
        if self._last is None or self._last.origin is not self.point:
            return super()._distance_to_optimum(goal, affordable)
        return self._last.found._replace(distance=self._last.promise)
