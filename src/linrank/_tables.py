"""Tables of results: as text, as HTML for notebooks, and as data frames."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._text import printable
from .errors import DataError

if TYPE_CHECKING:
    import pandas as pd

POSITIVE, NEGATIVE = "#0072B2", "#D55E00"  #: blue and vermilion of the palette of Okabe & Ito
BAR_WIDTH = 120  #: pixels of the longest bar in HTML

# Colours of text are those of the notebook, and lines are half transparent, so that a table can be
# read on a light and on a dark background.
_CELL = "padding:1px 10px 1px 0;border:none;background:transparent;white-space:pre;text-align:"
_LINE = "border-bottom:1px solid rgba(128,128,128,.6)"


def same_decimals(values: Iterable[float]) -> list[str]:
    """Return numbers with a sign and with equal decimals: five digits of the largest.

    Examples
    --------
    >>> same_decimals([12.3456, -0.5])
    ['+12.346', '-0.500']
    """
    values = list(values)
    largest = max((abs(v) for v in values if math.isfinite(v)), default=0.0) or 1.0
    decimals = 4 - math.floor(math.log10(largest))
    form = f"+.{decimals}f" if 0 <= decimals <= 9 else "+.4e"
    return [format(v, form) for v in values]


def text_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], left: Container[int] = (0,)
) -> str:
    """Return an aligned table: the columns of `left` to the left, the others to the right.

    Examples
    --------
    >>> print(text_table(["metric", "mean"], [["map", "0.5"], ["ndcg@10", "0.25"]]))
    metric   mean
    map       0.5
    ndcg@10  0.25
    """
    lines = [[printable(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def html_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    bars: Sequence[float] | None = None,
) -> str:
    """Return a table as HTML that needs no other resources; all texts are escaped.

    Parameters
    ----------
    columns, rows
        As in `text_table`.
    title : str
        A line above the table.
    bars : sequence of float, optional
        One number per row, drawn as a bar in a last column. Negative numbers have another colour.

    Examples
    --------
    >>> "&lt;b&gt;" in html_table(["feature"], [["<b>"]], bars=[-1.0])
    True
    """
    rows = list(rows)
    longest = max(map(abs, bars), default=0.0) or 1.0 if bars is not None else 1.0
    head = "".join(_cell("th", k, name, _LINE) for k, name in enumerate(columns))
    lines = [f"<tr>{head}</tr>"]
    for r, row in enumerate(rows):
        cells = "".join(_cell("td", k, text) for k, text in enumerate(row))
        if bars is not None:
            cells += f'<td style="{_CELL}left">{_bar(bars[r], longest)}</td>'
        lines.append(f"<tr>{cells}</tr>")
    above = f'<div style="padding-bottom:4px">{_escaped(title)}</div>' if title else ""
    table = '<table style="border-collapse:collapse;border:none">' + "".join(lines) + "</table>"
    return f"<div>{above}{table}</div>"


def _cell(kind: str, column: int, text: str, style: str = "") -> str:
    side = "right" if column else "left"
    return f'<{kind} style="{_CELL}{side};{style}">{_escaped(text)}</{kind}>'


def _bar(value: float, longest: float) -> str:
    width = round(BAR_WIDTH * min(1.0, abs(value) / longest))  # 1 for infinity / infinity
    colour = NEGATIVE if value < 0 else POSITIVE
    style = f"display:inline-block;height:.7em;width:{width}px;background:{colour}"
    return f'<span style="{style}"></span>'


def _escaped(text: str) -> str:
    from html import escape  # loads a table of all names of characters

    return escape(printable(text))


def data_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return columns as a pandas DataFrame, or raise a `DataError` if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise DataError("to_frame needs pandas; install it: pip install pandas") from None
    return pd.DataFrame(dict(columns))
