"""Laporte et al. (2014): forward-backward splitting and reweighting as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from .._util.checks import boolean, choice, whole_number
from ..solvers.fista import CHECK_INTERVAL, SMALLEST_L, dominating_engine, trace_of_hessian
from ..solvers.result import Status
from ..solvers.reweighted import Reweighted
from ..solvers.solver import Iterate, Needs, SparseSolver

# --------------------------------------------------------------------------------------------------
# Forward-backward splitting with the constant step of Laporte et al. 2014.


LipschitzName = Literal["corrected", "printed"]


@dataclass
class PaperFISTA(SparseSolver):
    """Accelerated forward-backward splitting as printed (Laporte et al. 2014, algorithm 1).

    With f = C·Σ_p max(0, 1 − w'x̃_p)², the objective is that of the paper, J₁ + λΩ, times C = 1/λ.
    From z₁ = w₀ and t₁ = 1, the steps are

        w_k = prox_{Ω/L}(z_k − ∇f(z_k)/L),
        t_{k+1} = (1 + √(1 + 4t_k²))/2,    z_{k+1} = w_k + (t_k − 1)/t_{k+1}·(w_k − w_{k−1}).

    L is constant, and the momentum never restarts. The result is the last w_k, even if an earlier
    one is better. `FISTA` has neither limit.

    The paper stops at "convergence" and gives no rule. Here the rule is that of `SparseSolver`,
    which is checked every tenth step.

    Parameters
    ----------
    lipschitz : {"corrected", "printed"}
        The choice of L, which must be a Lipschitz constant of ∇f:

        - ``corrected``: 2C·Σ_p‖x̃_p‖², which always is one.
        - ``printed``: C·Σ_p‖x̃_p‖², as in proposition 1. Its proof omits the factor 2 of the
          gradient. The smallest constant is 2C times the largest eigenvalue of Σ_p x̃_p x̃_p'. If
          this eigenvalue is more than half of the trace, the steps are too long and may not
          converge. The status then says so.
    accelerated : bool
        False: z_{k+1} = w_k, which is the update of eq. 10 (ISTA).
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> from linrank.penalties import L1
    >>> problem = make_problem(make_ranking(random_state=0), C=1e-4, penalty=L1())
    >>> result = PaperFISTA(tol=1e-3).solve(problem)
    >>> result.converged, result.gap <= 1e-3
    (True, True)
    """

    lipschitz: LipschitzName = "corrected"
    accelerated: bool = True
    name: ClassVar[str] = "fista-paper"
    needs: ClassVar[Needs] = Needs(loss="squared", penalties=("convex",))

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("lipschitz", self.lipschitz, get_args(LipschitzName))
        boolean("accelerated", self.accelerated)

    def _minimise(self) -> Status:
        if self._is_done():
            return Status.CONVERGED
        problem, L = self.problem, self._lipschitz_constant()
        z, before, t = self.point.w, self.point.w, 1.0
        for k in range(1, self.max_iter + 1):
            w = problem.penalty.prox(z - problem.value_grad(z)[1] / L, 1.0 / L)
            following = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0 if self.accelerated else 1.0
            z = w + (t - 1.0) / following * (w - before)
            before, t = w, following
            check = k % CHECK_INTERVAL == 0 or k == self.max_iter
            if check:
                self.point = Iterate(w, *problem.value_grad(w))
            self._record()
            if check and self._is_done():
                return Status.CONVERGED
        return Status.MAX_ITER

    def _lipschitz_constant(self) -> float:
        """Return L; the trace of the Hessian at w = 0 is 2·Σ_p‖x̃_p‖²."""
        corrected = self.problem.C * trace_of_hessian(dominating_engine(self.problem.engine))
        return max(corrected if self.lipschitz == "corrected" else 0.5 * corrected, SMALLEST_L)


@dataclass
class PaperReweighted(Reweighted):
    """Reweighted l1 as printed (Laporte et al. 2014, algorithm 2).

    From β = 1, each iteration

    1. minimises the weighted l1 problem (13) by algorithm 1, which starts at the previous solution,
    2. sets β_j = g'(|w_j|) (table II), with λ = 1/C for mcp.

    Every solution is taken, even if it raises the objective. `Reweighted` checks this, and solves
    the l1 problems faster.

    The paper stops both loops at "convergence" and gives no rule. Here algorithm 1 stops when the
    duality gap is a small part of `tol`, and algorithm 2 by the rule of `Reweighted`.

    Parameters
    ----------
    inner_iter : int
        The largest number of steps of algorithm 1 in each l1 problem.
    lipschitz : {"corrected", "printed"}
        The step bound of algorithm 1; see `PaperFISTA`.
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> from linrank.penalties import Log
    >>> data = make_ranking(n_informative=4, random_state=0)
    >>> problem = make_problem(data, C=1e-2, penalty=Log())
    >>> result = PaperReweighted(max_iter=20).solve(problem)
    >>> result.converged, int(np.count_nonzero(result.coef))
    (True, 4)
    """

    inner_iter: int = 10_000
    lipschitz: LipschitzName = "corrected"
    name: ClassVar[str] = "reweighted-paper"
    needs: ClassVar[Needs] = Needs(loss="squared", penalties=("concave",))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.inner_iter = whole_number("inner_iter", self.inner_iter)
        self._inner = PaperFISTA(max_iter=self.inner_iter, lipschitz=self.lipschitz)

    def _minimise(self) -> Status:
        penalty = self.problem.penalty
        beta = penalty.weights
        for k in range(self.max_iter):
            before = self.point.value
            inner = self._take(beta, keep=False)
            small = before - self.point.value <= self.tol * penalty.value(self.point.w)
            if k > 0 and small:
                return Status.CRITICAL if inner.converged else inner.status
            beta = self._tangents()
        return Status.MAX_ITER
