"""Base classes of the rankers that `linrank.training` fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._checks import whole_number
from .._threads import resolve_threads
from .._typing import Integers, Vector
from ..criterion import Criterion, Fold, mean_of_folds
from ..data.checks import Matrix
from ..data.ranking import RankingData
from ..errors import (
    DataError,
    GridEdgeWarning,
    NotConvergedWarning,
    NothingSelectedWarning,
    SplitQueriesWarning,
    warn,
)
from ..model import LinearModel
from ..path import RegularizationPath
from ..solvers.result import Result, Step
from ..training import Trainer, Training
from .base import LinearRanker, aligned
from .explaining import ExplainsScores
from .habits import EvalSet, HeldOut, held_out, queries

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

#: The number of folds, a splitter of scikit-learn, or pairs of train and test rows.
Splitter: TypeAlias = "int | BaseCrossValidator | Iterable[Fold] | None"


class TrainedRanker(ExplainsScores, LinearRanker):
    """Base class of the rankers whose parameters are options of `linrank.settings.Settings`.

    Subclasses declare their parameters in `__init__` and document them.
    """

    __metadata_request__fit: ClassVar = {"propensity": True, "margin": True}

    trainer_class: ClassVar[type[Trainer]] = Trainer
    result_: Result
    model_: LinearModel

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
            Held-out data. Rankers that choose C choose it on these data, or without them by query
            folds. Other rankers measure NDCG@10 on them, as `valid_score_`.
        group : array of shape (n_queries,), optional
            The number of documents of each query, as in LightGBM; another form of `qid`.
        eval_set, eval_qid, eval_group : lists with one entry, optional
            ``[(X, y)]`` and ``[qid]`` or ``[group]``, as in XGBoost and LightGBM; another form of
            `valid`.
        """
        qid = queries(qid, group, y)
        data = self._training_data(X, y, qid, sample_weight, query_weight, propensity, margin)
        valid = held_out(valid, eval_set, eval_qid, eval_group, has_qid=self.fitted_with_qid_)
        return self._fit_data(data, None if valid is None else self._held_out(valid))

    def _training_data(
        self, X: Matrix | RankingData, y: ArrayLike | None, qid: ArrayLike | None,
        sample_weight: ArrayLike | None, query_weight: ArrayLike | None,
        propensity: ArrayLike | None, margin: ArrayLike | None,
    ) -> RankingData:  # fmt: skip
        return self._ranking_data(
            X, y, qid, sample_weight, query_weight, propensity=propensity, margin=margin
        )

    def _held_out(self, valid: HeldOut) -> RankingData:
        """Check held-out data; `fit` has stored the features that they must have."""
        if not isinstance(valid, RankingData):
            if len(valid) != 3 or (self.fitted_with_qid_ and valid[2] is None):
                raise DataError(
                    "valid must be (X, y, qid), with a qid if fit has one, or a RankingData. If "
                    "all rows of valid belong to one query, use np.zeros(len(y)) as its qid."
                )
            X, y, qid = valid
            valid = RankingData(
                aligned(X, self), y, qid, n_threads=resolve_threads(self.n_threads),
                allow_missing=self.missing is not None,
            )  # fmt: skip
        if valid.n_features != self.n_features_in_:
            raise DataError(
                f"valid has {valid.n_features} features, but X has {self.n_features_in_}"
            )
        return valid

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        self.__dict__.pop("_stream", None)  # a fit ends the stream of `RankSVM.partial_fit`
        trainer = self._trainer()
        w0 = self.model_.scaled_coef if self.warm_start and hasattr(self, "model_") else None
        training = trainer.train(data, self.C, w0=w0, valid=valid)
        self.__dict__.pop("valid_score_", None)
        if training.value is not None:
            self.valid_score_ = training.value
        self._store(training, data, trainer)
        return self

    def _scores_of(self, X: Matrix, qid: ArrayLike | None) -> Vector:
        return self.model_.predict(X, qid)

    def _options(self) -> dict[str, Any]:
        """Return the parameters that are options of the settings."""
        names = self.trainer_class.option_names()
        return {name: value for name, value in vars(self).items() if name in names}

    def _trainer(self, **more: Any) -> Trainer:
        options = self._options() | {
            "n_threads": resolve_threads(self.n_threads),
            "seed": as_seed(getattr(self, "random_state", None)),
            "callback": print_step if self.verbose else None,
        }
        return self.trainer_class.of(**options | more)

    def _store(self, training: Training, data: RankingData, trainer: Trainer) -> None:
        """Set the attributes of a fitted ranker; re-raise an interrupt to stop callers, too."""
        result = training.result
        if not result.converged and not training.interrupted:
            warn(result.message, NotConvergedWarning)
        sentence = trainer.nothing_selected(training, data)
        if sentence is not None:
            warn(sentence, NothingSelectedWarning)
        self.coef_ = training.model.coef
        self.__dict__.pop("classes_", None)
        if training.n_levels == 2 and isinstance(data, RankingData):
            self.classes_ = np.array([data.y.min(), data.y.max()])
        self.result_ = result
        self.model_ = training.model
        self.n_iter_ = max(1, result.n_iter)
        self.n_pairs_ = training.n_pairs
        self.n_empty_queries_ = training.n_empty_queries
        self.n_queries_ = data.n_queries
        if training.interrupted:
            raise KeyboardInterrupt(result.message)


class ChoosesC(TrainedRanker):
    """Base class of the rankers that choose C on held-out data or by folds."""

    C_: float
    best_score_: float | None
    best_params_: dict[str, float]
    cv_results_: dict[str, Any] | None
    metric_path_: Vector | None
    path_: RegularizationPath | None

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        criterion = Criterion(self.metric, rule=getattr(self, "rule", "best"))
        trainer = self._trainer(criterion=criterion)
        if valid is None:
            training = trainer.train_by_folds(data, self._folds(data), self.Cs)
        else:
            training = trainer.train_on_grid(data, valid, self.Cs)
        self.metric_path_ = training.fold_values
        self.cv_results_ = cv_results(training, criterion)
        self.best_params_, self.best_score_ = {"C": training.C}, training.value
        self.C_ = training.C
        self.path_ = training.path
        if training.edge is not None:
            warn(edge_sentence(training), GridEdgeWarning)
        self._store(training, data, trainer)
        return self

    def _folds(self, data: RankingData) -> int | Iterable[Fold]:
        """Return the folds for `Trainer.train_by_folds`.

        Rows of splitters and iterables are those of the caller. `RankingData` may have moved them.
        """
        if self.cv is None or isinstance(self.cv, Integral):
            return 5 if self.cv is None else int(self.cv)
        from sklearn.model_selection import check_cv  # a slow import

        from .model_selection import QueryKFold

        if isinstance(self.cv, QueryKFold):
            return self.cv.get_n_splits()
        here = np.arange(data.n_docs) if data.order is None else np.argsort(data.order)
        query = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        folds = check_cv(self.cv).split(np.zeros((data.n_docs, 1)), None, data.restore(query))
        rows = [(np.sort(here[train]), np.sort(here[test])) for train, test in folds]
        warn_of_split_queries([(query[train], query[test]) for train, test in rows])
        return rows


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


def edge_sentence(training: Training) -> str:
    """Return the warning for a best C at an end of the grid."""
    assert training.Cs is not None
    best = training.Cs[0 if training.edge == "smallest" else -1]
    wanted = "smaller" if training.edge == "smallest" else "larger"
    return (
        f"the best C, {best:g}, is the {training.edge} of the {len(training.Cs)} that were tried. "
        f"A {wanted} C may be better. Use Cs with {wanted} values."
    )


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
