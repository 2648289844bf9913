"""`GradientBoostingRanker`: regression of the labels by gradient boosted trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import Tags

from ..data.checks import Matrix
from ..errors import DataError
from .base import TreeRanker
from .trees import Tree


class GradientBoostingRanker(TreeRanker):
    """Gradient boosted regression of the labels (GBDT).

    The score is the sum of T trees. Each tree is fitted to the residuals of the trees before it,

        f_t(x) = f_(t−1)(x) + η·tree_t(x),    tree_t ≈ y − f_(t−1)

    (Friedman 2001). The defaults are those of Lee & Lin 2014 (§4.5 and table 6): 100 trees of
    depth 4 and η = 0.1.

    This class wraps scikit-learn's `HistGradientBoostingRegressor`. It chooses splits by
    histograms, as the paper's pGBRT does, and is many times faster than exact splits. It
    supports dense features only. The queries are ignored in training.

    Parameters
    ----------
    n_estimators : int
        Number of trees T.
    learning_rate : float
        Shrinkage η.
    max_depth : int or None
        Largest depth of a tree.
    min_samples_leaf : int
        Smallest number of documents in a leaf.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores.
    random_state : int or RandomState, optional
        Seed of the sample of documents that determines the bin edges. Up to 200,000 documents,
        all are used.

    Attributes
    ----------
    estimator_ : HistGradientBoostingRegressor
    model_ : TreeModel
        The trees in the form that is saved: ``ranker.model_.save("model.json")``.
    n_queries_, n_features_in_ : int

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import GradientBoostingRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = GradientBoostingRanker()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    estimator_: HistGradientBoostingRegressor

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = 4,
        min_samples_leaf: int = 20,
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.n_threads = n_threads
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _model(self, n_threads: int) -> HistGradientBoostingRegressor:
        return HistGradientBoostingRegressor(
            max_iter=self.n_estimators,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            max_leaf_nodes=None,
            min_samples_leaf=self.min_samples_leaf,
            early_stopping=False,
            random_state=self.random_state,
        )

    def _trees(self) -> list[Tree]:
        # scikit-learn has no public names for its trees. These are the ones that other programs
        # use, such as sklearn-onnx.
        first, *others = (_convert(one.nodes) for (one,) in self.estimator_._predictors)
        mean_label = np.ravel(self.estimator_._baseline_prediction)
        return [first._replace(value=mean_label + first.value), *others]

    def _matrix(self, X: Matrix) -> Matrix:
        if sparse.issparse(X):
            raise DataError(
                f"X is sparse; {type(self).__name__} supports dense features only. Pass "
                f"X.toarray(), which needs {X.shape[0] * X.shape[1] * X.dtype.itemsize:,} bytes, "
                "or use RandomForestRanker or LambdaMARTRanker"
            )
        return X


def _convert(nodes: Any) -> Tree:
    """Return a tree of scikit-learn, which is an array with a record for each node and leaf."""
    names = ("feature_idx", "num_threshold", "gain", "left", "right", "value")
    return Tree.from_nodes(nodes["is_leaf"] == 1, *(nodes[name] for name in names))
