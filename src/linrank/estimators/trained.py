"""Base classes of the rankers that `linrank.training` fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from .._checks import whole_number
from .._threads import resolve_threads
from .._typing import Vector
from ..criterion import Criterion, Fold, PairCriterion, same_pairs
from ..data.checks import Matrix
from ..data.pairs import Pairs
from ..data.ranking import RankingData
from ..errors import (
    DataError,
    GridEdgeWarning,
    NotConvergedWarning,
    NothingSelectedWarning,
    warn,
)
from ..metrics.names import RuleName
from ..model import LinearModel
from ..path import RegularizationPath
from ..solvers.result import Result, Step
from ..training import Trainer, Training
from .base import DTYPES, LinearRanker, aligned
from .explaining import ExplainsScores

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

#: The number of folds, a splitter of scikit-learn, or pairs of train and test rows.
Splitter: TypeAlias = "int | BaseCrossValidator | Iterable[Fold] | None"
HeldOut: TypeAlias = tuple[Matrix, ArrayLike, ArrayLike | None]  #: (X, y, qid)


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
        X: Matrix,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        margin: ArrayLike | None = None,
    ) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
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
        """
        data = self._training_data(X, y, qid, sample_weight, query_weight, propensity, margin)
        return self._fit_data(data)

    def fit_pairs(
        self,
        X: Matrix,
        pairs: ArrayLike | Pairs,
        pair_weight: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        *,
        items: Sequence[Any] | None = None,
    ) -> Self:
        """Learn the weights from listed preferences, without labels.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_docs, n_features)
        pairs : integer array of shape (n_pairs, 2), array of names or Pairs
            Row numbers of X, or names of rows if `items` is given: the first document is preferred
            to the second. `linrank.read_pairs` returns a `Pairs`.
        pair_weight : array of shape (n_pairs,), optional
            The default is the weight of a `Pairs`, or 1.
        margin : array of shape (n_pairs,), optional
            The difference that the two scores should have. The default is the margin of a `Pairs`,
            or 1.
        items : sequence of shape (n_docs,), optional
            The name of each row of X.

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
        return self._fit_data(self._pair_data(X, pairs, pair_weight, margin, items))

    def _pair_data(
        self, X: Matrix, pairs: ArrayLike | Pairs, pair_weight: ArrayLike | None,
        margin: ArrayLike | None, items: Sequence[Any] | None,
    ) -> RankingData:  # fmt: skip
        """Check the arguments of `fit_pairs`."""
        if self._trainer().features.scale == "query":
            raise DataError(
                "scale='query' needs the queries of the documents, but fit_pairs has no qid. Use "
                "another scale, such as scale='standard'."
            )
        X = validate_data(
            self, X, dtype=DTYPES, order="C", accept_sparse="csr", ensure_all_finite=False
        )
        self.fitted_with_qid_ = False
        return RankingData.from_pairs(
            X, pairs, pair_weight, margin, feature_names=getattr(self, "feature_names_in_", None),
            n_threads=resolve_threads(self.n_threads), items=items,
            allow_missing=getattr(self, "missing", None) is not None,
        )  # fmt: skip

    def _training_data(
        self, X: Matrix, y: ArrayLike, qid: ArrayLike | None, sample_weight: ArrayLike | None,
        query_weight: ArrayLike | None, propensity: ArrayLike | None, margin: ArrayLike | None,
    ) -> RankingData:  # fmt: skip
        return self._ranking_data(
            X, y, qid, sample_weight, query_weight, propensity=propensity, margin=margin
        )

    def _fit_data(self, data: RankingData) -> Self:
        self.__dict__.pop("_stream", None)  # a fit ends the stream of `RankSVM.partial_fit`
        trainer = self._trainer()
        w0 = self.model_.coef if self.warm_start and hasattr(self, "model_") else None
        self._store(trainer.train(data, self.C, w0=w0), data, trainer)
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
    metric_path_: Vector | None
    path_: RegularizationPath | None

    def fit(
        self,
        X: Matrix,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        margin: ArrayLike | None = None,
        valid: HeldOut | None = None,
    ) -> Self:
        """Choose C and learn the weights.

        Parameters
        ----------
        X, y, qid, sample_weight, query_weight, propensity, margin
            See `linrank.RankSVM.fit`.
        valid : tuple (X, y, qid), optional
            Held-out data on which C is chosen. Without it, C is chosen by query folds.
        """
        data = self._training_data(X, y, qid, sample_weight, query_weight, propensity, margin)
        held_out = None if valid is None else self._held_out(valid, data, has_qid=qid is not None)
        return self._choose(Criterion(self.metric, rule=self._rule()), data, held_out)

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
        """Choose C and learn the weights from listed preferences, without labels.

        C has the best accuracy on held-out pairs (see `score_pairs`), whatever `metric` is. Pairs
        are weighted by `pair_weight`.

        If `cv` is a number, a fold consists of whole connected components of the graph of
        preferences. Held-out documents then do not occur in training, as with folds of queries. If
        a component has more than 1/cv of the pairs, folds consist of pairs instead: the accuracy
        is then that on new pairs of known documents. All pairs of the same two documents are in
        one fold, in whichever order they are given. A splitter or an iterable gets the numbers of
        pairs, and the groups are these sets of pairs.

        Parameters
        ----------
        X, pairs, pair_weight, margin, items
            See `linrank.RankSVM.fit_pairs`.
        valid : tuple (X, pairs), optional
            Held-out pairs of rows of another X, on which C is chosen instead of folds.

        Examples
        --------
        >>> import numpy as np
        >>> from linrank import RankSVMCV
        >>> X = np.random.default_rng(0).normal(size=(60, 3))
        >>> pairs = [sorted((i, i + 1), key=lambda row: -X[row, 0]) for i in range(59)]
        >>> ranker = RankSVMCV(Cs=[0.01, 1.0], cv=3).fit_pairs(X, pairs)
        >>> ranker.C_ in (0.01, 1.0), ranker.metric_path_.shape
        (True, (2, 3))
        """
        data = self._pair_data(X, pairs, pair_weight, margin, items)
        held_out = None
        if valid is not None:
            held_out = RankingData.from_pairs(*valid, n_threads=resolve_threads(self.n_threads))
            self._check_features(held_out, data)
        return self._choose(PairCriterion(rule=self._rule()), data, held_out)

    def _rule(self) -> RuleName:
        return getattr(self, "rule", "best")

    def _choose(
        self, criterion: Criterion, data: RankingData, held_out: RankingData | None
    ) -> Self:
        trainer = self._trainer(criterion=criterion)
        if held_out is None:
            training = trainer.train_by_folds(data, self._folds(data), self.Cs)
        else:
            training = trainer.train_on_grid(data, held_out, self.Cs)
        self.metric_path_ = training.fold_values
        self.C_ = training.C
        self.path_ = training.path
        if training.edge is not None:
            warn(edge_sentence(training), GridEdgeWarning)
        self._store(training, data, trainer)
        return self

    def _held_out(self, valid: HeldOut, data: RankingData, has_qid: bool) -> RankingData:
        if len(valid) != 3 or (has_qid and valid[2] is None):
            raise DataError(
                "valid must be (X, y, qid), with a qid if fit has one. If all rows of valid belong "
                "to one query, use np.zeros(len(y)) as its qid."
            )
        X, y, qid = valid
        held_out = RankingData(
            aligned(X, self), y, qid, n_threads=resolve_threads(self.n_threads),
            allow_missing=self.missing is not None,
        )  # fmt: skip
        self._check_features(held_out, data)
        return held_out

    def _check_features(self, held_out: RankingData, data: RankingData) -> None:
        if held_out.n_features != data.n_features:
            raise DataError(
                f"valid has {held_out.n_features} features, but X has {data.n_features}"
            )

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
        if data.pairs is not None:
            groups = same_pairs(data)
            return check_cv(self.cv).split(np.zeros((len(groups), 1)), None, groups)
        here = np.arange(data.n_docs) if data.order is None else np.argsort(data.order)
        query = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        folds = check_cv(self.cv).split(np.zeros((data.n_docs, 1)), None, data.restore(query))
        return ((np.sort(here[train]), np.sort(here[test])) for train, test in folds)


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
