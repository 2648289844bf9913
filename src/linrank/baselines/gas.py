"""`GAS`: features that matter and are not alike, chosen one by one before any learning."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._jit import njit
from .._threads import resolve_threads, run, split
from ..counting.fenwick import insert, smaller
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..errors import DataError
from ..estimators.base import DTYPES, Vector
from ..metrics import evaluate, parse_metric

MAX_FEATURES = 4096  #: most features of which all pairs are compared


class GAS(SelectorMixin, BaseEstimator):
    """GAS: greedy search for features of high importance and low similarity.

    Chooses k features, x_j = 1 for those, to maximise

        Σ_j v_j x_j − c·Σ_i Σ_(j≠i) e_ij x_i x_j

    (Geng, Liu, Qin & Li 2007, "Feature selection for ranking", §3.3) greedily: k times, the
    feature i with the largest v_i is picked, and 2c·e_ij taken from the v_j of each one left.

    The importance v_j is the metric of ranking the documents by feature j alone, by increasing
    or decreasing value, whichever is better. The similarity e_ij is Kendall's τ as there: the
    part of the pairs of documents of a query that i and j both put in the same order, each
    feature in its better direction, averaged over the queries,

        e_ij = mean_q #{pairs of q that i and j order alike} / #{pairs of q}.

    Where the paper leaves it open: documents that a feature does not tell apart are ordered
    by it in no way (and count as in `linrank.evaluate` for v_j); a query with one document is
    left out; of features with equal v, the first is picked.

    Costs O(d²·l log l) for l documents with d features.

    Parameters
    ----------
    n_features_to_select : int, optional
        k; by default half of the features, rounded up.
    importance : str
        The metric of v: ``"ndcg@10"``, ``"map"``, or another that `linrank.evaluate` knows.
    c : float
        The weight of the similarities.
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores.

    Attributes
    ----------
    ranking_ : int64 array of shape (n_features,)
        When each feature is picked, 1 for the first, if the search goes on to the last: a
        larger `n_features_to_select` adds features, and never takes any away.
    importances_ : float64 array of shape (n_features,)
        v.
    similarities_ : float64 array of shape (n_features, n_features)
        e; on the diagonal, the part of the pairs that a feature tells apart.
    directions_ : float64 array of shape (n_features,)
        −1 for the features of which small values are the better ones, else 1.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    The second feature repeats the first; the third is not as good, but new.

    >>> from linrank.baselines import GAS
    >>> X = [[3.0, 9.0, 0.0], [2.0, 4.0, 2.0], [1.0, 1.0, 1.0]]
    >>> GAS(2, importance="map", c=0.2).fit(X, [1, 1, 0]).get_support().tolist()
    [True, False, True]
    >>> GAS(2, importance="map", c=0.0).fit(X, [1, 1, 0]).get_support().tolist()
    [True, True, False]
    """

    # Queries travel with the rows: with metadata routing on, no `set_fit_request` is needed.
    __metadata_request__fit: ClassVar = {"qid": True}

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        importance: str = "ndcg@10",
        c: float = 0.01,
        n_threads: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.importance = importance
        self.c = c
        self.n_threads = n_threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, qid: Any = None) -> GAS:
        """Compare the features and put them in order.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric takes; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        """
        X, y = validate_data(
            self, X, y, dtype=DTYPES, order="C", accept_sparse="csr",
            ensure_all_finite=False, ensure_min_samples=2, y_numeric=True,
        )  # fmt: skip
        check_at_least_zero("c", self.c)
        k, d = self.n_features_to_select, X.shape[1]
        k = (d + 1) // 2 if k is None else k
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 1 <= k <= d:
            raise DataError(
                f"n_features_to_select is {k!r}; expected a whole number from 1 to {d}, the number "
                "of features, or None"
            )
        data = RankingData(X, y, qid, n_threads=resolve_threads(self.n_threads))
        self.importances_, self.directions_, self.similarities_ = compare_features(
            data, self.importance, resolve_threads(self.n_threads)
        )
        self.ranking_ = _greedy_ranking(self.importances_, self.similarities_, self.c)
        self.n_features_to_select_ = int(k)
        return self

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.ranking_ <= self.n_features_to_select_


def _greedy_ranking(importances: Vector, similarities: Vector, c: float) -> NDArray[np.int64]:
    value, ranking = importances.copy(), np.empty(len(importances), np.int64)
    for place in range(1, len(value) + 1):
        best = int(np.argmax(value))
        ranking[best] = place
        value -= 2.0 * c * similarities[best]
        value[best] = -np.inf
    return ranking


def check_at_least_zero(name: str, value: Any) -> None:
    """Refuse what is not a finite number of at least 0."""
    if not isinstance(value, float | int | np.number) or not 0 <= value < np.inf:
        raise DataError(f"{name} is {value!r}; expected a finite number of at least 0")


def compare_features(
    data: RankingData, metric: str, n_threads: int
) -> tuple[Vector, Vector, Vector]:
    """The importance and the better direction of each feature, and the similarities of all.

    See `GAS` for what they are.
    """
    wanted = parse_metric(metric)
    if data.n_features > MAX_FEATURES:
        raise DataError(
            f"X has {data.n_features:,} features; all pairs of features are compared here, of at "
            f"most {MAX_FEATURES:,} features"
        )
    columns = _columns(data.X)
    importances, directions = np.empty(data.n_features), np.ones(data.n_features)
    for j, x in enumerate(columns):
        up, down = (
            evaluate(
                data.y, scores, None, wanted, query_ptr=data.query_ptr, n_threads=n_threads
            ).mean[wanted.name]
            for scores in (x, -x)
        )
        if not wanted.greater_is_better:
            up, down = 1.0 - up, 1.0 - down
        importances[j] = max(up, down)
        directions[j] = 1.0 if up >= down else -1.0
    if not np.isfinite(importances).all():
        raise DataError(
            f"importance is {wanted.name!r}, which is undefined for all of the queries "
            f"({data.n_queries}): their labels tell nothing about the features"
        )
    columns *= directions[:, None]
    return importances, directions, concordances(columns, data.query_ptr, n_threads)


def _columns(X: Matrix) -> Vector:
    """A copy of X, feature by feature."""
    X = X.toarray() if sparse.issparse(X) else X
    return np.array(X.T, dtype=np.float64, order="C")


def concordances(columns: Vector, query_ptr: NDArray[np.int64], n_threads: int = 1) -> Vector:
    """The part of the pairs of documents that two features order alike, averaged over queries.

    It is the mean of products of 0-1 vectors, one entry for each ordered pair of documents: so
    the matrix is positive semidefinite.

    Examples
    --------
    >>> columns = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [5.0, 5.0, 6.0]])
    >>> concordances(columns, np.array([0, 3])) * 3
    array([[3., 2., 2.],
           [2., 3., 1.],
           [2., 1., 2.]])
    """
    query = np.repeat(np.arange(len(query_ptr) - 1), np.diff(query_ptr))
    order, level = np.empty((2, *columns.shape), np.int32)
    for j, x in enumerate(columns):
        _order_feature(x, query, query_ptr, order[j], level[j])
    chunks = split(query_ptr, n_threads)
    totals = [np.zeros((len(columns),) * 2) for _ in chunks]
    tasks = [(order, level, query_ptr, a, b, t) for (a, b), t in zip(chunks, totals, strict=True)]
    run(_add_concordances, tasks, n_threads)
    total = np.sum(totals, axis=0) / max(1, np.count_nonzero(np.diff(query_ptr) > 1))
    return np.triu(total) + np.triu(total, 1).T


def _order_feature(
    x: Vector,
    query: NDArray[np.int64],
    query_ptr: NDArray[np.int64],
    order: NDArray[np.int32],
    level: NDArray[np.int32],
) -> None:
    """Each query's documents by increasing x, and how many values in it are below each one's."""
    order[:] = np.lexsort((x, query))
    new = np.ones(len(x), bool)
    np.not_equal(x[order[1:]], x[order[:-1]], out=new[1:])
    new[query_ptr[:-1]] = True
    count = np.cumsum(new)
    level[order] = count - count[query_ptr[:-1]][query]


@njit(allocates=True)
def _add_concordances(order, level, query_ptr, q0, q1, total):  # type: ignore[no-untyped-def]
    """Add the concordances of the queries q0, …, q1 − 1 to the upper half of ``total``."""
    d = len(order)
    sums = np.empty(np.max(np.diff(query_ptr[q0 : q1 + 1])) + 1)
    for q in range(q0, q1):
        first, last = query_ptr[q], query_ptr[q + 1]
        n = last - first
        for i in range(d):
            docs = order[i, first:last]
            for j in range(i, d):
                alike = _count_alike(docs, level[i], level[j], sums[: n + 1])
                total[i, j] += alike / max(1.0, 0.5 * n * (n - 1))


@njit(inner=True)
def _count_alike(docs, level_i, level_j, sums):  # type: ignore[no-untyped-def]
    """The pairs with both levels of one document above those of the other; docs by level_i."""
    sums[:] = 0.0
    alike = 0.0
    waiting = 0  # documents from here on have the same level_i and are not in the tree yet
    for p in range(len(docs)):
        if level_i[docs[p]] != level_i[docs[waiting]]:
            for r in range(waiting, p):
                insert(sums, level_j[docs[r]], 1.0)
            waiting = p
        alike += smaller(sums, level_j[docs[p]])
    return alike
