"""Smoothing with a penalty that selects features: losses with corners and convex penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._util.types import Integers, Vector
from ..engines.threads import ThreadEngine
from ..penalties.penalty import Penalty
from ..problem import Problem
from .dual import DualPairs, dual_pairs
from .fista import FISTA
from .proximal_newton import ProximalNewton
from .result import Result, Status
from .smoothing import FIRST_WIDTH, SHRINKAGE, SMALLEST_WIDTH, Smoothing
from .solver import Iterate, Needs, state

# --------------------------------------------------------------------------------------------------
# The hinge with a convex penalty, solved exactly for few pairs.


MOST_PAIRS = 2000  #: pairs of a linear program; 1,400 pairs of 50 features take half a second
MOST_ENTRIES = 10**6  #: pairs times features of a linear program
MOST_PRODUCTS = 5 * 10**7  #: multiplications of a Hessian of the barrier method, which makes 200
ZEROING = 1e-9  #: relative increase of the objective that is accepted for weights of 0


class Optimum(NamedTuple):
    """The weights of a small problem, and what its multipliers prove.

    Attributes
    ----------
    w : float64 array of shape (n_features,)
    gradient : float64 array of shape (n_features,)
        −Σ_p α_p x̃_p, a subgradient of C·L for the multipliers α of the pairs.
    bound, size : float
        A lower bound on the optimum of the problem, and the sum of the absolute values of its
        terms.
    """

    w: Vector
    gradient: Vector
    bound: float
    size: float


def is_small_program(problem: Problem) -> bool:
    """Return whether the problem has few pairs and a lower bound, and `solve_program` solves it."""
    engine, penalty = problem.engine, problem.penalty
    entries = engine.n_pairs * engine.n_features
    return (
        isinstance(engine, ThreadEngine)
        and engine.loss.single
        and not engine.loss.smooth
        and bool(penalty.weights.all())
        and engine.n_pairs <= MOST_PAIRS
        and entries <= MOST_ENTRIES
        and (
            _is_linear(problem)
            or (penalty.limits is None and entries * engine.n_features <= MOST_PRODUCTS)
        )
    )


def _is_linear(problem: Problem) -> bool:
    """Return whether the penalty has an l1 part only."""
    return problem.penalty.norm_part() is None and not problem.penalty.parts()[1].any()


def solve_program(problem: Problem) -> Optimum | None:
    """Solve a problem of `is_small_program`; None if that fails.

    If the penalty has an l1 part only, the problem is a linear program and is solved by the simplex
    method. Otherwise it is solved by `minimise_hinges`. The multipliers α of the pairs, moved into
    0 ≤ α ≤ U, are a point of the dual problem. The bound is therefore right even if the problem is
    solved badly.
    """
    engine, penalty = problem.engine, problem.penalty
    assert isinstance(engine, ThreadEngine)
    pairs = dual_pairs(engine, problem.C)
    rows = _differences(engine, pairs)
    solve = _by_simplex if _is_linear(problem) else _by_barrier
    found = solve(problem, pairs, rows)
    if found is None:
        return None
    w, alpha = found[0], np.clip(found[1], 0.0, pairs.limit)
    gradient = -(rows.T @ alpha)
    bound = penalty.best_dual(float(alpha @ pairs.margin), 0.0, gradient, 1.0)
    size = float(alpha @ np.abs(pairs.margin)) + abs(bound)
    return Optimum(problem.clip(w), gradient, bound, size)


def _by_simplex(
    problem: Problem, pairs: DualPairs, rows: sparse.csr_array
) -> tuple[Vector, Vector] | None:
    """Return the weights and multipliers of a linear program.

    With w = u − v and a slack ξ_p for each pair, the program is

        min β'(u + v) + Σ_p U_p ξ_p    subject to    x̃_p'(u − v) + ξ_p ≥ m_p,

    where m_p is the margin and U_p is C times the weight of the pair.
    """
    from scipy.optimize import linprog  # takes long to import

    penalty, (n, d) = problem.penalty, rows.shape
    l1, free = penalty.parts()[0], np.full(d, np.inf)
    low, high = penalty.limits or (-free, free)
    found = linprog(
        np.concatenate([l1, l1, pairs.limit]),
        A_ub=sparse.hstack([-rows, rows, -sparse.eye_array(n)], format="csc"),
        b_ub=-pairs.margin,
        bounds=np.column_stack(
            [
                np.maximum(0.0, np.concatenate([low, -high, np.zeros(n)])),
                np.maximum(0.0, np.concatenate([high, -low, np.full(n, np.inf)])),
            ]
        ),
        method="highs",
    )
    if found.x is None or not np.isfinite(found.x).all():
        return None
    return found.x[:d] - found.x[d : 2 * d], -found.ineqlin.marginals


def _by_barrier(
    problem: Problem, pairs: DualPairs, rows: sparse.csr_array
) -> tuple[Vector, Vector] | None:
    """Return the weights and multipliers of the barrier method; weights near 0 become 0."""
    used = pairs.limit > 0
    hinges = ListedHingePairs(rows.toarray()[used], pairs.margin[used], pairs.limit[used])
    found = minimise_hinges(hinges, problem.penalty)
    alpha = np.zeros(len(used))
    alpha[used] = found.alpha
    value, sparser = (problem.value_grad(w)[0] for w in (found.w, found.sparse))
    return (found.sparse if sparser <= (1.0 + ZEROING) * value else found.w), alpha


def _differences(engine: ThreadEngine, pairs: DualPairs) -> sparse.csr_array:
    """Return the difference x̃_p of the two rows of each pair, as a sparse matrix."""
    X = engine.data.X
    X = sparse.csr_array(X if sparse.issparse(X) or isinstance(X, np.ndarray) else X.toarray())
    X = X.astype(np.float64)  # before the subtraction, which would round in single precision
    return X[pairs.upper] - X[pairs.lower]


# --------------------------------------------------------------------------------------------------
# The hinge with a convex penalty by a barrier method, for few pairs.


REDUCTION = 0.2  #: factor of μ after each minimisation
STAGES = 60  #: most values of μ
BARRIER_STEPS = 30  #: most Newton steps for one μ
CENTRED = 0.1  #: squared Newton decrement, in units of μ, below which Newton steps are exact
EXACT = 1e-18  #: squared Newton decrement, in units of μ, at which α is exact to about 1e-9
ENOUGH = 1e-10  #: relative duality gap at which the method ends
HALVINGS = 40  #: most halvings of a Newton step
SHRUNK = 100.0  #: norms up to this multiple of their smoothing are taken to be 0


class ListedHingePairs(NamedTuple):
    """Pairs with differences x̃_p (rows), margins m_p and upper limits U_p = C·weight."""

    rows: Vector
    margin: Vector
    limit: Vector


class ProgramOptimum(NamedTuple):
    """Weights, multipliers of the pairs, and the weights with the smallest groups set to 0."""

    w: Vector
    alpha: Vector
    sparse: Vector


def minimise_hinges(pairs: ListedHingePairs, penalty: Penalty) -> ProgramOptimum:
    """Minimise Ω(w) + Σ_p U_p·max(0, m_p − x̃_p'w) by Newton's method with a shrinking barrier.

    A hinge is the least U·ξ with ξ ≥ 0 and ξ ≥ m − t, and a norm c·‖w‖ is the least c·q with
    q ≥ ‖w‖. With a barrier −μ·log for each of these constraints, the best ξ and q are known in
    closed form. What remains is a smooth self-concordant function of w alone (Boyd & Vandenberghe
    2004, §11), whose Hessian is never 0. Its slopes α_p are strictly between 0 and U_p, so that
    they are a point of the dual problem.
    """
    norms = _norms(penalty, pairs.rows.shape[1])
    l2, w = penalty.parts()[1], np.zeros(pairs.rows.shape[1])
    start = float(pairs.limit @ np.maximum(pairs.margin, 0.0))
    mu = start / max(1, len(pairs.limit))
    best, gap = ProgramOptimum(w, np.zeros_like(pairs.limit), w), np.inf
    for _ in range(STAGES):
        w = _centre(pairs, norms, l2, w, mu)
        alpha = _hinge(pairs, w, mu)[0]
        hinges = float(pairs.limit @ np.maximum(0.0, pairs.margin - pairs.rows @ w))
        bound = penalty.best_dual(float(alpha @ pairs.margin), 0.0, -(alpha @ pairs.rows), 1.0)
        value = penalty.value(w) + hinges
        if not value - bound < gap:
            break
        gap, best = value - bound, ProgramOptimum(w, alpha, _without_small(norms, w, mu))
        if gap <= ENOUGH * value:
            break
        mu *= REDUCTION
    return best


def _norms(penalty: Penalty, d: int) -> list[tuple[Vector, Integers]]:
    """Return the norms of the penalty as costs and groups of the features: |w_j| and ‖w_G‖."""
    parts = [(penalty.parts()[0], np.arange(d)), penalty.norm_part()]
    return [part for part in parts if part is not None and part[0].any()]


def _centre(
    pairs: ListedHingePairs, norms: list[tuple[Vector, Integers]], l2: Vector, w: Vector, mu: float
) -> Vector:
    """Minimise the function with the barrier μ, starting at w."""
    before = np.inf
    for _ in range(BARRIER_STEPS):
        gradient, hessian = _derivatives(pairs, norms, l2, w, mu)
        scale = 1.0 / np.sqrt(np.maximum(hessian.diagonal(), np.finfo(float).tiny))
        try:
            factor = cho_factor(hessian * scale * scale[:, None])
        except LinAlgError:
            return w
        step = -scale * cho_solve(factor, scale * gradient)
        slope = float(gradient @ step)
        rounds = -slope <= CENTRED * mu and -slope > 0.25 * before
        if not -slope > EXACT * mu or rounds:
            return w
        before = -slope
        length = 1.0
        for _ in range(HALVINGS):  # on a line, the slope of a convex function rises
            trial = w + length * step
            if float(_gradient(pairs, norms, l2, trial, mu) @ step) <= 0.5 * abs(slope):
                break
            length *= 0.5
        w = trial
    return w


def _hinge(pairs: ListedHingePairs, w: Vector, mu: float) -> tuple[Vector, Vector]:
    """Return the multipliers α_p, which are minus the slopes of the hinges, and the curvatures."""
    s, k = pairs.rows @ w - pairs.margin, mu / pairs.limit
    root = np.hypot(s, 2.0 * k)
    larger = 0.5 * (root + np.abs(s))
    smaller = k * (k / larger)
    positive = np.where(s > 0, larger, smaller)  # (s + root)/2
    denominator = k + positive
    return mu / denominator, mu * (positive / root) / denominator**2


def _gradient(
    pairs: ListedHingePairs, norms: list[tuple[Vector, Integers]], l2: Vector, w: Vector, mu: float
) -> Vector:
    gradient = l2 * w - _hinge(pairs, w, mu)[0] @ pairs.rows
    for cost, groups in norms:
        q, _ = _reach(cost, groups, w, mu)
        gradient += cost * w / q
    return gradient


def _derivatives(
    pairs: ListedHingePairs, norms: list[tuple[Vector, Integers]], l2: Vector, w: Vector, mu: float
) -> tuple[Vector, Vector]:
    """Return the gradient and the Hessian of the function with the barrier μ."""
    alpha, curvature = _hinge(pairs, w, mu)
    gradient = l2 * w - alpha @ pairs.rows
    hessian = (pairs.rows.T * curvature) @ pairs.rows + np.diag(l2)
    for cost, groups in norms:
        q, root = _reach(cost, groups, w, mu)
        gradient += cost * w / q
        part = w / q
        shared = groups[:, None] == groups
        hessian += np.diag(cost / q) - shared * np.outer(part * cost / root, part)
    return gradient, hessian


def _reach(cost: Vector, groups: Integers, w: Vector, mu: float) -> tuple[Vector, Vector]:
    """Return the best q = k + √(k² + ‖w_G‖²) with k = μ/c, and the root; 1 where c is 0."""
    k = np.divide(mu, cost, out=np.ones_like(cost), where=cost > 0)
    root = np.hypot(k, np.sqrt(np.bincount(groups, w * w)[groups]))
    return k + root, root


def _without_small(norms: list[tuple[Vector, Integers]], w: Vector, mu: float) -> Vector:
    """Return w with 0 in groups whose norm is of the size of its smoothing μ/c."""
    kept = np.ones(len(w), bool)
    for cost, groups in norms:
        size = np.sqrt(np.bincount(groups, w * w)[groups])
        kept &= (cost == 0) | (cost * size > SHRUNK * mu)
    return np.where(kept, w, 0.0)


# --------------------------------------------------------------------------------------------------
# Smoothing with a penalty that selects features: losses with corners and convex penalties.


FIRST_TOL = 0.1  #: relative gap to which the first smoothed problem is solved
TOL_REDUCTION = 0.2  #: factor of that gap if the optimisation is the larger part of the gap
SMALLEST_TOL = 1e-12  #: relative gap below which rounding dominates
NEWTON_STEPS = 100  #: most proximal Newton steps of a smoothed problem
FISTA_STEPS = 10_000  #: most proximal gradient steps of a fit


@dataclass
class ProximalSmoothing(Smoothing):
    """Proximal Newton for a loss whose corners are smoothed over a shrinking width μ.

    The smoothed losses are those of `Smoothing`. Each smoothed problem Ω(w) + C·L_μ(w) is solved
    by `ProximalNewton`, starting from the solution for the larger μ. With g = C·∇L_μ(w) and the
    part c of the gap that is due to the smoothing (`Smoothing`), the dual value

        s·(C·L(w) − w'g − c) − Ω*(−s·g)    for any    0 ≤ s ≤ 1

    is a lower bound on the optimum, because the multipliers of the pairs stay feasible if they
    are multiplied by s. The largest value over s is used.

    If smoothing makes no more progress, a problem of at most 2,000 pairs is solved as a linear
    program (`scipy.optimize.linprog`) or, with other penalties than l1, by a barrier method. The
    multipliers give a bound of their own.

    The solver stops when the gap to the best bound is at most `tol` of the objective. If a feature
    has no cost, there is no bound. The solver then stops when a smoothed problem that is solved to
    `tol` has an objective within `tol` of the objective itself.

    Parameters
    ----------
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> from linrank.penalties import L1
    >>> data = make_ranking(random_state=0)
    >>> problem = make_problem(data, C=1e-3, loss="hinge", penalty=L1())
    >>> result = ProximalSmoothing(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    name: ClassVar[str] = "proximal-smoothing"
    needs: ClassVar[Needs] = Needs(loss="cornered", penalties=("convex", "group"), bounds=True)
    _gradient_steps: int = state()  #: proximal gradient steps that are left

    def _minimise(self) -> Status:
        mu, w = FIRST_WIDTH, self.point.w
        self._width = mu
        smoothed = self.problem.with_engine(
            self.problem.engine.with_loss(self._loss().smoothed(mu))
        )
        inner = ProximalNewton(FIRST_TOL, NEWTON_STEPS)
        self._gradient_steps = 0 if is_small_program(self.problem) else FISTA_STEPS
        for _ in range(self.max_iter):
            result = self._solve(inner, smoothed, w)
            w = result.coef
            corner, rest = self._certify_penalised(smoothed, w)
            self._record()
            if self.bound == -np.inf:
                rest = inner.tol * self.point.value
            exact = max(corner, rest) <= self.tol * self.point.value
            if self._is_done() or (self.bound == -np.inf and exact and result.converged):
                return Status.CONVERGED
            if not result.converged or mu < SMALLEST_WIDTH:
                return self._finish()
            if rest <= corner:
                mu *= SHRINKAGE
                self._width = mu
                smoothed.engine.change_loss(self._loss().smoothed(mu))
            elif inner.tol > SMALLEST_TOL:
                inner.tol = max(TOL_REDUCTION * inner.tol, SMALLEST_TOL)
            else:  # The next smoothed problem would be the same one.
                return self._finish()
        return Status.MAX_ITER

    def _finish(self) -> Status:
        """Solve a problem of few pairs exactly, where smoothing makes no more progress."""
        found = solve_program(self.problem) if is_small_program(self.problem) else None
        if found is not None:
            value = self.problem.value_grad(found.w)[0]
            self._raise_bound(found.bound, found.size)
            if value <= self.point.value:
                distance = self.problem.penalty.distance(found.w, found.gradient)
                self.point = Iterate(found.w, value, distance)
            self._record()
        return Status.CONVERGED if self._is_done() else self._status_at_rest()

    def _solve(self, inner: ProximalNewton, smoothed: Problem, w: Vector) -> Result:
        """Solve a smoothed problem by proximal Newton or, where that is stuck, by FISTA.

        If μ is small, all pairs may lie outside of the smoothed corners. The Hessian is then 0 and
        says nothing about a step, but proximal gradients still descend.
        """
        result = inner.solve(smoothed, w)
        if not (result.converged or result.status is Status.INTERRUPTED) and self._gradient_steps:
            gradients = FISTA(tol=inner.tol, max_iter=self._gradient_steps)
            result = gradients.solve(smoothed, result.coef)
            self._gradient_steps -= result.n_iter
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f*; without a lower bound, the stopping rule has found it to be small."""
        return 0.0 if self.bound == -np.inf else super()._excess(goal)

    def _is_done(self) -> bool:
        """Return whether the gap is small; w = 0 is only accepted if it is the optimum."""
        gap = self._gap()
        if gap is None or gap > self.tol:
            return False
        return bool(self.point.w.any()) or self.problem.smallest_C() >= self.problem.C

    def _certify_penalised(self, smoothed: Problem, w: Vector) -> tuple[float, float]:
        """Keep the best objective and dual value; return the two parts of the gap."""
        penalty = self.problem.penalty
        smoothed_value, gradient = smoothed.value_grad(w)
        value, corner = self._value_and_corner(smoothed, w, smoothed_value)
        rest = 0.0
        if penalty.weights.all():
            linear = value - penalty.value(w) - float(w @ gradient) - corner
            dual = penalty.best_dual(linear, 0.0, gradient, 1.0)
            self._raise_bound(dual, value + float(np.abs(w) @ np.abs(gradient)) + corner)
            rest = value - corner - dual
        if value <= self.point.value or not self.point.w.any():
            self.point = Iterate(w, value, penalty.distance(w, gradient))
        return corner, rest
