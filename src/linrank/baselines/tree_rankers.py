"""Rankers of trees: random forests, gradient boosting, and LambdaMART by LightGBM."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.utils import Tags, check_array

from .._util.checks import positive_number, whole_number
from .._util.parallel import resolve_threads, run
from .._util.types import Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix, check_finite
from ..errors import DataError
from ..matrix.rows import row_ranges
from ..problem import no_pair
from .baseline import (
    DecisionTree,
    FittedRegressor,
    LightGBMModel,
    TreeRanker,
    parse_trees,
    sentences_of,
    thresholds_before_rounding,
    without_zero_weights,
)

# --------------------------------------------------------------------------------------------------
# `RandomForestRanker`: regression of the labels by a random forest.


@dataclass(kw_only=True, eq=False, repr=False)
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

    averages = True

    estimator_: RandomForestRegressor = field(init=False)  # what `fit` stores
    n_estimators: int = 40
    max_features: Literal["sqrt", "log2"] | int | float | None = "sqrt"
    min_samples_leaf: int | float = 1
    n_threads: int | None = None
    random_state: int | np.random.RandomState | None = None

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

    def _trees(self) -> list[DecisionTree]:
        return [_convert_forest(estimator.tree_) for estimator in self.estimator_.estimators_]

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


def _convert_forest(tree: Any) -> DecisionTree:
    """Return a tree of scikit-learn; the gain of a split is its decrease of the squared error."""
    left, right = tree.children_left, tree.children_right
    error = tree.impurity * tree.weighted_n_node_samples
    threshold = thresholds_before_rounding(tree.threshold)
    gain, value = error - error[left] - error[right], tree.value[:, 0, 0]
    return DecisionTree.from_nodes(left < 0, tree.feature, threshold, gain, left, right, value)


# --------------------------------------------------------------------------------------------------
# `GradientBoostingRanker`: regression of the labels by gradient boosted trees.


@dataclass(kw_only=True, eq=False, repr=False)
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

    estimator_: HistGradientBoostingRegressor = field(init=False)  # what `fit` stores
    n_estimators: int = 100
    learning_rate: float = 0.1
    max_depth: int | None = 4
    min_samples_leaf: int = 20
    n_threads: int | None = None
    random_state: int | np.random.RandomState | None = None

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

    def _trees(self) -> list[DecisionTree]:
        # scikit-learn has no public names for its trees. These are the ones that other programs
        # use, such as sklearn-onnx.
        first, *others = (_convert_boosting(one.nodes) for (one,) in self.estimator_._predictors)
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


def _convert_boosting(nodes: Any) -> DecisionTree:
    """Return a tree of scikit-learn, which is an array with a record for each node and leaf."""
    names = ("feature_idx", "num_threshold", "gain", "left", "right", "value")
    return DecisionTree.from_nodes(nodes["is_leaf"] == 1, *(nodes[name] for name in names))


# --------------------------------------------------------------------------------------------------
# `LambdaMARTRanker`: gradient boosted trees for NDCG, by LightGBM.


MAX_LABELS = 31  #: labels 0, …, 30 for which LightGBM has a default gain, 2^label − 1
MAX_QUERY = 10_000  #: documents per query; LightGBM refuses longer queries


@dataclass(kw_only=True, eq=False, repr=False)
class LambdaMARTRanker(TreeRanker):
    """LambdaMART: gradient boosted trees whose gradients are weighted by changes of NDCG.

    Each tree is fitted to gradients that increase the score difference s_i − s_j of every pair
    (i, j) of a query with label i above label j, in proportion to

        λ_ij = σ·|ΔNDCG_ij| / (1 + exp(σ(s_i − s_j))).

    ΔNDCG_ij is the change of NDCG if i and j swapped places (Burges 2010). This class wraps
    LightGBM's `LGBMRanker` (``pip install 'linrank[baselines]'``).

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    learning_rate : float
        Shrinkage: the factor of each tree in the score.
    max_leaf_nodes : int
        Largest number of leaves of a tree.
    min_samples_leaf : int
        Smallest number of documents in a leaf.
    label_gain : sequence of float, optional
        Gains of the labels 0, 1, …. None: 2^label − 1 for labels up to 30.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores.
    random_state : int or RandomState, optional

    Attributes
    ----------
    estimator_ : LGBMRanker
    model_ : LightGBMModel
        The trees in the form that is saved: ``ranker.model_.save("model.json")``.
    n_queries_, n_features_in_ : int

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import LambdaMARTRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = LambdaMARTRanker()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    backend: ClassVar[str] = "lightgbm"  #: the package that grows the trees
    model_class = LightGBMModel

    n_estimators: int = 100
    learning_rate: float = 0.1
    max_leaf_nodes: int = 31
    min_samples_leaf: int = 20
    label_gain: Sequence[float] | None = None
    n_threads: int | None = None
    random_state: int | np.random.RandomState | None = None

    def _trees(self) -> list[DecisionTree]:
        text = self.estimator_.booster_.model_to_string()  # type: ignore[attr-defined]
        return [DecisionTree.from_content(tree, self.n_features_in_) for tree in parse_trees(text)]

    def _checked(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None,
        qid: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> RankingData:
        data = self._ranking_data(X, y, qid, sample_weight, None)
        self.n_queries_ = data.n_queries
        self._check_labels(data.restore(data.y))
        data = without_zero_weights(data)
        starts, sizes = data.query_ptr[:-1], np.diff(data.query_ptr)
        if (np.maximum.reduceat(data.y, starts) == np.minimum.reduceat(data.y, starts)).all():
            raise no_pair(data)
        if sizes.max() > MAX_QUERY:
            raise DataError(
                f"query {data.query_ids[sizes.argmax()]} has {sizes.max():,} documents; LightGBM "
                f"supports at most {MAX_QUERY:,} per query. Remove documents of this query"
            )
        return data

    def _check_labels(self, y: Vector) -> None:
        n_labels = MAX_LABELS if self.label_gain is None else len(self.label_gain)
        bad = np.flatnonzero((y != np.floor(y)) | (y < 0) | (y >= n_labels))
        if len(bad):
            where = "by default" if self.label_gain is None else "in label_gain"
            raise DataError(
                f"y[{bad[0]}] is {y[bad[0]]:g}; LambdaMARTRanker supports the labels 0, …, "
                f"{n_labels - 1}, which have a gain {where}. Number the labels from 0, and pass "
                "label_gain if there are more of them"
            )

    def _learn(self, data: RankingData, n_threads: int) -> FittedRegressor:
        gains = {} if self.label_gain is None else {"label_gain": list(self.label_gain)}
        library = lightgbm()
        model = library.LGBMRanker(
            objective="lambdarank",
            n_estimators=whole_number("n_estimators", self.n_estimators),
            learning_rate=positive_number("learning_rate", self.learning_rate),
            num_leaves=whole_number("max_leaf_nodes", self.max_leaf_nodes, least=2),
            min_child_samples=whole_number("min_samples_leaf", self.min_samples_leaf, least=0),
            random_state=self.random_state,
            n_jobs=n_threads,
            deterministic=True,  # repeated fits give identical models
            force_row_wise=True,  # by default LightGBM chooses by the timing of a trial
            verbosity=-1,
            **gains,
        )
        sizes = np.diff(data.query_ptr)
        with sentences_of(library.basic.LightGBMError):
            return model.fit(self._matrix(data.X), data.y, sample_weight=data.weight, group=sizes)


def lightgbm() -> ModuleType:
    """Import LightGBM, or raise a `DataError` that says how to install it."""
    try:
        return import_module("lightgbm")
    except ImportError:
        raise DataError(
            "LambdaMARTRanker needs LightGBM; install it: pip install 'linrank[baselines]'"
        ) from None
