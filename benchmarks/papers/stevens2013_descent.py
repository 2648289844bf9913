"""The coordinate descent of Stevens et al. 2013, fig. 1.1: cost of a sweep, and convergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.domination import image_like
from benchmarks.plots import line_style
from benchmarks.tools import Options, Section, show_seconds
from linrank import RankingData, make_problem
from linrank.penalties import L1
from linrank.problem import Problem
from linrank.solvers import CoordinateDescent, PaperCoordinateDescent, ProximalNewton, Solver

from .sections import GENERATED, add_plot

TOLERANCES = (1e-1, 1e-2, 1e-3)  #: relative distances to the optimum
SOLVERS: dict[str, type[Solver]] = {
    "fig. 1.1, η = 1": PaperCoordinateDescent,
    "with longer steps": CoordinateDescent,
    "linrank's default": ProximalNewton,
}


def section_descent(options: Options) -> Section:
    """Measure whether a sweep costs linear time, and how fast it converges."""
    d = 100 if options.quick else 2_000
    sizes = (500, 1_000) if options.quick else (5_000, 10_000, 20_000, 40_000)
    section = Section(
        "descent",
        "Figure 1.1: the coordinate descent",
        f"{GENERATED} of table 1.2: images with {d:,} features of 2 % density in one query, of "
        "which 1 % are relevant, with l1 and ten times the smallest C that selects a feature. The "
        "paper states that a sweep costs time linear in the documents, and shows no times",
        ["documents", "pairs", "solver", "seconds per iteration",
         *(f"iterations to {tol:g}" for tol in TOLERANCES), f"seconds to {TOLERANCES[-1]:g}"],
    )  # fmt: skip
    for n in sizes:
        problem = _make_problem(n, d, options.threads)
        best = ProximalNewton(tol=1e-7).solve(problem).objective
        for name, kind in SOLVERS.items():
            _add(section, n, name, kind, problem, best)
    sweeps = [row for row in section.numbers if row["solver"] == "fig. 1.1, η = 1"]
    power = np.polyfit(*np.log([(row["n"], row["sweep"]) for row in sweeps]).T, 1)[0]
    section.aim("the time of a sweep grows at most linearly", f"n^{power:.2f}", power <= 1.1)
    add_plot(
        section, options, "stevens2013-descent", "Cost of a sweep, and convergence",
        [lambda axes: _draw_cost(axes, sweeps),
         lambda axes: _draw_gaps(axes, section.numbers[-len(SOLVERS) :])],
    )  # fmt: skip
    return section


def _make_problem(n: int, d: int, threads: int) -> Problem:
    X, y = image_like(n, d)
    data = RankingData(X, y)
    problem = make_problem(data, loss="domination", penalty=L1(), n_threads=threads)
    return problem.with_C(10.0 * problem.smallest_C())


def _add(
    section: Section, n: int, name: str, kind: type[Solver], problem: Problem, best: float
) -> None:
    def watch(step: Any) -> None:
        if step.objective <= best * (1 + TOLERANCES[-1]):
            raise KeyboardInterrupt

    kind(tol=0.5, max_iter=2).solve(problem)  # compiles
    result = kind(tol=1e-9, max_iter=500, callback=watch).solve(problem)
    gaps = np.array([step.objective / best - 1 for step in result.history])
    clock = np.array([step.seconds for step in result.history])
    reached = [int(np.argmax(gaps <= tol)) if (gaps <= tol).any() else None for tol in TOLERANCES]
    sweep = float(np.median(np.diff(clock)))
    last = reached[-1]
    section.add(
        f"{n:,}", f"{problem.engine.n_pairs:,}", name, show_seconds(sweep),
        *(f"> {len(gaps) - 1}" if k is None else str(k) for k in reached),
        show_seconds(None if last is None else clock[last], f"> {show_seconds(clock[-1])}"),
        n=n, solver=name, sweep=sweep, iterations=reached, gaps=gaps.tolist(),
        clock=clock.tolist(),
    )  # fmt: skip


def _draw_cost(axes: Any, sweeps: list[dict[str, Any]]) -> None:
    n, seconds = [row["n"] for row in sweeps], [row["sweep"] for row in sweeps]
    axes.plot(n, seconds, label="a sweep of fig. 1.1", **line_style(0))
    linear = [seconds[0] * m / n[0] for m in n]
    axes.plot(n, linear, color="#999999", lw=0.8, ls=":", label="linear")
    axes.set(xscale="log", yscale="log", xlabel="documents", ylabel="seconds",
             title="Cost of a sweep")  # fmt: skip
    axes.legend()


def _draw_gaps(axes: Any, rows: list[dict[str, Any]]) -> None:
    for k, row in enumerate(rows):
        style = line_style(k) | {"marker": ""}
        axes.plot(row["clock"], np.maximum(row["gaps"], 1e-4), label=row["solver"], **style)
    axes.set(yscale="log", xlabel="seconds", ylabel="(f − f*)/f*",
             title=f"Convergence, {rows[0]['n']:,} documents")  # fmt: skip
    axes.legend()
