"""The command ``linrank path``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import _options as options_
from ._console import facts, print_json, show
from ._input import Input, with_columns
from ._io import check_output
from ._options import number_of
from ._report import chosen, data_json, data_line, path_json, path_table, selected
from ._shared import with_shared_options
from ._training import (
    Reading,
    about,
    check_plot,
    draw,
    find_held_out,
    finish,
    make_trainer,
    showing,
)

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..training import Trainer, Training

EPILOG = """
Examples:

linrank path train.txt --valid vali.txt --plot path.png

linrank path train.txt --valid vali.txt --grid 2^-10:2^2 --metric map --out model.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("path", epilog=EPILOG)(with_columns(with_shared_options(path)))


def path(
    train: options_.Train,
    valid: options_.MaybeValid = None,
    grid: Annotated[
        Any,
        typer.Option(
            "--grid",
            parser=options_.parse_grid,
            metavar="LOW:HIGH",
            help="The values of C: doubling from LOW to HIGH, or a list with commas.",
            rich_help_panel=options_.CHOICE,
            show_default="2^-15:2^10, and more while the best C is at an end; with --penalty "
            "50 values from the C that selects the first feature",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the model of the chosen C here, as JSON.",
            rich_help_panel=options_.OUTPUT,
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE.png",
            help="Draw the metric and the largest weights against C (.png, .svg or .pdf).",
            rich_help_panel=options_.OUTPUT,
            show_default=False,
        ),
    ] = None,
    float32: options_.Float32 = False,
    index_base: options_.IndexBase = "auto",
    json: options_.Json = False,
    *,
    inputs: Input,
    options: dict[str, Any],
) -> None:
    """Train with a grid of C and compare on held-out data."""
    check_output(out)
    check_plot(plot)
    train, valid = find_held_out(train, valid, is_wanted=True)
    if valid is None:
        raise typer.BadParameter("there are no held-out data. Add --valid.")
    trainer = make_trainer(options)
    how = Reading(
        inputs, number_of(index_base), float32, trainer.n_threads, options["missing"] is not None
    )
    data = how.read(train)
    held_out = how.read_held_out(valid, data)
    with about(train), showing(trainer) as shown:
        training = shown.train_on_grid(data, held_out, grid)
    if out is not None:
        training.model.save(out)
    if plot is not None:
        draw(training, plot, trainer.criterion.metric, valid.name)
    if json:
        content = _as_json(train, valid, trainer, training, data, held_out)
        print_json(content | {"model": out and str(out), "plot": plot and str(plot)})
    else:
        lines = [("train", data_line(train, data, training))]
        lines += [("valid", data_line(valid, held_out))]
        show(facts(lines), path_table(trainer, training))
        lines = [("C", chosen(trainer, training, f"on {valid}")), *selected(trainer, training)]
        lines += [("model", f"saved as {out}")] if out is not None else []
        lines += [("plot", f"saved as {plot}")] if plot is not None else []
        show(facts(lines))
    finish(trainer, training, data, out)


def _as_json(
    train: Path,
    valid: Path,
    trainer: Trainer,
    training: Training,
    data: RankingData,
    held_out: RankingData,
) -> dict[str, Any]:
    assert training.path is not None
    assert training.values is not None
    best = trainer.criterion.best(training.values)
    return {
        "train": data_json(train, data, training),
        "valid": data_json(valid, held_out),
        "metric": trainer.criterion.metric,
        "flavour": trainer.criterion.flavour,
        "path": path_json(training),
        "best": {"C": training.path.Cs[best], "mean": training.values[best]},
        "chosen": {"C": training.C, "mean": training.value, "rule": trainer.criterion.rule},
        "edge": training.edge,
        "interrupted": training.interrupted,
    }
