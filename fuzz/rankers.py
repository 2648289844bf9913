"""The rankers of linrank, with parameters that make a fit of few documents quick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from linrank import (
    AdditiveRanker,
    AdditiveRankerCV,
    DominationRank,
    DominationRankCV,
    KernelRankSVM,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    SparseRankSVMCV,
    baselines,
)

GRID = [0.1, 1.0]  #: values of C
#: A function that makes each ranker.
RANKERS: dict[str, Callable[[], Any]] = {
    "RankSVM": lambda: RankSVM(n_threads=1),
    "RankSVM missing": lambda: RankSVM(n_threads=1, missing="median", scale="standard"),
    "RankSVMCV": lambda: RankSVMCV(GRID, cv=2, n_threads=1),
    "SparseRankSVM": lambda: SparseRankSVM(penalty="l1", C=10.0, n_threads=1),
    "SparseRankSVMCV": lambda: SparseRankSVMCV(GRID, cv=2, n_threads=1),
    "AdditiveRanker": lambda: AdditiveRanker(n_bins=4, n_threads=1),
    "AdditiveRanker group": lambda: AdditiveRanker(10.0, n_bins=3, penalty="group_l1", n_threads=1),
    "AdditiveRankerCV": lambda: AdditiveRankerCV(GRID, penalties=["l2"], cv=2, n_threads=1),
    "DominationRank": lambda: DominationRank(n_threads=1),
    "DominationRankCV": lambda: DominationRankCV(GRID, cv=2, n_threads=1),
    "KernelRankSVM": lambda: KernelRankSVM(n_threads=1),
    "AdaRank": lambda: baselines.AdaRank(n_rounds=3, n_threads=1),
    "FSMRank": lambda: baselines.FSMRank(n_threads=1),
    "FenchelRank": lambda: baselines.FenchelRank(n_threads=1),
    "LambdaMARTRanker": lambda: baselines.LambdaMARTRanker(
        n_estimators=3, min_samples_leaf=1, n_threads=1, random_state=0
    ),
    "LinearSVRRanker": lambda: baselines.LinearSVRRanker(n_threads=1, random_state=0),
    "PAMIR": lambda: baselines.PAMIR(n_threads=1, random_state=0),
    "RankBoost": lambda: baselines.RankBoost(n_rounds=5, n_threads=1),
    "RandomForestRanker": lambda: baselines.RandomForestRanker(
        n_estimators=3, n_threads=1, random_state=0
    ),
    "GradientBoostingRanker": lambda: baselines.GradientBoostingRanker(
        n_estimators=3, min_samples_leaf=1, n_threads=1, random_state=0
    ),
}
