"""Sparse fits that are hard: nearly equal features, and raw features with scales from 1 to 1e8."""

from __future__ import annotations

import statistics
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from linrank import RankingData, SparseRankSVMCV, make_problem, make_ranking, open_store
from linrank.penalties import make_penalty
from linrank.problem import Problem
from linrank.solvers.solver import make_solver
from linrank.training.selection import regularization_path, sparse_grid, sparse_path

from .shapes import QUICK, SHAPES, available, kept
from .tools import Options, Section, interleaved, show_seconds

N_ROWS, N_COLUMNS = 2300, 754  #: size of the data with nearly equal features
LONGEST_PATH = 3.0  #: largest time of a path over them, in seconds
LARGEST_RATIO = 2.0  #: largest time on raw features, relative to scaled features
PLACES = (1e2, 1e4, 1e6, 1e8)  #: C of the fits, relative to the first C that selects a feature
Columns = NDArray[np.float64]


def ramps(X: Columns, n_bins: int) -> Columns:
    """Return piecewise linear ramps from 0 to 1 between the quantiles of each feature."""
    found = []
    for x in X.T:
        knots = np.unique(np.quantile(x, np.linspace(0, 1, n_bins + 1)))
        found += [np.clip((x - a) / (b - a), 0, 1) for a, b in pairwise(knots)]
    return np.array(found).T


def steps(X: Columns, n_bins: int) -> Columns:
    """Return whether each feature is above its quantiles, as 0 and 1."""
    inner = np.linspace(0, 1, n_bins + 1)[1:-1]
    return np.array([x > a for x in X.T for a in np.unique(np.quantile(x, inner))], float).T


def filled(X: Columns, original: Columns) -> Columns:
    """Return X with copies of the original features, with 1 % of noise, up to `N_COLUMNS`."""
    rng = np.random.default_rng(0)
    while X.shape[1] < N_COLUMNS:
        noise = 0.01 * original.std(axis=0) * rng.standard_normal(original.shape)
        X = np.hstack([X, original + noise])
    return np.ascontiguousarray(X[:, :N_COLUMNS])


def hard_data() -> dict[str, RankingData]:
    """Return data with many nearly equal features, by name; half of the rows are held out."""
    n_queries = N_ROWS // 10
    sources = {"generated": make_ranking(n_queries, 20, 46, correlation=0.7, random_state=0)}
    if "mq2008" in available():
        data = SHAPES["mq2008"].make(1.0)
        last = int(data.query_ptr[np.searchsorted(data.query_ptr, 2 * N_ROWS)])
        sources["MQ2008 fold 1"] = data.take(np.arange(last))
    found = {}
    for name, data in sources.items():
        X = np.asarray(data.X, float)
        wider = {
            "16 ramps": np.hstack([X, ramps(X, 16)]),
            "8 ramps and 7 steps": np.hstack([X, ramps(X, 8), steps(X, 8)]),
            "noisy copies": X,
        }
        for kind, columns in wider.items():
            found[f"{name}, {kind}"] = RankingData(filled(columns, X), data.y, data.qid)
    for correlation in (0.95, 0.99):
        found[f"generated, correlation {correlation}"] = make_ranking(
            n_queries, 20, N_COLUMNS, correlation=correlation, random_state=0
        )
    return found


def halves(data: RankingData) -> tuple[RankingData, RankingData]:
    """Return the first half of the queries, and the others."""
    middle = int(data.query_ptr[data.n_queries // 2])
    return data.take(np.arange(middle)), data.take(np.arange(middle, data.n_docs))


def bench_correlated(options: Options) -> Section:
    """Measure paths over nearly equal features."""
    n = 5 if options.quick else 50
    section = Section(
        "correlated",
        "A path over nearly equal features",
        f"About {N_ROWS:,} × {N_COLUMNS}, squared hinge, l1, tol 1e-3, {n} values of C from the "
        "first feature to 10,000 times that. SparseRankSVMCV chooses C on held-out rows, and "
        "extends the path if the last C is best. Medians of three runs, taken in turns",
        ["data", "sparse_path", "features at the end", "largest gap", "SparseRankSVMCV"],
    )
    seconds: dict[str, float | None] = {}
    for name, both in hard_data().items():
        data, other = halves(both)
        problem = make_problem(data, penalty="l1")
        Cs = sparse_grid(problem, n).tolist()
        rows, held_out = ((part.X, part.y, part.qid) for part in (data, other))
        path, _ = sparse_path(data, "l1", Cs)
        grid = Cs if options.quick else None
        times = interleaved(
            {
                "path": lambda data=data, Cs=Cs: sparse_path(data, "l1", Cs),
                "cv": lambda rows=rows, held_out=held_out, grid=grid: SparseRankSVMCV(
                    grid, normalize=None, scale=None
                ).fit(*rows, valid=held_out),
            },
            most=1 if options.quick else 3,
        )
        taken = {what: statistics.median(each) for what, each in times.items()}
        gap = max(result.gap or 0.0 for result in path.results)
        section.add(
            name, show_seconds(taken["path"]), str(path.n_features[-1]), f"{gap:.1e}",
            show_seconds(taken["cv"]), **taken,
        )  # fmt: skip
        seconds[name] = taken["path"]
    section.aim_at_most(f"a path takes at most {LONGEST_PATH:g} s", LONGEST_PATH, seconds)
    return section


def bench_raw(options: Options) -> Section:
    """Compare sparse fits on raw features with fits on scaled features."""
    section = Section(
        "raw",
        "Sparse fits on raw features",
        "The shapes web and web-scaled, 240 k × 136, tol 1e-3. Fits are from zero, at multiples of "
        "the first C that selects a feature; a path has 50 values of C up to 10,000 times that C. "
        "Medians of three runs, taken in turns",
        ["penalty", "what", "scaled", "raw", "raw/scaled", "features, scaled", "features, raw"],
    )
    part = QUICK if options.quick else 1.0
    ratios: dict[str, float | None] = {}
    for penalty in ("l1", "mcp", "log"):
        problems = {
            name: make_problem(open_store(kept(name, part)), penalty=make_penalty(penalty))
            for name in ("web-scaled", "web")
        }
        for place in (None, *PLACES):
            what = "path" if place is None else f"fit at {place:g}"
            found = [features_of(problem, place) for problem in problems.values()]
            times = interleaved(
                {
                    name: lambda problem=problem, place=place: features_of(problem, place)
                    for name, problem in problems.items()
                },
                most=1 if options.quick else 3,
            )
            scaled, raw = (statistics.median(each) for each in times.values())
            section.add(
                penalty, what, show_seconds(scaled), show_seconds(raw), f"{raw / scaled:.2f}",
                *(str(n) for n in found), scaled=scaled, raw=raw,
            )  # fmt: skip
            ratios[f"{penalty}, {what}"] = raw / scaled
    section.aim_at_most(
        f"raw features cost at most {LARGEST_RATIO:g} times as much", LARGEST_RATIO, ratios
    )
    return section


def features_of(problem: Problem, place: float | None) -> int:
    """Fit at one place of the path, or follow the path; return the number of features at the end.

    Places are relative to the first C with which l1 selects a feature.
    """
    if place is None:
        return int(regularization_path(problem).n_features[-1])
    solver = make_solver("auto", problem.engine.loss, problem.penalty)
    coef = solver.solve(problem.with_C(place * problem.smallest_C())).coef
    return int(np.count_nonzero(coef))
