"""RankSVM and boosted trees with default settings, each in a separate process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linrank import RankingData, RankSVM, open_store
from linrank.training.selection import mean_metric

from .rivals import Job, Run
from .tools import forget_high_water, high_water, median_seconds


def run_ranker(name: str, job: Job) -> Iterator[Run]:
    """Yield seconds, NDCG@10 on a held-out fifth of the queries, and memory.

    A first fit on that fifth compiles the kernels and is not measured.
    """
    fit = RANKERS[name]
    fit(_split(job)[1], job)
    before = forget_high_water()
    learn, test = _split(job)
    forget_high_water()  # the memory for splitting does not count
    found: list[Any] = []
    seconds = median_seconds(lambda: found.append(fit(learn, job)), budget=2.0, most=5)
    ndcg = mean_metric(test, np.asarray(found[-1].predict(test.X), float), "ndcg@10")
    yield {"seconds": seconds, "ndcg": ndcg, "memory": high_water() - before}


def _split(job: Job) -> tuple[RankingData, RankingData]:
    """Return four fifths of the queries for training, and one fifth held out."""
    data = open_store(job.store)
    held_out = np.repeat(np.arange(data.n_queries) % 5 == 4, np.diff(data.query_ptr))
    return data.take(np.flatnonzero(~held_out)), data.take(np.flatnonzero(held_out))


def _fit_linrank(data: RankingData, job: Job) -> Any:
    return RankSVM(C=job.C, normalize=None, scale=None, n_threads=job.threads).fit(
        data.X, data.y, data.qid
    )


def _fit_lightgbm(data: RankingData, job: Job) -> Any:
    from lightgbm import LGBMRanker

    ranker = LGBMRanker(n_jobs=job.threads, random_state=0, verbose=-1)
    return ranker.fit(data.X, data.y.astype(int), group=np.diff(data.query_ptr))


def _fit_xgboost(data: RankingData, job: Job) -> Any:
    from xgboost import XGBRanker

    query = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    return XGBRanker(n_jobs=job.threads, random_state=0).fit(data.X, data.y, qid=query)


RANKERS: dict[str, Callable[[RankingData, Job], Any]] = {
    "linrank": _fit_linrank,
    "LightGBM": _fit_lightgbm,
    "XGBoost": _fit_xgboost,
}
