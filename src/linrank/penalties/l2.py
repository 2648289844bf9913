"""Penalties that keep all features: ½‖w‖² and none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._typing import Vector
from .base import Kind, SeparablePenalty


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
