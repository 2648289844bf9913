"""`FSMRank`: sparse weights that favour important features and penalise similar ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh, lstsq, norm
from sklearn.utils.metadata_routing import UNUSED

from .._util.checks import choice
from .._util.parallel import resolve_threads
from .._util.types import Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..solvers.result import Status
from ..solvers.solver import BARRIER_COST, Iterate, Solver
from ..training.selection import NO_USEFUL_FEATURE
from .baseline import non_negative_number
from .fenchel_rank import MeanLoss, SelectingRanker
from .gas import compare_features

CostName = Literal["difference", "ratio"]
ROUNDING = 1e-12  #: slope of a feature, relative to its largest value, that may come from rounding


class FSMProblem(MeanLoss):
    """The objective F(w) + c'|w| + ½|w|'S|w| with c ≥ 0, S ≥ 0 and S positive semidefinite.

    The gradient is that of F only.
    """

    def __init__(self, data: RankingData, n_threads: int, cost: Vector, similarity: Vector) -> None:
        super().__init__(data, n_threads)
        self.cost = cost
        self.similarity = similarity

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Return the objective at w, and the gradient of F."""
        loss, gradient = super().value_grad(w)
        u = np.abs(w)
        return loss + float(self.cost @ u) + 0.5 * float(u @ self.similarity @ u), gradient

    def slope(self, u: Vector) -> Vector:
        """Return c + Su, the derivative of the penalty in u = |w|."""
        return self.cost + self.similarity @ u

    def lipschitz(self) -> float:
        """Return a Lipschitz constant of the gradient in (w⁺, w⁻).

        It is twice the largest eigenvalue of the Hessian of F at 0 or of S. The Hessian of F is
        largest at 0, where all pairs are active.
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

    The momentum is reset whenever the objective increases (O'Donoghue & Candès 2015). The solver
    stops when −∇F is within `tol`·‖∇F(0)‖ of the subdifferential of the penalty.
    """

    problem: FSMProblem = field(init=False, repr=False)

    def _relative_norm(self) -> float:
        return float(norm(self._pull())) / self.slope_at_zero if self.slope_at_zero > 0 else 0.0

    def _pull(self) -> Vector:
        """Return the subgradient of the objective with the smallest norm."""
        w, gradient = self.point.w, self.point.gradient
        slope = self.problem.slope(np.abs(w))
        inside = np.sign(gradient) * np.maximum(0.0, np.abs(gradient) - slope)
        return np.where(w != 0, gradient + np.sign(w) * slope, inside)

    def _allowed(self) -> float:
        return self.tol * self.value_at_zero

    def _excess(self, goal: float) -> float:
        """Estimate the distance to the optimum by the Newton decrement of the moving features.

        Weights may change their sign in this estimate, which makes it larger.
        """
        w, pull, problem = self.point.w, self._pull(), self.problem
        moves = np.flatnonzero(pull)
        if not len(moves):
            return 0.0
        problem.value_grad(w)  # The Hessian refers to the last evaluated point.
        sign = np.where(w != 0, np.sign(w), -np.sign(pull))
        signed_hessian = problem.engine.hessian() + sign[:, None] * problem.similarity * sign
        step = lstsq(signed_hessian[np.ix_(moves, moves)], -pull[moves])[0]
        return -0.5 * float(pull[moves] @ step)

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
        """Return the gradient with respect to w⁺ and w⁻."""
        _, gradient = self.problem.value_grad(parts[0] - parts[1])
        slope = self.problem.slope(parts[0] + parts[1])
        return np.stack([slope + gradient, slope - gradient])


@dataclass(kw_only=True, eq=False, repr=False)
class FSMRank(SelectingRanker):
    """FSMRank: sparse weights by importance and similarity of features, as one convex problem.

    The objective, over the p pairs (i, j) of documents of one query with label i above label j, is

        1/p·Σ_(i,j) max(0, 1 − w'(x_i − x_j))² + λ·Σ_f c_f·|w_f| + ½μ·Σ_(f,g) e_fg·|w_f||w_g|

    after Lai, Pan, Tang & Yu 2013 ("FSMRank: feature selection algorithm for learning to rank",
    doi 10.1109/TNNLS.2013.2247628; a baseline in Laporte et al. 2014). Importance and similarity
    are those of `GAS`: the metric of a single feature, and the share of the pairs of documents that
    two features order in the same way.

    Only the abstract of the paper was available. It names a joint convex problem that minimises
    ranking errors and selects features, with any measures of importance v and similarity e, and
    Nesterov's accelerated gradient method with the rate O(1/T²). It has no formula. Neither the
    text nor the authors' program could be found. Choices of this implementation:

    - The costs are c_f = 1 − v_f or c_f = 1/v_f. Both favour important features, are never
      negative because metrics are at most 1, and make w sparse. 1/v_f is infinite at v_f = 0:
      such a feature is not selected, unless λ = 0.
    - The similarity term includes f = g, where e_ff is the share of the pairs whose documents
      differ in f. The matrix e is positive semidefinite with entries ≥ 0, so the term is convex.
    - The solver works on w⁺, w⁻ ≥ 0 with w = w⁺ − w⁻, for which the objective is smooth. Its
      steps are projected gradient steps, which set many weights to exactly 0. The step length
      is derived from the largest eigenvalue of the Hessian at w = 0, where it is largest.

    Parameters
    ----------
    importance_weight : float
        Weight λ ≥ 0. A larger λ selects fewer features.
    similarity_weight : float
        Weight μ ≥ 0. A larger μ gives similar features less weight.
    importance : str
        Metric of v: ``"ndcg@10"``, ``"map"``, or another that `linrank.evaluate` accepts.
    tol : float
        Tolerance ε of the stopping rule: −∇F is within ε‖∇F(0)‖ of the subdifferential of the
        penalty.
    max_iter : int
        Largest number of iterations.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores.
    cost : {"difference", "ratio"}
        Costs of the features: c_f = 1 − v_f or c_f = 1/v_f. Equal values of λ are stronger with
        ``"ratio"``.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    importances_ : float64 array of shape (n_features,)
        Importances v.
    similarities_ : float64 array of shape (n_features, n_features)
        Similarities e.
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
    >>> from linrank.baselines import FSMRank
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = FSMRank(importance_weight=0.1)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.n_selected_ < data.n_features
    True
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED, "query_weight": UNUSED}

    importance_weight: float = field(default=0.01, kw_only=False)
    similarity_weight: float = 0.01
    importance: str = "ndcg@10"
    tol: float = 1e-3
    max_iter: int = 1000
    n_threads: int | None = None
    cost: CostName = "difference"

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
    ) -> FSMRank:
        """Compute importances and similarities of the features, and fit the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels that the metric accepts; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        """
        non_negative_number("importance_weight", self.importance_weight)
        non_negative_number("similarity_weight", self.similarity_weight)
        choice("cost", self.cost, get_args(CostName))
        solver = Nesterov(tol=self.tol, max_iter=self.max_iter)
        data = self._ranking_data(X, y, qid, None, None)
        n_threads = resolve_threads(self.n_threads)
        self.importances_, _, self.similarities_ = compare_features(
            data, self.importance, n_threads
        )
        problem = FSMProblem(
            data,
            n_threads,
            self.importance_weight * self._costs(),
            self.similarity_weight * self.similarities_,
        )
        n_pairs = problem.engine.n_pairs
        self._store(solver.solve(problem), data, n_pairs, lambda: self._no_feature(problem, data))
        return self

    def _costs(self) -> Vector:
        """Return the cost c of each feature."""
        v = self.importances_
        if self.cost == "difference":
            return 1.0 - v
        return np.divide(1.0, v, out=np.full_like(v, BARRIER_COST), where=v > 0)

    def _no_feature(self, problem: FSMProblem, data: RankingData) -> str:
        """Return how the sentence "no feature is selected" goes on."""
        _, gradient = problem.engine.value_grad(np.zeros(problem.n_features))
        values = data.feature_summary(resolve_threads(self.n_threads))
        size = np.maximum(np.abs(values.minimum), np.abs(values.maximum))
        gradient[np.abs(gradient) <= ROUNDING * size] = 0.0
        costs = self._costs()
        limits = np.divide(np.abs(gradient), costs, out=np.zeros_like(costs), where=costs > 0)
        if not limits.any():
            return f": {NO_USEFUL_FEATURE}"
        return (
            f" at importance_weight = {self.importance_weight:g}; use a value below "
            f"{limits.max():.6g}"
        )
