"""Base classes and checks that several baselines share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from .._threads import resolve_threads
from .._typing import Vector
from ..data.checks import Matrix, check_finite, check_matrix, group_by_query
from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.base import Ranker, library_matrix
from ..estimators.features import checked_features
from .trees import Tree, TreeModel

#: Difference of two weak rankers' criteria up to which they count as equal: rounding errors.
TIE_TOLERANCE = 1e-12
#: Largest r of a weak ranker in boosting. r = 1 would give it an infinite weight.
LARGEST_R = 1.0 - 1e-10

Round = TypeVar("Round")


class PointwiseRanker(Ranker):
    """Base of the rankers that ignore the queries in training."""

    uses_queries = False
    n_queries_: int

    def _pointwise_data(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None,
        qid: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> RankingData:
        """Check the arguments of `fit`; rows stay in the caller's order, whatever `qid` is."""
        if isinstance(X, RankingData):
            data = self._ranking_data(X, y, qid, sample_weight, None)
            self.n_queries_ = data.n_queries
            return without_zero_weights(data)
        data = self._ranking_data(X, y, None, sample_weight, None)
        query_ptr, _, _ = group_by_query(qid, data.n_docs)
        self.fitted_with_qid_ = qid is not None
        self.n_queries_ = len(query_ptr) - 1
        return without_zero_weights(data)


def without_zero_weights(data: RankingData) -> RankingData:
    """Return the documents whose weight is not 0.

    Other libraries do not always ignore documents of weight 0: such a document may still
    determine a bin edge of a histogram, for instance.
    """
    if data.weight is None or data.weight.all():
        return data
    return data.take(np.flatnonzero(data.weight))


class FittedRegressor(Protocol):
    """A fitted model of another library."""

    def predict(self, X: object) -> ArrayLike:
        """Return one prediction per row."""


class TreeRanker(PointwiseRanker):
    """Base of the rankers whose scores are the predictions of another library's trees.

    Pointwise subclasses implement `_model`; others override `_checked` and `_learn`. All implement
    `_trees`.
    """

    estimator_: FittedRegressor
    n_threads: int | None
    model_class: ClassVar[type[TreeModel]] = TreeModel
    averages: ClassVar[bool] = False  #: whether the score is the mean of the trees, not the sum

    @property
    def model_(self) -> TreeModel:
        """The trees in the form that is saved: ``ranker.model_.save("model.json")``."""
        check_is_fitted(self)
        return self.model_class(
            self._trees(), self.n_features_in_, mean=self.averages,
            feature_names=getattr(self, "feature_names_in_", None),
            settings={"method": type(self).__name__} | self.get_params(),
            training={"queries": self.n_queries_},
        )  # fmt: skip

    def _trees(self) -> list[Tree]:
        """Return the trees of the fitted model of the other library."""
        raise NotImplementedError

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the trees.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document. A document of weight 0 is ignored.
        """
        data = self._checked(X, y, qid, sample_weight)
        n_threads = resolve_threads(self.n_threads)
        with _openmp_threads(n_threads), sentences_of(TypeError, ValueError):
            self.estimator_ = self._learn(data, n_threads)
        return self

    def _checked(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None,
        qid: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> RankingData:
        return self._pointwise_data(X, y, qid, sample_weight)

    def _learn(self, data: RankingData, n_threads: int) -> FittedRegressor:
        model = self._model(n_threads)
        return model.fit(self._matrix(data.X), data.y, sample_weight=data.weight)

    def _model(self, n_threads: int) -> Regressor:
        """Return the unfitted model of the other library."""
        raise NotImplementedError

    def _matrix(self, X: Matrix) -> Matrix:
        """Return X in a form that the other library accepts."""
        return library_matrix(X)

    def _scores(self, X: Matrix) -> Vector:
        check_finite(X, None)
        with _openmp_threads(resolve_threads(self.n_threads)):
            return np.asarray(self.estimator_.predict(self._matrix(X)), dtype=np.float64)


class Regressor(Protocol):
    """A model of another library that is not fitted yet."""

    def fit(self, X: object, y: Vector, *, sample_weight: Vector | None) -> FittedRegressor:
        """Fit the model and return it."""


def _openmp_threads(n_threads: int) -> AbstractContextManager[object]:
    """Limit OpenMP, for libraries that have no argument for the number of their threads."""
    return ThreadpoolController().limit(limits=n_threads, user_api="openmp")


@contextmanager
def sentences_of(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors of another library, which are about its parameters, into a `DataError`."""
    try:
        yield
    except DataError:
        raise
    except errors as error:
        raise DataError(str(error).strip()) from error


def non_negative_number(name: str, value: float) -> float:
    """Return a finite number of at least 0 as a float, or raise a `DataError`."""
    if not isinstance(value, float | int | np.number) or not 0 <= value < np.inf:
        raise DataError(f"{name} is {value!r}; expected a finite number of at least 0")
    return float(value)


def checked_rows(ranker: Ranker, X: ArrayLike | Matrix) -> Matrix:
    """Return the matrix that a fitted ranker is to score, or raise an error that says why not."""
    check_is_fitted(ranker)
    X = check_matrix(checked_features(ranker, X, reset=False))
    check_finite(X, None, allow_missing=ranker.takes_missing)
    return X


def collect_rounds(rounds: Iterator[Round]) -> tuple[list[Round], bool]:
    """Return the rounds of boosting up to the end or to Ctrl-C, and whether Ctrl-C was pressed.

    Ctrl-C before the end of the first round raises `KeyboardInterrupt`.
    """
    found: list[Round] = []
    try:
        for one in rounds:
            found.append(one)
    except KeyboardInterrupt:
        if not found:
            raise
        return found, True
    return found, False
