"""Figures of matplotlib as SVG inside a page, in the colours of the page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from .._draw import STYLE, check_matplotlib
from .._text import printable
from ..errors import DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    >>> from linrank.report.plots import new_figure
    >>> with new_figure(height=3.0) as figure:
    ...     _ = figure.subplots().plot([1, 2, 3])
    ...     svg = svg_of(figure)
    >>> svg.startswith("<svg viewBox=")
    True
    """
    check_matplotlib()
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context(_DRAWN):
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
            f"picture {prefix!r} is no SVG element ({error}); use linrank.report.svg.svg_of"
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
