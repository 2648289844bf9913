"""`PAMIRCV`: PAMIR with C and the number of passes chosen on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._checks import whole_number
from .._rows import multiply
from .._threads import resolve_threads
from .._typing import Vector
from ..criterion import Criterion, make_folds, mean_of_folds
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..estimators.choosing import warn_of_edge
from ..estimators.habits import HeldOut
from ..grid import Grid, as_grid, search
from ..problem import no_pair
from .pamir import Draws, PassiveAggressive, State

#: Values of C of the default grid, in units of the step length that orders an average pair.
RELATIVE_CS: Vector = np.power(4.0, np.arange(-7, 2))
EXTENSION_FACTOR = 4.0**5  #: factor by which the default grid can be extended at each end
SAMPLED_PAIRS = 1000  #: pairs from which the mean ‖x_i − x_j‖² is estimated


class PAMIRCV(PassiveAggressive):
    """`PAMIR` with C and the number of passes chosen by a ranking metric on held-out data.

    For each C, the metric is measured after every pass. The best pair of C and number of passes is
    chosen, which is early stopping on the held-out data. `PAMIR` then runs with both on all
    training data. Without held-out data, the metric is the mean over folds of queries.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid. The default has 9 values from 4^-7/s to 4/s, where s is the mean of ‖x_i − x_j‖²
        over the pairs. A step of length 1/s orders an average pair with the margin 1. The default
        grid is extended while the best C is at an end.
    metric : str
        ``"ndcg@10"``, ``"map"``, ``"pairwise-accuracy"``, …; see `linrank.parse_metric`.
    cv : int
        The number of folds of queries if `fit` gets no held-out data.
    max_iter : int
        The largest number of passes. If the chosen number equals it, more passes may be better.
    n_threads, verbose, random_state
        See `PAMIR`.

    Attributes
    ----------
    C_ : float
        The chosen C.
    n_iter_ : int
        The chosen number of passes.
    best_score_ : float
        The value of the metric for both.
    best_params_ : dict
        Parameters of `PAMIR` with the same result: ``C`` and ``max_iter``.
    Cs_ : float64 array of shape (n_Cs,)
        The values of C that were tried, in increasing order.
    metric_path_ : float64 array of shape (n_Cs, n_folds)
        The metric on each held-out part, after the best number of passes for each C.
    coef_, model_, losses_, n_steps_, n_pairs_, n_queries_, n_features_in_, feature_names_in_
        See `PAMIR`.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import PAMIRCV
    >>> train, valid = make_ranking(random_state=0), make_ranking(random_state=1)
    >>> ranker = PAMIRCV(max_iter=20).fit(train, valid=valid)
    >>> ranker.C_ in ranker.Cs_, 1 <= ranker.n_iter_ <= 20
    (True, True)
    """

    chooses: ClassVar[bool] = True

    best_params_: dict[str, Any]

    def __init__(
        self,
        Cs: Sequence[float] | None = None,
        *,
        metric: str = "ndcg@10",
        cv: int = 5,
        max_iter: int = 50,
        n_threads: int | None = None,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.Cs = Cs
        self.metric = metric
        self.cv = cv
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        valid: HeldOut | None = None,
    ) -> PAMIRCV:
        """Choose C and the number of passes, and fit the weights with them.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            As in `PAMIR.fit`.
        valid : tuple (X, y, qid) or RankingData, optional
            Held-out data, on which the metric is measured instead of on folds.
        """
        criterion, seed = Criterion(self.metric), self._seed()
        limit, n_folds = whole_number("max_iter", self.max_iter), whole_number("cv", self.cv)
        given = None if self.Cs is None else as_grid(self.Cs)
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        draws = Draws(data)
        if draws.n_pairs == 0:
            raise no_pair(data)
        if valid is None:
            parts = [
                Part(Draws(data.part(rows)), data.part(others))
                for rows, others in make_folds(data, n_folds)
            ]
        else:
            parts = [Part(draws, self._held_out(valid))]
            criterion.check(parts[0].held_out)
        self._choose(given or default_grid(draws, data, seed), parts, criterion, limit)
        self._learn(
            State(data.n_features, seed), draws, data, self.C_, self.best_params_["max_iter"]
        )
        return self

    def _choose(self, grid: Grid, parts: list[Part], criterion: Criterion, limit: int) -> None:
        """Choose C and the number of passes, of which there are at most `limit`."""
        seed, n_threads = self._seed(), resolve_threads(self.n_threads)
        n_passes: dict[float, int] = {}

        def measure(Cs: Vector) -> tuple[Vector, bool]:
            rows = []
            for C in Cs.tolist():
                values = [part.values(C, limit, seed, criterion, n_threads) for part in parts]
                by_pass = np.stack(values, axis=1)
                best = criterion.best(mean_of_folds(by_pass))
                n_passes[C] = best + 1
                rows.append(by_pass[best])
            return np.array(rows), False

        found = search(grid, criterion, measure)
        means = mean_of_folds(found.values)
        best = criterion.best(means)
        self.Cs_, self.metric_path_ = found.Cs, found.values
        self.C_, self.best_score_ = float(found.Cs[best]), float(means[best])
        self.best_params_ = {"C": self.C_, "max_iter": n_passes[self.C_]}
        warn_of_edge(found.Cs, found.edge)


class Part(NamedTuple):
    """Pairs to learn from, and held-out data."""

    draws: Draws
    held_out: RankingData

    def values(
        self, C: float, n_passes: int, seed: int, criterion: Criterion, n_threads: int
    ) -> Vector:
        """Return the value of the criterion after each pass."""
        state, X = State(self.held_out.n_features, seed), self.held_out.X
        found = np.empty(n_passes)
        for k in range(n_passes):
            self.draws.one_pass(state, C)
            found[k] = criterion.mean(self.held_out, multiply(X, state.w, n_threads))
        return found


def default_grid(draws: Draws, data: RankingData, seed: int) -> Grid:
    """Return the values of C from steps that hardly matter to those that order a pair at once."""
    upper, lower, _ = draws.sampler.draw_pairs(np.random.default_rng(seed), SAMPLED_PAIRS)
    difference = data.X[upper] - data.X[lower]
    size = float((difference * difference).sum()) / SAMPLED_PAIRS
    Cs: Vector = RELATIVE_CS / (size or 1.0)
    return Grid(Cs, Cs[0] / EXTENSION_FACTOR, Cs[-1] * EXTENSION_FACTOR)
