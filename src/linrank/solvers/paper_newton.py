"""PRSVM and PRSVM+: truncated Newton as Chapelle & Keerthi 2010 run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from .._checks import choice, positive_number, whole_number
from .._typing import Vector
from ..errors import DataError
from .base import ROUNDING, Iterate, state
from .conjugate_gradients import conjugate_gradients
from .line_search import line_search
from .minres import minres
from .needs import Needs
from .preconditioner import invert
from .result import Status
from .smooth import SmoothSolver, StopName

SystemName = Literal["minres", "cg", "exact"]
LineSearchName = Literal["never", "fallback", "always"]

MAX_EXACT = 16_384  #: features for which system="exact" keeps a Hessian, which then needs 2 GiB


@dataclass
class PaperNewton(SmoothSolver):
    """Truncated Newton with the unit step (Chapelle & Keerthi 2010, algorithm 1).

    Each iteration solves H s = −g without a preconditioner and moves to w + s. The fit ends after
    the first step with

        −g's ≤ ε·f(w),        where −g's ≈ g'H⁻¹g is the Newton decrement            (§5.2)

    and f(w) is the objective at the end of the step. The paper uses ε = 1e-6. If the estimated
    distance to the optimum is then above 0.1·ε·f(w), the status is `Status.FAR`.

    With ``counting="explicit"``, H s is a sum over listed pairs: this is PRSVM (§3). With
    ``counting="two-level"``, H s uses the sums over sorted scores of §4.2, for each level of a
    query against all levels below it: this is PRSVM+. Any other counting gives the same numbers.

    A path starts each C from w = 0.

    Parameters
    ----------
    tol : float
        ε of the stopping rule.
    max_iter : int
        The largest number of Newton steps.
    callback : callable, optional
    stop : {"decrement", "optimum", "gradient"}
        ``decrement``: the rule of the paper. The others are those of `SmoothSolver`.
    system : {"minres", "cg", "exact"}
        The solver of H s = −g. The paper describes conjugate gradients and runs MINRES. ``exact``:
        compute H and its Cholesky factor, in O(nd² + d³) (§2).
    line_search : {"fallback", "never", "always"}
        ``never``: the step length is 1, which the paper uses in practice. ``fallback``: if that
        step raises the objective, an exact line search shortens it. ``always``: each step has an
        exact line search, which is the optional line of algorithm 1.
    cg_tol : float
        Residual ‖g + Hs‖ / ‖g‖ at which MINRES and conjugate gradients end. The paper does not
        give a number.
    cg_iter : int
        Largest number of their products for one system. The paper does not give a number.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01, counting="two-level")
    >>> PaperNewton().solve(problem).converged
    True
    """

    tol: float = 1e-6
    stop: StopName = "decrement"
    system: SystemName = "minres"
    line_search: LineSearchName = "fallback"
    cg_tol: float = 1e-3
    cg_iter: int = 20
    name: ClassVar[str] = "newton-paper"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("l2",))
    stops: ClassVar[tuple[StopName, ...]] = ("decrement", "optimum", "gradient")
    warm_starts: ClassVar[bool] = False
    _decrement: float = state(default=np.inf)  #: −g's of the last step

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("system", self.system, get_args(SystemName))
        choice("line_search", self.line_search, get_args(LineSearchName))
        positive_number("cg_tol", self.cg_tol)
        self.cg_iter = whole_number("cg_iter", self.cg_iter)

    def _prepare(self) -> None:
        super()._prepare()
        if self.system == "exact" and self.problem.n_features > MAX_EXACT:
            raise DataError(
                f"system='exact' computes a Hessian of {self.problem.n_features:,} × "
                f"{self.problem.n_features:,} numbers, which is supported for at most "
                f"{MAX_EXACT:,} features. Use system='minres'."
            )
        self._decrement = np.inf

    def _minimise(self) -> Status:
        for _ in range(self.max_iter):
            if self._has_arrived():
                return Status.CONVERGED
            step = self._newton_step()
            self._decrement = -float(self.point.gradient @ step)
            if not self._move(step):
                return Status.CONVERGED if self._has_arrived() else self._status_at_rest()
            self._record()
        return Status.CONVERGED if self._has_arrived() else Status.MAX_ITER

    def _has_arrived(self) -> bool:
        if self.stop != "decrement":
            return super()._has_arrived()
        return self._decrement <= self.tol * self.point.value

    def _newton_step(self) -> Vector:
        """Return the solution s of H s = −g, exact or approximate."""
        hessp, right = self.problem.hessp, -self.point.gradient
        if self.system == "exact":
            return invert(self.problem.hessian())(right)
        if self.system == "minres":
            return minres(hessp, right, self.cg_tol, self.cg_iter).x
        return conjugate_gradients(hessp, right, np.copy, self.cg_tol**2, self.cg_iter).x

    def _move(self, step: Vector) -> bool:
        """Move along the step; return False if that does not lower the objective."""
        if self.line_search != "always":
            w = self.point.w + step
            trial = Iterate(w, *self.problem.value_grad(w))
            rise = trial.value - self.point.value
            if self.line_search == "never" or rise <= ROUNDING * abs(self.point.value):
                self.point = trial
                return True
        found = line_search(self.problem, self.point, step, first=1.0)
        if found is None:
            self.problem.value_grad(self.point.w)  # Hessian products refer to this point again.
            return False
        self.point = found.point
        return True
