"""Functions of the weights that make a ranker sparse."""

from __future__ import annotations

from typing import Any

from .._checks import choice
from ..errors import DataError
from .base import Penalty
from .concave import MCP, SCAD, Log, Lp
from .convex import L1, ElasticNet

PENALTIES: dict[str, type[Penalty]] = {
    kind.name: kind for kind in (L1, ElasticNet, MCP, SCAD, Log, Lp)
}


def make_penalty(name: str | Penalty, shape: float | None = None, weights: Any = None) -> Penalty:
    """The penalty of that name, or the one that is given.

    Parameters
    ----------
    name : str or Penalty
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
    if isinstance(name, Penalty):
        if shape is not None or weights is not None:
            raise DataError(
                f"shape and feature_cost are those of the penalty that is given, {name!r}: give "
                "them to it"
            )
        return name
    choice("penalty", name, PENALTIES)
    kind = PENALTIES[name]
    if shape is None:
        return kind(weights)
    if kind.parameter is None:
        raise DataError(f"penalty {name!r} has no parameter, but shape is {shape!r}")
    return kind(weights, **{kind.parameter: shape})


__all__ = ["L1", "MCP", "PENALTIES", "SCAD", "ElasticNet", "Log", "Lp", "Penalty", "make_penalty"]
