"""The Hessian of the domination loss as a matrix, without a Hessian product for each feature.

In the scores, the Hessian M is a diagonal D minus products of two vectors per level
(`linrank.losses.domination`). X'MX is therefore X'DX minus products of sums of rows of X. For a
sparse X, the cost of X'DX is the number of pairs of entries that lie in the same row.
"""

from __future__ import annotations

import numpy as np

from .._jit import njit
from .._rows import (
    CSR,
    Columns,
    KernelMatrix,
    Matrix,
    choose_columns,
    copy_columns,
    kernel_matrix,
    row_ranges,
)
from .._threads import blas_threads, run
from .._typing import Integers, Vector
from ..counting.base import Plan, State
from ..losses.domination import DominationPlan, DominationState, curvature_parts

BLOCK_ROWS = 1024  #: rows of a dense X multiplied at a time; more take more memory


def hessian_by_level(
    X: Matrix, plan: Plan, state: State, features: Integers, n_threads: int
) -> Vector:
    """Compute X'MX in some features, with M at the scores last linearised."""
    assert isinstance(plan, DominationPlan)
    assert isinstance(state, DominationState)
    parts = curvature_parts(plan, state)
    chosen = choose_columns(features, X.shape[1])
    shape = len(state.total), len(features)
    matrix, b, c = kernel_matrix(X), np.zeros(shape), np.zeros(shape)
    H = gram(X, parts.diagonal, chosen, n_threads)
    tasks = [
        (matrix, parts.group, weight, chosen, sums)
        for weight, sums in ((parts.share, b), (parts.cross, c))
    ]
    run(_sum_csr if isinstance(matrix, CSR) else _sum_dense, tasks, n_threads)
    _sum_upward(plan.query_nodes, state.decay, b)
    mixed = b.T @ (0.5 * parts.square[:, None] * b + c)
    H -= mixed
    H -= mixed.T
    return H


def gram(X: Matrix, weight: Vector, chosen: Columns, n_threads: int) -> Vector:
    """Compute X' diag(weight) X in the chosen features; the weights must not be negative."""
    ranges = row_ranges(X, n_threads)
    tasks = [(kernel_matrix(X), a, b, weight, chosen) for a, b in ranges]
    with blas_threads(1):  # each thread of `run` calls BLAS for its own rows
        H, *others = run(_gram_of_rows, tasks, n_threads)
    for other in others:
        H += other
    _mirror(H)
    return H


def _gram_of_rows(
    X: KernelMatrix, first: int, last: int, weight: Vector, chosen: Columns
) -> Vector:
    """Compute the part of some rows in `gram`; of CSR rows, only its upper triangle."""
    n = len(chosen[0])
    H = np.zeros((n, n))
    if isinstance(X, CSR):
        _gram_csr(X, first, last, weight, chosen[1], np.empty(n, np.int64), np.empty(n), H)
        return H
    columns = np.empty((n, BLOCK_ROWS))
    for a in range(first, last, BLOCK_ROWS):
        b = min(a + BLOCK_ROWS, last)
        copy_columns(X, a, b, chosen, columns)
        scaled = columns[:, : b - a] * np.sqrt(weight[a:b])
        H += scaled @ scaled.T
    return H


@njit
def _gram_csr(X, first, last, weight, place, at, values, H):  # type: ignore[no-untyped-def]
    """Add the product of every two entries of a row to the upper triangle."""
    for i in range(first, last):
        n = 0
        for e in range(X.indptr[i], X.indptr[i + 1]):
            k = place[X.indices[e]]
            if k >= 0:
                at[n], values[n] = k, X.data[e]
                n += 1
        for r in range(n):
            factor, k = weight[i] * values[r], at[r]
            for s in range(r, n):
                H[min(k, at[s]), max(k, at[s])] += factor * values[s]


@njit
def _mirror(H):  # type: ignore[no-untyped-def]
    """Copy the upper triangle to the lower one, a tile at a time."""
    n, tile = len(H), 64
    for a in range(0, n, tile):
        for b in range(a, n, tile):
            for i in range(a, min(a + tile, n)):
                for j in range(max(b, i + 1), min(b + tile, n)):
                    H[j, i] = H[i, j]


@njit
def _sum_dense(X, group, weight, chosen, sums):  # type: ignore[no-untyped-def]
    """Add Σ weight_i x_i over the documents of each group g to ``sums[g]``."""
    features, _ = chosen
    for i in range(len(group)):
        if group[i] >= 0:
            for k in range(len(features)):
                sums[group[i], k] += weight[i] * X[i, features[k]]


@njit
def _sum_csr(X, group, weight, chosen, sums):  # type: ignore[no-untyped-def]
    """Do what `_sum_dense` does, for CSR rows."""
    _, place = chosen
    for i in range(len(group)):
        if group[i] >= 0:
            for e in range(X.indptr[i], X.indptr[i + 1]):
                k = place[X.indices[e]]
                if k >= 0:
                    sums[group[i], k] += weight[i] * X.data[e]


@njit(allocates=True)
def _sum_upward(query_nodes, decay, sums):  # type: ignore[no-untyped-def]
    """Replace sums of levels by sums over all levels below: S_{g+1} = decay_g·S_g + sum_g."""
    for q in range(len(query_nodes) - 1):
        below = np.zeros(sums.shape[1])
        for g in range(query_nodes[q], query_nodes[q + 1]):
            for k in range(sums.shape[1]):
                own = sums[g, k]
                sums[g, k] = below[k]
                below[k] = decay[g] * below[k] + own
