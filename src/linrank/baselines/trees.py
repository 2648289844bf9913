"""`TreeModel`: trees of scikit-learn and LightGBM, as arrays in a model file.

A pickle of scikit-learn can execute anything. LightGBM's own reader ends the process if a file is
damaged, and may loop for ever. The trees are therefore kept in a form that is checked before it is
used. Scoring needs neither library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._threads import resolve_threads, run
from .._typing import Array, Integers, Mask, Vector
from ..data.checks import Matrix, check_finite, check_matrix
from ..errors import DataError
from ..model import Column, Content, Model, numbers

BLOCK_ROWS = 4096  #: rows scored at a time; more rows leave the cache


class Tree(NamedTuple):
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
    >>> tree = Tree.from_content(content, n_features=2)
    >>> TreeModel([tree], 2).predict([[0.0, 0.5], [0.0, 0.75]]).tolist()
    [-1.0, 2.0]
    """

    format = "linrank-trees"

    def __init__(
        self,
        trees: Sequence[Tree],
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
        found = [Tree.from_content(tree, content["n_features"]) for tree in trees]
        return cls(found, content["n_features"], mean=mean, **shared)


class LightGBMModel(TreeModel):
    """Sum of trees that LightGBM has learnt, in a format that earlier versions read as well."""

    format = "linrank-lightgbm"
