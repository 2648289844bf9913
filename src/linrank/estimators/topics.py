"""`MultiTopicRanker`: one ranker per topic over one collection of documents."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from .._threads import blas_threads, resolve_threads, run
from .._typing import Vector
from ..data.checks import check_finite, check_matrix
from ..errors import DataError
from ..metrics import evaluate
from .base import DTYPES, LinearRanker
from .domination import DominationRank
from .trained import ChoosesC


class MultiTopicRanker(MetaEstimatorMixin, BaseEstimator):
    """A linear ranker for each topic of a collection, learnt side by side from one X.

    Each topic is a query over all documents: those of the topic should come before the others
    (Stevens, Bengio & Singer 2013, §1.5, on the 103 topics of RCV1).

    Parameters
    ----------
    ranker : ranker, optional
        Any linear one of linrank, such as `DominationRankCV` or `SparseRankSVM`; by default
        ``DominationRank()``.
    n_threads : int, optional
        How many topics are learnt at a time, each by one thread.

    Attributes
    ----------
    coef_ : float64 CSR array of shape (n_topics, n_features)
    rankers_ : list
        The fitted ranker of each topic; None for one that was skipped.
    skipped_topics_ : int64 array
        Topics that all documents belong to, or none, and (with a warning) those that their ranker
        cannot learn: they have no weights.
    zero_weights_ : float
        The part of the weights that are 0, of the topics that were not skipped.

    Examples
    --------
    >>> from linrank import DominationRank, MultiTopicRanker
    >>> X = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> ranker = MultiTopicRanker(DominationRank(C=5.0)).fit(X, [[1, 0], [0, 0], [0, 1]])
    >>> ranker.predict(X).argmax(axis=0).tolist()
    [0, 2]
    """

    def __init__(self, ranker: Any = None, *, n_threads: int | None = None) -> None:
        self.ranker = ranker
        self.n_threads = n_threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        return tags

    def fit(self, X: Any, Y: Any, valid: tuple[Any, Any] | None = None) -> Self:
        """Learn the weights of all topics.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        Y : array or sparse matrix of shape (n_docs, n_topics)
            The labels of each document: larger is more relevant to a topic.
        valid : tuple (X, Y), optional
            Held-out data to choose by, for rankers that choose C.
        """
        X = check_matrix(
            validate_data(self, X, dtype=DTYPES, order="C", accept_sparse="csr",
                          ensure_all_finite=False)
        )  # fmt: skip
        check_finite(X, None)
        labels = _label_matrix(Y, X.shape[0], "Y")
        n_topics, held_out = labels.shape[1], self._held_out(valid, labels.shape[1])
        tasks = [(X, _column(labels, t), held_out, t) for t in range(n_topics)]
        with blas_threads(1):  # each topic by one thread
            self.rankers_ = run(self._fit_topic, tasks, resolve_threads(self.n_threads))
        if all(isinstance(ranker, DataError) for ranker in self.rankers_):
            raise self.rankers_[0]
        for topic, ranker in enumerate(self.rankers_):
            if isinstance(ranker, DataError):
                warnings.warn(f"skipped: {ranker}", UserWarning, stacklevel=2)
                self.rankers_[topic] = None
        learnt = [ranker is not None for ranker in self.rankers_]
        self.skipped_topics_ = np.flatnonzero(~np.array(learnt))
        rows = [
            sparse.csr_array((1, X.shape[1])) if ranker is None
            else sparse.csr_array(ranker.coef_[None])
            for ranker in self.rankers_
        ]  # fmt: skip
        self.coef_ = sparse.csr_array(sparse.vstack(rows, format="csr"))
        self.zero_weights_ = 1.0 - self.coef_.nnz / max(1, sum(learnt) * X.shape[1])
        return self

    def _held_out(self, valid: tuple[Any, Any] | None, n_topics: int) -> tuple[Any, Any] | None:
        if valid is None:
            return None
        if not isinstance(self._template(), ChoosesC):
            raise DataError("valid is for rankers that choose C, such as DominationRankCV")
        X, Y = valid
        X = check_matrix(X)
        labels = _label_matrix(Y, X.shape[0], "valid[1]")
        if labels.shape[1] != n_topics:
            raise DataError(f"Y has {n_topics} topics but valid[1] has {labels.shape[1]}")
        return X, labels

    def _fit_topic(self, X: Any, y: Vector, held_out: Any, topic: int) -> Any:
        """The ranker of a topic, None where there is nothing to rank, or what is wrong."""
        if y.min() == y.max():
            return None
        ranker = clone(self._template()).set_params(n_threads=1)
        more: dict[str, Any] = {}
        if held_out is not None:
            y_valid = _column(held_out[1], topic)
            more["valid"] = held_out[0], y_valid, np.zeros(len(y_valid))
            more["qid"] = np.zeros(len(y))
        try:
            return ranker.fit(X, y, **more)
        except DataError as error:
            return DataError(f"topic {topic}: {error}")

    def _template(self) -> LinearRanker:
        template = DominationRank() if self.ranker is None else self.ranker
        if not isinstance(template, LinearRanker):
            raise DataError(f"ranker is {template!r}; expected a linear ranker of linrank")
        return template

    def predict(self, X: Any) -> Vector:
        """Score documents for all topics.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)

        Returns
        -------
        scores : float64 array of shape (n_docs, n_topics)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=DTYPES, accept_sparse="csr")
        scores = X @ self.coef_.T
        return np.asarray(scores.toarray() if sparse.issparse(scores) else scores)

    def evaluate(self, X: Any, Y: Any, metrics: Any = ("map", "p@10")) -> dict[str, float]:
        """The means of metrics over the topics that can be measured and were not skipped.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        Y : array or sparse matrix of shape (n_docs, n_topics)
        metrics : sequence of str
            Names of `linrank.evaluate`.
        """
        metrics = [metrics] if isinstance(metrics, str) else list(metrics)
        scores = self.predict(X)
        labels = _label_matrix(Y, len(scores), "Y")
        if labels.shape[1] != scores.shape[1]:
            raise DataError(f"Y has {labels.shape[1]} topics; fitted were {scores.shape[1]}")
        topics = np.setdiff1d(np.arange(scores.shape[1]), self.skipped_topics_)
        if not len(topics):
            raise DataError("all topics were skipped: there is nothing to evaluate")
        found = evaluate(
            np.concatenate([_column(labels, t) for t in topics]),
            scores[:, topics].T.ravel(),
            np.repeat(topics, len(scores)),
            metrics,
        )
        return dict(found.mean)

    def score(self, X: Any, Y: Any) -> float:
        """The mean average precision over the topics."""
        return self.evaluate(X, Y, ("map",))["map"]


def _label_matrix(Y: Any, n_docs: int, name: str) -> Any:
    labels = sparse.csc_array(Y) if sparse.issparse(Y) else np.asarray(Y)
    if labels.ndim != 2 or labels.shape[0] != n_docs or labels.shape[1] == 0:
        raise DataError(
            f"{name} has shape {labels.shape}; expected a row of labels, one per topic, for each "
            f"of the {n_docs} documents"
        )
    return labels


def _column(labels: Any, topic: int) -> Vector:
    column = labels[:, [topic]]
    column = column.toarray() if sparse.issparse(column) else column
    return np.asarray(column, dtype=np.float64).ravel()
