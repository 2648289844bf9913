"""The command ``linrank explain``: contributions of features to scores and orders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from .._util.text import count
from ..errors import DataError
from . import shared_options as options
from .console import facts, grid, plain, print_json, show
from .fitting import bar_table, check_plot
from .inputs import Input, read_for, with_columns

if TYPE_CHECKING:
    from rich.table import Table

    from ..data.ranking import RankingData
    from ..model import Explanation, Model

EPILOG = """
Examples:

linrank explain model.json test.txt --query 17

linrank explain model.json test.txt --query 17 --document 3 --plot document.png

linrank explain model.json test.txt --query 17 --pair 3 8
"""
SHOWN_QUERIES = 5  #: queries that are listed if the wanted one does not exist
MAIN_FEATURES = 3  #: features in a line of the table of documents


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", epilog=EPILOG)(with_columns(explain))


def explain(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A model file.", show_default=False)
    ],
    data: options.Data,
    query: Annotated[
        str,
        typer.Option("--query", metavar="ID", help="The query to explain.", show_default=False),
    ],
    document: Annotated[
        int | None,
        typer.Option(
            "--document",
            metavar="NUMBER",
            help="Explain the score of this document. Documents of a query are numbered from 1, in "
            "the order of the file.",
            show_default="the best documents",
        ),
    ] = None,
    pair: Annotated[
        tuple[int, int] | None,
        typer.Option(
            "--pair",
            metavar="NUMBER NUMBER",
            help="Explain the order of these two documents.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", metavar="NUMBER", min=1, help="Number of features or documents to show."
        ),
    ] = 10,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE.png",
            help="Draw the contributions to one score or order (.png, .svg or .pdf).",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    threads: options.Threads = None,
    json: options.Json = False,
    *,
    inputs: Input,
) -> None:
    """Show what each feature contributes to a score, or to the order of two documents."""
    wanted = pair or (() if document is None else (document,))
    if pair is not None and document is not None:
        raise typer.BadParameter("--document and --pair cannot be combined; use one of them")
    if plot is not None and not wanted:
        raise typer.BadParameter("--plot needs --document or --pair")
    check_plot(plot)
    from ..model import load_model

    learnt = load_model(model)
    learnt.check_additive()
    documents = read_for(learnt, data, inputs, n_threads=threads, needs_label=False)
    found = _Query.find(data, documents, query, learnt)
    explained = found.explain(*wanted) if wanted else None
    if plot is not None and explained is not None:
        _draw(plot, explained, top)
    if json:
        print_json({"model": str(model), "data": str(data), "query": query}
                   | _as_json(found, wanted, explained, top))  # fmt: skip
    elif explained is None:
        show(*_best_documents(found, top))
    else:
        show(plain(_sentence(found, wanted, explained)), bar_table(*explained.table(top)))
        show(*([] if plot is None else [facts([("plot", f"saved as {plot}")])]))


class _Query(NamedTuple):
    """The documents of one query, in the order of the file, with their scores."""

    where: str
    model: Model
    data: RankingData
    ids: list[str] | None
    scores: list[float]

    @classmethod
    def find(cls, path: Path, data: RankingData, wanted: str, model: Model) -> _Query:
        """Return the documents of a query, or raise an error that names some queries."""
        import numpy as np

        names = [str(name) for name in data.query_ids.tolist()]
        if wanted not in names:
            shown = ", ".join(names[:SHOWN_QUERIES])
            more = f" and {count(data.n_queries - SHOWN_QUERIES, 'other')}"
            raise DataError(
                f"{path}: there is no query {wanted!r}. Use --query with one of {shown}"
                f"{more if data.n_queries > SHOWN_QUERIES else ''}."
            )
        q = names.index(wanted)
        own = data.take(np.arange(data.query_ptr[q], data.query_ptr[q + 1]))
        scores = model.predict(own.X, np.zeros(own.n_docs)).tolist()
        return cls(f"{path}: query {wanted}", model, own, own.doc_ids, scores)

    def explain(self, *numbers: int) -> Explanation:
        """Explain the score of one document, or the order of two."""
        for number in numbers:
            if not 1 <= number <= len(self.scores):
                raise DataError(
                    f"{self.where} has no document {number}. Use a number from 1 to "
                    f"{len(self.scores)}."
                )
        X = self.data.X
        rows = [X[number - 1 : number] for number in numbers]
        if len(rows) == 1:
            return self.model.explain(rows[0], X)
        return self.model.explain_pair(rows[0], rows[1], X)

    def ranked(self) -> list[int]:
        """Return the numbers of the documents, the best first; equal scores keep their order."""
        return sorted(range(1, len(self.scores) + 1), key=lambda number: -self.scores[number - 1])

    def name(self, number: int) -> str:
        """Return the number of a document, and its id if there is one."""
        own = self.ids[number - 1] if self.ids is not None else ""
        return f"document {number} ({own})" if own else f"document {number}"

    def facts(self, number: int) -> dict[str, object]:
        """Return what is known of a document."""
        return {
            "document": number,
            "id": None if self.ids is None else self.ids[number - 1],
            "label": float(self.data.y[number - 1]),
            "rank": self.ranked().index(number) + 1,
            "score": self.scores[number - 1],
        }


def _sentence(query: _Query, numbers: Sequence[int], found: Explanation) -> str:
    """Return a line that says what is explained."""
    if len(numbers) == 1:
        known = query.facts(numbers[0])
        place = f"rank {known['rank']} of {len(query.scores)}, label {known['label']:g}"
        return f"{query.name(numbers[0])}, {place}: {found.title}"
    a, b = map(query.name, numbers)
    if found.score == 0:
        return f"{a} and {b} have the same score:"
    return f"{a} is {'above' if found.score > 0 else 'below'} {b} by {abs(found.score):.6g}:"


def _best_documents(query: _Query, top: int) -> tuple[Table, Table]:
    """Return facts about a query, and a table of its documents with the largest scores."""
    table = grid(["rank", "document", "id", "label", "score", "largest contributions"],
                 left=["id", "largest contributions"])  # fmt: skip
    best, base = query.ranked()[:top], ""
    for number in best:
        known, found = query.facts(number), query.explain(number)
        base = f"{found.base:.6g}, the score {found.base_name}" if found.base else ""
        largest = ", ".join(f"{name} {size:+.3g}" for name, size in found.largest(MAIN_FEATURES))
        cells = (
            str(known["rank"]), str(number), str(known["id"] or ""), f"{known['label']:g}",
            f"{found.score:.5g}", largest,
        )  # fmt: skip
        table.add_row(*map(plain, cells))
    lines = [("query", f"{query.where}, the best {len(best)} of {len(query.scores)} documents")]
    lines += [("base", base)] if base else []
    return facts(lines), table


def _draw(plot: Path, found: Explanation, top: int) -> None:
    from ..plots import save_plot
    from ..plots.result_plots import height_of_bars

    save_plot(plot, lambda ax: found.plot(ax, top), height_of_bars(len(found.table(top).rows)))


def _as_json(
    query: _Query, numbers: Sequence[int], found: Explanation | None, top: int
) -> dict[str, object]:
    if found is None:
        best = {number: query.explain(number) for number in query.ranked()[:top]}
    elif len(numbers) == 1:
        best = {numbers[0]: found}
    else:
        documents = [query.facts(number) for number in numbers]
        contributions = _contributions(found, top)
        return {"pair": documents, "difference": found.score, "contributions": contributions}
    return {
        "documents": [
            query.facts(number) | {"base": found.base, "contributions": _contributions(found, top)}
            for number, found in best.items()
        ]
    }


def _contributions(found: Explanation, top: int) -> list[dict[str, object]]:
    columns = found.columns(top)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
