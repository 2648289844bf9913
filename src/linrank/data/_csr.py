"""CSR matrices from their arrays, whatever scipy would like to do to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def row_pointers(indptr: NDArray[Any]) -> NDArray[Any]:
    """Row pointers in the one type that kernels see: 32 bits while the entries can be counted so.

    It is the type that scipy chooses, so that its matrices are taken as they are.
    """
    wide = len(indptr) and indptr[-1] > np.iinfo(np.int32).max
    return indptr.astype(np.int64 if wide else np.int32, copy=False)


def assemble_csr(
    indptr: NDArray[Any], indices: NDArray[np.int32], data: NDArray[Any], n_features: int
) -> sparse.csr_array:
    """A CSR matrix that holds these very arrays, which are sorted and without repeats.

    scipy's constructor would copy `indices`, to give both index arrays one type.
    """
    X = sparse.csr_array((len(indptr) - 1, n_features), dtype=data.dtype)
    X.indptr, X.indices, X.data = row_pointers(indptr), indices, data
    X.has_sorted_indices = X.has_canonical_format = True
    return X
