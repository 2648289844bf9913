"""What the solvers share: the start, the stopping rule, the record, and Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import norm

from .._typing import Vector
from ..engines.base import Work
from ..errors import DataError, WorkersLost
from ..problem import Objective
from .result import Result, Status, Step

Callback = Callable[[Step], None]

#: Between these, the gradient's norm g and products such as g'Hg can be had in double precision.
SMALLEST_SLOPE, LARGEST_SLOPE = 1e-150, 1e70
ROUNDING = 1e-14  #: relative changes of the objective below this are rounding
NOISE_TRIALS = 3  #: perturbed weights at which `Solver._noise` evaluates the objective


@dataclass
class Iterate:
    """A point with its objective and gradient."""

    w: Vector
    value: float
    gradient: Vector


@dataclass
class Solver:
    """A method that minimises an `Objective`.

    Subclasses implement `_minimise`, which moves ``self.point`` downhill and calls `_record`
    after each iteration. `solve` does what is the same for all: it evaluates the start, keeps
    the history, and turns Ctrl-C (or the loss of a cluster) into a result with the best weights
    so far. A method that knows a lower bound on the optimum raises ``self.bound``, and the gap
    is reported.

    Parameters
    ----------
    tol : float
        ε of the stopping rule: ‖g(w)‖ ≤ ε‖g(0)‖ (Lee & Lin 2014, eq. 38), or what the
        subclass says.
    max_iter : int
        The largest number of outer iterations.
    callback : callable, optional
        Called with a `Step` after every iteration.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    callback: Callback | None = None
    warm_starts: ClassVar[bool] = True  #: whether a path starts each fit from the one before
    problem: Any = field(init=False, repr=False)  #: an `Objective` of the kind that it takes
    point: Iterate = field(init=False, repr=False)
    bound: float = field(init=False, repr=False)
    _history: list[Step] = field(init=False, repr=False)
    _started: float = field(init=False, repr=False)
    _work_before: Work = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.tol, float | int | np.number) or not 0 < self.tol < 1:
            raise DataError(f"tol is {self.tol!r}; expected a number between 0 and 1")
        if not isinstance(self.max_iter, int | np.integer) or self.max_iter < 1:
            raise DataError(f"max_iter is {self.max_iter!r}; expected a whole number of at least 1")

    def solve(self, problem: Objective, w0: Vector | None = None) -> Result:
        """Minimise the problem, from w0 or from zero."""
        self._started = time.perf_counter()
        self.problem = problem
        self._history = []
        work = problem.engine.work
        self._work_before = replace(work)
        start = np.zeros(problem.n_features) if w0 is None else np.array(w0, dtype=np.float64)
        self.point = Iterate(start, np.inf, np.full_like(start, np.inf))
        self.bound = -np.inf
        self.value_at_zero, self.slope_at_zero = np.inf, 0.0  # until known: Ctrl-C may come first
        try:
            self.value_at_zero, self.slope_at_zero = problem.start()
            self._check_scale()
            self.point = Iterate(start, *problem.value_grad(start))
            self._prepare()
            self._record()
            status = self._minimise()
        except (KeyboardInterrupt, WorkersLost):
            status = Status.INTERRUPTED
        return Result(
            coef=self.point.w,
            status=status,
            objective=self.point.value,
            gradient_norm=self._relative_norm(),
            n_iter=max(0, len(self._history) - 1),
            n_products=work.products - self._work_before.products,
            n_evaluations=work.evaluations - self._work_before.evaluations,
            seconds=time.perf_counter() - self._started,
            history=self._history,
            gap=self._gap(),
        )

    def _prepare(self) -> None:
        """What a method sets up at the start, before the first line of its history."""

    def _minimise(self) -> Status:
        raise NotImplementedError

    def _record(self) -> None:
        step = Step(
            len(self._history),
            self.point.value,
            self._relative_norm(),
            self.problem.engine.work.products - self._work_before.products,
            time.perf_counter() - self._started,
            self._gap(),
        )
        self._history.append(step)
        if self.callback is not None:
            self.callback(step)

    def _relative_norm(self) -> float:
        size = float(norm(self.point.gradient, check_finite=False))
        return size / self.slope_at_zero if self.slope_at_zero > 0 else 0.0

    def _gap(self) -> float | None:
        """|f(w) − bound| / |f(w)|, where a bound is known; only rounding lifts it above f."""
        if self.bound == -np.inf:
            return None
        room = abs(self.point.value - self.bound)
        return room / max(abs(self.point.value), np.finfo(float).tiny)

    def _gradient_is_small(self) -> bool:
        """‖g(w)‖ ≤ ε‖g(0)‖."""
        return self._relative_norm() <= self.tol

    def _noise(self) -> float:
        """The change of the objective that rounding causes at the current point.

        It is measured: every weight moves by one unit in the last place, up or down. Where
        weights are large and cancel in the scores, it is far above the rounding of f itself (a
        kernel matrix that is singular but for rounding: 2e-11·f).
        """
        w, sign = self.point.w, np.random.default_rng(0).choice
        changes = [ROUNDING * abs(self.point.value)]
        for _ in range(NOISE_TRIALS):
            near = w * (1.0 + np.finfo(float).eps * sign((-1.0, 1.0), len(w)))
            changes.append(abs(self.problem.value_grad(near)[0] - self.point.value))
        self.problem.value_grad(w)  # Hessian products refer to the last evaluated point
        return max(changes)

    def _status_at_rest(self) -> Status:
        """The status when no step lowers the objective: rounding alone may be the reason.

        The gap between the objective and its lower bound tells.
        """
        gap = abs(self.point.value - self.bound)
        return Status.PRECISION if gap <= self._noise() else Status.STUCK

    def _check_scale(self) -> None:
        slope = self.slope_at_zero
        if slope == 0:
            return  # w = 0 is the optimum, whatever the scale
        if not SMALLEST_SLOPE < slope < LARGEST_SLOPE:
            raise DataError(
                f"the gradient at w = 0 has norm {slope:.1e}, beyond what double precision can "
                f"work with: bring the features, weights and margins (and C = {self.problem.C:g}) "
                "nearer to 1"
            )
