"""A Newton step with fixed signs of the weights, by Hessian products instead of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._typing import Vector
from .conjugate_gradients import Product, Solution, conjugate_gradients
from .terms import Terms


class SignedStep:
    """The model of a step in which weights keep their signs and groups about their directions.

    With fixed signs, l1 is linear. A weight of 0 gets the sign with which f falls. The norm of a
    group is expanded to second order, norm·(u'δ + ½ δ'(I − uu')δ/r), where u is the direction of
    its weights and r their norm. For a group without weights, u is the direction of steepest
    descent, and r is the length of a proximal gradient step.

    Parameters
    ----------
    terms : Terms
        The penalty of the features that may move.
    w, gradient, diagonal : array of shape (n,)
        Their weights, and the gradient and the diagonal of the Hessian of f.
    product : callable
        The product with the Hessian of f.
    """

    def __init__(
        self, terms: Terms, w: Vector, gradient: Vector, diagonal: Vector, product: Product
    ) -> None:
        self.terms, self.w, self._product = terms, w, product
        signs = np.where(w != 0, np.sign(w), -np.sign(gradient))
        self.low, self.high = terms.sided_limits(signs)
        diagonal = diagonal + terms.l2
        floor = np.finfo(float).eps * float(diagonal.max())
        self.diagonal = np.maximum(diagonal, floor or 1.0)
        self.slope = gradient + terms.l1 * signs + terms.l2 * w
        self.units, self.stiff = np.zeros_like(w), np.zeros_like(w)
        if terms.has_norms:
            self._add_norms()
        self.stays = ((w <= self.low) & (self.slope > 0)) | ((w >= self.high) & (self.slope < 0))
        self.slope[self.stays] = 0.0

    def _add_norms(self) -> None:
        terms, norms = self.terms, self.terms.norms(self.w)
        first = (terms.norms(self.slope) - terms.norm) / terms.sums(self.diagonal)
        radius = np.where(norms > 0, norms, first)
        self.units = terms.units(np.where(norms > 0, self.w, -self.slope))
        self.slope += terms.norm * self.units
        np.divide(terms.norm, radius, out=self.stiff, where=radius > 0)

    def product(self, v: Vector) -> Vector:
        """Return the Hessian of the model times v; features that stay have no row."""
        image = self._product(v) + self.terms.l2 * v
        if self.stiff.any():
            image += self.stiff * (v - self.units * self.terms.sums(self.units * v))
        return np.where(self.stays, 0.0, image)

    def precondition(self, v: Vector) -> Vector:
        """Return v times the inverse of the Hessian with the diagonal of f instead of its matrix.

        A block is E − κuu' with E = diagonal + κ. Its inverse is that of Sherman and Morrison.
        """
        inner = v / (self.diagonal + self.stiff)
        if not self.stiff.any():
            return inner
        lean = self.units / (self.diagonal + self.stiff)
        left = self.terms.sums(self.units * lean * self.diagonal)
        factor = np.divide(self.terms.sums(self.units * inner), left, where=left > 0,
                           out=np.zeros_like(v))  # fmt: skip
        return inner + self.stiff * lean * factor

    def solve(self, residual: float, most: int) -> Solution:
        """Minimise the model by conjugate gradients with at most `most` products."""
        return conjugate_gradients(self.product, -self.slope, self.precondition, residual, most)

    def targets(self, solution: Solution) -> Iterator[Vector]:
        """Yield the weights after the step, and after a step along the preconditioned gradient.

        Weights that would change their sign are set to 0, and so are groups that would turn round.
        Weights that would leave their bounds are set to the bound.
        """
        for delta in (solution.x, -self.precondition(self.slope)):
            target = self.w + delta
            if self.stiff.any():
                forward = self.terms.sums(self.units * target)
                target[(self.stiff > 0) & (forward <= 0)] = 0.0
            yield np.clip(target, self.low, self.high)
