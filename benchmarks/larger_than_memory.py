"""Data larger than memory: ``python -m benchmarks.larger_than_memory``.

The first part trains on a store of three times the memory that the process may use. A control
group, or otherwise ``ulimit``, limits the memory. The second part converts LETOR texts of
increasing size to stores, in processes with less memory than the size of the texts.
"""

from __future__ import annotations

import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from linrank import RankingData, open_store, write_letor
from linrank.problem import make_problem
from linrank.solvers import make_solver

from .plots import draw, line_style
from .shapes import QUICK, kept
from .tools import Options, Section, make_evaluation, pinned, run_sections, show_seconds

ROOT = Path(__file__).parents[1]
SHAPE = "web-large"
LEAST = 400e6  #: smallest memory limit in bytes, for Python and the compiled kernels
PIECE = 1 << 18  #: bytes that are read at a time
TEXTS = {"plain": ".txt", "gzip": ".txt.gz", "torn apart": "-torn.txt"}


def bench_larger(options: Options) -> Section:
    """Measure training from a store and conversion of text with less memory than data."""
    store = kept(SHAPE, QUICK if options.quick else 1.0)
    data = open_store(store)
    limit = max(data.X.nbytes / 3, LEAST)
    section = Section(
        "larger",
        "Data larger than memory",
        f"{data.n_docs:,} × {data.n_features} dense float64, {_size(data.X.nbytes)}, in a process "
        f"that is allowed {_size(limit)}; 'reads' are sequential reads of the file of X in that "
        "process, with nothing of it in the cache, in turns with the products. Memory is what a "
        "process has of its own (RssAnon), at its peak, with Python and linrank",
        ["what", "size", "time", "reads", "MB/s", "memory"],
    )
    with tempfile.TemporaryDirectory(dir=store.parent) as name:
        _bench_training(section, store, limit, Path(name), options)
        _bench_convert(section, data, Path(name), options)
    draw(options.out / "larger_than_memory.svg",
         [lambda axes: _draw_memory(axes, section.numbers)])  # fmt: skip
    return section


# Training ---------------------------------------------------------------------------------------


def _bench_training(
    section: Section, store: Path, limit: float, folder: Path, options: Options
) -> None:
    data, model = open_store(store), folder / "model.json"
    code = "import sys; from benchmarks.larger_than_memory import measure; measure(*sys.argv[1:])"
    commands = {
        "fit": [sys.executable, "-c", code, str(store), str(options.threads)],
        "linrank train": [_program(), "train", str(store), "--out", str(model), "--tol", "1e-5",
                          "--json"],
    }  # fmt: skip
    for command in commands.values():  # the first run compiles
        _run(_replaced(command, str(store), str(kept(SHAPE, QUICK))), options.threads)
    with memory_limit(limit) as (prefix, limiter):
        section.notes.append(f"Memory of training is limited by {limiter}")
        _forget(next(store.rglob("X.npy")))
        text, _, memory = _run([*prefix, *commands["fit"]], options.threads)
        _forget(next(store.rglob("X.npy")))
        _, seconds, train_memory = _run([*prefix, *commands["linrank train"]], options.threads)
    found, n_bytes = json.loads(text), data.X.nbytes
    read = found["read"]
    for what, name in (("a sequential read", "read"), ("a Hessian product", "product"),
                       ("value and gradient", "value")):  # fmt: skip
        own = found[name]
        _add(section, what, n_bytes, own, own / read, n_bytes / own, None, rows=data.n_docs)
    for what, own, peak in ((found["about"], found["fit"], memory),
                            ("`linrank train`", seconds, train_memory)):  # fmt: skip
        _add(section, what, n_bytes, own, own / read, None, peak, rows=data.n_docs)
    ratio, goal = found["product"] / read, _allowed(data.n_docs)
    section.aim("a product takes no more than 1.5 reads", f"{ratio:.2f}", ratio <= 1.5)
    section.aim(
        f"training needs no more than 60 bytes per row + 200 MB = {_size(goal)} of its own",
        f"{_size(memory)}, and {_size(train_memory)} with `linrank train`",
        max(memory, train_memory) <= goal,
    )


def measure(store: str, threads: str, repeats: int = 5) -> None:
    """Print the seconds of a read, a product and a fit as JSON; runs in the limited process."""
    data, file = open_store(store), next(Path(store).rglob("X.npy"))
    problem = make_problem(data, 1.0, n_threads=int(threads))
    v = np.ones(data.n_features)
    problem.value_grad(0 * v)
    functions: dict[str, Callable[[], object]] = {
        "read": lambda: _read(file),
        "product": lambda: problem.hessp(v),
        "value": make_evaluation(problem, v),
    }
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            data.X.base._mmap.madvise(mmap.MADV_DONTNEED)  # mapped pages would stay in the cache
            _forget(file)
            started = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - started)
    result = make_solver("auto", tol=1e-5).solve(problem)
    assert result.converged
    about = f"a fit: {result.n_products} products, {result.n_evaluations} evaluations"
    medians: dict[str, Any] = {name: statistics.median(own) for name, own in times.items()}
    print(json.dumps(medians | {"fit": result.seconds, "about": about}))


def _read(file: Path) -> None:
    buffer = bytearray(PIECE)
    with file.open("rb", buffering=0) as opened:
        while opened.readinto(buffer):
            pass


def _forget(file: Path) -> None:
    """Drop the cached pages of a file."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# Converting text --------------------------------------------------------------------------------


def _bench_convert(section: Section, data: RankingData, folder: Path, options: Options) -> None:
    largest = data.n_queries if options.quick else 4000
    sizes = [largest // 4, largest // 2, largest]
    warm = _write_text(data, 4, "torn apart", folder)
    _run([_program(), "convert", str(warm), str(folder / "store")], options.threads)
    with memory_limit(LEAST) as (prefix, limiter):
        section.notes.append(f"Memory of `linrank convert` is limited to {_size(LEAST)} "
                             f"by {limiter}")  # fmt: skip
        found = [
            _convert(section, data, n, kind, folder, prefix, options)
            for kind in TEXTS
            for n in sizes
        ]
    section.aim(
        "converting needs no more than 60 bytes per row + 200 MB, whatever the size of the text",
        f"at most {_size(max(memory for _, memory in found))}",
        all(memory <= _allowed(rows) for rows, memory in found),
    )


def _convert(
    section: Section, data: RankingData, n_queries: int, kind: str, folder: Path,
    prefix: list[str], options: Options,
) -> tuple[int, float]:  # fmt: skip
    """Convert a text of some queries; return the number of rows and the memory used."""
    path = _write_text(data, n_queries, kind, folder)
    text_bytes = path.stat().st_size
    if kind == "gzip":
        text_bytes = _write_text(data, n_queries, "plain", folder).stat().st_size
    command = [*prefix, _program(), "convert", str(path), str(folder / "store"), "--json"]
    text, _, memory = _run(command, options.threads)
    seconds, rows = json.loads(text)["seconds"], int(data.query_ptr[n_queries])
    _add(section, f"`linrank convert`, {kind}", text_bytes, seconds, None, text_bytes / seconds,
         memory, rows=rows, kind=kind)  # fmt: skip
    return rows, memory


def _write_text(data: RankingData, n_queries: int, kind: str, folder: Path) -> Path:
    """Write some queries as text; one kind of text has its rows in random order."""
    path = folder / f"{n_queries}{TEXTS[kind]}"
    if not path.exists():
        part = data.take(np.arange(data.query_ptr[n_queries]))
        if kind == "torn apart":
            part = part.replace(order=np.random.default_rng(0).permutation(part.n_docs))
        write_letor(path, part, decimals=6)
        _forget(path)
    return path


# Processes with little memory -------------------------------------------------------------------


@contextmanager
def memory_limit(n_bytes: float) -> Iterator[tuple[list[str], str]]:
    """Yield a command prefix that limits the memory, and the name of the mechanism.

    The mechanism is a control group if one can be created; its limit includes cached pages of
    files. Otherwise it is ``ulimit -d``, whose limit does not include them.
    """
    group = _make_group(int(n_bytes))
    if group is None:
        limit = str(int(n_bytes) // 1024)
        yield ["sh", "-c", 'ulimit -d "$0" && exec "$@"', limit], "`ulimit -d`, without the cache"
        return
    try:
        enter = 'echo $$ > "$0" && exec "$@"'
        yield ["sh", "-c", enter, str(group / "cgroup.procs")], "a control group, with the cache"
    finally:
        group.rmdir()


def _make_group(n_bytes: int) -> Path | None:
    """Create a control group with a memory limit; return None if this is not possible."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            if controllers == "memory":  # version 1
                parent, setting = Path(f"/sys/fs/cgroup/memory{own}"), "memory.limit_in_bytes"
            elif not controllers:  # version 2
                parent, setting = Path(f"/sys/fs/cgroup{own}"), "memory.max"
            else:
                continue
            group = parent / f"linrank-{os.getpid()}"
            with suppress(OSError):
                group.mkdir()
                try:
                    (group / setting).write_text(str(n_bytes))
                except OSError:
                    group.rmdir()
                else:
                    return group
    return None


def _run(command: list[str], threads: int) -> tuple[str, float, float]:
    """Run a command; return its output, its seconds and its peak memory."""
    started, peak = time.perf_counter(), 0.0
    with pinned(threads):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    while process.poll() is None:
        with suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            own = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
            peak = max([peak, *(1024.0 * int(size) for size in own)])
        time.sleep(0.01)
    printed, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}; see above")
    return printed, time.perf_counter() - started, peak


def _allowed(n_rows: int) -> float:
    """Return the memory that a process may allocate."""
    return 60 * n_rows + 200e6


def _program() -> str:
    return str(Path(sys.executable).parent / "linrank")


def _replaced(command: list[str], old: str, new: str) -> list[str]:
    return [new if part == old else part for part in command]


# The table and the plot -------------------------------------------------------------------------


def _add(
    section: Section, what: str, size: float, seconds: float, reads: float | None,
    rate: float | None, memory: float | None, **numbers: Any,
) -> None:  # fmt: skip
    section.add(
        what,
        _size(size),
        show_seconds(seconds),
        "—" if reads is None else f"{reads:.2f}",
        "—" if rate is None else f"{rate / 1e6:.0f}",
        "—" if memory is None else _size(memory),
        what=what, bytes=size, seconds=seconds, reads=reads, rate=rate, memory=memory, **numbers,
    )  # fmt: skip


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def _draw_memory(axes: Any, numbers: list[dict[str, Any]]) -> None:
    for k, kind in enumerate(TEXTS):
        own = [row for row in numbers if row.get("kind") == kind]
        sizes, memory = ([row[name] / 1e6 for row in own] for name in ("bytes", "memory"))
        axes.plot(sizes, memory, label=kind, **line_style(k))
    axes.set_ylim(bottom=0)
    axes.set_title("Memory of linrank convert")
    axes.set_xlabel("MB of text")
    axes.set_ylabel("MB")
    axes.legend()


if __name__ == "__main__":
    run_sections(__doc__, "larger_than_memory", {"larger": bench_larger})
