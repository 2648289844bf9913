"""Speed on one machine compared with its limits: products, fits, paths and files.

The unit is one *read*: the time to sum all entries of X once with the same threads. Every data set
is measured in a separate process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from linrank import LinearModel, RankingData, open_store, read_letor, write_letor
from linrank._util.parallel import blas_threads
from linrank.problem import make_problem
from linrank.solvers import make_solver
from linrank.training.selection import mean_metric, regularization_path

from .shapes import QUICK, SHAPES, available, kept
from .tools import (
    Options,
    Section,
    forget_high_water,
    high_water,
    in_time,
    interleaved,
    make_evaluation,
    make_reader,
    pinned,
    show_seconds,
    show_spread,
)

TOL = 1e-5  #: tolerance ε of the fits: ‖g‖ ≤ ε‖g₀‖
WEB = ("web", "web-scaled", "web-large", "web-large-scaled")
FEW_LEVELS = ("web", "web-scaled", "web-large", "web-large-scaled", "wide", "wide-large")
SPARSE = ("text", "clicks")


def ratio_and_spread(times: list[float], units: list[float]) -> tuple[float, float, float]:
    """Return the median and the quartiles of the ratios of times to units."""
    low, median, high = np.quantile(np.array(times) / np.array(units), [0.25, 0.5, 0.75])
    return float(median), float(low), float(high)


def _part(options: Options) -> float:
    return QUICK if options.quick else 1.0


# Products ---------------------------------------------------------------------------------------


def bench_products(options: Options) -> Section:
    """Measure a Hessian-vector product and an evaluation, in reads."""
    section = Section(
        "products",
        "Hessian products and evaluations, in reads of X",
        "At the solution. A read sums X once with the same threads; for sparse data it is scipy's "
        "X @ v on one thread. Medians of repetitions that take turns, with the quartiles of the "
        "ratio",
        ["data", "read", "GB/s", "Hessian product", "quartiles", "value and gradient"],
    )
    with pinned(options.threads):
        for name in available():
            for own in in_time(section, run_products, name, _part(options), options.threads):
                product, low, high = own["product"]
                section.add(
                    name, show_seconds(own["read"]), f"{own['rate']:.1f}", f"{product:.2f}",
                    f"{low:.2f} to {high:.2f}", f"{own['value'][0]:.2f}", **own,
                )  # fmt: skip
    for figure, what, names, goal in (
        ("product", "float64, few levels", FEW_LEVELS, 1.25),
        ("product", "float32", ("web-float32",), 1.5),
        ("product", "all labels distinct", ("many-levels",), 3.0),
        ("product", "sparse, against scipy's X @ v", SPARSE, 1.5),
        ("value", "float64, few levels", FEW_LEVELS, 1.6),
        ("value", "all labels distinct", ("many-levels",), 4.5),
    ):
        found = {own["data"]: own[figure][0] for own in section.numbers}
        section.aim_at_most(f"a {figure} takes at most {goal} reads: {what}", goal,
                            {name: found.get(name) for name in names})  # fmt: skip
    return section


def run_products(name: str, part: float, threads: int) -> Iterator[dict[str, Any]]:
    """Yield the seconds of a read, a product and an evaluation."""
    data = open_store(kept(name, part), mmap=False)
    problem = make_problem(data, n_threads=threads)
    problem = problem.with_C(SHAPES[name].weight_of_loss(data, problem.engine.n_pairs))
    w = make_solver("auto").solve(problem).coef
    v = np.ones(data.n_features)
    with blas_threads(1):  # as in a fit
        times = interleaved(
            {
                "read": make_reader(data, threads),
                "product": lambda: problem.hessp(v),
                "value": make_evaluation(problem, w),
            },
            budget=10.0,
        )
    read = statistics.median(times["read"])
    size = data.X.data.nbytes + data.X.indices.nbytes if data.is_sparse else data.X.nbytes
    yield {
        "data": name,
        "read": read,
        "rate": size / read / 1e9,
        "product": ratio_and_spread(times["product"], times["read"]),
        "value": ratio_and_spread(times["value"], times["read"]),
    }


# Fits -------------------------------------------------------------------------------------------


def bench_fits(options: Options) -> Section:
    """Measure fits, paths and memory."""
    section = Section(
        "fits",
        "Whole fits, in reads of X",
        f"solver='auto' to ‖g‖ ≤ {TOL:g}‖g₀‖ from w = 0, with laying out the pairs; medians of up "
        "to 5, with the fastest and the slowest. The path has 26 values of C from 2^-15 to 2^10 "
        "with warm starts, against the slowest fit of one of them from w = 0. Memory is the "
        "process's peak beyond what it holds before X is loaded, X included",
        ["data", "C", "fit", "reads", "products", "evaluations", "path / slowest fit",
         "memory / X", "NDCG@10"],
    )  # fmt: skip
    with pinned(options.threads):
        for name in available():
            for own in in_time(section, run_fit, name, _part(options), options.threads):
                section.add(
                    name, f"{own['C']:.2g}", show_spread(own["times"]),
                    f"{own['seconds'] / own['read']:.0f}", str(own["products"]),
                    str(own["evaluations"]),
                    "—" if own["path"] is None else f"{own['path']:.1f}",
                    f"{own['memory'] / own['size']:.2f}",
                    "—" if own["ndcg"] is None else f"{own['ndcg']:.4f}", **own,
                )  # fmt: skip
    _judge_fits(section, options)
    return section


def _judge_fits(section: Section, options: Options) -> None:
    def figures(names: Iterable[str], figure: Callable[[Any], float]) -> dict[str, float | None]:
        return {name: figure(found[name]) if name in found else None for name in names}

    found = {own["data"]: own for own in section.numbers}
    section.aim_at_most("a fit of web search takes at most 50 reads", 50,
                        figures(WEB, lambda own: own["seconds"] / own["read"]), 0)  # fmt: skip
    section.aim_at_most("a path takes at most 6 of its slowest fits", 6,
                        figures(["web-scaled"], lambda own: own["path"]), 1)  # fmt: skip
    memory = figures(["web-large"], lambda own: own["memory"] / own["size"])
    section.aim_at_most("peak memory at most 1.15 X", 1.15, memory)
    if not options.quick and {"web-float32", "web-scaled"} <= set(found):
        difference = abs(found["web-float32"]["ndcg"] - found["web-scaled"]["ndcg"])
        section.aim("float32 ranks as well as float64: NDCG@10 within 0.001",
                    f"{difference:.5f} apart", difference <= 0.001)  # fmt: skip


def run_fit(name: str, part: float, threads: int) -> Iterator[dict[str, Any]]:
    """Yield seconds and passes of a fit, the ratio of a path for small data, memory and quality."""
    make_solver("auto").solve(make_problem(open_store(kept(name, QUICK)), n_threads=threads))
    before = forget_high_water()
    data = open_store(kept(name, part), mmap=False)
    n_pairs = make_problem(data, n_threads=threads).engine.n_pairs
    C = SHAPES[name].weight_of_loss(data, n_pairs)
    fits = [fit_once(data, C, threads)]
    memory = high_water() - before
    while len(fits) < 5 and sum(seconds for seconds, _ in fits) < 10:
        fits.append(fit_once(data, C, threads))
    read = statistics.median(interleaved({"read": make_reader(data, threads)}, 1.0)["read"])
    result = fits[-1][1]
    ranked = data.n_queries > 1 and data.y.max() <= 31 and data.y.min() >= 0
    yield {
        "data": name,
        "C": C,
        "seconds": statistics.median(seconds for seconds, _ in fits),
        "times": [seconds for seconds, _ in fits],
        "read": read,
        "products": result.n_products,
        "evaluations": result.n_evaluations,
        "converged": result.converged,
        "path": _path(data, threads) if data.n_docs < 300_000 and not data.is_sparse else None,
        "memory": memory,
        "size": data.X.data.nbytes + data.X.indices.nbytes if data.is_sparse else data.X.nbytes,
        "ndcg": mean_metric(data, data.X @ result.coef, "ndcg@10") if ranked else None,
    }


def fit_once(data: RankingData, C: float, threads: int) -> tuple[float, Any]:
    started = time.perf_counter()
    result = make_solver("auto", tol=TOL).solve(make_problem(data, C, n_threads=threads))
    return time.perf_counter() - started, result


def _path(data: RankingData, threads: int) -> float:
    """Return the time of a path relative to its slowest fit from w = 0."""
    problem = make_problem(data, n_threads=threads)
    started = time.perf_counter()
    path = regularization_path(problem, tol=TOL)
    seconds = time.perf_counter() - started
    fits = [make_solver("auto", tol=TOL).solve(problem.with_C(C)).seconds for C in path.Cs]
    return seconds / max(fits)


# Files ------------------------------------------------------------------------------------------


def bench_files(options: Options) -> Section:
    """Measure the time from a LETOR file to a saved model, and that of reading the file."""
    section = Section(
        "files",
        "From a LETOR file to a saved model",
        f"Reading, fitting at C = 1 to {TOL:g} and saving, against reading alone, in turns, with a "
        "file that the system has in memory; medians of up to 7, with the fastest and the slowest; "
        "scikit-learn's reader beside it, once",
        ["data", "file", "read", "MB/s", "read, fit and save", "÷ read",
         "scikit-learn's reader ÷ ours"],
    )  # fmt: skip
    with pinned(options.threads):
        for name in ("web-scaled", "many-levels", "mq2007"):
            if name not in available():
                continue
            for own in in_time(section, run_file, name, _part(options), options.threads):
                section.add(
                    name, f"{own['size'] / 1e6:.0f} MB", show_spread(own["times"]["read"]),
                    f"{own['size'] / own['read'] / 1e6:.0f}", show_spread(own["times"]["all"]),
                    f"{own['all'] / own['read']:.2f}", f"{own['sklearn'] / own['read']:.0f}", **own,
                )  # fmt: skip
    found = {own["data"]: own["all"] / own["read"] for own in section.numbers}
    section.aim_at_most(
        "from file to saved model in at most 2.5 times the time of reading it", 2.5, found
    )
    return section


def run_file(name: str, part: float, threads: int) -> Iterator[dict[str, Any]]:
    """Yield the seconds of reading, and of all steps from file to model."""
    from sklearn.datasets import load_svmlight_file

    with TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        write_letor(path, open_store(kept(name, part)), decimals=6)

        def train() -> None:
            data = read_letor(path, n_threads=threads)
            coef = fit_once(data, 1.0, threads)[1].coef
            LinearModel(coef).save(Path(folder, "model.json"))

        times = interleaved(
            {"read": lambda: read_letor(path, n_threads=threads), "all": train}, 20.0, most=7
        )
        started = time.perf_counter()
        load_svmlight_file(str(path), query_id=True)
        slow = time.perf_counter() - started
        yield {
            "data": name,
            "size": path.stat().st_size,
            "read": statistics.median(times["read"]),
            "all": statistics.median(times["all"]),
            "times": times,
            "sklearn": slow,
        }


SECTIONS = {
    "products": bench_products,
    "fits": bench_fits,
    "files": bench_files,
}
