"""The penalties that are sums over features: convex, such as ½‖w‖² and l1, and concave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._util.types import Vector
from .penalty import Kind, SeparablePenalty, check_parameter, keep_better

# --------------------------------------------------------------------------------------------------
# The convex penalties: l1 and the elastic net.


@dataclass(frozen=True, eq=False)
class L1(SeparablePenalty):
    """The lasso, ``g(u) = u`` (Laporte et al. 2014, eq. 7). With costs it is the weighted lasso.

    Parameters
    ----------
    weights, bounds
        See `Penalty`.

    Examples
    --------
    >>> L1().for_features(2).prox(np.array([3.0, -0.5]), 1.0).tolist()
    [2.0, -0.0]
    """

    name: ClassVar[str] = "l1"
    kind: ClassVar[Kind] = "convex"

    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 = β and l2 = 0."""
        return self.weights, np.zeros_like(self.weights)

    def curve(self, u: Vector) -> Vector:
        """Return g(u) = u."""
        return u

    def slope(self, u: Vector) -> Vector:
        """Return g'(u) = 1."""
        return np.ones_like(u)

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return (u − t)₊ (eqs. 11 and 12)."""
        return np.maximum(u - t, 0.0)


@dataclass(frozen=True, eq=False)
class ElasticNet(SeparablePenalty):
    """The elastic net, ``g(u) = ρ·u + ½(1 − ρ)·u²``.

    Parameters
    ----------
    ratio : float
        ρ, above 0 and at most 1. With ρ = 1 the penalty is l1.
    weights, bounds
        See `Penalty`.

    Examples
    --------
    >>> ElasticNet(ratio=0.5).for_features(1).prox(np.array([2.0]), 1.0).tolist()
    [1.0]
    """

    ratio: float = 0.5
    name: ClassVar[str] = "elastic_net"
    kind: ClassVar[Kind] = "convex"
    parameter: ClassVar[str | None] = "ratio"

    def __post_init__(self) -> None:
        check_parameter("ratio", self.ratio, 0.0, np.nextafter(1.0, 2.0))

    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 = ρβ and l2 = (1 − ρ)β."""
        return self.ratio * self.weights, (1.0 - self.ratio) * self.weights

    def curve(self, u: Vector) -> Vector:
        """Return g(u) = ρu + ½(1 − ρ)u²."""
        return u * (self.ratio + 0.5 * (1.0 - self.ratio) * u)

    def slope(self, u: Vector) -> Vector:
        """Return g'(u) = ρ + (1 − ρ)u."""
        return self.ratio + (1.0 - self.ratio) * u

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return (u − ρt)₊ / (1 + (1 − ρ)t)."""
        return np.maximum(u - self.ratio * t, 0.0) / (1.0 + (1.0 - self.ratio) * t)


# --------------------------------------------------------------------------------------------------
# Penalties that keep all features: ½‖w‖² and none.


@dataclass(frozen=True, eq=False)
class L2(SeparablePenalty):
    """The penalty of RankSVM, ``Ω(w) = ½‖w‖²`` (Chapelle & Keerthi 2010; Lee & Lin 2014, eq. 3).

    It has a derivative, so it is a part of the gradient and the Hessian of a `Problem`.

    Parameters
    ----------
    weights
        Not used: all features have the cost 1.
    bounds
        See `Penalty`.

    Examples
    --------
    >>> L2().value(np.array([3.0, 4.0]))
    12.5
    """

    name: ClassVar[str] = "l2"
    takes_costs: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    kind: ClassVar[Kind] = "l2"
    curvature: ClassVar[float] = 1.0

    def value(self, w: Vector) -> float:
        """Return Ω(w)."""
        return 0.5 * float(w @ w)

    def gradient(self, w: Vector) -> Vector:
        """Return ∇Ω(w) = w."""
        return w

    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 = 0 and l2 = 1 for each feature."""
        return np.zeros_like(self.weights), self.weights

    def curve(self, u: Vector) -> Vector:
        """Return g(u) = ½u²."""
        return 0.5 * u**2

    def slope(self, u: Vector) -> Vector:
        """Return g'(u) = u."""
        return u

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return u/(1 + t)."""
        return u / (1.0 + t)


@dataclass(frozen=True, eq=False)
class NoPenalty(SeparablePenalty):
    """No penalty, ``Ω(w) = 0``: only the loss is minimised.

    There may be no optimum. If the training data can be ranked without error, the weights grow
    without limit, and the objective falls to 0.

    Parameters
    ----------
    weights
        Not used: all features have the cost 0.
    bounds
        See `Penalty`.

    Examples
    --------
    >>> from linrank import SparseRankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> ranker = SparseRankSVM(C=1.0, penalty=NoPenalty()).fit(data)
    >>> ranker.result_.n_selected == data.n_features
    True
    """

    name: ClassVar[str] = "none"
    cost: ClassVar[float] = 0.0
    takes_costs: ClassVar[bool] = False
    selects: ClassVar[bool] = False
    kind: ClassVar[Kind] = "convex"

    def parts(self) -> tuple[Vector, Vector]:
        """Return l1 = l2 = 0 for each feature."""
        return self.weights, self.weights

    def curve(self, u: Vector) -> Vector:
        """Return g(u) = 0."""
        return np.zeros_like(u)

    def slope(self, u: Vector) -> Vector:
        """Return g'(u) = 0."""
        return np.zeros_like(u)

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """Return u: nothing is shrunk."""
        return u


# --------------------------------------------------------------------------------------------------
# Penalties that are concave in |w|: large weights cost less, so fewer features are selected.


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
        curvature = t / ((self.a - 1) * lam)
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.clip((u - curvature * end) / (1.0 - curvature), lam, end)
        parts = [np.clip(u - t, 0.0, lam), np.where(curvature < 1, middle, end), np.maximum(u, end)]
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
