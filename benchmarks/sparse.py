"""Sparse rankers: ``make bench-sparse``, or ``python -m benchmarks.sparse``.

Sections: ``table-iv`` and ``grids`` (what the sparsity ratios of Laporte et al. 2014 depend on),
``speed`` (one fit against FISTA on listed pairs and scikit-learn's l1), ``path`` (fifty values of C
against one fit), ``wide`` (100,000 × 10,000 at 2 % density), ``correlated`` (paths over nearly
equal features) and ``raw`` (raw features against scaled ones). All but the last three need LETOR
4.0 in the folder ``LINRANK_DATA``.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from linrank import RankingData, make_problem
from linrank.penalties import L1
from linrank.problem import Problem
from linrank.solvers import FISTA, ProximalNewton, Step
from linrank.training.selection import RegularizationPath, regularization_path, sparse_grid

from .sparse_hard import bench_correlated, bench_raw
from .sparse_letor import bench_grids, bench_table_iv, read_fold
from .tools import (
    Options,
    Section,
    forget_high_water,
    from_process,
    high_water,
    interleaved,
    run_sections,
    show_seconds,
    stop_after,
)

PAPER_FISTA = "FISTA as in the paper, listed pairs"


def bench_speed(options: Options) -> Section:
    """Measure an l1 fit to a relative gap of 1e-4, by four methods."""
    section = Section(
        "speed",
        "l1 to within 1e-4 of the optimum",
        "MQ2007 fold 1, squared hinge. Proximal Newton (median of five) and FISTA until their own "
        "duality gap is 1e-4; FISTA as in the paper, which sums over listed pairs and steps by "
        "1/(2C·Σ‖x̃‖²), also until its objective is within 1e-4 of the optimum, which it cannot "
        "know; LinearSVC, which solves the same problem on the differences x_i − x_j, made "
        "beforehand, with the loosest tolerance 10^-k that gets there (median of five seeds). "
        "Stopped after 300 s",
        ["C", "method", "seconds", "× proximal Newton", "(f − f*)/f*"],
    )
    data = read_fold("MQ2007", 1, "train")
    engine = make_problem(data).engine
    listed = make_problem(data, counting="explicit").engine
    pairs, labels = signed_differences(data, listed.layout.plan)
    for C in (1e-3,) if options.quick else (1e-3, 1e-2):
        problem, slow = (Problem(one, C, L1()) for one in (engine, listed))
        best = ProximalNewton(tol=1e-10).solve(problem).objective
        roads = {
            "proximal Newton": proximal_newton(problem),
            "FISTA, backtracking": fista(problem, "backtracking"),
            PAPER_FISTA: fista(slow, "paper"),
            f"{PAPER_FISTA}, optimum known": fista(slow, "paper", best),
            "LinearSVC on differences": linear_svc(problem, pairs, labels, best),
        }
        own = roads["proximal Newton"][0]
        for name, (seconds, value) in roads.items():
            section.add(
                f"{C:g}", name, show_seconds(seconds), f"{seconds / own:.1f}",
                f"{value / best - 1:.1e}", seconds=seconds, away=value / best - 1,
            )  # fmt: skip
        _aim_at_ratios(section, C, {name: seconds / own for name, (seconds, _) in roads.items()})
    return section


def _aim_at_ratios(section: Section, C: float, ratios: dict[str, float]) -> None:
    for name, goal in (
        ("FISTA as in the paper, listed pairs", 20),
        ("LinearSVC on differences", 10),
    ):
        ratio = ratios[name]
        section.aim(f"{goal} × sooner than {name}, C = {C:g}", f"{ratio:.0f} ×", ratio >= goal)


def signed_differences(data: RankingData, plan: Any) -> tuple[Any, Any]:
    """Return x_i − x_j of every pair, every second one negated, and labels 1 and −1."""
    start = np.repeat(data.query_ptr[:-1], np.diff(plan.query_nodes))
    labels = np.where(np.arange(len(start)) % 2, 1.0, -1.0)
    return labels[:, None] * (data.X[start + plan.upper] - data.X[start + plan.lower]), labels


def proximal_newton(problem: Problem) -> tuple[float, float]:
    """Return the median seconds to a gap of 1e-4, and the objective."""
    results = [ProximalNewton(tol=1e-4).solve(problem) for _ in range(5)]
    return statistics.median(result.seconds for result in results), results[0].objective


def fista(problem: Problem, step: str, best: float = 0.0) -> tuple[float, float]:
    """Return the seconds to a gap of 1e-4, or within 1e-4 of `best`, and the objective."""
    stop = stop_after(300)

    def callback(step: Step) -> None:
        if step.objective <= best * (1 + 1e-4):
            raise KeyboardInterrupt
        stop(step)

    result = FISTA(step=step, tol=1e-4, max_iter=10**6, callback=callback).solve(problem)
    return result.seconds, result.objective


def linear_svc(problem: Problem, pairs: Any, labels: Any, best: float) -> tuple[float, float]:
    """Return median seconds over five seeds, on which the accuracy depends, and an objective."""
    found = [_linear_svc(problem, pairs, labels, best, seed) for seed in range(5)]
    return statistics.median(seconds for seconds, _ in found), found[0][1]


def _linear_svc(
    problem: Problem, pairs: Any, labels: Any, best: float, seed: int
) -> tuple[float, float]:
    """Return the seconds of the loosest tolerance that is within 1e-4 of the best objective."""
    for tol in (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        svc = LinearSVC(
            penalty="l1", dual=False, fit_intercept=False, C=problem.C, tol=tol, max_iter=1000,
            random_state=seed,
        )  # fmt: skip
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svc.fit(pairs, labels)
        seconds = time.perf_counter() - started
        value = problem.value_grad(svc.coef_[0])[0]
        if value <= best * (1 + 1e-4):
            break
    return seconds, value


def bench_path(options: Options) -> Section:
    """Compare fifty values of C with warm starts with one fit."""
    section = Section(
        "path",
        "A path of 50 C against one fit",
        "MQ2007 fold 1, squared hinge, l1, tol 1e-3, C from the first feature to 10,000 times "
        "that; the fits are from zero. Medians of seven runs, taken in turns",
        ["what", "seconds", "path, in such fits"],
    )
    problem = make_problem(read_fold("MQ2007", 1, "train"), penalty=L1())
    assert isinstance(problem, Problem)
    grid = sparse_grid(problem, 10 if options.quick else 50)
    middle, last = (problem.with_C(grid[k]) for k in (len(grid) // 2, -1))
    path = f"path of {len(grid)} C"
    times = interleaved(
        {
            path: lambda: regularization_path(problem, list(grid)),
            "fit at the middle C": lambda: ProximalNewton().solve(middle),
            "fit at the last C": lambda: ProximalNewton().solve(last),
        },
        most=7,
    )
    seconds = {name: statistics.median(taken) for name, taken in times.items()}
    for name, taken in seconds.items():
        fits = seconds[path] / taken
        section.add(name, show_seconds(taken), "" if name == path else f"{fits:.1f}", fits=fits)
    fits = seconds[path] / seconds["fit at the middle C"]
    section.aim("a path costs at most 10 fits", f"{fits:.1f} at the middle C", fits <= 10)
    return section


def bench_wide(options: Options) -> Section:
    """Measure time and memory of a path with many sparse features."""
    n, d, density = (10_000, 1_000, 0.02) if options.quick else (100_000, 10_000, 0.02)
    section = Section(
        "wide",
        "A path over many sparse features",
        f"{n:,} × {d:,} CSR at {density:.0%}, 500 queries, 3 levels, l1, 50 values of C from the "
        "first feature to 10,000 times that. In a process of its own: the most memory that it has "
        "during the path, without X and what it held with everything imported and compiled",
        ["path", "features at the end", "data", "memory beyond the data", "part of the data"],
    )
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=density, rng=rng, format="csr")
    w = np.where(rng.random(d) < 0.01, rng.standard_normal(d), 0.0)
    scores = X @ w + 0.1 * rng.standard_normal(n)
    y = np.digitize(scores, np.quantile(scores, [0.6, 0.9])).astype(float)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "wide.npz")
        np.savez(file, data=X.data, indices=X.indices, indptr=X.indptr, y=y, d=d)
        seconds, n_features, more = next(from_process(wide_path, file, cap=1800))
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    section.add(
        show_seconds(seconds), str(n_features), f"{size / 1e6:.0f} MB", f"{more / 1e6:.0f} MB",
        f"{more / size:.0%}",
    )  # fmt: skip
    section.aim("at most 20 % beyond the data", f"{more / size:.0%}", more <= 0.2 * size)
    return section


def wide_path(file: Path) -> Iterator[tuple[float, int, int]]:
    """Yield the seconds of a path, its number of features at the end, and its memory."""
    rng = np.random.default_rng(0)
    tiny = sparse.random_array((200, 50), density=0.2, rng=rng, format="csr")
    _path_over(RankingData(tiny, np.arange(200) % 3, np.arange(200) // 20))  # compiles the kernels
    before = forget_high_water()
    with np.load(file) as saved:
        n_docs, d = len(saved["y"]), int(saved["d"])
        X = sparse.csr_array((saved["data"], saved["indices"], saved["indptr"]), (n_docs, d))
        data = RankingData(X, saved["y"], np.arange(n_docs) * 500 // n_docs)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    forget_high_water()
    started = time.perf_counter()
    path = _path_over(data)
    seconds = time.perf_counter() - started
    yield seconds, int(path.n_features[-1]), high_water() - before - size


def _path_over(data: RankingData) -> RegularizationPath:
    problem = make_problem(data, penalty=L1())
    assert isinstance(problem, Problem)
    return regularization_path(problem)


SECTIONS = {
    "table-iv": bench_table_iv, "grids": bench_grids, "speed": bench_speed,
    "path": bench_path, "wide": bench_wide, "correlated": bench_correlated, "raw": bench_raw,
}  # fmt: skip

if __name__ == "__main__":
    run_sections(__doc__, "sparse", SECTIONS)
