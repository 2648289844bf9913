"""Cutting planes: the loss is approximated from below by its tangents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import norm

from .._checks import boolean
from .._typing import Vector
from .base import GAP_ROUNDING, LARGEST_SLOPE, ROUNDING, Iterate, Solver, state
from .needs import Needs
from .result import Status
from .simplex_qp import maximise_on_simplex

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

        The tangent is lowered by its rounding error, so that it stays below the loss.
        """
        slope = at.gradient - at.w
        loss = at.value - 0.5 * float(at.w @ at.w)
        size = abs(at.value) + float(np.abs(slope) @ np.abs(at.w))
        matters = self._model.add(slope, loss - float(slope @ at.w) - ROUNDING * size)
        self._raise_bound(self._model.value, self._model.size)
        return matters

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
    n_planes : int
    """

    def __init__(self, n_features: int) -> None:
        self.n_planes = 0
        self._A = np.empty((16, n_features))
        self._gram = np.empty((16, 16))  # AA'
        self._b, self._weight = np.empty((2, 16))
        self._idle = np.empty(16, np.int64)  # iterations since λ_m was last above 0

    def add(self, slope: Vector, offset: float) -> bool:
        """Add the plane slope'w + offset; return whether it moves the minimiser."""
        n = self.n_planes
        if n == len(self._b):
            self._grow()
        self._A[n] = slope
        self._gram[n, : n + 1] = self._gram[: n + 1, n] = self._A[: n + 1] @ slope
        self._b[n] = offset
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

    def _forget(self) -> None:
        n = self.n_planes
        self._idle[:n] = np.where(self._weight[:n] > 0, 0, self._idle[:n] + 1)
        kept = np.flatnonzero(self._idle[:n] <= IDLE_LIMIT)
        if len(kept) == n:
            return
        self.n_planes = n = len(kept)
        self._gram[:n, :n] = self._gram[np.ix_(kept, kept)]
        for array in (self._A, self._b, self._weight, self._idle):
            array[:n] = array[kept]

    def _grow(self) -> None:
        n = self.n_planes
        self._gram = np.pad(self._gram, (0, n))
        self._A = np.pad(self._A, ((0, n), (0, 0)))
        self._b, self._weight = np.pad(self._b, (0, n)), np.pad(self._weight, (0, n))
        self._idle = np.pad(self._idle, (0, n))
