"""Hessian-vector products, evaluations and fits on a graphics card and on the processor.

``python -m benchmarks.cuda [QUERIES]`` prints a table for web-search data of that many queries (by
default 20,000: 2.4 million documents of 136 features) in float64 and float32. The time of a product
is given in milliseconds and relative to one read of X at the memory bandwidth of the card, which is
the roofline of docs/guide/cuda.md. A second table splits the evaluations of P-SWX into sort, sums
and products.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from linrank import DataError, RankingData, make_ranking
from linrank._util.parallel import resolve_threads
from linrank.engines.engine import make_engine
from linrank.losses import get_loss
from linrank.problem import make_problem
from linrank.solvers import make_solver

from .tools import machine

REPEATS = 20
ENGINES = ("threads", "cuda", "cuda-streaming", "p-swx", "p-swx-paper")
SPLIT = ("p-swx", "p-swx-paper")  #: engines whose evaluations have a sort, sums and products


def median_seconds(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the median time of a call, after one that compiles."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def bandwidth(n_bytes: int = 2**30) -> float:
    """Return the memory bandwidth of the card in bytes per second, read and written."""
    from numba import cuda

    here, there = cuda.device_array(n_bytes, np.uint8), cuda.device_array(n_bytes, np.uint8)

    def copy() -> None:
        there.copy_to_device(here)
        cuda.synchronize()

    return 2 * n_bytes / median_seconds(copy)


def steps(data: RankingData, name: str) -> tuple[float, float]:
    """Return the seconds of an evaluation and of a Hessian-vector product."""
    engine = make_engine(name, data, get_loss("squared_hinge"), None, None)
    w, v = np.random.default_rng(0).standard_normal((2, data.n_features))
    w *= 1e-3
    return median_seconds(lambda: engine.value_grad(w)), median_seconds(lambda: engine.hessp(v))


def measure(data: RankingData, name: str, peak: float) -> str:
    """Return a line of the table."""
    evaluation, product = steps(
        data, name
    )  # the engine is released here, so the problem copies X again
    roofline = "" if name == "threads" else f"{data.X.nbytes / peak / product:8.0%}"
    problem = make_problem(data, 1.0, engine=name)
    start = time.perf_counter()
    result = make_solver("auto", tol=1e-5).solve(problem)
    fit = time.perf_counter() - start
    return (
        f"{data.X.dtype!s:8} {name:15} {1e3 * evaluation:10.2f} {1e3 * product:10.2f} "
        f"{roofline:>8} {fit:8.2f} {result.n_products:8d}"
    )


def split(data: RankingData, name: str) -> str:
    """Return a line with the milliseconds of sort, sums and products (Jin & Lin 2014)."""
    from numba import cuda

    engine = make_engine(name, data, get_loss("squared_hinge"), None, None)
    w, v = np.random.default_rng(0).standard_normal((2, data.n_features))
    engine.value_grad(1e-3 * w)
    times = []
    for step in engine.steps(v).values():

        def run(step: Callable[[], object] = step) -> None:
            step()
            cuda.synchronize()

        times.append(1e3 * median_seconds(run))
    return f"{data.X.dtype!s:8} {name:15} " + " ".join(f"{t:10.2f}" for t in times)


def main() -> None:
    n_queries = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    small = make_ranking(4, random_state=0)
    try:
        make_engine("cuda", small, get_loss("squared_hinge"), None, None)
    except DataError as error:
        sys.exit(f"nothing to measure: {error}")
    print(machine(resolve_threads()), flush=True)
    peak = bandwidth()
    data = make_ranking(n_queries, (80, 160), 136, n_levels=5, correlation=0.7, random_state=0)
    print(f"{data.n_docs:,} documents, {data.n_features} features; {peak / 1e9:,.0f} GB/s")
    print("X        engine          value, ms  product, ms  of peak   fit, s products")
    for dtype in (np.float64, np.float32):
        X = data.X.astype(dtype)
        for name in ENGINES:
            _print(measure, RankingData(X, data.y, data.qid), name, peak)
    print("\nX        engine            sort, ms   sums, ms  products, ms")
    for dtype in (np.float64, np.float32):
        for name in SPLIT:
            _print(split, RankingData(data.X.astype(dtype), data.y, data.qid), name)


def _print(measure: Callable[..., str], data: RankingData, name: str, *more: Any) -> None:
    """Print a line of a table, or why there is none."""
    try:
        print(measure(data, name, *more), flush=True)
    except DataError as error:
        print(f"{data.X.dtype!s:8} {name:15} {error}", flush=True)


if __name__ == "__main__":
    main()
