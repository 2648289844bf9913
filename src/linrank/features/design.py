"""`Design`: the basis of an additive score, fitted to training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._compile.jit import by_type, njit
from .._compile.simd import LOOKUP, STEPS
from .._util.checks import choice, whole_number
from .._util.lazy import lazy_property
from .._util.maps import read_only
from .._util.parallel import resolve_threads, run
from .._util.types import Integers, Vector
from ..choices import BASES, BasisName
from ..data.columns import names_or_numbers
from ..data.ranking import RankingData
from ..data.validation import Matrix
from ..errors import DataError
from ..matrix.binned import BinnedMatrix, bins_of
from ..matrix.rows import (
    CSR,
    UserMatrix,
    kernel_matrix,
    n_square_sums,
    n_tasks,
    rmatvec_squares,
    row_ranges,
)
from .basis import (
    Axis,
    BasisColumns,
    FeaturesLike,
    FormsLike,
    capped,
    check_forms,
    fit_axis,
    make_columns,
    read_features,
    read_forms,
)
from .preprocessing import position_name

# --------------------------------------------------------------------------------------------------
# Positions of the values of X on their axes: the number of the cell plus the place in it.


Storage: TypeAlias = type[np.uint8] | type[np.uint16] | type[np.float32]  #: of positions

BLOCK_ROWS = 256  #: rows whose positions are found at a time; they stay in the cache
BLOCK_FEATURES = 8  #: features of a block; eight numbers fill a cache line of X
COUNTED = 32  #: knots that are compared one by one, in SIMD vectors; more are searched by halving

SINGLE = 2.0**-23  #: relative distance of two numbers of single precision
#: Values of X from which positions have 16 bits. Fewer have single precision, which is more exact.
MANY = 2**24


class _Axes(NamedTuple):
    """The axes of all features, as kernels read them."""

    starts: Integers  #: the cells of feature j are starts[j], …, starts[j + 1] − 1
    knots: Vector  #: at the place of each cell its upper knot; the last two cells have none
    anchors: Vector  #: the value of each cell at which its place is 0; see `Axis.anchors`
    widths: Vector  #: the length of each cell
    levels: NDArray[np.bool_]
    first: Integers  #: the cell of each feature that has the position 0
    inside: bool  #: whether the place in a cell counts


def choose_storage(axes: Sequence[Axis], basis: BasisName, n_rows: int, n_more: int = 0) -> Storage:
    """Return the type of the positions of training data.

    Positions of step functions are bytes if that suffices. Others are numbers of single precision.
    If there are many, they are integers of 16 bits in units of 1/4096, which need half the memory.
    These integers cannot hold more than 16 bins, and so no `n_more` pairs of features.

    Examples
    --------
    >>> axes = 8 * [Axis([0.0, 2.0])]
    >>> [choose_storage(axes, "ramp", n_rows).__name__ for n_rows in (2**20, 2**22)]
    ['float32', 'uint16']
    """
    n_cells = max(axis.n_cells for axis in axes)
    if basis == "step" and n_cells <= 256:
        return np.uint8
    many = len(axes) * n_rows >= MANY
    return np.uint16 if many and n_cells <= LOOKUP and not n_more else np.float32


def find_positions(
    X: UserMatrix, axes: Sequence[Axis], basis: BasisName, storage: Storage,
    n_threads: int | None = None, n_more: int = 0,
) -> NDArray[Any]:  # fmt: skip
    """Return the positions of all values, of shape (n_features + n_more, n_rows).

    For broken lines, the position of a value is the number of a knot plus the place behind it. For
    step functions and splines, it is the number of a cell (`Axis.cells`) plus the place in it. Step
    functions have no places. Values beyond the first and the last knot have the place 0. Missing
    values have the last position. The type of the positions is that of `choose_storage`. The last
    `n_more` rows are left for the caller.

    Examples
    --------
    >>> axes, X = [Axis([0.0, 2.0])], np.array([[-1.0], [0.5], [2.0], [np.nan]])
    >>> find_positions(X, axes, "ramp", np.float32).tolist()
    [[0.0, 0.25, 1.0, 2.0]]
    >>> find_positions(X, axes, "ramp", np.uint16).tolist()
    [[0, 1024, 4096, 8192]]
    >>> find_positions(X, axes, "step", np.uint8).tolist()
    [[0, 1, 2, 3]]
    """
    out = np.empty((len(axes) + n_more, X.shape[0]), storage)
    known = _kernel_axes(axes, basis)
    n_threads, matrix = resolve_threads(n_threads), kernel_matrix(X)
    ranges = row_ranges(X, n_tasks(X, n_threads))
    blocks = np.empty((len(ranges), BLOCK_FEATURES, BLOCK_ROWS))
    cells = np.empty((len(ranges), BLOCK_ROWS), np.uint64)
    found = out[: len(axes)]
    tasks = [(matrix, a, b, known, blocks[k], cells[k], found) for k, (a, b) in enumerate(ranges)]
    run(_locate, tasks, n_threads)
    return out


def _kernel_axes(axes: Sequence[Axis], basis: BasisName) -> _Axes:
    sizes = [axis.n_cells for axis in axes]
    levels = np.array([axis.levels for axis in axes], np.bool_)
    has_knots = np.array([len(axis.knots) > 0 for axis in axes])
    return _Axes(
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.concatenate([np.append(axis.knots, [0.0, 0.0]) for axis in axes]),
        np.concatenate([axis.anchors for axis in axes]),
        np.concatenate([axis.widths for axis in axes]),
        levels,
        ((basis == "ramp") & ~levels & has_knots).astype(np.int64),
        basis != "step",
    )


@njit(inner=True)
def _count(knots, x, cells):  # type: ignore[no-untyped-def]
    """Count the knots ≤ x for each x, in loops without branches that depend on x."""
    n = len(knots)
    cells[:] = np.uint64(0)
    if n <= COUNTED:
        for k in range(n):
            knot = knots[k]
            for i in range(len(x)):
                cells[i] += np.uint64(x[i] >= knot)
        return
    while n > 0:
        half = np.uint64((n + 1) // 2)
        for i in range(len(x)):
            cell = cells[i]
            cells[i] = cell + half if x[i] >= knots[cell + half - np.uint64(1)] else cell
        n //= 2


@njit(inner=True)
def _store(out, i, z):  # type: ignore[no-untyped-def]
    """Write a position; the size of its type is known when the kernel is compiled."""
    out[i] = np.floor(z * STEPS + 0.5) if out.itemsize == 2 else z


@njit(inner=True)
def _locate_feature(axes, j, x, cells, out):  # type: ignore[no-untyped-def]
    """Compute the positions of some values of feature j."""
    start, n = axes.starts[j], axes.starts[j + 1] - axes.starts[j] - 2
    knots, anchors = axes.knots[start : start + n], axes.anchors[start : start + n + 2]
    widths, first = axes.widths[start : start + n + 2], axes.first[j]
    _count(knots, x, cells)
    missing = n + 1 - first
    if axes.levels[j]:
        for i in range(len(x)):
            cell = np.int64(cells[i])
            is_known = cell > 0 and knots[cell - 1] == x[i]
            _store(out, i, cell - 1 if is_known else n if x[i] == x[i] else missing)
    elif axes.inside and n > 0:
        low, high = knots[0], knots[n - 1]
        for i in range(len(x)):
            value, cell = x[i], cells[i]
            # Clipped values have the place 0 in the outer cells, and no difference overflows.
            within = low if value < low else high if value > high else value
            place = (within - anchors[cell]) / widths[cell]
            whole = np.float64(max(0, np.int64(cell) - first))
            # The stored position of a value below a knot stays below that of the knot.
            place = min(place, 1.0 - (1.0 / STEPS if out.itemsize == 2 else (whole + 1.0) * SINGLE))
            _store(out, i, whole + place if value == value else missing)
    else:
        for i in range(len(x)):
            _store(out, i, max(0, np.int64(cells[i]) - first) if x[i] == x[i] else missing)


@njit
def _locate_dense(X, first, last, axes, block, cells, out):  # type: ignore[no-untyped-def]
    for a in range(first, last, BLOCK_ROWS):
        n = min(BLOCK_ROWS, last - a)
        for f in range(0, X.shape[1], BLOCK_FEATURES):
            width = min(BLOCK_FEATURES, X.shape[1] - f)
            for i in range(n):
                for k in range(width):
                    block[k, i] = X[a + i, f + k]
            for k in range(width):
                _locate_feature(axes, f + k, block[k, :n], cells[:n], out[f + k, a : a + n])


@njit
def _locate_csr(X, first, last, axes, block, cells, out):  # type: ignore[no-untyped-def]
    value = block[0, :1]
    value[0] = 0.0
    for j in range(len(out)):
        _locate_feature(axes, j, value, cells[:1], out[j, first : first + 1])
        out[j, first:last] = out[j, first]
    for i in range(first, last):
        for e in range(X.indptr[i], X.indptr[i + 1]):
            j = X.indices[e]
            value[0] = X.data[e]
            _locate_feature(axes, j, value, cells[:1], out[j, i : i + 1])


_locate = by_type(0, {CSR: _locate_csr}, _locate_dense)


# --------------------------------------------------------------------------------------------------
# `Pair`: a grid of coarse cells of two features, and the columns of its interactions.
#
# An interaction is a function of the cells whose mean over the training documents is 0 in every row
# and in every column of the grid. The curves of the two features therefore have nothing in common
# with it: they carry all that a sum of curves can carry.


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
    return Axis(_not_above(knots[chosen[(before[chosen] > 0) & (before[chosen] < total)]]))


def _not_above(knots: Vector) -> Vector:
    """Return knots that are at most the training values they stand for, in single precision, too.

    A value that a program rounds to single precision is then on the same side of its knot.
    """
    with np.errstate(over="ignore"):
        single = knots.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(single), np.minimum(knots, single), knots)


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


# --------------------------------------------------------------------------------------------------
# `Design`: the basis of an additive score, fitted to training data.


FITTED_ROWS = 2**16  #: documents from which knots are chosen; more change the quantiles little
FITTED_FEATURES = 8  #: features whose sample is copied at a time; eight fill a cache line of X
MOST_PAIRS = 50  #: pairs of features; more can hardly be looked at
SHRINKAGE = 10  #: documents of a level whose effect costs twice as much; more shrink rare levels
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
        The forms of curves; see `linrank.features.basis.read_forms`.
    levels : sequence of features whose values have no order, by name or number
    interactions : int
        The largest number of pairs of features that have an interaction.
    turned : bool
        Whether the columns of a feature may be turned; see `Design.with_principal_columns`.
    """

    n_bins: int = 8
    basis: BasisName = "ramp"
    smooth: float = 0.0
    forms: FormsLike = None
    levels: FeaturesLike = ()
    interactions: int = 0
    turned: bool = False

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
        design = replace(design, moments=bin_moments(X, n_threads)).with_shrunk_levels()
        if data.has_missing:
            design = design.with_missing()
        if self.turned:
            design = design.with_principal_columns()
        design = design.with_pairs(positions, pairs, n_threads)
        X = BinnedMatrix(positions, design.shapes)
        return design, data.replace(X=X, feature_names=None, has_missing=False)

    def level_features(self, data: RankingData) -> Integers:
        """Return the features whose values have no order."""
        listed = read_features(
            self.levels, "categories", data.n_features, data.feature_names, data.index_base
        )
        return np.union1d(np.array(listed, np.int64), data.codes)

    def for_positions(self, given: RankingData) -> Self:
        """Return the steps for the given features followed by their positions in queries.

        A form holds for both curves of a feature.
        """
        n, names, base = given.n_features, given.feature_names, given.index_base
        shown = names_or_numbers(names, n, base)
        both = shown + [position_name(name) for name in shown]
        if names is None:
            both = names_or_numbers(None, 2 * n, base)
        forms = read_forms(self.forms, n, names, base)
        levels = read_features(self.levels, "categories", n, names, base)
        return replace(
            self,
            forms={both[k]: form for j, form in forms.items() for k in (j, n + j)},
            levels=[both[j] for j in levels],
        )

    def _axes(self, data: RankingData, n_threads: int | None) -> list[Axis]:
        rows = np.linspace(0, data.n_docs - 1, min(data.n_docs, FITTED_ROWS)).astype(np.int64)
        levels = set(self.level_features(data).tolist())
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
    columns: Sequence[BasisColumns]
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
        first = int(self._starts_at_knot(j))
        out = np.zeros((len(values), self.axes[j].n_cells))
        out[:, first : first + values.shape[1]] = values
        return out

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

    def with_shrunk_levels(self) -> Design:
        """Return the design with smaller columns of rare levels, whose weights then cost more.

        The column of a level with n documents has the value √(n/(n + k)) instead of 1, with
        k = `SHRINKAGE`. A level that training lacks has the mean of the others.
        """
        columns = list(self.columns)
        for j, (axis, own) in enumerate(zip(self.axes, self.columns, strict=True)):
            if axis.levels:
                shape, counts = own.shape.copy(), self.moments[j][0, : len(axis.knots)]
                shape[0] *= np.sqrt(counts / (counts + SHRINKAGE))
                shape[0, -1] = counts @ shape[0, :-1] / max(1.0, counts.sum())
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

    def _column_of_missing(self, j: int) -> BasisColumns:
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
        return BasisColumns(shape, np.append(own.low, -endless), np.append(own.high, endless))

    def with_principal_columns(self) -> Design:
        """Return the design with uncorrelated columns of the mean 0 for each feature.

        The columns of a feature are turned by an orthogonal matrix, so that neither ‖w‖ nor the
        norm of its weights changes. Conjugate gradients with a diagonal preconditioner then need a
        fraction of the products. Levels, which hardly correlate, and columns with limits stay.
        """
        columns, alike = list(self.columns), dict[tuple[int, ...], list[int]]()
        for j, (axis, own) in enumerate(zip(self.axes, columns, strict=True)):
            if not axis.levels and np.isinf(own.low).all() and np.isinf(own.high).all():
                alike.setdefault(own.shape.shape, []).append(j)
        for features in alike.values():
            for j, shape in zip(features, self._principal_shapes(features), strict=True):
                columns[j] = replace(columns[j], shape=shape)
        return replace(self, columns=columns)

    def _principal_shapes(self, features: list[int]) -> Vector:
        """Return the columns of features with shapes of one size, times the axes of their spread.

        These axes are the eigenvectors of the covariance of the columns of a feature.
        """
        shapes = np.array([self.columns[j].shape for j in features])
        own = np.array([self._polynomials(j) for j in features])
        moments = np.array([self.moments[j][:, : own.shape[2]] for j in features])
        n, powers = moments[:, 0].sum(axis=1)[:, None], range(own.shape[1])
        sums = np.einsum("jpb,jpbc->jc", moments[:, : len(powers)], own)
        means = sums / np.maximum(1.0, n)
        weighted = [(own[:, p] * moments[:, p + q, :, None], own[:, q])
                    for p in powers for q in powers]  # fmt: skip
        squares = np.sum([np.swapaxes(a, 1, 2) @ b for a, b in weighted], axis=0)
        shapes[:, 0] -= means[:, None]
        axes = np.linalg.eigh(squares - sums[:, :, None] * means[:, None])[1]
        return shapes @ axes[:, None]

    def _polynomials(self, j: int) -> Vector:
        """Return the columns of feature j in the form of `BinnedMatrix.polynomials`."""
        return BinnedMatrix(np.empty((1, 0), np.float32), [self.columns[j].shape]).polynomials[0]

    def _means(self, j: int) -> Vector:
        """Return the mean of each column of feature j over the documents with a value."""
        own = self._polynomials(j)
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
