"""Cutting planes: the loss is approximated from below by its tangents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import norm
from scipy.linalg.lapack import dpotrs, dpstrf, dtrtrs

from .._util.checks import boolean
from .._util.types import Integers, Vector
from ..engines.threads import slope_error
from .result import Status
from .solver import GAP_ROUNDING, LARGEST_SLOPE, ROUNDING, Iterate, Needs, Solver, state

# --------------------------------------------------------------------------------------------------
# Maximisation of a concave quadratic on the simplex, for the dual of cutting planes.


TOL = 1e-14  #: relative violation of a constraint that rounding can cause
#: Relative squared distance to the span of other vectors up to which a vector depends on them.
RANK_TOLERANCE = 1e-13


def maximise_on_simplex(G: Vector, b: Vector, start: Vector) -> Vector:
    """Return the λ that maximises b'λ − ½λ'Gλ subject to λ ≥ 0 and Σλ = 1.

    An active-set method: some entries of λ are free, and the others are 0. From the best λ of
    this form, the method frees the entry with the largest violation of r_j ≤ λ'r, where
    r = b − Gλ. It then moves to the best λ with the free entries. Entries that reach 0 on the
    way are no longer free. The objective rises with every set of free entries. No set therefore
    occurs twice, and the method ends. If a set occurs again because of rounding, λ is optimal up
    to rounding.

    Parameters
    ----------
    G : float64 array of shape (n, n)
        Positive semidefinite, of any rank.
    b : float64 array of shape (n,)
    start : float64 array of shape (n,)
        A point of the simplex. A start near the solution needs fewer iterations.

    Examples
    --------
    >>> maximise_on_simplex(np.eye(3), np.array([1.0, 1.0, -1.0]), np.array([0.0, 0.0, 1.0]))
    array([0.5, 0.5, 0. ])
    """
    x = start.copy()
    free = np.flatnonzero(x > 0)
    lengths = np.sqrt(np.maximum(G.diagonal(), 0.0))  # G holds products of vectors.
    seen: set[bytes] = set()
    while True:
        free = _climb(G, b, x, free)
        slope = b - G[:, free] @ x[free]
        size = np.abs(b) + lengths * (lengths @ x)
        violation = slope - x @ slope
        violation[violation <= TOL * (size + x @ size)] = 0.0
        violation[free] = 0.0
        if not violation.any() or free.tobytes() in seen:
            _climb(G, b, x, free)  # reduce the rounding of the last step
            return x / x.sum()
        seen.add(free.tobytes())
        free = np.sort(np.append(free, np.argmax(violation)))


def _climb(G: Vector, b: Vector, x: Vector, free: Integers) -> Integers:
    """Move x to the best point with the free entries; return the entries that are still free."""
    while True:
        block = G[free[:, None], free]
        direction, length = _ascent(block, b[free] - block @ x[free])
        falling = np.flatnonzero(direction < 0)
        with np.errstate(over="ignore"):
            room = x[free[falling]] / -direction[falling]
        nearest = int(np.argmin(room)) if len(room) else -1
        blocked = nearest >= 0 and room[nearest] <= length
        x[free] = np.maximum(0.0, x[free] + (room[nearest] if blocked else length) * direction)
        if not blocked:
            return free
        x[free[falling[nearest]]] = 0.0
        free = np.delete(free, falling[nearest])


def _ascent(G: Vector, slope: Vector) -> tuple[Vector, float]:
    """Return an ascent direction p with Σp = 0, and its length; 1 is the Newton step.

    G holds the products of vectors, and e_0 belongs to the shortest of them. In the basis
    z_i = e_i − e_0, the curvature consists of products of differences of the vectors. Each
    difference is scaled by the lengths of its two vectors.
    """
    squares = G.diagonal()
    origin = int(np.argmin(squares))
    scale = 1.0 / np.sqrt(np.maximum(squares + squares[origin], np.finfo(float).tiny))
    curvature = (G - G[origin] - (G[origin] - squares[origin])[:, None]) * scale * scale[:, None]
    others = np.delete(np.arange(len(slope)), origin)
    reduced_slope = (slope - slope[origin]) * scale
    step, length = _newton_step(curvature[others[:, None], others], reduced_slope[others])
    direction = np.zeros(len(slope))
    direction[others] = step * scale[others]
    direction[origin] = -direction.sum()
    return direction, length


def _newton_step(curvature: Vector, reduced_slope: Vector) -> tuple[Vector, float]:
    """Return the s with curvature·s = reduced_slope and the length 1.

    If the matrix is singular, return an s with curvature·s = 0 and an infinite length, because the
    slope is constant along s.
    """
    step = np.zeros(len(reduced_slope))
    if not len(reduced_slope):
        return step, 1.0
    factor, order, rank, _ = dpstrf(curvature, tol=RANK_TOLERANCE, lower=1)
    order -= 1
    if rank == len(reduced_slope):
        step[order] = dpotrs(factor, reduced_slope[order], lower=1)[0]
        return step, 1.0
    step[order[rank]] = -1.0
    if rank:
        lower = factor[:rank, :rank]
        step[order[:rank]] = dtrtrs(lower, factor[rank, :rank], lower=1, trans=1)[0]
    return (step if reduced_slope @ step >= 0 else -step), np.inf


# --------------------------------------------------------------------------------------------------
# Cutting planes: the loss is approximated from below by its tangents.


IDLE_LIMIT = 50  #: iterations for which a plane with multiplier 0 is kept
LEAST_STEP = 0.01  #: smallest relative length of a damped step to the minimiser of the model


@dataclass
class CuttingPlanes(Solver):
    """Bundle method for regularised risk (Teo et al. 2010, §2; Lee & Lin 2014, §3.2).

    Each iteration adds the tangent of the convex loss at w_t, a_t'w + b_t ≤ C·L(w), and moves to

        w_{t+1} = argmin ½‖w‖² + max_m (a_m'w + b_m).                              (33)

    The minimum is a lower bound on the optimum. The tangents need subgradients only, so the loss
    need not be smooth. The solution is the best of the evaluated points. The solver stops when

        f(w) − bound ≤ ε·|f(w)|.

    It does not stop at w = 0, which ranks nothing, unless w = 0 is the optimum.

    Parameters
    ----------
    tol : float
        ε of this stopping rule: the relative duality gap.
    max_iter : int
        The largest number of planes.
    callback : callable, optional
        Called after every iteration with a `Step`, which describes the best point so far.
    damped : bool
        Move only a part of the way from the best point to the minimiser (33), as OCAS does
        (Franc & Sonnenburg 2008), but without a line search. The part is halved if the objective
        rises at the end of the step, and doubled if it falls. It stays between 0.01 and 1. Damping
        can need far fewer planes. Without it, a squared hinge with a large C does not converge.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01)
    >>> result = CuttingPlanes(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    damped: bool = True
    name: ClassVar[str] = "cutting-planes"
    needs: ClassVar[Needs] = Needs(loss="pairwise", penalties=("l2",))
    _model: PlaneModel = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        boolean("damped", self.damped)

    def _prepare(self) -> None:
        self._model = PlaneModel(self.problem.n_features)
        self._cut(self.point)

    def _minimise(self) -> Status:
        part = 1.0
        for _ in range(self.max_iter):
            if self._gap_is_small():
                return Status.CONVERGED
            way = self._model.w - self.point.w
            w = self.point.w + part * way if part < 1 else self._model.w
            trial = Iterate(w, *self.problem.value_grad(w))
            if not norm(trial.gradient, check_finite=False) < LARGEST_SLOPE:
                return Status.STUCK
            if self.damped:
                rises = float(trial.gradient @ way) > 0
                part = max(LEAST_STEP, 0.5 * part) if rises else min(1.0, 2.0 * part)
            falls = trial.value < self.point.value
            if trial.value <= self.point.value:
                self.point = trial
            matters = self._cut(trial)
            self._record()
            if self._is_disproved() or not (falls or matters or self._gap_is_small()):
                return Status.PRECISION if self._gap_is_within(GAP_ROUNDING) else Status.STUCK
        return Status.CONVERGED if self._gap_is_small() else Status.MAX_ITER

    def _cut(self, at: Iterate) -> bool:
        """Add the tangent of the loss at a point; return whether it moves the minimiser.

        The tangent is lowered by its rounding error, so that it stays below the loss at w. The
        error of the slopes at the optimum w* is at most κ·σ(w*), where σ(w) = max_i Σ_f |x_if·w_f|
        (`slope_error`). With δ = ‖w* − w_m‖ for the minimiser w_m of the model,

            f(w*) ≥ bound of the model + ½δ² − κ·(σ(w_m) + δ·max_i ‖x_i‖),

        which is least at δ = κ·max_i ‖x_i‖.
        """
        problem, slope, model = self.problem, at.gradient - at.w, self._model
        kappa = problem.C * slope_error(problem.engine, at.w)
        loss = at.value - 0.5 * float(at.w @ at.w)
        error = ROUNDING * (abs(at.value) + float(np.abs(slope) @ np.abs(at.w)))
        error += self._error_at(at.w, kappa)
        matters = model.add(slope, loss - float(slope @ at.w) - error, kappa)
        self._raise_bound(model.value - self._error_at(model.w, model.slope_error), model.size)
        return matters

    def _error_at(self, w: Vector, kappa: float) -> float:
        """Return κ·σ(w) + ½κ²·max_i ‖x_i‖², and 0 without reading rows if κ is 0."""
        engine = self.problem.engine
        return kappa * engine.score_size(w) + 0.5 * (kappa * engine.row_size) ** 2 if kappa else 0.0

    def _is_disproved(self) -> bool:
        """Return whether the lower bound is above the objective, because of rounding."""
        return self.bound > self.point.value and not self._gap_is_within(self.tol)


class PlaneModel:
    """The minimum of ½‖w‖² + max_m (a_m'w + b_m), updated as planes are added.

    By duality it is the maximum of

        b'λ − ½‖A'λ‖²    over    λ ≥ 0, Σλ = 1,        at    w = −A'λ,

    where A has the a_m as rows (Teo et al. 2010, §2). Removing a plane with λ_m = 0 does not change
    the maximum, and the increase by a new plane depends on λ alone. The method therefore still
    converges if planes are removed whose multiplier has been 0 for `IDLE_LIMIT` iterations.

    Attributes
    ----------
    w : float64 array of shape (n_features,)
        The minimiser.
    value, size : float
        The minimum, and the sum of the absolute values of its terms.
    slope_error : float
        The sum of the errors of the slopes, times λ.
    n_planes : int
    """

    def __init__(self, n_features: int) -> None:
        self.n_planes = 0
        self._A = np.empty((16, n_features))
        self._gram = np.empty((16, 16))  # AA'
        self._b, self._weight, self._error = np.empty((3, 16))
        self._idle = np.empty(16, np.int64)  # iterations since λ_m was last above 0

    def add(self, slope: Vector, offset: float, error: float = 0.0) -> bool:
        """Add the plane slope'w + offset; return whether it moves the minimiser.

        `error` is the error of the slope, in any unit.
        """
        n = self.n_planes
        if n == len(self._b):
            self._grow()
        self._A[n] = slope
        self._gram[n, : n + 1] = self._gram[: n + 1, n] = self._A[: n + 1] @ slope
        self._b[n], self._error[n] = offset, error
        self._weight[n] = 1.0 if n == 0 else 0.0
        self._idle[n] = 0
        self.n_planes = n + 1
        self._solve()
        matters = bool(self._weight[n] > 0)
        self._forget()
        return matters

    def _solve(self) -> None:
        n = self.n_planes
        weight = maximise_on_simplex(self._gram[:n, :n], self._b[:n], self._weight[:n])
        self._weight[:n] = weight
        self.w = -(weight @ self._A[:n])
        square = 0.5 * float(self.w @ self.w)
        self.value = float(weight @ self._b[:n]) - square
        self.size = float(weight @ np.abs(self._b[:n])) + square
        self.slope_error = float(weight @ self._error[:n])

    def _forget(self) -> None:
        n = self.n_planes
        self._idle[:n] = np.where(self._weight[:n] > 0, 0, self._idle[:n] + 1)
        kept = np.flatnonzero(self._idle[:n] <= IDLE_LIMIT)
        if len(kept) == n:
            return
        self.n_planes = n = len(kept)
        self._gram[:n, :n] = self._gram[np.ix_(kept, kept)]
        for array in (self._A, self._b, self._weight, self._error, self._idle):
            array[:n] = array[kept]

    def _grow(self) -> None:
        n = self.n_planes
        self._gram = np.pad(self._gram, (0, n))
        self._A = np.pad(self._A, ((0, n), (0, 0)))
        self._b, self._weight = np.pad(self._b, (0, n)), np.pad(self._weight, (0, n))
        self._error, self._idle = np.pad(self._error, (0, n)), np.pad(self._idle, (0, n))
