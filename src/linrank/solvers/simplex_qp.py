"""A small concave quadratic on the simplex: the dual of the cutting planes' master problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

Vector = NDArray[np.float64]

TOL = 1e-12  #: violations below this part of the terms they are the sum of are rounding
DEPENDENT = 1e-13  #: of a vector's squared length: what is left of one that others span


def maximise_on_simplex(G: Vector, b: Vector, start: Vector) -> Vector:
    """The λ that maximises b'λ − ½λ'Gλ subject to λ ≥ 0 and Σλ = 1.

    An active-set method. From the best λ with some entries free and the others 0, it frees
    the entry with the largest violation of r_j ≤ λ'r, where r = b − Gλ, and goes to the best
    λ with the free entries, letting go of those that reach 0 on the way. The objective rises
    with every set of free entries, so that none comes twice and the method ends; where
    rounding brings one back, there is no more to be had.

    Parameters
    ----------
    G : float64 array of shape (n, n)
        Positive semidefinite, of any rank.
    b : float64 array of shape (n,)
    start : float64 array of shape (n,)
        A point of the simplex; the nearer to the solution, the less there is to do.

    Examples
    --------
    >>> maximise_on_simplex(np.eye(3), np.array([1.0, 1.0, -1.0]), np.array([0.0, 0.0, 1.0]))
    array([0.5, 0.5, 0. ])
    """
    x = start.copy()
    free = x > 0
    seen: set[bytes] = set()
    while True:
        _climb(G, b, x, free)
        slope = b - G[:, free] @ x[free]
        size = np.abs(b) + np.abs(G[:, free]) @ x[free]
        violation = slope - x @ slope
        violation[free | (violation <= TOL * (size + x @ size))] = 0.0
        if not violation.any() or free.tobytes() in seen:
            return x / x.sum()
        seen.add(free.tobytes())
        free[np.argmax(violation)] = True


def _climb(G: Vector, b: Vector, x: Vector, free: NDArray[np.bool_]) -> None:
    """Move x to the best point with the free entries; those that reach 0 are free no more."""
    full_steps = 0
    while full_steps < 2:  # the second takes away the rounding of the first
        index = np.flatnonzero(free)
        block = G[np.ix_(index, index)]
        direction, length = _ascent(block, b[index] - block @ x[index])
        falling = np.flatnonzero(direction < 0)
        with np.errstate(over="ignore"):
            room = x[index[falling]] / -direction[falling]
        blocked = len(falling) > 0 and room.min() <= length
        x[index] += (room.min() if blocked else length) * direction
        np.maximum(x, 0.0, out=x)  # rounding
        full_steps += 1
        if blocked:
            out = index[falling[np.argmin(room)]]
            x[out], free[out] = 0.0, False
            full_steps = 0


def _ascent(G: Vector, slope: Vector) -> tuple[Vector, float]:
    """A direction p with Σp = 0 that rises, and how far: 1 is Newton's step to the top.

    In the basis z_i = e_i − e_0, with G the products of some vectors and e_0 the shortest of
    them, the curvature is the products of their differences, each relative to the lengths
    that it is the difference of.
    """
    squares = G.diagonal()
    origin = int(np.argmin(squares))
    others = np.flatnonzero(np.arange(len(slope)) != origin)
    to_origin = G[origin]
    curve = G - to_origin - to_origin[:, None] + squares[origin]
    scale = 1.0 / np.sqrt(np.maximum(squares + squares[origin], np.finfo(float).tiny))[others]
    curve = curve[np.ix_(others, others)] * scale * scale[:, None]
    step, length = _newton_step(curve, (slope[others] - slope[origin]) * scale)
    direction = np.zeros(len(slope))
    direction[others] = step * scale
    direction[origin] = -direction.sum()
    return direction, length


def _newton_step(curve: Vector, rise: Vector) -> tuple[Vector, float]:
    """The s with curve·s = rise and length 1; or one with curve·s = 0 and infinite length.

    The second where the matrix is singular: the slope stays the same all along such an s.
    """
    step = np.zeros(len(rise))
    if not len(rise):
        return step, 1.0
    factor, order, rank, _ = dpstrf(curve, tol=DEPENDENT, lower=1)
    order -= 1
    lower = factor[:rank, :rank]
    if rank == len(rise):
        half = solve_triangular(lower, rise[order], lower=True, check_finite=False)
        step[order] = solve_triangular(lower, half, lower=True, trans=1, check_finite=False)
        return step, 1.0
    step[order[rank]] = -1.0
    if rank:
        step[order[:rank]] = solve_triangular(
            lower, factor[rank, :rank], lower=True, trans=1, check_finite=False
        )
    return (step if rise @ step >= 0 else -step), np.inf
