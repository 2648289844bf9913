"""`TrainedRanker`: the base class of the rankers that `linrank.training` fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._util.checks import positive_number, whole_number
from .._util.parallel import resolve_threads
from .._util.types import Integers, Vector
from ..choices import (
    CountingName,
    DeltaName,
    EngineName,
    MissingName,
    NormalizeName,
    PairsName,
    RescaleName,
    RuleName,
)
from ..counting.preferences import Delta
from ..data.categories import CategoriesLike
from ..data.pairs import Pairs
from ..data.ranking import RankingData, count_valued, sparsity_ratio
from ..data.validation import Matrix
from ..errors import (
    DataError,
    GridEdgeWarning,
    NotConvergedWarning,
    NothingSelectedWarning,
    SplitQueriesWarning,
    warn,
)
from ..losses.hinge_tables import LossName
from ..losses.loss import Loss
from ..model import Model
from ..penalties.penalty import BoundsLike
from ..solvers import SolverChoice
from ..solvers.result import Step
from ..solvers.solver import Solver
from ..training import Trainer, Training, train_best
from ..training.options import DEFAULT_NORMALIZE, DEFAULT_SCALE
from ..training.selection import (
    Criterion,
    Edge,
    Fold,
    PairCriterion,
    mean_of_folds,
    most_folds,
    same_pairs,
)
from ..training.trainer import watched
from .ranker import (
    EvalSet,
    HeldOut,
    Ranker,
    checked_features,
    held_out,
    queries,
    refuse_unknown,
)

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator


#: The number of folds, a splitter of scikit-learn, or pairs of train and test rows.
Splitter: TypeAlias = "int | BaseCrossValidator | Iterable[Fold] | None"


ON_PAIRS = PairCriterion()


@dataclass(kw_only=True, eq=False, repr=False)
class TrainedRanker(Ranker):
    """Base class of the rankers that `linrank.training` fits, with the parameters that they share.

    A subclass declares its own parameters as fields. A parameter that it does not take is a field
    with ``init=False``. The ranker chooses C if it has `Cs`, `metric` and `cv` instead of `C`.
    `RankSVM` documents the parameters.
    """

    __metadata_request__fit: ClassVar = {
        "query_weight": True, "propensity": True, "margin": True
    }  # fmt: skip

    trainer_class: ClassVar[type[Trainer]] = Trainer
    has_weights: ClassVar[bool] = True
    selects: ClassVar[bool] = False  #: whether the ranker is a feature selector of scikit-learn

    loss: LossName | Loss = "squared_hinge"
    tol: float | None = None
    solver: SolverChoice | Solver = "auto"
    counting: CountingName = "auto"
    pairs: PairsName = "all"
    rescale: RescaleName | None = None
    delta: DeltaName | Delta = "label"
    normalize: NormalizeName | None = DEFAULT_NORMALIZE
    max_iter: int = 1000
    n_threads: int | None = None
    engine: EngineName = "threads"
    verbose: bool = False
    bounds: BoundsLike = None
    scale: str | None = DEFAULT_SCALE
    missing: MissingName | None = None
    categories: CategoriesLike = None

    def fit(
        self,
        X: Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        valid: HeldOut | None = None,
        *,
        group: ArrayLike | None = None,
        eval_set: EvalSet | None = None,
        eval_qid: Sequence[ArrayLike] | None = None,
        eval_group: Sequence[ArrayLike] | None = None,
        **unknown: Any,
    ) -> Self:
        """Learn the weights, and choose C if the ranker does so.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_docs, n_features), or RankingData
            A `RankingData` has labels, queries and weights, so these arguments are not given.
        y : array of shape (n_docs,)
            The label of each document: any real number. A larger label is more relevant.
        qid : array of shape (n_docs,), optional
            The query of each document: any type, in any order. None: all documents belong to one
            query.
        sample_weight : array of shape (n_docs,), optional
            The weight of each document. The weight of a pair is the product of the weights of its
            query, its upper and its lower document. In the objective, weight 0 is removal and
            weight 2 is a second copy. The exception is ``delta="dcg"``: a document of any weight
            above 0 holds one place in the ideal ranking, while two copies hold two.
        query_weight : array of shape (n_docs,), optional
            The weight of the query of each document, equal for all documents of a query.
        propensity : array of shape (n_docs,), optional
            The probability that a document was examined. The weight of a pair is divided by the
            propensity of its upper document. This corrects for clicks that low positions prevented.
        margin : array of shape (n_docs,), optional
            The scores of a pair should differ by margin_i − margin_j instead of 1. It cannot be
            combined with ``rescale="margin"``.
        valid : tuple (X, y, qid) or RankingData, optional
            Held-out data; (X, y) if fit has no qid. Rankers that choose C choose it on these data,
            or without them by query folds. Other rankers measure NDCG@10 on them, as
            `valid_score_`.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.
        eval_set, eval_qid, eval_group : lists with one entry, optional
            ``[(X, y)]`` and ``[qid]`` or ``[group]``, as in XGBoost and LightGBM; another form of
            `valid`.
        **unknown
            Other names are refused, with the name that is meant.

        Returns
        -------
        self

        Examples
        --------
        >>> from linrank import RankSVM, make_ranking
        >>> data = make_ranking(random_state=0)
        >>> ranker = RankSVM().fit(data.X, data.y, qid=data.qid)
        >>> ranker.coef_.shape, ranker.result_.converged
        ((20,), True)
        """
        refuse_unknown(unknown)
        if group is not None:
            qid = queries(qid, group, y)
        data = self._ranking_data(
            X, y, qid, sample_weight, query_weight, propensity=propensity, margin=margin
        )
        if any(given is not None for given in (eval_set, eval_qid, eval_group)):
            valid = held_out(valid, eval_set, eval_qid, eval_group, has_qid=self.fitted_with_qid_)
        return self._fit_data(data, None if valid is None else self._held_out(valid))

    def fit_pairs(
        self,
        X: Matrix,
        pairs: ArrayLike | Pairs,
        pair_weight: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        *,
        items: Sequence[Any] | None = None,
        valid: tuple[Matrix, ArrayLike] | None = None,
    ) -> Self:
        """Learn the weights from listed preferences, without labels.

        A ranker that chooses C takes the C with the best accuracy on held-out pairs (see
        `score_pairs`), whatever its `metric` is. If `cv` is a number, a fold consists of whole
        connected components of the graph of preferences. Held-out documents then do not occur in
        training, as with folds of queries. If a component has more than 1/cv of the pairs, folds
        consist of pairs instead: the accuracy is then that on new pairs of known documents. All
        pairs of the same two documents are in one fold, in whichever order they are given. A
        splitter or an iterable gets the numbers of pairs, and the groups are these sets of pairs.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        pairs : integer array of shape (n_pairs, 2), array of names, Pairs or frame
            Row numbers of X, or names of rows if `items` is given: the first document is preferred
            to the second. `linrank.read_pairs` returns a `Pairs`. A frame has columns with the
            names that `linrank.read_pairs` knows, such as winner, loser and weight, in any order.
        pair_weight : array of shape (n_pairs,), optional
            The default is the weight of a `Pairs` or of a frame, or 1.
        margin : array of shape (n_pairs,), optional
            The difference that the two scores should have. The default is the margin of a `Pairs`
            or of a frame, or 1.
        items : sequence of shape (n_docs,), optional
            The name of each row of X.
        valid : tuple (X, pairs), optional
            Held-out pairs of rows of another X. Rankers that choose C choose it on them instead of
            folds. Other rankers measure the accuracy on them, as `valid_score_`.

        Returns
        -------
        self

        See Also
        --------
        score_pairs : The share of pairs that are ranked correctly.

        Examples
        --------
        >>> from linrank import RankSVM
        >>> ranker = RankSVM().fit_pairs([[1.0], [3.0], [2.0]], pairs=[[1, 2], [2, 0]])
        >>> ranker.rank([[1.0], [3.0], [2.0]]).tolist()
        [3, 1, 2]
        >>> X, names = [[1.0], [3.0], [2.0]], ["A", "B", "C"]
        >>> RankSVM().fit_pairs(X, [("B", "C"), ("C", "A")], items=names).score_pairs(X, [[1, 0]])
        1.0
        """
        data, held_out = self._pair_data(X, pairs, pair_weight, margin, items), None
        if valid is not None:
            held_out = RankingData.from_pairs(
                *valid, n_threads=resolve_threads(self.n_threads), allow_missing=self.takes_missing
            )
            self._check_held_out(held_out)
        return self._fit_data(data, held_out)

    def _pair_data(
        self, X: Matrix, pairs: ArrayLike | Pairs, pair_weight: ArrayLike | None,
        margin: ArrayLike | None, items: Sequence[Any] | None,
    ) -> RankingData:  # fmt: skip
        """Check the arguments of `fit_pairs`."""
        steps = self._trainer().features
        if steps.by_query:
            raise DataError(
                f"scale={steps.name!r} needs the queries of the documents, but fit_pairs has no "
                "qid. Use another scale, such as scale='standard'."
            )
        X = checked_features(self, X, order="C")
        self.fitted_with_qid_ = False
        data = RankingData.from_pairs(
            X, pairs, pair_weight, margin, feature_names=getattr(self, "feature_names_in_", None),
            n_threads=resolve_threads(self.n_threads), items=items,
            allow_missing=self.takes_missing,
        )  # fmt: skip
        return data.replace(categories=self._categories)

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        for name in ("_stream", "valid_score_"):  # those of an earlier fit
            self.__dict__.pop(name, None)
        if self.chooses:
            trainer, training = self._choose(data, valid)
        else:
            trainer = self._trainer() if data.pairs is None else self._trainer(criterion=ON_PAIRS)
            w0 = getattr(self, "coef_", None) if getattr(self, "warm_start", False) else None
            training = trainer.train(data, positive_number("C", self.C), w0=w0, valid=valid)
            if training.value is not None:
                self.valid_score_ = training.value
        self._store(training, data, trainer)
        return self

    def refine(
        self,
        X: Matrix | RankingData,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        *,
        metric: str = "ndcg@10",
        valid: HeldOut | None = None,
        cv: int = 5,
        query_weight: ArrayLike | None = None,
    ) -> Self:
        """Move the fitted weights to increase a ranking metric itself, by exact line searches.

        The loss is a substitute of the metric. This stage starts from the fitted weights, and its
        metric on the training data is never smaller than theirs. The refined weights are kept only
        if they are better on held-out data; `refinement_` says whether.

        Parameters
        ----------
        X, y, qid, query_weight
            The training data of `fit`.
        metric : str
            ``"ndcg@10"``, ``"map"``, ``"mrr"``, ``"p@5"``, ``"recall@100"`` or ``"hit-rate@5"``,
            with any cut-off.
        valid : tuple (X, y, qid) or RankingData, optional
            Held-out data. Without them, the ranker is fitted and refined on `cv` folds of the
            queries.
        cv : int
            The number of folds.

        Returns
        -------
        self

        Examples
        --------
        >>> from linrank import RankSVM, make_ranking
        >>> data = make_ranking(random_state=0, noise=2.0)
        >>> ranker = RankSVM(C=0.1).fit(data).refine(data, metric="map", cv=2)
        >>> found = ranker.refinement_
        >>> found.after > found.before
        True
        """
        from ..training.refining import refine

        data = self._ranking_data(X, y, qid, None, query_weight, reset=False)
        held_out = None if valid is None else self._held_out(valid)
        model: Any = self._fitted_model()
        self.model_, self.refinement_ = refine(
            self._trainer(), model, data, metric, C=self.C_ if self.chooses else self.C,
            valid=held_out, folds=min(cv, most_folds(data)),
        )  # fmt: skip
        self.coef_ = self.model_.coef
        return self

    def check_settings(self) -> None:
        """Raise a `DataError` for settings that are not known or do not fit together.

        `fit` does the same; this method needs no data.

        Examples
        --------
        >>> from linrank import RankSVM
        >>> RankSVM(loss="huber").check_settings()
        """
        self._trainer()

    def _quick_scores(self, X: Any) -> Vector | None:
        fitted = self.__dict__
        if type(X) is not np.ndarray or X.ndim != 2 or "feature_names_in_" in fitted:
            return None
        return fitted["model_"].quick_scores(X) if "model_" in fitted else None

    def _scores_of(self, X: Matrix, qid: ArrayLike | None) -> Vector:
        return self.model_.predict(X, qid)

    @property
    def classes_(self) -> Vector:
        """The two labels of the training data, for functions of scikit-learn that expect them."""
        found = getattr(self, "_classes", None)
        if found is None:
            raise AttributeError(
                "classes_ is defined for rankers that were fitted on two different labels only. "
                "CalibratedClassifierCV and other functions for classifiers need two, such as y > 0"
            )
        return found

    def _trainer(self, **more: Any) -> Trainer:
        """Return the trainer whose options are the parameters of these names, and `more`."""
        if not (self.takes_codes or self.categories is None or isinstance(self.categories, str)):
            raise DataError(
                f"categories is {self.categories!r}; a list of features is for AdditiveRanker. Use "
                "categories='onehot'."
            )
        names = self.trainer_class.option_names()
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name in names}
        options = given | {
            "n_threads": resolve_threads(self.n_threads),
            "seed": as_seed(getattr(self, "random_state", None)),
            "callback": print_step if self.verbose and not self.chooses else None,
        }
        return self.trainer_class.of(**options | more)

    def _choose(self, data: RankingData, valid: RankingData | None) -> tuple[Trainer, Training]:
        """Choose C on held-out data, or without them by folds."""
        rule: RuleName = getattr(self, "rule", "best")
        of_labels = data.pairs is None
        criterion = Criterion(self.metric, rule=rule) if of_labels else PairCriterion(rule=rule)
        folds = self._folds(data) if valid is None else ()

        def train(trainer: Trainer) -> Training:
            n_folds = folds if isinstance(folds, int) else len(folds)
            with watched(trainer, n_folds, self.verbose) as shown:
                if valid is None:
                    return shown.train_by_folds(data, folds, self.Cs)
                return shown.train_on_grid(data, valid, self.Cs)

        trainer, training = train_best(self._trainers(criterion), data, train)
        self.metric_path_ = training.fold_values
        self.cv_results_ = cv_results(training, criterion)
        self.best_params_, self.best_score_ = {"C": training.C}, training.value
        self.C_, self.path_ = training.C, training.path
        warn_of_edge(training.Cs, training.edge)
        return trainer, training

    def _trainers(self, criterion: Criterion) -> list[Trainer]:
        """Return the trainers that are compared."""
        return [self._trainer(criterion=criterion)]

    def path_models(self, data: RankingData) -> Sequence[Model]:
        """Return the model for each C of `path_`, given the training data again."""
        assert self.path_ is not None
        return [self.model_.with_coef(coef) for coef in self.path_.coefs]

    def _folds(self, data: RankingData) -> int | list[Fold]:
        """Return the folds for `Trainer.train_by_folds`; fewer than `cv` if there are few queries.

        Rows of splitters and iterables are those of the caller. `RankingData` may have moved them.
        """
        if self.cv is None or isinstance(self.cv, Integral):
            return min(5 if self.cv is None else int(self.cv), max(2, most_folds(data)))
        from sklearn.model_selection import check_cv  # a slow import

        from .model_selection import QueryKFold

        if isinstance(self.cv, QueryKFold):
            return self.cv.get_n_splits()
        if data.pairs is not None:
            groups = same_pairs(data)
            return list(check_cv(self.cv).split(np.zeros((len(groups), 1)), None, groups))
        here = np.arange(data.n_docs) if data.order is None else np.argsort(data.order)
        query = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        folds = check_cv(self.cv).split(np.zeros((data.n_docs, 1)), None, data.restore(query))
        rows = [(np.sort(here[train]), np.sort(here[test])) for train, test in folds]
        warn_of_split_queries([(query[train], query[test]) for train, test in rows])
        return rows

    def _store(self, training: Training, data: RankingData, trainer: Trainer) -> None:
        """Set the attributes of a fitted ranker; re-raise an interrupt to stop callers, too."""
        if self.selects:
            training = self._select(training, data, trainer)
        result = training.result
        if not result.converged and not training.interrupted:
            warn(result.message, NotConvergedWarning)
        sentence = trainer.nothing_selected(training, data)
        if sentence is not None:
            warn(sentence, NothingSelectedWarning)
        model: Any = training.model
        if isinstance(data, RankingData):
            model.remember(data)
        self.model_ = model
        if self.has_weights:
            self.coef_ = model.coef
        has_two = training.n_levels == 2 and isinstance(data, RankingData)
        self._classes = np.array([data.y.min(), data.y.max()]) if has_two else None
        self.result_ = result
        self.n_iter_ = max(1, result.n_iter)
        self.n_pairs_ = training.n_pairs
        self.n_empty_queries_ = training.n_empty_queries
        self.n_queries_ = data.n_queries
        if training.interrupted:
            raise KeyboardInterrupt(result.message)

    def _select(self, training: Training, data: RankingData, trainer: Trainer) -> Training:
        """Set the numbers of selected features, after a second fit if `debias` asks for one."""
        wanted = getattr(self, "debias", False) and trainer.penalty.selects
        if wanted and training.result.coef.any():
            training = trainer.debias(training, data)
        used = training.model.used
        self.n_selected_ = len(used)
        self.zero_weights_ = 1.0 - len(used) / data.n_features
        self.sparsity_ratio_ = float(sparsity_ratio(len(used), count_valued(data.X)))
        return training

    @property
    def standardized_coef_(self) -> Vector | None:
        """Weights times the standard deviations of their features in the training data.

        They do not depend on the units of the features, so they say which features matter. None if
        the data have too many features for such statistics.
        """
        return self.model_.standardized_coef


def as_seed(random_state: int | None) -> int:
    """Return the seed of a `random_state`; None is 0."""
    return 0 if random_state is None else whole_number("random_state", random_state, least=0)


def print_step(C: float, step: Step, fold: int) -> None:
    """Print a line for an iteration, for ``verbose=True``."""
    print(
        (f"fold {fold:<3d}" if fold else "")
        + f"C {C:<12.6g}iteration {step.iteration:<4d} objective {step.objective:<14.8g} "
        + (f"gap {step.gap:<9.2e} " if step.gap is not None else "")
        + f"gradient {step.gradient_norm:<9.2e} products {step.products:<5d} {step.seconds:.2f} s"
    )


def warn_of_split_queries(folds: Sequence[tuple[Integers, Integers]]) -> None:
    """Warn if a query has documents on both sides of a fold; given are the queries of the rows.

    If all documents belong to one query, no fold can keep it together, and there is no warning.
    """
    split = [np.intersect1d(train, test) for train, test in folds]
    n_queries = len(np.unique(np.concatenate([np.concatenate(fold) for fold in folds])))
    n_split = len(np.unique(np.concatenate(split)))
    if n_split and n_queries > 1:
        warn(
            f"the folds of cv split {n_split:,} of {n_queries:,} queries: some of their documents "
            "are in the training rows and others in the held-out rows. Use a number of folds, or "
            "QueryKFold.",
            SplitQueriesWarning,
        )


def cv_results(training: Training, criterion: Criterion) -> dict[str, Any] | None:
    """Return the choice of C in the layout of scikit-learn's `GridSearchCV.cv_results_`.

    Scores are values of the metric, so the best score of an error is the smallest. None if an
    interrupt ended the folds early.
    """
    Cs, values, means = training.Cs, training.fold_values, training.values
    if Cs is None or values is None or means is None:
        return None
    sign = 1.0 if criterion.greater_is_better else -1.0
    keys = np.where(np.isnan(means), np.inf, -sign * means)
    return {
        "params": [{"C": C} for C in Cs.tolist()],
        "param_C": np.ma.MaskedArray(Cs, mask=False),
        **{f"split{k}_test_score": column for k, column in enumerate(values.T)},
        "mean_test_score": means,
        "std_test_score": np.sqrt(mean_of_folds((values - means[:, None]) ** 2)),
        "rank_test_score": 1 + np.searchsorted(np.sort(keys), keys).astype(np.int32),
    }


def warn_of_edge(Cs: Vector | None, edge: Edge | None) -> None:
    """Warn if the best C is at an end of the grid."""
    if Cs is None or edge is None:
        return
    best, wanted = (Cs[0], "smaller") if edge == "smallest" else (Cs[-1], "larger")
    warn(
        f"the best C, {best:g}, is the {edge} of the {len(Cs)} that were tried. "
        f"A {wanted} C may be better. Use Cs with {wanted} values.",
        GridEdgeWarning,
    )
