"""Penalties: functions of the weights. ½‖w‖² keeps all features; most others select some.

To add a penalty, write its class in a module of this folder. Add its name to `PenaltyName`, and its
module and class to `CLASSES`. This module imports neither numpy nor numba, so that the command line
starts fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .._lazy import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .base import Penalty
    from .bounds import Bounds
    from .concave import MCP, SCAD, Log, Lp
    from .convex import L1, ElasticNet
    from .group import GroupL1
    from .l2 import L2, NoPenalty
    from .registry import PENALTIES, make_penalty

#: The names of the penalties.
PenaltyName = Literal[
    "l2", "none", "l1", "elastic_net", "mcp", "scad", "log", "lp", "group_l1"
]  # fmt: skip

#: The module and the class of each named penalty.
CLASSES: Mapping[PenaltyName, str] = {
    "l2": "l2.L2",
    "none": "l2.NoPenalty",
    "l1": "convex.L1",
    "elastic_net": "convex.ElasticNet",
    "mcp": "concave.MCP",
    "scad": "concave.SCAD",
    "log": "concave.Log",
    "lp": "concave.Lp",
    "group_l1": "group.GroupL1",
}

__all__ = [
    "L1", "L2", "MCP", "PENALTIES", "SCAD", "Bounds", "ElasticNet", "GroupL1",
    "Log", "Lp", "NoPenalty", "Penalty", "PenaltyName", "make_penalty",
]  # fmt: skip

_HOMES = {name: home for home, name in (place.split(".") for place in CLASSES.values())}
_HOMES |= {"Penalty": "base", "Bounds": "bounds"}
__getattr__ = lazy_names(
    __name__, _HOMES | dict.fromkeys(("PENALTIES", "make_penalty"), "registry")
)
