"""Functions of the weights that make a ranker sparse."""

from __future__ import annotations

from typing import Any

from ..errors import choice
from .base import Penalty
from .concave import MCP, SCAD, Log, Lp
from .convex import L1, ElasticNet

PENALTIES: dict[str, type[Penalty]] = {
    "l1": L1,
    "elastic_net": ElasticNet,
    "mcp": MCP,
    "scad": SCAD,
    "log": Log,
    "lp": Lp,
}


def make_penalty(name: str, **options: Any) -> Penalty:
    """The penalty of that name, with its parameters.

    Examples
    --------
    >>> make_penalty("log", epsilon=0.5)
    Log(weights=None, epsilon=0.5)
    """
    choice("penalty", name, PENALTIES)
    return PENALTIES[name](**options)


__all__ = ["L1", "MCP", "PENALTIES", "SCAD", "ElasticNet", "Log", "Lp", "Penalty", "make_penalty"]
