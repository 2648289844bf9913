"""Checks of arguments: each returns the value or raises a `DataError` that names it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

from .errors import DataError


def choice(name: str, value: Any, known: Iterable[Any], more: str = "") -> None:
    """Raise a `DataError` that lists the known values, unless `value` is one of them.

    Examples
    --------
    >>> choice("pairs", "all", ["all", "adjacent"])
    """
    known = list(known)
    if not any(value is other or (isinstance(value, str) and value == other) for other in known):
        listed = ", ".join(repr(other) for other in known) + (f" {more}" if more else "")
        raise DataError(f"{name} is {value!r}; known choices are {listed}")


def positive_number(name: str, value: Any) -> float:
    """Return a finite number above 0 as a float, or raise a `DataError`.

    Examples
    --------
    >>> positive_number("C", 2)
    2.0
    """
    try:
        fits = isinstance(value, Real) and 0 < float(value) < math.inf
    except OverflowError:  # an int that no float can hold
        fits = False
    if not fits:
        raise DataError(f"{name} is {_shown(value)}; expected a finite number above 0")
    return float(value)


def whole_number(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number between `least` and `most` as an int, or raise a `DataError`.

    Examples
    --------
    >>> whole_number("n_threads", 2.0, most=9)
    2
    """
    try:
        number = int(value)
        fits = not isinstance(value, bool | str) and number == value and least <= number
        fits = fits and (most is None or number <= most)
    except (TypeError, ValueError, OverflowError):  # text, NaN and infinity
        fits = False
    if not fits:
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise DataError(f"{name} is {_shown(value)}; expected a whole number {limits}")
    return number


def _shown(value: Any) -> str:
    """Return the text of a value; Python raises an error for integers of thousands of digits."""
    is_huge = isinstance(value, int) and not -(10**40) < value < 10**40
    return "a number of more than 40 digits" if is_huge else repr(value)[:60]
