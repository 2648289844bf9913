"""Strengths of items with their covariance: tables, ranks and quasi standard errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri, stdtrit

from .._util.checks import finite_number, positive_number
from .._util.text import data_frame
from .._util.types import Integers, Vector
from ..errors import DataError

if TYPE_CHECKING:
    import pandas as pd

LOG_10 = math.log(10.0)
QUASI_ITER = 500  #: iterations for quasi variances; more items need more of them


def check_level(level: float, dof: float = math.inf) -> float:
    """Return the two-sided quantile for a level such as 0.95.

    It is that of Student's distribution with `dof` degrees of freedom, or the normal one.
    """
    if not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise DataError(f"level is {level!r}; expected a number between 0 and 1, such as 0.95")
    end = 0.5 + float(level) / 2.0
    return float(ndtri(end) if math.isinf(dof) else stdtrit(dof, end))


@dataclass(frozen=True, eq=False)
class Strengths:
    """Strengths of items, with the covariance of their estimates.

    Attributes
    ----------
    items : list
        The name of each item.
    values : float64 array of shape (n_items,)
        Log-strengths. Only their differences have a meaning.
    covariance : float64 array of shape (n_items, n_items), optional
        None if it is not known; errors are then NaN.
    draws : float64 array of shape (n_samples, n_items), optional
        Strengths of bootstrap samples. Intervals and ranks then come from them.
    dof : float
        Degrees of freedom of the intervals; infinite for those of the normal distribution.

    Examples
    --------
    >>> found = Strengths(["x", "y"], np.array([0.5, -0.5]), 0.02 * np.eye(2))
    >>> found.ranks(0.95).tolist()
    [[1, 1], [2, 2]]
    """

    items: list[Any]
    values: Vector
    covariance: Vector | None = None
    draws: Vector | None = None
    dof: float = math.inf

    def relative_to(self, reference: Any = None) -> Strengths:
        """Return strengths whose reference is 0: an item, or by default the mean of all.

        Parameters
        ----------
        reference : item, optional

        Examples
        --------
        >>> Strengths(["x", "y"], np.array([2.0, 1.0]), np.eye(2)).relative_to("y").values.tolist()
        [1.0, 0.0]
        """
        n = len(self.items)
        share = np.full(n, 1.0 / n)
        if reference is not None:
            share = np.zeros(n)
            share[self.place(reference)] = 1.0
        C, draws = self.covariance, self.draws
        if C is not None:
            C = C - share @ C
            C = C - (C @ share)[:, None]
        draws = None if draws is None else draws - (draws @ share)[:, None]
        values = self.values - share @ self.values
        return replace(self, values=values, covariance=C, draws=draws)

    def place(self, item: Any) -> int:
        """Return the number of an item, or raise a `DataError` that names the nearest one."""
        from difflib import get_close_matches

        if item in self.items:
            return self.items.index(item)
        near = get_close_matches(str(item), map(str, self.items), 1, 0.5)
        question = f"did you mean {near[0]!r}? There" if near else "there"
        raise DataError(f"{item!r} is no item; {question} are {len(self.items)} items")

    def standard_errors(self) -> Vector:
        """Return the standard error of each strength."""
        if self.covariance is None:
            return np.full(len(self.values), np.nan)
        return np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))

    def intervals(self, level: float) -> tuple[Vector, Vector]:
        """Return the ends of the intervals of all strengths."""
        z = check_level(level, self.dof)
        if self.draws is not None:
            low, high = np.quantile(self.draws, [0.5 - level / 2, 0.5 + level / 2], axis=0)
            return low, high
        width = z * self.standard_errors()
        return self.values - width, self.values + width

    def ranks(self, level: float) -> Integers:
        """Return the smallest and the largest rank of each item that the level leaves possible.

        Without draws, items are counted whose difference differs from 0. With draws, the ends are
        percentiles of ranks.
        """
        z = check_level(level, self.dof)
        if self.draws is not None:
            order = np.argsort(-self.draws, axis=1)
            ranks = np.argsort(order, axis=1) + 1
            ends = [0.5 - level / 2, 0.5 + level / 2]
            low = np.quantile(ranks, ends[0], axis=0, method="lower")
            high = np.quantile(ranks, ends[1], axis=0, method="higher")
            return np.stack([low, high], axis=1).astype(np.int64)
        C, n = self.covariance, len(self.values)
        if C is None:
            return np.tile(np.array([1, n]), (n, 1))
        variance = np.add.outer(C.diagonal(), C.diagonal()) - 2.0 * C
        difference = np.subtract.outer(self.values, self.values)
        clear = np.abs(difference) > z * np.sqrt(np.maximum(variance, 0.0)) + 1e-12
        above = (clear & (difference < 0)).sum(axis=1)
        below = (clear & (difference > 0)).sum(axis=1)
        return np.stack([1 + above, n - below], axis=1)

    def quasi_errors(self) -> Vector:
        """Return quasi standard errors (Firth & de Menezes 2004): var(i) + var(j) ≈ var(i − j)."""
        if self.covariance is None:
            return np.full(len(self.values), np.nan)
        return np.sqrt(quasi_variances(self.covariance))

    def table(
        self,
        level: float = 0.95,
        scale: float | None = None,
        base: float = 0.0,
        anchor: Mapping[Any, float] | None = None,
    ) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per item, the strongest first.

        Parameters
        ----------
        level : float
            Probability that an interval covers the strength.
        scale : float, optional
            Points in which a strength 10 times as large is higher; 400 is that of Elo ratings.
            Without it, strengths are natural logarithms.
        base : float
            A number that is added to all strengths.
        anchor : mapping, optional
            One item and the strength that it gets.

        Returns
        -------
        pandas.DataFrame
            Columns item, strength, se, low, high, quasi_se, quasi_low, quasi_high, rank, rank_low
            and rank_high. Two items whose intervals from quasi_low to quasi_high do not overlap
            differ clearly.

        Examples
        --------
        >>> found = Strengths(["x", "y"], np.array([0.5, -0.5]), 0.02 * np.eye(2))
        >>> found.table(scale=400, base=1000)["strength"].round(1).tolist()
        [1086.9, 913.1]
        """
        found, shift = self, finite_number("base", base)
        if anchor is not None:
            found, shift = self._anchored(anchor)
        unit = 1.0 if scale is None else positive_number("scale", scale) / LOG_10
        low, high = found.intervals(level)
        order = np.argsort(-found.values, kind="stable")
        ranks, strengths = found.ranks(level)[order], found.values[order]
        quasi = found.quasi_errors()[order]
        width = check_level(level, self.dof) * quasi
        return data_frame({
            "item": [found.items[k] for k in order],
            "strength": shift + unit * strengths,
            "se": unit * found.standard_errors()[order],
            "low": shift + unit * low[order],
            "high": shift + unit * high[order],
            "quasi_se": unit * quasi,
            "quasi_low": shift + unit * (strengths - width),
            "quasi_high": shift + unit * (strengths + width),
            "rank": 1 + np.searchsorted(-strengths, -strengths - 1e-9),
            "rank_low": ranks[:, 0],
            "rank_high": ranks[:, 1],
        })  # fmt: skip

    def _anchored(self, anchor: Mapping[Any, float]) -> tuple[Strengths, float]:
        """Return strengths relative to an item, and the strength that this item gets."""
        if not isinstance(anchor, Mapping) or len(anchor) != 1:
            raise DataError(f"anchor is {anchor!r}; expected one item, such as {{'x': 0}}")
        ((item, shift),) = anchor.items()
        return self.relative_to(item), finite_number("anchor", shift)


def quasi_variances(covariance: Vector) -> Vector:
    """Return numbers q whose sums q_i + q_j are near the variances of all differences.

    They minimise Σ (log(q_i + q_j) − log v_ij)² over pairs, by Newton's method in log q. NaN for
    fewer than three items, and for covariances that are not known.

    Parameters
    ----------
    covariance : array of shape (n_items, n_items)

    Examples
    --------
    >>> quasi_variances(np.diag([1.0, 2.0, 4.0])).round(6).tolist()
    [1.0, 2.0, 4.0]
    """
    n, diagonal = len(covariance), covariance.diagonal()
    unknown = np.full(n, np.nan)
    if n < 3:
        return unknown
    v = np.add.outer(diagonal, diagonal) - 2.0 * covariance
    if (v[~np.eye(n, dtype=bool)] <= 0).any():
        return unknown
    np.fill_diagonal(v, 1.0)
    target = np.log(v)
    # The least squares solution of q_i + q_j = v_ij is the start if it is positive.
    sums = v.sum(axis=1) - 1.0
    q = (sums - sums.sum() / (2.0 * (n - 1))) / (n - 2)
    logs = np.log(np.maximum(q, 0.05 * v.sum() / (2 * n * n)))
    for _ in range(QUASI_ITER):
        q = np.exp(logs)
        total = np.add.outer(q, q)
        error = np.log(total) - target
        np.fill_diagonal(error, 0.0)
        share = q[:, None] / total  # the derivative of log(q_i + q_j) in log q_i
        np.fill_diagonal(share, 0.0)
        J = share * share.T
        J[np.diag_indices(n)] = (share * share).sum(axis=1)
        step = np.linalg.solve(J + 1e-12 * np.eye(n), (share * error).sum(axis=1))
        step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))
        logs -= step
        if np.abs(step).max() < 1e-10:
            break
    return np.exp(logs)


def sandwich(
    inverse: Vector, scores: Any, groups: Integers | None = None, n_groups: float | None = None
) -> Vector:
    """Return the covariance A⁻¹ B A⁻¹ that holds even if votes of a group depend on each other.

    B is the sum over groups of the outer products of their scores, times G / (G − 1) for G groups.

    Parameters
    ----------
    inverse : array of shape (n_parameters, n_parameters)
        The inverse of the Hessian.
    scores : array or sparse matrix of shape (n_votes, n_parameters)
        The gradient of each vote.
    groups : int array of shape (n_votes,), optional
        The group of each vote; by default each vote is a group of its own.
    n_groups : float, optional
        G, if rows of scores stand for several groups.

    Examples
    --------
    >>> sandwich(np.eye(1), np.array([[1.0], [-1.0]])).tolist()
    [[4.0]]
    """
    n = scores.shape[0]
    if groups is not None:
        n = int(groups.max()) + 1
        which = sparse.csr_array(
            (np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(n, len(groups))
        )
        scores = which @ scores
    B = scores.T @ scores
    B = np.asarray(B.todense() if sparse.issparse(B) else B)
    G = n if n_groups is None else n_groups
    return inverse @ B @ inverse * (G / max(G - 1, 1))


def poisson_counts(counts: Vector, rng: np.random.Generator) -> Vector:
    """Return a Poisson bootstrap sample of counts: each vote is drawn Poisson(1) times.

    The number of draws of a cell with n votes is Poisson(n).

    Parameters
    ----------
    counts : float64 array
        Numbers of votes of cells; whole numbers.
    rng : numpy Generator

    Examples
    --------
    >>> sample = poisson_counts(np.full(1000, 4.0), np.random.default_rng(0))
    >>> 3.8 < float(sample.mean()) < 4.2
    True
    """
    return rng.poisson(counts).astype(np.float64)
