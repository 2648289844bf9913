"""Regularisation paths: the solutions for a grid of C, with warm starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._checks import positive_number
from ._draw import draw_metric, draw_weights, drawn
from ._rows import multiply
from ._tables import data_frame, html_table
from ._typing import Integers, Vector
from .criterion import mean_metric
from .data.ranking import RankingData
from .errors import DataError
from .penalties import PenaltyName
from .penalties.base import Penalty
from .penalties.bounds import BoundsLike
from .penalties.convex import L1
from .penalties.registry import make_penalty
from .problem import Problem, make_problem
from .solvers import SolverChoice
from .solvers.base import Solver
from .solvers.registry import make_solver
from .solvers.result import Result, Status, Step
from .solvers.sparse import BARRIER_COST

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: The grid of Lee & Lin 2014, §4.4: C = 2^-15, 2^-14, …, 2^10.
C_GRID = tuple(2.0**power for power in range(-15, 11))

MAX_DOUBLINGS = 60  #: doublings of C before the search for a C that selects a feature fails
NO_USEFUL_FEATURE = (
    "no feature lowers the loss, because the documents of each pair have the same features, all "
    "margins are met, or the bounds leave no room"
)


@dataclass(repr=False)
class RegularizationPath:
    """The solutions for a grid of C.

    Attributes
    ----------
    Cs : float64 array of shape (n_Cs,)
        The values of C in increasing order.
    coefs : float64 array of shape (n_Cs, n_features)
        The weights for each C.
    results : list of Result
        The result of the solver for each C.

    Examples
    --------
    >>> from linrank import C_GRID, make_ranking, sparse_path
    >>> data = make_ranking(random_state=0)
    >>> path, _ = sparse_path(data, Cs=C_GRID[:10])
    >>> path.n_features[0] < path.n_features[-1], path.evaluate(data).shape
    (np.True_, (10,))
    >>> path.to_frame().columns.tolist()[:3]
    ['C', 'features', 'objective']
    """

    Cs: Vector
    coefs: Vector
    results: list[Result]

    def __len__(self) -> int:
        return len(self.Cs)

    @property
    def n_features(self) -> Integers:
        """The number of features with a weight for each C."""
        return np.count_nonzero(self.coefs, axis=1)

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt ended the path early."""
        return bool(self.results) and self.results[-1].status is Status.INTERRUPTED

    def evaluate(self, data: RankingData, metric: str = "ndcg@10", **options: Any) -> Vector:
        """Return the mean of a metric on other data for each C."""
        return np.array(
            [mean_metric(data, multiply(data.X, coef), metric, **options) for coef in self.coefs]
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per C: features, objective, work and status."""
        return data_frame(self._columns())

    def _columns(self) -> dict[str, Sequence[Any]]:
        return {
            "C": self.Cs.tolist(),
            "features": self.n_features.tolist(),
            "objective": [result.objective for result in self.results],
            "gradient_norm": [result.gradient_norm for result in self.results],
            "iterations": [result.n_iter for result in self.results],
            "products": [result.n_products for result in self.results],
            "seconds": [result.seconds for result in self.results],
            "status": [result.status.name.lower() for result in self.results],
        }

    def __repr__(self) -> str:
        n, ends = self.n_features, f"{self.Cs[0]:.6g} to {self.Cs[-1]:.6g}"
        return (
            f"RegularizationPath({len(self)} values of C from {ends}, "
            f"{n.min()} to {n.max()} features with a weight)"
        )

    def _repr_html_(self) -> str:
        columns = self._columns()
        rows = [
            [f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row]
            for row in zip(*columns.values(), strict=True)
        ]
        return html_table([name.replace("_", " ") for name in columns], rows, title=repr(self))

    def plot(self, ax: Axes | None = None, names: Sequence[str] | None = None) -> Axes:
        """Draw the largest weights against C.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: those of a new figure.
        names : sequence of str, optional
            Names of the features. None: their numbers, from 1 on.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import C_GRID, make_ranking, sparse_path
        >>> path, _ = sparse_path(make_ranking(random_state=0), Cs=C_GRID[:10])
        >>> axes = path.plot()
        >>> axes.get_xscale()
        'log'
        """
        shown = names or [str(f) for f in range(1, self.coefs.shape[1] + 1)]
        return drawn(lambda axes: draw_weights(axes, self.Cs, self.coefs, shown), ax)

    def plot_metric(
        self, values: Vector, metric: str = "metric", ax: Axes | None = None,
        greater_is_better: bool = True,
    ) -> Axes:  # fmt: skip
        """Draw a metric against C, with a mark at the best C.

        Parameters
        ----------
        values : float64 array of shape (n_Cs,)
            The metric for each C, as from `evaluate`.
        metric : str
            The name of the metric.
        ax : matplotlib Axes, optional
            None: those of a new figure.
        greater_is_better : bool
            Whether larger values are better; False for errors.

        Returns
        -------
        matplotlib Axes

        Examples
        --------
        >>> from linrank import C_GRID, make_ranking, sparse_path
        >>> data = make_ranking(random_state=0)
        >>> path, _ = sparse_path(data, Cs=C_GRID[:10])
        >>> axes = path.plot_metric(path.evaluate(data), "ndcg@10")
        """
        best = int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))
        return drawn(lambda axes: draw_metric(axes, self.Cs, values, best, metric, "Best"), ax)


def first_C(problem: Problem) -> float:
    """Return the smallest C at which a penalised feature is selected; infinity if there is none.

    Features without a cost are fitted first. A concave penalty can drop a feature that l1 has just
    selected. For concave penalties, C is therefore doubled until a feature is selected, and then
    refined to within 5 %.
    """
    C = problem.entry_C(_free_optimum(problem))
    if problem.penalty.convex or not np.isfinite(C):
        return C
    method = make_solver("auto", problem.engine.loss, problem.penalty)
    low = C
    for _ in range(MAX_DOUBLINGS):
        if _selects(method, problem.with_C(C)):
            break
        low, C = C, 2.0 * C
    else:
        return np.inf
    while 1.05 * low < C:
        middle = float(np.sqrt(low * C))
        low, C = (low, middle) if _selects(method, problem.with_C(middle)) else (middle, C)
    return C


def _free_optimum(problem: Problem) -> Vector:
    """Return the optimum without penalised features, which is the same for every C."""
    free = problem.penalty.weights == 0
    if not free.any() or free.all():
        return problem.penalty.clip(np.zeros(problem.n_features))
    barred = L1(np.where(free, 0.0, BARRIER_COST), bounds=problem.penalty.limits)
    method = make_solver("auto", problem.engine.loss, barred, tol=1e-6)
    return finished(method.solve(problem.with_C(1.0).with_penalty(barred))).coef


def _selects(method: Solver, problem: Problem) -> bool:
    coef = finished(method.solve(problem)).coef
    return bool(coef[problem.penalty.weights > 0].any())


def finished(result: Result) -> Result:
    """Return a result whose weights are needed by further steps; raise an interrupt again."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def sparse_grid(problem: Problem, n: int = 50, ratio: float = 1e4) -> Vector:
    """Return n values of C on a log scale, from the smallest C that selects a feature."""
    if not problem.penalty.weights.any():
        raise DataError(
            "there is nothing to select, because no feature has a cost. Use penalty='l1' without "
            "feature costs of 0, or choose C yourself."
        )
    start = first_C(problem)
    if not np.isfinite(start):
        raise DataError(f"there is nothing to select: {NO_USEFUL_FEATURE}.")
    return start * np.geomspace(1.0 + 1e-6, ratio, n)


def regularization_path(
    problem: Problem,
    Cs: Sequence[float] | Vector | None = None,
    *,
    tol: float = 1e-3,
    solver: SolverChoice | Solver = "auto",
    max_iter: int = 1000,
    seed: int = 0,
    callback: Callable[[float, Step], None] | None = None,
    w0: Vector | None = None,
) -> RegularizationPath:
    """Solve a problem for each C in increasing order, with warm starts.

    Parameters
    ----------
    problem : Problem
        The problem, as from `make_problem`. Its own C is not used.
    Cs : sequence of float, optional
        The values of C. The default is `C_GRID`. For penalties that select features, it is 50
        values from the smallest C that selects a feature to 10,000 times that C.
    tol, solver, max_iter
        See `linrank.RankSVM`. A `Solver` has its own tol and max_iter.
    seed : int
        Seed of the stochastic solvers.
    callback : callable, optional
        Called with C and a `Step` after every iteration.
    w0 : array, optional
        Where the fit with the smallest C starts. The default is 0.

    Returns
    -------
    RegularizationPath

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.path import make_problem, regularization_path
    >>> path = regularization_path(make_problem(make_ranking(random_state=0)), [0.01, 1.0])
    >>> path.coefs.shape
    (2, 20)
    """
    if Cs is None:
        Cs = sparse_grid(problem) if problem.penalty.starts_at_zero else C_GRID
    grid = np.unique(np.array([positive_number("C", C) for C in Cs]))
    if not len(grid):
        raise DataError("Cs is empty; expected at least one C")
    results: list[Result] = []
    method = make_solver(
        solver, problem.engine.loss, problem.penalty, seed=seed, tol=tol, max_iter=max_iter
    )
    for C in grid:
        if callback is not None:
            method.callback = lambda step, C=C: callback(C, step)
        results.append(method.solve(problem.with_C(C), w0 if method.warm_starts else None))
        w0 = results[-1].coef
        if results[-1].status is Status.INTERRUPTED:
            break
    return path_of(list(zip(grid, results, strict=False)))


def path_of(solutions: Sequence[tuple[float, Result]]) -> RegularizationPath:
    """Return the path for values of C in increasing order, with their results."""
    Cs, results = zip(*solutions, strict=True)
    return RegularizationPath(np.array(Cs), np.array([r.coef for r in results]), list(results))


def sparse_path(
    data: RankingData,
    penalty: PenaltyName | Penalty = "l1",
    Cs: Sequence[float] | None = None,
    *,
    shape: float | None = None,
    valid: RankingData | None = None,
    metric: str = "ndcg@10",
    tol: float = 1e-3,
    solver: SolverChoice | Solver = "auto",
    n_threads: int | None = None,
    bounds: BoundsLike = None,
    **options: Any,
) -> tuple[RegularizationPath, Vector | None]:
    """Return sparse solutions from the smallest C that selects a feature upward.

    Parameters
    ----------
    data : RankingData
    penalty, shape, bounds
        See `linrank.SparseRankSVM`.
    Cs : sequence of float, optional
        The values of C. By default there are 50, from the smallest C that selects a feature to
        10,000 times that C.
    valid : RankingData, optional
        Held-out data, on which the metric is measured.
    metric : str
        The name of the metric, as for `linrank.evaluate`.
    tol, solver
        See `linrank.SparseRankSVM`.
    n_threads : int, optional
    **options
        Options of `make_problem`: loss, counting, preferences, normalize, engine.

    Returns
    -------
    path : RegularizationPath
        ``path.Cs``, ``path.coefs``, ``path.n_features`` and the results of the solver.
    values : float64 array of shape (n_Cs,) or None
        The metric on the held-out data for each C.

    Examples
    --------
    >>> from linrank import C_GRID, make_ranking, sparse_path
    >>> path, _ = sparse_path(make_ranking(random_state=0), "l1", [1e-4, 1e-3])
    >>> bool(path.n_features[0] < path.n_features[1])
    True
    """
    chosen = make_penalty(penalty, shape, bounds=bounds)
    problem = make_problem(data, penalty=chosen, n_threads=n_threads, **options)
    path = regularization_path(problem, Cs, tol=tol, solver=solver)
    return path, None if valid is None else path.evaluate(valid, metric)
