"""Curves and surfaces as entries of model files, which are checked when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..errors import DataError
from ..features.axis import Axis
from .curves import Curve, Surface
from .files import Content, numbers

T = TypeVar("T")


def describe_curve(curve: Curve) -> Content:
    """Return a curve as values that JSON has."""
    return {
        "feature": curve.feature,
        **_describe_axis(curve.axis),
        "pieces": curve.pieces.tolist(),
        "band": None if curve.band is None else [part.tolist() for part in curve.band],
        **_describe_training(curve),
    }


def describe_surface(surface: Surface) -> Content:
    """Return a surface as values that JSON has."""
    return {
        "features": list(surface.features),
        "axes": [_describe_axis(axis) for axis in surface.axes],
        "values": surface.values.tolist(),
        **_describe_training(surface),
    }


def _describe_axis(axis: Axis) -> Content:
    return {"knots": axis.knots.tolist(), "levels": axis.levels}


def _describe_training(part: Curve | Surface) -> Content:
    counts = None if part.counts is None else part.counts.tolist()
    return {"counts": counts, "mean": part.mean, "spread": part.spread}


def read_all(content: Content, name: str, read: Callable[[Content], T]) -> list[T]:
    """Read the list of curves or of surfaces of a model file; errors name the entry."""
    parts = content[name]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise DataError(f"{name} is not a list of objects")
    found = []
    for number, part in enumerate(parts):
        try:
            found.append(read(part))
        except KeyError as error:
            raise DataError(f"{name}[{number}]: {error} is missing") from None
        except DataError as error:
            raise DataError(f"{name}[{number}]: {error}") from None
    return found


def read_curve(content: Content) -> Curve:
    """Return the curve in an entry of a model file."""
    band = content["band"]
    return Curve(
        _feature(content["feature"]),
        _read_axis(content),
        _table(content["pieces"], "pieces"),
        _counts(content["counts"], 1),
        None if band is None else tuple(_table(part, "band") for part in _pair(band, "band")),
        **_read_moments(content),
    )


def read_surface(content: Content) -> Surface:
    """Return the surface in an entry of a model file."""
    j, k = _pair(content["features"], "features")
    first, second = _pair(content["axes"], "axes")
    return Surface(
        (_feature(j), _feature(k)),
        (_read_axis(first), _read_axis(second)),
        _table(content["values"], "values"),
        _counts(content["counts"], 2),
        **_read_moments(content),
    )


def _read_axis(content: Any) -> Axis:
    if not isinstance(content, dict):
        raise DataError("an axis is not an object")
    return Axis(numbers(content, "knots"), content["levels"])  # type: ignore[arg-type]


def _feature(value: Any) -> int:
    if type(value) is not int:
        raise DataError(f"feature is {repr(value)[:60]}; expected a whole number")
    return value


def _pair(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise DataError(f"{name} is not a list of two")
    return value


def _table(value: Any, name: str) -> Any:
    """Return a list of lists of numbers; neither truth values nor texts are numbers here."""
    if not isinstance(value, list):
        raise DataError(f"{name} is not a table of numbers")
    return [numbers({name: row}, name) for row in value]


def _counts(value: Any, n_dims: int) -> Any:
    if value is None:
        return None
    return numbers({"counts": value}, "counts") if n_dims == 1 else _table(value, "counts")


def _read_moments(content: Content) -> dict[str, float | None]:
    """Return the mean and the spread over the training documents, if they are known."""
    for name in ("mean", "spread"):
        if content[name] is not None and type(content[name]) not in (int, float):
            raise DataError(f"{name} is {repr(content[name])[:60]}; expected a number or null")
    return {name: content[name] for name in ("mean", "spread")}
