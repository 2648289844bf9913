"""The bytes of a text file, plain or compressed, cut into chunks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import mmap
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, FileFormatError

PADDING = 16  #: readable bytes behind every chunk, for kernels that look ahead
_PIECE = 1 << 22
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Chunk(NamedTuple):
    """Whole lines: ``text[first:last]``, which is ``[first + shift, last + shift)`` in the file."""

    text: NDArray[np.uint8]
    first: int
    last: int
    shift: int


class Source:
    """The text of a file in memory, or mapped into it.

    All but the last lines are read where they are. The last ones are copied, so that
    they end with a line end and are padded.

    Parameters
    ----------
    path : str
        For messages.
    content : mmap.mmap or bytearray
        The text.
    """

    def __init__(self, path: str, content: mmap.mmap | bytearray) -> None:
        self.path = path
        self.content = content
        self.size = len(content)
        self._tail_start = content.rfind(b"\n", 0, max(self.size - PADDING, 0)) + 1
        tail = bytes(content[self._tail_start :])
        if not tail.endswith(b"\n"):
            tail += b"\n"
        self._tail_size = len(tail)
        self._tail = np.frombuffer(tail + b"\n" * PADDING, np.uint8)
        self._body = np.frombuffer(content, np.uint8)
        self._body.flags.writeable = False  # one type for the kernels, mapped or not

    def chunks(self, chunk_bytes: int) -> list[Chunk]:
        """Cut the text at the first line end behind every `chunk_bytes`."""
        start = 3 if self.content[:3] == _BYTE_ORDER_MARK else 0
        cuts = [start] if start < self._tail_start else []
        while cuts and cuts[-1] < self._tail_start:
            goal = min(cuts[-1] + chunk_bytes, self._tail_start)
            cuts.append(self.content.find(b"\n", goal - 1) + 1)
        body = [Chunk(self._body, a, b, 0) for a, b in zip(cuts, cuts[1:], strict=False)]
        first = max(start - self._tail_start, 0)
        return [*body, Chunk(self._tail, first, self._tail_size, self._tail_start)]

    def __getitem__(self, place: slice) -> bytes:
        return bytes(self.content[place])

    def line_of(self, at: int) -> int:
        """The number of the line that holds a byte, from 1."""
        return 1 + sum(
            self.content[k : min(k + _PIECE, at)].count(b"\n") for k in range(0, at, _PIECE)
        )

    def release(self, first: int, last: int) -> None:
        """Tell the system that a part is not needed in memory for now."""
        if isinstance(self.content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            first -= first % mmap.PAGESIZE
            self.content.madvise(mmap.MADV_DONTNEED, first, last - first)


def open_source(path: str | os.PathLike[str]) -> Source:
    """Open a text file, plain or compressed (.gz, .bz2, .xz, .zst; told by its first bytes)."""
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as file:
            return Source(name, _content(name, file))
    except FileNotFoundError:
        raise FileFormatError(f"{name}: no such file; expected a LETOR text file") from None
    except OSError as error:
        raise FileFormatError(f"{name}: cannot be read: {error.strerror or error}") from None


def _content(path: str, file: BinaryIO) -> mmap.mmap | bytearray:
    magic = file.peek(6)[:6] if hasattr(file, "peek") else b""
    if not magic:
        raise FileFormatError(f"{path}: the file is empty; expected lines such as '2 qid:1 1:0.5'")
    for first_bytes, kind, decompress in _COMPRESSIONS:
        if magic.startswith(first_bytes):
            return _decompressed(path, file, kind, decompress)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return bytearray(file.read())  # a pipe


def _decompressed(
    path: str, file: BinaryIO, kind: str, decompress: Callable[[BinaryIO], Iterator[bytes]]
) -> bytearray:
    content = bytearray()
    try:
        for piece in decompress(file):
            content += piece
    except EOFError:
        raise FileFormatError(
            f"{path}: the {kind} data ends too early; the file seems to be cut off"
        ) from None
    except DataError:
        raise
    except Exception as error:
        if not isinstance(error, (OSError, zlib.error, lzma.LZMAError)):
            raise
        raise FileFormatError(f"{path}: the {kind} data is damaged: {error}") from None
    return content
