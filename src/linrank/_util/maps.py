"""Files mapped into memory, and the check that they have not changed."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..errors import DataError
from .types import Array

Stamp = tuple[int, int, int, int]


class MappedFile(np.memmap):
    """A read-only array mapped from a file, with the file's size and modification time."""

    stamp: Stamp


def map_file(
    file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int
) -> MappedFile:
    """Map an array of an open file into memory."""
    array = MappedFile(file, dtype=dtype, mode="r", offset=offset, shape=shape)
    array.stamp = _stamp(os.fstat(file.fileno()))
    return array


def check_maps(*matrices: Any) -> None:
    """Raise a `DataError` if a matrix or array is mapped from a file that has changed.

    If a mapped file is truncated, the system kills a process that reads beyond its new end. A file
    that was removed or replaced is not checked, because processes that have mapped it keep the old
    content.
    """
    for X in matrices:
        for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
            found = _mapped_file(array)
            if found is not None and _has_changed(found):
                raise DataError(
                    f"{found.filename}: the file was changed after it was opened. Open the store "
                    "again"
                )


def _has_changed(mapped: MappedFile) -> bool:
    try:
        now = _stamp(os.stat(mapped.filename))  # type: ignore[arg-type]
    except OSError:
        return False
    return now[:2] == mapped.stamp[:2] and now != mapped.stamp


def _mapped_file(array: Array) -> MappedFile | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, MappedFile) and hasattr(base, "stamp"):
            return base
        base = base.base
    return None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array through which it cannot be written."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view
