"""Arrow files (Feather of version 2): record batches on disk, which are mapped into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ._content import ARROW, read_start
from .tables import TableFile, arrow_errors

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".arrow", ".feather", ".ipc")


def is_arrow(path: Path) -> bool:
    """Return whether a path is an Arrow file, by its name or its first bytes."""
    return path.suffix.lower() in SUFFIXES or read_start(path).startswith(ARROW)


@contextmanager
def open_arrow(name: str) -> Iterator[TableFile]:
    """Open an Arrow file."""
    with arrow_errors(name, "Arrow"):
        import pyarrow as pa

        with pa.memory_map(name) as file:
            yield TableFile(pa.ipc.open_file(file).schema, partial(_read, file))


def _read(
    file: pa.MemoryMappedFile, names: Sequence[str], ids: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    file.seek(0)
    fields = pa.ipc.open_file(file).schema.names
    options = pa.ipc.IpcReadOptions(included_fields=[fields.index(name) for name in names])
    reader = pa.ipc.open_file(file, options=options)
    for k in range(reader.num_record_batches):
        batch = reader.get_batch(k).select(list(names))
        batch.validate(full=True)  # Wrong offsets of texts in a damaged file would crash.
        yield batch
