"""`BinnedMatrix`: a wide matrix of basis functions of a few features, stored as positions in bins.

A feature has bins 0, 1, …. The position of a value is the number of its bin plus its place t in the
bin, 0 ≤ t < 1. A column of the matrix is either linear between its values at whole positions, or a
polynomial of t in each bin. Products therefore need neither the columns nor their number: X·v looks
up the sum of all columns at the position of each row and feature, and X'u sums u by bins.

`expand` turns a vector v into the table that is looked up, and `contract` turns the sums by bins
into X'u.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._binned_kernels import Binned, matvec_binned, position, rmatvec_binned
from ._jit import njit
from ._lazy import lazy_property
from ._maps import read_only
from ._simd import STEPS
from ._typing import Integers, Vector


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """A matrix of shape (n_rows, n_columns) whose columns are functions of single features.

    Parameters
    ----------
    positions : uint8, uint16 or float32 array of shape (n_features, n_rows)
        The bin of each value plus its place t in the bin. Numbers of 16 bits are in units of
        1/4096.
    shapes : sequence of arrays of shape (n_powers, n_bins, n_columns)
        The columns of each feature. If n_powers is 1, column c is linear between its values
        ``shape[0, b, c]`` at the whole positions b. Otherwise it is ``Σ_p shape[p, b, c]·t^p`` in
        bin b. All shapes have the same number of powers.

    Examples
    --------
    >>> ramp = np.array([[[0.0], [1.0]]])  # from 0 to 1 in bin 0
    >>> X = BinnedMatrix(np.array([[0.25, 1.0]], np.float32), [ramp])
    >>> X.toarray().tolist()
    [[0.25], [1.0]]
    """

    positions: NDArray[Any]
    shapes: Sequence[Vector]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return int(self.positions.shape[1]), len(self.owner)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the positions."""
        return self.positions.dtype

    @property
    def size(self) -> int:
        """The number of positions."""
        return int(self.positions.size)

    @property
    def nbytes(self) -> int:
        """The bytes of the positions."""
        return int(self.positions.nbytes)

    @property
    def n_powers(self) -> int:
        """The numbers per bin in the table that is looked up."""
        return int(self.shapes[0].shape[0])

    @lazy_property
    def starts(self) -> Integers:
        """The first bin of each feature among the bins of all features, and their number."""
        return np.concatenate([[0], np.cumsum([shape.shape[1] for shape in self.shapes])])

    @lazy_property
    def owner(self) -> Integers:
        """The feature of each column."""
        return np.repeat(np.arange(len(self.shapes)), [shape.shape[2] for shape in self.shapes])

    @property
    def n_bins(self) -> int:
        """The number of bins of all features."""
        return int(self.starts[-1])

    @lazy_property
    def polynomials(self) -> list[Vector]:
        """The columns as polynomials of t in each bin, in the form of `shapes`."""
        if self.n_powers > 1:
            return list(self.shapes)
        return [
            np.concatenate([shape, np.diff(shape, axis=1, append=shape[:, -1:])])
            for shape in self.shapes
        ]

    @lazy_property
    def kernel_form(self) -> Binned:
        """The arrays that kernels read."""
        shapes = [np.moveaxis(shape, 2, 0).ravel() for shape in self.polynomials]
        sizes = np.array([shape.shape[0] * shape.shape[1] for shape in self.polynomials])
        starts = np.concatenate([[0], np.cumsum(sizes[self.owner])]).astype(np.int64)
        return Binned(
            positions=read_only(self.positions),
            starts=read_only(self.starts),
            owner=read_only(self.owner),
            shape_starts=read_only(starts),
            shapes=read_only(np.concatenate(shapes)),
            single=False,
        )

    @lazy_property
    def _map(self) -> sparse.csr_array:
        """The linear map from a vector to the table of all bins, power by power."""
        return sparse.csr_array(sparse.vstack([
            sparse.block_diag([shape[p] for shape in self.shapes]) for p in range(self.n_powers)
        ]))  # fmt: skip

    @lazy_property
    def _map_back(self) -> sparse.csr_array:
        return sparse.csr_array(self._map.T)

    @lazy_property
    def _map_squares_back(self) -> sparse.csr_array:
        """The linear map from sums of u·t^q by bins to the sums of u·x² of the columns."""
        n = self.polynomials[0].shape[0]

        def square(shape: Vector, q: int) -> Vector:
            """Return the coefficient of t^q in the squared polynomials."""
            pairs = [(p, q - p) for p in range(n) if 0 <= q - p < n]
            return np.sum([shape[p] * shape[r] for p, r in pairs], axis=0)

        blocks = [
            sparse.block_diag([square(shape, q) for shape in self.polynomials])
            for q in range(2 * n - 1)
        ]
        return sparse.csr_array(sparse.vstack(blocks).T)

    def expand(self, v: Vector) -> Vector:
        """Return the table of X·v: its values or polynomials in all bins, power by power."""
        return self._map @ v

    def contract(self, sums: Vector) -> Vector:
        """Return X'u, given the sums of `rmatvec_binned` in the order of `expand`."""
        return self._map_back @ sums

    @property
    def n_moments(self) -> int:
        """The powers of t whose sums by bins give sums of squares: 0, …, n_moments − 1."""
        return 2 * self.polynomials[0].shape[0] - 1

    def contract_squares(self, sums: Vector) -> Vector:
        """Return ``Σ_i u_i x_i²``, given the sums of u·t^q by bins for q < n_moments."""
        return self._map_squares_back @ sums

    def __getitem__(self, rows: Integers | slice) -> BinnedMatrix:
        """Return some rows."""
        return replace(self, positions=np.ascontiguousarray(self.positions[:, rows]))

    def toarray(self) -> Vector:
        """Return all columns as a dense matrix."""
        out = np.empty(self.shape)
        columns = np.arange(self.shape[1])
        copy_rows_binned(self.kernel_form, 0, self.shape[0], (columns, columns), out)
        return out


def bins_of(positions: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bins of positions.

    Examples
    --------
    >>> bins_of(np.array([0.5, 2.75], np.float32)).tolist()
    [0, 2]
    >>> bins_of(np.array([4095, 4096], np.uint16)).tolist()
    [0, 1]
    """
    whole = positions // STEPS if positions.dtype == np.uint16 else positions
    return whole.astype(np.uint16)


@njit(inner=True)
def advance_binned(X, first, last, u, out, next_first, next_last, v, s):  # type: ignore[no-untyped-def]
    """Compute `rmatvec_binned` of one range of rows, and `matvec_binned` of the next."""
    rmatvec_binned(X, first, last, u, out)
    matvec_binned(X, next_first, next_last, v, s)


@njit(inner=True)
def _entry(X, i, c):  # type: ignore[no-untyped-def]
    """Return the entry of row i and column c."""
    j = X.owner[c]
    n_bins = X.starts[j + 1] - X.starts[j]
    end = X.shape_starts[c + 1]
    z = position(X, j, i)
    b = np.int64(z)
    t = z - np.float64(b)
    total = 0.0
    for k in range(end - n_bins, X.shape_starts[c] - 1, -n_bins):
        total = total * t + X.shapes[k + b]
    return total


@njit
def copy_columns_binned(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    """Compute the chosen columns of a range of rows, one after another."""
    columns, _ = chosen
    for k in range(len(columns)):
        for i in range(first, last):
            out[k, i - first] = _entry(X, i, columns[k])


@njit
def copy_rows_binned(X, first, last, chosen, out):  # type: ignore[no-untyped-def]
    """Compute the chosen columns of a range of rows, row by row."""
    columns, _ = chosen
    for k in range(len(columns)):
        for i in range(first, last):
            out[i - first, k] = _entry(X, i, columns[k])
