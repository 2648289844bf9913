"""The memory of a graphics card, and what the threads of one of its blocks do together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from ..._util.types import Integers, Vector
from ...errors import DataError
from ...matrix.rows import Floats

# --------------------------------------------------------------------------------------------------
# Sizes of thread blocks and of their shared memory. Kernels are compiled for these numbers.


WARP = 32  #: threads of a warp, which run together
THREADS = 128  #: threads of a block; a power of two
GROUP = 512  #: documents in the shared memory of a block, at most; a power of two
BLOCKS = 1024  #: blocks of a launch, at most; a fixed limit makes sums equal on all cards
SHARED_BYTES = 48 * 1024  #: bytes of shared memory of a block, which every card has
MINSIZE = 64  #: numbers that are sorted without a partition (Jin & Lin 2014, §4)
PART_BYTES = 2**28  #: bytes of X copied to the device at a time; more take more pinned memory


# --------------------------------------------------------------------------------------------------
# The memory of a graphics card: arrays, limits, and the copy of X.


ROOM = 0.9  #: share of the free memory that may be used; more leaves too little for the driver
INDEX = np.int32  #: type of the numbers of rows, places and pairs on the device

#: What an error message recommends if X does not fit.
ADVICE_IF_X_IS_TOO_LARGE = (
    "engine='cuda-streaming', which copies X in parts for every product, or float32"
)

Shape: TypeAlias = int | tuple[int, ...]
Kernel: TypeAlias = Any  #: a kernel compiled by numba.cuda, which has no type of its own


class CopyStream(Protocol):
    """A queue of copies and launches on the device."""

    def synchronize(self) -> None:
        """Wait until all copies and launches of the stream are done."""


class DeviceArray(Protocol):
    """An array in the memory of the device."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice) -> DeviceArray: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of places in each dimension."""

    @property
    def size(self) -> int:
        """The number of places."""

    def copy_to_host(self) -> Vector:
        """Copy the array to the memory of the host."""

    def copy_to_device(self, source: NDArray[Any], stream: CopyStream | int = 0) -> None:
        """Copy an array of the host into this one."""


def launch(
    kernel: Kernel, n_blocks: int, *args: Any, stream: CopyStream | int = 0, shared: int = 0
) -> None:
    """Run a kernel on at most `BLOCKS` blocks, with that many bytes of dynamic shared memory.

    Numba warns of launches of few blocks. The last step of every sum is such a launch, so the
    warning is switched off.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Grid size", Warning)
        configured = kernel[max(1, min(n_blocks, BLOCKS)), THREADS, stream, shared]
    configured(*args)


def launch_over(n: int, kernel: Kernel, *args: Any) -> None:
    """Run a kernel with a thread for each of n items."""
    launch(kernel, -(-n // THREADS), *args)


def to_device(array: ArrayLike, dtype: DTypeLike | None = None) -> DeviceArray:
    """Copy an array to the device."""
    array = np.ascontiguousarray(array, dtype)
    _check_array(array.nbytes)
    with _in_a_sentence(array.nbytes):
        return cuda.to_device(array)


def zeros(shape: Shape, dtype: DTypeLike = np.float64) -> DeviceArray:
    """Allocate an array of zeros on the device."""
    return to_device(np.zeros(shape, dtype))


def empty(shape: Shape, dtype: DTypeLike = np.float64) -> DeviceArray:
    """Allocate an array on the device, without initial values."""
    n_bytes = _bytes_of(shape, dtype)
    _check_array(n_bytes)
    with _in_a_sentence(n_bytes):
        return cuda.device_array(shape, dtype)


def _pinned(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """Allocate pinned memory on the host, which the device reads directly."""
    with _in_a_sentence(_bytes_of(shape, dtype)):
        return cuda.pinned_array(shape, dtype)


def _bytes_of(shape: Shape, dtype: DTypeLike) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


@contextmanager
def _in_a_sentence(n_bytes: int) -> Iterator[None]:
    """Turn an error of the driver into a `DataError` that says what to do."""
    try:
        yield
    except CudaAPIError as error:
        raise DataError(
            f"the driver of the graphics card did not give {n_bytes:,} bytes of memory ({error}). "
            "Use engine='threads'."
        ) from None


def _check_array(n_bytes: int) -> None:
    check_room(n_bytes, "an array for documents and pairs", "engine='threads'")


def check_room(n_bytes: int, what: str, advice: str) -> None:
    """Raise a `DataError` if an array does not fit into the free memory of the device."""
    free = ROOM * cuda.current_context().get_memory_info()[0]
    if n_bytes > free:
        raise DataError(
            f"{what} needs {n_bytes:,} bytes on the device, which has {int(free):,} free. "
            f"Use {advice}."
        )


def check_rows(n: int, what: str) -> None:
    """Raise a `DataError` if there are more items than `INDEX` can number."""
    if n > np.iinfo(INDEX).max:
        raise DataError(
            f"there are {n:,} {what}; the limit on a graphics card is {np.iinfo(INDEX).max:,}. "
            "Use engine='threads'."
        )


class RowPart(NamedTuple):
    """A part of X on the device, which starts at row `first` of the data.

    Of the requested rows, those numbered ``a:b`` are in this part. ``turn`` is the number of the
    stream, 0 or 1.
    """

    X: DeviceArray
    first: int
    a: int
    b: int
    turn: int
    stream: CopyStream | int


def cut_rows(query_ptr: Integers, n_parts: int, room: int) -> list[tuple[int, int]]:
    """Cut rows into about equal parts, without splitting a query of up to `room` rows.

    Examples
    --------
    >>> cut_rows(np.array([0, 3, 6, 20]), 4, room=5)
    [(0, 3), (3, 10), (10, 15), (15, 20)]
    """
    goals = int(query_ptr[-1]) * np.arange(1, n_parts) // n_parts
    query = np.searchsorted(query_ptr, goals, side="right") - 1
    short = np.diff(query_ptr)[query] <= room
    cuts = np.unique(np.where(short, query_ptr[query], goals))
    edges = [0, *cuts[cuts > 0].tolist(), int(query_ptr[-1])]
    return list(pairwise(edges))


class DenseRows:
    """A dense X on the device: as a whole, or in parts that are copied for every product.

    X is copied through two buffers of pinned memory, which the device reads directly: while one
    buffer is copied, the other is filled. Without `streaming`, X is copied once. With `streaming`,
    the parts of X are copied in turn to two places on the device, for every product.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    query_ptr : int64 array
        A query of up to `sizes.GROUP` documents is not split between two parts.
    streaming : bool
    """

    def __init__(self, X: Floats, query_ptr: Integers, streaming: bool) -> None:
        self._host, self.dtype, self.streaming = X, X.dtype, streaming
        row_bytes = max(1, X.shape[1] * X.itemsize)
        self._parts = cut_rows(query_ptr, -(-X.shape[0] * row_bytes // PART_BYTES), GROUP)
        self.starts = [first for first, _ in self._parts]
        self._device: list[DeviceArray] = []

    def load(self) -> None:
        """Copy X to the device, or allocate memory for its parts, if that is not yet done.

        Call this after all other arrays are allocated: the check of free memory then counts them.
        """
        if self._device:
            return
        X, longest = self._host, max(b - a for a, b in self._parts)
        if self.streaming:
            advice, shapes = "engine='threads'", [(longest, X.shape[1])] * 2
        else:
            advice, shapes = ADVICE_IF_X_IS_TOO_LARGE, [X.shape]
        n_bytes = sum(_bytes_of(shape, X.dtype) for shape in shapes)
        check_room(n_bytes, "two parts of X" if self.streaming else "X", advice)
        self._streams = [cuda.stream() for _ in range(2)]
        self._pinned = [_pinned((longest, X.shape[1]), X.dtype) for _ in range(2)]
        self._device = [empty(shape, X.dtype) for shape in shapes]
        if not self.streaming:
            for k, (first, last) in enumerate(self._parts):
                self._copy(k % 2, first, last, self._device[0][first:last])
            self._wait()
            del self._pinned

    def _copy(self, turn: int, first: int, last: int, target: DeviceArray) -> None:
        stream, pinned = self._streams[turn], self._pinned[turn][: last - first]
        stream.synchronize()  # the previous copy from this buffer, and its launches, are done
        pinned[:] = self._host[first:last]
        target.copy_to_device(pinned, stream=stream)

    def _wait(self) -> None:
        for stream in self._streams:
            stream.synchronize()

    def parts_with(self, rows: Integers) -> Iterator[RowPart]:
        """Yield the parts of X that have some of the given rows, which must increase.

        Parts without any of these rows are not copied. When the iteration ends, all launches on
        the streams of the parts are done.
        """
        if not self.streaming:
            if len(rows):
                yield RowPart(self._device[0], 0, 0, len(rows), 0, 0)
            return
        cuda.synchronize()  # earlier launches, which use no stream, end before the first part
        turn = 0
        for first, last in self._parts:
            a, b = (int(place) for place in np.searchsorted(rows, [first, last]))
            if a < b:
                target = self._device[turn][: last - first]
                self._copy(turn, first, last, target)
                yield RowPart(target, first, a, b, turn, self._streams[turn])
                turn = 1 - turn
        self._wait()

    def tile(self, taken: int) -> tuple[tuple[int, int], int]:
        """Return the shape of the largest tile, given that `taken` bytes are in use, and its bytes.

        The rows of a tile are an odd number of places apart.
        """
        places = (SHARED_BYTES - taken) // self.dtype.itemsize
        columns = min(self._host.shape[1], places - 1)
        rows = min(THREADS, places // (columns | 1))
        return (rows, columns), rows * (columns | 1) * self.dtype.itemsize


class SparseRows:
    """A sparse X on the device, stored twice: by rows for scores, by columns for X'u."""

    def __init__(self, X: sparse.csr_array) -> None:
        self._host: sparse.csr_array | None = X
        check_rows(X.shape[1], "features")

    def load(self) -> None:
        """Copy X to the device, if that is not yet done, after all other arrays are allocated."""
        if self._host is None:
            return
        by_row, by_column = _arrays(self._host), _arrays(self._host.tocsc())
        n_bytes = sum(array.nbytes for array in by_row + by_column)
        check_room(n_bytes, "X, by rows and by columns,", "float32, or engine='threads'")
        self.by_row = tuple(map(to_device, by_row))
        self.by_column = tuple(map(to_device, by_column))
        self._host = None


def _arrays(X: sparse.csr_array | sparse.csc_array) -> tuple[NDArray[Any], ...]:
    """Return the pointers, indices and values of a CSR or CSC matrix."""
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data


# --------------------------------------------------------------------------------------------------
# Operations that the threads of a block do together: sums, prefix sums, a sort.
#
# All of them add and compare in a fixed order, so a result is the same in every run and on every
# card. Kernels allocate the shared arrays and pass them as arguments.


LAST = 2**31 - 1  #: number of a segment that comes after all others


@cuda.jit(device=True)
def block_sum(value, partial):  # type: ignore[no-untyped-def]
    """Return the sum of the values of all threads; `partial` has a place for each thread."""
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if i < step:
            partial[i] += partial[i + step]
        cuda.syncthreads()
        step //= 2
    return partial[0]


@cuda.jit(device=True)
def block_max(value, partial):  # type: ignore[no-untyped-def]
    """Return the largest of the values of all threads; `partial` has a place for each thread."""
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if i < step:
            partial[i] = max(partial[i], partial[i + step])
        cuda.syncthreads()
        step //= 2
    return partial[0]


@cuda.jit(device=True)
def sum_before(value, first, used, partial):  # type: ignore[no-untyped-def]
    """Return the sum of the values of the threads `first`, …, i − 1 to thread i.

    Consecutive threads with the same `first` form a segment, and each segment is summed by itself.
    Threads from number `used` on have no values.
    """
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = 1
    while step < used:
        before = partial[i - step] if i - step >= first else 0
        cuda.syncthreads()
        partial[i] += before
        cuda.syncthreads()
        step *= 2
    return partial[i - 1] if i > first else 0


@cuda.jit(device=True)
def sum_behind(value, last, used, partial):  # type: ignore[no-untyped-def]
    """Return the sum of the values of the threads i + 1, …, `last` to thread i."""
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = 1
    while step < used:
        behind = partial[i + step] if i + step <= last else 0
        cuda.syncthreads()
        partial[i] += behind
        cuda.syncthreads()
        step *= 2
    return partial[i + 1] if i < last else 0


@cuda.jit(device=True)
def precedes(segment, key, item, other_segment, other_key, other):  # type: ignore[no-untyped-def]
    """Whether an item comes before another: by segment, then by key, then by number.

    NaN is the largest key, and equal to itself. Without an order for NaN, two items could be
    written to the same place.
    """
    if segment != other_segment:
        return segment < other_segment
    if key == other_key or (math.isnan(key) and math.isnan(other_key)):
        return item < other
    return key < other_key or math.isnan(other_key)


@cuda.jit(device=True)
def bitonic(segments, keys, items, n):  # type: ignore[no-untyped-def]
    """Sort the first n items (Batcher 1968); the arrays have room for the next power of two."""
    i = cuda.threadIdx.x
    size = 1
    while size < n:
        size *= 2
    for p in range(n + i, size, THREADS):
        segments[p], keys[p], items[p] = LAST, math.inf, p
    cuda.syncthreads()
    width = 2
    while width <= size:
        step = width // 2
        while step > 0:
            for p in range(i, size, THREADS):
                q = p ^ step
                if q > p:
                    out_of_order = precedes(
                        segments[q], keys[q], items[q], segments[p], keys[p], items[p]
                    )
                    if out_of_order == ((p & width) == 0):
                        _swap(segments, p, q)
                        _swap(keys, p, q)
                        _swap(items, p, q)
            cuda.syncthreads()
            step //= 2
        width *= 2


@cuda.jit(device=True)
def _swap(array, p, q):  # type: ignore[no-untyped-def]
    value = array[p]
    array[p] = array[q]
    array[q] = value


@cuda.jit(device=True)
def first_beyond(keys, a, b, key, tau):  # type: ignore[no-untyped-def]
    """Return the first place p of the sorted keys[a:b] with keys[p] − key ≥ τ, or b."""
    while a < b:
        middle = (a + b) // 2
        if keys[middle] - key < tau:
            a = middle + 1
        else:
            b = middle
    return a


@cuda.jit(device=True)
def first_within(keys, a, b, key, tau):  # type: ignore[no-untyped-def]
    """Return the first place p of the sorted keys[a:b] with key − keys[p] < τ, or b."""
    while a < b:
        middle = (a + b) // 2
        if key - keys[middle] >= tau:
            a = middle + 1
        else:
            b = middle
    return a
