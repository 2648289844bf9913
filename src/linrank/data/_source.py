"""The text of a file, plain or compressed, cut into chunks of whole lines."""

from __future__ import annotations

import io
import mmap
import os
import stat
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError
from ._compression import decompressed

PADDING = 16  #: readable bytes behind every chunk, for kernels that look ahead
_PIECE = 1 << 22
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
EXAMPLE = "expected lines such as '2 qid:10 1:0.5 2:0.25'"


class Chunk(NamedTuple):
    """Whole lines: ``text[first:last]``, which the file holds `shift` bytes further on."""

    text: NDArray[np.uint8]
    first: int
    last: int
    shift: int


class Source:
    """The text of a file in memory, or mapped into it.

    All but the last lines are read where they are. The last ones are copied, so that
    they end with a line end and are padded.
    """

    def __init__(self, path: str, content: mmap.mmap | bytearray) -> None:
        self.path = path
        self.size = len(content)
        self._content = content
        self._tail_start = content.rfind(b"\n", 0, max(self.size - PADDING, 0)) + 1
        tail = bytes(content[self._tail_start :])
        tail += b"" if tail.endswith(b"\n") else b"\n"
        self._tail_size = len(tail)
        self._tail = np.frombuffer(tail + b"\n" * PADDING, np.uint8)
        self._body = np.frombuffer(content, np.uint8)
        self._body.flags.writeable = False  # one type for the kernels, mapped or not

    def chunks(self, chunk_bytes: int) -> list[Chunk]:
        """Cut the text at the first line end behind every `chunk_bytes`."""
        start = len(_BYTE_ORDER_MARK) if self[:3] == _BYTE_ORDER_MARK else 0
        cuts = [start]
        while cuts[-1] < self._tail_start:
            goal = min(cuts[-1] + chunk_bytes, self._tail_start)
            cuts.append(self._content.find(b"\n", goal - 1) + 1)
        body = [Chunk(self._body, first, last, 0) for first, last in pairwise(cuts)]
        first = max(start - self._tail_start, 0)
        return [*body, Chunk(self._tail, first, self._tail_size, self._tail_start)]

    def __getitem__(self, place: slice) -> bytes:
        return bytes(self._content[place])

    def line_start(self, at: int) -> int:
        """The first byte of the line that holds a byte."""
        return self._content.rfind(b"\n", 0, at) + 1

    def line_number(self, at: int) -> int:
        """The number of the line that holds a byte, from 1."""
        pieces = (self[k : min(k + _PIECE, at)] for k in range(0, at, _PIECE))
        return 1 + sum(piece.count(b"\n") for piece in pieces)

    def release(self, first: int, last: int) -> None:
        """Tell the system that a part of a mapped file is not needed for now."""
        if isinstance(self._content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            first -= first % mmap.PAGESIZE
            self._content.madvise(mmap.MADV_DONTNEED, first, min(last, self.size) - first)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a text file, plain or compressed with gzip, bzip2, xz or zstandard."""
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as file:
            content = _content(name, file)
    except FileNotFoundError:
        raise FileFormatError(f"{name}: no such file; expected a LETOR text file") from None
    except IsADirectoryError:
        is_store = Path(name, "meta.json").exists()
        hint = "a store, to be opened with open_store" if is_store else "a folder"
        raise FileFormatError(f"{name}: is {hint}; expected a LETOR text file") from None
    except OSError as error:
        raise FileFormatError(f"{name}: cannot be read: {error.strerror or error}") from None
    if not len(content):
        raise FileFormatError(f"{name}: the file is empty; {EXAMPLE}")
    return Source(name, content)


def _content(path: str, file: io.BufferedReader) -> mmap.mmap | bytearray:
    """Map the file, or read it where it is compressed or a pipe."""
    content = decompressed(path, file)
    if content is not None:
        return content
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.peek(1):
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return bytearray(file.read())
