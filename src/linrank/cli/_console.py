"""Output of commands: tables for people, and one JSON object for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .._text import printable

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
