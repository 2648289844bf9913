"""Coordinates of documents in the feature space of a kernel (Chapelle & Keerthi 2010, §6.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, eigh, norm, solve_triangular
from scipy.linalg.lapack import dpstrf

from ..errors import DataError
from .base import Vector

RANK_TOL = 1e-12  #: directions of the feature space below this part of the largest are rounding
PSD_TOL = 1e-6  #: what rounding may take from a positive semidefinite matrix
CHUNK_BYTES = 2**24  #: of the kernel matrix that are computed at a time to score documents
INDEFINITE = (
    "the kernel matrix is not positive semidefinite, or features far from zero make it so by "
    "rounding: choose another kernel or parameters, or centre the features"
)


@dataclass(frozen=True)
class FeatureMap:
    """Documents in an orthonormal basis v_p = Σ_i A_ip φ(x_i) of a part of feature space.

    Attributes
    ----------
    psi : float64 array of shape (n_docs, n_components)
        The coordinates ψ_p(x) = Σ_i A_ip k(x, x_i) of the documents.
    anchors : int64 array
        The documents x_i that the basis is made of.
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
    anchors: NDArray[np.int64]
    dual: Callable[[Vector], Vector]


def cholesky_map(K: Vector) -> FeatureMap:
    """ψ = L of K = LL', with pivots, so that the first documents span the others.

    These are the anchors, and A = L⁻ᵀ there. Destroys K.
    """
    probe = _Probe(K)
    L, pivots, rank, _ = dpstrf(K.T, tol=RANK_TOL * probe.largest, lower=1, overwrite_a=1)
    order = np.asarray(pivots, np.int64) - 1
    psi = np.empty((len(K), rank))
    psi[order] = L[:, :rank]
    for p in range(rank):
        psi[order[p], p + 1 :] = 0.0  # above the diagonal is what was left of K
    probe.check(psi)
    anchors = order[:rank]
    return FeatureMap(
        psi, anchors, lambda w: solve_triangular(psi[anchors], w, lower=True, trans="T")
    )


def eigen_map(K: Vector) -> FeatureMap:
    """ψ = UΛ^½ of K = UΛU', A = UΛ^-½: the map of kernel PCA. Destroys K."""
    probe = _Probe(K)
    values, vectors = eigh(K, overwrite_a=True, check_finite=False)
    first = int(np.searchsorted(values, RANK_TOL * values[-1], side="right"))
    values, vectors = values[first:], vectors[:, first:]
    vectors *= np.sqrt(values)
    psi = np.ascontiguousarray(vectors)
    probe.check(psi)
    return FeatureMap(psi, np.arange(len(psi)), lambda w: psi @ (w.T / values).T)


def nystroem_map(
    kernel: Callable[[Any, Any], Vector], rows: Any, documents: Any, anchors: NDArray[np.int64]
) -> FeatureMap:
    """ψ of all documents in the span of the anchors, by `eigen_map` of these.

    ``kernel(rows[i], documents[j])`` is the kernel matrix between two lots of documents.
    """
    own = eigen_map(np.ascontiguousarray(kernel(rows[anchors], documents[anchors])))
    A = own.dual(np.eye(own.psi.shape[1]))
    psi = np.empty((rows.shape[0], A.shape[1]))
    for a, b in row_chunks(len(psi), len(anchors)):
        psi[a:b] = kernel(rows[a:b], documents[anchors]) @ A
    return FeatureMap(psi, anchors, own.dual)


def identity_map(K: Vector) -> FeatureMap:
    """ψ = K, A = I: no basis, but the β of Newton's method."""
    return FeatureMap(K, np.arange(len(K)), lambda w: w)


def smallest_lift(K: Vector) -> float:
    """What to add to the diagonal of K to have it positive definite, in spite of rounding.

    Tried are 1e-12, 1e-11, …, 1e-6 of its largest entry.
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
    """What K does to one vector, kept to see whether a factor that replaces it does the same."""

    def __init__(self, K: Vector) -> None:
        self.z = np.random.default_rng(0).standard_normal(len(K))
        self.product = K @ self.z
        self.largest = float(K.diagonal().max())
        if not np.isfinite(self.product).all():
            raise DataError("the kernel is NaN or infinite for some documents")
        if self.largest <= 0:
            raise DataError("the kernel of every document with itself is 0: nothing can be learnt")
        if self._differs(self.z @ K):
            raise DataError("the kernel is not symmetric: k(x, z) differs from k(z, x)")

    def check(self, psi: Vector) -> None:
        """Raise an error unless ψψ' is K."""
        if self._differs(psi @ (self.z @ psi)):
            raise DataError(INDEFINITE)

    def _differs(self, product: Vector) -> bool:
        return norm(product - self.product) > PSD_TOL * self.largest * norm(self.z)


def row_chunks(n_rows: int, width: int) -> list[tuple[int, int]]:
    """Ranges of rows of which a kernel matrix of that width takes about `CHUNK_BYTES`."""
    step = max(1, CHUNK_BYTES // (8 * width))
    return [(a, min(a + step, n_rows)) for a in range(0, n_rows, step)]
