"""Chapelle & Keerthi (2010): PRSVM, PRSVM+ and nonlinear conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import numpy as np
from scipy.linalg import norm

from .._util.checks import choice, positive_number, whole_number
from .._util.types import Vector
from ..engines.engine import Line
from ..errors import DataError
from ..penalties.separable import L2
from ..problem import Problem
from ..solvers.result import Status
from ..solvers.smooth import Product, SmoothSolver, Solution, StopName, conjugate_gradients, invert
from ..solvers.solver import ROUNDING, Iterate, Needs, state

# --------------------------------------------------------------------------------------------------
# Exact line search for a convex objective, by secant or cubic interpolation of its slope.


InterpolationName = Literal["secant", "cubic"]

MAX_TRIALS = 50  #: trial points before a line search fails


class LineTrial(NamedTuple):
    """A step length t with φ(t) and φ'(t)."""

    t: float
    value: float
    slope: float


class StepFound(NamedTuple):
    """The step length that a line search has found, and the point at its end."""

    t: float
    point: Iterate


def line_search(
    problem: Problem,
    origin: Iterate,
    direction: Vector,
    first: float,
    interpolation: InterpolationName = "secant",
    tol: float = 1e-3,
) -> StepFound | None:
    """Minimise φ(t) = f(w + t·s) over t > 0; the result is None if there is no lower point.

    φ is convex, so its slope φ' increases. Secants or cubics through the last two trials give the
    next trial (Chapelle & Keerthi 2010, §2). A trial outside the interval in which φ' changes its
    sign is replaced by the middle of this interval. The search ends when |φ'(t)| ≤ tol·|φ'(0)|. If
    f is piecewise quadratic, φ' is piecewise linear. The secant method then finds the minimum
    exactly as soon as two trials are on the piece of the minimum.

    The scores Xw and Xs are computed once. A trial then costs O(n log n), and no pass over X.

    Parameters
    ----------
    problem : Problem
    origin : Iterate
        The point w with its objective and gradient.
    direction : float64 array
        s, a direction of descent.
    first : float
        The first trial.
    interpolation : {"secant", "cubic"}
    tol : float
        Larger values need fewer trials.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01)
    >>> w = np.zeros(problem.n_features)
    >>> origin = Iterate(w, *problem.value_grad(w))
    >>> found = line_search(problem, origin, -origin.gradient, first=1.0)
    >>> found.point.value < origin.value
    True
    """
    before = LineTrial(0.0, origin.value, float(origin.gradient @ direction))
    goal, low, high, t = tol * abs(before.slope), 0.0, np.inf, first
    if not before.slope < 0:
        return None
    loss = problem.engine.line(origin.w, direction)
    for _ in range(MAX_TRIALS):
        here = _trial(problem, loss, origin.w, direction, t)
        if abs(here.slope) <= goal:
            break
        low, high = (t, high) if here.slope < 0 else (low, t)
        t = _interpolate(interpolation, before, here)
        if not low < t < high:
            t = 2.0 * low if high == np.inf else 0.5 * (low + high)
        before = here
    w = origin.w + here.t * direction
    point = Iterate(w, *problem.value_grad(w))
    is_minimum = abs(here.slope) <= goal or point.value < origin.value
    return StepFound(here.t, point) if is_minimum else None


def _trial(problem: Problem, loss: Line, w: Vector, direction: Vector, t: float) -> LineTrial:
    """Evaluate f at w + t·direction, given the loss on this line."""
    penalty, there = problem.penalty, w + t * direction
    assert isinstance(penalty, L2)
    value, slope = loss(t)
    slope = float(penalty.gradient(there) @ direction) + problem.C * slope
    return LineTrial(t, penalty.value(there) + problem.C * value, slope)


def _interpolate(interpolation: InterpolationName, a: LineTrial, b: LineTrial) -> float:
    """Return where the slope through two trials is 0: by a secant, or by a cubic in φ."""
    if interpolation == "cubic":
        one = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.t - b.t)
        root = one**2 - a.slope * b.slope
        if root >= 0:
            two = np.copysign(np.sqrt(root), b.t - a.t)
            curvature = b.slope - a.slope + 2.0 * two
            return b.t - (b.t - a.t) * (b.slope + two - one) / curvature if curvature else np.nan
    change = b.slope - a.slope
    return b.t - b.slope * (b.t - a.t) / change if change else np.nan


# --------------------------------------------------------------------------------------------------
# MINRES: the solution of a symmetric linear system with the smallest residual.


def minres(product: Product, right: Vector, tol: float, most: int) -> Solution:
    """Solve A x = right approximately by MINRES (Paige & Saunders 1975).

    After k products, x minimises ‖right − Ax‖ over the Krylov space of A and `right` with k
    dimensions. The Lanczos process builds an orthonormal basis of this space, in which A is
    tridiagonal. Givens rotations factor the tridiagonal matrix. The iterations end when
    ‖right − Ax‖ ≤ tol·‖right‖.

    Parameters
    ----------
    product : callable
        ``v ↦ Av`` for a symmetric A.
    right : array of shape (n,)
    tol : float
        Larger values need fewer products and leave a larger residual.
    most : int
        The largest number of products.

    Examples
    --------
    >>> A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> found = minres(lambda v: A @ v, b, tol=1e-12, most=10)
    >>> bool(np.allclose(A @ found.x, b)), found.n_products
    (True, 2)
    """
    size = start = float(norm(right))
    x, residual = np.zeros_like(right), right.copy()
    if start == 0:
        return Solution(x, residual, 0.0, 0)
    basis, basis_before = right / start, np.zeros_like(right)
    direction, direction_before = np.zeros_like(right), np.zeros_like(right)
    image, image_before = np.zeros_like(right), np.zeros_like(right)  # A times both directions
    cos, sin, cos_before, sin_before, beta = 1.0, 0.0, 1.0, 0.0, 0.0
    n_products = 0
    while n_products < most:
        n_products += 1
        along = product(basis)
        alpha = float(basis @ along)
        following = along - alpha * basis - beta * basis_before
        beta_next = float(norm(following))
        # The column (beta, alpha, beta_next) of the tridiagonal matrix, rotated.
        far, near = sin_before * beta, cos * cos_before * beta + sin * alpha
        diagonal = cos * alpha - sin * cos_before * beta
        length = float(np.hypot(diagonal, beta_next))
        if length == 0:  # A is singular on this space
            break
        cos_before, sin_before, cos, sin = cos, sin, diagonal / length, beta_next / length
        direction_before, direction = (
            direction, (basis - near * direction - far * direction_before) / length
        )  # fmt: skip
        image_before, image = image, (along - near * image - far * image_before) / length
        x += cos * size * direction
        residual -= cos * size * image
        size *= -sin
        if abs(size) <= tol * start:
            break
        basis_before, basis, beta = basis, following / beta_next, beta_next
    return Solution(x, residual, size**2, n_products)


# --------------------------------------------------------------------------------------------------
# Non-linear conjugate gradients: steps along conjugate directions with an exact line search.


BetaName = Literal["polak-ribiere", "fletcher-reeves"]


@dataclass
class NonlinearCG(SmoothSolver):
    """Non-linear conjugate gradients (Chapelle & Keerthi 2010, §2; Shewchuk 1994, §14).

    With the gradient g_k at w_k and the direction s_k, an iteration is

        w_{k+1} = w_k + t s_k,   t = argmin f(w_k + t s_k),   s_{k+1} = −g_{k+1} + β s_k.

    The directions restart from −g after as many iterations as there are features, and if β ≤ 0 or
    if s is not a direction of descent. The line search (`linrank.papers.chapelle2010`) needs values
    and gradients only. Its first trial assumes that f falls as much as in the last iteration. In
    the first iteration it is the smaller of 1 and f/‖g‖², where the tangent of f reaches 0.

    The stopping rule is that of `SmoothSolver`, because the paper gives none for this method.

    Parameters
    ----------
    beta : {"polak-ribiere", "fletcher-reeves"}
        β = g_{k+1}'(g_{k+1} − g_k) / g_k'g_k, or β = g_{k+1}'g_{k+1} / g_k'g_k. The reference of
        the paper has both.
    line_search : {"secant", "cubic"}
        The interpolation of the line search. The paper names both.
    tol, max_iter, callback, stop
        See `Solver` and `Newton`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> result = NonlinearCG().solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.converged, result.n_products
    (True, 0)
    """

    beta: BetaName = "polak-ribiere"
    line_search: InterpolationName = "secant"
    name: ClassVar[str] = "nonlinear-cg"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("l2",))

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("beta", self.beta, get_args(BetaName))
        choice("line_search", self.line_search, get_args(InterpolationName))

    def _minimise(self) -> Status:
        direction, fall, age = -self.point.gradient, None, 0
        for _ in range(self.max_iter):
            if self._has_arrived():
                return Status.CONVERGED
            found = self._search(direction, fall)
            if found is None and age > 0:
                direction, age = -self.point.gradient, 0
                found = self._search(direction)
            if found is None:
                return self._status_at_rest()
            fall = found.t * float(self.point.gradient @ direction)
            before, self.point = self.point.gradient, found.point
            self._record()
            direction, age = self._next_direction(direction, before, age)
        return Status.CONVERGED if self._has_arrived() else Status.MAX_ITER

    def _search(self, direction: Vector, fall: float | None = None) -> StepFound | None:
        """Minimise f along a direction; `fall` is t·g's of the last iteration, if known."""
        point = self.point
        slope = float(point.gradient @ direction)
        first = min(1.0, -point.value / slope) if fall is None else fall / slope
        found = line_search(self.problem, point, direction, first, self.line_search)
        if found is None:
            self.problem.value_grad(point.w)  # Estimates refer to the last evaluated point.
        return found

    def _next_direction(self, direction: Vector, before: Vector, age: int) -> tuple[Vector, int]:
        """Return −g + βs and its number of iterations since the last restart."""
        gradient = self.point.gradient
        change = gradient - before if self.beta == "polak-ribiere" else gradient
        beta = float(gradient @ change) / float(before @ before)
        following = beta * direction - gradient
        if age + 1 == len(gradient) or beta <= 0 or float(gradient @ following) >= 0:
            return -gradient, 0
        return following, age + 1


# --------------------------------------------------------------------------------------------------
# PRSVM and PRSVM+: truncated Newton as Chapelle & Keerthi 2010 run it.


SystemName = Literal["minres", "cg", "exact"]
LineSearchName = Literal["never", "fallback", "always"]

MAX_EXACT = 16_384  #: features for which system="exact" keeps a Hessian, which then needs 2 GiB


@dataclass
class PaperNewton(SmoothSolver):
    """Truncated Newton with the unit step (Chapelle & Keerthi 2010, algorithm 1).

    Each iteration solves H s = −g without a preconditioner and moves to w + s. The fit ends after
    the first step with

        −g's ≤ ε·f(w),        where −g's ≈ g'H⁻¹g is the Newton decrement            (§5.2)

    and f(w) is the objective at the end of the step. The paper uses ε = 1e-6. If the estimated
    distance to the optimum is then above 0.1·ε·f(w), the status is `Status.FAR`.

    With ``counting="explicit"``, H s is a sum over listed pairs: this is PRSVM (§3). With
    ``counting="two-level"``, H s uses the sums over sorted scores of §4.2, for each level of a
    query against all levels below it: this is PRSVM+. Any other counting gives the same numbers.

    A path starts each C from w = 0.

    Parameters
    ----------
    tol : float
        ε of the stopping rule.
    max_iter : int
        The largest number of Newton steps.
    callback : callable, optional
    stop : {"decrement", "optimum", "gradient"}
        ``decrement``: the rule of the paper. The others are those of `SmoothSolver`.
    system : {"minres", "cg", "exact"}
        The solver of H s = −g. The paper describes conjugate gradients and runs MINRES. ``exact``:
        compute H and its Cholesky factor, in O(nd² + d³) (§2).
    line_search : {"fallback", "never", "always"}
        ``never``: the step length is 1, which the paper uses in practice. ``fallback``: if that
        step raises the objective, an exact line search shortens it. ``always``: each step has an
        exact line search, which is the optional line of algorithm 1.
    cg_tol : float
        Residual ‖g + Hs‖ / ‖g‖ at which MINRES and conjugate gradients end. The paper does not
        give a number.
    cg_iter : int
        Largest number of their products for one system. The paper does not give a number.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01, counting="two-level")
    >>> PaperNewton().solve(problem).converged
    True
    """

    tol: float = 1e-6
    stop: StopName = "decrement"
    system: SystemName = "minres"
    line_search: LineSearchName = "fallback"
    cg_tol: float = 1e-3
    cg_iter: int = 20
    name: ClassVar[str] = "newton-paper"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("l2",))
    stops: ClassVar[tuple[StopName, ...]] = ("decrement", "optimum", "gradient")
    warm_starts: ClassVar[bool] = False
    _decrement: float = state(default=np.inf)  #: −g's of the last step

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("system", self.system, get_args(SystemName))
        choice("line_search", self.line_search, get_args(LineSearchName))
        positive_number("cg_tol", self.cg_tol)
        self.cg_iter = whole_number("cg_iter", self.cg_iter)

    def _prepare(self) -> None:
        super()._prepare()
        if self.system == "exact" and self.problem.n_features > MAX_EXACT:
            raise DataError(
                f"system='exact' computes a Hessian of {self.problem.n_features:,} × "
                f"{self.problem.n_features:,} numbers, which is supported for at most "
                f"{MAX_EXACT:,} features. Use system='minres'."
            )
        self._decrement = np.inf

    def _minimise(self) -> Status:
        for _ in range(self.max_iter):
            if self._has_arrived():
                return Status.CONVERGED
            step = self._newton_step()
            self._decrement = -float(self.point.gradient @ step)
            if not self._move(step):
                return Status.CONVERGED if self._has_arrived() else self._status_at_rest()
            self._record()
        return Status.CONVERGED if self._has_arrived() else Status.MAX_ITER

    def _has_arrived(self) -> bool:
        if self.stop != "decrement":
            return super()._has_arrived()
        return self._decrement <= self.tol * self.point.value

    def _newton_step(self) -> Vector:
        """Return the solution s of H s = −g, exact or approximate."""
        hessp, right = self.problem.hessp, -self.point.gradient
        if self.system == "exact":
            return invert(self.problem.hessian())(right)
        if self.system == "minres":
            return minres(hessp, right, self.cg_tol, self.cg_iter).x
        return conjugate_gradients(hessp, right, np.copy, self.cg_tol**2, self.cg_iter).x

    def _move(self, step: Vector) -> bool:
        """Move along the step; return False if that does not lower the objective."""
        if self.line_search != "always":
            w = self.point.w + step
            trial = Iterate(w, *self.problem.value_grad(w))
            change = trial.value - self.point.value
            if self.line_search == "never" or change <= ROUNDING * abs(self.point.value):
                self.point = trial
                return True
        found = line_search(self.problem, self.point, step, first=1.0)
        if found is None:
            self.problem.value_grad(self.point.w)  # Hessian products refer to this point again.
            return False
        self.point = found.point
        return True
