"""Bounds on the weights: low ≤ w ≤ high, for all features or for each feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from .._typing import Mask, Vector
from ..errors import DataError

#: A number, one number per feature, or numbers by feature name; None is no limit.
Limit: TypeAlias = float | Sequence[float] | Vector | Mapping[str, float] | None
BoundsLike: TypeAlias = "Literal['positive'] | tuple[Limit, Limit] | Bounds | None"


class Bounds(NamedTuple):
    """Limits of each weight: low_j ≤ w_j ≤ high_j.

    Parameters
    ----------
    low, high : float64 arrays of shape (n_features,)
        The limits; −∞ and ∞ are no limits.

    Examples
    --------
    >>> make_bounds("positive", 2).clip(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    >>> make_bounds((None, {"age": 0.5}), 2, ["size", "age"]).high.tolist()
    [inf, 0.5]
    """

    low: Vector
    high: Vector

    def clip(self, w: Vector) -> Vector:
        """Return the nearest weights within the limits."""
        return np.clip(w, self.low, self.high)

    def blocks(self, w: Vector, direction: Vector) -> Mask:
        """Return the features at a limit for which the direction leads beyond the limit."""
        return ((w <= self.low) & (direction < 0)) | ((w >= self.high) & (direction > 0))

    def contain_zero(self) -> bool:
        """Return whether w = 0 is within the limits."""
        return bool((self.low <= 0).all() and (self.high >= 0).all())


def make_bounds(
    bounds: BoundsLike, n_features: int, names: Sequence[str] | None = None
) -> Bounds | None:
    """Return the limits of each weight as arrays; None if no weight has a limit.

    Parameters
    ----------
    bounds : None, "positive" or (low, high)
        ``"positive"`` is ``(0, None)``. Each limit is a number for all features, an array with one
        number per feature, or a dict by feature name. Features that are not in the dict have no
        limit. None is no limit.
    n_features : int
    names : sequence of str, optional
        The names of the features, for limits by name.
    """
    if bounds is None:
        return None
    if isinstance(bounds, str) and bounds == "positive":
        bounds = (0.0, None)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise DataError(f"bounds is {bounds!r}; expected None, 'positive' or (low, high)")
    low = _limits("low", bounds[0], -np.inf, n_features, names)
    high = _limits("high", bounds[1], np.inf, n_features, names)
    bad = np.flatnonzero(~(low <= high) | (low == np.inf) | (high == -np.inf))
    if len(bad):
        name = repr(names[bad[0]]) if names is not None else str(bad[0])
        raise DataError(
            f"bounds of feature {name} are {low[bad[0]]:g} and {high[bad[0]]:g}; expected "
            "numbers with low ≤ high"
        )
    if not np.isfinite(low).any() and not np.isfinite(high).any():
        return None
    return Bounds(low, high)


def _limits(
    side: str, limit: Limit | str, default: float, n_features: int, names: Sequence[str] | None
) -> Vector:
    if limit is None:
        return np.full(n_features, default)
    limit = _by_label(limit)
    if isinstance(limit, Mapping):
        return _limits_by_name(side, limit, default, n_features, names)
    values = np.atleast_1d(np.asarray(limit, dtype=object)).ravel()
    if not all(one is None or isinstance(one, Real) for one in values):
        raise DataError(f"bounds: {side} is {str(limit)[:60]!r}; expected numbers")
    limits = np.array([default if one is None else one for one in values], np.float64)
    if np.ndim(limit) == 0:
        return np.full(n_features, limits[0])
    if limits.shape != (n_features,):
        raise DataError(
            f"bounds: {side} has shape {np.shape(limit)}; expected one number for each of the "
            f"{n_features} features"
        )
    return limits


def _by_label(limit: Any) -> Any:
    """Return a labelled series, such as one of pandas, as a dict by feature name."""
    labels = getattr(limit, "index", None)
    if not hasattr(limit, "to_dict") or labels is None:
        return limit
    return limit.to_dict() if all(isinstance(label, str) for label in labels) else limit


def _limits_by_name(
    side: str,
    limit: Mapping[str, float],
    default: float,
    n_features: int,
    names: Sequence[str] | None,
) -> Vector:
    if names is None:
        raise DataError(
            f"bounds: {side} is given by feature name, but the features have no names. Give an "
            "array with one number per feature, or fit on data with column names."
        )
    place = {name: number for number, name in enumerate(names)}
    limits = np.full(n_features, default)
    for name, value in limit.items():
        if name not in place:
            raise DataError(
                f"bounds: {side} names {name!r}, which is not a feature of the data. The first "
                f"feature is {names[0]!r}."
            )
        if value is not None and not isinstance(value, Real):
            raise DataError(f"bounds: {side} of {name!r} is {value!r}; expected a number or None")
        limits[place[name]] = default if value is None else value
    return limits


def describe_bounds(bounds: BoundsLike) -> Any:
    """Return bounds as plain data, for model files: infinite limits are None.

    Examples
    --------
    >>> describe_bounds(([0.0, -np.inf], {"age": 1}))
    [[0.0, None], {'age': 1}]
    """
    if bounds is None or isinstance(bounds, str):
        return bounds
    return [_plain_limit(limit) for limit in bounds]


def _plain_limit(limit: Any) -> Any:
    limit = _by_label(limit)
    if isinstance(limit, Mapping):
        return {str(name): _plain_limit(one) for name, one in limit.items()}
    if np.ndim(limit):
        return [_plain_limit(one) for one in np.asarray(limit).tolist()]
    return None if limit is None or not np.isfinite(limit) else limit
