"""A quadratic model with a penalty and bounds, and its minimiser: the inner problem of a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._jit import njit
from .._typing import Vector
from .preconditioner import invert


class Model(NamedTuple):
    """The model ``g'(v − w) + ½(v − w)'H(v − w) + Σ l1|v| + ½ l2 v²`` with low ≤ v ≤ high.

    ``accuracy`` is the largest g²/h at an approximate minimiser, where g is the subgradient of a
    coordinate and h its curvature. It has the unit of the model, whatever the units of v are.
    """

    H: Vector
    gradient: Vector
    w: Vector
    l1: Vector
    l2: Vector
    low: Vector
    high: Vector
    accuracy: float

    def value(self, v: Vector) -> float:
        """Return the value of the model at v."""
        delta = v - self.w
        smooth = float(delta @ (self.gradient + 0.5 * (self.H @ delta)))
        return smooth + float(self.l1 @ np.abs(v) + 0.5 * self.l2 @ v**2)


def minimise_model(model: Model, sweeps: int, rounds: int) -> Vector:
    """Minimise the model by coordinate descent and by Newton's method with fixed signs.

    Coordinate descent finds the coordinates in use, but converges slowly if features are nearly
    equal. For given signs, the minimum is the solution of a linear system. If coordinates stop on
    the way to it, the system of the others is solved, until no coordinate stops.
    """
    v = model.w.copy()
    for _ in range(rounds):
        if descend(*model, sweeps, v):
            break
        while _solve_with_signs(model, v):
            pass
    return v


def sided_limits(low: Vector, high: Vector, signs: Vector) -> tuple[Vector, Vector]:
    """Return the bounds of weights that keep their sign; a weight with sign 0 stays 0."""
    upper = np.where(signs <= 0, np.minimum(high, 0.0), high)
    return np.where(signs >= 0, np.maximum(low, 0.0), low), upper


def _solve_with_signs(model: Model, v: Vector) -> bool:
    """Move v to the minimum among the coordinates in use, given their signs.

    Coordinates that would change their sign stop at 0, and coordinates that would leave their
    bounds stop at the bound. The objective may rise along this path. Then v moves ½, ¼, … of the
    way, or to where the first coordinate stops. Return whether a coordinate has stopped.
    """
    H, gradient, w, l1, l2 = model[:5]
    in_use = (v != 0) & (v > model.low) & (v < model.high)
    used = np.flatnonzero(in_use)
    if not len(used):
        return False
    old, signs = v[used], np.sign(v[used])
    A = H[np.ix_(used, used)]
    A.flat[:: len(used) + 1] += l2[used]
    fixed = np.where(in_use, 0.0, v)
    right = (H @ (w - fixed))[used] if fixed.any() else (H @ w)[used]
    goal = invert(A)(right - gradient[used] - l1[used] * signs)
    low, high = sided_limits(model.low[used], model.high[used], signs)
    limit = np.clip(goal, low, high)
    end = np.full(len(used), np.inf)  # part of the way after which a coordinate stops
    np.divide(old - limit, old - goal, out=end, where=limit != goal)

    def move(part: float) -> float:
        v[used] = np.where(end <= part, limit, old + part * (goal - old))
        return model.value(v)

    first = min(1.0, float(end.min(initial=1.0)))
    least, part = move(first), 1.0
    while part > first and move(part) > least:
        part *= 0.5
    move(max(part, first))
    return bool((limit != goal).any())


@njit(allocates=True)
def descend(H, gradient, w, l1, l2, low, high, accuracy, sweeps, v):  # type: ignore[no-untyped-def]
    """Minimise the model by coordinate descent from v; return whether `accuracy` is reached.

    A full sweep over all coordinates is followed by sweeps over those in use, until these have
    converged. The descent ends when a full sweep finds no coordinate beyond `accuracy`.
    """
    n = len(w)
    slope = gradient.copy()  # gradient of the quadratic part at v
    for j in range(n):
        if v[j] != w[j]:
            for k in range(n):
                slope[k] += (v[j] - w[j]) * H[j, k]
    in_use_only = False
    for _ in range(sweeps):
        worst = 0.0
        for j in range(n):
            if v[j] != 0.0 or not in_use_only:
                bend, old = H[j, j] + l2[j], v[j]
                new = _shrink(slope[j] - H[j, j] * old, l1[j]) / bend
                new = min(max(new, low[j]), high[j])
                if new != old:
                    v[j] = new
                    for k in range(n):
                        slope[k] += (new - old) * H[j, k]
                    worst = max(worst, (new - old) ** 2 * bend)
        if worst <= accuracy and not in_use_only:
            return True
        in_use_only = worst > accuracy
    return False


@njit(inner=True)
def _shrink(pull, l1):  # type: ignore[no-untyped-def]
    """Return −sign(pull)·(|pull| − l1)₊."""
    if pull > l1:
        return l1 - pull
    return -l1 - pull if pull < -l1 else 0.0
