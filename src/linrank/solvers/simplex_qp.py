"""A small concave quadratic on the simplex: the dual of the cutting planes' master problem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrs, dpstrf, dtrtrs

from .._typing import Vector

Index = NDArray[np.int64]

TOL = 1e-14  #: violations below this part of the terms they are the sum of are rounding
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
    free = np.flatnonzero(x > 0)
    lengths = np.sqrt(np.maximum(G.diagonal(), 0.0))  # of the vectors whose products are G
    seen: set[bytes] = set()
    while True:
        free = _climb(G, b, x, free)
        slope = b - G[:, free] @ x[free]
        size = np.abs(b) + lengths * (lengths @ x)
        violation = slope - x @ slope
        violation[violation <= TOL * (size + x @ size)] = 0.0
        violation[free] = 0.0
        if not violation.any() or free.tobytes() in seen:
            _climb(G, b, x, free)  # once more, against the rounding of the last step
            return x / x.sum()
        seen.add(free.tobytes())
        free = np.sort(np.append(free, np.argmax(violation)))


def _climb(G: Vector, b: Vector, x: Vector, free: Index) -> Index:
    """Move x to the best point with the free entries; those that reach 0 are free no more."""
    while True:
        block = G[free[:, None], free]
        direction, length = _ascent(block, b[free] - block @ x[free])
        falling = np.flatnonzero(direction < 0)
        with np.errstate(over="ignore"):
            room = x[free[falling]] / -direction[falling]
        nearest = int(np.argmin(room)) if len(room) else -1
        blocked = nearest >= 0 and room[nearest] <= length
        x[free] = np.maximum(0.0, x[free] + (room[nearest] if blocked else length) * direction)
        if not blocked:
            return free
        x[free[falling[nearest]]] = 0.0
        free = np.delete(free, falling[nearest])


def _ascent(G: Vector, slope: Vector) -> tuple[Vector, float]:
    """A direction p with Σp = 0 that rises, and how far: 1 is Newton's step to the top.

    In the basis z_i = e_i − e_0, with G the products of some vectors and e_0 the shortest of
    them, the curvature is the products of their differences, each relative to the lengths
    that it is the difference of.
    """
    squares = G.diagonal()
    origin = int(np.argmin(squares))
    scale = 1.0 / np.sqrt(np.maximum(squares + squares[origin], np.finfo(float).tiny))
    curve = (G - G[origin] - (G[origin] - squares[origin])[:, None]) * scale * scale[:, None]
    others = np.delete(np.arange(len(slope)), origin)
    rise = (slope - slope[origin]) * scale
    step, length = _newton_step(curve[others[:, None], others], rise[others])
    direction = np.zeros(len(slope))
    direction[others] = step * scale[others]
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
    if rank == len(rise):
        step[order] = dpotrs(factor, rise[order], lower=1)[0]
        return step, 1.0
    step[order[rank]] = -1.0
    if rank:
        lower = factor[:rank, :rank]
        step[order[:rank]] = dtrtrs(lower, factor[rank, :rank], lower=1, trans=1)[0]
    return (step if rise @ step >= 0 else -step), np.inf
