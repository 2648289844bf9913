"""`AdditiveFormula`: the score of an additive model, as a sum of curves and surfaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from .._util.types import Integers, Vector
from ..errors import DataError
from ..model import Axis, Curve
from .formula import (
    Formula,
    Kind,
    Position,
    Syntax,
    check_distinct,
    renamed,
    write_curve,
    write_surface,
)

if TYPE_CHECKING:
    from ..model import AdditiveModel, Surface

# --------------------------------------------------------------------------------------------------
# `staircase`: a curve as a step function, for targets that are sums of trees.


#: Parts of the rise of one step. More parts bring the steps closer to the best ones.
PARTS_PER_STEP = 16
#: Falls of a rising curve that rounding may cause, relative to its largest value.
ROUNDING = 1e-12


class Staircase(NamedTuple):
    """A step function, and how far it is from the curve that it stands for.

    Attributes
    ----------
    curve : Curve
        A curve of degree 0.
    deviation : float
        The largest distance from the curve between the first and the last knot.
    flat_ends : bool
        Whether the curve has a slope beyond its first or last knot, which the steps do not have.
    """

    curve: Curve
    deviation: float = 0.0
    flat_ends: bool = False


def changes_by_rounding(curve: Curve, dtype: np.dtype[Any]) -> float:
    """Return how far a curve may change if its feature is rounded to a type.

    A rounded value moves along a slope. It may move from one step to another, but this counts only
    if the type has few numbers between two knots (`COARSE`).
    """
    knots, pieces = curve.axis.knots, curve.pieces
    if curve.axis.levels or not len(knots):
        return 0.0
    apart, inner = spacing(curve.axis, dtype), slice(1, len(knots))
    widths, apart = curve.axis.widths[inner], np.maximum(apart[:-1], apart[1:])
    if (apart >= widths).any():  # a value may move beyond several knots
        return curve.extent
    along = np.abs(pieces[inner]) @ np.arange(pieces.shape[1]) * (apart / widths)
    left = np.append(pieces[0, 0], pieces[inner].sum(axis=1))
    jumps = np.where(is_coarse(curve.axis, dtype), np.abs(pieces[1 : len(knots) + 1, 0] - left), 0)
    return float(min(curve.extent, along.max(initial=0.0) + jumps.max()))


COARSE = 1e-5  #: distance of two numbers of a type, relative to that of the nearest two knots


def spacing(axis: Axis, dtype: np.dtype[Any]) -> Vector:
    """Return the distance of the numbers of a type near each knot."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.spacing(np.abs(axis.knots).astype(dtype)).astype(np.float64)
    return np.nan_to_num(found, nan=np.inf)


def is_coarse(axis: Axis, dtype: np.dtype[Any]) -> Any:
    """Return for each knot whether a type has few numbers between it and its neighbours."""
    widths = axis.widths[: len(axis.knots) + 1]
    return spacing(axis, dtype) > COARSE * np.minimum(widths[:-1], widths[1:])


class Stretches(NamedTuple):
    """Intervals in which a curve is monotone, in their order.

    Attributes
    ----------
    cell : array of int
        The cell of the axis that an interval belongs to.
    start : array
        Where it begins; the first one has no begin.
    left, right : arrays
        Values of the curve at both ends. Those of the outer cells are the values at the knots.
    """

    cell: Integers
    start: Vector
    left: Vector
    right: Vector

    @property
    def moves(self) -> Vector:
        """How far the curve moves within each interval."""
        return np.abs(self.right - self.left)

    @property
    def ways(self) -> Vector:
        """How far the curve has moved up and down before each interval."""
        jumps = np.abs(self.left - np.concatenate([self.left[:1], self.right[:-1]]))
        return np.cumsum(jumps + self.moves) - self.moves

    @property
    def low(self) -> Vector:
        """The lowest value in each interval."""
        return np.minimum(self.left, self.right)

    @property
    def high(self) -> Vector:
        """The highest value in each interval."""
        return np.maximum(self.left, self.right)


def staircase(curve: Curve, steps: int) -> Staircase:
    """Return a step function with at most `steps` steps that follows a curve.

    Each step covers the same part of all ups and downs of the curve, and has the value in the
    middle between its lowest and its highest point. The largest deviation is then about half of
    the ups and downs, divided by `steps`; no steps do better if the curve is monotone. The steps
    of a monotone curve are monotone.

    Examples
    --------
    >>> curve = Curve(0, Axis([0.0, 2.0]), [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.25, 0.0]])
    >>> found = staircase(curve, 4)
    >>> found.curve.axis.knots.tolist(), found.curve.pieces[:, 0].tolist(), found.deviation
    ([0.5, 1.0, 1.5], [0.125, 0.375, 0.625, 0.875, 0.25], 0.125)
    """
    axis, pieces = curve.axis, curve.pieces
    if axis.levels or not pieces[:, 1:].any() or not len(axis.knots):
        known = curve(axis.knots) if axis.levels else pieces[:-2, 0]
        flat = np.concatenate([known, pieces[-2:, 0]])
        return Staircase(Curve(curve.feature, axis, flat[:, None]))
    whole = stretches(curve)
    total = float(whole.ways[-1]) or 1.0
    by_cell = np.bincount(whole.cell, whole.moves)
    found = stretches(curve, np.ceil(by_cell * (PARTS_PER_STEP * steps / total)))
    step = np.minimum(np.floor(found.ways * (steps / total)), steps - 1)
    first = np.flatnonzero(np.diff(step, prepend=-1.0))
    low, high = np.minimum.reduceat(found.low, first), np.maximum.reduceat(found.high, first)
    values = np.append(_monotone(0.5 * low + 0.5 * high), pieces[-1, 0])
    return Staircase(
        Curve(curve.feature, Axis(found.start[first[1:]]), values[:, None]),
        float((0.5 * high - 0.5 * low).max()),
        bool(pieces[[0, -2], 1:].any()),
    )


def stretches(curve: Curve, parts: Vector | None = None) -> Stretches:
    """Return intervals in which a curve of ordered values, with at least one knot, is monotone.

    Parameters
    ----------
    curve : Curve
    parts : array of shape (n_cells - 1,), optional
        The number of equal parts into which each cell is divided; less than 1 counts as 1.
    """
    knots, pieces = curve.axis.knots, curve.pieces
    borders = pieces[[0, -2], 0]
    found = [(np.zeros(1, int), np.array([-np.inf]), borders[:1], borders[:1])]
    for cell in range(1, len(knots)):
        n_parts = 1 if parts is None else max(1, int(parts[cell]))
        t = np.union1d(np.linspace(0.0, 1.0, n_parts + 1), _turns(pieces[cell]))
        start = knots[cell - 1] + t[:-1] * curve.axis.widths[cell]
        values = np.polynomial.polynomial.polyval(t, pieces[cell])
        found.append((np.full(len(start), cell), start, values[:-1], values[1:]))
    found.append((np.array([len(knots)]), knots[-1:], borders[1:], borders[1:]))
    whole = Stretches(*(np.concatenate(column) for column in zip(*found, strict=True)))
    distinct = np.append(np.diff(whole.start) > 0, True)  # rounding may leave empty intervals
    return Stretches(*(column[distinct] for column in whole))


def cell_limits(curve: Curve) -> tuple[Vector, Vector]:
    """Return the lowest and the highest value of a curve in each cell, if it has such values."""
    low, high = np.full((2, curve.axis.n_cells), [[-np.inf], [np.inf]])
    if curve.axis.levels or not len(curve.axis.knots):
        return low, high
    found = stretches(curve)
    starts = np.flatnonzero(np.diff(found.cell, prepend=-1))
    cells = found.cell[starts]
    low[cells] = np.minimum.reduceat(found.low, starts)
    high[cells] = np.maximum.reduceat(found.high, starts)
    for outer in (0, -2):
        if curve.pieces[outer, 1:].any():
            low[outer], high[outer] = -np.inf, np.inf
    return low, high


def _turns(coefficients: Vector) -> Vector:
    """Return the places between 0 and 1 at which a polynomial turns."""
    slope = np.polynomial.Polynomial(coefficients).deriv().trim()
    roots = slope.roots()
    real = roots.real[np.abs(roots.imag) < 1e-9]
    return real[(real > 0.0) & (real < 1.0)]


def _monotone(values: Vector) -> Vector:
    """Return values of a curve, without falls or rises that only rounding can explain."""
    rises = np.diff(values)
    tolerance = ROUNDING * np.abs(values).max()
    if (rises >= -tolerance).all():
        return np.maximum.accumulate(values)
    return np.minimum.accumulate(values) if (rises <= tolerance).all() else values


# --------------------------------------------------------------------------------------------------
# `AdditiveFormula`: the score of an additive model, as a sum of curves and surfaces.


@dataclass(frozen=True)
class AdditiveFormula(Formula):
    """The score ``constant + Σ f_j(x_j) + Σ f_jk(x_j, x_k)``.

    Attributes
    ----------
    curves : tuple of Curve
    surfaces : tuple of Surface
    """

    kind: ClassVar[Kind] = "additive"

    curves: tuple[Curve, ...] = ()
    surfaces: tuple[Surface, ...] = ()

    @classmethod
    def of(cls, model: AdditiveModel, features: Mapping[str, str] | None = None) -> Self:
        """Return the formula of a model, with other names; see `renamed`."""
        inputs, n = _variables(model), model.n_features
        curves = tuple(
            replace(curve, feature=inputs[curve.feature])
            for curve in model.curves if curve.pieces.any()
        )  # fmt: skip
        surfaces = tuple(
            replace(surface, features=(inputs[surface.features[0]], inputs[surface.features[1]]))
            for surface in model.surfaces if surface.values.any()
        )  # fmt: skip
        if not curves and not surfaces:
            raise DataError("all curves of the model are 0, so there is nothing to export")
        used = {curve.feature for curve in curves}
        used |= {feature for surface in surfaces for feature in surface.features}
        steps = model.preprocessing
        formula = cls(
            tuple(sorted({variable % n for variable in used})),
            curves=curves,
            surfaces=surfaces,
            positions={
                v - n: Position.of(steps, v - n)
                for v in sorted(used)
                if v >= n and steps is not None
            },
            **renamed(model, features),
        )
        check_distinct(formula.used, "features= gives")
        return formula

    def parts(self, X: Any, query_ptr: Integers | None = None) -> Iterator[Vector]:
        """Yield the value of each curve and of each surface in rows."""
        values = self.values(X, query_ptr)
        for curve in self.curves:
            yield curve(values[curve.feature])
        for surface in self.surfaces:
            j, k = surface.features
            yield surface(values[j], values[k])

    def ranges(self) -> list[tuple[float, float]]:
        """Return the range of each curve and surface between the knots, with missing values."""
        found = [_range(curve) for curve in self.curves]
        return found + [(float(s.values.min()), float(s.values.max())) for s in self.surfaces]

    def texts(self, references: Mapping[int, str], syntax: Syntax) -> list[str]:
        """Return each curve and each surface as text."""
        curves = [write_curve(c, references[c.feature], syntax) for c in self.curves]
        return curves + [
            write_surface(s, [references[feature] for feature in s.features], syntax)
            for s in self.surfaces
        ]

    def pair_with_position(self) -> str | None:
        """Return a feature whose position has an interaction; None if there is none."""
        n, features = len(self.names), [f for surface in self.surfaces for f in surface.features]
        return next((self.names[f % n] for f in features if f >= n), None)

    def unlike_zero(self) -> str | None:
        """Return a feature whose missing values were seen in training and differ from 0."""
        for curve in self.curves:
            if _unlike(curve(np.zeros(1)), curve.pieces[-1:, 0], curve.counts):
                return self.names[curve.feature % len(self.names)]
        for surface in self.surfaces:
            values, counts = surface.values, surface.counts
            for feature, axis in zip(surface.features, surface.axes, strict=True):
                (zero,) = axis.cells(np.zeros(1))
                if _unlike(values[zero], values[-1], counts):
                    return self.names[feature % len(self.names)]
                values, counts = values.T, None if counts is None else counts.T
        return None


def _variables(model: AdditiveModel) -> list[int]:
    """Return the variable of the formula for each input of the curves; see `Formula`."""
    n, steps = model.n_features, model.preprocessing
    if steps is None or steps.beside or not steps.by_query:
        return list(range(2 * n))
    unscaled = set(steps.unscaled.tolist())
    return [j if j in unscaled else n + j for j in range(n)]


def _unlike(zero: Vector, missing: Vector, counts: Integers | None) -> bool:
    """Tell whether missing values differ from 0, and were or may have been seen in training."""
    seen = counts is None or counts[-1].any()
    return bool(seen and (zero != missing).any())


def _range(curve: Curve) -> tuple[float, float]:
    """Return the lowest and the highest value of a curve, apart from slopes beyond its knots."""
    if curve.axis.levels or not len(curve.axis.knots):
        ends = curve(np.append(curve.axis.knots, np.nan))
        other = curve.pieces[-2, 0]
        return float(min(ends.min(), other)), float(max(ends.max(), other))
    found, missing = stretches(curve), curve.pieces[-1, 0]
    return float(min(found.low.min(), missing)), float(max(found.high.max(), missing))
