"""Kernels that format arrays as LETOR text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._typing import Array, Integers, Vector
from ._number import count_digits, write_digits, write_number, write_rounded

ENTRY_BYTES = 44  #: largest size of an entry: a space, an index, a colon and a number
ROW_BYTES = 48  #: largest size of a row without its entries, qid and comment

_SPACE, _COLON, _HASH, _NEWLINE = 32, 58, 35, 10


class Style(NamedTuple):
    """The format of the written rows."""

    is_dense: bool
    is_single: bool
    has_comments: bool
    n_features: int
    index_base: int
    decimals: int  #: −1 for as many as are needed to read back the same number


class Rows(NamedTuple):
    """The arrays that are written."""

    y: Vector
    indptr: Integers
    indices: NDArray[np.int32]
    data: Array  #: the entries of a CSR matrix, or all of a dense one, row by row
    qids: NDArray[np.uint8]
    qids_ptr: Integers
    comments: NDArray[np.uint8]
    comments_ptr: Integers

    def read_only(self) -> Rows:
        """Return read-only views, so that the kernel sees one type for mapped and other arrays."""
        views = [array.view(np.ndarray) for array in self]
        for view in views:
            view.flags.writeable = False
        return Rows(*views)


@njit(inner=True)
def _copy(source, first, last, out, at):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        out[at] = source[k]
        at += 1
    return at


@njit(inner=True)
def _format_entries(rows, row, style, out, at):  # type: ignore[no-untyped-def]
    first, last = row * style.n_features, (row + 1) * style.n_features
    if not style.is_dense:
        first, last = rows.indptr[row], rows.indptr[row + 1]
    for entry in range(first, last):
        value = np.float64(rows.data[entry])
        if value != value:
            return -1  # Python writes missing values.
        index = entry - first
        if not style.is_dense:
            index = np.int64(rows.indices[entry])
            if value == 0:
                continue
        out[at] = _SPACE
        index += style.index_base
        at = write_digits(out, at + 1, index, count_digits(index), 0)
        out[at] = _COLON
        start = at + 1
        at = -1
        if style.decimals >= 0:
            at = write_rounded(out, start, value, style.decimals)
        if at < 0:
            at = write_number(out, start, value, style.is_single)
        if at < 0:
            return at
    return at


@njit
def format_rows(rows, which, queries, style, out):  # type: ignore[no-untyped-def]
    """Write the rows `which` into `out`; return the number of written rows and of bytes.

    The kernel stops before a row with a number that Python must format.
    """
    end = 0
    for k in range(len(which)):
        row = which[k]
        at = write_number(out, end, rows.y[row], False)
        if at < 0:
            return k, end
        at = _copy(rows.qids, rows.qids_ptr[queries[k]], rows.qids_ptr[queries[k] + 1], out, at)
        at = _format_entries(rows, row, style, out, at)
        if at < 0:
            return k, end
        if style.has_comments and rows.comments_ptr[row] < rows.comments_ptr[row + 1]:
            out[at] = _SPACE
            out[at + 1] = _HASH
            out[at + 2] = _SPACE
            at = _copy(
                rows.comments, rows.comments_ptr[row], rows.comments_ptr[row + 1], out, at + 3
            )
        out[at] = _NEWLINE
        end = at + 1
    return len(which), end
