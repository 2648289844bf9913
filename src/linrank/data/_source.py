"""The text of a file, plain or compressed, cut into chunks of whole lines."""

from __future__ import annotations

import io
import mmap
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError
from ._compression import Decompressor, decompress, find_decompressor

CHUNK_BYTES = 1 << 21
PADDING = 16  #: readable bytes behind every chunk, for kernels that look ahead
_PIECE, _SMALL_PIECE = 1 << 22, 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
Content = mmap.mmap | bytearray | bytes
EXAMPLE = "expected lines such as '2 qid:10 1:0.5 2:0.25'"


class Chunk(NamedTuple):
    """Whole lines: ``text[first:last]``, which the whole text holds `shift` bytes further on."""

    text: NDArray[np.uint8]
    first: int
    last: int
    shift: int
    done: float  #: the part of the file that ends with these lines


class Source:
    """A text in memory, or mapped into it.

    All but the last lines are read where they are. The last ones are copied, so that
    they end with a line end and are padded.

    Parameters
    ----------
    path : str
        What the text is called in errors.
    content : mmap or bytes-like
    first_byte, first_line : int
        Where the content begins in a longer text, of which it is an excerpt.
    """

    def __init__(
        self, path: str, content: Content, first_byte: int = 0, first_line: int = 1
    ) -> None:
        self.path = path
        self._content = content
        self._first_byte, self._first_line = first_byte, first_line

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Cut the text at the first line end behind every `chunk_bytes`."""
        content, size = self._content, len(self._content)
        body = _read_only(content)
        first = _after_mark(bytes(content[:3]))
        tail_start = max(content.rfind(b"\n", 0, max(size - PADDING, 0)) + 1, first)
        while first < tail_start:
            goal = min(first + chunk_bytes, tail_start)
            last = content.find(b"\n", goal - 1, tail_start) + 1 or tail_start
            yield Chunk(body, first, last, 0, last / size)
            first = last
        tail = bytes(content[first:])
        yield _fill(np.empty(len(tail) + 1 + PADDING, np.uint8), [tail], first, 1.0)

    def excerpt(self, at: int) -> Source:
        """A part of the text with the line that holds a byte, to be quoted: all of it."""
        return self

    def __getitem__(self, place: slice) -> bytes:
        first, last, _ = place.indices(self._first_byte + len(self._content))
        return bytes(self._content[first - self._first_byte : last - self._first_byte])

    def line_start(self, at: int) -> int:
        """The first byte of the line that holds a byte."""
        return self._first_byte + self._content.rfind(b"\n", 0, at - self._first_byte) + 1

    def line_number(self, at: int) -> int:
        """The number of the line that holds a byte, from 1."""
        firsts = range(self._first_byte, at, _PIECE)
        pieces = (self[first : min(first + _PIECE, at)] for first in firsts)
        return self._first_line + sum(piece.count(b"\n") for piece in pieces)

    def release(self, chunks: list[Chunk]) -> None:
        """Tell the system that a part of a mapped file is not needed for now."""
        (_, first, _, start, _), (_, _, last, shift, _) = chunks[0], chunks[-1]
        _release(self._content, start + first, shift + last)


class CompressedSource:
    """A text that is decompressed anew each time that it is read, so that it is never held."""

    def __init__(self, path: str, content: Content, how: Decompressor) -> None:
        self.path = path
        self._content = content
        self._how = how
        self._free: list[Any] = []  # memory of chunks that are not needed any more

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Cut the text at a line end, whenever there are `chunk_bytes` or more."""
        raw = _MappedFile(self._content)
        pieces, n_bytes, shift = [b""], 0, 0
        for piece in decompress(self.path, io.BufferedReader(raw, _SMALL_PIECE), self._how):
            pieces.append(piece)
            n_bytes += len(piece)
            cut = piece.rfind(b"\n") + 1
            if cut and n_bytes >= chunk_bytes:
                pieces[-1], rest = piece[:cut], piece[cut:]
                yield self._chunk(pieces, shift, raw.at / len(self._content))
                pieces, shift, n_bytes = [rest], shift + n_bytes - len(rest), len(rest)
        if shift + n_bytes == 0:
            raise empty_error(self.path)
        yield self._chunk(pieces, shift, 1.0)

    def _chunk(self, pieces: list[bytes], shift: int, done: float) -> Chunk:
        """Lines in pages of their own, used again and again: holes in the heap would add up."""
        size = sum(map(len, pieces)) + 1 + PADDING
        room = self._free.pop() if self._free else np.empty(0, np.uint8)
        if len(room) < size:
            pages = mmap.mmap(-1, size + size // 4, access=mmap.ACCESS_COPY)
            room = np.frombuffer(pages, np.uint8)
        return _fill(room, pieces, shift, done)

    def excerpt(self, at: int) -> Source:
        """A part of the text with the line that holds a byte, to be quoted."""
        line = 1
        for chunk in self.chunks(CHUNK_BYTES):
            content = chunk.text[: chunk.last].tobytes()
            if at < chunk.shift + chunk.last:
                break
            line += content.count(b"\n")
            self.release([chunk])
        return Source(self.path, content, chunk.shift, line)

    def release(self, chunks: list[Chunk]) -> None:
        """Use the memory of chunks for others, from now on."""
        self._free += [chunk.text.base for chunk in chunks]
        _release(self._content, 0, len(self._content))


Text = Source | CompressedSource


class _MappedFile(io.RawIOBase):
    """What is mapped, as a file with a position of its own."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._content[self.at : self.at + len(buffer)]
        buffer[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)


def _fill(room: NDArray[np.uint8], pieces: list[bytes], shift: int, done: float) -> Chunk:
    """Lines that stand alone: they end with a line end and are padded."""
    view, last = room.data, 0
    for piece in pieces:
        view[last : last + len(piece)] = piece
        last += len(piece)
    room[last : last + 1 + PADDING] = ord("\n")
    last += not pieces[-1].endswith(b"\n")
    first = _after_mark(view[:3].tobytes()) if shift == 0 else 0
    return Chunk(_read_only(room), first, last, shift, done)


def _read_only(content: Content | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes as an array of one type for the kernels, wherever they are."""
    array = np.frombuffer(content, np.uint8)
    array.flags.writeable = False
    return array


def _after_mark(start: bytes) -> int:
    return len(_BYTE_ORDER_MARK) if start.startswith(_BYTE_ORDER_MARK) else 0


def _release(content: Content, first: int, last: int) -> None:
    if isinstance(content, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        first -= first % mmap.PAGESIZE
        content.madvise(mmap.MADV_DONTNEED, first, min(last, len(content)) - first)


def empty_error(path: str) -> FileFormatError:
    """The error for a file without any text."""
    return FileFormatError(f"{path}: the file is empty; {EXAMPLE}")


def open_source(path: str | os.PathLike[str]) -> Text:
    """Open a text file, plain or compressed with gzip, bzip2, xz or zstandard."""
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as file:
            content = _map(file)
    except FileNotFoundError:
        raise FileFormatError(f"{name}: no such file; expected a LETOR text file") from None
    except IsADirectoryError:
        is_store = Path(name, "meta.json").exists()
        hint = "a store, to be opened with open_store" if is_store else "a folder"
        raise FileFormatError(f"{name}: is {hint}; expected a LETOR text file") from None
    except OSError as error:
        raise FileFormatError(f"{name}: cannot be read: {error.strerror or error}") from None
    if content is None:
        raise empty_error(name)
    how = find_decompressor(content[:8])
    return Source(name, content) if how is None else CompressedSource(name, content, how)


def _map(file: io.BufferedReader) -> mmap.mmap | None:
    """Map a file, by way of a temporary one where it is a pipe; None if it is empty."""
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, _PIECE)
        copy.flush()
        return mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) if copy.tell() else None
