"""`RankSVM` and `RankSVMCV`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import validate_data

from .._threads import resolve_threads
from ..counting.preferences import Delta, Preferences
from ..criterion import Criterion, Fold
from ..data.ranking import RankingData
from ..errors import DataError, GridEdgeWarning, NotConvergedWarning
from ..losses import get_loss
from ..model import LinearModel
from ..solvers import Result, Step
from ..solvers.stochastic import SGDState, stream_pass
from ..training import Trainer, Training
from .base import DTYPES, LinearRanker
from .model_selection import QueryKFold

STREAMS = {"auto": "pairs", "sgd-pairs": "pairs", "sgd-queries": "queries"}  #: what is drawn


class _BaseRankSVM(LinearRanker):
    """What RankSVMs share, however their C is chosen."""

    __metadata_request__fit: ClassVar = {"propensity": True, "margin": True}

    result_: Result
    model_: LinearModel
    _stream: SGDState

    def _trainer(self, **more: Any) -> Trainer:
        return Trainer(
            loss=self.loss,
            tol=self.tol,
            solver=self.solver,
            counting=self.counting,
            preferences=Preferences(self.pairs, self.rescale, self.delta),
            normalize=self.normalize,
            max_iter=self.max_iter,
            seed=_as_seed(getattr(self, "random_state", None)),
            n_threads=resolve_threads(self.n_threads),
            engine=self.engine,
            callback=print_step if self.verbose else None,
            **more,
        )

    def _store(self, training: Training, data: RankingData, stacklevel: int = 3) -> None:
        result = training.result
        if not result.converged and not training.interrupted:
            warnings.warn(result.message, NotConvergedWarning, stacklevel=stacklevel)
        self.coef_ = result.coef
        self.result_ = result
        self.model_ = training.model
        self.n_iter_ = max(1, result.n_iter)
        self.n_pairs_ = training.n_pairs
        self.n_empty_queries_ = training.n_empty_queries
        self.n_queries_ = data.n_queries
        if training.interrupted:  # all is stored, but whoever pressed Ctrl-C wants to stop
            raise KeyboardInterrupt(result.message)


class RankSVM(_BaseRankSVM):
    """Linear RankSVM: squared hinge, hinge, Huber or logistic loss.

    Minimises, over all pairs (i, j) of documents of one query with label i above label j,

        ½‖w‖² + C·Σ_(i,j) ℓ(w'x_i − w'x_j)      with by default   ℓ(t) = max(0, 1 − t)²

    (Chapelle & Keerthi 2010; Lee & Lin 2014, eq. 3) in O(l·d + l log l) per pass for l
    documents with d features, whatever the number of pairs. With all rows in one query and two
    labels, this optimises the AUC.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty. It multiplies the plain sum over pairs,
        as in the papers, unless `normalize` says otherwise.
    loss : {"squared_hinge", "hinge", "huber", "logistic", "logistic_exact", "domination", \
"domination_binary"}
        max(0, 1 − t)², max(0, 1 − t), quadratic for 0 < t < 1 and linear below, or
        log(1 + exp(−t)): to within 0.0029 by quadratic pieces, or exactly over listed pairs; or
        the domination loss, which is no sum over pairs (see `DominationRank`).
    tol : float
        ε of the stopping rule: ‖g(w)‖ ≤ ε‖g(0)‖, and an estimated distance to the optimum of at
        most 0.01·ε times the objective. For ``smoothing`` and ``cutting-planes``: a duality gap
        of at most ε times the objective.
    solver : {"auto", "newton", "tron", "tron-paper", "smoothing", "cutting-planes", "lbfgs", \
"sgd-pairs", "sgd-queries"}
        ``newton`` preconditions with a sample of the Hessian; ``tron`` is the trust-region
        Newton method of Lee & Lin; ``tron-paper`` is the same with their stopping rule, which
        can be met far from the optimum, and without warm starts on a path;
        ``smoothing`` is for the hinge, with a duality gap as certificate, and so are
        ``cutting-planes`` (any loss); ``lbfgs`` is scipy's; ``sgd-pairs`` and ``sgd-queries``
        are stochastic, for a rough answer soon. ``auto``: newton, or smoothing for the hinge.
    counting : {"auto", "tables", "explicit", "two-level", "direct", "selection-tree", \
"fenwick", "red-black", "red-black-by-score", "avl", "aa"}
        How to sum over pairs. All give the same numbers; ``auto`` is the fastest.
    pairs : {"all", "adjacent"}
        ``adjacent``: only pairs of neighbouring levels of a query.
    rescale : {None, "margin", "slack"}
        Ask a pair to be √δ apart instead of 1, or multiply its loss by δ.
    delta : {"label", "label-squared", "gain", "dcg"} or callable
        δ of a pair: y_i − y_j, its square, 2^y_i − 2^y_j, or the DCG lost when the two change
        places in the ideal ranking; or a function of two arrays of labels. In the ideal ranking
        each document holds one place, whatever it weighs.
    normalize : {None, "pairs", "queries"}
        Divide the loss by the number of pairs, or the loss of each query by the number of
        its pairs (numbers are weights where weights are given).
    max_iter : int
        The largest number of Newton iterations.
    n_threads : int, optional
        Default: ``LINRANK_THREADS``, or all usable cores.
    engine : {"threads", "cuda", "cuda-streaming", "p-swx"}
        Where the sums are made: on the processor, or on a graphics card (docs/cuda.md).
    warm_start : bool
        Start from the weights of the fit before.
    verbose : bool
        Print a line for each iteration.
    random_state : int, optional
        Seed of the stochastic solvers; None is 0.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    result_ : Result
        Status, objective, history, and a sentence on how it went.
    model_ : LinearModel
        The same weights in the form that is saved: ``ranker.model_.save("model.json")``.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    n_empty_queries_ : int
        Queries without pairs, which were skipped.
    feature_names_in_ : array of str
        Where X had column names.

    Examples
    --------
    >>> from linrank import RankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; 25 others remain
    >>> ranker = RankSVM(C=0.01).fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    >>> ranker.rank([[0.0] * 20, list(ranker.coef_)]).tolist()
    [2, 1]
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
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
        engine: str = "threads",
        warm_start: bool = False,
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.C = C
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
        self.engine = engine
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any,
        qid: Any = None,
        sample_weight: Any = None,
        query_weight: Any = None,
        propensity: Any = None,
        margin: Any = None,
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
            Weight of each document. A pair weighs query × upper document × lower document.
            In the objective, weight 0 is removal and weight 2 a second copy. The exception is
            ``delta="dcg"``: there weight 0 is removal, but a document of any other weight holds
            one place in the ideal ranking, where two copies hold two.
        query_weight : array of shape (n_docs,), optional
            Weight of each document's query: one value within a query.
        propensity : array of shape (n_docs,), optional
            The chance that a document was looked at: a pair is divided by that of its upper
            document, which makes up for clicks that positions prevented.
        margin : array of shape (n_docs,), optional
            A pair is asked to be margin_i − margin_j apart instead of 1; not together with
            ``rescale="margin"``.
        """
        data = self._ranking_data(
            X, y, qid, sample_weight, query_weight, propensity=propensity, margin=margin
        )
        return self._fit_data(data)

    def fit_pairs(self, X: Any, pairs: Any, pair_weight: Any = None, margin: Any = None) -> RankSVM:
        """Learn the weights from preferences that are given one by one, without labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        pairs : integer array of shape (n_pairs, 2)
            Rows of X: the first is preferred to the second.
        pair_weight : array of shape (n_pairs,), optional
        margin : array of shape (n_pairs,), optional
            How far apart the two scores should be; 1 where it is not given.

        Examples
        --------
        >>> ranker = RankSVM().fit_pairs([[1.0], [3.0], [2.0]], pairs=[[1, 2], [2, 0]])
        >>> ranker.rank([[1.0], [3.0], [2.0]]).tolist()
        [3, 1, 2]
        """
        X = validate_data(
            self, X, dtype=DTYPES, order="C", accept_sparse="csr", ensure_all_finite=False
        )
        names, n_threads = getattr(self, "feature_names_in_", None), resolve_threads(self.n_threads)
        data = RankingData.from_pairs(
            X, pairs, pair_weight, margin, feature_names=names, n_threads=n_threads
        )
        self.fitted_with_qid_ = False
        return self._fit_data(data)

    def partial_fit(
        self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None, query_weight: Any = None
    ) -> RankSVM:
        """Learn from one more batch of a stream, by stochastic gradients.

        The weights head for those that one `fit` of all batches would find. `solver` must be
        ``sgd-pairs`` (which ``auto`` is here) or ``sgd-queries``, and queries must not be split
        between batches. `fit` and `fit_pairs` begin anew.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            See `fit`.
        """
        if self.solver not in STREAMS:
            raise DataError(
                f"partial_fit learns by stochastic gradients, but solver is {self.solver!r}: use "
                "solver='sgd-pairs' or 'sgd-queries'"
            )
        if not get_loss(self.loss).pairwise:
            raise DataError(
                f"partial_fit learns from pairs, of which loss={self.loss!r} is no sum: use "
                "loss='squared_hinge' or 'logistic'"
            )
        if self.normalize is not None:
            raise DataError("normalize needs all of the data, which partial_fit has not: use None")
        trainer, first = self._trainer(), not hasattr(self, "_stream")
        data = self._ranking_data(X, y, qid, sample_weight, query_weight, reset=first)
        stream = None if first else self._stream
        self._stream = stream_pass(
            stream, data, get_loss(self.loss), self.C, STREAMS[self.solver], trainer.seed,
            counting=self.counting, preferences=trainer.preferences,
        )  # fmt: skip
        for name in ("result_", "n_pairs_", "n_queries_", "n_empty_queries_"):  # of a fit before
            self.__dict__.pop(name, None)
        self.coef_ = self._stream.coef
        self.model_ = trainer.streamed(data, self.coef_, self.C, self._stream.n_steps)
        self.n_iter_ = self._stream.n_steps
        return self

    def _fit_data(self, data: RankingData) -> RankSVM:
        self.__dict__.pop("_stream", None)
        w0 = getattr(self, "coef_", None) if self.warm_start else None
        self._store(self._trainer().train(data, self.C, w0=w0), data)
        return self


class ChoiceOfC:
    """What estimators share that choose C, on held-out data or by folds."""

    Cs: Any
    cv: Any
    n_threads: int | None

    def _choose_C(self, trainer: Trainer, data: RankingData, valid: Any, qid: Any) -> Training:
        if valid is not None:
            if len(valid) != 3 or (qid is not None and valid[2] is None):
                raise DataError(
                    "valid must be (X, y, qid), with qid as here; if all of its rows belong to one "
                    "query, pass qid=np.zeros(len(y))"
                )
            held_out = RankingData(*valid, n_threads=resolve_threads(self.n_threads))
            if held_out.n_features != data.n_features:
                raise DataError(
                    f"valid has {held_out.n_features} features but X has {data.n_features}"
                )
            training = trainer.train_on_grid(data, held_out, self.Cs)
        else:
            training = trainer.train_by_folds(data, self._folds(data), self.Cs)
        self.metric_path_ = training.fold_values
        self.C_ = training.C
        self.path_ = training.path
        if training.edge is not None:
            warnings.warn(edge_sentence(training), GridEdgeWarning, stacklevel=3)
        return training

    def _folds(self, data: RankingData) -> int | Iterable[Fold]:
        """What `Trainer.train_by_folds` takes; splitters see the caller's rows, and queries."""
        if self.cv is None or isinstance(self.cv, Integral):
            return 5 if self.cv is None else int(self.cv)
        if isinstance(self.cv, QueryKFold):
            return self.cv.get_n_splits()
        here = np.arange(data.n_docs) if data.order is None else np.argsort(data.order)
        query = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        folds = check_cv(self.cv).split(np.zeros((data.n_docs, 1)), None, data.restore(query))
        return ((np.sort(here[train]), np.sort(here[test])) for train, test in folds)


class RankSVMCV(ChoiceOfC, _BaseRankSVM):
    """RankSVM with C chosen by a ranking metric, on held-out data or by query folds.

    The whole grid is solved with warm starts. With folds, the metric is averaged over the
    folds and the best C is fitted again on all of the data.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid. By default 2^-15, …, 2^10, extended while the best C is at one of its ends
        (`linrank.grid.default_grid`).
    metric : str
        What to choose by: ``"ndcg@10"``, ``"map"``, ``"pairwise-accuracy"``, …; the largest
        value is the best, of ``"domination-error"`` and ``"all-pairs-error"`` the smallest.
    cv : int, splitter or iterable
        The number of folds, an object with ``split(X, y, groups)`` (groups are the queries),
        or pairs of train and test rows. A number means folds of whole queries; where there
        is only one query, folds of its documents.
    loss, tol, solver, counting, pairs, rescale, delta, normalize, max_iter, n_threads, engine, \
verbose, random_state
        See `RankSVM`.

    Attributes
    ----------
    C_ : float
        The chosen C.
    metric_path_ : float64 array of shape (n_Cs, n_folds)
        The metric on each held-out part (None where Ctrl-C cut the folds short).
    path_ : RegularizationPath
        The solutions on all of the data (for folds: up to the chosen C).
    coef_, result_, model_, n_pairs_, n_queries_
        Of the chosen solution.

    Examples
    --------
    >>> from linrank import RankSVMCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # the queries to learn from; the 25 others choose C
    >>> held_out = data.X[~known], data.y[~known], data.qid[~known]
    >>> ranker = RankSVMCV()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known], valid=held_out)
    >>> ranker.C_ in ranker.path_.Cs, ranker.metric_path_.shape[1]
    (True, 1)
    """

    def __init__(
        self,
        Cs: Sequence[float] | None = None,
        *,
        metric: str = "ndcg@10",
        cv: Any = 5,
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
        engine: str = "threads",
        verbose: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.Cs = Cs
        self.metric = metric
        self.cv = cv
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
        self.engine = engine
        self.verbose = verbose
        self.random_state = random_state

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
    ) -> RankSVMCV:
        """Choose C and learn the weights.

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
        trainer = self._trainer(criterion=Criterion(self.metric))
        self._store(self._choose_C(trainer, data, valid, qid), data)
        return self


def edge_sentence(training: Training) -> str:
    """What to do when the best C is at an end of the grid."""
    assert training.Cs is not None
    best = training.Cs[0 if training.edge == "smallest" else -1]
    wanted = "smaller" if training.edge == "smallest" else "larger"
    return (
        f"the best C, {best:g}, is the {training.edge} of the {len(training.Cs)} that were tried; "
        f"a {wanted} one may be better: give Cs with {wanted} values"
    )


def _as_seed(random_state: int | None) -> int:
    if random_state is None:
        return 0
    if not isinstance(random_state, Integral) or random_state < 0:
        raise DataError(f"random_state is {random_state!r}; expected None or a whole number ≥ 0")
    return int(random_state)


def print_step(C: float, step: Step, fold: int) -> None:
    """Print a line on an iteration: what ``verbose=True`` shows."""
    print(
        (f"fold {fold:<3d}" if fold else "")
        + f"C {C:<12.6g}iteration {step.iteration:<4d} objective {step.objective:<14.8g} "
        + (f"gap {step.gap:<9.2e} " if step.gap is not None else "")
        + f"gradient {step.gradient_norm:<9.2e} products {step.products:<5d} {step.seconds:.2f} s"
    )
