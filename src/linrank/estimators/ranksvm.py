"""`RankSVM` and `RankSVMCV`: linear rankers with a loss of pairs and the penalty ½‖w‖²."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

from numpy.typing import ArrayLike

from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..errors import DataError
from ..solvers.solver import make_solver
from ..training.options import DEFAULT_C
from ..training.settings import AS_GIVEN, DEFAULT_STEPS
from .trained import Splitter, TrainedRanker


@dataclass(kw_only=True, eq=False, repr=False)
class RankSVM(TrainedRanker):
    """Linear RankSVM: squared hinge, hinge, Huber or logistic loss.

    The ranker minimises, over all pairs (i, j) of documents of one query with label i > label j,

        ½‖w‖² + C·Σ_(i,j) ℓ(w'x_i − w'x_j)      with by default   ℓ(t) = max(0, 1 − t)²

    (Chapelle & Keerthi 2010; Lee & Lin 2014, eq. 3). By default, the features are scaled and the
    sum is divided by the number of pairs, so that one C is good for most data. The objective of the
    papers is ``RankSVM(C, normalize=None, scale=None)``.

    A pass over l documents with d features takes O(l·d + l log l) time for any number of pairs. If
    all rows are in one query and there are two labels, the loss is a surrogate of the AUC.

    Parameters
    ----------
    C : float
        The weight of the loss against the penalty. It multiplies the mean over pairs, or what
        `normalize` says.
    loss : str or Loss
        The loss ℓ(t) of a pair with score difference t:

        - ``"squared_hinge"``: max(0, 1 − t)²;
        - ``"hinge"``: max(0, 1 − t);
        - ``"huber"``: quadratic for 0 < t < 1 and linear below;
        - ``"logistic"``: log(1 + exp(−t)) to within 0.0029, by quadratic pieces;
        - ``"logistic_exact"``: log(1 + exp(−t)), over listed pairs;
        - ``"domination"`` and ``"domination_binary"``: see `DominationRank`;
        - a `linrank.losses.PairwiseLoss`: any other convex loss of quadratic pieces, as a table of
          hinges.
    tol : float, optional
        The relative distance to the optimum, (f(w) − f*)/f(w), at which a fit stops. ``result_``
        says whether it is certified or estimated. None: 1e-6 for ``newton``, ``tron`` and
        ``lbfgs``, and 1e-3 for most others. ``tron-paper`` and ``newton-paper`` have the rules of
        their papers.
    solver : str or Solver
        The algorithm:

        - ``"newton"``: Newton's method, with a sample of the Hessian as preconditioner;
        - ``"tron"``: the trust-region Newton method of Lee & Lin;
        - ``"tron-paper"``: TRON without warm starts and with the stopping rule of the paper, which
          can be met far from the optimum;
        - ``"smoothing"``: Newton's method for the hinge, with a duality gap as certificate;
        - ``"cutting-planes"``: a bundle method for any pairwise loss, with a duality gap;
        - ``"dual"``: coordinate descent with a multiplier for each pair, for the hinge and the
          squared hinge on small data, with a duality gap;
        - ``"lbfgs"``: L-BFGS of scipy;
        - ``"newton-paper"``: the truncated Newton method of Chapelle & Keerthi (PRSVM, PRSVM+);
        - ``"nonlinear-cg"``: non-linear conjugate gradients;
        - ``"sgd-pairs"`` and ``"sgd-queries"``: stochastic gradient descent, which is less exact;
        - ``"auto"``: newton, or smoothing for losses without a derivative;
        - a `linrank.solvers.Solver`, such as ``Newton(max_iter=50)``, with its own tol and
          max_iter.
    counting : {"auto", "tables", "explicit", "two-level", "direct", "selection-tree", \
"fenwick", "red-black", "red-black-by-score", "avl", "aa"}
        The algorithm that sums over pairs. All give the same numbers; ``auto`` is the fastest.
    pairs : {"all", "adjacent"}
        Compare all levels of a query, or ``adjacent`` levels only.
    rescale : {None, "margin", "slack"}
        ``margin``: the scores of a pair should differ by √δ instead of 1. ``slack``: the loss of a
        pair is multiplied by δ.
    delta : {"label", "label-squared", "gain", "dcg"} or callable
        δ of a pair: y_i − y_j, its square, 2^y_i − 2^y_j, or the DCG that is lost when the two
        documents exchange places in the ideal ranking. A function gets two arrays of labels. In
        the ideal ranking each document holds one place, whatever its weight.
    normalize : {None, "pairs", "queries"}
        Divide the loss by the number of pairs, or the loss of each query by the number of its
        pairs. With weights, the sum of the weights of the pairs replaces their number. None is the
        plain sum, as in the papers.
    bounds : None, "positive" or (low, high)
        Limits of `coef_`. Each limit is a number for all features, an array with one number per
        feature, or a dict by feature name; None is no limit. ``"positive"`` is ``(0, None)``.
    max_iter : int
        The largest number of iterations.
    n_threads : int, optional
        The default is ``LINRANK_THREADS``, or all usable cores.
    engine : {"threads", "cuda", "cuda-streaming", "p-swx", "p-swx-paper"}
        Where sums are computed: on the processor, or on a graphics card (docs/guide/cuda.md).
    warm_start : bool
        Start from the weights of the previous fit.
    verbose : bool
        Print a line for each iteration, or for each C that is tried.
    random_state : int, optional
        Seed of the stochastic solvers; None is 0.
    scale : str, optional
        What is done to the features; it is stored in the model and folded into its weights where
        that is possible. ``"standard"``: (x − mean)/deviation; ``"minmax"``: to the range 0 to 1;
        ``"robust"``: (x − median)/(distance of the quartiles); ``"maxabs"``: x/max|x|;
        ``"common"``: all features times one number, so that their variances add up to 300;
        ``"query"``: to the range 0 to 1 within each query. ``"auto"`` is ``"standard"`` if X is
        dense, and ``"common"`` if it is sparse. With ``"both"``, a feature has two weights: for x
        divided by its deviation if X is dense, and for x as ``"query"`` scales it. None: nothing.
        Before it, ``"log1p"`` takes sign(x)·log(1 + |x|), and ``"clip"`` or ``"clip:0.01"`` limits
        features to their range or quantiles in the training data, as in ``"log1p+clip+standard"``.
    missing : {None, "zero", "median", "indicator"}
        What replaces NaN: nothing (it is an error), 0, the median of the feature, or the median
        with a weight of its own for the fact that the value is missing.
    categories : {None, "onehot", "hash", "hash:BUCKETS"}
        What becomes of columns of text, and of categories, in a frame: a feature for each value
        such as ``country=de``, or for each bucket of a hash if there are more values than buckets.
        They are not scaled. New values have no weight. See `RankingData.from_frame`.

    Attributes
    ----------
    coef_ : float64 array of shape (n_features,)
    result_ : Result
        Status, objective and history of the solver, and a message that summarises them.
    model_ : LinearModel
        The weights in the form that is saved: ``ranker.model_.save("model.json")``.
    intercept_ : float
        0, if the scores are ``X @ coef_``.
    feature_importances_ : float64 array of shape (n_features,)
        Absolute weights, times the standard deviations of the features.
    classes_ : float64 array of shape (2,)
        The two labels, if there are only two. `CalibratedClassifierCV` of scikit-learn needs them.
    valid_score_ : float
        NDCG@10 on the held-out data, if `fit` got any.
    n_pairs_, n_queries_, n_iter_, n_features_in_ : int
    n_empty_queries_ : int
        The number of queries without pairs, which were skipped.
    feature_names_in_ : array of str
        The column names of X, if it has any.

    Examples
    --------
    >>> from linrank import RankSVM, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries and test on the other 25
    >>> ranker = RankSVM().fit(data.X[known], data.y[known], qid=data.qid[known])
    >>> ranker.score(data.X[~known], data.y[~known], qid=data.qid[~known]) > 0.8
    True
    >>> ranker.rank([[0.0] * 20, list(ranker.coef_)], qid=[1, 1]).tolist()
    [2, 1]
    """

    C: float = field(default=DEFAULT_C, kw_only=False)
    warm_start: bool = False
    random_state: int | None = None

    __metadata_request__partial_fit: ClassVar = {"qid": True}

    def partial_fit(
        self,
        X: Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
    ) -> RankSVM:
        """Learn from one more batch of a stream, by stochastic gradients.

        The weights approach those that one `fit` of all batches would find. `solver` must be
        ``sgd-pairs`` (the choice of ``auto`` here) or ``sgd-queries``. All documents of a query
        must be in the same batch. The features are not scaled. `fit` and `fit_pairs` start again
        from zero.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight
            See `fit`.

        Examples
        --------
        >>> from linrank import RankSVM, make_ranking
        >>> ranker = RankSVM(solver="sgd-pairs")
        >>> data = make_ranking(random_state=0)
        >>> for start in (0, 1000):  # two batches of a stream, with whole queries
        ...     _ = ranker.partial_fit(data.take(range(start, start + 1000)))
        >>> ranker.score(data) > 0.8
        True
        """
        from ..solvers.sgd import StochasticSolver, stream_pass

        settings, first = self._trainer(), not hasattr(self, "_stream")
        complaint = StochasticSolver.needs.complaint(settings.loss, settings.penalty)
        if complaint is not None:
            raise DataError(f"partial_fit uses stochastic gradients. This {complaint}. Use fit.")
        solver = make_solver(
            "sgd-pairs" if self.solver == "auto" else self.solver, settings.loss, settings.penalty,
            seed=settings.seed, tol=self.tol, max_iter=settings.max_iter,
        )  # fmt: skip
        if not isinstance(solver, StochasticSolver):
            raise DataError(
                f"partial_fit learns by stochastic gradients, but solver is {solver.name!r}. Use "
                "solver='sgd-pairs' or 'sgd-queries'."
            )
        if solver.step != "adaptive":
            raise DataError(
                f"partial_fit has no step={solver.step!r}, which needs the number of all pairs. "
                "Use step='adaptive'."
            )
        if settings.features not in (AS_GIVEN, DEFAULT_STEPS):
            raise DataError(
                "scale and missing need all of the data, but partial_fit gets one batch at a time. "
                "Use scale=None and missing=None."
            )
        if self.normalize == "queries":
            raise DataError(
                "normalize='queries' needs all of the data, but partial_fit gets one batch at a "
                "time. Use normalize='pairs' or None."
            )
        data = self._ranking_data(X, y, qid, sample_weight, query_weight, reset=first)
        self._stream = stream_pass(
            getattr(self, "_stream", None), data, settings.loss, self.C, solver.over, solver.seed,
            counting=self.counting, preferences=settings.preferences,
            is_mean=self.normalize == "pairs",
        )  # fmt: skip
        for name in ("result_", "n_pairs_", "n_queries_", "n_empty_queries_"):  # an earlier fit's
            self.__dict__.pop(name, None)
        self.coef_ = solver.weights_of(self._stream)
        self.n_iter_ = n_steps = self._stream.n_steps
        trainer = self._trainer(solver=solver, scale=None)
        self.model_ = trainer.streamed(data, self.coef_, self.C, n_steps)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class RankSVMCV(TrainedRanker):
    """RankSVM with C chosen by a ranking metric, on held-out data or by query folds.

    Fits with increasing C start from the solution for the previous C. With folds, the mean of the
    metric over the folds chooses C, and the ranker is then fitted on all of the data.

    Parameters
    ----------
    Cs : sequence of float, optional
        The grid, of which the best C is taken. None: 10·4^k for k = −2, …, 2, extended while the
        chosen C is at one of its ends. Of these, the C nearest to 10 is taken among those within
        one standard error of the best, because the best one of few queries is best by chance. With
        another `normalize`, None is 2^-15, …, 2^10 (`linrank.training.selection.default_grid`), of
        which the best C is taken.
    metric : str
        The metric that chooses C: ``"ndcg@10"``, ``"map"``, ``"pairwise-accuracy"``, …. The largest
        value is the best. For ``"domination-error"`` and ``"all-pairs-error"`` it is the smallest.
    cv : int, splitter or iterable
        The number of folds, an object with ``split(X, y, groups)`` (groups are the queries),
        or pairs of train and test rows. A number means folds of whole queries. If there are fewer
        queries, each of them is a fold. If there is only one, the folds consist of its documents.
        If it has at least 20,000, one of these parts is held out, which is enough.
    loss, tol, solver, counting, pairs, rescale, delta, normalize, max_iter, n_threads, engine, \
verbose, random_state, bounds, scale, missing, categories
        See `RankSVM`.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_score_, best_params_ : float and dict
        The mean of the metric for the chosen C, and ``{"C": C_}``.
    cv_results_ : dict
        The metric for each C in the layout of `GridSearchCV`, for ``pandas.DataFrame``. Errors are
        not negated, and rank 1 is the best C.
    metric_path_ : float64 array of shape (n_Cs, n_folds)
        The metric on each held-out part. None if an interrupt ended the folds early.
    path_ : RegularizationPath
        The solutions on all of the data. With folds it ends at the chosen C.
    coef_, result_, model_, n_pairs_, n_queries_
        See `RankSVM`. They describe the solution for the chosen C.

    Examples
    --------
    >>> from linrank import RankSVMCV, make_ranking
    >>> data = make_ranking(random_state=0)
    >>> known = data.qid <= 75  # train on 75 queries, and choose C on the other 25
    >>> held_out = data.X[~known], data.y[~known], data.qid[~known]
    >>> ranker = RankSVMCV()
    >>> _ = ranker.fit(data.X[known], data.y[known], qid=data.qid[known], valid=held_out)
    >>> ranker.C_ in ranker.path_.Cs, ranker.metric_path_.shape[1]
    (True, 1)
    """

    chooses: ClassVar[bool] = True

    Cs: Sequence[float] | None = field(default=None, kw_only=False)
    metric: str = "ndcg@10"
    cv: Splitter = 5
    random_state: int | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class RefinedRankSVM(RankSVMCV):
    """`RankSVMCV` whose weights are then moved to increase the metric itself.

    `refine` starts from the weights for the chosen C. Its result is kept if the metric is larger
    on the held-out data, or on average over the folds, that also chose C.

    Parameters
    ----------
    metric : str
        The metric that chooses C and is increased; see `refine`.
    cv : int
        The number of folds of queries, if `fit` gets no held-out data.
    Cs, loss, tol, solver, counting, pairs, rescale, delta, normalize, max_iter, n_threads, \
engine, verbose, random_state, bounds, scale, missing, categories
        See `RankSVMCV`.

    Attributes
    ----------
    refinement_ : Refinement
        The metric before and after, on training and held-out data, and whether the result is kept.
    C_, coef_, result_, model_, n_pairs_, n_queries_
        See `RankSVMCV`.

    Examples
    --------
    >>> from linrank import RefinedRankSVM, make_ranking
    >>> data = make_ranking(random_state=0, noise=2.0)
    >>> ranker = RefinedRankSVM(Cs=[0.01, 0.1], cv=2).fit(data)
    >>> ranker.refinement_.after > ranker.refinement_.before
    True
    """

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        super()._fit_data(data, valid)
        folds = 5 if self.cv is None else self.cv
        if not isinstance(folds, int):
            raise DataError(f"cv is {self.cv!r}; a refined ranker needs a number of folds")
        return self.refine(data, metric=self.metric, valid=valid, cv=folds)
