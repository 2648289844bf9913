"""Errors as one line and an exit code; never a traceback for what a user did.

======  ==========================================================================
code    meaning
======  ==========================================================================
0       done
1       done, but the solver did not converge; the model is saved all the same
2       bad usage or bad input
130     Ctrl-C; while training, the best model so far is saved
141     nobody reads the output any more
======  ==========================================================================
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from .._text import printable
from ..errors import LinrankError
from ._console import console
from ._interrupt import INTERRUPTED, interrupts_raise

NOT_CONVERGED = 1
BAD_INPUT = 2
BROKEN_PIPE = 141


@contextmanager
def guarded() -> Iterator[None]:
    """Turn what can go wrong in a command into a line on stderr and an exit code."""
    try:
        with interrupts_raise(), warnings.catch_warnings():
            warnings.showwarning = _say_warning
            yield
            sys.stdout.flush()  # a broken pipe shows here, not when Python ends
    except KeyboardInterrupt:
        # Where it passed through an `exec`, as some modules are imported, Python would end the
        # process by a signal, with no exit code. Another `exec` makes Python forget that.
        exec("")
        say_error("interrupted", "")
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
    """One line on stderr, red on a terminal."""
    console(stderr=True).print(before + printable(sentence), style="red", soft_wrap=True)


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """In the place of `warnings.showwarning`, which names a line of the library's code."""
    say_error(str(message), "warning: ")


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return (
            f"there is not enough memory{detail}; a store (linrank convert) is read piece by "
            "piece, and --float32 halves the features"
        )
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return where + error.strerror
    return " ".join(str(error).split())
