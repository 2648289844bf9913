"""Guard against slowdowns: compare this tree with a base revision (``make bench-guard``).

The sources of the base revision are checked out into a folder. Two processes, one for each tree,
run the workloads of `guard_workloads` in turns, so that both are measured under the same
conditions. Each round gives a ratio of seconds, this tree to the base. Workloads with a median
ratio above 1.05 are measured again in new processes, because the placement of memory can make one
process slower than another. A workload counts as slower if the lower end of the confidence
interval for the median of all its ratios is above 1.05.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from scipy import stats

from . import guard_workloads
from .guard_workloads import workloads
from .tools import THREADS, revision

ROOT = Path(__file__).resolve().parents[1]

SLOWER = 1.05  #: ratio above which a workload is slower; below its inverse, it is faster
CONFIDENCE = 0.99  #: confidence level of the interval for the median ratio
LEAST = 12  #: rounds before the first test; the number is doubled before each further test
AGAIN = 2  #: pairs of new processes for workloads that may be slower
SAMPLE = 0.1  #: shortest duration of a sample in seconds; short workloads are called several times
QUICK = 0.02  #: share of the data in a quick run

# One process for each tree ---------------------------------------------------------------------


class Missing(Exception):
    """Raised if a tree lacks a feature that a workload uses."""


class Worker:
    """A process that imports linrank from a folder of sources and runs workloads on demand."""

    def __init__(self, src: Path, folder: str, threads: int, part: float) -> None:
        self.src = src
        kernels = ROOT / ".venv" / "kernels" / digest(src)
        environment = os.environ | dict.fromkeys(THREADS, str(threads))
        environment |= {"PYTHONPATH": str(src), "NUMBA_CACHE_DIR": str(kernels)}
        command = [sys.executable, "-P", guard_workloads.__file__, str(src), str(part)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
            env=environment, start_new_session=True,
        )  # fmt: skip

    def seconds(self, name: str, calls: int = 1) -> float:
        """Return the mean seconds of some calls."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # the process has ended, so the read below fails
            self.process.stdin.write(json.dumps([name, calls]) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the process for {self.src} broke off at {name!r}; see above")
        answer = json.loads(line)
        if "missing" in answer:
            raise Missing(answer["missing"])
        return answer["seconds"]

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def digest(src: Path) -> str:
    """Return a hash of the sources, which names the folder of their compiled kernels."""
    content = hashlib.sha256()
    for file in sorted(src.rglob("*.py")):
        content.update(f"{file.relative_to(src)}\0".encode() + file.read_bytes())
    return content.hexdigest()[:16]


# The base --------------------------------------------------------------------------------------


def git(*arguments: str, root: Path = ROOT) -> bytes:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout


def find_base(revision: str | None = None, root: Path = ROOT) -> str:
    """Return the commit to compare with.

    By default, it is the commit at which the branch left ``main``. On ``main``, it is the last
    commit if the sources have changed since, and otherwise the commit before.
    """
    head = git("rev-parse", "HEAD", root=root).decode().strip()
    if revision is None:
        try:
            revision = git("merge-base", "HEAD", "main", root=root).decode().strip()
        except subprocess.CalledProcessError:  # the branch does not exist
            revision = head
        if revision == head and not git("status", "--porcelain", "src", root=root):
            revision = "HEAD~1"
    try:
        return git("rev-parse", "--verify", f"{revision}^{{commit}}", root=root).decode().strip()
    except subprocess.CalledProcessError:
        sys.exit(f"--base is {revision!r}; expected a revision of this repository")


@contextmanager
def laid_out(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """Check out the sources of a commit into a folder, which is removed afterwards.

    The name of the folder and the times of its files depend on the commit only, so that kernels
    compiled in an earlier run are found again. Two runs of the guard therefore wait for each other.
    They would also disturb each other's measurements.
    """
    folder = root / ".venv" / "base" / commit
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name("lock").open("w") as lock:
        _wait_for(lock)
        try:
            content = io.BytesIO(git("archive", commit, "src", root=root))
            with tarfile.open(fileobj=content) as archive:
                archive.extractall(folder, filter="data")
            yield folder / "src"
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for(lock: IO[str]) -> None:
    """Wait for a lock, and hold it until its file is closed."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("another guard is at work on this tree; waiting for its end", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)


# Statistics ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Seconds of the base and of this tree in each round; both are empty for a new workload."""

    base: tuple[float, ...]
    current: tuple[float, ...]

    def __add__(self, other: Comparison) -> Comparison:
        return Comparison(self.base + other.base, self.current + other.current)

    @property
    def ratio(self) -> float:
        """Median of the ratios of the rounds."""
        return statistics.median(b / a for a, b in zip(self.base, self.current, strict=True))

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval for the median by the sign test; infinite if there are few rounds."""
        ratios = np.divide(self.current, self.base)
        test = stats.quantile_test(ratios, p=0.5)
        low, high = test.confidence_interval(CONFIDENCE)
        return (0.0 if math.isnan(low) else low), (math.inf if math.isnan(high) else high)

    @property
    def verdict(self) -> str:
        """One of new, slower, faster, same, and unclear if the interval is too wide."""
        if not self.base:
            return "new"
        low, high = self.interval
        if low > SLOWER:
            return "slower"
        if high < 1 / SLOWER:
            return "faster"
        return "same" if high <= SLOWER else "unclear"


def compare(base: Callable[[], float], current: Callable[[], float], rounds: int) -> Comparison:
    """Take samples in the order A B B A until the verdict is clear."""
    pairs: list[tuple[float, float]] = []
    look = LEAST
    while True:
        while len(pairs) < look:
            if len(pairs) % 2:
                b, a = current(), base()
            else:
                a, b = base(), current()
            pairs.append((a, b))
        found = Comparison(*zip(*pairs, strict=True))
        if found.verdict != "unclear" or look == rounds:
            return found
        look = min(2 * look, rounds)


def measure(name: str, base: Worker, current: Worker, rounds: int) -> Comparison:
    """Compare two trees on one workload."""
    try:
        once = current.seconds(name)
    except Missing as error:
        sys.exit(f"{name!r} fails in this tree: {error}")
    try:
        once = min(once, base.seconds(name))
    except Missing as error:
        print(f"{name}: not in the base ({error})", flush=True)
        return Comparison((), (once,))
    calls = math.ceil(SAMPLE / once)
    return compare(lambda: base.seconds(name, calls), lambda: current.seconds(name, calls), rounds)


# The command line ------------------------------------------------------------------------------


def markdown(found: dict[str, Comparison]) -> str:
    """Return a Markdown table of the comparisons."""
    lines = ["| workload | base, ms | this tree, ms | ratio | rounds | verdict |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, own in found.items():
        cells = ["—", f"{1e3 * statistics.median(own.current):.2f}", "—", "—"]
        if own.base:
            low, high = own.interval
            cells[0] = f"{1e3 * statistics.median(own.base):.2f}"
            cells[2:] = f"{own.ratio:.3f} ({low:.3f} to {high:.3f})", str(len(own.base))
        lines.append("| " + " | ".join([name, *cells, own.verdict]) + " |")
    return "\n".join(lines)


def named(found: dict[str, Comparison], verdict: str) -> list[str]:
    return [name for name, own in found.items() if own.verdict == verdict]


def run(names: list[str], src: Path, options: argparse.Namespace) -> dict[str, Comparison]:
    """Compare both trees on some workloads, in two new processes."""
    found = {}
    part = QUICK if options.quick else 1.0
    with (
        tempfile.TemporaryDirectory() as folder,
        Worker(src, folder, options.threads, part) as base,
        Worker(ROOT / "src", folder, options.threads, part) as current,
    ):
        for name in names:
            found[name] = own = measure(name, base, current, options.rounds)
            print(f"{name}: {own.verdict}", flush=True)
    return found


def main() -> None:
    known = workloads(1.0)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="workload", help=", ".join(known))
    parser.add_argument("--base", metavar="REV", help="default: where this branch left main; on "
                        "main the last commit, or the one before if src is as it was")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=48, help="at most, for each workload")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="tiny data, to try the program")
    options = parser.parse_args()
    for name in options.workloads:
        if name not in known:
            parser.error(f"workload is {name!r}; known workloads are {', '.join(known)}")
    if options.rounds < LEAST:
        parser.error(f"--rounds is {options.rounds}; expected at least {LEAST}")
    commit = find_base(options.base)
    print(f"this tree ({revision()}) against {commit}, {options.threads} threads", flush=True)
    with laid_out(commit) as src:
        found = run(options.workloads or list(known), src, options)
        suspects = [name for name, own in found.items() if own.base and own.ratio > SLOWER]
        for _ in range(AGAIN if suspects else 0):
            print("again, in new processes", flush=True)
            more = run(suspects, src, options)
            found |= {name: found[name] + more[name] for name in suspects}
    print("\n" + markdown(found) + "\n")
    if unclear := named(found, "unclear"):
        print(f"too noisy to tell, try again or with more --rounds: {'; '.join(unclear)}")
    if slower := named(found, "slower"):
        sys.exit(f"slower than {commit[:12]}: {'; '.join(slower)}")


if __name__ == "__main__":
    main()
