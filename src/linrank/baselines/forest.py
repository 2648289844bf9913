"""`RandomForestRanker`: regression of the labels by a random forest."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils import check_array

from .._rows import row_ranges
from .._threads import resolve_threads, run
from .._typing import Vector
from ..data.checks import Matrix, check_finite
from ..data.ranking import RankingData
from .base import TreeRanker
from .trees import Tree, thresholds_before_rounding


class RandomForestRanker(TreeRanker):
    """Random forest regression of the labels.

    The score is the mean of T trees, each grown without pruning on a bootstrap sample of the
    documents,

        f(x) = 1/T·Σ_t (mean label of the leaf of tree t that contains x)

    (Breiman 2001). The defaults are those of Lee & Lin 2014 (§4.5 and table 6): 40 trees, with
    splits among ⌊√d⌋ of the d features. This class wraps scikit-learn's `RandomForestRegressor`.
    The queries are ignored in training.

    Parameters
    ----------
    n_estimators : int
        Number of trees T.
    max_features : {"sqrt", "log2", None}, int or float
        Number of features among which each split is chosen.
    min_samples_leaf : int or float
        Smallest number of documents in a leaf, or share of the documents.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores. The scores do not
        depend on it.
    random_state : int or RandomState, optional

    Attributes
    ----------
    estimator_ : RandomForestRegressor
    model_ : TreeModel
        The trees in the form that is saved: ``ranker.model_.save("model.json")``.
    n_queries_, n_features_in_ : int

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import RandomForestRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = RandomForestRanker(random_state=0)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.75
    True
    """

    estimator_: RandomForestRegressor
    averages = True

    def __init__(
        self,
        *,
        n_estimators: int = 40,
        max_features: Literal["sqrt", "log2"] | int | float | None = "sqrt",
        min_samples_leaf: int | float = 1,
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.n_threads = n_threads
        self.random_state = random_state

    def _model(self, n_threads: int) -> RandomForestRegressor:
        return RandomForestRegressor(
            n_estimators=self.n_estimators,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            n_jobs=n_threads,
            random_state=self.random_state,
        )

    def _learn(self, data: RankingData, n_threads: int) -> RandomForestRegressor:
        # The threads of scikit-learn's forest change the warning filters of the process, and may
        # restore them in the wrong order. We therefore save and restore the caller's filters.
        with warnings.catch_warnings():
            forest: RandomForestRegressor = super()._learn(data, n_threads)
        return forest.set_params(n_jobs=1)

    def _trees(self) -> list[Tree]:
        return [_convert(estimator.tree_) for estimator in self.estimator_.estimators_]

    def _scores(self, X: Matrix) -> Vector:
        # We sum the trees ourselves. scikit-learn's forest adds them in the order in which its
        # threads finish, so that rounding differs between calls. With one thread it still
        # changes the warning filters of the process, so it cannot be called in several threads.
        check_finite(X, None)
        rows = check_array(
            self._matrix(X), dtype=np.float32, accept_sparse="csr", accept_large_sparse=False
        )
        trees = self.estimator_.estimators_

        def mean(first: int, last: int) -> Vector:
            part = rows[first:last]
            return sum(tree.predict(part, check_input=False) for tree in trees) / len(trees)

        n_threads = resolve_threads(self.n_threads)
        return np.concatenate(run(mean, row_ranges(X, n_threads), n_threads))


def _convert(tree: Any) -> Tree:
    """Return a tree of scikit-learn; the gain of a split is its decrease of the squared error."""
    left, right = tree.children_left, tree.children_right
    error = tree.impurity * tree.weighted_n_node_samples
    threshold = thresholds_before_rounding(tree.threshold)
    gain, value = error - error[left] - error[right], tree.value[:, 0, 0]
    return Tree.from_nodes(left < 0, tree.feature, threshold, gain, left, right, value)
