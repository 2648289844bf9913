"""Penalties by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from numpy.typing import ArrayLike

from .._checks import choice
from ..errors import DataError
from . import CLASSES, PenaltyName
from .base import Penalty
from .bounds import BoundsLike


def _find(place: str) -> type[Penalty]:
    module, name = place.split(".")
    return getattr(import_module(f".{module}", __package__), name)


#: The class of each penalty by its name, such as ``PENALTIES["l1"]``.
PENALTIES: Mapping[str, type[Penalty]] = {name: _find(place) for name, place in CLASSES.items()}


def make_penalty(
    name: PenaltyName | Penalty,
    shape: float | None = None,
    weights: ArrayLike | None = None,
    bounds: BoundsLike = None,
) -> Penalty:
    """Return the penalty of a name, or the given penalty with the bounds added.

    Parameters
    ----------
    name : str or Penalty
    shape : float, optional
        The parameter of the penalty: ρ of elastic_net, γ of mcp, a of scad, ε of log, p of lp, ρ of
        group_l1. The defaults are 0.5, 2, 3.7, 0.1, 0.5 and 0. l2, l1 and none have no parameter.
    weights : array of shape (n_features,), optional
        The cost of each feature.
    bounds : None, "positive" or (low, high)
        Limits of the weights; see `linrank.penalties.Bounds`.

    Returns
    -------
    Penalty

    Examples
    --------
    >>> make_penalty("log", 0.5)
    Log(weights=None, bounds=None, epsilon=0.5)
    """
    if isinstance(bounds, tuple) and all(limit is None for limit in bounds):
        bounds = None
    if isinstance(name, Penalty):
        if shape is not None or weights is not None:
            raise DataError(
                "shape and feature_cost need a penalty that is given by name, but penalty is "
                f"{name!r}. Pass them to its constructor."
            )
        if bounds is None:
            return name
        if name.bounds is not None:
            raise DataError(
                "bounds are given twice: by bounds= and by the penalty. Use bounds=None."
            )
        return replace(name, bounds=bounds)
    choice("penalty", name, PENALTIES, "or a Penalty")
    kind = PENALTIES[name]
    if shape is None:
        return kind(weights, bounds=bounds)
    if kind.parameter is None:
        raise DataError(
            f"penalty={name!r} has no parameter, but shape is {shape!r}. Use shape=None."
        )
    return kind(weights, bounds=bounds, **{kind.parameter: shape})
