"""gzip, bzip2, xz and zstandard, in both directions."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, FileFormatError

_PIECE = 1 << 16  # bytes that are read or decompressed at a time
_WINDOW = 1 << 27  # bytes that a decompressor may hold; xz -9 takes 65 MB, zstd --ultra -22 128 MiB
_BLOCK_RLE = 1  # a block of one byte that is repeated
_MAGIC = b"\x28\xb5\x2f\xfd"

Decompressor = Callable[[io.BufferedReader], Iterator[bytes]]


class _TooDemanding(Exception):
    """Decompressing would take more memory than `_WINDOW`."""


def _gzip_pieces(file: io.BufferedReader) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=file) as stream:
        while piece := stream.read(_PIECE):
            yield piece


def _streams(new_stream: Callable[[], Any], padding: int) -> Decompressor:
    """Streams one behind the other, with zeros between: a multiple of `padding`, or none if 0.

    The file classes of bz2 and lzma end silently at a damaged later stream.
    """

    def decompress(file: io.BufferedReader) -> Iterator[bytes]:
        data = file.read(_PIECE)
        while data:
            stream = new_stream()
            while not stream.eof:
                if stream.needs_input:
                    data = data or file.read(_PIECE)
                    if not data:
                        raise EOFError
                yield stream.decompress(data, _PIECE)
                data = b""
            data = stream.unused_data or file.read(_PIECE)
            if padding:
                data = _skip_zeros(file, data, padding)

    return decompress


def _skip_zeros(file: io.BufferedReader, data: bytes, multiple: int) -> bytes:
    n_zeros = 0
    while data.startswith(b"\0"):
        rest = data.lstrip(b"\0")
        n_zeros += len(data) - len(rest)
        data = rest or file.read(_PIECE)
    if n_zeros % multiple:
        raise OSError(f"{n_zeros} zeros behind a stream; expected a multiple of {multiple}")
    return data


def _new_xz_stream() -> Any:
    return lzma.LZMADecompressor(memlimit=_WINDOW)


def _zstandard_pieces(file: io.BufferedReader) -> Iterator[bytes]:
    """Frames one behind the other; skippable frames are skipped.

    zstandard's own stream reader takes a file that is cut off for a complete one, and its other
    interfaces decompress all of what they are given at once. Blocks are therefore found here, and
    given one by one: each holds at most 128 kB of text.
    """
    zstandard = _zstandard()
    try:
        while magic := file.read(4):
            if _is_skippable(magic):
                _skip(file, int.from_bytes(_exactly(file, 4), "little"))
            elif magic == _MAGIC:
                yield from _frame_pieces(file, zstandard)
            else:
                raise OSError("there is other data behind a frame")
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from None


def _frame_pieces(file: io.BufferedReader, zstandard: Any) -> Iterator[bytes]:
    head = _frame_head(file)
    about = zstandard.get_frame_parameters(head)
    if about.window_size > _WINDOW:
        raise _TooDemanding(f"a window of {about.window_size:,} bytes")
    frame, is_last = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj(), False
    yield frame.decompress(head)
    while not is_last:
        head = _exactly(file, 3)
        bits = int.from_bytes(head, "little")
        is_last, kind, size = bool(bits & 1), bits >> 1 & 3, bits >> 3
        yield frame.decompress(head + _exactly(file, 1 if kind == _BLOCK_RLE else size))
    if about.has_checksum:
        yield frame.decompress(_exactly(file, 4))
    if not frame.eof:
        raise OSError("a frame does not end where its last block does")


def _frame_head(file: io.BufferedReader) -> bytes:
    """The magic number and the header of a frame, whose size its first byte tells (RFC 8878)."""
    first = _exactly(file, 1)
    is_single = first[0] >> 5 & 1
    size = (0, 1, 2, 4)[first[0] & 3] + (is_single, 2, 4, 8)[first[0] >> 6] + (not is_single)
    return _MAGIC + first + _exactly(file, size)


def _is_skippable(start: bytes) -> bool:
    return start[1:4] == b"\x2a\x4d\x18" and start[0] >> 4 == 5


def _exactly(file: io.BufferedReader, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _skip(file: io.BufferedReader, size: int) -> None:
    while size:
        size -= len(_exactly(file, min(size, _PIECE)))


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise DataError(
            "zstandard files (.zst) need one more package: pip install linrank[zstd]"
        ) from None
    return zstandard


def _zstandard_writer(file: IO[bytes]) -> Any:
    compressor = _zstandard().ZstdCompressor(write_checksum=True)
    return compressor.stream_writer(file, closefd=False)


_DECOMPRESSORS: dict[bytes, Decompressor] = {  # by the first bytes of a file
    b"\x1f\x8b": _gzip_pieces,
    b"BZh": _streams(bz2.BZ2Decompressor, padding=0),
    b"\xfd7zXZ\x00": _streams(_new_xz_stream, padding=4),
    _MAGIC: _zstandard_pieces,
}


_COMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {  # by the end of a file's name
    ".gz": lambda file: gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".zst": _zstandard_writer,
}


def find_decompressor(start: bytes) -> Decompressor | None:
    """What reads a file that begins like this; None if it is not compressed."""
    if _is_skippable(start):
        return _zstandard_pieces
    found = (known for magic, known in _DECOMPRESSORS.items() if start.startswith(magic))
    return next(found, None)


def decompress(path: str, file: io.BufferedReader, how: Decompressor) -> Iterator[bytes]:
    """The content of a compressed file, piece by piece."""
    try:
        yield from how(file)
    except EOFError:
        raise FileFormatError(
            f"{path}: the compressed data ends too early; the file seems to be cut off"
        ) from None
    except (OSError, zlib.error, lzma.LZMAError, _TooDemanding) as error:
        if isinstance(error, _TooDemanding) or "limit exceeded" in str(error):
            detail = f" ({error})" if isinstance(error, _TooDemanding) else ""
            raise FileFormatError(
                f"{path}: decompressing takes more than {_WINDOW:,} bytes of memory{detail}; "
                "compress it with a smaller window, such as that of zstd -19 or xz -9"
            ) from None
        raise FileFormatError(f"{path}: the compressed data is damaged: {error}") from None


@contextmanager
def compressed(file: IO[bytes], path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A stream into a file that compresses as the name of the file asks for."""
    open_stream = _COMPRESSORS.get(Path(path).suffix.lower())
    if open_stream is None:
        yield file
        return
    with open_stream(file) as stream:
        yield stream
