"""Errors and warnings of linrank; their messages say what is wrong and what to do."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class LinrankError(Exception):
    """Base class of the errors of linrank."""


class DataError(LinrankError, ValueError):
    """The data or an argument is not valid; the message names it and the expected value."""


class FileFormatError(DataError):
    """A file cannot be read; the message names the file and, in text, the line."""


class WorkersLost(LinrankError, RuntimeError):
    """Workers of a cluster are lost and cannot be replaced; the message gives the reason."""


@contextmanager
def about(name: object) -> Iterator[None]:
    """Begin the message of a `DataError` with the name of a file or an argument."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


@contextmanager
def about_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a `DataError` that the content of a file causes into one that names the file."""
    try:
        yield
    except FileFormatError:
        raise
    except DataError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from None


#: The errors by name. A worker sends the name of an error, and its client raises the error.
REFUSALS = {kind.__name__: kind for kind in (LinrankError, DataError, FileFormatError, WorkersLost)}


class GridEdgeWarning(UserWarning):
    """The best C is the smallest or the largest of those that were tried."""


class ForgottenQueriesWarning(UserWarning):
    """A single query looks like a forgotten `qid`; the message has its number of pairs."""


class SwappedArgumentsWarning(UserWarning):
    """The arguments `y` and `qid` look swapped; the message describes their values."""


class SplitQueriesWarning(UserWarning):
    """Folds have documents of one query on both sides; the message has the number of queries."""


class NotConvergedWarning(UserWarning):
    """The solver stopped before its stopping rule was met; the message has its last values."""


class NothingSelectedWarning(UserWarning):
    """No feature has a weight; the message names the smallest C that selects a feature."""


class FeatureRangeWarning(UserWarning):
    """Features are far outside the range of the training data; the message names one of them."""


class ConstantFeaturesWarning(UserWarning):
    """Features are constant in the training data and cannot be used; the message names some."""


class OrderChangedWarning(UserWarning):
    """An exported model orders documents in another way, because the target rounds scores."""


class StaircaseWarning(UserWarning):
    """An exported model has steps in place of curves; the message says how far scores deviate."""


class QueriesMovedWarning(UserWarning):
    """Rows were moved between workers, because parts shared queries; the message counts them."""


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be loaded or stored; the message names the file and the reason."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning for the line of the first caller outside of the package."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("linrank."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
