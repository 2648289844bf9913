"""Losses: functions of the scores within a query, with their kernels.

- `tables` has the tables of the pairwise losses by name.
- `pairwise` and `domination` have the classes and their kernels.
- `registry` finds a loss by name.
- `kernels` chooses the kernel for a layout of the pairs.
"""

from __future__ import annotations

from .._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Loss
    from .domination import DominationLoss
    from .pairwise import PairwiseLoss
    from .registry import LOSSES, get_loss
    from .tables import LossName

__all__ = [
    "LOSSES", "DominationLoss", "Loss", "LossName", "PairwiseLoss", "get_loss",
]  # fmt: skip

_HOMES = {
    "LOSSES": "registry",
    "DominationLoss": "domination",
    "Loss": "base",
    "LossName": "tables",
    "PairwiseLoss": "pairwise",
    "get_loss": "registry",
}
if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOMES)
