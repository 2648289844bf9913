"""Reweighted l1: concave penalties by way of convex ones."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..errors import DataError
from ..penalties import L1
from .base import ROUNDING, Iterate, Vector
from .proximal_newton import ProximalNewton
from .result import Result, Status
from .sparse import SparseSolver

INNER, FINEST = 0.05, 1e-10  #: the tolerance of the l1 problems, as a part of `tol`·Ω; and at least
USUAL_PART = 0.02  #: that stands for Ω/f where w is still 0
BARRED = 1e100  #: a weight that no gradient overcomes, for features with an infinite g'(0)


@dataclass
class Reweighted(SparseSolver):
    """``w_{k+1} = argmin f(w) + Σ_j β_j g'(|w_kj|)·|w_j|`` (Laporte et al. 2014, algorithm 2).

    g is concave, so its tangent at |w_kj| lies above it: each problem (13) is, up to a constant,
    above the objective and equal to it at w_k, and to lower the one is to lower the other. The
    first problem is plain l1, g' = 1; the others start where the one before ended. `ProximalNewton`
    solves them and keeps its Hessian from one to the next. The objective falls from the solution
    of the first one on, whatever it was at w0, which is only where that solution is looked for.

    With l_p, g'(0) is infinite: a feature that has left never comes back, so those of the l1
    solution are the ones to choose from.

    Stops when a problem lowers the objective by at most `tol` of the penalty Ω(w): of that, because
    it is what chooses features, and it is a small part of the objective where C is large. At a
    critical point nothing is gained any more; others may be better, but this one is no worse than
    the l1 solution, nor than w = 0: where that is better, the problems go on from there. An
    iteration is one problem.

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

    _inner: ProximalNewton = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._inner = ProximalNewton()

    def _minimise(self) -> Status:
        penalty = self.problem.penalty
        if penalty.convex:
            raise DataError(
                f"reweighting is for concave penalties, but the penalty is {type(penalty).__name__}"
            )
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

    def _take(self, weights: Vector, keep: bool) -> Result:
        """Solve an l1 problem and go to its solution, or `keep` the point if that is better.

        By less than rounding it is not: the solution of the later problem is the more exact one.
        """
        problem = self.problem.with_penalty(L1(weights))
        part = self.problem.penalty.value(self.point.w) / self.point.value or USUAL_PART
        self._inner.tol = max(INNER * self.tol * part, FINEST)
        result = self._inner.solve(problem, self.point.w)
        new = Iterate(result.coef, *self.problem.value_grad(result.coef))
        if not keep or new.value <= self.point.value * (1 + ROUNDING):
            self.point = new
        self._record()
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def _tangents(self) -> Vector:
        """β_j·g'(|w_j|) as weights that are finite, and 0 for free features."""
        penalty = self.problem.penalty
        slope = np.minimum(penalty.slope(np.abs(self.point.w)), BARRED)
        return np.minimum(penalty.weights * slope, BARRED)
