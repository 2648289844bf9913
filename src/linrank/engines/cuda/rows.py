"""Products Xv and X'u on the device, one tile of X in shared memory at a time.

When a tile is copied, neighbouring threads read neighbouring numbers, so that their reads are
combined. The tile is then read from shared memory by rows (for scores) or by columns (for X'u). The
rows of a tile are an odd number of places apart, so that threads that read one column of many rows
use different memory banks.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64, types

from .blocks import block_sum
from .device import Kernel
from .sizes import THREADS, WARP


@cuda.jit(device=True)
def load_tile(X, base, rows, first, n, f0, width, tile):  # type: ignore[no-untyped-def]
    """Copy the features f0, …, f0 + width − 1 of the rows ``rows[first:first + n]`` to the tile.

    The first row of X is row `base` of the data. A warp copies a whole row, so that it can request
    the next numbers of the row before the first ones have arrived.
    """
    stride, lane = width | 1, cuda.threadIdx.x % WARP
    for r in range(cuda.threadIdx.x // WARP, n, THREADS // WARP):
        row = rows[first + r] - base
        for f in range(lane, width, WARP):
            tile[r * stride + f] = X[row, f0 + f]
    cuda.syncthreads()


@cuda.jit(device=True)
def dot_tile(tile, n, f0, width, v, s, start, partial):  # type: ignore[no-untyped-def]
    """Add x_r · v over the features of the tile to ``s[start + r]``; threads share rows."""
    i, stride, lanes = cuda.threadIdx.x, width | 1, THREADS // n
    r, lane = i % n, i // n
    total = 0.0
    if lane < lanes:
        for f in range(lane, width, lanes):
            total += tile[r * stride + f] * v[f0 + f]
    partial[i] = total
    cuda.syncthreads()
    if i < n:
        for k in range(1, lanes):
            total += partial[k * n + i]
        s[start + i] += total
    cuda.syncthreads()


@cuda.jit(device=True)
def add_tile(tile, n, f0, width, u, start, partial, out):  # type: ignore[no-untyped-def]
    """Add Σ_r u[start + r] x_rf to ``out[f0 + f]``; threads share columns if these are few."""
    i, stride = cuda.threadIdx.x, width | 1
    if width >= THREADS:
        for f in range(i, width, THREADS):
            total = 0.0
            for r in range(n):
                total += u[start + r] * tile[r * stride + f]
            out[f0 + f] += total
    else:
        lanes, f, lane = THREADS // width, i % width, i // width
        total = 0.0
        if lane < lanes:
            for r in range(lane, n, lanes):
                total += u[start + r] * tile[r * stride + f]
        partial[i] = total
        cuda.syncthreads()
        if i < width:
            for k in range(1, lanes):
                total += partial[k * width + i]
            out[f0 + i] += total
    cuda.syncthreads()


@cuda.jit(device=True)
def score_tiles(X, base, rows, first, n, v, shape, tile, s, partial):  # type: ignore[no-untyped-def]
    """Compute s[r] = x_r · v for the rows ``rows[first:first + n]``, in tiles of a given shape."""
    tile_rows, tile_columns = shape
    for r in range(cuda.threadIdx.x, n, THREADS):
        s[r] = 0.0
    cuda.syncthreads()
    for r in range(0, n, tile_rows):
        for f in range(0, X.shape[1], tile_columns):
            height, width = min(tile_rows, n - r), min(tile_columns, X.shape[1] - f)
            load_tile(X, base, rows, first + r, height, f, width, tile)
            dot_tile(tile, height, f, width, v, s, r, partial)


@cuda.jit(device=True)
def add_tiles(X, base, rows, first, n, u, shape, known, tile, partial, out):  # type: ignore[no-untyped-def]
    """Add Σ_r u[r] x_r to `out`, last tile first; if `known`, that tile is in shared memory."""
    tile_rows, tile_columns = shape
    d = X.shape[1]
    r = (n - 1) // tile_rows * tile_rows
    while r >= 0:
        f = (d - 1) // tile_columns * tile_columns
        while f >= 0:
            height, width = min(tile_rows, n - r), min(tile_columns, d - f)
            if not known:
                load_tile(X, base, rows, first + r, height, f, width, tile)
            known = False
            add_tile(tile, height, f, width, u, r, partial, out)
            f -= tile_columns
        r -= tile_rows


def _make_row_kernels(kind: types.Float) -> tuple[Kernel, Kernel]:
    """Make the kernels for X of float32 or float64; a tile in shared memory has the type of X."""

    @cuda.jit
    def score_rows(X, base, rows, offset, m0, m1, v, shape, scores):  # type: ignore[no-untyped-def]
        """Compute x_i · v − offset_i for the documents i = rows[m0], …, rows[m1 − 1]."""
        tile = cuda.shared.array(0, kind)
        s = cuda.shared.array(THREADS, float64)
        partial = cuda.shared.array(THREADS, float64)
        height = shape[0]
        for first in range(m0 + cuda.blockIdx.x * height, m1, cuda.gridDim.x * height):
            n = min(height, m1 - first)
            score_tiles(X, base, rows, first, n, v, shape, tile, s, partial)
            if cuda.threadIdx.x < n:
                row = rows[first + cuda.threadIdx.x]
                own = offset[row] if len(offset) > 0 else 0.0
                scores[row] = s[cuda.threadIdx.x] - own
            cuda.syncthreads()

    @cuda.jit
    def add_rows(X, base, rows, m0, m1, u, shape, sums):  # type: ignore[no-untyped-def]
        """Add Σ u_i x_i over the documents i = rows[m0], …, rows[m1 − 1] to the sums of a block."""
        tile = cuda.shared.array(0, kind)
        own = cuda.shared.array(THREADS, float64)
        partial = cuda.shared.array(THREADS, float64)
        out, height = sums[cuda.blockIdx.x], shape[0]
        for first in range(m0 + cuda.blockIdx.x * height, m1, cuda.gridDim.x * height):
            n = min(height, m1 - first)
            if cuda.threadIdx.x < n:
                own[cuda.threadIdx.x] = u[rows[first + cuda.threadIdx.x]]
            cuda.syncthreads()
            add_tiles(X, base, rows, first, n, own, shape, False, tile, partial, out)

    return score_rows, add_rows


#: The kernels ``score_rows`` and ``add_rows``, by the type of X.
ROW_KERNELS = {
    np.dtype(np.float32): _make_row_kernels(float32),
    np.dtype(np.float64): _make_row_kernels(float64),
}


@cuda.jit
def score_csr(indptr, indices, data, offset, v, scores):  # type: ignore[no-untyped-def]
    """Compute x_i · v − offset_i for all rows of a CSR matrix, with one warp per row."""
    partial = cuda.shared.array(THREADS, float64)
    i, lane = cuda.threadIdx.x, cuda.threadIdx.x % WARP
    n_rows = THREADS // WARP
    for first in range(cuda.blockIdx.x * n_rows, len(scores), cuda.gridDim.x * n_rows):
        row, total = first + i // WARP, 0.0
        if row < len(scores):
            for e in range(indptr[row] + lane, indptr[row + 1], WARP):
                total += data[e] * v[indices[e]]
        partial[i] = total
        cuda.syncthreads()
        if lane == 0 and row < len(scores):
            for k in range(1, WARP):
                total += partial[i + k]
            scores[row] = total - (offset[row] if len(offset) > 0 else 0.0)
        cuda.syncthreads()


@cuda.jit
def multiply_csc(indptr, indices, data, u, out):  # type: ignore[no-untyped-def]
    """Compute X'u for a CSC matrix, with one block per column."""
    partial = cuda.shared.array(THREADS, float64)
    for f in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        total = 0.0
        for e in range(indptr[f] + cuda.threadIdx.x, indptr[f + 1], THREADS):
            total += data[e] * u[indices[e]]
        total = block_sum(total, partial)
        if cuda.threadIdx.x == 0:
            out[f] = total


@cuda.jit
def add_up(sums, out):  # type: ignore[no-untyped-def]
    """Compute out = Σ_b sums[b], in a fixed order, with one block per entry of `out`."""
    partial = cuda.shared.array(THREADS, float64)
    for f in range(cuda.blockIdx.x, len(out), cuda.gridDim.x):
        total = 0.0
        for b in range(cuda.threadIdx.x, sums.shape[0], THREADS):
            total += sums[b, f]
        total = block_sum(total, partial)
        if cuda.threadIdx.x == 0:
            out[f] = total


@cuda.jit
def clear(array):  # type: ignore[no-untyped-def]
    """Set a matrix to zero."""
    for k in range(cuda.grid(1), array.size, cuda.gridsize(1)):
        array[k // array.shape[1], k % array.shape[1]] = 0.0


#: Bytes of shared memory that `score_rows` and `add_rows` use in addition to the tile.
ROW_BYTES = 8 * 2 * THREADS
