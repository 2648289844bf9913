"""Columns of Arrow tables as arrays: features, labels, weights and ids.

Frames of all kinds and files of tables share these functions. pyarrow is imported when they are
called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._typing import Array
from ..errors import DataError
from .columns import Chosen, no_numbers
from .ids import IdReader, Ids

if TYPE_CHECKING:
    import pyarrow as pa

SLICE_ROWS = 1024  #: rows that are copied into X at a time; more rows leave the cache


def needs(what: str, error: ImportError) -> DataError:
    """Return the error for a library that is not installed."""
    return DataError(f"{what} needs {error.name} ({error}). Run pip install 'linrank[frames]'")


def check_features(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise a `DataError` that names the first feature whose column holds no numbers."""
    from pyarrow import DictionaryType

    for name in names:
        kind = schema.field(name).type
        if not _is_number(kind):
            text = str(kind.value_type if isinstance(kind, DictionaryType) else kind)
            raise DataError(no_numbers(name, text.removeprefix("large_")))


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


class IdColumn:
    """A column of ids, which comes in batches. Equal texts are held once.

    Parameters
    ----------
    name, what : str
        The name of the argument, and what it holds, for the error for a missing id.
    """

    def __init__(self, name: str, what: str) -> None:
        self._name, self._what = name, what
        self._reader = IdReader()

    def add(self, part: pa.Array) -> None:
        """Add the ids of some rows; a missing id is an error."""
        import pyarrow as pa
        from pyarrow import types

        if part.null_count:
            raise self._missing(np.flatnonzero(part.is_null().to_numpy(zero_copy_only=False))[0])
        if types.is_dictionary(part.type) and _is_number(part.type):
            part = part.cast(part.type.value_type)
        if types.is_integer(part.type) or types.is_floating(part.type):
            self._reader.add_numbers(part.to_numpy(zero_copy_only=False))
            return
        try:
            coded = part if types.is_dictionary(part.type) else part.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise DataError(
                f"{self._name} holds {part.type}; expected numbers or strings"
            ) from None
        used, codes = np.unique(coded.indices.to_numpy(zero_copy_only=False), return_inverse=True)
        # A dictionary may hold many values that these rows lack.
        values = [coded.dictionary[k].as_py() for k in used.tolist()]
        if None in values:  # Dictionaries may hold a missing value, too.
            raise self._missing(np.flatnonzero(codes == values.index(None))[0])
        self._reader.add(values, codes)

    def _missing(self, row: int) -> DataError:
        row += len(self._reader)
        return DataError(f"{self._name}[{row}] is missing; every row needs {self._what}")

    def add_all(self, column: pa.ChunkedArray) -> IdColumn:
        """Add all rows of a column."""
        for part in column.chunks:
            self.add(part)
        return self

    def parsed(self) -> Ids:
        """Return the ids, which are text or numbers; see `linrank.data.ids`."""
        return self._reader.parsed()

    def texts(self) -> Ids:
        """Return the ids as text."""
        return self._reader.texts()


def id_columns(chosen: Chosen) -> dict[str, IdColumn]:
    """Return an empty `IdColumn` for each column of ids."""
    uses = {chosen.qid: ("qid", "a query id"), chosen.doc_id: ("doc_id", "a document id")}
    return {name: IdColumn(*use) for name, use in uses.items() if name is not None}


class Labelled(NamedTuple):
    """The columns of a table that are not features, as arguments of `RankingData`."""

    y: Array
    qid: Ids | None
    doc_ids: Ids | None
    per_row: dict[str, Any]


def labelled(table: pa.Table, chosen: Chosen, ids: Mapping[str, IdColumn]) -> Labelled:
    """Return the columns that are not features; without a label, all labels are 0.

    The table holds the columns of numbers, and `ids` those of ids.
    """

    def read(name: str) -> Array:
        column = table[name]
        if not _is_number(column.type):
            raise DataError(f"column {name!r} holds {column.type}; expected numbers")
        return numbers(column)

    return Labelled(
        np.zeros(table.num_rows) if chosen.label is None else read(chosen.label),
        None if chosen.qid is None else ids[chosen.qid].parsed(),
        None if chosen.doc_id is None else ids[chosen.doc_id].texts(),
        {argument: read(name) for argument, name in chosen.per_row.items()},
    )


def fill_rows(
    batches: Iterable[pa.RecordBatch],
    out: Array,
    places: Array | None = None,
    progress: Callable[[float], None] | None = None,
    first: int = 0,
) -> int:
    """Copy the columns of batches into the rows of an array, from row `first` on.

    Row r goes to row ``places[r]`` of the array, by default to row r. Returns the number of the row
    after the last one.
    """
    block = np.empty((SLICE_ROWS, out.shape[1]), out.dtype)
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
