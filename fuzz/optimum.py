"""Slow reference optima, by listed pairs and dense Newton steps, with a proved lower bound.

The objective is Ω(w) + Σ_p c_p·ℓ(d_p'w + 1 − m_p) over pairs p with differences d_p, weights c_p
and margins m_p. This module does not use linrank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

Vector = np.ndarray
#: Hinges (τ, a, c) of the losses ℓ(t) = Σ a·max(0, τ − t) + c·max(0, τ − t)².
TABLES = {
    "squared_hinge": [(1.0, 0.0, 1.0)],
    "huber": [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)],
    "hinge": [(1.0, 1.0, 0.0)],
}


def loss_parts(table: Any, t: Vector) -> tuple[Vector, Vector, Vector]:
    """Return ℓ(t), ℓ'(t) and ℓ''(t); the table "logistic_exact" stands for log(1 + exp(−t))."""
    if isinstance(table, str):
        chance = expit(-t)
        return np.logaddexp(0.0, -t), -chance, chance * (1.0 - chance)
    value, slope, bend = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
    for tau, a, c in table:
        gap = np.maximum(0.0, tau - t)
        value += a * gap + c * gap**2
        slope -= (gap > 0) * a + 2.0 * c * gap
        bend += 2.0 * c * (gap > 0)
    return value, slope, bend


@dataclass
class SlowProblem:
    """A problem with listed pairs and the penalty Ω(w) = Σ l1·|w| + ½·l2·w²."""

    D: Vector
    c: Vector
    margins: Vector
    table: Any
    l1: Vector
    l2: Vector

    def smooth(self, w: Vector, table: Any = None) -> tuple[float, Vector, Vector]:
        """Return value, gradient and Hessian of the objective without its l1 part."""
        t = self.D @ w + 1.0 - self.margins
        value, slope, bend = loss_parts(self.table if table is None else table, t)
        H = (self.D.T * (self.c * bend)) @ self.D + np.diag(self.l2)
        gradient = self.D.T @ (self.c * slope) + self.l2 * w
        return float(self.c @ value + 0.5 * self.l2 @ w**2), gradient, H

    def value(self, w: Vector) -> float:
        """Return the objective at w."""
        return self.smooth(w)[0] + float(self.l1 @ np.abs(w))

    def bound(self, w: Vector, table: Any = None) -> float:
        """Return a lower bound on the optimum by Fenchel duality, from the loss gradient at w.

        With f the loss and g its gradient, f* is convex and f*(0) ≤ 0. So for 0 ≤ s ≤ 1 the optimum
        is at least s·(f(w) − w'g) − Ω*(−s·g), where Ω*(z) = Σ max(0, |z| − l1)²/(2·l2).
        """
        value, gradient, _ = self.smooth(w, table)
        f, g = value - 0.5 * float(self.l2 @ w**2), gradient - self.l2 * w
        best, walls = -np.inf, self.l2 == 0
        with np.errstate(divide="ignore", invalid="ignore"):
            most = min(1.0, float(np.min((self.l1 / np.abs(g))[walls], initial=1.0)))
        for s in (most, 0.5 * most, 0.0):
            over = np.maximum(0.0, s * np.abs(g) - self.l1)[~walls]
            conjugate = float(np.sum(over**2 / (2.0 * self.l2[~walls])))
            best = max(best, s * (f - float(w @ g)) - conjugate)
        return best


def _descend(problem: SlowProblem, w: Vector, table: Any, steps: int = 300) -> Vector:
    """Minimise by Newton's method with fixed signs: w does not cross 0 where l1 > 0."""
    for _ in range(steps):
        value, gradient, H = problem.smooth(w, table)
        sign = np.sign(w)
        total = gradient + problem.l1 * sign
        free = (w != 0) | (problem.l1 == 0) | (np.abs(gradient) > problem.l1)
        enters = free & (w == 0) & (problem.l1 > 0)
        total[enters] = gradient[enters] - problem.l1[enters] * np.sign(gradient[enters])
        sign = np.where(enters, -np.sign(gradient), sign)
        step = np.zeros_like(w)
        at = np.flatnonzero(free)
        if not len(at):
            break
        ridge = 1e-13 * np.trace(H) * np.eye(len(at))
        step[at] = np.linalg.lstsq(H[np.ix_(at, at)] + ridge, -total[at], rcond=None)[0]
        start, length = value + float(problem.l1 @ np.abs(w)), 1.0
        while length > 1e-14:
            new = w + length * step
            new[(problem.l1 > 0) & (new * sign < 0)] = 0.0
            if problem.smooth(new, table)[0] + float(problem.l1 @ np.abs(new)) < start:
                break
            length *= 0.5
        else:
            break
        w = new
    return w


def solve(problem: SlowProblem) -> tuple[float, float]:
    """Return the objective of a near-optimal w, and a lower bound on the optimum."""
    w = np.zeros(problem.D.shape[1])
    if problem.table != TABLES["hinge"]:
        w = _descend(problem, w, problem.table)
        return problem.value(w), problem.bound(w)
    bound = -np.inf
    for mu in 10.0 ** np.arange(0, -10, -1.0):  # the smoothed hinge is a lower bound
        table = [(1.0, 0.0, 0.5 / mu), (1.0 - mu, 0.0, -0.5 / mu)]
        w = _descend(problem, w, table, 60)
        bound = max(bound, problem.bound(w, table))
    return problem.value(w), bound
