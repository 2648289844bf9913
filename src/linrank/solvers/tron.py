"""TRON: a trust-region Newton method with conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import norm

from .._util.types import Vector
from .result import Status
from .smooth import HIDDEN_CHANGE, SmoothSolver
from .solver import Iterate, Needs

ETA0, ETA1, ETA2 = 1e-4, 0.25, 0.75  #: ratios of actual and predicted decrease, eq. 36
SIGMA1, SIGMA2, SIGMA3 = 0.25, 0.5, 4.0  #: factors of the radius, eq. 37 of Lee & Lin 2014
SUSPECT_DECREASE = 1e-8  #: predicted decrease, relative to f, that rounding may hide
CG_TOL = 0.1  #: residual, relative to ‖g‖, at which conjugate gradients stop (Lin et al. 2008)


@dataclass
class Tron(SmoothSolver):
    """Trust-region Newton (Lee & Lin 2014, §4.1; Lin & Moré 1999; Steihaug 1983).

    Each step minimises the quadratic model

        m(s) = g's + ½ s'Hs    subject to    ‖s‖ ≤ Δ                               (35)

    by conjugate gradients. The step is taken if the objective falls by at least η₀ of the
    predicted decrease (36). The ratio of both decreases determines the next Δ (37). The stopping
    rule is that of `SmoothSolver`.

    Parameters
    ----------
    tol, max_iter, callback, stop
        See `Solver` and `Newton`.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01)
    >>> result = Tron().solve(problem)
    >>> result.converged, result.n_products > result.n_iter
    (True, True)
    """

    name: ClassVar[str] = "tron"
    needs: ClassVar[Needs] = Needs(loss="smooth", penalties=("l2",))

    def _minimise(self) -> Status:
        radius = float(norm(self.point.gradient))
        tries = 0
        while not self._has_arrived():
            if tries == self.max_iter:
                return Status.MAX_ITER
            tries += 1
            step, residual = self._steihaug(radius)
            slope = float(self.point.gradient @ step)
            predicted = -0.5 * (slope - float(step @ residual))
            w = self.point.w + step
            trial = Iterate(w, *self.problem.value_grad(w))
            actual = self.point.value - trial.value
            length = float(norm(step))
            radius = min(radius, length) if tries == 1 else radius
            radius = _next_radius(radius, length, slope, actual, predicted)
            # If rounding hides the change of the objective, the gradient decides.
            flat = max(abs(actual), predicted) <= HIDDEN_CHANGE * abs(self.point.value)
            if actual > ETA0 * predicted or (
                flat and norm(trial.gradient) < norm(self.point.gradient)
            ):
                self.point = trial
                self._record()
                continue
            self.problem.value_grad(self.point.w)  # Hessian products refer to this point again.
            small = predicted <= SUSPECT_DECREASE * abs(self.point.value)
            if flat or (small and predicted <= self._noise()):
                return self._status_at_rest()
        return Status.CONVERGED

    def _steihaug(self, radius: float) -> tuple[Vector, Vector]:
        """Solve H s = −g by conjugate gradients, up to the edge of the trust region.

        The function returns the step and the residual −g − Hs.
        """
        step = np.zeros_like(self.point.w)
        residual = -self.point.gradient
        direction = residual.copy()
        size = float(residual @ residual)
        goal = CG_TOL * np.sqrt(size)
        while np.sqrt(size) > goal:
            product = self.problem.hessp(direction)
            alpha = size / float(direction @ product)
            if norm(step + alpha * direction) > radius:
                alpha = _to_the_edge(step, direction, radius)
                step += alpha * direction
                residual -= alpha * product
                break
            step += alpha * direction
            residual -= alpha * product
            size, previous = float(residual @ residual), size
            direction *= size / previous
            direction += residual
        return step, residual


def _to_the_edge(step: Vector, direction: Vector, radius: float) -> float:
    """Return the α ≥ 0 with ‖step + α·direction‖ = radius, by the formula without cancellation."""
    along, size = float(step @ direction), float(direction @ direction)
    room = radius**2 - float(step @ step)
    root = np.sqrt(along**2 + size * room)
    return room / (along + root) if along >= 0 else (root - along) / size


def _next_radius(
    radius: float, length: float, slope: float, actual: float, predicted: float
) -> float:
    """Return the next Δ by rule (37), from the quadratic through both values and the slope."""
    curvature = -actual - slope
    alpha = SIGMA3 if curvature <= 0 else max(SIGMA1, -0.5 * slope / curvature)
    if actual < ETA0 * predicted:
        return min(max(alpha, SIGMA1) * length, SIGMA2 * radius)
    if actual < ETA1 * predicted:
        return max(SIGMA1 * radius, min(alpha * length, SIGMA2 * radius))
    if actual < ETA2 * predicted:
        return max(SIGMA1 * radius, min(alpha * length, SIGMA3 * radius))
    return max(radius, min(alpha * length, SIGMA3 * radius))
