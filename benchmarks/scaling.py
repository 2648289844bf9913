"""Growth of time and memory with rows, features and threads."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from linrank import RankingData, open_store
from linrank.problem import make_problem
from linrank.solvers import make_solver

from .plots import draw, line_style
from .shapes import QUICK, SHAPES, kept
from .single_machine import TOL, fit_once
from .tools import (
    Options,
    Section,
    forget_high_water,
    high_water,
    in_time,
    interleaved,
    pinned,
    show_seconds,
)


def bench_scaling(options: Options) -> Section:
    """Measure time and memory against rows, features and threads."""
    section = Section(
        "scaling",
        "How the cost grows",
        "web-large-scaled (its first rows, its first features) and text (its first rows): a fit to "
        f"{TOL:g}. Its passes are Hessian products and evaluations; the pass that is timed is a "
        "product at the solution, the median of up to 41. The exponent is the slope of a line "
        "through the logarithms",
        ["data", "rows", "features", "threads", "fit", "passes", "pass", "memory beyond X"],
    )
    part = QUICK if options.quick else 1.0
    for name, share, width, threads in _cases(options.threads):
        with pinned(threads):
            for own in in_time(section, run_scale, name, part, share, width, threads):
                section.add(
                    name, f"{own['rows']:,}", f"{own['features']:,}", str(threads),
                    show_seconds(own["seconds"]), str(own["passes"]), show_seconds(own["pass"]),
                    f"{own['memory'] / 1e6:.0f} MB", **own,
                )  # fmt: skip
    lines = _lines(section, options.threads)
    for label, x, points in lines:
        slope = np.polyfit(np.log([p[x] for p in points]), np.log([p["pass"] for p in points]), 1)
        section.notes.append(f"A pass grows as {x}^{slope[0]:.2f} ({label}).")
    draw(
        options.out / "scaling.svg",
        [
            lambda axes: _draw(axes, lines, "rows", "pass", "seconds of a pass"),
            lambda axes: _draw(axes, lines, "rows", "memory", "bytes beyond X"),
            lambda axes: _draw(axes, lines, "features", "pass", "seconds of a pass"),
            lambda axes: _draw_threads(axes, section.numbers),
        ],
        width=3.6,
    )
    return section


def _cases(threads: int) -> list[tuple[str, float, float, int]]:
    """Return the cases: data, shares of its rows and of its features, and threads."""
    rows = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2]
    return [
        *(("web-large-scaled", share, 1.0, threads) for share in rows),
        *(("text", share, 1.0, threads) for share in (*rows, 1.0)),
        *(("web-large-scaled", 1 / 8, width, threads) for width in (1 / 8, 1 / 4, 1 / 2)),
        *(("web-large-scaled", 1 / 8, 1.0, n) for n in range(1, threads)),
    ]


def _lines(section: Section, threads: int) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Return the curves: a label, the quantity on the x axis, and at least two measurements."""
    own = [numbers for numbers in section.numbers if numbers["threads"] == threads]
    web = [numbers for numbers in own if numbers["data"] == "web-large-scaled"]
    widest = max((numbers["features"] for numbers in web), default=0)
    fixed = min((n["rows"] for n in web if n["features"] < widest), default=0)
    lines = [
        ("dense, 5 levels", "rows", [n for n in web if n["features"] == widest]),
        ("sparse, one query", "rows", [n for n in own if n["data"] == "text"]),
        ("dense, 5 levels", "features", sorted((n for n in web if n["rows"] == fixed),
                                               key=lambda n: n["features"])),
    ]  # fmt: skip
    return [line for line in lines if len(line[2]) > 1]


def run_scale(
    name: str, part: float, share: float, width: float, threads: int
) -> Iterator[dict[str, Any]]:
    """Yield seconds, passes and memory of a fit on the first rows and features of a shape."""
    make_solver("auto").solve(make_problem(open_store(kept(name, QUICK)), n_threads=threads))
    data = _head(open_store(kept(name, part)), share, width)
    before = forget_high_water()
    C = SHAPES[name].weight_of_loss(data, make_problem(data, n_threads=threads).engine.n_pairs)
    seconds, result = fit_once(data, C, threads)
    memory = high_water() - before
    problem = make_problem(data, n_threads=threads)
    problem.value_grad(result.coef)
    v = np.ones(data.n_features)
    times = interleaved({"product": lambda: problem.hessp(v)}, 2.0)["product"]
    yield {
        "data": name,
        "rows": data.n_docs,
        "features": data.n_features,
        "threads": threads,
        "seconds": seconds,
        "passes": result.n_products + result.n_evaluations,
        "pass": statistics.median(times),
        "memory": memory,
    }


def _head(data: RankingData, share: float, width: float) -> RankingData:
    """Return the first queries (or the first documents of a single query) and features."""
    n_features = max(4, int(data.n_features * width)) if width < 1 else data.n_features
    if data.n_queries == 1:
        n_docs, ptr = int(data.n_docs * share), None
    else:
        n_queries = max(4, int(data.n_queries * share))
        n_docs, ptr = int(data.query_ptr[n_queries]), np.diff(data.query_ptr[: n_queries + 1])
    X = data.X[:n_docs]
    X = X.copy() if data.is_sparse else np.ascontiguousarray(X[:, :n_features])
    qid = None if ptr is None else np.repeat(np.arange(len(ptr)), ptr)
    return RankingData(X, np.array(data.y[:n_docs]), qid)


def _draw(axes: Any, lines: list[Any], x: str, y: str, label: str) -> None:
    for k, (name, own, points) in enumerate(lines):
        if own == x:
            axes.plot([p[x] for p in points], [p[y] for p in points], label=name, **line_style(k))
    axes.set(xscale="log", yscale="log", xlabel=x, ylabel=label, title=f"{label} against {x}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.set_major_formatter(EngFormatter(sep=""))
        axis.set_minor_formatter(NullFormatter())
    axes.legend()


def _draw_threads(axes: Any, numbers: list[dict[str, Any]]) -> None:
    web = [n for n in numbers if n["data"] == "web-large-scaled"]
    widest = max((n["features"] for n in web), default=0)
    fixed = min((n["rows"] for n in web if n["features"] < widest), default=0)
    points = sorted(
        (n["threads"], n["pass"]) for n in web if (n["features"], n["rows"]) == (widest, fixed)
    )
    axes.plot([threads for threads, _ in points], [own for _, own in points], **line_style(0))
    axes.set(
        xlabel="threads", ylabel="seconds of a pass", title="seconds of a pass against threads"
    )
    axes.set_xticks([threads for threads, _ in points])
    axes.set_ylim(bottom=0)
