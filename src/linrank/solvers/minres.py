"""MINRES: the solution of a symmetric linear system with the smallest residual."""

from __future__ import annotations

import numpy as np
from scipy.linalg import norm

from .._typing import Vector
from .conjugate_gradients import Product, Solution


def minres(product: Product, right: Vector, tol: float, most: int) -> Solution:
    """Solve A x = right approximately by MINRES (Paige & Saunders 1975).

    After k products, x minimises ‖right − Ax‖ over the Krylov space of A and `right` with k
    dimensions. The Lanczos process builds an orthonormal basis of this space, in which A is
    tridiagonal. Givens rotations factor the tridiagonal matrix. The iterations end when
    ‖right − Ax‖ ≤ tol·‖right‖.

    Parameters
    ----------
    product : callable
        ``v ↦ Av`` for a symmetric A.
    right : array of shape (n,)
    tol : float
        Larger values need fewer products and leave a larger residual.
    most : int
        The largest number of products.

    Examples
    --------
    >>> A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> found = minres(lambda v: A @ v, b, tol=1e-12, most=10)
    >>> bool(np.allclose(A @ found.x, b)), found.n_products
    (True, 2)
    """
    size = start = float(norm(right))
    x, residual = np.zeros_like(right), right.copy()
    if start == 0:
        return Solution(x, residual, 0.0, 0)
    basis, basis_before = right / start, np.zeros_like(right)
    direction, direction_before = np.zeros_like(right), np.zeros_like(right)
    image, image_before = np.zeros_like(right), np.zeros_like(right)  # A times both directions
    cos, sin, cos_before, sin_before, beta = 1.0, 0.0, 1.0, 0.0, 0.0
    n_products = 0
    while n_products < most:
        n_products += 1
        along = product(basis)
        alpha = float(basis @ along)
        following = along - alpha * basis - beta * basis_before
        beta_next = float(norm(following))
        # The column (beta, alpha, beta_next) of the tridiagonal matrix, rotated.
        far, near = sin_before * beta, cos * cos_before * beta + sin * alpha
        diagonal = cos * alpha - sin * cos_before * beta
        length = float(np.hypot(diagonal, beta_next))
        if length == 0:  # A is singular on this space
            break
        cos_before, sin_before, cos, sin = cos, sin, diagonal / length, beta_next / length
        direction_before, direction = (
            direction, (basis - near * direction - far * direction_before) / length
        )  # fmt: skip
        image_before, image = image, (along - near * image - far * image_before) / length
        x += cos * size * direction
        residual -= cos * size * image
        size *= -sin
        if abs(size) <= tol * start:
            break
        basis_before, basis, beta = basis, following / beta_next, beta_next
    return Solution(x, residual, size**2, n_products)
