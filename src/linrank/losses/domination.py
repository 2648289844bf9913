"""The domination loss: each relevant document should outscore all worse ones of its query.

Let D(i) be the documents of the query of i with a lower label, and Δ(i, j) = s(i) − s(j) the
margins. The loss of document i is (Stevens, Bengio & Singer 2013, eq. 1.1)

    ℓ_i = log(1 + Σ_{j∈D(i)} e^{z_j − z_i}) = log(Z_k + e^{z_i}) − z_i,    z = score − s,

where k is the level of i, and Z_k = Σ e^{z_j} is a sum over all levels below k. Z_k follows from
Z_{k−1} (§1.4), so the loss of a query of l documents costs O(l). A document that weighs u_i as the
better one and w_i as the worse one counts like that many copies: the loss has the terms u_i·ℓ_i,
and Z_k = Σ w_j e^{z_j}. Let G(k) be the documents of level k, l the level of a document, and

    t_i = 1 / (Z_k + e^{z_i}),    p_i = e^{z_i} t_i,    A_l = Σ_{k>l} Σ_{i∈G(k)} u_i t_i.

The derivatives in the scores are

    gradient_i = −u_i Z_k t_i + w_i e^{z_i} A_l
    (Hv)_i     = u_i p_i (v_i − E_i) + w_i e^{z_i} (A_l v_i − Σ_{k>l} Σ_{h∈G(k)} u_h t_h E_h)

where E_i = t_i·Σ_{j∈D(i)} w_j e^{z_j} v_j + p_i v_i is a weighted mean of v over i and D(i). (The
paper writes e^{w·x_i + s(i)} and e^{w·x_j − s(j)}; its eq. 1.1 requires −s in both.)

Z_k is stored as total·e^{top}, where top is the largest z below level k. A_l is passed down from
level to level relative to the top of each level. Exponentials therefore neither overflow nor
vanish, however far apart the scores of two levels are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.types import Integers, Vector
from ..counting.plan import Layout, document_weights, group_documents, rank_labels
from ..counting.preferences import Preferences
from ..data.ranking import RankingData
from ..errors import DataError
from .loss import Loss


class DominationPlan(NamedTuple):
    """The documents of each query by level.

    Query q has the groups ``query_nodes[q]:query_nodes[q + 1]``, one per level, lowest level
    first; a query with one level has none. Group g has the documents
    ``docs[group_ptr[g]:group_ptr[g + 1]]``, counted from the first document of their query.
    ``upper`` and ``lower`` are the weights u and w of documents as the better and as the worse
    one; they are empty if all are 1. ``offset`` is s; it is empty if all are 0.
    """

    query_ptr: Integers
    query_weight: Vector
    offset: Vector
    upper: Vector
    lower: Vector
    query_nodes: Integers
    group_ptr: Integers
    docs: NDArray[np.uint32]


class DominationState(NamedTuple):
    """What Hessian products need, at the scores last linearised.

    Let top and total be those of a level, and top' that of the next level above. Each document
    has ``share`` = w·e^{z − top'}, ``slack`` = t·e^{top}, ``chance`` = p, and ``curvature`` =
    u·p + w·e^z·A, times the weight of the query. Each level has ``total``, ``decay`` =
    e^{top − top'}, and ``pull`` = A·e^{top'}.
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


@dataclass(frozen=True)
class DominationLayout(Layout):
    """Documents by level; ``mass`` has the number of pairs of each query, and its Σ u_i."""

    plan: DominationPlan

    def make_state(self, n_hinges: int) -> DominationState:
        """Allocate the state; the loss has no hinges."""
        n_docs, n_groups = int(self.plan.query_ptr[-1]), len(self.plan.group_ptr) - 1
        return DominationState(*np.zeros((4, n_docs)), *np.zeros((3, n_groups)))

    def make_scratch(self, n: int) -> DominationScratch:
        """Allocate the buffers of one thread."""
        return DominationScratch(np.empty(int(np.diff(self.plan.query_nodes).max())))


class DominationLoss(Loss):
    """The domination loss, Σ_i log(1 + Σ_{j∈D(i)} e^{z_j − z_i}) over the documents of a query.

    Parameters
    ----------
    name : str
    binary : bool
        If True, labels above 0 dominate all other labels (§1.3). If False, every label dominates
        all lower labels (§1.4).

    Examples
    --------
    >>> from linrank import RankSVM, make_ranking
    >>> from linrank.losses import DominationLoss
    >>> loss = DominationLoss("domination", binary=False)
    >>> ranker = RankSVM(loss=loss).fit(make_ranking(random_state=0))
    >>> ranker.result_.converged
    True
    """

    pairwise = False

    def __init__(self, name: str, binary: bool) -> None:
        super().__init__(name)
        self.binary = binary

    def lay_out(
        self, data: RankingData, preferences: Preferences, counting: str, n_threads: int
    ) -> DominationLayout:
        """Group the documents of each query by level."""
        self._check(data, preferences, counting)
        query_weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        offsets = preferences.offsets(data)
        if self.binary:
            data = data.replace(y=(data.y > 0).astype(np.float64))
        levels = rank_labels(data, query_weight, n_threads)
        if self.binary and not levels.mass[:, 0].any():
            raise DataError(
                f"loss={self.name!r} needs a query with a label above 0 and a label that is not "
                "above 0, and there is none. Use loss='domination', which compares all labels."
            )
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
        mass = np.column_stack([levels.mass[:, 0], terms])
        return DominationLayout("by-level", plan, docs, mass)

    def _check(self, data: RankingData, preferences: Preferences, counting: str) -> None:
        if data.pairs is not None:
            raise DataError(
                f"loss={self.name!r} compares a document with all worse ones of its query, but the "
                "pairs are listed one by one. Use loss='squared_hinge' or 'logistic'."
            )
        if counting != "auto":
            raise DataError(
                f"counting={counting!r} needs a pairwise loss; loss={self.name!r} is listwise. Use "
                "counting='auto'."
            )
        if not preferences.plain:
            raise DataError(
                f"loss={self.name!r} does not support {preferences.summary()}: it compares all "
                "levels, and its margins are differences s(i) − s(j). Use pairs='all' and "
                "rescale=None. For margins, use rescale='margin' with delta='label-squared', which "
                "is y(i) − y(j), or margin= with s of each document"
            )


DOMINATION = DominationLoss("domination", binary=False)
DOMINATION_BINARY = DominationLoss("domination_binary", binary=True)


# One query -------------------------------------------------------------------------------------


@njit(inner=True)
def linearize_domination(plan, state, hinges, q, scores, gradient, scratch):  # type: ignore[no-untyped-def]
    """Compute the loss of query q and its gradient, given the scores minus the offsets."""
    g0, g1 = plan.query_nodes[q], plan.query_nodes[q + 1]
    for i in range(len(scores)):
        gradient[i] = 0.0  # documents of weight 0 belong to no level and keep this value
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
    """Return Σ u_i·ℓ_i and Σ u_i t_i e^{top} over the documents of level g."""
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
    """Add level g to Z; return the top and the total of the next level."""
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
    """Add the terms of all levels above to each gradient, from the highest level down."""
    first, query_weight, g0 = plan.query_ptr[q], plan.query_weight[q], plan.query_nodes[q]
    pull = 0.0
    for g in range(plan.query_nodes[q + 1] - 1, g0 - 1, -1):
        state.pull[g] = pull
        for position in range(plan.group_ptr[g], plan.group_ptr[g + 1]):
            i = plan.docs[position]
            second = state.share[first + i] * pull
            gradient[i] = query_weight * (gradient[i] + second)
            if g > g0:
                own = state.chance[first + i]
                second += own * (plan.upper[first + i] if len(plan.upper) > 0 else 1.0)
            state.curvature[first + i] = query_weight * second
        pull = pulls[g - g0] + state.decay[g] * pull


@njit(inner=True)
def curve_domination(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """Compute ``out = H v`` for query q, with the Hessian H at the scores last linearised."""
    first, query_weight, g0 = plan.query_ptr[q], plan.query_weight[q], plan.query_nodes[q]
    centre = 0.0  # H is zero on vectors that are constant within a query
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
                deviation = slack * (total * value - below)  # v_i − E_i
                weight = plan.upper[first + i] if len(plan.upper) > 0 else 1.0
                out[i] = weight * state.chance[first + i] * deviation
                pull += weight * slack * (value - deviation)
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

    The vector b of level g holds w_j e^{z_j − top} for all documents below the level. It is the
    sum of ``share`` over these levels, multiplied by the ``decay`` of each level on the way up.
    The vector c of level g holds ``cross`` = u_i t_i p_i for the documents of the level.
    ``square`` is τ_g = Σ u_i t_i². ``group`` is the group of each document, or −1 if it has none.
    """

    diagonal: Vector
    group: Integers
    share: Vector
    cross: Vector
    square: Vector


def curvature_parts(plan: DominationPlan, state: DominationState) -> CurvatureParts:
    """Return the Hessian at the scores last linearised, as a diagonal and vectors per level."""
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
