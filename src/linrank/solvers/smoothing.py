"""Smoothing: losses with corners as limits of smooth ones, with a duality gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._util.types import Vector
from ..losses.pairwise import PairwiseLoss
from ..problem import Problem
from .newton import Newton
from .result import Status
from .solver import Iterate, Needs, Solver, state

FIRST_WIDTH = 1.0  #: first width μ of the smoothed corners, in units of the score
CORNER_UNITS = 64.0  #: rounding errors of the sums over pairs, in units in the last place
SMALLEST_WIDTH = 1e-12  #: width μ below which rounding dominates
SHRINKAGE = 0.5  #: factor of μ if the smoothing is the larger part of the gap


@dataclass
class Smoothing(Solver):
    """Newton's method for a loss whose corners are smoothed over a shrinking width μ.

    The corner a·max(0, τ − t) of the loss becomes a·(max(0, τ − t)² − max(0, τ − μ − t)²) / 2μ,
    which is two hinges of a table. For the hinge, α_p = C·clip((1 − t_p)/μ, 0, 1) is feasible in
    the dual

        max Σ_p α_p − ½‖Σ_p α_p x̃_p‖²    subject to    0 ≤ α_p ≤ C

    at any w (Lee & Lin 2014, appendix A). Let G₁, G₂ and V be the sums over the pairs of
    max(0, 1 − t), of max(0, 1 − μ − t) and of the smoothed loss. The difference of the objective
    at w and the dual value at α is

        C·(G₁ + G₂ − 2V) + ½‖g_μ(w)‖².

    All sums are computed from sorted scores, without listing pairs. The first part of the gap is
    due to the smoothing, and the second to the optimisation. If the first part is larger, μ
    shrinks. A loss with several corners has such a first part for each corner. The smooth part of
    a loss adds nothing to the gap. With bounds, g_μ is the gradient in the free features.

    The solver stops when the gap between the best objective and the best dual value so far is at
    most `tol` of the objective.

    Parameters
    ----------
    tol, max_iter, callback
        See `Solver`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01, loss="hinge")
    >>> result = Smoothing(tol=1e-4).solve(problem)
    >>> result.converged, result.gap <= 1e-4
    (True, True)
    """

    name: ClassVar[str] = "smoothing"
    needs: ClassVar[Needs] = Needs(loss="cornered", penalties=("l2",), bounds=True)
    _width: float = state(default=FIRST_WIDTH)  #: the current μ

    def _minimise(self) -> Status:
        mu = FIRST_WIDTH
        newton = self._smoothed(mu)
        corner, rest = self._certify(newton)
        for _ in range(self.max_iter):
            if self._gap_is_small():
                return Status.CONVERGED
            if rest <= corner:
                mu *= SHRINKAGE
                if mu < SMALLEST_WIDTH:
                    return self._status_at_rest()
                self._narrow(newton, mu)
            # At the optimum of the smoothed problem there is no step; the next μ is smaller.
            if newton.point.gradient.any() and not newton.advance():
                return self._status_at_rest()
            corner, rest = self._certify(newton)
            self._record()
        return Status.CONVERGED if self._gap_is_small() else Status.MAX_ITER

    def _smoothed(self, mu: float) -> Newton:
        """Return a Newton solver at the start of the smoothed problem."""
        self._width = mu
        engine = self.problem.engine.with_loss(self._loss().smoothed(mu))
        problem = self.problem.with_engine(engine)
        newton = Newton(tol=self.tol, stop="gradient")  # `_minimise` decides when to stop
        newton.begin(problem, self.point.w, self.slope_at_zero)
        return newton

    def _loss(self) -> PairwiseLoss:
        loss = self.problem.engine.loss
        assert isinstance(loss, PairwiseLoss)
        return loss

    def _narrow(self, newton: Newton, mu: float) -> None:
        """Continue with a smaller width."""
        self._width = mu
        newton.problem.engine.change_loss(self._loss().smoothed(mu))
        newton.begin(newton.problem, newton.point.w, self.slope_at_zero)

    def _certify(self, newton: Newton) -> tuple[float, float]:
        """Keep the best objective and dual value; return the two parts of the gap."""
        here = newton.point
        value, corner = self._value_and_corner(newton.problem, here.w, here.value)
        rest = self._gap_by_gradient(newton.problem, here)
        self._raise_bound(value - corner - rest, value + corner + rest)
        leaves_zero = not self.point.w.any() and value <= (1 + self.tol) * self.point.value
        if value <= self.point.value or leaves_zero:
            self.point = Iterate(here.w, value, here.gradient)
        return corner, rest

    def _value_and_corner(
        self, smoothed: Problem, w: Vector, smoothed_value: float
    ) -> tuple[float, float]:
        """Return the objective at w, and the part of the gap that is due to the smoothing.

        `smoothed_value` is the objective of the smoothed problem, which was last evaluated at w.
        """
        C, omega = self.problem.C, self.problem.penalty.value(w)
        outer, inner = self._corner_sums(smoothed.engine.gaps(w))
        value, smooth_part = omega + C * outer, 0.0
        if self._loss().table[:, 2].any():
            value = self.problem.value_grad(w)[0]
            smoothed.value_grad(w)  # Hessian products refer to the last evaluation.
            smooth_part = value - omega - C * outer
        corner = C * (outer + inner) - 2.0 * (smoothed_value - omega - smooth_part)
        return value, max(0.0, corner) + C * self._corner_rounding(smoothed, w, outer - inner)

    def _corner_rounding(self, smoothed: Problem, w: Vector, slope: float) -> float:
        """Return the rounding error of G₁ + G₂ − 2V, given G₁ − G₂.

        V is the sum of (a₁² − a₂²)/2μ, where a₁ and a₂ = a₁ − μ are the gaps of a pair. It is made
        from sums of scores and of their squares, so the terms of a pair are up to r²/2μ, where r is
        the largest gap, even if a₁ is small. There are at least (G₁ − G₂)/μ active pairs. Sums over
        pairs are added in blocks and round by some tens of units in the last place. If the scores
        are on the workers of a cluster, r is the largest τ.
        """
        reach = float(np.abs(smoothed.engine.loss.table[:, 0]).max())
        if smoothed.engine.has_rows:
            reach += float(np.ptp(smoothed.engine.scores(w)))
        unit = CORNER_UNITS * float(np.finfo(float).eps)
        return unit * slope * (reach / self._width) ** 2

    def _corner_sums(self, gaps: Vector) -> tuple[float, float]:
        """Return Σ a·max(0, τ − t) and Σ a·max(0, τ − μ − t) over the corners and the pairs.

        `gaps` has a sum for each hinge of the smoothed loss, in the order of
        `PairwiseLoss.smoothed`.
        """
        outer = inner = 0.0
        sums = iter(gaps)
        for _, a, c in self._loss().table.tolist():
            if a:
                outer += a * float(next(sums))
                inner += a * float(next(sums))
            if c:
                next(sums)
        return outer, inner
