"""The sparsity ratio of a model: features in use / features that have values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from .._typing import Mask, Vector
from .checks import Matrix

BLOCK_ENTRIES = 2**20  #: entries of X that `has_values` reads at a time


def sparsity_ratio(n_used: ArrayLike, n_valued: ArrayLike) -> Vector:
    """Return features in use / features that are not zero in all training documents.

    This is the ratio of Laporte et al. (2014, §V-B), who leave out features that are zero
    everywhere. It is at most 1, also if bounds give such a feature a weight.

    Parameters
    ----------
    n_used : array-like
        Numbers of features with a weight.
    n_valued : array-like
        What `count_valued` returns for the training data.

    Examples
    --------
    >>> float(sparsity_ratio(1, count_valued(np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 0.0]]))))
    0.5
    """
    return np.minimum(1.0, np.asarray(n_used, np.float64) / np.maximum(1.0, n_valued))


def count_valued(X: Matrix) -> int:
    """Count the features that are not zero in all documents."""
    return int(np.count_nonzero(has_values(X)))


def has_values(X: Matrix) -> Mask:
    """Return which features are not zero in all documents, in blocks of rows."""
    found: Mask = np.zeros(X.shape[1], dtype=np.bool_)
    step = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
    for first in range(0, X.shape[0], step):
        rows = X[first : first + step]
        if issparse(rows):
            found[rows.indices[rows.data != 0]] = True
        else:
            found |= rows.any(axis=0)
    return found
