"""The command ``linrank train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import NotConvergedWarning, prefix_errors
from . import shared_options as options_
from .console import NOT_CONVERGED, facts, print_json, progress, say_error, show
from .fitting import (
    Reading,
    check_choice_of_C,
    chosen,
    compared,
    data_json,
    data_line,
    find_held_out,
    finish,
    make_trainers,
    opened_here,
    opened_on,
    place_of_choice,
    recorded,
    result_json,
    selected,
    showing,
    takes_missing,
    usual_folds,
    with_bands,
)
from .inputs import (
    Input,
    Labels,
    PreferencesOption,
    QrelsOption,
    check_output,
    train_topics,
    with_columns,
)
from .shared_options import SHARED, check_curve_options, flag_of, number_of, with_shared_options

if TYPE_CHECKING:
    from .._util.types import Vector
    from ..data.ranking import RankingData
    from ..training import Trainer, Training

# --------------------------------------------------------------------------------------------------
# Training by ``--method``: rankers other than the linear ones that `Trainer` trains.


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
    from ..baselines.methods import fit_ranker, make_ranker, model_of

    ranker = make_ranker(method, n_threads=options["threads"], random_state=options["seed"])
    name = method.partition(":")[0]
    how = how._replace(allow_missing=ranker.takes_missing)
    data = how.read(train)
    held_out = None if valid is None else how.read_held_out(valid, data)
    with (
        prefix_errors(train),
        progress(f"training {name}"),
        recorded(NotConvergedWarning) as warned,
    ):
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


# --------------------------------------------------------------------------------------------------
# The command ``linrank train``.


EPILOG = """
Examples:

linrank train train.txt --valid vali.txt --out model.json

linrank train train.txt.gz --C 2^-5 --tol 1e-6

linrank train train.store --folds 5 --metric map --json

linrank train train.parquet --label relevance --qid query_id --ignore title

linrank train MQ2007/Fold1
linrank train features.txt --qrels qrels.txt --folds 5

linrank train train.txt --valid vali.txt --additive --monotone bm25=increasing,age=-1

linrank train items.txt --preferences pairs.csv --folds 5

linrank train parts --dask tcp://scheduler:8786
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", epilog=EPILOG)(with_columns(with_shared_options(train)))


def train(
    train: options_.Train,
    valid: options_.MaybeValid = None,
    out: options_.ModelOut = Path("model.json"),
    C: options_.COption = None,
    folds: options_.Folds = None,
    warm_start: options_.WarmStart = None,
    dask: options_.DaskOption = None,
    method: options_.MethodOption = None,
    topics: options_.Topics = False,
    debias: options_.Debias = False,
    refine: options_.RefineOption = None,
    qrels: QrelsOption = None,
    preferences: PreferencesOption = None,
    float32: options_.Float32 = False,
    index_base: options_.IndexBase = "auto",
    json: options_.Json = False,
    *,
    inputs: Input,
    options: dict[str, Any],
) -> None:
    """Train a model; C is given, or chosen on held-out data or by folds."""
    _check_usage(valid, C, folds, warm_start, dask, options)
    _check_inputs(valid, dask, qrels, preferences, options)
    _check_input(inputs, dask, topics)
    check_output(out, train, valid, qrels, preferences)
    train, valid = find_held_out(train, valid, is_wanted=C is None and not folds)
    by_default = C is None and not folds and valid is None and dask is None and warm_start is None
    by_default = by_default and not options["additive"]
    chooses = C is None and bool(folds or valid is not None or by_default)
    how = Reading(
        inputs, number_of(index_base), float32, options["threads"], takes_missing(options),
        needs_label=qrels is None and preferences is None,
    )  # fmt: skip
    if method is not None or topics:
        own = {"C": C, "folds": folds, "warm_start": warm_start, "dask": dask,
               "debias": debias or None, "refine": refine, "qrels": qrels,
               "preferences": preferences}  # fmt: skip
        check_method_options(method or "topics", options, own)
        if topics:
            train_topics(method, train, valid, out, options)
            return
        assert method is not None
        train_method(method, train, valid, out, how, options, json)
        return
    check_curve_options(options, inputs.categories, warm_start=warm_start, dask=dask, debias=debias)
    trainers = make_trainers(options | {"categories": inputs.categories}, chooses)
    if debias and not trainers[0].penalty.selects:
        raise typer.BadParameter("--debias needs a penalty that selects features. Add --penalty.")
    if refine is not None and dask is not None:
        raise typer.BadParameter("--refine needs all rows in this process. Leave out --dask.")
    labels = Labels(qrels, preferences, trainers)
    start = None if warm_start is None else _weights(warm_start)
    opened = opened_here if dask is None else opened_on(dask)
    with opened(labels.trainers, train, valid, how) as (trainers, data, held_out):
        data = labels.apply(data, train)
        if valid is not None and held_out is not None:
            held_out = labels.apply(held_out, valid)
        with prefix_errors(train):
            if by_default:
                folds = usual_folds(data, trainers[0])
            trainer, training = _train(trainers, data, held_out, C, folds, start, by_default)
            if debias and training.result.coef.any():
                training = trainer.debias(training, data)
            if refine is not None:
                training = _refined(trainer, training, data, held_out, refine, folds)
            training = with_bands(trainer, training, data, options["n_bags"])
        if dask is None:
            training.model.remember(data)
        training.model.save(out)
        if json:
            found = _as_json(train, valid, out, folds, trainer, training, data, held_out)
            print_json(found | labels.json())
        else:
            lines = _lines(train, valid, out, folds, trainer, training, data, held_out)
            more = [*compared(trainers, trainer, training), *labels.lines()]
            show(facts([*lines[:-1], *more, lines[-1]]))
        finish(trainer, training, data, out, folds)


def _lines(
    train: Path,
    valid: Path | None,
    out: Path,
    folds: int | None,
    trainer: Trainer,
    training: Training,
    data: RankingData,
    held_out: RankingData | None,
) -> list[tuple[str, str]]:
    """Return the lines of the report."""
    what = "query" if getattr(data, "pairs", None) is None else "pair"
    where = place_of_choice(training, folds, valid, what)
    lines = [("train", data_line(train, data, training))]
    if valid is not None and held_out is not None:
        lines.append(("valid", data_line(valid, held_out)))
    lines.append(("C", chosen(trainer, training, where)))
    lines.append(("solver", training.result.message))
    lines += selected(trainer, training)
    found = training.model.training.get("refined")
    if found is not None:
        before, after = found["held_out"]
        change = f"{found['before']:.4f} to {found['after']:.4f} on training data"
        kept = "kept" if found["kept"] else "not kept"
        text = f"{found['metric']} {change}, {before:.4f} to {after:.4f} on held-out data: {kept}"
        lines.append(("refined", text))
    return [*lines, ("model", f"saved as {out}")]


def _check_input(inputs: Input, dask: str | None, topics: bool) -> None:
    """Raise a `typer.BadParameter` for options of files that cannot be used here."""
    if dask is not None and inputs.feature_names is not None:
        raise typer.BadParameter("--feature-names cannot be used with --dask. Use a store.")
    if dask is not None and inputs.categories is not None:
        raise typer.BadParameter("--categories needs all rows in this process. Leave out --dask.")
    if topics and (inputs.feature_names is not None or inputs.columns.given()):
        raise typer.BadParameter(
            "--topics reads LETOR text without names. Leave out the options of columns and names."
        )


def _check_usage(
    valid: Path | None,
    C: float | None,
    folds: int | None,
    warm_start: Path | None,
    dask: str | None,
    options: dict[str, Any],
) -> None:
    """Raise a `typer.BadParameter` for options that contradict each other."""
    if folds and C is not None:
        raise typer.BadParameter(
            "--folds chooses C, so --C cannot be given. Leave out one of them."
        )
    check_choice_of_C(folds, valid)
    if folds and dask is not None:
        raise typer.BadParameter(
            "--folds needs all rows in this process. With --dask, use --valid."
        )
    if options["margin_scale"] is not None and dask is not None:
        raise typer.BadParameter(
            "--margin-scale needs all rows in this process. Leave out --dask or --margin-scale."
        )
    if warm_start is not None and C is None and (folds or valid is not None):
        raise typer.BadParameter("--warm-start needs a single C. Add --C.")


def _check_inputs(
    valid: Path | None,
    dask: str | None,
    qrels: Path | None,
    preferences: Path | None,
    options: dict[str, Any],
) -> None:
    """Raise a `typer.BadParameter` for files that cannot be used together."""
    for name, file in (("--qrels", qrels), ("--preferences", preferences)):
        if file is not None and dask is not None:
            raise typer.BadParameter(f"{name} needs all rows in this process. Leave out --dask.")
    if preferences is not None and qrels is not None:
        raise typer.BadParameter("--preferences replaces labels. Leave out --qrels.")
    if preferences is not None and options["margin_scale"] is not None:
        raise typer.BadParameter(
            "--preferences replaces labels. Leave out --margin-scale, and list margins in the file."
        )
    if preferences is not None and valid is not None:
        raise typer.BadParameter("--preferences chooses C by folds of pairs. Use --folds.")


def _weights(warm_start: Path) -> Vector:
    from ..model import LinearModel

    return LinearModel.load(warm_start).coef


def _train(
    trainers: list[Trainer],
    data: RankingData,
    held_out: RankingData | None,
    C: float | None,
    folds: int | None,
    start: Vector | None,
    by_default: bool,
) -> tuple[Trainer, Training]:
    """Return the best of the trainers, and its training.

    If nobody asked for folds, and a part of the data has no pairs, one C is used.
    """
    from ..errors import DataError
    from ..training import train_best

    def train(trainer: Trainer) -> Training:
        with showing(trainer, folds or 0) as shown:
            if folds:
                try:
                    return shown.train_by_folds(data, folds)
                except DataError:
                    if not by_default:
                        raise
            if held_out is not None and C is None:
                return shown.train_on_grid(data, held_out)
            return shown.train(data, C, w0=start, valid=held_out)

    return train_best(trainers, data, train)


def _refined(
    trainer: Trainer,
    training: Training,
    data: RankingData,
    held_out: RankingData | None,
    metric: str,
    folds: int | None,
) -> Training:
    """Refine the model; held-out data, or folds without them, decide whether the result is kept."""
    from dataclasses import replace

    from ..training.refining import refine
    from ..training.selection import most_folds

    with progress(f"refining {metric}"):
        model, _ = refine(
            trainer, training.model, data, metric, C=training.C, valid=held_out,
            folds=min(folds or 5, most_folds(data)), flavour=trainer.criterion.flavour,
        )  # fmt: skip
    return replace(training, model=model)


def _as_json(
    train: Path,
    valid: Path | None,
    out: Path,
    folds: int | None,
    trainer: Trainer,
    training: Training,
    data: RankingData,
    held_out: RankingData | None,
) -> dict[str, Any]:
    measured = None
    if training.value is not None:
        measured = {
            "metric": trainer.criterion.metric,
            "flavour": trainer.criterion.flavour,
            "mean": training.value,
            "folds": folds,
        }
    choice = None
    if training.Cs is not None and training.values is not None:
        choice = [
            {"C": C, "mean": value} for C, value in zip(training.Cs, training.values, strict=True)
        ]
    return {
        "train": data_json(train, data, training),
        "valid": None if valid is None or held_out is None else data_json(valid, held_out),
        "C": training.C,
        "penalty": trainer.penalty.name,
        "margin_scale": trainer.margin_scale,
        "held_out": measured,
        "grid": choice,
        "edge": training.edge,
        "refined": training.model.training.get("refined"),
        "features": training.model.count_used() if trainer.penalty.selects else None,
        "solver": result_json(training.result),
        "interrupted": training.interrupted,
        "model": str(out),
    }
