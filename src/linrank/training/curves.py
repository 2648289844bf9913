"""The curves of an additive model, from the weights of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._typing import Vector
from ..features.design import Design
from ..features.names import EndsName
from ..features.pairs import Pair
from ..model import Curve, Surface


def curves_of(design: Design, coef: Vector, ends: EndsName) -> list[Curve]:
    """Return a curve for each feature that has one, with the mean 0 over the training documents.

    Parameters
    ----------
    design : Design
    coef : array
        The weights of the columns.
    ends : {"flat", "linear"}
    """
    weights = _by_part(design, coef)[: len(design.columns)]
    return [_curve(design, j, own, ends) for j, own in enumerate(weights) if own.any()]


def surfaces_of(design: Design, coef: Vector) -> list[Surface]:
    """Return a surface for each pair that has an interaction.

    Its mean over the training documents is 0 in each row and column of cells.
    """
    weights = _by_part(design, coef)[len(design.columns) :]
    return [
        _surface(pair, own) for pair, own in zip(design.pairs, weights, strict=True) if own.any()
    ]


def _by_part(design: Design, coef: Vector) -> list[Vector]:
    """Return the weights of each feature and of each pair."""
    n_parts = len(design.columns) + len(design.pairs)
    return np.split(coef, np.searchsorted(design.owner, np.arange(1, n_parts)))


def _surface(pair: Pair, coef: Vector) -> Surface:
    values, counts = (pair.columns @ coef).reshape(pair.counts.shape), pair.counts
    spread = float(np.sqrt(np.sum(counts * values**2) / counts.sum()))
    return Surface(pair.features, pair.axes, values, counts, mean=0.0, spread=spread)


def with_bands(
    curves: Sequence[Curve], design: Design, coefs: Vector, coverage: float
) -> list[Curve]:
    """Return curves with bands that contain a share of the curves of other weights.

    Parameters
    ----------
    curves : sequence of Curve
    design : Design
    coefs : array of shape (n_fits, n_columns)
        Weights of fits on resampled queries.
    coverage : float
        The share of the fits that lies between the two limits, at each knot.
    """
    tails = 0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage
    found = []
    for curve in curves:
        own = coefs[:, design.owner == curve.feature]
        fits = np.array([_curve(design, curve.feature, w, "flat").pieces[:, 0] for w in own])
        low, high = np.quantile(fits, tails, axis=0)
        is_step = curve.axis.levels or curve.degree == 0
        found.append(replace(curve, band=(_limit(low, is_step), _limit(high, is_step))))
    return found


def _limit(values: Vector, is_step: bool) -> Vector:
    """Return pieces of a step function or a broken line with the given values at its cells."""
    if is_step:
        return values[:, None]
    rises = np.diff(values, append=0.0)
    rises[0], rises[-2:] = 0.0, 0.0
    return np.stack([values, rises], axis=1)


def _curve(design: Design, j: int, coef: Vector, ends: EndsName) -> Curve:
    """Return the curve of feature j."""
    axis, (pieces, moments) = design.axes[j], _by_cells(design, j, coef)
    pieces[:, 0] -= (pieces.T * moments[: pieces.shape[1]]).sum() / moments[0].sum()
    if not moments[0, -1]:
        pieces[-1, 0] = 0.0  # no training document lacks this value: take the mean of the others
    if not axis.levels:
        _join_lines(pieces)
        if ends == "linear":
            _continue_lines(pieces)
    counts = moments[0].round().astype(np.int64)
    return Curve(j, axis, pieces, counts, mean=0.0, spread=_spread(pieces, moments))


def _by_cells(design: Design, j: int, coef: Vector) -> tuple[Vector, Vector]:
    """Return polynomials of feature j, of shape (cells, powers), and its moments by cells."""
    axis, shape = design.axes[j], design.columns[j].shape
    values = shape @ coef
    if design.basis != "spline" and not axis.levels:
        n_bins = max(1, len(axis.knots)) if design.basis == "ramp" else len(axis.knots) + 1
        rises = np.zeros_like(values[0])
        rises[: n_bins - 1] = np.diff(shape[0, :n_bins], axis=0) @ coef
        # Sums of rises never fall if no rise is negative, while other sums may by rounding.
        values[0, 1:n_bins] = values[0, 0] + np.cumsum(rises[: n_bins - 1])
        if design.basis == "ramp":
            values = np.array([values[0], rises])
    pieces = design.by_cells(j, values).T
    if design.basis == "ramp" and not axis.levels:
        pieces[0, 0] = values[0, 0]
    return pieces, design.by_cells(j, design.moments[j])


def _join_lines(pieces: Vector) -> None:
    """Make every line begin where the one before it ends, to the last digit.

    If no line falls, the curve then never falls, also after rounding.
    """
    last = len(pieces) - 2
    if pieces.shape[1] == 2:
        for cell in range(1, last):
            pieces[cell + 1, 0] = pieces[cell, 0] + pieces[cell, 1]
        pieces[0, 0] = pieces[1, 0]


def _continue_lines(pieces: Vector) -> None:
    """Continue the curve beyond its first and last knot, with its slope there."""
    last = len(pieces) - 2
    if pieces.shape[1] > 1 and last > 1:
        pieces[0, 1] = pieces[1, 1]
        pieces[last, 1] = pieces[last - 1] @ np.arange(pieces.shape[1])  # derivative at t = 1


def _spread(pieces: Vector, moments: Vector) -> float:
    """Return the standard deviation of a curve with mean 0 over the training documents."""
    powers = range(pieces.shape[1])
    squares = [(pieces[:, p] * pieces[:, q]) @ moments[p + q] for p in powers for q in powers]
    return float(np.sqrt(max(0.0, sum(squares) / moments[0].sum())))
