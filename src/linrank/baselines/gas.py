"""`GAS`: greedy selection of features with high importance and low similarity."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._compile.jit import njit
from .._util.checks import positive_number, whole_number
from .._util.parallel import resolve_threads, run, split
from .._util.types import Integers, Mask, Vector
from ..counting.trees import insert_in_fenwick, smaller_in_fenwick
from ..data.matching import matched
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..errors import DataError
from ..estimators.ranker import check_arguments, checked_features
from ..metrics import Metric, evaluate, parse_metric
from ..problem import make_problem
from ..solvers.newton import Newton
from .baseline import non_negative_number
from .fenchel_rank import SelectingRanker

MAX_FEATURES = 4096  #: features; more would need too much time and memory for all pairs


@dataclass(kw_only=True, eq=False, repr=False)
class GAS(SelectorMixin, BaseEstimator):
    """GAS: greedy search for features of high importance and low similarity.

    The search selects k features (x_j = 1 if feature j is selected) to maximise

        Σ_j v_j x_j − c·Σ_i Σ_(j≠i) e_ij x_i x_j

    (Geng, Liu, Qin & Li 2007, "Feature selection for ranking", §3.3). It repeats k times: pick
    the feature i with the largest v_i, and subtract 2c·e_ij from the v_j of the other features.

    The importance v_j is the metric if documents are ranked by feature j only, by increasing or
    decreasing value, whichever is better. The similarity e_ij is the paper's Kendall's τ: the
    share of the pairs of documents of a query that i and j order in the same way, each feature
    in its better direction, averaged over the queries,

        e_ij = mean_q #{pairs of q that i and j order in the same way} / #{pairs of q}.

    Details that the paper leaves open:

    - A feature does not order documents that have the same value of it. For v_j, these are
      handled as in `linrank.evaluate`.
    - A query with one document is left out of the similarities.
    - Among features with equal v, the first is picked.

    The time is O(d²·l log l) for l documents with d features.

    Parameters
    ----------
    n_features_to_select : int, optional
        Number of features k. None: half of the features, rounded up.
    importance : str
        Metric of v: ``"ndcg@10"``, ``"map"``, or another that `linrank.evaluate` accepts.
    c : float
        Weight of the similarities, at least 0.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores.

    Attributes
    ----------
    ranking_ : int64 array of shape (n_features,)
        Order in which the features are picked if all are picked; 1 is the first. A larger
        `n_features_to_select` therefore only adds features.
    importances_ : float64 array of shape (n_features,)
        Importances v.
    similarities_ : float64 array of shape (n_features, n_features)
        Similarities e. The diagonal holds the share of the pairs whose documents differ in the
        feature.
    directions_ : float64 array of shape (n_features,)
        −1 if small values of the feature are better, otherwise 1.
    n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    The second feature orders the documents like the first. The third is less important, but
    not similar to the first.

    >>> from linrank.baselines import GAS
    >>> X = [[3.0, 9.0, 0.0], [2.0, 4.0, 2.0], [1.0, 1.0, 1.0]]
    >>> GAS(2, importance="map", c=0.2).fit(X, [1, 1, 0]).get_support().tolist()
    [True, False, True]
    >>> GAS(2, importance="map", c=0.0).fit(X, [1, 1, 0]).get_support().tolist()
    [True, True, False]
    """

    # With scikit-learn's metadata routing, `qid` is passed on without a `set_fit_request`.
    __metadata_request__fit: ClassVar = {"qid": True}

    n_features_to_select: int | None = field(default=None, kw_only=False)
    importance: str = "ndcg@10"
    c: float = 0.01
    n_threads: int | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike | Matrix, y: ArrayLike, qid: ArrayLike | None = None) -> GAS:
        """Compute importances and similarities of the features, and rank the features.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric accepts; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        """
        check_arguments(X, y, qid)
        X = checked_features(self, X, order="C", ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        c, k, d = non_negative_number("c", self.c), self.n_features_to_select, X.shape[1]
        k = (d + 1) // 2 if k is None else whole_number("n_features_to_select", k, most=d)
        n_threads = resolve_threads(self.n_threads)
        data = RankingData(X, y, qid, n_threads=n_threads)
        found = compare_features(data, self.importance, n_threads)
        self.importances_, self.directions_, self.similarities_ = found
        self.ranking_ = _greedy_ranking(self.importances_, self.similarities_, c)
        self.n_features_to_select_ = k
        return self

    def transform(self, X: ArrayLike | Matrix) -> Matrix:
        """Return the columns of X that were picked.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features)
            If `fit` got a frame, the columns of a frame are matched by name.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        names = None if names is None else list(names)
        return super().transform(matched(X, names, self.n_features_in_, model=type(self).__name__))

    def _get_support_mask(self) -> Mask:
        check_is_fitted(self)
        return self.ranking_ <= self.n_features_to_select_


def _greedy_ranking(importances: Vector, similarities: Vector, c: float) -> Integers:
    value, ranking = importances.copy(), np.empty(len(importances), np.int64)
    for place in range(1, len(value) + 1):
        best = int(np.argmax(value))
        ranking[best] = place
        value -= 2.0 * c * similarities[best]
        value[best] = -np.inf
    return ranking


class FeatureComparison(NamedTuple):
    """Importances, better directions and similarities of all features; `GAS` defines them."""

    importances: Vector
    directions: Vector
    similarities: Vector


def compare_features(data: RankingData, metric: str, n_threads: int) -> FeatureComparison:
    """Compute the importances and the similarities of all features."""
    wanted = parse_metric(metric)
    if data.n_features > MAX_FEATURES:
        raise DataError(
            f"X has {data.n_features:,} features; all pairs of features are compared, which is "
            f"supported for at most {MAX_FEATURES:,} features. Remove features first"
        )
    columns = _columns(data.X)
    up, down = (
        np.array([_performance(data, sign * x, wanted, n_threads) for x in columns])
        for sign in (1.0, -1.0)
    )
    importances, directions = np.maximum(up, down), np.where(up >= down, 1.0, -1.0)
    if not np.isfinite(importances).all():
        raise DataError(
            f"importance is {wanted.name!r}, which is undefined for all of the queries "
            f"({data.n_queries}); check their labels, or choose another metric"
        )
    columns *= directions[:, None]
    similarities = concordances(columns, data.query_ptr, n_threads)
    return FeatureComparison(importances, directions, similarities)


def _performance(data: RankingData, scores: Vector, metric: Metric, n_threads: int) -> float:
    """Return the mean of a metric, or 1 − the mean of an error."""
    found = evaluate(
        data.y, scores, None, metric, query_ptr=data.query_ptr, n_threads=n_threads
    ).mean[metric.name]
    return found if metric.greater_is_better else 1.0 - found


def _columns(X: Matrix) -> Vector:
    """Return a dense copy of X with one row per feature."""
    X = X.toarray() if sparse.issparse(X) else X
    return np.array(X.T, dtype=np.float64, order="C")


def concordances(columns: Vector, query_ptr: Integers, n_threads: int = 1) -> Vector:
    """Compute the share of the pairs of documents that two features order in the same way.

    The shares are averaged over the queries. The matrix is a mean of products of 0-1 vectors with
    one entry for each ordered pair of documents, so it is positive semidefinite.

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
    query: Integers,
    query_ptr: Integers,
    order: NDArray[np.int32],
    level: NDArray[np.int32],
) -> None:
    """Write the documents of each query by increasing x, and the level of each document.

    The level is the number of distinct smaller values of x in the query.
    """
    order[:] = np.lexsort((x, query))
    new = np.ones(len(x), bool)
    np.not_equal(x[order[1:]], x[order[:-1]], out=new[1:])
    new[query_ptr[:-1]] = True
    count = np.cumsum(new)
    level[order] = count - count[query_ptr[:-1]][query]


@njit(allocates=True)
def _add_concordances(order, level, query_ptr, q0, q1, total):  # type: ignore[no-untyped-def]
    """Add the concordances of the queries q0, …, q1 − 1 to the upper triangle of `total`."""
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
    """Count the pairs in which both levels of one document exceed those of the other.

    `docs` are the documents sorted by level_i.
    """
    sums[:] = 0.0
    alike = 0.0
    waiting = 0  # first document with the current level_i; it is not in the tree yet
    for p in range(len(docs)):
        if level_i[docs[p]] != level_i[docs[waiting]]:
            for r in range(waiting, p):
                insert_in_fenwick(sums, level_j[docs[r]], 1.0)
            waiting = p
        alike += smaller_in_fenwick(sums, level_j[docs[p]])
    return alike


# --------------------------------------------------------------------------------------------------
# `GASRanker`: RankSVM on the features that GAS selects.


@dataclass(kw_only=True, eq=False, repr=False)
class GASRanker(SelectingRanker):
    """RankSVM on the features that `GAS` selects (Geng, Liu, Qin & Li 2007).

    The weights minimise ½‖w‖² + C·Σ_(i,j) max(0, 1 − w'(x_i − x_j))² over the pairs (i, j) of
    documents of one query with label i above label j, where w_f = 0 for the features f that are not
    selected. ``make_pipeline(GAS(k), RankSVM(C))`` gives the same scores. This ranker has weights
    for all features, so that its model can be saved.

    Parameters
    ----------
    n_features_to_select : int, optional
        Number of features k. None: half of the features, rounded up.
    C : float
        Weight of the loss.
    importance : str
        Metric of a feature: ``"ndcg@10"``, ``"map"``, or another that `linrank.evaluate` accepts.
    c : float
        Weight of the similarities in the selection, at least 0.
    tol : float
        Tolerance of `linrank.solvers.Newton`.
    max_iter : int
        Largest number of Newton steps.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    selector_ : GAS
        The fitted selection, with importances and similarities.
    result_ : Result
        Status, objective, history, and a message.
    model_ : LinearModel
        Model with the same weights, which can be saved: ``ranker.model_.save("model.json")``.
    n_selected_ : int
        Number of nonzero weights; ``get_support()`` is their mask.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Column names of X, if it had any.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import GASRanker
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = GASRanker(10, C=0.01)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.n_selected_
    10
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.75
    True
    """

    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED, "query_weight": UNUSED}

    n_features_to_select: int | None = field(default=None, kw_only=False)
    C: float = 1.0
    importance: str = "ndcg@10"
    c: float = 0.01
    tol: float = 1e-3
    max_iter: int = 1000
    n_threads: int | None = None

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
    ) -> GASRanker:
        """Select features, and fit their weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric accepts; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        """
        C, solver = positive_number("C", self.C), Newton(tol=self.tol, max_iter=self.max_iter)
        data = self._ranking_data(X, y, qid, None, None)
        self.selector_ = GAS(
            self.n_features_to_select, importance=self.importance, c=self.c,
            n_threads=self.n_threads,
        ).fit(data.X, data.y, data.qid)  # fmt: skip
        chosen = self.selector_.get_support(indices=True)
        part = data.replace(X=data.X[:, chosen], feature_names=None)
        problem = make_problem(part, C, n_threads=resolve_threads(self.n_threads))
        result = solver.solve(problem)
        coef = np.zeros(data.n_features)
        coef[chosen] = result.coef
        self._store(replace(result, coef=coef), data, problem.engine.n_pairs)
        return self
