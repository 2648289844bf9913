"""Text that is shown to people: counts, numbers, tables, and names from files."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DataError

if TYPE_CHECKING:
    import pandas as pd


# --------------------------------------------------------------------------------------------------
# Text that is shown to people: numbers with units, and escaped names from files.


#: Code points that are no characters; XML and HTML allow not all of them.
_NO_CHARACTERS = "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}"
                         for plane in range(0, 0x110000, 0x10000))  # fmt: skip
#: Control characters, surrogates, and characters that change the direction or position of text.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    f"\ufdd0-\ufdef\ufff9-\ufffb\U000e0000-\U000e007f{_NO_CHARACTERS}]"
)


def printable(text: str) -> str:
    r"""Return a text with its control characters and other non-characters as Python's escapes.

    Names of features and files may come from other people. Control characters in them could erase
    or forge the output on a terminal, and pages and pictures cannot hold U+FFFE.

    Examples
    --------
    >>> printable("title\x1b[2Jbody\n")
    'title\\x1b[2Jbody\\n'
    """
    return _UNPRINTABLE.sub(lambda found: repr(found.group())[1:-1], text)


def count(n: int, one: str, many: str | None = None) -> str:
    """Return a number and a noun, in the singular or plural.

    Examples
    --------
    >>> count(1, "query", "queries"), count(1234, "document")
    ('1 query', '1,234 documents')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def format_C(C: float) -> str:
    """Return C as text, as a power of two if it is one.

    Examples
    --------
    >>> format_C(0.03125), format_C(1.0), format_C(0.3)
    ('2^-5', '1', '0.3')
    """
    mantissa, exponent = math.frexp(C)
    return f"2^{exponent - 1}" if mantissa == 0.5 and C != 1.0 else f"{C:.6g}"


def setting_text(name: str, value: object) -> str:
    """Return a setting, or a fact about a training, as text.

    Examples
    --------
    >>> setting_text("C", 0.25), setting_text("n_docs", 12345), setting_text("scale", None)
    ('2^-2', '12,345', 'none')
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {setting_text(key, item)}" for key, item in value.items())
    if isinstance(value, float):
        return format_C(value) if name == "C" else f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "none" if value is None else str(value)


# --------------------------------------------------------------------------------------------------
# Numbers in text files and in options of the command line.


def parse_number(text: bytes | str) -> float:
    """Return the number that a text holds, or raise a ValueError.

    Unlike Python's ``float``, this refuses ``1_0`` and the digits of other scripts.

    Examples
    --------
    >>> parse_number("1e3"), parse_number(b"-0.5")
    (1000.0, -0.5)
    """
    if not text.isascii() or (b"_" if isinstance(text, bytes) else "_") in text:  # type: ignore[operator]
        raise ValueError(f"could not convert to a number: {text!r}")
    return float(text)


# --------------------------------------------------------------------------------------------------
# Values that users write in texts: on the command line, and in the names of methods.


def parse_literal(text: str) -> Any:
    """Return the Python literal in a text, or the text itself.

    Examples
    --------
    >>> parse_literal("0.5"), parse_literal("false"), parse_literal("huber")
    (0.5, False, 'huber')
    """
    text = text.capitalize() if text.lower() in ("true", "false", "none") else text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


# --------------------------------------------------------------------------------------------------
# Tables of results: as text, as HTML for notebooks, and as data frames.


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
        raise DataError("a data frame needs pandas; install it: pip install pandas") from None
    return pd.DataFrame(dict(columns))
