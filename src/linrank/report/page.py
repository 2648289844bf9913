"""Pages of results: one HTML file with tables, pictures and commands, which needs no network."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from .._util.checks import choice
from .._util.files import atomic_write
from .._util.text import printable, text_table
from ..errors import DataError
from ..plots import STYLE, check_matplotlib

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup
    from matplotlib.figure import Figure


# --------------------------------------------------------------------------------------------------
# Escaping of texts for LaTeX and Markdown; control characters become Python's escapes.


#: What stands for a character in LaTeX. Brackets and stars are in braces because ``\\`` would
#: take one at the beginning of the next row as its argument. Beyond ASCII, there are signs that
#: tables of linrank use and that pdfTeX does not know, or has in formulas only.
_LATEX = {
    **{sign: "\\" + sign for sign in "{}$&#%_"},
    **{sign: "{" + sign + "}" for sign in "[]*"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "Δ": r"$\Delta$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
}
_LATEX_SIGNS = re.compile("[" + re.escape("".join(_LATEX)) + "]")
#: Signs of Markdown. Those of headings and lists have a meaning at the beginning only.
_MARKDOWN_SIGNS = re.compile(r"[\\`*_\[\]|~$]|^[#+-](?!\d)")


def latex(text: str) -> str:
    r"""Escape a text for LaTeX.

    Examples
    --------
    >>> print(latex("50 % of a_b"))
    50 \% of a\_b
    """
    return _LATEX_SIGNS.sub(lambda found: _LATEX[found.group()], printable(text))


def markdown(text: str) -> str:
    r"""Escape a text for a cell or a paragraph of Markdown.

    Examples
    --------
    >>> print(markdown("a|b <i>"))
    a\|b &lt;i&gt;
    """
    return _MARKDOWN_SIGNS.sub(r"\\\g<0>", escape(printable(text), quote=False))


# --------------------------------------------------------------------------------------------------
# Tables of results, as text, CSV, LaTeX, JSON and Markdown.


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
class TableColumn:
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
    >>> TableColumn("time", "seconds").format(90.0), TableColumn("p", "p").format(1e-9)
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
    >>> quality = TableColumn("ndcg@10", "number", 3)
    >>> columns = [TableColumn("method"), quality, TableColumn("pairs", "count")]
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
    columns: Sequence[TableColumn]
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
        """Return a LaTeX table with a caption and a label; its first line names the packages."""
        sides = "".join("r" if column.numeric else "l" for column in self.columns)
        lines = [
            r"% \usepackage[T1]{fontenc} \usepackage{booktabs}",
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


# --------------------------------------------------------------------------------------------------
# Figures of matplotlib as SVG inside a page, in the colours of the page.


NO_PICTURES = (
    "The report has no pictures, because matplotlib is not installed (pip install 'linrank[plot]')."
)

#: Colours that follow the page, as variables of its style sheet. Where a variable is not defined,
#: the colour is the one that was drawn.
_VARIABLES = {
    "#000000": "var(--ink, #000000)",
    "#666666": "var(--muted, #666666)",
    STYLE["grid.color"]: f"var(--line, {STYLE['grid.color']})",
    "#ffffff": "var(--paper, #ffffff)",
}
_COLOUR = re.compile("|".join(map(re.escape, _VARIABLES)))
_FAMILY = re.compile("'DejaVu Sans'[^;]*")  # the font of matplotlib, and what may stand in for it
_DIGITS = re.compile(r"(?<=\.\d\d)\d+")  # behind a hundredth of a point, which nobody can see
_IN_LINK, _IN_URL = re.compile(r"(?<=^#).+"), re.compile(r"(?<=url\(#)[^)]+")
_SKIPPED = ("metadata", "style")  # elements of matplotlib that a page does not need
_DRAWN = {**STYLE, "svg.fonttype": "none"}  # texts stay texts


def svg_of(figure: Figure) -> str:
    """Return a figure as an SVG element whose texts, axes and grid have the colours of the page.

    The background is transparent. Black, white and the grey of axes and grids follow the colour
    scheme of the page, and other colours stay. The same figure gives the same text.

    Examples
    --------
    >>> from linrank.plots import new_figure
    >>> with new_figure(height=3.0) as figure:
    ...     _ = figure.subplots().plot([1, 2, 3])
    ...     svg = svg_of(figure)
    >>> svg.startswith("<svg viewBox=")
    True
    """
    check_matplotlib()
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context(_DRAWN), warnings.catch_warnings():
        # The browser draws texts, in fonts that have the letters.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    _clean(root)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("style", f"fill: {_VARIABLES['#000000']}")  # matplotlib leaves out black
    root.set("stroke-linejoin", "round")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    return ElementTree.tostring(root, encoding="unicode")


def labelled_svg(svg: str, prefix: str, label: str) -> str:
    """Return an SVG element as one picture with a label, whose ids begin with a prefix.

    Examples
    --------
    >>> labelled_svg('<svg><g id="a"/><use href="#a"/></svg>', "b", "A cat.")
    '<svg role="img" aria-label="A cat."><g id="b-a" /><use href="#b-a" /></svg>'
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise DataError(
            f"picture {prefix!r} is no SVG element ({error}); use linrank.report.page.svg_of"
        ) from None
    _strip_namespaces(root)
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, f"{prefix}-{value}")
            else:
                element.set(name, _reference(name).sub(rf"{prefix}-\g<0>", value))
    root.set("role", "img")
    root.set("aria-label", printable(" ".join(label.split())))
    return ElementTree.tostring(root, encoding="unicode")


def _clean(root: ElementTree.Element) -> None:
    """Remove what a page does not need, and let colours and fonts follow the page.

    Coordinates are cut to two decimals.
    """
    _strip_namespaces(root)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in _SKIPPED:
                parent.remove(child)
    used = {
        found
        for element in root.iter()
        for name, value in element.attrib.items()
        for found in _reference(name).findall(value)
    }
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        for name, value in element.attrib.items():
            value = _COLOUR.sub(lambda found: _VARIABLES[found.group()], value)
            value = _FAMILY.sub("var(--font, sans-serif)", value)
            element.set(name, _DIGITS.sub("", " ".join(value.split())))
        element.tail = None  # indentation
        if element.text is not None and not element.text.strip():
            element.text = None


def _reference(attribute: str) -> re.Pattern[str]:
    """Return the pattern of ids that an attribute refers to."""
    return _IN_LINK if attribute == "href" else _IN_URL


def _strip_namespaces(root: ElementTree.Element) -> None:
    """Give elements and attributes their plain names, which inline SVG has."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: value for name, value in element.items()}


# --------------------------------------------------------------------------------------------------
# Pages of results: one HTML file with tables, pictures and commands, which needs no network.


FILTER_FROM = 9  #: rows from which a table has a field that filters its rows


@dataclass(frozen=True)
class Facts:
    """Names with short values, shown as a row of large figures.

    Examples
    --------
    >>> Facts([("Methods", "12"), ("Folds", "5")]).items[0]
    ('Methods', '12')
    """

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Items:
    """Sentences as a list with bullets."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Commands or other text that is shown as it is, with a button that copies it.

    Attributes
    ----------
    text : str
    label : str
        What the text is, such as ``"Repeat the study"``.
    """

    text: str
    label: str


@dataclass(frozen=True)
class Picture:
    """An SVG picture with a caption.

    Attributes
    ----------
    key : str
        Short name, such as ``"ndcg-by-fold"``. It differs among the pictures of a page.
    caption : str
        Sentences below the picture.
    alt : str
        What the picture shows, for readers who cannot see it.
    svg : str
        SVG element, for example of `linrank.report.page.svg_of`.
    """

    key: str
    caption: str
    alt: str
    svg: str

    def __post_init__(self) -> None:
        check_key(self.key)
        if not self.alt.strip():
            raise DataError(f"picture {self.key!r} has no alt; say in a sentence what it shows")


@dataclass(frozen=True)
class Calculator:
    """Fields whose values a function of JavaScript turns into a score, in the browser.

    Attributes
    ----------
    key : str
        Short name, which differs among the calculators of a page.
    fields : sequence of (str, str)
        The name of each field, and ``"number"`` or ``"text"``.
    script : str
        The definition of a function ``score`` of an object of values by field names. An empty field
        is null.
    """

    key: str
    fields: Sequence[tuple[str, str]]
    script: str

    def __post_init__(self) -> None:
        check_key(self.key)

    def to_script(self) -> str:
        """Return the call that makes the fields, as text for a script of the page."""
        fields = json.dumps([list(field) for field in self.fields])
        function = f"(() => {{\n{self.script}return score;\n}})()"
        call = f'makeCalculator("{self.key}", {fields}, {function});\n'
        return call.replace("</", "<\\/").replace("<!--", "<\\!--")  # in texts of JavaScript only


@dataclass(frozen=True)
class Details:
    """Blocks that are folded under a title until a reader opens them."""

    title: str
    blocks: Sequence[Block]


#: What a section holds; a text is a paragraph.
Block = str | Facts | Items | Table | Picture | Code | Calculator | Details


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading.

    Attributes
    ----------
    key : str
        Short name, to which links lead. It differs among the sections of a page.
    title : str
    blocks : sequence
        Texts (one per paragraph), `Facts`, `Items`, `Table`, `Picture`, `Code`, `Calculator` and
        `Details`, in the order in which they are shown.
    """

    key: str
    title: str
    blocks: Sequence[Block]

    def __post_init__(self) -> None:
        check_key(self.key)


@dataclass(frozen=True)
class Page:
    """A page of results.

    Attributes
    ----------
    title : str
    sections : sequence of Section
        The first one should be a summary.
    lead : str
        A sentence below the title.
    footer : str
        A sentence at the end, for example with the version that made the page.
    """

    title: str
    sections: Sequence[Section]
    lead: str = ""
    footer: str = ""


def write_page(path: str | os.PathLike[str], page: Page) -> None:
    """Write a page to an HTML file, which is replaced when the new one is complete."""
    text = render_page(page)
    with atomic_write(path, "w") as file:
        file.write(text)


def render_page(page: Page) -> str:
    """Return a page as one HTML document that loads nothing else.

    All texts are escaped. Without JavaScript everything is shown but calculators, and tables are
    neither sorted nor filtered.

    Examples
    --------
    >>> page = Page("Study <1>", [Section("summary", "Summary", ["All is well."])])
    >>> "<h1>Study &lt;1&gt;</h1>" in render_page(page)
    True
    """
    _check_keys(page)
    blocks = [block for section in page.sections for block in section.blocks]
    calls = [block.to_script() for block in blocks if isinstance(block, Calculator)]
    script = _resource("page.js") + "".join(calls)
    return _template().render(
        page=page, style=_resource("page.css"), script=script, policy=_policy(script),
        filter_from=FILTER_FROM,
    )  # fmt: skip


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
        finalize=_finalize,
    )  # fmt: skip
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "prose": lambda text: " ".join(text.split()),
        "lines": lambda text: Markup("\n").join(map(printable, text.expandtabs().splitlines())),
        "svg": lambda p: labelled_svg(p.svg, f"picture-{p.key}", p.alt),
        "shown": _shown_row,
        "sort_key": _sort_key,
    }
    return environment.from_string(_resource("page.html"))


def _finalize(value: Any) -> Any:
    """Show the control characters of texts; markup has none."""
    return printable(value) if type(value) is str else value


def _shown_row(row: Sequence[Cell], table: Table) -> Iterable[tuple[TableColumn, Cell, str]]:
    texts = map(with_minus, table.shown(row), row)
    return zip(table.columns, row, texts, strict=True)


def _sort_key(value: Value) -> Markup:
    """Return the attribute that a cell is sorted by; texts are sorted as they are shown."""
    from markupsafe import Markup

    if is_empty(value):
        return Markup(" data-empty")
    if isinstance(value, str):
        return Markup()
    number = float(value or 0)
    infinite = "-Infinity" if number < 0 else "Infinity"
    return Markup(' data-value="{}"').format(infinite if math.isinf(number) else repr(number))


def _check_keys(page: Page) -> None:
    """Raise an error if two sections, tables or pictures have the same key."""
    seen: set[tuple[str, str]] = set()

    def check(parts: Iterable[Section | Block]) -> None:
        for part in parts:
            if isinstance(part, Section | Table | Picture):
                kind = type(part).__name__.lower()
                if (kind, part.key) in seen:
                    raise DataError(
                        f"two parts of the page are {kind} {part.key!r}; give each its own key"
                    )
                seen.add((kind, part.key))
            if isinstance(part, Section | Details):
                check(part.blocks)

    check(page.sections)


def _policy(script: str) -> str:
    """Return what a browser lets the page do: show itself and run this script, and load nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
