"""`CoordinateAscent`: line searches of a metric along single features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNUSED

from .._util.checks import whole_number
from .._util.parallel import resolve_threads
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..estimators.ranker import Ranker
from ..metrics import parse_metric
from ..model import LinearModel
from ..training.refining import MetricAscent


@dataclass(kw_only=True, eq=False, repr=False)
class CoordinateAscent(Ranker):
    """Linear weights that maximise a ranking metric, one feature at a time.

    E(w) is the mean metric of the queries, ranked by w'x. A step maximises it along one feature,

        α = argmax_α E(w + α·e_k),    w ← w + α·e_k,

    with k in random order (Metzler & Croft 2007, "Linear feature-based models for information
    retrieval"). The paper and most tools try steps of fixed sizes. Here, all points at which a
    ranking changes are compared. Sweeps over the features end when one hardly improves the metric.
    The best of several ascents is kept.

    The first ascent starts from 0, and the others from random weights. To start from the weights of
    RankSVM, use `linrank.RefinedRankSVM` or the method `refine` of a ranker.

    Parameters
    ----------
    metric : str
        ``"ndcg@10"``, ``"map"``, ``"mrr"``, ``"p@5"``, ``"recall@100"`` or ``"hit-rate@5"``, with
        any cut-off.
    n_ascents : int
        The number of ascents.
    n_threads : int, optional
    random_state : int, optional
        Seed of the orders and of the starts; None is 0.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    value_ : float
        The metric on the training data. Documents that no weights can separate count in the worst
        order.
    model_ : LinearModel
        Model with the same weights, which can be saved: ``ranker.model_.save("model.json")``.
    n_iter_ : int
        The number of line searches.
    n_queries_, n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import CoordinateAscent
    >>> data = make_ranking(random_state=0)
    >>> ranker = CoordinateAscent("map", n_ascents=1).fit(data.X, data.y, qid=data.qid)
    >>> ranker.value_ > 0.8
    True
    """

    __metadata_request__fit: ClassVar = {"query_weight": True, "sample_weight": UNUSED}
    has_weights: ClassVar[bool] = True

    metric: str = field(default="ndcg@10", kw_only=False)
    n_ascents: int = 5
    n_threads: int | None = None
    random_state: int | None = None

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        *,
        query_weight: ArrayLike | None = None,
    ) -> CoordinateAscent:
        """Maximise the metric.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric accepts; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        query_weight : array of shape (n_docs,), optional
            Weight of the query of each document. All documents of a query have the same value.
        """
        metric, n_ascents = parse_metric(self.metric), whole_number("n_ascents", self.n_ascents)
        data = self._ranking_data(X, y, qid, None, query_weight)
        search = MetricAscent(data, metric, n_threads=resolve_threads(self.n_threads))
        rng = np.random.default_rng(0 if self.random_state is None else self.random_state)
        starts = [np.zeros(data.n_features)]
        starts += [rng.normal(size=data.n_features) for _ in range(n_ascents - 1)]
        tried = [search.ascend(start, rng) for start in starts]
        best = max(tried, key=lambda one: one.value)
        self.coef_, self.value_ = best.coef, best.value
        self.n_iter_, self.n_queries_ = sum(one.n_searches for one in tried), data.n_queries
        self.model_ = LinearModel(
            self.coef_,
            feature_names=data.feature_names,
            settings={"method": "CoordinateAscent"} | self.get_params(),
            training={"searches": self.n_iter_, metric.name: best.value,
                      "queries": self.n_queries_},
        )  # fmt: skip
        return self
