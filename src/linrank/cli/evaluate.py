"""``linrank evaluate``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import _options as options
from ._console import facts, print_json, show
from ._io import check_output, looks_like_model, read_data
from ._progress import progress
from ._report import evaluation_table, measure

if TYPE_CHECKING:
    from ..data.ranking import RankingData
    from ..metrics import Evaluation

EPILOG = """
Examples:

linrank evaluate test.txt scores.txt --metrics ndcg@10,map,p(rel=2)@5

linrank evaluate test.txt model.json --flavour letor4 --metrics mean-ndcg --per-query queries.csv
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", epilog=EPILOG)(evaluate)


def evaluate(
    data: options.Data,
    scores: Annotated[
        Path,
        typer.Argument(
            metavar="SCORES",
            help="The scores, one per line in the order of the data, or a model to score with.",
            show_default=False,
        ),
    ],
    metrics: Annotated[
        str,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help="The metrics, with commas between: ndcg@10, mean-ndcg, map, p@5, mrr, err@10, "
            "pairwise-accuracy, auc, and the errors all-pairs-error and domination-error, of which "
            "lower is better; (rel=2) sets the smallest relevant label.",
        ),
    ] = "ndcg@10,map,pairwise-accuracy",
    flavour: Annotated[
        options.Flavour, typer.Option("--flavour", help=options.FLAVOUR_HELP)
    ] = options.Flavour.standard,
    per_query: Annotated[
        Path | None,
        typer.Option(
            "--per-query",
            metavar="FILE.csv",
            help="Write the value of each query here; it is empty where a query is skipped.",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Measure how well scores rank documents."""
    check_output(per_query)
    from ..metrics import parse_metric

    wanted = [parse_metric(name) for name in metrics.split(",")]
    documents, values = _read(data, scores, threads)
    with progress("evaluating"):
        found = measure(documents, values, wanted, flavour.value, threads)
    if per_query is not None:
        _write_per_query(per_query, documents, found)
    if json:
        print_json(_as_json(data, scores, found))
    else:
        show(facts([("data", str(data)), ("scores", str(scores)), ("flavour", found.flavour)]))
        show(evaluation_table(found))


def _read(data: Path, scores: Path, threads: int | None) -> tuple[RankingData, Any]:
    """Read data and its scores, in the data's own row order."""
    from ..data.scores import read_scores

    if looks_like_model(scores):
        from ..model import load_model

        model = load_model(scores)
        documents = read_data(
            data, n_features=model.n_features, index_base=model.index_base, n_threads=threads
        )
        return documents, model.predict(documents.X)
    documents = read_data(data, n_threads=threads)
    values = read_scores(scores, documents.n_docs)
    return documents, values if documents.order is None else values[documents.order]


def _write_per_query(path: Path, documents: RankingData, found: Evaluation) -> None:
    from .._files import atomic_write

    columns = [[_cell(v) for v in values.tolist()] for values in found.per_query.values()]
    with atomic_write(path, "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["qid", *found.per_query])
        writer.writerows(zip(documents.query_ids.tolist(), *columns, strict=True))


def _cell(value: float) -> float | str:
    return "" if value != value else value


def _as_json(data: Path, scores: Path, found: Evaluation) -> dict[str, Any]:
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
