"""The convex penalties: l1 and the elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._typing import Vector
from .base import Kind, SeparablePenalty, check_parameter


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
