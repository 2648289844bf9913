"""One run of a study: fit, choose C along a path if the method does so, and score the test part."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._typing import Vector
from ..data.ranking import RankingData
from ..data.store import open_store
from ..errors import DataError, FeatureRangeWarning
from ..methods import accepts, count_used, fit_ranker, model_of
from ..model import LinearModel
from ..path import RegularizationPath
from ..penalties.registry import make_penalty
from ..solvers.result import Result
from .folds import PARTS
from .jobs import SEED, Job
from .outcomes import LONGEST_CURVE, PATH_FEATURES, Curve, Outcome, Trial, Weights

WARM_QUERIES = 5  #: queries of the first fit of a class in a process


@dataclass(frozen=True)
class Candidate:
    """A fitted model of a run, with its setting and the seconds of its fit."""

    setting: dict[str, Any]
    scorer: Any  #: a fitted ranker or a model
    n_features: int | None
    seconds: float


def run(job: Job) -> Outcome:
    """Fit a setting to the training part of a fold, and score the test part.

    The outcome does not depend on the runs before it in the same process.
    """
    with _seeded():
        return _run(job)


@contextmanager
def _seeded() -> Iterator[None]:
    """Set the global generators of random numbers to the same state, and restore them after it."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  (rankers use it)
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


def _run(job: Job) -> Outcome:
    started = time.perf_counter()
    # The parts are opened again in each run, because a ranker may change labels in place.
    train, valid, test = (open_store(job.parts / part, allow_missing=True) for part in PARTS)
    ranker = _with_threads(job.ranker, job.n_threads)
    _warm_up(ranker, train)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", FeatureRangeWarning)
        path = None
        if job.chooser is None:
            candidates = [_fit(ranker, train, job.setting)]
        else:
            path, candidates = _fit_path(job, ranker, train, valid)
        trials = [_measure(job, candidate, valid, test) for candidate in candidates]
        chosen = _choose(job, trials)
        final = candidates[chosen]
        if path is not None:  # seconds and history of one fit from weights of 0
            alone = _fit(ranker.set_params(C=final.setting["C"]), train, final.setting)
            debiased = bool(getattr(ranker, "debias", False))  # the models of a path are not
            final = alone if debiased else replace(final, seconds=alone.seconds)
        begun = time.perf_counter()
        scores = _predict(final.scorer, test)
        score_seconds = time.perf_counter() - begun
    return Outcome(
        trials=trials, chosen=chosen, scores=scores, n_features=train.n_features,
        n_used=final.n_features, train_seconds=final.seconds, score_seconds=score_seconds,
        total_seconds=time.perf_counter() - started, weights=_weights(ranker, train, path),
        curve=_curve(getattr(ranker, "result_", None)),
        notes=list(dict.fromkeys(" ".join(str(one.message).split()) for one in said)),
    )  # fmt: skip


_warm: set[type] = set()  # classes of rankers that this process has fitted


def _warm_up(ranker: Any, train: RankingData) -> None:
    """Fit a class for the first time, to a few queries, so that seconds contain no compilation."""
    from sklearn.base import clone

    if type(ranker) in _warm:
        return
    _warm.add(type(ranker))
    few = train.take(np.arange(train.query_ptr[min(WARM_QUERIES, train.n_queries)]))
    with warnings.catch_warnings(), _seeded(), suppress(Exception, SystemExit):
        warnings.simplefilter("ignore")
        fit_ranker(clone(ranker), few)


def _with_threads(ranker: Any, n_threads: int) -> Any:
    """Return a copy of the ranker that uses this many threads, unless it names a number."""
    from sklearn.base import clone

    ranker = clone(ranker)
    known = ranker.get_params(deep=False)
    unset = {name for name in ("n_threads", "n_jobs") if name in known and known[name] is None}
    return ranker.set_params(**dict.fromkeys(unset, n_threads))


def _fit(ranker: Any, train: RankingData, setting: dict[str, Any]) -> Candidate:
    begun = time.perf_counter()
    fit_ranker(ranker, train)
    seconds = time.perf_counter() - begun
    return Candidate(setting, ranker, count_used(ranker), seconds)


def _predict(scorer: Any, data: RankingData) -> Vector:
    qid = {"qid": data.qid} if accepts(scorer.predict, "qid") else {}
    scores = np.asarray(scorer.predict(data.X, **qid), dtype=np.float64)
    if scores.shape != (data.n_docs,):
        raise DataError(
            f"predict of {type(scorer).__name__} returned an array of shape {scores.shape}; "
            f"expected one score for each of {data.n_docs:,} documents"
        )
    return scores


def _fit_path(
    job: Job, ranker: Any, train: RankingData, valid: RankingData
) -> tuple[RegularizationPath, list[Candidate]]:
    """Fit the ranker for each C, with warm starts."""
    shared = {name: value for name, value in ranker.get_params().items()
              if accepts(job.chooser, name)}  # fmt: skip
    if accepts(job.chooser, "penalties"):  # the settings of the study name the penalty
        penalty, shape = ranker.penalty, ranker.shape
        shared["penalties"] = [penalty if shape is None else make_penalty(penalty, shape)]
    chooser = job.chooser(Cs=job.Cs, metric=job.criterion.metric, **shared)
    fit_ranker(chooser, train, valid)
    path, models = chooser.path_, chooser.path_models(train)
    return path, [
        Candidate(job.setting | {"C": C}, model, len(model.used), result.seconds)
        for C, model, result in zip(path.Cs.tolist(), models, path.results, strict=True)
    ]


def _measure(job: Job, candidate: Candidate, valid: RankingData, test: RankingData) -> Trial:
    mean = job.criterion.mean
    return Trial(
        candidate.setting, mean(valid, _predict(candidate.scorer, valid)),
        mean(test, _predict(candidate.scorer, test)), candidate.n_features, candidate.seconds,
    )  # fmt: skip


def _choose(job: Job, trials: list[Trial]) -> int:
    """Return the first trial with the best validation metric, among those that use features."""
    used = np.array([1 if trial.n_features is None else trial.n_features for trial in trials])
    return job.criterion.choose(np.array([trial.valid for trial in trials]), 0.0, used)


def _weights(ranker: Any, train: RankingData, path: RegularizationPath | None) -> Weights | None:
    """Return the weights of a linear model, and of its largest features along the path."""
    model = getattr(ranker, "model_", None)
    if not isinstance(model, LinearModel):
        return None
    names = model_of(ranker, train).names()
    if path is None:
        none = np.empty((0, 0))
        return Weights(model.coef, np.empty(0), np.empty(0, np.int64), none, names)
    largest = np.argsort(-np.abs(path.coefs).max(axis=0), kind="stable")[:PATH_FEATURES]
    largest = np.sort(largest[largest < model.n_features])
    return Weights(model.coef, path.Cs, largest, path.coefs[:, largest], names)


def _curve(result: Any) -> Curve | None:
    """Return the history of one of linrank's solvers."""
    if not isinstance(result, Result) or not result.history:
        return None
    history = result.history[:: -(-len(result.history) // LONGEST_CURVE)]
    return Curve(
        seconds=np.array([step.seconds for step in history]),
        products=np.array([step.products for step in history]),
        objective=np.array([step.objective for step in history]),
        gradient_norm=np.array([step.gradient_norm for step in history]),
    )
