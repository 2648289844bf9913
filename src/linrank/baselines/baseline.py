"""What several baselines share: base classes, checks, and models of trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import ThreadpoolController

from .._util.parallel import resolve_threads, run
from .._util.types import Array, Integers, Mask, Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix, check_finite, check_matrix, group_by_query
from ..errors import DataError
from ..estimators.ranker import Ranker, checked_features, library_matrix
from ..model import Column, Content, Model, numbers

# --------------------------------------------------------------------------------------------------
# `TreeModel`: trees of scikit-learn and LightGBM, as arrays in a model file.
#
# A pickle of scikit-learn can execute anything. LightGBM's own reader ends the process if a file is
# damaged, and may loop for ever. The trees are therefore kept in a form that is checked before it
# is used. Scoring needs neither library.


BLOCK_ROWS = 4096  #: rows scored at a time; more rows leave the cache


class DecisionTree(NamedTuple):
    """A tree: node k sends a document to `left` if feature[k] ≤ threshold[k], else to `right`.

    A child c ≥ 0 is a node, which comes after its parent. A child c < 0 is the leaf −1 − c. The
    root is node 0. A tree without nodes has one leaf.
    """

    feature: Integers
    threshold: Vector
    gain: Vector  #: decrease of the loss in training by the split
    left: Integers
    right: Integers
    value: Vector  #: of each leaf

    @classmethod
    def from_nodes(
        cls, is_leaf: Mask, feature: Integers, threshold: Vector, gain: Vector, left: Integers,
        right: Integers, value: Vector,
    ) -> Self:  # fmt: skip
        """Return a tree of scikit-learn, whose arrays have an entry for each node and each leaf."""
        inner = ~is_leaf
        number = np.where(is_leaf, 0 - np.cumsum(is_leaf), np.cumsum(inner) - 1)
        return cls(
            feature[inner].astype(np.int64), threshold[inner], gain[inner],
            number[left[inner]], number[right[inner]], value[is_leaf],
        )  # fmt: skip

    @classmethod
    def from_content(cls, content: Content, n_features: int) -> Self:
        """Check and return a tree of a model file."""
        if not isinstance(content, dict):
            raise DataError("a tree is not an object")
        tree = cls(*(np.array(numbers(content, name), _TYPES[name]) for name in cls._fields))
        n_nodes, n_leaves = len(tree.feature), len(tree.value)
        if n_leaves != n_nodes + 1 or any(len(part) != n_nodes for part in tree[:-1]):
            raise DataError("a tree has arrays of wrong lengths")
        if not all(np.isfinite(part).all() for part in (tree.threshold, tree.gain, tree.value)):
            raise DataError("a tree has numbers that are not finite")
        children = np.stack([tree.left, tree.right])
        later = (children > np.arange(n_nodes)) & (children < n_nodes)
        leaf = (children < 0) & (children >= -n_leaves)
        known = (tree.feature >= 0) & (tree.feature < n_features)
        if not ((later | leaf).all() and known.all()):
            raise DataError("a tree has a feature or a child that does not exist")
        return tree

    def scores(self, X: Array) -> Vector:
        """Return the value of the leaf of each row of a dense matrix."""
        place = np.full(X.shape[0], 0 if len(self.feature) else -1)
        rows = np.flatnonzero(place >= 0)
        while len(rows):
            node = place[rows]
            below = X[rows, self.feature[node]] <= self.threshold[node]
            place[rows] = np.where(below, self.left[node], self.right[node])
            rows = rows[place[rows] >= 0]
        return self.value[-1 - place]


_TYPES: dict[str, type] = {
    "feature": np.int64, "threshold": np.float64, "gain": np.float64, "left": np.int64,
    "right": np.int64, "value": np.float64,
}  # fmt: skip
#: Names of the arrays of a tree in LightGBM's text format.
_IN_TEXT = {
    "feature": "split_feature", "threshold": "threshold", "gain": "split_gain",
    "left": "left_child", "right": "right_child", "value": "leaf_value",
}  # fmt: skip
CATEGORY, ZERO_IS_MISSING = 0b1, 0b100  #: bits of LightGBM's decision_type


def thresholds_before_rounding(threshold: Vector) -> Vector:
    """Return t' such that x ≤ t' in double precision if and only if float32(x) ≤ t.

    scikit-learn's forests round features to single precision before they compare them. A number up
    to the middle of two neighbours a < b in single precision is rounded to a. The middle itself is
    rounded to the neighbour whose last bit is 0.

    Examples
    --------
    >>> float(np.float32(0.1)) <= 0.1, bool(0.1 <= thresholds_before_rounding(np.array([0.1]))[0])
    (False, False)
    """
    single: NDArray[np.float32] = threshold.astype(np.float32)
    lower = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
    middle = 0.5 * (lower.astype(np.float64) + np.nextafter(lower, np.float32(np.inf)))
    goes_up = middle.astype(np.float32) > lower
    return np.where(goes_up, np.nextafter(middle, -np.inf), middle)


def parse_trees(text: str) -> list[Content]:
    """Return the trees in a text of LightGBM's `Booster.model_to_string`, as in model files."""
    trees = []
    for section in text.partition("end of trees")[0].split("\nTree=")[1:]:
        lines = dict(line.split("=", 1) for line in section.splitlines() if "=" in line)
        kinds = [int(kind) for kind in lines.get("decision_type", "").split()]
        if any(kind & CATEGORY or kind & ZERO_IS_MISSING for kind in kinds):
            raise DataError("a model file holds trees of numbers only, without missing zeros")
        trees.append({
            name: [_TYPES[name](word).item() for word in lines.get(key, "").split()]
            for name, key in _IN_TEXT.items()
        })  # fmt: skip
    return trees


class TreeModel(Model):
    """Model whose score is the sum or the mean of the values of trees.

    Parameters
    ----------
    trees : sequence of Tree
    n_features : int
    mean : bool
        Whether the score is the mean of the values.
    feature_names, index_base, settings, training
        As in `linrank.LinearModel`.

    Examples
    --------
    >>> content = {"feature": [1], "threshold": [0.5], "gain": [1.0], "left": [-1], "right": [-2],
    ...            "value": [-1.0, 2.0]}
    >>> tree = DecisionTree.from_content(content, n_features=2)
    >>> TreeModel([tree], 2).predict([[0.0, 0.5], [0.0, 0.75]]).tolist()
    [-1.0, 2.0]
    """

    format = "linrank-trees"

    def __init__(
        self,
        trees: Sequence[DecisionTree],
        n_features: int,
        *,
        mean: bool = False,
        feature_names: Sequence[str] | None = None,
        index_base: int = 1,
        settings: Mapping[str, object] | None = None,
        training: Mapping[str, object] | None = None,
    ) -> None:
        self.trees = list(trees)
        self.mean = mean
        super().__init__(n_features, feature_names, index_base, settings, training)

    def scores(self, X: Matrix, query_ptr: Integers | None = None) -> Vector:
        """Score the rows of a matrix with the right number of features."""
        X = check_matrix(X)
        check_finite(X, None)
        scores, trees = np.zeros(X.shape[0]), self.trees
        if sparse.issparse(X):  # rows become dense, with the columns that trees read only
            used = self._features()
            trees = [tree._replace(feature=np.searchsorted(used, tree.feature)) for tree in trees]
            X = X[:, used]

        def add(first: int) -> None:
            rows = X[first : first + BLOCK_ROWS]
            rows = rows.toarray() if sparse.issparse(rows) else rows
            for tree in trees:
                scores[first : first + BLOCK_ROWS] += tree.scores(rows)

        run(add, [(first,) for first in range(0, X.shape[0], BLOCK_ROWS)], resolve_threads())
        return scores / max(1, len(self.trees)) if self.mean else scores

    def _features(self) -> Integers:
        """Return the features that trees read."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *(t.feature for t in self.trees)]))

    def facts(self) -> dict[str, object]:
        """Return the number of trees."""
        return {"trees": len(self.trees)}

    def columns(self) -> list[Column]:
        """Return the splits of each feature, and the sum of their gains in training."""
        feature = np.concatenate([np.empty(0, np.int64), *(tree.feature for tree in self.trees)])
        gain = np.concatenate([np.empty(0), *(tree.gain for tree in self.trees)])
        d = self.n_features
        return [
            Column("splits", np.bincount(feature, minlength=d), "number of splits"),
            Column("gain", np.bincount(feature, gain, d), "sum of the gains of the splits"),
        ]

    def _parameters(self) -> Content:
        trees = [
            {name: part.tolist() for name, part in tree._asdict().items()} for tree in self.trees
        ]
        return {"trees": trees, "mean": self.mean}

    @classmethod
    def _from_parameters(cls, content: Content, **shared: Any) -> Self:
        trees, mean = content["trees"], content.get("mean", False)
        if not isinstance(trees, list):
            raise DataError("trees is not a list")
        if type(mean) is not bool:
            raise DataError("mean is not false or true")
        found = [DecisionTree.from_content(tree, content["n_features"]) for tree in trees]
        return cls(found, content["n_features"], mean=mean, **shared)


class LightGBMModel(TreeModel):
    """Sum of trees that LightGBM has learnt, in a format that earlier versions read as well."""

    format = "linrank-lightgbm"


# --------------------------------------------------------------------------------------------------
# Base classes and checks that several baselines share.


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

    def _trees(self) -> list[DecisionTree]:
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
