"""Conjugate gradients: a linear system from products with its matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .base import Vector

Product = Callable[[Vector], Vector]


def conjugate_gradients(
    product: Product, right: Vector, precondition: Product, forcing: float, most: int
) -> tuple[Vector, Vector, int]:
    """``A⁻¹·right``, until ``r'P⁻¹r`` of the residual r is so small a part of what it was.

    Parameters
    ----------
    product, precondition : callable
        ``v ↦ Av`` and ``v ↦ P⁻¹v``, A and P positive definite.
    right : array of shape (n,)
    forcing : float
    most : int
        The largest number of products.

    Returns
    -------
    x : float64 array of shape (n,)
        A direction of descent, however early it ends.
    residual : float64 array of shape (n,)
        ``right − Ax``.
    n_products : int

    Examples
    --------
    >>> A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> x, residual, n_products = conjugate_gradients(lambda v: A @ v, b, lambda v: v, 1e-20, 10)
    >>> bool(np.allclose(A @ x, b))
    True
    """
    x, residual = np.zeros_like(right), right.copy()
    z = precondition(residual)
    direction = z
    size = start = float(residual @ z)
    for n_products in range(1, most + 1):
        image = product(direction)
        bend = float(direction @ image)
        if bend <= 0:  # flat, as far as rounding lets it be seen
            return (x if n_products > 1 else z), residual, n_products
        x += size / bend * direction
        residual -= size / bend * image
        z = precondition(residual)
        size, before = float(residual @ z), size
        if size <= forcing * start:
            break
        direction = z + (size / before) * direction
    return x, residual, n_products
