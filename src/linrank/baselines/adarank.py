"""`AdaRank`: features combined by boosting on queries, for a metric."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metadata_routing import UNUSED

from .._rows import choose_columns, copy_columns, kernel_matrix, multiply
from .._threads import resolve_threads
from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.base import LinearRanker, Vector
from ..metrics import Metric, evaluate, parse_metric
from ..model import LinearModel
from .base import LARGEST_R, SAME, check_count, checked_rows

BLOCK = 64  #: features that are measured at a time


class AdaRank(LinearRanker):
    """AdaRank with single features as weak rankers.

    With E_q(f), from 0 to 1, the metric of query q when its documents are ranked by f, and weights
    P_1(q) that are all equal, round t picks the feature of the best weighted metric,

        k_t = argmax_k Σ_q P_t(q)·E_q(x_k),
        α_t = ½·ln(Σ_q P_t(q)·(1 + E_q(x_k)) / Σ_q P_t(q)·(1 − E_q(x_k)))    with k = k_t,
        f_t = f_(t−1) + α_t·x_k,    P_(t+1)(q) ∝ exp(−E_q(f_t))

    (Xu & Li 2007, "AdaRank: a boosting algorithm for information retrieval"; compared with in
    Stevens, Bengio & Singer 2013). The weight of a feature is the sum of the α of the rounds that
    picked it. E_q(x_k) is computed once for all features, so a round costs one metric of all
    queries.

    What is decided here:

    - As in the paper, a feature ranks by decreasing value only. So no weight is below 0; for a
      feature of which small values are the better ones, give −x too.
    - A feature is not picked twice in a row. By the rule above alone, the first one, if it is
      picked again, is picked for ever: the ranking stays as it was, and with it P and the pick.
    - Training ends when a round does not raise the mean metric by more than `tol`, and that round
      is dropped.
    - Queries for which the metric is undefined, without relevant documents, are left out;
      documents of equal score count as in `linrank.evaluate`. Of equally good features, the first
      is picked. The mean of E_q is taken as at most 1 − 1e-10, so that α is finite.

    Features are added up as they are: bring them to one scale first.

    Parameters
    ----------
    metric : str
        E: ``"map"``, ``"ndcg@10"``, or another that `linrank.evaluate` knows; 1 − the value of
        those of which small values are the better ones.
    n_rounds : int
        The largest number of rounds.
    tol : float or None
        See above. None: all rounds are run and kept, to choose their number on validation data
        with `staged_predict`.
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores.
    verbose : bool
        Print a line for each round.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    features_, alphas_ : arrays of shape (n_rounds,)
        k_t and α_t.
    performances_ : float64 array of shape (n_rounds,)
        The mean of E_q(f_t) over the queries, by their weights.
    model_ : LinearModel
        The same weights in the form that is saved: ``ranker.model_.save("model.json")``.
    n_iter_ : int
        The number of rounds.
    n_queries_ : int
        The queries that were learnt from.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

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

    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

    model_: LinearModel

    def __init__(
        self,
        metric: str = "map",
        *,
        n_rounds: int = 100,
        tol: float | None = 0.0,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.metric = metric
        self.n_rounds = n_rounds
        self.tol = tol
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(self, X: Any, y: Any, qid: Any = None, *, query_weight: Any = None) -> AdaRank:
        """Pick the features and learn their weights.

        Documents have no weights, since the metrics know none.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric takes; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        query_weight : array of shape (n_docs,), optional
            Weight of each document's query, one value within a query: P is multiplied by it, so
            weight 0 is removal.
        """
        metric, n_rounds = parse_metric(self.metric), check_count("n_rounds", self.n_rounds)
        if self.tol is not None and not (
            isinstance(self.tol, float | int | np.number) and 0 <= self.tol < 1
        ):
            raise DataError(f"tol is {self.tol!r}; expected a number from 0 to 1, or None")
        data = self._ranking_data(X, y, qid, None, query_weight)
        queries = Performance(data, metric, resolve_threads(self.n_threads))
        found: list[tuple[int, float, float]] = []
        interrupted = None
        try:
            for one in self._rounds(queries, n_rounds):
                found.append(one)
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = KeyboardInterrupt(
                f"Interrupted; these are the weights of {len(found)} rounds."
            )
        self._store(found, queries, data, metric)
        if interrupted is not None:
            raise interrupted
        return self

    def _rounds(self, queries: Performance, n_rounds: int) -> Iterator[tuple[int, float, float]]:
        """The feature, its α and the mean metric after it, round by round."""
        started, last, best = time.perf_counter(), -1, -np.inf
        P, scores = queries.weight, np.zeros(queries.data.n_docs)
        for t in range(1, n_rounds + 1):
            means = queries.of_features @ P
            if len(means) > 1 and last >= 0:
                means[last] = -np.inf
            last = int(np.argmax(means >= means.max() - SAME))
            alpha = float(np.arctanh(min(means[last], LARGEST_R)))
            scores += alpha * queries.columns(last, last + 1)[0]
            of_scores = queries.measure(scores)
            mean = float(queries.weight @ of_scores)
            if self.tol is not None and mean <= best + self.tol:
                return
            best = mean
            P = queries.weight * np.exp(-of_scores)
            P /= P.sum()
            if self.verbose:
                print(
                    f"round {t:<5d} feature {last:<6d} alpha {alpha:<12.6g} "
                    f"{queries.metric.name} {mean:<10.6f} {time.perf_counter() - started:.2f} s"
                )
            yield last, alpha, mean

    def _store(
        self,
        found: list[tuple[int, float, float]],
        queries: Performance,
        data: RankingData,
        metric: Metric,
    ) -> None:
        self.n_iter_, self.n_queries_ = len(found), len(queries.used)
        features, alphas, means = zip(*found, strict=True)
        self.features_, self.alphas_ = np.array(features), np.array(alphas)
        self.performances_ = np.array(means)
        self.coef_ = self._weights(self.n_iter_)
        self.model_ = LinearModel(
            self.coef_,
            feature_names=data.feature_names,
            settings={"method": "AdaRank", "metric": metric.name, "n_rounds": self.n_rounds,
                      "tol": self.tol},
            training={"rounds": self.n_iter_, metric.name: means[-1],
                      "queries": self.n_queries_},
        )  # fmt: skip

    def staged_predict(self, X: Any) -> Iterator[Vector]:
        """The scores after one round, two rounds, and so on, to choose the number of rounds.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        """
        X = checked_rows(self, X)
        for t in range(1, self.n_iter_ + 1):
            yield multiply(X, self._weights(t), self.n_threads)

    def _weights(self, n_rounds: int) -> Vector:
        """Those after the first rounds."""
        coef = np.zeros(self.n_features_in_)
        np.add.at(coef, self.features_[:n_rounds], self.alphas_[:n_rounds])
        return coef


class Performance:
    """E_q of the features, and of any scores, for the queries that count.

    Attributes
    ----------
    data : RankingData
    metric : Metric
    used : int64 array
        The queries with a weight for which the metric is defined.
    weight : float64 array
        Their weights, which sum to 1.
    of_features : float64 array of shape (n_features, n_used)
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
                f"({data.n_queries}): their labels tell nothing about the features"
            )
        self.weight = weight[self.used] / weight[self.used].sum()
        self.of_features = np.empty((data.n_features, len(self.used)))
        for first in range(0, data.n_features, BLOCK):
            last = min(first + BLOCK, data.n_features)
            for f, values in enumerate(self.columns(first, last), first):
                self.of_features[f] = self.measure(values)

    def measure(self, scores: Vector) -> Vector:
        """E_q of the queries that count."""
        found = evaluate(
            self.data.y, scores, None, self.metric,
            query_ptr=self.data.query_ptr, n_threads=self._n_threads,
        ).per_query[self.metric.name][self.used]  # fmt: skip
        return found if self.metric.greater_is_better else 1.0 - found

    def columns(self, first: int, last: int) -> Vector:
        """The features first, …, last − 1 of all documents."""
        data = self.data
        values = np.zeros((last - first, data.n_docs))
        chosen = choose_columns(np.arange(first, last), data.n_features)
        copy_columns(kernel_matrix(data.X), 0, data.n_docs, chosen, values)
        return values
