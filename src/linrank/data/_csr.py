"""CSR matrices made from given arrays without the copies and conversions of scipy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._typing import Array


def row_pointers(indptr: Array) -> Array:
    """Return row pointers in the type that kernels expect: int32 if it can count the entries.

    scipy chooses the same type, so its matrices are used without a copy.
    """
    wide = len(indptr) and indptr[-1] > np.iinfo(np.int32).max
    return indptr.astype(np.int64 if wide else np.int32, copy=False)


def assemble_csr(
    indptr: Array, indices: NDArray[np.int32], data: Array, n_features: int
) -> sparse.csr_array:
    """Return a CSR matrix that holds these arrays, whose indices are sorted and unique.

    scipy's constructor would copy `indices` in order to give both index arrays the same type.
    """
    X = sparse.csr_array((len(indptr) - 1, n_features), dtype=data.dtype)
    X.indptr, X.indices, X.data = row_pointers(indptr), indices, data
    X.has_sorted_indices = X.has_canonical_format = True
    return X
