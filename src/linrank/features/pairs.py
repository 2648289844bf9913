"""`Pair`: a grid of coarse cells of two features, and the columns of its interactions.

An interaction is a function of the cells whose mean over the training documents is 0 in every row
and in every column of the grid. The curves of the two features therefore have nothing in common
with it: they carry all that a sum of curves can carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._threads import resolve_threads, run
from .._typing import Integers, Vector
from .axis import Axis, capped

COARSE_BINS = 5  #: intervals of a feature in a pair; more need more documents per cell
MOST_LEVELS = 14  #: levels of a feature in a pair; 16 × 16 cells are the numbers of a byte
RANK_ACCURACY = 1e-10  #: relative singular value below which a condition follows from others


@dataclass(frozen=True, eq=False)
class Pair:
    """Two features with coarse cells, and the columns of their interactions.

    Attributes
    ----------
    features : (int, int)
    axes : (Axis, Axis)
        Axes whose cells are unions of cells of the features' own axes.
    counts : int64 array of shape (cells of the first axis, cells of the second axis)
        The number of training documents in each pair of cells.
    columns : float64 array of shape (n_cells, n_columns)
        Values of the columns in the pairs of cells, row by row of the grid.
    """

    features: tuple[int, int]
    axes: tuple[Axis, Axis]
    counts: Integers
    columns: Vector

    @property
    def size(self) -> float:
        """The root of the sum of the squared columns over the training documents."""
        return float(np.sqrt(self.counts.ravel() @ (self.columns**2).sum(axis=1)))


def coarse_axis(axis: Axis, counts: Integers) -> Axis:
    """Return an axis with few cells, each of which is a union of cells of the given axis.

    Ordered values have at most `COARSE_BINS` intervals of about equally many documents. Levels are
    the `MOST_LEVELS` most frequent ones.

    Parameters
    ----------
    axis : Axis
    counts : array of shape (n_cells,)
        The number of documents in each cell.

    Examples
    --------
    >>> coarse_axis(Axis(np.arange(10.0)), np.array([0, *[5] * 10, 0])).knots.tolist()
    [2.0, 4.0, 6.0, 8.0]
    """
    knots = axis.knots
    if axis.levels:
        frequent = np.argsort(-counts[: len(knots)], kind="stable")[:MOST_LEVELS]
        return Axis(np.sort(knots[frequent]), levels=True)
    mass = np.cumsum(capped(counts[:-1], COARSE_BINS))
    before, total = mass[:-1], mass[-1]  # before[i] is the mass below knot i
    wanted = np.linspace(0.0, total, COARSE_BINS + 1)[1:-1]
    nearest = np.abs(before[:, None] - wanted).argmin(axis=0) if len(knots) else np.empty(0, int)
    chosen = np.unique(nearest)
    return Axis(knots[chosen[(before[chosen] > 0) & (before[chosen] < total)]])


def coarse_cells(axis: Axis, coarse: Axis) -> NDArray[np.uint8]:
    """Return the cell of the coarse axis that contains each cell of an axis.

    Examples
    --------
    >>> coarse_cells(Axis([0.0, 1.0, 2.0]), Axis([1.0])).tolist()
    [0, 0, 1, 1, 2]
    """
    own, missing = coarse.cells(axis.knots), len(coarse.knots) + 1
    inner = [*own, len(coarse.knots)] if axis.levels else [0, *own]
    return np.array([*inner, missing], np.uint8)


def fill_codes(
    positions: NDArray[Any],
    places: Sequence[tuple[int, int]],
    tables: Sequence[tuple[NDArray[np.uint8], NDArray[np.uint8]]],
    n_threads: int | None = None,
) -> None:
    """Write the numbers of the pairs of cells into the last rows of `positions`.

    Parameters
    ----------
    positions : uint8 or float32 array of shape (n_features + n_pairs, n_rows)
        The first rows have the positions of the features.
    places : sequence of (int, int)
        The two features of each pair.
    tables : sequence of (array, array)
        The coarse cell of each bin of the two features.
    """
    codes = positions[len(positions) - len(places) :]
    tasks = [
        (positions[j], positions[k], *own, own[1].max() + np.int64(1), out)
        for (j, k), own, out in zip(places, tables, codes, strict=True)
    ]
    run(_fill, tasks, resolve_threads(n_threads))


@njit
def _fill(first, second, first_table, second_table, width, out):  # type: ignore[no-untyped-def]
    for i in range(len(out)):
        a, b = first_table[np.int64(first[i])], second_table[np.int64(second[i])]
        out[i] = a * width + b


def pure_columns(counts: Integers, axes: tuple[Axis, Axis], smooth: float = 1.0) -> Vector:
    """Return a basis of the functions of the cells with the mean 0 in each row and column.

    The columns are such that the sum of the squared weights of a function f is

        Σ_c f_c² + smooth·Σ_(c,d) (f_c − f_d)²

    over all cells c and all neighbours (c, d) in the direction of an ordered axis. Cells without
    documents have the value 0 and no neighbours.

    Parameters
    ----------
    counts : int64 array of shape (n_rows, n_columns)
        The number of training documents in each cell.
    axes : (Axis, Axis)
    smooth : float

    Examples
    --------
    >>> both = Axis([0.0, 1.0], levels=True), Axis([0.0, 1.0], levels=True)
    >>> counts = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    >>> (2 * pure_columns(counts, both) ** 2).sum(axis=1).round(3).tolist()[:6]
    [0.5, 0.5, 0.0, 0.0, 0.5, 0.5]
    """
    used = np.flatnonzero(counts.ravel())
    rows, columns = np.unravel_index(used, counts.shape)
    weights = counts.ravel()[used]
    conditions = np.concatenate([
        (np.arange(n)[:, None] == own) * weights
        for n, own in zip(counts.shape, (rows, columns), strict=True)
    ]).astype(np.float64)  # fmt: skip
    conditions = conditions[conditions.any(axis=1)]
    conditions /= np.linalg.norm(conditions, axis=1)[:, None]
    _, sizes, vectors = np.linalg.svd(conditions)
    pure = vectors[np.count_nonzero(sizes > RANK_ACCURACY * sizes.max(initial=0.0)) :].T
    cost = np.eye(len(used)) + smooth * _roughness(rows, columns, axes)
    values, directions = np.linalg.eigh(pure.T @ cost @ pure)
    found = np.zeros((counts.size, pure.shape[1]))
    found[used] = pure @ (directions / np.sqrt(values)) @ directions.T
    return found


def _roughness(rows: Integers, columns: Integers, axes: tuple[Axis, Axis]) -> Vector:
    """Return the matrix of ``Σ (f_c − f_d)²`` over neighbours in the direction of ordered axes."""
    total = np.zeros((len(rows), len(rows)))
    for axis, own, other in zip(axes, (rows, columns), (columns, rows), strict=True):
        if not axis.levels:
            inside = own < axis.n_cells - 1  # the last cell holds missing values
            after = (own[:, None] == own - 1) & (other[:, None] == other) & inside
            first, second = np.nonzero(after)
            np.add.at(total, (first, first), 1.0)
            np.add.at(total, (second, second), 1.0)
            np.add.at(total, (first, second), -1.0)
            np.add.at(total, (second, first), -1.0)
    return total
