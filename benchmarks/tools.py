"""Tools of the benchmarks: records, clocks, processes and the command line."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
import scipy
import sklearn

import linrank
from linrank import RankingData
from linrank._compile.jit import njit
from linrank._util.parallel import resolve_threads, run
from linrank.solvers import Step

#: Environment variables that set the number of threads of a process.
THREADS = ("LINRANK_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
RESULTS = Path(__file__).parent / "results"
TOO_LONG = 600.0  #: time limit in seconds of a process that makes one measurement


@dataclass(frozen=True)
class Options:
    """Options of a run: number of threads, small or full data, and the folder for results."""

    threads: int
    quick: bool
    out: Path


@dataclass
class Section:
    """A table of measurements, with its goals and all underlying numbers.

    Attributes
    ----------
    rows : list of list of str
        Cells of the table, in the order of `columns`.
    numbers : list of dict
        Numbers of each row, or of each curve of the plot.
    goals : list of dict
        ``goal``, ``measured`` and ``met`` of each goal.
    images : dict
        From the names of files with plots, beside the table, to their descriptions.
    seconds : float
        How long the section took.
    """

    name: str
    title: str
    about: str
    columns: list[str]
    machine: str = ""
    revision: str = ""
    seconds: float = 0.0
    quick: bool = False
    rows: list[list[str]] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    goals: list[dict[str, Any]] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)

    def add(self, *cells: str, **numbers: Any) -> None:
        """Add a row and print it."""
        assert len(cells) == len(self.columns)
        self.rows.append(list(cells))
        self.numbers.append(numbers)
        print(" | ".join(cells), flush=True)

    def aim(self, goal: str, measured: str, met: bool) -> None:
        """Add a goal, and whether it was reached."""
        self.goals.append({"goal": goal, "measured": measured, "met": bool(met)})

    def aim_at_most(
        self, goal: str, limit: float, found: dict[str, float | None], digits: int = 2
    ) -> None:
        """Add the goal that the largest number is within a limit; unknown numbers are listed."""
        known = [(figure, name) for name, figure in found.items() if figure is not None]
        missing = [name for name, figure in found.items() if figure is None]
        worst, name = max(known, default=(np.inf, ""))
        measured = f"{worst:.{digits}f} ({name})" if known else "nothing"
        measured += f", not known for {', '.join(missing)}" if missing else ""
        self.aim(goal, measured, worst <= limit)

    def as_dict(self) -> dict[str, Any]:
        """Return the section as a dict for JSON."""
        return asdict(self)


def markdown(section: dict[str, Any]) -> str:
    """Return a section as Markdown: heading, table, notes and goals."""
    quick = " (tiny data, to try the program: the numbers mean nothing)" if section["quick"] else ""
    lines = [f"## {section['title']}{quick}", "", f"{section['about']}.", ""]
    lines += [f"{section['machine']}.", "", _row(section["columns"])]
    lines += [_row(["---"] * len(section["columns"]))]
    lines += [_row(row) for row in section["rows"]]
    lines += ["", *(f"- {note}" for note in section["notes"])]
    for aim in section["goals"]:
        verdict = "met" if aim["met"] else "**not met**"
        lines.append(f"- Goal: {aim['goal']}. Measured: {aim['measured']}, {verdict}.")
    for file, description in section.get("images", {}).items():
        lines += ["", f"![{description}]({file})"]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# Clocks ----------------------------------------------------------------------------------------


def median_seconds(
    function: Callable[[], object], budget: float = 1.0, least: int = 1, most: int = 15
) -> float:
    """Return the median time of a function, over as many calls as fit in the budget."""
    times: list[float] = []
    while len(times) < least or (len(times) < most and sum(times) < budget):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


@njit(fast=True)
def read_rows(X, first, last):  # type: ignore[no-untyped-def]
    """Return the sum of all entries of some rows: one read."""
    total = 0.0
    for i in range(first, last):
        for f in range(X.shape[1]):
            total += X[i, f]
    return total


def make_reader(data: RankingData, threads: int) -> Callable[[], object]:
    """Return a function that reads X; for sparse X, scipy's product with a vector on one thread."""
    X = data.X
    if data.is_sparse:
        v = np.ones(data.n_features)
        return lambda: X @ v
    edges = np.linspace(0, data.n_docs, threads + 1).astype(int)
    ranges = [(X, int(a), int(b)) for a, b in pairwise(edges)]
    return lambda: run(read_rows, ranges, threads)


def interleaved(
    functions: dict[str, Callable[[], object]], budget: float = 10.0, most: int = 41
) -> dict[str, list[float]]:
    """Return the seconds of each function, measured in turns under the same conditions.

    There are as many turns as fit in the budget, but at least 3 and at most `most`.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()  # compiles the kernels and allocates memory
    started = time.perf_counter()
    for turn in range(most):
        if turn >= 3 and time.perf_counter() - started > budget:
            break
        for own, function in functions.items():
            begun = time.perf_counter()
            function()
            times[own].append(time.perf_counter() - begun)
    return times


def make_evaluation(problem: Any, w: Any) -> Callable[[], object]:
    """Return a function that evaluates near w, each time at another point to avoid caching."""
    points = cycle([w, (1 + 1e-9) * w])
    return lambda: problem.value_grad(next(points))


def stop_after(seconds: float) -> Callable[[Step], None]:
    """Return a callback that stops a solver after some time, like Ctrl-C."""

    def callback(step: Step) -> None:
        if step.seconds > seconds:
            raise KeyboardInterrupt

    return callback


def show_seconds(seconds: float | None, otherwise: str = "—") -> str:
    """Return seconds as text with three digits; below one second, milliseconds."""
    if seconds is None:
        return otherwise
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def show_spread(times: list[float]) -> str:
    """Return the median, smallest and largest time as text: ``330 ms (310–360)``."""
    median = statistics.median(times)
    if len(times) == 1:
        return show_seconds(median)
    scale = 1e3 if median < 1 else 1.0
    return f"{show_seconds(median)} ({min(times) * scale:.3g}–{max(times) * scale:.3g})"


# Processes -------------------------------------------------------------------------------------


def from_process(
    function: Callable[..., Iterator[Any]], *arguments: Any, cap: float
) -> Iterator[Any]:
    """Yield the items of a generator that runs in another process.

    The iteration ends when an item takes more than `cap` seconds, which include the start of the
    process. This serves to measure memory, and tools that cannot be interrupted.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_all, args=(sender, function, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        while receiver.poll(cap):
            more, item = receiver.recv()
            if not more:
                break
            yield item
    except EOFError:
        raise RuntimeError(f"the process of {function.__name__} ended; see above") from None
    finally:
        process.kill()
        process.join()


def in_time(section: Section, function: Callable[..., Iterator[Any]], *arguments: Any) -> list[Any]:
    """Return the items of `from_process`; add a note if there is none within `TOO_LONG` seconds."""
    found = list(from_process(function, *arguments, cap=TOO_LONG))
    if not found:
        words = ", ".join(str(argument) for argument in arguments)
        section.notes.append(f"Nothing within {TOO_LONG:.0f} s: {function.__name__}({words})")
    return found


def _send_all(sender: Any, function: Callable[..., Iterator[Any]], arguments: Any) -> None:
    for item in function(*arguments):
        sender.send((True, item))
    sender.send((False, None))


def pinned(threads: int) -> AbstractContextManager[Any]:
    """Limit the threads of processes that are started in the context."""
    return patch.dict(os.environ, dict.fromkeys(THREADS, str(threads)))


def forget_high_water() -> int:
    """Reset `high_water` to the current memory of this process, and return it."""
    gc.collect()
    with suppress(AttributeError):  # only glibc can return free memory to the system
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return high_water()


def high_water(process: int | str = "self") -> int:
    """Return the peak memory of a process in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0")
    return int(line.split()[1]) * 1024


def machine(threads: int, of: str | None = None) -> str:
    """Return processor, threads and versions of the software as text; `of` is the revision."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [li.split(":")[1].strip() for li in cpuinfo.read_text().splitlines()
                 if li.startswith("model name")]  # fmt: skip
        name = names[0] if names else name
    return (
        f"{name}, {os.cpu_count()} cores, {threads} threads, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scipy {scipy.__version__}, numba {numba.__version__}, "
        f"scikit-learn {sklearn.__version__}, linrank {linrank.__version__} "
        f"(revision {of or revision()}, {date.today()})"
    )


def revision(root: Path = Path(__file__).parents[1], besides: str = "") -> str:
    """Return the revision of the sources; it ends in ``-dirty`` if files have been changed since.

    Changes in the folder `besides` do not count: a run that writes there has changed it itself.
    """
    where = [".", f":(exclude){besides}"] if besides else ["."]
    found, changed = (
        subprocess.run(["git", *command], capture_output=True, text=True, cwd=root).stdout.strip()
        for command in (
            ["describe", "--always"],
            ["status", "--porcelain", "--untracked-files=no", "--", *where],
        )
    )
    return (found or "unknown") + ("-dirty" if changed else "")


# The command line ------------------------------------------------------------------------------

Sections = dict[str, Callable[[Options], Section]]


def run_sections(
    doc: str, file: str, sections: Sections, rivals: dict[str, str] | None = None
) -> None:
    """Run the sections that the command line names, or all of them.

    Tables and numbers are written to ``file.md`` and ``file.json``, with those of the sections of
    earlier runs. `rivals` are the packages of other tools that the sections compare with.
    """
    names, options = parse_arguments(doc, "section", sections, RESULTS)
    record_sections(names, file, sections, options, rivals=rivals)


def parse_arguments(
    doc: str, what: str, known: Collection[str], results: Path
) -> tuple[list[str], Options]:
    """Read names and options from the command line; without names, all are chosen."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar=what, help=", ".join(known))
    parser.add_argument("--quick", action="store_true", help="tiny data, to try the program")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"default: {results.name}")
    parser.add_argument("--threads", type=int, default=resolve_threads())
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in known:
            parser.error(f"{what} is {name!r}; known are {', '.join(known)}")
    out = arguments.out or (RESULTS / "quick" if arguments.quick else results)
    return arguments.names or list(known), Options(arguments.threads, arguments.quick, out)


def record_sections(
    names: list[str], file: str, sections: Sections, options: Options,
    *, rivals: dict[str, str] | None = None, heading: str = "", of: str | None = None,
) -> None:  # fmt: skip
    """Run sections, and store their tables and numbers below a heading.

    `of` is the revision of a run of several files, which is then recorded for each of them.
    """
    of = of or revision()
    for name in names:
        print(f"{name} …", flush=True)
        started = time.perf_counter()
        section = sections[name](options)
        rival = (rivals or {}).get(name)
        section.machine = machine(options.threads, of)
        section.machine += "" if rival is None else f", {rival} {version(rival)}"
        section.quick, section.revision = options.quick, of
        section.seconds = round(time.perf_counter() - started, 1)
        _keep(section, options.out / file, sections, heading)
        print("\n" + markdown(section.as_dict()), flush=True)


def read_kept(file: Path) -> dict[str, Any]:
    """Return the sections of earlier runs, by their names."""
    numbers = file.with_suffix(".json")
    return json.loads(numbers.read_text()) if numbers.exists() else {}


def _keep(section: Section, file: Path, order: Sections, heading: str) -> None:
    """Store the numbers of a section with those of the others, and rewrite all tables."""
    file.parent.mkdir(parents=True, exist_ok=True)
    numbers, kept = file.with_suffix(".json"), read_kept(file)
    kept[section.name] = section.as_dict()
    numbers.write_text(
        json.dumps(kept, indent=1, allow_nan=False, default=lambda value: value.item())
    )
    texts = [markdown(kept[name]) for name in order if name in kept]
    file.with_suffix(".md").write_text("\n".join([heading + "\n"] * bool(heading) + texts))
