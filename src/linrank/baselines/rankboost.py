"""`RankBoost`: thresholds of single features, boosted on pairs that are never listed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from .._jit import njit
from ..data.checks import Matrix, check_finite
from ..data.ranking import RankingData
from ..estimators.base import Ranker, Vector
from ..path import no_pair
from .base import LARGEST_R, check_count, checked_rows
from .stumps import StumpModel, Stumps, add_stump, best_stump, number_values


class RankBoost(Ranker):
    """RankBoost with thresholds of features as weak rankers.

    Over the pairs (i, j) of documents of one query with label i above label j, with weights D that
    sum to 1, round t adds a stump h_t(x) = [x_f > θ] with a weight α_t,

        r_t = Σ_(i,j) D_t(i, j)·(h_t(x_i) − h_t(x_j)),    the stump with the largest |r_t|,
        α_t = ½·ln((1 + r_t) / (1 − r_t)),
        D_(t+1)(i, j) ∝ D_t(i, j)·exp(α_t·(h_t(x_j) − h_t(x_i))),

    and H = Σ_t α_t h_t is the score (Freund, Iyer, Schapire & Singer 2003, "An efficient boosting
    algorithm for combining preferences", with their third method of choosing α; compared with in
    Stevens, Bengio & Singer 2013). Each round lowers the loss
    Σ D_1(i, j)·exp(H(x_j) − H(x_i)), by a factor of √(1 − r_t²) or less.

    No pair is listed: r_t = Σ_i π_i·h_t(x_i) with the potentials

        π_i = v_i·Σ_(j below i) u_j − u_i·Σ_(j above i) v_j,

    v_i ∝ exp(−H(x_i)) and u_i ∝ exp(H(x_i)), whose sums run through the levels of a query. For
    two levels this is their RankBoost.B; it takes O(documents) for any number of levels. A round
    sums the potentials of each value of each feature: one read of X, whose values are numbered
    beforehand.

    Where the paper leaves it open: features have no missing values; of stumps that are
    equally good, that of the first feature and the largest θ is taken; |r| is at most 1 − 1e-10,
    so that a stump which puts every pair right gets α = 11.9 instead of ∞.

    Parameters
    ----------
    n_rounds : int
        The largest number of stumps; fewer where no stump tells the pairs apart any more. Choose it
        on validation data with `staged_predict`.
    n_thresholds : int or None
        θ are values of the feature: all but the largest, or where these are more than this, that
        many quantiles of its values. None: always all.
    n_threads : int, optional
        Threads for checking X; boosting has one. Default: ``LINRANK_THREADS``, or all usable cores.
    verbose : bool
        Print a line for each round.

    Attributes
    ----------
    stumps_ : Stumps
        Arrays ``feature``, ``threshold`` and ``alpha``, one entry per round.
    model_ : StumpModel
        The same stumps in the form that is saved: ``ranker.model_.save("model.json")``.
    losses_ : float64 array of shape (n_rounds + 1,)
        The mean loss of the pairs, from 1 on, after each round.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import RankBoost
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = RankBoost()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    __metadata_request__fit: ClassVar = {"query_weight": True}

    model_: StumpModel

    def __init__(
        self,
        n_rounds: int = 100,
        *,
        n_thresholds: int | None = 255,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_rounds = n_rounds
        self.n_thresholds = n_thresholds
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, query_weight: Any = None
    ) -> RankBoost:
        """Learn the stumps.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document: D_1 of a pair is query × upper document × lower document, so
            weight 0 is removal and weight 2 a second copy.
        query_weight : array of shape (n_docs,), optional
            Weight of each document's query: one value within a query.
        """
        n_rounds = check_count("n_rounds", self.n_rounds)
        if self.n_thresholds is not None:
            check_count("n_thresholds", self.n_thresholds)
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        pairs = PairWeights(data)
        bins, thresholds = number_values(data.X, pairs.rows, pairs.weight, self.n_thresholds)
        found: list[tuple[int, float, float]] = []
        interrupted = None
        try:
            for stump in self._rounds(pairs, bins, thresholds, n_rounds):
                found.append(stump)
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = KeyboardInterrupt(
                f"Interrupted; these are the stumps of {len(found)} rounds."
            )
        self._store(found, pairs, data)
        if interrupted is not None:
            raise interrupted
        return self

    def _rounds(
        self, pairs: PairWeights, bins: Any, thresholds: list[Vector], n_rounds: int
    ) -> Iterator[tuple[int, float, float]]:
        """Feature, threshold and weight of one stump after the other."""
        started = time.perf_counter()
        for t in range(1, n_rounds + 1):
            feature, k, r = best_stump(bins, pairs.potential)
            if feature < 0:
                return
            alpha = float(np.arctanh(np.clip(r, -LARGEST_R, LARGEST_R)))
            add_stump(bins, feature, k, alpha, pairs.scores)
            pairs.update()
            threshold = float(thresholds[feature][k])
            if self.verbose:
                print(
                    f"round {t:<5d} feature {feature:<6d} threshold {threshold:<12.6g} "
                    f"alpha {alpha:<12.6g} loss {pairs.losses[-1]:<12.6g} "
                    f"{time.perf_counter() - started:.2f} s"
                )
            yield feature, threshold, alpha

    def _store(
        self, found: list[tuple[int, float, float]], pairs: PairWeights, data: RankingData
    ) -> None:
        self.n_iter_ = len(found)
        self.n_pairs_, self.n_queries_ = pairs.n_pairs, data.n_queries
        self.losses_ = np.array(pairs.losses[: len(found) + 1])
        columns = np.array(found, np.float64).reshape(-1, 3).T
        self.stumps_ = Stumps(columns[0].astype(np.int64), columns[1], columns[2])
        self.model_ = StumpModel(
            self.stumps_,
            data.n_features,
            feature_names=data.feature_names,
            settings={"method": "RankBoost", "n_rounds": self.n_rounds,
                      "n_thresholds": self.n_thresholds},
            training={"rounds": self.n_iter_, "loss": float(self.losses_[-1]),
                      "pairs": self.n_pairs_, "queries": self.n_queries_},
        )  # fmt: skip

    def staged_predict(self, X: Any) -> Iterator[Vector]:
        """The scores after one round, two rounds, and so on, to choose the number of rounds.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        """
        return self.model_.staged_scores(checked_rows(self, X))

    def _scores(self, X: Matrix) -> Vector:
        check_finite(X, None)
        return self.model_.scores(X)


class PairWeights:
    """``D(i, j) ∝ weight·exp(H_j − H_i)`` over all pairs, by what it gives to each document.

    Attributes
    ----------
    rows : int64 array
        The documents that are in some pair: by query, and in it from the lowest label to the
        highest. All that follows is in this order.
    weight, scores : float64 arrays
        Of documents; the scores are H, to be changed from outside.
    potential : float64 array
        π, up to date after `update`: Σ_i π_i h(x_i) is Σ D(i, j)·(h(x_i) − h(x_j)).
    losses : list of float
        Mean of exp(H_j − H_i) over the pairs, at each update.
    n_pairs : int
    """

    def __init__(self, data: RankingData) -> None:
        query = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        weight = np.ones(data.n_docs) if data.weight is None else data.weight
        of_query = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        rows = np.flatnonzero((weight > 0) & (of_query[query] > 0))
        rows = rows[np.lexsort((data.y[rows], query[rows]))]
        first = np.searchsorted(query[rows], query[rows])
        last = np.searchsorted(query[rows], query[rows], side="right") - 1
        self.rows = rows = rows[data.y[rows][first] < data.y[rows][last]]
        if not len(rows):
            raise no_pair(data)
        query, label = query[rows], data.y[rows]
        new_query = np.diff(query, prepend=-1) != 0
        new_level = new_query | (np.diff(label, prepend=label[0]) != 0)
        starts = np.flatnonzero(new_level)
        self._level_ptr = np.append(starts, len(rows))
        self._query_levels = np.append(np.flatnonzero(new_query[starts]), len(starts))
        below = starts - np.searchsorted(query, query[starts])
        self.n_pairs = int(np.diff(self._level_ptr) @ below)
        self.weight = weight[rows]
        self._log_weight = np.log(weight[rows])
        self._log_query = np.log(of_query[query[new_query]])
        self.scores, self.potential = np.zeros((2, len(rows)))
        # Sums are taken relative to this: at first a bound on the pairs, later their sum.
        self._log_total = float(2.0 * self._log_weight.max() + self._log_query.max())
        self.losses: list[float] = []
        self.update()

    def update(self) -> None:
        """Bring the potentials and the loss in line with the scores."""
        total = sum_potentials(
            self._level_ptr, self._query_levels, self._log_weight, self._log_query, self.scores,
            self._log_total, self.potential,
        )  # fmt: skip
        self.potential /= total
        self._log_total += float(np.log(total))
        if not self.losses:
            self._log_start = self._log_total
        self.losses.append(float(np.exp(self._log_total - self._log_start)))


@njit
def sum_potentials(level_ptr, query_levels, log_weight, log_query, scores, log_unit, potential):  # type: ignore[no-untyped-def]
    """Σ of all pairs, and each document's potential, both divided by exp(log_unit).

    A running sum of exponentials is kept as sum·exp(top), so that none of them overflows.
    """
    total = 0.0
    for q in range(len(query_levels) - 1):
        unit = log_query[q] - log_unit
        top, below = -np.inf, 0.0
        for level in range(query_levels[q], query_levels[q + 1]):
            for i in range(level_ptr[level], level_ptr[level + 1]):
                potential[i] = 0.0
                if below > 0.0:
                    potential[i] = below * np.exp(log_weight[i] - scores[i] + top + unit)
                total += potential[i]
            for i in range(level_ptr[level], level_ptr[level + 1]):
                top, below = _add_exp(top, below, log_weight[i] + scores[i])
        top, above = -np.inf, 0.0
        for level in range(query_levels[q + 1] - 1, query_levels[q] - 1, -1):
            for i in range(level_ptr[level], level_ptr[level + 1]):
                if above > 0.0:
                    potential[i] -= above * np.exp(log_weight[i] + scores[i] + top + unit)
            for i in range(level_ptr[level], level_ptr[level + 1]):
                top, above = _add_exp(top, above, log_weight[i] - scores[i])
    return total


@njit(inner=True)
def _add_exp(top, total, x):  # type: ignore[no-untyped-def]
    """``total·exp(top) + exp(x)`` in the same form."""
    if x <= top:
        return top, total + np.exp(x - top)
    return x, total * np.exp(top - x) + 1.0
