"""Columns of Arrow tables as arrays: features, labels, weights and ids.

Frames of all kinds and files of tables share these functions. pyarrow is imported when they are
called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._typing import Array
from ..errors import DataError
from .columns import Chosen, no_numbers
from .text import join_strings

if TYPE_CHECKING:
    import pyarrow as pa

SLICE_ROWS = 1024  #: rows that are copied into X at a time; more rows leave the cache


def needs(what: str, error: ImportError) -> DataError:
    """Return the error for a library that is not installed."""
    return DataError(f"{what} needs {error.name} ({error}). Run pip install 'linrank[frames]'")


def check_features(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise a `DataError` that names the first feature whose column holds no numbers."""
    for name in names:
        if not _is_number(schema.field(name).type):
            raise DataError(no_numbers(name, schema.field(name).type))


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def feature_type(schema: pa.Schema, names: Sequence[str]) -> np.dtype[Any]:
    """Return the dtype of X: float32 if all columns of features are, otherwise float64."""
    import pyarrow as pa

    single = all(schema.field(name).type == pa.float32() for name in names)
    return np.dtype(np.float32 if single else np.float64)


def numbers(column: pa.Array | pa.ChunkedArray) -> Array:
    """Return a column of numbers as an array, in which missing values are NaN."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_decimal(column.type):
        column = column.cast(pa.string())  # A direct cast gives 0.47000000000000003 for 0.47.
    if not (types.is_floating(column.type) or types.is_integer(column.type)):
        column = column.cast(pa.float64())
    if isinstance(column, pa.ChunkedArray):
        return column.to_numpy()
    return column.to_numpy(zero_copy_only=False)


def ids(column: pa.ChunkedArray) -> Array:
    """Return a column of query ids as an array; a missing id is an error."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    _check_present(column, "qid", "a query id")
    if types.is_integer(column.type) or types.is_floating(column.type):
        return column.to_numpy()
    if types.is_string(column.type) or types.is_large_string(column.type):
        return join_strings(column.to_pylist())
    values = np.empty(len(column), object)
    values[:] = column.to_pylist()
    return values


def doc_ids(column: pa.ChunkedArray) -> list[str]:
    """Return a column of document ids as text; a missing id is an error."""
    _check_present(column, "doc_id", "a document id")
    return list(map(str, column.to_pylist()))


def _check_present(column: pa.ChunkedArray, name: str, what: str) -> None:
    """Raise a `DataError` that names the first row of a column without a value."""
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise DataError(f"{name}[{row}] is missing; every row needs {what}")


class Labelled(NamedTuple):
    """The columns of a table that are not features, as arguments of `RankingData`."""

    y: Array
    qid: Array | None
    doc_ids: list[str] | None
    per_row: dict[str, Any]


def labelled(table: pa.Table, chosen: Chosen) -> Labelled:
    """Return the columns of a table that are not features; without a label, all labels are 0."""

    def read(name: str) -> Array:
        column = table[name]
        if not _is_number(column.type):
            raise DataError(f"column {name!r} holds {column.type}; expected numbers")
        return numbers(column)

    return Labelled(
        np.zeros(table.num_rows) if chosen.label is None else read(chosen.label),
        None if chosen.qid is None else ids(table[chosen.qid]),
        None if chosen.doc_id is None else doc_ids(table[chosen.doc_id]),
        {argument: read(name) for argument, name in chosen.per_row.items()},
    )


def fill_rows(
    batches: Iterable[pa.RecordBatch],
    out: Array,
    places: Array | None = None,
    progress: Callable[[float], None] | None = None,
) -> int:
    """Copy the columns of batches into the rows of an array; return the number of rows.

    Row r goes to row ``places[r]`` of the array, by default to row r.
    """
    first, block = 0, np.empty((SLICE_ROWS, out.shape[1]), out.dtype)
    for batch in batches:
        columns = [numbers(column) for column in batch.columns]
        for a in range(0, batch.num_rows, SLICE_ROWS):
            n = min(SLICE_ROWS, batch.num_rows - a)
            for f, column in enumerate(columns):
                block[:n, f] = column[a : a + n]
            rows = slice(first + a, first + a + n)
            out[rows if places is None else places[rows]] = block[:n]
        first += batch.num_rows
        if progress is not None:
            progress(first / len(out))
    return first
