"""Bases of curves: the columns of a feature, as functions of the position on its axis.

Every column of an ordered feature rises from 0 to 1. A weight is therefore the rise of the curve in
one interval. Weights ≥ 0 make a curve that never falls, and the sum of |weights| is the total
variation of a curve that is a broken line or a step function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from .._util.checks import boolean, choice, known_names
from .._util.lazy import lazy_property
from .._util.types import Integers, Mask, Vector
from ..choices import BasisName
from ..data.columns import names_or_numbers
from ..errors import DataError, warn

# --------------------------------------------------------------------------------------------------
# `Axis`: the cells of the values of a feature, and how they are chosen from training data.


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
    """Return the distinct values in order, and how often each of them occurs.

    A run of values whose ends are `_alike` counts as its first value.
    """
    ordered = np.sort(values) + 0.0  # no −0
    first = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    first = np.concatenate([np.zeros(min(1, len(values)), np.int64), first])
    found: Vector = ordered[first]
    near = _alike(found[:-1], found[1:], found)
    if near.any():
        starts = np.flatnonzero(np.append(True, ~near))
        ends = np.append(starts[1:], len(found)) - 1
        whole = _alike(found[starts], found[ends], found)
        follows = np.repeat(whole, ends - starts + 1)
        follows[starts] = False
        found, first = found[~follows], first[~follows]
    return found, np.diff(first, append=len(values))


NEAR = 1e-6  #: relative distance up to which two values count as one; single precision has 1.2e-7
#: Such values stay apart if their distance is a larger part of the feature's range, or if two
#: numbers of single precision are that far apart.
FINE = 1e-3
ROUNDED = 1e-14  #: relative distance up to which two values count as one in any case


def _alike(low: Vector, high: Vector, values: Vector) -> Mask:
    """Return whether pairs of ordered values are one value up to rounding.

    A curve would otherwise jump between 1 and the next number. Values are alike if they are equal
    in single precision or within `NEAR` of each other. If a feature has a large offset or a tiny
    unit, this would hold for many of its values, and smaller differences count.
    """
    if not len(values):
        return np.zeros(0, bool)
    apart, size = high - low, np.maximum(np.abs(low), np.abs(high))
    most = FINE * (values[-1] - values[0])
    with np.errstate(over="ignore", invalid="ignore"):
        single = low.astype(np.float32), high.astype(np.float32)
        is_coarse = np.spacing(np.abs(values[[0, -1]]).max().astype(np.float32)) > most
    near = (apart <= NEAR * size) | ((single[0] == single[1]) & np.isfinite(single[0]))
    return (near & (apart <= most) & ~is_coarse) | (apart <= ROUNDED * size)


def _apart(knots: Vector) -> Vector:
    """Return knots without those that are `_alike` to the knot before them."""
    if not _alike(knots[:-1], knots[1:], knots).any():
        return knots
    kept = [0]
    for k in range(1, len(knots)):
        if not _alike(knots[kept[-1:]], knots[k : k + 1], knots).any():
            kept.append(k)
    return knots[kept]


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


# --------------------------------------------------------------------------------------------------
# Bases of curves: the columns of a feature, as functions of the position on its axis.


FARTHEST = LARGEST / 4  #: largest distance of a knot from 0
DEGREES = {"ramp": 1, "step": 0, "spline": 3}  #: of the polynomials between knots

#: A form that a curve must have: the words for its slope and for the change of its slope.
FormName = Literal[
    "increasing", "decreasing", "convex", "concave", "increasing convex", "increasing concave",
    "decreasing convex", "decreasing concave",
]  # fmt: skip
FORMS: tuple[FormName, ...] = get_args(FormName)


@dataclass(frozen=True, eq=False)
class BasisColumns:
    """The columns of one feature.

    Attributes
    ----------
    shape : float64 array of shape (n_powers, n_bins, n_columns)
        The columns as `BinnedMatrix` takes them, without a bin of missing values.
    low, high : float64 arrays of shape (n_columns,)
        Limits of the weights that give the curve its form.
    """

    shape: Vector
    low: Vector
    high: Vector


def fit_axis(values: Vector, n_bins: int, basis: BasisName, levels: bool) -> Axis:
    """Return the axis of a feature, from its training values without missing ones.

    Values beyond ±`FARTHEST` count as ±`FARTHEST`, so that no difference of two knots overflows.
    Knots that differ by rounding are one knot.
    """
    if levels:
        return level_axis(values)
    values = np.clip(values, -FARTHEST, FARTHEST)
    axis = split_axis(values, n_bins) if basis == "step" else ordered_axis(values, n_bins)
    return Axis(_apart(axis.knots))


def make_columns(
    axis: Axis, basis: BasisName, smooth: float = 0.0, form: FormName | None = None
) -> BasisColumns:
    """Return the columns of a feature.

    Parameters
    ----------
    axis : Axis
    basis : {"ramp", "step", "spline"}
        Broken lines, step functions, or cubic splines with continuous curvature.
    smooth : float
        s in the penalty ``‖θ‖² + s·Σ_b (θ_{b+1} − θ_b)²``, where θ are the rises. The columns are
        such that this is the sum of the squared weights. With s = 0, the weights are the rises.
    form : one of `FORMS`, optional
        The weights of an increasing or decreasing curve are always its rises. Those of a convex or
        concave curve are changes of its slope.

    Examples
    --------
    >>> make_columns(Axis([0.0, 1.0, 3.0]), "ramp").shape.tolist()  # values at the knots
    [[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]]
    >>> make_columns(Axis([0.0, 1.0, 3.0]), "ramp", form="increasing").low.tolist()
    [0.0, 0.0]
    """
    if axis.levels:
        n = len(axis.knots)
        shape = np.zeros((4 if basis == "spline" else 1, n + 1, n))
        shape[0, :n] = np.eye(n)
        return _free(shape)
    rises = _RISES[basis](axis)
    if form is None:
        return _free(rises @ _smoothing(rises.shape[2], smooth))
    slope, _, convexity = (
        form.partition(" ") if form not in ("convex", "concave") else ("", "", form)
    )
    if basis == "spline" or (convexity and basis == "step"):
        raise DataError(
            f"a curve that is {form} needs basis='ramp', but basis is {basis!r}. With "
            "basis='step', curves can be increasing or decreasing."
        )
    if not convexity:
        return _bounded(rises, slope == "increasing")
    # In each interval a rise is its length times the slope.
    lengths = np.diff(axis.knots) / (np.ptp(axis.knots) or 1.0) if len(axis.knots) else np.ones(0)
    if slope == ("increasing" if convexity == "concave" else "decreasing"):
        return _bounded(_downward(rises * lengths), slope == "increasing")
    columns = _bounded(_upward(rises * lengths), convexity == "convex")
    if not slope:
        columns.low[:1], columns.high[:1] = -np.inf, np.inf
    return columns


def _smoothing(n: int, smooth: float) -> Vector:
    """Return the matrix T with ``θ = Tφ`` and ``‖φ‖² = ‖θ‖² + smooth·Σ_b (θ_{b+1} − θ_b)²``."""
    if smooth == 0 or n < 2:
        return np.eye(n)
    steps = np.diff(np.eye(n), axis=0)
    values, vectors = np.linalg.eigh(np.eye(n) + smooth * steps.T @ steps)
    return (vectors / np.sqrt(values)) @ vectors.T


def _free(shape: Vector) -> BasisColumns:
    endless = np.full(shape.shape[2], np.inf)
    return BasisColumns(shape, -endless, endless)


def _bounded(shape: Vector, positive: bool) -> BasisColumns:
    zeros, endless = np.zeros(shape.shape[2]), np.full(shape.shape[2], np.inf)
    return BasisColumns(shape, zeros, endless) if positive else BasisColumns(shape, -endless, zeros)


def _upward(rises: Vector) -> Vector:
    """Return, for each column, the sum of it and the later ones: a slope from its knot on."""
    return np.cumsum(rises[:, :, ::-1], axis=2)[:, :, ::-1]


def _downward(rises: Vector) -> Vector:
    """Return, for each column, the sum of it and the earlier ones: a slope up to its knot."""
    return np.cumsum(rises, axis=2)


def _step_rises(axis: Axis) -> Vector:
    """Column b is 1 from knot b on; its bins are the cells of the axis."""
    m = len(axis.knots)
    return np.tri(m + 1, m, -1)[None]


def _ramp_rises(axis: Axis) -> Vector:
    """Column b rises from 0 at knot b to 1 at knot b + 1, along a line; its bins are the knots."""
    m = max(1, len(axis.knots))
    return np.tri(m, m - 1, -1)[None]


def _spline_rises(axis: Axis) -> Vector:
    """Column b is the sum of the cubic B-splines after the first b + 1; its bins are the cells."""
    degree, n = DEGREES["spline"], max(0, len(axis.knots) - 1)
    shape = np.zeros((degree + 1, len(axis.knots) + 1, n + degree - 1 if n else 0))
    if n:
        splines, cells = _b_splines(axis.knots, degree), np.arange(1, n + 1)
        shape[0] = np.tri(n + 2, n + degree - 1, -2)  # splines that begin and end before a cell
        for k in range(degree):
            shape[:, cells, cells - 1 + k] = splines[:, k + 1 :].sum(axis=1)
        shape[0, n + 1] = 1.0
    return shape


def _b_splines(knots: Vector, degree: int) -> Vector:
    """Return the B-splines between knots as polynomials of the place t in an interval.

    The result has the shape (powers, splines, intervals): ``degree + 1`` splines are not 0 in an
    interval. The recursion of de Boor (1978) has factors between 0 and 1 only, if it is written
    for t. The polynomials are therefore exact to rounding, however long the intervals are.
    """
    ends = np.repeat(knots[:1], degree), np.repeat(knots[-1:], degree)
    padded, own = np.concatenate([ends[0], knots, ends[1]]), np.arange(len(knots) - 1) + degree
    splines = np.zeros((degree + 1, degree + 1, len(own)))
    splines[0, 0] = 1.0
    for p in range(1, degree + 1):
        before, splines = splines, np.zeros_like(splines)
        for k in range(p):
            low = padded[own - p + 1 + k]
            length = padded[own + 1 + k] - low
            rising = before[:, k] * ((padded[own] - low) / length)
            rising[1:] += before[:-1, k] * ((padded[own + 1] - padded[own]) / length)
            splines[:, k + 1] += rising
            splines[:, k] += before[:, k] - rising
    return splines


_RISES = {"step": _step_rises, "ramp": _ramp_rises, "spline": _spline_rises}


# --------------------------------------------------------------------------------------------------
# Options that concern single features, given by name or by number: forms of curves, and levels.


#: Forms of features: by name or number, or one for each feature.
FormsLike: TypeAlias = "Mapping[str | int, str | int] | Sequence[str | int] | None"
FeaturesLike: TypeAlias = "Iterable[str | int]"  #: features by name or number

_NUMBERS: dict[int, FormName | None] = {1: "increasing", -1: "decreasing", 0: None}


def read_forms(
    given: FormsLike, n_features: int, names: list[str] | None, index_base: int = 1
) -> dict[int, FormName]:
    """Return the forms of curves by the indices of features.

    Parameters
    ----------
    given : mapping of features to forms, or a sequence with one form per feature
        A form is one of `FORMS`, or 1 for increasing, −1 for decreasing and 0 for any curve.
    n_features : int
    names : list of str or None
    index_base : {0, 1}
        The number of the first feature in LETOR text, which is its name if there are no names.

    Examples
    --------
    >>> read_forms({"bm25": "increasing concave"}, 2, ["age", "bm25"])
    {1: 'increasing concave'}
    >>> read_forms([1, 0], 2, None)
    {0: 'increasing'}
    >>> read_forms({"2": -1}, 2, None)
    {1: 'decreasing'}
    """
    check_forms(given)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if len(given) != n_features:
            raise DataError(
                f"monotone has {len(given)} entries for {n_features} features. Use one entry per "
                "feature, or a dict by feature."
            )
        forms = {feature: _form(form) for feature, form in enumerate(given)}
    else:
        forms = {
            feature_number(feature, "monotone", n_features, names, index_base): _form(form)
            for feature, form in given.items()
        }
    return {feature: form for feature, form in forms.items() if form is not None}


def check_forms(given: FormsLike) -> None:
    """Raise a `DataError` for forms that do not exist, whatever features there are."""
    if given is None:
        return
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence | np.ndarray):
        raise DataError(
            f"monotone is {given!r}; expected forms by feature, such as {{'bm25': 'increasing'}}"
        )
    for form in given.values() if isinstance(given, Mapping) else given:
        _form(form)


def _form(form: Any) -> FormName | None:
    if isinstance(form, Integral | float) and form in _NUMBERS:
        return _NUMBERS[int(form)]
    choice("monotone", form, [*FORMS, 1, 0, -1])
    return form


def read_features(
    given: FeaturesLike, option: str, n_features: int, names: list[str] | None,
    index_base: int = 1,
) -> tuple[int, ...]:  # fmt: skip
    """Return the indices of features that are given by name or number.

    Examples
    --------
    >>> read_features(["b"], "categories", 2, ["a", "b"])
    (1,)
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(f"{option} is {given!r}; expected a list of features")
    return tuple(feature_number(one, option, n_features, names, index_base) for one in given)


def feature_number(
    given: object, option: str, n_features: int, names: list[str] | None, index_base: int
) -> int:
    """Return the index of a feature, given by its name or by its number as text.

    Numbers are those that plots, tables and exports show. Integers are indices, which count from 0.
    """
    known = names_or_numbers(names, n_features, index_base)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 0 <= given < n_features:
            raise DataError(
                f"{option} has feature {given}, but there are {n_features} features, with the "
                f"indices 0 to {n_features - 1}"
            )
        warn(
            f"{option} has the integer {given}, which counts columns from 0. Use {known[given]!r}, "
            "as plots and exports call this feature. Integers will be an error in linrank 0.5.",
            FutureWarning,
        )
        return int(given)
    if given in known:
        return known.index(str(given))
    if names is None:
        raise DataError(
            f"{option} has feature {given!r}, but the features have no names. Use their numbers, "
            f"{known[0]!r} to {known[-1]!r}."
        )
    raise DataError(f"{option} has feature {given!r}; {known_names(str(given), known)}")
