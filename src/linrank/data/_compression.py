"""Compression and decompression: gzip, bzip2, xz and zstandard."""

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

_PIECE_BYTES = 1 << 16  # read or decompressed at a time
# Memory limit of decompressors. xz -9 takes 65 MB, zstd --ultra -22 takes 128 MiB.
_WINDOW_BYTES = 1 << 27
_BLOCK_RLE = 1  # type of a zstandard block that repeats one byte
_MAGIC = b"\x28\xb5\x2f\xfd"  # the first bytes of a zstandard frame

Decompressor = Callable[[io.BufferedReader], Iterator[bytes]]


class _TooMuchMemory(Exception):
    """Decompression would take more memory than `_WINDOW_BYTES`."""


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
    """Decompress concatenated zstandard frames, and skip skippable frames.

    zstandard's own stream reader does not detect a truncated file, and its other interfaces
    decompress their whole input at once. This function therefore finds the blocks of a frame and
    decompresses them one by one. Each holds at most 128 kB of text.
    """
    zstandard = _zstandard()
    try:
        while magic := file.read(4):
            if _is_skippable(magic):
                _skip(file, int.from_bytes(_exactly(file, 4), "little"))
            elif magic == _MAGIC:
                yield from _frame_pieces(file, zstandard)
            else:
                raise OSError("a frame is followed by other data")
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from None


def _frame_pieces(file: io.BufferedReader, zstandard: Any) -> Iterator[bytes]:
    head = _frame_head(file)
    about = zstandard.get_frame_parameters(head)
    if about.window_size > _WINDOW_BYTES:
        raise _TooMuchMemory(f"a window of {about.window_size:,} bytes")
    frame, is_last = (
        zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj(),
        False,
    )
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
    """Read the magic number and the header of a frame (RFC 8878).

    The first byte of the header determines its size.
    """
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
        size -= len(_exactly(file, min(size, _PIECE_BYTES)))


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise DataError(
            "zstandard files (.zst) need the package zstandard. Run pip install 'linrank[zstd]'"
        ) from None
    return zstandard


def _zstandard_writer(file: IO[bytes]) -> Any:
    compressor = _zstandard().ZstdCompressor(write_checksum=True)
    return compressor.stream_writer(file, closefd=False)


_DECOMPRESSORS: dict[bytes, Decompressor] = {  # keys are the first bytes of a file
    b"\x1f\x8b": _gzip_pieces,
    b"BZh": _streams(bz2.BZ2Decompressor, padding=0),
    b"\xfd7zXZ\x00": _streams(_new_xz_stream, padding=4),
    _MAGIC: _zstandard_pieces,
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
    except (OSError, zlib.error, lzma.LZMAError, _TooMuchMemory) as error:
        if isinstance(error, _TooMuchMemory) or "limit exceeded" in str(error):
            detail = f" ({error})" if isinstance(error, _TooMuchMemory) else ""
            raise FileFormatError(
                f"{path}: decompression needs more than {_WINDOW_BYTES:,} bytes of memory{detail}. "
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
