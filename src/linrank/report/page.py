"""Pages of results: one HTML file with tables, pictures and commands, which needs no network."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources

from .._files import atomic_write
from ..errors import DataError
from .markup import html
from .svg import labelled_svg
from .table import Cell, Column, Table, Value, check_key, is_empty, with_minus

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
        SVG element, for example of `linrank.report.svg.svg_of`.
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
class Details:
    """Blocks that are folded under a title until a reader opens them."""

    title: str
    blocks: Sequence[Block]


Block = str | Facts | Items | Table | Picture | Code | Details  # a text is a paragraph


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading.

    Attributes
    ----------
    key : str
        Short name, to which links lead. It differs among the sections of a page.
    title : str
    blocks : sequence
        Texts (one per paragraph), `Facts`, `Items`, `Table`, `Picture`, `Code` and `Details`, in
        the order in which they are shown.
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

    All texts are escaped. Without JavaScript everything is shown, and tables are neither sorted
    nor filtered.

    Examples
    --------
    >>> page = Page("Study <1>", [Section("summary", "Summary", ["All is well."])])
    >>> "<h1>Study &lt;1&gt;</h1>" in render_page(page)
    True
    """
    _check_keys(page)
    style, script = _resource("page.css"), _resource("page.js")
    title, footer = _prose(page.title), f"<footer>{_prose(page.footer)}</footer>"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<h1>{title}</h1>
{_optional("p", page.lead, "lead")}
</header>
<nav aria-label="Contents">
<ul>
{_lines(f'<li><a href="#section-{s.key}">{_prose(s.title)}</a></li>' for s in page.sections)}
</ul>
</nav>
<main id="main">
{_lines(map(_section, page.sections))}
</main>
{footer if page.footer else ""}
<script>{script}</script>
</body>
</html>
"""


def _section(section: Section) -> str:
    return (
        f'<section id="section-{section.key}">\n<h2>{_prose(section.title)}</h2>\n'
        f"{_blocks(section.blocks)}\n</section>"
    )


def _blocks(blocks: Sequence[Block]) -> str:
    return _lines(map(_block, blocks))


def _block(block: Block) -> str:
    match block:
        case str():
            return f"<p>{_prose(block)}</p>"
        case Facts():
            facts = (
                f"<div><dt>{_prose(name)}</dt><dd>{_prose(value)}</dd></div>"
                for name, value in block.items
            )
            return f'<dl class="facts">\n{_lines(facts)}\n</dl>'
        case Items():
            return f"<ul>\n{_lines(f'<li>{_prose(text)}</li>' for text in block.texts)}\n</ul>"
        case Code():
            return _code(block)
        case Picture():
            return _picture(block)
        case Details():
            summary = f"<summary>{_prose(block.title)}</summary>"
            return f"<details>\n{summary}\n{_blocks(block.blocks)}\n</details>"
        case Table():
            return _table(block)


def _code(code: Code) -> str:
    text = _lines(map(html, code.text.expandtabs().splitlines()))
    return (
        f'<figure class="code"><figcaption>{_prose(code.label)}</figcaption>\n'
        f"<pre><code>{text}</code></pre></figure>"
    )


def _picture(picture: Picture) -> str:
    svg = labelled_svg(picture.svg, f"picture-{picture.key}", picture.alt)
    return (
        f'<figure class="picture" id="picture-{picture.key}">\n'
        f"{svg}\n<figcaption>{_prose(picture.caption)}</figcaption>\n</figure>"
    )


def _table(table: Table) -> str:
    title = _prose(table.title)
    rows = (f"<tr>{''.join(_row(table, row))}</tr>" for row in table.cells)
    filtered = " data-filter" if len(table.rows) >= FILTER_FROM else ""
    return f"""<div class="table" id="table-{table.key}"{filtered}>
<h3>{title}</h3>
<div class="scroll" role="region" tabindex="0" aria-label="{title}">
<table>
<caption class="hidden">{title}</caption>
<thead><tr>
{_lines(map(_head, table.columns))}
</tr></thead>
<tbody>
{_lines(rows)}
</tbody>
</table>
</div>
{_optional("p", table.note, "note")}{_column_helps(table.columns)}</div>"""


def _column_helps(columns: Sequence[Column]) -> str:
    helps = [(_prose(column.name), _prose(column.help)) for column in columns if column.help]
    if not helps:
        return ""
    terms = _lines(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in helps)
    return f"<details><summary>About the columns</summary>\n<dl>\n{terms}\n</dl></details>\n"


def _head(column: Column) -> str:
    kind = ' class="number"' if column.numeric else ""
    return f'<th scope="col"{kind}>{_prose(column.name)}</th>'


def _row(table: Table, row: Sequence[Cell]) -> Iterable[str]:
    for k, (column, cell, text) in enumerate(
        zip(table.columns, row, table.shown(row), strict=True)
    ):
        tag, scope = ("td", "") if k else ("th", ' scope="row"')
        kind = ' class="number"' if column.numeric else ""
        shown = html(with_minus(text, cell))
        shown = f"<strong>{shown}</strong>" if cell.strong else shown
        shown += f"<sup>{html(cell.mark)}</sup>" if cell.mark else ""
        yield f"<{tag}{scope}{kind}{_data(cell.value)}>{shown}</{tag}>"


def _data(value: Value) -> str:
    """Return the attribute that a cell is sorted by; texts are sorted as they are shown."""
    if is_empty(value):
        return " data-empty"
    if isinstance(value, str):
        return ""
    if isinstance(value, float) and math.isinf(value):
        return f' data-value="{"-" if value < 0 else ""}Infinity"'
    return f' data-value="{float(value or 0)!r}"'


def _optional(tag: str, text: str, kind: str) -> str:
    return f'<{tag} class="{kind}">{_prose(text)}</{tag}>\n' if text else ""


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _prose(text: str) -> str:
    """Escape sentences, in which line breaks are spaces."""
    return html(" ".join(text.split()))


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
