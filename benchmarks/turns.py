"""Fits of programs and of linrank that take turns, on a quiet or a busy machine."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from linrank import RankingData
from linrank.problem import make_problem
from linrank.solvers import make_solver

from .programs import Program
from .rivals import SETTINGS, Job, Run
from .tools import stop_after

EPSILONS = SETTINGS[1:]  #: tolerances of programs, from loose to tight; 1 stops at w = 0
TOLERANCES = tuple(10.0**-k for k in range(1, 9))  #: values of `tol`, from loose to tight
TURNS = 3  #: least number of runs whose median is taken
MOST_TURNS = 9  #: largest number of runs whose median is taken
WARM_UP = 0.1  #: seconds of fits before one that is measured; programs read their data meanwhile
Turns = dict[tuple[Any, Any], list[Run]]  #: records of fits, by program or threads and setting


@dataclass(frozen=True)
class Contestant:
    """A program, or linrank with a number of threads.

    Attributes
    ----------
    fit : callable
        Function from a setting to the record of a fit; None if it exceeded the time limit.
    settings : tuple of float
        Settings of the stopping rule, from loose to tight.
    """

    fit: Callable[[float], Run | None]
    settings: tuple[float, ...]

    def climb(self, goal: float) -> list[Run]:
        """Fit with tighter and tighter settings until the objective is at most the goal."""
        runs: list[Run] = []
        for setting in self.settings:
            run = self.fit(setting)
            if run is None:
                break
            runs.append(run)
            if run["objective"] <= goal:
                break
        return runs


def fit_linrank(data: RankingData, job: Job, loss: str, tol: float | None) -> Run:
    """Fit with the default solver up to the time limit, with laying out the pairs."""
    started = time.perf_counter()
    problem = make_problem(data, job.C, loss=loss, n_threads=job.threads)
    ready = time.perf_counter() - started
    options = {"tol": tol, "callback": stop_after(job.cap)}
    result = make_solver("auto", problem.engine.loss, **options).solve(problem)
    return {
        "setting": tol,
        "seconds": time.perf_counter() - started,
        "objective": result.objective,
        "curve": [(ready + step.seconds, step.objective) for step in result.history],
    }


def fit_warm(data: RankingData, job: Job, loss: str, tol: float | None) -> Run | None:
    """Fit as `fit_linrank`, after other fits: a core that was idle is slower at first."""
    started = time.perf_counter()
    while True:
        warm = time.perf_counter() - started >= WARM_UP
        run = fit_linrank(data, job, loss, tol)
        if run["seconds"] > job.cap:
            return None
        if warm:
            return run


def fit_program(program: Program, job: Job, problem: Any, setting: float) -> Run | None:
    """Run a program; the seconds are those of its training."""
    run = program.run_once(job, setting)
    if run is None:
        return None
    objective = float(problem.value_grad(run["coef"])[0])
    return {"setting": setting, "seconds": run["training"], "objective": objective}


def in_turns(
    fits: dict[Any, Callable[[], Run | None]], budget: float, least: int = TURNS
) -> dict[Any, list[Run]]:
    """Return the records of fits that take turns; a fit beyond the time limit leaves none.

    There are as many turns as fit in the budget, but at least `least` and at most `MOST_TURNS`.
    """
    found: dict[Any, list[Run]] = {key: [] for key in fits}
    started = time.perf_counter()
    for turn in range(MOST_TURNS):
        if turn >= least and time.perf_counter() - started > budget:
            break
        for key, fit in fits.items():
            run = fit()
            if run is not None:
                found[key].append(run)
    return found


@contextmanager
def busy_core() -> Iterator[None]:
    """Keep a core busy by a process, which ends with the context or with this process."""
    spin = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
    process = subprocess.Popen([sys.executable, "-c", spin])
    try:
        time.sleep(0.2)  # the time that Python needs to start
        yield
    finally:
        process.kill()
        process.wait()


LOADS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "quiet": nullcontext,
    "one core busy": busy_core,
}
