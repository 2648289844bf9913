"""The terminal: output for people and programs, progress, errors, and Ctrl-C."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .._start import INTERRUPTED, end_process
from .._util.text import printable
from ..errors import LinrankError

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from ..training.trainer import Update

# --------------------------------------------------------------------------------------------------
# Output of commands: tables for people, and one JSON object for programs.


UNLIMITED_COLUMNS = (
    10_000  #: columns of output that is not a terminal, so that no line is wrapped or cut
)


def console(*, stderr: bool = False) -> Console:
    """Return a console on stdout or stderr, with colours only if it is a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNLIMITED_COLUMNS
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def show(*things: RenderableType) -> None:
    """Print for people. A table that is wider than the terminal is not cut."""
    for thing in things:
        out = console()
        if isinstance(thing, Table) and thing.box is not None:
            unlimited = out.options.update(max_width=UNLIMITED_COLUMNS)
            out.width = max(out.width, Measurement.get(out, unlimited, thing).maximum)
        if out.is_terminal:
            out.print(thing, crop=False)
            continue
        with out.capture() as captured:
            out.print(thing)
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_json(content: Mapping[str, object]) -> None:
    """Print one JSON object. NaN and infinity become null."""
    print(json.dumps(_plain(content), indent=1, allow_nan=False))


def _plain(value: object) -> object:
    """Convert a value to the types of JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def facts(lines: Iterable[tuple[str, str]]) -> Table:
    """Return a table without borders, with a name and a text per line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(plain(name), plain(text))
    return table


def plain(text: str) -> Text:
    """Return a text without markup, in which control characters are escaped."""
    return Text(printable(text))


def grid(columns: Sequence[str], *, left: Sequence[str] = (), title: str | None = None) -> Table:
    """Return an empty table. Columns are aligned to the right, except for those in `left`."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in columns:
        table.add_column(plain(name), justify="left" if name in left else "right", no_wrap=True)
    return table


def format_mean(value: float | None) -> str:
    """Return the mean of a metric as text, or a dash if it is undefined."""
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def format_bytes(size: float) -> str:
    """Return a number of bytes as text, with a suitable unit.

    Examples
    --------
    >>> format_bytes(1_234_567)
    '1.2 MB'
    """
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


# --------------------------------------------------------------------------------------------------
# Ctrl-C in a command: it raises `KeyboardInterrupt`. Elsewhere, it ends the process.


RETRY_DELAY = 0.05  #: seconds until an interrupt that could not be raised is sent again


class interrupts_raise:
    """Context manager in which Ctrl-C raises `KeyboardInterrupt`.

    Python cannot raise an exception in a destructor or in a callback from C, such as those of LLVM
    during compilation. The interrupt is then sent again after `RETRY_DELAY`.
    """

    def __enter__(self) -> None:
        self._hook, sys.unraisablehook = sys.unraisablehook, self._not_raised
        self._exits = signal.getsignal(signal.SIGINT) is end_process
        if self._exits:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.unraisablehook = self._hook
        if self._exits:
            signal.signal(signal.SIGINT, end_process)

    def _not_raised(self, found: sys.UnraisableHookArgs) -> None:
        if found.exc_type is not KeyboardInterrupt:
            self._hook(found)
            return
        import threading

        again = threading.Timer(RETRY_DELAY, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()


# --------------------------------------------------------------------------------------------------
# Errors of commands as one line and an exit code, without a traceback.
#
# With the environment variable ``LINRANK_DEBUG=1``, errors have a traceback.
#
# ======  ========================================================================================
# code    meaning
# ======  ========================================================================================
# 0       success
# 1       the solver did not converge, or runs of a study failed; results are saved nevertheless.
#         Data have drifted (check), or a model is worse than allowed (compare --allow-loss)
# 2       wrong usage or wrong input
# 130     Ctrl-C; the best model so far, or the finished runs of a study, are saved
# 141     the reader of the output has closed the pipe
# ======  ========================================================================================


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


# --------------------------------------------------------------------------------------------------
# Progress bars on stderr, shown only on a terminal and only after one second.


DELAY = 1.0  #: seconds until a progress bar appears


def _show_nothing(**_: object) -> None:
    pass


@contextmanager
def progress(
    description: str, *columns: ProgressColumn, total: float | None = None
) -> Iterator[Update]:
    """Show a progress bar after `DELAY`, and remove it at the end."""
    screen = console(stderr=True)
    if not screen.is_interactive:
        yield _show_nothing
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), *columns,
        TextColumn("{task.fields[text]}", markup=False), TimeElapsedColumn(),
        console=screen, transient=True, redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    task = bar.add_task(printable(description), total=total, text="")
    later = _LaterBar(bar.start)
    try:
        yield lambda **changes: bar.update(task, **changes)
    finally:
        later.cancel()
        bar.stop()


class _LaterBar:
    """Call of a function after `DELAY`, unless it is cancelled before."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._function: Callable[[], None] | None = function
        self._timer = threading.Timer(DELAY, self._call)
        self._timer.daemon = True
        self._timer.start()

    def _call(self) -> None:
        with self._lock:
            if self._function is not None:
                self._function()

    def cancel(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._function = None


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[Callable[[float], None]]:
    """Show the bytes of a file that were read, and the speed.

    Yields a function that takes the fraction that was read.
    """
    from rich.progress import DownloadColumn, TransferSpeedColumn

    size = os.path.getsize(path) if os.path.isfile(path) else 0
    with progress(
        f"reading {os.fspath(path)}", DownloadColumn(), TransferSpeedColumn(), total=size or None
    ) as update:
        yield lambda fraction: update(completed=fraction * size)
