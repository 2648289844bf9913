"""The command ``linrank arena``: a leaderboard from votes between two items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .._util.text import count
from . import shared_options as options
from .console import facts, grid, plain, print_json, progress, show
from .inputs import check_output

if TYPE_CHECKING:
    from ..preferences.preference_model import PreferenceModel
    from ..report.arena_page import Display
    from ..report.page import Table

EPILOG = """
Examples:

linrank arena votes.parquet --report out.html

linrank arena games.csv --order-effect --ties half --scale 400 --base 1500

linrank arena votes.csv --column outcome=verdict --covariates length,markdown

linrank arena votes.parquet --scale 400 --anchor gpt-4=1000 --resamples 1000 --half-width 10
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("arena", epilog=EPILOG)(arena)


def arena(
    votes: Annotated[
        Path,
        typer.Argument(
            metavar="VOTES",
            help="Votes: a Parquet, Arrow, CSV, JSON or JSON Lines file with columns such as "
            "model_a, model_b and winner.",
            show_default=False,
        ),
    ],
    ties: Annotated[
        Literal["davidson", "rao-kupper", "half", "drop"],
        typer.Option("--ties", help="Ties are a third outcome, half a win for each, or left out."),
    ] = "davidson",
    order_effect: Annotated[
        bool,
        typer.Option(
            "--order-effect", help="The first item may have an advantage, as a team at home."
        ),
    ] = False,
    covariates: Annotated[
        str | None,
        typer.Option(
            "--covariates",
            metavar="NAMES",
            help="Columns of numbers that may favour the first item, separated by commas.",
            show_default=False,
        ),
    ] = None,
    penalty: Annotated[
        str,
        typer.Option(
            "--penalty", metavar="NUMBER|none|firth|auto", help="The penalty of strengths."
        ),
    ] = "auto",
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            metavar="FILE",
            help="Features of items: a table with a column item and columns of numbers.",
            rich_help_panel=options.INPUT,
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="USE=NAME",
            help="The column of a use: a, b, outcome, weight or judge. The option can be repeated.",
            rich_help_panel=options.INPUT,
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            "--scale",
            metavar="NUMBER",
            help="Points for a strength that is 10 times as large; 400 as in Elo ratings.",
            show_default="natural logarithms",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    base: Annotated[
        float,
        typer.Option(
            "--base", metavar="NUMBER", help="Added to strengths.", rich_help_panel=options.OUTPUT
        ),
    ] = 0.0,
    anchor: Annotated[
        str | None,
        typer.Option(
            "--anchor",
            metavar="ITEM=NUMBER",
            help="An item and the strength that it gets.",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        float,
        typer.Option(
            "--level", metavar="NUMBER", help="Level of intervals.", rich_help_panel=options.OUTPUT
        ),
    ] = 0.95,
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples",
            metavar="NUMBER",
            min=0,
            help="Intervals from this number of bootstrap samples of votes, or of judges.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = 0,
    half_width: Annotated[
        float | None,
        typer.Option(
            "--half-width",
            metavar="NUMBER",
            help="Add the number of further votes for intervals of ± NUMBER.",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write a page (.html), or the leaderboard as .csv, .json or .txt.",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Fit strengths of items to votes, and show a leaderboard with intervals."""
    check_output(report, votes)
    from ..preferences.preference_model import PreferenceModel
    from ..preferences.votes import read_item_features, read_votes
    from ..report.arena_page import Display, facts_of, leaderboard

    columns = dict(options.split_option(text, "outcome=verdict") for text in column or ())
    names = [name.strip() for name in covariates.split(",")] if covariates else []
    with progress(f"reading {votes}"):
        found = read_votes(votes, columns=columns, covariates=names)
    fixed = _parse_anchor(anchor, found.items)
    display = Display(scale, base, level, fixed, resamples, half_width)
    model = PreferenceModel(
        ties, order_effect=order_effect, penalty=_parse_penalty(penalty), n_threads=threads,
        features=None if features is None else read_item_features(features),
    )  # fmt: skip
    with progress("fitting"):
        model.fit(found)
        table = display.table(model)
    board = leaderboard(table, display)
    if report is not None:
        _write(report, board, model, votes, display)
    if json:
        print_json({"votes": str(votes), "facts": dict(facts_of(model)), **board.to_dict(),
                    "coefficients": model.coefficients(level).to_dict("records")})  # fmt: skip
        return
    lines = [("data", f"{votes}: {count(len(found), 'row')}"), *facts_of(model)]
    lines += [] if report is None else [("report", f"saved as {report}")]
    show(facts(lines))
    shown = grid(board.names, left=["item", "note"])
    for row in board.cells:
        shown.add_row(*map(plain, board.shown(row)))
    show(shown)
    _show_coefficients(model, level)


def _parse_anchor(text: str | None, items: list[Any]) -> dict[Any, float] | None:
    if text is None:
        return None
    item, _, number = text.rpartition("=")
    try:
        return {{str(name): name for name in items}.get(item, item): float(number)}
    except ValueError:
        raise typer.BadParameter(
            f"--anchor is {text!r}; expected an item and a number, such as gpt-4=1000"
        ) from None


def _parse_penalty(text: str) -> float | str | None:
    if text in ("firth", "auto", "none"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"--penalty is {text!r}; expected a number, none, firth or auto"
        ) from None


def _write(
    report: Path, board: Table, model: PreferenceModel, votes: Path, display: Display
) -> None:
    """Write the page, or the leaderboard in another format, by the suffix of the file."""
    from .._util.files import atomic_write
    from ..report.arena_page import write_arena_page

    texts = {".csv": board.to_csv, ".json": board.to_json, ".txt": board.to_text}
    if report.suffix.lower() not in texts:
        with progress(f"writing {report}"):
            write_arena_page(report, model, votes.name, display)
        return
    with atomic_write(report, "w") as file:
        file.write(texts[report.suffix.lower()]() + "\n" * (report.suffix != ".csv"))


def _show_coefficients(model: PreferenceModel, level: float) -> None:
    found = model.coefficients(level)
    if not len(found):
        return
    table = grid(list(found.columns), left=["name", "note"])
    for name, *numbers, note in found.itertuples(index=False):
        table.add_row(plain(name), *(plain(f"{value:.4f}") for value in numbers), plain(note))
    show(table)
