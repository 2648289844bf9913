"""The defaults of `RankSVM` on data of many shapes, compared with the best of a grid."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from linrank import RankingData, RankSVM, make_ranking, read_letor

from .shapes import SHAPES, available
from .tools import Options, Section, pinned, show_seconds

CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
NEAR = 0.005  #: difference to the best value that the defaults should keep
RUNS = 3  #: fits of which the shortest time counts, unless one takes longer than a second


@dataclass(frozen=True)
class Case:
    """Data of one shape, which are split into training and validation data."""

    name: str
    about: str
    metric: str
    make: Callable[[float], tuple[RankingData, RankingData]]
    file: str | None = None  #: the shape whose file must be in the folder ``LINRANK_DATA``


def bench_defaults(options: Options) -> Section:
    """Compare the defaults, those of version 0.2 and the best of a grid on validation data."""
    section = Section(
        "defaults",
        "Defaults",
        "RankSVM on training data, measured on validation data: NDCG@10, or the share of pairs in "
        "the right order (AUC, if there are two labels). Version 0.2: C=1, the sum over all pairs, "
        'no scaling. The best: normalize="pairs", '
        f"C from {CS[0]:g} to {CS[-1]:g}, and each scaling. Each cell has the metric and the time "
        "of one fit",
        ["data", "metric", "version 0.2", "defaults", "best C, same scaling", "the best", "of"],
    )
    with pinned(options.threads):
        for case in CASES:
            if case.file is None or case.file in available():
                _compare(section, case, 0.1 if options.quick else 1.0)
    for goal, limit, kind in (
        (f"the defaults are within {NEAR} of the best C", NEAR, "loss"),
        ("the defaults take at most 3 times as long as the best C", 3.0, "slower"),
    ):
        section.aim_at_most(goal, limit, {own["data"]: own[kind] for own in section.numbers}, 4)
    return section


def _compare(section: Section, case: Case, part: float) -> None:
    train, valid = case.make(part)
    RankSVM(max_iter=1).fit(train.take(np.arange(min(50, train.n_docs))))  # loads the kernels
    before = _measure(case, train, valid, RankSVM(1.0, normalize=None, scale=None))
    default = _measure(case, train, valid, RankSVM())
    grid = {
        (C, scale): _measure(case, train, valid, RankSVM(C, normalize="pairs", scale=scale))
        for C, scale in product(CS, _scales(train))
    }
    own = RankSVM().fit(train).model_.settings["scale"]
    near = max((found for (_, scale), found in grid.items() if scale == own), key=_by_metric)
    (C, scale), best = max(grid.items(), key=lambda item: _by_metric(item[1]))
    section.add(
        f"{case.name}: {case.about}", case.metric, *map(_show, (before, default, near, best)),
        f"C={C:g}, {scale}", data=case.name, grid=[[*key, *found] for key, found in grid.items()],
        loss=near[0] - default[0], slower=default[1] / near[1],
    )  # fmt: skip


def _scales(data: RankingData) -> list[str | None]:
    """Return the scalings that are tried."""
    if data.is_sparse:
        return [None, "common"]
    return [None, "standard", "query"] if data.n_queries > 1 else [None, "standard"]


def _by_metric(found: tuple[float, float]) -> tuple[float, float]:
    """Return the key by which the best metric is found, and of equal ones the shortest time."""
    return found[0], -found[1]


def _measure(
    case: Case, train: RankingData, valid: RankingData, ranker: RankSVM
) -> tuple[float, float]:
    """Return the metric on validation data, and the seconds of a fit."""
    seconds = np.inf
    for _ in range(RUNS):
        started = time.perf_counter()
        ranker.fit(train)
        last = time.perf_counter() - started
        seconds = min(seconds, last)
        if last > 1.0:
            break
    return ranker.score(valid.X, valid.y, valid.qid, metric=case.metric), seconds


def _show(found: tuple[float, float]) -> str:
    return f"{found[0]:.4f}, {show_seconds(found[1])}"


def _parts(data: RankingData) -> tuple[RankingData, RankingData]:
    """Return two thirds of the data, and the rest: whole queries if there are several."""
    one = data.n_queries == 1
    unit = np.arange(data.n_docs) if one else np.repeat(
        np.arange(data.n_queries), np.diff(data.query_ptr)
    )  # fmt: skip
    held_out = (np.random.default_rng(0).random(unit[-1] + 1) < 1 / 3)[unit]
    return data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out))


def _letor(part: float, name: str) -> tuple[RankingData, RankingData]:
    train = SHAPES[name].make(part)
    place = Path(os.environ["LINRANK_DATA"], SHAPES[name].file or "")
    return train, read_letor(place.with_name("vali.txt"), n_features=train.n_features)


def _shape(part: float, name: str, share: float = 1.0) -> tuple[RankingData, RankingData]:
    return _parts(SHAPES[name].make(share * part))


def _dense(part: float, name: str) -> tuple[RankingData, RankingData]:
    data = SHAPES[name].make(part)
    return _parts(data.replace(X=data.X.toarray()))


def _made(part: float, n_queries: int, **options: Any) -> tuple[RankingData, RankingData]:
    return _parts(make_ranking(max(6, int(part * n_queries)), random_state=0, **options))


AUC, NDCG = "pairwise-accuracy", "ndcg@10"
CASES = (
    Case("mq2007", "42 k × 46", NDCG, partial(_letor, name="mq2007"), file="mq2007"),
    Case("mq2008", "9.6 k × 46", NDCG, partial(_letor, name="mq2008"), file="mq2008"),
    Case("web", "raw features with ranges from 1 to 1e8, 200 queries × 120, 136 features", NDCG,
         partial(_shape, name="web", share=0.15)),
    Case("a9a", "one query, sparse", AUC, partial(_shape, name="a9a"), file="a9a"),
    Case("a9a, dense", "the same as a dense array", AUC, partial(_dense, name="a9a"), file="a9a"),
    Case("reuters", "one query, sparse text", AUC, partial(_shape, name="reuters"),
         file="reuters"),
    Case("text", "one query, sparse text, 11 k × 3 k", AUC,
         partial(_shape, name="text", share=0.02)),
    Case("huge queries", "4 of 5,000, real-valued labels, 30 features", AUC,
         partial(_made, n_queries=6, docs_per_query=5000, n_features=30, n_levels=None,
                 correlation=0.5)),
    Case("few queries", "60 × 40, 300 features", NDCG,
         partial(_made, n_queries=90, docs_per_query=40, n_features=300, n_informative=30,
                 correlation=0.5, noise=1.0)),
    Case("tiny queries", "10,000 × 5, 20 features", NDCG,
         partial(_made, n_queries=15_000, docs_per_query=5, n_features=20, noise=1.0)),
)  # fmt: skip
