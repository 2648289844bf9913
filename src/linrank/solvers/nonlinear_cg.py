"""Non-linear conjugate gradients: steps along conjugate directions with an exact line search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from .._checks import choice
from .._typing import Vector
from .line_search import Found, InterpolationName, line_search
from .needs import Needs
from .result import Status
from .smooth import SmoothSolver

BetaName = Literal["polak-ribiere", "fletcher-reeves"]


@dataclass
class NonlinearCG(SmoothSolver):
    """Non-linear conjugate gradients (Chapelle & Keerthi 2010, §2; Shewchuk 1994, §14).

    With the gradient g_k at w_k and the direction s_k, an iteration is

        w_{k+1} = w_k + t s_k,   t = argmin f(w_k + t s_k),   s_{k+1} = −g_{k+1} + β s_k.

    The directions restart from −g after as many iterations as there are features, and if β ≤ 0 or
    if s is not a direction of descent. The line search (`linrank.solvers.line_search`) needs values
    and gradients only. Its first trial assumes that f falls as much as in the last iteration. In
    the first iteration it is the smaller of 1 and f/‖g‖², where the tangent of f reaches 0.

    The stopping rule is that of `SmoothSolver`, because the paper gives none for this method.

    Parameters
    ----------
    beta : {"polak-ribiere", "fletcher-reeves"}
        β = g_{k+1}'(g_{k+1} − g_k) / g_k'g_k, or β = g_{k+1}'g_{k+1} / g_k'g_k. The reference of
        the paper has both.
    line_search : {"secant", "cubic"}
        The interpolation of the line search. The paper names both.
    tol, max_iter, callback, stop
        See `Solver` and `Newton`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> result = NonlinearCG().solve(make_problem(make_ranking(random_state=0), C=0.01))
    >>> result.converged, result.n_products
    (True, 0)
    """

    beta: BetaName = "polak-ribiere"
    line_search: InterpolationName = "secant"
    name: ClassVar[str] = "nonlinear-cg"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("l2",))

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("beta", self.beta, get_args(BetaName))
        choice("line_search", self.line_search, get_args(InterpolationName))

    def _minimise(self) -> Status:
        direction, fall, age = -self.point.gradient, None, 0
        for _ in range(self.max_iter):
            if self._has_arrived():
                return Status.CONVERGED
            found = self._search(direction, fall)
            if found is None and age > 0:
                direction, age = -self.point.gradient, 0
                found = self._search(direction)
            if found is None:
                return self._status_at_rest()
            fall = found.t * float(self.point.gradient @ direction)
            before, self.point = self.point.gradient, found.point
            self._record()
            direction, age = self._next_direction(direction, before, age)
        return Status.CONVERGED if self._has_arrived() else Status.MAX_ITER

    def _search(self, direction: Vector, fall: float | None = None) -> Found | None:
        """Minimise f along a direction; `fall` is t·g's of the last iteration, if known."""
        point = self.point
        slope = float(point.gradient @ direction)
        first = min(1.0, -point.value / slope) if fall is None else fall / slope
        found = line_search(self.problem, point, direction, first, self.line_search)
        if found is None:
            self.problem.value_grad(point.w)  # Estimates refer to the last evaluated point.
        return found

    def _next_direction(self, direction: Vector, before: Vector, age: int) -> tuple[Vector, int]:
        """Return −g + βs and its number of iterations since the last restart."""
        gradient = self.point.gradient
        change = gradient - before if self.beta == "polak-ribiere" else gradient
        beta = float(gradient @ change) / float(before @ before)
        following = beta * direction - gradient
        if age + 1 == len(gradient) or beta <= 0 or float(gradient @ following) >= 0:
            return -gradient, 0
        return following, age + 1
