"""linrank against programs for RankSVM, by training time: ``python -m benchmarks.peers``.

The environment variables of `benchmarks.programs` are the paths of the programs. A program without
a path is not measured.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linrank import open_store
from linrank.problem import make_problem

from .comparison import make_job, show_ratio
from .programs import Program, programs_here
from .rivals import Job, Run, tight_solver
from .shapes import QUICK, SHAPES, available, kept
from .tools import Options, Section, pinned, run_sections, show_seconds, stop_after
from .turns import (
    EPSILONS,
    LOADS,
    MOST_TURNS,
    TOLERANCES,
    TURNS,
    Contestant,
    Turns,
    fit_program,
    fit_warm,
    in_turns,
)

#: Relative distances (f − f*)/f* at which times are taken, by loss.
TARGETS = {"squared_hinge": (1e-2, 1e-3, 1e-6), "hinge": (1e-2, 1e-3)}
AIM = 10.0  #: ratio that linrank should reach


@dataclass(frozen=True)
class Case:
    """A problem: a shape, the share of its full size, and C if it is not that of the shape."""

    shape: str
    part: float = 1.0
    C: float | None = None

    @property
    def name(self) -> str:
        """The shape, with the share and C if they are not those of the shape."""
        share = "" if self.part == 1.0 else f", {self.part:g} of it"
        return self.shape + share + ("" if self.C is None else f", C = {self.C:g}")

    def job(self, options: Options) -> Job:
        """Return the problem for programs and for linrank."""
        store = kept(self.shape, QUICK if options.quick else self.part)
        C = SHAPES[self.shape].C if self.C is None else self.C
        return make_job(store, C, options.threads, cap(options))


CASES = (
    Case("web-scaled"),
    Case("web-standard"),
    Case("web"),
    Case("mq2008"),
    Case("mq2007"),
    Case("mq2007", C=2.0**-5),
    Case("many-levels", 0.2),
    Case("wide"),
    Case("text", 0.125),
)


def cases() -> list[Case]:
    """Return the cases whose data are available."""
    return [case for case in CASES if case.shape in available()]


def cap(options: Options) -> float:
    """Return the time limit of a fit in seconds."""
    return 3.0 if options.quick else 60.0


# The comparison ---------------------------------------------------------------------------------


def bench_peers(options: Options) -> Section:
    """Measure the training time to the same objective of programs and of linrank."""
    section = Section(
        "targets",
        "Training time of programs for RankSVM",
        "Programs and linrank minimise ½‖w‖² + C·Σ ℓ over the same pairs, and linrank computes the "
        "objective of the weights; f* is the lowest objective known. No time includes reading. "
        "The time of a program begins when it closes the data and ends when it creates the model "
        "file, with the loosest epsilon (in brackets, of 10^(-k/2)) whose (f − f*)/f* is at most "
        "the target. linrank's time includes laying out the pairs, with the loosest tol (in "
        "brackets, of 10^-k) whose result is at most the target. To stop is the time of the whole "
        "fit, and to reach is the time until an iterate was at the target, each with the number of "
        "linrank's threads; × is the program's time divided by linrank's. Medians of "
        f"{TURNS} to {MOST_TURNS} runs in turns. Training is given up after {cap(options):.0f} s. "
        "One core busy: the same beside another process that never sleeps",
        ["data", "load", "loss", "target", "program", "threads", "training",
         *(f"{what}, {count}" for count in thread_counts(options.threads)
           for what in ("to stop", "× stop", "to reach", "× reach"))],
    )  # fmt: skip
    with pinned(options.threads):
        for case in cases():
            for loss in TARGETS:
                compare(section, case.name, case.job(options), loss)
    judge(section, options.threads)
    return section


def thread_counts(threads: int) -> tuple[int, ...]:
    """Return the numbers of threads of linrank: those of the run, and one."""
    return tuple(dict.fromkeys((threads, 1)))


def able_programs(section: Section, loss: str) -> dict[str, Program]:
    """Return the programs that minimise a loss; a note says which file each is, or why not."""
    able = {}
    for program in programs_here():
        if program.loss == loss:
            reason = program.missing()
            note = f"{program.name}: {reason or program.digest()}"
            section.notes += [] if note in section.notes else [note]
            able |= {program.name: program} if reason is None else {}
    return able


def compare(section: Section, name: str, job: Job, loss: str) -> None:
    """Compare the programs that minimise a loss with linrank on one problem."""
    programs = able_programs(section, loss)
    if not programs:
        return
    data = open_store(job.store, mmap=False)
    section.notes.append(
        f"{name}: {data.n_docs:,} × {data.n_features:,}, {data.n_queries:,} queries, "
        f"{job.n_pairs:.3g} pairs, C = {job.C:.3g}"
    )
    problem = make_problem(data, job.C, loss=loss, n_threads=job.threads)
    sharp = tight_solver(problem, callback=stop_after(10 * job.cap)).solve(problem)
    known: dict[Any, Contestant] = {
        own.name: Contestant(partial(fit_program, own, job, problem), EPSILONS)
        for own in programs.values()
    } | {
        count: Contestant(partial(fit_warm, data, replace(job, threads=count), loss), TOLERANCES)
        for count in thread_counts(job.threads)
    }
    goal = (1 + TARGETS[loss][-1]) * sharp.objective
    climbed: dict[Any, list[Run]] = {}
    for key, own in known.items():
        try:
            climbed[key] = own.climb(goal)
        except RuntimeError as error:
            section.notes.append(f"{name}, {key}: {error}")
            del programs[key]
    match = Match(name, loss, job, climbed, sharp.objective)
    for load, context in LOADS.items():
        with context():
            fits = {(key, s): partial(known[key].fit, s) for key, s in match.chosen()}
            turns = in_turns(fits, job.cap / 3)
        for target in TARGETS[loss]:
            for program in programs.values():
                match.add_row(section, load, target, program, turns)


@dataclass(frozen=True)
class Match:
    """Programs and linrank on one problem.

    Attributes
    ----------
    climbed : dict
        Fits with tighter and tighter settings, by the name of a program or linrank's threads.
    """

    name: str
    loss: str
    job: Job
    climbed: dict[Any, list[Run]]
    sharp: float

    @property
    def best(self) -> float:
        """The lowest objective known."""
        return min(
            [self.sharp, *(run["objective"] for own in self.climbed.values() for run in own)]
        )

    def goal(self, target: float) -> float:
        """Return the objective of a target."""
        return (1 + target) * self.best

    def setting(self, key: Any, target: float) -> float | None:
        """Return the loosest setting that reaches a target; None if there is none."""
        goal = self.goal(target)
        return next((r["setting"] for r in self.climbed[key] if r["objective"] <= goal), None)

    def chosen(self) -> list[tuple[Any, float]]:
        """Return the settings that are measured, each once."""
        pairs = [
            (key, self.setting(key, own)) for key in self.climbed for own in TARGETS[self.loss]
        ]
        return list(dict.fromkeys((key, setting) for key, setting in pairs if setting is not None))

    def add_row(
        self, section: Section, load: str, target: float, program: Program, turns: Turns
    ) -> None:
        """Add the row of a program to a section."""
        setting = self.setting(program.name, target)
        theirs = _median([run["seconds"] for run in turns.get((program.name, setting), [])])
        cells = [self._show_training(program.name, theirs, setting)]
        own = {count: self._own_times(count, target, turns) for count in self._counts}
        ratios: dict[str, float | None] = {}
        for count, times in own.items():
            for what, seconds in times.items():
                tol = f" ({self.setting(count, target):g})" if what == "stop" and seconds else ""
                ratio = None if theirs is None or seconds is None else theirs / seconds
                ratios[f"{what}, {count}"] = ratio
                cells += [show_seconds(seconds, "not reached") + tol]
                cells += [self._show_ratio(program.name, ratio, seconds)]
        section.add(
            self.name, load, self.loss, f"{target:g}", program.name,
            str(self.job.threads if program.threaded else 1), *cells,
            data=self.name, load=load, loss=self.loss, target=target, program=program.name,
            C=self.job.C, setting=setting, training=theirs, linrank=own, ratios=ratios,
            best=self.best, tol={count: self.setting(count, target) for count in own},
            climbed=[(run["setting"], run["seconds"], run["objective"])
                     for run in self.climbed[program.name]],
        )  # fmt: skip

    @property
    def _counts(self) -> tuple[int, ...]:
        return thread_counts(self.job.threads)

    def _own_times(self, count: int, target: float, turns: Turns) -> dict[str, float | None]:
        """Return the seconds until linrank stops, and until it reaches the target."""
        runs = turns.get((count, self.setting(count, target)), [])
        return {
            "stop": _median([run["seconds"] for run in runs]),
            "reach": _median([seconds_to(run, self.goal(target)) for run in runs]),
        }

    def _given_up(self, name: str) -> bool:
        return len(self.climbed[name]) < len(EPSILONS)

    def _show_training(self, name: str, seconds: float | None, setting: float | None) -> str:
        """Return the time of a program with its setting, or how close it came."""
        if seconds is not None:
            return f"{show_seconds(seconds)} ({setting:.2g})"
        closest = min((run["objective"] for run in self.climbed[name]), default=np.inf)
        away = closest / self.best - 1
        if self._given_up(name):
            return f"> {self.job.cap:.0f} s" + (f" (at {away:.2g})" if np.isfinite(away) else "")
        return f"not reached: stops at {away:.2g}"

    def _show_ratio(self, name: str, ratio: float | None, own: float | None) -> str:
        """Return a ratio, or its lower bound if the program was given up."""
        if ratio is None and own is not None and self._given_up(name):
            return f"> {show_ratio(self.job.cap / own)}"
        return "—" if ratio is None else show_ratio(ratio)


def _median(times: list[float]) -> float | None:
    """Return the median; None if most runs did not end."""
    median = statistics.median(times or [np.inf])
    return median if np.isfinite(median) else None


def seconds_to(run: Run, goal: float) -> float:
    """Return the seconds until the objective of a fit was at most the goal."""
    return next((t for t, objective in run["curve"] if objective <= goal), np.inf)


def judge(section: Section, threads: int) -> None:
    """Add the smallest, mean and largest ratio of each program and load, and a goal."""
    by_program: dict[tuple[str, str, str], list[float]] = {}
    for own in section.numbers:
        for what, ratio in own["ratios"].items():
            if ratio is not None:
                by_program.setdefault((own["program"], own["load"], what), []).append(ratio)
    for (program, load, what), ratios in by_program.items():
        section.notes.append(
            f"{program}, {load}, to {what} threads: {show_ratio(min(ratios))} to "
            f"{show_ratio(max(ratios))} ×, geometric mean {show_ratio(_mean(ratios))} ×, "
            f"{sum(r >= AIM for r in ratios)} of {len(ratios)} at least {AIM:g} ×"
        )
    stopped = [
        r for (_, _, what), own in by_program.items() for r in own if what == f"stop, {threads}"
    ]
    section.aim(
        f"training with linrank, until it stops, at least {AIM:g} × as fast as every program on "
        "every problem, quiet and beside a busy core",
        f"{show_ratio(min(stopped, default=0.0))} × at worst", min(stopped, default=0.0) >= AIM,
    )  # fmt: skip


def _mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


if __name__ == "__main__":
    run_sections(__doc__, "peers", {"targets": bench_peers})
