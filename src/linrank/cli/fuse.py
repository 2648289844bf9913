"""The command ``linrank fuse``: weights of retrievers for hybrid search."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .._util.text import printable
from ..errors import DataError, prefix_errors
from . import shared_options as options
from .console import facts, grid, plain, print_json, progress, show
from .inputs import check_output

if TYPE_CHECKING:
    from rich.table import Table

    from .._util.types import Vector
    from ..fusion import Fused, Retrieved

EPILOG = """
Examples:

linrank fuse bm25.run dense.run --qrels qrels.txt

linrank fuse *.run --qrels qrels.txt --normalizer rrf --out-run fused.run

linrank fuse scores.parquet --qrels qrels.txt --for elasticsearch
"""
EPILOG_OF_BOOSTS = """
Examples:

linrank boosts responses.jsonl --qrels qrels.txt --for multi-match

linrank boosts clauses.csv --qrels qrels.txt --metric map --for solr

linrank boosts clauses.csv --qrels qrels.txt --combine dis-max --tie-breaker 0.3
"""
#: The names of `linrank.fusion.normalizers.NORMALIZERS`, which the help does not import.
Normalizers = Literal[
    "none", "minmax", "minmax-elasticsearch", "minmax-opensearch", "minmax-vespa", "l2", "zscore",
    "zscore-opensearch", "dbsf", "rank", "rrf",
]  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fuse", epilog=EPILOG)(fuse)
    app.command("boosts", epilog=EPILOG_OF_BOOSTS)(boosts)


def fuse(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="Rankings of the same queries, one file per retriever: runs in the format of "
            "TREC, or tables with the columns qid, doc_id and score. A single table may have a "
            "column per retriever.",
            show_default=False,
        ),
    ],
    qrels: Annotated[
        Path,
        typer.Option(
            "--qrels", metavar="FILE", help="Judgements in the format of TREC.",
            rich_help_panel=options.INPUT, show_default=False,
        ),
    ],
    normalizer: Annotated[
        Normalizers | None,
        typer.Option(
            "--normalizer",
            help="How the scores of a retriever are made comparable. Names with an engine compute "
            "what this engine computes.",
            rich_help_panel=options.FEATURES,
            show_default="minmax, or that of the engine of --for",
        ),
    ] = None,
    k: Annotated[
        float,
        typer.Option(
            "--rank-constant", metavar="NUMBER", help="The constant k of rrf: 1/(k + rank).",
            rich_help_panel=options.FEATURES,
        ),
    ] = 60.0,
    weights: Annotated[
        Literal["positive", "simplex", "free"],
        typer.Option(
            "--weights",
            help="Weights that are not negative, weights with the sum 1, or any weights.",
            rich_help_panel=options.LOSS,
        ),
    ] = "positive",
    folds: Annotated[
        int,
        typer.Option(
            "--folds", metavar="NUMBER", min=2,
            help="Each query is ranked by weights that were learned from the other folds.",
            rich_help_panel=options.CHOICE,
        ),
    ] = 5,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", "--metric", metavar="NAMES", help=options.METRICS_HELP,
            show_default="map,ndcg@10",
        ),
    ] = None,
    out_run: Annotated[
        Path | None,
        typer.Option(
            "--out-run", metavar="FILE", help="Write the held-out rankings as a TREC run.",
            rich_help_panel=options.OUTPUT, show_default=False,
        ),
    ] = None,
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples",
            metavar="NUMBER",
            min=0,
            help="Add 95 % intervals of the weights, from fits on this number of samples of the "
            "queries.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = 0,
    engine: Annotated[
        Literal["elasticsearch", "opensearch", "vespa", "weaviate", "qdrant", "python"] | None,
        typer.Option(
            "--for",
            help="Print what this engine needs to fuse with the learned weights.",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Learn how much each retriever counts, and compare the result with RRF and other rules."""
    check_output(out_run, *runs, qrels)
    from ..data.trec import write_run
    from ..fusion import Fusion, Normalizer, read_retrieved
    from ..fusion import fuse as fuse_retrieved
    from ..fusion.requests import TARGETS, write_request

    name = normalizer or ("minmax" if engine is None else TARGETS[engine][1][0])
    fusion = Fusion(Normalizer(name, k), weights)
    for path in (*runs, qrels):
        if not path.exists():
            raise DataError(f"{path}: no such file; expected a run, a table or judgements")
    with progress("reading"):
        found = read_retrieved(runs, qrels)
    with progress("learning weights"), prefix_errors(qrels):
        fused = fuse_retrieved(found, fusion, folds=folds, metrics=",".join(metrics or _DEFAULT))
    if out_run is not None:
        write_run(out_run, fused.out_run())
    limits = fused.weight_intervals(resamples) if resamples else None
    request = engine and write_request(engine, fused.as_dict(), fusion.normalizer)
    if json:
        print_json(_as_json(fused, limits) | ({"request": request} if request else {}))
        return
    lines = [_data_line(found), *(("note", note) for note in found.notes)]
    lines += [] if out_run is None else [("run", f"held-out rankings saved as {out_run}")]
    show(facts([*lines, ("normaliser", name), ("folds", str(folds))]))
    show(_weights_table(fused, limits), _rules_table(fused))
    _print_request(request)


def boosts(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="Scores of clauses: JSON Lines with one response of Elasticsearch, OpenSearch or "
            "Solr per query, or a table with the columns qid and doc_id and one per clause.",
            show_default=False,
        ),
    ],
    qrels: Annotated[
        Path,
        typer.Option(
            "--qrels", metavar="FILE", help="Judgements in the format of TREC.",
            rich_help_panel=options.INPUT, show_default=False,
        ),
    ],
    metric: Annotated[
        str,
        typer.Option(
            "--metric", metavar="NAME", help="The metric that is maximised.",
            rich_help_panel=options.LOSS,
        ),
    ] = "ndcg@10",
    combine: Annotated[
        Literal["sum", "dis-max"],
        typer.Option(
            "--combine", help="How the engine joins the clauses: most_fields and bool.should are "
            "sums; best_fields is dis-max.", rich_help_panel=options.LOSS,
        ),
    ] = "sum",
    tie_breaker: Annotated[
        float,
        typer.Option(
            "--tie-breaker", metavar="NUMBER", min=0.0, max=1.0,
            help="The share of the other clauses in dis-max.", rich_help_panel=options.LOSS,
        ),
    ] = 0.0,
    folds: Annotated[
        int,
        typer.Option(
            "--folds", metavar="NUMBER", min=2,
            help="Each query is ranked by boosts that were learned from the other folds.",
            rich_help_panel=options.CHOICE,
        ),
    ] = 5,
    target: Annotated[
        Literal["multi-match", "bool", "solr"] | None,
        typer.Option(
            "--for", help="Print a query with the learned boosts.",
            rich_help_panel=options.OUTPUT, show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Learn boosts of fields or clauses from the scores that one logged pass has for each."""
    from ..fusion import Boosting, read_clauses, write_boosts
    from ..fusion import fuse as learn

    boosting = Boosting(metric=metric, combine=combine, tie_breaker=tie_breaker)
    for path in (log, qrels):
        if not path.exists():
            raise DataError(f"{path}: no such file; expected logged scores or judgements")
    with progress("reading"):
        found = read_clauses(log, qrels)
    with progress("learning boosts"), prefix_errors(qrels):
        fused = learn(found, boosting, folds=folds, metrics=[metric])
    request = target and write_boosts(target, fused.as_dict(), boosting)
    if json:
        print_json(_as_json(fused, None) | ({"request": request} if request else {}))
        return
    lines = [_data_line(found, "clauses"), *(("note", note) for note in found.notes)]
    how = "sum" if combine == "sum" else f"dis-max with tie breaker {tie_breaker:g}"
    show(facts([*lines, ("clauses", how), ("folds", str(folds))]))
    show(_weights_table(fused, None), _rules_table(fused))
    _print_request(request)


_DEFAULT = ["map", "ndcg@10"]


def _print_request(request: str | None) -> None:
    """Print a request as it is, so that it can be pasted."""
    if request is not None:
        print("\n".join(map(printable, request.split("\n"))))


def _data_line(found: Retrieved, what: str = "retrievers") -> tuple[str, str]:
    judged = int((found.y > 0).sum())
    return "data", (
        f"{len(found.names)} {what}, {found.n_queries:,} judged queries, "
        f"{len(found.y):,} documents, of which {judged:,} are relevant"
    )


def _weights_table(fused: Fused, limits: Vector | None) -> Table:
    """Return the weights, the largest ones first, with the range of the folds and own quality."""
    title = "folds" if limits is None else "95 % interval"
    table = grid(["retriever", "weight", title, *fused.metrics], left=["retriever"])
    by_fold = fused.fold_weights
    low, high = (by_fold.min(axis=0), by_fold.max(axis=0)) if limits is None else limits
    for r in (-fused.weights).argsort(kind="stable").tolist():
        own = fused.singles[r].evaluation.mean
        table.add_row(
            plain(fused.retrieved.names[r]), f"{fused.weights[r]:.3f}",
            f"{low[r]:.3f} to {high[r]:.3f}", *(f"{own[name]:.4f}" for name in fused.metrics),
        )  # fmt: skip
    return table


def _rules_table(fused: Fused) -> Table:
    """Return the quality on held-out queries, with tests of the first metric."""
    metric = fused.metrics[0]
    table = grid(
        ["ranking", *fused.metrics, f"fused better by ({metric})", "95 % interval", "p (t)",
         "p (random)", "win/tie/loss", "P(better)", "queries needed"],
        left=["ranking"], title="held-out queries",
    )  # fmt: skip
    compared, certain = fused.comparisons(metric), fused.certainties(metric)
    for rule in fused.rankings:
        means = [f"{rule.evaluation.mean[name]:.4f}" for name in fused.metrics]
        found = compared.get(rule.name)
        more = [""] * 7
        if found is not None:
            low, high = found.interval
            more = [
                f"{found.difference:+.4f}", f"{low:+.4f} to {high:+.4f}",
                *(f"{found.tests[name].p_value:.4f}" for name in ("t", "randomization")),
                "/".join(map(str, found.counts)),
                f"{certain[rule.name].probability:.3f}",
                str(certain[rule.name].n_needed or "–"),
            ]  # fmt: skip
        table.add_row(plain(rule.name), *means, *more)
    return table


def _as_json(fused: Fused, limits: Vector | None) -> dict[str, object]:
    compared, certain = fused.comparisons(), fused.certainties()
    return {
        "weights": fused.as_dict(),
        "weight_intervals": None if limits is None else limits.T.tolist(),
        "fold_weights": fused.fold_weights.tolist(),
        "queries": fused.retrieved.n_queries,
        "notes": fused.retrieved.notes,
        "rankings": {rule.name: rule.evaluation.mean for rule in fused.rankings},
        "retrievers": {rule.name: rule.evaluation.mean for rule in fused.singles},
        "comparisons": {
            name: {
                "metric": found.metric,
                "difference": found.difference,
                "interval": found.interval,
                "p_t": found.tests["t"].p_value,
                "p_random": found.tests["randomization"].p_value,
                **found.counts._asdict(),
                **certain[name]._asdict(),
            }
            for name, found in compared.items()
        },
    }
