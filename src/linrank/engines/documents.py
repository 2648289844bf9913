"""The Hessian from a sample of documents, if queries are too large for a sample of queries."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._rows import AnyMatrix, dense_rows
from .._threads import blas_threads, run
from .._typing import Integers, Vector

BLOCK_NUMBERS = 2**21  #: entries of sampled documents multiplied at a time; more take more memory


def hessian_of_documents(
    X: AnyMatrix, query_ptr: Integers, curvature: Vector, n_rows: int, n_threads: int
) -> Vector:
    """Compute Σ_i curvature_i (x_i − μ)(x_i − μ)' over a sample of about `n_rows` documents.

    μ is the mean of the sampled documents of the query of i, weighted by curvature. If all n
    documents of a query are compared with each other, this is the Hessian of the query up to a
    factor of 1 − 1/n. The sample is evenly spaced in the order of curvature. The sum is multiplied
    by the curvature of all documents, divided by that of the sampled documents.

    Parameters
    ----------
    X : array or CSR of shape (n_docs, n_features)
    query_ptr : int64 array
        The rows of query q are ``query_ptr[q]:query_ptr[q + 1]``.
    curvature : float64 array of shape (n_docs,)
    n_rows, n_threads : int

    Examples
    --------
    >>> X, ptr = np.array([[0.0], [1.0], [5.0], [7.0]]), np.array([0, 2, 4])
    >>> hessian_of_documents(X, ptr, np.ones(4), n_rows=4, n_threads=1)
    array([[2.5]])
    """
    picks = ((np.arange(n_rows) + 0.5) * len(curvature) / n_rows).astype(np.int64)
    rows = np.sort(np.argsort(curvature, kind="stable")[picks])
    weight = curvature[rows]
    _, group = np.unique(np.searchsorted(query_ptr, rows, side="right"), return_inverse=True)
    mass = np.maximum(np.bincount(group, weight), np.finfo(float).tiny)[:, None]
    n_blocks = max(n_threads, -(-n_rows * X.shape[1] // BLOCK_NUMBERS))
    blocks = np.array_split(np.arange(n_rows), n_blocks)
    sums = np.zeros((len(mass), X.shape[1]))
    for block in blocks:
        place = group[block], np.arange(len(block))
        owner = sparse.csr_array((weight[block], place), (len(mass), len(block)))
        sums += owner @ dense_rows(X, rows[block])
    means = sums / mass
    tasks = [(X, blocks[k::n_threads], rows, group, weight, means) for k in range(n_threads)]
    with blas_threads(1):  # each thread of `run` multiplies its own blocks
        H = np.sum(run(_scatter, tasks, n_threads), axis=0)
    if sparse.issparse(X):
        H -= sums.T @ means
    total = weight.sum()
    return H * (curvature.sum() / total if total > 0 else 1.0)


def _scatter(
    X: AnyMatrix,
    blocks: list[Integers],
    rows: Integers,
    group: Integers,
    weight: Vector,
    means: Vector,
) -> Vector:
    """Compute Σ_i weight_i (x_i − μ)(x_i − μ)' over blocks of rows; for sparse X without the μ.

    The means would fill a sparse X. The caller subtracts them from the result instead.
    """
    H = np.zeros((X.shape[1], X.shape[1]))
    for block in blocks:
        part, own = dense_rows(X, rows[block]), weight[block]
        if sparse.issparse(part):
            H += part.T @ (sparse.diags_array(own) @ part)
        else:
            part = part - means[group[block]]
            H += (part.T * own) @ part
    return H
