"""CSV and TSV files with a header, plain or compressed."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import FileFormatError
from ._compression import decompress, find_decompressor
from ._content import find_delimiter, read_start
from .tables import TableFile, arrow_errors

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {".csv": ",", ".tsv": "\t"}  #: suffixes with their usual delimiters
BLOCK_BYTES = 1 << 22  #: text parsed at a time; larger blocks take more memory
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def is_csv(path: Path) -> bool:
    """Return whether a path is a CSV file: by its content, or by its name if it has none."""
    start = read_start(path)
    if start:
        return find_delimiter(start) is not None
    return _usual_delimiter(path) is not None


def _usual_delimiter(path: Path) -> str | None:
    suffixes = [suffix for suffix in path.suffixes if suffix.lower() not in _COMPRESSED]
    return SUFFIXES.get(suffixes[-1].lower()) if suffixes else None


@contextmanager
def open_csv(name: str) -> Iterator[TableFile]:
    """Open a CSV file. The types of its columns are those of the first block."""
    path = Path(name)
    with arrow_errors(name, "CSV"):
        import pyarrow as pa

        delimiter = find_delimiter(read_start(path)) or _usual_delimiter(path) or ","
        text = _Text(name, delimiter)
        with text.opened(None) as reader:
            types = {field.name: _wide(field.type) for field in reader.schema}
            names = reader.schema.names
        schema = pa.schema([(column, types[column]) for column in names])
        yield TableFile(schema, partial(_read, text, schema))


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column: later blocks may hold decimals where the first has integers."""
    import pyarrow as pa

    is_number = pa.types.is_integer(kind) or pa.types.is_null(kind)
    return pa.float64() if is_number else kind


class _Text(NamedTuple):
    """The text of a CSV file, which is read once for each pass over it."""

    name: str
    delimiter: str

    @contextmanager
    def opened(self, convert: Any) -> Iterator[Any]:
        """Open a reader of record batches."""
        import pyarrow as pa
        from pyarrow import csv

        # A thread of pyarrow reads ahead. If it calls Python while the interpreter exits, the
        # process aborts. Plain files are therefore read without Python, and the reading of a
        # compressed file is brought to its end.
        with Path(self.name).open("rb") as file:
            decompressor = find_decompressor(file.read(8))
            file.seek(0)
            pieces = _Pieces(decompress(self.name, file, decompressor) if decompressor else ())
            reader = csv.open_csv(
                io.BufferedReader(pieces) if decompressor else pa.OSFile(self.name),
                read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=csv.ParseOptions(delimiter=self.delimiter),
                convert_options=convert or csv.ConvertOptions(),
            )
            try:
                yield reader
            finally:
                pieces.stop()
                if decompressor:
                    with suppress(Exception):  # No caller asks for these rows.
                        deque(reader, maxlen=0)


def _read(
    text: _Text, schema: pa.Schema, names: Sequence[str], ids: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv

    types = {name: pa.string() if name in ids else schema.field(name).type for name in names}
    options = csv.ConvertOptions(
        include_columns=list(names), column_types=types, strings_can_be_null=True
    )
    if ids:
        options.null_values = [""]  # "NA" and "null" may be ids.
    with text.opened(options) as reader:
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            raise FileFormatError(f"{text.name}: {_problem(str(error), schema)}") from None


def _problem(reason: str, schema: pa.Schema) -> str:
    """Return what is wrong with a CSV file, with the name of the column."""
    found = re.search(r"column #(\d+).*invalid value '(.*)'", reason)
    if found is None:
        return reason
    name, value = schema.names[int(found[1])], found[2]
    return f"column {name!r} holds {value!r}; expected a number"


class _Pieces(io.RawIOBase):
    """A file object over pieces of bytes."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = filter(None, pieces)
        self._rest = b""

    def stop(self) -> None:
        """End the file here."""
        self._pieces = iter(())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        n_bytes = min(len(buffer), len(self._rest))
        buffer[:n_bytes], self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return n_bytes
