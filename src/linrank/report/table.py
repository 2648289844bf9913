"""Tables of results, as text, CSV, LaTeX, JSON and Markdown."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import choice
from .._tables import text_table
from .._text import printable
from ..errors import DataError
from .markup import latex, markdown

Value = str | int | float | None
EMPTY = "–"  #: text of a value that is None or NaN
SMALLEST_P = 0.001  #: smaller p-values are shown as "<0.001"
_KEY = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def check_key(key: str) -> str:
    """Return a key if it can be part of HTML ids, LaTeX labels and names of files.

    Examples
    --------
    >>> check_key("per-query")
    'per-query'
    """
    if not _KEY.fullmatch(key):
        raise DataError(
            f"key is {key!r}; use lower-case letters, digits and single hyphens, "
            "such as 'per-query'"
        )
    return key


def _p_value(value: float, decimals: int) -> str:
    return f"<{SMALLEST_P:g}" if value < SMALLEST_P else f"{value:.{decimals}f}"


def _seconds(value: float, decimals: int) -> str:
    """Return a time with a number of significant digits, in the unit that suits it."""
    units = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
    size, unit = next((u for u in units if abs(value) >= u[0]), units[-1])
    number = value / size
    many = abs(number) > 10**decimals - 0.6  # the form "g" would write an exponent
    return f"{number:,.0f} {unit}" if many else f"{number:.{decimals}g} {unit}"


#: Kinds of columns: how a number is shown with a number of decimals, and how many are the default.
_KINDS: dict[str, tuple[Callable[[Any, int], str], int]] = {
    "text": (lambda value, decimals: str(value), 0),
    "count": (lambda value, decimals: f"{value:,}", 0),
    "number": (lambda value, decimals: f"{value:.{decimals}f}", 4),
    "signed": (lambda value, decimals: f"{value:+.{decimals}f}", 4),
    "percent": (lambda value, decimals: f"{100 * value:.{decimals}f} %", 1),
    "p": (_p_value, 3),
    "seconds": (_seconds, 3),
}


@dataclass(frozen=True)
class Cell:
    """A value with more than its column says about it.

    Attributes
    ----------
    value : str, int, float or None
        Raw value, which is sorted by and written to CSV and JSON.
    text : str, optional
        What is shown instead of the value, such as ``"0.51 ± 0.02"``.
    strong : bool
        Whether the value is emphasised, for example because it is the best one.
    mark : str
        A sign after the value, such as ``"*"`` for a significant difference.
    """

    value: Value
    text: str | None = None
    strong: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Column:
    """The name of a column, and how its values are shown.

    Attributes
    ----------
    name : str
    kind : {"text", "count", "number", "signed", "percent", "p", "seconds"}
        All but texts are numbers, which are aligned to the right. A share of 0.5 is 50 percent.
        In a column of numbers, a text is shown as it is.
    decimals : int, optional
        Digits after the point, and significant digits of seconds. None: the default of the kind.
    help : str
        A sentence that explains the column.

    Examples
    --------
    >>> Column("time", "seconds").format(90.0), Column("p", "p").format(1e-9)
    ('1.5 min', '<0.001')
    """

    name: str
    kind: str = "text"
    decimals: int | None = None
    help: str = ""

    def __post_init__(self) -> None:
        choice("kind", self.kind, _KINDS)

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.kind != "text"

    def format(self, value: Value) -> str:
        """Return the text that shows a value."""
        if isinstance(value, str):
            return value
        if is_empty(value):
            return EMPTY
        if isinstance(value, float) and math.isinf(value):
            return "∞" if value > 0 else "−∞"
        show, decimals = _KINDS[self.kind]
        return show(value, decimals if self.decimals is None else self.decimals)


def is_empty(value: Value) -> bool:
    """Tell whether a value is None or NaN."""
    return value is None or (isinstance(value, float) and math.isnan(value))


@dataclass(frozen=True)
class Table:
    """A table with a title, whose cells are raw values that their columns format.

    Parameters
    ----------
    key : str
        Short name for HTML ids, LaTeX labels and names of files, such as ``"per-query"``.
    title : str
    columns : sequence of Column
        The first column names the rows.
    rows : sequence of sequences
        Values, or `Cell` objects. None and NaN are empty. Scalars of numpy are taken as well.
    note : str
        Sentences below the table.

    Examples
    --------
    >>> columns = [Column("method"), Column("ndcg@10", "number", 3), Column("pairs", "count")]
    >>> rows = [["ranksvm", Cell(0.51234, strong=True, mark="*"), 1200], ["random", None, 0]]
    >>> table = Table("means", "Means over folds", columns, rows, note="* p < 0.05")
    >>> print(table.to_text())
    Means over folds
    method   ndcg@10  pairs
    ranksvm   0.512*  1,200
    random        –       0
    * p < 0.05
    >>> print(table.to_csv())
    method,ndcg@10,pairs
    ranksvm,0.51234,1200
    random,,0
    <BLANKLINE>
    """

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Value | Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        check_key(self.key)
        if not self.columns:
            raise DataError(f"table {self.key!r} has no columns; give at least one Column")
        for r, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise DataError(
                    f"table {self.key!r}: row {r} has {len(row)} cells, but there are "
                    f"{len(self.columns)} columns; give one cell per column"
                )
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(map(_as_cell, row)) for row in self.rows))

    @property
    def cells(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows, in which every value is a `Cell`."""
        return self.rows  # type: ignore[return-value]  # __post_init__ has made them

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    def shown(self, row: Sequence[Cell]) -> list[str]:
        """Return the texts that show the cells of a row, without their marks."""
        return [
            column.format(cell.value) if cell.text is None else cell.text
            for column, cell in zip(self.columns, row, strict=True)
        ]

    def to_text(self) -> str:
        """Return aligned text, with the title above and the note below."""
        columns = zip(*self.cells, strict=True)
        widths = [max(len(cell.mark) for cell in column) for column in columns]
        rows = [
            [
                text + cell.mark.ljust(width)
                for text, cell, width in zip(self.shown(row), row, widths, strict=True)
            ]
            for row in self.cells
        ]
        left = [k for k, column in enumerate(self.columns) if not column.numeric]
        table = text_table(self.names, rows, left=left)
        return "\n".join(filter(None, (printable(self.title), table, printable(self.note))))

    def to_csv(self) -> str:
        """Return comma-separated raw values in full precision, under the names of the columns.

        Empty cells have no characters. Control characters in texts become Python's escapes.
        """
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(printable, self.names))
        for row in self.cells:
            writer.writerow(_csv_text(cell.value) for cell in row)
        return file.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Return the table as values that JSON has; numbers that are not finite become None."""
        return {
            "key": self.key,
            "title": self.title,
            "note": self.note,
            "columns": [{"name": c.name, "kind": c.kind, "help": c.help} for c in self.columns],
            "rows": [[_json_value(cell.value) for cell in row] for row in self.cells],
        }

    def to_json(self) -> str:
        """Return `to_dict` as strict JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    def to_latex(self) -> str:
        """Return a LaTeX table with a caption and a label; it needs the package booktabs."""
        sides = "".join("r" if column.numeric else "l" for column in self.columns)
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex(self.title)}}}",
            rf"\label{{tab:{self.key}}}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            _latex_row(map(latex, self.names)),
            r"\midrule",
            *(_latex_row(map(_latex_cell, self.shown(row), row)) for row in self.cells),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        if self.note:
            lines.append(rf"\par\smallskip{{\footnotesize {latex(self.note)}\par}}")
        return "\n".join([*lines, r"\end{table}", ""])

    def to_markdown(self) -> str:
        """Return a table of GitHub's Markdown, with the title above and the note below."""
        lines = [
            map(markdown, self.names),
            ("---:" if column.numeric else "---" for column in self.columns),
            *(map(_markdown_cell, self.shown(row), row) for row in self.cells),
        ]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        title = f"**{markdown(self.title)}**" if self.title else ""
        return "\n\n".join(filter(None, (title, table, markdown(self.note)))) + "\n"


def with_minus(text: str, cell: Cell) -> str:
    """Return the text of a cell for typesetting: a negative number begins with a minus sign.

    Examples
    --------
    >>> with_minus("-1.5", Cell(-1.5)), with_minus("-x", Cell("-x"))
    ('−1.5', '-x')
    """
    is_number = text.startswith("-") and not isinstance(cell.value, str)
    return f"−{text[1:]}" if is_number else text


def _as_cell(value: Any) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    if isinstance(cell.value, np.generic):
        cell = Cell(cell.value.item(), cell.text, cell.strong, cell.mark)
    if not isinstance(cell.value, Value):
        raise DataError(
            f"a cell has a value of type {type(cell.value).__name__}; give a text, a number or None"
        )
    return cell


def _csv_text(value: Value) -> str:
    if isinstance(value, str):
        return printable(value)
    return "" if is_empty(value) else repr(value)


def _json_value(value: Value) -> Value:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(text: str, cell: Cell) -> str:
    shown = latex(with_minus(text, cell))
    shown = rf"\textbf{{{shown}}}" if cell.strong else shown
    return shown + (rf"\rlap{{\textsuperscript{{{latex(cell.mark)}}}}}" if cell.mark else "")


def _markdown_cell(text: str, cell: Cell) -> str:
    shown = markdown(text)
    shown = f"**{shown}**" if cell.strong and shown else shown
    return shown + markdown(cell.mark)
