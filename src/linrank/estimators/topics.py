"""`MultiTopicRanker`: one ranker per topic over one collection of documents, and its files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._util.parallel import blas_threads, resolve_threads, run
from .._util.text import parse_number
from .._util.types import Integers, Vector
from ..data.frames import features_of
from ..data.ranking import RankingData
from ..data.source import CHUNK_BYTES, Expected, open_source
from ..data.validation import Matrix, check_finite, check_matrix
from ..errors import DataError, FileFormatError
from ..features.preprocessing import FeatureSteps
from ..metrics import Evaluation, Metric, evaluate
from ..model import Column, Content, Model, matrix_parts, read_matrix
from ..training.additive_trainer import AdditiveTrainer
from .domination_rank import DominationRank
from .ranker import Ranker, checked_features, matched_features

# --------------------------------------------------------------------------------------------------
# `TopicsModel`: one weight vector per topic, in one model file.


class TopicsModel(Model):
    """Model with the scores ``w_t'x`` of each topic t.

    Parameters
    ----------
    coef : CSR array of shape (n_topics, n_features)
    topics : sequence of str
        The name of each topic.
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.

    Examples
    --------
    >>> TopicsModel(np.eye(2), ["sport", "politics"]).predict([[2.0, 1.0]]).tolist()
    [[2.0, 1.0]]
    """

    format = "linrank-topics"

    def __init__(
        self,
        coef: Matrix,
        topics: Sequence[str],
        *,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        self.coef = sparse.csr_array(check_matrix(coef)).astype(np.float64)
        self.topics = [str(topic) for topic in topics]
        if len(self.topics) != self.coef.shape[0]:
            raise DataError(
                f"topics has {len(self.topics)} names for {self.coef.shape[0]} weight vectors"
            )
        super().__init__(self.coef.shape[1], feature_names, index_base, settings, training)

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Return the scores of all topics, of shape (n_docs, n_topics)."""
        check_finite(X, None)
        scores = X @ self.coef.T
        return np.asarray(scores.toarray() if sparse.issparse(scores) else scores, np.float64)

    def facts(self) -> dict[str, object]:
        """Return the numbers of topics and of weights that are not 0."""
        return {"topics": len(self.topics), "weights": self.coef.nnz}

    def columns(self) -> list[Column]:
        """Return in how many topics each feature has a weight, and the sum of their sizes."""
        feature, size = self.coef.indices, np.abs(self.coef.data)
        return [
            Column("topics", np.bincount(feature, minlength=self.n_features), "number of topics"),
            Column(
                "total_weight", np.bincount(feature, size, minlength=self.n_features),
                "sum of the absolute weights in all topics",
            ),
        ]  # fmt: skip

    def _parameters(self) -> Content:
        return {"topics": self.topics, **matrix_parts(self.coef)}

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        topics = content["topics"]
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise DataError("topics is not a list of names")
        return cls(read_matrix(content, (len(topics), content["n_features"])), topics, **shared)


# --------------------------------------------------------------------------------------------------
# `MultiTopicRanker`: one ranker per topic over one collection of documents.


@dataclass(kw_only=True, eq=False, repr=False)
class MultiTopicRanker(MetaEstimatorMixin, BaseEstimator):
    """One linear ranker for each topic of a collection of documents.

    Each topic is a query over all documents. Documents of the topic should be ranked above the
    others (Stevens, Bengio & Singer 2013, §1.5, on the 103 topics of RCV1). All rankers share X.

    Parameters
    ----------
    ranker : ranker, optional
        Any linear ranker of linrank, such as `DominationRankCV` or `SparseRankSVM`. The default
        is ``DominationRank()``.
    n_threads : int, optional
        The number of topics that are learnt at the same time, each by one thread.

    Attributes
    ----------
    coef_ : float64 CSR array of shape (n_topics, n_features)
    rankers_ : list
        The fitted ranker of each topic; None if the topic was skipped.
    skipped_topics_ : int64 array
        The topics without weights: all documents have the same label, or the ranker cannot learn
        the topic. There is a warning for the second kind.
    zero_weights_ : float
        The fraction of the weights that are 0, without the topics that were skipped.
    model_ : TopicsModel
        The weights in the form that is saved: ``ranker.model_.save("model.json")``.

    Examples
    --------
    >>> from linrank import DominationRank, MultiTopicRanker
    >>> X = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> ranker = MultiTopicRanker(DominationRank()).fit(X, [[1, 0], [0, 0], [0, 1]])
    >>> ranker.score(X, [[1, 0], [0, 0], [0, 1]])
    1.0
    >>> ranker.predict(X).argmax(axis=0).tolist()
    [0, 2]
    """

    ranker: Ranker | None = field(default=None, kw_only=False)
    n_threads: int | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        return tags

    def fit(self, X: Matrix, Y: Matrix, valid: tuple[Matrix, Matrix] | None = None) -> Self:
        """Learn the weights of all topics.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        Y : array or sparse matrix of shape (n_docs, n_topics)
            The label of each document for each topic. A larger label is more relevant.
        valid : tuple (X, Y), optional
            Held-out data, for rankers that choose C.
        """
        self._template()
        X = check_matrix(checked_features(self, X, order="C"))
        check_finite(X, None)
        labels = _label_matrix(Y, X.shape[0], "Y")
        n_topics, held_out = labels.shape[1], self._held_out(valid, labels.shape[1])
        tasks = [(X, _column(labels, t), held_out, t) for t in range(n_topics)]
        with blas_threads(1):  # one thread learns each topic
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

    def _held_out(
        self, valid: tuple[Matrix, Matrix] | None, n_topics: int
    ) -> tuple[Matrix, Matrix] | None:
        """Check the held-out data."""
        if valid is None:
            return None
        if not self._template().chooses:
            raise DataError("valid is for rankers that choose C. Use ranker=DominationRankCV().")
        X, Y = valid
        X, *_ = features_of(matched_features(self, X, "valid[0]"), None)
        labels = _label_matrix(Y, X.shape[0], "valid[1]")
        if labels.shape[1] != n_topics:
            raise DataError(f"Y has {n_topics} topics but valid[1] has {labels.shape[1]}")
        return X, labels

    def _fit_topic(
        self, X: Matrix, y: Vector, held_out: tuple[Matrix, Matrix] | None, topic: int
    ) -> Any:
        """Return the ranker of a topic, None if all labels are equal, or a `DataError`."""
        if y.min() == y.max():
            return None
        ranker = clone(self._template()).set_params(n_threads=1)
        try:
            more: dict[str, Any] = {}
            if held_out is not None:
                more["valid"] = RankingData(held_out[0], _column(held_out[1], topic), n_threads=1)
            return ranker.fit(RankingData(X, y, n_threads=1), **more)
        except DataError as error:
            return DataError(f"topic {topic}: {error}")

    def _template(self) -> Ranker:
        template = DominationRank() if self.ranker is None else self.ranker
        if getattr(template, "trainer_class", None) is AdditiveTrainer:
            raise DataError(
                f"ranker is {template!r}, whose scores are sums of curves, but MultiTopicRanker "
                "scores documents by weights. Use a linear ranker such as DominationRank(), or fit "
                "an AdditiveRanker for each topic."
            )
        if not getattr(template, "has_weights", False):
            raise DataError(
                f"ranker is {template!r}; expected a linear ranker such as DominationRank()"
            )
        options = (getattr(template, name, None) for name in ("scale", "missing"))
        steps = FeatureSteps.parse(*options)
        if not steps.is_linear or steps.missing is not None:
            raise DataError(
                f"the ranker has scale={steps.name!r} and missing={steps.missing!r}, but "
                "MultiTopicRanker scores documents by their weights alone. Use scale='standard', "
                "'minmax', 'robust' or 'maxabs', and missing=None."
            )
        return template

    def predict(self, X: Matrix) -> Vector:
        """Score documents for all topics.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)

        Returns
        -------
        scores : float64 array of shape (n_docs, n_topics)
        """
        check_is_fitted(self)
        X = checked_features(self, X, reset=False, ensure_all_finite=True)
        scores = X @ self.coef_.T
        return np.asarray(scores.toarray() if sparse.issparse(scores) else scores)

    def evaluate(
        self, X: Matrix, Y: Matrix, metrics: str | Sequence[str] = ("map", "p@10")
    ) -> dict[str, float]:
        """Return the means of metrics over the topics that were not skipped.

        A topic for which a metric is undefined does not count in its mean.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        Y : array or sparse matrix of shape (n_docs, n_topics)
        metrics : str or sequence of str
            Names of metrics, as for `linrank.evaluate`.
        """
        metrics = [metrics] if isinstance(metrics, str) else list(metrics)
        scores = self.predict(X)
        topics = np.setdiff1d(np.arange(scores.shape[1]), self.skipped_topics_)
        return dict(evaluate_topics(scores, Y, topics, metrics).mean)

    @property
    def model_(self) -> TopicsModel:
        """The weights in the form that is saved; topics are named by their columns in Y."""
        check_is_fitted(self)
        return TopicsModel(
            self.coef_, [str(t) for t in range(self.coef_.shape[0])],
            feature_names=getattr(self, "feature_names_in_", None),
            settings={"ranker": repr(self._template())},
            training={"skipped_topics": self.skipped_topics_.tolist()},
        )  # fmt: skip

    def score(self, X: Matrix, Y: Matrix) -> float:
        """Return the mean average precision over the topics."""
        return self.evaluate(X, Y, ("map",))["map"]


def evaluate_topics(
    scores: Vector, Y: Matrix, topics: Integers, metrics: Sequence[str | Metric]
) -> Evaluation:
    """Evaluate scores of shape (n_docs, n_topics), with some of the topics as queries."""
    labels = _label_matrix(Y, len(scores), "Y")
    if labels.shape[1] != scores.shape[1]:
        raise DataError(f"Y has {labels.shape[1]} topics; expected {scores.shape[1]}, as in fit")
    if not len(topics):
        raise DataError(
            "fit skipped all topics, so none can be evaluated. Fit on labels that differ."
        )
    return evaluate(
        np.concatenate([_column(labels, t) for t in topics]),
        scores[:, topics].T.ravel(),
        np.repeat(topics, len(scores)),
        metrics,
    )


def _label_matrix(Y: Matrix, n_docs: int, name: str) -> Matrix:
    labels = sparse.csc_array(Y) if sparse.issparse(Y) else np.asarray(Y)
    if labels.ndim != 2 or labels.shape[0] != n_docs or labels.shape[1] == 0:
        raise DataError(
            f"{name} has shape {labels.shape}; expected ({n_docs}, n_topics): a row of labels for "
            "each document"
        )
    return labels


def _column(labels: Matrix, topic: int) -> Vector:
    column = labels[:, [topic]]
    column = column.toarray() if sparse.issparse(column) else column
    return np.asarray(column, dtype=np.float64).ravel()


# --------------------------------------------------------------------------------------------------
# Files of documents with several topics: ``3,7 1:0.5 2:0.25`` belongs to the topics 3 and 7.


TOPICS = Expected("a file of topics", "3,7 1:0.5 2:0.25")


class TopicData(NamedTuple):
    """Documents of a collection, each of which belongs to any number of topics."""

    X: Matrix
    Y: sparse.csr_array  #: 1 where a document (row) belongs to a topic (column)
    topics: list[str]  #: the name of each column of Y


def read_topics(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    topics: list[str] | None = None,
) -> TopicData:
    r"""Read documents with topics, in SVMlight's format with several labels per line.

    Parameters
    ----------
    path : path-like
    n_features : int, optional
        The number of features; by default the largest feature number in the file.
    topics : list of str, optional
        The topics of the columns of Y; others are left out. By default, all topics of the file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "topics.txt")
    >>> _ = path.write_text("3,7 1:0.5\n7 2:1\n")
    >>> data = read_topics(path)
    >>> data.topics, data.Y.toarray().tolist()
    (['3', '7'], [[1.0, 1.0], [0.0, 1.0]])
    """
    from sklearn.datasets import load_svmlight_file

    try:
        X, labels = load_svmlight_file(
            os.fspath(path), n_features=n_features, multilabel=True, zero_based=False
        )
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, OverflowError) as error:
        raise FileFormatError(f"{path}: not a file of topics: {error}; {TOPICS.lines}") from None
    if not len(labels):
        raise FileFormatError(f"{path}: the file has no documents")
    names = _topics_of_lines(path)
    rows = np.repeat(np.arange(len(names)), list(map(len, names)))
    known = _sorted(set(chain(*names))) if topics is None else _checked(topics)
    columns = {name: k for k, name in enumerate(known)}
    found = np.array([columns.get(name, -1) for name in chain(*names)], np.int64)
    Y = _ones(rows[found >= 0], found[found >= 0], (len(labels), len(known)))
    return TopicData(check_matrix(X), Y, known)


def _topics_of_lines(path: str | os.PathLike[str]) -> list[list[str]]:
    """Return the topics of each document as they are written, so that 007 and 7 differ."""
    found = []
    with open_source(path, TOPICS) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            for line in chunk.text[chunk.first : chunk.last].tobytes().split(b"\n"):
                words = line.partition(b"#")[0].split()
                if words:
                    found.append([] if b":" in words[0] else words[0].decode("latin1").split(","))
                    _check_numbers(source.path, found[-1], words)
            source.release([chunk])
    return found


def _check_numbers(path: str, topics: list[str], words: list[bytes]) -> None:
    """Raise an error for numbers that only Python knows, such as 1_0."""
    try:
        _sorted(topics)
        wrong = next((word.decode("latin1") for word in words if b"_" in word), None)
    except ValueError:
        wrong = ",".join(topics)
    if wrong is not None:
        raise FileFormatError(f"{path}: not a file of topics: {wrong[:40]!r}; {TOPICS.lines}")


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (parse_number(name), name))


def _checked(topics: list[str]) -> list[str]:
    """Return the names of topics, which are numbers."""
    try:
        _sorted(topics)
    except ValueError as error:
        raise DataError(
            f"topics in files are numbers, but those of the model are not: {error}"
        ) from None
    return list(topics)


def _ones(rows: Integers, columns: Integers, shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
