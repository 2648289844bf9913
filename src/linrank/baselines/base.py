"""What the baselines share: checked rows, and models of other libraries."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from .._threads import resolve_threads
from ..data.checks import Matrix, check_finite, check_matrix, group_by_query
from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.base import DTYPES, Ranker, Vector, library_matrix

SAME = 1e-12  #: weak rankers whose worths differ by less are equal but for rounding
LARGEST_R = 1.0 - 1e-10  #: one that puts everything right would get an infinite weight


def pointwise_data(ranker: Ranker, X: Any, y: Any, qid: Any, sample_weight: Any) -> RankingData:
    """Check the arguments of a `fit` that does not look at the queries.

    Rows stay in the caller's order, so that nothing depends on `qid`.
    """
    data = ranker._ranking_data(X, y, None, sample_weight, None)
    query_ptr, _, _ = group_by_query(qid, data.n_docs)
    ranker.fitted_with_qid_ = qid is not None
    ranker.n_queries_ = len(query_ptr) - 1
    return without_zero_weights(data)


def without_zero_weights(data: RankingData) -> RankingData:
    """The rows that count: to many a library, weight 0 is not quite removal."""
    if data.weight is None or data.weight.all():
        return data
    return data.take(np.flatnonzero(data.weight))


class TreeRanker(Ranker):
    """Base of the rankers whose scores are the predictions of another library's trees.

    Subclasses implement `_model`, or `_checked` and `_learn` where they look at the queries.
    """

    estimator_: Any
    n_queries_: int

    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Self:
        """Learn the trees.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document; 0 is removal.
        """
        data = self._checked(X, y, qid, sample_weight)
        n_threads = resolve_threads(self.n_threads)
        with _openmp_threads(n_threads):
            self.estimator_ = self._learn(data, n_threads)
        return self

    def _checked(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> RankingData:
        return pointwise_data(self, X, y, qid, sample_weight)

    def _learn(self, data: RankingData, n_threads: int) -> Any:
        model = self._model(n_threads)
        return model.fit(self._matrix(data.X), data.y, sample_weight=data.weight)

    def _model(self, n_threads: int) -> Any:
        raise NotImplementedError

    def _matrix(self, X: Matrix) -> Any:
        """X in a form that the library takes."""
        return library_matrix(X)

    def _scores(self, X: Matrix) -> Vector:
        check_finite(X, None)
        with _openmp_threads(resolve_threads(self.n_threads)):
            return np.asarray(self.estimator_.predict(self._matrix(X)), dtype=np.float64)


def _openmp_threads(n_threads: int) -> Any:
    """Hold OpenMP, whose threads have no argument of their own, to that many."""
    return ThreadpoolController().limit(limits=n_threads, user_api="openmp")


def check_count(name: str, value: Any) -> int:
    """Refuse what is not a whole number of at least 1."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise DataError(f"{name} is {value!r}; expected a whole number of at least 1")
    return int(value)


def checked_rows(ranker: Ranker, X: Any) -> Matrix:
    """What a fitted ranker is to score, checked."""
    check_is_fitted(ranker)
    X = validate_data(
        ranker, X, reset=False, dtype=DTYPES, accept_sparse="csr", ensure_all_finite=False
    )
    X = check_matrix(X)
    check_finite(X, None)
    return X
