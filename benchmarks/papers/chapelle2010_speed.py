"""Figure 3 of Chapelle & Keerthi 2010, and the speed of all methods that the paper names."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.plots import line_style
from benchmarks.tools import Options, Section, show_seconds, stop_after
from linrank import RankingData, auc, make_problem
from linrank.choices import CountingName
from linrank.losses import LossName
from linrank.solvers import (
    CuttingPlanes,
    Newton,
    NonlinearCG,
    PairSGD,
    PaperNewton,
    QuerySGD,
    Solver,
    Status,
    Step,
)

from .chapelle2010_data import make_text, parts_of
from .sections import GENERATED, add_plot

SIZES = (1200, 2400, 4800, 9600, 19_200)
LISTED = 9600  #: largest n whose pairs are listed; the paper had no memory for more, either
C_TEXT = 0.005
PATIENCE = 15.0  #: seconds after which a fit of figure 3 is given up
FAR = 1e-10  #: relative distance to the optimum below which curves are cut

#: Loss, counting and solver of the lines of figure 3. SVMPerf is a method of cutting planes.
LINES: dict[str, tuple[LossName, CountingName, Solver]] = {
    "PRSVM": ("squared_hinge", "explicit", PaperNewton()),
    "PRSVM+": ("squared_hinge", "two-level", PaperNewton()),
    "cutting planes": ("hinge", "two-level", CuttingPlanes(tol=1e-3)),
    "newton": ("squared_hinge", "auto", Newton(tol=1e-3)),
}


def figure_3(options: Options) -> Section:
    """Measure training time against n for AUC optimisation."""
    sizes = SIZES[:2] if options.quick else SIZES
    section = Section(
        "figure 3", "Figure 3: training time against n for AUC optimisation",
        f"One query, two classes, C = {C_TEXT:g}. The seconds include the layout of the pairs. "
        "`cutting planes` stands for SVMPerf (hinge, duality gap 1e-3), and `newton` is the "
        f"default of linrank. A fit is given up after {PATIENCE:.0f} s. "
        f"{GENERATED}: rows of norm 1 with 76 of 47,236 words",
        ["n", "pairs", *LINES, "AUC (training)"],
    )  # fmt: skip
    for n in sizes:
        data, seconds, value = make_text(n), {}, np.nan
        n_pairs = int(data.y.sum() * (n - data.y.sum()))
        for name in LINES:
            if name != "PRSVM" or n <= LISTED:
                taken, value = _time_of(name, data, options)
                seconds |= {} if taken is None else {name: taken}
        section.add(
            f"{n:,}", f"{n_pairs:,}", *(show_seconds(seconds.get(name)) for name in LINES),
            f"{value:.3f}", n=n, pairs=n_pairs, seconds=seconds,
        )  # fmt: skip
    for name in LINES:
        points = [(row["n"], row["seconds"][name]) for row in section.numbers
                  if name in row["seconds"]]  # fmt: skip
        power = np.polyfit(*np.log(np.array(points)).T, 1)[0]
        section.notes.append(f"The time of {name} grows as n^{power:.2f}.")
    section.notes.append("The paper: O(n²) for PRSVM, and O(n log n) for PRSVM+ and SVMPerf.")

    def panel(axes: Any) -> None:
        for k, name in enumerate(LINES):
            own = [row for row in section.numbers if name in row["seconds"]]
            axes.loglog(
                [row["n"] for row in own], [row["seconds"][name] for row in own], label=name,
                **line_style(k),
            )  # fmt: skip
        axes.set_xlabel("n")
        axes.set_ylabel("seconds")
        axes.legend()

    add_plot(section, options, "chapelle2010_figure_3", "Training time against n", [panel])
    return section


def _time_of(name: str, data: RankingData, options: Options) -> tuple[float | None, float]:
    """Return the seconds of a fit, with the layout of the pairs, and the AUC.

    The seconds are None if the fit was given up.
    """
    loss, counting, solver = LINES[name]
    problem = make_problem(data, C_TEXT, loss=loss, counting=counting, n_threads=options.threads)
    replace(solver, max_iter=2).solve(problem)  # compiles the kernels for data of this size
    started = time.perf_counter()
    problem = make_problem(data, C_TEXT, loss=loss, counting=counting, n_threads=options.threads)
    result = replace(solver, callback=stop_after(PATIENCE)).solve(problem)
    seconds = time.perf_counter() - started
    is_done = result.status is not Status.INTERRUPTED
    return seconds if is_done else None, auc(data.y, data.X @ result.coef)


# Time against relative objective ----------------------------------------------------------------

#: Solvers of the curves. Those of the paper have its own rules for steps.
SOLVERS: dict[str, Solver] = {
    "PRSVM+ (MINRES)": PaperNewton(tol=1e-9, stop="optimum"),
    "PRSVM+ (CG)": PaperNewton(tol=1e-9, stop="optimum", system="cg"),
    "PRSVM+ (MINRES, 200 products)": PaperNewton(tol=1e-9, stop="optimum", cg_iter=200),
    "non-linear CG": NonlinearCG(tol=1e-9, max_iter=3000),
    "algorithm 2": PairSGD(tol=1e-9, step="paper", average=False),
    "algorithm 3": QuerySGD(tol=1e-9, step="paper", average=False),
    "sgd-pairs": PairSGD(tol=1e-9),
    "newton": Newton(tol=1e-9),
}
LEVELS = (1e-1, 1e-2, 1e-3, 1e-6)
MOST_POINTS = 100  #: points of a curve in the plot


def curves(options: Options) -> Section:
    """Measure the relative objective against time for all methods of §2 and §6.1."""
    section = Section(
        "curves", "Relative objective against time for the methods of §2 and §6.1",
        "(f − f*)/f* on the training part of fold 1, squared hinge. The paper says that non-linear "
        "conjugate gradients and truncated Newton are roughly equivalent (§2), and gives no "
        "figures for algorithms 2 and 3. `sgd-pairs` and `newton` are the methods of linrank. "
        f"MQ2008 is real. For Ohsumed: {GENERATED}",
        ["set", "C", "solver", *(f"to {level:g}" for level in LEVELS), "reached"],
    )  # fmt: skip
    cases = [("MQ2008", 1e-4), ("MQ2008", 1e-2), ("Ohsumed", 1e-4), ("Ohsumed", 1e-2)]
    found: dict[tuple[str, float], dict[str, list[Step]]] = {}
    for name, C in cases[:1] if options.quick else cases:
        found[name, C] = _case(section, name, C, options)
    panels = [
        lambda axes, case=case, of=of: _draw(axes, case, of)  # type: ignore[misc]
        for case, of in found.items()
    ]
    add_plot(section, options, "chapelle2010_curves", "Relative objective against time", panels)
    return section


def _case(section: Section, name: str, C: float, options: Options) -> dict[str, list[Step]]:
    train = parts_of(name, 1, options.quick)[0]
    problem = make_problem(train, C, counting="two-level", n_threads=options.threads)
    best = Newton(tol=1e-10).solve(problem).objective
    histories = {}
    for label, solver in SOLVERS.items():
        replace(solver, max_iter=2).solve(problem)  # compiles the kernels
        limit = stop_after(0.5 if options.quick else 4.0)
        result = replace(solver, callback=limit).solve(problem)
        histories[label] = result.history
        gaps = [(step.objective / best - 1, step.seconds) for step in result.history]
        times = [next((s for gap, s in gaps if gap <= level), None) for level in LEVELS]
        reached = min(max(gap, 0.0) for gap, _ in gaps)
        section.add(
            name, f"{C:g}", label, *map(show_seconds, times), f"{reached:.0e}",
            name=name, C=C, solver=label, best=best, seconds=times, reached=reached,
        )  # fmt: skip
    return histories


def _draw(axes: Any, case: tuple[str, float], histories: dict[str, list[Step]]) -> None:
    best = min(step.objective for history in histories.values() for step in history)
    for k, (label, history) in enumerate(histories.items()):
        gaps = np.array([step.objective / best - 1 for step in history])
        seconds = np.array([max(step.seconds, 1e-4) for step in history])
        some = np.flatnonzero(gaps > FAR)
        some = some[:: 1 + len(some) // MOST_POINTS]
        axes.loglog(seconds[some], gaps[some], label=label, **line_style(k) | {"markersize": 2})
    axes.set_title(f"{case[0]}, C = {case[1]:g}")
    axes.set_xlabel("seconds")
    axes.set_ylabel("(f − f*)/f*")
    axes.legend(fontsize=7)
