"""`Curve` and `Surface`: the functions of one and of two features that an additive score sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._checks import whole_number
from .._typing import Integers, Vector
from ..errors import DataError
from ..features.axis import Axis, finite_array

HIGHEST_DEGREE = 15  #: of curves; the tables for scoring give every cell as many coefficients


@dataclass(frozen=True, eq=False)
class Curve:
    """A function of one feature: a polynomial of the place t in each cell of its axis.

    Parameters
    ----------
    feature : int
        The feature, from 0 on.
    axis : Axis
    pieces : array of shape (n_cells, degree + 1)
        ``f(x) = Σ_p pieces[cell, p]·t^p``. A step function has degree 0, a broken line degree 1.
        The degree is at most 15.
    counts : array of shape (n_cells,), optional
        The number of training documents in each cell.
    band : (array, array), optional
        Pieces, of degree 1 at most, of a lower and an upper limit of the curve.
    mean, spread : float, optional
        The mean and the standard deviation of f(x) over the training documents. The second says how
        important the curve is.

    Examples
    --------
    >>> curve = Curve(0, Axis([0.0, 2.0]), [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.25, 0.0]])
    >>> curve(np.array([-1.0, 0.5, 2.0, 9.0, np.nan])).tolist()
    [0.0, 0.25, 1.0, 1.0, 0.25]
    """

    feature: int
    axis: Axis
    pieces: Vector
    counts: Integers | None = None
    band: tuple[Vector, Vector] | None = None
    mean: float | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        n_cells = self.axis.n_cells
        _set(self, "feature", whole_number("feature", self.feature, least=0))
        _set(self, "pieces", _pieces(self.pieces, "pieces", n_cells, HIGHEST_DEGREE))
        _set(self, "counts", _counts(self.counts, (n_cells,)))
        if self.band is not None:
            if len(self.band) != 2:
                raise DataError(f"band has {len(self.band)} parts; expected a lower and an upper")
            _set(self, "band", tuple(_pieces(part, "band", n_cells, 1) for part in self.band))
        _check_moments(self.mean, self.spread)

    @property
    def degree(self) -> int:
        """The degree of the polynomials."""
        return int(self.pieces.shape[1]) - 1

    def __call__(self, x: ArrayLike) -> Vector:
        """Return f(x); NaN if x is infinite."""
        return self._value(self.pieces, np.asarray(x, np.float64))

    def limits(self, x: ArrayLike) -> tuple[Vector, Vector] | None:
        """Return the lower and the upper limit of f(x); None without a band."""
        if self.band is None:
            return None
        x = np.asarray(x, np.float64)
        return self._value(self.band[0], x), self._value(self.band[1], x)

    def _value(self, pieces: Vector, x: Vector) -> Vector:
        cells = self.axis.cells(x)
        rows, t = pieces[cells], self.axis.places(x, cells)
        total = rows[..., -1]
        for p in range(pieces.shape[1] - 2, -1, -1):
            total = total * t + rows[..., p]
        return np.where(np.isinf(x), np.nan, total)

    @property
    def extent(self) -> float:
        """The highest minus the lowest value at the borders of all cells."""
        inner = slice(1, len(self.axis.knots)) if not self.axis.levels else slice(0, 0)
        values = np.append(self.pieces[:, 0], self.pieces[inner].sum(axis=1))
        return float(np.ptp(values))

    def measured(self, x: ArrayLike) -> Self:
        """Return a copy with `counts`, `mean` and `spread` of the values of training documents."""
        x = np.asarray(x, np.float64)
        counts = np.bincount(self.axis.cells(x), minlength=self.axis.n_cells)
        return replace(self, counts=counts, **_moments(self(x)))


@dataclass(frozen=True, eq=False)
class Surface:
    """A function of two features that is constant in each pair of cells.

    Parameters
    ----------
    features : (int, int)
        The two features, from 0 on.
    axes : (Axis, Axis)
    values : array of shape (cells of the first axis, cells of the second axis)
    counts : array of the same shape, optional
        The number of training documents in each pair of cells.
    mean, spread : float, optional
        See `Curve`.

    Examples
    --------
    >>> axes = Axis([0.5]), Axis([0.5])
    >>> both = Surface((0, 1), axes, [[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    >>> both(np.array([1.0, 1.0]), np.array([1.0, 0.0])).tolist()
    [1.0, 0.0]
    """

    features: tuple[int, int]
    axes: tuple[Axis, Axis]
    values: Vector
    counts: Integers | None = None
    mean: float | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        j, k = (whole_number("feature", feature, least=0) for feature in self.features)
        if j == k:
            raise DataError(f"a surface needs two features, but both are {j}")
        _set(self, "features", (j, k))
        _set(self, "values", finite_array(self.values, "values", 2))
        shape = (self.axes[0].n_cells, self.axes[1].n_cells)
        if self.values.shape != shape:
            raise DataError(f"values has the shape {self.values.shape}, but the cells {shape}")
        _set(self, "counts", _counts(self.counts, shape))
        _check_moments(self.mean, self.spread)

    def __call__(self, x: ArrayLike, z: ArrayLike) -> Vector:
        """Return f(x, z); NaN if one of them is infinite."""
        x, z = np.asarray(x, np.float64), np.asarray(z, np.float64)
        found = self.values[self.axes[0].cells(x), self.axes[1].cells(z)]
        return np.where(np.isinf(x) | np.isinf(z), np.nan, found)

    @property
    def extent(self) -> float:
        """The highest minus the lowest value."""
        return float(np.ptp(self.values))

    def measured(self, x: ArrayLike, z: ArrayLike) -> Self:
        """Return a copy with `counts`, `mean` and `spread` of the values of training documents."""
        x, z = np.asarray(x, np.float64), np.asarray(z, np.float64)
        counts = np.zeros(self.values.shape, np.int64)
        np.add.at(counts, (self.axes[0].cells(x), self.axes[1].cells(z)), 1)
        return replace(self, counts=counts, **_moments(self(x, z)))


def _set(owner: object, name: str, value: object) -> None:
    object.__setattr__(owner, name, value)  # the classes are frozen for their users


def _pieces(values: ArrayLike, name: str, n_cells: int, degree: int) -> Vector:
    """Return a table with one row of coefficients per cell."""
    table = finite_array(values, name, 2)
    if len(table) != n_cells or not table.shape[1]:
        raise DataError(f"{name} has {len(table)} rows for {n_cells} cells. Use one row per cell.")
    if table.shape[1] > degree + 1:
        raise DataError(f"{name} has degree {table.shape[1] - 1}; expected {degree} at most")
    return table


def _counts(values: ArrayLike | None, shape: tuple[int, ...]) -> Integers | None:
    """Return the numbers of documents in the cells; None if they are not known."""
    if values is None:
        return None
    found = finite_array(values, "counts", len(shape))
    if found.shape != shape:
        raise DataError(f"counts has the shape {found.shape}, but the cells {shape}")
    if not ((found >= 0) & (found < 2**53) & (found % 1 == 0)).all():
        raise DataError("counts must be whole numbers of documents")
    return found.astype(np.int64)


def _check_moments(mean: Any, spread: Any) -> None:
    """Check a mean and a standard deviation, which may both be unknown."""
    for name, value in (("mean", mean), ("spread", spread)):
        if value is not None and (isinstance(value, bool | str) or not np.isfinite(value)):
            raise DataError(f"{name} is {value!r}; expected a finite number")
    if spread is not None and spread < 0:
        raise DataError(f"spread is {spread!r}; expected a number of at least 0")


def _moments(values: Vector) -> dict[str, Any]:
    return {"mean": float(values.mean()), "spread": float(values.std())} if len(values) else {}
