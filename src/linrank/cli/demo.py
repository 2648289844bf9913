"""The command ``linrank demo``: generate data, train and evaluate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from .console import facts, progress, show
from .fitting import Reading, chosen, data_line, draw, evaluation_table, finish, showing
from .inputs import Input

METRICS = "ndcg@10,map,pairwise-accuracy"
#: Arguments of `make_letor_folder`. The features are so strongly correlated that the best C is
#: inside the default grid.
RECIPE: dict[str, Any] = {
    "n_queries": 200,
    "docs_per_query": (5, 20),
    "n_features": 120,
    "n_informative": 10,
    "correlation": 0.98,
    "noise": 1.0,
    "random_state": 0,
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog="Examples:\n\nlinrank demo --dir demo")(demo)


def demo(
    folder: Annotated[
        Path,
        typer.Option("--dir", metavar="DIR", help="Folder for data, model and plot."),
    ] = Path("demo"),
) -> None:
    """Generate a small data set, train a ranker and evaluate it."""
    with progress("getting ready"):
        from ..data.generate import make_letor_folder
        from ..metrics import evaluate_data
        from ..plots import has_matplotlib
        from ..training import Trainer

        train, vali, test = make_letor_folder(folder, **RECIPE)
    model, plot = folder / "model.json", folder / "path.png"
    trainer = Trainer()
    how = Reading(Input.of({}))
    data = how.read(train)
    held_out, documents = how.read_held_out(vali, data), how.read_held_out(test, data)
    with showing(trainer) as shown:
        training = shown.train_on_grid(data, held_out)
    training.model.remember(data)
    training.model.save(model)
    lines = [
        ("train", data_line(train, data, training)),
        ("valid", data_line(vali, held_out)),
        ("C", chosen(trainer, training, f"on {vali}")),
        ("model", f"saved as {model}"),
    ]
    if has_matplotlib():
        draw(training, plot, "ndcg@10", vali.name)
        lines.append(("plot", f"saved as {plot}"))
    else:
        lines.append(("plot", "not drawn; it needs pip install 'linrank[plot]'"))
    show(facts(lines))
    scores = training.model.predict(documents.X)
    show(evaluation_table(evaluate_data(documents, scores, METRICS)))
    show(Text(_commands(folder)))
    finish(trainer, training, data, model)


def _commands(folder: Path) -> str:
    """Return the commands that give the same result."""
    at = {
        name: shlex.quote(str(folder / name))
        for name in ("train.txt", "vali.txt", "test.txt", "model.json", "scores.txt", "path.png")
    }
    return (
        "The same, step by step:\n\n"
        f"  linrank train {at['train.txt']} --valid {at['vali.txt']} --out {at['model.json']}\n"
        f"  linrank predict {at['model.json']} {at['test.txt']} --out {at['scores.txt']}\n"
        f"  linrank evaluate {at['test.txt']} {at['scores.txt']} --metrics {METRICS}\n"
        f"  linrank path {at['train.txt']} --valid {at['vali.txt']} --plot {at['path.png']}\n"
        f"  linrank inspect {at['model.json']}"
    )
