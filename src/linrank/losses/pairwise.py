"""Pairwise losses: sums of hinges over the preference pairs of each query.

A pairwise loss is a function ℓ of the score difference t = s_i − s_j of a pair (i, j) with
label i > label j. It is a table of hinges,

    ℓ(t) = Σ_m a_m·max(0, τ_m − t) + c_m·max(0, τ_m − t)².

All derivatives in this module are with respect to the scores s. Only `linrank.engines` multiplies
by X.

`linrank.counting` sums over the active pairs of hinge m. The sums are weighted counts n⁺, n⁻ of
the partners above and below, and sums γ⁺, γ⁻ of their scores. Let N_m = n⁺ − n⁻, T_m = n⁺ + n⁻ and
S_m = γ⁺ + γ⁻ (Lee & Lin 2014, eqs. 17–19, for several hinges and weights w). For a query,

    loss      = Σ_i w_i·Σ_m ½ (a_m + c_m τ_m) τ_m T_m
                            + s_i ((a_m + 2 c_m τ_m) N_m + c_m (T_m s_i − S_m))
    gradient  = w_i·Σ_m (a_m + 2 c_m τ_m) N_m + 2 c_m (T_m s_i − S_m)
    (Hv)_i    = w_i·Σ_m 2 c_m (T_m v_i − S_m(v))
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .._compile.jit import by_type, njit
from .._util.types import Vector
from ..counting import tables, trees
from ..counting.layout import lay_out
from ..counting.plan import Layout, Wanted, centre_of
from ..counting.preferences import Preferences
from ..counting.tables import TableState, add_row_sums
from ..counting.trees import TreeState
from ..data.ranking import RankingData
from ..errors import DataError
from .hinge_tables import TABLES, Hinge
from .loss import Loss


class PairwiseLoss(Loss):
    """A loss of pairs, ``ℓ(t) = Σ_m a_m·max(0, τ_m − t) + c_m·max(0, τ_m − t)²``.

    Parameters
    ----------
    name : str
        The name that messages and model files use.
    table : sequence of (τ, a, c)
        The hinges. The loss must be convex. It is then also non-negative and non-increasing.

    Examples
    --------
    >>> squared_hinge = PairwiseLoss("squared_hinge", [(1.0, 0.0, 1.0)])
    >>> squared_hinge(np.array([-1.0, 0.0, 2.0])).tolist()
    [4.0, 1.0, 0.0]
    """

    def __init__(self, name: str, table: Sequence[Hinge]) -> None:
        super().__init__(name, table)
        if self.exact:
            return
        _check_table(self.table)
        for known, hinges in TABLES.items():
            if name == known and not np.array_equal(self.table, hinges):
                raise DataError(f"name is {name!r}, a loss with another table. Use another name.")

    def lay_out(
        self, data: RankingData, preferences: Preferences, counting: str, n_threads: int
    ) -> Layout:
        """Return the layout of the pairs for a counting."""
        return lay_out(data, preferences, counting, self.exact, n_threads)

    def smoothed(self, width: float) -> PairwiseLoss:
        """Return the loss with each corner replaced by a parabola of the given width μ.

        The corner a·max(0, τ − t) becomes a·(max(0, τ − t)² − max(0, τ − μ − t)²) / 2μ, which
        lies below it by at most a·μ/2.

        Examples
        --------
        >>> HINGE.smoothed(0.5)([1.0, 0.5, 0.0]).tolist()
        [0.0, 0.25, 0.75]
        """
        rounded: list[Hinge] = []
        for tau, a, c in self.table.tolist():
            if a:
                curvature = 0.5 * a / width
                rounded += [(tau, 0.0, curvature), (tau - width, 0.0, -curvature)]
            if c:
                rounded.append((tau, 0.0, c))
        return PairwiseLoss(f"smoothed_{self.name}", rounded)

    def __call__(self, t: ArrayLike) -> Vector:
        """Return ℓ(t), for one pair or many."""
        tau, a, c = self.table.T
        gap = np.maximum(0.0, tau - np.asarray(t, dtype=np.float64)[..., None])
        return (a * gap + c * gap**2).sum(axis=-1)


def _check_table(table: Vector) -> None:
    """Raise a `DataError` unless the hinges make a convex loss.

    From large to small t, the slope must fall at each corner, and the curvature must be at least 0.
    """
    if not len(table) or not np.isfinite(table).all():
        raise DataError(
            "the table of a loss needs at least one hinge (τ, a, c) of finite numbers, such as "
            "(1.0, 0.0, 1.0)"
        )
    falling = table[np.argsort(-table[:, 0], kind="stable")]
    starts = np.flatnonzero(np.diff(falling[:, 0], prepend=np.nan) != 0)
    corners, jumps = np.add.reduceat(falling[:, 1:], starts).T
    curvature = np.cumsum(jumps)
    rounding = 1e-12 * np.abs(table[:, 1:]).sum()
    bad = np.flatnonzero((corners < -rounding) | (curvature < -rounding))
    if len(bad):
        tau = falling[starts[bad[0]], 0]
        raise DataError(
            f"the table of a loss is not convex below t = {tau:g}. There the sum of c over all "
            "hinges with larger or equal τ must be at least 0, and so must the sum of a at τ."
        )
    if not (corners > rounding).any() and not (curvature > rounding).any():
        raise DataError("the table of a loss is 0 for every t. Add a hinge with a > 0 or c > 0.")


class ExactLogistic(PairwiseLoss):
    """The logistic loss ``ℓ(t) = log(1 + exp(−t))``, for pairs that are listed one by one."""

    exact = True

    def __init__(self) -> None:
        super().__init__("logistic_exact", ())

    def smoothed(self, width: float) -> PairwiseLoss:
        """Return the loss itself, which has no corner."""
        return self

    def __call__(self, t: ArrayLike) -> Vector:
        """Return ℓ(t), for one pair or many."""
        return np.logaddexp(0.0, -np.asarray(t, dtype=np.float64))


PAIRWISE: dict[str, PairwiseLoss] = {
    name: PairwiseLoss(name, table) if table else ExactLogistic() for name, table in TABLES.items()
}
SQUARED_HINGE, HINGE = PAIRWISE["squared_hinge"], PAIRWISE["hinge"]


# One query -------------------------------------------------------------------------------------

count_active = by_type(1, {TableState: tables.count_active, TreeState: trees.count_active})
add_pair_sums = by_type(1, {TableState: tables.add_pair_sums, TreeState: trees.add_pair_sums})


@njit(inner=True)
def linearize(plan, state, hinges, q, scores, gradient, scratch):  # type: ignore[no-untyped-def]
    """Return the loss of query q, and store its gradient in the scores."""
    n, first, query_weight = len(scores), plan.query_ptr[q], plan.query_weight[q]
    weighted = len(plan.weight) > 0
    x, sums = scratch.values, scratch.sums.reshape(-1)[: 3 * n].reshape((3, n))
    for i in range(n):
        x[i] = plan.weight[first + i] if weighted else 1.0
    count_active(plan, state, q, scores, hinges, x, scratch, sums)
    for i in range(n):
        gradient[i] = x[i] * (abs(sums[0, i]) + abs(sums[1, i]))  # total weight of active pairs
    centre = centre_of(scores, gradient)
    for i in range(n):
        x[i] *= scores[i] - centre
        gradient[i] = 0.0
    add_pair_sums(plan, state, q, x, hinges.values, 1.0, scratch, gradient.reshape((1, n)))
    loss = 0.0
    for i in range(n):
        own = plan.weight[first + i] if weighted else 1.0
        linear = sums[0, i] * (scores[i] - centre) - gradient[i]
        loss += 0.5 * own * sums[2, i] + x[i] * (sums[1, i] + linear)
        gradient[i] = query_weight * own * (sums[1, i] + 2.0 * linear)
        state.curvature[first + i] = 2.0 * query_weight * own * sums[0, i]
    return query_weight * loss


@njit(inner=True)
def curve(plan, state, hinges, q, v, out, scratch):  # type: ignore[no-untyped-def]
    """Store ``out = H v`` for query q, at the scores of the last call of `linearize`."""
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


@njit(fast=True, inner=True)
def curve_rows(plan, state, hinges, q, rows, out, scratch, buffer):  # type: ignore[no-untyped-def]
    """Store ``out = H·rows`` for query q, and subtract the centre of each column from the rows."""
    n, n_columns, first = rows.shape[0], rows.shape[1], plan.query_ptr[q]
    centre, mass = buffer[:n_columns], 0.0
    centre[:] = 0.0
    for i in range(n):
        mass += state.curvature[first + i]
        for f in range(n_columns):
            centre[f] += state.curvature[first + i] * rows[i, f]
    share = 1.0 / mass if mass > 0.0 else 0.0
    for i in range(n):
        for f in range(n_columns):
            rows[i, f] -= share * centre[f]
            out[i, f] = state.curvature[first + i] * rows[i, f]
    factor = -2.0 * plan.query_weight[q]
    add_row_sums(plan, state, q, rows, hinges.values, factor, buffer, out)


@njit(inner=True, allocates=True)
def gaps(plan, state, hinges, q, scores, gaps, scratch):  # type: ignore[no-untyped-def]
    """Add Σ_p weight·max(0, τ_m − t_p) to ``gaps[m]``, at the scores of `linearize`."""
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
