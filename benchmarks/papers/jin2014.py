"""Tables and figures of Jin & Lin 2014: Efficient parallel algorithms for linear RankSVM on GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.plots import line_style
from benchmarks.sparse_letor import read_parts
from benchmarks.tools import Options, Section, Sections, show_seconds
from linrank import RankingData, make_problem, strict_pairwise_accuracy
from linrank.choices import CountingName
from linrank.solvers import Newton, PaperTron, Result

from .jin2014_sorting import section_sorting
from .sections import COMPARED, GENERATED, add_plot, compare

TITLE = "Jin & Lin 2014: Efficient parallel algorithms for linear RankSVM on GPU"
ABOUT = (
    "Tables 1 to 3, figure 1 and the sorting algorithm of the paper beside what linrank finds. No "
    "graphics card was available, so there are no times of P-SWX. Operations are counted in a "
    "simulator. [The page of the paper](../jin2014.md) says what it proposes."
)

SETS = ("MQ2007", "MQ2008")
C, TOLERANCE = 1.0, 1e-5  #: §4: C and ε_s
#: l, n, k, |Q|, p and l_L of table 1.
TABLE_1 = {
    "MQ2007": (42_158, 46, 2, 1_017, 246_015, 147),
    "MQ2008": (9_630, 46, 3, 471, 52_325, 121),
}
LIST = "MQ2007-list, generated"
#: Training seconds of DCMRankSVM, OSTRankSVM and P-SWXRankSVM (table 2).
TABLE_2 = {
    "MQ2007": (12.67, 10.18, 5.90),
    "MQ2008": (0.67, 0.48, 1.37),
    LIST: (380.51, 203.02, 22.46),
}
#: Pairwise accuracy in percent of the same three (table 3).
TABLE_3 = {"MQ2007": (70.59, 70.59, 70.60), "MQ2008": (80.24, 80.24, 80.24)}
DCM: CountingName = "direct"
OST: CountingName = "selection-tree"
COUNTINGS: dict[str, CountingName] = {"DCM": DCM, "OST": OST, "linrank's tables": "tables"}
FLIPS = 10  #: fits of data with changed last bits


def section_sets(options: Options) -> Section:
    """Compare the sizes of the training sets with table 1."""
    section = Section(
        "sets",
        "Table 1: training data",
        "The training parts of fold 1. MQ2007-list, MQ2008-list, MSLR-WEB10K and MSLR-WEB30K are "
        "not at hand",
        COMPARED,
    )
    names = ("documents l", "features n", "levels k", "queries |Q|", "pairs p", "longest query l_L")
    for name in SETS:
        data = read_parts(name, 1)[0]
        ours = (data.n_docs, data.n_features, data.n_levels, data.n_queries,
                make_problem(data).engine.n_pairs, int(np.diff(data.query_ptr).max()))  # fmt: skip
        for what, published, own in zip(names, TABLE_1[name], ours, strict=True):
            reason = "the same" if own == published else "the labels of the file are 0, 1 and 2"
            compare(section, f"{name}, {what}", published, own, reason, digits=0)
    return section


# Table 2 and figure 1 ----------------------------------------------------------------------------


def section_training(options: Options) -> Section:
    """Compare DCM and OST on the processor, as in table 2 and figure 1."""
    section = Section(
        "training",
        "Table 2 and figure 1: training on the processor",
        f"Trust-region Newton (Algorithm 1) with C = {C:g} and ε_s = {TOLERANCE:g} on fold 1, with "
        "one thread. The published seconds are those of another processor, so ratios are compared. "
        "P-SWX needs a card. η is the relative difference to the optimum (eq. 15). MQ2007-list has "
        f"as many levels as documents in a query. {GENERATED}, with a thirtieth of the queries",
        ["data", "method", "published, s", "linrank", "published ratio to DCM", "ratio to DCM",
         "iterations", "η at the end"],
    )  # fmt: skip
    curves = {}
    for name in ("MQ2008", LIST) if options.quick else TABLE_2:
        generated = name == LIST
        data = _list_like(3 if options.quick else 34) if generated else read_parts(name, 1)[0]
        curves[name] = _add_training(section, name, data)
    section.notes.append(
        "DCM costs O(lk) and OST O(l·log k) steps for the pair sums. With three levels they hardly "
        "differ: the ratio is that of two programs rather than of two algorithms. Iterations "
        "differ because the sums are rounded differently."
    )
    ratio = _ratio(section, LIST)
    section.aim("OST is faster than DCM if there are many levels, as in the paper",
                f"{ratio:.2f} of the time", ratio < 1)  # fmt: skip
    for name, published in TABLE_2.items():
        section.add(name, "P-SWX", f"{published[2]:.2f}", "no card",
                    f"{published[2] / published[0]:.2f}", "—", "—", "—",
                    published=published[2])  # fmt: skip
    add_plot(
        section, options, "jin2014-convergence", "Convergence of TRON with DCM and OST",
        [lambda axes, name=name: _draw(axes, name, *curves[name]) for name in curves],
    )  # fmt: skip
    return section


def _solve(data: RankingData, counting: CountingName, n_threads: int = 1) -> Result:
    problem = make_problem(data, C, counting=counting, n_threads=n_threads)
    solver = PaperTron(tol=TOLERANCE)
    PaperTron(tol=0.5, max_iter=1).solve(problem)  # compiles
    return solver.solve(problem)


def _list_like(n_queries: int) -> RankingData:
    """Return queries of 731 documents with 46 features in [0, 1], which are fully ordered."""
    rng = np.random.default_rng(0)
    X = rng.random((n_queries, 731, 46))
    appeal = X @ rng.standard_normal(46) + 1.5 * rng.standard_normal(X.shape[:2])
    y = appeal.argsort(axis=1).argsort(axis=1)
    return RankingData(X.reshape(-1, 46), y.ravel(), np.repeat(np.arange(n_queries), 731))


def _ratio(section: Section, name: str) -> float:
    """Return the seconds of OST relative to those of DCM."""
    times = {row["method"]: row["seconds"] for row in section.numbers if row["data"] == name}
    return times["OST"] / times["DCM"]


def _add_training(
    section: Section, name: str, data: RankingData
) -> tuple[dict[str, Result], float]:
    best = Newton(tol=1e-9).solve(make_problem(data, C)).objective
    found = {method: _solve(data, counting) for method, counting in COUNTINGS.items()}
    base, published = found["DCM"].seconds, TABLE_2[name]
    for k, (method, result) in enumerate(found.items()):
        known = published[k] if k < 2 else None
        section.add(
            name, method, "—" if known is None else f"{known:.2f}", show_seconds(result.seconds),
            "—" if known is None else f"{known / published[0]:.2f}",
            f"{result.seconds / base:.2f}", str(result.n_iter),
            f"{abs(result.objective - best) / best:.1e}",
            data=name, method=method, seconds=result.seconds, published=known,
            eta=[abs(step.objective - best) / best for step in result.history],
            clock=[step.seconds for step in result.history],
        )  # fmt: skip
    return found, best


def _draw(axes: Any, name: str, found: dict[str, Result], best: float) -> None:
    for k, (method, result) in enumerate(found.items()):
        clock = [step.seconds for step in result.history]
        eta = [max(1e-10, abs(step.objective - best) / best) for step in result.history]
        axes.plot(clock, eta, label=method, **line_style(k))
    axes.set(yscale="log", xlabel="seconds", ylabel="η", title=f"{name}: figure 1")
    axes.legend()


# Table 3 -----------------------------------------------------------------------------------------


def section_accuracy(options: Options) -> Section:
    """Compare the pairwise accuracy on the training part with table 3."""
    section = Section(
        "accuracy",
        "Table 3: pairwise accuracy in percent",
        f"Strict pairwise accuracy (eq. 16) with C = {C:g} and ε_s = {TOLERANCE:g} on fold 1. The "
        "published values are those of the training part, which the paper does not say: the test "
        f"part has others. ± is the standard deviation over {FLIPS} fits of data whose features "
        "differ by one unit in the last place of float32",
        COMPARED,
    )
    for name in SETS:
        train, _, test = read_parts(name, 1)
        values = [_accuracy(train, _solve(one, "tables", options.threads).coef)
                  for one in _flipped(train, 2 if options.quick else FLIPS)]  # fmt: skip
        spread = float(np.std(values, ddof=1))
        for k, (method, counting) in enumerate((("DCM", DCM), ("OST", OST))):
            own = _accuracy(train, _solve(train, counting, options.threads).coef)
            compare(section, f"{name}, {method}", TABLE_3[name][k], own,
                    "training part, in float64", digits=2, spread=spread)  # fmt: skip
        single = RankingData(train.X.astype(np.float32), train.y, train.qid)
        coef = _solve(single, "tables", options.threads).coef
        compare(section, f"{name}, P-SWX", TABLE_3[name][2], _accuracy(train, coef),
                "features in float32 on the processor, because there is no card", digits=2,
                spread=spread)  # fmt: skip
        compare(section, f"{name}, test part", TABLE_3[name][1], _accuracy(test, coef),
                "for information: not the part that was published", digits=2)  # fmt: skip
    worst = max(abs(row["linrank"] - row["published"]) for row in section.numbers
                if "test part" not in row["what"])  # fmt: skip
    section.aim("accuracies differ by at most 0.05 from the published ones", f"{worst:.2f}",
                worst <= 0.05)  # fmt: skip
    return section


def _accuracy(data: RankingData, coef: np.ndarray) -> float:
    return 100.0 * float(strict_pairwise_accuracy(data.y, data.X @ coef, data.qid))


def _flipped(data: RankingData, times: int) -> list[RankingData]:
    """Return data whose features are moved by one unit in the last place of float32."""
    found = []
    for seed in range(times):
        rng = np.random.default_rng(seed)
        X = data.X * (1 + np.finfo(np.float32).eps * rng.choice([-1, 0, 1], data.X.shape))
        found.append(RankingData(X, data.y, data.qid))
    return found


SECTIONS: Sections = {
    "sets": section_sets,
    "training": section_training,
    "accuracy": section_accuracy,
    "sorting": section_sorting,
}
