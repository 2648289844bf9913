"""Sparse rankers: ``make bench-sparse``, or ``python -m benchmarks.sparse``.

Sections: ``letor`` (the protocol of Laporte et al. 2014 on MQ2007 and MQ2008), ``speed`` (one fit
against FISTA on listed pairs and scikit-learn's l1), ``path`` (fifty C against one fit) and
``wide`` (100,000 × 10,000 at 2 % density). ``letor``, ``speed`` and ``path`` need the LETOR 4.0
folders that ``LINRANK_DATA`` names.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from linrank import RankingData, SparseRankSVMCV, evaluate, make_problem, read_letor
from linrank._threads import resolve_threads
from linrank.path import regularization_path, sparse_grid
from linrank.penalties import L1
from linrank.problem import SparseProblem
from linrank.solvers import FISTA, ProximalNewton

from .foundation import machine
from .tools import Section, markdown, show_seconds, stop_after

N_FEATURES = 46
#: Laporte et al. 2014, tables IV to VI: the sparsity ratio, and the best method's MAP and NDCG@10.
PAPER_RATIO = {
    "MQ2008": {"l1": 0.39, "mcp": 0.27, "log": 0.09, "lp": 0.07},
    "MQ2007": {"l1": 0.60, "mcp": 0.19, "log": 0.29, "lp": 0.05},
}
PAPER_BEST = {"MQ2008": (0.4804, 0.2323), "MQ2007": (0.4672, 0.4445)}


def read_fold(name: str, fold: int, part: str) -> RankingData:
    file = Path(os.environ["LINRANK_DATA"], name, f"Fold{fold}", f"{part}.txt")
    return read_letor(file, n_features=N_FEATURES)


def bench_letor(quick: bool) -> Section:
    """Five folds, C by MAP on the validation part, measured on the test part."""
    section = Section(
        "letor",
        "Sparse rankers by the protocol of Laporte et al. 2014",
        "Squared hinge, means over the folds; C from 50 values by MAP on the validation part; "
        "metrics in LETOR 4.0's conventions. The paper gives the figure of the best method only, "
        "and says for the others whether they are significantly below it",
        ["set", "penalty", "MAP", "NDCG@10", "features used", "sparsity ratio", "paper: ratio",
         "paper: best MAP", "paper: best NDCG@10", "seconds"],
    )  # fmt: skip
    for name in PAPER_RATIO:
        for penalty, paper in PAPER_RATIO[name].items():
            started, found = time.perf_counter(), []
            for fold in range(1, 3 if quick else 6):
                train, valid, test = (read_fold(name, fold, p) for p in ("train", "vali", "test"))
                ranker = SparseRankSVMCV(metric="map", penalty=penalty, tol=1e-4)
                ranker.fit(train.X, train.y, train.qid, valid=(valid.X, valid.y, valid.qid))
                scores = ranker.predict(test.X)
                means = evaluate(
                    test.y, scores, test.qid, ["map", "ndcg@10"], flavour="letor4"
                ).mean
                found.append([*means.values(), ranker.n_selected_, ranker.sparsity_ratio_])
            mean = np.mean(found, axis=0)
            best = PAPER_BEST[name]
            section.add(
                name, penalty, f"{mean[0]:.4f}", f"{mean[1]:.4f}", f"{mean[2]:.1f}",
                f"{mean[3]:.2f}", f"{paper:.2f}", f"{best[0]:.4f}", f"{best[1]:.4f}",
                f"{time.perf_counter() - started:.1f}", folds=np.array(found).tolist(),
            )  # fmt: skip
    return section


def _first_within(run: Callable[[float], tuple[float, float]], best: float) -> tuple[float, float]:
    """The seconds of the loosest tolerance that comes within 1e-4 of the optimum."""
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        seconds, value = run(tol)
        if value <= best * (1 + 1e-4):
            break
    return seconds, value / best - 1


def bench_speed(quick: bool) -> Section:
    """One l1 fit to a relative objective of 1e-4, by four roads."""
    section = Section(
        "speed",
        "l1 to within 1e-4 of the optimum",
        "MQ2007 fold 1, squared hinge, C = 1e-3 and 1e-2; the fastest of the tolerances that get "
        "there. FISTA as in the paper sums over listed pairs and steps by 1/(2C·Σ‖x̃‖²); "
        "LinearSVC solves the same problem on the differences x_i − x_j, made beforehand. Stopped "
        "after 300 s",
        ["C", "method", "seconds", "× proximal Newton", "(f − f*)/f*"],
    )
    data = read_fold("MQ2007", 1, "train")
    listed = make_problem(data, counting="explicit", penalty=L1()).engine
    engine = make_problem(data, penalty=L1()).engine
    plan = listed._plan
    start = np.repeat(data.query_ptr[:-1], np.diff(plan.query_nodes))
    differences = data.X[start + plan.upper] - data.X[start + plan.lower]
    for C in (1e-3,) if quick else (1e-3, 1e-2):
        problem = SparseProblem(engine, C, L1())
        best = ProximalNewton(tol=1e-10).solve(problem).objective
        seconds: dict[str, tuple[float, float]] = {}

        def newton(tol: float, problem: SparseProblem = problem) -> tuple[float, float]:
            result = ProximalNewton(tol=tol).solve(problem)
            return result.seconds, result.objective

        def fista(tol: float, step: str, problem: SparseProblem) -> tuple[float, float]:
            method = FISTA(step=step, tol=tol, max_iter=10**6, callback=stop_after(300))
            result = method.solve(problem)
            return result.seconds, result.objective

        def linear_svc(tol: float, problem: SparseProblem = problem) -> tuple[float, float]:
            both = np.vstack([differences, -differences])
            labels = np.repeat([1, -1], len(differences))
            svc = LinearSVC(penalty="l1", dual=False, fit_intercept=False, C=problem.C / 2,
                            tol=tol, max_iter=1000)  # fmt: skip
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                svc.fit(both, labels)
            return time.perf_counter() - started, problem.value_grad(svc.coef_[0])[0]

        slow = SparseProblem(listed, C, L1())
        seconds["proximal Newton"] = _first_within(newton, best)
        seconds["FISTA, backtracking"] = _first_within(
            lambda tol, p=problem: fista(tol, "backtracking", p), best
        )
        seconds["FISTA as in the paper, listed pairs"] = fista(1e-4, "paper", slow)
        value = seconds["FISTA as in the paper, listed pairs"][1]
        seconds["FISTA as in the paper, listed pairs"] = (
            seconds["FISTA as in the paper, listed pairs"][0], value / best - 1,
        )  # fmt: skip
        seconds["LinearSVC on differences"] = _first_within(linear_svc, best)
        own = seconds["proximal Newton"][0]
        for name, (taken, away) in seconds.items():
            section.add(
                f"{C:g}", name, show_seconds(taken), f"{taken / own:.1f}", f"{away:.1e}",
                seconds=taken, away=away,
            )  # fmt: skip
    return section


def bench_path(quick: bool) -> Section:
    """Fifty values of C with warm starts against one fit at the largest."""
    section = Section(
        "path",
        "A path of 50 C against one fit",
        "MQ2007 fold 1, squared hinge, l1, tol 1e-3, C from the first feature to 10,000 times "
        "that; the fit is the one at the path's middle C, from zero",
        ["n of C", "path", "one fit", "in fits"],
    )
    problem = make_problem(read_fold("MQ2007", 1, "train"), penalty=L1())
    assert isinstance(problem, SparseProblem)
    grid = sparse_grid(problem, 10 if quick else 50)
    started = time.perf_counter()
    regularization_path(problem, list(grid))
    path = time.perf_counter() - started
    one = ProximalNewton().solve(problem.with_C(grid[len(grid) // 2])).seconds
    section.add(str(len(grid)), show_seconds(path), show_seconds(one), f"{path / one:.1f}")
    return section


def bench_wide(quick: bool) -> Section:
    """Many sparse features: time and memory of a path."""
    n, d, density = (10_000, 1_000, 0.02) if quick else (100_000, 10_000, 0.02)
    section = Section(
        "wide",
        "A path over many sparse features",
        f"{n:,} × {d:,} CSR at {density:.0%}, 500 queries, 3 levels, l1, 20 values of C from the "
        "first feature to 100 times that",
        ["path", "features at the end", "memory beyond the data", "part of the data"],
    )
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, d), density=density, rng=rng, format="csr")
    w = np.where(rng.random(d) < 0.01, rng.standard_normal(d), 0.0)
    scores = X @ w + 0.1 * rng.standard_normal(n)
    y = np.digitize(scores, np.quantile(scores, [0.6, 0.9])).astype(float)
    data = RankingData(X, y, np.arange(n) * 500 // n)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    problem = make_problem(data, penalty=L1())
    assert isinstance(problem, SparseProblem)
    path = regularization_path(problem, list(sparse_grid(problem, 20, 100.0)))
    seconds = time.perf_counter() - started
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    section.add(
        show_seconds(seconds), str(path.n_features[-1]), f"{more / 1e6:.0f} MB",
        f"{more / size:.0%}",
    )  # fmt: skip
    return section


SECTIONS = {"letor": bench_letor, "speed": bench_speed, "path": bench_path, "wide": bench_wide}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="less data, to try the program")
    arguments = parser.parse_args()
    for name in arguments.sections or SECTIONS:
        if name != "wide" and "LINRANK_DATA" not in os.environ:
            print(f"{name}: skipped; it needs LINRANK_DATA")
            continue
        section = SECTIONS[name](arguments.quick)
        section.machine = machine(resolve_threads())
        print("\n" + markdown(section.as_dict()))


if __name__ == "__main__":
    main()
