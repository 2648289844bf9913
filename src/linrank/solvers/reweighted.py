"""Reweighted l1: concave penalties by a sequence of weighted l1 problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._util.types import Vector
from ..penalties.separable import L1
from .proximal_newton import ProximalNewton
from .result import Result, Status
from .solver import ROUNDING, Iterate, Needs, SparseSolver, state

INNER_TOL = 0.05  #: tolerance of the l1 problems as a fraction of `tol`·Ω/f
SMALLEST_TOL = 1e-10  #: smallest tolerance of the l1 problems
FIRST_RATIO = 0.02  #: assumed ratio Ω/f while w is 0


@dataclass
class Reweighted(SparseSolver):
    """Reweighted l1 for concave penalties (Laporte et al. 2014, algorithm 2).

    Each iteration solves the weighted l1 problem (13),

        w_{k+1} = argmin f(w) + Σ_j β_j g'(|w_kj|)·|w_j|.

    g is concave, so its tangent at |w_kj| lies above it. Up to a constant, problem (13) is an upper
    bound on the objective that is equal to it at w_k. Lowering the bound therefore lowers the
    objective. The first problem is plain l1, g' = 1, and each later one starts at the previous
    solution. `ProximalNewton` solves the problems and keeps its Hessian from one to the next. From
    the l1 solution on, the objective falls.

    With l_p, g'(0) is infinite, so a weight that has become 0 stays 0. The features are therefore
    selected among those of the l1 solution.

    The solver stops when a problem lowers the objective by at most `tol` of the penalty Ω(w). The
    unit is the penalty, because it selects the features and is a small part of the objective if C
    is large. The result is a critical point. Other critical points may be better, but this one is
    no worse than the l1 solution. If w = 0 is better, the iterations continue from w = 0.

    Parameters
    ----------
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.problem import make_problem
    >>> from linrank.penalties import Log
    >>> data = make_ranking(n_informative=4, random_state=0)
    >>> result = Reweighted().solve(make_problem(data, C=1e-2, penalty=Log()))
    >>> result.converged, int(np.count_nonzero(result.coef))
    (True, 4)
    """

    name: ClassVar[str] = "reweighted"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("concave",), bounds=True)
    _inner: SparseSolver = state(default_factory=ProximalNewton)

    def _minimise(self) -> Status:
        penalty = self.problem.penalty
        inner = self._take(penalty.weights, keep=False)
        for _ in range(self.max_iter - 1):
            before = self.point.value
            inner = self._take(self._tangents(), keep=True)
            if before - self.point.value <= self.tol * penalty.value(self.point.w):
                if self.point.value <= self.value_at_zero:
                    return Status.CRITICAL if inner.converged else inner.status
                zero = np.zeros_like(self.point.w)
                self.point = Iterate(zero, *self.problem.value_grad(zero))
        return Status.MAX_ITER

    def _excess(self, goal: float) -> float:
        """Return 0: the status of the last l1 problem is that of this solver."""
        return 0.0

    def _take(self, weights: Vector, keep: bool) -> Result:
        """Solve an l1 problem and move to its solution; if `keep`, only if it is no worse.

        If both objectives are equal up to rounding, the later solution is more exact.
        """
        problem = self.problem.with_penalty(L1(weights, bounds=self.problem.penalty.limits))
        part = self.problem.penalty.value(self.point.w) / (self.point.value or 1.0) or FIRST_RATIO
        self._inner.tol = max(INNER_TOL * self.tol * part, SMALLEST_TOL)
        result = self._inner.solve(problem, self.point.w)
        new = Iterate(result.coef, *self.problem.value_grad(result.coef))
        if not keep or new.value <= self.point.value * (1 + ROUNDING):
            self.point = new
        self._record()
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result
