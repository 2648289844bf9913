"""`DominationRank` and `DominationRankCV`: rankers for few relevant documents among many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.feature_selection import SelectorMixin

from .._util.checks import choice, number_from_zero
from ..choices import CountingName, DeltaName, PairsName, RescaleName, RuleName
from ..counting.preferences import Delta
from ..data.ranking import RankingData
from ..errors import DataError
from ..losses.hinge_tables import DominationName, LossName
from ..losses.loss import Loss
from ..penalties import PenaltyName
from ..penalties.penalty import Penalty
from ..training import Trainer, Training
from ..training.options import DEFAULT_SELECTING_C
from ..training.selection import Criterion
from .sparse_ranksvm import used_features
from .trained import Splitter, TrainedRanker

LevelsName = Literal["multi", "binary"]
LOSSES: Mapping[LevelsName, DominationName] = {
    "multi": "domination", "binary": "domination_binary"
}  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class DominationRanker(SelectorMixin, TrainedRanker):
    """Parameters of `DominationRank` and `DominationRankCV`, whose loss is not one of pairs."""

    selects: ClassVar[bool] = True

    penalty: PenaltyName | Penalty = "l1"
    shape: float | None = None
    feature_cost: ArrayLike | None = None
    levels: LevelsName = "multi"
    margin: float | Sequence[float] = 0.0
    loss: LossName | Loss = field(default="domination", init=False)
    counting: CountingName = field(default="auto", init=False)
    pairs: PairsName = field(default="all", init=False)
    rescale: RescaleName | None = field(default=None, init=False)
    delta: DeltaName | Delta = field(default="label", init=False)

    _get_support_mask = used_features

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        if data.margin is not None and not np.ndim(self.margin) and any(self._scales()):
            raise DataError(
                "fit has a margin for each document, but the ranker has "
                f"margin={self.margin} per label. Use fit(…, margin={self.margin} * s) and "
                "margin=0 of the ranker."
            )
        return super()._fit_data(data, valid)

    def _scales(self) -> list[float]:
        """Return the scales of the margin that are tried."""
        return [number_from_zero("margin", self.margin)]

    def _pair_data(self, *arguments: Any) -> RankingData:
        raise DataError(
            f"{type(self).__name__} compares a document with all worse ones of its query, so it "
            "needs labels. To learn from pairs, use RankSVM or SparseRankSVM."
        )

    def _trainer(self, **more: Any) -> Trainer:
        choice("levels", self.levels, LOSSES)
        own = {"loss": LOSSES[self.levels], "margin_scale": self._scales()[0] or None}
        return super()._trainer(**own | more)


@dataclass(kw_only=True, eq=False, repr=False)
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
    tol : float, optional
        See `SparseRankSVM`, or `RankSVM` for the penalty l2.
    solver : {"auto", "proximal-newton", "fista", "reweighted", "newton", "tron", "lbfgs", \
"coordinate-descent", "coordinate-descent-paper"} or Solver
        ``coordinate-descent-paper`` is the algorithm of the paper (figure 1.1), and
        ``coordinate-descent`` tries longer steps. ``auto`` is Newton for the penalty l2,
        reweighted l1 for concave penalties, and proximal Newton otherwise.
    normalize : {None, "pairs", "queries"}
        ``pairs``: divide the loss by the number of documents that dominate others. ``queries``:
        divide the loss of each query by its number of such documents.
    max_iter, n_threads, engine, warm_start, verbose, bounds, scale, missing, categories
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
    >>> ranker = DominationRank().fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    C: float = field(default=DEFAULT_SELECTING_C, kw_only=False)
    warm_start: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class DominationRankCV(DominationRanker):
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
engine, verbose, bounds, scale, missing, categories
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

    chooses: ClassVar[bool] = True

    Cs: Sequence[float] | None = field(default=None, kw_only=False)
    metric: str = "ndcg@10"
    cv: Splitter = 5
    rule: RuleName = "best"
    margin: float | Sequence[float] = 0.0

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        if self.penalty == "none":
            raise DataError("penalty='none' leaves no C to choose. Use DominationRank.")
        return super()._fit_data(data, valid)

    def _scales(self) -> list[float]:
        scales = np.atleast_1d(self.margin).tolist()
        if not scales:
            raise DataError("margin is an empty list; expected at least one number ≥ 0")
        return [number_from_zero("margin", scale) for scale in scales]

    def _trainers(self, criterion: Criterion) -> list[Trainer]:
        """Return a trainer for each scale of the margin; a single 0 leaves margins of `fit`."""
        scales = self._scales() if np.ndim(self.margin) else [self._scales()[0] or None]
        return [self._trainer(criterion=criterion, margin_scale=scale) for scale in scales]

    def _store(self, training: Training, data: RankingData, trainer: Trainer) -> None:
        self.margin_ = training.model.settings["margin_scale"] or 0.0
        if np.ndim(self.margin):
            self.best_params_["margin"] = self.margin_
        super()._store(training, data, trainer)
