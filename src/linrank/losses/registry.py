"""Losses by name, and their kernels by the type of their state.

A kernel is chosen when the kernels of an engine are compiled, so the choice costs no time later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._compile.jit import by_type, njit
from .._util.checks import choice
from ..counting.explicit import ExplicitState, curve_explicit, gaps_explicit, linearize_explicit
from ..counting.tables import COLUMNS, TableState
from ..counting.trees import TreeState
from ..counting.two_level import TwoLevelState, curve_two_level, gaps_two_level, linearize_two_level
from . import pairwise
from .domination import (
    DOMINATION,
    DOMINATION_BINARY,
    DominationState,
    curve_domination,
    linearize_domination,
)
from .hinge_tables import LossName
from .loss import Loss
from .pairwise import PAIRWISE

#: ``linearize_query(plan, state, hinges, q, scores, gradient, scratch)`` returns the loss of query
#: q, and stores its gradient in the scores. `state` then belongs to these scores.
linearize_query = by_type(
    1,
    {
        TableState: pairwise.linearize,
        TreeState: pairwise.linearize,
        TwoLevelState: linearize_two_level,
        ExplicitState: linearize_explicit,
        DominationState: linearize_domination,
    },
)

#: ``curve_query(plan, state, hinges, q, v, out, scratch)`` stores ``out = H v`` for query q, where
#: H is the Hessian of the loss at the scores of the last `linearize_query`.
curve_query = by_type(
    1,
    {
        TableState: pairwise.curve,
        TreeState: pairwise.curve,
        TwoLevelState: curve_two_level,
        ExplicitState: curve_explicit,
        DominationState: curve_domination,
    },
)


@njit(inner=True)
def _curve_columns(plan, state, hinges, q, rows, out, scratch, buffer):  # type: ignore[no-untyped-def]
    """Do what `curve_rows` does, one column after another."""
    n = len(rows)
    v, Hv = buffer[:n], buffer[n : 2 * n]
    for f in range(rows.shape[1]):
        for i in range(n):
            v[i] = rows[i, f]
        curve_query(plan, state, hinges, q, v, Hv, scratch)
        for i in range(n):
            out[i, f] = Hv[i]


#: ``curve_rows(plan, state, hinges, q, rows, out, scratch, buffer)`` stores ``out = H·rows`` for
#: query q, one vector per column. Numbers may be subtracted from the columns. ``buffer`` has
#: `rows_buffer` numbers.
curve_rows = by_type(1, {TableState: pairwise.curve_rows}, _curve_columns)


def rows_buffer(n_docs: int, n_columns: int) -> int:
    """Return the length of the buffer of `curve_rows`."""
    return max(2 * n_docs, COLUMNS * n_columns)


#: ``gaps_query(plan, state, hinges, q, scores, gaps, scratch)`` adds Σ_p weight·max(0, τ_m − t_p)
#: to ``gaps[m]``, at the scores of the last `linearize_query`.
gaps_query = by_type(
    1,
    {
        TableState: pairwise.gaps,
        TreeState: pairwise.gaps,
        TwoLevelState: gaps_two_level,
        ExplicitState: gaps_explicit,
    },
)


# --------------------------------------------------------------------------------------------------
# Losses by name.


#: The losses by their names, such as ``LOSSES["huber"]``.
LOSSES: Mapping[str, Loss] = {
    loss.name: loss for loss in (*PAIRWISE.values(), DOMINATION, DOMINATION_BINARY)
}


def get_loss(name: LossName | Loss) -> Loss:
    """Return the loss of a name; a `Loss` is returned unchanged.

    Parameters
    ----------
    name : str or Loss
        One of `LOSSES`, such as ``"huber"``.

    Returns
    -------
    Loss

    Examples
    --------
    >>> get_loss("hinge")
    PairwiseLoss('hinge', [(1.0, 1.0, 0.0)])
    """
    if isinstance(name, Loss):
        return name
    choice("loss", name, LOSSES, "or a Loss, such as PairwiseLoss")
    return LOSSES[name]


def describe_loss(loss: Loss) -> str | dict[str, Any]:
    """Return a loss as model files store it: its name, and the table if the loss is custom.

    Examples
    --------
    >>> from linrank.losses import PairwiseLoss
    >>> describe_loss(get_loss("huber"))
    'huber'
    >>> describe_loss(PairwiseLoss("steep", [(1.0, 0.0, 2.0)]))
    {'name': 'steep', 'table': [[1.0, 0.0, 2.0]]}
    """
    if LOSSES.get(loss.name) == loss:
        return loss.name
    return {"name": loss.name, "table": loss.table.tolist()}
