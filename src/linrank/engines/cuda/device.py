"""The card: what fits on it, and X on the way there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.driver import CudaAPIError
from numpy.typing import NDArray

from ...errors import DataError
from .sizes import BLOCKS, GROUP, PART_BYTES, SHARED_BYTES, THREADS

ROOM = 0.9  #: part of the free memory that is used
INDEX = np.int32  #: of rows, places and pairs

#: What to do where X does not fit.
WITHOUT_ROOM = "use engine='cuda-streaming', which copies it in parts for every product, or float32"


def launch(kernel: Any, n_blocks: int, *args: Any, stream: Any = 0, shared: int = 0) -> None:
    """Run a kernel on at most `BLOCKS` blocks.

    numba warns of launches of few blocks, which the last steps of every sum are.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Grid size", Warning)
        configured = kernel[max(1, min(n_blocks, BLOCKS)), THREADS, stream, shared]
    configured(*args)


def launch_over(n: int, kernel: Any, *args: Any) -> None:
    """Run a kernel with a thread for each of n items."""
    launch(kernel, -(-n // THREADS), *args)


def to_device(array: Any, dtype: Any = None) -> Any:
    """A copy on the device."""
    array = np.ascontiguousarray(array, dtype)
    _check_array(array.nbytes)
    with _in_a_sentence(array.nbytes):
        return cuda.to_device(array)


def zeros(shape: Any, dtype: Any = np.float64) -> Any:
    """Zeros on the device."""
    return to_device(np.zeros(shape, dtype))


def empty(shape: Any, dtype: Any = np.float64) -> Any:
    """Room on the device."""
    n_bytes = _bytes_of(shape, dtype)
    _check_array(n_bytes)
    with _in_a_sentence(n_bytes):
        return cuda.device_array(shape, dtype)


def _pinned(shape: Any, dtype: Any) -> Any:
    """Room in memory that the device reads by itself."""
    with _in_a_sentence(_bytes_of(shape, dtype)):
        return cuda.pinned_array(shape, dtype)


def _bytes_of(shape: Any, dtype: Any) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


@contextmanager
def _in_a_sentence(n_bytes: int) -> Iterator[None]:
    """What the driver says, as an error that says what was asked for and what else can be done."""
    try:
        yield
    except CudaAPIError as error:
        raise DataError(
            f"the driver of the graphics card does not give {n_bytes:,} bytes ({error}): "
            "use engine='threads'"
        ) from None


def _check_array(n_bytes: int) -> None:
    check_room(n_bytes, "an array of what belongs to documents and pairs", "use engine='threads'")


def check_room(n_bytes: int, what: str, way_out: str) -> None:
    """Refuse what does not fit into the free memory of the device."""
    free = ROOM * cuda.current_context().get_memory_info()[0]
    if n_bytes > free:
        raise DataError(
            f"{what} needs {n_bytes:,} bytes on the device, which has {int(free):,} free: {way_out}"
        )


def check_rows(n: int, what: str) -> None:
    """Refuse more than can be numbered on the device."""
    if n > np.iinfo(INDEX).max:
        raise DataError(
            f"there are {n:,} {what}, and the device numbers them up to {np.iinfo(INDEX).max:,}: "
            "use engine='threads'"
        )


class Part(NamedTuple):
    """Rows of X on the device, from row `first` of the data on.

    ``a:b`` are the items that were asked for and lie in them; ``turn`` is that of the stream.
    """

    X: Any
    first: int
    a: int
    b: int
    turn: int
    stream: Any


def cut_rows(query_ptr: NDArray[np.int64], n_parts: int, room: int) -> list[tuple[int, int]]:
    """Cut rows into about equal parts, none of which tears a query of up to `room` rows apart.

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
    """A dense X on the device, once it is loaded: all of it, or in parts that come and go.

    Copies go through two buffers of pinned memory, which the device reads by itself: while one is
    on its way, the next is filled. X is copied once; with `streaming`, its parts follow each other
    into two places on the device, for every product.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    query_ptr : int64 array
        Queries that a block holds are not torn apart.
    streaming : bool
    """

    def __init__(self, X: NDArray[Any], query_ptr: NDArray[np.int64], streaming: bool) -> None:
        self._host, self.dtype, self.streaming = X, X.dtype, streaming
        row_bytes = max(1, X.shape[1] * X.itemsize)
        self._parts = cut_rows(query_ptr, -(-X.shape[0] * row_bytes // PART_BYTES), GROUP)
        self.starts = [first for first, _ in self._parts]
        self._device: list[Any] = []

    def load(self) -> None:
        """Copy X, or make room for its parts: when all else is there, so that it fits beside it."""
        if self._device:
            return
        X, longest = self._host, max(b - a for a, b in self._parts)
        if self.streaming:
            way_out, shapes = "use engine='threads'", [(longest, X.shape[1])] * 2
        else:
            way_out, shapes = WITHOUT_ROOM, [X.shape]
        n_bytes = sum(_bytes_of(shape, X.dtype) for shape in shapes)
        check_room(n_bytes, "two parts of X" if self.streaming else "X", way_out)
        self._streams = [cuda.stream() for _ in range(2)]
        self._pinned = [_pinned((longest, X.shape[1]), X.dtype) for _ in range(2)]
        self._device = [empty(shape, X.dtype) for shape in shapes]
        if not self.streaming:
            for k, (first, last) in enumerate(self._parts):
                self._copy(k % 2, first, last, self._device[0][first:last])
            self._wait()
            del self._pinned

    def _copy(self, turn: int, first: int, last: int, target: Any) -> None:
        stream, pinned = self._streams[turn], self._pinned[turn][: last - first]
        stream.synchronize()  # what this buffer held has arrived, and its work is done
        pinned[:] = self._host[first:last]
        target.copy_to_device(pinned, stream=stream)

    def _wait(self) -> None:
        for stream in self._streams:
            stream.synchronize()

    def parts_with(self, rows: NDArray[np.int64]) -> Iterator[Part]:
        """The parts that hold some of these rows, which increase; others are not copied.

        When all have had their turn, their work is done.
        """
        if not self.streaming:
            if len(rows):
                yield Part(self._device[0], 0, 0, len(rows), 0, 0)
            return
        cuda.synchronize()  # what was done before, on no stream, comes before the first part
        turn = 0
        for first, last in self._parts:
            a, b = (int(place) for place in np.searchsorted(rows, [first, last]))
            if a < b:
                target = self._device[turn][: last - first]
                self._copy(turn, first, last, target)
                yield Part(target, first, a, b, turn, self._streams[turn])
                turn = 1 - turn
        self._wait()

    def tile(self, taken: int) -> tuple[tuple[int, int], int]:
        """Rows and columns of a tile in shared memory of which so much is taken, and its bytes."""
        places = (SHARED_BYTES - taken) // self.dtype.itemsize
        columns = min(self._host.shape[1], places - 1)
        rows = min(THREADS, places // (columns | 1))
        return (rows, columns), rows * (columns | 1) * self.dtype.itemsize


class SparseRows:
    """A sparse X on the device twice: by rows for scores, by columns for X'u."""

    def __init__(self, X: Any) -> None:
        self._host = X
        check_rows(X.shape[1], "features")

    def load(self) -> None:
        """Copy X: when all else is there, so that it fits beside it."""
        if self._host is None:
            return
        by_row, by_column = _arrays(self._host), _arrays(self._host.tocsc())
        n_bytes = sum(array.nbytes for array in by_row + by_column)
        check_room(n_bytes, "X, by rows and by columns,", "use float32, or engine='threads'")
        self.by_row = tuple(map(to_device, by_row))
        self.by_column = tuple(map(to_device, by_column))
        self._host = None


def _arrays(X: Any) -> tuple[Any, ...]:
    """Pointers, indices and numbers of a CSR or CSC matrix."""
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
