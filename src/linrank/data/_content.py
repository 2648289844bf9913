"""What a file holds, by its first bytes, whatever its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DataError
from ._compression import decompress, find_decompressor

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
