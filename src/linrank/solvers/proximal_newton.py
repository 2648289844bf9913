"""Proximal Newton with working sets: the default for sparse rankers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import norm

from .._jit import njit
from ..penalties import ElasticNet
from .base import Iterate, Vector
from .newton import invert
from .result import Status
from .sparse import SparseSolver

ARMIJO = 1e-4  #: part of the predicted decrease that a step must reach
FIRST_SET = 10  #: features that the first working set may hold beyond those in use
FORCING = 0.01  #: how much of the distance to a critical point a step may leave
SWEEPS = 20  #: of coordinate descent, before a linear system is solved
ROUNDS = 100  #: most of these together, per step
ROUNDING = 1e-13  #: relative changes of the objective below this are rounding
LIFT = 1e-10  #: of the mean diagonal is added to the Hessian, where features repeat each other
FLAT = 1e-6  #: part of g²/f that stands for the diagonal where no pair bends
MOST_LIFT = 1e6  #: when even this does not help, nothing does
HALVINGS = 8  #: of a step, before the Hessian is lifted


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
        lift = LIFT
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            features = self._working_set()
            while not self._line_search(features, self._newton_step(features, lift)):
                lift *= 100.0  # a flat model promises too much: make it steeper
                if lift > MOST_LIFT:
                    return Status.PRECISION if self._gradient_is_small() else Status.STUCK
            lift = max(LIFT, 0.1 * lift)
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

    def _newton_step(self, features: NDArray[np.int64], lift: float) -> Vector:
        penalty, w = self.problem.penalty, self.point.w[features]
        H = self.problem.hessian(None, features)
        ridge = 1.0 - penalty.ratio if isinstance(penalty, ElasticNet) else 0.0
        beta = penalty.weights[features]
        away = self._relative_norm() * self.slope_at_zero
        scale = max(np.trace(H) / len(features), FLAT * away**2 / self.point.value)
        H.flat[:: len(features) + 1] += lift * scale
        model = Model(
            H, self.point.gradient[features], w, (1.0 - ridge) * beta, ridge * beta,
            FORCING * away / np.sqrt(len(features)),
        )  # fmt: skip
        return minimise_model(model) - w

    def _line_search(self, features: NDArray[np.int64], step: Vector) -> bool:
        """Move along the step, 1, ½, ¼, … of it, to where the objective falls enough.

        Where its change drowns in rounding, coming nearer to a critical point will do.
        """
        here, penalty = self.point, self.problem.penalty
        target = here.w.copy()
        target[features] += step
        slope = float(here.gradient[features] @ step)
        slope += penalty.value(target) - penalty.value(here.w)
        away = norm(penalty.distance(here.w, here.gradient))
        part = 1.0
        for _ in range(HALVINGS):
            w = target if part == 1.0 else here.w + part * (target - here.w)
            trial = Iterate(w, *self.problem.value_grad(w))
            change = trial.value - here.value
            flat = abs(change) <= ROUNDING * abs(here.value)
            if (slope < 0 and change <= ARMIJO * part * slope) or (
                flat and norm(penalty.distance(w, trial.gradient)) < 0.9 * away
            ):
                self.point = trial
                return True
            part *= 0.5
        self.problem.value_grad(here.w)
        return False


class Model(NamedTuple):
    """``g'(v − w) + ½(v − w)'H(v − w) + Σ l1|v| + ½ l2 v²``, to be minimised in v.

    ``accuracy`` is how large a subgradient may be left.
    """

    H: Vector
    gradient: Vector
    w: Vector
    l1: Vector
    l2: Vector
    accuracy: float


def minimise_model(model: Model) -> Vector:
    """Coordinate descent, helped by Newton's method among the coordinates in use.

    Coordinate descent finds which coordinates are in use, but crawls where features are nearly
    the same; with the signs given, the rest is a linear system.
    """
    v = model.w.copy()
    for _ in range(ROUNDS):
        if descend(*model, SWEEPS, v):
            break
        _solve_with_signs(model, v)
    return v


def _solve_with_signs(model: Model, v: Vector) -> None:
    """Go to the minimum among the coordinates in use, leaving out those that reach 0."""
    H, gradient, w, l1, l2, _ = model
    while (used := np.flatnonzero(v)).size:
        signs = np.sign(v[used])
        A = H[np.ix_(used, used)] + np.diag(l2[used])
        goal = invert(A)(H[used] @ w - gradient[used] - l1[used] * signs)
        crosses = goal * signs <= 0
        if not crosses.any():
            v[used] = goal
            return
        way = v[used] / (v[used] - goal)
        part = way[crosses].min()
        v[used] += part * (goal - v[used])
        v[used[crosses & (way == part)]] = 0.0


@njit
def descend(H, gradient, w, l1, l2, accuracy, sweeps, v):  # type: ignore[no-untyped-def]
    """Coordinate descent on the model, from v on; True when v is a minimum to the accuracy.

    Sweeps go over all coordinates, then over those in use until these are at rest, and so on;
    it ends when a full sweep finds no subgradient larger than `accuracy`.
    """
    n = len(w)
    slope = gradient.copy()  # of the quadratic part at v
    for j in range(n):
        if v[j] != w[j]:
            for k in range(n):
                slope[k] += (v[j] - w[j]) * H[j, k]
    in_use_only = False
    for _ in range(sweeps):
        worst = 0.0
        for j in range(n):
            if v[j] != 0.0 or not in_use_only:
                bend, old = H[j, j] + l2[j], v[j]
                new = _shrink(slope[j] - H[j, j] * old, l1[j]) / bend
                if new != old:
                    v[j] = new
                    for k in range(n):
                        slope[k] += (new - old) * H[j, k]
                    worst = max(worst, abs(new - old) * bend)
        if worst <= accuracy and not in_use_only:
            return True
        in_use_only = worst > accuracy
    return False


@njit(inner=True)
def _shrink(pull, l1):  # type: ignore[no-untyped-def]
    """``−sign(pull)·(|pull| − l1)₊``."""
    if pull > l1:
        return l1 - pull
    return -l1 - pull if pull < -l1 else 0.0
