"""The domination loss: each relevant document should beat all worse ones of its query together.

For document i, D(i) the documents of its query with a lower label, and margins
Δ(i, j) = s(i) − s(j), the loss is (Stevens, Bengio & Singer 2013, eq. 1.1)

    ℓ_i = log(1 + Σ_{j∈D(i)} e^{z_j − z_i}) = log(Z_k + e^{z_i}) − z_i,    z = score − s,

k the level of i and Z_k = Σ e^{z_j} over all levels below k, which follows from Z_{k−1} (§1.4):
O(l) for the l documents of a query. A document that weighs u_i as the better one and w_i as the
worse one counts like so many copies, u_i·ℓ_i and Z_k = Σ w_j e^{z_j}. With

    t_i = 1 / (Z_k + e^{z_i}),    p_i = e^{z_i} t_i,    A_l = Σ_{k>l} Σ_{i∈G(k)} u_i t_i

and l the level of a document, the derivatives in the scores are

    gradient_i = −u_i Z_k t_i + w_i e^{z_i} A_l
    (Hv)_i     = u_i p_i (v_i − E_i) + w_i e^{z_i} (A_l v_i − Σ_{k>l} Σ_{h∈G(k)} u_h t_h E_h)

where E_i = t_i·Σ_{j∈D(i)} w_j e^{z_j} v_j + p_i v_i, the mean of v that i sees. (The paper writes
e^{w·x_i + s(i)} beside e^{w·x_j − s(j)}; its eq. 1.1 asks for −s in both.)

Z_k is kept as total·e^{top}, top the largest z below level k, so that no exponential overflows
and none is lost however far levels lie apart: A_l is handed down from level to level relative
to the top of each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._typing import Vector
from ..counting.layout import document_weights, group_documents
from ..counting.plan import rank_labels
from ..counting.preferences import Preferences
from ..data.ranking import RankingData
from ..errors import DataError
from .base import Loss


class DominationPlan(NamedTuple):
    """The documents of each query by level.

    Query q has the groups ``query_nodes[q]:query_nodes[q + 1]``, one per level upward, and none
    where there is one level only; group g owns ``docs[group_ptr[g]:group_ptr[g + 1]]``, documents
    counted from the first one of their query. ``upper`` and ``lower`` weigh documents as the
    better and as the worse one, ``offset`` is s; they are empty where all are 1, 1 and 0.
    """

    query_ptr: NDArray[np.int64]
    query_weight: Vector
    offset: Vector
    upper: Vector
    lower: Vector
    query_nodes: NDArray[np.int64]
    group_ptr: NDArray[np.int64]
    docs: NDArray[np.uint32]


class DominationState(NamedTuple):
    """What the derivatives need at one score vector, top and total being those of a level.

    Of documents: ``share`` = w·e^{z − top} with the top of the next level, ``slack`` =
    t·e^{top}, ``chance`` = p, and ``curvature``. Of levels: ``total``, ``decay`` = e^{top − top'}
    with the top' of the next level, and ``pull`` = A·e^{top'}.
    """

    share: Vector
    slack: Vector
    chance: Vector
    curvature: Vector
    total: Vector
    decay: Vector
    pull: Vector


class DominationScratch(NamedTuple):
    """Buffers of one thread: a sum for each level of a query."""

    sums: Vector


class DominationLayout(NamedTuple):
    """The documents laid out by level; ``mass`` has the pairs of each query and its Σ u_i."""

    plan: DominationPlan
    docs: NDArray[np.uint32]
    mass: Vector
    counting: str = "by-level"

    def make_state(self, n_hinges: int) -> DominationState:
        """Room for what depends on the scores."""
        n_docs, n_groups = int(self.plan.query_ptr[-1]), len(self.plan.group_ptr) - 1
        return DominationState(*np.zeros((4, n_docs)), *np.zeros((3, n_groups)))

    def make_scratch(self, n: int) -> DominationScratch:
        """Buffers of one thread."""
        return DominationScratch(np.empty(int(np.diff(self.plan.query_nodes).max())))


class DominationLoss(Loss):
    """``Σ_i log(1 + Σ_{j∈D(i)} e^{z_j − z_i})`` over the documents of a query.

    Parameters
    ----------
    name : str
    binary : bool
        Whether only labels above 0 and the others are told apart (§1.3), or all levels (§1.4).
    """

    pairwise = False

    def __init__(self, name: str, binary: bool) -> None:
        super().__init__(name)
        self.binary = binary

    def lay_out(
        self, data: RankingData, preferences: Preferences, counting: str, n_threads: int
    ) -> DominationLayout:
        """Order the documents of each query by level."""
        self._check(data, preferences, counting)
        query_weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        offsets = preferences.offsets(data)
        if self.binary:
            data = data.replace(y=(data.y > 0).astype(np.float64))
        levels = rank_labels(data, query_weight, n_threads)
        if self.binary and not levels.mass[:, 0].any():
            raise DataError("no query has both a label above 0 and one that is not")
        weights = document_weights(data, query_weight)
        docs, group_ptr, query_groups = group_documents(levels, data.query_ptr)
        upper = np.ones(data.n_docs) if weights.upper is None else weights.upper
        terms = np.add.reduceat(upper * (levels.level > 0), data.query_ptr[:-1])
        empty = np.empty(0)
        plan = DominationPlan(
            query_ptr=data.query_ptr,
            query_weight=query_weight,
            offset=empty if offsets is None else offsets,
            upper=empty if weights.upper is None else weights.upper,
            lower=empty if weights.lower is None else weights.lower,
            query_nodes=query_groups,
            group_ptr=group_ptr,
            docs=docs,
        )
        return DominationLayout(plan, docs, np.column_stack([levels.mass[:, 0], terms]))

    def _check(self, data: RankingData, preferences: Preferences, counting: str) -> None:
        if data.pairs is not None:
            raise DataError(
                f"loss={self.name!r} compares a document with all worse ones of its query, but "
                "pairs are given one by one: use loss='squared_hinge' or 'logistic'"
            )
        if counting != "auto":
            raise DataError(
                f"counting={counting!r} is for sums over pairs, of which loss={self.name!r} is "
                "none: use counting='auto'"
            )
        if not preferences.plain:
            what = (
                f"pairs={preferences.pairs!r}"
                if preferences.rescale is None
                else f"rescale={preferences.rescale!r} with delta={preferences.delta_name!r}"
            )
            raise DataError(
                f"loss={self.name!r} cannot have {what}: its margins are differences s(i) − s(j); "
                "use pairs='all', and rescale='margin' with delta='label-squared', which is "
                "y(i) − y(j), or margin= with s of each document"
            )


DOMINATION = DominationLoss("domination", binary=False)
DOMINATION_BINARY = DominationLoss("domination_binary", binary=True)


# One query -------------------------------------------------------------------------------------


@njit(inner=True)
def linearize_domination(plan, state, hinges, q, scores, gradient, scratch):  # type: ignore[no-untyped-def]
    """The loss of query q and its gradient in the scores (from which offsets are taken)."""
    g0, g1 = plan.query_nodes[q], plan.query_nodes[q + 1]
    for i in range(len(scores)):
        gradient[i] = 0.0  # for documents of weight 0, which no level has
        state.curvature[plan.query_ptr[q] + i] = 0.0
    loss, top, total = 0.0, -np.inf, 0.0
    for g in range(g0, g1):
        state.total[g] = total
        scratch.sums[g - g0] = 0.0
        if g > g0:
            part, scratch.sums[g - g0] = _dominate(plan, state, q, g, scores, top, gradient)
            loss += part
        if g < g1 - 1:
            top, total = _join(plan, state, q, g, scores, top)
    _hand_down(plan, state, q, scratch.sums, gradient)
    return plan.query_weight[q] * loss


@njit(inner=True)
def _dominate(plan, state, q, g, scores, top, gradient):  # type: ignore[no-untyped-def]
    """Σ u_i·ℓ_i of the documents of level g against those below, and Σ u_i t_i e^{top}."""
    first, total = plan.query_ptr[q], state.total[g]
    level = top + math.log(total)  # log Z
    loss, pull = 0.0, 0.0
    for position in range(plan.group_ptr[g], plan.group_ptr[g + 1]):
        i = plan.docs[position]
        lead = scores[i] - level
        small = math.exp(-abs(lead))
        win, lose = 1.0 / (1.0 + small), small / (1.0 + small)
        if lead < 0.0:
            win, lose = lose, win
        weight = plan.upper[first + i] if len(plan.upper) > 0 else 1.0
        loss += weight * (math.log1p(small) + max(0.0, -lead))
        state.chance[first + i] = win
        state.slack[first + i] = lose / total
        pull += weight * lose / total
        gradient[i] = -weight * lose
    return loss, pull


@njit(inner=True)
def _join(plan, state, q, g, scores, top):  # type: ignore[no-untyped-def]
    """Add level g to Z: the top and the total of the next level."""
    first, a, b = plan.query_ptr[q], plan.group_ptr[g], plan.group_ptr[g + 1]
    new_top = top
    for position in range(a, b):
        new_top = max(new_top, scores[plan.docs[position]])
    decay = math.exp(top - new_top)
    total = decay * state.total[g]
    for position in range(a, b):
        j = plan.docs[position]
        share = math.exp(scores[j] - new_top)
        if len(plan.lower) > 0:
            share *= plan.lower[first + j]
        state.share[first + j] = share
        total += share
    state.decay[g] = decay
    return new_top, total


@njit(inner=True)
def _hand_down(plan, state, q, pulls, gradient):  # type: ignore[no-untyped-def]
    """From the highest level down: what all levels above do to a document."""
    first, query_weight, g0 = plan.query_ptr[q], plan.query_weight[q], plan.query_nodes[q]
    pull = 0.0
    for g in range(plan.query_nodes[q + 1] - 1, g0 - 1, -1):
        state.pull[g] = pull
        for position in range(plan.group_ptr[g], plan.group_ptr[g + 1]):
            i = plan.docs[position]
            bend = state.share[first + i] * pull
            gradient[i] = query_weight * (gradient[i] + bend)
            if g > g0:
                own = state.chance[first + i]
                bend += own * (plan.upper[first + i] if len(plan.upper) > 0 else 1.0)
            state.curvature[first + i] = query_weight * bend
        pull = pulls[g - g0] + state.decay[g] * pull


@njit(inner=True)
def curve_domination(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """``out = H v`` for query q, H at the scores last linearised."""
    first, query_weight, g0 = plan.query_ptr[q], plan.query_weight[q], plan.query_nodes[q]
    centre = 0.0  # H does not see what all documents of a query share
    for i in range(len(v)):
        centre += v[i] / len(v)
        out[i] = 0.0
    below = 0.0  # Σ w_j e^{z_j − top} v_j over the levels below
    for g in range(g0, plan.query_nodes[q + 1]):
        total, pull, joined = state.total[g], 0.0, state.decay[g] * below
        for position in range(plan.group_ptr[g], plan.group_ptr[g + 1]):
            i = plan.docs[position]
            value, slack = v[i] - centre, state.slack[first + i]
            joined += state.share[first + i] * value
            if g > g0:
                away = slack * (total * value - below)  # v_i − E_i
                weight = plan.upper[first + i] if len(plan.upper) > 0 else 1.0
                out[i] = weight * state.chance[first + i] * away
                pull += weight * slack * (value - away)
        scratch.sums[g - g0] = pull
        below = joined
    pull = 0.0
    for g in range(plan.query_nodes[q + 1] - 1, g0 - 1, -1):
        for position in range(plan.group_ptr[g], plan.group_ptr[g + 1]):
            i = plan.docs[position]
            back = state.share[first + i] * (state.pull[g] * (v[i] - centre) - pull)
            out[i] = query_weight * (out[i] + back)
        pull = scratch.sums[g - g0] + state.decay[g] * pull


# The Hessian in parts ---------------------------------------------------------------------------


class CurvatureParts(NamedTuple):
    """The Hessian in the scores, ``diag(diagonal) − Σ_g (τ_g b b' + b c' + c b')`` over levels g.

    b = b_g holds w_j e^{z_j − top} of all documents below level g: ``share`` summed upward with
    the ``decay`` of each level. c = c_g holds ``cross`` = u_i t_i p_i of level g, and
    ``square`` = τ_g = Σ u_i t_i². ``group`` is the level of a document among all, or −1.
    """

    diagonal: Vector
    group: NDArray[np.int64]
    share: Vector
    cross: Vector
    square: Vector


def curvature_parts(plan: DominationPlan, state: DominationState) -> CurvatureParts:
    """The Hessian at the scores last linearised, as a diagonal and two vectors per level."""
    n_docs = len(state.curvature)
    parts = CurvatureParts(
        np.zeros(n_docs), np.full(n_docs, -1), np.zeros(n_docs), np.zeros(n_docs),
        np.zeros(len(state.total)),
    )  # fmt: skip
    _take_apart(plan, state, parts)
    return parts


@njit
def _take_apart(plan, state, parts):  # type: ignore[no-untyped-def]
    for q in range(len(plan.query_nodes) - 1):
        first, weight = plan.query_ptr[q], plan.query_weight[q]
        for g in range(plan.query_nodes[q], plan.query_nodes[q + 1]):
            for position in range(plan.group_ptr[g], plan.group_ptr[g + 1]):
                i = first + plan.docs[position]
                parts.group[i] = g
                parts.share[i] = state.share[i]
                parts.diagonal[i] = weight * state.share[i] * state.pull[g]
                if g > plan.query_nodes[q]:
                    own = weight * (plan.upper[i] if len(plan.upper) > 0 else 1.0)
                    parts.cross[i] = own * state.slack[i] * state.chance[i]
                    parts.diagonal[i] += parts.cross[i] * state.total[g]
                    parts.square[g] += own * state.slack[i] ** 2
