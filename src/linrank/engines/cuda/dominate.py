"""The domination loss on the device: one block per query, level by level.

The formulas are those of `linrank.losses.domination`. The loops over the documents of a level are
shared by the threads of a block.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import cuda, float64

from ...losses.base import Hinges
from ...losses.domination import DominationPlan
from .blocks import block_max, block_sum
from .device import INDEX, DeviceArray, launch, to_device, zeros
from .sizes import THREADS


class LevelPlan(NamedTuple):
    """A `linrank.losses.domination.DominationPlan` that numbers documents by their rows.

    The weights are never empty: they are 1 if none are given.
    """

    query_weight: DeviceArray
    query_nodes: DeviceArray
    group_ptr: DeviceArray
    rows: DeviceArray
    upper: DeviceArray
    lower: DeviceArray


class LevelState(NamedTuple):
    """A `linrank.losses.domination.DominationState`; ``sums`` has the sum of each level."""

    share: DeviceArray
    slack: DeviceArray
    chance: DeviceArray
    curvature: DeviceArray
    total: DeviceArray
    decay: DeviceArray
    pull: DeviceArray
    sums: DeviceArray


@cuda.jit
def evaluate_levels(plan, state, scores, u, losses):  # type: ignore[no-untyped-def]
    """Compute the loss and its gradient u in the scores."""
    partial = cuda.shared.array(THREADS, float64)
    loss = 0.0
    for q in range(cuda.blockIdx.x, len(plan.query_weight), cuda.gridDim.x):
        g0, g1 = plan.query_nodes[q], plan.query_nodes[q + 1]
        top, total = -math.inf, 0.0
        for g in range(g0, g1):
            if g > g0:
                loss += plan.query_weight[q] * _dominate(
                    plan, state, g, scores, top, total, u, partial
                )
            else:
                _begin(plan, state, g, u)
            if cuda.threadIdx.x == 0:
                state.total[g] = total
            if g < g1 - 1:
                top, total = _join(plan, state, g, scores, top, total, partial)
        cuda.syncthreads()
        _hand_down(plan, state, q, u)
    loss = block_sum(loss, partial)
    if cuda.threadIdx.x == 0:
        losses[cuda.blockIdx.x, 0] += loss


@cuda.jit(device=True)
def _begin(plan, state, g, u):  # type: ignore[no-untyped-def]
    """Set the terms of the lowest level, which dominates no document, to 0."""
    for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
        u[plan.rows[k]] = 0.0
    if cuda.threadIdx.x == 0:
        state.sums[g] = 0.0


@cuda.jit(device=True)
def _dominate(plan, state, g, scores, top, total, u, partial):  # type: ignore[no-untyped-def]
    """Return this thread's part of Σ u_i·ℓ_i over level g; store Σ u_i t_i e^{top} in `sums`."""
    level = top + math.log(total)  # log Z
    loss, pull = 0.0, 0.0
    for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
        i = plan.rows[k]
        lead = scores[i] - level
        small = math.exp(-abs(lead))
        win, lose = 1.0 / (1.0 + small), small / (1.0 + small)
        if lead < 0.0:
            win, lose = lose, win
        loss += plan.upper[i] * (math.log1p(small) + max(0.0, -lead))
        state.chance[i] = win
        state.slack[i] = lose / total
        pull += plan.upper[i] * lose / total
        u[i] = -plan.upper[i] * lose
    pull = block_sum(pull, partial)
    if cuda.threadIdx.x == 0:
        state.sums[g] = pull
    return loss


@cuda.jit(device=True)
def _join(plan, state, g, scores, top, total, partial):  # type: ignore[no-untyped-def]
    """Add level g to Z; return the top and the total of the next level."""
    a, b = plan.group_ptr[g], plan.group_ptr[g + 1]
    new_top = top
    for k in range(a + cuda.threadIdx.x, b, THREADS):
        new_top = max(new_top, scores[plan.rows[k]])
    new_top = block_max(new_top, partial)
    shares = 0.0
    for k in range(a + cuda.threadIdx.x, b, THREADS):
        j = plan.rows[k]
        state.share[j] = plan.lower[j] * math.exp(scores[j] - new_top)
        shares += state.share[j]
    decay = math.exp(top - new_top)
    total = decay * total + block_sum(shares, partial)
    if cuda.threadIdx.x == 0:
        state.decay[g] = decay
    return new_top, total


@cuda.jit(device=True)
def _hand_down(plan, state, q, u):  # type: ignore[no-untyped-def]
    """Add the terms of all levels above to each gradient, from the highest level down."""
    query_weight, g0 = plan.query_weight[q], plan.query_nodes[q]
    pull = 0.0
    for g in range(plan.query_nodes[q + 1] - 1, g0 - 1, -1):
        if cuda.threadIdx.x == 0:
            state.pull[g] = pull
        for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
            i = plan.rows[k]
            bend = state.share[i] * pull
            u[i] = query_weight * (u[i] + bend)
            if g > g0:
                bend += state.chance[i] * plan.upper[i]
            state.curvature[i] = query_weight * bend
        pull = state.sums[g] + state.decay[g] * pull


@cuda.jit
def curve_levels(plan, state, v, u):  # type: ignore[no-untyped-def]
    """Compute the Hessian product u = H v at the scores last linearised."""
    partial = cuda.shared.array(THREADS, float64)
    for q in range(cuda.blockIdx.x, len(plan.query_weight), cuda.gridDim.x):
        g0, g1 = plan.query_nodes[q], plan.query_nodes[q + 1]
        if g0 < g1:
            centre = v[plan.rows[plan.group_ptr[g0]]]  # H is zero on constants
            below = 0.0  # Σ w_j e^{z_j − top} v_j over the levels below
            for g in range(g0, g1):
                below = _curve_level(plan, state, g, g > g0, v, centre, below, u, partial)
            cuda.syncthreads()
            _hand_down_product(plan, state, q, v, centre, u)
            cuda.syncthreads()


@cuda.jit(device=True)
def _curve_level(plan, state, g, dominates, v, centre, below, u, partial):  # type: ignore[no-untyped-def]
    """Add the terms of a level as the dominating one; return `below` of the next level."""
    total, pull, joined = state.total[g], 0.0, 0.0
    for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
        i = plan.rows[k]
        value = v[i] - centre
        joined += state.share[i] * value
        u[i] = 0.0
        if dominates:
            away = state.slack[i] * (total * value - below)  # v_i − E_i
            u[i] = plan.upper[i] * state.chance[i] * away
            pull += plan.upper[i] * state.slack[i] * (value - away)
    pull, joined = block_sum(pull, partial), block_sum(joined, partial)
    if cuda.threadIdx.x == 0:
        state.sums[g] = pull
    return state.decay[g] * below + joined


@cuda.jit(device=True)
def _hand_down_product(plan, state, q, v, centre, u):  # type: ignore[no-untyped-def]
    """Add the terms of each level as a dominated one, from the highest level down."""
    pull = 0.0
    for g in range(plan.query_nodes[q + 1] - 1, plan.query_nodes[q] - 1, -1):
        for k in range(plan.group_ptr[g] + cuda.threadIdx.x, plan.group_ptr[g + 1], THREADS):
            i = plan.rows[k]
            back = state.share[i] * (state.pull[g] * (v[i] - centre) - pull)
            u[i] = plan.query_weight[q] * (u[i] + back)
        pull = state.sums[g] + state.decay[g] * pull


class DominationLevels:
    """The documents of each query by level, for the domination loss."""

    def __init__(self, plan: DominationPlan, scores: DeviceArray, curvature: DeviceArray) -> None:
        n_docs, n_groups = int(plan.query_ptr[-1]), len(plan.group_ptr) - 1
        owner = np.repeat(plan.query_ptr[:-1], np.diff(plan.query_nodes))
        rows = np.repeat(owner, np.diff(plan.group_ptr)) + plan.docs
        ones = np.ones(n_docs)
        self.rows = np.sort(rows)
        self.device_rows = to_device(self.rows, INDEX)
        self.plan = LevelPlan(
            query_weight=to_device(plan.query_weight),
            query_nodes=to_device(plan.query_nodes, np.int64),
            group_ptr=to_device(plan.group_ptr, np.int64),
            rows=to_device(rows, INDEX),
            upper=to_device(plan.upper if len(plan.upper) else ones),
            lower=to_device(plan.lower if len(plan.lower) else ones),
        )
        self.state = LevelState(
            share=zeros(n_docs),
            slack=zeros(n_docs),
            chance=zeros(n_docs),
            curvature=curvature,
            total=zeros(n_groups),
            decay=zeros(n_groups),
            pull=zeros(n_groups),
            sums=zeros(n_groups),
        )
        self._scores = scores

    def set_hinges(self, hinges: Hinges) -> None:
        """Do nothing: the loss has no hinges."""

    def linearize(self, u: DeviceArray, losses: DeviceArray) -> None:
        """Compute the gradient u in the scores, and add the loss to `losses`."""
        n_queries = len(self.plan.query_weight)
        launch(evaluate_levels, n_queries, self.plan, self.state, self._scores, u, losses)

    def curve(self, v: DeviceArray, u: DeviceArray) -> None:
        """Compute the Hessian product u = H v in the scores."""
        launch(curve_levels, len(self.plan.query_weight), self.plan, self.state, v, u)

    def add_gap(self, m: int, losses: DeviceArray) -> None:
        """Do nothing: the loss has no hinges."""
