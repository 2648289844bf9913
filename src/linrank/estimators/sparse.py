"""`SparseRankSVM` and `SparseRankSVMCV`: rankers that choose their features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from .._threads import resolve_threads
from ..counting.preferences import Delta
from ..data.ranking import RankingData
from ..errors import NothingSelectedWarning
from ..path import RegularizationPath, make_problem, regularization_path
from ..penalties import Penalty, make_penalty
from ..problem import Problem, SparseProblem
from ..solvers import make_solver
from ..training import Criterion, Trainer, Training
from .ranksvm import ChoiceOfC, _BaseRankSVM

RIDGE = 1e-6  #: part of the mean curvature of the loss that is left as a ridge when refitting


class _BaseSparseRankSVM(SelectorMixin, _BaseRankSVM):
    """What sparse RankSVMs share: the penalty, what was selected, and the refit."""

    def _penalty(self) -> Penalty:
        if isinstance(self.penalty, Penalty):
            return self.penalty
        return make_penalty(self.penalty, self.shape, self.feature_cost)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.coef_ != 0

    def _finish(self, training: Training, data: RankingData, trainer: Trainer) -> None:
        """Warn where nothing is selected, refit if that is wanted, and store."""
        used = np.flatnonzero(training.result.coef)
        if not len(used):
            self._warn_of_nothing(data, trainer, training.C)
        elif self.debias:
            training = _refit(training, data, used, trainer)
        nonzero = np.asarray((data.X != 0).sum(axis=0)).ravel() > 0
        self.n_selected_ = len(used)
        self.sparsity_ratio_ = len(used) / max(1, int(nonzero.sum()))
        self._store(training, data)

    def _warn_of_nothing(self, data: RankingData, trainer: Trainer, C: float) -> None:
        problem = trainer.problem(data, C)
        assert isinstance(problem, SparseProblem)
        least = problem.smallest_C
        where = f"the smallest C that selects one is {least:.6g}"
        if not np.isfinite(least):
            where = "within every query, all documents that are compared have the same features"
        warnings.warn(
            f"no feature is selected at C = {C:g}: {where}", NothingSelectedWarning, stacklevel=4
        )


def _refit(
    training: Training, data: RankingData, used: NDArray[np.int64], trainer: Trainer
) -> Training:
    """Fit the loss alone on the features in use, but for a ridge that only keeps it finite."""
    chosen = replace(trainer, penalty=None)
    problem = chosen.problem(data.replace(X=_columns(data.X, used), feature_names=None), 1.0)
    problem.value_grad(np.zeros(len(used)))
    curvature = float(np.mean(np.diag(problem.engine.hessian()))) if len(used) < 4096 else 1.0
    problem = Problem(problem.engine, 1.0 / (RIDGE * max(curvature, 1e-300)))
    result = make_solver("newton", problem.engine.loss, tol=min(trainer.tol, 1e-4)).solve(
        problem, training.result.coef[used]
    )
    coef = np.zeros(data.n_features)
    coef[used] = result.coef
    model = training.model.with_coef(coef, debiased=True)
    return replace(training, result=replace(training.result, coef=coef), model=model)


def _columns(X: Any, features: NDArray[np.int64]) -> Any:
    from ..data.ranking import check_matrix

    return check_matrix(X[:, features])


class SparseRankSVM(_BaseSparseRankSVM):
    """RankSVM with a penalty that sets weights to zero: it chooses features while it learns.

    Minimises, over all pairs (i, j) of documents of one query with label i above label j,

        Σ_f cost_f·g(|w_f|) + C·Σ_(i,j) ℓ(w'x_i − w'x_j)

    (Laporte et al. 2014, eqs. 2 and 7). It is a scikit-learn feature selector too.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty: larger C, more features.
    penalty : {"l1", "elastic_net", "mcp", "scad", "log", "lp"} or Penalty
        g(u): u; ρu + ½(1 − ρ)u²; or one of the concave ones, which keep fewer features.
    shape : float, optional
        The penalty's parameter: ρ, γ of mcp, a of scad, ε of log, p of lp; by default 0.5, 2,
        3.7, 0.1 and 0.5.
    feature_cost : array of shape (n_features,), optional
        What each feature costs; 0 for one that is not penalised.
    debias : bool
        Fit the chosen features again without the penalty, which shrinks weights.
    solver : {"auto", "proximal-newton", "reweighted", "fista"}
        Proximal Newton for convex penalties, reweighted l1 for the others, or (accelerated)
        proximal gradients.
    tol : float
        The duality gap, as a part of the objective, for convex penalties; else the change of
        the objective and the distance to a critical point.
    loss, counting, pairs, rescale, delta, normalize, max_iter, n_threads, warm_start, verbose
        See `RankSVM`; the loss must have a derivative.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    n_selected_ : int
        Features with a weight.
    sparsity_ratio_ : float
        Their part of the features that are not zero everywhere (Laporte et al. 2014, §V.B).
    result_, model_, n_pairs_, n_queries_
        See `RankSVM`; ``result_.gap`` is the certified distance to the optimum.

    Examples
    --------
    >>> from linrank import SparseRankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> ranker = SparseRankSVM(C=3e-4, penalty="l1").fit(data.X, data.y, qid=data.qid)
    >>> ranker.transform(data.X).shape[1] == ranker.n_selected_ < 20
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        penalty: str | Penalty = "l1",
        shape: float | None = None,
        feature_cost: Any = None,
        debias: bool = False,
        loss: str = "squared_hinge",
        tol: float = 1e-3,
        solver: str = "auto",
        counting: str = "auto",
        pairs: str = "all",
        rescale: str | None = None,
        delta: str | Delta = "label",
        normalize: str | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.penalty = penalty
        self.shape = shape
        self.feature_cost = feature_cost
        self.debias = debias
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.counting = counting
        self.pairs = pairs
        self.rescale = rescale
        self.delta = delta
        self.normalize = normalize
        self.max_iter = max_iter
        self.n_threads = n_threads
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
    ) -> SparseRankSVM:
        """Choose features and learn their weights.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight, propensity, margin
            See `RankSVM.fit`.
        """
        data = self._ranking_data(
            X, y, qid, sample_weight, query_weight, propensity=propensity, margin=margin
        )
        trainer = self._trainer(penalty=self._penalty())
        w0 = getattr(self, "coef_", None) if self.warm_start else None
        self._finish(trainer.train(data, self.C, w0=w0), data, trainer)
        return self


class SparseRankSVMCV(ChoiceOfC, _BaseSparseRankSVM):
    """`SparseRankSVM` with C chosen by a ranking metric, on held-out data or by query folds.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid; by default 50 values from the smallest C that selects a feature upward.
    metric, cv
        See `RankSVMCV`.
    rule : {"best", "1se"}
        Take the best C, or the one with the fewest features within one standard error of it.
    penalty, shape, feature_cost, debias, solver, tol, loss, counting, pairs, rescale, delta, \
normalize, max_iter, n_threads, verbose
        See `SparseRankSVM`.

    Attributes
    ----------
    C_, metric_path_, path_
        See `RankSVMCV`.
    coef_, n_selected_, sparsity_ratio_, result_, model_
        See `SparseRankSVM`.

    Examples
    --------
    >>> from linrank import SparseRankSVMCV, make_ranking
    >>> train, valid = make_ranking(random_state=0), make_ranking(random_state=0, noise=0.5)
    >>> ranker = SparseRankSVMCV(penalty="l1", rule="1se").fit(
    ...     train.X, train.y, qid=train.qid, valid=(valid.X, valid.y, valid.qid))
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
        debias: bool = False,
        loss: str = "squared_hinge",
        tol: float = 1e-3,
        solver: str = "auto",
        counting: str = "auto",
        pairs: str = "all",
        rescale: str | None = None,
        delta: str | Delta = "label",
        normalize: str | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.Cs = Cs
        self.metric = metric
        self.cv = cv
        self.rule = rule
        self.penalty = penalty
        self.shape = shape
        self.feature_cost = feature_cost
        self.debias = debias
        self.loss = loss
        self.tol = tol
        self.solver = solver
        self.counting = counting
        self.pairs = pairs
        self.rescale = rescale
        self.delta = delta
        self.normalize = normalize
        self.max_iter = max_iter
        self.n_threads = n_threads
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
    ) -> SparseRankSVMCV:
        """Choose C, choose features and learn their weights.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight, propensity, margin
            See `RankSVM.fit`.
        valid : tuple (X, y, qid), optional
            Held-out data to choose by; without it, query folds of the data itself.
        """
        data = self._ranking_data(
            X, y, qid, sample_weight, query_weight, propensity=propensity, margin=margin
        )
        criterion = Criterion(self.metric, rule=self.rule)
        trainer = self._trainer(penalty=self._penalty(), criterion=criterion)
        self._finish(self._choose_C(trainer, data, valid, qid), data, trainer)
        return self


def sparse_path(
    data: RankingData,
    penalty: str | Penalty = "l1",
    Cs: Sequence[float] | None = None,
    *,
    shape: float | None = None,
    valid: RankingData | None = None,
    metric: str = "ndcg@10",
    tol: float = 1e-3,
    solver: str = "auto",
    n_threads: int | None = None,
    **options: Any,
) -> tuple[RegularizationPath, NDArray[np.float64] | None]:
    """Sparse solutions from the smallest C that selects a feature upward, with warm starts.

    Parameters
    ----------
    data : RankingData
    penalty, shape
        See `SparseRankSVM`.
    Cs : sequence of float, optional
        By default 50 values, from the smallest C that selects a feature to 10,000 times that.
    valid : RankingData, optional
        Held-out data to measure on.
    metric : str
    tol, solver
        See `SparseRankSVM`.
    n_threads : int, optional
    **options
        Of `linrank.make_problem`: loss, counting, preferences, normalize.

    Returns
    -------
    path : RegularizationPath
        ``path.Cs``, ``path.coefs``, ``path.n_features`` and the solver's results.
    values : float64 array of shape (n_Cs,) or None
        The metric on the held-out data.

    Examples
    --------
    >>> from linrank import make_ranking
    >>> path, _ = sparse_path(make_ranking(random_state=0), "l1", [1e-4, 1e-3])
    >>> bool(path.n_features[0] < path.n_features[1])
    True
    """
    chosen = penalty if isinstance(penalty, Penalty) else make_penalty(penalty, shape)
    problem = make_problem(data, penalty=chosen, n_threads=resolve_threads(n_threads), **options)
    path = regularization_path(problem, Cs, tol=tol, solver=solver)
    return path, None if valid is None else path.evaluate(valid, metric)
