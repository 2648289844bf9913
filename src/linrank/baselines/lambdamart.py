"""`LambdaMARTRanker`: LightGBM's trees for NDCG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.base import Vector
from .base import TreeRanker, without_zero_weights

MAX_LABELS = 31  #: LightGBM's own gains are 2^label − 1 for the labels 0, …, 30
MAX_QUERY = 10_000  #: documents of a query that LightGBM allows


class LambdaMARTRanker(TreeRanker):
    """LambdaMART: boosted trees on gradients that know NDCG.

    For every pair (i, j) of a query with label i above label j, the next tree moves the
    scores of i and j apart with the force

        λ_ij = σ·|ΔNDCG_ij| / (1 + exp(σ(s_i − s_j))),

    ΔNDCG_ij being what NDCG would change by if the two changed places (Burges 2010). By
    LightGBM's `LGBMRanker` (``pip install 'linrank[baselines]'``).

    Parameters
    ----------
    n_estimators : int
        The number of trees.
    learning_rate : float
    max_leaf_nodes : int
        Of each tree.
    min_samples_leaf : int
        The fewest documents of a leaf.
    label_gain : sequence of float, optional
        The gain of the labels 0, 1, …; by default 2^label − 1 for the labels up to 30.
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores.
    random_state : int or RandomState, optional

    Attributes
    ----------
    estimator_ : LGBMRanker
    n_queries_, n_features_in_ : int

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import LambdaMARTRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = LambdaMARTRanker()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 20,
        label_gain: Sequence[float] | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.label_gain = label_gain
        self.n_threads = n_threads
        self.random_state = random_state

    def _checked(self, X: Any, y: Any, qid: Any, sample_weight: Any) -> RankingData:
        data = self._ranking_data(X, y, qid, sample_weight, None)
        self.n_queries_ = data.n_queries
        self._check_labels(data.restore(data.y))
        data = without_zero_weights(data)
        starts, sizes = data.query_ptr[:-1], np.diff(data.query_ptr)
        if (np.maximum.reduceat(data.y, starts) == np.minimum.reduceat(data.y, starts)).all():
            raise DataError(
                "there is no pair to learn from: within every query all labels are equal "
                f"({data.n_queries} queries, {data.n_docs} documents)"
            )
        if sizes.max() > MAX_QUERY:
            raise DataError(
                f"query {data.query_ids[sizes.argmax()]} has {sizes.max():,} documents; LightGBM "
                f"takes at most {MAX_QUERY:,} per query"
            )
        return data

    def _check_labels(self, y: Vector) -> None:
        n_labels = MAX_LABELS if self.label_gain is None else len(self.label_gain)
        bad = np.flatnonzero((y != np.floor(y)) | (y < 0) | (y >= n_labels))
        if len(bad):
            whose = "by default" if self.label_gain is None else "in label_gain"
            raise DataError(
                f"y[{bad[0]}] is {y[bad[0]]:g}; LambdaMARTRanker takes the whole numbers 0, …, "
                f"{n_labels - 1}, which have a gain {whose}: number the levels from 0, and give "
                "label_gain where there are more of them"
            )

    def _learn(self, data: RankingData, n_threads: int) -> Any:
        gains = {} if self.label_gain is None else {"label_gain": list(self.label_gain)}
        model = _lightgbm().LGBMRanker(
            objective="lambdarank",
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            num_leaves=self.max_leaf_nodes,
            min_child_samples=self.min_samples_leaf,
            random_state=self.random_state,
            n_jobs=n_threads,
            deterministic=True,  # the same bits again
            force_row_wise=True,  # instead of what happens to be faster in a trial
            verbosity=-1,
            **gains,
        )
        sizes = np.diff(data.query_ptr)
        return model.fit(self._matrix(data.X), data.y, sample_weight=data.weight, group=sizes)


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError:
        raise DataError(
            "LambdaMARTRanker needs one more package: pip install 'linrank[baselines]'"
        ) from None
    return lightgbm
