"""Files that are mapped into memory, and whether they are still what they were."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .errors import DataError

Stamp = tuple[int, int, int, int]


class MappedFile(np.memmap):
    """An array mapped from a file, read-only; it remembers the file's size and time of change."""

    stamp: Stamp


def map_file(file: Any, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> MappedFile:
    """Map an array of an open file."""
    array = MappedFile(file, dtype=dtype, mode="r", offset=offset, shape=shape)
    array.stamp = _stamp(os.fstat(file.fileno()))
    return array


def check_maps(*matrices: Any) -> None:
    """Refuse matrices and arrays that are mapped from a file which has changed since.

    If a mapped file is cut short, the system ends a process that reads behind its new end. A file
    that was removed or replaced as a whole stays as it was for those who have mapped it.
    """
    for X in matrices:
        for array in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
            _check_map(array)


def _check_map(array: NDArray[Any]) -> None:
    found = _mapped_file(array)
    if found is None:
        return
    try:
        now = _stamp(os.stat(found.filename))  # type: ignore[arg-type]
    except OSError:
        return
    if now[:2] == found.stamp[:2] and now != found.stamp:
        raise DataError(
            f"{found.filename}: the file was changed after it was opened; open the store again"
        )


def _mapped_file(array: NDArray[Any]) -> MappedFile | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, MappedFile) and hasattr(base, "stamp"):
            return base
        base = base.base
    return None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
