"""Reweighted l1: concave penalties by way of convex ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from ..penalties import L1
from .base import Iterate, Vector
from .proximal_newton import ProximalNewton
from .result import Result, Status
from .sparse import SparseSolver

INNER, FINEST = 1e-3, 1e-10  #: the tolerance of the l1 problems, as a part of `tol`; and at least
BARRED = 1e100  #: a weight that no gradient overcomes, for features with an infinite g'(0)


@dataclass
class Reweighted(SparseSolver):
    """``w_{k+1} = argmin f(w) + Σ_j β_j g'(|w_kj|)·|w_j|`` (Laporte et al. 2014, algorithm 2).

    g is concave, so its tangent at |w_kj| lies above it: each problem (13) is, up to a constant,
    above the objective and equal to it at w_k, and to lower the one is to lower the other. The
    first problem is plain l1, g' = 1; the others start where the one before ended. `ProximalNewton`
    solves them. The objective falls from the solution of the first one on, whatever it was at w0,
    which is only where that solution is looked for.

    With l_p, g'(0) is infinite: a feature that has left never comes back, so those of the l1
    solution are the ones to choose from.

    Stops when a problem lowers the objective by at most `tol` of the penalty Ω(w): of that, because
    it is what chooses features, and it is a small part of the objective where C is large. At a
    critical point nothing is gained any more; others may be better, but this one is no worse than
    the l1 solution. An iteration is one problem.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.path import make_problem
    >>> from linrank.penalties import Log
    >>> data = make_ranking(n_informative=4, random_state=0)
    >>> result = Reweighted().solve(make_problem(data, C=1e-2, penalty=Log()))
    >>> result.converged, int(np.count_nonzero(result.coef))
    (True, 4)
    """

    def _minimise(self) -> Status:
        penalty = self.problem.penalty
        if penalty.convex:
            raise DataError(
                f"reweighting is for concave penalties, but the penalty is {type(penalty).__name__}"
            )
        weights = penalty.weights
        for k in range(self.max_iter):
            inner = self._solve_l1(weights)
            new = Iterate(inner.coef, *self.problem.value_grad(inner.coef))
            gain = self.point.value - new.value
            if k == 0 or gain > 0:
                self.point = new
            self._record()
            if inner.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            if k > 0 and gain <= self.tol * penalty.value(self.point.w):
                return Status.CRITICAL if inner.converged else inner.status
            weights = self._tangents()
        return Status.MAX_ITER

    def _solve_l1(self, weights: Vector) -> Result:
        problem = self.problem.with_penalty(L1(weights))
        method = ProximalNewton(tol=max(INNER * self.tol, FINEST))
        result = method.solve(problem, self.point.w)
        self.problem.n_products += result.n_products
        self.problem.n_evaluations += result.n_evaluations
        return result

    def _tangents(self) -> Vector:
        """β_j·g'(|w_j|) as weights that are finite, and 0 for free features."""
        penalty = self.problem.penalty
        slope = np.minimum(penalty.slope(np.abs(self.point.w)), BARRED)
        return np.minimum(penalty.weights * slope, BARRED)
