"""One query with distinct labels, by linrank and by scikit-survival.

Both minimise ½‖w‖² + C·Σ max(0, 1 − t)²; in scikit-survival, alpha = 2C. Their weights are compared
by linrank's objective, for smaller and smaller tolerances.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from linrank import RankSVM, make_ranking
from linrank.problem import make_problem

from .plots import draw, line_style
from .tools import Options, Section, from_process, median_seconds, show_seconds

Shape = tuple[int, int, int]
Runs = list[dict[str, Any]]

TARGETS = (1e-3, 1e-6, 1e-9)
JUDGED = 1e-6  #: relative distance to the optimum in the goal of this benchmark
TOLERANCES = tuple(10.0**-k for k in range(1, 9))
SURVIVAL_C = 0.5  #: alpha = 2C = 1 is the default of scikit-survival


def bench_survival(options: Options) -> Section:
    """Measure the times to equal accuracy on one query with distinct labels."""
    sizes = (200, 500) if options.quick else (2_000, 5_000, 20_000)
    section = Section(
        "survival",
        "One query with all labels distinct, against scikit-survival",
        f"n × 20 dense float64, squared hinge, C = {SURVIVAL_C:g}; FastSurvivalSVM(alpha=2C, "
        'rank_ratio=1, optimizer="avltree", fit_intercept=False), every event seen. Each time is '
        "that of the fastest fit whose (f − f*)/f* is at most what the column says",
        ["n", "tool", "threads", *(f"to {target:g}" for target in TARGETS),
         f"× linrank, at {JUDGED:g}", "closest"],
    )  # fmt: skip
    for n in sizes:
        _compare_survival(section, (1, n, 20), options)
    ratio = section.numbers[-1]["ratio"]
    section.aim(
        f"RankSVM at least 50 × sooner at n = {sizes[-1]:,}",
        "scikit-survival never got there" if ratio is None else f"{ratio:.1f} ×",
        ratio is not None and ratio >= 50,
    )
    draw(options.out / "pairwise_survival.svg", [lambda axes: _draw_times(axes, section.numbers)])
    return section


def _compare_survival(section: Section, shape: Shape, options: Options) -> None:
    data = make_ranking(*shape, n_levels=None, random_state=0)
    problem = make_problem(data, SURVIVAL_C, n_threads=options.threads)
    found = {
        ("linrank", threads): _fits(data.X, data.y, threads)
        for threads in sorted({problem.engine.n_threads, 1}, reverse=True)
    }
    rival = from_process(run_sksurv, shape, cap=10.0 if options.quick else 120.0)
    found["scikit-survival", 1] = [
        {"tol": tol, "seconds": seconds, "objective": problem.value_grad(w)[0]}
        for tol, seconds, w in rival
    ]
    best = min(run["objective"] for runs in found.values() for run in runs)
    ours = None
    for (tool, threads), runs in found.items():
        for run in runs:
            run["distance"] = run["objective"] / best - 1
        times = [_fastest(runs, target) for target in TARGETS]
        judged = times[TARGETS.index(JUDGED)]
        ours = ours or judged
        ratio = None if judged is None else judged / ours
        section.add(
            f"{shape[1]:,}", tool, str(threads), *(show_seconds(t, "not reached") for t in times),
            "—" if ratio is None else f"{ratio:.1f}",
            f"{min((run['distance'] for run in runs), default=np.nan):.0e}",
            n=shape[1], tool=tool, threads=threads, seconds=judged, ratio=ratio, runs=runs,
        )  # fmt: skip


def _fits(X: Any, y: Any, threads: int) -> Runs:
    runs = []
    for tol in TOLERANCES:
        ranker = RankSVM(C=SURVIVAL_C, normalize=None, scale=None, tol=tol, n_threads=threads).fit(
            X, y
        )
        seconds = median_seconds(lambda ranker=ranker: ranker.fit(X, y), least=5)
        runs.append({"tol": tol, "seconds": seconds, "objective": ranker.result_.objective})
    return runs


def _fastest(runs: Runs, target: float) -> float | None:
    return min((run["seconds"] for run in runs if run["distance"] <= target), default=None)


def run_sksurv(shape: Shape) -> Iterator[tuple[float, float, Any]]:
    """Yield tolerance, seconds and weights of scikit-survival's ranking SVM.

    The weights increase with the survival time (only `predict` reverses the sign). The rank of a
    label is therefore passed as the survival time.
    """
    from sksurv.svm import FastSurvivalSVM

    data = make_ranking(*shape, n_levels=None, random_state=0)
    y = np.empty(data.n_docs, dtype=[("event", bool), ("time", float)])
    y["event"] = True
    y["time"] = np.argsort(np.argsort(data.y)) + 1
    for tol in TOLERANCES:
        machine = FastSurvivalSVM(
            alpha=2 * SURVIVAL_C, rank_ratio=1, optimizer="avltree", fit_intercept=False,
            tol=tol, max_iter=1000, random_state=0,
        )  # fmt: skip
        started = time.perf_counter()
        machine.fit(data.X, y)
        yield tol, time.perf_counter() - started, machine.coef_


def _draw_times(axes: Any, numbers: Runs) -> None:
    for k, tool in enumerate(("linrank", "scikit-survival")):
        seconds = {own["n"]: own["seconds"] for own in reversed(numbers) if own["tool"] == tool}
        points = [(n, t) for n, t in seconds.items() if t is not None]
        axes.loglog(*np.array(points).reshape(-1, 2).T, label=tool, **line_style(k))
    axes.set_title(f"One query, all labels distinct: to {JUDGED:g} of f*")
    axes.set_xlabel("documents")
    axes.set_ylabel("seconds")
    axes.legend()
