"""The command ``linrank path``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import prefix_errors
from . import shared_options as options_
from .console import facts, print_json, show
from .fitting import (
    Reading,
    check_choice_of_C,
    check_plot,
    chosen,
    compared,
    data_json,
    data_line,
    draw,
    find_held_out,
    finish,
    make_trainers,
    path_json,
    path_table,
    place_of_choice,
    selected,
    showing,
    takes_missing,
    with_bands,
)
from .inputs import Input, check_output, with_columns
from .shared_options import check_curve_options, number_of, with_shared_options

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..training import Trainer, Training

EPILOG = """
Examples:

linrank path train.txt --valid vali.txt --plot path.png

linrank path train.txt --folds 5 --plot path.png

linrank path train.txt --valid vali.txt --grid 2^-10:2^2 --metric map --out model.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("path", epilog=EPILOG)(with_columns(with_shared_options(path)))


def path(
    train: options_.Train,
    valid: options_.MaybeValid = None,
    folds: options_.Folds = None,
    grid: Annotated[
        Any,
        typer.Option(
            "--grid",
            parser=options_.parse_grid,
            metavar="LOW:HIGH",
            help="The values of C: doubling from LOW to HIGH, or a list with commas.",
            rich_help_panel=options_.CHOICE,
            show_default="0.0024 to 40,960 around 10; with --normalize none or queries "
            "2^-15:2^10, and more while the best C is at an end; with --penalty 50 values from the "
            "C that selects the first feature",
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
    """Train with a grid of C and compare on held-out data or by folds."""
    check_choice_of_C(folds, valid)
    check_output(out, train, valid)
    check_plot(plot)
    train, valid = find_held_out(train, valid, is_wanted=not folds)
    if valid is None and not folds:
        raise typer.BadParameter("there are no held-out data. Add --valid DATA, or --folds 5.")
    check_curve_options(options, inputs.categories)
    trainers = make_trainers(options | {"categories": inputs.categories}, chooses=True)
    how = Reading(
        inputs, number_of(index_base), float32, options["threads"], takes_missing(options)
    )
    data = how.read(train)
    held_out = None if valid is None else how.read_held_out(valid, data)
    with prefix_errors(train):
        trainer, training = _train(trainers, data, held_out, grid, folds)
        training = with_bands(trainer, training, data, options["n_bags"])
    if out is not None:
        training.model.remember(data)
        training.model.save(out)
    complete = training.path is not None  # an interrupt may have ended the folds
    if plot is not None and complete:
        where = place_of_choice(training, folds, None if valid is None else Path(valid.name))
        draw(training, plot, trainer.criterion.metric, where)
    written = {"model": out, "plot": plot if complete else None}
    if json:
        files = {what: file and str(file) for what, file in written.items()}
        print_json(_as_json(train, valid, folds, trainer, training, data, held_out) | files)
    else:
        lines = [("train", data_line(train, data, training))]
        if valid is not None and held_out is not None:
            lines += [("valid", data_line(valid, held_out))]
        show(facts(lines), *([path_table(trainer, training)] if complete else []))
        lines = [("C", chosen(trainer, training, place_of_choice(training, folds, valid)))]
        lines += compared(trainers, trainer, training) + selected(trainer, training)
        lines += [(what, f"saved as {file}") for what, file in written.items() if file is not None]
        show(facts(lines))
    finish(trainer, training, data, out, folds)


def _train(
    trainers: list[Trainer],
    data: RankingData,
    held_out: RankingData | None,
    grid: tuple[float, ...] | None,
    folds: int | None,
) -> tuple[Trainer, Training]:
    """Return the best of the trainers, and its training."""
    from ..training import train_best
    from ..training.selection import wide_grid

    def train(trainer: Trainer) -> Training:
        Cs = wide_grid(trainer.default_C) if grid is None and trainer.leans else grid
        with showing(trainer, folds or 0) as shown:
            if held_out is not None:
                return shown.train_on_grid(data, held_out, Cs)
            return shown.train_by_folds(data, folds or 0, Cs, whole_path=True)

    return train_best(trainers, data, train)


def _as_json(
    train: Path,
    valid: Path | None,
    folds: int | None,
    trainer: Trainer,
    training: Training,
    data: RankingData,
    held_out: RankingData | None,
) -> dict[str, Any]:
    best = None
    if training.Cs is not None and training.values is not None:
        k = trainer.criterion.best(training.values)
        best = {"C": training.Cs[k], "mean": training.values[k]}
    return {
        "train": data_json(train, data, training),
        "valid": None if valid is None or held_out is None else data_json(valid, held_out),
        "folds": folds,
        "penalty": trainer.penalty.name,
        "margin_scale": trainer.margin_scale,
        "metric": trainer.criterion.metric,
        "flavour": trainer.criterion.flavour,
        "path": [] if training.path is None else path_json(training),
        "best": best,
        "chosen": {"C": training.C, "mean": training.value, "rule": trainer.criterion.rule},
        "edge": training.edge,
        "interrupted": training.interrupted,
    }
