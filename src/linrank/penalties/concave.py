"""Penalties that are concave in |w|: large weights cost less, so fewer features are selected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._typing import Vector
from .base import Kind, SeparablePenalty, check_parameter, keep_better


@dataclass(frozen=True, eq=False)
class MCP(SeparablePenalty):
    """The minimax concave penalty (Zhang 2010): ``g(u) = u − u²/2κ`` up to κ = γλ, then κ/2.

    λ = 1/C, as in Laporte et al. 2014, table II: g'(u) = max(1 − u/γλ, 0).

    Parameters
    ----------
    gamma : float
        γ, which is 2 in the paper. A larger γ is closer to l1.
    strength : float
        λ, which `at` sets to 1/C.
    weights, bounds
        See `Penalty`.

    Examples
    --------
    >>> penalty = MCP(gamma=2.0).for_features(3)
    >>> penalty.prox(np.array([0.5, 1.5, 5.0]), 1.0).tolist()
    [0.0, 1.0, 5.0]
    """

    gamma: float = 2.0
    strength: float = 1.0
    name: ClassVar[str] = "mcp"
    kind: ClassVar[Kind] = "concave"
    parameter: ClassVar[str | None] = "gamma"

    def __post_init__(self) -> None:
        check_parameter("gamma", self.gamma, 0.0)

    def at(self, C: float) -> MCP:
        """Return the penalty with λ = 1/C."""
        return replace(self, strength=1.0 / C)

    @property
    def knot(self) -> float:
        """The weight κ = γλ, beyond which the penalty is constant."""
        return self.gamma * self.strength

    def curve(self, u: Vector) -> Vector:
        """Return g(u) = u − u²/2κ, or κ/2 beyond κ."""
        inside = np.minimum(u, self.knot)
        return inside - inside**2 / (2.0 * self.knot)

    def slope(self, u: Vector) -> Vector:
        """Return g'(u) = max(1 − u/κ, 0)."""
        return np.maximum(1.0 - u / self.knot, 0.0)

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return u beyond κ, else (u − t)₊ / (1 − t/κ); if t ≥ κ, the better of 0 and u."""
        t = np.broadcast_to(t, u.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            inner = np.minimum(np.maximum(u - t, 0.0) / (1.0 - t / self.knot), self.knot)
        v = np.where((u > self.knot) | (t >= self.knot), u, inner)
        return keep_better(v, u, t, self.curve(v))


@dataclass(frozen=True, eq=False)
class SCAD(SeparablePenalty):
    """Smoothly clipped absolute deviation (Fan & Li 2001).

    The slope g'(u) is 1 up to λ = 1/C, and falls to 0 at aλ.

    Parameters
    ----------
    a : float
        A number above 2, which is 3.7 in Fan & Li. A larger a is closer to l1.
    strength : float
        λ, which `at` sets to 1/C.
    weights, bounds
        See `Penalty`.

    Examples
    --------
    >>> penalty = SCAD(a=3.7).for_features(3)
    >>> penalty.prox(np.array([0.5, 1.5, 5.0]), 1.0).tolist()
    [0.0, 0.5, 5.0]
    """

    a: float = 3.7
    strength: float = 1.0
    name: ClassVar[str] = "scad"
    kind: ClassVar[Kind] = "concave"
    parameter: ClassVar[str | None] = "a"

    def __post_init__(self) -> None:
        check_parameter("a", self.a, 2.0)

    def at(self, C: float) -> SCAD:
        """Return the penalty with λ = 1/C."""
        return replace(self, strength=1.0 / C)

    def curve(self, u: Vector) -> Vector:
        """Return g(u): u up to λ, then a parabola, and ½(a + 1)λ beyond aλ."""
        lam, end = self.strength, self.a * self.strength
        middle = (2 * end * u - u**2 - lam**2) / (2 * (self.a - 1) * lam)
        return np.where(u <= lam, u, np.where(u <= end, middle, 0.5 * (self.a + 1) * lam))

    def slope(self, u: Vector) -> Vector:
        """Return g'(u): 1 up to λ, then (aλ − u)₊ / ((a − 1)λ)."""
        return np.clip((self.a * self.strength - u) / ((self.a - 1) * self.strength), 0.0, 1.0)

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return the best minimum of the three parts of g."""
        lam, end = self.strength, self.a * self.strength
        t = np.broadcast_to(t, u.shape)
        bend = t / ((self.a - 1) * lam)
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.clip((u - bend * end) / (1.0 - bend), lam, end)
        parts = [np.clip(u - t, 0.0, lam), np.where(bend < 1, middle, end), np.maximum(u, end)]
        values = [0.5 * (v - u) ** 2 + t * self.curve(v) for v in parts]
        return np.choose(np.argmin(values, axis=0), parts)


@dataclass(frozen=True, eq=False)
class Log(SeparablePenalty):
    """The log penalty ``g(u) = log(1 + u/ε)``, with g'(u) = 1/(ε + u).

    It is that of Laporte et al. 2014, table II.

    Parameters
    ----------
    epsilon : float
        ε, which is 0.1 in the paper. A larger ε is closer to l1.
    weights, bounds
        See `Penalty`.

    Examples
    --------
    >>> penalty = Log(epsilon=0.1).for_features(2)
    >>> penalty.prox(np.array([0.5, 5.0]), 1.0).round(2).tolist()
    [0.0, 4.8]
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "log"
    kind: ClassVar[Kind] = "concave"
    parameter: ClassVar[str | None] = "epsilon"

    def __post_init__(self) -> None:
        check_parameter("epsilon", self.epsilon, 0.0)

    def curve(self, u: Vector) -> Vector:
        """Return g(u) = log(1 + u/ε)."""
        return np.log1p(u / self.epsilon)

    def slope(self, u: Vector) -> Vector:
        """Return g'(u) = 1/(ε + u)."""
        return 1.0 / (self.epsilon + u)

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return the larger root of (v − u)(ε + v) + t = 0, or 0 where that is better."""
        t = np.broadcast_to(t, u.shape)
        room = (u + self.epsilon) ** 2 - 4.0 * t
        v = 0.5 * (u - self.epsilon + np.sqrt(np.maximum(room, 0.0)))
        v = np.where(room >= 0, np.maximum(v, 0.0), 0.0)
        return keep_better(v, u, t, self.curve(v))


@dataclass(frozen=True, eq=False)
class Lp(SeparablePenalty):
    """The l_p penalty ``g(u) = u^p`` with p < 1 and g'(u) = p·u^(p−1).

    It is that of Laporte et al. 2014, table II.

    Parameters
    ----------
    p : float
        A number between 0 and 1, which is 0.5 in the paper. A larger p is closer to l1.
    weights, bounds
        See `Penalty`.

    Examples
    --------
    >>> penalty = Lp(p=0.5).for_features(2)
    >>> penalty.prox(np.array([0.5, 5.0]), 1.0).round(2).tolist()
    [0.0, 4.77]
    """

    p: float = 0.5
    name: ClassVar[str] = "lp"
    kind: ClassVar[Kind] = "concave"
    parameter: ClassVar[str | None] = "p"

    def __post_init__(self) -> None:
        check_parameter("p", self.p, 0.0, 1.0)

    def curve(self, u: Vector) -> Vector:
        """Return g(u) = u^p."""
        return u**self.p

    def slope(self, u: Vector) -> Vector:
        """Return g'(u) = p·u^(p−1), which is infinite at 0. Small steps cannot leave 0."""
        with np.errstate(divide="ignore"):
            return self.p * u ** (self.p - 1.0)

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return the larger root of v + tp·v^(p−1) = u, or 0 if that is better.

        Newton's method finds the root from above.
        """
        t = np.maximum(np.broadcast_to(t, u.shape), np.finfo(float).tiny)
        lowest = (t * self.p * (1 - self.p)) ** (
            1 / (2 - self.p)
        )  # the derivative is smallest here
        has_root = (u > 0) & (lowest + t * self.p * lowest ** (self.p - 1.0) < u)
        v = np.where(has_root, u, 1.0)
        for _ in range(60):
            residual = v + t * self.p * v ** (self.p - 1.0) - u
            step = residual / (1.0 - t * self.p * (1 - self.p) * v ** (self.p - 2.0))
            new = np.where(has_root, np.maximum(v - step, lowest), v)
            if np.all(np.abs(new - v) <= 1e-15 * np.abs(v)):
                break
            v = new
        v = np.where(has_root, v, 0.0)
        return keep_better(v, u, t, self.curve(v))
