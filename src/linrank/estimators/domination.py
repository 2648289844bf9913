"""`DominationRank` and `DominationRankCV`: rankers for few relevant documents among many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._checks import choice, number_from_zero
from ..counting.names import NormalizeName
from ..criterion import Criterion
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..engines.names import EngineName
from ..errors import DataError
from ..features.names import MissingName
from ..losses.tables import DominationName
from ..metrics.names import RuleName
from ..penalties import PenaltyName
from ..penalties.base import Penalty
from ..penalties.bounds import BoundsLike
from ..solvers import SolverChoice
from ..solvers.base import Solver
from ..training import Trainer, Training
from .choosing import ChoosesC, Splitter
from .selecting import SparseRanker

LevelsName = Literal["multi", "binary"]
LOSSES: Mapping[LevelsName, DominationName] = {
    "multi": "domination", "binary": "domination_binary"
}  # fmt: skip


class DominationRanker(SparseRanker):
    """Base class of the rankers with a domination loss."""

    def _training_data(
        self, X: Matrix | RankingData, y: ArrayLike | None, qid: ArrayLike | None,
        sample_weight: ArrayLike | None, query_weight: ArrayLike | None,
        propensity: ArrayLike | None, margin: ArrayLike | None,
    ) -> RankingData:  # fmt: skip
        """Check the arguments of `fit`."""
        data = super()._training_data(X, y, qid, sample_weight, query_weight, propensity, margin)
        if data.margin is not None and not np.ndim(self.margin) and any(self._scales()):
            raise DataError(
                "fit has a margin for each document, but the ranker has "
                f"margin={self.margin} per label. Use fit(…, margin={self.margin} * s) and "
                "margin=0 of the ranker."
            )
        return data

    def _scales(self) -> list[float]:
        """Return the scales of the margin that are tried."""
        return [number_from_zero("margin", self.margin)]

    def _pair_data(self, *arguments: Any) -> RankingData:
        raise DataError(
            f"{type(self).__name__} compares a document with all worse ones of its query, so it "
            "needs labels. To learn from pairs, use RankSVM or SparseRankSVM."
        )

    def _options(self) -> dict[str, Any]:
        choice("levels", self.levels, LOSSES)
        own = {"loss": LOSSES[self.levels], "margin_scale": self._scales()[0] or None}
        return super()._options() | own


class DominationRank(DominationRanker):
    """Domination Rank: each relevant document should outscore all worse ones together.

    Let D(i) be the documents of the query of i that have a lower label. The ranker minimises

        Ω(w) + C·Σ_i log(1 + Σ_{j∈D(i)} exp(w'x_j − w'x_i + Δ(i, j)))

    (Stevens, Bengio & Singer 2013, eq. 1.1 and §1.4). A pass over the data takes O(non-zeros of X)
    time. The loss is made for few relevant documents among very many. The ranker is also a
    scikit-learn feature selector.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty.
    penalty : {"l1", "l2", "none", "elastic_net", "mcp", "scad", "log", "lp"} or Penalty
        Ω: ‖w‖₁, ½‖w‖², 0, or a penalty of `SparseRankSVM`. Without a penalty there may be no
        optimum: weights grow without limit if all relevant documents can be ranked first.
    shape, feature_cost
        See `SparseRankSVM`.
    levels : {"multi", "binary"}
        ``multi``: every label dominates all lower labels. ``binary``: labels above 0 dominate the
        others.
    margin : float
        Δ(i, j) = margin·(y_i − y_j). Pass other margins to `fit`.
    tol : float
        See `SparseRankSVM`, or `RankSVM` for the penalty l2.
    solver : {"auto", "proximal-newton", "fista", "reweighted", "newton", "tron", "lbfgs", \
"coordinate-descent", "coordinate-descent-paper"} or Solver
        ``coordinate-descent-paper`` is the algorithm of the paper (figure 1.1), and
        ``coordinate-descent`` tries longer steps. ``auto`` is Newton for the penalty l2,
        reweighted l1 for concave penalties, and proximal Newton otherwise.
    normalize : {None, "pairs", "queries"}
        ``pairs``: divide the loss by the number of documents that dominate others. ``queries``:
        divide the loss of each query by its number of such documents.
    max_iter, n_threads, engine, warm_start, verbose, bounds, scale, missing
        See `RankSVM`.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    n_selected_ : int
        The number of features with a weight.
    zero_weights_ : float
        The fraction of the weights that are 0.
    n_empty_queries_ : int
        The number of queries that were skipped, because no document dominates another.
    sparsity_ratio_, result_, model_, n_pairs_, n_queries_
        See `SparseRankSVM`.

    Examples
    --------
    >>> from linrank import DominationRank, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries and test on the other 25
    >>> ranker = DominationRank(C=0.01).fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        penalty: PenaltyName | Penalty = "l1",
        shape: float | None = None,
        feature_cost: ArrayLike | None = None,
        levels: LevelsName = "multi",
        margin: float = 0.0,
        tol: float = 1e-3,
        solver: SolverChoice | Solver = "auto",
        normalize: NormalizeName | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        engine: EngineName = "threads",
        warm_start: bool = False,
        verbose: bool = False,
        bounds: BoundsLike = None,
        scale: str | None = None,
        missing: MissingName | None = None,
    ) -> None:
        self.C = C
        self.penalty = penalty
        self.shape = shape
        self.feature_cost = feature_cost
        self.levels = levels
        self.margin = margin
        self.tol = tol
        self.solver = solver
        self.normalize = normalize
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.engine = engine
        self.warm_start = warm_start
        self.verbose = verbose
        self.bounds = bounds
        self.scale = scale
        self.missing = missing


class DominationRankCV(ChoosesC, DominationRanker):
    """`DominationRank` with C chosen by a ranking metric, on held-out data or by query folds.

    The scale of the margin can be chosen, too (Stevens, Bengio & Singer 2013, §1.5).

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid. By default it has 50 values, from the smallest C that selects a feature upward.
        For the penalty l2 it is the grid of `RankSVMCV`.
    metric, cv
        See `RankSVMCV`.
    rule
        See `SparseRankSVMCV`.
    margin : float or sequence of float
        Δ(i, j) = margin·(y_i − y_j). The best of several numbers is chosen together with C. If
        `fit` has a margin s for each document, several numbers are scales of s:
        Δ(i, j) = margin·(s_i − s_j).
    penalty, shape, feature_cost, levels, tol, solver, normalize, max_iter, n_threads, \
engine, verbose, bounds, scale, missing
        See `DominationRank`. The penalty cannot be ``"none"``, which leaves no C to choose.

    Attributes
    ----------
    C_, best_score_, best_params_, cv_results_, metric_path_, path_
        See `RankSVMCV`. With several margins, all but the first three belong to the best one.
    margin_ : float
        The chosen margin.
    coef_, n_selected_, zero_weights_, sparsity_ratio_, n_empty_queries_, result_, model_
        See `DominationRank`.

    Examples
    --------
    >>> from linrank import DominationRankCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> ranker = DominationRankCV(cv=3, metric="domination-error").fit(data.X, data.y, data.qid)
    >>> 0 < ranker.n_selected_ <= 20
    True
    >>> ranker.set_params(margin=[0.0, 0.5]).fit(data.X, data.y, data.qid).margin_ in (0.0, 0.5)
    True
    """

    margin_: float

    def __init__(
        self,
        Cs: Sequence[float] | None = None,
        *,
        metric: str = "ndcg@10",
        cv: Splitter = 5,
        rule: RuleName = "best",
        penalty: PenaltyName | Penalty = "l1",
        shape: float | None = None,
        feature_cost: ArrayLike | None = None,
        levels: LevelsName = "multi",
        margin: float | Sequence[float] = 0.0,
        tol: float = 1e-3,
        solver: SolverChoice | Solver = "auto",
        normalize: NormalizeName | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        engine: EngineName = "threads",
        verbose: bool = False,
        bounds: BoundsLike = None,
        scale: str | None = None,
        missing: MissingName | None = None,
    ) -> None:
        self.Cs = Cs
        self.metric = metric
        self.cv = cv
        self.rule = rule
        self.penalty = penalty
        self.shape = shape
        self.feature_cost = feature_cost
        self.levels = levels
        self.margin = margin
        self.tol = tol
        self.solver = solver
        self.normalize = normalize
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.engine = engine
        self.verbose = verbose
        self.bounds = bounds
        self.scale = scale
        self.missing = missing

    def _training_data(self, *arguments: Any) -> RankingData:
        if self.penalty == "none":
            raise DataError("penalty='none' leaves no C to choose. Use DominationRank.")
        return super()._training_data(*arguments)

    def _scales(self) -> list[float]:
        scales = np.atleast_1d(self.margin).tolist()
        if not scales:
            raise DataError("margin is an empty list; expected at least one number ≥ 0")
        return [number_from_zero("margin", scale) for scale in scales]

    def _trainers(self, criterion: Criterion) -> list[Trainer]:
        """Return a trainer for each scale of the margin; a single 0 leaves margins of `fit`."""
        scales = self._scales() if np.ndim(self.margin) else [self._scales()[0] or None]
        return [self._trainer(criterion=criterion, margin_scale=scale) for scale in scales]

    def _store_model(self, training: Training) -> None:
        super()._store_model(training)
        self.margin_ = self.model_.settings["margin_scale"] or 0.0
        if np.ndim(self.margin):
            self.best_params_["margin"] = self.margin_
