"""Base classes of the rankers that `linrank.training` fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from .._checks import whole_number
from .._threads import resolve_threads
from .._typing import Vector
from ..data.checks import Matrix
from ..data.pairs import Pairs
from ..data.ranking import RankingData
from ..errors import DataError, NotConvergedWarning, NothingSelectedWarning, warn
from ..model import LinearModel
from ..solvers.result import Result, Step
from ..training import Trainer, Training
from .explaining import ExplainsScores
from .features import checked_features
from .habits import EvalSet, HeldOut, held_out, queries
from .linear import LinearRanker


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

        Returns
        -------
        self

        Examples
        --------
        >>> from linrank import RankSVM, make_ranking
        >>> data = make_ranking(random_state=0)
        >>> ranker = RankSVM(C=0.01).fit(data.X, data.y, qid=data.qid)
        >>> ranker.coef_.shape, ranker.result_.converged
        ((20,), True)
        """
        qid = queries(qid, group, y)
        data = self._training_data(X, y, qid, sample_weight, query_weight, propensity, margin)
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
    ) -> Self:
        """Learn the weights from listed preferences, without labels.

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
        X = checked_features(self, X, order="C")
        self.fitted_with_qid_ = False
        return RankingData.from_pairs(
            X, pairs, pair_weight, margin, feature_names=getattr(self, "feature_names_in_", None),
            n_threads=resolve_threads(self.n_threads), items=items,
            allow_missing=self.takes_missing,
        )  # fmt: skip

    def _training_data(
        self, X: Matrix | RankingData, y: ArrayLike | None, qid: ArrayLike | None,
        sample_weight: ArrayLike | None, query_weight: ArrayLike | None,
        propensity: ArrayLike | None, margin: ArrayLike | None,
    ) -> RankingData:  # fmt: skip
        return self._ranking_data(
            X, y, qid, sample_weight, query_weight, propensity=propensity, margin=margin
        )

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        self.__dict__.pop("_stream", None)  # a fit ends the stream of `RankSVM.partial_fit`
        trainer = self._trainer()
        w0 = self.model_.coef if self.warm_start and hasattr(self, "model_") else None
        training = trainer.train(data, self.C, w0=w0, valid=valid)
        self.__dict__.pop("valid_score_", None)
        if training.value is not None:
            self.valid_score_ = training.value
        self._store(training, data, trainer)
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
        self._store_model(training)
        has_two = training.n_levels == 2 and isinstance(data, RankingData)
        self._classes = np.array([data.y.min(), data.y.max()]) if has_two else None
        self.result_ = result
        self.n_iter_ = max(1, result.n_iter)
        self.n_pairs_ = training.n_pairs
        self.n_empty_queries_ = training.n_empty_queries
        self.n_queries_ = data.n_queries
        if training.interrupted:
            raise KeyboardInterrupt(result.message)

    def _store_model(self, training: Training) -> None:
        """Set the attributes that hold what was learnt."""
        model = training.model
        assert isinstance(model, LinearModel)
        self.coef_, self.model_ = model.coef, model


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
