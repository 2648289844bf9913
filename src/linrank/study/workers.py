"""Runs on several processes; the end of a process ends one run only."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._util.types import Vector
from ..baselines.methods import accepts, count_used, fit_ranker, model_of
from ..data.ranking import RankingData
from ..data.store import open_store
from ..errors import DataError, FeatureRangeWarning
from ..model import LinearModel
from ..penalties.penalty import make_penalty
from ..solvers.result import Result
from ..training.selection import RegularizationPath
from .folds import PARTS
from .protocol import SEED, Job
from .results import LONGEST_CURVE, PATH_FEATURES, FeatureWeights, MetricCurve, Outcome, Trial

# --------------------------------------------------------------------------------------------------
# One run of a study: fit, choose C along a path if the method does so, and score the test part.


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


def _weights(
    ranker: Any, train: RankingData, path: RegularizationPath | None
) -> FeatureWeights | None:
    """Return the weights of a linear model, and of its largest features along the path."""
    model = getattr(ranker, "model_", None)
    if not isinstance(model, LinearModel):
        return None
    names = model_of(ranker, train).names()
    if path is None:
        none = np.empty((0, 0))
        return FeatureWeights(model.coef, np.empty(0), np.empty(0, np.int64), none, names)
    largest = np.argsort(-np.abs(path.coefs).max(axis=0), kind="stable")[:PATH_FEATURES]
    largest = np.sort(largest[largest < model.n_features])
    return FeatureWeights(model.coef, path.Cs, largest, path.coefs[:, largest], names)


def _curve(result: Any) -> MetricCurve | None:
    """Return the history of one of linrank's solvers."""
    if not isinstance(result, Result) or not result.history:
        return None
    history = result.history[:: -(-len(result.history) // LONGEST_CURVE)]
    return MetricCurve(
        seconds=np.array([step.seconds for step in history]),
        products=np.array([step.products for step in history]),
        objective=np.array([step.objective for step in history]),
        gradient_norm=np.array([step.gradient_norm for step in history]),
    )


# --------------------------------------------------------------------------------------------------
# Runs on several processes; the end of a process ends one run only.


PARENT_CHECK = 1.0  #: seconds between two checks that the main process still exists
PR_SET_PDEATHSIG = 1  #: number of prctl(2): the signal that a process gets when its parent ends
IDLE = 600.0  #: seconds after which a process without work ends


class Finished(NamedTuple):
    """A job with its outcome, or with the sentence that says why it failed."""

    job: Job
    outcome: Outcome | None
    error: str | None


def run_all(
    jobs: Iterable[Job], n_processes: int, started: Callable[[Job], None] = lambda job: None
) -> Iterator[Finished]:
    """Do the runs, and yield each one when it is finished, in any order.

    A run that raises an error, or whose process ends (as when memory is exhausted), yields the
    reason. The other runs go on. Each process does one run at a time.

    Parameters
    ----------
    jobs : iterable of Job
    n_processes : int
        0: the runs are done in this process, one after the other.
    started : callable
        Called with each job when it begins.
    """
    if n_processes == 0:
        yield from _run_here(jobs, started)
        return
    waiting = iter(jobs)
    running: dict[Future[Outcome | str], tuple[Job, Any]] = {}
    free = [_new_executor() for _ in range(n_processes)]
    try:
        while True:
            while free and (job := next(waiting, None)) is not None:
                started(job)
                future, executor = _submit(free.pop(), job)
                running[future] = job, executor
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, executor = running.pop(future)
                found, alive = _result(future)
                free.append(executor if alive else _replace(executor))
                yield _finished(job, found)
    finally:
        for executor in [*free, *(executor for _, executor in running.values())]:
            executor.shutdown(wait=False, kill_workers=True)


def _run_here(jobs: Iterable[Job], started: Callable[[Job], None]) -> Iterator[Finished]:
    for job in jobs:
        started(job)
        try:
            found: Outcome | str = run(job)
        except (Exception, SystemExit) as error:  # an interrupt of the user ends the study
            found = _reason(error)
        yield _finished(job, found)


def _finished(job: Job, found: Outcome | str) -> Finished:
    return Finished(job, None, found) if isinstance(found, str) else Finished(job, found, None)


def _new_executor() -> Any:
    """Return an executor with one process.

    A process that ends breaks its executor, so each executor has only one.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(1, timeout=IDLE, initializer=_follow, initargs=(os.getpid(),))


def _replace(executor: Any) -> Any:
    executor.shutdown(wait=False, kill_workers=True)
    return _new_executor()


def _submit(executor: Any, job: Job) -> tuple[Future[Outcome | str], Any]:
    """Send a run to a process, or to a new one if the process has ended without work."""
    try:
        return executor.submit(_attempt, job), executor
    except BrokenExecutor:
        executor = _replace(executor)
        return executor.submit(_attempt, job), executor


def _attempt(job: Job) -> Outcome | str:
    """Do a run in a process of its own, and return its outcome or the reason why it failed.

    Exceptions stay in the process. Some of them cannot be sent to another process, and others, such
    as `SystemExit`, would end the study.
    """
    try:
        return run(job)
    except BaseException as error:  # a study goes on whatever one method raises
        return _reason(error)


def _result(future: Future[Outcome | str]) -> tuple[Outcome | str, bool]:
    """Return the outcome or the reason why there is none, and whether the process is alive."""
    try:
        return future.result(), True
    except BrokenExecutor as error:
        return _why_broken(error), False
    except Exception as error:  # the run or its outcome cannot be sent to another process
        return _reason(error), True


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there was not enough memory"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _why_broken(error: BrokenExecutor) -> str:
    """Tell whether a process was killed, or could not read its task or return its result."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if isinstance(error, TerminatedWorkerError):
        return "its process was killed, perhaps because memory was exhausted"
    return (
        "another process cannot unpickle its ranker. Move the class to a module that processes can "
        "import, or use no other process (--jobs 0, or n_processes=0)"
    )


def _follow(parent: int) -> None:
    """End this process when its parent ends, even if the parent is killed.

    The thread that watches the parent cannot run while other code holds the interpreter lock, such
    as a ranker that hangs in C. Linux therefore gets the same request.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK)
        os.kill(os.getpid(), signal.SIGTERM)

    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=watch, daemon=True).start()
