"""`RankSVM` and `RankSVMCV`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, check_cv

from .._threads import resolve_threads
from ..data.ranking import RankingData
from ..errors import DataError
from ..model import LinearModel
from ..path import (
    C_GRID,
    RegularizationPath,
    best_index,
    make_problem,
    regularization_path,
    warn_if_unfinished,
)
from ..solvers import Result, Step, make_solver
from .base import LinearRanker, Vector
from .model_selection import QueryKFold


class _BaseRankSVM(LinearRanker):
    """What a fitted RankSVM has, however its C was chosen."""

    result_: Result

    def _store(self, data: RankingData, result: Result, n_pairs: int) -> None:
        warn_if_unfinished(result)
        self.coef_ = result.coef
        self.result_ = result
        self.n_iter_ = max(1, result.n_iter)
        self.n_pairs_ = n_pairs
        self.n_queries_ = data.n_queries

    def to_model(self) -> LinearModel:
        """The learnt weights as a `LinearModel`, to be saved."""
        return LinearModel(
            self.coef_,
            feature_names=getattr(self, "feature_names_in_", None),
            settings=self.get_params(deep=False),
            training=training_summary(self.result_, self.n_pairs_, self.n_queries_),
        )


class RankSVM(_BaseRankSVM):
    """Linear RankSVM with the squared hinge loss.

    Minimises, over all pairs (i, j) of documents of one query with label i above label j,

        ½‖w‖² + C·Σ_(i,j) max(0, 1 − w'(x_i − x_j))²

    (Chapelle & Keerthi 2010; Lee & Lin 2014, eq. 3) in O(l·d + l log l) per pass for l
    documents with d features, whatever the number of pairs.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty. It multiplies the plain sum over pairs,
        as in the papers, unless `normalize` says otherwise.
    tol : float
        ε of the stopping rule ‖g(w)‖ ≤ ε‖g(0)‖.
    solver : {"auto", "newton", "tron"}
        ``newton`` preconditions with a sample of the Hessian and also estimates the distance
        to the optimum before it stops; ``tron`` is the trust-region Newton method of Lee & Lin.
    normalize : {None, "pairs", "queries"}
        Divide the loss by the number of pairs, or the loss of each query by the number of
        its pairs (numbers are weights where weights are given).
    max_iter : int
        The largest number of Newton iterations.
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores.
    warm_start : bool
        Start from the weights of the fit before.
    verbose : bool
        Print a line for each iteration.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    result_ : Result
        Status, objective, history, and a sentence on how it went.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    >>> from linrank import RankSVM, make_ranking
    >>> train, test = make_ranking(random_state=0), make_ranking(random_state=0, noise=0.0)
    >>> ranker = RankSVM(C=0.01).fit(train.X, train.y, qid=train.qid)
    >>> ranker.score(test.X, test.y, qid=test.qid) > 0.9
    True
    >>> ranker.rank([[0.0] * 20, list(ranker.coef_)]).tolist()
    [2, 1]
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-3,
        solver: str = "auto",
        normalize: str | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.tol = tol
        self.solver = solver
        self.normalize = normalize
        self.max_iter = max_iter
        self.n_threads = n_threads
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, query_weight: Any = None
    ) -> RankSVM:
        """Learn the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        y : array of shape (n_docs,)
            Labels: any real numbers; larger is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, any order. None: one query.
        sample_weight : array of shape (n_docs,), optional
            Weight of each document. A pair weighs query × upper document × lower document,
            so weight 0 is removal and weight 2 a second copy.
        query_weight : array of shape (n_docs,), optional
            Weight of each document's query: one value within a query.
        """
        data, documents, queries = self._ranking_data(X, y, qid, sample_weight, query_weight)
        problem = make_problem(
            data, self.C, normalize=self.normalize, sample_weight=documents,
            query_weight=queries, n_threads=resolve_threads(self.n_threads),
        )  # fmt: skip
        callback = _print_step if self.verbose else None
        method = make_solver(self.solver, tol=self.tol, max_iter=self.max_iter, callback=callback)
        w0 = getattr(self, "coef_", None) if self.warm_start else None
        if w0 is not None and len(w0) != data.n_features:
            raise DataError(
                f"warm_start: the fit before had {len(w0)} features, X has {data.n_features}"
            )
        self._store(data, method.solve(problem, w0), problem.engine.n_pairs)
        return self


class RankSVMCV(_BaseRankSVM):
    """RankSVM with C chosen by a ranking metric, on held-out data or by query folds.

    The whole grid is solved with warm starts. With folds, the metric is averaged over the
    folds and the best C is fitted again on all of the data.

    Parameters
    ----------
    Cs : sequence of float
        The grid; by default 2^-15, …, 2^10.
    metric : str
        What to maximise: ``"ndcg@10"``, ``"map"``, ``"pairwise-accuracy"``, …
    cv : int, splitter or iterable
        The number of folds, an object with ``split(X, y, groups)`` (groups are the queries),
        or pairs of train and test rows. A number means folds of whole queries; where there
        is only one query, folds of its documents.
    tol, solver, normalize, max_iter, n_threads, verbose
        See `RankSVM`.

    Attributes
    ----------
    C_ : float
        The chosen C.
    metric_path_ : float64 array of shape (n_Cs, n_folds)
        The metric on each held-out part.
    path_ : RegularizationPath
        The solutions on all of the data (for folds: up to the chosen C).
    coef_, result_, n_pairs_, n_queries_
        Of the chosen solution.

    Examples
    --------
    >>> from linrank import RankSVMCV, make_ranking
    >>> train, valid = make_ranking(random_state=0), make_ranking(random_state=0, noise=0.5)
    >>> ranker = RankSVMCV(Cs=[0.001, 0.1]).fit(
    ...     train.X, train.y, qid=train.qid, valid=(valid.X, valid.y, valid.qid))
    >>> ranker.C_ in (0.001, 0.1)
    True
    """

    def __init__(
        self,
        Cs: Sequence[float] = C_GRID,
        *,
        metric: str = "ndcg@10",
        cv: Any = 5,
        tol: float = 1e-3,
        solver: str = "auto",
        normalize: str | None = None,
        max_iter: int = 1000,
        n_threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.Cs = Cs
        self.metric = metric
        self.cv = cv
        self.tol = tol
        self.solver = solver
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
        valid: tuple[Any, Any, Any] | None = None,
    ) -> RankSVMCV:
        """Choose C and learn the weights.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            See `RankSVM.fit`.
        valid : tuple (X, y, qid), optional
            Held-out data to choose by; without it, query folds of the data itself.
        """
        data, documents, queries = self._ranking_data(X, y, qid, sample_weight, query_weight)
        if valid is not None:
            held_out = RankingData(*valid)
            if held_out.n_features != data.n_features:
                raise DataError(
                    f"valid has {held_out.n_features} features but X has {data.n_features}"
                )
            self.path_ = self._path(data, documents, queries, self.Cs)
            self.metric_path_ = self.path_.evaluate(held_out, self.metric)[:, None]
            best = best_index(self.metric_path_[:, 0])
        else:
            self.metric_path_ = self._fold_metrics(data, documents, queries)
            best = best_index(_mean_of_folds(self.metric_path_))
            self.path_ = self._path(data, documents, queries, np.unique(self.Cs)[: best + 1])
        best = min(best, len(self.path_) - 1)
        self.C_ = float(self.path_.Cs[best])
        self._store(data, self.path_.results[best], self._n_pairs)
        return self

    def _path(
        self, data: RankingData, documents: Vector | None, queries: Vector | None, Cs: Any
    ) -> RegularizationPath:
        problem = make_problem(
            data, normalize=self.normalize, sample_weight=documents, query_weight=queries,
            n_threads=resolve_threads(self.n_threads),
        )  # fmt: skip
        self._n_pairs = problem.engine.n_pairs
        callback = (lambda C, step: _print_step(step, C)) if self.verbose else None
        return regularization_path(
            problem, Cs, tol=self.tol, solver=self.solver, max_iter=self.max_iter,
            callback=callback,
        )  # fmt: skip

    def _fold_metrics(
        self, data: RankingData, documents: Vector | None, queries: Vector | None
    ) -> Vector:
        """The metric for each C and fold."""
        columns = []
        for train, test in self._folds(data):
            path = self._path(
                data.take(train),
                None if documents is None else documents[train],
                None if queries is None else queries[_queries_of(data, train)],
                self.Cs,
            )
            columns.append(path.evaluate(data.take(test), self.metric))
        return np.array(columns).T

    def _folds(self, data: RankingData) -> Iterator[tuple[Any, Any]]:
        """Pairs of row indices; splitters see the caller's rows, with queries as groups."""
        groups = data.restore(np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr)))
        if not isinstance(self.cv, int):
            splitter = check_cv(self.cv)
        elif data.n_queries > 1:
            splitter = QueryKFold(self.cv)
        else:
            splitter, groups = KFold(self.cv, shuffle=True, random_state=0), None
        here = np.arange(data.n_docs) if data.order is None else np.argsort(data.order)
        for train, test in splitter.split(np.zeros((data.n_docs, 1)), None, groups):
            yield np.sort(here[train]), np.sort(here[test])


def _mean_of_folds(values: Vector) -> Vector:
    """The mean over the folds in which the metric is defined; NaN where there is none."""
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(axis=1)
    return np.divide(total, defined.sum(axis=1), out=np.full(len(values), np.nan),
                     where=defined.any(axis=1))  # fmt: skip


def _queries_of(data: RankingData, rows: Any) -> Any:
    return np.unique(np.searchsorted(data.query_ptr, rows, side="right") - 1)


def training_summary(result: Result, n_pairs: int, n_queries: int) -> dict[str, Any]:
    """What a model file says about how its weights were learnt."""
    return {
        "status": result.status.name.lower(),
        "objective": result.objective,
        "gradient_norm": result.gradient_norm,
        "iterations": result.n_iter,
        "hessian_products": result.n_products,
        "seconds": round(result.seconds, 3),
        "pairs": n_pairs,
        "queries": n_queries,
    }


def _print_step(step: Step, C: float | None = None) -> None:
    print(
        ("" if C is None else f"C {C:<12.6g}")
        + f"iteration {step.iteration:<4d} objective {step.objective:<14.8g} "
        f"gradient {step.gradient_norm:<9.2e} products {step.products:<5d} {step.seconds:.2f} s"
    )
