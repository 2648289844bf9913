"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ._content import PARQUET, read_start
from .tables import TableFile, arrow_errors

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
BATCH_ROWS = 8192  #: rows read at a time; more rows take more memory beside X


def is_parquet(path: Path) -> bool:
    """Return whether a path is a Parquet file, by its name or its first bytes."""
    return path.suffix.lower() in SUFFIXES or read_start(path).startswith(PARQUET)


@contextmanager
def open_parquet(name: str) -> Iterator[TableFile]:
    """Open a Parquet file."""
    with arrow_errors(name, "Parquet"):
        from pyarrow.parquet import ParquetFile

        with ParquetFile(name, pre_buffer=False) as file:
            yield TableFile(file.schema_arrow, partial(_read, name))


def _read(name: str, names: Sequence[str], ids: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile

    # A buffer for all row groups would keep the bytes of the whole file in memory. Ids stay codes
    # of a dictionary, because a small file can repeat a long id millions of times.
    with ParquetFile(name, pre_buffer=False, read_dictionary=list(ids)) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=list(names)):
            yield batch.select(list(names))
