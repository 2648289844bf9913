"""`DominationRank` and `DominationRankCV`: few relevant documents above very many others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._checks import choice
from .._threads import resolve_threads
from ..criterion import Criterion
from ..data.ranking import RankingData
from ..errors import DataError
from ..penalties import Penalty, make_penalty
from ..training import Trainer
from .ranksvm import ChoiceOfC, print_step
from .sparse import BaseSparseRanker

LOSSES = {"multi": "domination", "binary": "domination_binary"}  #: by what `levels` says


class _BaseDominationRank(BaseSparseRanker):
    """What Domination Ranks share, however their C is chosen."""

    debias = False

    def _data(self, X: Any, y: Any, qid: Any, margin: Any, **more: Any) -> RankingData:
        """Check the arguments of `fit`, and turn `margin` of the labels into one per document."""
        data = self._ranking_data(X, y, qid, margin=margin, **more)
        scale = self.margin
        if not isinstance(scale, float | int | np.number) or not 0 <= scale < np.inf:
            raise DataError(f"margin is {scale!r}; expected a finite number ≥ 0")
        if scale == 0:
            return data
        if margin is not None:
            raise DataError(
                f"margin is given per document in fit, and as {scale} per label; give one of them"
            )
        return data.replace(margin=scale * data.y)

    def _penalty(self) -> Penalty | None:
        if self.penalty in ("l2", "none"):
            for name in ("shape", "feature_cost"):
                if getattr(self, name) is not None:
                    raise DataError(f"penalty={self.penalty!r} has no {name}; use None")
            return None if self.penalty == "l2" else make_penalty("l1", weights=0.0)
        return make_penalty(self.penalty, self.shape, self.feature_cost)

    def _trainer(self, **more: Any) -> Trainer:
        choice("levels", self.levels, LOSSES)
        return Trainer(
            loss=LOSSES[self.levels],
            tol=self.tol,
            solver=self.solver,
            normalize=self.normalize,
            penalty=self._penalty(),
            max_iter=self.max_iter,
            n_threads=resolve_threads(self.n_threads),
            engine=self.engine,
            callback=print_step if self.verbose else None,
            **more,
        )


class DominationRank(_BaseDominationRank):
    """Domination Rank: each relevant document should beat all worse ones together.

    Minimises, D(i) being the documents of i's query with a lower label,

        Ω(w) + C·Σ_i log(1 + Σ_{j∈D(i)} exp(w'x_j − w'x_i + Δ(i, j)))

    (Stevens, Bengio & Singer 2013, eq. 1.1 and §1.4) in O(non-zeros of X) per pass: made for few
    relevant documents among very many. It is a scikit-learn feature selector too.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty.
    penalty : {"l1", "l2", "none", "elastic_net", "mcp", "scad", "log", "lp"} or Penalty
        Ω: ‖w‖₁, ½‖w‖², nothing, or one of those of `SparseRankSVM`. Without a penalty there may
        be no optimum: where relevant documents can be told apart without error, weights grow.
    shape, feature_cost
        See `SparseRankSVM`.
    levels : {"multi", "binary"}
        Whether every label dominates the lower ones, or labels above 0 the others.
    margin : float
        Δ(i, j) = margin·(y_i − y_j); other margins go to `fit`.
    tol : float
        See `SparseRankSVM`; with penalty l2 `RankSVM`.
    solver : {"auto", "proximal-newton", "fista", "reweighted", "newton", "tron", "lbfgs", \
"coordinate-descent"}
        ``coordinate-descent`` is the paper's (figure 1.1); ``auto`` is proximal Newton, for
        penalty l2 Newton, or for concave penalties reweighted l1.
    normalize : {None, "pairs", "queries"}
        Divide the loss by the number of documents that dominate others, or that of each query
        by its number of them.
    max_iter, n_threads, engine, warm_start, verbose
        See `RankSVM`.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    n_selected_ : int
        Features with a weight.
    zero_weights_ : float
        The part of the weights that are 0.
    n_empty_queries_ : int
        Queries without a relevant document, or without an irrelevant one: they were skipped.
    sparsity_ratio_, result_, model_, n_pairs_, n_queries_
        See `SparseRankSVM`.

    Examples
    --------
    >>> from linrank import DominationRank, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = DominationRank(C=0.01).fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        penalty: str | Penalty = "l1",
        shape: float | None = None,
        feature_cost: Any = None,
        levels: str = "multi",
        margin: float = 0.0,
        tol: float = 1e-3,
        solver: str = "auto",
        normalize: str | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        engine: str = "threads",
        warm_start: bool = False,
        verbose: bool = False,
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

    def fit(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        propensity: Any = None,
        margin: Any = None,
    ) -> DominationRank:
        """Learn the weights.

        Parameters
        ----------
        X, y, qid, query_weight, propensity
            See `RankSVM.fit`.
        sample_weight : array of shape (n_docs,), optional
            A document of weight 2 counts like two copies of it, 0 is removal.
        margin : array of shape (n_docs,), optional
            s with Δ(i, j) = s(i) − s(j).
        """
        data = self._data(
            X, y, qid, margin, sample_weight=sample_weight, query_weight=query_weight,
            propensity=propensity,
        )  # fmt: skip
        trainer = self._trainer()
        w0 = getattr(self, "coef_", None) if self.warm_start else None
        self._finish(trainer.train(data, self.C, w0=w0), data, trainer)
        return self


class DominationRankCV(ChoiceOfC, _BaseDominationRank):
    """`DominationRank` with C chosen by a ranking metric, on held-out data or by query folds.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid; by default 50 values from the smallest C that selects a feature upward, or for
        penalty l2 that of `RankSVMCV`.
    metric, cv
        See `RankSVMCV`.
    rule
        See `SparseRankSVMCV`.
    penalty, shape, feature_cost, levels, margin, tol, solver, normalize, max_iter, n_threads, \
engine, verbose
        See `DominationRank`; without a penalty there is no C to choose.

    Attributes
    ----------
    C_, metric_path_, path_
        See `RankSVMCV`.
    coef_, n_selected_, zero_weights_, sparsity_ratio_, n_empty_queries_, result_, model_
        See `DominationRank`.

    Examples
    --------
    >>> from linrank import DominationRankCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> ranker = DominationRankCV(cv=3, metric="domination-error").fit(data.X, data.y, data.qid)
    >>> 0 < ranker.n_selected_ <= 20
    True
    """

    def __init__(
        self,
        Cs: Sequence[float] | None = None,
        *,
        metric: str = "ndcg@10",
        cv: Any = 5,
        rule: str = "best",
        penalty: str | Penalty = "l1",
        shape: float | None = None,
        feature_cost: Any = None,
        levels: str = "multi",
        margin: float = 0.0,
        tol: float = 1e-3,
        solver: str = "auto",
        normalize: str | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        engine: str = "threads",
        verbose: bool = False,
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

    def fit(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        propensity: Any = None,
        margin: Any = None,
        valid: tuple[Any, Any, Any] | None = None,
    ) -> DominationRankCV:
        """Choose C and learn the weights.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight, propensity, margin
            See `DominationRank.fit`.
        valid : tuple (X, y, qid), optional
            Held-out data to choose by; without it, query folds of the data itself.
        """
        if self.penalty == "none":
            raise DataError("penalty='none' leaves no C to choose: use DominationRank")
        data = self._data(
            X, y, qid, margin, sample_weight=sample_weight, query_weight=query_weight,
            propensity=propensity,
        )  # fmt: skip
        criterion = Criterion(self.metric, rule=self.rule)
        trainer = self._trainer(criterion=criterion)
        self._finish(self._choose_C(trainer, data, valid, qid), data, trainer)
        return self
