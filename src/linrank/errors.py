"""The errors that linrank raises on purpose. All are one sentence that a user can act on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any


class LinrankError(Exception):
    """Base of every error that linrank raises on purpose."""


class DataError(LinrankError, ValueError):
    """The data or an argument cannot be used; the message names it and what is expected."""


class FileFormatError(DataError):
    """A file cannot be read; the message names the file and, where there is one, the line."""


class WorkersLost(LinrankError, RuntimeError):
    """Workers of a cluster are gone and cannot be replaced; the message says why."""


#: The errors above by name: a worker names the error that its client is to raise.
REFUSALS = {kind.__name__: kind for kind in (LinrankError, DataError, FileFormatError, WorkersLost)}


class GridEdgeWarning(UserWarning):
    """The best C is the smallest or the largest of those that were tried."""


class NotConvergedWarning(UserWarning):
    """The solver stopped before its stopping rule was met; the message says where it stands."""


class NothingSelectedWarning(UserWarning):
    """No feature has a weight; the message names the smallest C for which one has."""


class QueriesMovedWarning(UserWarning):
    """Rows were moved between workers, whose parts shared queries; the message counts them."""


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be loaded or stored; the message says which file and why."""


def choice(name: str, value: Any, known: Iterable[Any], more: str = "") -> None:
    """Refuse a value that is none of the known ones, which the message lists.

    Examples
    --------
    >>> choice("pairs", "all", ["all", "adjacent"])
    """
    known = list(known)
    if not any(value is other or (isinstance(value, str) and value == other) for other in known):
        listed = ", ".join(repr(other) for other in known) + (f" {more}" if more else "")
        raise DataError(f"{name} is {value!r}; known choices are {listed}")


def positive_number(name: str, value: Any) -> float:
    """Refuse what is not a finite number above 0, and return it as a float.

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


def whole_number(name: str, value: Any, *, least: int = 1, most: int) -> int:
    """Refuse what is not a whole number within bounds, and return it as an int.

    Examples
    --------
    >>> whole_number("n_threads", 2.0, most=9)
    2
    """
    try:
        number = int(value)
        fits = not isinstance(value, bool | str) and number == value and least <= number <= most
    except (TypeError, ValueError, OverflowError):  # text, NaN and infinity
        fits = False
    if not fits:
        found = _shown(value)
        raise DataError(f"{name} is {found}; expected a whole number from {least} to {most}")
    return number


def _shown(value: Any) -> str:
    """A value as it is shown; Python refuses to write whole numbers of thousands of digits."""
    is_huge = isinstance(value, int) and not -(10**40) < value < 10**40
    return "a number of more than 40 digits" if is_huge else repr(value)[:60]
