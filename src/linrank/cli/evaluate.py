"""The command ``linrank evaluate``: metrics of scores or of a model."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import DataError
from ..metrics.names import FlavourName
from . import _options as options
from ._console import facts, print_json, show
from ._input import Input, with_columns
from ._io import check_output, looks_like_model, read_data, read_for
from ._preferences import PreferencesOption, evaluate_pairs, preference_lines
from ._progress import progress
from ._report import evaluation_table, measure
from ._topics import has_topics, measure_topics
from ._training import about
from ._trec import Judgements, QrelsOption, evaluate_files, is_run

if TYPE_CHECKING:
    from .._typing import Vector
    from ..data.ranking import RankingData
    from ..metrics import Evaluation, Metric
    from ..model import Model

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
            help="Metrics, separated by commas, such as ndcg@10, mean-ndcg, map, p@5, mrr, err@10, "
            "recall@100, r-precision, hit-rate@10, rbp, spearman, kendall (τ-b), "
            "pairwise-accuracy, strict-pairwise-accuracy (ties are wrong), auc, all-pairs-error "
            "and domination-error. For errors, lower is better. (rel=2) sets the smallest "
            "relevant label: p(rel=2)@5. (p=0.8) sets the persistence of rbp: rbp(p=0.8)@20.",
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
    model = _model(scores)
    if model is not None and has_topics(model):
        raise DataError("--preferences needs a model without topics, whose data have document ids")
    documents, values = _read(data, scores, model, inputs, threads, needs_label=False)
    found = evaluate_pairs(documents, values, data, preferences)
    if json:
        print_json({"data": str(data), "scores": str(scores), "preferences": found})
    else:
        show(facts([("data", str(data)), ("scores", str(scores)), *preference_lines(found)]))


def _model(scores: Path) -> Model | None:
    """Return the model in a file; None for a file of scores."""
    if not looks_like_model(scores):
        return None
    from ..model import load_model

    return load_model(scores)


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
    model = _model(scores)
    if model is not None and has_topics(model):
        if judgements.path is not None:
            raise DataError("--qrels needs a model without topics, whose data have document ids")
        found = measure_topics(model, data, metrics)  # type: ignore[arg-type]
        return model.topics, found  # type: ignore[attr-defined]
    documents, values = _read(
        data, scores, model, inputs, threads, needs_label=judgements.path is None
    )
    documents = judgements.apply(documents, data)
    with progress("evaluating"):
        found = measure(documents, values, metrics, flavour, threads)
    return documents.query_ids.tolist(), found


def _read(
    data: Path,
    scores: Path,
    model: Model | None,
    inputs: Input,
    threads: int | None,
    needs_label: bool = True,
) -> tuple[RankingData, Vector]:
    """Read data and its scores. Both are in the row order of the data, grouped by query."""
    from ..data.scores import read_scores

    how: dict[str, Any] = {"n_threads": threads, "needs_label": needs_label}
    if model is not None:
        documents = read_for(model, data, inputs, **how)
        with about(data):
            return documents, model.predict(documents.X, documents.qid)
    documents = read_data(data, inputs, **how)
    values = read_scores(scores, documents.n_docs)
    return documents, values if documents.order is None else values[documents.order]


def _write_per_query(path: Path, ids: list[object], found: Evaluation) -> None:
    from .._files import atomic_write

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
