"""Tables 4 to 9 of Lee & Lin 2014: RankSVM beside regression, random forests and boosting."""

from __future__ import annotations

import time
import warnings
from functools import cache
from typing import Any

import numpy as np

from benchmarks.shapes import SHAPES
from benchmarks.sparse_letor import read_parts
from benchmarks.tools import Options, Section, show_seconds
from linrank import RankingData
from linrank.baselines import GradientBoostingRanker, LinearSVRRanker, RandomForestRanker
from linrank.errors import NotConvergedWarning
from linrank.problem import make_problem
from linrank.solvers import PaperTron

from .lee2014_data import measure, real_sets
from .sections import COMPARED, GENERATED, compare

#: log₂ of the best C of L1- and L2-loss SVR (table 4), by set: pairwise accuracy, NDCG.
TABLE_4 = {
    ("absolute", "MQ2007"): (8, 8), ("absolute", "MQ2008"): (8, 8),
    ("squared", "MQ2007"): (-7, -11), ("squared", "MQ2008"): (-1, -4),
}  # fmt: skip
#: Pairwise accuracy and NDCG of table 5.
TABLE_5 = {
    ("absolute", "MQ2007"): (0.6406, 0.4756), ("absolute", "MQ2008"): (0.7772, 0.4153),
    ("squared", "MQ2007"): (0.6856, 0.5157), ("squared", "MQ2008"): (0.8217, 0.4450),
}  # fmt: skip
#: Pairwise accuracy, NDCG and seconds of tables 6 and 7, by set, method and number of trees.
TREES = {
    ("MQ2007", "forest", 40): (0.6616, 0.4959, 14.8),
    ("MQ2007", "gbdt", 100): (0.6978, 0.5182, 1.4),
    ("MQ2008", "forest", 40): (0.8036, 0.4541, 2.3),
    ("MQ2008", "gbdt", 100): (0.8283, 0.4706, 0.4),
    ("MQ2007", "forest", 1000): (0.6907, 0.5221, 345.3),
    ("MQ2007", "gbdt", 1000): (0.6758, 0.4892, 13.7),
    ("MQ2008", "forest", 1000): (0.8260, 0.4675, 52.0),
    ("MQ2008", "gbdt", 1000): (0.7978, 0.4491, 3.6),
}  # fmt: skip
NAMES = ("pairwise accuracy", "NDCG")
LIMIT = 1000  #: iterations after which LIBLINEAR 1.92 stops
DUAL_EPS = 0.1  #: tolerance of LIBLINEAR for L1-loss SVR


@cache
def fit_svr(name: str, loss: str, k: int, max_iter: int = LIMIT, seed: int = 0) -> LinearSVRRanker:
    """Fit SVR with C = 2^k to fold 1 of a set, with LIBLINEAR's own tolerance for the loss."""
    tol = DUAL_EPS if loss == "absolute" else 1e-3
    ranker = LinearSVRRanker(2.0**k, loss=loss, tol=tol, max_iter=max_iter, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # the tables show the iterations
        return ranker.fit(read_parts(name, 1)[0])


def table_4(options: Options) -> Section:
    """Choose C of L2-loss SVR on the validation part (table 4)."""
    section = Section(
        "table-4", "Table 4: the best C of linear SVR on the validation part",
        "C is the best of 2^-15, 2^-14, …, 2^10 on the validation part, for L2-loss SVR by "
        "LIBLINEAR's TRON at its default tolerance. For L1 loss the paper chose 2^8 on both sets, "
        "where LIBLINEAR stopped at its limit of iterations. That choice cannot be checked: "
        "the optimum is w = 0 for every C (see the next table)",
        ["loss", "data", "measure", "published C", "linrank's C", "validation, published C",
         "validation, linrank's C"],
    )  # fmt: skip
    grid = range(-15, 11, 5 if options.quick else 1)
    for name in real_sets(options):
        valid = read_parts(name, 1)[1]
        found = {k: measure(valid, fit_svr(name, "squared", k).predict(valid.X)) for k in grid}
        for what, published in zip(NAMES, TABLE_4["squared", name], strict=True):
            chosen = max(found, key=lambda k, what=what: found[k][what])
            at = min(found, key=lambda k, published=published: abs(k - published))
            section.add(
                "L2", name, what, f"2^{published}", f"2^{chosen}", f"{found[at][what]:.4f}",
                f"{found[chosen][what]:.4f}", data=name, measure=what, published=published,
                linrank=chosen,
            )  # fmt: skip
    return section


def table_5(options: Options) -> Section:
    """Compare SVR with the published figures, and show where L1-loss SVR stopped (table 5)."""
    section = Section(
        "table-5-svr", "Table 5: linear SVR",
        "Quality on the test part at the C of table 4. The paper marks its figures of L1-loss SVR: "
        f"LIBLINEAR stopped at its limit of {LIMIT:,} iterations. ± is the standard deviation over "
        "three orders of the documents",
        [*COMPARED],
    )  # fmt: skip
    limit = 100 if options.quick else LIMIT
    for (loss, name), figures in TABLE_5.items():
        if name in real_sets(options):
            for what, k, figure in zip(NAMES, TABLE_4[loss, name], figures, strict=True):
                _compare_svr(section, loss, name, what, k, figure, limit)
    for name in real_sets(options):
        _longer(section, name, (100,) if options.quick else (100, LIMIT))
    return section


def _compare_svr(
    section: Section, loss: str, name: str, what: str, k: int, figure: float, limit: int
) -> None:
    test = read_parts(name, 1)[2]
    seeds = range(3 if loss == "absolute" else 1)
    fits = [fit_svr(name, loss, k, limit, seed) for seed in seeds]
    values = [measure(test, fit.predict(test.X))[what] for fit in fits]
    stopped = loss == "absolute" and max(fit.n_iter_ for fit in fits) >= limit
    reason = f"stopped at {limit:,} iterations, far from the optimum" if stopped else ""
    spread = float(np.std(values)) if len(values) > 1 else None
    label = f"{'L1' if loss == 'absolute' else 'L2'}-loss SVR, {name}, {what}, C = 2^{k}"
    compare(section, label, figure, float(np.mean(values)), reason, spread=spread)


def _longer(section: Section, name: str, limits: tuple[int, ...]) -> None:
    """Add notes on the objective of L1-loss SVR, and whether w = 0 is its optimum."""
    train = read_parts(name, 1)[0]
    total = float(np.abs(train.y).sum())
    shown = [
        f"{np.abs(train.X @ fit_svr(name, 'absolute', 8, n).coef_ - train.y).sum() / total:.2f} "
        f"after {n:,} iterations"
        for n in limits
    ]
    optimal = "proves" if zero_is_optimal(train) else "does not prove"
    section.notes.append(
        f"L1-loss SVR on {name}, C = 2^8: the loss is {' and '.join(shown)}, relative to that of "
        f"w = 0. A certificate {optimal} that w = 0, which ranks nothing, is the optimum for "
        f"every C ({np.mean(train.y == 0):.0%} of the labels are 0, and there is no intercept). "
        "Figures of this method are those of the iteration at which it stops."
    )


def zero_is_optimal(data: RankingData, most: int = 1000) -> bool:
    """Return whether w = 0 is proved to minimise ½‖w‖² + C·Σ|w'x_i − y_i| for every C.

    This holds if Σ_{y_i > 0} x_i = Σ_{y_i = 0} s_i x_i with some |s_i| ≤ 1. Such s are found by
    projections on the solutions of the equation and on a slightly smaller box in turns.
    """
    above, others = data.X[data.y > 0].sum(axis=0), data.X[data.y == 0]
    gram, s = np.linalg.pinv(others.T @ others), np.zeros(len(others))
    for _ in range(most):
        s = np.clip(s, -0.999, 0.999)
        s += others @ (gram @ (above - others.T @ s))
        if np.abs(s).max() <= 1.0:
            return bool(np.abs(above - others.T @ s).max() <= 1e-9 * above.max())
    return False


# Trees -----------------------------------------------------------------------------------------


def tables_6_7(options: Options) -> Section:
    """Compare random forests and GBDT with the published figures (tables 6 and 7)."""
    section = Section(
        "tables-6-7", "Tables 6 and 7: random forests and GBDT",
        "The paper's settings: forests of 40 or 1,000 trees with ⌊√n⌋ features per split; GBDT "
        "with 100 or 1,000 trees of depth 4 and learning rate 0.1. The programs differ: Rt-Rank "
        "and pGBRT in the paper, scikit-learn here. The paper used eight cores. Forests of 40 "
        "trees are fitted with three seeds, and ± is their standard deviation",
        ["data", "method", "trees", "measure", "published", "linrank", "difference",
         "published time", "time"],
    )  # fmt: skip
    for (name, method, n_trees), (accuracy, ndcg, published) in TREES.items():
        if name not in real_sets(options) or (options.quick and n_trees == 1000):
            continue
        found, seconds = _fit_trees(name, method, n_trees, options)
        for what, figure in zip(NAMES, (accuracy, ndcg), strict=True):
            values = [own[what] for own in found]
            spread = f" ± {np.std(values):.4f}" if len(values) > 1 else ""
            mean = float(np.mean(values))
            section.add(
                name, method, f"{n_trees:,}", what, f"{figure:.4f}", f"{mean:.4f}{spread}",
                f"{mean - figure:+.4f}", f"{published} s", show_seconds(seconds),
                data=name, method=method, trees=n_trees, measure=what, published=figure,
                linrank=mean, seconds=seconds,
            )  # fmt: skip
    section.notes.append(
        "As in the paper, more trees help forests, and 1,000 boosted trees overfit. Differences of "
        "some 0.01 are those of the programs: bins, bootstrap samples and stopping of growth."
    )
    return section


def _fit_trees(
    name: str, method: str, n_trees: int, options: Options
) -> tuple[list[dict[str, float]], float]:
    train, _, test = read_parts(name, 1)
    kind: Any = RandomForestRanker if method == "forest" else GradientBoostingRanker
    found, started = [], time.perf_counter()
    seeds = range(3 if n_trees < 1000 and method == "forest" and not options.quick else 1)
    for seed in seeds:
        ranker = kind(n_estimators=n_trees, n_threads=options.threads, random_state=seed)
        found.append(measure(test, ranker.fit(train).predict(test.X)))
    return found, (time.perf_counter() - started) / len(seeds)


# Sparse data -----------------------------------------------------------------------------------


def tables_8_9(options: Options) -> Section:
    """Compare RankSVM and random forests on sparse data (tables 8 and 9)."""
    section = Section(
        "tables-8-9", "Tables 8 and 9: sparse data",
        f"{GENERATED} (one query, many levels, some 20 non-zeros per row), and smaller. Forests "
        "have 40 trees. RankSVM has C = 1, as in the paper, and C = l/p, which makes the loss "
        "as large as a sum over documents. The statement of the paper is that forests take several "
        "thousand times longer (1,500 to 1,900 in its table) and are not clearly better",
        ["data", "l", "n", "n̄", "C", "RankSVM: time", "accuracy", "forest: time", "accuracy",
         "times longer"],
    )  # fmt: skip
    for name, sizes, figures in (
        ("CTR (0.1%), published", (11_382, 73_581, 22.6), (4.3, 0.6083, 6343.3, 0.6045)),
        ("KDD2012b (0.025%), published", (17_005, 74_026, 35.3), (2.7, 0.6816, 5223.1, 0.6972)),
    ):
        _add_sparse(section, name, sizes, 1.0, figures)
    for part in (0.0002,) if options.quick else (0.0006, 0.0012):
        data = SHAPES["clicks"].make(part)
        edge = data.n_docs * 3 // 4
        train, test = (
            RankingData(data.X[a:b], np.round(data.y[a:b], 2))
            for a, b in ((0, edge), (edge, data.n_docs))
        )
        _compare_sparse(section, train, test, options)
    section.notes.append(
        "The accuracies of the paper cannot be expected from other data: with C = 1, the generated "
        "data are overfitted. How much longer a forest takes depends on its program. That of "
        "scikit-learn is far faster than the paper's, and its cost grows faster with l and n."
    )
    return section


def _compare_sparse(
    section: Section, train: RankingData, test: RankingData, options: Options
) -> None:
    started = time.perf_counter()
    forest = RandomForestRanker(random_state=0, n_threads=options.threads).fit(train)
    long = time.perf_counter() - started
    bushy = measure(test, forest.predict(test.X))[NAMES[0]]
    problem = make_problem(train, 1.0, n_threads=options.threads)
    sizes = (train.n_docs, train.n_features, train.X.nnz / train.n_docs)
    for C in (1.0, train.n_docs / problem.engine.n_pairs):
        PaperTron(max_iter=1).solve(problem.with_C(C))  # compiles the kernels
        result = PaperTron(tol=1e-3).solve(problem.with_C(C))
        linear = measure(test, test.X @ result.coef)[NAMES[0]]
        _add_sparse(section, "generated", sizes, C, (result.seconds, linear, long, bushy))


def _add_sparse(
    section: Section, name: str, sizes: tuple[int, int, float], C: float,
    figures: tuple[float, float, float, float],
) -> None:  # fmt: skip
    seconds, linear, long, bushy = figures
    section.add(
        name, f"{sizes[0]:,}", f"{sizes[1]:,}", f"{sizes[2]:.1f}", f"{C:.2g}",
        show_seconds(seconds), f"{linear:.4f}", f"{long:,.3g} s", f"{bushy:.4f}",
        f"{long / seconds:,.0f}", data=name, C=C, figures=list(figures),
    )  # fmt: skip
