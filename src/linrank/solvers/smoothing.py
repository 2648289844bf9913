"""The hinge loss by way of smoother ones, with a duality gap as the proof."""

from __future__ import annotations

from dataclasses import dataclass

from ..losses.pairwise import smoothed_hinge
from ..problem import Problem
from .base import Iterate, Solver
from .newton import Newton
from .result import Status

WIDTH = 1.0  #: the first μ
SHRINK = 0.5  #: what μ is multiplied by when it is what keeps the gap open


@dataclass
class Smoothing(Solver):
    """Newton's method on the hinge loss with its corner rounded over a width μ that shrinks.

    The smoothed loss is ℓ_μ(t) = (max(0, 1 − t)² − max(0, 1 − μ − t)²) / 2μ, two hinges of a
    table. At any w, α_p = C·clip((1 − t_p)/μ, 0, 1) is feasible in the dual

        max Σ_p α_p − ½‖Σ_p α_p x̃_p‖²    subject to    0 ≤ α_p ≤ C

    (Lee & Lin 2014, appendix A), and with G₁ and G₂ the sums of max(0, 1 − t) and
    max(0, 1 − μ − t) over the pairs, and V that of ℓ_μ, the objective at w is above the dual
    value at α by

        C·(G₁ + G₂ − 2V) + ½‖g_μ(w)‖²,

    all of which comes from sorted sums: no pair is ever formed. The first part is what the
    rounded corner costs, the second what is left to optimise; when the first is the larger, μ
    shrinks. Stops when the gap between the best objective and the best dual value so far is
    at most `tol` of the objective.
    """

    def _minimise(self) -> Status:
        mu = WIDTH
        newton = self._smoothed(mu)
        corner, rest = self._certify(newton)
        for _ in range(self.max_iter):
            if self._is_done():
                return Status.CONVERGED
            if rest <= corner:
                mu *= SHRINK
                self._narrow(newton, mu)
            # At the optimum of the smoothed problem there is no step; a smaller μ follows.
            if newton.point.gradient.any() and not newton.advance():
                return self._status_at_rest()
            corner, rest = self._certify(newton)
            self._record()
        return Status.CONVERGED if self._is_done() else Status.MAX_ITER

    def _is_done(self) -> bool:
        """Whether the gap is small; w = 0, which ranks nothing, is left even if it is."""
        gap = self._gap()
        moved = self.slope_at_zero == 0 or bool(self.point.w.any())
        return gap is not None and gap <= self.tol and moved

    def _smoothed(self, mu: float) -> Newton:
        """Newton's method at the start of the smoothed problem."""
        engine = self.problem.engine.with_loss(smoothed_hinge(mu))
        problem = Problem(engine, self.problem.C)
        newton = Newton(tol=self.tol)
        newton.begin(problem, self.point.w, self.slope_at_zero)
        return newton

    def _narrow(self, newton: Newton, mu: float) -> None:
        newton.problem.engine.change_loss(smoothed_hinge(mu))
        newton.begin(newton.problem, newton.point.w, self.slope_at_zero)

    def _certify(self, newton: Newton) -> tuple[float, float]:
        """Take over the best objective and dual value; return the two parts of the gap here."""
        C, here = self.problem.C, newton.point
        G1, G2 = newton.problem.engine.gaps(here.w)
        ridge = 0.5 * float(here.w @ here.w)
        corner = max(0.0, C * (G1 + G2) - 2.0 * (here.value - ridge))
        rest = 0.5 * float(here.gradient @ here.gradient)
        value = ridge + C * G1
        self.bound = max(self.bound, value - corner - rest)
        leaves_zero = not self.point.w.any() and value <= (1 + self.tol) * self.point.value
        if value <= self.point.value or leaves_zero:
            self.point = Iterate(here.w, value, here.gradient)
        return corner, rest
