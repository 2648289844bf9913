"""The report of a study as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .._draw import has_matplotlib
from .._version import __version__
from ..report.page import Block, Details, Page, Picture, Section
from ..report.plots import new_figure
from ..report.svg import NO_PICTURES, svg_of
from .analysis import Analysis
from .content import Content, Folded, study_parts
from .drawings import Drawing
from .results import StudyResults
from .sentences import listed

NAMED_DATA_SETS = 3  #: data sets that a title names; of more, it has the number


def study_page(results: StudyResults, command: str = "", baseline: str | None = None) -> Page:
    """Return the report of a study as a page, with its summary first.

    Parameters
    ----------
    results : StudyResults
    command : str
        The command that repeats the study; it is shown at the end.
    baseline : str, optional
        The method with which all others are compared. None: the best method of each data set.
    """
    draws = has_matplotlib()
    sections = [
        Section(part.key, part.title, list(_blocks(part.contents, draws)))
        for part in study_parts(Analysis(results, baseline), command)
    ]
    lead = (
        f"Settings are chosen by {results.metric} on validation data; all other numbers are of "
        "test data, unless they say so."
    )
    lead = lead if draws else f"{lead} {NO_PICTURES}"
    footer = f"Made by linrank {__version__}."
    return Page(_title(results), sections, lead, footer)


def _title(results: StudyResults) -> str:
    names = results.data_sets
    on = listed(names) if len(names) <= NAMED_DATA_SETS else f"{len(names)} data sets"
    return f"{_counted(len(results.methods), 'method')} on {on}"


def _blocks(contents: Sequence[Content], draws: bool) -> Iterator[Block]:
    """Draw pictures, or leave them out; leave out what is then empty."""
    for content in contents:
        if isinstance(content, Drawing):
            if draws:
                yield picture(content)
        elif isinstance(content, Folded):
            inner = list(_blocks(content.contents, draws))
            if inner:
                yield Details(content.title, inner)
        else:
            yield content


def picture(drawing: Drawing) -> Picture:
    """Draw a picture for a page."""
    with new_figure(drawing.height) as figure:
        drawing.draw(figure)
        return Picture(drawing.key, drawing.caption, drawing.alt, svg_of(figure))


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
