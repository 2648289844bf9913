"""The errors that linrank raises on purpose. All are one sentence that a user can act on."""

from __future__ import annotations

import inspect
import warnings


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


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the first caller outside of the package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals["__name__"].startswith("linrank."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
