"""Comparison of ``solver="auto"`` with all preconditioners and other solvers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve

from linrank import open_store
from linrank.problem import Problem, make_problem
from linrank.solvers import make_solver
from linrank.solvers.smooth import HESSIAN, Estimate, estimate_hessian

from .plots import draw, line_style
from .shapes import QUICK, SHAPES, available, kept
from .tools import Options, Section, from_process, pinned, show_seconds, stop_after

CLOSE = (1e-2, 1e-6)  #: relative distances (f − f*)/f* at which time is taken
TIGHT = 1e-8  #: tolerance of the fit that determines f*
RANK = 500  #: sampled documents of the low-rank preconditioner
MOST_NUMBERS = 2e9  #: largest rows × features of the matrix of an exact Hessian


def bench_choices(options: Options) -> Section:
    """Measure the seconds to the optimum of each solver and preconditioner."""
    cap = 5.0 if options.quick else 30.0
    section = Section(
        "choices",
        "Solvers and preconditioners",
        "Seconds from w = 0 until (f − f*)/f* is at most the distance, with the Hessian products "
        "used, each in a process of its own, medians of up to 3 fits. diagonal, low-rank (a "
        f"diagonal and {RANK} documents), sampled (20 or 160 rows for each feature) and exact are "
        "what Newton's "
        "method is preconditioned with; auto chooses. auto / best is not known (—) and not judged "
        "where no choice arrived, or none but auto; where another arrived and auto did not, the "
        "goal is missed",
        ["data", "distance", *CHOICES, "auto / best"],
    )
    with pinned(options.threads):
        for name in available():
            part = QUICK if options.quick else 1.0
            _compare(section, name, part, options.threads, cap)
    for close in CLOSE:
        section.aim_at_most(
            f"to {close:g}, auto takes at most 1.25 times as long as the best single choice", 1.25,
            {own["data"]: np.inf if own["late"] else own["ratio"] for own in section.numbers
             if own["close"] == close},
        )  # fmt: skip
    drawn = [
        own
        for own in section.numbers
        if own["data"] in ("web", "wide", "text") and own["close"] == CLOSE[-1]
    ]
    draw(
        options.out / "choices.svg",
        [lambda axes, own=own: _draw_curves(axes, own) for own in drawn],
    )
    return section


def _compare(section: Section, name: str, part: float, threads: int, cap: float) -> None:
    optimum = list(from_process(run_tight, name, part, threads, cap=10 * cap))
    found: dict[str, list[dict[str, Any]]] = {}
    for choice in CHOICES:
        runs = from_process(run_choice, name, part, threads, choice, cap, cap=2 * cap + 60)
        found[choice] = list(runs)
    ends = [run["curve"][-1][1] for runs in found.values() for run in runs]
    lowest = min([*optimum, *ends], default=None)
    for close in CLOSE:
        _add_row(section, name, close, found, lowest, cap)


def _add_row(
    section: Section,
    name: str,
    close: float,
    found: dict[str, list[dict[str, Any]]],
    lowest: float | None,
    cap: float,
) -> None:
    arrivals = {choice: _arrival(runs, lowest, close) for choice, runs in found.items()}
    auto = arrivals["auto"]
    others = [own[0] for choice, own in arrivals.items() if choice != "auto" and own is not None]
    ratio = auto[0] / min(others) if others and auto is not None else None
    cells = [
        "—" if not found[choice]
        else f"> {cap:.0f} s" if own is None
        else f"{show_seconds(own[0])} ({own[1]})"
        for choice, own in arrivals.items()
    ]  # fmt: skip
    section.add(
        name, f"{close:g}", *cells, "—" if ratio is None else f"{ratio:.2f}",
        data=name, close=close, ratio=ratio, late=auto is None and bool(others), best=lowest,
        runs=found,
    )  # fmt: skip


def _arrival(
    runs: list[dict[str, Any]], best: float | None, close: float
) -> tuple[float, int] | None:
    """Return the median seconds to a distance, and the products; None if most runs failed."""
    if best is None or not runs:
        return None
    goal = (1 + close) * best
    steps = [next((step for step in run["curve"] if step[1] <= goal), None) for run in runs]
    median = statistics.median(np.inf if step is None else step[0] for step in steps)
    products = max(0 if step is None else step[2] for step in steps)
    return (median, products) if np.isfinite(median) else None


def run_tight(name: str, part: float, threads: int) -> Iterator[float]:
    """Yield the optimum."""
    yield make_solver("auto", tol=TIGHT).solve(_problem(name, part, threads)).objective


def run_choice(
    name: str, part: float, threads: int, choice: str, cap: float
) -> Iterator[dict[str, Any]]:
    """Yield objectives and seconds of up to 3 fits, after one that compiles."""
    solver, estimate = CHOICES[choice]
    problem = _problem(name, part, threads)
    if choice == "exact" and problem.n_features * problem.engine.data.n_docs > MOST_NUMBERS:
        return
    if (
        choice in ("exact", "sampled 20", "sampled 160")
        and problem.n_features > HESSIAN.dense_limit
    ):
        return
    if choice == "low-rank" and not problem.engine.data.is_sparse:
        return
    small = _problem(name, QUICK, threads)
    with patch("linrank.solvers.smooth.estimate_hessian", estimate):
        make_solver(solver, tol=0.1).solve(small)
        started = time.perf_counter()
        for _ in range(3):
            method = make_solver(solver, tol=1e-7, callback=stop_after(cap))
            result = method.solve(problem)
            yield {"curve": [(s.seconds, s.objective, s.products) for s in result.history]}
            if time.perf_counter() - started > cap / 2:
                break


def _problem(name: str, part: float, threads: int) -> Any:
    data = open_store(kept(name, part), mmap=False)
    problem = make_problem(data, n_threads=threads)
    return problem.with_C(SHAPES[name].weight_of_loss(data, problem.engine.n_pairs))


# Estimates of the Hessian of the loss, of which Newton's method uses one -----------------------


def _diagonal(problem: Problem, spent: int = 0) -> Estimate:
    return Estimate(problem.engine.hessian_diagonal(), problem.engine, HESSIAN.diagonal_cost)


def _sampled(per_feature: float) -> Callable[..., Estimate]:
    def estimate(problem: Problem, spent: int = 0) -> Estimate:
        engine = problem.engine
        n_rows = int(min(engine.data.n_docs, per_feature * problem.n_features))
        few = n_rows < engine.largest_query / 2
        H = engine.hessian_of_documents(n_rows) if few else engine.hessian(n_rows)
        return Estimate(H, engine, 3.0)

    return estimate


class LowRank:
    """Low-rank preconditioner C·(D + B'B), with the rows of B from a sample of documents.

    It replaces the matrix or diagonal that is passed to `linrank.solvers.smooth.invert`.
    """

    ndim = 1

    def __init__(self, D: Any, B: Any) -> None:
        self.D, self.B = D, B

    def __rmul__(self, C: float) -> LowRank:
        return LowRank(C * self.D, np.sqrt(C) * self.B)

    def __add__(self, other: float) -> LowRank:
        return LowRank(self.D + other, self.B)

    def __rtruediv__(self, one: float) -> LowRank:
        """Return the inverse, by Woodbury's formula."""
        self.factor = cho_factor(
            (self.B @ (self.B / self.D).T).toarray() + np.eye(self.B.shape[0]), lower=True
        )
        return self

    def __mul__(self, v: Any) -> Any:
        """Return the inverse times v."""
        z = v / self.D
        return z - (self.B.T @ cho_solve(self.factor, self.B @ z)) / self.D


def _low_rank(problem: Problem, spent: int = 0) -> Estimate:
    engine = problem.engine
    curvature, diagonal = engine.state.curvature, engine.hessian_diagonal()
    picks = ((np.arange(RANK) + 0.5) * engine.data.n_docs / RANK).astype(np.int64)
    rows = np.argsort(curvature, kind="stable")[picks]
    share = curvature[rows] * curvature.sum() / max(curvature[rows].sum(), 1e-300)
    B = sparse.diags_array(np.sqrt(share)) @ engine.data.X[rows]
    rest = np.maximum(diagonal - B.multiply(B).sum(axis=0), 0.0)
    return Estimate(LowRank(rest, sparse.csr_array(B)), engine, 3.0)


def _exact(problem: Problem, spent: int = 0) -> Estimate:
    return Estimate(problem.engine.hessian(), problem.engine, 3.0)


CHOICES: dict[str, tuple[str, Callable[..., Estimate]]] = {
    "auto": ("auto", estimate_hessian),
    "diagonal": ("newton", _diagonal),
    "low-rank": ("newton", _low_rank),
    "sampled 20": ("newton", _sampled(20)),
    "sampled 160": ("newton", _sampled(160)),
    "exact": ("newton", _exact),
    "tron": ("tron", estimate_hessian),
    "lbfgs": ("lbfgs", estimate_hessian),
}


def _draw_curves(axes: Any, own: dict[str, Any]) -> None:
    for k, (choice, runs) in enumerate(own["runs"].items()):
        if runs:
            seconds, objective, _ = np.array(runs[0]["curve"]).T
            gap = np.maximum(objective / own["best"] - 1, 1e-9)
            axes.plot(seconds, gap, label=choice, **line_style(k))
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="(f − f*)/f*", title=own["data"])
    axes.legend(fontsize=6)
