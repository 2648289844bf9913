"""Kernels of stochastic gradient descent: one step on the rows of a pair or of a query.

A step first sums its rows into x = Σ u_i x_i. For a CSR matrix it lists the features that occur in
the rows, each once, and changes only these. A step therefore costs O(entries of its rows), for any
number of features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

from .._jit import FAST, njit
from .._prefetch import prefetch_row
from .._rows import CSR, PREFETCH_ROWS, KernelMatrix, matvec, rmatvec
from .._typing import Vector
from ..counting.explicit import pair_loss
from ..losses.kernels import linearize_query

T, TOTAL, SLOPES, WARM_SLOPES = range(4)  #: entries of `Weights.clock`


class Weights(NamedTuple):
    """The iterate and its mean.

    ``lag`` is Σt times the difference between the mean and w. ``clock`` has the number of steps t,
    Σt, the sum of g'Pg over all steps, and that sum after the steps of constant η.
    """

    w: Vector
    lag: Vector
    clock: Vector


class Rule(NamedTuple):
    """Step lengths (see `linrank.solvers.stochastic`).

    ``metric`` is the diagonal of P, ``penalty`` is λ, ``warm`` the number of steps with constant
    η, and ``period`` the number of steps after which the penalty is applied for all of them. If
    ``harmonic``, the length of step t is η/t, and each step applies the penalty at its start.
    """

    metric: Vector
    penalty: float
    eta: float
    warm: float
    period: float
    harmonic: bool = False


class RowSums(NamedTuple):
    """The sum Σ u_i x_i over the rows of a step and, for CSR rows, the features that occur.

    ``sums`` has the sum in each feature, ``touched`` the list of features that occur, and
    ``listed`` whether a feature is in the list.
    """

    sums: Vector
    touched: NDArray[np.uint32]
    listed: NDArray[np.bool_]


def make_row_sums(n_features: int) -> RowSums:
    """Allocate the sum of the rows of a step, as 0."""
    # One more place in the list: a feature is written there before it is known to be new.
    touched = np.zeros(n_features + 1, np.uint32)
    return RowSums(np.zeros(n_features), touched, np.zeros(n_features, np.bool_))


# The rows of a step --------------------------------------------------------------------------


def _add_rows_dense(X, first, last, u, work, n):  # type: ignore[no-untyped-def]
    rmatvec(X, first, last, u, work.sums)
    return X.shape[1]


def _add_rows_csr(X, first, last, u, work, n):  # type: ignore[no-untyped-def]
    sums, touched, listed = work.sums, work.touched, work.listed
    for i in range(first, last):
        for e in range(X.indptr[i], X.indptr[i + 1]):
            f = np.uint32(X.indices[e])
            touched[n] = f
            n += not listed[f]
            listed[f] = True
            sums[f] += u[i - first] * X.data[e]
    return n


def add_rows(X: KernelMatrix, first: int, last: int, u: Vector, work: RowSums, n: int) -> int:
    """Add Σ_i u_i x_i over a range of rows; return n plus the number of newly listed features."""
    return (_add_rows_csr if isinstance(X, CSR) else _add_rows_dense)(X, first, last, u, work, n)


@overload(add_rows, jit_options={"fastmath": FAST, "error_model": "numpy"})
def _overload_add_rows(X, first, last, u, work, n):  # type: ignore[no-untyped-def]
    return _add_rows_csr if isinstance(X, types.BaseNamedTuple) else _add_rows_dense


def feature_at(X: KernelMatrix, touched: NDArray[np.uint32], m: int) -> int:
    """Return the m-th feature that a step changes: for a dense X, feature m."""
    return int(touched[m]) if isinstance(X, CSR) else m


@overload(feature_at)
def _overload_feature_at(X, touched, m):  # type: ignore[no-untyped-def]
    if isinstance(X, types.BaseNamedTuple):
        return lambda X, touched, m: touched[m]
    return lambda X, touched, m: m


def ask_for(X: KernelMatrix, i: int) -> None:
    """Prefetch row i of a dense X, because randomly drawn rows are not in the cache."""


@overload(ask_for)
def _overload_ask_for(X, i):  # type: ignore[no-untyped-def]
    if isinstance(X, types.BaseNamedTuple):
        return lambda X, i: None
    return lambda X, i: prefetch_row(X, i)


@njit(allocates=True)
def add_squares(X, rows, following, squares, counts, work):  # type: ignore[no-untyped-def]
    """Add the squares of x_i − x_j for the given rows i and j, and count the nonzero ones."""
    sign = np.array([1.0, -1.0])
    for p in range(len(rows)):
        n = add_rows(X, rows[p], rows[p] + 1, sign[:1], work, 0)
        n = add_rows(X, following[p], following[p] + 1, sign[1:], work, n)
        for m in range(n):
            f = feature_at(X, work.touched, m)
            squares[f] += work.sums[f] ** 2
            counts[f] += work.sums[f] != 0.0
            work.sums[f] = 0.0
            work.listed[f] = False


# Steps ---------------------------------------------------------------------------------------


@njit(allocates=True)
def walk_pairs(X, hinges, upper, lower, shift, weights, rule, work):  # type: ignore[no-untyped-def]
    """Take a step for each of the given pairs."""
    sign = np.array([1.0, -1.0])
    for k in range(len(upper)):
        if k + PREFETCH_ROWS < len(upper):
            ask_for(X, upper[k + PREFETCH_ROWS])
            ask_for(X, lower[k + PREFETCH_ROWS])
        n = add_rows(X, upper[k], upper[k] + 1, sign[:1], work, 0)
        n = add_rows(X, lower[k], lower[k] + 1, sign[1:], work, n)
        t, size = _products(X, weights, rule, work, n)
        loss, slope, _ = pair_loss(hinges, t - shift[k])
        _step(X, weights, rule, work, n, loss, slope, size)


@njit
def walk_queries(X, plan, state, hinges, queries, mass, weights, rule, work, s, u, scratch):  # type: ignore[no-untyped-def]
    """Take a step for each of the given queries, on the mean loss of its pairs."""
    for k in range(len(queries)):
        q = queries[k]
        first, last = plan.query_ptr[q], plan.query_ptr[q + 1]
        scores, slopes = s[: last - first], u[: last - first]
        matvec(X, first, last, weights.w, scores)
        if len(plan.offset) > 0:
            for i in range(last - first):
                scores[i] -= plan.offset[first + i]
        loss = linearize_query(plan, state, hinges, q, scores, slopes, scratch) / mass[k]
        n = add_rows(X, first, last, slopes, work, 0)
        _, size = _products(X, weights, rule, work, n)
        _step(X, weights, rule, work, n, loss, 1.0 / mass[k], size)


@njit(fast=True, inner=True)
def _products(X, weights, rule, work, n):  # type: ignore[no-untyped-def]
    """Return w'x and x'Px for the sum x of the rows of a step."""
    w, metric, sums, touched = weights.w, rule.metric, work.sums, work.touched
    t, size = 0.0, 0.0
    for m in range(n):
        f = feature_at(X, touched, m)
        t += w[f] * sums[f]
        size += metric[f] * sums[f] * sums[f]
    return t, size


@njit(fast=True, inner=True)
def _step(X, weights, rule, work, n, loss, slope, size):  # type: ignore[no-untyped-def]
    """Move w along −slope·Px, apply the penalty if its period has ended, and update the mean.

    x is the sum of the rows of the step.
    """
    w, lag, clock = weights
    metric, sums, touched, total = rule.metric, work.sums, work.touched, clock[TOTAL]
    eta, part = rule.eta, 1.0
    if rule.harmonic:
        eta /= clock[T] + 1.0
        _shrink(weights, 1.0 - rule.penalty / (clock[T] + 1.0))
    else:
        eta, part = _adaptive_length(clock, rule, loss, slope * slope * size)
    for m in range(n):
        f = feature_at(X, touched, m)
        change = -part * eta * slope * metric[f] * sums[f]
        w[f] += change
        lag[f] -= total * change
        sums[f] = 0.0
        work.listed[f] = False
    clock[T] += 1.0
    if clock[T] % rule.period == 0.0:
        strength = eta * rule.period * rule.penalty
        for f in range(len(w)):
            kept = w[f] / (1.0 + strength * metric[f])
            lag[f] += total * (w[f] - kept)
            w[f] = kept
    clock[TOTAL] = total + clock[T]


@njit(fast=True, inner=True)
def _adaptive_length(clock, rule, loss, steepness):  # type: ignore[no-untyped-def]
    """Return η of a step, and the part of it after which the tangent of the loss reaches 0."""
    eta = rule.eta
    if clock[SLOPES] > 0.0:
        eta *= np.sqrt(clock[WARM_SLOPES] / clock[SLOPES])
    part = 1.0 if eta * steepness <= loss else loss / (eta * steepness)
    clock[SLOPES] += part * part * steepness
    if clock[T] < rule.warm or clock[WARM_SLOPES] == 0.0:
        clock[WARM_SLOPES] = clock[SLOPES]
    return eta, part


@njit(fast=True, inner=True)
def _shrink(weights, factor):  # type: ignore[no-untyped-def]
    """Multiply w by a factor, and leave the mean of the iterates so far."""
    w, lag, clock = weights
    for f in range(len(w)):
        lag[f] += clock[TOTAL] * (w[f] - factor * w[f])
        w[f] *= factor
