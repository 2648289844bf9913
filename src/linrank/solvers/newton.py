"""Preconditioned Newton: few Hessian products, whatever the scale of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..problem import Problem
from .base import Iterate, Solver, Vector
from .conjugate_gradients import conjugate_gradients
from .result import Status

Preconditioner = Callable[[Vector], Vector]  #: an approximate inverse of the Hessian

DENSE_LIMIT = 4096  #: most features for which a d × d matrix is built and factored
ARMIJO = 1e-4  #: part of the predicted decrease that a step must reach
ROWS_PER_FEATURE = 160  #: rows of the Hessian sample per feature, where they can be afforded
SAMPLE_COST = 10  #: what sampling the Hessian may cost, in Hessian products
FREE_ROWS = 2048  #: a sample of so many rows is always affordable
REFRESH = 2  #: a preconditioner that needs more products than this is made anew
MAX_PRODUCTS = 250  #: of one Newton step
GAP = 0.01  #: the estimated distance to the optimum must be below this part of ε·f
ROUNDING = 1e-14  #: relative changes of the objective below this are rounding


@dataclass
class Newton(Solver):
    """Newton's method with preconditioned conjugate gradients and a line search.

    Each iteration solves H s = −g approximately, with a preconditioner P ≈ H: for up to
    `DENSE_LIMIT` features the Cholesky factor of the Hessian of a sample of queries, scaled
    to unit diagonal; beyond that a diagonal. It stops when both

        ‖g(w)‖ ≤ ε‖g(0)‖     and     ½ g'P⁻¹g ≤ 0.01·ε·f(w):

    the second, an estimate of the distance f(w) − f* to the optimum, does not depend on the
    scale of the features, where the first can be met far from the optimum.
    """

    def begin(self, problem: Problem, w: Vector, slope: float) -> None:
        """Get ready to `advance` from w; `slope` is the norm of the gradient at w = 0."""
        self.problem, self.slope_at_zero = problem, slope
        self.point = Iterate(w, *problem.value_grad(w))
        self._prepare()

    def _prepare(self) -> None:
        self._precondition: Preconditioner | None = None

    def _minimise(self) -> Status:
        for _ in range(self.max_iter):
            decrement = self._decrement()
            if self._gradient_is_small() and decrement <= GAP * self.tol * self.point.value:
                return Status.CONVERGED
            if not self.advance():
                hidden = decrement <= ROUNDING * abs(self.point.value)
                return Status.PRECISION if hidden else Status.STUCK
            self._record()
        small = self._gradient_is_small() and (
            self._decrement() <= GAP * self.tol * self.point.value
        )
        return Status.CONVERGED if small else Status.MAX_ITER

    def _decrement(self) -> float:
        """½ g'P⁻¹g: about how far the objective is from its optimum."""
        if self._precondition is None:
            self._precondition = make_preconditioner(self.problem)
        return 0.5 * float(self.point.gradient @ self._precondition(self.point.gradient))

    def advance(self) -> bool:
        """Take one Newton step; False where no step lowers the objective."""
        if self._precondition is None:
            self._precondition = make_preconditioner(self.problem)
        step, n_products = self._newton_direction(self._precondition)
        if n_products > REFRESH:
            self._precondition = None
        return self._line_search(step)

    def _newton_direction(self, precondition: Preconditioner) -> tuple[Vector, int]:
        """Solve H s = −g until the residual, in the norm of P⁻¹, is a small part of g."""
        relative = self._relative_norm()
        needed = 0.1 * (self.tol / relative) ** 2  # no more than the stopping rule asks for
        forcing = min(0.1, max(relative, needed))
        return conjugate_gradients(
            self.problem.hessp, -self.point.gradient, precondition, forcing, MAX_PRODUCTS
        )

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


def make_preconditioner(problem: Problem) -> Preconditioner:
    """A preconditioner for the Hessian where the problem was last evaluated."""
    d = problem.n_features
    # Per entry, a row of the sample costs about 30 + d/8 times what it costs in a product.
    affordable = int(SAMPLE_COST * problem.n_entries / (d * (30 + d / 8)))
    affordable = max(affordable, FREE_ROWS)
    if d > DENSE_LIMIT or affordable < d:
        inverse = 1.0 / problem.hessian_diagonal()
        return lambda v: inverse * v
    if affordable < problem.engine.largest_query / 2:
        n_rows = min(problem.engine.data.n_docs, ROWS_PER_FEATURE * d)
        return invert(problem.hessian_of_documents(n_rows))
    return invert(problem.hessian(min(affordable, ROWS_PER_FEATURE * d)))


def invert(P: Vector) -> Preconditioner:
    """``v ↦ P⁻¹v`` by a Cholesky factor of P scaled to unit diagonal.

    The scaling is what makes the factor useful when features range over many orders of
    magnitude.
    """
    diagonal = np.diag(P)
    floor = np.finfo(float).eps * max(1.0, float(diagonal.max()))
    scale = 1.0 / np.sqrt(np.maximum(diagonal, floor))  # rounding can make one negative
    P = P * scale
    P *= scale[:, None]
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
