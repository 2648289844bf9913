"""The command ``linrank compare``: two rankers on the same queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ..choices import FlavourName
from ..errors import DataError, prefix_errors
from . import shared_options as options
from .console import facts, grid, plain, print_json, progress, show
from .fitting import check_plot, data_line
from .inputs import (
    Documents,
    FileKind,
    Input,
    check_output,
    find_model,
    has_topics,
    kind_of,
    qrels_line,
    read_judgements,
    read_ranked,
    run_line,
    with_columns,
)

if TYPE_CHECKING:
    from rich.table import Table

    from .._util.types import Vector
    from ..comparison import ChangedQuery, Comparison, MetricComparison
    from ..data.ranking import RankingData
    from ..data.trec import Qrels, Run
    from ..metrics import Metric
    from ..model import Model

EPILOG = """
Examples:

linrank compare old.json new.json --data test.txt

linrank compare bm25.txt model.json --data test.txt --metrics ndcg@10,map --queries 20

linrank compare old.json new.json --data test.txt --allow-loss 0.005 && mv new.json old.json

linrank compare a.run b.run --data qrels.txt --plot differences.png
"""
WORSE = 1  #: exit code if B may be worse than --allow-loss allows
Files = tuple[Path, Path]  #: A and B
Rankings = tuple["Vector | Run", "Vector | Run"]  #: scores or runs of A and B


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare", epilog=EPILOG)(with_columns(compare))


def compare(
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="The baseline: a model file, scores (one per line, in the order of the "
            "documents), or a run in the format of TREC.",
            show_default=False,
        ),
    ],
    b: Annotated[
        Path,
        typer.Argument(
            metavar="B",
            help="What is compared with A: a file of one of these kinds.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            metavar="DATA",
            help="Data with labels: LETOR text, a Parquet, Arrow or CSV file, a folder of such "
            "files, or a store; for two runs, also judgements in the format of TREC (qrels). A run "
            "needs document ids in the data.",
            rich_help_panel=options.INPUT,
            show_default=False,
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            "--metric",
            metavar="NAMES",
            help=options.METRICS_HELP + " The option can be repeated.",
            show_default="ndcg@10,map",
        ),
    ] = None,
    flavour: Annotated[
        FlavourName | None,
        typer.Option(
            "--flavour", help=options.FLAVOUR_HELP, show_default="standard, or trec for runs"
        ),
    ] = None,
    queries: Annotated[
        int,
        typer.Option(
            "--queries",
            metavar="NUMBER",
            min=0,
            help="List this number of queries in which the first metric changes most.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = 5,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE.png",
            help="Draw the differences of all queries in the first metric (.png, .svg or .pdf).",
            rich_help_panel=options.OUTPUT,
            show_default=False,
        ),
    ] = None,
    allow_loss: Annotated[
        float | None,
        typer.Option(
            "--allow-loss",
            metavar="NUMBER",
            min=0.0,
            help="Exit with code 1 if B may be worse than A by more than this in the first metric: "
            "what counts is the 95% interval of the difference.",
            show_default=False,
        ),
    ] = None,
    threads: options.Threads = None,
    json: options.Json = False,
    *,
    inputs: Input,
) -> None:
    """Compare two rankers on the same queries: means, intervals, tests, wins and losses."""
    check_plot(plot)
    check_output(plot, a, b, data)
    from ..comparison import compare as compare_rankings
    from ..metrics import parse_metrics

    wanted = parse_metrics(",".join(metrics or ["ndcg@10", "map"]))
    sources = _read((a, b), data, Documents(data, inputs, n_threads=threads))
    with progress("comparing"), prefix_errors(data):
        found = compare_rankings(
            sources.data, *sources.rankings, metrics=wanted, flavour=flavour, n_threads=threads
        )
    if plot is not None:
        from ..plots import save_plot

        save_plot(plot, found.plot)
    changed = found.most_changed(queries)
    worse = None if allow_loss is None else _worst_loss(found, wanted[0])
    if json:
        loss = {} if worse is None else {"worst_loss": worse, "allowed_loss": allow_loss}
        about = {"data": str(data), "a": str(a), "b": str(b)}
        print_json(about | loss | _as_json(found, changed))
    else:
        lines = [*sources.lines, ("flavour", found.a.flavour)]
        lines += [("note", "A and B are the same file")] if a.samefile(b) else []
        lines += [] if plot is None else [("plot", f"saved as {plot}")]
        if worse is not None:
            lines.append(("loss", f"B is at most {max(0.0, worse):.4f} worse than A in "
                          f"{wanted[0]} (95 %); allowed is {allow_loss:g}"))  # fmt: skip
        show(facts([*lines, *(("note", note) for note in found.notes())]))
        show(_table(found), *([_changed_table(found, changed)] if changed else []))
    if worse is not None and allow_loss is not None and not worse <= allow_loss:
        raise typer.Exit(WORSE)


def _worst_loss(found: Comparison, metric: Metric) -> float:
    """Return by how much B may be worse than A, at the bad end of the interval."""
    low, high = found.metrics[metric.name].interval
    return -low if metric.greater_is_better else high


class _Sources(NamedTuple):
    """What is compared: data or judgements, two rankings, and lines of a report."""

    data: RankingData | Qrels
    rankings: Rankings
    lines: list[tuple[str, str]]


def _read(files: Files, data: Path, documents: Documents) -> _Sources:
    """Read both rankings and the data, or raise an error if they do not belong together."""
    kinds = [kind_of(file) for file in files]
    _check_kinds(files, kinds, data)
    if kind_of(data) == "qrels":
        qrels = read_judgements(data)
        runs = read_ranked(files[0]), read_ranked(files[1])
        return _Sources(qrels, runs, _lines(qrels_line(data, qrels), qrels.qid, files, runs))
    models = [_find_model(file) for file in files]
    found: dict[int, Vector | Run] = {}
    # A score file fits any reading of the data, so models choose the features that are read.
    for side in sorted((0, 1), key=lambda side: models[side] is None):
        file, model = files[side], models[side]
        if kinds[side] == "run":
            found[side] = read_ranked(file)
            continue
        with _about_features(file, model, data):
            found[side] = documents.score(file, model)
    ranked, rankings = documents.read(), (found[0], found[1])
    lines = _lines(data_line(data, ranked), ranked.query_ids.tolist(), files, rankings)
    return _Sources(ranked, rankings, lines)


def _lines(
    about_data: str, judged: Iterable[object], files: Files, rankings: Rankings
) -> list[tuple[str, str]]:
    """Return lines on the data, whose queries are `judged`, and on both files."""
    from ..data.trec import Run

    lines, queries = [("data", about_data)], {str(query) for query in judged}
    for name, file, ranking in zip("AB", files, rankings, strict=True):
        text = run_line(file, ranking, queries) if isinstance(ranking, Run) else str(file)
        lines.append((name, text))
    return lines


def _check_kinds(files: Files, kinds: list[FileKind], data: Path) -> None:
    """Raise an error if a file is in the place of another one."""
    kind = kind_of(data)
    if kind in ("run", "model"):
        raise DataError(f"{data}: is a {kind} file; --data takes data with labels, or a qrels file")
    for file, found in zip(files, kinds, strict=True):
        if not file.exists():
            raise DataError(f"{file}: no such file; expected a model, scores or a run")
        if found == "qrels":
            raise DataError(
                f"{file}: is a qrels file; expected a model, scores or a run. Judgements belong to "
                "--data"
            )
        if kind == "qrels" and found != "run":
            raise DataError(
                f"{file}: is not a run file, but {data} is a qrels file, which has no features. "
                "Use --data with the data that the file belongs to"
            )


def _find_model(file: Path) -> Model | None:
    model = find_model(file)
    if model is not None and has_topics(model):
        raise DataError(
            f"{file}: is a model with topics; use linrank evaluate, which supports them"
        )
    return model


@contextmanager
def _about_features(file: Path, model: Model | None, data: Path) -> Iterator[None]:
    """Add the name of a model to errors that data with other features cause."""
    try:
        yield
    except DataError as error:
        if model is None or not data.exists():
            raise
        raise DataError(f"{error}. {file} cannot score these data") from None


def _table(found: Comparison) -> Table:
    columns, rows = found.table()
    table = grid(columns, left=columns[:1])
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def _changed_table(found: Comparison, changed: list[ChangedQuery]) -> Table:
    metric = next(iter(found.metrics))
    table = grid(["query", "A", "B", "B − A"], left=["query"], title=f"largest changes of {metric}")
    for query in changed:
        numbers = (f"{query.a:.4f}", f"{query.b:.4f}", f"{query.difference:+.4f}")
        table.add_row(plain(str(query.qid)), *numbers)
    return table


def _as_json(found: Comparison, changed: list[ChangedQuery]) -> dict[str, object]:
    return {
        "flavour": found.a.flavour,
        "queries": found.a.n_queries,
        "level": found.level,
        "metrics": {name: _metric_json(one) for name, one in found.metrics.items()},
        "changed": {
            "metric": next(iter(found.metrics)),
            "queries": [query._asdict() for query in changed],
        },
    }


def _metric_json(found: MetricComparison) -> dict[str, object]:
    return {
        "mean_a": found.mean_a,
        "mean_b": found.mean_b,
        "difference": found.difference,
        "interval": found.interval,
        "tests": {
            name: {"statistic": t.statistic, "p_value": t.p_value, "p_holm": found.p_holm[name]}
            for name, t in found.tests.items()
        },
        **found.counts._asdict(),
        "queries": found.n_queries,
        "left_out": found.n_left_out,
        "note": found.note or None,
    }
