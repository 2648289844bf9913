"""Text tables: lines with a fixed number of words, separated by blanks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._numbers import parse_number
from .._typing import Integers, Vector
from ..errors import FileFormatError
from ._source import CHUNK_BYTES, Expected, open_source

_IS_BLANK = np.zeros(256, np.bool_)
_IS_BLANK[list(b" \t\n\r\v\f")] = True  # the bytes at which bytes.split() splits


class Words(NamedTuple):
    """The words of a text table by column, and the number of the line of each row."""

    path: str
    columns: list[list[bytes]]
    lines: Integers

    def error(self, row: int, problem: str) -> FileFormatError:
        """Return an error that names the file and the line of a row."""
        return FileFormatError(f"{self.path}:{self.lines[row]}: {problem}")

    def texts(self, column: int) -> list[str]:
        """Return a column as strings."""
        words = self.columns[column]
        try:
            names = {word: word.decode() for word in dict.fromkeys(words)}
            return [names[word] for word in words]  # Equal words share one string.
        except UnicodeDecodeError:
            row = next(row for row, word in enumerate(words) if not _is_utf8(word))
            problem = f"{words[row][:60]!r} is not valid UTF-8; expected UTF-8 text"
            raise self.error(row, problem) from None

    def numbers(self, column: int, name: str) -> Vector:
        """Return a column as finite numbers; `name` is its name in errors."""
        words = self.columns[column]
        try:
            values = np.array(list(map(parse_number, words)))
        except ValueError:
            values = np.array([_number(word) for word in words])
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            found = words[bad[0]][:40].decode(errors="backslashreplace")
            raise self.error(bad[0], f"{name} is {found!r}; expected a finite number")
        return values


def read_words(path: str | os.PathLike[str], widths: Sequence[int], expected: Expected) -> Words:
    """Read a text table, plain or compressed; empty lines are skipped.

    The first line decides which of the numbers of columns in `widths` the table has.
    """
    width, line = 0, 1
    columns: list[list[bytes]] = []
    lines: list[Integers] = []
    with open_source(path, expected) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            text = chunk.text[chunk.first : chunk.last]
            counts, words = _words_per_line(text), text.tobytes().split()
            if not width and words:
                first = int(counts[counts > 0][0])
                width = first if first in widths else widths[0]
                columns = [[] for _ in range(width)]
            wrong = np.flatnonzero((counts != width) & (counts > 0))
            if len(wrong):
                found = int(counts[wrong[0]])
                raise FileFormatError(
                    f"{source.path}:{line + wrong[0]}: the line has {found} "
                    f"{'word' if found == 1 else 'words'} but {width} are expected, as in "
                    f"{expected.example!r}"
                )
            for place, column in enumerate(columns):
                column += words[place::width]
            lines.append(line + np.flatnonzero(counts))
            line += len(counts)
            source.release([chunk])
        if not columns:
            raise FileFormatError(f"{source.path}: the file has no lines; {expected.lines}")
        return Words(source.path, columns, np.concatenate(lines))


def first_words(path: str | os.PathLike[str], expected: Expected) -> list[bytes]:
    """Return the words of the first line that is not empty."""
    with open_source(path, expected) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            text = chunk.text[chunk.first : chunk.last].tobytes().lstrip()
            if text:
                return text.split(b"\n", 1)[0].split()
    return []


def _words_per_line(text: NDArray[np.uint8]) -> Integers:
    blank = _IS_BLANK[text]
    starts = ~blank
    starts[1:] &= blank[:-1]
    return np.diff(np.cumsum(starts)[text == ord("\n")], prepend=0)


def _number(word: bytes) -> float:
    try:
        return parse_number(word)
    except ValueError:
        return np.nan


def _is_utf8(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True
