"""Functions of the weights that make a ranker sparse."""

from __future__ import annotations

from typing import Any

from ..errors import DataError, choice
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


def make_penalty(name: str, shape: float | None = None, weights: Any = None) -> Penalty:
    """The penalty of that name.

    Parameters
    ----------
    name : str
    shape : float, optional
        Its one parameter: ρ of elastic_net, γ of mcp, a of scad, ε of log, p of lp; by default
        0.5, 2, 3.7, 0.1 and 0.5. l1 has none.
    weights : array of shape (n_features,), optional
        What each feature costs.

    Examples
    --------
    >>> make_penalty("log", 0.5)
    Log(weights=None, epsilon=0.5)
    """
    choice("penalty", name, PENALTIES)
    kind = PENALTIES[name]
    if shape is None:
        return kind(weights)
    if kind.parameter is None:
        raise DataError(f"penalty {name!r} has no parameter, but shape is {shape!r}")
    return kind(weights, **{kind.parameter: shape})


__all__ = ["L1", "MCP", "PENALTIES", "SCAD", "ElasticNet", "Log", "Lp", "Penalty", "make_penalty"]
