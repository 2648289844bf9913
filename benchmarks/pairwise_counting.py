"""Speed of the counting methods, with few and with many levels."""

from __future__ import annotations

import statistics
import tracemalloc
from typing import Any

import numpy as np

from linrank import RankingData, make_ranking
from linrank.choices import COUNTINGS
from linrank.errors import DataError
from linrank.problem import Problem, make_problem
from linrank.solvers import Status, make_solver

from .plots import draw, line_style
from .tools import (
    Options,
    Section,
    interleaved,
    make_evaluation,
    make_reader,
    median_seconds,
    show_seconds,
    stop_after,
)

WAYS = [name for name in COUNTINGS if name != "auto"]
NEAR = 1e-3  #: relative distance to the optimum at which times are taken
RULE = 1e-3  #: ε of TRON's default stopping rule
END = 1e-4  #: ε at which the curves end
READS = 4  #: largest time of a Hessian-vector product with distinct labels, in reads of X


def warm_up(counting: str) -> None:
    """Compile the kernels of a counting method for dense data."""
    problem = make_problem(make_ranking(3, 10, 3, n_levels=3, random_state=0), counting=counting)
    problem.value_grad(np.zeros(3))
    problem.hessp(np.ones(3))


# Figure 4 of Lee & Lin -------------------------------------------------------------------------


#: Columns of `compare_ways`, and what they mean.
COLUMNS = ["data", "counting", f"to (f − f*)/f* ≤ {NEAR:g}", f"to ‖g‖ ≤ {RULE:g}‖g₀‖", "× tables",
           "Hessian product", "× tables", "memory per row", "note"]  # fmt: skip
ABOUT = (
    "Squared hinge, C = 1, from w = 0. Seconds are those of the solver; laying out the pairs "
    "comes before. Products are those at the solution, taken in turns. Memory is what the "
    "pairs take beyond X, y and the queries"
)


def bench_counting(options: Options) -> Section:
    """Measure the objective of TRON against time for all counting methods (Lee & Lin, fig. 4)."""
    title = "Ways of counting in TRON (Lee & Lin 2014, figure 4)"
    section = Section("counting", title, ABOUT, COLUMNS)
    curves: dict[str, dict[str, Any]] = {}
    for name, data in _shapes(options.quick).items():
        curves[name] = compare_ways(section, name, data, options)
    panels = [lambda axes, name=name: draw_curves(axes, name, curves[name]) for name in curves]
    draw(options.out / "pairwise_counting.svg", panels, width=5.5)
    return section


def _shapes(quick: bool) -> dict[str, RankingData]:
    few = (20, (20, 40), 12) if quick else (1000, (80, 160), 136)
    many = (5, 60, 8) if quick else (100, 740, 46)
    shapes = {
        "few": make_ranking(*few, n_levels=5, random_state=0),
        "many": make_ranking(*many, n_levels=None, random_state=0),
    }
    return {
        f"{name} levels: {data.n_docs:,} × {data.n_features}, {data.n_queries:,} queries": data
        for name, data in shapes.items()
    }


def compare_ways(
    section: Section, name: str, data: RankingData, options: Options, ways: list[str] = WAYS
) -> dict[str, Any]:
    """Add a row for each counting method, "tables" among them; return their curves."""
    warm_up("tables")
    problem = make_problem(data, 1.0, n_threads=options.threads)
    best = make_solver("newton", tol=1e-9).solve(problem).objective
    found, problems, refused = {}, {}, {}
    for counting in ways:
        warm_up(counting)
        try:
            problems[counting], memory = _make_problem(data, counting, options.threads)
        except DataError as error:
            refused[counting] = str(error)
            continue
        found[counting] = _run_tron(problems[counting], best, options)
        found[counting]["bytes_per_row"] = memory / data.n_docs
    v = np.ones(data.n_features)
    products = {name: lambda p=problem: p.hessp(v) for name, problem in problems.items()}
    for counting, times in interleaved(products, most=3 if options.quick else 9).items():
        found[counting]["seconds_product"] = statistics.median(times)
        _report(section, name, counting, found)
    for counting, sentence in refused.items():
        section.add(name, counting, *["—"] * 6, sentence, data=name, counting=counting)
    return found


def _make_problem(data: RankingData, counting: str, threads: int) -> tuple[Problem, int]:
    """Return the problem, and its memory in bytes beyond that of the data."""
    tracemalloc.start()
    problem = make_problem(data, 1.0, counting=counting, n_threads=threads)
    problem.start()
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return problem, memory


def _run_tron(problem: Problem, best: float, options: Options) -> dict[str, Any]:
    """Return the times of TRON to its targets; the median of three runs unless they are long."""
    cap = stop_after(2 if options.quick else 20)
    results = [make_solver("tron", tol=END, callback=cap).solve(problem)]
    while results[0].seconds < 2 and len(results) < 3:
        results.append(make_solver("tron", tol=END, callback=cap).solve(problem))
    result = sorted(results, key=lambda result: result.seconds)[len(results) // 2]
    steps = [(s.seconds, s.objective / best - 1, s.gradient_norm) for s in result.history]
    return {
        "seconds_near": next((t for t, distance, _ in steps if distance <= NEAR), None),
        "seconds_rule": next((t for t, _, slope in steps if slope <= RULE), None),
        "distance_rule": next((gap for _, gap, slope in steps if slope <= RULE), None),
        "n_products": result.n_products,
        "capped": result.status is Status.INTERRUPTED,
        "steps": steps,
    }


def _report(section: Section, name: str, counting: str, found: dict[str, Any]) -> None:
    own, tables = found[counting], found["tables"]
    seconds, product = own["seconds_rule"], own["seconds_product"]
    section.add(
        name,
        counting,
        show_seconds(own["seconds_near"]),
        show_seconds(seconds),
        "—" if seconds is None else f"{seconds / tables['seconds_rule']:.2f}",
        show_seconds(product),
        f"{product / tables['seconds_product']:.2f}",
        f"{own['bytes_per_row']:.0f} bytes",
        f"stopped after {own['steps'][-1][0]:.0f} s" if own["capped"] else "",
        data=name, counting=counting, **own,
    )  # fmt: skip


def draw_curves(axes: Any, name: str, found: dict[str, Any]) -> None:
    """Draw the objective against time for the result of `compare_ways`."""
    for k, (counting, own) in enumerate(found.items()):
        seconds, distance, _ = np.array(own["steps"]).T
        axes.loglog(seconds, np.maximum(distance, 1e-12), label=counting, **line_style(k))
    lines = [own["distance_rule"] for own in found.values() if own["distance_rule"] is not None]
    if lines:
        axes.axhline(max(lines[0], 1e-12), color="#666666", linewidth=0.8, linestyle=":")
    axes.set_title(name)
    axes.set_xlabel("seconds (dotted: where TRON's default rule stops)")
    axes.set_ylabel("(f − f*) / f*")
    axes.legend(fontsize=7)


# Hessian products with many levels -------------------------------------------------------------


def bench_levels(options: Options) -> Section:
    """Measure a Hessian-vector product with as many levels as documents, in reads of X."""
    shape = (10, 60, 8) if options.quick else (1000, 740, 46)
    data = make_ranking(*shape, n_levels=None, random_state=0)
    problem = make_problem(data, 1.0, n_threads=options.threads)
    chosen, w = problem.engine.counting, make_solver("auto").solve(problem).coef
    section = Section(
        "levels",
        "A Hessian product where all labels differ, in bare reads of X",
        f"{data.n_docs:,} × {data.n_features} dense float64, {data.n_queries:,} queries, as many "
        f"levels as documents, squared hinge, C = 1, at the solution; auto chooses {chosen}",
        ["counting", "Hessian product", "reads of X", "value and gradient", "note"],
    )
    for counting in WAYS:
        _time_products(section, data, counting, w, options)
    reads = next(own["reads"] for own in section.numbers if own["counting"] == chosen)
    goal = f"a product of auto, which is {chosen}, of at most {READS} reads"
    section.aim(goal, f"{reads:.2f} reads", reads <= READS)
    measured = [own for own in section.numbers if "reads" in own]
    draw(options.out / "pairwise_levels.svg", [lambda axes: _draw_bars(axes, measured)], width=6.0)
    return section


def _time_products(
    section: Section, data: RankingData, counting: str, w: Any, options: Options
) -> None:
    warm_up(counting)
    try:
        problem = make_problem(data, 1.0, counting=counting, n_threads=options.threads)
    except DataError as error:
        section.add(counting, "—", "—", "—", str(error), counting=counting)
        return
    evaluation = median_seconds(make_evaluation(problem, w))
    read, product = _read_and_product(problem, data, options)
    section.add(
        counting, show_seconds(product), f"{product / read:.2f}", show_seconds(evaluation), "",
        counting=counting, reads=product / read, seconds_product=product,
        seconds_evaluation=evaluation, seconds_read=read,
    )  # fmt: skip


def _read_and_product(problem: Problem, data: RankingData, options: Options) -> tuple[float, float]:
    """Return the median seconds of a read of X and of a Hessian-vector product, in turns."""
    v = np.ones(data.n_features)
    repeats = int(np.clip(5.0 / median_seconds(lambda: problem.hessp(v), most=1), 1, 25))
    times = interleaved(
        {
            "read": make_reader(data, options.threads),
            "product": lambda: problem.hessp(v),
        },
        most=repeats,
    )
    return statistics.median(times["read"]), statistics.median(times["product"])


def _draw_bars(axes: Any, measured: list[dict[str, Any]]) -> None:
    names = [own["counting"] for own in measured]
    reads = [own["reads"] for own in measured]
    bars = axes.barh(names, reads, color=line_style(0)["color"])
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.axvline(READS, color="#666666", linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_xlim(min(1.0, 0.5 * min(reads)), 2.0 * max(reads))
    axes.invert_yaxis()
    axes.set_title("A Hessian product where all labels differ")
    axes.set_xlabel("bare reads of X (dotted: the goal)")
