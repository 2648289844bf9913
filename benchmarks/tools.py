"""What benchmarks share: records, clocks, processes, plots, and the command line."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib
import numba
import numpy as np
import scipy
import sklearn
from matplotlib.figure import Figure

import linrank
from linrank import RankingData
from linrank._jit import njit
from linrank._threads import resolve_threads, run
from linrank.report.plots import COLOURS
from linrank.solvers import Step

#: The variables that say how many threads a process uses.
THREADS = ("LINRANK_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
RESULTS = Path(__file__).parent / "results"
TOO_LONG = 600.0  #: seconds after which a process that measures one thing is given up

STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "linrank",
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Options:
    """How to measure: the threads of linrank, small sizes or the real ones, and where to write."""

    threads: int
    quick: bool
    out: Path


@dataclass
class Section:
    """One table with what was measured, what was aimed at, and every number behind it.

    Attributes
    ----------
    rows : list of list of str
        The cells of the table, in the order of `columns`.
    numbers : list of dict
        What each row, or each curve of the plot, was made from.
    goals : list of dict
        ``goal``, ``measured`` and ``met`` of each figure that was aimed at.
    """

    name: str
    title: str
    about: str
    columns: list[str]
    machine: str = ""
    quick: bool = False
    rows: list[list[str]] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    goals: list[dict[str, Any]] = field(default_factory=list)

    def add(self, *cells: str, **numbers: Any) -> None:
        """Take down one row, and show it at once."""
        assert len(cells) == len(self.columns)
        self.rows.append(list(cells))
        self.numbers.append(numbers)
        print(" | ".join(cells), flush=True)

    def aim(self, goal: str, measured: str, met: bool) -> None:
        """Take down what was aimed at, and whether it was reached."""
        self.goals.append({"goal": goal, "measured": measured, "met": bool(met)})

    def aim_at_most(
        self, goal: str, limit: float, found: dict[str, float | None], digits: int = 2
    ) -> None:
        """Take down whether the largest figure is within a limit, and which are not known."""
        known = [(figure, name) for name, figure in found.items() if figure is not None]
        missing = [name for name, figure in found.items() if figure is None]
        worst, name = max(known, default=(np.inf, ""))
        measured = f"{worst:.{digits}f} ({name})" if known else "nothing"
        measured += f", not known for {', '.join(missing)}" if missing else ""
        self.aim(goal, measured, worst <= limit)

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)


def markdown(section: dict[str, Any]) -> str:
    """A section as a heading, a table, its notes and its goals."""
    quick = " (tiny data, to try the program: the numbers mean nothing)" if section["quick"] else ""
    lines = [f"## {section['title']}{quick}", "", f"{section['about']}.", ""]
    lines += [f"{section['machine']}.", "", _row(section["columns"])]
    lines += [_row(["---"] * len(section["columns"]))]
    lines += [_row(row) for row in section["rows"]]
    lines += ["", *(f"- {note}" for note in section["notes"])]
    for aim in section["goals"]:
        verdict = "met" if aim["met"] else "**not met**"
        lines.append(f"- Goal: {aim['goal']}. Measured: {aim['measured']}, {verdict}.")
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# Clocks ----------------------------------------------------------------------------------------


def median_seconds(
    function: Callable[[], object], budget: float = 1.0, least: int = 1, most: int = 15
) -> float:
    """The median time of a function, over as many calls as fit in the budget."""
    times: list[float] = []
    while len(times) < least or (len(times) < most and sum(times) < budget):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


@njit(fast=True)
def read_rows(X, first, last):  # type: ignore[no-untyped-def]
    """One bare read: the sum of all entries of some rows."""
    total = 0.0
    for i in range(first, last):
        for f in range(X.shape[1]):
            total += X[i, f]
    return total


def make_reader(data: RankingData, threads: int) -> Callable[[], object]:
    """A read of X; of sparse data, scipy's product with a vector, on one thread."""
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
    """Seconds of each function, taken in turns so that all see the same machine.

    As many turns as fit in the budget, at least 3, at most `most`.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()  # compile, touch memory
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
    """A value and gradient near w; where the last one was made it would not be made again."""
    points = cycle([w, (1 + 1e-9) * w])
    return lambda: problem.value_grad(next(points))


def stop_after(seconds: float) -> Callable[[Step], None]:
    """A callback that ends a solver after some time, as Ctrl-C would."""

    def callback(step: Step) -> None:
        if step.seconds > seconds:
            raise KeyboardInterrupt

    return callback


def show_seconds(seconds: float | None, otherwise: str = "—") -> str:
    """Seconds with three digits; milliseconds where there are few."""
    if seconds is None:
        return otherwise
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def show_spread(times: list[float]) -> str:
    """The median of some seconds, with the least and the most: ``330 ms (310–360)``."""
    median = statistics.median(times)
    if len(times) == 1:
        return show_seconds(median)
    scale = 1e3 if median < 1 else 1.0
    return f"{show_seconds(median)} ({min(times) * scale:.3g}–{max(times) * scale:.3g})"


# Processes -------------------------------------------------------------------------------------


def from_process(
    function: Callable[..., Iterator[Any]], *arguments: Any, cap: float
) -> Iterator[Any]:
    """What a generator yields in a process of its own, until one item takes over `cap` seconds.

    Tools that cannot be interrupted are measured like this, and so is memory. The process
    has to start too, which the cap includes.
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
    """What `from_process` yields, with a note where that is nothing in `TOO_LONG` seconds."""
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
    """Processes that are started meanwhile use so many threads."""
    return patch.dict(os.environ, dict.fromkeys(THREADS, str(threads)))


def forget_high_water() -> int:
    """Let `high_water` begin anew from what this process holds now, which is returned."""
    gc.collect()
    with suppress(AttributeError):  # only glibc has it: give back what is free
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return high_water()


def high_water(process: int | str = "self") -> int:
    """The most memory that a process has held so far, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0")
    return int(line.split()[1]) * 1024


# Plots -----------------------------------------------------------------------------------------


def line_style(k: int) -> dict[str, Any]:
    """A look for the k-th of many lines: colours first, then dashes."""
    dashes = ("-", "--", ":")
    return {
        "color": COLOURS[k % len(COLOURS)],
        "linestyle": dashes[k // len(COLOURS) % len(dashes)],
        "linewidth": 1.4,
        "marker": "o",
        "markersize": 3.0,
    }


def draw(path: Path, draws: list[Callable[[Any], None]], width: float = 4.6) -> None:
    """Write a plot with one panel for each function, which is given its axes; two in a row."""
    n_rows, n_columns = -(-len(draws) // 2), min(2, len(draws))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * n_columns, 3.8 * n_rows), layout="constrained")
        panels = [figure.add_subplot(n_rows, n_columns, k + 1) for k in range(len(draws))]
        for axes, function in zip(panels, draws, strict=True):
            axes.grid(True)
            function(axes)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def machine(threads: int) -> str:
    """The processor, the threads, and the versions of what the figures depend on."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [li.split(":")[1].strip() for li in cpuinfo.read_text().splitlines()
                 if li.startswith("model name")]  # fmt: skip
        name = names[0] if names else name
    return (
        f"{name}, {os.cpu_count()} cores, {threads} threads, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scipy {scipy.__version__}, numba {numba.__version__}, "
        f"scikit-learn {sklearn.__version__}, linrank {linrank.__version__}"
    )


# The command line ------------------------------------------------------------------------------

Sections = dict[str, Callable[[Options], Section]]


def run_sections(
    doc: str, file: str, sections: Sections, rivals: dict[str, str] | None = None
) -> None:
    """Run the sections that the command line names, or all of them.

    Tables and numbers go to ``file.md`` and ``file.json``, beside those of sections run before.
    `rivals` are the distributions of other tools that sections compare with.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(sections))
    parser.add_argument("--quick", action="store_true", help="tiny data, to try the program")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: benchmarks/results")
    parser.add_argument("--threads", type=int, default=resolve_threads())
    arguments = parser.parse_args()
    for name in arguments.sections:
        if name not in sections:
            parser.error(f"section is {name!r}; known sections are {', '.join(sections)}")
    out = arguments.out or (RESULTS / "quick" if arguments.quick else RESULTS)
    options = Options(arguments.threads, arguments.quick, out)
    for name in arguments.sections or sections:
        print(f"{name} …", flush=True)
        section = sections[name](options)
        rival = (rivals or {}).get(name)
        section.machine = machine(options.threads)
        section.machine += "" if rival is None else f", {rival} {version(rival)}"
        section.quick = options.quick
        _keep(section, out / file, sections)
        print("\n" + markdown(section.as_dict()), flush=True)


def _keep(section: Section, file: Path, order: Sections) -> None:
    """Put a section's numbers beside those of the others, and write all tables anew."""
    file.parent.mkdir(parents=True, exist_ok=True)
    numbers = file.with_suffix(".json")
    kept: dict[str, Any] = json.loads(numbers.read_text()) if numbers.exists() else {}
    kept[section.name] = section.as_dict()
    numbers.write_text(
        json.dumps(kept, indent=1, allow_nan=False, default=lambda value: value.item())
    )
    texts = [markdown(kept[name]) for name in order if name in kept]
    file.with_suffix(".md").write_text("\n".join(texts))
