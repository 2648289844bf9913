"""Metrics of pairs: pairwise accuracy and the area under the ROC curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ._measure import PerQuery, measure
from ._ranking import Ranking
from ._rules import check_choice


def _alike(new: NDArray[np.bool_], query_ptr: NDArray[np.int64]) -> NDArray[np.float64]:
    """Count, per query, the pairs within runs of equal items; `new` marks where a run begins."""
    new[query_ptr[:-1]] = True
    heads = np.flatnonzero(new)
    length = np.diff(heads, append=len(new)).astype(np.float64)
    return np.add.reduceat(length * (length - 1) / 2, np.searchsorted(heads, query_ptr[:-1]))


def _differs(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.concatenate([[True], values[1:] != values[:-1]])


def pairwise_values(ranking: Ranking, average: str = "pairs") -> PerQuery:
    """Compute the pairwise accuracy of each query, weighted by its pairs or by one."""
    # Within a group of equal scores the largest label stands first, so that the pairs
    # that are in the wrong order are those with wrong scores, and equal ones are none.
    ranking = ranking.averaged
    lists, ptr = ranking.lists, ranking.query_ptr
    pairs = ranking.sizes * (ranking.sizes - 1) / 2 - _alike(_differs(ranking.ideal), ptr)
    undecided = _alike(~lists.tied, ptr) - _alike(~lists.tied | _differs(lists.labels), ptr)
    right = pairs - ranking.n_wrong - undecided / 2
    values = np.full(ranking.n_queries, np.nan)
    np.divide(right, pairs, out=values, where=pairs > 0)
    return PerQuery(values, pairs if average == "pairs" else np.minimum(pairs, 1.0))


def auc_values(ranking: Ranking, average: str = "pairs") -> PerQuery:
    """Compute the area under the ROC curve of each query, weighted by its pairs or by one."""
    labels = ranking.lists.labels
    low, high = labels.min(), labels.max()
    other = (labels != low) & (labels != high)
    if other.any():
        raise DataError(
            f"auc needs two distinct labels but y has {low:g}, {labels[other.argmax()]:g} "
            f"and {high:g}; for graded labels use pairwise_accuracy"
        )
    return pairwise_values(ranking, average)


def pairwise_accuracy(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    average: str = "pairs",
    per_query: bool = False,
) -> Any:
    """Accuracy = (pairs i, j of one query with y_i > y_j and s_i > s_j) / (pairs with y_i > y_j).

    A pair of equal scores counts one half. Lee and Lin, Neural Computation 26 (2014),
    section 4.4, but there a pair of equal scores counts 0. Also known as the concordance
    index; computed in O(l log l) for a list of length l. A query without pairs is skipped.

    Parameters
    ----------
    y, scores, qid, per_query
        As in `ndcg`.
    average : {"pairs", "queries"}
        Whether the mean weighs all pairs or all queries alike.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN where there is no pair.

    Examples
    --------
    >>> from linrank.metrics import pairwise_accuracy
    >>> pairwise_accuracy([2, 1, 0], [0.3, 0.5, 0.3])  # wrong, undecided, right
    0.5
    """
    check_choice("average", average, ("pairs", "queries"))
    return measure(
        lambda ranking, rules: pairwise_values(ranking, average),
        y, scores, qid, per_query=per_query,
    )  # fmt: skip


def auc(
    y: Any,
    scores: Any,
    qid: Any = None,
    *,
    average: str = "pairs",
    per_query: bool = False,
) -> Any:
    """AUC = P(s_i > s_j) + P(s_i = s_j)/2 for a random positive i and negative j of one query.

    The larger of the two labels is the positive one. With several queries, pairs are
    formed within each; see `pairwise_accuracy`, which this equals for two labels.

    Parameters
    ----------
    y, scores, qid, average, per_query
        As in `pairwise_accuracy`; `y` holds at most two distinct labels.

    Returns
    -------
    float or array of shape (n_queries,)
        NaN where there is no pair.

    Examples
    --------
    >>> from linrank.metrics import auc
    >>> auc([-1, -1, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    check_choice("average", average, ("pairs", "queries"))
    return measure(
        lambda ranking, rules: auc_values(ranking, average),
        y, scores, qid, per_query=per_query,
    )  # fmt: skip
