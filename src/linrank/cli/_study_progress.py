"""Progress of a study on stderr: a live table on a terminal, and otherwise a line per result."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType

from .._text import count, printable
from ._console import console, format_mean, grid, plain

if TYPE_CHECKING:
    from rich.console import Console

    from ..study.jobs import Job
    from ..study.lanes import Finished
    from ..study.outcomes import Brief, Trial

REFRESH = 4  #: times per second that the table is drawn
OTHER_LINES = 8  #: lines of a terminal that the rows of the table leave free

LONGEST_NAME = 40  #: characters of the name of a method in the table


@dataclass
class Cell:
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


Cells = Mapping[tuple[str, str], Cell]  #: by method and data set


def time_left(cells: Cells, n_processes: int, now: float) -> float | None:
    """Estimate the seconds until all runs have ended; None if no run has ended yet.

    A run takes the mean seconds of the runs of its method on its data set. If there are none, it
    takes those of its method, or of all runs.

    Examples
    --------
    >>> cells = {("svr", "A"): Cell(5, 2, 0, 20.0), ("svr", "B"): Cell(3)}
    >>> time_left(cells, 2, now=0.0)  # 3 + 3 runs of 10 seconds on 2 processes
    30.0
    """
    by_method: dict[str, list[Cell]] = {}
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


def _mean_seconds(cells: Collection[Cell]) -> float | None:
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
        self.cells: dict[tuple[str, str], Cell] = {}
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

    def _cell(self, job: Job) -> Cell:
        return self.cells.setdefault((job.method, job.data), Cell())

    def _line(self, job: Job, cell: Cell) -> str:
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
            cells = (self.cells.get((method, name), Cell()) for name in data)
            table.add_row(plain(method), *map(plain, map(_text, cells)))
        yield table
        if len(shown) < len(methods):
            yield plain(f"… and {count(len(methods) - len(shown), 'more method')}")


def _text(cell: Cell) -> str:
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
