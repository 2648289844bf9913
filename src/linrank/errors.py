"""The errors that linrank raises on purpose. All are one sentence that a user can act on."""

from __future__ import annotations


class LinrankError(Exception):
    """Base of every error that linrank raises on purpose."""


class DataError(LinrankError, ValueError):
    """The data or an argument cannot be used; the message names it and what is expected."""


class FileFormatError(DataError):
    """A file cannot be read; the message names the file and, where there is one, the line."""


class NotConvergedWarning(UserWarning):
    """The solver stopped before its stopping rule was met; the message says where it stands."""
