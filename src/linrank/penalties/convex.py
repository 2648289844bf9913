"""The convex penalties: l1 and the elastic net."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Penalty, Vector, check_parameter


@dataclass(frozen=True, eq=False)
class L1(Penalty):
    """``g(u) = u``: the lasso, weighted where weights are given (Laporte et al. 2014, eq. 7).

    Examples
    --------
    >>> L1().for_features(2).prox(np.array([3.0, -0.5]), 1.0).tolist()
    [2.0, -0.0]
    """

    name: ClassVar[str] = "l1"
    convex: ClassVar[bool] = True

    def parts(self) -> tuple[Vector, Vector]:
        """Take all of β as l1."""
        return self.weights, np.zeros_like(self.weights)

    def curve(self, u: Vector) -> Vector:
        """U."""
        return u

    def slope(self, u: Vector) -> Vector:
        """1."""
        return np.ones_like(u)

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """``(u − t)₊`` (eqs. 11 and 12)."""
        return np.maximum(u - t, 0.0)


@dataclass(frozen=True, eq=False)
class ElasticNet(Penalty):
    """``g(u) = ρ·u + ½(1 − ρ)·u²``.

    Parameters
    ----------
    ratio : float
        ρ, above 0 and at most 1, where it is l1.

    Examples
    --------
    >>> ElasticNet(ratio=0.5).for_features(1).prox(np.array([2.0]), 1.0).tolist()
    [1.0]
    """

    ratio: float = 0.5
    name: ClassVar[str] = "elastic_net"
    convex: ClassVar[bool] = True
    parameter: ClassVar[str | None] = "ratio"

    def __post_init__(self) -> None:
        check_parameter("ratio", self.ratio, 0.0, np.nextafter(1.0, 2.0))

    def parts(self) -> tuple[Vector, Vector]:
        """ρβ and (1 − ρ)β."""
        return self.ratio * self.weights, (1.0 - self.ratio) * self.weights

    def curve(self, u: Vector) -> Vector:
        """ρu + ½(1 − ρ)u²."""
        return u * (self.ratio + 0.5 * (1.0 - self.ratio) * u)

    def slope(self, u: Vector) -> Vector:
        """ρ + (1 − ρ)u."""
        return self.ratio + (1.0 - self.ratio) * u

    def shrink(self, u: Vector, t: Vector) -> Vector:
        """``(u − ρt)₊ / (1 + (1 − ρ)t)``."""
        return np.maximum(u - self.ratio * t, 0.0) / (1.0 + (1.0 - self.ratio) * t)
