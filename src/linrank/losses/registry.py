"""Losses by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._checks import choice
from .base import Loss
from .domination import DOMINATION, DOMINATION_BINARY
from .pairwise import PAIRWISE
from .tables import LossName

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
