"""``linrank train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from . import _options as options
from ._console import facts, print_json, show
from ._io import check_output
from ._report import chosen, data_json, data_line, result_json, selected
from ._training import about, finish, make_trainer, opened_here, opened_on, showing

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..training import Trainer, Training

EPILOG = """
Examples:

linrank train train.txt --valid vali.txt --out model.json

linrank train train.txt.gz --C 2^-5 --tol 1e-6

linrank train train.store --folds 5 --metric map --json

linrank train parts --dask tcp://scheduler:8786
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", epilog=EPILOG)(train)


def train(
    train: options.Train,
    valid: options.MaybeValid = None,
    out: options.ModelOut = Path("model.json"),
    C: options.COption = None,
    folds: options.Folds = None,
    metric: options.Metric = "ndcg@10",
    flavour: options.FlavourOption = options.Flavour.standard,
    rule: options.Rule = options.RuleName.best,
    loss: options.Loss = options.LossName.squared_hinge,
    pairs: options.Pairs = options.PairsName.all,
    rescale: options.Rescale = None,
    delta: options.Delta = options.DeltaName.label,
    penalty: options.PenaltyOption = None,
    shape: options.Shape = None,
    solver: options.Solver = options.SolverName.auto,
    counting: options.Counting = options.CountingName.auto,
    tol: options.Tol = 1e-3,
    max_iter: options.MaxIter = 1000,
    seed: options.Seed = 0,
    normalize: options.NormalizeOption = None,
    warm_start: options.WarmStart = None,
    threads: options.Threads = None,
    engine: options.Engine = options.EngineName.threads,
    dask: options.DaskOption = None,
    float32: options.Float32 = False,
    index_base: options.IndexBase = options.IndexBaseName.auto,
    json: options.Json = False,
) -> None:
    """Learn a model; C is given, or chosen on held-out data."""
    _check_usage(valid, C, folds, warm_start, dask)
    check_output(out)
    trainer = make_trainer(
        loss=loss, pairs=pairs, rescale=rescale, delta=delta, metric=metric, flavour=flavour,
        rule=rule, penalty=penalty, shape=shape,
        normalize=normalize, threads=threads, solver=solver, counting=counting, tol=tol,
        max_iter=max_iter, seed=seed, engine=engine,
    )  # fmt: skip
    start = None if warm_start is None else _weights(warm_start)
    how = index_base.number, float32, threads
    opened = opened_here if dask is None else opened_on(dask)
    with opened(trainer, train, valid, *how) as (trainer, data, held_out):
        with about(train):
            training = _train(trainer, data, held_out, C, folds, start)
        training.model.save(out)
        if json:
            print_json(_as_json(train, valid, out, folds, trainer, training, data, held_out))
        else:
            where = f"by {folds} query folds" if folds else f"on {valid}"
            lines = [("train", data_line(train, data, training))]
            if valid is not None and held_out is not None:
                lines.append(("valid", data_line(valid, held_out)))
            lines.append(("C", chosen(trainer, training, where)))
            lines.append(("solver", training.result.message))
            lines += selected(trainer, training)
            lines.append(("model", f"saved as {out}"))
            show(facts(lines))
        finish(trainer, training, data, out, folds)


def _check_usage(
    valid: Path | None,
    C: float | None,
    folds: int | None,
    warm_start: Path | None,
    dask: str | None,
) -> None:
    """Refuse options that contradict each other."""
    if folds and C is not None:
        raise typer.BadParameter("--folds chooses C, so --C cannot be given as well")
    if folds and valid is not None:
        raise typer.BadParameter("--folds and --valid both choose C; give one of them")
    if folds and dask is not None:
        raise typer.BadParameter("--folds needs all rows in this process: with --dask give --valid")
    if warm_start is not None and C is None and (folds or valid is not None):
        raise typer.BadParameter("--warm-start needs one C: give --C as well")


def _weights(warm_start: Path) -> Any:
    from ..model import LinearModel

    return LinearModel.load(warm_start).coef


def _train(
    trainer: Trainer,
    data: RankingData,
    held_out: RankingData | None,
    C: float | None,
    folds: int | None,
    start: Any,
) -> Training:
    with showing(trainer, folds or 0) as shown:
        if folds:
            return shown.train_by_folds(data, folds)
        if held_out is not None and C is None:
            return shown.train_on_grid(data, held_out)
        return shown.train(data, 1.0 if C is None else C, w0=start, valid=held_out)


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
        "held_out": measured,
        "grid": choice,
        "edge": training.edge,
        "features": None if trainer.penalty is None else training.result.n_selected,
        "solver": result_json(training.result),
        "interrupted": training.interrupted,
        "model": str(out),
    }
