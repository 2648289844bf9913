"""Dual coordinate descent: one multiplier per preference pair, for small data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from .._compile.jit import njit
from .._util.types import Integers, Vector
from ..counting.explicit import ExplicitPlan
from ..engines.threads import ThreadEngine
from ..errors import DataError
from .result import Status
from .sgd import add_rows, check_seed, feature_at, make_row_sums
from .solver import GAP_ROUNDING, Iterate, Needs, Solver, state

MOST_PAIRS = 10**7  #: pairs that the solver accepts; each takes about 80 bytes


class DualPairs(NamedTuple):
    """The dual problem: rows of the pairs, margins m_p, upper limits U_p and the diagonal D_p."""

    upper: Integers
    lower: Integers
    margin: Vector
    limit: Vector
    diagonal: Vector


@dataclass
class Dual(Solver):
    """Dual coordinate descent over all pairs (Lee & Lin 2014, appendix A; Hsieh et al. 2008).

    The pairs are the examples x_p = x_i − x_j of a classification problem with one class. Its dual
    problem is

        min_α ½ α'(Q + D)α − m'α    subject to    0 ≤ α_p ≤ U_p,    Q_pr = x_p'x_r.

    m is the margin of each pair, which is 1 in the paper. For the hinge, U_p = C·weight and D = 0.
    For the squared hinge, U_p = ∞ and D_p = 1/(2C·weight). The weights are w = Σ α_p x_p. A pair
    has α_p > 0 only if it is active.

    An iteration visits each pair once, in random order, and minimises the dual problem in α_p:

        α_p ← min(max(α_p − (w'x_p − m_p + D_p α_p) / (x_p'x_p + D_p), 0), U_p).

    The negative dual value is a lower bound on the optimum. The solver stops when

        f(w) − bound ≤ ε·|f(w)|.

    All pairs are listed one by one. An iteration takes O(p n̄) time for p pairs of n̄ features,
    however few levels there are. The solver is therefore a check of the other solvers on small
    data, and refuses more than 10 million pairs. It starts from α = 0 for any start of w.

    Parameters
    ----------
    tol : float
        ε of this stopping rule: the relative duality gap.
    max_iter : int
        The largest number of iterations.
    callback : callable, optional
        Called after every iteration with a `Step`, which describes the best point so far.
    seed : int
        Seed of the order of the pairs. The same seed gives the same bits.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> problem = make_problem(make_ranking(random_state=0), C=0.001, loss="hinge")
    >>> result = Dual(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    seed: int = 0
    name: ClassVar[str] = "dual"
    needs: ClassVar[Needs] = Needs(loss="hinge", penalties=("l2",), rows=True)
    warm_starts: ClassVar[bool] = False
    alpha: Vector = state()  #: the multiplier of each pair, in the order of `list_pairs`
    _pairs: DualPairs = state()
    _rng: np.random.Generator = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)

    def _prepare(self) -> None:
        engine = self.problem.engine
        assert isinstance(engine, ThreadEngine)
        _check_size(engine.n_pairs)
        self._pairs = dual_pairs(engine, self.problem.C)
        self.alpha = np.zeros(engine.n_pairs)
        self._rng = np.random.default_rng(self.seed)

    def _minimise(self) -> Status:
        w = np.zeros(self.problem.n_features)
        for _ in range(self.max_iter):
            if self._gap_is_small():
                return Status.CONVERGED
            before = self.alpha.copy()
            self._visit(self._rng.permutation(len(self.alpha)), w)
            w = self._weights()  # the sum is computed anew, so that rounding does not add up
            trial = Iterate(w.copy(), *self.problem.value_grad(w))
            if trial.value <= self.point.value:
                self.point = trial
            self._raise_bound(*self._dual_value(w))
            self._record()
            if np.array_equal(before, self.alpha) and not self._gap_is_small():
                return Status.PRECISION if self._gap_is_within(GAP_ROUNDING) else Status.STUCK
        return Status.CONVERGED if self._gap_is_small() else Status.MAX_ITER

    def _visit(self, order: Integers, w: Vector) -> None:
        """Minimise the dual problem in one multiplier after the other; w follows."""
        engine = self.problem.engine
        assert isinstance(engine, ThreadEngine)
        visit_pairs(engine.matrix, self._pairs, order, self.alpha, w, make_row_sums(len(w)))

    def _weights(self) -> Vector:
        """Return w = X'A'α (Lee & Lin 2014, eq. 9, for the matrix A of the pairs)."""
        data, pairs = self.problem.engine.data, self._pairs
        up, down = (np.bincount(i, self.alpha, data.n_docs) for i in (pairs.upper, pairs.lower))
        return np.asarray(data.X.T @ (up - down), dtype=np.float64)

    def _dual_value(self, w: Vector) -> tuple[float, float]:
        """Return m'α − ½‖w‖² − ½α'Dα, which is at most the optimum, and the size of its terms."""
        alpha, pairs = self.alpha, self._pairs
        linear, square = (
            float(alpha @ pairs.margin),
            float(alpha @ (pairs.diagonal * alpha) + w @ w),
        )
        size = float(alpha @ np.abs(pairs.margin)) + 0.5 * square
        return linear - 0.5 * square, size


def _check_size(n_pairs: int) -> None:
    if n_pairs > MOST_PAIRS:
        raise DataError(
            f"there are {n_pairs:,} pairs, but solver='dual' has a multiplier for each pair and "
            f"takes at most {MOST_PAIRS:,}. Use solver='auto', which lists no pairs, or fewer "
            "queries."
        )


def dual_pairs(engine: ThreadEngine, C: float) -> DualPairs:
    """Return the dual problem of an engine, whose loss is one hinge."""
    plan = engine.list_pairs().plan
    assert isinstance(plan, ExplicitPlan)
    n_pairs, n_listed = len(plan.upper), np.diff(plan.query_nodes)
    start = np.repeat(plan.query_ptr[:-1], n_listed)
    ((tau, a, c),) = engine.loss.table.tolist()
    margin = np.full(n_pairs, tau) if not len(plan.shift) else tau + plan.shift
    cost = C * np.repeat(plan.query_weight, n_listed)
    cost *= plan.weight if len(plan.weight) else 1.0
    with np.errstate(divide="ignore"):  # A pair of weight 0 has the multiplier 0.
        limit = a * cost if a else np.where(cost > 0, np.inf, 0.0)
        diagonal = np.zeros(n_pairs) if a else np.where(cost > 0, 0.5 / (c * cost), 0.0)
    return DualPairs(start + plan.upper, start + plan.lower, margin, limit, diagonal)


@njit(allocates=True)
def visit_pairs(X, pairs, order, alpha, w, work):  # type: ignore[no-untyped-def]
    """Set the multiplier of each pair to the minimiser of the dual problem, and update w."""
    sign = np.array([1.0, -1.0])
    for p in order:
        i, j = pairs.upper[p], pairs.lower[p]
        n = add_rows(X, i, i + 1, sign[:1], work, 0)
        n = add_rows(X, j, j + 1, sign[1:], work, n)
        t, size = 0.0, 0.0
        for m in range(n):
            x = work.sums[feature_at(X, work.touched, m)]
            t += w[feature_at(X, work.touched, m)] * x
            size += x * x
        slope = t - pairs.margin[p] + pairs.diagonal[p] * alpha[p]
        curvature = size + pairs.diagonal[p]
        goal = alpha[p] - slope / curvature if curvature > 0.0 else (np.inf if slope < 0.0 else 0.0)
        new = min(max(goal, 0.0), pairs.limit[p])
        change = new - alpha[p]
        alpha[p] = new
        for m in range(n):
            f = feature_at(X, work.touched, m)
            w[f] += change * work.sums[f]
            work.sums[f] = 0.0
            work.listed[f] = False
