"""The criterion by which C is chosen: a metric on held-out data or on folds of queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._checks import choice
from ._typing import Integers, Vector
from .data.keys import rank_by_content, row_keys
from .data.pairs import GivenPairs
from .data.ranking import RankingData
from .errors import DataError
from .metrics import evaluate, parse_metric, right_pairs
from .metrics.names import RULES, FlavourName, RuleName

#: Rows to train on, and held-out rows; of data with listed pairs, numbers of pairs.
Fold = tuple[Integers, Integers]


def mean_metric(data: RankingData, scores: Vector, metric: str, **options: Any) -> float:
    """Return the mean of one metric over the queries of the data."""
    found = evaluate(data.y, scores, query_ptr=data.query_ptr, metrics=[metric], **options)
    return found.mean[parse_metric(metric).name]


def best_index(values: Vector, greater_is_better: bool = True) -> int:
    """Return the index of the first best value, which belongs to the smallest best C.

    The best value is the largest one, or the smallest one of an error.

    Examples
    --------
    >>> best_index(np.array([0.3, 0.5, 0.5]))
    1
    >>> best_index(np.array([0.3, 0.5, 0.5]), greater_is_better=False)
    0
    """
    if np.isnan(values).all():
        raise DataError(
            "the metric is undefined for every model, because no query can be evaluated. Use "
            "held-out data with different labels within queries."
        )
    return int(np.nanargmax(values) if greater_is_better else np.nanargmin(values))


@dataclass(frozen=True)
class Criterion:
    """The criterion by which C is chosen: the mean of a metric on held-out documents.

    Parameters
    ----------
    metric : str
    flavour : str
        The conventions of the metric; see `linrank.evaluate`.
    rule : {"best", "1se"}
        ``best``: the best C. ``1se``: the C with the fewest features among those within one
        standard error of the best.
    """

    metric: str = "ndcg@10"
    flavour: FlavourName = "standard"
    rule: RuleName = "best"

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        parse_metric(self.metric)

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values are better; False for errors."""
        return parse_metric(self.metric).greater_is_better

    def best(self, values: Vector) -> int:
        """Return the index of the first best value; see `best_index`."""
        return best_index(values, self.greater_is_better)

    def improves(self, values: Vector, on: float) -> bool:
        """Return whether one of the values is better than the value `on`."""
        better = values > on if self.greater_is_better else values < on
        return bool(better.any())

    def choose(self, values: Vector, error: float, n_features: Integers) -> int:
        """Return the index of the chosen C, given all values and the error of the best one.

        Examples
        --------
        >>> values, n_features = np.array([0.5, 0.69, 0.7]), np.array([1, 2, 9])
        >>> Criterion(rule="1se").choose(values, 0.02, n_features)
        1
        """
        if n_features.any():  # prefer models with features
            values = np.where(n_features > 0, values, np.nan)
        best = self.best(values)
        if self.rule == "best":
            return best
        near = np.flatnonzero(np.abs(values - values[best]) <= error)
        return int(near[np.argmin(n_features[near])])

    def standard_error(self, data: RankingData, scores: Vector) -> float:
        """Return the standard error of the mean over the queries of the data."""
        doc_ids = data.doc_ids if self.flavour == "trec" else None
        found = evaluate(
            data.y, scores, query_ptr=data.query_ptr, metrics=[self.metric], flavour=self.flavour,
            doc_ids=doc_ids,
        )  # fmt: skip
        values = found.per_query[parse_metric(self.metric).name]
        return standard_error(values[~np.isnan(values)])

    def mean(self, data: RankingData, scores: Vector) -> float:
        """Return the mean over the queries of the data; NaN if no query can be measured."""
        doc_ids = data.doc_ids if self.flavour == "trec" else None
        return mean_metric(data, scores, self.metric, flavour=self.flavour, doc_ids=doc_ids)

    def check(self, data: RankingData) -> None:
        """Raise a `DataError` for data on which the metric is undefined."""
        if np.isnan(self.mean(data, np.zeros(data.n_docs))):
            raise DataError(
                f"C cannot be chosen by {parse_metric(self.metric).name}: it is undefined in all "
                f"{data.n_queries} queries of the held-out data. Use other data or another metric."
            )


@dataclass(frozen=True)
class PairCriterion(Criterion):
    """The criterion for data with listed pairs: the accuracy on held-out pairs.

    It is the weighted share of pairs whose preferred document has the higher score; equal scores
    count one half. Margins have no influence.
    """

    metric: str = "pairwise-accuracy"

    def mean(self, data: RankingData, scores: Vector) -> float:
        """Return the accuracy; NaN if all pairs have the weight 0."""
        assert data.pairs is not None
        weight = _weights(data.pairs)
        total = weight.sum()
        return float(right_pairs(scores, data.pairs.rows) @ weight / total) if total else np.nan

    def standard_error(self, data: RankingData, scores: Vector) -> float:
        """Return the standard error of the accuracy, as that of a weighted mean."""
        assert data.pairs is not None
        weight = _weights(data.pairs)
        residual = right_pairs(scores, data.pairs.rows) - self.mean(data, scores)
        return float(np.linalg.norm(weight * residual) / weight.sum())


def _weights(pairs: GivenPairs) -> Vector:
    return np.ones(len(pairs.rows)) if pairs.weight is None else pairs.weight


def make_folds(data: RankingData, n_folds: int) -> Iterator[Fold]:
    """Split data into folds: `query_folds`, or `pair_folds` for data with listed pairs."""
    return query_folds(data, n_folds) if data.pairs is None else pair_folds(data, n_folds)


def pair_groups(data: RankingData, n_folds: int) -> Integers:
    """Return the group of each listed pair; pairs of one group are in the same fold.

    A group is a connected component of the graph of preferences, so that held-out documents do not
    occur in training, as with folds of queries. If a component has more than 1/n_folds of the
    pairs, such folds would be unequal or impossible. A group then consists of the pairs of the
    same two documents, in either order. Groups are numbered by content, not by the order of rows.
    """
    assert data.pairs is not None
    rows = data.pairs.rows
    component = np.searchsorted(data.query_ptr, rows[:, 0], side="right") - 1
    if n_folds * np.bincount(component).max() <= len(rows):
        return rank_by_content(data.query_keys)[component]
    return same_pairs(data)


def same_pairs(data: RankingData) -> Integers:
    """Return a number for each listed pair, equal for pairs of the same two documents."""
    assert data.pairs is not None
    low, high = np.sort(rank_by_content(row_keys(data.X))[data.pairs.rows], axis=1).T
    return low * data.n_docs + high


def pair_folds(data: RankingData, n_folds: int) -> Iterator[Fold]:
    """Split listed pairs into folds of whole groups; see `pair_groups`."""
    from sklearn.model_selection import GroupKFold

    groups = pair_groups(data, n_folds)
    n_groups = len(np.unique(groups))
    if not 2 <= n_folds <= n_groups:
        raise DataError(
            f"there are {n_groups} different pairs: {n_folds} folds cannot be made of them. Use 2 "
            f"to {n_groups} folds."
        )
    return GroupKFold(n_folds).split(groups, groups=groups)


def query_folds(data: RankingData, n_folds: int) -> Iterator[Fold]:
    """Split data into folds of whole queries, or of documents if there is only one query.

    The folds depend on the content only, not on the order of rows or the type of `qid`. Documents
    of one query are assigned by label, so that every fold has documents of each label.
    """
    from sklearn.model_selection import GroupKFold, PredefinedSplit

    one = data.n_queries == 1
    n_groups, what = (data.n_docs, "documents of one query") if one else (data.n_queries, "queries")
    if not 2 <= n_folds <= n_groups:
        raise DataError(
            f"there are {n_groups} {what}: {n_folds} folds cannot be made of them. Use 2 to "
            f"{n_groups} folds."
        )
    if one:
        fold = np.empty(data.n_docs, np.int64)
        fold[np.lexsort((row_keys(data.X, has_missing=data.has_missing), data.y))] = (
            np.arange(data.n_docs) % n_folds
        )
        return PredefinedSplit(fold).split()
    groups = np.repeat(rank_by_content(data.query_keys), np.diff(data.query_ptr))
    return GroupKFold(n_folds).split(groups, groups=groups)


def standard_error(values: Vector) -> float:
    """Return the standard error of the mean of some values; 0 if there is only one."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def mean_of_folds(values: Vector) -> Vector:
    """Return the mean over the folds in which the metric is defined; NaN if there is none."""
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(axis=1)
    mean = np.full(len(values), np.nan)
    return np.divide(total, defined.sum(axis=1), out=mean, where=defined.any(axis=1))
