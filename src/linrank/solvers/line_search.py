"""Exact line search for a convex objective, by secant or cubic interpolation of its slope."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from .._typing import Vector
from ..problem import Problem
from .base import Iterate

InterpolationName = Literal["secant", "cubic"]

MAX_TRIALS = 50  #: trial points before a line search fails


class Trial(NamedTuple):
    """A point on the line, at the step length t, with the slope φ'(t)."""

    t: float
    point: Iterate
    slope: float


def line_search(
    problem: Problem,
    origin: Iterate,
    direction: Vector,
    first: float,
    interpolation: InterpolationName = "secant",
    tol: float = 1e-3,
) -> Trial | None:
    """Minimise φ(t) = f(w + t·s) over t > 0; the result is the last trial, or None.

    φ is convex, so its slope φ' increases. Secants or cubics through the last two trials give the
    next trial (Chapelle & Keerthi 2010, §2). A trial outside the interval in which φ' changes its
    sign is replaced by the middle of this interval. The search ends when |φ'(t)| ≤ tol·|φ'(0)|. If
    f is piecewise quadratic, φ' is piecewise linear. The secant method then finds the minimum
    exactly as soon as two trials are on the piece of the minimum.

    Parameters
    ----------
    problem : Problem
    origin : Iterate
        The point w with its objective and gradient.
    direction : float64 array
        s, a direction of descent.
    first : float
        The first trial.
    interpolation : {"secant", "cubic"}
    tol : float
        Larger values need fewer trials.

    Examples
    --------
    >>> from linrank import make_problem, make_ranking
    >>> problem = make_problem(make_ranking(random_state=0), C=0.01)
    >>> w = np.zeros(problem.n_features)
    >>> origin = Iterate(w, *problem.value_grad(w))
    >>> found = line_search(problem, origin, -origin.gradient, first=1.0)
    >>> found.point.value < origin.value
    True
    """
    before = Trial(0.0, origin, float(origin.gradient @ direction))
    goal, low, high, t = tol * abs(before.slope), 0.0, np.inf, first
    if not before.slope < 0:
        return None
    for _ in range(MAX_TRIALS):
        w = origin.w + t * direction
        point = Iterate(w, *problem.value_grad(w))
        here = Trial(t, point, float(point.gradient @ direction))
        if abs(here.slope) <= goal:
            return here
        low, high = (t, high) if here.slope < 0 else (low, t)
        t = _interpolate(interpolation, before, here)
        if not low < t < high:
            t = 2.0 * low if high == np.inf else 0.5 * (low + high)
        before = here
    return here if here.point.value < origin.value else None


def _interpolate(interpolation: InterpolationName, a: Trial, b: Trial) -> float:
    """Return where the slope through two trials is 0: by a secant, or by a cubic in φ."""
    if interpolation == "cubic":
        one = a.slope + b.slope - 3.0 * (a.point.value - b.point.value) / (a.t - b.t)
        root = one**2 - a.slope * b.slope
        if root >= 0:
            two = np.copysign(np.sqrt(root), b.t - a.t)
            bend = b.slope - a.slope + 2.0 * two
            return b.t - (b.t - a.t) * (b.slope + two - one) / bend if bend else np.nan
    rise = b.slope - a.slope
    return b.t - b.slope * (b.t - a.t) / rise if rise else np.nan
