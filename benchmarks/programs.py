"""External programs that read LETOR text and write weights; environment variables hold their paths.

They minimise ½‖w‖² + C·Σ_pairs ℓ. liblinear's ranksvm and its version with OpenMP threads have the
same C. The risk of SVMrank is a mean over queries, so its C is C·queries.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from linrank import RankingData, open_store
from linrank.errors import FileFormatError

from .file_events import CLOSED, CREATED, FileEvents
from .rivals import SETTINGS, Job, Run, Vector, text_of
from .tools import high_water


@dataclass(frozen=True)
class Program:
    """An external program, which is measured if an environment variable holds its path.

    Attributes
    ----------
    options : callable
        Function of a setting, the job and the number of queries that returns the arguments before
        FILE and MODEL.
    read : callable
        Function of a model file and the number of features that returns the weights.
    """

    name: str
    loss: str
    variable: str
    options: Callable[[float, Job, int], dict[str, float]]
    read: Callable[[Path, int], Vector]
    threaded: bool = False
    from_text: bool = True

    def refuse(self, data: RankingData, n_pairs: int) -> str | None:
        """Return a text if the program is not available, otherwise None."""
        return self.missing()

    def missing(self) -> str | None:
        """Return a text if the path is no program, otherwise None."""
        path = os.environ[self.variable]
        if shutil.which(path) is None:
            return f"{self.variable} is {path!r}, which is no program that can be run"
        return None

    def digest(self) -> str:
        """Return a text that identifies the file of the program."""
        path = Path(shutil.which(os.environ[self.variable]) or "")
        return f"{path.name}, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}…"

    def runs(self, job: Job) -> Iterator[Run]:
        """Run as in `Tool.runs`; the seconds are those of the whole process, including reading."""
        text_of(job.store)
        yield {"prepared": 0.0}
        for setting in SETTINGS:
            run = self.run_once(job, setting)
            if run is None:
                return
            yield run

    def run_once(self, job: Job, setting: float) -> Run | None:
        """Return the record of one fit; None if the training exceeded the time limit."""
        data = open_store(job.store)
        options = self.options(setting, job, data.n_queries)
        words = [str(word) for option in options.items() for word in option]
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            command = [os.environ[self.variable], *words]
            try:
                run = _run_command(command, text_of(job.store), model, job.cap)
                if run is None:
                    return None
                coef = self.read(model, data.n_features)
            except (OSError, ValueError, LookupError) as error:
                reason = f"it gave no model that can be read ({type(error).__name__}: {error})"
                raise RuntimeError(reason) from error
        return {"setting": setting, "coef": coef, **run}


def _run_command(words: list[str], text: Path, model: Path, cap: float) -> Run | None:
    """Return seconds and memory of a program; None if its training exceeded the time limit.

    Training begins when the program closes the text, and ends when it creates the model file. The
    memory is the peak until then.
    """
    memory = 0
    with FileEvents({text: CLOSED, model.parent: CREATED}) as events:
        started = begun = time.perf_counter()
        ended = None
        process = subprocess.Popen([*words, str(text), str(model)], stdout=subprocess.DEVNULL)
        try:
            for path in events.until_exit(process.pid, cap):
                now = time.perf_counter()
                if ended is None:
                    begun, ended = (now, None) if path == text else (begun, now)
                memory = max(memory, high_water(process.pid))
            if process.poll() is None:
                return None
            seconds = time.perf_counter() - started
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"{words[0]} ended with {process.returncode}; see above")
    training = started + seconds - begun if ended is None else ended - begun
    return {"seconds": seconds, "training": training, "memory": memory}


def read_liblinear(path: Path, n_features: int) -> Vector:
    """Read the weights of a liblinear model, one per line after a header that ends with ``w``."""
    head, found, tail = path.read_text().partition("\nw\n")
    if not found:
        raise FileFormatError(f"{path}: no line is 'w', which weights of liblinear stand below")
    heading = dict(line.split(maxsplit=1) for line in head.splitlines())
    n_given = int(heading["nr_feature"])
    coef = np.zeros(n_features)
    weights = np.array(tail.split(), dtype=np.float64)
    if len(weights) != n_given + (float(heading.get("bias", -1)) >= 0):
        raise FileFormatError(f"{path}: {len(weights)} weights, expected {n_given} (nr_feature)")
    coef[:n_given] = weights[:n_given]
    return coef


def read_svmlight(path: Path, n_features: int) -> Vector:
    """Read the weights of a linear SVMlight model: Σ alpha·x over the lines below the threshold."""
    lines = path.read_text().splitlines()
    start = next((k for k, line in enumerate(lines) if "# threshold b" in line), None)
    if start is None:
        raise FileFormatError(f"{path}: no '# threshold b', which vectors of SVMlight stand below")
    coef = np.zeros(n_features)
    for line in lines[start + 1 :]:
        alpha, *entries = line.split("#")[0].split()
        for entry in entries:
            index, value = entry.split(":")
            if index != "qid":
                coef[int(index) - 1] += float(alpha) * float(value)
    return coef


PROGRAMS = (
    Program(
        "liblinear ranksvm", "squared_hinge", "LINRANK_BENCH_RANKSVM",
        lambda eps, job, n_queries: {"-s": 8, "-c": job.C, "-e": eps}, read_liblinear,
    ),
    Program(
        "ranksvm with OpenMP", "squared_hinge", "LINRANK_BENCH_RANKSVM_OPENMP",
        lambda eps, job, n_queries: {"-s": 0, "-t": job.threads, "-c": job.C, "-e": eps},
        read_liblinear, threaded=True,
    ),
    # SVMrank itself multiplies -e by the mean number of pairs per query, the loss at w = 0.
    Program(
        "SVMrank", "hinge", "LINRANK_BENCH_SVMRANK",
        lambda eps, job, n_queries: {"-c": job.C * n_queries, "-e": eps}, read_svmlight,
    ),
)  # fmt: skip


def programs_here() -> list[Program]:
    """Return the programs whose paths are known."""
    return [program for program in PROGRAMS if program.variable in os.environ]
