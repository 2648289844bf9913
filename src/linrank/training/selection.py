"""The choice of C: criteria on held-out data, paths with warm starts, and grids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .._util.checks import choice, positive_number
from .._util.text import data_frame, html_table
from .._util.types import Integers, Vector
from ..choices import RULES, FlavourName, RuleName
from ..data.pairs import GivenPairs
from ..data.ranking import RankingData, rank_by_content, row_keys
from ..engines.engine import Engine
from ..errors import DataError
from ..losses.pairwise import SQUARED_HINGE
from ..matrix.rows import multiply
from ..metrics import evaluate, parse_metric, right_pairs
from ..penalties import PenaltyName
from ..penalties.penalty import BoundsLike, Penalty, make_penalty
from ..penalties.separable import L1
from ..plots.result_plots import plot_metric, plot_weights
from ..problem import Problem, make_problem
from ..solvers import SolverChoice
from ..solvers.result import Result, Status, Step
from ..solvers.solver import BARRIER_COST, Solver, make_solver

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


# --------------------------------------------------------------------------------------------------
# The criterion by which C is chosen: a metric on held-out data or on folds of queries.


#: Rows to train on, and held-out rows; of data with listed pairs, numbers of pairs.
Fold = tuple[Integers, Integers]


def mean_metric(data: RankingData, scores: Vector, metric: str, **options: Any) -> float:
    """Return the mean of one metric over the queries of the data."""
    found = evaluate(data.y, scores, query_ptr=data.query_ptr, metrics=[metric], **options)
    return found.mean[parse_metric(metric).name]


def best_index(values: Vector, greater_is_better: bool = True) -> int:
    """Return the index of the first best value, which belongs to the smallest best C.

    The best value is the largest one, or the smallest one of an error.

    Examples
    --------
    >>> best_index(np.array([0.3, 0.5, 0.5]))
    1
    >>> best_index(np.array([0.3, 0.5, 0.5]), greater_is_better=False)
    0
    """
    if np.isnan(values).all():
        raise DataError(
            "the metric is undefined for every model, because no query can be evaluated. Use "
            "held-out data with different labels within queries."
        )
    return int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))


@dataclass(frozen=True)
class Criterion:
    """The criterion by which C is chosen: the mean of a metric on held-out documents.

    Parameters
    ----------
    metric : str
    flavour : str
        The conventions of the metric; see `linrank.evaluate`.
    rule : {"best", "1se"}
        ``best``: the best C. ``1se``: the C with the fewest features among those within one
        standard error of the best.
    """

    metric: str = "ndcg@10"
    flavour: FlavourName = "standard"
    rule: RuleName = "best"

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        parse_metric(self.metric)

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values are better; False for errors."""
        return parse_metric(self.metric).greater_is_better

    def best(self, values: Vector) -> int:
        """Return the index of the first best value; see `best_index`."""
        return best_index(values, self.greater_is_better)

    def improves(self, values: Vector, on: float) -> bool:
        """Return whether one of the values is better than the value `on`."""
        better = values > on if self.greater_is_better else values < on
        return bool(better.any())

    def choose(self, values: Vector, error: float, n_features: Integers) -> int:
        """Return the index of the chosen C, given all values and the error of the best one.

        Examples
        --------
        >>> values, n_features = np.array([0.5, 0.69, 0.7]), np.array([1, 2, 9])
        >>> Criterion(rule="1se").choose(values, 0.02, n_features)
        1
        """
        if n_features.any():  # prefer models with features
            values = np.where(n_features > 0, values, np.nan)
        best = self.best(values)
        if self.rule == "best":
            return best
        near = np.flatnonzero(np.abs(values - values[best]) <= error)
        return int(near[np.argmin(n_features[near])])

    def measure(self, data: RankingData, scores: Vector) -> tuple[float, float]:
        """Return the mean over the queries of the data, and its standard error.

        The mean is NaN if no query can be measured, and the error if there are less than two.
        """
        doc_ids = data.doc_ids if self.flavour == "trec" else None
        found = evaluate(
            data.y, scores, query_ptr=data.query_ptr, metrics=[self.metric], flavour=self.flavour,
            doc_ids=doc_ids,
        )  # fmt: skip
        name = parse_metric(self.metric).name
        values = found.per_query[name]
        values = values[~np.isnan(values)]
        return found.mean[name], standard_error(values) if len(values) > 1 else np.nan

    def mean(self, data: RankingData, scores: Vector) -> float:
        """Return the mean over the queries of the data; NaN if no query can be measured."""
        return self.measure(data, scores)[0]

    def check(self, data: RankingData) -> None:
        """Raise a `DataError` for data on which the metric is undefined."""
        if np.isnan(self.mean(data, np.zeros(data.n_docs))):
            raise DataError(
                f"C cannot be chosen by {parse_metric(self.metric).name}: it is undefined in all "
                f"{data.n_queries} queries of the held-out data. Use other data or another metric."
            )


@dataclass(frozen=True)
class PairCriterion(Criterion):
    """The criterion for data with listed pairs: the accuracy on held-out pairs.

    It is the weighted share of pairs whose preferred document has the higher score; equal scores
    count one half. Margins have no influence.
    """

    metric: str = "pairwise-accuracy"

    def measure(self, data: RankingData, scores: Vector) -> tuple[float, float]:
        """Return the accuracy and its standard error, as that of a weighted mean.

        Both are NaN if all pairs have the weight 0.
        """
        assert data.pairs is not None
        weight = _weights(data.pairs)
        total = weight.sum()
        if not total:
            return np.nan, np.nan
        right = right_pairs(scores, data.pairs.rows)
        accuracy = float(right @ weight / total)
        return accuracy, float(np.linalg.norm(weight * (right - accuracy)) / total)


def _weights(pairs: GivenPairs) -> Vector:
    return np.ones(len(pairs.rows)) if pairs.weight is None else pairs.weight


def make_folds(data: RankingData, n_folds: int) -> Iterator[Fold]:
    """Split data into folds: `query_folds`, or `pair_folds` for data with listed pairs."""
    return query_folds(data, n_folds) if data.pairs is None else pair_folds(data, n_folds)


def most_folds(data: RankingData) -> int:
    """Return the largest number of folds that `make_folds` can make of data."""
    if data.pairs is not None:
        return len(np.unique(same_pairs(data)))
    return data.n_docs if data.n_queries == 1 else data.n_queries


def pair_groups(data: RankingData, n_folds: int) -> Integers:
    """Return the group of each listed pair; pairs of one group are in the same fold.

    A group is a connected component of the graph of preferences, so that held-out documents do not
    occur in training, as with folds of queries. If a component has more than 1/n_folds of the
    pairs, such folds would be unequal or impossible. A group then consists of the pairs of the
    same two documents, in either order. Groups are numbered by content, not by the order of rows.
    """
    assert data.pairs is not None
    rows = data.pairs.rows
    component = np.searchsorted(data.query_ptr, rows[:, 0], side="right") - 1
    if n_folds * np.bincount(component).max() <= len(rows):
        return rank_by_content(data.query_keys)[component]
    return same_pairs(data)


def same_pairs(data: RankingData) -> Integers:
    """Return a number for each listed pair, equal for pairs of the same two documents."""
    assert data.pairs is not None
    low, high = np.sort(rank_by_content(row_keys(data.X))[data.pairs.rows], axis=1).T
    return low * data.n_docs + high


def pair_folds(data: RankingData, n_folds: int) -> Iterator[Fold]:
    """Split listed pairs into folds of whole groups; see `pair_groups`."""
    from sklearn.model_selection import PredefinedSplit

    groups = pair_groups(data, n_folds)
    n_groups = len(np.unique(groups))
    if not 2 <= n_folds <= n_groups:
        raise DataError(
            f"there are {n_groups} different pairs: {n_folds} folds cannot be made of them. Use 2 "
            f"to {n_groups} folds."
        )
    return PredefinedSplit(equal_folds(groups, n_folds)).split()


def query_folds(data: RankingData, n_folds: int) -> Iterator[Fold]:
    """Split data into folds of whole queries, or of documents if there is only one query.

    The folds depend on the content only, not on the order of rows or the type of `qid`. Documents
    of one query are assigned by label, so that every fold has documents of each label.
    """
    from sklearn.model_selection import PredefinedSplit

    one = data.n_queries == 1
    n_groups, what = (data.n_docs, "documents of one query") if one else (data.n_queries, "queries")
    if not 2 <= n_folds <= n_groups:
        raise DataError(
            f"there are {n_groups} {what}: {n_folds} folds cannot be made of them. Use 2 to "
            f"{n_groups} folds."
        )
    if one:
        fold = np.empty(data.n_docs, np.int64)
        fold[np.lexsort((row_keys(data.X, has_missing=data.has_missing), data.y))] = (
            np.arange(data.n_docs) % n_folds
        )
        return PredefinedSplit(fold).split()
    groups = np.repeat(rank_by_content(data.query_keys), np.diff(data.query_ptr))
    return PredefinedSplit(equal_folds(groups, n_folds)).split()


def equal_folds(groups: Integers, n_folds: int) -> Integers:
    """Return the fold of each row, so that groups stay whole and folds have similar sizes.

    The largest group that has no fold goes to the smallest fold. Of groups of one size, the group
    with the larger number comes first. `GroupKFold` gives the same folds with scikit-learn 1.9.
    Older versions sort sizes with an unstable sort, whose result depends on the processor.

    Parameters
    ----------
    groups : array of int
        The group of each row: any numbers.
    n_folds : int
        At most the number of groups.

    Examples
    --------
    >>> equal_folds(np.array([0, 0, 0, 1, 1, 2]), 2)
    array([0, 0, 0, 1, 1, 1])
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    fold_of, filled = np.empty(len(sizes), np.int64), np.zeros(n_folds, np.int64)
    for one in np.argsort(sizes, kind="stable")[::-1]:
        fold_of[one] = smallest = np.argmin(filled)
        filled[smallest] += sizes[one]
    return fold_of[group]


def standard_error(values: Vector) -> float:
    """Return the standard error of the mean of some values; 0 if there is only one."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def error_of_folds(values: Vector, errors: Vector) -> float:
    """Return the standard error of the mean of the values of some folds.

    It is that of the queries of all folds, if the standard error of each fold is known. Otherwise
    it is that of the values.

    Examples
    --------
    >>> error_of_folds(np.array([0.5, 0.7]), np.array([0.03, 0.04]))
    0.025
    """
    defined = ~np.isnan(values)
    errors = errors[defined]
    if np.isnan(errors).any():
        return standard_error(values[defined])
    return float(np.linalg.norm(errors) / max(1, len(errors)))


def mean_of_folds(values: Vector) -> Vector:
    """Return the mean over the folds in which the metric is defined; NaN if there is none."""
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(axis=1)
    mean = np.full(len(values), np.nan)
    return np.divide(total, defined.sum(axis=1), out=mean, where=defined.any(axis=1))


# --------------------------------------------------------------------------------------------------
# Regularisation paths: the solutions for a grid of C, with warm starts.


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
        return plot_weights(self, ax, names)

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
        return plot_metric(self.Cs, values, metric, ax, greater_is_better)


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
    tol: float | None = None,
    solver: SolverChoice | Solver = "auto",
    max_iter: int = 1000,
    seed: int = 0,
    callback: Callable[[float, Step], None] | None = None,
    w0: Vector | None = None,
    until: Callable[[Result], bool] | None = None,
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
    until : callable, optional
        Called with each result; the path ends when it returns True.

    Returns
    -------
    RegularizationPath

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.training.selection import make_problem, regularization_path
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
        has_ended = until is not None and until(results[-1])
        if has_ended or results[-1].status is Status.INTERRUPTED:
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
    tol: float | None = None,
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


# --------------------------------------------------------------------------------------------------
# Grids of C that adapt to the data, and the search for the best C.


Edge = Literal["smallest", "largest"]  #: the end of the grid at which the best C lies
Measure = Callable[[Vector], tuple[Vector, bool]]  #: see `search`

FLAT_RATIO = 1e-3  #: C‖∇L(0)‖²/L(0) below which a smaller C does not change the ranking
LARGEST_START = 2.0**-5  #: largest C without effect on the ranking for which the grid stays
SMALLEST_START = 2.0**-25  #: smallest C with equal curvatures for which the grid stays
SAMPLED_FEATURES = 64  #: features whose curvature is estimated; more are slower and more exact
SAMPLED_BLOCKS = 8  #: blocks of so many columns of curves; more are slower and more exact
SAMPLED_ROWS = 5000  #: documents from which the curvature is estimated; more are slower
DEFAULT_RATIO = 4.0  #: ratio of the values of `grid_around`; larger values are coarser and faster
SMALL_DIFFERENCE = 1e-3  #: relative difference of a metric for which no other C is worth its time
EXTENSION_FACTOR = 2.0**20  #: factor by which a grid can be extended above its largest C
PATIENCE = 4  #: values of C in a row without one of the best three; fewer may miss a second maximum
LEAST_MORE = 5  #: smallest number of values that an extension adds


@dataclass(frozen=True)
class Grid:
    """Values of C in increasing order, with the limits of extensions.

    Attributes
    ----------
    Cs : float64 array
        The values.
    lowest, highest : float
        An end of the grid that lies beyond its limit is not extended. By default no end is
        extended.
    patience : int, optional
        On one held-out part, larger values of C are left out after that many values in a row of
        which none is among the best ``patience − 1``. By default all values are tried.
    preferred : float, optional
        The C to choose unless another one is better by more than one standard error; see `choose`.
    """

    Cs: Vector
    lowest: float = np.inf
    highest: float = 0.0
    patience: int | None = None
    preferred: float | None = None

    def is_past_best(self, values: Sequence[float], greater_is_better: bool = True) -> bool:
        """Return whether the values of the criterion so far allow to leave out larger C.

        Examples
        --------
        >>> grid = Grid(2.0 ** np.arange(6), patience=3)
        >>> grid.is_past_best([0.5, 0.6, 0.4, 0.3, 0.2]), grid.is_past_best([0.5, 0.6, 0.4, 0.3])
        (True, False)
        """
        n = self.patience
        if n is None or len(values) < 2 * n - 1:
            return False
        known = np.nan_to_num(np.array(values) * (1.0 if greater_is_better else -1.0), nan=-np.inf)
        return bool(known[-n:].max() < np.sort(known[:-n])[1 - n])

    def choose(self, Cs: Vector, criterion: Criterion, means: Vector, errors: Vector) -> int:
        """Return the index of the chosen C.

        It is the best C, or if the grid prefers a C, the nearest to it among those within one
        standard error of the best. Differences of less than 0.1 % are no reason for another C,
        either.

        Parameters
        ----------
        Cs : float64 array
            Values of C.
        criterion : Criterion
        means, errors : float64 arrays
            The mean of the criterion for each C, and its standard error.

        Examples
        --------
        >>> grid, means = Grid(np.array([1.0, 10.0, 100.0]), preferred=10.0), np.array([5, 6, 7])
        >>> [grid.choose(grid.Cs, Criterion(), means, np.full(3, error)) for error in (0.1, 2.0)]
        [2, 1]
        """
        best = criterion.best(means)
        if self.preferred is None:
            return best
        slack = max(errors[best], SMALL_DIFFERENCE * abs(means[best]))
        near = np.flatnonzero(np.abs(means - means[best]) <= slack)
        return int(near[np.argmin(np.abs(np.log(Cs[near] / self.preferred)))])

    def beyond(self, Cs: Vector, best: int) -> Vector | None:
        """Return values beyond the end of `Cs` at which the best C lies; None if not extended.

        Examples
        --------
        >>> grid = Grid(2.0 ** np.arange(6), lowest=0.25)
        >>> grid.beyond(grid.Cs, best=0).tolist()
        [0.03125, 0.0625, 0.125, 0.25, 0.5]
        >>> grid.beyond(grid.Cs, best=5) is None
        True
        """
        steps = np.arange(1, max(LEAST_MORE, len(self.Cs) // 5) + 1)
        if best == 0 and Cs[0] > self.lowest:
            return Cs[0] / (Cs[1] / Cs[0]) ** steps[::-1]
        if best == len(Cs) - 1 and Cs[-1] < self.highest:
            return Cs[-1] * (Cs[-1] / Cs[-2]) ** steps
        return None


class Search(NamedTuple):
    """The values of the criterion for a grid of C.

    ``values`` has a row for each C and a column for each held-out part. ``edge`` is the end of the
    grid at which the chosen C lies, unless values beyond that end were tried and were no better.
    ``chosen`` is the index of the chosen C, which is the best one unless ``leans``: see
    `Grid.choose`.
    """

    Cs: Vector
    values: Vector
    edge: Edge | None
    chosen: int = 0
    leans: bool = False


def as_grid(Cs: Sequence[float] | Vector | Grid) -> Grid:
    """Return a grid of the given values in increasing order; it is not extended."""
    if isinstance(Cs, Grid):
        return Cs
    try:
        values = np.unique(np.asarray(Cs, dtype=np.float64))
        sound = np.ndim(Cs) == 1 and bool((np.isfinite(values) & (values > 0)).all())
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise DataError(f"Cs is {Cs!r}; expected a list of finite numbers above 0")
    if not len(values):
        raise DataError("Cs is empty; expected at least one C")
    return Grid(values)


def default_grid(problem: Problem) -> Grid:
    """Return the default grid: 2^-15 … 2^10 for the penalty ½‖w‖² (Lee & Lin 2014, §4.4).

    In two cases the grid has the same number of values, but starts at another C:

    - If the ranking is the same for all C up to a number above 2^-5, the grid starts there.
    - If features are large, such as raw counts above 1e4, the grid starts at the C at which the
      penalty matters for the feature with the smallest scale. This C must be below 2^-25.

    The grid can be extended at both ends. For penalties that select features, the grid starts
    where the first feature is selected, and can be extended upward.
    """
    if problem.penalty.starts_at_zero:
        Cs = sparse_grid(problem)
        return Grid(Cs, highest=EXTENSION_FACTOR * Cs[-1])
    Cs, flat, balance = np.array(C_GRID), _largest_flat_C(problem.engine), _largest_balance(problem)
    if LARGEST_START < flat < np.inf:
        Cs = Cs * 2.0 ** np.floor(np.log2(flat / Cs[0]))
    elif balance < SMALLEST_START:
        Cs = Cs * 2.0 ** np.floor(np.log2(balance / Cs[0]))
    return Grid(Cs, lowest=flat, highest=EXTENSION_FACTOR * Cs[-1])


def grid_around(problem: Problem, C: float) -> Grid:
    """Return five values around a C that is good for most data, and prefer this C.

    If the ranking is the same for all values, because features are small, all are multiplied by
    the same power of 4. The grid can be extended at both ends.
    """
    flat = _largest_flat_C(problem.engine)
    if 4.0 * C < flat < np.inf:
        C *= DEFAULT_RATIO ** np.ceil(np.log(flat / C) / np.log(DEFAULT_RATIO))
    Cs = C * DEFAULT_RATIO ** np.arange(-2.0, 3.0)
    return Grid(Cs, lowest=flat, highest=EXTENSION_FACTOR * Cs[-1], preferred=C)


def wide_grid(C: float) -> Grid:
    """Return thirteen values around a preferred C, for plots of paths.

    Examples
    --------
    >>> wide_grid(8.0).Cs[:7].tolist()
    [0.001953125, 0.0078125, 0.03125, 0.125, 0.5, 2.0, 8.0]
    """
    return Grid(C * DEFAULT_RATIO ** np.arange(-6.0, 7.0), preferred=C)


def balanced_grid(problem: Problem) -> Grid:
    """Return the default grid of additive rankers, which has fewer values than `default_grid`.

    The values are 2^k/h for k = −3, …, 10, where h is the mean curvature of the loss in the
    weights, at w = 0. The grid can be extended at both ends. For penalties that select features,
    the values begin above the C that selects the first feature, grow by the factor 2^¾, and can be
    extended upward. Fits with large C take longest, so values far above the best are left out.
    """
    if problem.penalty.starts_at_zero:
        least = first_C(problem)
        Cs = (least if np.isfinite(least) else 1.0) * np.exp2(0.75 * np.arange(1, 13))
        return Grid(Cs, highest=EXTENSION_FACTOR * Cs[-1], patience=PATIENCE)
    # Columns of one feature differ, so blocks of neighbours are taken.
    width, d = SAMPLED_FEATURES, problem.n_features
    starts = np.linspace(0, max(0, d - width), min(SAMPLED_BLOCKS, -(-d // width)), dtype=np.int64)
    curvatures = _curvatures(problem, [np.arange(a, min(a + width, d)) for a in starts])
    Cs = np.exp2(np.arange(-3.0, 11.0)) / (float(curvatures.mean()) if len(curvatures) else 1.0)
    flat = _largest_flat_C(problem.engine)
    return Grid(Cs, lowest=flat, highest=EXTENSION_FACTOR * Cs[-1], patience=PATIENCE)


def _largest_flat_C(engine: Engine) -> float:
    """Return the C up to which w ≈ −C∇L(0), so that the ranking is the same.

    The condition is C‖∇L(0)‖² ≪ L(0). If the gradient is 0, the C is infinite.
    """
    loss, slope = engine.at_zero
    return FLAT_RATIO * loss / slope**2 if slope > 0 else np.inf


def _largest_balance(problem: Problem) -> float:
    """Return 1/min_j H_jj, the largest C at which ½w_j² and C·L have the same curvature.

    The smallest H_jj is that of the feature with the smallest scale. If no sampled feature
    distinguishes documents, the result is infinite.
    """
    d = problem.n_features
    features = np.unique(np.linspace(0, d - 1, min(d, SAMPLED_FEATURES)).astype(np.int64))
    curvatures = _curvatures(problem, [features])
    return 1.0 / float(curvatures.min()) if len(curvatures) else np.inf


def _curvatures(problem: Problem, blocks: Sequence[Integers]) -> Vector:
    """Return H_jj > 0 of the loss at w = 0 for blocks of features, from a sample of documents."""
    engine, d = problem.engine, problem.n_features
    if not d:  # an additive ranker has no columns if all features are constant
        return np.empty(0)
    if not engine.loss.smooth:
        engine = engine.with_loss(SQUARED_HINGE)
    if engine.last is None or engine.last[0].any():
        engine.value_grad(np.zeros(d))
    found = [np.diagonal(engine.hessian(SAMPLED_ROWS, features)) for features in blocks]
    curvature = np.concatenate(found)
    return curvature[curvature > np.finfo(float).eps * curvature.max()]


def search(
    grid: Grid,
    criterion: Criterion,
    measure: Measure,
    error: Callable[[float, Vector], float] = lambda C, values: 0.0,
) -> Search:
    """Measure the values of a grid, and extend the grid while the chosen C is at an end.

    Extensions that are no better are dropped. Equal values do not end the extension, because many
    values of C give the same ranking if C is large for the scale of the features.

    Parameters
    ----------
    grid : Grid
    criterion : Criterion
    measure : callable
        Takes values of C. Returns an array with a row for each C, and whether an interrupt came.
        After an interrupt there may be fewer rows.
    error : callable, optional
        Takes a C and its row of values. Returns the standard error of their mean.
    """

    def choose(Cs: Vector, values: Vector, means: Vector) -> int:
        errors = np.array([error(*one) for one in zip(Cs.tolist(), values, strict=True)])
        return grid.choose(Cs, criterion, means, errors)

    values, interrupted = measure(grid.Cs)
    Cs = grid.Cs[: len(values)]
    kept = slice(0, len(Cs))
    while not interrupted:
        means = mean_of_folds(values)
        best = choose(Cs, values, means)
        more = grid.beyond(Cs, best)
        if more is None:
            break
        found, interrupted = measure(more)
        n = len(found)
        if best == 0:
            Cs, values = np.r_[more[:n], Cs], np.r_[found, values]
            kept = slice(kept.start + n, kept.stop + n)
        else:
            Cs, values = np.r_[Cs, more[:n]], np.r_[values, found]
        if criterion.improves(mean_of_folds(found), means[best]):
            kept = slice(0, len(Cs))
    reported = not interrupted and kept == slice(0, len(Cs))
    edge = _edge(mean_of_folds(values), best) if reported else None
    Cs, values = Cs[kept], values[kept]
    return Search(
        Cs, values, edge, choose(Cs, values, mean_of_folds(values)), grid.preferred is not None
    )


def _edge(means: Vector, best: int) -> Edge | None:
    if not (means != means[best]).any():  # all values are equal
        return None
    return "smallest" if best == 0 else "largest" if best == len(means) - 1 else None
