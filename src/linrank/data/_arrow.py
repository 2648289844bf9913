"""Columns of Arrow tables as arrays: features, labels, weights and ids.

Frames of all kinds and files of tables share these functions. pyarrow is imported when they are
called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Array
from ..errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

SLICE_ROWS = 1024  #: rows that are copied into X at a time; more rows leave the cache


def needs(what: str, error: ImportError) -> DataError:
    """Return the error for a library that is not installed."""
    return DataError(f"{what} needs {error.name} ({error}). Run pip install linrank[frames]")


def check_features(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise a `DataError` that names the first feature whose column holds no numbers."""
    for name in names:
        if not _is_number(schema.field(name).type):
            raise DataError(no_numbers(name, schema.field(name).type))


def no_numbers(name: str, kind: object) -> str:
    """Return the sentence for a column of features that holds no numbers."""
    return (
        f"column {name!r} holds {kind}; features must be numbers. Choose the columns with "
        f"features=, or leave this one out with ignore=[{name!r}] (--features, --ignore)"
    )


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
    if not (types.is_floating(column.type) or types.is_integer(column.type)):
        column = column.cast(pa.float64())
    if isinstance(column, pa.ChunkedArray):
        return column.to_numpy()
    return column.to_numpy(zero_copy_only=False)


def fill_rows(batches: Iterable[pa.RecordBatch], out: Array) -> int:
    """Copy the columns of batches into the rows of an array; return the number of rows."""
    first = 0
    for batch in batches:
        columns = [numbers(column) for column in batch.columns]
        last = first + batch.num_rows
        for a in range(first, last, SLICE_ROWS):
            b = min(a + SLICE_ROWS, last)
            for f, column in enumerate(columns):
                out[a:b, f] = column[a - first : b - first]
        first = last
    return first
