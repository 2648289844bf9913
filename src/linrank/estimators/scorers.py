"""Scorers for scikit-learn's `cross_validate` and `GridSearchCV`, which use the queries."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.utils.metadata_routing import MetadataRequest

from ..data.checks import Matrix
from ..metrics import evaluate, parse_metric
from ..metrics.names import FlavourName
from .base import Ranker, check_qid


class RankingScorer:
    """A scorer of scikit-learn that measures a ranking metric; see `make_ranking_scorer`."""

    def __init__(self, metric: str, flavour: FlavourName) -> None:
        self.metric = parse_metric(metric)
        self.flavour = flavour

    def __call__(
        self, estimator: Any, X: Matrix, y: ArrayLike, qid: ArrayLike | None = None
    ) -> float:
        """Return the mean of the metric over the queries; errors are negated."""
        ranker = estimator[-1] if hasattr(estimator, "steps") else estimator
        check_qid(ranker, qid, "score")
        # A pipeline passes qid on if metadata routing is enabled, and else refuses it.
        routed = isinstance(ranker, Ranker) and get_config()["enable_metadata_routing"]
        by_query = isinstance(estimator, Ranker) or (routed and qid is not None)
        scores = estimator.predict(X, qid=qid) if by_query else estimator.predict(X)
        found = evaluate(y, scores, qid, self.metric, flavour=self.flavour)
        value = found.mean[self.metric.name]
        return value if self.metric.greater_is_better else -value

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the request of scikit-learn's metadata routing: scores need `qid`."""
        request = MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="qid", alias=True)
        return request

    def __repr__(self) -> str:
        return f"make_ranking_scorer({self.metric.name!r}, flavour={self.flavour!r})"


def make_ranking_scorer(
    metric: str = "ndcg@10", *, flavour: FlavourName = "standard"
) -> RankingScorer:
    """Make a scorer for ``scoring=`` of scikit-learn's `cross_validate` and `GridSearchCV`.

    With metadata routing, the scorer gets the `qid` of the held-out rows. A larger score is better,
    so errors such as ``"all-pairs-error"`` are negated.

    Parameters
    ----------
    metric : str
        ``"ndcg@10"``, ``"map"``, ``"p(rel=2)@5"``, …; see `linrank.parse_metric`.
    flavour : str
        The conventions of the metric; see `linrank.evaluate`.

    Returns
    -------
    callable
        A function of (ranker, X, y, qid), which returns a number.

    Examples
    --------
    >>> import sklearn
    >>> from linrank import QueryKFold, RankSVM, make_ranking, make_ranking_scorer
    >>> from sklearn.model_selection import cross_validate
    >>> data = make_ranking(random_state=0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     found = cross_validate(
    ...         RankSVM(), data.X, data.y, params={"qid": data.qid}, cv=QueryKFold(3),
    ...         scoring={"map": make_ranking_scorer("map"), "p@5": make_ranking_scorer("p@5")},
    ...     )
    >>> len(found["test_map"]), len(found["test_p@5"])
    (3, 3)
    """
    return RankingScorer(metric, flavour)
