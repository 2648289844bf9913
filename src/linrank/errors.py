"""The errors that linrank raises on purpose. All are one sentence that a user can act on."""

from __future__ import annotations

from collections.abc import Iterable
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
        found = repr(value) if not isinstance(value, int) or -(10**40) < value < 10**40 else "huge"
        raise DataError(f"{name} is {found[:60]}; expected a whole number from {least} to {most}")
    return number
