"""Coordinates of documents in the feature space of a kernel (Chapelle & Keerthi 2010, §6.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, eigh, norm, solve_triangular
from scipy.linalg.lapack import dpstrf

from .._typing import Integers, Vector
from ..data.checks import Matrix
from ..errors import DataError

#: Documents in the form that a kernel takes: a matrix, or row numbers for "precomputed".
Documents: TypeAlias = Matrix
Kernel: TypeAlias = Callable[[Matrix, Documents], Vector]  #: ``(X, Z) ↦ k(x_i, z_j)``

RANK_TOL = 1e-12  #: relative size below which a direction of the feature space is rounding
PSD_TOL = 1e-6  #: relative error above which K is not positive semidefinite
CHUNK_BYTES = 2**24  #: bytes of the kernel matrix that are computed at a time to score documents
INDEFINITE = (
    "the kernel matrix is not positive semidefinite. Features far from 0 can cause this by "
    "rounding. Choose another kernel or other parameters, or centre the features."
)


@dataclass(frozen=True)
class FeatureMap:
    """Coordinates of documents in an orthonormal basis v_p = Σ_i A_ip φ(x_i) of feature space.

    The basis spans the feature space, or a part of it.

    Attributes
    ----------
    psi : float64 array of shape (n_docs, n_components)
        The coordinates ψ_p(x) = Σ_i A_ip k(x, x_i) of the documents.
    anchors : int64 array
        The documents x_i of which the basis consists.
    dual : callable
        ``w ↦ β = Aw``, for which w'ψ(x) = Σ_i β_i k(x, x_i).

    Examples
    --------
    >>> K = np.array([[4.0, 2.0, 2.0], [2.0, 2.0, 1.0], [2.0, 1.0, 1.0]])
    >>> features = cholesky_map(K.copy())
    >>> np.allclose(features.psi @ features.psi.T, K), features.anchors.tolist()
    (True, [0, 1])
    """

    psi: Vector
    anchors: Integers
    dual: Callable[[Vector], Vector]


def cholesky_map(K: Vector) -> FeatureMap:
    """Return the map ψ = L of the Cholesky factorisation K = LL' with pivots.

    The first documents in the order of the pivots span the others. They are the anchors, and
    A = L⁻ᵀ there. The factorisation overwrites K.
    """
    probe = _Probe(K)
    L, pivots, rank, _ = dpstrf(K.T, tol=RANK_TOL * probe.largest, lower=1, overwrite_a=1)
    order = np.asarray(pivots, np.int64) - 1
    psi = np.empty((len(K), rank))
    psi[order] = L[:, :rank]
    for p in range(rank):
        psi[order[p], p + 1 :] = 0.0  # LAPACK leaves entries of K above the diagonal
    probe.check(psi)
    anchors = order[:rank]
    return FeatureMap(
        psi, anchors, lambda w: solve_triangular(psi[anchors], w, lower=True, trans="T")
    )


def eigen_map(K: Vector) -> FeatureMap:
    """Return the map of kernel PCA: ψ = UΛ^½ and A = UΛ^-½, where K = UΛU'.

    The factorisation overwrites K.
    """
    probe = _Probe(K)
    values, vectors = eigh(K, overwrite_a=True, check_finite=False)
    first = int(np.searchsorted(values, RANK_TOL * values[-1], side="right"))
    values, vectors = values[first:], vectors[:, first:]
    vectors *= np.sqrt(values)
    psi = np.ascontiguousarray(vectors)
    probe.check(psi)
    return FeatureMap(psi, np.arange(len(psi)), lambda w: psi @ (w.T / values).T)


def nystroem_map(
    kernel: Kernel, rows: Matrix, documents: Documents, anchors: Integers
) -> FeatureMap:
    """Return the coordinates ψ of all documents in the span of the anchors.

    The basis is that of `eigen_map` for the anchors. ``kernel(rows[i], documents[j])`` is the
    kernel matrix between the documents i and the documents j.
    """
    own = eigen_map(np.ascontiguousarray(kernel(rows[anchors], documents[anchors])))
    A = own.dual(np.eye(own.psi.shape[1]))
    psi = np.empty((rows.shape[0], A.shape[1]))
    for a, b in row_chunks(len(psi), len(anchors)):
        psi[a:b] = kernel(rows[a:b], documents[anchors]) @ A
    return FeatureMap(psi, anchors, own.dual)


def identity_map(K: Vector) -> FeatureMap:
    """Return ψ = K and A = I, for Newton's method in β itself."""
    return FeatureMap(K, np.arange(len(K)), lambda w: w)


def smallest_lift(K: Vector) -> float:
    """Return the smallest number that makes K positive definite if added to its diagonal.

    Rounding can make a singular K indefinite. The numbers tried are 1e-12, 1e-11, …, 1e-6 of the
    largest diagonal entry.
    """
    largest = _Probe(K).largest
    part = RANK_TOL
    while part <= PSD_TOL:
        lifted = K.copy()
        lifted.flat[:: len(K) + 1] += part * largest
        try:
            cho_factor(lifted.T, overwrite_a=True, check_finite=False)
        except LinAlgError:
            part *= 10.0
        else:
            return part * largest
    raise DataError(INDEFINITE)


class _Probe:
    """The product of K with a random vector, to check a factorisation that overwrites K."""

    def __init__(self, K: Vector) -> None:
        self.z = np.random.default_rng(0).standard_normal(len(K))
        self.product = K @ self.z
        self.largest = float(K.diagonal().max())
        if not np.isfinite(self.product).all():
            raise DataError(
                "the kernel is NaN or infinite for some documents. Scale the features, or choose "
                "other parameters of the kernel."
            )
        if self.largest <= 0:
            raise DataError(
                "the kernel of every document with itself is 0, so nothing can be learnt. Choose "
                "another kernel or other parameters."
            )
        if self._differs(self.z @ K):
            raise DataError(
                "the kernel is not symmetric: k(x, z) differs from k(z, x). Use a symmetric kernel."
            )

    def check(self, psi: Vector) -> None:
        """Raise a `DataError` unless ψψ' is K."""
        if self._differs(psi @ (self.z @ psi)):
            raise DataError(INDEFINITE)

    def _differs(self, product: Vector) -> bool:
        return norm(product - self.product) > PSD_TOL * self.largest * norm(self.z)


def row_chunks(n_rows: int, width: int) -> list[tuple[int, int]]:
    """Split rows into ranges for which a kernel matrix of `width` columns has `CHUNK_BYTES`."""
    step = max(1, CHUNK_BYTES // (8 * width))
    return [(a, min(a + step, n_rows)) for a in range(0, n_rows, step)]
