"""What solvers for smooth losses share: conjugate gradients, preconditioners, stopping rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, norm
from scipy.linalg.lapack import dpotrs

from .._util.checks import choice
from .._util.parallel import blas_threads, resolve_threads
from .._util.types import Mask, Vector
from ..problem import Face, Problem
from .result import Status
from .solver import Iterate, Solver, state

if TYPE_CHECKING:
    from ..engines.engine import Engine

# --------------------------------------------------------------------------------------------------
# Conjugate gradients: the solution of a linear system by products with its matrix.


Product = Callable[[Vector], Vector]  #: a matrix-vector product


class Solution(NamedTuple):
    """An approximate solution x of A x = b, with its residual r = b − Ax.

    ``size`` is r'P⁻¹r. x is a direction of descent of ½x'Ax − b'x after any number of products.
    """

    x: Vector
    residual: Vector
    size: float
    n_products: int


def conjugate_gradients(
    product: Product, right: Vector, precondition: Product, forcing: float, most: int
) -> Solution:
    """Solve A x = right approximately by conjugate gradients with a preconditioner P.

    The iterations end when ``r'P⁻¹r`` of the residual r is at most `forcing` times its value at
    x = 0.

    Parameters
    ----------
    product, precondition : callable
        ``v ↦ Av`` and ``v ↦ P⁻¹v``, for positive definite A and P. Both must return new arrays:
        without a preconditioner, `precondition` is ``np.copy``.
    right : array of shape (n,)
    forcing : float
        Larger values need fewer products and leave a larger residual.
    most : int
        The largest number of products.

    Examples
    --------
    >>> A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> found = conjugate_gradients(lambda v: A @ v, b, np.copy, forcing=1e-20, most=10)
    >>> bool(np.allclose(A @ found.x, b))
    True
    """
    x, residual = np.zeros_like(right), right.copy()
    z = precondition(residual)
    direction = z
    size = start = float(residual @ z)
    for n_products in range(1, most + 1):
        image = product(direction)
        curvature = float(direction @ image)
        if curvature <= 0:  # rounding hides it
            return Solution(x if n_products > 1 else z, residual, size, n_products)
        x += size / curvature * direction
        residual -= size / curvature * image
        z = precondition(residual)
        size, before = float(residual @ z), size
        if size <= forcing * start:
            break
        direction = z + (size / before) * direction
    return Solution(x, residual, size, n_products)


# --------------------------------------------------------------------------------------------------
# Estimates of the Hessian: preconditioners, and a measure of the distance to the optimum.


Preconditioner = Callable[[Vector], Vector]  #: an approximate inverse of the Hessian


@dataclass(frozen=True)
class HessianSettings:
    """Constants of the Hessian estimate; the unit of costs is one Hessian product.

    Attributes
    ----------
    dense_limit : int
        Largest number of features for which a d × d matrix is built and factored. Beyond it the
        preconditioner is a diagonal.
    threaded_factor : int
        Number of features from which BLAS uses several threads for a factorisation. With smaller
        matrices, threads save a few ms. On a busy machine they wait for each other, and a matrix of
        1,088 features took 2.3 s instead of 0.04 s.
    query_savings, document_savings : float
        Hessian products that a sample of queries, or of documents, saves (`rows_per_feature`).
        Larger values lead to larger samples.
    first_share : float
        Cost of the products before the first matrix, relative to the cost of the matrix. Larger
        values make fewer matrices for easy fits, and later ones for hard fits. A matrix of fewer
        than `reliable_rows` rows per feature is less effective, and has a share of 1.
    diagonal_cost : float
        Cost of a diagonal estimate, and the least cost of any estimate.
    factor_cost : float
        Cost of a Cholesky factorisation per d³, in entries of X that a product reads.
    free_work : float
        Entries of X that a product reads within a few ms. This amount of work costs nothing, so
        that small data get an exact matrix at once.
    negative_part : float
        Largest negative diagonal entry of a usable estimate, relative to the largest entry.
        Larger values accept estimates with more rounding.
    least_rows : int
        Smallest number of sampled rows per feature. Larger values lead to larger samples.
    reliable_rows : int
        Smallest number of sampled rows per feature with which an earlier estimate may prove
        convergence (`Estimate.is_reliable`). Larger values lead to more new matrices.
    reliable_part : float
        Smallest fraction of the curvature that must be left since such an estimate was made.
        Larger values lead to more new matrices.
    """

    dense_limit: int = 4096
    threaded_factor: int = 3000
    query_savings: float = 15.0
    document_savings: float = 100.0
    first_share: float = 0.5
    diagonal_cost: float = 1.5
    factor_cost: float = 1 / 24
    free_work: float = 2e6
    negative_part: float = 1e-10
    least_rows: int = 4
    reliable_rows: int = 5
    reliable_part: float = 0.5


HESSIAN = HessianSettings()  #: the settings that all solvers use


class Estimate(NamedTuple):
    """An estimate of the Hessian of the loss at the last evaluated point.

    ``of_loss`` is a matrix, or the diagonal as a vector. ``cost`` is its cost in Hessian products.
    A better estimate is made after ``enough`` products. ``exact`` means that the matrix is the
    Hessian itself, not that of a sample. A sample of queries has ``n_rows`` rows; for other
    estimates the number is 0. ``curvature`` is that of all documents.
    """

    of_loss: Vector
    engine: Engine
    cost: float
    enough: float = np.inf
    exact: bool = False
    n_rows: int = 0
    curvature: float = np.nan

    @property
    def is_diagonal(self) -> bool:
        """Whether the estimate is a diagonal."""
        return self.of_loss.ndim == 1

    def is_reliable(self) -> bool:
        """Return whether the estimate may prove convergence at the last evaluated point.

        A sample of queries with many rows per feature is close to the Hessian at the point where
        it was made. Later, pairs may have become inactive. The total curvature shows how many.
        """
        enough = self.n_rows >= HESSIAN.reliable_rows * self.engine.n_features
        least = HESSIAN.reliable_part * self.curvature
        return enough and self.engine.total_curvature() >= least

    def is_spoilt(self) -> bool:
        """Return whether a diagonal entry is negative because of rounding."""
        diagonal = self.of_loss if self.is_diagonal else self.of_loss.diagonal()
        return bool(diagonal.min() < -HESSIAN.negative_part * diagonal.max())


class AgeingPreconditioner:
    """A preconditioner that is kept until it is no longer effective.

    The estimate of the Hessian excludes the penalty, so it is reused across iterations and across
    values of C. With age, conjugate gradients need more products than with the new estimate. The
    additional products are the *regret*. When the regret exceeds the cost of a new estimate, the
    estimate is discarded. A diagonal is discarded when the products so far have cost
    `HessianSettings.first_share` of a matrix.

    Attributes
    ----------
    estimate : Estimate or None
    made_at : Iterate or None
        The iterate at which this fit made the estimate.
    spent : float
        Hessian products since the first fit with the engine.
    speed : float
        Reduction of the residual, in log units per product, when the estimate was new.
    regret : float
        Products in addition to those that a new estimate would have needed.
    """

    def __init__(self) -> None:
        self.estimate: Estimate | None = None
        self.made_at: Iterate | None = None
        self.spent = self.speed = self.regret = 0.0
        self._inverse: Preconditioner | None = None
        self._free: Mask | None = None

    def begin(self, engine: Engine) -> None:
        """Start a fit; keep the estimate if the engine is that of the previous fit."""
        self.made_at, self._inverse = None, None
        if self.estimate is None or self.estimate.engine is not engine:
            self.estimate, self.spent = None, 0.0

    def discard(self) -> None:
        """Discard the estimate; the next use of the preconditioner makes a new one."""
        self.estimate = self._inverse = None

    def adopt(self, other: AgeingPreconditioner, share: float, engine: Engine) -> None:
        """Use the Hessian of a sample, multiplied by `share`, for all data.

        The matrix is made from all rows of the sample, where its fit has ended. The products that
        it saves are more expensive than those of the sample. If the fit of the sample needed no
        matrix, none is made.
        """
        found = other.estimate
        if found is not None and not found.is_diagonal:
            plan, sample = _plan_matrix(engine), found.engine
            self.estimate = found._replace(
                of_loss=share * sample.hessian(plan.n_rows),
                engine=engine,
                cost=max(HESSIAN.diagonal_cost, plan.cost),
                exact=False,
                n_rows=min(plan.n_rows, sample.data.n_docs),
                curvature=share * sample.total_curvature(),
            )
            self.speed, self.regret, self._inverse = 0.0, 0.0, None

    def at(self, problem: Problem | Face, point: Iterate) -> tuple[Estimate, Preconditioner]:
        """Return the estimate and its inverse; a missing estimate is made at the point."""
        if self.estimate is None:
            self.estimate = estimate_hessian(problem, self.spent)
            self.made_at = point
            self.speed, self.regret, self._inverse = 0.0, 0.0, None
        if self._inverse is None or not _same(self._free, problem.free):
            self._inverse = None  # frees its matrix before another one is made
            self._inverse = invert(problem.hessian(self.estimate.of_loss))
            self._free = problem.free
        return self.estimate, self._inverse

    def judge(self, n_products: int, reduction: float) -> None:
        """Discard the estimate if a linear system needed too many products.

        Parameters
        ----------
        n_products : int
        reduction : float
            The logarithm of the factor by which the products reduced the residual.
        """
        assert self.estimate is not None
        self.spent += n_products
        self.speed = self.speed or reduction / n_products
        self.regret += max(0.0, n_products - reduction / self.speed)
        if self.regret > self.estimate.cost or self.spent > self.estimate.enough:
            self.discard()


def _same(one: Mask | None, other: Mask | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def estimate_hessian(problem: Problem | Face, spent: float = 0) -> Estimate:
    """Estimate the Hessian of the loss: exactly, from a sample, or by its diagonal.

    A matrix is made when the products so far have cost half as much as the matrix
    (`HessianSettings.first_share`). For small data this is at once. The size of the sample
    minimises the expected time of the rest of the fit. Before that the estimate is a diagonal,
    which is enough for easy fits. A matrix is more effective if it is made closer to the optimum.
    """
    engine = problem.engine
    plan = _plan_matrix(engine)
    few = plan.n_rows < HESSIAN.reliable_rows * engine.n_features
    enough = plan.cost if few else HESSIAN.first_share * plan.cost
    if spent <= enough:
        return Estimate(engine.hessian_diagonal(), engine, HESSIAN.diagonal_cost, enough)
    cost = max(HESSIAN.diagonal_cost, plan.cost)
    exact = plan.by_queries and plan.n_rows >= engine.data.n_docs
    n_rows = plan.n_rows if plan.by_queries and not exact else 0
    curvature = engine.total_curvature()
    return Estimate(plan.make(), engine, cost, exact=exact, n_rows=n_rows, curvature=curvature)


class _MatrixPlan(NamedTuple):
    """How to make a matrix: from how many rows, from whole queries or not, and at what cost."""

    make: Callable[[], Vector]
    n_rows: int
    by_queries: bool
    cost: float


def _plan_matrix(engine: Engine) -> _MatrixPlan:
    """Plan the matrix that is expected to make a fit fastest."""
    d, row_work, n_docs = engine.n_features, engine.row_work, engine.data.n_docs
    if d > HESSIAN.dense_limit:
        return _MatrixPlan(engine.hessian, n_docs, True, np.inf)
    n_rows = _sample_rows(engine, row_work, HESSIAN.query_savings)
    by_queries = n_rows >= engine.largest_query / 2
    if not by_queries:
        row_work = engine.document_work
        n_rows = _sample_rows(engine, row_work, HESSIAN.document_savings)
    n_rows = int(min(max(n_rows, HESSIAN.least_rows * d), n_docs))
    work = n_rows * row_work + HESSIAN.factor_cost * d**3 - HESSIAN.free_work
    make = partial(engine.hessian if by_queries else engine.hessian_of_documents, n_rows)
    return _MatrixPlan(make, n_rows, by_queries, work / engine.product_work)


def _sample_rows(engine: Engine, row_work: float, savings: float) -> float:
    d = engine.n_features
    per_feature = rows_per_feature(d * row_work / engine.product_work, savings)
    return max(d * per_feature, HESSIAN.free_work / row_work)


def rows_per_feature(cost: float, savings: float) -> float:
    """Return the number r of sampled rows per feature that minimises the time of a fit.

    `cost` is the cost of one row per feature in Hessian products. On the measured data, a fit
    needed about 10 + 45/√r products, and rarely more than one sample. The total is smallest at
    about r = (savings/cost)^⅔ with savings = 22. The first steps use a diagonal, so `savings` is
    less.

    Examples
    --------
    >>> rows_per_feature(15.0, HESSIAN.query_savings)
    1.0
    """
    return float((savings / cost) ** (2 / 3))


def invert(P: Vector) -> Preconditioner:
    """Return ``v ↦ P⁻¹v`` for a diagonal P, or by a Cholesky factor of a matrix P.

    A matrix P is overwritten by its factor, which saves the memory of a copy. It is scaled to unit
    diagonal before it is factored. Without the scaling the factor is useless when features range
    over many orders of magnitude.
    """
    if P.ndim == 1:
        inverse = 1.0 / P
        return lambda v: inverse * v
    diagonal = np.diag(P)
    floor = np.finfo(float).eps * max(1.0, float(diagonal.max()))
    # Each feature has a scale of its own. Rounding can make an entry zero or negative.
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, floor))
    P *= scale
    P *= scale[:, None]
    with blas_threads(1 if len(P) < HESSIAN.threaded_factor else resolve_threads()):
        factor, lower = _cholesky(P)
    # `cho_solve` would check its arguments each time, which takes longer than a small system.
    return lambda v: scale * dpotrs(factor, scale * v, lower)[0]


def _cholesky(P: Vector) -> tuple[Vector, bool]:
    """Factor a symmetric matrix in place; enlarge the diagonal if the matrix is indefinite.

    The factor replaces the upper triangle of P, which is the lower one of P'. If there is none, the
    lower triangle of P still has all entries.
    """
    diagonal, lift = P.diagonal().copy(), 0.0
    while True:
        try:
            return cho_factor(P.T, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            lift = max(1e-14, 10 * lift)
            below = np.tril(P, -1)
            P[:] = below + below.T
            P.flat[:: len(P) + 1] = diagonal + lift


# --------------------------------------------------------------------------------------------------
# Stopping rules of the solvers that need a loss with a derivative.


StopName = Literal["optimum", "gradient", "decrement"]

ESTIMATED_PART = 0.25  #: estimate of f(w) − f*, as a fraction of ε·f(w), with which a fit stops
MAX_PRODUCTS = 250  #: largest number of Hessian products for one Newton step
MATRIX_REMAINDER = 1e-6  #: fraction of g'P⁻¹g that may remain after a Newton step near the optimum
SAMPLE_REMAINDER = 0.3  #: the same fraction if P is the Hessian of a sample
EXACT_WEIGHTS = 1e-6  #: ε below which the gradient must be small, too; larger: slower tight fits
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

    A solver stops when f(w) − f* ≤ ε·f(w), or ε·(f(0) − f(w)) if that is less. The bound ½‖g‖²
    certifies it. Where the bound is loose, an estimate of at most a quarter of this counts as well
    (`distance_to_optimum`). With ε < 1e-6, ‖g(w)‖ ≤ ε‖g(0)‖ must hold as well: such a tolerance is
    for the weights, whose relative error can be √ε at a distance of ε.

    The rule of the papers, ‖g(w)‖ ≤ ε‖g(0)‖ (Lee & Lin 2014, eq. 38), can hold far from the optimum
    f*: if features have different scales, if C is large, and after a warm start.

    Parameters
    ----------
    tol : float
        ε of the stopping rule.
    stop : {"optimum", "gradient"}
        ``gradient``: stop by the rule of the papers. If the objective can then still fall by more
        than 0.1·ε·f(w), the status is `Status.FAR`.
    """

    tol: float = 1e-6
    stop: StopName = "optimum"
    stops: ClassVar[tuple[StopName, ...]] = ("optimum", "gradient")  #: the rules of the solver
    _norm_to_estimate: float = state(default=np.inf)  #: ‖g‖ below which to estimate the distance

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("stop", self.stop, self.stops)

    def _prepare(self) -> None:
        self._norm_to_estimate = np.inf

    def _bound_below(self) -> None:
        self._bound_by_gradient(self.point)

    def _has_arrived(self) -> bool:
        """Return whether the stopping rule is met."""
        if self._compares_gradients() and not self._gradient_is_small():
            return False
        if self.stop == "gradient":
            return True
        certified = self.problem.gap_bound(self.point.gradient) <= self.tol * self._size()
        return certified or self._is_near_optimum(self._goal())

    def _compares_gradients(self) -> bool:
        """Return whether ‖g(w)‖ ≤ ε‖g(0)‖ is a condition of the stopping rule."""
        return self.stop == "gradient" or self.tol < EXACT_WEIGHTS

    def _goal(self) -> float:
        """Return the estimate of f(w) − f* at which to stop."""
        return ESTIMATED_PART * self.tol * self._size()

    def _size(self) -> float:
        """Return f(w) or, if it is smaller, the fall f(0) − f(w).

        If C is small, w = 0 is close to the optimum in units of f(w), but ranks nothing. At the
        optimum the fall is at least ½‖w‖², which rounding does not hide.
        """
        value, w = self.point.value, self.point.w
        return min(value, max(self.value_at_zero - value, self.problem.penalty.value(w)))

    def _face(self) -> Problem | Face:
        """Return the problem in the features that bounds leave free at the current point."""
        return self.problem.face(self.point.w, self.point.gradient)

    def _is_near_optimum(self, goal: float) -> bool:
        """Return whether an estimate of f(w) − f* is at most `goal`.

        An estimate can cost as much as the fit so far. The first one is made when ‖g‖ ≤ √ε‖g(0)‖,
        because the distance is proportional to ‖g‖². If the estimate is too large, the next one is
        made after ‖g‖ has fallen further.
        """
        size = float(norm(self.point.gradient))
        if size > self._norm_to_estimate or size > np.sqrt(self.tol) * self.slope_at_zero:
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
        self._bound_by_gradient(end)
        return self._fell_as_predicted(found, self.point, end)

    def _fell_as_predicted(self, found: Distance, start: Iterate, end: Iterate) -> bool:
        """Return whether the gradient at the end of a Newton step confirms `found`."""
        fall = max(0.0, start.value - end.value)
        if fall + self.problem.gap_bound(end.gradient) <= self.tol * self._size():
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
        goal, small = self._goal(), not self._compares_gradients() or self._gradient_is_small()
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
