"""Symmetric matrix products, of which only one triangle is computed."""

from __future__ import annotations

import numpy as np

from .._typing import Vector

SYMMETRIC_BLOCK = 32  #: rows computed at a time; more save less work, fewer are slower in BLAS


def add_upper(total: Vector, A: Vector, B: Vector) -> None:
    """Add the upper triangle of the symmetric matrix AB' to `total`; the rest is undefined.

    Blocks below the diagonal are left out, which saves up to half of the work.

    Examples
    --------
    >>> total = np.zeros((2, 2))
    >>> add_upper(total, np.array([[1.0], [2.0]]), np.array([[1.0], [2.0]]))
    >>> np.triu(total).tolist()
    [[1.0, 2.0], [0.0, 4.0]]
    """
    for a in range(0, len(A), SYMMETRIC_BLOCK):
        b = a + SYMMETRIC_BLOCK
        total[a:b, a:] += A[a:b] @ B[a:].T


def mirror_upper(total: Vector) -> None:
    """Copy the upper triangle of a square matrix to the lower one.

    Examples
    --------
    >>> H = np.array([[1.0, 2.0], [9.0, 4.0]])
    >>> mirror_upper(H)
    >>> H.tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    for a in range(0, len(total), SYMMETRIC_BLOCK):
        b = a + SYMMETRIC_BLOCK
        block = total[a:b, a:b]
        block[:] = np.triu(block) + np.triu(block, 1).T
        total[b:, a:b] = total[a:b, b:].T
