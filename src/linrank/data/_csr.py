"""CSR matrices from their arrays, whatever scipy would like to do to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def assemble_csr(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    data: NDArray[Any],
    n_features: int,
) -> sparse.csr_array:
    """A CSR matrix that holds these very arrays, which are sorted and without repeats.

    scipy's constructor would copy `indices`, to give both index arrays one type.
    """
    X = sparse.csr_array((len(indptr) - 1, n_features), dtype=data.dtype)
    X.indptr, X.indices, X.data = indptr, indices, data
    X.has_sorted_indices = X.has_canonical_format = True
    return X
