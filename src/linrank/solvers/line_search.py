"""Exact line search for a convex objective, by secant or cubic interpolation of its slope."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from .._typing import Vector
from ..engines.base import Line
from ..penalties.l2 import L2
from ..problem import Problem
from .base import Iterate

InterpolationName = Literal["secant", "cubic"]

MAX_TRIALS = 50  #: trial points before a line search fails


class Trial(NamedTuple):
    """A step length t with φ(t) and φ'(t)."""

    t: float
    value: float
    slope: float


class Found(NamedTuple):
    """The step length that a line search has found, and the point at its end."""

    t: float
    point: Iterate


def line_search(
    problem: Problem,
    origin: Iterate,
    direction: Vector,
    first: float,
    interpolation: InterpolationName = "secant",
    tol: float = 1e-3,
) -> Found | None:
    """Minimise φ(t) = f(w + t·s) over t > 0; the result is None if there is no lower point.

    φ is convex, so its slope φ' increases. Secants or cubics through the last two trials give the
    next trial (Chapelle & Keerthi 2010, §2). A trial outside the interval in which φ' changes its
    sign is replaced by the middle of this interval. The search ends when |φ'(t)| ≤ tol·|φ'(0)|. If
    f is piecewise quadratic, φ' is piecewise linear. The secant method then finds the minimum
    exactly as soon as two trials are on the piece of the minimum.

    The scores Xw and Xs are computed once. A trial then costs O(n log n), and no pass over X.

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
    before = Trial(0.0, origin.value, float(origin.gradient @ direction))
    goal, low, high, t = tol * abs(before.slope), 0.0, np.inf, first
    if not before.slope < 0:
        return None
    loss = problem.engine.line(origin.w, direction)
    for _ in range(MAX_TRIALS):
        here = _trial(problem, loss, origin.w, direction, t)
        if abs(here.slope) <= goal:
            break
        low, high = (t, high) if here.slope < 0 else (low, t)
        t = _interpolate(interpolation, before, here)
        if not low < t < high:
            t = 2.0 * low if high == np.inf else 0.5 * (low + high)
        before = here
    w = origin.w + here.t * direction
    point = Iterate(w, *problem.value_grad(w))
    is_minimum = abs(here.slope) <= goal or point.value < origin.value
    return Found(here.t, point) if is_minimum else None


def _trial(problem: Problem, loss: Line, w: Vector, direction: Vector, t: float) -> Trial:
    """Evaluate f at w + t·direction, given the loss on this line."""
    penalty, there = problem.penalty, w + t * direction
    assert isinstance(penalty, L2)
    value, slope = loss(t)
    slope = float(penalty.gradient(there) @ direction) + problem.C * slope
    return Trial(t, penalty.value(there) + problem.C * value, slope)


def _interpolate(interpolation: InterpolationName, a: Trial, b: Trial) -> float:
    """Return where the slope through two trials is 0: by a secant, or by a cubic in φ."""
    if interpolation == "cubic":
        one = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.t - b.t)
        root = one**2 - a.slope * b.slope
        if root >= 0:
            two = np.copysign(np.sqrt(root), b.t - a.t)
            bend = b.slope - a.slope + 2.0 * two
            return b.t - (b.t - a.t) * (b.slope + two - one) / bend if bend else np.nan
    rise = b.slope - a.slope
    return b.t - b.slope * (b.t - a.t) / rise if rise else np.nan
