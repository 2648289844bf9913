"""`RandomForestRanker`: the labels by a random forest."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils import check_array

from .._rows import row_ranges
from .._threads import resolve_threads, run
from ..data.checks import Matrix, check_finite
from ..data.ranking import RankingData
from ..estimators.base import Vector
from .base import TreeRanker


class RandomForestRanker(TreeRanker):
    """Random forest regression of the labels.

    Scores by the mean of T trees, each grown to the end on a bootstrap sample of the
    documents,

        f(x) = 1/T·Σ_t mean label of the leaf of tree t that x falls into

    (Breiman 2001; Lee & Lin 2014, §4.5 and table 6, whose settings are the defaults:
    40 trees, splits among ⌊√d⌋ of the d features). By scikit-learn's `RandomForestRegressor`.
    The forest does not see the queries.

    Parameters
    ----------
    n_estimators : int
        The number of trees.
    max_features : {"sqrt", "log2", None}, int or float
        How many features each split is chosen among.
    min_samples_leaf : int or float
        The fewest documents of a leaf.
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores. The scores do not depend on it.
    random_state : int or RandomState, optional

    Attributes
    ----------
    estimator_ : RandomForestRegressor
    n_queries_, n_features_in_ : int

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import RandomForestRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = RandomForestRanker(random_state=0)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.75
    True
    """

    def __init__(
        self,
        *,
        n_estimators: int = 40,
        max_features: Any = "sqrt",
        min_samples_leaf: int | float = 1,
        n_threads: int | None = None,
        random_state: Any = None,
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
        # The threads of scikit-learn's forest change the warning filters of the process, and can
        # restore them in the wrong order. The caller's filters are therefore put aside.
        with warnings.catch_warnings():
            return super()._learn(data, n_threads).set_params(n_jobs=1)

    def _scores(self, X: Matrix) -> Vector:
        # scikit-learn's forest adds the trees in the order in which its threads finish. With one
        # thread it still changes the warning filters, so it cannot be called in several threads.
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
