"""Preconditioned Newton: few Hessian products, whatever the scale of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._threads import blas_threads, resolve_threads
from ..problem import Problem
from .base import Iterate, Solver, Vector
from .conjugate_gradients import conjugate_gradients
from .result import Status

if TYPE_CHECKING:
    from ..engines.base import Engine

Preconditioner = Callable[[Vector], Vector]  #: an approximate inverse of the Hessian

DENSE_LIMIT = 4096  #: most features for which a d × d matrix is built and factored
SHARED = 1000  #: features from which on threads share the work of factoring
ARMIJO = 1e-4  #: part of the predicted decrease that a step must reach
SAVINGS = 30.0  #: see `rows_per_feature`; of a sample of queries, and …
DOCUMENT_SAVINGS = 100.0  #: … of documents, which says less
CHEAPEST = 1.5  #: the least that an estimate is said to cost, in products: a diagonal does
FACTORED = 1 / 24  #: what factoring a matrix takes for each of d³, in entries of a product
FREE = 2e6  #: entries of a product that take so little time, some ms, that they do not count
LEAST_ROWS = 4  #: of a sample for each feature, where a diagonal has not been enough
MAX_PRODUCTS = 250  #: of one Newton step
PATIENT = 30  #: steps after which a fit comes from smaller C; few need twenty
STRIDE = np.sqrt(10.0)  #: from one of these to the next, and …
ROUGH = 1e-4  #: … the tolerance on the way
LOOSE = 0.1  #: the part of a gradient that a Newton step may leave at most, …
TIGHT = 1e-8  #: … and one past a corner, where all that is left can be in few pairs
LITTLE = 1e-4  #: the part of a step that draws in the pairs that spoil it
GAP = 0.01  #: the estimated distance to the optimum must be below this part of ε·f
ROUNDING = 1e-14  #: relative changes of the objective below this are rounding


@dataclass
class Newton(Solver):
    """Newton's method with preconditioned conjugate gradients and a line search.

    Each iteration solves H s = −g approximately, with a preconditioner P ≈ H: a diagonal at
    first, and for up to `DENSE_LIMIT` features, when that has cost enough, the Cholesky factor of
    the Hessian of a sample of queries, scaled to unit diagonal. It stops when both

        ‖g(w)‖ ≤ ε‖g(0)‖     and     ½ g'P⁻¹g ≤ 0.01·ε·f(w):

    the second, an estimate of the distance f(w) − f* to the optimum, does not depend on the
    scale of the features, where the first can be met far from the optimum.
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
        if self._estimate is None or self._estimate.engine is not self.problem.engine:
            self._estimate, self._spent = None, 0.0

    def _minimise(self) -> Status:
        for iteration in range(self.max_iter):
            if self._has_arrived():
                return Status.CONVERGED
            if iteration == PATIENT:
                self._come_from_smaller_C()
            if not self.advance():
                return self._status_at_rest()
            self._record()
        return Status.CONVERGED if self._has_arrived() else Status.MAX_ITER

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
            problem.n_products += result.n_products
            problem.n_evaluations += result.n_evaluations
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            w = result.coef
        there = Iterate(w, *problem.value_grad(w))
        if there.value < self.point.value:
            self.point = there
        else:
            problem.value_grad(self.point.w)
        self._estimate = None

    def _has_arrived(self) -> bool:
        """Both rules, the second with an estimate that is made here, or with a bound.

        One that was made elsewhere can see too much curvature, since pairs become inactive, and a
        diagonal none of what features share: both take a long way for a short one. So where a
        matrix would cost more than the fit has so far, the step is solved for instead.
        """
        goal = GAP * self.tol * self.point.value
        if not self._gradient_is_small():
            return False
        if self.problem.gap_bound(self.point.gradient) <= goal:
            return True
        if self._decrement() <= goal and self._estimated_at is not self.point:
            self._estimate = None
        if self._decrement() > goal:
            return False
        assert self._estimate is not None
        return self._estimate.of_loss.ndim == 2 or self._step_is_short(goal)

    def _step_is_short(self, goal: float) -> bool:
        """Whether a Newton step gains no more than that; if it does, take it.

        It lowers f by about −½g's, and its residual r hides at most ½‖r‖² ≤ ½·max(P)·r'P⁻¹r:
        that is made small too, as far as it takes no longer than the fit has taken so far.
        """
        assert self._estimate is not None
        gradient, precondition = self.point.gradient, self._preconditioner
        largest = float(self.problem.hessian(self._estimate.of_loss).max())
        forcing = goal / (largest * 2 * self._decrement())
        most = int(min(max(self._spent, 1), MAX_PRODUCTS))
        step, n_products = conjugate_gradients(
            self.problem.hessp, -gradient, precondition, forcing, most
        )
        self._spent += n_products
        if -0.5 * float(gradient @ step) <= goal:
            return True
        if self._line_search(step):
            self._record()
        return False

    def _status_at_rest(self) -> Status:
        """Where no step lowers the objective: how far the last one says that the optimum is."""
        if min(self._gain, self._decrement()) <= ROUNDING * abs(self.point.value):
            return Status.PRECISION
        arrived = self._gradient_is_small() and self._gain <= GAP * self.tol * self.point.value
        return Status.CONVERGED if arrived else Status.STUCK

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
        step, n_products = conjugate_gradients(
            self.problem.hessp, -self.point.gradient, precondition, forcing, MAX_PRODUCTS
        )
        self._judge(n_products, -np.log(forcing))
        self._gain = -0.5 * float(self.point.gradient @ step)
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


class Estimate(NamedTuple):
    """An estimate of the Hessian of the loss where it was last evaluated.

    ``of_loss`` is a matrix, or a vector that is its diagonal; ``cost`` is what it took to make,
    in Hessian products, and ``enough`` after how many of these in all to make a better one.
    """

    of_loss: Vector
    engine: object
    cost: float
    enough: float = np.inf


def estimate_hessian(problem: Problem, spent: float = 0) -> Estimate:
    """The Hessian of the loss: exact, of a sample of queries or documents, or its diagonal.

    A matrix of whatever size is expected to make the rest of the fit the shortest, once as many
    products are spent as it costs, so at once where data are small. Until then a diagonal: an easy
    fit needs no more, and a matrix says the more the closer to the optimum it is made.
    """
    engine = problem.engine
    make, cost = _plan_matrix(engine)
    if spent <= cost:
        return Estimate(engine.hessian_diagonal(), engine, CHEAPEST, cost)
    return Estimate(make(), engine, max(CHEAPEST, cost))


def _plan_matrix(engine: Engine) -> tuple[Callable[[], Vector], float]:
    """How to make the best matrix, and what that and its factor cost, in Hessian products."""
    d, row_work = engine.n_features, engine.row_work
    estimate: Callable[[int], Vector] = engine.hessian
    if d > DENSE_LIMIT:
        return engine.hessian, np.inf
    n_rows = _sample_rows(engine, row_work, SAVINGS)
    if n_rows < engine.largest_query / 2:
        estimate, row_work = engine.hessian_of_documents, engine.document_work
        n_rows = _sample_rows(engine, row_work, DOCUMENT_SAVINGS)
    n_rows = int(min(max(n_rows, LEAST_ROWS * d), engine.data.n_docs))
    cost = (n_rows * row_work + FACTORED * d**3 - FREE) / engine.product_work
    return lambda: estimate(n_rows), cost


def _sample_rows(engine: Engine, row_work: float, savings: float) -> float:
    d = engine.n_features
    per_feature = rows_per_feature(d * row_work / engine.product_work, savings)
    return max(d * per_feature, FREE / row_work)


def rows_per_feature(cost: float, savings: float) -> float:
    """How many rows r of a sample to take for each feature, where one costs so many products.

    A fit needed about 10 + 45/√r products on the shapes of data that were measured, and rarely
    more than one sample, so about r = (30/cost)^⅔ takes the least.

    Examples
    --------
    >>> rows_per_feature(30.0, SAVINGS)
    1.0
    """
    return float((savings / cost) ** (2 / 3))


def invert(P: Vector) -> Preconditioner:
    """``v ↦ P⁻¹v`` for a diagonal P, or by a Cholesky factor of P scaled to unit diagonal.

    The scaling is what makes the factor useful when features range over many orders of
    magnitude.
    """
    if P.ndim == 1:
        inverse = 1.0 / P
        return lambda v: inverse * v
    diagonal = np.diag(P)
    floor = np.finfo(float).eps * max(1.0, float(diagonal.max()))
    scale = 1.0 / np.sqrt(np.maximum(diagonal, floor))  # rounding can make one negative
    P = P * scale
    P *= scale[:, None]
    with blas_threads(1 if len(P) < SHARED else resolve_threads()):
        factor = _cholesky(P)
    return lambda v: scale * cho_solve(factor, scale * v, check_finite=False)


def _cholesky(P: Vector) -> tuple[Vector, bool]:
    """Factor a matrix with unit diagonal, lifting the diagonal while rounding spoils it."""
    lift = 0.0
    while True:
        try:
            lifted = P + lift * np.eye(len(P)) if lift else P
            return cho_factor(lifted, lower=True, check_finite=False)
        except LinAlgError:
            lift = max(1e-14, 10 * lift)
