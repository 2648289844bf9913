"""FISTA: accelerated proximal gradient steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
from scipy.linalg import norm

from .._util.checks import boolean, choice
from .._util.types import Vector
from ..errors import DataError
from ..losses.loss import Loss
from ..losses.pairwise import PairwiseLoss
from .result import Status
from .solver import ROUNDING, Iterate, Needs, SparseSolver, state

if TYPE_CHECKING:
    from ..engines.engine import Engine

StepName = Literal["backtracking", "power", "paper"]

CHECK_INTERVAL = 10  #: steps of constant length between two evaluations of the objective
L_REDUCTION = (
    0.7  #: factor of L after a backtracking step without momentum; smaller values lengthen steps
)
SAFETY = 1.1  #: factor of L above an estimated curvature, and for concave penalties
POWER_TOL = 1e-3  #: relative change at which power iteration stops
POWER_STEPS = 100  #: largest number of steps of power iteration
BLOCK = 128  #: features whose part of the trace is computed at a time
SMALLEST_L = 1e-150  #: L if no feature distinguishes any pair


@dataclass
class FISTA(SparseSolver):
    """Accelerated proximal gradient method (Laporte et al. 2014, algorithm 1).

    With f = C·Σ_p ℓ(w'x̃_p), the objective is that of the paper, J₁ + λΩ, times C = 1/λ. The
    steps are

        w_k = prox_{Ω/L}(z_k − ∇f(z_k)/L),
        t_{k+1} = (1 + √(1 + 4t_k²))/2,    z_{k+1} = w_k + (t_k − 1)/t_{k+1}·(w_k − w_{k−1}).

    If z moves uphill, the momentum restarts (O'Donoghue & Candès 2015, gradient scheme).

    The theory of acceleration excludes concave penalties, which get plain proximal steps,
    z_{k+1} = w_k. Each step lowers the objective, and the steps end at a critical point. A first
    step is taken even from a critical point, because w = 0 is critical if g'(0) is infinite.

    A step needs the gradient at z, and a check needs the objective at w. Backtracking checks each
    step, and the other rules every tenth step. Without momentum, one evaluation serves both.

    Parameters
    ----------
    step : {"backtracking", "power", "paper"}
        The choice of L, the inverse of the step length:

        - ``backtracking``: L grows until f(w) ≤ f(z) + ∇f(z)'(w − z) + ½L‖w − z‖² at each step. It
          may fall after steps without momentum.
        - ``power``: the largest eigenvalue, by power iteration, of a matrix that is above all
          Hessians of f (`dominating_engine`).
        - ``paper``: the trace of that matrix (proposition 1). For the squared hinge it is
          2C·Σ_p‖x̃_p‖².
    restart : bool
        Whether the momentum may restart.
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), C=1e-4, penalty=L1())
    >>> result = FISTA(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    step: StepName = "backtracking"
    restart: bool = True
    name: ClassVar[str] = "fista"
    needs: ClassVar[Needs] = Needs(
        loss="smooth", penalties=("convex", "concave", "group"), bounds=True
    )
    _L: float = state()
    _last: Iterate = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("step", self.step, get_args(StepName))
        boolean("restart", self.restart)

    def _minimise(self) -> Status:
        convex = self.problem.penalty.convex
        if convex and self._is_done():
            return Status.CONVERGED
        self._last, self._L = self.point, self._first_L()
        ahead, before, t = self.point.w, self.point.w, 1.0
        for k in range(1, self.max_iter + 1):
            check = self.step == "backtracking" or k % CHECK_INTERVAL == 0 or k == self.max_iter
            z = self._evaluate(ahead)
            w = self._proximal_step(z, check)
            stationary = np.array_equal(w, z.w)
            if not convex or stationary or (self.restart and float((z.w - w) @ (w - before)) > 0):
                t = 1.0
            ahead, t = self._run_ahead(w, before, t)
            if check or ahead is w:
                self._keep(self._evaluate(w))
            before = w
            self._record()
            if self._is_done():
                return Status.CONVERGED if convex else Status.CRITICAL
            if stationary:
                return Status.PRECISION if self._gradient_is_small() else Status.STUCK
        return Status.MAX_ITER

    def _evaluate(self, w: Vector) -> Iterate:
        """Return the objective and gradient at w; the last evaluation is not repeated."""
        if w is not self._last.w:
            self._last = Iterate(w, *self.problem.value_grad(w))
        return self._last

    def _proximal_step(self, z: Iterate, check: bool) -> Vector:
        """Return the proximal step from z; if `check`, L grows until it exceeds the curvature."""
        penalty = self.problem.penalty
        margin = 1.0 if penalty.convex else SAFETY
        while True:
            w = penalty.prox(z.w - z.gradient / self._L, 1.0 / self._L)
            if not check or (needed := margin * self._curvature(z, self._evaluate(w))) <= self._L:
                return w
            self._L = max(2.0 * self._L, needed)

    def _curvature(self, z: Iterate, new: Iterate) -> float:
        """Return ``2(f(w) − f(z) − ∇f(z)'δ)/‖δ‖²`` with δ = w − z, which L must reach.

        If rounding hides the change of f, the gradients at both ends give the curvature.
        """
        penalty, delta = self.problem.penalty, new.w - z.w
        size = float(delta @ delta)
        if size == 0:
            return 0.0
        if self._L * size <= ROUNDING**0.75 * abs(z.value):
            return float((new.gradient - z.gradient) @ delta) / size
        change = new.value - penalty.value(new.w) - z.value + penalty.value(z.w)
        return 2.0 * (change - float(z.gradient @ delta)) / size

    def _run_ahead(self, w: Vector, before: Vector, t: float) -> tuple[Vector, float]:
        """Return the next z and t; z is w itself when the momentum starts."""
        following = 0.5 + np.sqrt(0.25 + t * t)
        if t > 1.0:
            return w + (t - 1.0) / following * (w - before), following
        if self.step == "backtracking":
            self._L *= L_REDUCTION
        return w, following

    def _keep(self, new: Iterate) -> None:
        """Accept a lower objective, or a smaller distance if rounding hides the change."""
        change, best = new.value - self.point.value, self.point
        distance = self._relative_norm()
        self.point = new
        flat = abs(change) <= ROUNDING * abs(best.value) and self._relative_norm() < distance
        if change >= 0 and not flat:
            self.point = best

    def _first_L(self) -> float:
        engine = self.problem.engine  # It was last evaluated at the current point.
        if engine.loss.pairwise:
            engine = dominating_engine(engine)
        elif self.step != "backtracking":
            raise DataError(
                f"step={self.step!r} needs a pairwise loss, but loss={engine.loss.name!r} is "
                "listwise. Use step='backtracking'."
            )
        if self.step == "paper":
            L = trace_of_hessian(engine)
        elif self.step == "power" or not self.point.gradient.any():
            start = np.random.default_rng(0).standard_normal(engine.n_features)
            L = SAFETY * self._power_iteration(engine, start, POWER_STEPS)
        else:
            L = self._power_iteration(engine, self.point.gradient, 1)
        return max(self.problem.C * L, SMALLEST_L)

    def _power_iteration(self, engine: Engine, v: Vector, n_steps: int) -> float:
        """Return the largest eigenvalue of the Hessian, approximated from below."""
        value = 0.0
        for _ in range(n_steps):
            v = v / norm(v)
            product = engine.hessp(v)
            value, last = float(v @ product), value
            if value - last <= POWER_TOL * value:
                break
            v = product
        return value


def dominating_engine(engine: Engine) -> Engine:
    """Return an engine whose Hessian is, as a quadratic form, above all Hessians of the loss.

    The Hessian is Σ_p weight·ℓ''(t_p)·x̃_p x̃_p'. It only grows if every ℓ''(t_p) is replaced by
    the largest value 2c of ℓ''. The result is the Hessian of c·max(0, 1 − t)² at w = 0, where all
    pairs are active. For the squared hinge it is the Hessian of the loss itself at w = 0.
    """
    other = engine.with_loss(
        PairwiseLoss("bound", [(1.0, 0.0, 0.5 * largest_curvature(engine.loss))])
    )
    other.value_grad(np.zeros(engine.n_features))
    return other


def trace_of_hessian(engine: Engine) -> float:
    """Return Σ_p weight·ℓ''(t_p)·‖x̃_p‖², computed for `BLOCK` features at a time."""
    starts = range(0, engine.n_features, BLOCK)
    blocks = [np.arange(a, min(a + BLOCK, engine.n_features)) for a in starts]
    return sum(float(np.trace(engine.hessian(None, block))) for block in blocks)


def largest_curvature(loss: Loss) -> float:
    """Return the largest ℓ''(t), which is Σ 2c_m over the hinges with τ_m > t.

    Examples
    --------
    >>> from linrank.losses import get_loss
    >>> largest_curvature(get_loss("huber")), largest_curvature(get_loss("logistic_exact"))
    (2.0, 0.25)
    """
    if loss.exact:
        return 0.25
    from_right = loss.table[np.argsort(-loss.table[:, 0], kind="stable")]
    return float(2.0 * np.cumsum(from_right[:, 2]).max())
