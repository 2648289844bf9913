"""`FenchelRank`: the squared hinge over an l1 ball, one feature at a time."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from .._threads import resolve_threads
from ..data.ranking import RankingData
from ..engines.threads import ThreadEngine
from ..errors import NotConvergedWarning
from ..estimators.base import LinearRanker, Vector
from ..losses.pairwise import SQUARED_HINGE
from ..model import LinearModel
from ..penalties.base import check_parameter
from ..problem import Problem, make_problem
from ..solvers.base import Iterate, Solver
from ..solvers.result import Result, Status
from ..training import training_summary

FLAT = 1e-9  #: part of the slope at the start of a segment that is left at its lowest point
TRIALS = 100  #: most points that are tried on a segment


class MeanLoss(Problem):
    """``F(w) = 1/p·Σ_pairs max(0, 1 − w'(x_i − x_j))²``: p pairs, no penalty, and F(0) = 1."""

    def __init__(self, data: RankingData, n_threads: int) -> None:
        engine = make_problem(data, normalize="pairs", n_threads=n_threads).engine
        super().__init__(engine, 1.0)

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """F and its gradient at w."""
        return self.engine.value_grad(w)


class Segment:
    """``F(w + μδ)`` for 0 ≤ μ ≤ 1: a problem with the two features w'x and δ'x.

    So a trial costs sums over pairs, but no read of X.
    """

    def __init__(self, engine: ThreadEngine) -> None:
        self.features = np.zeros((engine.data.n_docs, 2))
        data = engine.data.replace(X=self.features, feature_names=None)
        self._engine = ThreadEngine(data, SQUARED_HINGE, "pairs", engine.n_threads)

    def lowest(self) -> float:
        """The μ of the lowest F, by Newton's method on its slope, kept within a bracket.

        F is piecewise quadratic here, so that Newton's method ends after a few trials.
        """
        low, high, mu, steepest = 0.0, np.inf, 0.0, 0.0
        for _ in range(TRIALS):
            slope = self._engine.value_grad(np.array([1.0, mu]))[1][1]
            steepest = max(steepest, abs(slope))
            if abs(slope) <= FLAT * steepest or (mu == 1.0 and slope <= 0):
                break
            low, high = (mu, high) if slope < 0 else (low, mu)
            bend = self._engine.hessp(np.array([0.0, 1.0]))[1]
            newton = mu - slope / bend if bend > 0 else np.inf
            if low < newton < min(high, 1.0):
                mu = newton
            else:
                mu = 1.0 if high > 1.0 else 0.5 * (low + high)
        return mu


@dataclass
class GreedyBall(Solver):
    """Minimise F over ‖w‖₁ ≤ r, moving to one corner of the ball at a time.

    The dual variables −∂F/∂t_p of the pairs have the Fenchel dual value F(w) − gap(w) with

        gap(w) = w'∇F(w) + r·‖∇F(w)‖_∞,

    a lower bound on the optimum. Stops when F is within `tol`·F(0) of the best bound so far.
    """

    r: float = 1.0
    segment: Segment = field(init=False, repr=False)

    def _prepare(self) -> None:
        self.segment = Segment(self.problem.engine)

    def _minimise(self) -> Status:
        done = self._is_done()
        for _ in range(self.max_iter):
            if done:
                return Status.CONVERGED
            if not self._move():
                return Status.PRECISION
            done = self._is_done()
            self._record()
        return Status.CONVERGED if done else Status.MAX_ITER

    def _is_done(self) -> bool:
        w, value, gradient = self.point.w, self.point.value, self.point.gradient
        gap = float(w @ gradient) + self.r * float(np.abs(gradient).max())
        self.bound = max(self.bound, value - gap)
        return value - self.bound <= self.tol * self.value_at_zero

    def _move(self) -> bool:
        """Go towards the corner ±r·e_j of the steepest feature j, as far as F falls."""
        w, gradient = self.point.w, self.point.gradient
        j = int(np.argmax(np.abs(gradient)))
        corner = -np.sign(gradient[j]) * self.r
        scores, step = self.segment.features.T
        step[:] = corner * column(self.problem.engine, j) - scores
        mu = self.segment.lowest()
        scores += mu * step
        w = (1.0 - mu) * w
        w[j] += mu * corner
        self.point = Iterate(w, *self.problem.value_grad(w))
        return mu > 0.0


def column(engine: ThreadEngine, j: int) -> Vector:
    """One feature of all documents."""
    if not sparse.issparse(engine.data.X):
        return engine.data.X[:, j]
    unit = np.zeros(engine.n_features)
    unit[j] = 1.0
    return engine.scores(unit)


class SelectingRanker(SelectorMixin, LinearRanker):
    """Base of the baselines that learn weights of which many are 0."""

    result_: Result
    model_: LinearModel

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.coef_ != 0

    def _store(self, result: Result, data: RankingData, n_pairs: int) -> None:
        settings = {k: v for k, v in self.get_params().items() if k != "n_threads"}
        self.coef_ = result.coef
        self.result_ = result
        self.model_ = LinearModel(
            self.coef_,
            feature_names=data.feature_names,
            settings={"method": type(self).__name__} | settings,
            training=training_summary(result, n_pairs, data.n_queries),
        )
        self.n_selected_ = int(np.count_nonzero(self.coef_))
        self.n_iter_ = max(1, result.n_iter)
        self.n_pairs_, self.n_queries_ = n_pairs, data.n_queries
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt(result.message)
        if not result.converged:
            warnings.warn(result.message, NotConvergedWarning, stacklevel=3)


class FenchelRank(SelectingRanker):
    """FenchelRank: the squared hinge loss over an l1 ball.

    Minimises, over the p pairs (i, j) of documents of one query with label i above label j,

        F(w) = 1/p·Σ_(i,j) max(0, 1 − w'(x_i − x_j))²    subject to    ‖w‖₁ ≤ r

    (Lai, Pan, Liu, Lin & Wu 2013, "Sparse learning-to-rank via an efficient primal-dual
    algorithm"; compared with in Laporte et al. 2014). From w = 0, each iteration computes the
    gap between F(w) and a Fenchel dual value, which bounds the distance to the optimum,

        gap(w) = w'∇F(w) + r·‖∇F(w)‖_∞,

    stops if it is at most `tol` (F(0) = 1), and else picks the feature j with the largest
    |∂F/∂w_j| and goes from w towards −sign(∂F/∂w_j)·r·e_j as far as F falls. A feature that is
    never picked has the weight 0, so weights are sparse by construction; one that was picked
    keeps some weight, however small. It needs O(1/tol) iterations.

    A published program of the method learns w/r, which ranks alike, lists the pairs, and finds
    the step by sorting them; here no pair is listed, and the step is found by Newton's method on
    a problem of two features. The gap is taken to the best dual value so far.

    Parameters
    ----------
    r : float
        The largest ‖w‖₁: larger r, more features. It belongs to the scale of the features.
    tol : float
        The largest gap to the optimum of F.
    max_iter : int
        The largest number of features picked.
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    result_ : Result
        Status, objective F, gap as a part of F, history, and a sentence on how it went.
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
    >>> from linrank.baselines import FenchelRank
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = FenchelRank(r=0.5)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.n_selected_ < data.n_features
    True
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.75
    True
    """

    def __init__(
        self,
        r: float = 1.0,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_threads: int | None = None,
    ) -> None:
        self.r = r
        self.tol = tol
        self.max_iter = max_iter
        self.n_threads = n_threads

    def fit(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, query_weight: Any = None
    ) -> FenchelRank:
        """Learn the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document: a pair weighs query × upper document × lower document.
        query_weight : array of shape (n_docs,), optional
            Weight of each document's query: one value within a query.
        """
        check_parameter("r", self.r, 0.0)
        solver = GreedyBall(tol=self.tol, max_iter=self.max_iter, r=float(self.r))
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        problem = MeanLoss(data, resolve_threads(self.n_threads))
        self._store(solver.solve(problem), data, problem.engine.n_pairs)
        return self
