"""`Curve` and `Surface`: the functions of one and of two features that an additive score sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .._compile.jit import njit
from .._util.checks import whole_number
from .._util.maps import read_only
from .._util.types import Array, Integers, Vector
from ..errors import DataError
from ..features.basis import LARGEST, Axis, finite_array
from .model import Content, numbers

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
        Pieces of a lower and an upper limit of the curve.
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
            _set(self, "band", tuple(
                _pieces(part, "band", n_cells, HIGHEST_DEGREE) for part in self.band
            ))  # fmt: skip
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
    band : (array, array), optional
        A lower and an upper limit of the values.
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
    band: tuple[Vector, Vector] | None = None
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
        if self.band is not None:
            _set(self, "band", tuple(finite_array(part, "band", 2) for part in self.band))
            if [part.shape for part in self.band] != [shape, shape]:
                raise DataError(f"band must be two tables of the shape {shape}")
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


# --------------------------------------------------------------------------------------------------
# Curves and surfaces as entries of model files, which are checked when they are read.


T = TypeVar("T")


def describe_curve(curve: Curve) -> Content:
    """Return a curve as values that JSON has."""
    return {
        "feature": curve.feature,
        **_describe_axis(curve.axis),
        "pieces": curve.pieces.tolist(),
        **_describe_training(curve),
    }


def describe_surface(surface: Surface) -> Content:
    """Return a surface as values that JSON has."""
    return {
        "features": list(surface.features),
        "axes": [_describe_axis(axis) for axis in surface.axes],
        "values": surface.values.tolist(),
        **_describe_training(surface),
    }


def _describe_axis(axis: Axis) -> Content:
    return {"knots": axis.knots.tolist(), "levels": axis.levels}


def _describe_training(part: Curve | Surface) -> Content:
    return {
        "band": None if part.band is None else [limit.tolist() for limit in part.band],
        "counts": None if part.counts is None else part.counts.tolist(),
        "mean": part.mean,
        "spread": part.spread,
    }


def read_all(content: Content, name: str, read: Callable[[Content], T]) -> list[T]:
    """Read the list of curves or of surfaces of a model file; errors name the entry."""
    parts = content[name]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise DataError(f"{name} is not a list of objects")
    found = []
    for number, part in enumerate(parts):
        try:
            found.append(read(part))
        except KeyError as error:
            raise DataError(f"{name}[{number}]: {error} is missing") from None
        except DataError as error:
            raise DataError(f"{name}[{number}]: {error}") from None
    return found


def read_curve(content: Content) -> Curve:
    """Return the curve in an entry of a model file."""
    return Curve(
        _feature(content["feature"]),
        _read_axis(content),
        _table(content["pieces"], "pieces"),
        _read_counts(content["counts"], 1),
        _read_band(content["band"]),
        **_read_moments(content),
    )


def read_surface(content: Content) -> Surface:
    """Return the surface in an entry of a model file."""
    j, k = _pair(content["features"], "features")
    first, second = _pair(content["axes"], "axes")
    return Surface(
        (_feature(j), _feature(k)),
        (_read_axis(first), _read_axis(second)),
        _table(content["values"], "values"),
        _read_counts(content["counts"], 2),
        _read_band(content.get("band")),  # linrank 0.2 writes none
        **_read_moments(content),
    )


def _read_axis(content: Any) -> Axis:
    if not isinstance(content, dict):
        raise DataError("an axis is not an object")
    return Axis(numbers(content, "knots"), content["levels"])  # type: ignore[arg-type]


def _feature(value: Any) -> int:
    if type(value) is not int:
        raise DataError(f"feature is {repr(value)[:60]}; expected a whole number")
    return value


def _pair(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise DataError(f"{name} is not a list of two")
    return value


def _table(value: Any, name: str) -> Any:
    """Return a list of lists of numbers; neither truth values nor texts are numbers here."""
    if not isinstance(value, list):
        raise DataError(f"{name} is not a table of numbers")
    return [numbers({name: row}, name) for row in value]


def _read_band(value: Any) -> Any:
    return None if value is None else tuple(_table(part, "band") for part in _pair(value, "band"))


def _read_counts(value: Any, n_dims: int) -> Any:
    if value is None:
        return None
    return numbers({"counts": value}, "counts") if n_dims == 1 else _table(value, "counts")


def _read_moments(content: Content) -> dict[str, float | None]:
    """Return the mean and the spread over the training documents, if they are known."""
    for name in ("mean", "spread"):
        if content[name] is not None and type(content[name]) not in (int, float):
            raise DataError(f"{name} is {repr(content[name])[:60]}; expected a number or null")
    return {name: content[name] for name in ("mean", "spread")}


# --------------------------------------------------------------------------------------------------
# Scores of sums of curves and surfaces, by kernels that read each row once.


#: Columns of `Tables.plan`.
FEATURE, KNOTS, N_KNOTS, LEVELS, CELLS = range(5)
COUNTED = 128  #: knots that are compared one by one, in SIMD vectors; a longer search halves first


class Tables(NamedTuple):
    """Curves and surfaces as arrays that kernels read.

    The first axes are those of the curves. Those of the surfaces follow, two of each.
    """

    plan: Integers  #: one row per axis; see `FEATURE` and the other columns
    knots: Vector  #: of all axes
    cells: Vector  #: one row per cell of a curve: anchor, width, and coefficients
    values: Vector  #: of all surfaces, row by row
    n_curves: int


def make_tables(curves: Sequence[Curve], surfaces: Sequence[Surface]) -> Tables:
    """Return curves and surfaces as arrays that `score_rows` reads."""
    width = 2 + max((curve.pieces.shape[1] for curve in curves), default=0)
    plan, knots, cells, values = [], [np.empty(0)], [np.empty((0, width))], [np.empty(0)]
    n_knots = n_cells = n_values = 0

    def add(feature: int, axis: Axis, first: int) -> None:
        nonlocal n_knots
        plan.append((feature, n_knots, len(axis.knots), axis.levels, first))
        knots.append(axis.knots)
        n_knots += len(axis.knots)

    for curve in curves:
        add(curve.feature, curve.axis, n_cells)
        cells.append(np.zeros((curve.axis.n_cells, width)))
        cells[-1][:, 0], cells[-1][:, 1] = curve.axis.anchors, curve.axis.widths
        cells[-1][:, 2 : 2 + curve.pieces.shape[1]] = curve.pieces
        n_cells += curve.axis.n_cells
    for surface in surfaces:
        for feature, axis in zip(surface.features, surface.axes, strict=True):
            add(feature, axis, n_values)
        values.append(surface.values.ravel())
        n_values += surface.values.size
    table = np.array(plan, np.int64).reshape(len(plan), 5)
    joined = [read_only(np.concatenate(found)) for found in (knots, cells, values)]
    return Tables(read_only(table), joined[0], joined[1], joined[2], len(curves))


def score_rows(tables: Tables, X: Array, out: Vector) -> None:
    """Write the sums of all curves and surfaces for the rows of a dense matrix to `out`.

    The numbers are those of `Curve.__call__` and `Surface.__call__`, bit for bit, added in order.
    """
    _score_rows(tables, read_only(np.ascontiguousarray(X)), out)


@njit
def _score_rows(tables, X, out):  # type: ignore[no-untyped-def]
    for i in range(len(X)):
        row, total = X[i], 0.0
        for a in range(tables.n_curves):
            total += _curve(tables, a, row)
        for a in range(tables.n_curves, len(tables.plan), 2):
            total += _surface(tables, a, row)
        out[i] = total


@njit(inner=True)
def _curve(tables, a, row):  # type: ignore[no-untyped-def]
    """Return the value of the curve with axis a."""
    x = np.float64(row[np.uint64(tables.plan[a, FEATURE])])
    if np.isinf(x):
        return np.nan
    cell = tables.cells[np.uint64(tables.plan[a, CELLS] + _cell(tables, a, x))]
    t = 0.0 if np.isnan(x) else min(max((x - cell[0]) / cell[1], -LARGEST), LARGEST)
    value = cell[len(cell) - 1]
    for p in range(len(cell) - 2, 1, -1):
        value = value * t + cell[p]
    return value


@njit(inner=True)
def _surface(tables, a, row):  # type: ignore[no-untyped-def]
    """Return the value of the surface with axes a and a + 1."""
    x = np.float64(row[np.uint64(tables.plan[a, FEATURE])])
    z = np.float64(row[np.uint64(tables.plan[a + 1, FEATURE])])
    if np.isinf(x) or np.isinf(z):
        return np.nan
    n_columns = tables.plan[a + 1, N_KNOTS] + 2
    place = _cell(tables, a, x) * n_columns + _cell(tables, a + 1, z)
    return tables.values[np.uint64(tables.plan[a, CELLS] + place)]


@njit(inner=True)
def _cell(tables, a, x):  # type: ignore[no-untyped-def]
    """Return the cell of a finite or missing value; see `Axis.cells`."""
    first, size = tables.plan[a, KNOTS], tables.plan[a, N_KNOTS]
    start, n_left = first, size
    while n_left > COUNTED:
        half = n_left // 2
        start = start + half if x >= tables.knots[np.uint64(start + half)] else start
        n_left -= half
    place = start - first  # the number of knots that are at most x
    for k in range(n_left):  # without branches that depend on x: they would be mispredicted
        place += x >= tables.knots[np.uint64(start + k)]
    if tables.plan[a, LEVELS]:
        known = place > 0 and tables.knots[np.uint64(first + place - 1)] == x
        place = place - 1 if known else size
    return size + 1 if np.isnan(x) else place


# --------------------------------------------------------------------------------------------------
# Curves and surfaces as short texts, for terminals and tables.


BLOCKS = "▁▂▃▄▅▆▇█"  #: from the lowest to the highest value
ROUNDING = 1e-12  #: smaller parts of the size of a curve are shown as 0
WIDTH = 16  #: characters of a curve
LARGEST_SURFACE = 30  #: cells of a surface that is shown as text


def text_of_curve(curve: Curve) -> str:
    """Return a curve as a row of blocks: its heights in equal steps of its cells.

    Each cell between two knots has the same room, so that heavy tails take no more room than other
    parts. Levels have one block each. The lowest and the highest block are the extremes of the
    curve, so only the form of two curves can be compared.

    Examples
    --------
    >>> from linrank.features.basis import Axis
    >>> line = Curve(0, Axis([0.0, 9.0, 10.0]), [[0, 0], [0, 1], [1, 1], [2, 0], [0, 0]])
    >>> text_of_curve(line)
    '▁▁▂▂▃▃▄▄▅▅▆▆▇▇██'
    """
    return _blocks(_heights(curve))


def text_of_surface(surface: Surface) -> str:
    """Return a surface as groups of blocks: one group per cell of the first feature.

    Cells of missing values and of other levels are left out. Large surfaces are shown as "…".

    Examples
    --------
    >>> from linrank.features.basis import Axis
    >>> axes = Axis([0.5]), Axis([0.5])
    >>> text_of_surface(Surface((0, 1), axes, [[0, 0, 0], [0, 7, 0], [0, 0, 0]]))
    '▁▁ ▁█'
    """
    rows, columns = (axis.n_cells - (2 if axis.levels else 1) for axis in surface.axes)
    values = surface.values[:rows, :columns]
    if not 0 < values.size <= LARGEST_SURFACE:
        return "…"
    text = _blocks(values.ravel())
    return " ".join(text[k : k + columns] for k in range(0, len(text), columns))


def remark_of(function: Curve | Surface) -> tuple[str, str, str, str]:
    """Return the form of a curve or surface, and a curve at its ends and for missing values."""
    if isinstance(function, Surface):
        return text_of_surface(function), "", "", ""
    first, last = [_signed(function, end) for end in _ends(function)] or ["", ""]
    return text_of_curve(function), first, last, _signed(function, function.pieces[-1, 0])


def sentences_of(name: str, function: Curve | Surface) -> str:
    """Return what a curve or a surface does, in words.

    Examples
    --------
    >>> from linrank.features.basis import Axis
    >>> line = Curve(0, Axis([0.0, 10.0]), [[0, 0], [0, 2], [2, 0], [0.5, 0]])
    >>> sentences_of("bm25", line)
    'bm25 goes from +0 at 0 to +2 at 10, between +0 and +2. Missing values have +0.5.'
    """
    if isinstance(function, Surface):
        values = function.values.ravel()
        return f"{name} lies between {_between(function, values)}."
    ends, knots = _ends(function), function.axis.knots
    way = f"{name} lies"
    if ends:
        first, last = (_signed(function, end) for end in ends)
        way = f"{name} goes from {first} at {knots[0]:.4g} to {last} at {knots[-1]:.4g},"
    missing = f"Missing values have {_signed(function, function.pieces[-1, 0])}."
    heights = np.append(_heights(function), ends)
    return f"{way} between {_between(function, heights)}. {missing}" if len(heights) else missing


def _between(function: Curve | Surface, values: Vector) -> str:
    return f"{_signed(function, values.min())} and {_signed(function, values.max())}"


def _signed(function: Curve | Surface, value: float) -> str:
    """Return a value, minus the mean, with three digits; what rounding has left is 0."""
    mean = function.mean or 0.0
    is_rounding = abs(value - mean) <= ROUNDING * (function.extent + abs(mean))
    return f"{0.0 if is_rounding else value - mean:+.3g}"


def _ends(curve: Curve) -> list[float]:
    """Return the curve at its first and its last knot; nothing for levels, which have no order."""
    knots = curve.axis.knots
    if curve.axis.levels or not len(knots):
        return []
    ends = curve(knots[[0, -1]]) if curve.degree else curve.pieces[[0, -2], 0]
    return ends.tolist()


def _heights(curve: Curve) -> Vector:
    """Return the curve at up to `WIDTH` places."""
    knots = curve.axis.knots
    if curve.axis.levels:
        return curve(knots[:WIDTH])
    if curve.degree == 0 or len(knots) < 2:
        return curve.pieces[:-1, 0]
    places = (np.arange(WIDTH) + 0.5) * (len(knots) - 1) / WIDTH
    return curve(np.interp(places, np.arange(len(knots)), knots))


def _blocks(values: Vector) -> str:
    if not len(values):
        return ""
    low, high = float(values.min()), float(values.max())
    if not high > low:
        return BLOCKS[0] * len(values)
    with np.errstate(over="ignore"):  # the extremes of a curve may be far from each other
        places = (values / 2 - low / 2) / (high / 2 - low / 2) * len(BLOCKS)
    return "".join(BLOCKS[min(int(place), len(BLOCKS) - 1)] for place in places)
