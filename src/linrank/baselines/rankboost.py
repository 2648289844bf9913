"""`RankBoost`: boosting of feature thresholds on pairs, without listing the pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from .._checks import choice, whole_number
from .._jit import njit
from .._typing import Vector
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..errors import ConstantFeaturesWarning, warn
from ..estimators.base import Ranker
from ..problem import no_pair
from .base import LARGEST_R, checked_rows, collect_rounds
from .stumps import (
    DenseBins,
    SparseBins,
    StumpModel,
    Stumps,
    add_stump,
    best_stump,
    number_values,
)

NAMED = 5  #: constant features that a warning names; more make it longer


class Round(NamedTuple):
    """The stump of one round of boosting."""

    feature: int
    threshold: float
    alpha: float
    default: bool


class RankBoost(Ranker):
    """RankBoost with thresholds of features as weak rankers.

    The pairs (i, j) of documents of one query with label i above label j have weights D that sum
    to 1. Round t adds a stump h_t(x) = [x_f > θ] with a weight α_t,

        r_t = Σ_(i,j) D_t(i, j)·(h_t(x_i) − h_t(x_j)),    the stump with the largest |r_t|,
        α_t = ½·ln((1 + r_t) / (1 − r_t)),
        D_(t+1)(i, j) ∝ D_t(i, j)·exp(α_t·(h_t(x_j) − h_t(x_i))),

    and H = Σ_t α_t h_t is the score (Freund, Iyer, Schapire & Singer 2003, "An efficient boosting
    algorithm for combining preferences", with their third method of choosing α; a baseline in
    Stevens, Bengio & Singer 2013). Each round multiplies the loss
    Σ D_1(i, j)·exp(H(x_j) − H(x_i)) by a factor of at most √(1 − r_t²).

    Pairs are not listed. Instead, r_t = Σ_i π_i·h_t(x_i) is computed from the potentials

        π_i = v_i·Σ_(j below i) u_j − u_i·Σ_(j above i) v_j

    with v_i ∝ exp(−H(x_i)) and u_i ∝ exp(H(x_i)). Running sums over the levels of a query give
    all potentials in O(documents), for any number of levels. For two levels, this is the
    RankBoost.B of the paper. The values of X are replaced by bin numbers before the first round.
    A round then reads the bins once, and sums the potentials in each bin of each feature.

    A stump abstains from documents whose feature is missing (NaN): they get its default
    q ∈ {0, 1} in the place of [x_f > θ]. q is chosen with f and θ by the largest |r_t|, as in the
    paper (§3.2).

    Thresholds:

    - A document with x_f = θ is not above θ.
    - The thresholds of a feature are its distinct values in the documents that belong to pairs,
      without the largest one, which no document would exceed. Between two values, every θ gives
      the same ranking of the training data, and the smaller value is taken.
    - If these are more than `n_thresholds`, the thresholds are n quantiles of the values, at the
      shares 1/(n + 1), …, n/(n + 1) of the weight of the documents. Equal quantiles count once.
    - A feature with missing values has one more threshold, the smallest finite number. Its
      stump is 1 for all values, and differs from its default for missing values only.
    - A constant feature has no threshold. A `linrank.ConstantFeaturesWarning` names such features.

    Details that the paper leaves open:

    - Among equally good stumps, the one with the first feature, the largest θ and q = 0 is taken.
    - |r| is limited to 1 − 1e-10, so that a stump that orders every pair correctly gets
      α = 11.9 instead of ∞.

    Parameters
    ----------
    n_rounds : int
        Largest number of stumps. Training ends earlier if every stump has r = 0. The number can
        be chosen on validation data with `staged_predict`.
    n_thresholds : int or None
        Largest number of thresholds θ per feature, apart from that for missing values. None: no
        limit.
    n_threads : int, optional
        Number of threads for checks of X; boosting uses one thread. None: ``LINRANK_THREADS``,
        or all usable cores.
    verbose : bool
        Print a line for each round.
    missing : {None, "abstain"}
        What is done with missing values (NaN) in `fit` and `predict`. None: they are errors.
        ``"abstain"``: stumps have defaults. A stump of a feature without missing values in the
        training data has the default 0.

    Attributes
    ----------
    stumps_ : Stumps
        Arrays ``feature``, ``threshold`` and ``alpha``, one entry per round.
    model_ : StumpModel
        Model with the same stumps, which can be saved: ``ranker.model_.save("model.json")``.
        If `missing` is "abstain", its `defaults` has q of each stump.
    losses_ : float64 array of shape (n_rounds + 1,)
        Mean loss of the pairs before the first round, which is 1, and after each round.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import RankBoost
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
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
        missing: str | None = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.n_thresholds = n_thresholds
        self.n_threads = n_threads
        self.verbose = verbose
        self.missing = missing

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing is not None
        return tags

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> RankBoost:
        """Fit the stumps.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document. D_1 of a pair is proportional to the product of the weights
            of its query and its two documents. Weight 0 removes a document, and weight 2 has the
            effect of a second copy.
        query_weight : array of shape (n_docs,), optional
            Weight of the query of each document. All documents of a query have the same value.
        """
        n_rounds = whole_number("n_rounds", self.n_rounds)
        if self.n_thresholds is not None:
            whole_number("n_thresholds", self.n_thresholds)
        choice("missing", self.missing, [None, "abstain"])
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        pairs = PairWeights(data)
        bins, thresholds = number_values(data.X, pairs.rows, pairs.weight, self.n_thresholds)
        rounds, interrupted = collect_rounds(self._rounds(pairs, bins, thresholds, n_rounds))
        self._store(rounds, pairs, data)
        _warn_of_constant_features(thresholds, self.model_.names())
        if interrupted:
            raise KeyboardInterrupt(f"Interrupted; the stumps of {len(rounds)} rounds are kept.")
        return self

    def _rounds(
        self,
        pairs: PairWeights,
        bins: DenseBins | SparseBins,
        thresholds: list[Vector],
        n_rounds: int,
    ) -> Iterator[Round]:
        started = time.perf_counter()
        for t in range(1, n_rounds + 1):
            feature, k, default, r = best_stump(bins, pairs.potential)
            if feature < 0:
                return
            alpha = float(np.arctanh(np.clip(r, -LARGEST_R, LARGEST_R)))
            add_stump(bins, feature, k, default, alpha, pairs.scores)
            pairs.update()
            threshold = float(thresholds[feature][k])
            if self.verbose:
                print(
                    f"round {t:<5d} feature {feature:<6d} threshold {threshold:<12.6g} "
                    f"alpha {alpha:<12.6g} loss {pairs.losses[-1]:<12.6g} "
                    f"{time.perf_counter() - started:.2f} s"
                )
            yield Round(feature, threshold, alpha, default)

    def _store(self, rounds: list[Round], pairs: PairWeights, data: RankingData) -> None:
        self.n_iter_ = len(rounds)
        self.n_pairs_, self.n_queries_ = pairs.n_pairs, data.n_queries
        self.losses_ = np.array(pairs.losses[: len(rounds) + 1])
        columns = np.array(rounds, np.float64).reshape(-1, 4).T
        self.stumps_ = Stumps(columns[0].astype(np.int64), columns[1], columns[2])
        self.model_ = StumpModel(
            self.stumps_,
            data.n_features,
            feature_names=data.feature_names,
            settings={"method": "RankBoost", "n_rounds": self.n_rounds,
                      "n_thresholds": self.n_thresholds, "missing": self.missing},
            training={"rounds": self.n_iter_, "loss": float(self.losses_[-1]),
                      "pairs": self.n_pairs_, "queries": self.n_queries_},
            defaults=None if self.missing is None else columns[3],
        )  # fmt: skip

    def staged_predict(self, X: ArrayLike | Matrix) -> Iterator[Vector]:
        """Yield the scores after one round, two rounds, and so on.

        They serve to choose the number of rounds on validation data.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)

        Yields
        ------
        scores : float64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import make_ranking, ndcg
        >>> from linrank.baselines import RankBoost
        >>> data = make_ranking(random_state=0)
        >>> ranker = RankBoost(n_rounds=5).fit(data)
        >>> stages = ranker.staged_predict(data.X)
        >>> values = [ndcg(data.y, scores, data.qid, k=10) for scores in stages]
        >>> values[-1] > values[0]
        True
        """
        return self.model_.staged_scores(checked_rows(self, X))

    def _scores(self, X: Matrix) -> Vector:
        return self.model_.scores(X)


def _warn_of_constant_features(thresholds: list[Vector], names: list[str]) -> None:
    constant = [name for name, found in zip(names, thresholds, strict=True) if not len(found)]
    if constant:
        named = ", ".join(constant[:NAMED]) + (", …" if len(constant) > NAMED else "")
        warn(
            f"RankBoost cannot use features that are constant in the training data: {named} "
            f"({len(constant)} of {len(names)}). Remove them, or ignore ConstantFeaturesWarning.",
            ConstantFeaturesWarning,
        )


class PairWeights:
    """Weights D(i, j) ∝ weight·exp(H_j − H_i) of all pairs, as one potential per document.

    Attributes
    ----------
    rows : int64 array
        Documents that belong to at least one pair, grouped by query and sorted by increasing
        label. The following arrays are in this order.
    weight, scores : float64 arrays
        Weight and score H of each document. The caller changes the scores and calls `update`.
    potential : float64 array
        Potentials π after the last `update`, with
        Σ_i π_i·h(x_i) = Σ_(i,j) D(i, j)·(h(x_i) − h(x_j)) for every h.
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
        # Sums over pairs are divided by exp(_log_total), so that they cannot overflow. It is first
        # an upper bound on the weight of a pair, and after an update the sum over all pairs.
        self._log_total = float(2.0 * self._log_weight.max() + self._log_query.max())
        self.losses: list[float] = []
        self.update()

    def update(self) -> None:
        """Compute the potentials and the loss at the current scores."""
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
    """Return the sum over all pairs, and write the potentials, both divided by exp(log_unit).

    A running sum of exponentials is stored as sum·exp(top), so that it does not overflow.
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
    """Return total·exp(top) + exp(x) in the form (new top, new total)."""
    if x <= top:
        return top, total + np.exp(x - top)
    return x, total * np.exp(top - x) + 1.0
