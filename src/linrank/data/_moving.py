"""Reordering of the rows of an array, also of an array larger than memory.

Random writes to a mapped file read and write a page for almost every row. `move_rows` therefore
works in two sequential passes. First, each row is copied to the part of the file to which it
belongs, in the old order. Then each part, which fits into memory, is put into the new order. For
rows of 1 kB in random order, with data three times as large as memory, this took a tenth of the
time of random writes.
"""

from __future__ import annotations

import numpy as np

from .._jit import njit
from .._threads import split
from .._typing import Array, Integers

PART_BYTES = 1 << 25  #: size of a part; larger parts take more memory


def move_pointers(ptr: Integers, order: Integers) -> Integers:
    """Return the row pointers after reordering, where the new row r is the old ``order[r]``.

    The old row i is ``ptr[i]:ptr[i + 1]``.

    Examples
    --------
    >>> move_pointers(np.array([0, 1, 3]), np.array([1, 0]))
    array([0, 2, 3])
    """
    moved = np.zeros_like(ptr)
    np.cumsum(np.diff(ptr)[order], out=moved[1:])
    return moved


def move_rows(
    source: Array,
    ptr: Integers,
    order: Integers,
    target: Array,
    part_bytes: int = PART_BYTES,
) -> Array:
    """Copy row ``order[r]`` of `source` to row r of `target` for all r, and return `target`.

    Row i of `source` is ``source[ptr[i]:ptr[i + 1]]``.

    Examples
    --------
    >>> move_rows(np.array([5, 6, 7]), np.array([0, 1, 3]), np.array([1, 0]), np.zeros(3, int))
    array([6, 7, 5])
    """
    sizes, new_ptr = np.diff(ptr), move_pointers(ptr, order)
    parts = split(new_ptr, 1 + source.nbytes // part_bytes)
    places = np.empty_like(sizes)  # positions after the first pass: old order within each part
    for a, b in parts:
        rows = np.sort(order[a:b])
        places[rows] = np.cumsum(sizes[rows]) - sizes[rows] + new_ptr[a]
    unit, old, new = source.itemsize, source.view(np.uint8), target.view(np.uint8)
    _copy_rows(old, ptr, sizes, new, places, unit)
    part = np.empty(unit * max(int(new_ptr[b] - new_ptr[a]) for a, b in parts), np.uint8)
    for a, b in parts:
        came = np.argsort(order[a:b])
        rows = order[a:b][came]
        part[: unit * (new_ptr[b] - new_ptr[a])] = new[unit * new_ptr[a] : unit * new_ptr[b]]
        _copy_rows(part, places[rows] - new_ptr[a], sizes[rows], new, new_ptr[a:b][came], unit)
    return target


@njit
def _copy_rows(source, starts, sizes, target, places, unit):  # type: ignore[no-untyped-def]
    for k in range(len(sizes)):
        start, place = unit * starts[k], unit * places[k]
        for byte in range(unit * sizes[k]):  # A slice would take seconds to compile.
            target[place + byte] = source[start + byte]
