"""Proximal Newton with working sets: the default for convex penalties that select features."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import norm

from .._typing import Integers, Vector
from ..engines.base import Engine
from ..errors import DataError
from ..problem import Problem
from .base import ROUNDING, Iterate, state
from .curvature import Curvature, cost_of_matrix
from .needs import Needs
from .penalised_model import Model, minimise_model
from .result import Status
from .signed_step import SignedStep
from .sparse import SparseSolver
from .terms import Terms, make_terms


@dataclass(frozen=True)
class ProximalSettings:
    """Constants of the proximal Newton method.

    Attributes
    ----------
    sufficient_decrease : float
        Fraction of the predicted decrease that a step must reach (Armijo's condition). Larger
        values shorten steps.
    first_set : int
        Number of features that the first working set may have in addition to those in use.
    least_spare, most_spare : int
        Smallest and largest number of spare features. Their Hessian is computed together with that
        of the working set.
    rows_per_feature, least_rows : int
        Sampled rows per feature for the Hessian of a sample, and their smallest number. Larger
        values make the Hessian more exact and more expensive. With 60 instead of 320 rows per
        feature, a path of 1,088 columns took half the time.
    far : float
        Predicted decrease, relative to the objective, above which the Hessian of a sample is
        used.
    reuse_ratio : float
        Largest ratio of the predicted decreases of two steps at which the Hessian is used again.
        Larger values compute fewer Hessians and take more steps.
    continuation_factor : float
        Ratio of neighbouring values of C in the continuation from w = 0.
    continuation_tol : float
        Relative duality gap of the fits of the continuation.
    matrix_limit : int
        Largest number of features for which the Hessian is a matrix from the first step.
    largest_matrix : int
        Largest number of features for which the Hessian is a matrix once Hessian products have
        cost as much.
    cheap_matrix : float
        The same limit, as n³ per entry of X, for engines that compute the Hessian by level.
    max_products : int
        Largest number of Hessian products in a step without a matrix.
    product_residual : float
        Relative residual of a step without a matrix. Larger values take fewer products.
    model_residual : float
        Accuracy of the minimum of the model, relative to the distance to a critical point. Both
        are in units of the square root of the diagonal of the Hessian.
    sweeps : int
        Sweeps of coordinate descent before a linear system is solved.
    rounds : int
        Largest number of repetitions of sweeps and system in a step.
    smallest_lift, largest_lift : float
        Range of the number by which the diagonal of the Hessian is enlarged, relative to the
        diagonal. It makes the model strictly convex if features are nearly equal.
    flat_diagonal : float
        Factor of g²/f in the smallest diagonal, for features in which no pair has curvature.
    halvings, old_halvings : int
        Halvings of a step before the diagonal is enlarged, or before an old Hessian is replaced.
    """

    sufficient_decrease: float = 1e-4
    first_set: int = 10
    least_spare: int = 5
    most_spare: int = 100
    rows_per_feature: int = 60
    least_rows: int = 20_000
    far: float = 0.01
    reuse_ratio: float = 0.2
    continuation_factor: float = 4.0
    continuation_tol: float = 0.3
    matrix_limit: int = 400
    largest_matrix: int = 2000
    cheap_matrix: float = 3000
    max_products: int = 100
    product_residual: float = 0.1
    model_residual: float = 0.01
    sweeps: int = 20
    rounds: int = 100
    smallest_lift: float = 1e-13
    largest_lift: float = 1e12
    flat_diagonal: float = 1e-6
    halvings: int = 8
    old_halvings: int = 2


@dataclass
class ProximalNewton(SparseSolver):
    """Proximal Newton method for l1, the elastic net and groups (Lee, Sun & Saunders 2014).

    Each iteration minimises, over the features of a working set and within their bounds,

        ∇f'δ + ½ δ'Hδ + Ω(w + δ)

    by coordinate descent, where H is the Hessian of f. A line search along δ follows. The working
    set contains the features in use and those that violate optimality most. Its size may double
    from one iteration to the next, so H is small if few features matter. For groups of features,
    the descent is over blocks, and groups join the working set as a whole.

    H costs as much as many gradients, and hardly changes near the optimum. It is reused while the
    predicted decrease falls fast from step to step, and each step updates it by the rule of BFGS.
    The next problem on the same engine also reuses it: for another C, H is multiplied by a number.
    H is computed from a sample of queries, and from all queries if the sample was not effective
    near the optimum.

    If the working set is large, H is not computed. The signs of the weights and the directions of
    the groups are then fixed during a step, and conjugate gradients minimise the model. They need a
    few passes over the data, and no matrix. If these passes have cost as much as the matrix, it is
    computed after all.

    Parameters
    ----------
    settings : ProximalSettings
        Constants of the method.
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), C=1e-4, penalty=L1())
    >>> result = ProximalNewton(tol=1e-6).solve(problem)
    >>> result.converged, result.gap <= 1e-6
    (True, True)
    """

    settings: ProximalSettings = ProximalSettings()
    name: ClassVar[str] = "proximal-newton"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("convex", "group"), bounds=True)
    _engine: Engine | None = state(default=None)  #: that of the curvature
    _curvature: Curvature | None = state(default=None)
    _spent: int = state(default=0)  #: products of steps without a matrix, on this engine
    _promise: float = state(default=np.inf)  #: decrease predicted by the last model
    _terms: Terms = state()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.settings, ProximalSettings):
            raise DataError(f"settings is {self.settings!r}; expected ProximalSettings(...)")

    def _prepare(self) -> None:
        self._promise = np.inf
        self._terms = make_terms(self.problem.penalty, self.problem.n_features)
        if self._engine is not self.problem.engine:
            self._engine, self._curvature, self._spent = self.problem.engine, None, 0

    def _minimise(self) -> Status:
        settings = self.settings
        if not self.point.w.any() and not self.problem.engine.loss.squared:
            self._continue_from_smaller_C()
        lift = settings.smallest_lift
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            features, complete = self._working_set()
            if self._is_large(len(features)) and self._step_by_products(features):
                self._record()
                continue
            if not self._step_by_old_hessian(features):
                self._curvature = self._make_curvature(features, complete)
                while not self._line_search(self._newton_target(features, lift), settings.halvings):
                    if not self._curvature.is_exact:
                        self._curvature = self._make_curvature(features, complete, exact=True)
                        continue
                    lift *= 100.0  # a flat model predicts too large a decrease
                    if lift > settings.largest_lift:
                        small = self._gradient_is_small()
                        return Status.PRECISION if small else self._status_at_rest()
                lift = max(settings.smallest_lift, 0.1 * lift)
            self._record()
        return Status.CONVERGED if self._is_done() else Status.MAX_ITER

    def _is_done(self) -> bool:
        """Return whether the rule of `SparseSolver` is met; without a gap, also the decrement.

        If a feature has no cost, there is no gap. The rule then compares the gradient with
        ‖∇f(0)‖, which grows with C, so the rule can be met far from the optimum. The predicted
        decrease of the last step must therefore also be at most `tol` of the objective.
        """
        if self.point.value <= 0.0 and self.point.w.any():
            return True  # neither f nor Ω is ever negative
        if not super()._is_done():
            return False
        if self._gap() is not None or not self.point.w.any() or self._distance() == 0.0:
            return True
        return self._promised_decrease() <= self.tol * self.point.value

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f*; without a lower bound, `_is_done` has found it to be small."""
        return 0.0 if self.bound == -np.inf else super()._excess(goal)

    def promise_at(self, problem: Problem, w: Vector) -> float:
        """Return the decrease of the objective that a proximal Newton step promises from w.

        It is infinite if more features can move than a Hessian has (`largest_matrix`).
        """
        self.problem, self.point = problem, Iterate(w, *problem.value_grad(w))
        self._prepare()
        self._spent = sys.maxsize  # The Hessian is made, whatever it costs.
        return self._promised_decrease() if self._distance() > 0 else 0.0

    def _promised_decrease(self) -> float:
        """Return the decrease that the model promises from the current point.

        The Hessian is made here, because a Hessian of an earlier point can promise too little where
        features are nearly equal. If it is too expensive, the promise of the last step counts.
        """
        features, _ = self._working_set()
        if not len(features) or self._is_large(len(features)):
            return self._promise
        self._curvature = self._make_curvature(features, complete=True, exact=True)
        return -self._slope(self._newton_target(features, self.settings.smallest_lift))

    def _continue_from_smaller_C(self) -> None:
        """Follow rough solutions from a small C, where w = 0 is nearly optimal, to this C.

        Far from the optimum, the curvature of most losses is a poor model. Steps would be short
        and would add many features that are not needed.
        """
        factor = self.settings.continuation_factor
        C, w = factor * self.problem.smallest_C(), self.point.w
        if not C < self.problem.C:
            return
        rough = replace(self, tol=self.settings.continuation_tol, callback=None)
        while C < self.problem.C:
            result = rough.solve(self.problem.with_C(C), w)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            w, C = result.coef, factor * C
        self._curvature, self._spent = rough._curvature, rough._spent
        self.point = Iterate(w, *self.problem.value_grad(w))

    def _working_set(self) -> tuple[Integers, bool]:
        """Return the features in use and the worst violators, and whether these are all.

        Violators are ranked by group, and all violators of a group are taken.
        """
        w = self.point.w
        away = self.problem.penalty.distance(w, self.point.gradient)
        in_use = np.flatnonzero(w)
        others = np.flatnonzero((w == 0) & (away > 0))
        room = max(self.settings.first_set, len(in_use))
        complete = len(others) <= room
        if not complete:
            worst = np.argpartition(-self._terms.norms(away)[others], room)[:room]
            others = self._terms.whole_groups(others[worst], others)
        return np.sort(np.concatenate([in_use, others])), complete

    def _make_curvature(self, features: Integers, complete: bool, exact: bool = False) -> Curvature:
        """Return the Hessian of the working set and of spare features at the current point.

        Spare features are those closest to violating optimality. There are none if the working
        set leaves out violators, because it will then grow.
        """
        settings, engine, old = self.settings, self.problem.engine, self._curvature
        if old is not None and old.has(features) and not old.is_exact and complete:
            # The last sample was not effective. Near the optimum, all queries are needed.
            exact |= self._promise <= settings.far * self.point.value
        self._curvature = old = None  # frees the old matrix before the new one is made
        if complete:
            missing = self.problem.penalty.slack(self.point.gradient)
            missing[features] = np.inf
            n_spare = min(max(settings.least_spare, len(features) // 2), settings.most_spare)
            n_spare = min(n_spare, len(missing) - len(features))
            spare = np.argpartition(missing, n_spare - 1)[:n_spare] if n_spare else features[:0]
            spare = self._terms.whole_groups(spare, np.flatnonzero(np.isfinite(missing)))
            features = np.sort(np.concatenate([features, spare]))
        n_sampled = max(settings.least_rows, settings.rows_per_feature * len(features))
        n_rows = None if exact else n_sampled
        is_exact = n_rows is None or n_rows >= engine.data.n_docs
        H = self.problem.loss_hessian(features, n_rows)
        return Curvature(features, H, is_exact)

    def _is_large(self, n: int) -> bool:
        """Return whether the Hessian of n features costs more than Hessian products."""
        engine = self.problem.engine
        if engine.makes_hessian_by_level:
            return n**3 > self.settings.cheap_matrix * engine.n_entries
        if n <= self.settings.matrix_limit:
            return False
        return n > self.settings.largest_matrix or self._spent < cost_of_matrix(engine, n)

    def _step_by_products(self, features: Integers) -> bool:
        """Take a Newton step with fixed signs, by Hessian products instead of a matrix."""
        full = np.zeros(self.problem.n_features)

        def product(v: Vector) -> Vector:
            full[features] = v
            return self.problem.hessp(full)[features]

        here, diagonal = self.point, self.problem.hessian_diagonal()[features]
        step = SignedStep(
            self._terms.of(features), here.w[features], here.gradient[features], diagonal, product
        )
        solved = step.solve(self.settings.product_residual**2, self.settings.max_products)
        self._spent += solved.n_products
        for weights in step.targets(solved):
            target = here.w.copy()
            target[features] = weights
            if self._slope(target) < 0:
                return self._line_search(target, self.settings.halvings)
        return False

    def _step_by_old_hessian(self, features: Integers) -> bool:
        """Take a step with the last Hessian, if it has these features and is still effective."""
        if self._curvature is None or not self._curvature.has(features):
            return False
        settings, before = self.settings, self._promise
        target = self._newton_target(features, settings.smallest_lift)
        enough = max(settings.reuse_ratio * before, ROUNDING * abs(self.point.value))
        is_effective = -self._slope(target) <= enough
        return is_effective and self._line_search(target, settings.old_halvings)

    def _newton_target(self, features: Integers, lift: float) -> Vector:
        """Return the minimiser of the model.

        Both the lift of the diagonal and the accuracy are relative to the diagonal of H. They
        therefore do not depend on the scales of the features.
        """
        assert self._curvature is not None
        settings, here, target = self.settings, self.point, self.point.w.copy()
        away = self.problem.penalty.distance(here.w, here.gradient)[features]
        H, terms = self.problem.C * self._curvature.of(features), self._terms.of(features)
        bend = np.maximum(np.abs(np.diag(H)), settings.flat_diagonal * away**2 / here.value)
        floor = np.finfo(float).eps ** 4 * float(bend.max())
        bend = (1.0 + lift) * np.maximum(bend, max(floor, np.finfo(float).tiny))
        H.flat[:: len(features) + 1] = bend
        decrease = np.minimum(away**2 / (bend + terms.l2), here.value)  # f and Ω are never negative
        accuracy = settings.model_residual**2 * float(decrease.mean())
        model = Model(H, here.gradient[features], target[features], terms, accuracy)
        target[features] = minimise_model(model, settings.sweeps, settings.rounds)
        return target

    def _slope(self, target: Vector) -> float:
        """Return the change of the objective up to the target, with f linearised."""
        here, penalty = self.point, self.problem.penalty
        rise = penalty.value(target) - penalty.value(here.w)
        return float(here.gradient @ (target - here.w)) + rise

    def _line_search(self, target: Vector, halvings: int) -> bool:
        """Move to the target, or ½, ¼, … of the way, until the objective falls enough.

        If rounding hides the change of the objective, a step that ends nearer to a critical point
        is accepted.
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
            if (slope < 0 and change <= self.settings.sufficient_decrease * part * slope) or (
                flat and norm(penalty.distance(w, trial.gradient)) < 0.9 * away
            ):
                self.point = trial
                if self._curvature is not None:
                    turn = (trial.gradient - here.gradient) / self.problem.C
                    self._curvature.learn(w - here.w, turn)
                return True
            part *= 0.5
        self.problem.value_grad(here.w)
        return False
