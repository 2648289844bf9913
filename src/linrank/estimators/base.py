"""Base classes of all rankers: checks of the input, scores, ranks and the default metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .._rows import multiply
from .._threads import resolve_threads
from .._typing import Integers, Vector
from ..data.checks import Matrix, check_finite, check_matrix, group_by_query
from ..data.frames import choose_columns, frame_columns
from ..data.matching import check_names, check_unique
from ..data.pairs import Pairs, rows_of_pairs
from ..data.ranking import RankingData
from ..errors import DataError
from ..metrics import ndcg, preference_accuracy

DTYPES = [np.float64, np.float32]  #: precisions in which X is used without a copy


class Ranker(BaseEstimator):
    """Base class of all rankers; subclasses implement `fit` and `_scores`."""

    # With metadata routing, scikit-learn passes these arguments on without `set_fit_request`.
    __metadata_request__fit: ClassVar = {"qid": True, "sample_weight": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True, "sample_weight": True}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def predict(self, X: Matrix, qid: ArrayLike | None = None) -> Vector:
        """Score documents; a higher score is better.

        Only scores of documents of the same query can be compared.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features)
            If the ranker was fitted on a frame, the columns of a frame are matched by name.
        qid : array of shape (n_docs,), optional
            The query of each document. Only rankers that scale features within queries need it.

        Returns
        -------
        scores : float64 array of shape (n_docs,)
        """
        check_is_fitted(self)
        X = validate_data(
            self, aligned(X, self), reset=False, dtype=DTYPES, accept_sparse="csr",
            ensure_all_finite=False,
        )  # fmt: skip
        return self._scores_of(check_matrix(X), qid)

    def rank(self, X: Matrix, qid: ArrayLike | None = None) -> Integers:
        """Return the rank of each document in its query; rank 1 is the best.

        Documents with equal scores keep the order in which they are given.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        qid : array of shape (n_docs,), optional
            The query of each document. None: all documents belong to one query.

        Returns
        -------
        ranks : int64 array of shape (n_docs,)
        """
        scores = self.predict(X, qid)
        query_ptr, _, order = group_by_query(qid, len(scores))
        rows = np.arange(len(scores)) if order is None else order
        query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
        best_first = np.lexsort((-scores[rows], query))
        ranks = np.empty(len(scores), np.int64)
        ranks[rows[best_first]] = np.arange(len(scores)) - query_ptr[query] + 1
        return ranks

    def score(
        self,
        X: Matrix,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the mean NDCG@10 over the queries; see `linrank.ndcg` for its conventions.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            The label of each document.
        qid : array of shape (n_docs,), optional
            The query of each document. It is required if the ranker was fitted with `qid`.
        sample_weight : ignored
            Accepted because scikit-learn's pipelines pass it.
        """
        check_is_fitted(self)
        if qid is None and self.fitted_with_qid_:
            raise DataError(
                "this ranker was fitted with qid, so score needs qid too. If all rows belong to "
                "one query, pass qid=np.zeros(len(y))."
            )
        return ndcg(y, self.predict(X, qid), qid, k=10)

    def _scores_of(self, X: Matrix, qid: ArrayLike | None) -> Vector:
        """Return the scores of a checked matrix, which may depend on the queries of its rows."""
        return self._scores(X)

    def score_pairs(
        self,
        X: Matrix,
        pairs: ArrayLike | Pairs,
        pair_weight: ArrayLike | None = None,
        *,
        items: Sequence[Any] | None = None,
    ) -> float:
        """Return the share of pairs whose preferred document has the higher score.

        A pair of equal scores counts one half; see `linrank.preference_accuracy`.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        pairs : integer array of shape (n_pairs, 2), array of names or Pairs
            Row numbers of X, or names of rows if `items` is given: the first document is preferred
            to the second.
        pair_weight : array of shape (n_pairs,), optional
            The default is the weight of a `Pairs`, or 1.
        items : sequence of shape (n_docs,), optional
            The name of each row of X.
        """
        scores = self.predict(X)
        if isinstance(pairs, Pairs) and pair_weight is None:
            pair_weight = pairs.weight
        rows = rows_of_pairs(pairs, items, len(scores))
        return preference_accuracy(scores, rows, pair_weight)

    def _scores(self, X: Matrix) -> Vector:
        """Return the scores of a checked matrix, which may still hold NaN or infinity."""
        raise NotImplementedError

    def _ranking_data(
        self, X: Matrix, y: ArrayLike, qid: ArrayLike | None, sample_weight: ArrayLike | None,
        query_weight: ArrayLike | None, reset: bool = True, **more: Any,
    ) -> RankingData:  # fmt: skip
        """Check the arguments of `fit`; `more` are other arguments of `RankingData`."""
        check_unique(frame_columns(X) or ())
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
            allow_missing=getattr(self, "missing", None) is not None,
            **more,
        )


def aligned(X: Any, ranker: Ranker) -> Any:
    """Return a frame with the columns that a ranker was fitted on, in their order.

    Anything else than a frame, and frames with just these columns, are returned as they are.
    """
    expected = getattr(ranker, "feature_names_in_", None)
    names = frame_columns(X)
    if expected is None or names is None or names == list(expected):
        return X
    check_names(names, list(expected))
    return choose_columns(X, list(expected))


class LinearRanker(Ranker):
    """Base class of the rankers whose scores are ``X @ coef_``."""

    __metadata_request__fit: ClassVar = {"query_weight": True}

    coef_: Vector

    def _scores(self, X: Matrix) -> Vector:
        scores = multiply(X, self.coef_, getattr(self, "n_threads", None))
        if not np.isfinite(scores).all():
            check_finite(X, None)
        return scores


def library_matrix(X: Matrix) -> Matrix:
    """Return X for other libraries: a sparse X has the index types that scipy chooses."""
    if not sparse.issparse(X):
        return X
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
