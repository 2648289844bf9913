"""The command ``linrank study``: compare methods on data sets by one protocol."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._text import count
from ..errors import DataError
from ..metrics.names import FlavourName
from . import _options as options
from ._console import facts, print_json, show
from ._guard import RUNS_FAILED, say_error
from ._input import Input, with_columns
from ._io import check_output
from ._progress import progress
from ._study_file import make_study_file
from ._study_progress import showing_study

if TYPE_CHECKING:
    from ..study import StudyResults
    from ..study.toml import StudyFile

EPILOG = """
Examples:

linrank study MQ2007 MQ2008 --methods ranksvm,sparse:log,adarank --metric map --report out.html

linrank study data.parquet --label grade --methods "ranksvm:loss=huber|squared_hinge,forest"

linrank study MQ2007 --methods ranksvm --scores other=scores/{fold}.txt

linrank study MQ2007 --methods all --write-toml study.toml

linrank study study.toml

Exit codes: 0 all runs are done, 1 some runs failed and the others are reported, 2 wrong usage or
input, 130 interrupted. The same command continues after an interruption, and tries failed runs
again.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("study", epilog=EPILOG)(with_columns(study))


def _file(flag: str, metavar: str, help: str, default: str | bool = False) -> Any:
    return typer.Option(
        flag, metavar=metavar, help=help, rich_help_panel=options.OUTPUT, show_default=default
    )


def study(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DATA",
            help="Data sets: folders with folds of LETOR data (Fold1, …), or files, tables and "
            "stores, which are split into folds of queries. Or one TOML file.",
            show_default=False,
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            metavar="NAMES",
            help="Methods with settings, such as ranksvm,sparse:log,svr:C=0.1|1. The best of "
            "several values (0.1|1) on validation data is kept. all stands for every method. It "
            "may be repeated.",
            show_default="ranksvm,sparse:l1,sparse:log,domination,svr",
        ),
    ] = None,
    scores: Annotated[
        list[str] | None,
        typer.Option(
            "--scores",
            metavar="NAME=PATTERN",
            help="Test scores of another tool as a method: one file per fold, with a score per "
            "line or as a TREC run. {data} and {fold} stand for names, as in "
            "bm25=runs/{data}/{fold}.txt. It may be repeated.",
            show_default=False,
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="The metric on validation data by which settings are chosen.",
            show_default="ndcg@10",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="NAMES",
            help="Metrics that are reported, too, separated by commas.",
            show_default="map,ndcg@5,ndcg@10,p@10,mrr",
        ),
    ] = None,
    flavour: Annotated[
        FlavourName | None,
        typer.Option("--flavour", help=options.FLAVOUR_HELP, show_default="standard"),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            metavar="NUMBER",
            min=3,
            help="The number of folds of queries of data without folds.",
            show_default="5",
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="METHOD",
            help="The method with which reports and tables compare all others.",
            show_default="the best one",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="NUMBER",
            min=0,
            help="The number of processes. 0 does all runs in this one.",
            show_default="one per core",
        ),
    ] = None,
    n_features: Annotated[
        int | None,
        typer.Option(
            "--n-features",
            metavar="NUMBER",
            min=1,
            help="The number of features of LETOR text whose last features may not occur.",
            rich_help_panel=options.INPUT,
            show_default=False,
        ),
    ] = None,
    results: Annotated[
        Path | None,
        _file(
            "--results",
            "FILE",
            "Store finished runs here. Runs that are stored already are not done again.",
            "study.sqlite",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        _file("--report", "FILE.html", "Write a page with all tables and pictures."),
    ] = None,
    tables: Annotated[
        Path | None, _file("--tables", "FOLDER", "Write the tables to this folder.")
    ] = None,
    runs: Annotated[
        Path | None, _file("--runs", "FOLDER", "Write the test scores here, as TREC runs.")
    ] = None,
    write_toml: Annotated[
        Path | None,
        _file("--write-toml", "FILE.toml", "Write a file that repeats this command, and exit."),
    ] = None,
    json: options.Json = False,
    *,
    inputs: Input,
) -> None:
    """Compare many methods on data sets with folds, by one protocol."""
    shared = {
        "metric": metric, "metrics": metrics, "flavour": flavour, "jobs": jobs,
        "baseline": baseline, "results": results, "report": report, "tables": tables, "runs": runs,
    }  # fmt: skip
    own = {"methods": methods, "scores": scores, "folds": folds, "n_features": n_features}
    file = make_study_file(sources or [], shared, own, inputs)
    if write_toml is not None:
        _write_toml(write_toml, file, sources or [])
        return
    found = _run(file, sources or [])
    if not json:  # before files are written, which a full disk may prevent
        print(found.summary().to_text(), flush=True)
    _say_problems(found)
    written = _write(file, found)
    if json:
        print_json(_as_json(found) | {"written": written})
    else:
        show(facts((what, f"saved as {path}") for what, path in written.items()))
    if found.missing:
        raise typer.Exit(RUNS_FAILED)


def _write_toml(path: Path, file: StudyFile, sources: Sequence[Path]) -> None:
    """Write a study file; without data, it is a start for a user to fill in."""
    from ..study.toml import write_study

    check_output(path, *sources)
    if path.is_file():  # users edit these files, so none is replaced
        raise DataError(f"{path}: exists already. Remove it, or pass another name.")
    if file.data:
        file.study()  # raises an error about unknown metrics and methods
    write_study(path, file)
    show(facts([("study", f"saved as {path}. Run it by: linrank study {shlex.quote(str(path))}")]))


def _run(file: StudyFile, sources: Sequence[Path]) -> StudyResults:
    """Check what can be checked before long work, and do the runs."""
    from .._threads import resolve_threads

    planned = file.study()
    _check_outputs(file, sources)
    n_processes = resolve_threads(None) if file.jobs is None else file.jobs
    with showing_study(n_processes) as news:
        try:
            return planned.run(file.results, n_processes=n_processes, progress=news)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted: {news.n_done:,} of {count(news.n_runs, 'run')} are stored in "
                f"{file.results}. The same command continues the study."
                if news.n_runs
                else "interrupted while data were read. The same command starts again."
            ) from None


def _check_outputs(file: StudyFile, sources: Sequence[Path]) -> None:
    """Raise an error about an output that cannot be written, or would replace another file."""
    from ..study.toml import PATHS

    data = [Path(one.source) for one in file.data.values()]
    written: dict[Path, str] = {}
    for name in PATHS:
        if getattr(file, name) is None:
            continue
        path = Path(getattr(file, name))
        check_output(path, *sources, *data, is_folder=name in ("tables", "runs"))
        place = path.resolve()
        if place in written:
            raise DataError(f"{path}: is named for {written[place]} and for {name}. Use two names.")
        if path.is_file() and any(place.is_relative_to(folder.resolve()) for folder in data):
            raise DataError(f"{path}: is a file of the data; pass another name for the {name}")
        written[place] = name


def _write(file: StudyFile, found: StudyResults) -> dict[str, str]:
    """Write the page, tables and runs that are wanted; return the paths by what they hold."""
    from ..study.toml import PATHS

    if file.report or file.tables or file.runs:
        with progress("writing results"):
            from ..study.output import write_report, write_runs, write_tables

            if file.report is not None:
                command = shlex.join(["linrank", *sys.argv[1:]])
                write_report(file.report, found, command, baseline=file.baseline)
            if file.tables is not None:
                write_tables(file.tables, found, baseline=file.baseline)
            if file.runs is not None:
                write_runs(file.runs, found)
    paths = {name: getattr(file, name) for name in PATHS}
    return {name: path for name, path in paths.items() if path is not None}


def _say_problems(found: StudyResults) -> None:
    """Print why runs failed, once per method, data set and reason."""
    for problem in found.problems:
        say_error(problem, "warning: ")
    reasons = Counter((one.method, one.data, one.reason) for one in found.missing)
    for (method, data, reason), n_runs in reasons.items():
        say_error(f"{count(n_runs, 'run')} of {method} on {data} failed: {reason}", "warning: ")


def _as_json(found: StudyResults) -> dict[str, Any]:
    return {
        "metric": found.metric,
        "flavour": found.flavour,
        "data": {
            data: {
                "folds": found.folds(data),
                "queries": len(found.queries(data)),
                "methods": {method: _method_json(found, data, method) for method in found.methods},
            }
            for data in found.data_sets
        },
        "failed": [one._asdict() for one in found.missing],
        "problems": found.problems,
    }


def _method_json(found: StudyResults, data: str, method: str) -> dict[str, Any]:
    """Return the means of a method, with its chosen setting and its seconds on each fold."""
    chosen = {
        fold: found.found[data, fold, method].outcome
        for fold in found.folds(data) if (data, fold, method) in found.found
    }  # fmt: skip
    return {
        "mean": {metric: found.mean(data, method, metric) for metric in found.metrics},
        "folds": {
            fold: {
                "setting": outcome.best.setting,
                "valid": outcome.best.valid,
                "test": outcome.best.test,
                "features": outcome.n_used,
                "train_seconds": outcome.train_seconds,
            }
            for fold, outcome in chosen.items()
        },
    }
