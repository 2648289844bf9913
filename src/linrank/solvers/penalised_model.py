"""A quadratic model with a penalty and bounds, and its minimiser: the inner problem of a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Integers, Vector
from .block_descent import descend
from .preconditioner import invert
from .terms import Terms

SYSTEM_SWEEPS = 1 / 6  #: sweeps per coordinate that cost as much as a linear system
SMALLEST_PART = 2.0**-20  #: part of a Newton step below which the step is given up


class Model(NamedTuple):
    """The model ``g'(v − w) + ½(v − w)'H(v − w) + Ω(v)``, with the penalty Ω and its bounds.

    ``accuracy`` is the largest g²/h at an approximate minimiser, where g is the subgradient of a
    coordinate and h its curvature. It has the unit of the model, whatever the units of v are.
    """

    H: Vector
    gradient: Vector
    w: Vector
    terms: Terms
    accuracy: float

    def slope(self, v: Vector) -> Vector:
        """Return the gradient of the quadratic part at v."""
        return self.gradient + self.H @ (v - self.w)

    def value(self, v: Vector) -> float:
        """Return the value of the model at v."""
        delta = v - self.w
        smooth = float(delta @ (self.gradient + 0.5 * (self.H @ delta)))
        return smooth + self.terms.value(v)


def minimise_model(model: Model, sweeps: int, rounds: int) -> Vector:
    """Minimise the model by descent over blocks and by Newton's method with fixed signs.

    The descent minimises over one group, or one coordinate without a group, at a time. It finds the
    coordinates in use, but converges slowly if features are nearly equal. For given signs, the
    penalty of the coordinates in use is smooth, and the minimum of a sum over features is the
    solution of a linear system. If coordinates stop on the way to it, the system of the others is
    solved, until no coordinate stops. Norms of groups are not quadratic and need several systems.
    With them, there are at least as many sweeps before a system as the system costs.
    """
    v, terms = model.w.copy(), model.terms
    if terms.has_norms:
        sweeps = max(sweeps, int(SYSTEM_SWEEPS * len(v)))
    layout = *terms.blocks(), model.accuracy, sweeps, np.empty((4, len(v)))
    for _ in range(rounds):
        if descend(model.H, model.slope(v), *terms[:5], *layout, v):
            break
        while _solve_with_signs(model, v):
            pass
    return v


def _solve_with_signs(model: Model, v: Vector) -> bool:
    """Move v towards the minimum among the coordinates in use, given their signs.

    Coordinates that would change their sign stop at 0, and coordinates that would leave their
    bounds stop at the bound. The objective may rise along this path. Then v moves ½, ¼, … of the
    way, or to where the first coordinate stops. Return whether another step is worthwhile.
    """
    used = np.flatnonzero((v != 0) & (v > model.terms.low) & (v < model.terms.high))
    if not len(used):
        return False
    terms, old = model.terms.of(used), v[used]
    goal = _newton_goal(model, terms, v, used)
    limit = np.clip(goal, *terms.sided_limits(np.sign(old)))
    end = np.full(len(used), np.inf)  # part of the way after which a coordinate stops
    np.divide(old - limit, old - goal, out=end, where=limit != goal)

    def move(part: float) -> float:
        v[used] = np.where(end <= part, limit, old + part * (goal - old))
        return model.value(v)

    before = model.value(v) if terms.has_norms else np.inf
    first = min(1.0, float(end.min(initial=1.0)))
    least, part = min(before, move(first)), 1.0
    while part > first and move(part) > least:
        part *= 0.5
    part = max(part, first)
    while (found := move(part)) > before and part > SMALLEST_PART:
        part *= 0.5
    if found > before:
        move(0.0)
        return False
    return bool((limit != goal).any()) or model.accuracy < before - found < np.inf


def _newton_goal(model: Model, terms: Terms, v: Vector, used: Integers) -> Vector:
    """Return the minimum over some coordinates of the model, with their Ω expanded to second order.

    The second derivative of norm·‖v_G‖ is norm·(I − uu')/‖v_G‖ with u = v_G/‖v_G‖. Its product
    with v_G is 0.
    """
    H, gradient, w = model[:3]
    fixed = v.copy()
    fixed[used] = 0.0
    right = (H @ (w - fixed))[used] if fixed.any() else (H @ w)[used]
    right -= gradient[used] + terms.l1 * np.sign(v[used])
    A = H[np.ix_(used, used)]
    A.flat[:: len(used) + 1] += terms.l2
    if terms.has_norms:
        units = model.terms.units(v)[used]
        right -= terms.norm * units
        stiff = np.divide(terms.norm, model.terms.norms(v)[used])
        A.flat[:: len(used) + 1] += stiff
        members, starts = terms.blocks()
        for block in np.split(members, starts[1:-1]):
            A[np.ix_(block, block)] -= stiff[block[0]] * np.outer(units[block], units[block])
    return invert(A)(right)
