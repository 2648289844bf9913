"""`Axis`: the cells of the values of a feature, and how they are chosen from training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._checks import boolean
from .._lazy import lazy_property
from .._typing import Integers, Vector
from ..errors import DataError

LARGEST = np.finfo(float).max


@dataclass(frozen=True, eq=False)
class Axis:
    """Cells of the values of a feature: intervals between knots, or single levels.

    With m knots there are m + 2 cells. If the values are ordered, cell i holds the values
    knots[i − 1] ≤ x < knots[i], for i = 0, …, m. If they are levels, cell i < m holds knots[i], and
    cell m holds all other values. Cell m + 1 holds missing values.

    Parameters
    ----------
    knots : array of shape (m,)
        Increasing numbers: the borders of intervals, or the levels.
    levels : bool
        Whether the values are levels without an order.

    Examples
    --------
    >>> Axis([0.0, 1.0]).cells(np.array([-1.0, 0.0, 0.5, 1.0, np.nan])).tolist()
    [0, 1, 1, 2, 3]
    >>> Axis([3.0, 7.0], levels=True).cells(np.array([3.0, 7.0, 5.0, np.nan])).tolist()
    [0, 1, 2, 3]
    """

    knots: Vector
    levels: bool = False

    def __post_init__(self) -> None:
        knots = finite_array(self.knots, "knots", 1)
        with np.errstate(over="ignore"):
            steps = np.diff(knots)
        if not ((steps > 0) & (steps <= LARGEST)).all():
            raise DataError("knots must increase, by finite steps")
        object.__setattr__(self, "knots", knots)
        boolean("levels", self.levels)

    @property
    def n_cells(self) -> int:
        """The number of cells, with those of other levels and of missing values."""
        return len(self.knots) + 2

    def cells(self, x: Vector) -> Integers:
        """Return the cell of each value."""
        knots = self.knots
        if self.levels:
            places = np.minimum(np.searchsorted(knots, x), max(0, len(knots) - 1))
            known = knots[places] == x if len(knots) else np.zeros(len(x), bool)
            cells = np.where(known, places, len(knots))
        else:
            cells = np.searchsorted(knots, x, side="right")
        return np.where(np.isnan(x), len(knots) + 1, cells)

    @lazy_property
    def anchors(self) -> Vector:
        """The value of each cell at which its place t is 0."""
        knots = self.knots
        if self.levels or not len(knots):
            return np.zeros(self.n_cells)
        return np.concatenate([knots[:1], knots, [0.0]])

    @lazy_property
    def widths(self) -> Vector:
        """The length of each cell; that of the outer cells is the length of their neighbours."""
        if self.levels or len(self.knots) < 2:
            return np.ones(self.n_cells)
        inner = np.diff(self.knots)
        return np.concatenate([inner[:1], inner, inner[-1:], np.ones(1)])

    def places(self, x: Vector, cells: Integers) -> Vector:
        """Return the place t = (x − anchor)/width of each value in its cell; 0 if it is missing.

        Between two knots, 0 ≤ t ≤ 1, also after rounding. Beyond them, t is finite, so that a
        slope of 0 gives a constant.
        """
        with np.errstate(over="ignore"):
            t = (x - self.anchors[cells]) / self.widths[cells]
        return np.where(cells == len(self.knots) + 1, 0.0, np.clip(t, -LARGEST, LARGEST))


def finite_array(values: ArrayLike, name: str, n_dims: int) -> Vector:
    """Return a list or a table of finite numbers as an array."""
    try:
        found: Vector = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} cannot be read as numbers: {error}") from None
    if found.ndim != n_dims or not np.isfinite(found).all():
        raise DataError(f"{name} must be a {('list', 'table')[n_dims - 1]} of finite numbers")
    return found


def ordered_axis(values: Vector, n_bins: int) -> Axis:
    """Return an axis with at most `n_bins` intervals between knots, by quantiles of the values.

    The knots are values, the smallest and the largest among them. A value that is more frequent
    than 1/n_bins of all counts as that frequent only. The knots therefore also divide the rare
    values, if most values are equal.

    Parameters
    ----------
    values : array
        Values of a feature in the training data, without missing ones.
    n_bins : int

    Examples
    --------
    >>> ordered_axis(np.arange(9.0), 4).knots.tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    >>> ordered_axis(np.array([0.0] * 90 + [1, 2, 3, 4]), 4).knots.tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    distinct, counts = _distinct(values)
    if len(distinct) <= n_bins + 1:
        return Axis(distinct)
    mass = capped(counts, n_bins)
    inner = np.searchsorted(np.cumsum(mass), _shares(mass, n_bins))
    return Axis(distinct[np.unique(np.concatenate([[0], inner, [len(distinct) - 1]]))])


def split_axis(values: Vector, n_bins: int) -> Axis:
    """Return an axis with at most `n_bins` intervals of about equally many values.

    The knots lie in the middle between two values.

    Examples
    --------
    >>> split_axis(np.arange(8.0), 4).knots.tolist()
    [1.5, 3.5, 5.5]
    """
    distinct, counts = _distinct(values)
    upper = np.arange(1, len(distinct))
    if len(distinct) > n_bins:
        mass = capped(counts, n_bins)
        upper = np.unique(np.searchsorted(np.cumsum(mass), _shares(mass, n_bins), side="right"))
        upper = upper[(upper > 0) & (upper < len(distinct))]
    low, high = distinct[upper - 1], distinct[upper]
    middle = 0.5 * low + 0.5 * high
    return Axis(np.where(middle > low, middle, high))


def level_axis(values: Vector) -> Axis:
    """Return an axis whose cells are the distinct values.

    Examples
    --------
    >>> level_axis(np.array([7.0, 3.0, 7.0])).knots.tolist()
    [3.0, 7.0]
    """
    return Axis(np.unique(values), levels=True)


def _shares(mass: Vector, n_bins: int) -> Vector:
    """Return the inner borders of n_bins equal parts of a mass."""
    return np.linspace(0.0, mass.sum(), n_bins + 1)[1:-1]


def _distinct(values: Vector) -> tuple[Vector, Integers]:
    """Return the distinct values in order, and how often each of them occurs."""
    ordered = np.sort(values) + 0.0  # no −0
    first = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    first = np.concatenate([np.zeros(min(1, len(values)), np.int64), first])
    return ordered[first], np.diff(first, append=len(values))


def capped(counts: Integers, n_bins: int) -> Vector:
    """Return the counts of distinct values, none above 1/n_bins of their sum.

    If there are m > n_bins counts of at least 1, the bound is at least m/n_bins. Smaller counts
    are then never cut.
    """
    n_values = np.count_nonzero(counts)
    large = counts[counts > (n_values / n_bins if n_values > n_bins else 0)].astype(np.float64)
    rest, bound = counts.sum() - large.sum(), np.inf
    for _ in range(n_bins):
        mass = np.minimum(large, bound)
        lower = (rest + mass.sum()) / n_bins
        if mass.max(initial=0.0) <= lower * (1.0 + 1e-9):
            break
        bound = lower
    return np.minimum(counts, bound)
