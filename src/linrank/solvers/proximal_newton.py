"""Proximal Newton with working sets: the default for sparse rankers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from ..penalties import ElasticNet
from .base import Iterate, Vector
from .result import Status
from .sparse import SparseSolver

ARMIJO = 1e-4  #: part of the predicted decrease that a step must reach
FIRST_SET = 10  #: features that the first working set may hold beyond those in use
SWEEPS = 1000  #: most sweeps of coordinate descent per step
LIFT = 1e-10  #: of the mean diagonal is added to the Hessian, where features repeat each other


@dataclass
class ProximalNewton(SparseSolver):
    """Newton's method with the penalty kept exact (Lee, Sun & Saunders 2014), l1 or elastic net.

    Each iteration minimises, over the features of a working set,

        ∇f'δ + ½ δ'Hδ + Ω(w + δ)

    by coordinate descent, H the Hessian of f there, and moves along δ by a line search. The
    working set are the features in use and those that violate optimality most; it may double
    from one iteration to the next, so H stays small when few features matter.
    """

    def _minimise(self) -> Status:
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            features = self._working_set()
            step = self._newton_step(features)
            if not self._line_search(features, step):
                return Status.PRECISION if self._gradient_is_small() else Status.STUCK
            self._record()
        return Status.CONVERGED if self._is_done() else Status.MAX_ITER

    def _working_set(self) -> NDArray[np.int64]:
        """The features in use, and the worst violators: at most as many again."""
        w = self.point.w
        away = self.problem.penalty.distance(w, self.point.gradient)
        in_use = np.flatnonzero(w)
        others = np.flatnonzero((w == 0) & (away > 0))
        room = max(FIRST_SET, len(in_use))
        if len(others) > room:
            others = others[np.argpartition(-away[others], room)[:room]]
        return np.sort(np.concatenate([in_use, others]))

    def _newton_step(self, features: NDArray[np.int64]) -> Vector:
        penalty = self.problem.penalty
        H = self.problem.hessian(None, features)
        H.flat[:: len(features) + 1] += LIFT * max(np.trace(H) / max(1, len(features)), 1e-300)
        ridge = 1.0 - penalty.ratio if isinstance(penalty, ElasticNet) else 0.0
        beta = penalty.weights[features]
        accuracy = 0.1 * self._relative_norm() * self.slope_at_zero
        w = self.point.w[features]
        moved = w.copy()
        descend(
            H, self.point.gradient[features], w, (1.0 - ridge) * beta, ridge * beta,
            0.01 * accuracy / np.sqrt(len(features)), SWEEPS, moved,
        )  # fmt: skip
        return moved - w

    def _line_search(self, features: NDArray[np.int64], step: Vector) -> bool:
        here, penalty = self.point, self.problem.penalty
        target = here.w.copy()
        target[features] += step
        slope = (
            float(here.gradient[features] @ step) + penalty.value(target) - penalty.value(here.w)
        )
        part = 1.0
        for _ in range(30):
            w = target if part == 1.0 else here.w.copy()
            if part < 1.0:
                w[features] += part * step
            trial = Iterate(w, *self.problem.value_grad(w))
            if trial.value <= here.value + ARMIJO * part * slope and slope < 0:
                self.point = trial
                return True
            part *= 0.5
        self.problem.value_grad(here.w)
        return False


@njit
def descend(H, gradient, w, l1, l2, accuracy, sweeps, moved):  # type: ignore[no-untyped-def]
    """Coordinate descent on g'(v − w) + ½(v − w)'H(v − w) + Σ l1|v| + ½ l2 v², from v = w.

    Sweeps go over all coordinates, then over those in use until these are at rest, and so on;
    it ends when a full sweep finds no subgradient larger than `accuracy`.
    """
    n = len(w)
    slope = gradient.copy()  # of the quadratic part at v
    in_use_only = False
    for _ in range(sweeps):
        worst = 0.0
        for j in range(n):
            if in_use_only and moved[j] == 0.0:
                continue
            bend = H[j, j] + l2[j]
            old = moved[j]
            pull = slope[j] - H[j, j] * old
            new = 0.0
            if pull > l1[j]:
                new = (l1[j] - pull) / bend
            elif pull < -l1[j]:
                new = (-l1[j] - pull) / bend
            if new != old:
                change = new - old
                moved[j] = new
                for k in range(n):
                    slope[k] += change * H[j, k]
                worst = max(worst, abs(change) * bend)
        if worst <= accuracy:
            if not in_use_only:
                break
            in_use_only = False
        else:
            in_use_only = True
