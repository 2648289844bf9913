"""Pairwise losses: sums of hinges over the preference pairs of each query.

A loss is a function ℓ of the score difference t = s_i − s_j of a pair (i, j), label i above
label j, and is written as a table of hinges,

    ℓ(t) = Σ_m a_m·max(0, τ_m − t) + c_m·max(0, τ_m − t)².

Everything here lives in score space: the derivatives are with respect to the scores s,
and only `linrank.engines` multiplies by X.

With partner sums over the active pairs of hinge m (`linrank.counting`), weighted counts
n⁺, n⁻ above and below, score sums γ⁺, γ⁻, and N_m = n⁺ − n⁻, T_m = n⁺ + n⁻, S_m = γ⁺ + γ⁻
(Lee & Lin 2014, eqs. 17–19, for several hinges and weights w), a query's part is

    loss      = Σ_i w_i·Σ_m ½ (a_m + c_m τ_m) τ_m T_m
                            + s_i ((a_m + 2 c_m τ_m) N_m + c_m (T_m s_i − S_m))
    gradient  = w_i·Σ_m (a_m + 2 c_m τ_m) N_m + 2 c_m (T_m s_i − S_m)
    (Hv)_i    = w_i·Σ_m 2 c_m (T_m v_i − S_m(v))
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from ..counting.levels import Wanted, add_pair_sums, mark_active, sort_query
from ..errors import DataError


class Hinges(NamedTuple):
    """The table of a loss in the form that the kernels use.

    ``first`` are the sums that value and gradient need: Σ_m c T, (a + 2cτ) N and (a + cτ)τ T
    of the weights, and c S of the weighted scores. ``second`` is what a product needs: c S.
    """

    tau: NDArray[np.float64]
    first: Wanted
    second: Wanted


class PairwiseLoss:
    """A pairwise loss given by its hinges ``(τ, a, c)``.

    Examples
    --------
    >>> squared_hinge = PairwiseLoss("squared_hinge", [(1.0, 0.0, 1.0)])
    >>> squared_hinge(np.array([-1.0, 0.0, 2.0])).tolist()
    [4.0, 1.0, 0.0]
    """

    def __init__(self, name: str, hinges: list[tuple[float, float, float]]) -> None:
        self.name = name
        tau, a, c = np.array(hinges, dtype=np.float64).T.copy()
        scale = np.array([c, a + 2 * c * tau, (a + c * tau) * tau, c])
        first = Wanted(np.array([0, 0, 0, 1]), scale, np.array([1.0, -1.0, 1.0, 1.0]))
        second = Wanted(np.zeros(1, np.int64), scale[:1].copy(), np.ones(1))
        self.hinges = Hinges(tau, first, second)
        self._table = tau, a, c

    def __call__(self, t: Any) -> NDArray[np.float64]:
        """ℓ(t), for one pair or many."""
        tau, a, c = self._table
        gap = np.maximum(0.0, tau - np.asarray(t, dtype=np.float64)[..., None])
        return (a * gap + c * gap**2).sum(axis=-1)


#: ℓ(t) = max(0, 1 − t)²: L2-loss RankSVM (Chapelle & Keerthi 2010; Lee & Lin 2014, eq. 3).
SQUARED_HINGE = PairwiseLoss("squared_hinge", [(1.0, 0.0, 1.0)])

LOSSES = {loss.name: loss for loss in (SQUARED_HINGE,)}


def get_loss(name: str) -> PairwiseLoss:
    """The loss of that name."""
    if name not in LOSSES:
        raise DataError(f"loss is {name!r}; known losses are {', '.join(sorted(LOSSES))}")
    return LOSSES[name]


@njit(inner=True)
def linearize_query(plan, state, hinges, q, scores, gradient, scratch):  # type: ignore[no-untyped-def]
    """The loss of query q and its gradient in the scores; leaves `state` at these scores."""
    sort_query(plan, state, q, scores, scratch)
    mark_active(plan, state, q, scores, hinges.tau, scratch.keys)
    n, first, query_weight = len(scores), plan.query_ptr[q], plan.query_weight[q]
    x, sums = scratch.values, scratch.sums
    centre = 0.0  # only differences of scores matter: sums of centred scores cancel less
    for i in range(n):
        centre += scores[i] / n
    for i in range(n):
        x[0, i] = plan.weight[first + i] if len(plan.weight) > 0 else 1.0
        x[1, i] = x[0, i] * (scores[i] - centre)
        sums[0, i], sums[1, i], sums[2, i], sums[3, i] = 0.0, 0.0, 0.0, 0.0
    add_pair_sums(plan, state, q, x, hinges.first, 1.0, scratch.table, sums)
    loss = 0.0
    for i in range(n):
        bend = sums[0, i] * (scores[i] - centre) - sums[3, i]
        loss += 0.5 * x[0, i] * sums[2, i] + x[1, i] * (sums[1, i] + bend)
        gradient[i] = query_weight * x[0, i] * (sums[1, i] + 2.0 * bend)
        state.curvature[first + i] = 2.0 * query_weight * sums[0, i]
    return query_weight * loss


@njit(inner=True)
def curve_query(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """``out = H v`` for query q, H the Hessian of the loss at the scores last linearised."""
    n, first = len(v), plan.query_ptr[q]
    weighted = len(plan.weight) > 0
    x = scratch.values[:1]
    centre = 0.0  # as above: H does not see what all documents of a query share
    for i in range(n):
        centre += v[i] / n
    for i in range(n):
        value = v[i] - centre
        x[0, i] = plan.weight[first + i] * value if weighted else value
        out[i] = state.curvature[first + i] * value
    factor = -2.0 * plan.query_weight[q]
    sums = out.reshape((1, n))
    add_pair_sums(plan, state, q, x, hinges.second, factor, scratch.table, sums)
    if weighted:
        for i in range(n):
            out[i] *= plan.weight[first + i]
