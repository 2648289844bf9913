"""Errors of commands as one line and an exit code, without a traceback.

With the environment variable ``LINRANK_DEBUG=1``, errors have a traceback.

======  ========================================================================================
code    meaning
======  ========================================================================================
0       success
1       the solver did not converge, or runs of a study failed; results are saved nevertheless
2       wrong usage or wrong input
130     Ctrl-C; the best model so far, or the finished runs of a study, are saved
141     the reader of the output has closed the pipe
======  ========================================================================================
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from .._start import INTERRUPTED
from .._text import printable
from ..errors import LinrankError
from ._console import console
from ._interrupt import interrupts_raise

NOT_CONVERGED = RUNS_FAILED = 1
BAD_INPUT = 2
BROKEN_PIPE = 141


@contextmanager
def guarded() -> Iterator[None]:
    """Turn errors and interrupts of a command into a line on stderr and an exit code."""
    try:
        with interrupts_raise(), warnings.catch_warnings():
            warnings.showwarning = _say_warning
            yield
            sys.stdout.flush()  # a broken pipe is noticed here instead of at the end of Python
    except KeyboardInterrupt as error:
        # If the interrupt passed through an `exec`, as in some imports, Python would end the
        # process by a signal instead of an exit code. Another `exec` resets this state.
        exec("")
        say_error(str(error) or "interrupted", "")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(BROKEN_PIPE) from None
    except (LinrankError, OSError, MemoryError) as error:
        if os.environ.get("LINRANK_DEBUG", "0") != "0":
            raise
        say_error(_sentence(error))
        raise typer.Exit(BAD_INPUT) from None


def say_error(sentence: str, before: str = "error: ") -> None:
    """Print one line on stderr, in red on a terminal."""
    console(stderr=True).print(before + printable(sentence), style="red", soft_wrap=True)


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without the line of source code that `warnings.showwarning` would add."""
    say_error(str(message), "warning: ")


def _sentence(error: Exception) -> str:
    """Return an error as one line."""
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return (
            f"there is not enough memory{detail}; use a store (linrank convert), which is read in "
            "pieces, or --float32, which halves the memory for features"
        )
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return where + error.strerror
    return " ".join(str(error).split())
