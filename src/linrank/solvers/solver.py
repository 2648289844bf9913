"""The base classes of all solvers, solvers by name, and the check that one fits a problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.linalg import norm

from .._util.checks import choice, whole_number
from .._util.lazy import ClassesByName
from .._util.parallel import blas_threads
from .._util.types import Vector
from ..engines.engine import Work
from ..engines.threads import extended_loss, rounding_error, slope_error
from ..errors import DataError, WorkersLost
from ..losses.loss import Loss
from ..losses.pairwise import SQUARED_HINGE
from ..losses.registry import LOSSES
from ..penalties.penalty import Kind, Penalty, SeparablePenalty
from ..penalties.separable import L1, L2
from ..problem import Problem
from . import AUTOMATIC, CLASSES, SOLVER_CHOICES, SolverChoice
from .result import Result, Status, Step

# --------------------------------------------------------------------------------------------------
# Requirements of a solver, and the error message for a problem that does not meet them.


@dataclass(frozen=True)
class Needs:
    """Requirements of a solver; a class attribute of every solver.

    Attributes
    ----------
    loss : {"any", "smooth", "squared", "cornered", "hinge", "pairwise", "listwise"}
        ``smooth``: a loss with a derivative. ``squared``: one squared hinge. ``cornered``: a
        pairwise loss without a derivative. ``hinge``: one hinge or one squared hinge.
        ``pairwise``: a sum over pairs. ``listwise``: a loss that is not a sum over pairs.
    penalties : tuple of {"l2", "convex", "concave", "group"}
        The kinds of penalty that the solver supports.
    bounds : bool
        Whether the solver supports bounds on the weights.
    rows : bool
        Whether the rows of X must be in this process, and not in the workers of a cluster.
    """

    loss: Literal["any", "smooth", "squared", "cornered", "hinge", "pairwise", "listwise"] = "any"
    penalties: tuple[Kind, ...] = ("l2", "convex", "concave", "group")
    bounds: bool = False
    rows: bool = False

    def complaint(self, loss: Loss, penalty: Penalty, has_rows: bool = True) -> str | None:
        """Return why a problem does not fit, as the end of a sentence; None if it fits."""
        if self.loss == "smooth" and not loss.smooth:
            return f"needs a loss with a derivative, which loss={loss.name!r} does not have"
        if self.loss == "squared" and not (loss.pairwise and loss.squared):
            return f"needs loss='squared_hinge', unlike loss={loss.name!r}"
        if self.loss == "cornered" and (loss.smooth or not loss.pairwise):
            return f"needs a pairwise loss without a derivative, unlike loss={loss.name!r}"
        if self.loss == "hinge" and not loss.single:
            return f"needs loss='hinge' or 'squared_hinge', but the loss is {loss.name!r}"
        if self.loss == "pairwise" and not loss.pairwise:
            return f"needs a pairwise loss, but loss={loss.name!r} is listwise"
        if self.loss == "listwise" and loss.pairwise:
            return f"needs a listwise loss, but loss={loss.name!r} is a sum over pairs"
        if penalty.kind not in self.penalties:
            return f"does not support penalty={penalty.name!r}"
        if penalty.bounds is not None and not self.bounds:
            return "does not support bounds"
        if self.rows and not has_rows:
            return "needs the rows of X in this process, but they are in the workers"
        return None


# --------------------------------------------------------------------------------------------------
# The base class of all solvers: start, stopping rule, history, and interrupts.


#: A function that is called with a `Step` after every iteration.
Callback = Callable[[Step], None]

#: Norms of the gradient g between which products such as g'Hg neither underflow nor overflow.
SMALLEST_SLOPE, LARGEST_SLOPE = 1e-150, 1e70
ERROR_ROOM = 4.0  # rounding errors that are subtracted from a bound: their estimate is a sample
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
        The relative distance to the optimum, (f(w) − f*)/f(w), at which to stop. A subclass says
        whether it certifies or estimates the distance.
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
        engine = problem.engine
        check_solver(type(self), engine.loss, problem.penalty, engine.has_rows)
        self._started = time.perf_counter()
        self.problem = problem
        self._history = []
        work = engine.work
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
            tol=self.tol,
        )

    def _run(self, start: Vector) -> Status:
        """Evaluate the start, and minimise from there."""
        self.value_at_zero, self.slope_at_zero = self.problem.start()
        self._check_scale()
        self.point = Iterate(start, *self.problem.value_grad(start))
        self._set_unit()
        self._prepare()
        self._record()
        status = self._confirmed(self._minimise())
        self._bound_below()
        return self._without_rounding(status)

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

    def _bound_below(self) -> None:
        """Raise the lower bound at the solution, if that costs nothing."""

    def _bound_by_gradient(self, point: Iterate) -> None:
        """Raise the lower bound to f(w) − ½‖g‖², or to 0, for the penalty ½‖w‖².

        The bound holds for every convex loss and every subgradient g (`Problem.gap_bound`). For the
        squared hinge, it is the dual value at α_p = 2C·weight·max(0, 1 − t_p). The norm of g is
        enlarged by the rounding error of g.
        """
        if not isinstance(self.problem.penalty, L2):
            return
        gap = self._gap_by_gradient(self.problem, point)
        self._raise_bound(max(0.0, point.value - gap), abs(point.value))

    @staticmethod
    def _gap_by_gradient(problem: Problem, point: Iterate) -> float:
        """Return ½‖g‖² with room for the rounding error of g (`slope_error`)."""
        kappa = problem.C * slope_error(problem.engine, point.w)
        error = kappa * problem.engine.row_size if kappa else 0.0
        return problem.gap_bound(point.gradient) + error * (
            float(norm(point.gradient, check_finite=False)) + 0.5 * error
        )

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
        goal = min(EXACT_OBJECTIVE, 0.1 * self.tol) * abs(point.value)
        error = problem.C * rounding_error(problem.engine, point.w, goal / problem.C)
        if error <= goal:
            self._lower_bound(error)
            return status
        exact = extended_loss(problem.engine, point.w)
        if exact is not None:
            value = problem.value_grad(point.w)[0] + problem.C * (exact - problem.loss(point.w)[0])
            self.point = replace(point, value=value)
            error = abs(value - point.value)
        self._lower_bound(error)
        most = (max(self.tol, PRECISE) if exact is None else 1.0) * abs(self.point.value)
        most = max(most, float(np.finfo(float).eps) * self.value_at_zero)
        return Status.STUCK if status.claims and error > most else status

    def _lower_bound(self, error: float) -> None:
        """Lower the bound by the rounding error of the objective; drop it if f(w) disproves it.

        A bound that exceeds f(w) by no more than rounding is put as far below f(w).
        """
        self.bound -= ERROR_ROOM * error
        excess = self.bound - self.point.value
        if excess > GAP_ROUNDING * abs(self.point.value):
            self.bound = -np.inf  # because of rounding at earlier points
        elif excess > 0:
            self.bound = self.point.value - excess

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


# --------------------------------------------------------------------------------------------------
# Solvers by name, and the check that a solver fits a problem.


#: The class of each solver by its name, such as ``SOLVERS["newton"]``.
SOLVERS: Mapping[str, type[Solver]] = ClassesByName(__package__, CLASSES)


def make_solver(
    name: SolverChoice | Solver,
    loss: Loss = SQUARED_HINGE,
    penalty: Penalty | None = None,
    *,
    has_rows: bool = True,
    seed: int = 0,
    **options: Any,
) -> Solver:
    """Return the solver of a name, if it can minimise the loss with the penalty.

    ``"auto"`` is `Newton`, which needs the fewest passes over the data on all measured shapes. For
    a loss without a derivative, such as the hinge, it is `Smoothing`. For a convex penalty other
    than ½‖w‖² it is `ProximalNewton`, and for a concave one `Reweighted`.

    Parameters
    ----------
    name : str or Solver
        A `Solver` is checked and copied. It has its own options, so `seed` and `options` are
        ignored.
    loss : Loss
    penalty : Penalty, optional
        The default is ½‖w‖².
    has_rows : bool
        Whether the rows of X are in this process.
    seed : int
        Seed of the stochastic solvers.
    **options
        Fields of the solver's class. If `tol` is None, the class has a default.

    Returns
    -------
    Solver

    Raises
    ------
    DataError
        If the name is not known, or the solver does not support the loss or the penalty. The
        message names solvers that do.

    Examples
    --------
    >>> from linrank.losses import get_loss
    >>> from linrank.penalties import L1
    >>> make_solver("auto").name, make_solver("auto", get_loss("hinge")).name
    ('newton', 'smoothing')
    >>> make_solver("fista", penalty=L1(), tol=1e-4)
    FISTA(tol=0.0001, max_iter=1000, step='backtracking', restart=True)
    """
    penalty = L2() if penalty is None else penalty
    if options.get("tol", 1.0) is None:
        del options["tol"]
    if isinstance(name, Solver):
        check_solver(type(name), loss, penalty, has_rows)
        return replace(name)
    choice("solver", name, SOLVER_CHOICES, "or a Solver, such as Newton(max_iter=50)")
    if name == "auto":
        first = next(_usable(loss, penalty, has_rows), None)
        if first is None:
            raise DataError(_nothing_fits(loss, penalty))
        kind = SOLVERS[first]
    else:
        kind = SOLVERS[name]
        check_solver(kind, loss, penalty, has_rows)
    seeded = {"seed": seed} if any(field.name == "seed" for field in fields(kind)) else {}
    return with_options(kind(), seeded | options)


def with_options(solver: Solver, options: Mapping[str, Any]) -> Solver:
    """Return a copy of the solver with other options.

    Examples
    --------
    >>> from linrank.solvers import Newton
    >>> with_options(Newton(), {"tol": 0.1}).tol
    0.1
    """
    known = [field.name for field in fields(solver) if field.init]
    for name in options:
        if name not in known:
            listed = ", ".join(name for name in known if name != "callback")
            raise DataError(
                f"solver={solver.name!r} has no option {name!r}. Its options: {listed}."
            )
    return replace(solver, **options)


def usable_solvers(loss: Loss, penalty: Penalty | None = None, has_rows: bool = True) -> list[str]:
    """Return the names of the solvers that support a problem; the choice of ``"auto"`` is first.

    Parameters
    ----------
    loss : Loss
    penalty : Penalty, optional
        The default is ½‖w‖².
    has_rows : bool
        Whether the rows of X are in this process; False for data on a cluster.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from linrank.losses import get_loss
    >>> usable_solvers(get_loss("hinge"))
    ['smoothing', 'cutting-planes', 'dual', 'sgd-pairs', 'sgd-queries']
    """
    return list(_usable(loss, L2() if penalty is None else penalty, has_rows))


def _usable(loss: Loss, penalty: Penalty, has_rows: bool) -> Iterator[str]:
    for name in dict.fromkeys((*AUTOMATIC, *CLASSES)):
        if SOLVERS[name].needs.complaint(loss, penalty, has_rows) is None:
            yield name


def check_solver(kind: type[Solver], loss: Loss, penalty: Penalty, has_rows: bool) -> None:
    """Raise a `DataError` that names usable solvers, unless this solver is usable."""
    complaint = kind.needs.complaint(loss, penalty, has_rows)
    if complaint is None:
        return
    usable = usable_solvers(loss, penalty, has_rows)
    if not usable:
        raise DataError(_nothing_fits(loss, penalty))
    first, *others = (repr(name) for name in usable)
    more = "" if not others else f", or {', '.join(others)}"
    raise DataError(
        f"solver={kind.name!r} {complaint}. Use solver={first} (the choice of 'auto'){more}."
    )


def _nothing_fits(loss: Loss, penalty: Penalty) -> str:
    """Return the error message for a loss and a penalty that no solver supports."""
    bounds = "" if penalty.bounds is None else " and bounds"
    losses = [name for name, other in LOSSES.items() if usable_solvers(other, penalty)]
    listed = " or ".join(f"loss={name!r}" for name in losses[:2])
    advice = f" Use {listed}." if losses else " Use another penalty, or bounds=None."
    return f"no solver supports loss={loss.name!r} with penalty={penalty.name!r}{bounds}.{advice}"


# --------------------------------------------------------------------------------------------------
# The base class of the solvers for penalties without a derivative, with a duality gap.


BARRIER_COST = 1e100  #: cost that keeps a weight at 0, for features with an infinite g'(0)
PRECISE_GAP = 1e-6  #: relative gap at which a solver may stop because of rounding


@dataclass
class SparseSolver(Solver):
    """Base class of the solvers of f(w) + Ω(w) for a penalty Ω without a derivative.

    ``point.value`` is the objective, and ``point.gradient`` is the gradient of f alone. A gradient
    norm is the distance of −∇f to the subdifferential of Ω, which is 0 at a critical point.

    For convex Ω there is a lower bound on the optimum. For any w and 0 ≤ s ≤ 1, the vector s·∇f is
    a point of the dual, with the dual value

        −f*(s·∇f) − Ω*(−s·∇f)  ≥  s·(f(w) − w'∇f(w)) − Ω*(−s·∇f),

    because the conjugate f* is convex and f*(0) = −min f ≤ 0. The bound holds for any convex loss
    that is never negative, and needs only f and its gradient. For l1, Ω* is 0 if s·|∂f/∂w_j| ≤ β_j
    for all j, and otherwise infinite. Near the optimum s must be 1 − ε, and the error is ε·f.

    For the squared hinge, ℓ*(−u) = u²/4 − u is known, and the left side without Ω* is
    s·(2f(w) − w'∇f(w)) − s²·f(w) for every s ≥ 0. Near the optimum its error is only ε·Ω + ε²·f.

    A solver stops when the gap to the best bound is at most `tol` of the objective. If there is no
    bound, it stops when the distance is at most `tol` of ‖∇f(0)‖.
    """

    def _distance(self) -> float:
        distance = self.problem.penalty.distance(self.point.w, self.point.gradient)
        return float(norm(distance, check_finite=False))

    def _relative_norm(self) -> float:
        """Return the distance divided by ‖∇f(0)‖ or, if that is 0, by the norm of the costs."""
        unit = self.slope_at_zero or float(norm(self.problem.penalty.weights))
        return self._distance() / unit if unit > 0 else 0.0

    def _gradient_is_small(self) -> bool:
        """Return whether the point is as near to the optimum as rounding allows."""
        gap = self._gap()
        return super()._gradient_is_small() if gap is None else gap <= max(self.tol, PRECISE_GAP)

    def _is_done(self) -> bool:
        """Raise the lower bound with the dual value here, and return whether the gap is small."""
        penalty, w = self.problem.penalty, self.point.w
        size = abs(self.point.value) + float(np.abs(w) @ np.abs(self.point.gradient))
        self._raise_bound(self._dual_value(), size + penalty.value(w))
        gap, distance = self._gap(), self._relative_norm()
        if not self.point.w.any():
            return distance == 0.0  # w = 0 ranks nothing, even if the gap is small
        return distance <= self.tol if gap is None else gap <= self.tol

    def _lower_bound(self, error: float) -> None:
        """Lower the bound by twice the rounding error, since the dual value has the loss twice."""
        super()._lower_bound(2.0 * error)

    def _excess(self, goal: float) -> float:
        """Estimate f(w) − f* by the lower bound or, without one, by a proximal Newton step.

        For a concave penalty, the step is that of the l1 problem of `Reweighted` at w. It promises
        no decrease at a critical point.
        """
        if self.bound > -np.inf:
            return Solver._excess(self, goal)
        from .proximal_newton import ProximalNewton  # that module imports this one

        problem = self.problem
        if not problem.penalty.convex:
            problem = problem.with_penalty(L1(self._tangents(), bounds=problem.penalty.limits))
        return ProximalNewton().promise_at(problem, self.point.w)

    def _tangents(self) -> Vector:
        """Return the slopes β_j·g'(|w_j|) of a concave penalty, limited to `BARRIER_COST`."""
        penalty = self.problem.penalty
        assert isinstance(penalty, SeparablePenalty)
        return np.minimum(penalty.prices(self.point.w), BARRIER_COST)

    def _dual_value(self) -> float:
        penalty, w, gradient = self.problem.penalty, self.point.w, self.point.gradient
        if not penalty.convex or not penalty.weights.all():
            return -np.inf
        loss = self.point.value - penalty.value(w)
        conjugate = loss - float(w @ gradient)
        if self.problem.engine.loss.squared:
            return penalty.best_dual(conjugate + loss, loss, gradient, np.inf)
        return penalty.best_dual(conjugate, 0.0, gradient, 1.0)
