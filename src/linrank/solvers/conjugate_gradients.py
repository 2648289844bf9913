"""Conjugate gradients: the solution of a linear system by products with its matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import Vector

Product = Callable[[Vector], Vector]  #: a matrix-vector product


def conjugate_gradients(
    product: Product, right: Vector, precondition: Product, forcing: float, most: int
) -> tuple[Vector, Vector, int]:
    """Solve A x = right approximately by conjugate gradients with a preconditioner P.

    The iterations end when ``r'P⁻¹r`` of the residual r is at most `forcing` times its value at
    x = 0.

    Parameters
    ----------
    product, precondition : callable
        ``v ↦ Av`` and ``v ↦ P⁻¹v``, for positive definite A and P.
    right : array of shape (n,)
    forcing : float
        Larger values need fewer products and leave a larger residual.
    most : int
        The largest number of products.

    Returns
    -------
    x : float64 array of shape (n,)
        The approximate solution. It is a direction of descent after any number of products.
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
        if bend <= 0:  # rounding hides the curvature
            return (x if n_products > 1 else z), residual, n_products
        x += size / bend * direction
        residual -= size / bend * image
        z = precondition(residual)
        size, before = float(residual @ z), size
        if size <= forcing * start:
            break
        direction = z + (size / before) * direction
    return x, residual, n_products
