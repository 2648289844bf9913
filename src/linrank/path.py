"""From data to weights: one C, or a whole grid of them with warm starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._checks import positive_number
from ._rows import multiply
from ._typing import Vector
from .counting.preferences import ALL_PAIRS, Preferences
from .data.ranking import RankingData
from .engines.base import Engine
from .engines.choose import make_engine
from .errors import DataError
from .losses import get_loss
from .metrics import evaluate, parse_metric
from .penalties import L1, Penalty, make_penalty
from .problem import Objective, Problem, SparseProblem
from .solvers import Result, Solver, Status, Step, make_solver
from .solvers.reweighted import BARRED

#: The grid of Lee & Lin 2014, §4.4: C = 2^-15, 2^-14, …, 2^10.
C_GRID = tuple(2.0**power for power in range(-15, 11))

DOUBLINGS = 60  #: of C, before the search for one that selects a feature ends
NOTHING_HELPS = (
    "no feature lowers the loss: documents that are compared have the same features, or all of "
    "their margins are met"
)


@dataclass
class RegularizationPath:
    """The solutions for a grid of C.

    Attributes
    ----------
    Cs : float64 array of shape (n_Cs,), increasing
    coefs : float64 array of shape (n_Cs, n_features)
    results : list of Result
    """

    Cs: Vector
    coefs: Vector
    results: list[Result]

    def __len__(self) -> int:
        return len(self.Cs)

    @property
    def n_features(self) -> NDArray[np.int64]:
        """How many features have a weight, for each C."""
        return np.count_nonzero(self.coefs, axis=1)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C cut the path short."""
        return bool(self.results) and self.results[-1].status is Status.INTERRUPTED

    def evaluate(self, data: RankingData, metric: str = "ndcg@10", **options: Any) -> Vector:
        """The mean of a metric on other data, for each C."""
        return np.array(
            [mean_metric(data, multiply(data.X, coef), metric, **options) for coef in self.coefs]
        )


def mean_metric(data: RankingData, scores: Vector, metric: str, **options: Any) -> float:
    """The mean of one metric over the queries of the data."""
    found = evaluate(data.y, scores, query_ptr=data.query_ptr, metrics=[metric], **options)
    return found.mean[parse_metric(metric).name]


def best_index(values: Vector, greater_is_better: bool = True) -> int:
    """The first (so the smallest C) of the best values: the largest, or of errors the smallest.

    Examples
    --------
    >>> best_index(np.array([0.3, 0.5, 0.5]))
    1
    >>> best_index(np.array([0.3, 0.5, 0.5]), greater_is_better=False)
    0
    """
    if np.isnan(values).all():
        raise DataError("the metric is undefined for every C: no query can be evaluated")
    return int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))


def make_problem(
    data: RankingData,
    C: float = 1.0,
    *,
    loss: str = "squared_hinge",
    counting: str = "auto",
    preferences: Preferences = ALL_PAIRS,
    normalize: str | None = None,
    penalty: Penalty | None = None,
    n_threads: int | None = None,
    engine: str = "threads",
) -> Objective:
    """The problem of ranking the data, with its weights; a penalty makes it a sparse one."""
    chosen = make_engine(
        engine, data, get_loss(loss), normalize, n_threads, counting=counting,
        preferences=preferences,
    )  # fmt: skip
    return problem_of(chosen, C, penalty)


def problem_of(engine: Engine, C: float, penalty: Penalty | None = None) -> Objective:
    """The problem of an engine, if it has pairs; a penalty makes it a sparse one."""
    if engine.n_pairs == 0:
        raise no_pair(engine.data)
    return Problem(engine, C) if penalty is None else SparseProblem(engine, C, penalty)


def no_pair(data: RankingData) -> DataError:
    """The error for data that say nothing."""
    return DataError(
        "there is no pair to learn from: within every query all labels are equal "
        f"({data.n_queries} queries, {data.n_docs} documents)"
    )


def first_C(problem: SparseProblem) -> float:
    """The smallest C with which a feature that has a price is selected; infinite if none is.

    Free features are fitted first. A concave penalty can drop what l1 has only just selected, so
    there the C is looked for: by doubling it, and then between the last two, to within 5 %.
    """
    C = problem.entry_C(_free_optimum(problem))
    if problem.penalty.convex or not np.isfinite(C):
        return C
    method = make_solver("auto", problem.engine.loss, problem.penalty)
    low = C
    for _ in range(DOUBLINGS):
        if _selects(method, problem.with_C(C)):
            break
        low, C = C, 2.0 * C
    else:
        return np.inf
    while 1.05 * low < C:
        middle = float(np.sqrt(low * C))
        low, C = (low, middle) if _selects(method, problem.with_C(middle)) else (middle, C)
    return C


def _free_optimum(problem: SparseProblem) -> Vector:
    """The optimum without features that have a price: the same for every C."""
    free = problem.penalty.weights == 0
    if not free.any() or free.all():
        return np.zeros(problem.n_features)
    barred = L1(np.where(free, 0.0, BARRED))
    method = make_solver("auto", problem.engine.loss, barred, tol=1e-6)
    return _finished(method.solve(problem.with_C(1.0).with_penalty(barred))).coef


def _selects(method: Solver, problem: SparseProblem) -> bool:
    coef = _finished(method.solve(problem)).coef
    return bool(coef[problem.penalty.weights > 0].any())


def _finished(result: Result) -> Result:
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def sparse_grid(problem: SparseProblem, n: int = 50, ratio: float = 1e4) -> Vector:
    """So many C, evenly on a log scale, from the smallest that selects a feature upward."""
    if not problem.penalty.weights.any():
        raise DataError("there is nothing to select: no feature has a cost")
    start = first_C(problem)
    if not np.isfinite(start):
        raise DataError(f"there is nothing to select: {NOTHING_HELPS}")
    return start * np.geomspace(1.0 + 1e-6, ratio, n)


def regularization_path(
    problem: Objective,
    Cs: Sequence[float] | None = None,
    *,
    tol: float = 1e-3,
    solver: str = "auto",
    max_iter: int = 1000,
    seed: int = 0,
    callback: Callable[[float, Step], None] | None = None,
) -> RegularizationPath:
    """Solve a problem for each C in increasing order, starting from the solution before.

    Parameters
    ----------
    problem : Problem or SparseProblem
        From `make_problem`; its own C does not matter.
    Cs : sequence of float, optional
        By default `C_GRID`; for sparse problems 50 values from the smallest C that selects a
        feature upward, to 10,000 times that.
    tol, solver, max_iter
        See `linrank.RankSVM`.
    seed : int
        For stochastic solvers.
    callback : callable, optional
        Called with C and a `Step` after every iteration.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.path import make_problem, regularization_path
    >>> path = regularization_path(make_problem(make_ranking(random_state=0)), [0.01, 1.0])
    >>> path.coefs.shape
    (2, 20)
    """
    if Cs is None:
        Cs = list(sparse_grid(problem)) if isinstance(problem, SparseProblem) else C_GRID
    grid = np.unique(np.array([positive_number("C", C) for C in Cs]))
    if not len(grid):
        raise DataError("Cs is empty; give at least one C")
    results: list[Result] = []
    method = make_solver(
        solver, problem.engine.loss, getattr(problem, "penalty", None), seed=seed, tol=tol,
        max_iter=max_iter,
    )  # fmt: skip
    w0 = None
    for C in grid:
        if callback is not None:
            method.callback = lambda step, C=C: callback(C, step)
        results.append(method.solve(problem.with_C(C), w0))
        w0 = results[-1].coef if method.warm_starts else None
        if results[-1].status is Status.INTERRUPTED:
            break
    return path_of(list(zip(grid, results, strict=False)))


def path_of(solutions: Sequence[tuple[float, Result]]) -> RegularizationPath:
    """The path of some C, in increasing order, with their results."""
    Cs, results = zip(*solutions, strict=True)
    return RegularizationPath(np.array(Cs), np.array([r.coef for r in results]), list(results))


def sparse_path(
    data: RankingData,
    penalty: str | Penalty = "l1",
    Cs: Sequence[float] | None = None,
    *,
    shape: float | None = None,
    valid: RankingData | None = None,
    metric: str = "ndcg@10",
    tol: float = 1e-3,
    solver: str = "auto",
    n_threads: int | None = None,
    **options: Any,
) -> tuple[RegularizationPath, Vector | None]:
    """Sparse solutions from the smallest C that selects a feature upward, with warm starts.

    Parameters
    ----------
    data : RankingData
    penalty, shape
        See `linrank.SparseRankSVM`.
    Cs : sequence of float, optional
        By default 50 values, from the smallest C that selects a feature to 10,000 times that.
    valid : RankingData, optional
        Held-out data to measure on.
    metric : str
    tol, solver
        See `linrank.SparseRankSVM`.
    n_threads : int, optional
    **options
        Of `make_problem`: loss, counting, preferences, normalize, engine.

    Returns
    -------
    path : RegularizationPath
        ``path.Cs``, ``path.coefs``, ``path.n_features`` and the solver's results.
    values : float64 array of shape (n_Cs,) or None
        The metric on the held-out data.

    Examples
    --------
    >>> from linrank import make_ranking, sparse_path
    >>> path, _ = sparse_path(make_ranking(random_state=0), "l1", [1e-4, 1e-3])
    >>> bool(path.n_features[0] < path.n_features[1])
    True
    """
    chosen = make_penalty(penalty, shape)
    problem = make_problem(data, penalty=chosen, n_threads=n_threads, **options)
    path = regularization_path(problem, Cs, tol=tol, solver=solver)
    return path, None if valid is None else path.evaluate(valid, metric)
