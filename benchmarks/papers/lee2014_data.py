"""Data and measures of Lee & Lin 2014: published statistics, real folds, generated shapes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.shapes import SHAPES
from benchmarks.sparse_letor import read_parts
from benchmarks.tools import Options, Section
from linrank import RankingData, make_ranking
from linrank._util.types import Vector
from linrank.metrics import evaluate
from linrank.problem import make_problem

from .sections import GENERATED

#: l, n, k, |Q|, p and the mean of k_q/l_q of table 2.
TABLE_2 = {
    "MQ2007": (42_158, 46, 3, 1_017, 246_015, 0.0546),
    "MQ2008": (9_630, 46, 3, 471, 52_325, 0.1697),
    "MSLR 30k": (2_270_296, 136, 5, 18_919, 101_312_036, 0.0492),
    "YAHOO LTRC set 1": (473_134, 519, 5, 19_944, 5_178_545, 0.2228),
    "YAHOO LTRC set 2": (34_815, 596, 5, 1_266, 292_951, 0.1560),
    "MQ2007-list": (743_790, 46, 1_268, 1_017, 285_943_893, 1.0),
    "MQ2008-list": (540_679, 46, 1_831, 471, 323_151_792, 1.0),
}
#: The shape of `benchmarks.shapes` that stands for a set, and the share of its size.
STANDS_FOR = {
    "MSLR 30k": ("web-scaled", 0.1),
    "YAHOO LTRC set 1": ("wide-large", 0.03),
    "YAHOO LTRC set 2": ("wide", 0.15),
}
#: The two measures of the paper. Mean NDCG is that of LETOR 4.0.
MEASURES = {"pairwise accuracy": "strict-pairwise-accuracy", "NDCG": "mean-ndcg"}


def real_sets(options: Options) -> tuple[str, ...]:
    """Return the names of the real sets: only the smaller one in a quick run."""
    return ("MQ2008",) if options.quick else ("MQ2007", "MQ2008")


def measure(data: RankingData, scores: Vector) -> dict[str, float]:
    """Return both measures of the scores; NDCG is NaN unless the labels are grades from 0 to 4."""
    graded = bool(np.isin(data.y, range(5)).all())
    metrics = [*MEASURES.values()] if graded else [MEASURES["pairwise accuracy"]]
    found = evaluate(data.y, scores, data.qid, metrics=metrics, flavour="letor4").mean
    return {name: float(found.get(metric, np.nan)) for name, metric in MEASURES.items()}


def generated(name: str, options: Options) -> RankingData:
    """Return generated data of the shape of a set, smaller than the set."""
    shape, part = STANDS_FOR[name]
    return SHAPES[shape].make(0.005 if options.quick else part)


def lists(options: Options, n_queries: int = 50) -> tuple[RankingData, RankingData, RankingData]:
    """Return training, validation and test data of the shape of MQ2007-list: k_q = l_q."""
    size, n_queries = (40, 10) if options.quick else (740, n_queries)
    data = make_ranking(n_queries + 20, size, 46, n_levels=None, noise=1.5, random_state=0)
    ends = np.array([0, n_queries, n_queries + 10, n_queries + 20]) * size
    train, valid, test = (data.take(np.arange(a, b)) for a, b in pairwise(ends))
    return train, valid, test


def table_2(options: Options) -> Section:
    """Compare the numbers of documents, levels, queries and pairs with the published ones."""
    section = Section(
        "table-2", "Table 2: statistics of the training data",
        f"Rows named published are those of the paper. {GENERATED}, and smaller",
        ["data", "source", "l", "n", "k", "|Q|", "p", "mean k_q/l_q"],
    )  # fmt: skip
    found = {name: ("fold 1", read_parts(name, 1)[0]) for name in real_sets(options)}
    found |= {name: ("generated", generated(name, options)) for name in STANDS_FOR}
    found["MQ2007-list"] = ("generated", lists(options)[0])
    for name, published in TABLE_2.items():
        _add(section, name, "published", published)
        if name in found:
            source, data = found[name]
            _add(section, name, source, statistics(data))
    for name in real_sets(options):
        same = statistics(found[name][1])[:5] == TABLE_2[name][:5]
        section.aim(f"{name} has the published numbers", "the same" if same else "others", same)
    return section


def statistics(data: RankingData) -> tuple[int, int, int, int, int, float]:
    """Return l, n, k, |Q|, p and the mean of k_q/l_q."""
    n_levels = [len(np.unique(data.y[a:b])) for a, b in pairwise(data.query_ptr)]
    k = max(n_levels) if len(np.unique(data.y)) == data.n_docs else len(np.unique(data.y))
    share = float(np.mean(n_levels / np.diff(data.query_ptr)))
    n_pairs = make_problem(data).engine.n_pairs
    return data.n_docs, data.n_features, k, data.n_queries, n_pairs, share


def _add(section: Section, name: str, source: str, found: tuple[int, ...] | tuple) -> None:
    *counts, share = found
    section.add(
        name, source, *(f"{count:,}" for count in counts), f"{share:.4f}",
        data=name, source=source, statistics=list(found),
    )  # fmt: skip
