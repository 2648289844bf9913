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


class GridEdgeWarning(UserWarning):
    """The best C is the smallest or the largest of those that were tried."""


class NotConvergedWarning(UserWarning):
    """The solver stopped before its stopping rule was met; the message says where it stands."""


class NothingSelectedWarning(UserWarning):
    """No feature has a weight; the message names the smallest C for which one has."""


class QueriesMovedWarning(UserWarning):
    """Rows were moved between workers, whose parts shared queries; the message counts them."""


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
