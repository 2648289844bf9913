"""Figures 4 to 7 and table 10 of Lee & Lin 2014: training time of solvers and countings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pairwise_counting import ABOUT, COLUMNS, compare_ways, draw_curves
from benchmarks.plots import line_style
from benchmarks.sparse_letor import read_parts
from benchmarks.tools import Options, Section, show_seconds, stop_after
from linrank import RankingData
from linrank.counting.preferences import Preferences
from linrank.problem import make_problem
from linrank.solvers import CuttingPlanes, Newton, PaperTron, Smoothing, Solver

from .lee2014_data import generated, lists, measure, real_sets
from .sections import GENERATED, add_plot

#: The countings of figure 4, the fastest of linrank, and explicit pairs (PRSVM).
COUNTINGS = ["tables", "direct", "red-black", "red-black-by-score", "selection-tree", "avl", "aa",
             "explicit"]  # fmt: skip
TARGETS = (1e-2, 1e-4)  #: relative distances to the optimum at which times are taken
ACCURACY, NDCG = "pairwise accuracy", "NDCG"


class Method(NamedTuple):
    """A solver of the paper: its loss, its counting, and how it is made from a tolerance."""

    loss: str
    counting: str
    solver: Callable[[float], Solver]


METHODS = {
    "Tree-TRON": Method("squared_hinge", "selection-tree", lambda tol: PaperTron(tol=tol)),
    "PRSVM+": Method("squared_hinge", "two-level", lambda tol: PaperTron(tol=tol)),
    "TreeRankSVM": Method(
        "hinge", "red-black", lambda tol: CuttingPlanes(tol=tol, damped=False, max_iter=100_000)
    ),
    "linrank, L2": Method("squared_hinge", "auto", lambda tol: Newton(tol=tol)),
    "linrank, L1": Method("hinge", "auto", lambda tol: Smoothing(tol=tol)),
}
ABOUT_METHODS = (
    'Tree-TRON is `solver="tron-paper", counting="selection-tree"`, PRSVM+ the same with '
    '`counting="two-level"`, as in the paper, and TreeRankSVM is `loss="hinge", '
    'solver="cutting-planes", counting="red-black"` with `damped=False`. The last two rows are '
    "the solvers of linrank. Distances are relative to the lowest "
    "objective found for the own loss"
)
TIMED = ["data", "C", "method", *(f"to {target:g}" for target in TARGETS), "iterations", "products",
         "distance at the end", "accuracy", "NDCG"]  # fmt: skip


class Trace(NamedTuple):
    """Seconds, objective and weights after each iteration of a fit; distances are set later."""

    seconds: list[float]
    objective: list[float]
    weights: list[Any]
    products: int
    distance: list[float]

    def relative_to(self, best: float) -> Trace:
        """Return the trace with the distances to an optimum, relative to it."""
        return self._replace(distance=[max(f / best - 1.0, 1e-12) for f in self.objective])


def trace(data: RankingData, method: Method, C: float, cap: float) -> Trace:
    """Run a solver for at most `cap` seconds, and keep its iterates."""
    problem = make_problem(data, C, loss=method.loss, counting=method.counting)
    method.solver(0.1).solve(problem)  # compiles the kernels
    solver, weights, stop = method.solver(1e-7), [], stop_after(cap)

    def keep(step: Any) -> None:
        weights.append(solver.point.w.copy())
        stop(step)

    solver.callback = keep
    history = solver.solve(problem).history
    seconds, objective = zip(*((step.seconds, step.objective) for step in history), strict=True)
    return Trace(list(seconds), list(objective), weights, history[-1].products, [])


def optimum(data: RankingData, loss: str, C: float, cap: float) -> float:
    """Return the optimum of the objective, as near as it is found in time."""
    kind, tol = (Smoothing, 1e-7) if loss == "hinge" else (Newton, 1e-9)
    solver = kind(tol=tol, callback=stop_after(cap))
    return solver.solve(make_problem(data, C, loss=loss)).objective


def compare_methods(
    section: Section, name: str, train: RankingData, test: RankingData,
    by_loss: dict[str, float], cap: float,
) -> dict[str, tuple[Trace, list[dict[str, float]]]]:  # fmt: skip
    """Add a row for each method; `by_loss` has C of each loss. Return the traces and measures."""
    best = {loss: optimum(train, loss, C, 2 * cap) for loss, C in by_loss.items()}
    traces = {name: trace(train, own, by_loss[own.loss], cap) for name, own in METHODS.items()}
    for title, method in METHODS.items():
        best[method.loss] = min(best[method.loss], *traces[title].objective)
    found = {}
    for title, method in METHODS.items():
        C, own = by_loss[method.loss], traces[title].relative_to(best[method.loss])
        quality = [measure(test, test.X @ w) for w in own.weights[:: _stride(own)]]
        last = measure(test, test.X @ own.weights[-1])
        times = [
            next((t for t, gap in zip(own.seconds, own.distance, strict=True) if gap <= goal), None)
            for goal in TARGETS
        ]
        section.add(
            name, f"{C:.3g}", title, *(show_seconds(t, f"> {cap:g} s") for t in times),
            f"{len(own.seconds) - 1:,}", f"{own.products:,}", f"{own.distance[-1]:.1e}",
            f"{last[ACCURACY]:.4f}", "—" if np.isnan(last[NDCG]) else f"{last[NDCG]:.4f}",
            data=name, C=C, method=title, times=times, seconds=own.seconds, distance=own.distance,
        )  # fmt: skip
        found[title] = own, quality
    return found


def _stride(own: Trace) -> int:
    """Return the distance of the iterations that are measured and drawn: at most 60 are."""
    return 1 + len(own.weights) // 60


def _draw(axes: Any, title: str, found: dict[str, Any], what: str | None) -> None:
    """Draw the distance to the optimum, or a measure, against time."""
    for k, (name, (own, quality)) in enumerate(found.items()):
        style = line_style(k) | {"label": name}
        if what is None:
            some = slice(1, None, _stride(own))
            axes.loglog(own.seconds[some], own.distance[some], **style)
            continue
        points = zip(own.seconds[:: _stride(own)], quality, strict=True)
        # The weights w = 0 of the start rank nothing.
        drawn = [(seconds, point[what]) for seconds, point in points if point[ACCURACY] > 0]
        axes.semilogx(*np.reshape(drawn, (-1, 2)).T, **style)
    axes.set_title(title)
    axes.set_xlabel("seconds")
    axes.set_ylabel("(f − f*) / f*" if what is None else what)
    axes.legend(fontsize=7)


# Figures -----------------------------------------------------------------------------------------


def figure_4(options: Options) -> Section:
    """Compare order-statistic trees, direct counting and explicit pairs in TRON."""
    section = Section(
        "figure-4", "Figure 4: order-statistic trees and direct counting",
        f"{GENERATED}, and smaller. {ABOUT}", COLUMNS,
    )  # fmt: skip
    names = ("MSLR 30k", "YAHOO LTRC set 1")
    shapes = {f"as {name}": generated(name, options) for name in names}
    shapes["as MQ2007-list"] = lists(options, 30)[0]
    curves = {
        name: compare_ways(section, name, data, options, COUNTINGS) for name, data in shapes.items()
    }
    panels = [lambda axes, name=name: draw_curves(axes, name, curves[name]) for name in curves]
    add_plot(section, options, "lee2014-figure-4", "Objective against time by counting.", panels)
    few, many = (
        {own["counting"]: own["seconds_rule"] for own in section.numbers
         if own["data"] == f"as {name}" and "seconds_rule" in own}
        for name in ("MSLR 30k", "MQ2007-list")
    )  # fmt: skip
    ratios = [found["direct"] / found["selection-tree"] for found in (few, many)]
    section.aim(
        "direct counting is slower than the selection tree if there are many levels",
        f"{ratios[0]:.1f} times its training time with few levels, {ratios[1]:.1f} with many",
        ratios[1] > max(1.0, ratios[0]),
    )
    return section


def figures_5(options: Options) -> Section:
    """Compare the solvers on MQ2007 and MQ2008 at the C of table 3 (figure 5)."""
    section = Section(
        "figure-5", "Figure 5: solvers with the best C",
        f"Fold 1, C of table 3 for pairwise accuracy, measures on the test part. {ABOUT_METHODS}. "
        "MSLR and YAHOO LTRC are not available; figure 7 has data of other shapes", TIMED,
    )  # fmt: skip
    best_C = {"MQ2007": (2.0**-1, 2.0**-5), "MQ2008": (2.0**8, 2.0**7)}
    panels = []
    for name in real_sets(options):
        train, _, test = read_parts(name, 1)
        by_loss = dict(zip(("hinge", "squared_hinge"), best_C[name], strict=True))
        found = compare_methods(section, name, train, test, by_loss, _cap(options))
        for what in (None, ACCURACY, NDCG):
            panels.append(lambda axes, n=name, f=found, w=what: _draw(axes, n, f, w))
    add_plot(section, options, "lee2014-figure-5", "Distance and measures against time.", panels)
    _judge(section)
    return section


def figure_6(options: Options) -> Section:
    """Compare the solvers where all labels of a query differ (figure 6)."""
    section = Section(
        "figure-6", "Figure 6: solvers with many levels",
        f"{GENERATED} as MQ2007-list, with 50 queries. {ABOUT_METHODS}", TIMED,
    )  # fmt: skip
    train, _, test = lists(options)
    by_loss = {"hinge": 2.0**-12, "squared_hinge": 2.0**-12}
    found = compare_methods(section, "as MQ2007-list", train, test, by_loss, _cap(options))
    panels = [
        lambda axes, w=what: _draw(axes, "as MQ2007-list", found, w) for what in (None, ACCURACY)
    ]
    add_plot(section, options, "lee2014-figure-6", "Distance and accuracy against time.", panels)
    tree, levels = (
        next(own["times"][0] for own in section.numbers if own["method"] == method)
        for method in ("Tree-TRON", "PRSVM+")
    )
    met = tree is not None and (levels is None or levels > tree)
    shown = f"{show_seconds(levels, 'not in time')} and {show_seconds(tree)}"
    section.aim("PRSVM+ is slower than Tree-TRON with many levels", shown, met)
    return section


def figure_7(options: Options) -> Section:
    """Compare the solvers with a large, a medium and a small C (figure 7)."""
    section = Section(
        "figure-7", "Figure 7: solvers with a fixed C",
        f"Real data: fold 1. {GENERATED} as MQ2007-list, and smaller. Data as YAHOO LTRC set 2 are "
        "left out: with C = 100, one quadratic program of the cutting planes takes minutes. "
        f"{ABOUT_METHODS}", TIMED,
    )  # fmt: skip
    cases = {name: read_parts(name, 1)[::2] for name in real_sets(options)}
    if not options.quick:
        many = lists(options, 20)
        cases["as MQ2007-list"] = [many[0], many[2]]
    panels = []
    for name, (train, test) in cases.items():
        for C in (100.0, 1.0, 1e-4):
            by_loss = {"hinge": C, "squared_hinge": C}
            found = compare_methods(section, name, train, test, by_loss, 0.3 * _cap(options))
            title = f"{name}, C = {C:g}"
            panels.append(lambda axes, t=title, f=found: _draw(axes, t, f, None))
    add_plot(section, options, "lee2014-figure-7", "Distance against time by C.", panels)
    _judge(section)
    return section


def _cap(options: Options) -> float:
    """Return the time limit of a fit in seconds."""
    return 1.0 if options.quick else 10.0


def _judge(section: Section) -> None:
    """Add the paper's statement that cutting planes are slower than second-order methods."""
    slower, known = 0, 0
    for own in section.numbers:
        if own["method"] == "Tree-TRON":
            ours = own["times"][0]
        if own["method"] == "TreeRankSVM":
            known += 1
            theirs = own["times"][0]
            slower += ours is not None and (theirs is None or theirs > ours)
    section.aim(
        f"TreeRankSVM is slower than Tree-TRON to {TARGETS[0]:g}", f"{slower} of {known} cases",
        slower == known,
    )  # fmt: skip


# Table 10 ----------------------------------------------------------------------------------------


def table_10(options: Options) -> Section:
    """Compare adjacent pairs with all pairs, each with the best C of the validation part."""
    section = Section(
        "table-10", "Table 10: adjacent pairs and all pairs",
        f"{GENERATED} as MQ2007-list, with 50 queries. `solver=\"tron-paper\"` at ε = 1e-3 with "
        "the best C of 2^-15, …, 2^5 on the validation part. The statements of the paper are that "
        "adjacent pairs need a larger C, train faster, and cost a little accuracy",
        ["data", "pairs", "number of pairs", "C", "time", "iterations", "products", "accuracy"],
    )  # fmt: skip
    for name, figures in (
        ("MQ2007-list, published", (("adjacent", -9, 19.9, 0.7910), ("all", -12, 38.7, 0.8071))),
        ("MQ2008-list, published", (("adjacent", -10, 10.5, 0.8181), ("all", -14, 16.6, 0.8211))),
    ):
        for pairs, k, seconds, accuracy in figures:
            section.add(
                name, pairs, "—", f"2^{k}", show_seconds(seconds), "—", "—", f"{accuracy:.4f}",
                data=name, pairs=pairs, seconds=seconds, accuracy=accuracy,
            )  # fmt: skip
    found = {pairs: _fit_pairs(section, pairs, options) for pairs in ("adjacent", "all")}
    (few_C, few, less), (all_C, all_seconds, more) = found["adjacent"], found["all"]
    section.aim("adjacent pairs need a larger C", f"2^{few_C} and 2^{all_C}", few_C > all_C)
    section.aim(
        "adjacent pairs are faster", f"{show_seconds(few)} and {show_seconds(all_seconds)}",
        few < all_seconds,
    )  # fmt: skip
    section.aim("all pairs are at least as accurate", f"{less:.4f} and {more:.4f}", less <= more)
    return section


def _fit_pairs(section: Section, pairs: str, options: Options) -> tuple[int, float, float]:
    """Add the fit with the best C; return log₂ C, seconds and accuracy."""
    train, valid, test = lists(options)
    problem = make_problem(train, 1.0, preferences=Preferences(pairs))
    fits = {k: PaperTron(tol=1e-3).solve(problem.with_C(2.0**k)) for k in range(-15, 6)}
    best = max(fits, key=lambda k: measure(valid, valid.X @ fits[k].coef)[ACCURACY])
    fit = PaperTron(tol=1e-3).solve(problem.with_C(2.0**best))
    accuracy = measure(test, test.X @ fit.coef)[ACCURACY]
    section.add(
        "generated", pairs, f"{problem.engine.n_pairs:,}", f"2^{best}", show_seconds(fit.seconds),
        f"{fit.n_iter}", f"{fit.n_products}", f"{accuracy:.4f}",
        data="generated", pairs=pairs, seconds=fit.seconds, accuracy=accuracy,
    )  # fmt: skip
    return best, fit.seconds, accuracy
