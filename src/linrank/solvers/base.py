"""The base class of all solvers: start, stopping rule, history, and interrupts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import norm

from .._checks import whole_number
from .._threads import blas_threads
from .._typing import Vector
from ..engines.base import Work
from ..engines.precision import extended_loss, rounding_error
from ..errors import DataError, WorkersLost
from ..problem import Problem
from .needs import Needs
from .result import Result, Status, Step

#: A function that is called with a `Step` after every iteration.
Callback = Callable[[Step], None]

#: Norms of the gradient g between which products such as g'Hg neither underflow nor overflow.
SMALLEST_SLOPE, LARGEST_SLOPE = 1e-150, 1e70
GAP_ROUNDING = 1e-10  #: relative duality gap that rounding can cause
ROUNDING = 1e-13  #: relative change of the objective that rounding can cause
PRECISE = 1e-6  #: relative rounding error of the objective at which a solver may have converged
EXACT_OBJECTIVE = 1e-9  #: relative rounding error of the objective that is not corrected
NOISE_TRIALS = 3  #: number of perturbed weights at which `Solver._noise` evaluates the objective


def state(**options: Any) -> Any:
    """Declare a field that a solver sets during a fit; it is not an option and not compared."""
    return field(init=False, repr=False, compare=False, **options)


@dataclass
class Iterate:
    """A point with its objective and gradient."""

    w: Vector
    value: float
    gradient: Vector


@dataclass
class Solver:
    """Base class of the algorithms that minimise a `Problem`.

    Subclasses implement `_minimise`, which moves ``self.point`` to lower objectives and calls
    `_record` after each iteration. `solve` evaluates the start and keeps the history. After Ctrl-C,
    or if a cluster is lost, it returns the best weights so far. A solver that computes a lower
    bound on the optimum stores it in ``self.bound``, and `solve` reports the gap. If `_minimise`
    returns a status that claims the optimum, `solve` compares the estimated distance to it with
    `tol` (`_excess`). If the optimum is far, the status is `Status.FAR`.

    The public fields of a solver are its options. They may be set in Python, as in
    ``RankSVM(solver=Newton(max_iter=50))``, and on the command line with ``--solver-option``.

    Parameters
    ----------
    tol : float
        ε of the stopping rule: ‖g(w)‖ ≤ ε‖g(0)‖ (Lee & Lin 2014, eq. 38), or the rule of the
        subclass.
    max_iter : int
        The largest number of outer iterations.
    callback : callable, optional
        Called with a `Step` after every iteration.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> from linrank.solvers import Newton
    >>> steps = []
    >>> solver = Newton(tol=1e-6, callback=steps.append)
    >>> result = solver.solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.converged, len(steps) == len(result.history)
    (True, True)
    """

    tol: float = 1e-3
    max_iter: int = 1000
    callback: Callback | None = field(default=None, repr=False, compare=False)
    name: ClassVar[str]
    needs: ClassVar[Needs] = Needs()
    warm_starts: ClassVar[bool] = True  #: whether a path starts each fit from the previous solution
    problem: Problem = state()
    point: Iterate = state()
    bound: float = state()  #: a lower bound on the optimum
    value_at_zero: float = state()
    slope_at_zero: float = state()  #: norm of C·∇L at w = 0
    _history: list[Step] = state()
    _started: float = state()
    _work_before: Work = state()

    def __post_init__(self) -> None:
        if not isinstance(self.tol, float | int | np.number) or not 0 < self.tol < 1:
            raise DataError(f"tol is {self.tol!r}; expected a number between 0 and 1")
        self.max_iter = whole_number("max_iter", self.max_iter)
        if self.callback is not None and not callable(self.callback):
            raise DataError(f"callback is {self.callback!r}; expected a function of a Step")

    def options(self) -> dict[str, Any]:
        """Return the solver's own options that differ from their defaults.

        Examples
        --------
        >>> from linrank.solvers import CuttingPlanes
        >>> CuttingPlanes(damped=False).options()
        {'damped': False}
        """
        shared = ("tol", "max_iter", "callback")
        own = {f.name: f.default for f in fields(self) if f.init and f.name not in shared}
        changed = {name: getattr(self, name) for name in own if getattr(self, name) != own[name]}
        return {
            name: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
            for name, value in changed.items()
        }

    def solve(self, problem: Problem, w0: Vector | None = None) -> Result:
        """Minimise the problem, starting from w0 or 0, which is first moved into the bounds.

        Parameters
        ----------
        problem : Problem
            See `linrank.make_problem`.
        w0 : float64 array of shape (n_features,), optional
            The start. A solution for a similar problem saves iterations.

        Returns
        -------
        Result

        Raises
        ------
        DataError
            If the solver does not support the loss, the penalty or the bounds of the problem.

        Examples
        --------
        >>> from linrank import make_problem, make_ranking
        >>> from linrank.solvers import Newton
        >>> data = make_ranking(random_state=0)
        >>> first = Newton().solve(make_problem(data, C=0.01))
        >>> again = Newton().solve(make_problem(data, C=0.01), w0=first.coef)
        >>> again.n_iter <= first.n_iter
        True
        """
        self._check_needs(problem)
        self._started = time.perf_counter()
        self.problem = problem
        self._history = []
        work = problem.engine.work
        self._work_before = replace(work)
        start = np.zeros(problem.n_features) if w0 is None else np.array(w0, dtype=np.float64)
        start = problem.clip(start)
        self.point = Iterate(start, np.inf, np.full_like(start, np.inf))
        self.bound = -np.inf
        self.value_at_zero, self.slope_at_zero = np.inf, 0.0  # for an interrupt before `start`
        try:
            with blas_threads(1):  # idle threads of BLAS would spin on the cores of the engine
                status = self._run(start)
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

    def _run(self, start: Vector) -> Status:
        """Evaluate the start, and minimise from there."""
        self.value_at_zero, self.slope_at_zero = self.problem.start()
        self._check_scale()
        self.point = Iterate(start, *self.problem.value_grad(start))
        self._set_unit()
        self._prepare()
        self._record()
        return self._without_rounding(self._confirmed(self._minimise()))

    def _check_needs(self, problem: Problem) -> None:
        """Raise a `DataError` that names other solvers, if this one cannot solve the problem."""
        engine, penalty = problem.engine, problem.penalty
        if self.needs.complaint(engine.loss, penalty, engine.has_rows) is not None:
            from .registry import check_solver  # the registry imports all solvers

            check_solver(type(self), engine.loss, penalty, engine.has_rows)

    def _set_unit(self) -> None:
        """Use the gradient at the start as the unit of stopping rules, if it is 0 at w = 0.

        Bounds that exclude 0 and warm starts begin elsewhere, where the gradient need not be 0.
        """
        if self.slope_at_zero == 0:
            self.slope_at_zero = float(norm(self.point.gradient, check_finite=False))

    def _prepare(self) -> None:
        """Prepare the fit, before the first entry of the history."""

    def _minimise(self) -> Status:
        """Move ``self.point`` to the optimum, and return why the solver stops."""
        raise NotImplementedError

    def _confirmed(self, status: Status) -> Status:
        """Return the status of `_minimise`, or `Status.FAR` if it claims an optimum that is far.

        The optimum is far if the estimated distance f(w) − f* is above `_allowed`.
        """
        if not status.claims:
            return status
        allowed = self._allowed()
        return status if self._excess(allowed) <= allowed else Status.FAR

    def _without_rounding(self, status: Status) -> Status:
        """Correct the objective and the lower bound for the rounding of the loss at the solution.

        If rounding may have spoilt the ninth digit of the objective, the loss is computed again in
        extended precision. If that is too expensive and the error is above ε·f(w) and
        `PRECISE`·f(w), or if no digit was right, the status is `Status.STUCK`, because the solver
        has compared objectives that were not exact enough. An error below the last place of f(0)
        is harmless: f(w) is then 0 up to rounding.
        """
        problem, point = self.problem, self.point
        goal = EXACT_OBJECTIVE * abs(point.value)
        error = problem.C * rounding_error(problem.engine, point.w, goal / problem.C)
        if error <= goal:
            return status
        exact = extended_loss(problem.engine, point.w)
        if exact is not None:
            value = problem.value_grad(point.w)[0] + problem.C * (exact - problem.loss(point.w)[0])
            self.point = replace(point, value=value)
            error = abs(value - point.value)
        self.bound -= error
        if self.bound > self.point.value:
            self.bound = -np.inf  # rounding errors of earlier points have disproved the bound
        most = (max(self.tol, PRECISE) if exact is None else 1.0) * abs(self.point.value)
        most = max(most, float(np.finfo(float).eps) * self.value_at_zero)
        return Status.STUCK if status.claims and error > most else status

    def _allowed(self) -> float:
        """Return the distance f(w) − f* above which the optimum is far: ε·f(w)."""
        return self.tol * abs(self.point.value)

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f*, as exactly as a comparison with `goal` needs it.

        This is the distance to the lower bound, which is infinite if there is none. A solver
        without a lower bound must override this method, or it never converges.
        """
        return abs(self.point.value - self.bound)

    def _record(self) -> None:
        """Add an iteration to the history, and report it to the callback."""
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

    def _raise_bound(self, dual: float, size: float) -> None:
        """Keep the largest lower bound; `size` is the sum of the absolute values of its terms.

        The rounding error is subtracted. A term is a sum over pairs or features, which rounds by
        some tens of units in the last place, because its parts are added in blocks. `ROUNDING` is
        450 units.
        """
        self.bound = max(self.bound, dual - ROUNDING * size)

    def _gap(self) -> float | None:
        """Return |f(w) − bound| / |f(w)| if a bound is known. Only rounding makes it exceed f."""
        if self.bound == -np.inf:
            return None
        room = abs(self.point.value - self.bound)
        return room / max(abs(self.point.value), np.finfo(float).tiny)

    def _gap_is_small(self) -> bool:
        """Return whether f(w) − bound ≤ ε·|f(w)|; w = 0, which ranks nothing, is not accepted."""
        moved = self.slope_at_zero == 0 or bool(self.point.w.any())
        return moved and self._gap_is_within(self.tol)

    def _gap_is_within(self, part: float) -> bool:
        """Return whether the distance to the bound is at most a part of the objective."""
        return abs(self.point.value - self.bound) <= part * abs(self.point.value)

    def _gradient_is_small(self) -> bool:
        """Return whether ‖g(w)‖ ≤ ε‖g(0)‖."""
        return self._relative_norm() <= self.tol

    def _noise(self) -> float:
        """Measure the change of the objective that rounding causes at the current point.

        Every weight moves by one unit in the last place, up or down. If weights are large and
        cancel in the scores, the change is far larger than the rounding of f itself. For a nearly
        singular kernel matrix it is 2e-11·f.
        """
        w, sign = self.point.w, np.random.default_rng(0).choice
        changes = [ROUNDING * abs(self.point.value)]
        for _ in range(NOISE_TRIALS):
            near = w * (1.0 + np.finfo(float).eps * sign((-1.0, 1.0), len(w)))
            near = self.problem.clip(near)
            changes.append(abs(self.problem.value_grad(near)[0] - self.point.value))
        self.problem.value_grad(w)  # Hessian products refer to the last evaluated point.
        return max(changes)

    def _status_at_rest(self) -> Status:
        """Return the status if no step lowers the objective.

        The reason is rounding if the gap between the objective and its lower bound is at most the
        rounding of the objective.
        """
        gap = abs(self.point.value - self.bound)
        return Status.PRECISION if gap <= self._noise() else Status.STUCK

    def _check_scale(self) -> None:
        """Raise a `DataError` if the objective or its gradient is too large for double precision.

        The gradient must not be too small, either. If it is 0, w = 0 is the optimum for any scale.
        """
        value, slope = self.value_at_zero, self.slope_at_zero
        if not np.isfinite(value):
            found = f"the objective at w = 0 is {value}"
        elif slope != 0 and not SMALLEST_SLOPE < slope < LARGEST_SLOPE:
            found = f"the gradient at w = 0 has norm {slope:.1e}"
        else:
            return
        raise DataError(
            f"{found}, which is outside the range of double precision. Scale the features, weights "
            f"and margins, or choose another C than {self.problem.C:g}."
        )
