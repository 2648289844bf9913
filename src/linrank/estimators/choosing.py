"""`ChoosesC`: base class of the rankers that choose C on held-out data or by folds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._threads import resolve_threads
from .._typing import Integers, Vector
from ..criterion import Criterion, Fold, PairCriterion, mean_of_folds, same_pairs
from ..data.checks import Matrix
from ..data.pairs import Pairs
from ..data.ranking import RankingData
from ..errors import GridEdgeWarning, SplitQueriesWarning, warn
from ..grid import Edge
from ..metrics.names import RuleName
from ..model import Model
from ..path import RegularizationPath
from ..training import Trainer, Training, train_best
from .trained import TrainedRanker

if TYPE_CHECKING:
    from sklearn.model_selection import BaseCrossValidator

#: The number of folds, a splitter of scikit-learn, or pairs of train and test rows.
Splitter: TypeAlias = "int | BaseCrossValidator | Iterable[Fold] | None"


class ChoosesC(TrainedRanker):
    """Base class of the rankers that choose C on held-out data or by folds."""

    chooses: ClassVar[bool] = True

    C_: float
    best_score_: float | None
    best_params_: dict[str, float]
    cv_results_: dict[str, Any] | None
    metric_path_: Vector | None
    path_: RegularizationPath | None

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
            held_out = RankingData.from_pairs(
                *valid, n_threads=resolve_threads(self.n_threads), allow_missing=self.takes_missing
            )
            self._check_held_out(held_out)
        return self._fit_data(data, held_out)

    def _fit_data(self, data: RankingData, valid: RankingData | None = None) -> Self:
        rule: RuleName = getattr(self, "rule", "best")
        of_labels = Criterion(self.metric, rule=rule)
        criterion = of_labels if data.pairs is None else PairCriterion(rule=rule)
        trainer, training = self._choose(data, valid, criterion)
        self.metric_path_ = training.fold_values
        self.cv_results_ = cv_results(training, criterion)
        self.best_params_, self.best_score_ = {"C": training.C}, training.value
        self.C_ = training.C
        self.path_ = training.path
        warn_of_edge(training.Cs, training.edge)
        self._store(training, data, trainer)
        return self

    def _choose(
        self, data: RankingData, valid: RankingData | None, criterion: Criterion
    ) -> tuple[Trainer, Training]:
        """Choose C on held-out data, or without them by folds.

        Returns the trainer and its training.
        """
        folds = self._folds(data) if valid is None else ()

        def train(trainer: Trainer) -> Training:
            if valid is None:
                return trainer.train_by_folds(data, folds, self.Cs)
            return trainer.train_on_grid(data, valid, self.Cs)

        return train_best(self._trainers(criterion), data, train)

    def _trainers(self, criterion: Criterion) -> list[Trainer]:
        """Return the trainers that are compared."""
        return [self._trainer(criterion=criterion)]

    def path_models(self, data: RankingData) -> Sequence[Model]:
        """Return the model for each C of `path_`, given the training data again."""
        assert self.path_ is not None
        return [self.model_.with_coef(coef) for coef in self.path_.coefs]

    def _folds(self, data: RankingData) -> int | list[Fold]:
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
            return list(check_cv(self.cv).split(np.zeros((len(groups), 1)), None, groups))
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
