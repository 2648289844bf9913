"""Checks of arguments, which raise a `DataError` that names the argument."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any

from ..errors import DataError


def choice(name: str, value: object, known: Iterable[object], more: str = "") -> None:
    """Raise a `DataError` that lists the known values, unless `value` is one of them.

    Examples
    --------
    >>> choice("pairs", "all", ["all", "adjacent"])
    """
    known = list(known)
    if not any(value is other or (isinstance(value, str) and value == other) for other in known):
        listed = ", ".join(repr(other) for other in known) + (f" {more}" if more else "")
        raise DataError(f"{name} is {value!r}; known choices are {listed}")


def known_names(name: str, names: Iterable[str]) -> str:
    """Return the end of an error sentence: the names that are near, and all of them.

    Examples
    --------
    >>> known_names("ranksvn", ["ranksvm", "svr"])
    'did you mean ranksvm? known are ranksvm, svr'
    >>> known_names("SVR", ["ranksvm", "svr"])
    'did you mean svr? known are ranksvm, svr'
    """
    names = sorted(names)
    folded = {known.casefold(): known for known in names}
    near = [folded[found] for found in get_close_matches(name.casefold(), folded)]
    question = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{question}known are {', '.join(names)}"


def finite_number(name: str, value: object) -> float:
    """Return a finite number as a float, or raise a `DataError`.

    Examples
    --------
    >>> finite_number("base", -2)
    -2.0
    """
    number = _as_float(value)
    if not math.isfinite(number):
        raise DataError(f"{name} is {_shown(value)}; expected a finite number")
    return number


def positive_number(name: str, value: object) -> float:
    """Return a finite number above 0 as a float, or raise a `DataError`.

    Examples
    --------
    >>> positive_number("C", 2)
    2.0
    """
    number = _as_float(value)
    if not 0 < number < math.inf:
        raise DataError(f"{name} is {_shown(value)}; expected a finite number above 0")
    return number


def _as_float(value: object) -> float:
    """Return a number as a float; NaN for anything else, and for ints that no float can hold."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        return math.nan


def number_from_zero(name: str, value: object) -> float:
    """Return a finite number of at least 0 as a float, or raise a `DataError`.

    Examples
    --------
    >>> number_from_zero("margin", 0)
    0.0
    """
    if isinstance(value, Real) and value == 0:
        return 0.0
    try:
        return positive_number(name, value)
    except DataError:
        raise DataError(f"{name} is {_shown(value)}; expected a finite number ≥ 0") from None


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


def boolean(name: str, value: object) -> bool:
    """Return True or False, or raise a `DataError` for anything else.

    Examples
    --------
    >>> boolean("relax", True)
    True
    """
    if not isinstance(value, bool):
        raise DataError(f"{name} is {_shown(value)}; expected True or False")
    return value


def _shown(value: object) -> str:
    """Return a value as text. Python itself raises an error for integers of 5000 digits."""
    is_huge = isinstance(value, int) and not -(10**40) < value < 10**40
    return "a number of more than 40 digits" if is_huge else repr(value)[:60]
