"""Tables and figures of Laporte et al. 2014, sparse RankSVM."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.plots import line_style
from benchmarks.sparse_letor import read_parts
from benchmarks.tools import Options, Section, Sections, show_seconds
from linrank import RankingData, make_problem
from linrank._util.types import Vector
from linrank.papers.laporte2014 import LipschitzName
from linrank.penalties import L1, MCP, Log, Lp, make_penalty
from linrank.penalties.penalty import SeparablePenalty
from linrank.problem import Problem
from linrank.solvers import PaperFISTA, PaperReweighted, ProximalNewton, Result, Reweighted
from linrank.solvers.fista import dominating_engine, trace_of_hessian

from .laporte2014_study import figure_2, figure_3, letor_3, sets, table_iv, table_v, table_vi
from .sections import COMPARED, add_plot, compare

TITLE = "Laporte et al. 2014: Nonconvex regularizations for feature selection in ranking"
ABOUT = (
    "Tables and figures of the paper beside the figures that linrank finds. MQ2007 and MQ2008 are "
    "the paper's own data. The seven sets of LETOR 3.0 are not available."
)

#: Table III: features, queries, documents, preferences, documents and relevant ones per query.
TABLE_III = {
    "MQ2008": (46, 784, 15211, 80925, 19.4, 3.7),
    "MQ2007": (46, 1692, 69623, 404467, 41.1, 10.6),
}
COUNTED = ("features", "queries", "documents", "preferences", "documents per query",
           "relevant documents per query")  # fmt: skip
BOUNDS: tuple[LipschitzName, ...] = ("corrected", "printed")
MULTIPLE = 20.0  #: C, as a multiple of the smallest at which l1 selects a feature


# Figure 1 and table II -----------------------------------------------------------------------


def figure_1(options: Options) -> Section:
    """Draw the penalties with the parameters of figure 1, and check table II."""
    section = Section(
        "figure-1",
        "Figure 1 and table II: the penalties and their derivatives",
        "g(u) of linrank with the parameters of the figure, ε = 1 and γ = 1 (λ = 1), and p = 0.5. "
        "The derivatives of table II are computed from its formulas. The last column is the "
        "largest difference to linrank's at 400 weights from 0.01 to 4",
        ["penalty", "g(u)", "g'(u), table II", "g(0.5)", "g(2)", "largest difference of g'"],
    )
    u = np.linspace(0.01, 4.0, 400)
    rows: dict[str, tuple[SeparablePenalty, str, str, Vector]] = {
        "l1": (L1(), "u", "1", np.ones_like(u)),
        "l0.5": (Lp(), "u^p", "p·u^(p − 1)", 0.5 * u**-0.5),
        "log": (Log(epsilon=1.0), "log(1 + u/ε)", "1/(ε + u)", 1.0 / (1.0 + u)),
        "MCP": (MCP(gamma=1.0), "u − u²/2γλ up to γλ", "max(1 − u/γλ, 0)", np.maximum(1 - u, 0)),
    }
    for name, (penalty, formula, derivative, expected) in rows.items():
        at = penalty.curve(np.array([0.5, 2.0]))
        away = float(np.abs(penalty.slope(u) - expected).max())
        section.add(
            name, formula, derivative, f"{at[0]:.4f}", f"{at[1]:.4f}", f"{away:.0e}", away=away
        )

    def curves(axes: Any) -> None:
        for k, (name, (penalty, *_)) in enumerate(rows.items()):
            style = line_style(k) | {"marker": ""}
            w = np.linspace(-2.0, 2.0, 801)
            axes.plot(w, penalty.curve(np.abs(w)), label=name, **style)
        axes.plot([-2, -1e-3, 0, 1e-3, 2], [1, 1, 0, 1, 1], color="#888888", lw=0.8, label="l0")
        axes.set(title="penalties", xlabel="w", ylabel="g(|w|)", ylim=(0.0, 2.1))
        axes.legend()

    add_plot(section, options, "laporte2014-figure-1", "Penalties of figure 1", [curves])
    return section


# Table III -----------------------------------------------------------------------------------


def table_iii(options: Options) -> Section:
    """Count features, queries, documents and preferences of LETOR 4.0."""
    section = Section(
        "table-iii",
        "Table III: the data sets",
        "Counted in the test parts of the five folds, which are the whole set. A preference is a "
        "pair of documents of one query with different labels. A document is relevant if its label "
        "is at least 1. The seven sets of LETOR 3.0 are not available",
        COMPARED,
    )
    for name in sets(options):
        parts = [read_parts(name, fold)[2] for fold in range(1, 6)]
        for what, published, own in zip(COUNTED, TABLE_III[name], counts(parts), strict=True):
            compare(section, f"{name}, {what}", published, own, digits=1 if "per" in what else 0)
    return section


def counts(parts: list[RankingData]) -> tuple[float, ...]:
    """Return the numbers of table III."""
    n_queries, n_docs = (sum(getattr(part, own) for part in parts)
                         for own in ("n_queries", "n_docs"))  # fmt: skip
    preferences = sum(make_problem(part).engine.n_pairs for part in parts)
    relevant = sum(np.count_nonzero(part.y > 0) for part in parts)
    return (
        parts[0].n_features, n_queries, n_docs, preferences, n_docs / n_queries,
        relevant / n_queries,
    )  # fmt: skip


# Proposition 1 -------------------------------------------------------------------------------


def twice_the_same() -> Problem:
    """Return a problem in which two features are equal, so that one direction has all the trace."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    y = np.digitize(x + 0.6 * rng.standard_normal(40), [-1.0, 0.0, 1.0])
    problem = make_problem(RankingData(np.column_stack([x, x]), y), penalty=L1())
    return problem.with_C(1.5 * problem.smallest_C())


def letor_problem(name: str) -> Problem:
    """Return the l1 problem of fold 1, at a multiple of the smallest C."""
    problem = make_problem(read_parts(name, 1)[0], penalty=L1())
    return problem.with_C(MULTIPLE * problem.smallest_C())


def proposition_1(options: Options) -> Section:
    """Compare the printed step bound with the smallest Lipschitz constant, and what it does."""
    section = Section(
        "proposition-1",
        "Proposition 1: the step bound misses a factor 2",
        "Σ‖x̃_p‖² as printed, in units of the smallest Lipschitz constant where all pairs are "
        "active, 2·λ_max(Σ x̃_p x̃_p'). Below 1, the bound is no Lipschitz constant. Steps of "
        "the algorithm until the duality gap is 1e-3, at most 5,000. The distance of the last "
        "objective from the optimum. Fold 1 of LETOR 4.0, and two equal features",
        ["data", "printed bound / constant", "steps of", "L", "steps", "(f − f*)/f*", "seconds"],
    )
    problems = [(name, letor_problem(name), True) for name in sets(options)]
    problems += [("two equal features", twice_the_same(), accelerated)
                 for accelerated in (True, False)]  # fmt: skip
    panels = []
    for name, problem, accelerated in problems:
        best = ProximalNewton(tol=1e-9).solve(problem).objective
        above, curves = dominating_engine(problem.engine), {}
        share = 0.5 * trace_of_hessian(above) / np.linalg.eigvalsh(above.hessian())[-1]
        update = "algorithm 1" if accelerated else "eq. 10"
        for lipschitz in BOUNDS:
            result = PaperFISTA(1e-3, 5000, accelerated=accelerated, lipschitz=lipschitz).solve(
                problem
            )
            away = result.objective / best - 1
            section.add(
                name, f"{share:.2f}", update, lipschitz, f"{result.n_iter:,}", f"{away:.1e}",
                show_seconds(result.seconds), share=share, lipschitz=lipschitz, away=away,
            )  # fmt: skip
            curves[lipschitz] = result
        panels.append(converging(f"{name}, {update}", curves, best))
    section.notes += [
        "The gradient is −2·Σ x̃_p max(0, 1 − x̃_p'w). The proof bounds the sum without the 2.",
        "The bound is a trace, which is the sum of all eigenvalues. It therefore still is a "
        "Lipschitz constant if no direction has more than half of the trace. Otherwise the steps "
        "may jump over the optimum for ever, as with two equal features.",
    ]
    add_plot(section, options, "laporte2014-proposition-1", "Objective against steps", panels)
    return section


def converging(title: str, results: dict[str, Result], best: float) -> Callable[[Any], None]:
    """Return a function that draws the objective of each bound at the first checks."""

    def panel(axes: Any) -> None:
        for k, (lipschitz, result) in enumerate(results.items()):
            steps = [one for one in result.history if one.iteration % 10 == 0][:51]
            away = [max(one.objective / best - 1, 1e-12) for one in steps]
            axes.plot([one.iteration for one in steps], away, label=lipschitz, **line_style(k))
        axes.set(title=title, xlabel="steps", ylabel="(f − f*)/f*", yscale="log")
        axes.legend()

    return panel


# Algorithms 1 and 2 --------------------------------------------------------------------------


def algorithms(options: Options) -> Section:
    """Compare algorithms 1 and 2 as printed with the default solvers."""
    section = Section(
        "algorithms",
        "Algorithms 1 and 2 as printed, beside the default solvers",
        "MQ2008 fold 1, loss divided by the number of pairs. C is "
        f"{MULTIPLE:g} times the smallest at which l1 selects a feature. Both stop by the same "
        "rule with tol = 1e-3. The paper has no figures for time, and no rule for stopping",
        ["penalty", "solver", "seconds", "evaluations", "objective", "features", "ended"],
    )
    problem = make_problem(read_parts("MQ2008", 1)[0], normalize="pairs", penalty=L1())
    problem = problem.with_C(MULTIPLE * problem.smallest_C())
    for penalty in ("l1", "log") if options.quick else ("l1", "mcp", "log", "lp"):
        one = problem.with_penalty(make_penalty(penalty))
        convex = penalty == "l1"
        printed = PaperFISTA(max_iter=20_000) if convex else PaperReweighted(max_iter=50)
        for solver in (ProximalNewton() if convex else Reweighted(), printed):
            started = time.perf_counter()
            result = solver.solve(one)
            seconds = time.perf_counter() - started
            section.add(
                penalty, solver.name, show_seconds(seconds), f"{result.n_evaluations:,}",
                f"{result.objective:.6f}", str(result.n_selected), result.status.name.lower(),
                penalty=penalty, solver=solver.name, seconds=seconds, objective=result.objective,
                features=result.n_selected,
            )  # fmt: skip
    return section


SECTIONS: Sections = {
    "figure-1": figure_1, "table-iii": table_iii, "proposition-1": proposition_1,
    "algorithms": algorithms, "table-iv": table_iv, "table-v": table_v, "table-vi": table_vi,
    "figure-2": figure_2, "figure-3": figure_3, "letor-3": letor_3,
}  # fmt: skip
