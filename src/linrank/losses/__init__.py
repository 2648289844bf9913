"""Losses: functions of the scores within a query, with their kernels.

- `hinge_tables` has the tables of the pairwise losses by name.
- `pairwise` and `domination` have the classes and their kernels.
- `registry` finds a loss by name, and chooses the kernel for a layout of the pairs.
"""

from __future__ import annotations

from .._util.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .domination import DominationLoss
    from .hinge_tables import LossName
    from .loss import Loss
    from .pairwise import PairwiseLoss
    from .registry import LOSSES, get_loss

__all__ = [
    "LOSSES", "DominationLoss", "Loss", "LossName", "PairwiseLoss", "get_loss",
]  # fmt: skip

_HOMES = {
    "LOSSES": "registry",
    "DominationLoss": "domination",
    "Loss": "loss",
    "LossName": "hinge_tables",
    "PairwiseLoss": "pairwise",
    "get_loss": "registry",
}
if not TYPE_CHECKING:  # type checkers report unknown names
    __getattr__ = lazy_names(__name__, _HOMES)
