"""Cross-validation over whole queries, and scorers for scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.model_selection import GroupKFold, PredefinedSplit
from sklearn.utils.metadata_routing import MetadataRequest

from .._util.types import Integers
from ..choices import FlavourName
from ..data.ranking import rank_by_content, row_keys
from ..data.validation import Matrix, check_matrix, group_by_query
from ..errors import DataError
from ..metrics import evaluate, parse_metric
from ..training.selection import equal_folds
from .ranker import Ranker, check_qid

# --------------------------------------------------------------------------------------------------
# Cross-validation over whole queries.


class QueryKFold(GroupKFold):
    """K folds that never split a query.

    With scikit-learn's metadata routing,
    ``cross_validate(ranker, X, y, cv=QueryKFold(5), params={"qid": qid})`` passes `qid` to the
    ranker and to the folds. Without routing, pass ``groups=qid``. The fold of a query depends
    on its size and content, not on the order of rows or the type of the ids.

    Parameters
    ----------
    n_splits : int
        The number of folds.
    shuffle : bool
        Whether queries are assigned to folds at random. Otherwise folds have similar sizes.
    random_state : int, optional
        The seed, if `shuffle` is True.

    Examples
    --------
    >>> import numpy as np
    >>> qid = np.array(["a", "b", "a", "c"])
    >>> for train, test in QueryKFold(3).split(np.arange(4.0)[:, None], groups=qid):
    ...     print(sorted(set(qid[test].tolist())))
    ['a']
    ['c']
    ['b']
    """

    __metadata_request__split: ClassVar = {"groups": "qid"}

    def split(
        self, X: Matrix, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[Integers, Integers]]:
        """Return pairs of row numbers: rows to train on, and rows to test on.

        Parameters
        ----------
        X : array, frame or sparse matrix with n_docs rows
            Numbers decide which queries share a fold, so that the order of the rows does not.
            Other columns are accepted, and the order of the queries then decides.
        y : ignored
        groups : array of shape (n_docs,)
            The query of each row: any type, in any order.

        Returns
        -------
        iterator of (train, test)
            Two integer arrays for each fold.
        """
        if groups is None:
            raise DataError("QueryKFold needs the queries. Pass qid, or groups=qid.")
        n_docs = X.shape[0] if hasattr(X, "shape") else len(X)
        query_ptr, _, order = group_by_query(groups, n_docs)
        rows = np.arange(n_docs) if order is None else order
        try:
            contents = row_keys(check_matrix(X))
        except DataError:  # text, missing values, or no features: the order of the queries decides
            contents = np.zeros(n_docs)
        keys = np.add.reduceat(contents[rows], query_ptr[:-1])
        codes = np.empty(n_docs, np.int64)
        codes[rows] = np.repeat(rank_by_content(keys), np.diff(query_ptr))
        if self.shuffle or self.n_splits > len(keys):  # scikit-learn refuses too many folds
            return super().split(X, y, codes)
        return PredefinedSplit(equal_folds(codes, self.n_splits)).split()


# --------------------------------------------------------------------------------------------------
# Scorers for scikit-learn's `cross_validate` and `GridSearchCV`, which use the queries.


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
