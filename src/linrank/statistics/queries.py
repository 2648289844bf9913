"""Queries in which two methods differ, or one method is weak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._checks import whole_number
from .._typing import Integers
from .values import check_values, differences


class WinTieLoss(NamedTuple):
    """Numbers of queries in which a method is better, equal and worse than another one.

    Attributes
    ----------
    wins, ties, losses : int

    Examples
    --------
    >>> wins, ties, losses = win_tie_loss([0.5, 0.7], [0.4, 0.7])
    >>> wins, ties, losses
    (1, 1, 0)
    """

    wins: int
    ties: int
    losses: int


def win_tie_loss(a: ArrayLike, b: ArrayLike, *, greater_is_better: bool = True) -> WinTieLoss:
    """Count the queries in which a is better than b, equal to b and worse than b.

    Values that are equal up to rounding errors are ties. Queries with NaN are not counted.

    Parameters
    ----------
    a, b : array of shape (n_queries,)
    greater_is_better : bool
        False for errors.

    Returns
    -------
    WinTieLoss

    Examples
    --------
    >>> win_tie_loss([0.5, 0.7, 0.1 + 0.2], [0.4, 0.8, 0.3])
    WinTieLoss(wins=1, ties=1, losses=1)
    """
    d = differences(a, b) * (1.0 if greater_is_better else -1.0)
    return WinTieLoss(int((d > 0.0).sum()), int((d == 0.0).sum()), int((d < 0.0).sum()))


def most_changed(a: ArrayLike, b: ArrayLike, n: int) -> Integers:
    """Return the indices of the queries with the largest |a − b|, in descending order.

    Queries that do not change, and queries with NaN, are left out. The result can therefore have
    fewer than n entries.

    Parameters
    ----------
    a, b : array of shape (n_queries,)
        Values of two methods for the same queries.
    n : int
        The largest number of queries.

    Returns
    -------
    integer array

    Examples
    --------
    >>> most_changed([0.5, 0.7, 0.3, 0.2], [0.4, 0.2, 0.3, 0.5], 2).tolist()
    [1, 3]
    """
    d = np.abs(differences(a, b))
    changed = np.flatnonzero(d > 0.0)  # False for NaN
    return changed[np.argsort(-d[changed], kind="stable")][: whole_number("n", n, least=0)]


def worst(a: ArrayLike, n: int, *, greater_is_better: bool = True) -> Integers:
    """Return the indices of the n queries with the worst values, the worst first.

    Queries with NaN are left out.

    Parameters
    ----------
    a : array of shape (n_queries,)
        Values of one method.
    n : int
        The largest number of queries.
    greater_is_better : bool
        False for errors.

    Returns
    -------
    integer array

    Examples
    --------
    >>> worst([0.5, 0.1, float("nan"), 0.3], 2).tolist()
    [1, 3]
    """
    values = check_values("a", a) * (1.0 if greater_is_better else -1.0)
    known = np.flatnonzero(~np.isnan(values))
    return known[np.argsort(values[known], kind="stable")][: whole_number("n", n, least=0)]
