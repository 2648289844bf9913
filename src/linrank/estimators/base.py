"""What all rankers share: checking input, scores, ranks, and the default metric."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from .._rows import multiply
from .._threads import resolve_threads
from .._typing import Vector
from ..data.checks import Matrix, check_finite, check_matrix, group_by_query
from ..data.ranking import RankingData
from ..errors import DataError
from ..metrics import ndcg

DTYPES = [np.float64, np.float32]


class Ranker(BaseEstimator):
    """Base of all rankers; subclasses implement `fit` and `_scores`."""

    # Queries travel with the rows: with metadata routing on, no `set_fit_request` is needed.
    __metadata_request__fit: ClassVar = {"qid": True, "sample_weight": True}
    __metadata_request__score: ClassVar = {"qid": True, "sample_weight": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def predict(self, X: Any) -> Vector:
        """Score documents; higher is better.

        Only scores of documents of the same query can be compared.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)

        Returns
        -------
        scores : float64 array of shape (n_docs,)
        """
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, dtype=DTYPES, accept_sparse="csr", ensure_all_finite=False
        )
        return self._scores(check_matrix(X))

    def rank(self, X: Any, qid: Any = None) -> NDArray[np.int64]:
        """The place of each document in its query: 1 is the best.

        Documents with equal scores keep the order in which they are given.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        qid : array of shape (n_docs,), optional
            None: all documents belong to one query.

        Returns
        -------
        ranks : int64 array of shape (n_docs,)
        """
        scores = self.predict(X)
        query_ptr, _, order = group_by_query(qid, len(scores))
        rows = np.arange(len(scores)) if order is None else order
        query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
        best_first = np.lexsort((-scores[rows], query))
        ranks = np.empty(len(scores), np.int64)
        ranks[rows[best_first]] = np.arange(len(scores)) - query_ptr[query] + 1
        return ranks

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> float:
        """The mean NDCG@10 over the queries (see `linrank.ndcg` for its conventions).

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
        qid : array of shape (n_docs,), optional
            Required when the ranker was fitted with `qid`.
        sample_weight : ignored
            Accepted because scikit-learn's pipelines pass it.
        """
        check_is_fitted(self)
        if qid is None and self.fitted_with_qid_:
            raise DataError(
                "this ranker was fitted with qid, so score needs qid too; if all rows belong to "
                "one query, pass qid=np.zeros(len(y))"
            )
        return ndcg(y, self.predict(X), qid, k=10)

    def _scores(self, X: Matrix) -> Vector:
        """The scores of a checked matrix, which may still hold NaN or infinity."""
        raise NotImplementedError

    def _ranking_data(
        self, X: Any, y: Any, qid: Any, sample_weight: Any, query_weight: Any,
        reset: bool = True, **more: Any,
    ) -> RankingData:  # fmt: skip
        """Check the arguments of `fit`; `more` are others of `RankingData`."""
        X, y = validate_data(
            self, X, y, reset=reset, dtype=DTYPES, order="C", accept_sparse="csr",
            ensure_all_finite=False, ensure_min_samples=2, y_numeric=True,
        )  # fmt: skip
        self.fitted_with_qid_ = qid is not None
        return RankingData(
            X,
            y,
            qid,
            feature_names=getattr(self, "feature_names_in_", None),
            sample_weight=sample_weight,
            query_weight=query_weight,
            n_threads=resolve_threads(self.n_threads),
            **more,
        )


class LinearRanker(Ranker):
    """Base of the rankers that score by ``X @ coef_``."""

    __metadata_request__fit: ClassVar = {"query_weight": True}

    coef_: Vector

    def _scores(self, X: Matrix) -> Vector:
        scores = multiply(X, self.coef_, getattr(self, "n_threads", None))
        if not np.isfinite(scores).all():
            check_finite(X, None)
        return scores


def library_matrix(X: Matrix) -> Any:
    """X as other libraries take it: sparse with the narrow indices that scipy would choose."""
    if not sparse.issparse(X):
        return X
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
