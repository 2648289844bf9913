"""Text tables whose words become codes and numbers by kernels, without a string for each word."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.text import count, parse_number
from .._util.types import Integers, Vector
from ..errors import FileFormatError
from .letor import MALFORMED, UNDECIDED, read_number
from .source import CHUNK_BYTES, Expected, empty_error, open_source

PADDING = 16  #: bytes after the text; `read_number` reads eight bytes at a time


class WordTable(NamedTuple):
    """The words of a text table: word c of row r is ``text[begin[r, c]:end[r, c]]``.

    Attributes
    ----------
    path : str
    text : uint8 array
        The bytes of the table, with `PADDING` after them.
    begin, end : int64 arrays of shape (n_rows, n_columns)
    lines : int64 array of shape (n_rows,)
        The number of the line of each row.
    """

    path: str
    text: NDArray[np.uint8]
    begin: Integers
    end: Integers
    lines: Integers

    def __len__(self) -> int:  # a table of n rows
        return len(self.begin)

    def word(self, row: int, column: int) -> str:
        """Return one word."""
        span = slice(self.begin[row, column], self.end[row, column])
        return self.text[span].tobytes().decode(errors="replace")

    def error(self, row: int, problem: str) -> FileFormatError:
        """Return an error that names the file and the line of a row."""
        return FileFormatError(f"{self.path}:{self.lines[row]}: {problem}")

    def numbers(self, column: int, name: str) -> Vector:
        """Return a column as finite numbers; `name` is its name in errors."""
        values, good = np.empty(len(self)), np.empty(len(self), np.bool_)
        spans = self.begin[:, column].copy(), self.end[:, column].copy()
        _read_numbers(self.text, *spans, values, good)
        for row in np.flatnonzero(~good).tolist():
            try:
                values[row] = parse_number(self.word(row, column))
            except ValueError:
                values[row] = np.nan
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            found = self.word(bad[0], column)[:40]
            raise self.error(bad[0], f"{name} is {found!r}; expected a finite number")
        return values


class Codes(NamedTuple):
    """The distinct words of columns, and the code of each word: its number in `names`."""

    names: NDArray[np.bytes_]
    codes: list[Integers]  #: one array per column


def read_word_table(path: str | os.PathLike[str], width: int, expected: Expected) -> WordTable:
    """Read a table with `width` words in each line, plain or compressed; empty lines are skipped.

    Parameters
    ----------
    path : path-like
    width : int
        The number of words of a line.
    expected : Expected
        What the file should be, for errors.
    """
    with open_source(path, expected) as source:
        parts = []
        for chunk in source.chunks(CHUNK_BYTES):
            parts.append(chunk.text[chunk.first : chunk.last].copy())
            source.release([chunk])
        text = np.concatenate([*parts, np.zeros(PADDING, np.uint8)])
        n = len(text) - PADDING
        most = int(np.count_nonzero(text[:n] == ord("\n"))) + 1
        begin, end = np.empty((most, width), np.int64), np.empty((most, width), np.int64)
        lines = np.empty(most, np.int64)
        rows, line, found = _split(text, n, begin, end, lines)
        if found >= 0:
            raise FileFormatError(
                f"{source.path}:{line}: the line has {count(found, 'word')} but {width} are "
                f"expected, as in {expected.example!r}"
            )
        if not rows:
            raise empty_error(source.path, expected)
        return WordTable(source.path, text, begin[:rows], end[:rows], lines[:rows])


def number_columns(columns: Sequence[tuple[WordTable, int]]) -> Codes:
    """Number the distinct words of columns, which may belong to several tables.

    Parameters
    ----------
    columns : sequence of (WordTable, int)
        Tables, and the number of a column of each.
    """
    starts = np.cumsum([0, *(len(table.text) for table, _ in columns)])
    text = np.concatenate([table.text for table, _ in columns])
    begin, end = (
        np.concatenate([spans(t)[:, c] + at for (t, c), at in zip(columns, starts, strict=False)])
        for spans in (lambda table: table.begin, lambda table: table.end)
    )
    n = len(begin)
    slots = np.full(2 << int(n).bit_length(), -1, np.int64)
    codes, first = np.empty(n, np.int64), np.empty(n, np.int64)
    n_names = _number_words(text, begin, end, slots, codes, first)
    first = first[:n_names]
    length = end[first] - begin[first]
    letters = np.zeros((n_names, int(length.max())), np.uint8)
    _copy_words(text, begin[first], length, letters)
    names = letters.view(f"S{letters.shape[1]}")[:, 0]
    return Codes(names, np.split(codes, np.cumsum([len(table) for table, _ in columns])[:-1]))


@njit
def _split(text, n, begin, end, lines):  # type: ignore[no-untyped-def]
    """Find the words; return the rows, the line of an error, and its number of words, or −1."""
    width, row, line, column, at = begin.shape[1], 0, 1, 0, 0
    while at <= n:
        letter = text[at]
        if at == n or letter == 10:
            if column == width:
                lines[row] = line
                row += 1
            elif column:
                return row, line, column
            line += 1
            column = 0
            at += 1
        elif letter == 32 or 9 <= letter <= 13:
            at += 1
        else:
            start = at
            while at < n and text[at] != 32 and not 9 <= text[at] <= 13:
                at += 1
            if column < width:
                begin[row, column], end[row, column] = start, at
            column += 1
    return row, line, -1


@njit
def _read_numbers(text, begin, end, values, good):  # type: ignore[no-untyped-def]
    for row in range(len(begin)):
        value, outcome, at = read_number(text, begin[row])
        values[row] = value
        good[row] = outcome != MALFORMED and outcome != UNDECIDED and at == end[row]


@njit
def _number_words(text, begin, end, slots, codes, first):  # type: ignore[no-untyped-def]
    """Number words in the order of their first appearance, with a hash table (FNV-1a)."""
    n, mask = 0, np.uint64(len(slots) - 1)
    for i in range(len(begin)):
        key, length = np.uint64(14695981039346656037), end[i] - begin[i]
        for at in range(begin[i], end[i]):
            key = (key ^ np.uint64(text[at])) * np.uint64(1099511628211)
        slot = (key ^ (key >> np.uint64(29))) & mask
        while True:
            k = slots[slot]
            if k < 0:
                slots[slot], first[n], codes[i] = n, i, n
                n += 1
                break
            other, same = begin[first[k]], end[first[k]] - begin[first[k]] == length
            j = 0
            while same and j < length:
                same = text[other + j] == text[begin[i] + j]
                j += 1
            if same:
                codes[i] = k
                break
            slot = (slot + np.uint64(1)) & mask
    return n


@njit
def _copy_words(text, begin, length, letters):  # type: ignore[no-untyped-def]
    for i in range(len(begin)):
        for j in range(length[i]):
            letters[i, j] = text[begin[i] + j]
