"""`AdaRank`: boosting of single features to optimise a metric."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNUSED

from .._util.checks import choice, whole_number
from .._util.parallel import resolve_threads
from .._util.types import Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..errors import DataError
from ..estimators.ranker import Ranker
from ..matrix.rows import choose_columns, copy_columns, kernel_matrix, multiply
from ..metrics import Metric, evaluate, parse_metric
from ..model import LinearModel
from .baseline import LARGEST_R, TIE_TOLERANCE, checked_rows, collect_rounds

BLOCK = 64  #: features that are copied and evaluated at a time; more need more memory


class AdaRankRound(NamedTuple):
    """One round of boosting."""

    feature: int  #: k_t
    alpha: float  #: α_t
    mean: float  #: mean of E_q(f_t) over the queries
    n_kept: int  #: rounds that are kept if training ends here: up to the best mean


@dataclass(kw_only=True, eq=False, repr=False)
class AdaRank(Ranker):
    """AdaRank with single features as weak rankers.

    E_q(f) is the metric of query q, between 0 and 1, if its documents are ranked by f. The
    weights P_1(q) of the queries are equal. Round t picks the feature with the best weighted
    metric,

        k_t = argmax_k Σ_q P_t(q)·E_q(x_k),
        α_t = ½·ln(Σ_q P_t(q)·(1 + E_q(x_k)) / Σ_q P_t(q)·(1 − E_q(x_k)))    with k = k_t,
        f_t = f_(t−1) + α_t·x_k

    (Xu & Li 2007, "AdaRank: a boosting algorithm for information retrieval"; a baseline in
    Stevens, Bengio & Singer 2013). The weight of a feature is the sum of the α of the rounds that
    picked it. The weights of the queries follow one of two rules:

        P_(t+1)(q) ∝ exp(−E_q(f_t))                 update="literal", as in the paper,
        P_(t+1)(q) ∝ P_t(q)·exp(−α_t·E_q(x_k))      update="cumulative", as in AdaBoost.

    E_q(x_k) is computed once for all features, so a round evaluates the metric of all queries
    once.

    Details of this implementation:

    - As in the paper, a feature ranks by decreasing value only, so no weight is negative. If
      small values of a feature are better, add −x as another feature.
    - A feature is picked in at most `max_consecutive` rounds in a row. With the literal rule and
      no limit, the first feature would be picked in all rounds: the ranking, and with it P, would
      not change.
    - Training ends after `patience` rounds without a mean metric that exceeds the best one by
      more than `tol`. The rounds after the best one are dropped.
    - Queries for which the metric is undefined, such as those without relevant documents, are
      left out. Documents of equal score are handled as in `linrank.evaluate`. Among equally good
      features, the first is picked.
    - The mean of E_q is limited to 1 − 1e-10, so that α is finite.

    Features are not scaled. Scale them to a common range before `fit`.

    Parameters
    ----------
    metric : str
        Metric E: ``"map"``, ``"ndcg@10"``, or another that `linrank.evaluate` accepts. For
        errors, E is 1 − the error.
    n_rounds : int
        Largest number of rounds.
    tol : float or None
        Smallest improvement of the mean metric that counts. None: all rounds are run and kept,
        so that their number can be chosen on validation data with `staged_predict`.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores.
    verbose : bool
        Print a line for each round.
    update : {"cumulative", "literal"}
        Rule for the weights of the queries. docs/guide/domination.md compares the rules and the
        next two parameters on validation data, which decided their defaults.
    patience : int
        Number of rounds without an improvement after which training ends.
    max_consecutive : int or None
        Largest number of rounds in a row that pick the same feature. None: no limit.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    features_, alphas_ : arrays of shape (n_rounds,)
        Picked features k_t and their weights α_t.
    performances_ : float64 array of shape (n_rounds,)
        Mean of E_q(f_t), weighted by the weights of the queries.
    model_ : LinearModel
        Model with the same weights, which can be saved: ``ranker.model_.save("model.json")``.
    n_iter_ : int
        Number of rounds that were kept.
    n_queries_ : int
        Number of queries that were used.
    n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import AdaRank
    >>> data = make_ranking(random_state=0)
    >>> ranker = AdaRank("ndcg@10").fit(data.X, data.y, qid=data.qid)
    >>> ranker.n_iter_ > 1
    True
    >>> bool(ranker.performances_[-1] > ranker.performances_[0])
    True
    """

    __metadata_request__fit: ClassVar = {"query_weight": True, "sample_weight": UNUSED}
    has_weights: ClassVar[bool] = True

    metric: str = field(default="map", kw_only=False)
    n_rounds: int = 100
    tol: float | None = 0.0
    n_threads: int | None = None
    verbose: bool = False
    update: str = "cumulative"
    patience: int = 10
    max_consecutive: int | None = 1

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        *,
        query_weight: ArrayLike | None = None,
    ) -> AdaRank:
        """Pick features and fit their weights.

        There is no `sample_weight`, because metrics have no weights of documents.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric accepts; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        query_weight : array of shape (n_docs,), optional
            Weight of the query of each document. All documents of a query have the same value.
            P is multiplied by it, so that a query of weight 0 is removed.
        """
        metric, n_rounds = parse_metric(self.metric), whole_number("n_rounds", self.n_rounds)
        self._check_rules()
        data = self._ranking_data(X, y, qid, None, query_weight)
        queries = Performance(data, metric, resolve_threads(self.n_threads))
        rounds, interrupted = collect_rounds(self._rounds(queries, n_rounds))
        rounds = rounds[: rounds[-1].n_kept]
        self._store(rounds, queries, data, metric)
        if interrupted:
            raise KeyboardInterrupt(f"Interrupted; the weights of {len(rounds)} rounds are kept.")
        return self

    def _check_rules(self) -> None:
        choice("update", self.update, ["cumulative", "literal"])
        whole_number("patience", self.patience)
        if self.max_consecutive is not None:
            whole_number("max_consecutive", self.max_consecutive)
        if self.tol is not None and not (
            isinstance(self.tol, float | int | np.number) and 0 <= self.tol < 1
        ):
            raise DataError(f"tol is {self.tol!r}; expected a number from 0 to below 1, or None")

    def _rounds(self, queries: Performance, n_rounds: int) -> Iterator[AdaRankRound]:
        started, best, n_kept = time.perf_counter(), -np.inf, 0
        P, scores, picked = queries.weight, np.zeros(queries.data.n_docs), list[int]()
        for t in range(1, n_rounds + 1):
            k, mean_of_k = self._pick(queries.of_features @ P, picked)
            picked.append(k)
            alpha = float(np.arctanh(min(mean_of_k, LARGEST_R)))
            scores += alpha * queries.columns(k, k + 1)[0]
            of_scores = queries.measure(scores)
            mean = float(queries.weight @ of_scores)
            if self.tol is None or mean > best + self.tol + TIE_TOLERANCE:
                best, n_kept = mean, t
            if self.update == "literal":
                P = queries.weight * np.exp(-of_scores)
            else:
                P = P * np.exp(-alpha * queries.of_features[k])
            P /= P.sum()
            if self.verbose:
                print(
                    f"round {t:<5d} feature {k:<6d} alpha {alpha:<12.6g} "
                    f"{queries.metric.name} {mean:<10.6f} {time.perf_counter() - started:.2f} s"
                )
            yield AdaRankRound(k, alpha, mean, n_kept)
            if t - n_kept >= self.patience:
                return

    def _pick(self, means: Vector, picked: list[int]) -> tuple[int, float]:
        """Return the best feature that may follow the picked ones, and its weighted metric."""
        if self.max_consecutive is not None and picked and len(means) > 1:
            n = int(self.max_consecutive)
            if picked[-n:] == picked[-1:] * n:
                means[picked[-1]] = -np.inf
        k = int(np.argmax(means >= means.max() - TIE_TOLERANCE))
        return k, float(means[k])

    def _store(
        self,
        rounds: list[AdaRankRound],
        queries: Performance,
        data: RankingData,
        metric: Metric,
    ) -> None:
        self.n_iter_, self.n_queries_ = len(rounds), len(queries.used)
        features, alphas, means, _ = zip(*rounds, strict=True)
        self.features_, self.alphas_ = np.array(features), np.array(alphas)
        self.performances_ = np.array(means)
        self.coef_ = self._weights(self.n_iter_)
        self.model_ = LinearModel(
            self.coef_,
            feature_names=data.feature_names,
            settings={"method": "AdaRank", "metric": metric.name, "n_rounds": self.n_rounds,
                      "tol": self.tol, "update": self.update, "patience": self.patience,
                      "max_consecutive": self.max_consecutive},
            training={"rounds": self.n_iter_, metric.name: means[-1],
                      "queries": self.n_queries_},
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
        >>> from linrank.baselines import AdaRank
        >>> data = make_ranking(random_state=0)
        >>> ranker = AdaRank(n_rounds=5).fit(data)
        >>> stages = ranker.staged_predict(data.X)
        >>> values = [ndcg(data.y, scores, data.qid, k=10) for scores in stages]
        >>> values[-1] > values[0]
        True
        """
        X = checked_rows(self, X)
        for t in range(1, self.n_iter_ + 1):
            yield multiply(X, self._weights(t), self.n_threads)

    def _weights(self, n_rounds: int) -> Vector:
        """Return the weights after this number of rounds."""
        coef = np.zeros(self.n_features_in_)
        np.add.at(coef, self.features_[:n_rounds], self.alphas_[:n_rounds])
        return coef


class Performance:
    """E_q of single features and of given scores, for the queries that are used.

    Attributes
    ----------
    data : RankingData
    metric : Metric
    used : int64 array
        Queries with a positive weight for which the metric is defined.
    weight : float64 array
        Weights of the used queries, which sum to 1.
    of_features : float64 array of shape (n_features, n_used)
        E_q of every feature.
    """

    def __init__(self, data: RankingData, metric: Metric, n_threads: int) -> None:
        self.data, self.metric, self._n_threads = data, metric, n_threads
        weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        self.used = np.arange(data.n_queries)
        defined = ~np.isnan(self.measure(np.zeros(data.n_docs)))
        self.used = np.flatnonzero(defined & (weight > 0))
        if not len(self.used):
            raise DataError(
                f"metric is {metric.name!r}, which is undefined for all of the queries "
                f"({data.n_queries}); check their labels, or choose another metric"
            )
        self.weight = weight[self.used] / weight[self.used].sum()
        self.of_features = np.empty((data.n_features, len(self.used)))
        for first in range(0, data.n_features, BLOCK):
            last = min(first + BLOCK, data.n_features)
            for f, values in enumerate(self.columns(first, last), first):
                self.of_features[f] = self.measure(values)

    def measure(self, scores: Vector) -> Vector:
        """Return E_q of the used queries."""
        found = evaluate(
            self.data.y, scores, None, self.metric,
            query_ptr=self.data.query_ptr, n_threads=self._n_threads,
        ).per_query[self.metric.name][self.used]  # fmt: skip
        return found if self.metric.greater_is_better else 1.0 - found

    def columns(self, first: int, last: int) -> Vector:
        """Return the features first, …, last − 1 of all documents, one row per feature."""
        data = self.data
        values = np.zeros((last - first, data.n_docs))
        chosen = choose_columns(np.arange(first, last), data.n_features)
        copy_columns(kernel_matrix(data.X), 0, data.n_docs, chosen, values)
        return values
