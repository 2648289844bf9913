"""Default fits and programs for RankSVM, each to its own stop: ``python -m benchmarks.stops``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from linrank import open_store
from linrank.problem import make_problem

from .comparison import show_ratio
from .peers import Case, able_programs, cap, cases, thread_counts
from .rivals import Run, tight_solver
from .tools import Options, Section, pinned, run_sections, show_seconds
from .turns import LOADS, fit_program, fit_warm, in_turns

LOSS = "squared_hinge"
EPSILON = 1e-3  #: default tolerance of the programs
LEAST_TURNS = 5  #: least number of runs whose quartiles are taken
#: Ratio to liblinear's time that linrank should reach with the default C of a shape.
GOALS = {
    "web": 20.0, "web-scaled": 12.0, "mq2007": 20.0, "mq2008": 10.0, "many-levels": 6.0,
    "wide": 12.0, "text": 15.0,
}  # fmt: skip


def bench_stops(options: Options) -> Section:
    """Measure the time from w = 0 until linrank and programs stop with their default tolerances."""
    section = Section(
        "peers",
        "Default fits and programs for RankSVM, each to its own stop",
        "Programs and linrank minimise ½‖w‖² + C·Σ max(0, 1 − t)² over the same pairs. A program "
        f"runs with its default epsilon, {EPSILON:g}, and linrank with its default tol. No time "
        "includes reading, and linrank's time includes laying out the pairs. Medians and quartiles "
        f"of at least {LEAST_TURNS} runs in turns. In brackets, the relative distance to the "
        "optimum of the result. × is the program's time divided by linrank's",
        ["data", "load", "program", "its time", "distance",
         *(f"{what}, {count} threads" for count in thread_counts(options.threads)
           for what in ("linrank", "×"))],
    )  # fmt: skip
    with pinned(options.threads):
        for case in cases():
            _measure(section, case, options)
    for own in section.numbers:
        goal = None if own["own_C"] else GOALS.get(own["shape"])
        if goal and own["program"] == "liblinear ranksvm" and own["load"] == "quiet":
            ratio = own["ratios"][options.threads]
            section.aim(
                f"{own['data']}: {goal:g} × liblinear", show_ratio(ratio), bool(ratio >= goal)
            )
    return section


def _measure(section: Section, case: Case, options: Options) -> None:
    job, programs = case.job(options), able_programs(section, LOSS)
    if not programs:
        return
    data = open_store(job.store, mmap=False)
    problem = make_problem(data, job.C, loss=LOSS, n_threads=job.threads)
    best = tight_solver(problem).solve(problem).objective
    fits: dict[Any, Any] = {
        count: partial(fit_warm, data, replace(job, threads=count), LOSS, None)
        for count in thread_counts(job.threads)
    } | {name: partial(fit_program, own, job, problem, EPSILON) for name, own in programs.items()}
    for load, context in LOADS.items():
        with context():
            turns = in_turns(fits, cap(options) / 3, LEAST_TURNS)
        for name in programs:
            _add_row(section, case, load, name, turns, best, job.threads)


def _add_row(
    section: Section, case: Case, load: str, name: str, turns: dict[Any, list[Run]], best: float,
    threads: int,
) -> None:  # fmt: skip
    if not turns[name]:
        section.notes.append(f"{case.name}, {load}: {name} was given up")
        return
    times = {key: np.array([run["seconds"] for run in runs]) for key, runs in turns.items()}
    away = {key: runs[-1]["objective"] / best - 1 for key, runs in turns.items() if runs}
    medians = {key: float(np.median(own)) for key, own in times.items() if len(own)}
    ratios = {count: medians[name] / medians[count] for count in thread_counts(threads)}
    section.add(
        case.name, load, name, show_quartiles(times[name]), f"{away[name]:.0e}",
        *(cell for count, ratio in ratios.items()
          for cell in (f"{show_quartiles(times[count])} ({away[count]:.0e})", show_ratio(ratio))),
        data=case.name, shape=case.shape, own_C=case.C is not None, load=load, program=name,
        seconds={key: own.tolist() for key, own in times.items()}, away=away, ratios=ratios,
    )  # fmt: skip


def show_quartiles(times: Any) -> str:
    """Return the median and the quartiles of times as text.

    Examples
    --------
    >>> show_quartiles([0.1, 0.2, 0.3, 0.4, 0.5])
    '300 ms (200–400)'
    """
    low, median, high = np.quantile(times, (0.25, 0.5, 0.75)).tolist()
    scale = 1e3 if median < 1 else 1.0
    return f"{show_seconds(median)} ({low * scale:.3g}–{high * scale:.3g})"


if __name__ == "__main__":
    run_sections(__doc__, "stops", {"peers": bench_stops})
