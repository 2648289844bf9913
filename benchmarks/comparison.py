"""Comparison of linrank with other tools: ``python -m benchmarks.comparison``.

`bench_tools` measures the time to the same objective. `bench_trees` compares linrank with boosted
trees, which minimise another objective. Environment variables are the paths of external programs:
``LINRANK_BENCH_RANKSVM`` of liblinear's ``train``, ``LINRANK_BENCH_RANKSVM_OPENMP`` of its version
with OpenMP threads, and ``LINRANK_BENCH_SVMRANK`` of ``svm_rank_learn``. Programs without a path
are not measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linrank import RankingData, open_store, save_store
from linrank.problem import make_problem

from .plots import draw, line_style
from .programs import Program, programs_here
from .rankers import RANKERS, run_ranker
from .rivals import SETTINGS, START, TIGHT, TOOLS, Job, Run, Tool, run_linrank, tight_solver
from .shapes import QUICK, SHAPES, available, kept
from .tools import Options, Section, from_process, pinned, run_sections, show_seconds, stop_after

TARGETS = (1e-2, 1e-3)  #: relative distances (f − f*)/f* at which times are taken
EQUAL = 1e-6  #: relative difference up to which two objectives count as equal
TENTHS = ("web", "web-scaled", "clicks")  #: shapes that are also measured at a tenth of their size
LEFT_OUT = ("web-float32", "web-large")  #: shapes that do not differ from others for other tools
TRIED = ("web-scaled", "wide", "text", "mq2008")  #: shapes of the quick run
ONE_QUERY = "one query"
#: Losses that linrank minimises in place of a loss of another tool.
OWN_LOSSES = {"logistic_exact": ("logistic", "logistic_exact")}
Named = tuple[str, Path, float | None]  #: name, store and C


# Shapes -----------------------------------------------------------------------------------------


def _stores(options: Options) -> Iterator[Named]:
    names = [name for name in available() if name not in LEFT_OUT]
    if options.quick:
        yield from ((name, kept(name, QUICK), SHAPES[name].C) for name in names if name in TRIED)
        yield ONE_QUERY, _one_query(500, QUICK), 0.5
        return
    for name in names:
        if name in TENTHS:
            yield f"{name}, a tenth", kept(name, 0.1), SHAPES[name].C
        yield name, kept(name), SHAPES[name].C
    yield ONE_QUERY, _one_query(5_000, 1.0), 0.5


def _one_query(n_docs: int, part: float) -> Path:
    """Return a store with the first documents of many-levels as one query."""
    whole = kept("many-levels", part)
    path = whole.with_name(f"one-query-{n_docs}")
    if not path.exists():
        data = open_store(whole)
        save_store(RankingData(np.array(data.X[:n_docs]), data.y[:n_docs]), path)
    return path


# The same problem -------------------------------------------------------------------------------


def bench_tools(options: Options) -> Section:
    """Measure the time to the same objective of other tools and of linrank."""
    cap = 10.0 if options.quick else 60.0
    section = Section(
        "tools",
        "Other tools on the same problems",
        "Each tool minimises ½‖w‖² + C·Σ ℓ over the pairs with weights judged by linrank; f* is "
        "the lowest objective known. Its time is that of the fastest fit whose (f − f*)/f* is at "
        "most what the column says, without turning the data into its own form (pairs, vectors); "
        "linrank's is the time until its objective is as low as the one reached there, or within "
        f"{EQUAL:g} of f* ({TIGHT['hinge']:g} for the hinge, where it stops), with laying out the "
        "pairs (of its two logistic losses the sooner one, both judged by the exact loss); × is "
        f"their ratio. A fit is given up after {cap:.0f} s. Programs that read text are "
        "timed from start to end, against linrank with reading the same text. Memory is "
        "the peak of a process beyond what it holds before the data are loaded, data included",
        ["data", "tool", "loss", "threads",
         *(cell for target in TARGETS for cell in (f"to {target:g}", "linrank", "×")),
         "closest", "memory", "linrank's", "note"],
    )  # fmt: skip
    with pinned(options.threads):
        for name, store, C in _stores(options):
            _compare(section, name, make_job(store, C, options.threads, cap))
    _judge(section)
    drawn = _most_reached(section)
    if drawn:
        draw(
            options.out / "tools.svg",
            [
                lambda axes, name=name: _draw_curves(axes, name, section.numbers, name == drawn[0])
                for name in drawn
            ],
        )
    return section


def make_job(store: Path, C: float | None, threads: int, cap: float) -> Job:
    """Return the problem of a store; without C, the loss is of the size of a sum over documents."""
    data = open_store(store)
    n_pairs = make_problem(data, n_threads=threads).engine.n_pairs
    return Job(store, data.n_docs / n_pairs if C is None else C, n_pairs, threads, cap)


def _compare(section: Section, name: str, job: Job) -> None:
    data = open_store(job.store, mmap=False)
    tools: list[Tool | Program] = [*TOOLS.values(), *programs_here()]
    for loss in ("squared_hinge", "logistic_exact", "hinge"):
        able = []
        for tool in (tool for tool in tools if tool.loss == loss):
            reason = tool.refuse(data, job.n_pairs)
            if reason is None:
                able.append(tool)
            else:
                nothing = ["—"] * (len(section.columns) - 5)
                section.add(
                    name, tool.name, loss, _threads(tool, job), *nothing, reason,
                    data=name, tool=tool.name, loss=loss, note=reason,
                )  # fmt: skip
        if able:
            _compare_loss(section, name, data, loss, able, job)


def _compare_loss(
    section: Section, name: str, data: RankingData, loss: str, tools: list[Tool | Program], job: Job
) -> None:
    problem = make_problem(data, job.C, loss=loss, n_threads=job.threads)
    sharp = tight_solver(problem, callback=stop_after(10 * job.cap)).solve(problem)
    found = {tool.name: _measure(tool, job, problem, sharp.objective) for tool in tools}
    objectives = [run["objective"] for outcome in found.values() for run in outcome.runs]
    best = min([sharp.objective, *objectives])
    goal = max(min([(1 + TARGETS[-1]) * best, *objectives]), _as_good_as(best, loss))
    ours = {
        (own, from_text): list(
            from_process(run_linrank, job, own, loss, goal, from_text, cap=10 * job.cap)
        )
        for from_text in sorted({tool.from_text for tool in tools})
        for own in OWN_LOSSES.get(loss, (loss,))
    }
    best = min([best, *(f for fits in ours.values() for fit in fits for _, f in fit["curve"])])
    for tool in tools:
        if not sharp.converged:
            found[tool.name].note = f"{found[tool.name].note} f* is not certain".strip()
        own = {key: fits for (key, from_text), fits in ours.items() if from_text == tool.from_text}
        _add_row(section, name, tool, job, found[tool.name], own, best)


@dataclass
class Outcome:
    """The fits of a tool, whether the next one was stopped by the time limit, and a note."""

    runs: list[Run]
    given_up: bool = False
    note: str = ""


def _measure(tool: Tool | Program, job: Job, problem: Any, best: float) -> Outcome:
    """Fit with tighter and tighter settings until the last target is reached."""
    runs: list[Run] = []
    prepared = False
    try:
        for run in tool.runs(job):
            if "prepared" in run:
                prepared = True
                continue
            if run["seconds"] > job.cap:
                break
            objective = float(problem.value_grad(run.pop("coef"))[0])
            if not np.isfinite(objective):
                return Outcome(runs, note=f"broke off: its weights have the objective {objective}")
            runs.append(run | {"objective": objective})
            if objective <= (1 + TARGETS[-1]) * best:
                return Outcome(runs)
    except RuntimeError as error:
        return Outcome(runs, note=f"broke off: {error}")
    if not prepared:
        return Outcome(runs, note=f"not ready in {job.cap + START:.0f} s")
    return Outcome(runs, given_up=len(runs) < len(SETTINGS))


def _add_row(
    section: Section,
    name: str,
    tool: Tool | Program,
    job: Job,
    outcome: Outcome,
    ours: dict[str, list[Run]],
    best: float,
) -> None:
    ended = all(fits and fits[-1]["curve"][-1][0] <= job.cap for fits in ours.values())
    cells: list[str] = []
    ratios: dict[str, float | None] = {}
    for target in TARGETS:
        near = [run for run in outcome.runs if run["objective"] <= (1 + target) * best]
        run = min(near, key=lambda run: run["seconds"], default=None)
        same = _as_good_as(best, tool.loss)
        goal = (1 + target) * best if run is None else max(run["objective"], same)
        own = min(_seconds_to(fits, goal) for fits in ours.values())
        theirs = None if run is None else run["seconds"]
        ratios[f"{target:g}"] = None if theirs is None else theirs / min(own, job.cap)
        cells += _show_times(theirs, own, outcome.given_up, job.cap, ended)
    closest = min((run["objective"] / best - 1 for run in outcome.runs), default=None)
    memory = max((run["memory"] for run in outcome.runs), default=None)
    own_memory = min((fits[-1]["memory"] for fits in ours.values() if fits), default=None)
    section.add(
        name, tool.name, tool.loss, _threads(tool, job), *cells,
        "—" if closest is None else f"{closest:.0e}", _show_memory(memory),
        _show_memory(own_memory), outcome.note,
        data=name, tool=tool.name, loss=tool.loss, ratios=ratios, best=best,
        runs=outcome.runs, given_up=outcome.given_up, note=outcome.note, memory=memory,
        linrank={key: [fit["curve"] for fit in fits] for key, fits in ours.items()},
        linrank_memory=own_memory,
    )  # fmt: skip


def _as_good_as(best: float, loss: str) -> float:
    """Return the largest objective that counts as optimal, given the tolerance of linrank."""
    return (1 + max(EQUAL, TIGHT.get(loss, 0.0))) * best


def _show_times(
    theirs: float | None, own: float, given_up: bool, cap: float, ended: bool
) -> list[str]:
    """Return the seconds of a tool and of linrank, which may have `ended` before, and the ratio."""
    late, arrived = f"> {cap:.0f} s", np.isfinite(own)
    ours = show_seconds(own) if arrived else "not reached" if ended else late
    if theirs is None:
        ratio = f"> {show_ratio(cap / own)}" if given_up and arrived else "—"
        return [late if given_up else "not reached", ours, ratio]
    bound = "—" if ended else f"< {show_ratio(theirs / cap)}"
    return [show_seconds(theirs), ours, show_ratio(theirs / own) if arrived else bound]


def _seconds_to(ours: list[Run], goal: float) -> float:
    """Return the median seconds of repeated fits until the objective is at most the goal."""
    times = [
        next((seconds for seconds, objective in run["curve"] if objective <= goal), np.inf)
        for run in ours
    ]
    return statistics.median(times or [np.inf])


def _threads(tool: Tool | Program, job: Job) -> str:
    return str(job.threads if tool.threaded else 1)


def show_ratio(ratio: float) -> str:
    """Return a ratio as text with two digits, or without decimals."""
    return f"{ratio:.2g}" if ratio < 10 else f"{ratio:.0f}"


def _show_memory(size: float | None) -> str:
    return "—" if size is None else f"{size / 1e6:,.0f} MB"


def _judge(section: Section) -> None:
    ratios = [
        (ratio, own["tool"], own["data"])
        for own in section.numbers
        for ratio in own.get("ratios", {}).values()
        if ratio is not None
    ]
    least, tool, data = min(ratios, default=(0.0, "no tool", "any data"))
    section.aim(
        f"linrank at least 10 × sooner than every tool, to every objective within {TARGETS[0]:g} "
        "of f* that the tool reached",
        f"{show_ratio(least)} × at worst ({tool} on {data}); 10 × or more in "
        f"{sum(ratio >= 10 for ratio, *_ in ratios)} of {len(ratios)} comparisons",
        least >= 10,
    )


# Plots ------------------------------------------------------------------------------------------


def _most_reached(section: Section, n: int = 4) -> list[str]:
    """Return the names of the data on which most tools reached a target."""
    numbers = [own["data"] for own in section.numbers if own.get("runs")]
    return sorted(dict.fromkeys(numbers), key=lambda name: -numbers.count(name))[:n]


def _draw_curves(axes: Any, name: str, numbers: list[dict[str, Any]], legend: bool) -> None:
    """Draw the lowest objective so far; a tool has the same line style in all panels."""
    lines = {f"linrank, {loss}": [] for loss in ("squared_hinge", "logistic", "logistic_exact")}
    lines |= {"linrank, hinge": []} | {own["tool"]: [] for own in numbers}
    for own in (own for own in numbers if own["data"] == name and own.get("runs")):
        for loss, curves in own["linrank"].items():
            for curve in curves[:1]:
                lines[f"linrank, {loss}"] = [(t, f / own["best"] - 1) for t, f in curve]
        lines[own["tool"]] = [(r["seconds"], r["objective"] / own["best"] - 1) for r in own["runs"]]
    for k, (label, points) in enumerate(lines.items()):
        if not points:
            continue
        seconds, away = np.array(sorted(points)).T
        ours = label.startswith("linrank")
        look = line_style(k) | {
            "linestyle": "-" if ours else "--",
            "linewidth": 2.0 if ours else 1.2,
        }
        axes.plot(seconds, np.maximum(np.minimum.accumulate(away), EQUAL), label=label, **look)
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="(f − f*)/f*", title=name)
    axes.set_ylim(EQUAL, 1e3)
    if legend:
        axes.legend(fontsize=6.5, loc="upper right")


# Boosted trees ----------------------------------------------------------------------------------


def bench_trees(options: Options) -> Section:
    """Measure seconds and NDCG@10 of boosted trees, for orientation."""
    section = Section(
        "trees",
        "Boosted trees, for orientation",
        "LGBMRanker (lambdarank) and XGBRanker (rank:ndcg) with their default settings, 100 trees, "
        "and RankSVM with the C of the shape, learnt from four fifths of the queries; NDCG@10 on "
        "the others. The generated data follow a linear score, which suits linrank; mq2007 and "
        "mq2008 are real. For labels that are whole numbers from 0 to 31 only",
        ["data", "tool", "seconds", "× linrank", "NDCG@10", "memory"],
    )
    with pinned(options.threads):
        for name, store, C in _stores(options):
            data = open_store(store)
            if data.n_queries < 5 or not np.isin(data.y, np.arange(32)).all():
                continue
            job = make_job(store, C, options.threads, 10.0 if options.quick else 60.0)
            _compare_trees(section, name, job)
    return section


def _compare_trees(section: Section, name: str, job: Job) -> None:
    own = None
    for tool in RANKERS:
        run = next(from_process(run_ranker, tool, job, cap=10 * job.cap), None)
        if run is None:
            section.add(name, tool, f"> {10 * job.cap:.0f} s", *["—"] * 3, data=name, tool=tool)
            continue
        own = own or run["seconds"]
        section.add(
            name, tool, show_seconds(run["seconds"]), show_ratio(run["seconds"] / own),
            f"{run['ndcg']:.4f}", _show_memory(run["memory"]), data=name, tool=tool, **run,
        )  # fmt: skip


SECTIONS = {"tools": bench_tools, "trees": bench_trees}

if __name__ == "__main__":
    run_sections(__doc__, "comparison", SECTIONS)
