"""Penalties: functions of the weights. ½‖w‖² keeps all features; most others select some.

To add a penalty, write its class in a module of this folder. Add its name to `PenaltyName`, and its
module and class to `CLASSES`. This module imports neither numpy nor numba, so that the command line
starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .._util.lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .group import GroupL1
    from .penalty import PENALTIES, Bounds, Penalty, make_penalty
    from .separable import L1, L2, MCP, SCAD, ElasticNet, Log, Lp, NoPenalty

#: The names of the penalties.
PenaltyName = Literal[
    "l2", "none", "l1", "elastic_net", "mcp", "scad", "log", "lp", "group_l1"
]  # fmt: skip

#: The module and the class of each named penalty.
CLASSES: Mapping[PenaltyName, str] = {
    "l2": "separable.L2",
    "none": "separable.NoPenalty",
    "l1": "separable.L1",
    "elastic_net": "separable.ElasticNet",
    "mcp": "separable.MCP",
    "scad": "separable.SCAD",
    "log": "separable.Log",
    "lp": "separable.Lp",
    "group_l1": "group.GroupL1",
}

__all__ = [
    "L1", "L2", "MCP", "PENALTIES", "SCAD", "Bounds", "ElasticNet", "GroupL1",
    "Log", "Lp", "NoPenalty", "Penalty", "PenaltyName", "make_penalty",
]  # fmt: skip

_HOMES = {name: home for home, name in (place.split(".") for place in CLASSES.values())}
_HOMES |= dict.fromkeys(("PENALTIES", "Bounds", "Penalty", "make_penalty"), "penalty")
__getattr__ = lazy_names(__name__, _HOMES)
