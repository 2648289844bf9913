"""`FenchelRank`: the squared hinge loss over an l1 ball, by greedy steps on single features."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from .._util.checks import boolean, positive_number
from .._util.parallel import resolve_threads
from .._util.types import Mask, Vector
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..engines.threads import ThreadEngine
from ..errors import NotConvergedWarning, NothingSelectedWarning, warn
from ..estimators.ranker import Ranker
from ..features.preprocessing import warn_of_given_scales
from ..losses.pairwise import SQUARED_HINGE
from ..model import LinearModel
from ..problem import Problem, make_problem
from ..solvers.cutting_planes import maximise_on_simplex
from ..solvers.result import Result, Status
from ..solvers.solver import Iterate, Solver
from ..training import training_summary
from ..training.selection import NO_USEFUL_FEATURE

#: Slope at the end of a line search, relative to the largest slope that the search has met.
SLOPE_TOLERANCE = 1e-9
MOST_CORNERS = 2000  #: corners that are weighted anew together, which takes a matrix of them
MAX_TRIALS = 100  #: evaluations per line search, after which it ends at the last point


class MeanLoss(Problem):
    """The mean loss F(w) = 1/p·Σ_(i,j) max(0, 1 − w'(x_i − x_j))² of p pairs, with F(0) = 1."""

    def __init__(self, data: RankingData, n_threads: int) -> None:
        engine = make_problem(data, normalize="pairs", n_threads=n_threads).engine
        super().__init__(engine, 1.0)

    def value_grad(self, w: Vector) -> tuple[float, Vector]:
        """Return F(w) and its gradient."""
        return self.engine.value_grad(w)


class Segment:
    """Line search for F(w + μδ) on 0 ≤ μ ≤ 1, as a problem with the two features w'x and δ'x.

    An evaluation needs sums over pairs but does not read X.
    """

    def __init__(self, engine: ThreadEngine) -> None:
        self.features = np.zeros((engine.data.n_docs, 2))
        data = engine.data.replace(X=self.features, feature_names=None)
        self._engine = ThreadEngine(data, SQUARED_HINGE, "pairs", engine.n_threads)

    def lowest(self) -> float:
        """Return the μ with the smallest F, by Newton's method safeguarded by a bracket.

        F is piecewise quadratic in μ, so Newton's method needs few evaluations.
        """
        low, high, mu, steepest = 0.0, np.inf, 0.0, 0.0
        for _ in range(MAX_TRIALS):
            slope = self._engine.value_grad(np.array([1.0, mu]))[1][1]
            steepest = max(steepest, abs(slope))
            if abs(slope) <= SLOPE_TOLERANCE * steepest or (mu == 1.0 and slope <= 0):
                break
            low, high = (mu, high) if slope < 0 else (low, mu)
            curvature = self._engine.hessp(np.array([0.0, 1.0]))[1]
            newton = mu - slope / curvature if curvature > 0 else np.inf
            if low < newton < min(high, 1.0):
                mu = newton
            else:
                mu = 1.0 if high > 1.0 else 0.5 * (low + high)
        return mu


@dataclass
class GreedyBall(Solver):
    """Minimise F over ‖w‖₁ ≤ r by steps towards one corner of the ball at a time.

    F(w) − gap(w) with

        gap(w) = w'∇F(w) + r·‖∇F(w)‖_∞

    is the Fenchel dual value of the dual variables −∂F/∂t_p of the pairs p with score
    differences t_p. It is a lower bound on the optimum. The solver stops when F is within
    `tol`·F(0) of the best lower bound so far.
    """

    r: float = 1.0
    corrective: bool = True
    segment: Segment = field(init=False, repr=False)

    def _prepare(self) -> None:
        self.segment = Segment(self._engine())

    def _engine(self) -> ThreadEngine:
        engine = self.problem.engine
        assert isinstance(engine, ThreadEngine)
        return engine

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

    def _allowed(self) -> float:
        return self.tol * self.value_at_zero

    def _move(self) -> bool:
        """Move towards the corner ±r·e_j for the j with the largest |∂F/∂w_j|.

        If the corner is already in use, all corners in use are weighted anew. Returns False if no
        step decreases F.
        """
        w, gradient = self.point.w, self.point.gradient
        j = int(np.argmax(np.abs(gradient)))
        corner = np.zeros_like(w)
        corner[j] = -np.sign(gradient[j]) * self.r
        in_use = self.corrective and w[j] * corner[j] > 0
        if in_use and np.count_nonzero(w) <= MOST_CORNERS and self._step(self._reweighted()):
            return True
        return self._step(corner)

    def _step(self, target: Vector) -> bool:
        """Move to the smallest F on the segment from w to the target; return whether w changes."""
        scores, step = self.segment.features.T
        step[:] = self._engine().scores(target) - scores
        mu = self.segment.lowest()
        if mu == 0.0:
            return False
        scores += mu * step
        w = target if mu == 1.0 else (1.0 - mu) * self.point.w + mu * target
        self.point = Iterate(w, *self.problem.value_grad(w))
        return True

    def _reweighted(self) -> Vector:
        """Minimise the quadratic model of F at w over the means of 0 and the corners in use.

        w is such a mean itself, with the weight |w_j|/r of the corner sign(w_j)·r·e_j.
        """
        w = self.point.w
        used = np.flatnonzero(w)
        H, corners = self._engine().hessian(None, used), self.r * np.sign(w[used])
        G = np.pad(corners[:, None] * H * corners, (0, 1))  # The last point is 0.
        b = np.append(corners * (H @ w[used] - self.point.gradient[used]), 0.0)
        share = np.abs(w[used]) / self.r
        start = np.append(share, max(0.0, 1.0 - float(share.sum())))
        target = np.zeros_like(w)
        target[used] = corners * maximise_on_simplex(G, b, start / start.sum())[:-1]
        return target


class SelectingRanker(SelectorMixin, Ranker):
    """Base of the baselines with sparse weights."""

    __metadata_request__fit: ClassVar = {"query_weight": True}
    has_weights: ClassVar[bool] = True

    result_: Result
    model_: LinearModel

    def _get_support_mask(self) -> Mask:
        check_is_fitted(self)
        return self.coef_ != 0

    def _store(
        self,
        result: Result,
        data: RankingData,
        n_pairs: int,
        reason: Callable[[], str] = lambda: f": {NO_USEFUL_FEATURE}",
    ) -> None:
        """Set the attributes of a fitted ranker; `reason` ends the sentence that all are 0."""
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
        warn_of_given_scales(data, resolve_threads(self.n_threads))
        if not self.n_selected_:
            warn(f"no feature is selected{reason()}", NothingSelectedWarning)


@dataclass(kw_only=True, eq=False, repr=False)
class FenchelRank(SelectingRanker):
    """FenchelRank: minimise the squared hinge loss over an l1 ball.

    The problem, over the p pairs (i, j) of documents of one query with label i above label j, is
    to minimise

        F(w) = 1/p·Σ_(i,j) max(0, 1 − w'(x_i − x_j))²    subject to    ‖w‖₁ ≤ r

    (Lai, Pan, Liu, Lin & Wu 2013, "Sparse learning-to-rank via an efficient primal-dual
    algorithm"; a baseline in Laporte et al. 2014). Starting from w = 0, each iteration

    1. computes the gap between F(w) and a Fenchel dual value, which bounds the distance to the
       optimum: gap(w) = w'∇F(w) + r·‖∇F(w)‖_∞,
    2. stops if the gap is at most `tol` (note that F(0) = 1),
    3. picks the feature j with the largest |∂F/∂w_j|, and
    4. moves from w towards −sign(∂F/∂w_j)·r·e_j to the smallest F on that segment.

    A feature that is never picked has the weight 0, so the weights are sparse by construction.

    These are the steps of the paper, whose number is O(1/tol). If the optimum is on the surface of
    the ball, they alternate between corners that were picked before. With 96 documents and 5
    features, 1,000 steps may not reach a gap of 1e-3. If step 3 picks a corner that is in use, step
    4 therefore weights all corners in use anew: it moves towards the minimum of the quadratic model
    of F over their means (a corrective step, Holloway 1974). On these data, 6 steps are enough.
    A corrective step can also end with a weight of 0. In the steps of the paper, a feature that was
    picked keeps a weight.

    A published program of the method learns w/r, which gives the same ranking. It lists the pairs
    and sorts them to find the step. Here pairs are not listed, and the step is found by Newton's
    method on a problem with two features. The gap is that to the best dual value so far.

    Parameters
    ----------
    r : float
        Largest ‖w‖₁. A larger r selects more features. The best r depends on the scale of the
        features.
    tol : float
        Largest gap to the optimum of F.
    max_iter : int
        Largest number of iterations, each of which picks a feature.
    n_threads : int, optional
        Number of threads. None: ``LINRANK_THREADS``, or all usable cores.
    corrective : bool
        Whether corners in use are weighted anew together. False: only the steps of the paper.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    result_ : Result
        Status, objective F, gap relative to F, history, and a message.
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
    >>> from linrank.baselines import FenchelRank
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries; 25 are held out
    >>> ranker = FenchelRank(r=0.5)
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.n_selected_ < data.n_features
    True
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.75
    True
    """

    r: float = field(default=1.0, kw_only=False)
    tol: float = 1e-3
    max_iter: int = 1000
    n_threads: int | None = None
    corrective: bool = True

    def fit(
        self,
        X: ArrayLike | Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> FenchelRank:
        """Fit the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            Query of each document: any type, in any order. None: all documents form one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document. The weight of a pair is the product of the weights of its
            query and its two documents.
        query_weight : array of shape (n_docs,), optional
            Weight of the query of each document. All documents of a query have the same value.
        """
        r = positive_number("r", self.r)
        boolean("corrective", self.corrective)
        solver = GreedyBall(self.tol, self.max_iter, r=r, corrective=self.corrective)
        data = self._ranking_data(X, y, qid, sample_weight, query_weight)
        problem = MeanLoss(data, resolve_threads(self.n_threads))
        self._store(solver.solve(problem), data, problem.engine.n_pairs)
        return self
