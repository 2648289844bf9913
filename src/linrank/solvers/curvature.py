"""The Hessian of the loss for some features, as proximal Newton keeps it from step to step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import Integers, Vector
from ..engines.base import DENSE_MULTIPLICATION, HESSIAN_ENTRY, Engine

#: Largest factor between the curvatures of H and of the loss along a step from which H learns.
#: With a larger one, H also learns from differences of gradients that are mostly rounding.
LEARNING_RANGE = 100.0


class Curvature(NamedTuple):
    """The Hessian of the loss L at some w, or its BFGS update, for some features in order.

    ``is_exact`` is False if the Hessian was that of a sample of queries.
    """

    features: Integers
    H: Vector
    is_exact: bool

    def has(self, features: Integers) -> bool:
        """Return whether the Hessian includes these features."""
        return bool(np.isin(features, self.features, assume_unique=True).all())

    def of(self, features: Integers) -> Vector:
        """Return the rows and columns of some of its features."""
        if len(features) == len(self.features):
            return self.H
        at = np.searchsorted(self.features, features)
        return self.H[np.ix_(at, at)]

    def learn(self, step: Vector, change: Vector) -> None:
        """Update H by the rule of BFGS, so that H·step is the change of the gradient of L.

        H stays positive definite. It is not updated if the step moves other features.
        """
        inside, change = step[self.features], change[self.features]
        if np.count_nonzero(inside) < np.count_nonzero(step):
            return
        image = self.H @ inside
        known, found = float(inside @ image), float(inside @ change)
        if known < LEARNING_RANGE * found < LEARNING_RANGE**2 * known:
            scaled = np.array([change / found, -image / known])
            np.add(self.H, scaled.T @ np.array([change, image]), out=self.H)


def cost_of_matrix(engine: Engine, n: int) -> float:
    """Return the cost of the Hessian of n features, in Hessian products."""
    work = engine.data.n_docs * n * (HESSIAN_ENTRY + DENSE_MULTIPLICATION * n)
    return work / engine.product_work
