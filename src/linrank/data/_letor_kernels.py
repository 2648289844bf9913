"""Kernels that parse LETOR text into arrays.

The text is read in two passes over chunks of whole lines. `scan` counts the rows, entries and
comment bytes of each chunk, so that all arrays can be allocated. `parse` fills the arrays.

A *cursor* is an int64 array indexed by the names below. It holds the counts of a chunk, or the
position of `parse` in the text and in the arrays.

The text is padded after its last line end. Loops therefore stop at a line end, and never check for
the end of the text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import njit
from .._typing import Array, Integers, Vector
from ._number import (
    MALFORMED,
    MAX_INTEGER,
    UNDECIDED,
    ZERO,
    read_integer,
    read_number,
    six_decimals,
    word_at,
)

CURSOR_SIZE = 5
AT, ROW, ENTRY, COMMENT, QUERY = range(CURSOR_SIZE)  #: byte, row, entry of X, comment byte, query

#: Other results of `scan`: the largest and smallest index, and the numbers of rows with a qid and
#: with a cost.
N_FACTS = 4
LARGEST, SMALLEST, WITH_QID, WITH_COST = range(N_FACTS)

#: Reasons for which `parse` returns.
DONE, FULL, CHANGED = range(3)
BAD_LABEL, NO_QID, BAD_QID, BAD_ENTRY, OUT_OF_RANGE, UNSORTED, TOO_LARGE, BAD_COST = range(3, 11)

MISSING = -1  #: outcome of a number that is missing; those of `read_number` are not negative
MAX_INDEX = MAX_INTEGER - 1  #: largest index for which the number of features fits an int32

_NEWLINE, _SPACE, _HASH, _MINUS, _COLON = 10, 32, 35, 45, 58
_QID = np.uint64(int.from_bytes(b"qid:", "little"))
_FOUR_BYTES = np.uint64(0xFFFFFFFF)
_COST = np.uint64(int.from_bytes(b"cost:", "little"))
_FIVE_BYTES = np.uint64(0xFFFFFFFFFF)
_NAN = np.uint64(int.from_bytes(b"nan", "little"))
_THREE_BYTES = np.uint64(0xFFFFFF)
_LOWER_CASE = np.uint64(0x202020)


class Layout(NamedTuple):
    """Properties of the file and of the arrays that `parse` fills."""

    has_qid: bool
    has_cost: bool
    has_comments: bool
    is_dense: bool
    n_features: int
    n_read: int  #: features that occur in the file; X may have more
    index_base: int
    largest_value: float  #: larger values would become infinite in the dtype of X
    allow_missing: bool  #: whether a feature may be ``nan``


class Target(NamedTuple):
    """The arrays that `parse` fills."""

    y: Vector
    weight: Vector  #: the costs of the rows
    indptr: Integers
    indices: NDArray[np.int32]
    data: Array  #: the entries of a CSR matrix, or all of a dense one, row by row
    comments: NDArray[np.uint8]
    comments_ptr: Integers
    #: First row, first byte and length of each run of equal qids. A chunk has at most as many runs
    #: as rows.
    queries: Integers
    undecided: Integers  #: place, first and last byte of numbers that Python must parse


@njit(inner=True)
def _skip_space(text, at):  # type: ignore[no-untyped-def]
    while True:
        byte = text[np.uint64(at)]
        if byte != _SPACE and (byte == _NEWLINE or byte < 9 or byte > 13):
            return at
        at += 1


@njit(inner=True)
def _skip_token(text, at):  # type: ignore[no-untyped-def]
    while text[np.uint64(at)] > _SPACE and text[np.uint64(at)] != _HASH:
        at += 1
    return at


@njit(inner=True)
def _comment(text, at):  # type: ignore[no-untyped-def]
    """Return the first and last byte of the stripped comment, and the start of the next line.

    At `at` is a ``#`` or a line end.
    """
    end = at
    while text[np.uint64(end)] != _NEWLINE:
        end += 1
    first, last = min(at + 1, end), end
    while first < last and text[np.uint64(last - 1)] <= _SPACE:
        last -= 1
    while first < last and text[np.uint64(first)] <= _SPACE:
        first += 1
    return first, last, end + 1


@njit(inner=True)
def _scan_entry(text, at):  # type: ignore[no-untyped-def]
    """Return the index of an entry (−1 if malformed), if its value may be non-zero, its end."""
    index, end = read_integer(text, at)
    if end == at or text[np.uint64(end)] != _COLON:
        return np.int64(-1), False, max(_skip_token(text, end), at + 1)  # A NUL is no token.
    at = end + 1
    is_usual, digits = six_decimals(text, at)
    if is_usual:
        return index, digits != np.uint64(0), at + 8
    if text[np.uint64(at)] == _MINUS:
        is_usual, digits = six_decimals(text, at + 1)
        if is_usual:
            return index, digits != np.uint64(0), at + 9
    nonzero = False
    while True:
        byte = text[np.uint64(at)]
        if (
            byte <= _SPACE or byte == _HASH or byte | 32 == 101
        ):  # After "e" come the digits of an exponent.
            return index, nonzero, _skip_token(text, at)
        nonzero |= 49 <= byte <= 57 or byte | 32 == 110  # a digit, or the "n" of "nan"
        at += 1


@njit
def scan(text, first, last, counts, facts):  # type: ignore[no-untyped-def]
    """Pass 1: count the rows, non-zero entries and comment bytes of a chunk."""
    at, n_entries = first, 0
    largest, smallest = np.int64(-1), np.int64(MAX_INDEX + 1)
    while at < last:
        at = _skip_space(text, at)
        if text[np.uint64(at)] == _NEWLINE or text[np.uint64(at)] == _HASH:
            _, _, at = _comment(text, at)
            continue
        counts[ROW] += 1
        at = _skip_space(text, _skip_token(text, at))
        if word_at(text, at) & _FOUR_BYTES == _QID:
            facts[WITH_QID] += 1
            at = _skip_space(text, _skip_token(text, at))
        if word_at(text, at) & _FIVE_BYTES == _COST:
            facts[WITH_COST] += 1
            at = _skip_space(text, _skip_token(text, at))
        while text[np.uint64(at)] != _NEWLINE and text[np.uint64(at)] != _HASH:
            index, nonzero, at = _scan_entry(text, at)
            n_entries += nonzero
            largest = max(largest, index)
            if index >= 0:
                smallest = min(smallest, index)
            at = _skip_space(text, at)
        begin, end, at = _comment(text, at)
        counts[COMMENT] += end - begin
    counts[ENTRY] = n_entries
    facts[LARGEST] = largest
    facts[SMALLEST] = smallest


@njit(inner=True)
def _postpone(undecided, place, first, last):  # type: ignore[no-untyped-def]
    """Leave ``text[first:last]`` to Python's ``float``; return false if the list is full."""
    size = undecided[0, 0] + 1  # Row 0 holds the length of the list.
    if size == len(undecided):
        return False
    undecided[0, 0] = size
    undecided[size, 0] = place
    undecided[size, 1] = first
    undecided[size, 2] = last
    return True


@njit(inner=True)
def _parse_label(text, at, row, y, undecided):  # type: ignore[no-untyped-def]
    value, outcome, end = read_number(text, at)
    if outcome == MALFORMED or _skip_token(text, end) > end:
        return BAD_LABEL, at
    if outcome == UNDECIDED and not _postpone(undecided, -1 - row, at, end):
        return FULL, at
    y[row] = value
    return DONE, _skip_space(text, end)


@njit(inner=True)
def _parse_qid(text, at, cursor, start, queries):  # type: ignore[no-untyped-def]
    """Record the start of a run if the qid differs from that of the previous row of the chunk."""
    query, size, same = cursor[QUERY], _skip_token(text, at) - at, 0
    if size == 4:
        return BAD_QID, at
    if query > start[QUERY] and size == queries[query - 1, 2]:
        before = queries[query - 1, 1]
        while same < size and text[np.uint64(at + same)] == text[np.uint64(before + same)]:
            same += 1
    if same < size:
        queries[query, 0] = cursor[ROW]
        queries[query, 1] = at
        queries[query, 2] = size
        cursor[QUERY] += 1
    return DONE, _skip_space(text, at + size)


@njit(inner=True)
def _parse_cost(text, at, row, target):  # type: ignore[no-untyped-def]
    """Read the weight of a row, which is 1 without a cost."""
    target.weight[row] = 1.0
    if word_at(text, at) & _FIVE_BYTES != _COST:
        return DONE, at
    value, outcome, end = read_number(text, at + 5)
    if outcome == MALFORMED or _skip_token(text, end) > end or value < 0.0:
        return BAD_COST, at
    place = -1 - len(target.y) - row
    if outcome == UNDECIDED and not _postpone(target.undecided, place, at + 5, end):
        return FULL, at
    target.weight[row] = value
    return DONE, _skip_space(text, end)


@njit(inner=True)
def _is_missing(text, at):  # type: ignore[no-untyped-def]
    """Return whether a token is ``nan``, in letters of any case."""
    return (word_at(text, at) & _THREE_BYTES) | _LOWER_CASE == _NAN and (
        _skip_token(text, at) == at + 3
    )


@njit(inner=True)
def _parse_entries(text, at, cursor, limit, layout, target):  # type: ignore[no-untyped-def]
    """Fill one row of X."""
    previous, entry, row_start = np.int64(-1), cursor[ENTRY], cursor[ROW] * layout.n_features
    while text[np.uint64(at)] != _NEWLINE and text[np.uint64(at)] != _HASH:
        index, colon = read_integer(text, at)
        if colon == at or text[np.uint64(colon)] != _COLON:
            return BAD_ENTRY, at
        value, outcome, end = read_number(text, colon + 1)
        if outcome == MALFORMED or _skip_token(text, end) > end:
            if not (layout.allow_missing and _is_missing(text, colon + 1)):
                return BAD_ENTRY, at
            value, outcome, end = np.nan, MISSING, colon + 4
        index -= layout.index_base
        if index < 0 or index >= layout.n_features:
            return OUT_OF_RANGE, at
        if index <= previous:
            return UNSORTED, at
        if abs(value) > layout.largest_value:
            return TOO_LARGE, at
        previous, place = index, entry
        if layout.is_dense:
            place = row_start + index
            target.data[np.uint64(place)] = value
        elif outcome != ZERO:
            if entry == limit[ENTRY]:
                return CHANGED, at
            target.indices[np.uint64(entry)] = index
            target.data[np.uint64(entry)] = value
            entry += 1
        if outcome == UNDECIDED and not _postpone(target.undecided, place, colon + 1, end):
            return FULL, at
        at = _skip_space(text, end)
    cursor[ENTRY] = entry
    return DONE, at


@njit(inner=True)
def _parse_comment(text, at, cursor, limit, comments):  # type: ignore[no-untyped-def]
    first, last, following = _comment(text, at)
    place = cursor[COMMENT]
    if place + last - first > limit[COMMENT]:
        return CHANGED, at
    for k in range(last - first):
        comments[np.uint64(place + k)] = text[np.uint64(first + k)]
    cursor[COMMENT] += last - first
    return DONE, following


@njit
def parse(text, cursor, start, limit, layout, target):  # type: ignore[no-untyped-def]
    """Pass 2: fill the rows of a chunk; return the reason for stopping, and the byte.

    `cursor` moves from `start` to `limit`. ``cursor[AT]`` is always at the start of a line. A call
    that returns FULL can therefore be repeated with a longer list of undecided numbers.
    """
    while cursor[AT] < limit[AT]:
        first = _skip_space(text, cursor[AT])
        row = cursor[ROW]
        if text[np.uint64(first)] == _NEWLINE or text[np.uint64(first)] == _HASH:
            _, _, cursor[AT] = _comment(text, first)
            continue
        if row == limit[ROW]:
            return CHANGED, first
        code, at = _parse_label(text, first, row, target.y, target.undecided)
        if code == DONE and layout.has_qid:
            if word_at(text, at) & _FOUR_BYTES != _QID:
                return NO_QID, first
            code, at = _parse_qid(text, at, cursor, start, target.queries)
        if code == DONE and layout.has_cost:
            code, at = _parse_cost(text, at, row, target)
        if code == DONE:
            code, at = _parse_entries(text, at, cursor, limit, layout, target)
        if code == DONE:
            code, at = _parse_comment(text, at, cursor, limit, target.comments)
        if code != DONE:
            return code, at
        if layout.has_comments:
            target.comments_ptr[row + 1] = cursor[COMMENT]
        if not layout.is_dense:
            target.indptr[row + 1] = cursor[ENTRY]
        cursor[AT] = at
        cursor[ROW] = row + 1
    return DONE, cursor[AT]
