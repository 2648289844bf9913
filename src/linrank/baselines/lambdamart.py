"""`LambdaMARTRanker`: gradient boosted trees for NDCG, by LightGBM."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._checks import positive_number, whole_number
from .._typing import Vector
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..errors import DataError
from ..problem import no_pair
from .base import FittedRegressor, TreeRanker, sentences_of, without_zero_weights
from .trees import LightGBMModel, Tree, parse_trees

MAX_LABELS = 31  #: labels 0, …, 30 for which LightGBM has a default gain, 2^label − 1
MAX_QUERY = 10_000  #: documents per query; LightGBM refuses longer queries


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

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        label_gain: Sequence[float] | None = None,
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.label_gain = label_gain
        self.n_threads = n_threads
        self.random_state = random_state

    def _trees(self) -> list[Tree]:
        text = self.estimator_.booster_.model_to_string()  # type: ignore[attr-defined]
        return [Tree.from_content(tree, self.n_features_in_) for tree in parse_trees(text)]

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
