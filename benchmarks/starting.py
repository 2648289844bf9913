"""What a process pays before it computes: imports, kernels from the cache, and compilation."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from linrank import make_ranking, write_letor

from .tools import Options, Section, interleaved, show_seconds

FIT = """
import numpy as np
from linrank import RankSVM
X = np.random.default_rng(0).standard_normal((40, 3))
RankSVM().fit(X, np.arange(40) % 3, qid=np.arange(40) // 10)
"""
BARE = "import numpy + numba + sklearn"
HELP, CHOOSE, TRAIN = "linrank --help", "linrank train --valid", "linrank train --C 1"
IMPORT, FIRST = "from linrank import RankSVM", "RankSVM().fit of toy data"

#: Goals in seconds, with a cache of kernels, and with an empty one.
CACHED = {HELP: 0.15, CHOOSE: 0.6, TRAIN: 0.6, IMPORT: 0.6}
COLD = {FIRST: 8.0}


def bench_start(options: Options) -> Section:
    """Measure whole processes, with an empty and with a filled cache of kernels."""
    section = Section(
        "start",
        "Starting",
        "Wall time of whole processes, which take turns: medians of 9 with a cache of kernels, and "
        "of 3 with an empty one. linrank train reads MQ2008, fold 1, or generated data of its size",
        ["process", "cached", "empty cache", "÷ bare import", "goal"],
    )
    cached, cold = _measure(most=3 if options.quick else 9, n_cold=1 if options.quick else 3)
    for what, seconds in cached.items():
        first = cold.get(what)
        goal = CACHED.get(what) or COLD.get(what)
        section.add(
            what, show_seconds(seconds), "—" if first is None else show_seconds(first),
            f"{seconds / cached[BARE]:.2f}", "—" if goal is None else f"≤ {goal:g} s",
            what=what, seconds=seconds, cold=first,
        )  # fmt: skip
    for goals, found in ((CACHED, cached), (COLD, cold)):
        for what, goal in goals.items():
            with_what = "a" if goals is CACHED else "an empty"
            section.aim(f"{what} with {with_what} cache: at most {goal:g} s",
                        show_seconds(found[what]), found[what] <= goal)  # fmt: skip
    return section


def _measure(most: int, n_cold: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median seconds of each process, with a cache and with an empty one."""
    with TemporaryDirectory() as folder:
        commands = _commands(Path(folder))
        cold: dict[str, list[float]] = {}
        for turn in range(n_cold):
            for k, what in enumerate((CHOOSE, FIRST)):
                cache = Path(folder, f"cold-{turn}-{k}")
                cache.mkdir()
                cold.setdefault(what, []).append(_seconds(commands[what], cache))
        runs = {
            what: lambda command=command: _seconds(command, Path(folder))
            for what, command in commands.items()
        }
        cached = interleaved(runs, 60.0, most=most)
    return _medians(cached), _medians(cold)


def _medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {what: statistics.median(own) for what, own in times.items()}


def _seconds(command: list[str], cache: Path) -> float:
    """Run a process with its kernels in a folder, and return its wall time."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


def _commands(folder: Path) -> dict[str, list[str]]:
    train, valid = _letor_files(folder)
    linrank = [str(Path(sys.executable).with_name("linrank"))]
    out = ["--out", str(folder / "model.json")]
    return {
        BARE: [sys.executable, "-c", "import numpy, numba, sklearn"],
        IMPORT: [sys.executable, "-c", IMPORT],
        HELP: [*linrank, "--help"],
        CHOOSE: [*linrank, "train", train, "--valid", valid, *out],
        TRAIN: [*linrank, "train", train, "--C", "1", *out],
        FIRST: [sys.executable, "-c", FIT],
    }


def _letor_files(folder: Path) -> tuple[str, str]:
    """Return training and held-out data: MQ2008, or generated data of the same size."""
    fold = Path(os.environ.get("LINRANK_DATA") or folder, "MQ2008", "Fold1")
    files = [fold / "train.txt", fold / "vali.txt"]
    if not all(file.exists() for file in files):
        files = [folder / "train.txt", folder / "vali.txt"]
        for seed, (file, n_queries) in enumerate(zip(files, (471, 157), strict=True)):
            made = make_ranking(n_queries, docs_per_query=20, n_features=46, random_state=seed)
            write_letor(file, made, decimals=6)
    return str(files[0]), str(files[1])
