"""Conjugate gradients: the solution of a linear system by products with its matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._typing import Vector

Product = Callable[[Vector], Vector]  #: a matrix-vector product


class Solution(NamedTuple):
    """An approximate solution x of A x = b, with its residual r = b − Ax.

    ``size`` is r'P⁻¹r. x is a direction of descent of ½x'Ax − b'x after any number of products.
    """

    x: Vector
    residual: Vector
    size: float
    n_products: int


def conjugate_gradients(
    product: Product, right: Vector, precondition: Product, forcing: float, most: int
) -> Solution:
    """Solve A x = right approximately by conjugate gradients with a preconditioner P.

    The iterations end when ``r'P⁻¹r`` of the residual r is at most `forcing` times its value at
    x = 0.

    Parameters
    ----------
    product, precondition : callable
        ``v ↦ Av`` and ``v ↦ P⁻¹v``, for positive definite A and P. Both must return new arrays:
        without a preconditioner, `precondition` is ``np.copy``.
    right : array of shape (n,)
    forcing : float
        Larger values need fewer products and leave a larger residual.
    most : int
        The largest number of products.

    Examples
    --------
    >>> A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> found = conjugate_gradients(lambda v: A @ v, b, np.copy, forcing=1e-20, most=10)
    >>> bool(np.allclose(A @ found.x, b))
    True
    """
    x, residual = np.zeros_like(right), right.copy()
    z = precondition(residual)
    direction = z
    size = start = float(residual @ z)
    for n_products in range(1, most + 1):
        image = product(direction)
        bend = float(direction @ image)
        if bend <= 0:  # rounding hides the curvature
            return Solution(x if n_products > 1 else z, residual, size, n_products)
        x += size / bend * direction
        residual -= size / bend * image
        z = precondition(residual)
        size, before = float(residual @ z), size
        if size <= forcing * start:
            break
        direction = z + (size / before) * direction
    return Solution(x, residual, size, n_products)
