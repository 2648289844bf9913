"""AUC maximisation by RankSVM: one query with two labels and up to a million sparse rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from linrank import RankSVM
from linrank.engines.threads import LARGE_QUERY

from .plots import draw, line_style
from .tools import (
    Options,
    Section,
    forget_high_water,
    from_process,
    high_water,
    median_seconds,
    show_seconds,
)

PER_ROW = 50  #: nonzero entries per row
FEATURES = 50_000
C = 1000.0  #: value of C at which the mean loss falls from 1 to about a quarter
BYTES_GOAL = 100


def bench_auc(options: Options) -> Section:
    """Measure time and memory of a fit against the number of rows."""
    sizes = (1_000, 3_000) if options.quick else (10_000, 30_000, 100_000, 300_000, 1_000_000)
    section = Section(
        "auc",
        "The AUC of one query with two labels: time and memory of a fit",
        f"l × {FEATURES:,} CSR float64 with {PER_ROW} non-zeros per row, half of the labels 1; "
        f'RankSVM(C={C:g}, normalize="pairs", scale=None, tol=1e-3), each l in a '
        "process of its own after a fit that compiles. A pass is a Hessian product or a value "
        "with its gradient. Memory is the peak of the process during the fit above what it held "
        "before, with the data",
        ["l", "fit", "passes", "time per pass", "per pass and l log₂ l", "memory beyond the data",
         "per row", "AUC"],
    )  # fmt: skip
    for n in sizes:
        for own in from_process(run_fit, n, options.threads, cap=600.0):
            section.add(
                f"{n:,}", show_seconds(own["seconds"]), str(own["passes"]),
                show_seconds(own["pass_seconds"]),
                f"{own['pass_seconds'] / (n * np.log2(n)) * 1e9:.2f} ns",
                f"{own['bytes'] / 1e6:.1f} MB", f"{own['bytes'] / n:.0f} bytes",
                f"{own['auc']:.3f}", **own,
            )  # fmt: skip
    _conclude(section)
    draw(
        options.out / "pairwise_auc.svg",
        [
            lambda axes: _draw_line(axes, section.numbers, "seconds", "fit"),
            lambda axes: _draw_line(axes, section.numbers, "pass_seconds", "one pass"),
        ],
    )
    return section


def _conclude(section: Section) -> None:
    for key, what in (("seconds", "a fit"), ("pass_seconds", "a pass")):
        power, _ = _power_law(section.numbers, key)
        section.notes.append(f"The time of {what} grows as (l log l)^{power:.2f}.")
    last = section.numbers[-1]
    beyond = last["bytes"] / last["n"]
    section.aim(
        f"at most {BYTES_GOAL} bytes per row beyond the data at l = {last['n']:,}",
        f"{beyond:.0f} bytes",
        beyond <= BYTES_GOAL,
    )


def _power_law(numbers: list[dict[str, Any]], key: str) -> tuple[float, float]:
    """Return slope and intercept of a linear fit of log time against log(l log l)."""
    n = np.array([own["n"] for own in numbers], float)
    slope, offset = np.polyfit(np.log(n * np.log2(n)), np.log([own[key] for own in numbers]), 1)
    return float(slope), float(offset)


# In a process of its own -----------------------------------------------------------------------


def make_clicks(n: int, n_features: int, per_row: int) -> tuple[sparse.csr_array, Any]:
    """Return CSR rows with one nonzero in each of `per_row` bands of features, and two labels.

    The function needs little more memory than its result, so that the peak memory is that of the
    fit.
    """
    rng = np.random.default_rng(0)
    band = n_features // per_row
    columns = rng.integers(0, band, (n, per_row), dtype=np.int32)
    columns += band * np.arange(per_row, dtype=np.int32)
    starts = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    values = rng.standard_normal(n * per_row)
    X = sparse.csr_array((values, columns.ravel(), starts), shape=(n, n_features))
    utility = X @ rng.standard_normal(n_features)
    utility += np.sqrt(per_row) * rng.standard_normal(n)
    return X, (utility > np.median(utility)).astype(float)


def run_fit(n: int, threads: int) -> Iterator[dict[str, Any]]:
    """Fit n rows, and yield the time and the peak memory."""
    ranker = RankSVM(C=C, normalize="pairs", scale=None, tol=1e-3, n_threads=threads)
    for rows in (1_000, LARGE_QUERY + 1):  # compile the kernels of small and of large queries
        ranker.fit(*make_clicks(rows, FEATURES, 3))
    X, y = make_clicks(n, FEATURES, PER_ROW)
    before = forget_high_water()
    ranker.fit(X, y)
    memory = high_water() - before
    solves: list[float] = []
    seconds = median_seconds(lambda: solves.append(ranker.fit(X, y).result_.seconds), budget=3.0)
    passes = ranker.result_.n_products + ranker.result_.n_evaluations
    yield {
        "n": n,
        "seconds": seconds,
        "passes": passes,
        "pass_seconds": statistics.median(solves) / passes,
        "bytes": memory,
        "threads": threads,
        "auc": roc_auc_score(y, X @ ranker.coef_),
    }


def _draw_line(axes: Any, numbers: list[dict[str, Any]], key: str, title: str) -> None:
    n = np.array([own["n"] for own in numbers], float)
    work = n * np.log2(n)
    slope, offset = _power_law(numbers, key)
    style = line_style(0) | {"linestyle": ""}
    axes.loglog(work, [own[key] for own in numbers], label="measured", **style)
    line = np.exp(offset) * work**slope
    label = f"∝ (l log l)$^{{{slope:.2f}}}$"
    axes.loglog(work, line, label=label, color="#666666", linewidth=0.8)
    axes.set_title(f"One query, two labels: {title}")
    axes.set_xlabel("l log₂ l")
    axes.set_ylabel("seconds")
    axes.legend()
