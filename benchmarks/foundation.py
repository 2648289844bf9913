"""The foundation's figures: ``make bench``, or ``python -m benchmarks.foundation``.

Everything is measured in one run on one machine and set against a yardstick of the same
run: one bare read of X with the same threads, scikit-learn's reader, one fit. The table is
printed as Markdown and written to benchmarks/results/foundation.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

import linrank
from linrank._jit import njit
from linrank._threads import run
from linrank.data.generate import make_ranking
from linrank.data.letor import read_letor, write_letor
from linrank.path import make_problem, regularization_path
from linrank.solvers import make_solver

RESULTS = Path(__file__).parent / "results"


@njit(fast=True)
def read_rows(X, first, last):  # type: ignore[no-untyped-def]
    """One bare read: the sum of all entries of some rows."""
    total = 0.0
    for i in range(first, last):
        for f in range(X.shape[1]):
            total += X[i, f]
    return total


def interleaved(functions: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each function, taken in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()  # compile, touch memory
    for _ in range(repeats):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def python(code: str, *arguments: str, **environment: str) -> str:
    """Run code in a process of its own and return what it printed."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return done.stdout


MEMORY = """
import sys
import numpy as np
from linrank.data.store import open_store
from linrank.path import make_problem
from linrank.solvers import make_solver
data = open_store(sys.argv[1])
make_solver("auto", tol=1e-5).solve(make_problem(data, 1.0, n_threads=int(sys.argv[2])))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
peak = int(status["VmHWM"].split()[0]) * 1024
print(peak - data.X.nbytes)
"""

TOY_FIT = """
import time
started = time.perf_counter()
import numpy as np
from linrank import RankSVM
X = np.random.default_rng(0).standard_normal((40, 3))
RankSVM().fit(X, np.arange(40) % 3, qid=np.arange(40) // 10)
print(time.perf_counter() - started)
"""


class Report:
    """Rows of a Markdown table."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str]] = []

    def add(self, what: str, measured: str, goal: str, holds: bool) -> None:
        """Take down one figure, and show it at once."""
        self.rows.append((what, measured, goal, "yes" if holds else "**no**"))
        print(" | ".join(self.rows[-1]), flush=True)

    def markdown(self) -> str:
        """The table."""
        lines = ["| what | measured | goal | met |", "|---|---|---|---|"]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in self.rows])


def bench_products(data: linrank.RankingData, threads: int, repeats: int, report: Report) -> None:
    problem = make_problem(data, 1.0, n_threads=threads)
    result = make_solver("auto", tol=1e-5).solve(problem)
    report.add(
        "Hessian products to ‖g‖ ≤ 1e-5‖g₀‖, C = 1",
        f"{result.n_products} (and {result.n_evaluations} evaluations)",
        "≤ 25",
        result.converged and result.gradient_norm <= 1e-5 and result.n_products <= 25,
    )
    edges = np.linspace(0, data.n_docs, threads + 1).astype(int)
    ranges = [(data.X, int(a), int(b)) for a, b in pairwise(edges)]
    v, w = np.ones(data.n_features), result.coef
    seconds = interleaved(
        {
            "read": lambda: run(read_rows, ranges, threads),
            "product": lambda: problem.hessp(v),
            "value": lambda: problem.value_grad(w),
        },
        repeats,
    )
    rate = data.X.nbytes / seconds["read"] / 1e9
    report.add("one bare read of X", f"{seconds['read'] * 1e3:.1f} ms ({rate:.1f} GB/s)", "", True)
    ratio = seconds["product"] / seconds["read"]
    report.add("a Hessian product", f"{ratio:.2f} reads", "≤ 1.5 reads", ratio <= 1.5)
    ratio = seconds["value"] / seconds["read"]
    report.add("value and gradient", f"{ratio:.2f} reads", "", True)


def bench_raw(data: linrank.RankingData, threads: int, report: Report) -> None:
    problem = make_problem(data, 1.0, n_threads=threads)
    result = make_solver("auto", tol=1e-5).solve(problem)
    report.add(
        "the same on heavy-tailed features that range from 1 to 1e8",
        f"{result.n_products} (and {result.n_evaluations} evaluations)",
        "",
        result.converged and result.gradient_norm <= 1e-5,
    )


def bench_fits(data: linrank.RankingData, threads: int, report: Report) -> None:
    problem = make_problem(data, 1.0, n_threads=threads)
    for tol in (1e-5, 1e-3):
        seconds = interleaved(
            {
                "fit": lambda tol=tol: make_solver("auto", tol=tol).solve(problem),
                "path": lambda tol=tol: regularization_path(problem, tol=tol),
            },
            3,
        )
        ratio = seconds["path"] / seconds["fit"]
        report.add(
            f"26 values of C, tol {tol:g}, against one fit at C = 1 ({seconds['fit']:.2f} s)",
            f"{ratio:.1f} fits",
            "≤ 12 fits",
            ratio <= 12,
        )


def bench_reader(data: linrank.RankingData, folder: Path, threads: int, report: Report) -> None:
    from sklearn.datasets import load_svmlight_file

    path = folder / "data.txt"
    write_letor(path, data.take(np.arange(data.query_ptr[data.n_queries // 3])), decimals=6)
    size = path.stat().st_size / 1e6
    seconds = interleaved(
        {
            "linrank": lambda: read_letor(path, n_threads=threads),
            "scikit-learn": lambda: load_svmlight_file(str(path), query_id=True),
        },
        3,
    )
    rate = size / seconds["linrank"]
    report.add(f"reading LETOR text ({size:.0f} MB), warm", f"{rate:.0f} MB/s", "≥ 300 MB/s",
               rate >= 300)  # fmt: skip
    ratio = seconds["scikit-learn"] / seconds["linrank"]
    report.add("against scikit-learn's load_svmlight_file", f"{ratio:.0f} × faster", "≥ 20 ×",
               ratio >= 20)  # fmt: skip


def bench_memory(data: linrank.RankingData, folder: Path, threads: int, report: Report) -> None:
    linrank.save_store(data, folder / "store")
    beyond = float(python(MEMORY, str(folder / "store"), str(threads)))
    goal = 60 * data.n_docs + 200e6
    report.add(
        "peak memory of a training process beyond X",
        f"{beyond / 1e6:.0f} MB",
        f"≤ 60 bytes per row + 200 MB = {goal / 1e6:.0f} MB",
        beyond <= goal,
    )


def bench_start(folder: Path, report: Report) -> None:
    cache = {"NUMBA_CACHE_DIR": str(folder / "cache")}
    cold = float(python(TOY_FIT, **cache))
    report.add("first ever fit of toy data, compilation included", f"{cold:.1f} s", "≤ 15 s",
               cold <= 15)  # fmt: skip
    warm = statistics.median(float(python(TOY_FIT, **cache)) for _ in range(3))
    report.add("the same in a later process", f"{warm:.1f} s", "≤ 3 s", warm <= 3)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run(
            [str(Path(sys.executable).parent / "linrank"), "--help"],
            check=True, capture_output=True,
        )  # fmt: skip
        times.append(time.perf_counter() - started)
    help_time = statistics.median(times)
    report.add("linrank --help", f"{help_time:.2f} s", "≤ 0.4 s", help_time <= 0.4)


def machine(threads: int) -> str:
    import numba
    import scipy
    import sklearn

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    report = Report()
    shape = (options.queries, (80, 160), 136)
    data = make_ranking(*shape, n_levels=5, random_state=0)
    about = f"{data.n_docs:,} × {data.n_features} dense float64, 5 levels, C = 1"
    print(f"{machine(options.threads)}\n{about}\n", flush=True)
    bench_products(data, options.threads, options.repeats, report)
    bench_raw(make_ranking(*shape, heavy_tails=True, random_state=0), options.threads, report)
    bench_fits(data, options.threads, report)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench_memory(data, folder, options.threads, report)
        bench_reader(data, folder, options.threads, report)
        bench_start(folder, report)
    text = f"{machine(options.threads)}; data: {about}.\n\n{report.markdown()}\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "foundation.md").write_text(text)
    (RESULTS / "foundation.json").write_text(json.dumps(report.rows, indent=1))
    print("\n" + text)


if __name__ == "__main__":
    main()
