"""`SparseRankSVM` and `SparseRankSVMCV`: rankers that select features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from .._util.types import Mask
from ..choices import RuleName
from ..penalties import PenaltyName
from ..penalties.penalty import Penalty
from ..training.options import DEFAULT_SELECTING_C
from .trained import Splitter, TrainedRanker


def used_features(ranker: TrainedRanker) -> Mask:
    """Return the mask of the features that have a weight."""
    check_is_fitted(ranker)
    support = np.zeros(ranker.n_features_in_, dtype=np.bool_)
    support[ranker.model_.used] = True
    return support


@dataclass(kw_only=True, eq=False, repr=False)
class SparseRanker(SelectorMixin, TrainedRanker):
    """Parameters of `SparseRankSVM` and `SparseRankSVMCV`."""

    selects: ClassVar[bool] = True

    penalty: PenaltyName | Penalty = "l1"
    shape: float | None = None
    feature_cost: ArrayLike | None = None
    debias: bool = False

    _get_support_mask = used_features


@dataclass(kw_only=True, eq=False, repr=False)
class SparseRankSVM(SparseRanker):
    """RankSVM with a penalty that sets weights to zero, and so selects features.

    The ranker minimises, over all pairs (i, j) of documents of one query with label i > label j,

        Σ_f cost_f·g(|w_f|) + C·Σ_(i,j) ℓ(w'x_i − w'x_j)

    (Laporte et al. 2014, eqs. 2 and 7). It is also a scikit-learn feature selector.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty. A larger C selects more features.
    penalty : {"l1", "elastic_net", "mcp", "scad", "log", "lp", "group_l1", "l2", "none"} or Penalty
        The penalty g:

        - ``l1``: g(u) = u;
        - ``elastic_net``: g(u) = ρu + ½(1 − ρ)u²;
        - ``mcp``, ``scad``, ``log`` and ``lp``: concave penalties, which select fewer features;
        - ``l2`` and ``none``: penalties that keep all features;
        - a `linrank.penalties.Penalty`, such as `GroupL1`, which selects groups of features.
    shape : float, optional
        The parameter of the penalty: ρ of elastic_net, γ of mcp, a of scad, ε of log, p of lp, ρ of
        group_l1. The defaults are 0.5, 2, 3.7, 0.1, 0.5 and 0.
    feature_cost : array of shape (n_features,), optional
        The cost of each feature. A feature with cost 0 is not penalised.
    debias : bool
        Fit the selected features again without the penalty, because the penalty shrinks weights.
    solver : {"auto", "proximal-newton", "proximal-smoothing", "reweighted", "fista", \
"fista-paper", "reweighted-paper"} or Solver
        ``proximal-newton`` is for convex penalties, ``proximal-smoothing`` for the hinge with them,
        ``reweighted`` l1 for concave penalties, and ``fista`` (accelerated proximal gradients) for
        all. ``auto`` chooses the first that fits. ``fista-paper`` and ``reweighted-paper`` are
        algorithms 1 and 2 of Laporte et al. 2014 as printed.
        For the penalty l2, the solvers are those of `RankSVM`.
    tol : float, optional
        For convex penalties, the largest duality gap as a fraction of the objective. For others,
        the limit of the change of the objective and of the distance to a critical point. None:
        the default of the solver, which is 1e-3 for most.
    loss, counting, pairs, rescale, delta, normalize, max_iter, n_threads, engine, warm_start, \
verbose, bounds, scale, missing, categories
        See `RankSVM`. Concave penalties need a loss with a derivative.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    n_selected_ : int
        The number of features with a weight.
    sparsity_ratio_ : float
        The number of features with a weight divided by the number of features that are not zero
        in all documents (Laporte et al. 2014, §V.B).
    result_, model_, n_pairs_, n_queries_
        See `RankSVM`. ``result_.gap`` is a bound on the distance to the optimum.

    Examples
    --------
    >>> from linrank import SparseRankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> ranker = SparseRankSVM(C=10.0, penalty="l1").fit(data.X, data.y, qid=data.qid)
    >>> ranker.transform(data.X).shape[1] == ranker.n_selected_ < 20
    True
    """

    C: float = field(default=DEFAULT_SELECTING_C, kw_only=False)
    warm_start: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class SparseRankSVMCV(SparseRanker):
    """`SparseRankSVM` with C chosen by a ranking metric, on held-out data or by query folds.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid. By default it has 50 values, from the smallest C that selects a feature upward.
    metric, cv
        See `RankSVMCV`.
    rule : {"best", "1se"}
        Take the C with the best metric, or the C with the fewest features within one standard
        error of the best metric.
    penalty, shape, feature_cost, debias, solver, tol, loss, counting, pairs, rescale, delta, \
normalize, max_iter, n_threads, engine, verbose, bounds, scale, missing, categories
        See `SparseRankSVM`.

    Attributes
    ----------
    C_, best_score_, best_params_, cv_results_, metric_path_, path_
        See `RankSVMCV`.
    coef_, n_selected_, sparsity_ratio_, result_, model_
        See `SparseRankSVM`.

    Examples
    --------
    >>> from linrank import SparseRankSVMCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries, and choose C on the other 25
    >>> held_out = data.X[~known], data.y[~known], data.qid[~known]
    >>> ranker = SparseRankSVMCV(penalty="l1", rule="1se")
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known], valid=held_out)
    >>> 0 < ranker.n_selected_ <= 20
    True
    """

    chooses: ClassVar[bool] = True

    Cs: Sequence[float] | None = field(default=None, kw_only=False)
    metric: str = "ndcg@10"
    cv: Splitter = 5
    rule: RuleName = "best"
