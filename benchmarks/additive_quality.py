"""NDCG@10 of an additive ranker, a linear one and boosted trees, by one protocol.

Run it with ``python -m benchmarks.additive_quality --data MQ2007 MQ2008``. The environment variable
``LINRANK_DATA`` names the folder with the collections (``MQ2007/Fold1/train.txt`` and so on).

Every method gets the training, validation and test part of each fold. It chooses all of its
settings by NDCG@10 on the validation part, and is measured on the test part. An additive ranker is
a mean of its best fits, so a boosted one is the mean of its three best settings. Queries without
relevant documents are not counted. The tests are paired over the test queries of all folds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from linrank import AdditiveRankerCV, RankingData, RankSVMCV, ndcg
from linrank._util.parallel import resolve_threads
from linrank._util.types import Vector
from linrank.statistics import paired_t_test

from .sparse_letor import read_parts
from .tools import machine

N_FOLDS = 5
MAX_ROUNDS = 1000  #: largest number of trees of a boosted ranker
AVERAGED = 3  #: settings of a boosted ranker whose mean score is measured
PATIENCE = 50  #: rounds without a better validation NDCG@10 before boosting stops

#: Smallest number of rows and smallest curvature of a leaf, l2 penalty of its value, and share of
#: the features of a tree. The first 8 settings of a budget use the first row, and so on.
REGULARISATION = (
    (20, 1.0, 1.0, 1.0),
    (50, 20.0, 10.0, 0.7),
    (100, 5.0, 1.0, 0.5),
    (20, 20.0, 10.0, 0.5),
)


class Parts(NamedTuple):
    """The parts of a fold."""

    train: RankingData
    valid: RankingData
    test: RankingData


class Chosen(NamedTuple):
    """The model that validation chose: its name, its NDCG@10 there, and its scores."""

    setting: str
    value: float
    scores: Vector  #: of the test part
    valid_scores: Vector = np.empty(0)


class Boosting(NamedTuple):
    """One setting of a boosted ranker."""

    leaves: int
    rate: float
    min_data: int
    min_weight: float
    l2: float
    features: float


Method = Callable[[Parts, int], Chosen]  #: gets the parts of a fold and the number of settings


def boosting_settings(n: int) -> list[Boosting]:
    """Return the first n settings of the grid that boosted rankers are tuned over."""
    grid = [
        Boosting(leaves, rate, *other)
        for other, leaves, rate in product(REGULARISATION, (7, 15, 31, 63), (0.05, 0.1))
    ]
    return grid[:n]


def measured(data: RankingData, scores: Vector) -> Vector:
    """Return NDCG@10 of each query; NaN for queries without relevant documents."""
    return ndcg(data.y, scores, data.qid, k=10, per_query=True)


def mean_of_best(parts: Parts, candidates: Iterator[Chosen]) -> Chosen:
    """Return the mean of the candidates with the largest validation NDCG@10."""
    best = sorted(candidates, key=lambda chosen: -chosen.value)[:AVERAGED]
    scores, valid_scores = (
        np.mean([found / (found.std() or 1.0) for found in columns], axis=0)
        for columns in ([one.scores for one in best], [one.valid_scores for one in best])
    )
    value = float(np.nanmean(measured(parts.valid, valid_scores)))
    return Chosen("; ".join(one.setting for one in best), value, scores, valid_scores)


# linrank ----------------------------------------------------------------------------------------


def chosen_by(make: Callable[[], RankSVMCV | AdditiveRankerCV]) -> Method:
    """Return a method that fits a ranker of linrank, whose grid is its own."""

    def method(parts: Parts, _: int) -> Chosen:
        ranker = make().fit(parts.train, valid=parts.valid)
        assert ranker.best_score_ is not None
        penalty = ranker.best_params_.get("penalty", "l2")
        name = f"penalty={penalty}, C={ranker.C_:g}"
        return Chosen(name, ranker.best_score_, ranker.predict(parts.test.X))

    return method


# Boosted trees ----------------------------------------------------------------------------------


def lightgbm(parts: Parts, n_settings: int) -> Chosen:
    """Train LightGBM rankers with early stopping."""
    import lightgbm as lgb

    def candidate(own: Boosting) -> Chosen:
        ranker = lgb.LGBMRanker(
            n_estimators=MAX_ROUNDS, num_leaves=own.leaves, learning_rate=own.rate,
            min_child_samples=own.min_data, reg_lambda=own.l2, colsample_bytree=own.features,
            random_state=0, n_jobs=1, deterministic=True, force_row_wise=True, verbose=-1,
        )  # fmt: skip
        train, valid = parts.train, parts.valid
        ranker.fit(
            train.X, train.y, group=np.diff(train.query_ptr), eval_X=valid.X, eval_y=valid.y,
            eval_group=[np.diff(valid.query_ptr)], eval_at=[10],
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
        )  # fmt: skip
        return scored(own, parts, ranker.predict)

    return mean_of_best(parts, (candidate(own) for own in boosting_settings(n_settings)))


def xgboost(objective: str) -> Method:
    """Return a method that trains XGBoost rankers with an objective and early stopping."""

    def method(parts: Parts, n_settings: int) -> Chosen:
        settings = boosting_settings(n_settings)
        return mean_of_best(parts, (xgboost_candidate(objective, own, parts) for own in settings))

    return method


def xgboost_candidate(objective: str, own: Boosting, parts: Parts) -> Chosen:
    """Train an XGBoost ranker with one setting."""
    from xgboost import XGBRanker

    ranker = XGBRanker(
        objective=objective, n_estimators=MAX_ROUNDS, early_stopping_rounds=PATIENCE,
        eval_metric="ndcg@10", tree_method="hist", grow_policy="lossguide", max_depth=0,
        max_leaves=own.leaves, learning_rate=own.rate, min_child_weight=own.min_weight,
        reg_lambda=own.l2, colsample_bytree=own.features, random_state=0, n_jobs=1,
    )  # fmt: skip
    train, valid = parts.train, parts.valid
    ranker.fit(
        train.X, train.y, group=np.diff(train.query_ptr), eval_set=[(valid.X, valid.y)],
        eval_group=[np.diff(valid.query_ptr)], verbose=False,
    )  # fmt: skip
    return scored(own, parts, ranker.predict)


def scored(own: Boosting, parts: Parts, predict: Callable[[Vector], Vector]) -> Chosen:
    """Return the setting with its validation NDCG@10 and its test scores."""
    valid_scores = predict(parts.valid.X)
    value = float(np.nanmean(measured(parts.valid, valid_scores)))
    name = ", ".join(f"{name}={number:g}" for name, number in own._asdict().items())
    return Chosen(name, value, predict(parts.test.X), valid_scores)


METHODS: dict[str, Method] = {
    "additive": chosen_by(lambda: AdditiveRankerCV(n_threads=1)),
    "linear": chosen_by(lambda: RankSVMCV(normalize=None, scale=None, n_threads=1)),
    "linear-standard": chosen_by(
        lambda: RankSVMCV(
            normalize=None, scale="standard", rescale="slack", delta="gain", n_threads=1
        )
    ),
    "lightgbm": lightgbm,
    "xgboost-ndcg": xgboost("rank:ndcg"),
    "xgboost-pairwise": xgboost("rank:pairwise"),
}

# The table --------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Test NDCG@10 of each query of all folds, and means over the folds.

    The means are NDCG@10 on validation, and the seconds of the choice and the predictions. They are
    NaN if a file does not have them.
    """

    test: Vector
    valid: float = np.nan
    seconds: float = np.nan


def run(collection: str, method: str, n_settings: int) -> Outcome:
    """Train and measure a method on all folds of a collection."""
    test, valid, seconds = [], [], []
    for fold in range(1, N_FOLDS + 1):
        parts = Parts(*read_parts(collection, fold))
        started = time.perf_counter()
        chosen = METHODS[method](parts, n_settings)
        seconds.append(time.perf_counter() - started)
        test.append(measured(parts.test, chosen.scores))
        valid.append(chosen.value)
        own = np.nanmean(test[-1])
        print(f"{collection} fold {fold} {method}: {chosen.setting}: {own:.4f}", flush=True)
    return Outcome(np.concatenate(test), float(np.mean(valid)), float(np.mean(seconds)))


def save(path: Path, outcomes: dict[str, Outcome]) -> None:
    """Write outcomes, by collection and method, to an .npz file."""
    arrays: dict[str, Vector] = {}
    for name, own in outcomes.items():
        arrays |= {name: own.test, f"{name}/means": np.array([own.valid, own.seconds])}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def load(path: Path) -> dict[str, Outcome]:
    """Read the outcomes that `save` wrote."""
    with np.load(path) as arrays:
        names = [name for name in arrays if not name.endswith("/means")]
        unknown = np.full(2, np.nan)
        return {name: Outcome(arrays[name], *arrays.get(f"{name}/means", unknown).tolist())
                for name in names}  # fmt: skip


def show(collection: str, outcomes: dict[str, Outcome]) -> None:
    """Print a table of methods, with the first one compared with each of the others."""
    first = next(iter(outcomes))
    print(f"\n| {collection} | NDCG@10 | validation | seconds per fold | {first} minus it | p |")
    print("|---|---|---|---|---|---|")
    for name, own in outcomes.items():
        cells = [f"{np.nanmean(own.test):.4f}", f"{own.valid:.4f}", f"{own.seconds:.1f}"]
        if name == first:
            cells += ["", ""]
        else:
            test = paired_t_test(outcomes[first].test, own.test)
            cells += [f"{test.difference:+.4f}", f"{test.p_value:.3f}"]
        print(f"| {name} | " + " | ".join(cells).replace("nan", "—") + " |")


def usable(methods: list[str]) -> list[str]:
    """Return the methods whose packages are installed; a sentence names each of the others."""
    missing = [name for name in methods if find_spec(package_of(name)) is None]
    for name in missing:
        print(f"{name} is skipped: {package_of(name)} is not installed. Use pip install to add it.")
    return [name for name in methods if name not in missing]


def package_of(method: str) -> str:
    """Return the package that a method needs."""
    package = method.split("-")[0]
    return package if package in ("lightgbm", "xgboost") else "linrank"


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["MQ2007", "MQ2008"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--settings", type=int, default=24, help="settings of boosted rankers")
    parser.add_argument("--save", type=Path, help="write the outcomes to an .npz file")
    parser.add_argument("--with", type=Path, dest="known", help="add outcomes that --save wrote")
    arguments = parser.parse_args()
    print(machine(resolve_threads()), flush=True)
    outcomes: dict[str, Outcome] = {}
    for collection in arguments.data:
        for method in usable(arguments.methods):
            outcomes[f"{collection}/{method}"] = run(collection, method, arguments.settings)
        if arguments.save is not None:
            save(arguments.save, outcomes)
    if arguments.known is not None:
        outcomes = load(arguments.known) | outcomes
    for collection in arguments.data:
        found = {
            m: outcomes[f"{collection}/{m}"] for m in METHODS if f"{collection}/{m}" in outcomes
        }
        show(collection, found)


if __name__ == "__main__":
    main()
