"""Products with X in float32 by a library, as in Jin & Lin 2014, §3.1: Sgemv of cuBLAS.

CuPy calls cuBLAS for a dense X and cuSPARSE for a sparse one. Its arrays and those of numba share
their memory through ``__cuda_array_interface__``, so nothing is copied between the two. In numba's
simulator there is no card, and the library is numpy with copies of the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import config, cuda
from scipy import sparse

from ..._rows import Matrix
from ..._typing import Vector
from .device import DeviceArray


class LibraryProducts:
    """Xv and X'u in float32, computed by a library.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_docs, n_features)
    """

    def __init__(self, X: Matrix) -> None:
        self._simulated = bool(config.ENABLE_CUDASIM)
        self._X = _on_host(X) if self._simulated else _on_card(X)

    def score(self, v: Vector) -> DeviceArray:
        """Return Xv on the device."""
        scores = self._X @ self._array(np.ascontiguousarray(v, np.float32))
        return cuda.to_device(scores) if self._simulated else cuda.as_cuda_array(scores)

    def gather(self, u: DeviceArray) -> Vector:
        """Return X'u on the host."""
        total = self._X.T @ self._array(u)
        return np.asarray(total if self._simulated else total.get(), np.float64)

    def dot(self, u: DeviceArray, v: DeviceArray) -> float:
        """Return u'v."""
        return float(self._array(u) @ self._array(v))

    def _array(self, array: Any) -> Any:
        """Return an array of the library with the values of one on the host or the device."""
        if self._simulated:
            return array.copy_to_host() if hasattr(array, "copy_to_host") else array
        import cupy

        return cupy.asarray(array)


def _on_host(X: Matrix) -> Any:
    return X.astype(np.float32, copy=False)


def _on_card(X: Matrix) -> Any:
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    X = _on_host(X)
    return csr_matrix(sparse.csr_matrix(X)) if sparse.issparse(X) else cupy.asarray(X)
