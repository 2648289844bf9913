"""`Design`: the basis of an additive score, fitted to training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._binned import BinnedMatrix, bins_of
from .._checks import choice, whole_number
from .._jit import njit
from .._lazy import lazy_property
from .._rows import (
    kernel_matrix,
    n_square_sums,
    n_tasks,
    read_only,
    rmatvec_squares,
    row_ranges,
)
from .._threads import resolve_threads, run
from .._typing import Integers, Vector
from ..data.checks import Matrix
from ..data.names import names_or_numbers
from ..data.ranking import RankingData
from ..errors import DataError
from .axis import Axis
from .basis import Columns, fit_axis, make_columns
from .forms import FeaturesLike, FormsLike, check_forms, read_features, read_forms
from .names import BASES, BasisName
from .pairs import Pair, coarse_axis, coarse_cells, fill_codes, pure_columns
from .positions import Storage, choose_storage, find_positions

FITTED_ROWS = 2**16  #: documents from which knots are chosen; more change the quantiles little
FITTED_FEATURES = 8  #: features whose sample is copied at a time; eight fill a cache line of X
MOST_PAIRS = 50  #: pairs of features; more can hardly be looked at
MOST_BINS = 254  #: intervals of a feature; with the cells of other values they fit in a byte


@dataclass(frozen=True)
class DesignSteps:
    """Which basis is wanted, and how it is fitted to training data.

    Parameters
    ----------
    n_bins : int
        The number of intervals between the knots of a feature.
    basis : {"ramp", "step", "spline"}
    smooth : float
        See `linrank.features.basis.make_columns`.
    forms : mapping or sequence, optional
        The forms of curves; see `linrank.features.forms.read_forms`.
    levels : sequence of features whose values have no order, by name or number
    interactions : int
        The largest number of pairs of features that have an interaction.
    """

    n_bins: int = 8
    basis: BasisName = "ramp"
    smooth: float = 0.0
    forms: FormsLike = None
    levels: FeaturesLike = ()
    interactions: int = 0

    def __post_init__(self) -> None:
        n_bins = whole_number("n_bins", self.n_bins, least=1, most=MOST_BINS)
        object.__setattr__(self, "n_bins", n_bins)  # 8.0 becomes 8
        whole_number("interactions", self.interactions, least=0, most=MOST_PAIRS)
        choice("basis", self.basis, BASES)
        if not isinstance(self.smooth, Real) or not 0 <= self.smooth < np.inf:
            raise DataError(f"smooth is {self.smooth!r}; expected a finite number of at least 0")
        check_forms(self.forms)

    def fit(
        self,
        data: RankingData,
        n_threads: int | None = None,
        pairs: Sequence[tuple[int, int]] = (),
    ) -> tuple[Design, RankingData]:
        """Return the design for training data, and the data with its columns as features.

        Parameters
        ----------
        data : RankingData
        n_threads : int, optional
        pairs : sequence of (int, int)
            Pairs of features that have an interaction.
        """
        forms = read_forms(self.forms, data.n_features, data.feature_names, data.index_base)
        axes = self._axes(data, n_threads)
        names = names_or_numbers(data.feature_names, data.n_features, data.index_base)
        for j, form in forms.items():
            if axes[j].levels:
                raise DataError(
                    f"feature {names[j]!r} is in categories, whose values have no order, but its "
                    f"curve should be {form}. Remove it from categories or from monotone."
                )
        columns = [
            make_columns(axis, self.basis, float(self.smooth), forms.get(j))
            for j, axis in enumerate(axes)
        ]
        storage = choose_storage(axes, self.basis, data.n_docs, len(pairs))
        positions = find_positions(data.X, axes, self.basis, storage, n_threads, len(pairs))
        design = Design(self.basis, axes, columns, storage)
        X = design.over(positions[: len(axes)], data.has_missing)
        design = replace(design, moments=bin_moments(X, n_threads)).with_other_levels()
        if data.has_missing:
            design = design.with_missing()
        design = design.with_pairs(positions, pairs, n_threads)
        X = BinnedMatrix(positions, design.shapes)
        return design, data.replace(X=X, feature_names=None, has_missing=False)

    def _axes(self, data: RankingData, n_threads: int | None) -> list[Axis]:
        rows = np.linspace(0, data.n_docs - 1, min(data.n_docs, FITTED_ROWS)).astype(np.int64)
        levels = read_features(
            self.levels, "categories", data.n_features, data.feature_names, data.index_base
        )
        X = sparse.csc_array(data.X[rows]) if sparse.issparse(data.X) else data.X

        def fit(first: int, last: int) -> list[Axis]:
            if isinstance(X, np.ndarray):
                columns = np.empty((last - first, len(rows)))
                _copy_sample(read_only(X), rows, first, columns)
            else:
                columns = X[:, first:last].toarray().T
            return [self._axis(column, f in levels) for f, column in enumerate(columns, first)]

        starts = range(0, data.n_features, FITTED_FEATURES)
        tasks = [(f, min(f + FITTED_FEATURES, data.n_features)) for f in starts]
        return [axis for axes in run(fit, tasks, resolve_threads(n_threads)) for axis in axes]

    def _axis(self, column: Vector, levels: bool) -> Axis:
        missing = np.isnan(column)
        values = column[~missing] if missing.any() else column
        return fit_axis(values, self.n_bins, self.basis, levels)


@dataclass(frozen=True, eq=False)
class Design:
    """Axes and columns of the features of an additive score.

    Attributes
    ----------
    basis : BasisName
    axes : sequence of Axis
    columns : sequence of Columns
    storage : type
        The type of positions.
    moments : list of arrays of shape (n_moments, n_bins)
        For each feature, the sums of t^q over the training documents in each bin.
    pairs : sequence of Pair
        Pairs of features that have an interaction.
    """

    basis: BasisName
    axes: Sequence[Axis]
    columns: Sequence[Columns]
    storage: Storage = np.float32
    moments: Sequence[Vector] = ()
    pairs: Sequence[Pair] = ()

    @property
    def shapes(self) -> list[Vector]:
        """The columns of features and pairs, as `BinnedMatrix` takes them."""
        own = [columns.shape for columns in self.columns]
        n_powers = len(own[0])
        return own + [
            np.concatenate([pair.columns[None], np.zeros((n_powers - 1, *pair.columns.shape))])
            for pair in self.pairs
        ]

    @lazy_property
    def owner(self) -> Integers:
        """The feature of each column; pairs have the numbers after those of all features."""
        shapes = self.shapes
        return np.repeat(np.arange(len(shapes)), [shape.shape[2] for shape in shapes])

    def limits(self) -> tuple[Vector, Vector]:
        """Return the limits of the weights of the columns of features."""
        low, high = ([getattr(c, name) for c in self.columns] for name in ("low", "high"))
        return np.concatenate(low), np.concatenate(high)

    def cell_counts(self, j: int) -> Integers:
        """Return the number of training documents in each cell of the axis of feature j."""
        return self.by_cells(j, self.moments[j])[0].round().astype(np.int64)

    def by_cells(self, j: int, values: Vector) -> Vector:
        """Return numbers of the bins of feature j as numbers of the cells of its axis.

        The bins of broken lines are knots, so there is no bin for the values below the first knot.
        Missing values have a bin only if there are any in the training data.
        """
        axis = self.axes[j]
        first = int(self._starts_at_knot(j))
        return np.pad(values, ((0, 0), (first, axis.n_cells - values.shape[1] - first)))

    def _starts_at_knot(self, j: int) -> bool:
        """Return whether the first bin of feature j begins at a knot, and is the second cell."""
        axis = self.axes[j]
        return self.basis == "ramp" and not axis.levels and len(axis.knots) > 0

    def matrix(
        self, X: Matrix, has_missing: bool = False, n_threads: int | None = None
    ) -> BinnedMatrix:
        """Return the columns for some documents."""
        n_pairs = len(self.pairs)
        positions = find_positions(X, self.axes, self.basis, self.storage, n_threads, n_pairs)
        features, axes = [pair.features for pair in self.pairs], [pair.axes for pair in self.pairs]
        self._fill_codes(positions, features, axes, n_threads)
        return self.over(positions, has_missing)

    def over(self, positions: NDArray[Any], has_missing: bool) -> BinnedMatrix:
        """Return the columns for documents with known positions."""
        shapes = self.shapes
        if has_missing:
            for j, row in enumerate(positions[: len(self.axes)]):
                if bins_of(row.max(initial=0)) >= shapes[j].shape[1]:
                    shapes[j] = self._with_bin(j)
        return BinnedMatrix(positions, shapes)

    def with_pairs(
        self,
        positions: NDArray[Any],
        pairs: Sequence[tuple[int, int]],
        n_threads: int | None = None,
    ) -> Design:
        """Return the design with interactions, and write their cells into `positions`."""
        coarse = {j: coarse_axis(self.axes[j], self.cell_counts(j)) for j in {*np.ravel(pairs)}}
        axes = [(coarse[j], coarse[k]) for j, k in pairs]
        self._fill_codes(positions, pairs, axes, n_threads)

        def make(features: tuple[int, int], own: tuple[Axis, Axis], row: NDArray[Any]) -> Pair:
            shape = own[0].n_cells, own[1].n_cells
            counts = np.bincount(row.astype(np.int64), minlength=shape[0] * shape[1])
            counts = counts.reshape(shape)
            return Pair(features, own, counts, pure_columns(counts, own))

        tasks = list(zip(map(tuple, pairs), axes, positions[len(self.axes) :], strict=True))
        return replace(self, pairs=run(make, tasks, resolve_threads(n_threads)))

    def coarse_codes(
        self, positions: NDArray[Any], n_threads: int | None = None
    ) -> tuple[NDArray[np.uint8], Integers]:
        """Return the coarse cell of each value, and the number of coarse cells of each feature."""
        codes = np.empty((len(self.axes), positions.shape[1]), np.uint8)

        def fill(j: int) -> int:
            coarse = coarse_axis(self.axes[j], self.cell_counts(j))
            codes[j] = self._table(j, coarse)[bins_of(positions[j])]
            return coarse.n_cells

        sizes = run(fill, [(j,) for j in range(len(codes))], resolve_threads(n_threads))
        return codes, np.array(sizes, np.int64)

    def _table(self, j: int, coarse: Axis) -> NDArray[np.uint8]:
        """Return the cell of a coarse axis that contains each bin of feature j."""
        return coarse_cells(self.axes[j], coarse)[int(self._starts_at_knot(j)) :]

    def _fill_codes(
        self,
        positions: NDArray[Any],
        pairs: Sequence[tuple[int, int]],
        axes: Sequence[tuple[Axis, Axis]],
        n_threads: int | None,
    ) -> None:
        """Write the number of the pair of cells of each document into the rows of the pairs."""
        tables = [
            (self._table(j, first), self._table(k, second))
            for (j, k), (first, second) in zip(pairs, axes, strict=True)
        ]
        fill_codes(positions, pairs, tables, n_threads)

    def apply_to(self, data: RankingData, n_threads: int | None = None) -> RankingData:
        """Return data whose features are the columns."""
        X = self.matrix(data.X, data.has_missing, n_threads)
        return data.replace(X=X, feature_names=None, has_missing=False)

    def with_other_levels(self) -> Design:
        """Return the design in which a level that training lacks has the mean of the others."""
        columns = list(self.columns)
        for j, (axis, own) in enumerate(zip(self.axes, self.columns, strict=True)):
            if axis.levels:
                shape, counts = own.shape.copy(), self.moments[j][0, : len(axis.knots)]
                shape[0, -1] = counts / max(1.0, counts.sum())
                columns[j] = replace(own, shape=shape)
        return replace(self, columns=columns)

    def with_missing(self) -> Design:
        """Return the design with a column for the missing values of each feature that has some."""
        has_bin = [
            moments.shape[1] > own.shape.shape[1]
            for moments, own in zip(self.moments, self.columns, strict=True)
        ]
        columns = [self._column_of_missing(j) if has else self.columns[j]
                   for j, has in enumerate(has_bin)]  # fmt: skip
        return replace(self, columns=columns)

    def _column_of_missing(self, j: int) -> Columns:
        """Return the columns of feature j and one that is 1 for missing values.

        The mean of the other columns becomes 0, so that a weight of 0 stands for the mean of the
        curve. If all values are missing, there is no column.
        """
        own = self.columns[j]
        n_powers, n_bins, n_columns = own.shape.shape
        n_more = int(self.moments[j][0, :n_bins].any())
        shape = np.zeros((n_powers, n_bins + 1, n_columns + n_more))
        shape[:, :n_bins, :n_columns] = own.shape
        shape[0, :n_bins, :n_columns] -= self._means(j)
        shape[0, n_bins, n_columns:] = 1.0
        endless = np.full(n_more, np.inf)
        return Columns(shape, np.append(own.low, -endless), np.append(own.high, endless))

    def _means(self, j: int) -> Vector:
        """Return the mean of each column of feature j over the documents with a value."""
        own = BinnedMatrix(np.empty((1, 0), np.float32), [self.columns[j].shape]).polynomials[0]
        moments = self.moments[j][: len(own), : own.shape[1]]
        return np.einsum("pb,pbc->c", moments, own) / max(1.0, moments[0].sum())

    def _with_bin(self, j: int) -> Vector:
        """Return the columns of feature j with a bin of missing values, which has their means."""
        shape = self.columns[j].shape
        last = np.zeros((len(shape), 1, shape.shape[2]))
        if len(self.moments):
            last[0, 0] = self._means(j)
        return np.concatenate([shape, last], axis=1)


@njit
def _copy_sample(X, rows, first, out):  # type: ignore[no-untyped-def]
    """Copy some rows of the features from `first` on, feature by feature."""
    for i in range(len(rows)):
        for k in range(len(out)):
            out[k, i] = X[rows[i], first + k]


def bin_moments(X: BinnedMatrix, n_threads: int | None = None) -> list[Vector]:
    """Return the sums of t^q over the rows in each bin of each feature, for q < n_moments."""
    n_threads, ones = resolve_threads(n_threads), np.ones(X.shape[0])
    ranges = row_ranges(X, n_tasks(X, n_threads))
    sums, matrix = np.zeros((len(ranges), n_square_sums(X))), kernel_matrix(X)
    tasks = [(matrix, a, b, ones[a:b], sums[k]) for k, (a, b) in enumerate(ranges)]
    run(rmatvec_squares, tasks, n_threads)
    return np.split(sums.sum(axis=0).reshape(-1, X.n_bins), X.starts[1:-1], axis=1)
