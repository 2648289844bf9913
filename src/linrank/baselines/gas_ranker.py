"""`GASRanker`: RankSVM on the features that GAS selects."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import UNUSED

from .._checks import positive_number
from .._threads import resolve_threads
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..problem import make_problem
from ..solvers.newton import Newton
from .fenchel_rank import SelectingRanker
from .gas import GAS


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

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        C: float = 1.0,
        importance: str = "ndcg@10",
        c: float = 0.01,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_threads: int | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.C = C
        self.importance = importance
        self.c = c
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads

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
