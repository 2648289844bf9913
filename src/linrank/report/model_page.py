"""The page of a model: its facts, the importance of its features, its curves and its settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from .._util.text import setting_text
from .._version import __version__
from ..errors import DataError
from ..export.programs import write_javascript
from ..export.targets import formula_of
from ..model import AdditiveModel, Model
from ..model.curves import sentences_of
from ..plots import has_matplotlib, new_figure
from ..plots.curve_plots import PAGE_HEIGHT, PlottedPart, draw_one
from .page import (
    NO_PICTURES,
    Block,
    Calculator,
    Cell,
    Details,
    Facts,
    Page,
    Picture,
    Section,
    Table,
    TableColumn,
    Value,
    svg_of,
    write_page,
)

OPEN = 24  #: pictures that are shown at once; readers open those of less important parts
NAMED = 3  #: features that the summary names
BARS = 20  #: features in the picture of a model without curves
FIELDS = 200  #: features of a row that the page scores; more fields are no help
SCRIPT = 200_000  #: letters of the function that scores a row; pages with longer ones load slowly
ROWS = 10_000  #: parts in the table of all parts; a browser needs seconds for more

_CURVES = (
    "A curve shows what a value of the feature adds to the score, compared with the average "
    "training document. Grey bars show where the training documents are, a shaded area is the "
    "uncertainty, and a circle on the right stands for missing values."
)
_PAIRS = (
    "A pair shows what both values add together, beside their curves: blue raises the score, "
    "orange lowers it. A cross marks cells without training documents."
)


def write_model_page(path: str | os.PathLike[str], model: Model, title: str = "") -> None:
    """Write the page of a model: one HTML file that needs no network.

    Parameters
    ----------
    path : path-like
        The file, which is replaced when the new one is complete.
    model : Model
    title : str
        The heading, for example the name of the file of the model. Without it, the class is named.
    """
    write_page(path, model_page(model, title))


def model_page(model: Model, title: str = "") -> Page:
    """Return the page of a model.

    Examples
    --------
    >>> from linrank import LinearModel
    >>> model_page(LinearModel([1.0, 2.0])).title
    'LinearModel'
    """
    parts = [
        Section("summary", "Summary", list(_summary(model))),
        Section("features", "Features", list(_features(model))),
        Section("curves", "Curves", list(_curves(model))),
        Section("score", "Score of a row", list(_calculator(model))),
        Section("settings", "Settings", list(_settings(model))),
    ]
    lead = f"A model of the class {type(model).__name__}."
    lead = lead if has_matplotlib() else f"{lead} {NO_PICTURES}"
    sections = [part for part in parts if part.blocks]
    return Page(title or type(model).__name__, sections, lead, f"Made by linrank {__version__}.")


def _summary(model: Model) -> Iterator[Block]:
    facts = {"features": model.n_features, **model.facts()}
    yield Facts(_texts(facts))
    columns, order = model.columns(), model.ordered()[:NAMED].tolist()
    if columns:
        largest = [model.part_name(f) for f in order if columns[-1].values[f]]
        if largest:
            yield f"The most important parts by {columns[-1].title} are: {', '.join(largest)}."


def _features(model: Model) -> Iterator[Block]:
    columns = model.columns()
    if not columns:
        return
    if has_matplotlib() and not isinstance(model, AdditiveModel):
        with new_figure(model.figure_size(BARS)[1]) as figure:
            model.draw(figure, BARS)
            svg = svg_of(figure)
        alt = f"Bars of the features with the largest {columns[-1].title}."
        yield Picture("importance", "The most important features.", alt, svg)
    yield _table(model)


def _table(model: Model) -> Table:
    """Return the parts of a model, the most important ones first."""
    columns, order = model.columns(), model.ordered()
    title = "Features by importance"
    if len(order) > ROWS:
        title += f": the first {ROWS:,} of {len(order):,}"
        order = order[:ROWS]
    remarks = model.remarks(order)
    numbers = [
        [Cell(value, text) for value, text in zip(c.values[order], c.texts(order), strict=True)]
        for c in columns
    ]
    heads = [
        TableColumn("feature"),
        *(TableColumn(c.title, "number", help=c.meaning) for c in columns),
    ]
    rows: Sequence[Sequence[Value | Cell]] = [
        list(row)
        for row in zip(
            map(model.part_name, order.tolist()), *numbers, *remarks.values(), strict=True
        )
    ]
    return Table("features", title, [*heads, *map(TableColumn, remarks)], rows)


def _curves(model: Model) -> Iterator[Block]:
    """Yield pictures of curves and then of surfaces, the most important ones first."""
    if not isinstance(model, AdditiveModel) or not has_matplotlib():
        return
    drawings = model.drawings()
    order = [part for part in model.ordered().tolist() if part in drawings]
    curves = [part for part in order if part < model.n_features]
    pairs = [part for part in order if part >= model.n_features]
    for parts, about, word in ((curves, _CURVES, "curves"), (pairs, _PAIRS, "pairs")):
        if not parts:
            continue
        yield about
        pictures = [_picture(f"{part}" + k * "-query", one)
                    for part in parts for k, one in enumerate(drawings[part])]  # fmt: skip
        yield from pictures[:OPEN]
        if pictures[OPEN:]:
            yield Details(f"{len(pictures) - OPEN} less important {word}", pictures[OPEN:])


def _picture(place: str, part: PlottedPart) -> Picture:
    with new_figure(PAGE_HEIGHT) as figure:
        draw_one(figure.subplots(), part)
        svg = svg_of(figure)
    function = part.function
    known = "" if function.spread is None else f" The importance is {function.spread:.3g}."
    if function.counts is not None:
        known += f" There are {int(function.counts.sum()):,} training documents."
    text = sentences_of(part.title, function)
    return Picture(f"part-{place}", f"{text}{known}", f"Plot: {text}", svg)


def _calculator(model: Model) -> Iterator[Block]:
    """Yield fields for the features of a row, whose score the browser computes."""
    try:
        formula = formula_of(model)
    except DataError:  # The model is no sum over features, or scales them within queries.
        return
    if formula.positions or not 1 <= len(formula.columns) <= FIELDS:
        return
    script = write_javascript(formula)
    if len(script) > SCRIPT:
        return
    fields = {}
    for j, name in zip(formula.columns, formula.used, strict=True):
        column = formula.tests[j][0] if j in formula.tests else name
        fields[column] = "text" if j in formula.tests or j in formula.codes else "number"
    yield (
        "The browser computes the score of these values. An empty field is a missing value. A row "
        "of numbers may be pasted into its first field."
    )
    yield Calculator("score", list(fields.items()), script)


def _settings(model: Model) -> Iterator[Block]:
    for key, title, found in (
        ("settings", "Settings of the training", model.settings),
        ("training", "Outcome of the training", model.training),
    ):
        if found:
            columns = [TableColumn(key if key == "settings" else "fact"), TableColumn("value")]
            yield Table(key, title, columns, [list(line) for line in _texts(found)])


def _texts(found: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, setting_text(name, value)) for name, value in found.items()]
