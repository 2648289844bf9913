"""Bases of curves: the columns of a feature, as functions of the position on its axis.

Every column of an ordered feature rises from 0 to 1. A weight is therefore the rise of the curve in
one interval. Weights ≥ 0 make a curve that never falls, and the sum of |weights| is the total
variation of a curve that is a broken line or a step function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from .._typing import Vector
from ..errors import DataError
from .axis import LARGEST, Axis, level_axis, ordered_axis, split_axis
from .names import BasisName

FARTHEST = LARGEST / 4  #: largest distance of a knot from 0
DEGREES = {"ramp": 1, "step": 0, "spline": 3}  #: of the polynomials between knots

#: A form that a curve must have: the words for its slope and for the change of its slope.
FormName = Literal[
    "increasing", "decreasing", "convex", "concave", "increasing convex", "increasing concave",
    "decreasing convex", "decreasing concave",
]  # fmt: skip
FORMS: tuple[FormName, ...] = get_args(FormName)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of one feature.

    Attributes
    ----------
    shape : float64 array of shape (n_powers, n_bins, n_columns)
        The columns as `linrank._binned.BinnedMatrix` takes them, without a bin of missing values.
    low, high : float64 arrays of shape (n_columns,)
        Limits of the weights that give the curve its form.
    """

    shape: Vector
    low: Vector
    high: Vector


def fit_axis(values: Vector, n_bins: int, basis: BasisName, levels: bool) -> Axis:
    """Return the axis of a feature, from its training values without missing ones.

    Values beyond ±`FARTHEST` count as ±`FARTHEST`, so that no difference of two knots overflows.
    """
    if levels:
        return level_axis(values)
    values = np.clip(values, -FARTHEST, FARTHEST)
    return split_axis(values, n_bins) if basis == "step" else ordered_axis(values, n_bins)


def make_columns(
    axis: Axis, basis: BasisName, smooth: float = 0.0, form: FormName | None = None
) -> Columns:
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
    slope, _, bend = form.partition(" ") if form not in ("convex", "concave") else ("", "", form)
    if basis == "spline" or (bend and basis == "step"):
        raise DataError(
            f"a curve that is {form} needs basis='ramp', but basis is {basis!r}. With "
            "basis='step', curves can be increasing or decreasing."
        )
    if not bend:
        return _bounded(rises, slope == "increasing")
    # In each interval a rise is its length times the slope.
    lengths = np.diff(axis.knots) / (np.ptp(axis.knots) or 1.0) if len(axis.knots) else np.ones(0)
    if slope == ("increasing" if bend == "concave" else "decreasing"):
        return _bounded(_downward(rises * lengths), slope == "increasing")
    columns = _bounded(_upward(rises * lengths), bend == "convex")
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


def _free(shape: Vector) -> Columns:
    endless = np.full(shape.shape[2], np.inf)
    return Columns(shape, -endless, endless)


def _bounded(shape: Vector, positive: bool) -> Columns:
    zeros, endless = np.zeros(shape.shape[2]), np.full(shape.shape[2], np.inf)
    return Columns(shape, zeros, endless) if positive else Columns(shape, -endless, zeros)


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
