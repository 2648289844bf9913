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

_PIECE = 1 << 16  # of what comes out; of what goes in where that cannot be said

Decompressor = Callable[[io.BufferedReader], Iterator[bytes]]


def _pieces(opener: Callable[[io.BufferedReader], Any]) -> Decompressor:
    def decompress(file: io.BufferedReader) -> Iterator[bytes]:
        with opener(file) as stream:
            while piece := stream.read(_PIECE):
                yield piece

    return decompress


def _zstandard_pieces(file: io.BufferedReader) -> Iterator[bytes]:
    zstandard = _zstandard()
    # zstandard's own stream reader takes a file that is cut off for a complete one.
    frame, rest = zstandard.ZstdDecompressor().decompressobj(), b""
    try:
        while piece := rest or file.read(_PIECE):
            if frame.eof:  # another frame follows
                frame = zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(piece)
            rest = frame.unused_data if frame.eof else b""
    except zstandard.ZstdError as error:
        raise OSError(str(error)) from None
    if not frame.eof:
        raise EOFError


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
    b"\x1f\x8b": _pieces(lambda file: gzip.GzipFile(fileobj=file)),
    b"BZh": _pieces(bz2.BZ2File),
    b"\xfd7zXZ\x00": _pieces(lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": _zstandard_pieces,
}


_COMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {  # by the end of a file's name
    ".gz": lambda file: gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0),
    ".bz2": partial(bz2.BZ2File, mode="wb"),
    ".xz": partial(lzma.LZMAFile, mode="wb"),
    ".zst": _zstandard_writer,
}


def find_decompressor(start: bytes) -> Decompressor | None:
    """What reads a file that begins like this; None if it is not compressed."""
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
    except (OSError, zlib.error, lzma.LZMAError) as error:
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
