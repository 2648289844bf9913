"""The command ``linrank study``: compare methods on data sets by one protocol."""

from __future__ import annotations

import math
import os
import shlex
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from .._util.text import count, printable
from ..choices import FlavourName
from ..errors import DataError
from . import shared_options as options
from .console import (
    RUNS_FAILED,
    console,
    facts,
    format_mean,
    grid,
    plain,
    print_json,
    progress,
    say_error,
    show,
)
from .inputs import Input, check_output, with_columns

if TYPE_CHECKING:
    from rich.console import Console

    from ..study import StudyResults
    from ..study.protocol import Job
    from ..study.results import Brief, Trial
    from ..study.study import MethodText, StudyFile
    from ..study.workers import Finished

# --------------------------------------------------------------------------------------------------
# The arguments of ``linrank study`` as a study file, or changes of a study file that is named.


def is_study_file(path: Path) -> bool:
    """Tell whether a path names a TOML file."""
    return path.suffix.lower() == ".toml" and not path.is_dir()


def make_study_file(
    sources: Sequence[Path], shared: Mapping[str, Any], own: Mapping[str, Any], inputs: Input
) -> StudyFile:
    """Return what the arguments of the command describe.

    Parameters
    ----------
    sources : sequence of Path
        Data, or one TOML file.
    shared : mapping
        Options that are also keys of a TOML file, and that replace those of the file; None for
        options that are not given.
    own : mapping
        The other options: ``methods``, ``scores``, ``folds`` and ``n_features``.
    inputs : Input
        The columns of tables.
    """
    from ..metrics import parse_metrics
    from ..study.study import PATHS, StudyFile, read_study

    values = {key: value for key, value in shared.items() if value is not None}
    values |= {key: os.fspath(values[key]) for key in PATHS if key in values}
    if "metrics" in values:
        values["metrics"] = tuple(metric.name for metric in parse_metrics(values["metrics"]))
    if any(map(is_study_file, sources)):
        path = _only_file(sources, own, inputs)
        return replace(read_study(path), **values)
    if own["folds"] is not None:
        values["folds"] = own["folds"]
    methods = _methods(own["methods"], own["scores"])
    if methods:
        values["methods"] = methods
    file = StudyFile({}, **values)
    return replace(file, data=_data(sources, file.folds, own["n_features"], inputs))


def _only_file(sources: Sequence[Path], own: Mapping[str, Any], inputs: Input) -> Path:
    """Return the TOML file, or raise an error about arguments that belong into it."""
    (path, *others) = sorted(sources, key=lambda source: not is_study_file(source))
    if others:
        raise typer.BadParameter(
            f"{path} is a TOML file, which names the data. Add {others[0]} to it, below [data]."
        )
    given = [key for key, value in own.items() if value] + inputs.columns.given()
    given += [key for key in ("feature_names", "categories") if getattr(inputs, key) is not None]
    for key in given:
        raise typer.BadParameter(
            f"--{key.replace('_', '-')} is not combined with a TOML file. Write it into {path}."
        )
    return path


def _data(
    sources: Sequence[Path], folds: int, n_features: int | None, inputs: Input
) -> dict[str, Any]:
    from ..study.folds import DataSet
    from ..study.study import names_of

    options = {name: getattr(inputs.columns, name) for name in inputs.columns.given()}
    if inputs.feature_names is not None:
        options["feature_names"] = os.fspath(inputs.feature_names)
    if inputs.categories is not None:
        options["categories"] = inputs.categories
    return {
        name: DataSet(name, os.fspath(source), folds, n_features, options)
        for name, source in zip(names_of(sources), sources, strict=True)
    }


def _methods(methods: list[str] | None, scores: list[str] | None) -> dict[str, MethodText]:
    """Return the methods that are named; an empty mapping if there are none."""
    from ..study.protocol import ScoreFiles, split_methods

    texts = [text for given in methods or [] for text in split_methods(given)]
    if methods and not texts:
        raise DataError("--methods is empty. Name some, such as ranksvm,sparse:log.")
    found: dict[str, MethodText] = {text: text for text in texts}
    for given in scores or []:
        name, equals, pattern = given.partition("=")
        if not equals or not name.strip() or not pattern:
            raise typer.BadParameter(
                f"--scores {given!r} is not NAME=PATTERN, such as bm25=runs/{{data}}/{{fold}}.txt"
            )
        if name.strip() in found:
            raise DataError(f"two methods have the name {name.strip()!r}. Use another name.")
        found[name.strip()] = ScoreFiles(name.strip(), pattern)
    return found


# --------------------------------------------------------------------------------------------------
# Progress of a study on stderr: a live table on a terminal, and otherwise a line per result.


REFRESH = 4  #: times per second that the table is drawn
OTHER_LINES = 8  #: lines of a terminal that the rows of the table leave free

LONGEST_NAME = 40  #: characters of the name of a method in the table


@dataclass
class ProgressCell:
    """The runs of one method on one data set."""

    n_runs: int = 0
    n_done: int = 0
    n_failed: int = 0
    seconds: float = 0.0  #: of all runs that are done
    running: dict[str, float] = field(default_factory=dict)  #: keys, and when they started
    best: dict[str, Trial] = field(default_factory=dict)  #: for each fold

    @property
    def n_left(self) -> int:
        """Runs that have not ended; those that are running are among them."""
        return self.n_runs - self.n_done - self.n_failed

    def add(self, fold: str, new: Trial, seconds: float, greater_is_better: bool) -> None:
        """Count a finished run, and keep the best trial of its fold."""
        self.n_done += 1
        self.seconds += seconds
        old = self.best.get(fold)
        sign = 1.0 if greater_is_better else -1.0
        if old is None or math.isnan(old.valid) or sign * new.valid > sign * old.valid:
            self.best[fold] = new

    def mean(self) -> float:
        """Return the mean over folds of the test metric of the best trial on validation data."""
        values = [trial.test for trial in self.best.values()]
        return sum(values) / len(values) if values else math.nan


Cells = Mapping[tuple[str, str], ProgressCell]  #: by method and data set


def time_left(cells: Cells, n_processes: int, now: float) -> float | None:
    """Estimate the seconds until all runs have ended; None if no run has ended yet.

    A run takes the mean seconds of the runs of its method on its data set. If there are none, it
    takes those of its method, or of all runs.

    Examples
    --------
    >>> cells = {("svr", "A"): ProgressCell(5, 2, 0, 20.0), ("svr", "B"): ProgressCell(3)}
    >>> time_left(cells, 2, now=0.0)  # 3 + 3 runs of 10 seconds on 2 processes
    30.0
    """
    by_method: dict[str, list[ProgressCell]] = {}
    for (method, _), cell in cells.items():
        by_method.setdefault(method, []).append(cell)
    overall = _mean_seconds(cells.values())
    total, n_left = 0.0, sum(cell.n_left for cell in cells.values())
    for (method, _), cell in cells.items():
        means = (_mean_seconds([cell]), _mean_seconds(by_method[method]), overall)
        each = next((mean for mean in means if mean is not None), None)
        if cell.n_left and each is None:
            return None
        if cell.n_left and each is not None:
            spent = sum(min(each, now - started) for started in cell.running.values())
            total += cell.n_left * each - spent
    return total / max(1, min(n_processes, n_left))


def _mean_seconds(cells: Collection[ProgressCell]) -> float | None:
    """Return the mean seconds of the finished runs; None if there are none."""
    n_done = sum(cell.n_done for cell in cells)
    return sum(cell.seconds for cell in cells) / n_done if n_done else None


def format_seconds(seconds: float) -> str:
    """Return a duration as text.

    Examples
    --------
    >>> format_seconds(7.4), format_seconds(75), format_seconds(7384)
    ('7 s', '1:15 min', '2:03 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


class StudyProgress:
    """The state of a study that runs; it gets the news of `linrank.study.study.Progress`.

    Parameters
    ----------
    n_processes : int
    say : callable, optional
        Gets a line when all runs of a method on a data set have ended.
    clock : callable
        Returns seconds.
    """

    def __init__(
        self,
        n_processes: int,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cells: dict[tuple[str, str], ProgressCell] = {}
        self._n_processes = n_processes
        self._say = say
        self._clock = clock
        self._started = clock()
        self._reading = "data"
        self._metric = ""
        self._greater = True
        self._lock = threading.Lock()  # the table is drawn by another thread

    @property
    def n_done(self) -> int:
        """The number of runs that are finished, also by earlier commands."""
        return sum(cell.n_done for cell in self.cells.values())

    @property
    def n_runs(self) -> int:
        """The number of runs of the study; 0 until its data are read."""
        return sum(cell.n_runs for cell in self.cells.values())

    def reading(self, data: str) -> None:
        """Take the name of a data set that is read now."""
        self._reading = data

    def planned(self, jobs: Sequence[Job], stored: Sequence[tuple[Job, Brief]]) -> None:
        """Take the runs to do, and those that were found on disk."""
        from ..metrics import parse_metric

        with self._lock:
            for job in [*(job for job, _ in stored), *jobs]:
                self._metric = job.criterion.metric
                self._cell(job).n_runs += 1
            self._greater = not self._metric or parse_metric(self._metric).greater_is_better
            for job, brief in stored:
                self._cell(job).add(job.fold, brief.trial, brief.seconds, self._greater)
        if stored and self._say is not None:
            self._say(f"{self.n_done:,} of {count(self.n_runs, 'run')} are stored already")

    def started(self, job: Job) -> None:
        """Take a run that begins."""
        with self._lock:
            self._cell(job).running[job.key] = self._clock()

    def finished(self, done: Finished) -> None:
        """Take a run that has ended."""
        job = done.job
        with self._lock:
            cell = self._cell(job)
            seconds = self._clock() - cell.running.pop(job.key)  # with sending and storing
            if done.outcome is None:
                cell.n_failed += 1
            else:
                cell.add(job.fold, done.outcome.best, seconds, self._greater)
        if not cell.n_left and self._say is not None:
            self._say(self._line(job, cell))

    def _cell(self, job: Job) -> ProgressCell:
        return self.cells.setdefault((job.method, job.data), ProgressCell())

    def _line(self, job: Job, cell: ProgressCell) -> str:
        failed = f", {cell.n_failed:,} failed" if cell.n_failed else ""
        runs = f"{count(cell.n_runs, 'run')}{failed}, {format_seconds(cell.seconds)}"
        return f"{job.method} on {job.data}: {self._metric} {format_mean(cell.mean())} ({runs})"

    def render(self, height: int) -> RenderableType:
        """Return the table, and a line with the time left."""
        with self._lock:
            now = self._clock()
            elapsed = format_seconds(now - self._started)
            if not self.cells:
                return plain(f"reading {self._reading}  {elapsed}")
            left = time_left(self.cells, self._n_processes, now)
            n_failed = sum(cell.n_failed for cell in self.cells.values())
            facts = [
                f"{self.n_done:,} of {count(self.n_runs, 'run')}",
                *([f"{n_failed:,} failed"] if n_failed else []),
                f"{elapsed} elapsed",
                "time left unknown" if left is None else f"about {format_seconds(left)} left",
            ]
            return Group(*self._rows(max(1, height - OTHER_LINES)), plain(", ".join(facts)))

    def _rows(self, n_rows: int) -> Iterator[RenderableType]:
        """Yield the table; if the terminal is too low, finished methods are left out first."""
        data = list(dict.fromkeys(name for _, name in self.cells))
        methods = list(dict.fromkeys(method for method, _ in self.cells))
        n_left = {
            method: sum(self.cells[method, name].n_left for name in data
                        if (method, name) in self.cells)
            for method in methods
        }  # fmt: skip
        first = sorted(methods, key=lambda method: n_left[method] == 0)
        shown = [method for method in methods if method in first[:n_rows]]
        table = grid(["method", *data], left=["method", *data], title=f"test {self._metric}")
        table.columns[0].max_width = LONGEST_NAME
        for method in shown:
            cells = (self.cells.get((method, name), ProgressCell()) for name in data)
            table.add_row(plain(method), *map(plain, map(_text, cells)))
        yield table
        if len(shown) < len(methods):
            yield plain(f"… and {count(len(methods) - len(shown), 'more method')}")


def _text(cell: ProgressCell) -> str:
    parts = [f"{cell.n_done}/{cell.n_runs}", format_mean(cell.mean())]
    parts += [f"{len(cell.running)} running"] if cell.running else []
    parts += [f"{cell.n_failed} failed"] if cell.n_failed else []
    return "  ".join(parts)


class _Screen:
    """What `rich` draws: the table, for the present height of the terminal."""

    def __init__(self, news: StudyProgress, screen: Console) -> None:
        self._news, self._console = news, screen

    def __rich__(self) -> RenderableType:
        return self._news.render(self._console.height)


@contextmanager
def showing_study(n_processes: int) -> Iterator[StudyProgress]:
    """Show the progress of a study on stderr; the table is removed at the end."""
    screen = console(stderr=True)
    if not screen.is_interactive:
        yield StudyProgress(n_processes, lambda line: screen.print(printable(line)))
        return
    from rich.live import Live

    news = StudyProgress(n_processes)
    with Live(
        _Screen(news, screen), console=screen, transient=True, refresh_per_second=REFRESH,
        redirect_stdout=False,
    ):  # fmt: skip
        yield news


# --------------------------------------------------------------------------------------------------
# The command ``linrank study``: compare methods on data sets by one protocol.


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
    from ..study.study import write_study

    check_output(path, *sources)
    if path.is_file():  # users edit these files, so none is replaced
        raise DataError(f"{path}: exists already. Remove it, or pass another name.")
    if file.data:
        file.study()  # raises an error about unknown metrics and methods
    write_study(path, file)
    show(facts([("study", f"saved as {path}. Run it by: linrank study {shlex.quote(str(path))}")]))


def _run(file: StudyFile, sources: Sequence[Path]) -> StudyResults:
    """Check what can be checked before long work, and do the runs."""
    from .._util.parallel import resolve_threads

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
    from ..study.study import PATHS

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
    from ..study.study import PATHS

    if file.report or file.tables or file.runs:
        with progress("writing results"):
            from ..study.study_page import write_report, write_runs, write_tables

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
