"""Training by ``--method``: rankers other than the linear ones that `Trainer` trains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import NotConvergedWarning, about
from ._console import facts, print_json, show
from ._guard import NOT_CONVERGED, say_error
from ._options import flag_of
from ._progress import progress
from ._report import data_json, data_line
from ._shared import SHARED
from ._training import Reading, recorded

if TYPE_CHECKING:
    from ..data.ranking import RankingData

#: Shared options that a method takes, too; the others are parameters of the method.
TAKEN = {"metric", "flavour", "threads", "seed"}


def check_method_options(method: str, options: dict[str, Any], own: dict[str, Any]) -> None:
    """Raise a `typer.BadParameter` for an option that a method does not take.

    `own` holds options of `train` itself, which are None if they are not given.
    """
    name = method.partition(":")[0]
    place = f"--method {name}" if name != "topics" else "--topics"
    given = [key for key, value in own.items() if value is not None]
    given += [
        key for key, value in options.items()
        if key not in TAKEN and value not in (None, SHARED[key].default)
    ]  # fmt: skip
    if given:
        raise typer.BadParameter(
            f"{flag_of(given[0])} is an option of linrank's own trainer, not of {place}. "
            "Parameters of a method are part of its name, such as --method sparse:C=0.1"
        )


def train_method(
    method: str,
    train: Path,
    valid: Path | None,
    out: Path,
    how: Reading,
    options: dict[str, Any],
    json: bool,
) -> None:
    """Train a method on data in files, save its model, and report."""
    from ..methods import fit_ranker, make_ranker, model_of

    ranker = make_ranker(method, n_threads=options["threads"], random_state=options["seed"])
    name = method.partition(":")[0]
    how = how._replace(allow_missing=ranker.takes_missing)
    data = how.read(train)
    held_out = None if valid is None else how.read_held_out(valid, data)
    with about(train), progress(f"training {name}"), recorded(NotConvergedWarning) as warned:
        model = model_of(fit_ranker(ranker, data), data)
    model.save(out)
    mean = None if held_out is None else _mean(model, held_out, options)
    if json:
        print_json(
            {
                "train": data_json(train, data),
                "valid": None if valid is None or held_out is None else data_json(valid, held_out),
                "method": repr(ranker),
                "metric": options["metric"],
                "mean": mean,
                "model": str(out),
            }
        )
    else:
        lines = [("train", data_line(train, data)), ("method", " ".join(repr(ranker).split()))]
        if valid is not None and held_out is not None:
            lines.append(("valid", data_line(valid, held_out)))
            lines.append((options["metric"], f"{mean:.4f} on {valid} ({options['flavour']})"))
        show(facts([*lines, ("model", f"saved as {out}")]))
    for sentence in warned:
        say_error(f"{sentence} The model was saved as {out}.", "warning: ")
        raise typer.Exit(NOT_CONVERGED)


def _mean(model: Any, data: RankingData, options: dict[str, Any]) -> float:
    from ..metrics import evaluate_data, parse_metric

    metric = parse_metric(options["metric"])
    scores = model.predict(data.X, data.qid)
    found = evaluate_data(data, scores, [metric], flavour=options["flavour"])
    return found.mean[metric.name]
