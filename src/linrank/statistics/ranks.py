"""Ranks of several methods over data sets or queries (Demšar 2006)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .._util.checks import choice, whole_number
from .._util.types import Mask, Vector
from ..errors import DataError
from .paired import check_values


@dataclass(frozen=True)
class FriedmanTest:
    """Outcome of a Friedman test.

    Attributes
    ----------
    ranks : array of shape (n_methods,)
        Average rank of each method; 1 is the best.
    statistic : float
        χ² with n_methods − 1 degrees of freedom, corrected for ties.
    p_value : float
    n : int
        Number of rows in the test.
    n_left_out : int
        Number of rows that were left out, because a value is NaN.
    note : str
        A sentence if the test says nothing about these values; otherwise empty.

    Examples
    --------
    >>> test = friedman_test([[0.9, 0.8, 0.7], [0.7, 0.6, 0.5], [0.4, 0.3, 0.2]])
    >>> test.n, test.p_value < 0.05
    (3, True)
    """

    ranks: Vector
    statistic: float
    p_value: float
    n: int
    n_left_out: int
    note: str = ""


def average_ranks(values: ArrayLike, *, greater_is_better: bool = True) -> Vector:
    """Rank the methods in each row, and return the average rank of each method.

    The best method of a row has the rank 1. Methods with equal values share the mean of their
    ranks. Rows with NaN are left out. If no row is left, all ranks are NaN.

    Parameters
    ----------
    values : array of shape (n_rows, n_methods)
        Rows are data sets or queries.
    greater_is_better : bool
        False for errors, times and numbers of features.

    Returns
    -------
    array of shape (n_methods,)

    Examples
    --------
    >>> average_ranks([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]]).tolist()
    [1.0, 2.25, 2.75]
    """
    rows = _complete(check_values("values", values, ndim=2), greater_is_better)
    if not len(rows):
        return np.full(rows.shape[1], np.nan)
    from scipy.stats import rankdata  # takes long to import

    return rankdata(-rows, axis=1).mean(axis=0)


def friedman_test(values: ArrayLike, *, greater_is_better: bool = True) -> FriedmanTest:
    """Test whether at least one of several methods differs from the others, by ranks.

    If no row is left, or all methods are equal in every row, χ² is 0, p is 1 and the result has a
    `note`.

    Parameters
    ----------
    values, greater_is_better
        As in `average_ranks`, with at least three methods. For two methods, use
        `randomization_test`.

    Returns
    -------
    FriedmanTest

    Examples
    --------
    >>> test = friedman_test([[0.9, 0.8, 0.7], [0.7, 0.6, 0.5], [0.4, 0.3, 0.2]])
    >>> test.ranks.tolist(), round(test.statistic, 6), round(test.p_value, 4)
    ([1.0, 2.0, 3.0], 6.0, 0.0498)
    """
    array = check_values("values", values, ndim=2)
    if array.shape[1] < 3:
        raise DataError(
            f"values has {array.shape[1]} columns; expected at least 3 methods. For two methods, "
            "use randomization_test"
        )
    ranks = average_ranks(array, greater_is_better=greater_is_better)
    rows = _complete(array, greater_is_better)
    n, n_left_out = len(rows), len(array) - len(rows)
    if not n or not np.ptp(rows, axis=1).any():
        note = "all methods are equal in every row" if n else "no row has a value for all methods"
        return FriedmanTest(ranks, 0.0, 1.0, n, n_left_out, f"{note}, so p_value is 1")
    from scipy.stats import friedmanchisquare

    found = friedmanchisquare(*rows.T)
    return FriedmanTest(ranks, float(found.statistic), float(found.pvalue), n, n_left_out)


def _complete(values: Vector, greater_is_better: bool) -> Vector:
    """Return the rows without NaN, such that greater values are better."""
    rows = values[~np.isnan(values).any(axis=1)]
    return rows if greater_is_better else -rows


def nemenyi_critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Compute the critical difference of average ranks in the test of Nemenyi.

    Two of k methods differ if their average ranks over n rows differ by at least
    CD = q·√(k(k + 1) / (6n)). q is the (1 − α) quantile of the studentised range with infinitely
    many degrees of freedom, divided by √2.

    Parameters
    ----------
    k : int
        Number of methods, at least 2.
    n : int
        Number of data sets or queries.
    alpha : float
        Significance level.

    Returns
    -------
    float

    Examples
    --------
    >>> round(nemenyi_critical_difference(4, 14), 2)
    1.25
    """
    k, n = whole_number("k", k, least=2), whole_number("n", n)
    if not 0.0 < alpha < 1.0:
        raise DataError(f"alpha is {alpha!r}; expected a number between 0 and 1, such as 0.05")
    from scipy.stats import studentized_range  # takes long to import

    q = float(studentized_range.ppf(1.0 - alpha, k, math.inf)) / math.sqrt(2.0)
    return q * math.sqrt(k * (k + 1) / (6.0 * n))


def similar_groups(ranks: ArrayLike, critical_difference: float) -> list[tuple[int, ...]]:
    """Find the largest groups of methods that do not differ.

    The ranks in a group differ by less than the critical difference. A diagram of critical
    differences draws one line per group.

    Parameters
    ----------
    ranks : array of shape (n_methods,)
        Average ranks.
    critical_difference : float

    Returns
    -------
    list of tuple of int
        Indices of the methods of each group, the best method first. Groups of one method, and
        groups that are part of another one, are left out.

    Examples
    --------
    >>> similar_groups([3.143, 2.000, 2.893, 1.964], 1.12)
    [(3, 1, 2), (2, 0)]
    >>> similar_groups([1.0, 1.5, 2.0], 0.8)
    [(0, 1), (1, 2)]
    """
    found = check_values("ranks", ranks)
    order = np.argsort(found, kind="stable")
    ends = np.searchsorted(found[order], found[order] + critical_difference, side="left")
    groups, last = [], 0
    for start, end in enumerate(ends.tolist()):
        if end > max(last, start + 1):
            groups.append(tuple(order[start:end].tolist()))
            last = end
    return groups


# --------------------------------------------------------------------------------------------------
# Methods that are best in the sense of Pareto.


def pareto_front(points: ArrayLike, directions: Sequence[Literal["max", "min"]]) -> Mask:
    """Tell which methods no other method dominates.

    A method dominates another one if it is at least as good in all criteria, and better in one.
    Equal methods do not dominate each other. A method with NaN is not on the front.

    Parameters
    ----------
    points : array of shape (n_methods, n_criteria)
    directions : sequence of {"max", "min"}
        For each criterion, whether large or small values are good.

    Returns
    -------
    bool array of shape (n_methods,)

    Examples
    --------
    NDCG and the number of features of three methods:

    >>> pareto_front([[0.50, 40], [0.48, 5], [0.47, 9]], ["max", "min"])
    array([ True,  True, False])
    """
    values = check_values("points", points, ndim=2)
    for direction in directions:
        choice("directions", direction, ("max", "min"))
    if values.shape[1] != len(directions):
        raise DataError(
            f"points has {values.shape[1]} columns but directions has {len(directions)} entries: "
            "pass one direction per column"
        )
    values = values * np.array([1.0 if direction == "max" else -1.0 for direction in directions])
    front = ~np.isnan(values).any(axis=1)
    for row in np.flatnonzero(front):
        as_good = (values >= values[row]).all(axis=1)  # False for NaN
        better = (values > values[row]).any(axis=1)
        front[row] = not (as_good & better).any()
    return front
