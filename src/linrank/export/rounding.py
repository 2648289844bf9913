"""How many pairs of documents change their order because a target rounds scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._typing import Array, Vector
from ..data.ranking import RankingData
from ..errors import DataError
from ..metrics import all_pairs_error
from .formula import Formula

if TYPE_CHECKING:
    from collections.abc import Callable


class OrderChanges(NamedTuple):
    """Pairs of documents of a sample that a target orders in another way than the model.

    Attributes
    ----------
    pairs : int
        Pairs of documents of one query with different scores.
    reversed : int
        Pairs that the target orders the other way round.
    tied : int
        Pairs to which the target gives equal scores.
    """

    pairs: int
    reversed: int
    tied: int

    def __str__(self) -> str:
        return (
            f"{self.reversed + self.tied:,} of {self.pairs:,} pairs change their order: "
            f"{self.reversed:,} are reversed and {self.tied:,} become ties"
        )


def order_changes(
    formula: Formula, data: RankingData, scorer: Callable[..., Vector], **options: Any
) -> OrderChanges:
    """Count the pairs within queries whose order changes if a target computes the scores.

    Parameters
    ----------
    formula : Formula
    data : RankingData
        Sample of documents.
    scorer : callable
        Computes scores as the target does, from the formula, X and the options.
    **options
        Options of the target.
    """
    exact = formula.scores(data.X)
    if np.isnan(exact).any():
        raise DataError(
            "the sample has missing values of features for which the model has no rule. Pass rows "
            "of the training data."
        )
    rounded = scorer(formula, data.X, **options)
    if not np.isfinite(rounded).all():
        raise DataError(
            "scores of the sample overflow in the single precision of the target. Divide large "
            "features by a power of ten in training."
        )
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    pairs = _count_equal(qid) - _count_equal(qid, exact)
    if not pairs:
        return OrderChanges(0, 0, 0)
    tied = _count_equal(qid, rounded) - _count_equal(qid, rounded, exact)
    wrong = pairs * all_pairs_error(exact, rounded, qid)  # ties count one half
    return OrderChanges(pairs, round(wrong - tied / 2), tied)


def _count_equal(*columns: Array) -> int:
    """Count the pairs of rows that are equal in all columns."""
    order = np.lexsort(columns)
    changes = np.zeros(len(order), dtype=bool)
    for column in columns:
        changes[1:] |= np.diff(column[order]) != 0
    sizes = np.bincount(np.cumsum(changes)).astype(object)  # Python's integers do not overflow
    return int((sizes * (sizes - 1) // 2).sum())
