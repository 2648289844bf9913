"""Pairs that are listed one by one: any weights and margins, and the exact logistic loss.

One thread per pair computes its derivatives. One thread per document then sums the derivatives of
its pairs, which are listed by document as well. No two threads write to the same place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import cuda, float64

from ...counting.explicit import ExplicitPlan, pair_loss
from ...losses.base import Hinges
from .blocks import block_sum
from .device import INDEX, DeviceArray, check_rows, empty, launch_over, to_device, zeros
from .sizes import THREADS

#: With NUMBA_DISABLE_JIT=1, `pair_loss` is the Python function itself.
pair_derivatives = cuda.jit(device=True)(pair_loss.py_func)


class ListedPlan(NamedTuple):
    """The pairs, by pair and by document.

    Each pair has the rows of its ``upper`` and its ``lower`` document, its ``weight``, and
    ``shift``, its margin minus 1; ``shift`` is empty if all margins are 1. The pairs of row i are
    ``pairs[ptr[i]:ptr[i + 1]]``: k if i is the upper document of pair k, and −1 − k if it is the
    lower one.
    """

    upper: DeviceArray
    lower: DeviceArray
    weight: DeviceArray
    shift: DeviceArray
    ptr: DeviceArray
    pairs: DeviceArray


class ListedState(NamedTuple):
    """The first and the second derivative of each pair, and the sums of the latter per row."""

    slope: DeviceArray
    bend: DeviceArray
    curvature: DeviceArray


class ListedHinges(NamedTuple):
    """The fields of `linrank.losses.base.Hinges` that `pair_loss` reads, on the device."""

    tau: DeviceArray
    a: DeviceArray
    c: DeviceArray
    exact: bool


@cuda.jit
def evaluate_pairs(plan, hinges, scores, slope, bend, losses):  # type: ignore[no-untyped-def]
    """Compute the loss of each pair and its derivatives."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for k in range(cuda.grid(1), len(plan.upper), cuda.gridsize(1)):
        t = scores[plan.upper[k]] - scores[plan.lower[k]]
        if len(plan.shift) > 0:
            t -= plan.shift[k]
        value, first, second = pair_derivatives(hinges, t)
        loss += plan.weight[k] * value
        slope[k] = plan.weight[k] * first
        bend[k] = plan.weight[k] * second
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit
def gather_slopes(plan, state, u):  # type: ignore[no-untyped-def]
    """Sum the gradient u in the scores, and the curvature of each row."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        total, curvature = 0.0, 0.0
        for e in range(plan.ptr[i], plan.ptr[i + 1]):
            k = plan.pairs[e]
            pair = k if k >= 0 else -1 - k
            total += state.slope[pair] if k >= 0 else -state.slope[pair]
            curvature += state.bend[pair]
        u[i] = total
        state.curvature[i] = curvature


@cuda.jit
def curve_pairs(plan, state, v, u):  # type: ignore[no-untyped-def]
    """Compute u = A'D(Av) (Chapelle & Keerthi 2010, §3), row by row."""
    for i in range(cuda.grid(1), len(u), cuda.gridsize(1)):
        total = 0.0
        for e in range(plan.ptr[i], plan.ptr[i + 1]):
            k = plan.pairs[e]
            pair = k if k >= 0 else -1 - k
            partner = plan.lower[pair] if k >= 0 else plan.upper[pair]
            total += state.bend[pair] * (v[i] - v[partner])
        u[i] = total


class ListedPairs:
    """Pairs that are listed one by one."""

    def __init__(self, plan: ExplicitPlan, scores: DeviceArray, curvature: DeviceArray) -> None:
        counts = np.diff(plan.query_nodes)
        start = np.repeat(plan.query_ptr[:-1], counts)
        upper, lower = start + plan.upper, start + plan.lower
        check_rows(2 * len(upper), "pairs, twice")
        weight = np.repeat(plan.query_weight, counts)
        if len(plan.weight):
            weight = weight * plan.weight
        both = np.concatenate([upper, lower])
        entry = np.concatenate([np.arange(len(upper)), -1 - np.arange(len(upper))])
        self.rows = np.unique(both)
        self.device_rows = to_device(self.rows, INDEX)
        n_docs = int(plan.query_ptr[-1])
        ptr = np.concatenate([[0], np.cumsum(np.bincount(both, minlength=n_docs))])
        self.plan = ListedPlan(
            upper=to_device(upper, INDEX),
            lower=to_device(lower, INDEX),
            weight=to_device(weight),
            shift=to_device(plan.shift),
            ptr=to_device(ptr, np.int64),
            pairs=to_device(entry[np.argsort(both, kind="stable")], INDEX),
        )
        self.state = ListedState(zeros(len(upper)), zeros(len(upper)), curvature)
        self._scores, self.n_pairs = scores, len(upper)

    def set_hinges(self, hinges: Hinges) -> None:
        """Replace the loss."""
        self._tables = hinges
        self.hinges = ListedHinges(
            to_device(hinges.tau), to_device(hinges.a), to_device(hinges.c), hinges.exact
        )

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient u in the scores, and add the loss to `losses`."""
        state = self.state
        launch_over(
            self.n_pairs, evaluate_pairs, self.plan, self.hinges, self._scores, state.slope,
            state.bend, losses,
        )  # fmt: skip
        launch_over(len(u), gather_slopes, self.plan, state, u)

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v in the scores."""
        launch_over(len(u), curve_pairs, self.plan, self.state, v, u)

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Add Σ_pairs weight·max(0, τ_m − t) to `losses`, at the scores last linearised."""
        tau = self._tables.tau[m : m + 1]
        hinges = ListedHinges(to_device(tau), to_device([1.0]), to_device([0.0]), False)
        unused = empty(self.n_pairs), empty(self.n_pairs)
        launch_over(self.n_pairs, evaluate_pairs, self.plan, hinges, self._scores, *unused, losses)
