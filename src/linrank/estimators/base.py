"""Base classes of all rankers: checks of the input, scores, ranks and the default metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._threads import resolve_threads
from .._typing import Integers, Vector
from ..data.checks import Matrix, check_finite, check_matrix, group_by_query
from ..data.pairs import Pairs, listed_pairs
from ..data.ranking import RankingData
from ..errors import DataError
from ..metrics import parse_metric, preference_accuracy
from .features import checked_features, matched_features, store_names
from .habits import HeldOut, queries
from .mistakes import check_arguments, warn_of_mistakes, warn_of_swap


class Ranker(BaseEstimator):
    """Base class of all rankers; subclasses implement `fit` and `_scores`."""

    uses_queries: ClassVar[bool] = True  #: whether queries matter in training
    chooses: ClassVar[bool] = False  #: whether `fit` chooses parameters, on `valid` if it is given

    # With metadata routing, scikit-learn passes these arguments on without `set_fit_request`.
    __metadata_request__fit: ClassVar = {"qid": True, "sample_weight": True}
    __metadata_request__predict: ClassVar = {"qid": True}
    __metadata_request__score: ClassVar = {"qid": True, "sample_weight": True}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "ranker"
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.takes_missing
        return tags

    @property
    def takes_missing(self) -> bool:
        """Whether features may be NaN, which stands for a missing value."""
        return getattr(self, "missing", None) is not None

    def predict(
        self, X: Matrix | RankingData, qid: ArrayLike | None = None, *,
        group: ArrayLike | None = None,
    ) -> Vector:  # fmt: skip
        """Score documents; a higher score is better.

        Only scores of documents of the same query can be compared.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
            If the ranker was fitted on a frame, the columns of a frame are matched by name. Scores
            of a `RankingData` are in the order of its rows, which are grouped by query.
        qid : array of shape (n_docs,), optional
            The query of each document. Only rankers that scale features within queries need it.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.

        Returns
        -------
        scores : float64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
        >>> scores = ranker.predict([[5.0], [4.0]])
        >>> bool(scores[0] > scores[1])
        True
        """
        check_is_fitted(self)
        if isinstance(X, RankingData):
            refuse_arguments(qid=qid, group=group)
            self._check_features(X)
            return self._scores_of(X.X, X.qid)
        X = check_matrix(checked_features(self, X, reset=False))
        return self._scores_of(X, queries(qid, group, range(X.shape[0])))

    def decision_function(self, X: Matrix | RankingData, qid: ArrayLike | None = None) -> Vector:
        """Return the scores of `predict`, for functions of scikit-learn that expect this name.

        Parameters
        ----------
        X, qid
            See `predict`.

        Returns
        -------
        scores : float64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import RankSVM
        >>> from sklearn.metrics import roc_auc_score
        >>> X, y = [[1.0], [3.0], [2.0], [4.0]], [0, 1, 0, 1]
        >>> float(roc_auc_score(y, RankSVM().fit(X, y).decision_function(X)))
        1.0
        """
        return self.predict(X, qid)

    def rank(
        self, X: Matrix | RankingData, qid: ArrayLike | None = None, *,
        group: ArrayLike | None = None,
    ) -> Integers:  # fmt: skip
        """Return the rank of each document in its query; rank 1 is the best.

        Documents with equal scores keep the order in which they are given.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
        qid : array of shape (n_docs,), optional
            The query of each document. It is required if the ranker was fitted with `qid`.
            Otherwise, None puts all documents into one query.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.

        Returns
        -------
        ranks : int64 array of shape (n_docs,)

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
        >>> ranker.rank([[1.0], [2.0], [3.0], [2.5]], qid=["a", "a", "b", "b"]).tolist()
        [2, 1, 1, 2]
        """
        scores = self.predict(X, qid, group=group)
        qid = X.qid if isinstance(X, RankingData) else queries(qid, group, scores)
        check_qid(self, qid, "rank")
        query_ptr, _, order = group_by_query(qid, len(scores))
        rows = np.arange(len(scores)) if order is None else order
        query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
        best_first = np.lexsort((-scores[rows], query))
        ranks = np.empty(len(scores), np.int64)
        ranks[rows[best_first]] = np.arange(len(scores)) - query_ptr[query] + 1
        return ranks

    def score(
        self,
        X: Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        metric: str = "ndcg@10",
        group: ArrayLike | None = None,
    ) -> float:
        """Return the mean of a metric over the queries, by default NDCG@10.

        See `linrank.ndcg` and the other metrics for their conventions.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
            A `RankingData` has labels and queries, so `y` and `qid` are not given.
        y : array of shape (n_docs,)
            The label of each document.
        qid : array of shape (n_docs,), optional
            The query of each document. It is required if the ranker was fitted with `qid`.
        sample_weight : ignored
            Accepted because scikit-learn's pipelines pass it.
        metric : str
            ``"ndcg@10"``, ``"map"``, ``"pairwise-accuracy"``, …; see `linrank.parse_metric`.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.

        Returns
        -------
        float

        Examples
        --------
        >>> from linrank import RankSVM
        >>> X, y, qid = [[1.0], [3.0], [2.0], [5.0]], [0, 1, 0, 2], ["a", "a", "b", "b"]
        >>> ranker = RankSVM().fit(X, y, qid)
        >>> ranker.score(X, y, qid), ranker.score(X, y, qid, metric="pairwise-accuracy")
        (1.0, 1.0)
        """
        check_is_fitted(self)
        measure = parse_metric(metric)
        if isinstance(X, RankingData):
            refuse_arguments(y=y, qid=qid, group=group)
            return float(measure(X.y, self.predict(X), X.qid))
        if y is None:
            raise DataError("score needs the labels of the documents. Pass y.")
        qid = queries(qid, group, y)
        check_qid(self, qid, "score")
        return float(measure(y, self.predict(X, qid), qid))

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
        pairs : integer array of shape (n_pairs, 2), array of names, Pairs or frame
            See `fit_pairs`.
        pair_weight : array of shape (n_pairs,), optional
            The default is the weight of a `Pairs`, or 1.
        items : sequence of shape (n_docs,), optional
            The name of each row of X.

        Returns
        -------
        float

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit([[1.0], [3.0], [2.0]], [0, 2, 1])
        >>> X, names = [[1.0], [2.0], [3.0]], ["A", "B", "C"]
        >>> ranker.score_pairs(X, [("B", "A"), ("A", "C")], items=names)
        0.5
        """
        scores = self.predict(X)
        listed = listed_pairs(pairs, items, len(scores), pair_weight)
        return preference_accuracy(scores, listed.rows, listed.weight)

    def _scores(self, X: Matrix) -> Vector:
        """Return the scores of a checked matrix, which may still hold NaN or infinity."""
        raise NotImplementedError

    def _ranking_data(
        self, X: Matrix | RankingData, y: ArrayLike | None, qid: ArrayLike | None,
        sample_weight: ArrayLike | None, query_weight: ArrayLike | None, reset: bool = True,
        **more: Any,
    ) -> RankingData:  # fmt: skip
        """Check the arguments of `fit`; `more` are other arguments of `RankingData`."""
        if isinstance(X, RankingData):
            refuse_arguments(
                y=y, qid=qid, sample_weight=sample_weight, query_weight=query_weight, **more
            )
            return self._own_data(X, reset)
        check_arguments(X, y, qid)
        X = checked_features(self, X, reset=reset, order="C", ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        if self.uses_queries:
            warn_of_mistakes(np.asarray(y), qid)
        self.fitted_with_qid_ = qid is not None
        return RankingData(
            X,
            y,
            qid,
            feature_names=getattr(self, "feature_names_in_", None),
            sample_weight=sample_weight,
            query_weight=query_weight,
            n_threads=resolve_threads(self.n_threads),
            allow_missing=self.takes_missing,
            **more,
        )

    def _held_out(self, valid: HeldOut) -> RankingData:
        """Check held-out data; `fit` has stored the features that they must have."""
        if not isinstance(valid, RankingData):
            if len(valid) != 3 or (self.fitted_with_qid_ and valid[2] is None):
                raise DataError(
                    "valid must be (X, y, qid), with a qid if fit has one, or a RankingData. If "
                    "all rows of valid belong to one query, use np.zeros(len(y)) as its qid."
                )
            X, y, qid = valid
            warn_of_swap(np.asarray(y), qid, "valid=(X, y, qid)")
            valid = RankingData(
                matched_features(self, X, "the X of valid"), y, qid,
                n_threads=resolve_threads(self.n_threads),
                allow_missing=self.takes_missing,
            )  # fmt: skip
        self._check_held_out(valid)
        return valid

    def _check_held_out(self, valid: RankingData) -> None:
        """Raise a `DataError` unless held-out data have as many features as the training data."""
        if valid.n_features != self.n_features_in_:
            raise DataError(
                f"valid has {valid.n_features} features, but X has {self.n_features_in_}. Use the "
                "same features in both."
            )

    def _own_data(self, data: RankingData, reset: bool) -> RankingData:
        """Check data that the caller has made, and store the names and number of its features."""
        if data.has_missing and not self.takes_missing:
            check_finite(data.X, data.order, data.feature_names)
        if reset:
            self.n_features_in_ = data.n_features
            store_names(self, data.feature_names)
        self._check_features(data)
        self.fitted_with_qid_ = data.n_queries > 1 and data.pairs is None
        return data

    def _check_features(self, data: RankingData) -> None:
        """Raise a `DataError` unless the features are those that the ranker was fitted on."""
        if data.n_features != self.n_features_in_:
            raise DataError(
                f"the data have {data.n_features} features, but the ranker was fitted on "
                f"{self.n_features_in_}. Use data with the same features."
            )
        expected = getattr(self, "feature_names_in_", None)
        if expected is not None and data.feature_names is not None:
            wrong = [n for n, name in enumerate(expected) if name != data.feature_names[n]]
            if wrong:
                raise DataError(
                    f"feature {wrong[0]} of the data is {data.feature_names[wrong[0]]!r}, but the "
                    f"ranker was fitted on {expected[wrong[0]]!r}. Use the same order of features."
                )


def refuse_arguments(**arguments: Any) -> None:
    """Raise a `DataError` if an argument is given in addition to a `RankingData`."""
    given = [name for name, value in arguments.items() if value is not None]
    if given:
        raise DataError(
            f"X is a RankingData, which has labels, queries and weights, so {given[0]} cannot be "
            "given. Leave it out, or pass arrays."
        )


def check_qid(ranker: object, qid: Any, method: str) -> None:
    """Raise a `DataError` if a ranker was fitted with `qid`, but one of its methods has none."""
    if qid is not None or not getattr(ranker, "fitted_with_qid_", False):
        return
    sentence = f"this ranker was fitted with qid, so {method} needs qid too."
    if method == "score" and not get_config()["enable_metadata_routing"]:
        sentence += (
            " If scikit-learn calls score, as GridSearchCV does, it passes qid on only after "
            "sklearn.set_config(enable_metadata_routing=True)."
        )
    raise DataError(f"{sentence} If all rows belong to one query, pass qid=np.zeros(X.shape[0]).")


def library_matrix(X: Matrix) -> Matrix:
    """Return X for other libraries: a sparse X has the index types that scipy chooses."""
    if not sparse.issparse(X):
        return X
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
