"""Hashes of features, which identify rows and queries by content."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._rows import multiply
from .._typing import Integers, Vector
from ._csr import assemble_csr
from .checks import Matrix, take_rows

KEY_ROWS = 8192  #: rows whose missing values are replaced at a time; more rows take more memory


def query_keys(
    X: Matrix, query_ptr: Integers, n_threads: int | None = None, has_missing: bool = False
) -> Vector:
    """Return ``Σ_i |x_i·v|`` over the rows i of each query, for a fixed vector v.

    X is read once. A key is not finite if a feature is infinite, or NaN unless `has_missing` is
    true. The keys therefore also serve as the check that all features are finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # The caller checks the keys.
        return np.add.reduceat(row_keys(X, n_threads, has_missing), query_ptr[:-1])


def row_keys(X: Matrix, n_threads: int | None = None, has_missing: bool = False) -> Vector:
    """Return ``|x_i·v|`` for every row, where v holds pseudo-random numbers from 1 to 2.

    If `has_missing` is true, features that are NaN count as 0.
    """
    features = np.arange(X.shape[1]) if not _is_wide(X) else np.unique(X.indices)
    v = 1.0 + (features * 0.6180339887498949) % 1.0
    if _is_wide(X):  # A full v could take more memory than X.
        places = np.searchsorted(features, X.indices).astype(X.indices.dtype)
        X = assemble_csr(X.indptr, places, X.data, len(v))
    keys = np.abs(multiply(X, v, n_threads))
    unknown = np.flatnonzero(np.isnan(keys)) if has_missing else np.empty(0, np.int64)
    for first in range(0, len(unknown), KEY_ROWS):
        rows = unknown[first : first + KEY_ROWS]
        keys[rows] = np.abs(multiply(_zero_for_missing(take_rows(X, rows)), v, n_threads))
    return keys


def _zero_for_missing(X: Matrix) -> Matrix:
    """Set the entries of a copy that are NaN to 0, and return the copy."""
    values = X.data if sparse.issparse(X) else X
    values[np.isnan(values)] = 0.0
    return X


def _is_wide(X: Matrix) -> bool:
    """Return whether X has more features than entries, so that most features never occur."""
    return bool(sparse.issparse(X)) and X.shape[1] > X.nnz


def rank_by_content(keys: Vector) -> Integers:
    """Number queries in the order of their keys, which does not depend on the order of rows."""
    rank = np.empty(len(keys), np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    return rank
