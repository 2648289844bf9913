"""The command ``linrank evaluate``: metrics of scores or of a model."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..choices import FlavourName
from ..errors import DataError
from . import shared_options as options
from .console import facts, print_json, progress, show
from .fitting import evaluation_table
from .inputs import (
    Documents,
    Input,
    Judgements,
    PreferencesOption,
    QrelsOption,
    check_output,
    evaluate_files,
    evaluate_pairs,
    find_model,
    has_topics,
    is_run,
    measure_topics,
    preference_lines,
    with_columns,
)

if TYPE_CHECKING:
    from ..metrics import Evaluation, Metric

EPILOG = """
Examples:

linrank evaluate test.txt scores.txt --metrics ndcg@10,map,p(rel=2)@5

linrank evaluate test.txt model.json --flavour letor4 --metrics mean-ndcg --per-query queries.csv

linrank evaluate qrels.txt run.txt --metrics ndcg@10,map,recall@1000

linrank evaluate items.txt model.json --preferences pairs.csv
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", epilog=EPILOG)(with_columns(evaluate))


def evaluate(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Data: LETOR text (plain or compressed), a Parquet file or a store; or judgements "
            "in the format of TREC (qrels).",
            show_default=False,
        ),
    ],
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            help="Scores, one per line in the order of the documents, or a model file; for qrels, "
            "a run in the format of TREC.",
            show_default=False,
        ),
    ],
    metrics: Annotated[
        str,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help=options.METRICS_HELP,
        ),
    ] = "ndcg@10,map,pairwise-accuracy",
    flavour: Annotated[
        FlavourName,
        typer.Option(
            "--flavour",
            help=options.FLAVOUR_HELP + " The default for qrels and a run is trec.",
        ),
    ] = "standard",
    per_query: Annotated[
        Path | None,
        typer.Option(
            "--per-query",
            metavar="FILE.csv",
            help="Write the values of each query to this file; skipped queries have empty cells.",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    qrels: QrelsOption = None,
    preferences: PreferencesOption = None,
    threads: options.Threads = None,
    json: options.Json = False,
    *,
    inputs: Input,
) -> None:
    """Compute ranking metrics of scores, of a model or of a run."""
    check_output(per_query, data, scores, qrels)
    if preferences is not None:
        _evaluate_preferences(data, scores, preferences, qrels, per_query, inputs, threads, json)
        return
    from ..metrics import parse_metrics

    wanted, judgements = parse_metrics(metrics), Judgements(qrels)
    if is_run(data, scores):
        if qrels is not None:
            raise typer.BadParameter(f"{data} holds judgements already. Leave out --qrels.")
        given = context.get_parameter_source("flavour")
        is_default = given is not None and given.name == "DEFAULT"
        flavour = "trec" if is_default else flavour
        found, lines = evaluate_files(data, scores, wanted, flavour, threads)
        ids = found.query_ids.tolist()
    else:
        ids, found = _evaluation(data, scores, judgements, wanted, flavour, inputs, threads)
        lines = [("data", str(data)), *judgements.lines(), ("scores", str(scores))]
    if per_query is not None:
        _write_per_query(per_query, ids, found)
    if json:
        print_json(_as_json(data, scores, found) | judgements.json())
    else:
        show(facts([*lines, ("flavour", found.flavour)]))
        show(evaluation_table(found))


def _evaluate_preferences(
    data: Path,
    scores: Path,
    preferences: Path,
    qrels: Path | None,
    per_query: Path | None,
    inputs: Input,
    threads: int | None,
    json: bool,
) -> None:
    """Print the accuracy on pairs of items, which have no labels and no queries."""
    for name, file in (("--qrels", qrels), ("--per-query", per_query)):
        if file is not None:
            raise typer.BadParameter(f"--preferences compares items. Leave out {name}.")
    model = find_model(scores)
    if model is not None and has_topics(model):
        raise DataError("--preferences needs a model without topics, whose data have document ids")
    documents = Documents(data, inputs, n_threads=threads, needs_label=False)
    values = documents.score(scores, model)
    found = evaluate_pairs(documents.read(model), values, data, preferences)
    if json:
        print_json({"data": str(data), "scores": str(scores), "preferences": found})
    else:
        show(facts([("data", str(data)), ("scores", str(scores)), *preference_lines(found)]))


def _evaluation(
    data: Path,
    scores: Path,
    judgements: Judgements,
    metrics: list[Metric],
    flavour: FlavourName,
    inputs: Input,
    threads: int | None,
) -> tuple[list[object], Evaluation]:
    """Return the ids of the queries, or the names of topics, and the values of the metrics."""
    model = find_model(scores)
    if model is not None and has_topics(model):
        if judgements.path is not None:
            raise DataError("--qrels needs a model without topics, whose data have document ids")
        found = measure_topics(model, data, metrics)  # type: ignore[arg-type]
        return model.topics, found  # type: ignore[attr-defined]
    from ..metrics import evaluate_data

    source = Documents(data, inputs, n_threads=threads, needs_label=judgements.path is None)
    values = source.score(scores, model)
    documents = judgements.apply(source.read(model), data)
    with progress("evaluating"):
        found = evaluate_data(documents, values, metrics, flavour=flavour, n_threads=threads)
    return found.query_ids.tolist(), found


def _write_per_query(path: Path, ids: list[object], found: Evaluation) -> None:
    from .._util.files import atomic_write

    columns = [[_cell(v) for v in values.tolist()] for values in found.per_query.values()]
    with atomic_write(path, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["qid", *found.per_query])
        writer.writerows(zip(ids, *columns, strict=True))


def _cell(value: float) -> float | str:
    """Return a value of a table, empty for NaN."""
    return "" if value != value else value


def _as_json(data: Path, scores: Path, found: Evaluation) -> dict[str, object]:
    return {
        "data": str(data),
        "scores": str(scores),
        "flavour": found.flavour,
        "queries": found.n_queries,
        "metrics": {
            name: {
                "mean": mean,
                "queries": found.n_queries - found.n_skipped[name],
                "skipped": found.n_skipped[name],
            }
            for name, mean in found.mean.items()
        },
    }
