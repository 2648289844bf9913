"""Fits as users run them: with other tolerances, two at once, and by a command.

``python -m benchmarks.usage`` measures all of them. The problems are those of `benchmarks.peers`.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from joblib import Parallel, delayed

from linrank import LinearModel, RankingData, open_store
from linrank.problem import make_problem
from linrank.solvers import make_solver

from .comparison import show_ratio
from .peers import Case, able_programs, cases
from .rivals import Job, text_of, tight_solver
from .tools import Options, Section, interleaved, pinned, run_sections, show_seconds, show_spread
from .turns import fit_linrank

LOOSE_TO_TIGHT = (1e-1, 1e-2, 1e-3, 1e-5)  #: values of `tol`; the last is the unit of the ratios
SHORTEST = 0.3  #: least seconds of a job of several fits, so that its dispatch does not count
PROGRAM_EPSILON = 1e-3  #: default epsilon of the programs
COMMANDS = ("mq2008", "mq2007", "web-scaled")  #: shapes whose text is given to commands


# Tolerances -------------------------------------------------------------------------------------


def bench_tolerances(options: Options) -> Section:
    """Measure whole fits with loose and tight tolerances."""
    section = Section(
        "tolerances",
        "Whole fits by tolerance",
        "solver='auto' from w = 0, with laying out the pairs, until the fit stops; in brackets, "
        "(f − f*)/f* of the result; medians of up to 15 fits in turns; the ratios are to "
        f"tol={LOOSE_TO_TIGHT[-1]:g}",
        ["data", *(f"tol={tol:g}" for tol in LOOSE_TO_TIGHT),
         *(f"ratio of {tol:g}" for tol in LOOSE_TO_TIGHT[:-1])],
    )  # fmt: skip
    with pinned(options.threads):
        for case in cases():
            _measure_tolerances(section, case, case.job(options))
    section.aim_at_most(
        "tol=1e-3 takes no longer than tol=1e-5", 1.0,
        {own["data"]: own["ratios"]["0.001"] for own in section.numbers},
    )  # fmt: skip
    return section


def _measure_tolerances(section: Section, case: Case, job: Job) -> None:
    data = open_store(job.store, mmap=False)
    fits = {tol: partial(fit_linrank, data, job, "squared_hinge", tol) for tol in LOOSE_TO_TIGHT}
    best = _optimum(data, job)
    away = {tol: fit()["objective"] / best - 1 for tol, fit in fits.items()}
    times = interleaved({f"{tol:g}": fit for tol, fit in fits.items()}, most=15)
    medians = {name: statistics.median(own) for name, own in times.items()}
    unit = medians[f"{LOOSE_TO_TIGHT[-1]:g}"]
    ratios = {name: own / unit for name, own in medians.items()}
    section.add(
        case.name,
        *(f"{show_seconds(medians[f'{tol:g}'])} ({away[tol]:.0e})" for tol in LOOSE_TO_TIGHT),
        *(f"{ratios[f'{tol:g}']:.2f}" for tol in LOOSE_TO_TIGHT[:-1]),
        data=case.name, ratios=ratios, seconds=times,
        away={f"{tol:g}": own for tol, own in away.items()},
    )  # fmt: skip


def _optimum(data: RankingData, job: Job) -> float:
    problem = make_problem(data, job.C, n_threads=job.threads)
    return tight_solver(problem).solve(problem).objective


# Two fits at once -------------------------------------------------------------------------------


def bench_together(options: Options) -> Section:
    """Measure two fits at once against one after the other."""
    section = Section(
        "together",
        "Two fits at once",
        "Two jobs of fits with default settings, one after the other in this process, and at once "
        "by joblib with n_jobs=2: in two processes (loky) and in two threads. Each fit has as many "
        "threads as the run. A job repeats its fit until it takes "
        f"{SHORTEST:g} s. Workers are started before; medians of up to 9, with the fastest and the "
        "slowest. × is the time one after the other divided by the time at once",
        ["data", "one after the other", "processes", "×", "threads", "×"],
    )
    with pinned(options.threads):
        for case in cases():
            _measure_together(section, case, case.job(options))
    found = {
        f"{own['data']}, {how}": own["slowdown"][how]
        for own in section.numbers
        for how in own["slowdown"]
    }
    section.aim_at_most("two fits at once take at most as long as one after the other", 1.0, found)
    return section


def _measure_together(section: Section, case: Case, job: Job) -> None:
    once = statistics.median(interleaved({"": partial(fit_store, job, 1)}, most=3)[""])
    n_fits = math.ceil(SHORTEST / once)
    with Parallel(2, backend="loky") as processes, Parallel(2, backend="threading") as threads:
        ways: dict[str, Callable[[], object]] = {
            "alone": lambda: [fit_store(job, n_fits) for _ in range(2)],
            "processes": lambda: processes(delayed(fit_store)(job, n_fits) for _ in range(2)),
            "threads": lambda: threads(delayed(fit_store)(job, n_fits) for _ in range(2)),
        }
        times = interleaved(ways, most=9)
    alone = statistics.median(times["alone"])
    slowdown = {how: statistics.median(times[how]) / alone for how in ("processes", "threads")}
    section.add(
        case.name, show_spread(times["alone"]),
        *(cell for how, own in slowdown.items()
          for cell in (show_spread(times[how]), f"{1 / own:.2f}")),
        data=case.name, n_fits=n_fits, seconds=times, slowdown=slowdown,
    )  # fmt: skip


def fit_store(job: Job, n_fits: int) -> None:
    """Fit some times; a process opens the store once."""
    for _ in range(n_fits):
        problem = make_problem(_opened(job.store), job.C, n_threads=job.threads)
        make_solver("auto").solve(problem)


@cache
def _opened(store: Path) -> RankingData:
    return open_store(store)


# Commands ---------------------------------------------------------------------------------------


def bench_command(options: Options) -> Section:
    """Measure whole commands, from a text to a model file."""
    section = Section(
        "command",
        "Commands, from a text to a model file",
        "linrank train and programs, each with its default tolerance, on the same text, which the "
        "system has in memory; seconds of the whole process, medians of up to 9 runs in turns with "
        "the fastest and the slowest; in brackets, (f − f*)/f* of the model",
        ["data", "file", "linrank", "program", "its time", "× linrank"],
    )
    with pinned(options.threads):
        for case in cases():
            if case.shape in COMMANDS and case.C is None:
                _measure_commands(section, case, case.job(options))
    return section


def _measure_commands(section: Section, case: Case, job: Job) -> None:
    known = able_programs(section, "squared_hinge")
    if not known:
        return
    data = open_store(job.store)
    problem = make_problem(data, job.C, n_threads=job.threads)
    best = _optimum(data, job)
    weights: dict[str, Any] = {}

    def run_program(name: str) -> None:
        run = known[name].run_once(job, PROGRAM_EPSILON)
        weights[name] = None if run is None else run["coef"]

    def run_linrank() -> None:
        weights["linrank"] = train_by_command(job)

    ways = {"linrank": run_linrank} | {name: partial(run_program, name) for name in known}
    times = interleaved(ways, budget=20.0, most=9)
    shown = {
        name: f"{show_spread(own)} ({_distance(problem, weights[name], best)})"
        for name, own in times.items()
    }
    own = statistics.median(times["linrank"])
    for name in known:
        ratio = statistics.median(times[name]) / own
        section.add(
            case.name, f"{text_of(job.store).stat().st_size / 1e6:.0f} MB", shown["linrank"], name,
            shown[name], show_ratio(ratio), data=case.name, program=name, ratio=ratio,
            seconds=times[name], linrank=times["linrank"],
        )  # fmt: skip


def _distance(problem: Any, coef: Any, best: float) -> str:
    return "given up" if coef is None else f"{problem.value_grad(coef)[0] / best - 1:.0e}"


def train_by_command(job: Job) -> Any:
    """Return the weights that ``linrank train`` writes."""
    with TemporaryDirectory() as folder:
        model = Path(folder, "model.json")
        words = ["train", str(text_of(job.store)), "--C", repr(job.C), "--out", str(model)]
        words += ["--normalize", "none", "--scale", "none"]
        command = [sys.executable, "-m", "linrank", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return LinearModel.load(model).coef


SECTIONS = {
    "tolerances": bench_tolerances,
    "together": bench_together,
    "command": bench_command,
}

if __name__ == "__main__":
    run_sections(__doc__, "usage", SECTIONS)
