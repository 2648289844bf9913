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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._jit import by_type, njit
from ..counting import tables, trees
from ..counting.base import Layout
from ..counting.layout import lay_out
from ..counting.plan import Wanted, centre_of
from ..counting.preferences import Preferences
from ..counting.tables import TableState
from ..counting.trees import TreeState
from ..data.ranking import RankingData
from .base import Loss


class PairwiseLoss(Loss):
    """A pairwise loss given by its hinges ``(τ, a, c)``.

    Examples
    --------
    >>> squared_hinge = PairwiseLoss("squared_hinge", [(1.0, 0.0, 1.0)])
    >>> squared_hinge(np.array([-1.0, 0.0, 2.0])).tolist()
    [4.0, 1.0, 0.0]
    """

    def lay_out(
        self, data: RankingData, preferences: Preferences, counting: str, n_threads: int
    ) -> Layout:
        """Lay out the pairs for a way of counting."""
        return lay_out(data, preferences, counting, self.exact, n_threads)

    def __call__(self, t: Any) -> NDArray[np.float64]:
        """ℓ(t), for one pair or many."""
        tau, a, c = self.table.T
        gap = np.maximum(0.0, tau - np.asarray(t, dtype=np.float64)[..., None])
        return (a * gap + c * gap**2).sum(axis=-1)


class ExactLogistic(PairwiseLoss):
    """``ℓ(t) = log(1 + exp(−t))`` itself, which only pairs that are listed can have."""

    exact = True

    def __init__(self) -> None:
        super().__init__("logistic_exact")

    def __call__(self, t: Any) -> NDArray[np.float64]:
        """ℓ(t), for one pair or many."""
        return np.logaddexp(0.0, -np.asarray(t, dtype=np.float64))


def _from_steps(name: str, edges: list[float], heights: list[float]) -> PairwiseLoss:
    """The loss with second derivative ∝ heights[k] for edges[k − 1] < |t| < edges[k].

    Its slope goes from −1 to 0.
    """
    scale = 1.0 / (2 * float(np.dot(heights, np.diff([0.0, *edges]))))
    jumps = -np.diff([*heights, 0.0]) * scale / 2
    table = [(tau, 0.0, c) for tau, c in zip(edges, jumps, strict=True)]
    table += [(-tau, 0.0, -c) for tau, c in zip(edges, jumps, strict=True)]
    return PairwiseLoss(name, table)


#: ℓ(t) = max(0, 1 − t)²: L2-loss RankSVM (Chapelle & Keerthi 2010; Lee & Lin 2014, eq. 3).
SQUARED_HINGE = PairwiseLoss("squared_hinge", [(1.0, 0.0, 1.0)])

#: ℓ(t) = max(0, 1 − t): L1-loss RankSVM (Joachims 2002; Lee & Lin 2014, eq. 2).
HINGE = PairwiseLoss("hinge", [(1.0, 1.0, 0.0)])

#: ℓ(t) = max(0, 1 − t)² − max(0, −t)²: quadratic, then linear (Chapelle & Keerthi 2010, §4.1).
HUBER = PairwiseLoss("huber", [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)])

#: ℓ(t) ≈ log(1 + exp(−t)), RankNet's loss, to within `LOGISTIC_ERROR` for every t. Its second
#: derivative is a step function with three heights on each side, chosen for the least error.
LOGISTIC = _from_steps(
    "logistic",
    [1.4063788, 3.09072961, 5.99650972],
    [0.22881683, 0.08792983, 0.01035597],
)
LOGISTIC_ERROR = 0.0029  #: the largest |ℓ(t) − log(1 + exp(−t))|

LOGISTIC_EXACT = ExactLogistic()

LOSSES = {loss.name: loss for loss in (SQUARED_HINGE, HINGE, HUBER, LOGISTIC, LOGISTIC_EXACT)}


def smoothed_hinge(mu: float) -> PairwiseLoss:
    """``ℓ(t) = (max(0, 1 − t)² − max(0, 1 − μ − t)²) / 2μ``: the hinge with a rounded corner.

    It lies below the hinge, by at most μ/2.

    Examples
    --------
    >>> smoothed_hinge(0.5)([1.0, 0.5, 0.0]).tolist()
    [0.0, 0.25, 0.75]
    """
    bend = 0.5 / mu
    return PairwiseLoss("smoothed_hinge", [(1.0, 0.0, bend), (1.0 - mu, 0.0, -bend)])


# One query -------------------------------------------------------------------------------------

find_active = by_type(1, {TableState: tables.find_active, TreeState: trees.find_active})
add_pair_sums = by_type(1, {TableState: tables.add_pair_sums, TreeState: trees.add_pair_sums})


@njit(inner=True)
def linearize(plan, state, hinges, q, scores, gradient, scratch):  # type: ignore[no-untyped-def]
    """The loss of query q and its gradient in the scores."""
    find_active(plan, state, q, scores, hinges.tau, scratch)
    n, first, query_weight = len(scores), plan.query_ptr[q], plan.query_weight[q]
    weighted = len(plan.weight) > 0
    x, sums = scratch.values, scratch.sums.reshape(-1)[: 3 * n].reshape((3, n))
    for i in range(n):
        x[i] = plan.weight[first + i] if weighted else 1.0
        sums[0, i], sums[1, i], sums[2, i] = 0.0, 0.0, 0.0
    add_pair_sums(plan, state, q, x, hinges.counts, 1.0, scratch, sums)
    for i in range(n):
        gradient[i] = x[i] * (abs(sums[0, i]) + abs(sums[1, i]))  # the weight of active pairs
    centre = centre_of(scores, gradient)
    for i in range(n):
        x[i] *= scores[i] - centre
        gradient[i] = 0.0
    add_pair_sums(plan, state, q, x, hinges.values, 1.0, scratch, gradient.reshape((1, n)))
    loss = 0.0
    for i in range(n):
        own = plan.weight[first + i] if weighted else 1.0
        bend = sums[0, i] * (scores[i] - centre) - gradient[i]
        loss += 0.5 * own * sums[2, i] + x[i] * (sums[1, i] + bend)
        gradient[i] = query_weight * own * (sums[1, i] + 2.0 * bend)
        state.curvature[first + i] = 2.0 * query_weight * own * sums[0, i]
    return query_weight * loss


@njit(inner=True)
def curve(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """``out = H v`` for query q, at the scores last linearised."""
    n, first = len(v), plan.query_ptr[q]
    weighted = len(plan.weight) > 0
    x = scratch.values
    centre = centre_of(v, state.curvature[first:])
    for i in range(n):
        value = v[i] - centre
        x[i] = plan.weight[first + i] * value if weighted else value
        out[i] = 0.0 if weighted else state.curvature[first + i] * value
    factor = -2.0 * plan.query_weight[q]
    add_pair_sums(plan, state, q, x, hinges.values, factor, scratch, out.reshape((1, n)))
    if weighted:
        for i in range(n):
            own = state.curvature[first + i] * (v[i] - centre)
            out[i] = plan.weight[first + i] * out[i] + own


@njit(inner=True, allocates=True)
def gaps(plan, state, hinges, q, scores, gaps, scratch):  # type: ignore[no-untyped-def]
    """``gaps[m] += Σ_p weight·max(0, τ_m − t_p)``, at the scores last linearised."""
    n, first = len(scores), plan.query_ptr[q]
    weighted = len(plan.weight) > 0
    x, sums = scratch.values, scratch.sums[:2, :n]
    for i in range(n):
        x[i] = plan.weight[first + i] if weighted else 1.0
    for m in range(len(hinges.tau)):
        only = np.zeros((2, len(hinges.tau)))
        only[:, m] = 1.0
        sums[:] = 0.0
        wanted = Wanted(only, np.array([1.0, -1.0]))
        add_pair_sums(plan, state, q, x, wanted, plan.query_weight[q], scratch, sums)
        sums[0] *= x[:n]
        sums[1] *= x[:n]
        centre = centre_of(scores, sums[0])
        for i in range(n):
            gaps[m] += 0.5 * hinges.tau[m] * sums[0, i] + (scores[i] - centre) * sums[1, i]
