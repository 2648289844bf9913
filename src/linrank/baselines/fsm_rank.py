"""`FSMRank`: weights that are small for features that matter little or repeat others."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigvalsh, norm
from sklearn.utils.metadata_routing import UNUSED

from .._threads import resolve_threads
from ..data.ranking import RankingData
from ..errors import NothingSelectedWarning
from ..estimators.base import Vector
from ..solvers.base import Iterate, Solver
from ..solvers.result import Status
from .fenchel_rank import MeanLoss, SelectingRanker
from .gas import check_at_least_zero, compare_features


class FSMProblem(MeanLoss):
    """``F(w) + c'|w| + ½|w|'S|w|`` with c ≥ 0, S ≥ 0 and S positive semidefinite.

    The gradient is that of F alone.
    """

    def __init__(self, data: RankingData, n_threads: int, cost: Vector, similarity: Vector) -> None:
        super().__init__(data, n_threads)
        self.cost = cost
        self.similarity = similarity

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """The objective, and the gradient of F."""
        loss, gradient = super().value_grad(w)
        u = np.abs(w)
        return loss + float(self.cost @ u) + 0.5 * float(u @ self.similarity @ u), gradient

    def slope(self, u: Vector) -> Vector:
        """The derivative c + Su of the penalty in u = |w|."""
        return self.cost + self.similarity @ u

    def lipschitz(self) -> float:
        """That of the gradient in (w⁺, w⁻): twice the largest eigenvalue of either part.

        The Hessian of F is nowhere larger than at 0, where all pairs are active.
        """
        self.engine.value_grad(np.zeros(self.n_features))
        last = [self.n_features - 1] * 2
        return 2.0 * max(
            eigvalsh(matrix, subset_by_index=last)[0]
            for matrix in (self.engine.hessian(), self.similarity)
        )


@dataclass
class Nesterov(Solver):
    """Accelerated projected gradients in w⁺, w⁻ ≥ 0 with w = w⁺ − w⁻ (Nesterov 1983).

    The momentum begins anew whenever the objective rises (O'Donoghue & Candès 2015). Stops when
    −∇F is within `tol`·‖∇F(0)‖ of the subdifferential of the penalty.
    """

    problem: FSMProblem = field(init=False, repr=False)

    def _relative_norm(self) -> float:
        w, gradient = self.point.w, self.point.gradient
        if not self.slope_at_zero > 0:
            return 0.0
        slope = self.problem.slope(np.abs(w))
        inside = np.maximum(0.0, np.abs(gradient) - slope)
        away = np.where(w != 0, np.abs(gradient + np.sign(w) * slope), inside)
        return float(norm(away)) / self.slope_at_zero

    def _minimise(self) -> Status:
        step = 1.0 / max(self.problem.lipschitz(), np.finfo(float).tiny)
        here = ahead = np.zeros((2, self.problem.n_features))
        t = 1.0
        for _ in range(self.max_iter):
            if self._gradient_is_small():
                return Status.CONVERGED
            before, value = here, self.point.value
            here = np.maximum(0.0, ahead - step * self._gradient(ahead))
            w = here[0] - here[1]
            self.point = Iterate(w, *self.problem.value_grad(w))
            if self.point.value > value:
                t, ahead = 1.0, here
            else:
                momentum, t = t - 1.0, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
                ahead = here + momentum / t * (here - before)
            self._record()
        return Status.CONVERGED if self._gradient_is_small() else Status.MAX_ITER

    def _gradient(self, parts: Vector) -> Vector:
        """In w⁺ and w⁻."""
        _, gradient = self.problem.value_grad(parts[0] - parts[1])
        slope = self.problem.slope(parts[0] + parts[1])
        return np.stack([slope + gradient, slope - gradient])


class FSMRank(SelectingRanker):
    """FSMRank: learning and selection by importance and similarity in one convex problem.

    Minimises, over the p pairs (i, j) of documents of one query with label i above label j,

        1/p·Σ_(i,j) max(0, 1 − w'(x_i − x_j))² + λ·Σ_f (1 − v_f)·|w_f| + ½μ·Σ_(f,g) e_fg·|w_f||w_g|

    after Lai, Pan, Tang & Yu 2013 ("FSMRank: feature selection algorithm for learning to rank";
    compared with in Laporte et al. 2014), which minimises ranking errors while it selects
    features of high importance v and low similarity e, jointly and by Nesterov's accelerated
    gradient method. Importance and similarity are those of `GAS`: the metric of one feature
    alone, and the part of the pairs of documents that two features order alike.

    Choices made here, not taken from that paper:

    - Importance enters as ‖w‖₁ − v'|w|: for a given ‖w‖₁, the more of it is on important
      features, the better. It is convex because no metric is above 1, and it makes w sparse.
    - The similarity term includes f = g, where e_ff is the part of the pairs that f tells
      apart. The matrix e is positive semidefinite and nowhere negative, so the term is convex.
    - The method works on w⁺, w⁻ ≥ 0 with w = w⁺ − w⁻, where the objective is smooth: its
      steps are projected gradients, of which many end at exactly 0. Their length comes from the
      largest eigenvalue of the Hessian at w = 0, which no other w exceeds.

    Parameters
    ----------
    importance_weight : float
        λ, at least 0: the larger, the fewer features.
    similarity_weight : float
        μ, at least 0: the larger, the less weight on features that are alike.
    importance : str
        The metric of v: ``"ndcg@10"``, ``"map"``, or another that `linrank.evaluate` knows.
    tol : float
        ε of the stopping rule: −∇F is within ε‖∇F(0)‖ of the penalty's subdifferential.
    max_iter : int
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    importances_ : float64 array of shape (n_features,)
        v.
    similarities_ : float64 array of shape (n_features, n_features)
        e.
    result_ : Result
        Status, objective, history, and a sentence on how it went.
    model_ : LinearModel
        The same weights in the form that is saved: ``ranker.model_.save("model.json")``.
    n_selected_ : int
        The number of weights that are not 0; ``get_support()`` says which.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> from linrank.baselines import FSMRank
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = FSMRank(importance_weight=0.1)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.n_selected_ < data.n_features
    True
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED, "query_weight": UNUSED}

    def __init__(
        self,
        importance_weight: float = 0.01,
        *,
        similarity_weight: float = 0.01,
        importance: str = "ndcg@10",
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_threads: int | None = None,
    ) -> None:
        self.importance_weight = importance_weight
        self.similarity_weight = similarity_weight
        self.importance = importance
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads

    def fit(self, X: Any, y: Any, qid: Any = None) -> FSMRank:
        """Compare the features and learn the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric takes; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        """
        check_at_least_zero("importance_weight", self.importance_weight)
        check_at_least_zero("similarity_weight", self.similarity_weight)
        solver = Nesterov(tol=self.tol, max_iter=self.max_iter)
        data = self._ranking_data(X, y, qid, None, None)
        n_threads = resolve_threads(self.n_threads)
        self.importances_, _, self.similarities_ = compare_features(
            data, self.importance, n_threads
        )
        cost = self.importance_weight * (1.0 - self.importances_)
        problem = FSMProblem(data, n_threads, cost, self.similarity_weight * self.similarities_)
        self._store(solver.solve(problem), data, problem.engine.n_pairs)
        if self.n_selected_ == 0:
            self._warn_of_nothing(problem)
        return self

    def _warn_of_nothing(self, problem: FSMProblem) -> None:
        _, gradient = problem.engine.value_grad(np.zeros(problem.n_features))
        room = 1.0 - self.importances_
        limits = np.divide(np.abs(gradient), room, out=np.zeros_like(room), where=room > 0)
        warnings.warn(
            f"no feature is selected at importance_weight = {self.importance_weight:g}: it must be "
            f"below {limits.max():.6g}",
            NothingSelectedWarning,
            stacklevel=3,
        )
