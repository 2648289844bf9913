"""Maximisation of a concave quadratic on the simplex, for the dual of cutting planes."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrs, dpstrf, dtrtrs

from .._typing import Integers, Vector

TOL = 1e-14  #: relative violation of a constraint that rounding can cause
#: Relative squared distance to the span of other vectors up to which a vector depends on them.
RANK_TOLERANCE = 1e-13


def maximise_on_simplex(G: Vector, b: Vector, start: Vector) -> Vector:
    """Return the λ that maximises b'λ − ½λ'Gλ subject to λ ≥ 0 and Σλ = 1.

    An active-set method: some entries of λ are free, and the others are 0. From the best λ of
    this form, the method frees the entry with the largest violation of r_j ≤ λ'r, where
    r = b − Gλ. It then moves to the best λ with the free entries. Entries that reach 0 on the
    way are no longer free. The objective rises with every set of free entries. No set therefore
    occurs twice, and the method ends. If a set occurs again because of rounding, λ is optimal up
    to rounding.

    Parameters
    ----------
    G : float64 array of shape (n, n)
        Positive semidefinite, of any rank.
    b : float64 array of shape (n,)
    start : float64 array of shape (n,)
        A point of the simplex. A start near the solution needs fewer iterations.

    Examples
    --------
    >>> maximise_on_simplex(np.eye(3), np.array([1.0, 1.0, -1.0]), np.array([0.0, 0.0, 1.0]))
    array([0.5, 0.5, 0. ])
    """
    x = start.copy()
    free = np.flatnonzero(x > 0)
    lengths = np.sqrt(np.maximum(G.diagonal(), 0.0))  # G holds products of vectors.
    seen: set[bytes] = set()
    while True:
        free = _climb(G, b, x, free)
        slope = b - G[:, free] @ x[free]
        size = np.abs(b) + lengths * (lengths @ x)
        violation = slope - x @ slope
        violation[violation <= TOL * (size + x @ size)] = 0.0
        violation[free] = 0.0
        if not violation.any() or free.tobytes() in seen:
            _climb(G, b, x, free)  # reduce the rounding of the last step
            return x / x.sum()
        seen.add(free.tobytes())
        free = np.sort(np.append(free, np.argmax(violation)))


def _climb(G: Vector, b: Vector, x: Vector, free: Integers) -> Integers:
    """Move x to the best point with the free entries; return the entries that are still free."""
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
    """Return an ascent direction p with Σp = 0, and its length; 1 is the Newton step.

    G holds the products of vectors, and e_0 belongs to the shortest of them. In the basis
    z_i = e_i − e_0, the curvature consists of products of differences of the vectors. Each
    difference is scaled by the lengths of its two vectors.
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
    """Return the s with curve·s = rise and the length 1.

    If the matrix is singular, return an s with curve·s = 0 and an infinite length, because the
    slope is constant along s.
    """
    step = np.zeros(len(rise))
    if not len(rise):
        return step, 1.0
    factor, order, rank, _ = dpstrf(curve, tol=RANK_TOLERANCE, lower=1)
    order -= 1
    if rank == len(rise):
        step[order] = dpotrs(factor, rise[order], lower=1)[0]
        return step, 1.0
    step[order[rank]] = -1.0
    if rank:
        lower = factor[:rank, :rank]
        step[order[:rank]] = dtrtrs(lower, factor[rank, :rank], lower=1, trans=1)[0]
    return (step if rise @ step >= 0 else -step), np.inf
