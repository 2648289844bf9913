"""What C is chosen by: a metric, on data that was held out or by folds of whole queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._checks import choice
from ._typing import Vector
from .data.ranking import RankingData, rank_by_content, row_keys
from .errors import DataError
from .metrics import evaluate, parse_metric
from .metrics.names import FlavourName
from .path import best_index, mean_metric

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]  #: rows to train on, rows held out


@dataclass(frozen=True)
class Criterion:
    """What C is chosen by: the mean of a metric on documents that were not trained on."""

    metric: str = "ndcg@10"
    flavour: FlavourName = "standard"
    rule: str = "best"  #: or "1se": the fewest features within one standard error of the best

    def __post_init__(self) -> None:
        choice("rule", self.rule, ("best", "1se"))

    def best(self, values: Vector) -> int:
        """The first of the best values: the largest, or of an error the smallest."""
        return best_index(values, parse_metric(self.metric).greater_is_better)

    def improves(self, values: Vector, on: float) -> bool:
        """Whether one of the values is better than the value `on`."""
        better = values > on if parse_metric(self.metric).greater_is_better else values < on
        return bool(better.any())

    def choose(self, values: Vector, error: float, n_features: NDArray[np.int64]) -> int:
        """The C to take, given the criterion for each, and the error of the best one.

        Examples
        --------
        >>> values, n_features = np.array([0.5, 0.69, 0.7]), np.array([1, 2, 9])
        >>> Criterion(rule="1se").choose(values, 0.02, n_features)
        1
        """
        if n_features.any():  # a ranker without features is none
            values = np.where(n_features > 0, values, np.nan)
        best = self.best(values)
        if self.rule == "best":
            return best
        near = np.flatnonzero(np.abs(values - values[best]) <= error)
        return int(near[np.argmin(n_features[near])])

    def standard_error(self, data: RankingData, scores: Vector) -> float:
        """Of the mean over the queries of the data."""
        doc_ids = data.doc_ids if self.flavour == "trec" else None
        found = evaluate(
            data.y, scores, query_ptr=data.query_ptr, metrics=[self.metric], flavour=self.flavour,
            doc_ids=doc_ids,
        )  # fmt: skip
        values = found.per_query[parse_metric(self.metric).name]
        return standard_error(values[~np.isnan(values)])

    def mean(self, data: RankingData, scores: Vector) -> float:
        """Average over the queries of the data; NaN where no query can be measured."""
        doc_ids = data.doc_ids if self.flavour == "trec" else None
        return mean_metric(data, scores, self.metric, flavour=self.flavour, doc_ids=doc_ids)

    def check(self, data: RankingData) -> None:
        """Refuse data on which the metric is undefined, before anything is trained."""
        if np.isnan(self.mean(data, np.zeros(data.n_docs))):
            raise DataError(
                f"C cannot be chosen by {parse_metric(self.metric).name}: it is undefined in all "
                f"{data.n_queries} queries of the held-out data"
            )


def query_folds(data: RankingData, n_folds: int) -> Iterator[Fold]:
    """Folds of whole queries; where there is only one query, of its documents.

    What goes where depends on content only, not on the order of rows or the type of `qid`.
    Documents are dealt out by label, so that every fold has some of each.
    """
    from sklearn.model_selection import GroupKFold, PredefinedSplit

    one = data.n_queries == 1
    n_groups, what = (data.n_docs, "documents of one query") if one else (data.n_queries, "queries")
    if not 2 <= n_folds <= n_groups:
        raise DataError(f"there are {n_groups} {what}: {n_folds} folds cannot be made of them")
    if one:
        fold = np.empty(data.n_docs, np.int64)
        fold[np.lexsort((row_keys(data.X), data.y))] = np.arange(data.n_docs) % n_folds
        return PredefinedSplit(fold).split()
    groups = np.repeat(rank_by_content(data.query_keys), np.diff(data.query_ptr))
    return GroupKFold(n_folds).split(groups, groups=groups)


def standard_error(values: Vector) -> float:
    """Of the mean of some values; 0 where there is only one."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def mean_of_folds(values: Vector) -> Vector:
    """The mean over the folds in which the metric is defined; NaN where there is none."""
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(axis=1)
    mean = np.full(len(values), np.nan)
    return np.divide(total, defined.sum(axis=1), out=mean, where=defined.any(axis=1))
