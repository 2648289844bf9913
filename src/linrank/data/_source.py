"""Text files, plain or compressed, read in chunks of whole lines."""

from __future__ import annotations

import io
import mmap
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import FileFormatError
from ._compression import Decompressor, decompress, find_decompressor
from ._content import START_BYTES, decompress_start, name_binary

CHUNK_BYTES = 1 << 21  #: usual size of a chunk
PADDING = 16  #: readable bytes after every chunk, for kernels that read eight bytes at a time
MAX_LINE = 1 << 27  #: bytes of a line; without a limit, a small compressed file could fill memory
_LARGEST_KEPT = 2 * CHUNK_BYTES + 1 + PADDING  # bytes of a buffer that is used again
_PIECE, _SMALL_PIECE = 1 << 22, 1 << 16  # bytes that are copied or searched at a time
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Expected(NamedTuple):
    """What a file should be, for errors."""

    what: str
    example: str  #: a line

    @property
    def lines(self) -> str:
        """The end of a sentence that shows the example."""
        return f"expected lines such as {self.example!r}"


LETOR = Expected("a LETOR text file", "2 qid:10 1:0.5 2:0.25")


class Stream(Protocol):
    """A source of bytes."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill a buffer from its beginning; return the number of bytes, 0 at the end."""


class Chunk(NamedTuple):
    """Whole lines ``text[first:last]``; byte 0 of `text` is byte `shift` of the whole text."""

    text: NDArray[np.uint8]
    first: int
    last: int
    shift: int
    done: float  #: fraction of the file up to the end of these lines


class FileContent:
    """The bytes of an open file, up to its size when it was opened.

    The file is read instead of mapped, because the system kills a process if a mapped file is
    truncated.
    """

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._stamp = self._look()

    def __len__(self) -> int:
        return self._stamp[0]

    def read_into(self, buffer: memoryview, at: int) -> int:
        """Fill a buffer with the bytes from `at` on; return their number."""
        with self._lock:
            self._file.seek(at)
            return self._file.readinto(buffer[: max(len(self) - at, 0)])

    @property
    def has_changed(self) -> bool:
        """Whether the file was modified after it was opened."""
        return self._look() != self._stamp

    def _look(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class MemoryContent:
    """Bytes in memory, with the interface of `FileContent`."""

    has_changed = False

    def __init__(self, content: bytes | bytearray) -> None:
        self.content = content

    def __len__(self) -> int:
        return len(self.content)

    def read_into(self, buffer: memoryview, at: int) -> int:
        """Fill a buffer with the bytes from `at` on; return their number."""
        data = self.content[at : at + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Do nothing."""


class Source:
    """A text that is read, and decompressed if need be, once for each pass over it.

    Parameters
    ----------
    path : str
        The name of the text in errors.
    content : FileContent or MemoryContent
    decompressor : Decompressor, optional
        None if the text is not compressed.
    expected : Expected
        What the text should be, for errors.
    """

    def __init__(
        self,
        path: str,
        content: FileContent | MemoryContent,
        decompressor: Decompressor | None = None,
        expected: Expected = LETOR,
    ) -> None:
        self.path = path
        self.expected = expected
        self._content = content
        self._decompressor = decompressor
        self._free: list[NDArray[np.uint8]] = []  # buffers of chunks that were released

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._content.close()

    @property
    def has_changed(self) -> bool:
        """Whether the file was modified after it was opened."""
        return self._content.has_changed

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Yield chunks of about `chunk_bytes`, each cut after its last line end."""
        raw = _Raw(self.path, self._content)
        stream: Stream = raw
        if self._decompressor is not None:
            buffered: Any = io.BufferedReader(raw, _SMALL_PIECE)
            stream = _Pieces(decompress(self.path, buffered, self._decompressor))
        rest, shift, has_ended = b"", 0, False
        while not has_ended:
            size = max(chunk_bytes, min(2 * len(rest), MAX_LINE + 1))
            buffer, filled, last = self._buffer(size), len(rest), 0
            buffer.data[:filled] = rest
            while not (last or has_ended):
                wanted = min(max(chunk_bytes - filled, filled, 1), MAX_LINE + 1 - filled)
                buffer = _grown(buffer, filled, wanted)
                n_new = _fill(stream, buffer.data[filled : filled + wanted])
                has_ended = n_new < wanted
                filled += n_new
                last = filled if has_ended else _last_line_end(buffer, filled - n_new, filled)
                if not last and filled > MAX_LINE:
                    raise self._line_too_long(shift, chunk_bytes)
            rest = buffer.data[last:filled].tobytes()
            if has_ended and shift + filled == 0:
                raise empty_error(self.path, self.expected)
            done = 1.0 if has_ended else raw.at / len(self._content)
            yield _finish(buffer, last, shift, done)
            shift += last

    def _buffer(self, size: int) -> NDArray[np.uint8]:
        """Return a buffer for a chunk; buffers are reused, because the heap would fragment."""
        buffer = self._free.pop() if self._free else np.empty(0, np.uint8)
        return buffer if len(buffer) >= size + 1 + PADDING else _pages(size)

    def excerpt(self, at: int) -> Excerpt:
        """Return a part of the text that includes the line of byte `at`."""
        line = 1
        for chunk in self.chunks(CHUNK_BYTES):
            content = chunk.text[: chunk.last].tobytes()
            if at < chunk.shift + chunk.last:
                break
            line += content.count(b"\n")
            self.release([chunk])
        return Excerpt(self.path, content, chunk.shift, line)

    def _line_too_long(self, at: int, chunk_bytes: int) -> FileFormatError:
        line = 1
        for chunk in self.chunks(chunk_bytes) if at else ():
            line += chunk.text[: chunk.last].tobytes().count(b"\n")
            if chunk.shift + chunk.last >= at:
                break
        return FileFormatError(
            f"{self.path}:{line}: the line is longer than {MAX_LINE:,} bytes; {self.expected.lines}"
        )

    def release(self, chunks: list[Chunk]) -> None:
        """Reuse the buffers of chunks for later chunks; those of long lines are freed."""
        buffers: list[Any] = [chunk.text.base for chunk in chunks]
        self._free += [buffer for buffer in buffers if len(buffer) <= _LARGEST_KEPT]


class Excerpt:
    """Some lines of a text, which begin with byte `first_byte` and line `first_line`."""

    def __init__(self, path: str, content: bytes, first_byte: int, first_line: int) -> None:
        self.path = path
        self._content = content
        self._first_byte, self._first_line = first_byte, first_line

    def __getitem__(self, place: slice) -> bytes:
        first, last, _ = place.indices(self._first_byte + len(self._content))
        return self._content[first - self._first_byte : last - self._first_byte]

    def moved(self, n_bytes: int) -> Excerpt:
        """Return the same lines, for a text in which `n_bytes` precede this one."""
        start = self._first_byte + n_bytes
        return Excerpt(self.path, self._content, start, self._first_line)

    def line_start(self, at: int) -> int:
        """Return the first byte of the line of byte `at`."""
        return self._first_byte + self._content.rfind(b"\n", 0, at - self._first_byte) + 1

    def line_number(self, at: int) -> int:
        """Return the number of the line of byte `at`, counted from 1."""
        return self._first_line + self._content.count(b"\n", 0, at - self._first_byte)


class _Raw(io.RawIOBase):
    """A file object over a content, with its own position."""

    def __init__(self, path: str, content: FileContent | MemoryContent) -> None:
        self._path = path
        self._content = content
        self.at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            n_bytes = self._content.read_into(memoryview(buffer), self.at)
        except OSError as error:
            raise FileFormatError(f"{self._path}: cannot be read: {error.strerror}") from None
        self.at += n_bytes
        return n_bytes


class _Pieces:
    """A file object over pieces of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = filter(None, pieces)
        self._rest = memoryview(b"")

    def readinto(self, buffer: memoryview) -> int:
        """Copy a piece into the buffer, or as much of it as fits."""
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        n_bytes = min(len(self._rest), len(buffer))
        buffer[:n_bytes], self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return n_bytes


def _fill(stream: Stream, buffer: memoryview) -> int:
    """Fill a buffer from a stream; return the number of bytes."""
    n_bytes = 0
    while n_bytes < len(buffer) and (n_new := stream.readinto(buffer[n_bytes:])):
        n_bytes += n_new
    return n_bytes


def _last_line_end(buffer: NDArray[np.uint8], first: int, last: int) -> int:
    """Return the position after the last line end of a range; 0 without one."""
    while first < last:
        start = max(first, last - _SMALL_PIECE)
        found = buffer.data[start:last].tobytes().rfind(b"\n")
        if found >= 0:
            return start + found + 1
        last = start
    return 0


def _pages(size: int) -> NDArray[np.uint8]:
    """Allocate memory for `size` bytes of text, a line end, and the padding."""
    pages = mmap.mmap(-1, size + 1 + PADDING, access=mmap.ACCESS_COPY)
    return np.frombuffer(pages, np.uint8)


def _grown(buffer: NDArray[np.uint8], filled: int, wanted: int) -> NDArray[np.uint8]:
    """Return a buffer with space for `wanted` more bytes: the same one, or a larger copy."""
    if filled + wanted + 1 + PADDING <= len(buffer):
        return buffer
    larger = _pages(filled + wanted)
    larger[:filled] = buffer[:filled]
    return larger


def _finish(buffer: NDArray[np.uint8], last: int, shift: int, done: float) -> Chunk:
    """Return the lines in a buffer as a chunk that ends with a line end and padding."""
    ends = last > 0 and buffer[last - 1] == ord("\n")
    buffer[last : last + 1 + PADDING] = ord("\n")
    text = buffer.view()
    text.flags.writeable = False
    is_marked = shift == 0 and buffer.data[: min(last, 3)].tobytes() == _BYTE_ORDER_MARK
    first = len(_BYTE_ORDER_MARK) if is_marked else 0
    return Chunk(text, first, last + (not ends), shift, done)


def empty_error(path: str, expected: Expected = LETOR) -> FileFormatError:
    """Return the error for a file without any text."""
    return FileFormatError(f"{path}: the file is empty; {expected.lines}")


def open_source(path: str | os.PathLike[str], expected: Expected = LETOR) -> Source:
    """Open a text file, plain or compressed with gzip, bzip2, xz or zstandard."""
    name = os.fspath(path)
    try:
        content = FileContent(_open(name))
        start = bytearray(START_BYTES)
        start = start[: content.read_into(memoryview(start), 0)]
    except FileNotFoundError:
        raise FileFormatError(f"{name}: no such file; expected {expected.what}") from None
    except IsADirectoryError:
        is_store = Path(name, "meta.json").exists()
        hint = "a store; open it with open_store" if is_store else "a folder"
        raise FileFormatError(f"{name}: expected {expected.what}, but the path is {hint}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(f"{name}: cannot be read: {reason}") from None
    if not len(content):
        content.close()
        raise empty_error(name, expected)
    found = name_binary(decompress_start(io.BytesIO(start)))
    if found is not None:
        content.close()
        raise FileFormatError(f"{name}: the file is {found}; {_expected(found, expected)}")
    return Source(name, content, find_decompressor(bytes(start)), expected)


def _expected(found: str, expected: Expected) -> str:
    if "UTF" in found:
        return "expected UTF-8. Save it as UTF-8, as with: iconv -f UTF-16 -t UTF-8"
    if expected is not LETOR:
        return f"expected {expected.what}"
    if "Parquet" in found or "Arrow" in found:
        return "expected LETOR text. Use linrank.load"
    if "archive" in found:
        return "unpack it first"
    return "expected LETOR text, or a Parquet, Arrow or CSV file. Write the data as one of these"


def _open(name: str) -> io.FileIO:
    """Open a file; a pipe, which can be read only once, is copied to a temporary file."""
    file = Path(name).open("rb", buffering=0)  # noqa: SIM115  # The `Source` closes it.
    status = os.fstat(file.fileno())
    if stat.S_ISREG(status.st_mode) and status.st_size:
        return file
    with file:
        copy = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        try:
            shutil.copyfileobj(file, copy, _PIECE)
        except BaseException:
            copy.close()
            raise
        return copy
