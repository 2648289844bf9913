"""Other tools on linrank's problems, each in a separate process.

Linear tools minimise ½‖w‖² + C·Σ_pairs ℓ(w'x_i − w'x_j), with C in their own parametrisation:

- scikit-learn gets the differences of all pairs, half of them negated with label −1; C is the same.
- dlib's risk is a mean over pairs of the hinge loss: c = C·pairs.
- scikit-survival minimises ½‖w‖² + (alpha/2)·Σ max(0, 1 − t)²: alpha = 2C.

A tool returns weights for loose to tight tolerances, and linrank computes their objectives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from linrank import RankingData, open_store, read_letor, write_letor
from linrank.problem import make_problem
from linrank.solvers import Step, make_solver

from .tools import forget_high_water, from_process, high_water, median_seconds

Vector = NDArray[np.float64]
Run = dict[str, Any]  #: setting, seconds, coef and memory of one fit
Fit = Callable[[float], Vector]

SETTINGS = tuple(10.0 ** (-k / 2) for k in range(15))  #: tolerances, from loose to tight
MEMORY = (
    4e9  #: largest size in bytes of the data as a tool stores them; liblinear copies them twice
)
START = 10.0  #: seconds for the start of a process, added to the time limit
TIGHT = {"hinge": 1e-5}  #: tolerance of linrank by loss; 1e-8 for smooth losses


@dataclass(frozen=True)
class Job:
    """A problem, given by the store of its data, and options for its solution.

    Attributes
    ----------
    cap : float
        Time limit of a fit in seconds.
    """

    store: Path
    C: float
    n_pairs: int
    threads: int
    cap: float


@dataclass(frozen=True)
class Tool:
    """A Python library.

    Attributes
    ----------
    prepare : callable
        Function of data and C that returns a fit: a function from a setting to weights.
    refuse : callable
        Function that returns a text if the tool cannot handle the data, otherwise None.
    """

    name: str
    loss: str
    module: str
    prepare: Callable[[RankingData, float], Fit]
    refuse: Callable[[RankingData, int], str | None]
    threaded: bool = False
    from_text: bool = False

    def runs(self, job: Job) -> Iterator[Run]:
        """Yield one record when the data are ready, then one for each setting."""
        return from_process(run_tool, self.name, job, cap=job.cap + START)


def run_tool(name: str, job: Job) -> Iterator[Run]:
    """Yield the records of `Tool.runs`; runs in the process of the tool."""
    tool = TOOLS[name]
    import_module(tool.module)
    before = forget_high_water()
    started = time.perf_counter()
    fit = tool.prepare(open_store(job.store, mmap=False), job.C)
    yield {"prepared": time.perf_counter() - started}
    for setting in SETTINGS:
        found: list[Vector] = []
        seconds = median_seconds(
            lambda setting=setting, found=found: found.append(fit(setting)), budget=0.5, most=5
        )
        yield {
            "setting": setting,
            "seconds": seconds,
            "coef": found[-1],
            "memory": high_water() - before,
        }


def text_of(store: Path) -> Path:
    """Write a store as text beside it in full precision, with queries numbered from 1."""
    text = store.with_name(f"{store.name}.txt")
    if not text.exists():
        data = open_store(store)
        ids = np.arange(1, data.n_queries + 1)
        write_letor(text, data.replace(query_ids=ids, order=None, comments=None))
    return text


# linrank ----------------------------------------------------------------------------------------


def run_linrank(
    job: Job, loss: str, judged: str, goal: float, from_text: bool = False, repeats: int = 3
) -> Iterator[Run]:
    """Yield seconds and objectives of fits; a first fit, which compiles, is not measured.

    The time includes the preparation of the pairs and, if `from_text`, reading the text. If
    `judged` names another loss than the one that is minimised, the objectives are those of that
    loss. The time limit applies to each fit and to the repetitions.
    """
    unmeasured = None if from_text else open_store(job.store, mmap=False)
    _solve_linrank(job, loss, unmeasured, goal, loss != judged)
    del unmeasured
    before = forget_high_water()
    data = None if from_text else open_store(job.store, mmap=False)
    fits: list[list[tuple[float, Any]]] = []
    while len(fits) < repeats and sum(fit[-1][0] for fit in fits) < job.cap:
        fits.append(_solve_linrank(job, loss, data, goal, loss != judged))
    memory = high_water() - before
    if loss != judged:
        judge = make_problem(open_store(job.store), job.C, loss=judged, n_threads=job.threads)
        fits = [[(seconds, judge.value_grad(w)[0]) for seconds, w in fit] for fit in fits]
    yield from ({"curve": fit, "memory": memory} for fit in fits)


def _solve_linrank(
    job: Job, loss: str, data: RankingData | None, goal: float, keep_weights: bool
) -> list[tuple[float, Any]]:
    """Return seconds and objectives, or the weights."""
    weights: list[Vector] = []

    def watch(step: Step) -> None:
        if keep_weights:
            weights.append(method.point.w.copy())
        if step.seconds > job.cap or (step.objective <= goal and not keep_weights):
            raise KeyboardInterrupt

    started = time.perf_counter()
    if data is None:
        data = read_letor(text_of(job.store), n_threads=job.threads)
    problem = make_problem(data, job.C, loss=loss, n_threads=job.threads)
    ready = time.perf_counter() - started
    method = tight_solver(problem, callback=watch)
    history = method.solve(problem).history
    found = weights if keep_weights else [step.objective for step in history]
    return [(ready + step.seconds, own) for step, own in zip(history, found, strict=True)]


def tight_solver(problem: Any, **options: Any) -> Any:
    """Return linrank's default solver with a very small tolerance."""
    loss = problem.engine.loss
    return make_solver("auto", loss, tol=TIGHT.get(loss.name, 1e-8), max_iter=10**5, **options)


# scikit-learn on explicit pairs -----------------------------------------------------------------


def prepare_linear_svc(data: RankingData, C: float, *, dual: bool) -> Fit:
    """Prepare LinearSVC: the squared hinge loss, by a trust region or dual coordinate descent."""
    from sklearn.svm import LinearSVC

    D, sign = differences(data)

    def fit(tol: float) -> Vector:
        machine = LinearSVC(
            C=C, dual=dual, tol=tol, fit_intercept=False, max_iter=10**6, random_state=0
        )
        return machine.fit(D, sign).coef_.ravel()

    return fit


def prepare_logistic(data: RankingData, C: float, *, solver: str) -> Fit:
    """Prepare LogisticRegression."""
    from sklearn.linear_model import LogisticRegression

    D, sign = differences(data)

    def fit(tol: float) -> Vector:
        machine = LogisticRegression(
            C=C, solver=solver, tol=tol, fit_intercept=False, max_iter=10**5
        )
        return machine.fit(D, sign).coef_.ravel()

    return fit


def differences(data: RankingData) -> tuple[Any, Vector]:
    """Return x_i − x_j with label 1 for each pair; every second one as x_j − x_i with label −1."""
    pairs = [
        first + np.array(np.nonzero(data.y[first:last, None] > data.y[None, first:last]))
        for first, last in pairwise(data.query_ptr)
    ]
    upper, lower = np.concatenate(pairs, axis=1)
    turned = np.arange(len(upper)) % 2 == 1
    upper[turned], lower[turned] = lower[turned], upper[turned]
    sign = np.where(turned, -1.0, 1.0)
    if data.is_sparse:
        return sparse.csr_array(data.X[upper] - data.X[lower]), sign
    D = np.empty((len(upper), data.n_features))
    for part in np.array_split(np.arange(len(upper)), len(upper) // 10_000 + 1):
        D[part] = data.X[upper[part]]
        D[part] -= data.X[lower[part]]
    return D, sign


def too_many_pairs(data: RankingData, n_pairs: int) -> str | None:
    """Return a text if the matrix of differences is too large, otherwise None."""
    row = 2 * 12 * data.X.nnz / data.n_docs if data.is_sparse else 8 * data.n_features
    return f"{n_pairs:.1e} pairs do not fit" if n_pairs * row > MEMORY else None


def too_many_for_matrix(data: RankingData, n_pairs: int) -> str | None:
    """Return a text if the differences or the Hessian matrix are too large, otherwise None."""
    if data.n_features > 5_000:
        return f"{data.n_features:,} features: no matrix"
    return too_many_pairs(data, n_pairs)


# dlib -------------------------------------------------------------------------------------------


def prepare_dlib(data: RankingData, C: float) -> Fit:
    """Prepare dlib; a query has one entry per level but the lowest, with all lower levels."""
    import dlib

    vectors = list(_dlib_vectors(data))
    kind = "sparse_" if data.is_sparse else ""
    entries = getattr(dlib, f"{kind}ranking_pairs")()
    n_pairs = 0
    for first, last in pairwise(data.query_ptr):
        y = data.y[first:last]
        for level in np.unique(y)[1:]:
            entry = getattr(dlib, f"{kind}ranking_pair")()
            upper, lower = first + np.flatnonzero(y == level), first + np.flatnonzero(y < level)
            entry.relevant.extend(type(entry.relevant)([vectors[i] for i in upper]))
            entry.nonrelevant.extend(type(entry.relevant)([vectors[i] for i in lower]))
            entries.append(entry)
            n_pairs += len(upper) * len(lower)
    trainer = dlib.svm_rank_trainer_sparse() if data.is_sparse else dlib.svm_rank_trainer()
    trainer.c = C * n_pairs
    trainer.max_iterations = 10**6

    def fit(epsilon: float) -> Vector:
        trainer.epsilon = epsilon
        weights = trainer.train(entries).weights
        if not data.is_sparse:
            return np.array(weights).ravel()
        coef = np.zeros(data.n_features)
        coef[[entry.first for entry in weights]] = [entry.second for entry in weights]
        return coef

    return fit


def _dlib_vectors(data: RankingData) -> Iterator[Any]:
    import dlib

    if not data.is_sparse:
        yield from map(dlib.vector, data.X)
        return
    for first, last in pairwise(data.X.indptr):
        indices, values = data.X.indices[first:last].tolist(), data.X.data[first:last].tolist()
        yield dlib.sparse_vector([dlib.pair(*entry) for entry in zip(indices, values, strict=True)])


def too_many_copies(data: RankingData, n_pairs: int) -> str | None:
    """Return a text if the entries, which copy the vectors, are too large, otherwise None."""
    levels = (np.unique(data.y[a:b], return_counts=True)[1] for a, b in pairwise(data.query_ptr))
    copies = sum(int(np.cumsum(counts)[1:].sum()) for counts in levels)
    row = 16 * data.X.nnz / data.n_docs if data.is_sparse else 8 * data.n_features
    return f"{copies:.1e} vectors do not fit" if copies * row > MEMORY else None


# scikit-survival --------------------------------------------------------------------------------


def prepare_survival(data: RankingData, C: float) -> Fit:
    """Prepare FastSurvivalSVM, without censored events.

    The weights increase with the survival time (only `predict` reverses the sign). The rank of a
    label is therefore passed as the survival time.
    """
    from sksurv.svm import FastSurvivalSVM

    y = np.empty(data.n_docs, dtype=[("event", bool), ("time", float)])
    y["event"] = True
    y["time"] = np.argsort(np.argsort(data.y)) + 1

    def fit(tol: float) -> Vector:
        machine = FastSurvivalSVM(
            alpha=2 * C, rank_ratio=1, optimizer="avltree", fit_intercept=False, tol=tol,
            max_iter=1000, random_state=0,
        )  # fmt: skip
        return machine.fit(data.X, y).coef_

    return fit


def several_queries_or_ties(data: RankingData, n_pairs: int) -> str | None:
    """Return a text if the data have several queries or equal labels, otherwise None."""
    if data.n_queries == 1 and n_pairs == data.n_docs * (data.n_docs - 1) // 2:
        return None
    return "one query with distinct labels only"


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("LinearSVC, primal", "squared_hinge", "sklearn.svm",
             partial(prepare_linear_svc, dual=False), too_many_pairs),
        Tool("LinearSVC, dual", "squared_hinge", "sklearn.svm",
             partial(prepare_linear_svc, dual=True), too_many_pairs),
        Tool("FastSurvivalSVM", "squared_hinge", "sksurv.svm", prepare_survival,
             several_queries_or_ties),
        Tool("LogisticRegression, lbfgs", "logistic_exact", "sklearn.linear_model",
             partial(prepare_logistic, solver="lbfgs"), too_many_pairs, threaded=True),
        Tool("LogisticRegression, newton-cholesky", "logistic_exact", "sklearn.linear_model",
             partial(prepare_logistic, solver="newton-cholesky"), too_many_for_matrix,
             threaded=True),
        Tool("dlib", "hinge", "dlib", prepare_dlib, too_many_copies),
    )
}  # fmt: skip
