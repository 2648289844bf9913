"""Proximal Newton with working sets: the default for sparse rankers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import norm

from .._jit import njit
from ..problem import SparseProblem
from .base import Iterate, Vector
from .conjugate_gradients import conjugate_gradients
from .preconditioner import invert
from .result import Status
from .sparse import SparseSolver

ARMIJO = 1e-4  #: part of the predicted decrease that a step must reach
FIRST_SET = 10  #: features that the first working set may hold beyond those in use
SPARE = 5  #: least number of features beyond a working set whose Hessian is computed with it
MOST_SPARE = 100
ROWS_PER_FEATURE = 320  #: of the sample that the Hessian is made of while the working set grows
SLOW = 0.2  #: a step with an old Hessian may promise this part of what the one before promised
NEARER = 4.0  #: factor from one C to the next on the way from w = 0
ROUGH = 0.3  #: the gap to which the problems on the way are solved
MATRIX = 400  #: features of which the Hessian is made as a matrix; of more it is multiplied with
CHEAP = 3000  #: the same, where making it costs little, from n³ = so many times the entries of X on
PRODUCTS = 100  #: most of these for one step
ROUGHLY = 0.1  #: what a step by products may leave of the residual
FORCING = 0.01  #: how much of the distance to a critical point a step may leave
SWEEPS = 20  #: of coordinate descent, before a linear system is solved
ROUNDS = 100  #: most of these together, per step
ROUNDING = 1e-13  #: relative changes of the objective below this are rounding
LIFT = 1e-10  #: of the mean diagonal is added to the Hessian, where features repeat each other
FLAT = 1e-6  #: part of g²/f that stands for the diagonal where no pair bends
MOST_LIFT = 1e6  #: when even this does not help, nothing does
HALVINGS = 8  #: of a step, before the Hessian is lifted
FEW_HALVINGS = 2  #: of a step with an old Hessian, before a new one is made

Features = NDArray[np.int64]


@dataclass
class ProximalNewton(SparseSolver):
    """Newton's method with the penalty kept exact (Lee, Sun & Saunders 2014), l1 or elastic net.

    Each iteration minimises, over the features of a working set,

        ∇f'δ + ½ δ'Hδ + Ω(w + δ)

    by coordinate descent, H the Hessian of f there, and moves along δ by a line search. The
    working set are the features in use and those that violate optimality most; it may double
    from one iteration to the next, so H stays small when few features matter.

    H costs as much as many gradients, and hardly changes near the optimum. So it is used again
    while the decrease that the model promises falls fast from step to step, also for the next
    problem on the same engine: at another C it is that of before times a number. While violators
    do not fit in the working set, the Hessian of a sample of queries will do.

    Of a large working set H is not made. Then a step holds the signs of the weights and comes from
    conjugate gradients, which need products with H only: a few reads of the data, and no memory.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.path import make_problem
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), C=1e-4, penalty=L1())
    >>> result = ProximalNewton(tol=1e-6).solve(problem)
    >>> result.converged, result.gap <= 1e-6
    (True, True)
    """

    _curvature: Curvature | None = field(init=False, repr=False, default=None)
    _promise: float = field(init=False, repr=False)  #: the decrease that the last model promised

    def _prepare(self) -> None:
        self._promise = np.inf
        known = self._curvature
        if known is not None and known.problem.engine is not self.problem.engine:
            self._curvature = None

    def _minimise(self) -> Status:
        if not self.point.w.any() and not self.problem.engine.loss.squared:
            self._approach()
        lift = LIFT
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            features, complete = self._working_set()
            if self._is_large(len(features)) and self._step_by_products(features):
                self._record()
                continue
            if not self._step_by_old_hessian(features):
                self._curvature = self._make_curvature(features, complete)
                while not self._line_search(self._newton_target(features, lift), HALVINGS):
                    lift *= 100.0  # a flat model promises too much: make it steeper
                    if lift > MOST_LIFT:
                        small = self._gradient_is_small()
                        return Status.PRECISION if small else self._status_at_rest()
                lift = max(LIFT, 0.1 * lift)
            self._record()
        return Status.CONVERGED if self._is_done() else Status.MAX_ITER

    def _is_done(self) -> bool:
        """The rule of `SparseSolver` and, where there is no duality gap, a small Newton decrement.

        With a free feature there is no gap, and ‖∇f(0)‖, to which the gradient is compared, grows
        with C: the comparison alone is met far from the optimum. The decrease that the model
        promised for the last step must then be at most `tol` of the objective as well.
        """
        if self.point.value <= 0.0 and self.point.w.any():
            return True  # neither f nor Ω is ever below 0
        if not super()._is_done():
            return False
        if self._gap() is not None or not self.point.w.any() or self._distance() == 0.0:
            return True
        return self._promise <= self.tol * self.point.value

    def _approach(self) -> None:
        """From w = 0, come to this C by way of smaller ones, roughly.

        Far from the optimum the curvature of most losses says little: steps would be cut short,
        and bring in many features that are not needed.
        """
        C = NEARER * self.problem.smallest_C
        if not C < self.problem.C:
            return
        rough = ProximalNewton(tol=ROUGH, max_iter=self.max_iter)
        w = self.point.w
        while C < self.problem.C:
            result = rough.solve(self.problem.with_C(C), w)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            w, C = result.coef, NEARER * C
        self._curvature = rough._curvature
        self.point = Iterate(w, *self.problem.value_grad(w))

    def _working_set(self) -> tuple[Features, bool]:
        """The features in use and the worst violators, as many again; whether these are all."""
        w = self.point.w
        away = self.problem.penalty.distance(w, self.point.gradient)
        in_use = np.flatnonzero(w)
        others = np.flatnonzero((w == 0) & (away > 0))
        room = max(FIRST_SET, len(in_use))
        complete = len(others) <= room
        if not complete:
            others = others[np.argpartition(-away[others], room)[:room]]
        return np.sort(np.concatenate([in_use, others])), complete

    def _make_curvature(self, features: Features, complete: bool) -> Curvature:
        """The Hessian here, with spare features: those that are nearest to coming in.

        A working set that leaves out violators is not the last one, and gets a sample only.
        """
        if not complete:
            n_rows = ROWS_PER_FEATURE * len(features)
            return Curvature(self.problem, features, self.problem.loss_hessian(features, n_rows))
        missing = self.problem.penalty.parts()[0] - np.abs(self.point.gradient)
        missing[features] = np.inf
        n_spare = min(max(SPARE, len(features) // 2), MOST_SPARE, len(missing) - len(features))
        spare = np.argpartition(missing, n_spare - 1)[:n_spare] if n_spare else features[:0]
        features = np.sort(np.concatenate([features, spare]))
        return Curvature(self.problem, features, self.problem.loss_hessian(features))

    def _is_large(self, n: int) -> bool:
        """Whether a Hessian of so many features costs more than to multiply with it."""
        engine = self.problem.engine
        if engine.makes_hessian_by_level:
            return n**3 > CHEAP * engine.n_entries
        return n > MATRIX

    def _step_by_products(self, features: Features) -> bool:
        """Move by Newton's method with the signs held: H is not made, but multiplied with.

        Conjugate gradients minimise the model as long as no weight changes its sign (one at 0 may
        go where f falls); weights that would change theirs end at 0.
        """
        w, (l1, l2) = self.point.w[features], self.problem.penalty.parts()
        l1, l2, gradient = l1[features], l2[features], self.point.gradient[features]
        signs = np.where(w != 0, np.sign(w), -np.sign(gradient))
        slope = gradient + l1 * signs + l2 * w
        diagonal = self.problem.hessian_diagonal()[features] + l2
        floor = np.finfo(float).eps * float(diagonal.max())
        scale = 1.0 / np.maximum(diagonal, floor or 1.0)
        full = np.zeros(self.problem.n_features)

        def product(v: Vector) -> Vector:
            full[features] = v
            return self.problem.hessp(full)[features] + l2 * v

        step, *_ = conjugate_gradients(product, -slope, lambda v: scale * v, ROUGHLY**2, PRODUCTS)
        for delta in (step, -scale * slope):
            target = self.point.w.copy()
            target[features] = np.where((w + delta) * signs > 0, w + delta, 0.0)
            if self._slope(target) < 0:
                return self._line_search(target, HALVINGS)
        return False

    def _step_by_old_hessian(self, features: Features) -> bool:
        """Move by the Hessian at hand, if it has these features and still serves."""
        if self._curvature is None or not self._curvature.has(features):
            return False
        target, before = self._newton_target(features, LIFT), self._promise
        return self._slope(target) >= -SLOW * before and self._line_search(target, FEW_HALVINGS)

    def _newton_target(self, features: Features, lift: float) -> Vector:
        """Where the model is least."""
        assert self._curvature is not None
        target, (l1, l2) = self.point.w.copy(), self.problem.penalty.parts()
        H = self.problem.C * self._curvature.of(features)
        away = self._distance()
        scale = max(np.trace(H) / len(features), FLAT * away**2 / self.point.value)
        H.flat[:: len(features) + 1] += lift * scale
        model = Model(
            H, self.point.gradient[features], target[features], l1[features], l2[features],
            FORCING * away / np.sqrt(len(features)),
        )  # fmt: skip
        target[features] = minimise_model(model)
        return target

    def _slope(self, target: Vector) -> float:
        """How much the objective would change on the way to the target if f were straight."""
        here, penalty = self.point, self.problem.penalty
        rise = penalty.value(target) - penalty.value(here.w)
        return float(here.gradient @ (target - here.w)) + rise

    def _line_search(self, target: Vector, halvings: int) -> bool:
        """Move to the target, or ½, ¼, … of the way to where the objective falls enough.

        Where its change drowns in rounding, coming nearer to a critical point will do.
        """
        here, penalty = self.point, self.problem.penalty
        slope = self._slope(target)
        self._promise = -slope
        away = norm(penalty.distance(here.w, here.gradient))
        part = 1.0
        for _ in range(halvings):
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


class Curvature(NamedTuple):
    """The Hessian of the loss L at some w, in some features, which are in order."""

    problem: SparseProblem
    features: Features
    H: Vector

    def has(self, features: Features) -> bool:
        """Whether these are among its features."""
        return bool(np.isin(features, self.features, assume_unique=True).all())

    def of(self, features: Features) -> Vector:
        """The part of the matrix that belongs to some of its features."""
        if len(features) == len(self.features):
            return self.H
        at = np.searchsorted(self.features, features)
        return self.H[np.ix_(at, at)]


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

    def value(self, v: Vector) -> float:
        """What is to be minimised."""
        delta = v - self.w
        smooth = float(delta @ (self.gradient + 0.5 * (self.H @ delta)))
        return smooth + float(self.l1 @ np.abs(v) + 0.5 * self.l2 @ v**2)


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
    """Go to the minimum among the coordinates in use, given their signs.

    Those that would change their sign stop at 0. That may lead uphill: then ½, ¼, … of the way, or
    to where the first of them stops.
    """
    H, gradient, w, l1, l2, _ = model
    used = np.flatnonzero(v)
    old, signs = v[used], np.sign(v[used])
    A = H[np.ix_(used, used)]
    A.flat[:: len(used) + 1] += l2[used]
    goal = invert(A)((H @ w)[used] - gradient[used] - l1[used] * signs)
    end = np.full(len(used), np.inf)  # part of the way after which a coordinate is 0
    np.divide(old, old - goal, out=end, where=goal * signs <= 0)

    def move(part: float) -> float:
        v[used] = np.where(end <= part, 0.0, old + part * (goal - old))
        return model.value(v)

    first = min(1.0, float(end.min(initial=1.0)))
    limit, part = move(first), 1.0
    while part > first and move(part) > limit:
        part *= 0.5
    move(max(part, first))


@njit(allocates=True)
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
