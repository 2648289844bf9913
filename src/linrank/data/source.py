"""Text files, plain or compressed, read in chunks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import mmap
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .._util.text import count, parse_number
from .._util.types import Integers, Vector
from ..errors import DataError, FileFormatError

# --------------------------------------------------------------------------------------------------
# Compression and decompression: gzip, bzip2, xz and zstandard.


_PIECE_BYTES = 1 << 16  # read or decompressed at a time
# Memory limit of decompressors. xz -9 takes 65 MB, zstd --ultra -22 takes 128 MiB.
_WINDOW_BYTES = 1 << 27
_BEYOND_WINDOW = ("limit exceeded", "too much memory")  # what liblzma and libzstd say then

Decompressor = Callable[[io.BufferedReader], Iterator[bytes]]


def _gzip_pieces(file: io.BufferedReader) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece


def _streams(new_stream: Callable[[], Any], padding: int) -> Decompressor:
    """Return a decompressor of concatenated streams.

    Between streams, a multiple of `padding` zeros is allowed; none if `padding` is 0. The file
    classes of bz2 and lzma are not used, because they silently stop at a damaged later stream.
    """

    def decompress(file: io.BufferedReader) -> Iterator[bytes]:
        data = file.read(_PIECE_BYTES)
        while data:
            stream = new_stream()
            while not stream.eof:
                if stream.needs_input:
                    data = data or file.read(_PIECE_BYTES)
                    if not data:
                        raise EOFError
                yield stream.decompress(data, _PIECE_BYTES)
                data = b""
            data = stream.unused_data or file.read(_PIECE_BYTES)
            if padding:
                data = _skip_zeros(file, data, padding)

    return decompress


def _skip_zeros(file: io.BufferedReader, data: bytes, multiple: int) -> bytes:
    n_zeros = 0
    while data.startswith(b"\0"):
        rest = data.lstrip(b"\0")
        n_zeros += len(data) - len(rest)
        data = rest or file.read(_PIECE_BYTES)
    if n_zeros % multiple:
        raise OSError(f"{n_zeros} zeros follow a stream; expected a multiple of {multiple}")
    return data


def _new_xz_stream() -> Any:
    return lzma.LZMADecompressor(memlimit=_WINDOW_BYTES)


def _zstandard_pieces(file: io.BufferedReader) -> Iterator[bytes]:
    zstd = _zstd()
    options = {zstd.DecompressionParameter.window_log_max: _WINDOW_BYTES.bit_length() - 1}
    try:
        with zstd.ZstdFile(file, options=options) as stream:
            while piece := stream.read(_PIECE_BYTES):
                yield piece
    except zstd.ZstdError as error:
        raise OSError(str(error)) from None


def _is_skippable(start: bytes) -> bool:
    return start[1:4] == b"\x2a\x4d\x18" and start[0] >> 4 == 5


def _zstd() -> Any:
    """Return Python's module for Zstandard, or its backport before Python 3.14."""
    try:
        return import_module(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        )
    except ImportError:
        raise DataError(
            "Zstandard files (.zst) need the package backports.zstd. Run "
            "pip install 'linrank[zstd]'"
        ) from None


def _zstandard_writer(file: IO[bytes]) -> Any:
    zstd = _zstd()
    return zstd.ZstdFile(file, "wb", options={zstd.CompressionParameter.checksum_flag: 1})


_DECOMPRESSORS: dict[bytes, Decompressor] = {  # keys are the first bytes of a file
    b"\x1f\x8b": _gzip_pieces,
    b"BZh": _streams(bz2.BZ2Decompressor, padding=0),
    b"\xfd7zXZ\x00": _streams(_new_xz_stream, padding=4),
    b"\x28\xb5\x2f\xfd": _zstandard_pieces,
}


_COMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {  # keys are suffixes of file names
    ".gz": lambda file: gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".zst": _zstandard_writer,
}


def find_decompressor(start: bytes) -> Decompressor | None:
    """Return the decompressor of a file by its first bytes; None if it is not compressed."""
    if _is_skippable(start):
        return _zstandard_pieces
    found = (known for magic, known in _DECOMPRESSORS.items() if start.startswith(magic))
    return next(found, None)


def decompress(path: str, file: io.BufferedReader, decompressor: Decompressor) -> Iterator[bytes]:
    """Yield the content of a compressed file in pieces."""
    try:
        yield from decompressor(file)
    except EOFError:
        raise FileFormatError(
            f"{path}: the compressed data ends too early. The file seems to be truncated; copy or "
            "download it again"
        ) from None
    except (OSError, zlib.error, lzma.LZMAError) as error:
        if any(words in str(error) for words in _BEYOND_WINDOW):
            raise FileFormatError(
                f"{path}: decompression needs more than {_WINDOW_BYTES:,} bytes of memory. "
                "Compress the file with a smaller window, such as that of zstd -19 or xz -9"
            ) from None
        raise FileFormatError(f"{path}: the compressed data is damaged: {error}") from None


@contextmanager
def compressed(file: IO[bytes], path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a stream that compresses into `file` according to the suffix of `path`."""
    open_stream = _COMPRESSORS.get(Path(path).suffix.lower())
    if open_stream is None:
        yield file
        return
    with open_stream(file) as stream:
        yield stream


# --------------------------------------------------------------------------------------------------
# What a file holds, by its first bytes, whatever its name.


START_BYTES = 1 << 12  #: bytes of a file that are looked at

PARQUET, ARROW = b"PAR1", b"ARROW1"  #: first bytes of Parquet and Arrow files
_BINARY = {
    PARQUET: "a Parquet file",
    ARROW: "an Arrow file",
    b"FEA1": "a Feather file of version 1",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"\x93NUMPY": "a NumPy .npy file",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"SQLite format 3\0": "an SQLite database",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"%PDF": "a PDF file",
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks; that of UTF-32 begins alike or with NULs
_LETOR = re.compile(rb"(^|\s)(qid|[0-9]+):\S")
_DELIMITERS = b",\t;"


def read_start(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed; none if it cannot be read.

    Pipes are not read, because a pipe can be read only once.
    """
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return decompress_start(file)
    except (OSError, ValueError):  # The reader of the file reports the error.
        return b""


def decompress_start(file: BinaryIO) -> bytes:
    """Return the first bytes of a file, decompressed if need be; none if that fails."""
    start = file.read(START_BYTES)
    decompressor = find_decompressor(start)
    if decompressor is None:
        return start
    file.seek(0)
    try:
        buffered: Any = file
        return next(decompress("", buffered, decompressor), b"")[:START_BYTES]
    except DataError:  # The reader of the file reports the error.
        return b""


def name_binary(start: bytes) -> str | None:
    r"""Return what a file is called that begins with these bytes; None for text.

    Examples
    --------
    >>> name_binary(b"\x89HDF\r\n\x1a\n"), name_binary(b"2 qid:10 1:0.5")
    ('an HDF5 file', None)
    """
    if start.startswith(b"PK\x03\x04"):
        if b"[Content_Types].xml" in start or b"xl/" in start:
            return "an Excel workbook"
        return "a NumPy .npz file" if b".npy" in start else "a ZIP archive"
    if start.startswith(_UTF_16) or _has_wide_letters(start):
        return "text in UTF-16 or UTF-32"
    if start[257:262] == b"ustar":
        return "a tar archive"
    if len(start) > 1 and start[0] == 0x80 and start[1] in range(2, 6):
        return "a pickle"
    return next((name for magic, name in _BINARY.items() if start.startswith(magic)), None)


def _has_wide_letters(start: bytes) -> bool:
    """Return whether every second byte is NUL, as in UTF-16 without a byte order mark."""
    return len(start) >= 8 and any(set(start[k:64:2]) == {0} for k in (0, 1))


def find_delimiter(start: bytes) -> str | None:
    r"""Return the delimiter of a CSV file that begins with these bytes; None for other files.

    Examples
    --------
    >>> find_delimiter(b"label,qid,bm25\n2,10,0.5\n"), find_delimiter(b"2 qid:10 1:0.5\n")
    (',', None)
    """
    if name_binary(start) is not None:
        return None
    line = start.lstrip(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    if line.startswith((b"#", b"{", b"[")) or _LETOR.search(line):
        return None
    best = max(_DELIMITERS, key=line.count)
    return chr(best) if line.count(best) else None


# --------------------------------------------------------------------------------------------------
# Folders of data: parts or folds of a data set, or a fold with training and held-out data.


TRAIN, VALID, TEST = ("train",), ("vali", "valid", "validation"), ("test",)  #: stems of a fold


class Fold(NamedTuple):
    """The files of a fold of a LETOR data set; None for files that do not exist."""

    train: Path
    valid: Path | None
    test: Path | None


def _stem(file: Path) -> str:
    return file.name.partition(".")[0].lower()


def find_fold(folder: Path) -> Fold | None:
    """Return the files of a folder that holds training and other data; None for other folders."""
    files = _visible(folder) if folder.is_dir() else []

    def find(stems: tuple[str, ...]) -> Path | None:
        return next((file for file in files if _stem(file) in stems), None)

    train, valid, test = find(TRAIN), find(VALID), find(TEST)
    return Fold(train, valid, test) if train is not None and (valid or test) else None


def list_files(path: Path) -> list[Path]:
    """Return the parts of a data set: the files of a folder, or a file itself.

    Of a folder with all folds of LETOR data (``Fold1``, …), the parts are the test files of the
    folds. Together they hold each query once.

    Raises
    ------
    FileFormatError
        If the folder holds no parts, or the files of one fold.
    """
    if not path.is_dir():
        return [path]
    fold, files = find_fold(path), _visible(path)
    if fold is not None:
        names = ", ".join(str(file) for file in fold if file is not None)
        raise FileFormatError(
            f"{path}: the folder holds training and held-out data. Pass one of its files: {names}"
        )
    if files:
        return files
    folders = sorted(inner.name for inner in path.iterdir() if inner.is_dir())
    folds = {name: fold for name in folders if (fold := find_fold(path / name)) is not None}
    tests = [fold.test for fold in folds.values() if fold.test is not None]
    if folds and len(tests) == len(folds):
        return tests
    if folds:
        raise FileFormatError(
            f"{path}: the folder holds the folds {', '.join(folds)}, but not all have test data. "
            f"Pass one of them, such as {path / min(folds)}"
        )
    raise FileFormatError(
        f"{path}: not a linrank store: it has no meta.json, and there are no files of data in it"
    )


def _visible(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_file() and f.name[0] not in "._")


# --------------------------------------------------------------------------------------------------
# Text files, plain or compressed, read in chunks of whole lines.


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


# --------------------------------------------------------------------------------------------------
# Text tables: lines with a fixed number of words, separated by blanks.


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
                    f"{source.path}:{line + wrong[0]}: the line has "
                    f"{count(found, 'word')} but {width} are expected, as in "
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


# --------------------------------------------------------------------------------------------------
# A folder of text files, read as one text.


class SourceList(Source):
    """The text of several files, one after another. Only one file is open at a time."""

    def __init__(self, path: str, files: list[Path]) -> None:
        super().__init__(path, MemoryContent(b""))
        self._files = files
        self._stamps = self._look()
        self._current: Source | None = None

    @property
    def has_changed(self) -> bool:
        """Whether a file was modified after the folder was listed."""
        return self._look() != self._stamps

    def _look(self) -> list[tuple[int, int]]:
        return [(status.st_size, status.st_mtime_ns) for status in map(os.stat, self._files)]

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Yield the chunks of all files; their bytes are numbered through."""
        for _, chunk in self._numbered(chunk_bytes):
            yield chunk

    def _numbered(self, chunk_bytes: int) -> Iterator[tuple[int, Chunk]]:
        """Yield chunks, each with the number of the first byte of its file."""
        start = 0
        for k, file in enumerate(self._files):
            with open_source(file) as part:
                self._current, end = part, start
                for chunk in part.chunks(chunk_bytes):
                    done = (k + chunk.done) / len(self._files)
                    yield start, chunk._replace(shift=start + chunk.shift, done=done)
                    end = start + chunk.shift + chunk.last
            start = end

    def release(self, chunks: list[Chunk]) -> None:
        """Reuse the buffers of chunks for later chunks of the file that is read."""
        if self._current is not None:
            self._current.release(chunks)

    def excerpt(self, at: int) -> Excerpt:
        """Return a part of the file that includes the line of byte `at`."""
        chunks = self._numbered(CHUNK_BYTES)
        start = next(start for start, chunk in chunks if at < chunk.shift + chunk.last)
        assert self._current is not None
        return self._current.excerpt(at - start).moved(start)


def open_text(path: str | os.PathLike[str]) -> Source:
    """Open a text file, or the text files of a folder."""
    if not Path(path).is_dir() or Path(path, META).exists():
        return open_source(path)  # It raises an error for a store.
    return SourceList(os.fspath(path), list_files(Path(path)))


META = "meta.json"
