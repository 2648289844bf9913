"""Files of tables: one row per document, one column per feature.

Parquet, Arrow and CSV files differ in how they are opened: a function yields a `TableFile`. This
module reads the columns of such files into `RankingData`. The features are copied in batches of
rows, so that little more memory than X is in use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .._typing import Array
from ..errors import DataError, FileFormatError, LinrankError, about_file
from ._arrow import (
    IdColumn,
    Labelled,
    check_features,
    feature_type,
    fill_rows,
    id_columns,
    labelled,
    needs,
)
from ._letor_reader import Allocate, Progress, allocate_in_memory
from .checks import group_by_query
from .columns import Chosen, Columns, no_column
from .letor import check_dtype
from .parts import list_files
from .ranking import RankingData

if TYPE_CHECKING:
    import pyarrow as pa

StrPath = str | os.PathLike[str]


class TableFile(NamedTuple):
    """An open file of a table.

    Attributes
    ----------
    schema : pyarrow.Schema
        The names and types of the columns.
    read : callable
        Takes the names of columns, and those of columns that hold ids. Yields batches of rows.
    """

    schema: pa.Schema
    read: Callable[[Sequence[str], Sequence[str]], Iterator[pa.RecordBatch]]


OpenTable = Callable[[str], AbstractContextManager[TableFile]]


class Head(NamedTuple):
    """The columns of files that are not features, and the shape of the features."""

    files: list[str]
    features: list[str]
    dtype: np.dtype[Any]
    others: Labelled

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of X."""
        return len(self.others.y), len(self.features)


def read_tables(
    open_table: OpenTable,
    path: StrPath,
    *,
    columns: Columns | None = None,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    dtype: DTypeLike | None = None,
    n_threads: int | None = None,
    progress: Progress | None = None,
    allow_missing: bool = False,
    needs_label: bool = True,
    allocate: Allocate = allocate_in_memory,
) -> RankingData:
    """Read ranked data from a file of a table, or from a folder of such files.

    Parameters
    ----------
    open_table : callable
        Opens a file as a `TableFile`.
    path : path-like
        A file, or a folder whose files have the same columns.
    columns : Columns, optional
        Which columns hold what.
    n_features : int, optional
        The expected number of features; it is an error if there is another number.
    index_base : {"auto", 0, 1}
        The index of the first feature in LETOR files written from the data; "auto" is 1.
    dtype : {np.float64, np.float32}, optional
        The type of the features. By default, float32 if all columns of features are, otherwise
        float64.
    n_threads : int, optional
        Threads for the check of the features; by default all cores.
    progress : callable, optional
        Called repeatedly with the fraction of the features that are read.
    allow_missing : bool
        Whether features may be NaN or null; both become NaN.
    needs_label : bool
        Whether a column of labels must exist. Without it, all labels are 0.
    allocate : callable
        Provides the array X.
    """
    if index_base not in ("auto", 0, 1):
        raise DataError(f"index_base is {index_base!r}; expected 'auto', 0 or 1")
    head = read_head(open_table, path, columns or Columns(), needs_label)
    if n_features is not None and n_features != len(head.features):
        raise FileFormatError(
            f"{os.fspath(path)}: the file has {len(head.features)} features, but "
            f"{n_features} are expected. Choose the columns with features= or ignore= (--features, "
            "--ignore)"
        )
    with about_file(path):
        y, qid, doc_ids, per_row = head.others
        grouping = group_by_query(qid, len(y))
        X = allocate("X", head.shape, head.dtype if dtype is None else check_dtype(dtype))
        places = None if grouping.order is None else np.argsort(grouping.order)
        fill_features(open_table, head, X, places, progress)
        return RankingData(
            X, y, grouping, doc_ids=doc_ids,  # type: ignore[arg-type]
            feature_names=head.features, n_threads=n_threads,
            index_base=1 if index_base == "auto" else index_base, allow_missing=allow_missing,
            **per_row,
        )  # fmt: skip


def read_head(
    open_table: OpenTable, path: StrPath, columns: Columns, needs_label: bool = True
) -> Head:
    """Read all columns that are not features from a file, or from the files of a folder."""
    import_pyarrow(path)
    import pyarrow as pa

    files, parts = [str(file) for file in list_files(Path(path))], []
    chosen, dtypes, ids = None, set(), dict[str, IdColumn]()
    for file in files:
        with open_table(file) as table, about_file(file):
            if chosen is None:
                chosen = _choose(columns, table.schema.names, needs_label)
                ids = id_columns(chosen)
            _check_same(chosen, table.schema.names)
            check_features(table.schema, chosen.features)
            dtypes.add(feature_type(table.schema, chosen.features))
            parts.append(_read_others(table, chosen, ids))
    assert chosen is not None
    with about_file(path), arrow_errors(path, "one table"):
        whole = pa.concat_tables(parts, promote_options="permissive")
        if not whole.num_rows:
            raise DataError("there are no rows. Use data with at least one row")
        others = labelled(whole, chosen, ids)
    return Head(files, chosen.features, np.result_type(*dtypes), others)


def _read_others(table: TableFile, chosen: Chosen, ids: Mapping[str, IdColumn]) -> pa.Table:
    """Add the ids of a file to `ids`, and return its other columns that are no features."""
    import pyarrow as pa

    plain = chosen.numbers or chosen.features[:1]  # A column must tell the number of rows.
    batches = []
    for batch in table.read([*dict.fromkeys([*plain, *ids])], list(ids)):
        for name, column in ids.items():
            column.add(batch.column(name))
        batches.append(batch.select(plain))
    schema = pa.schema([table.schema.field(name) for name in plain])
    return pa.Table.from_batches(batches, batches[0].schema if batches else schema)


def _choose(columns: Columns, names: Sequence[str], needs_label: bool) -> Chosen:
    """Return the columns of the first file."""
    chosen = columns.choose(names, needs_label)
    if not chosen.features:
        raise DataError("there are no features: every column has another use")
    return chosen


def _check_same(chosen: Chosen, names: Sequence[str]) -> None:
    """Raise a `DataError` if a file lacks a column of the first one."""
    absent = [name for name in (*chosen.others, *chosen.features) if name not in names]
    if absent:
        raise DataError(no_column(absent[0], names) + ". All files must have the same columns")


def fill_features(
    open_table: OpenTable,
    head: Head,
    X: Array,
    places: Array | None = None,
    progress: Progress | None = None,
) -> None:
    """Copy the features of files into X; row r goes to row ``places[r]``, by default to row r."""
    first = 0
    for file in head.files:
        with open_table(file) as table:
            first = fill_rows(table.read(head.features, ()), X, places, progress, first)
    if first != len(X):
        raise DataError("the file changed while it was being read. Read it again")
    release_memory()


@contextmanager
def arrow_errors(name: StrPath, kind: str) -> Iterator[None]:
    """Turn all errors that reading a damaged file causes into a `FileFormatError`.

    pyarrow, and Python when it decodes text, raise many kinds of errors.
    """
    import_pyarrow(name)
    from pyarrow import ArrowException

    damages = (ArrowException, ArithmeticError, LookupError, MemoryError, OSError, TypeError,
               ValueError)  # fmt: skip
    try:
        yield
    except LinrankError:
        raise
    except UnicodeError:
        reason = "it holds text that is not valid UTF-8. Write the file again, as UTF-8"
    except damages as error:
        reason = " ".join(str(error).split()) or type(error).__name__
    else:
        return
    raise FileFormatError(f"{os.fspath(name)}: cannot be read as {kind}: {reason}")


def import_pyarrow(path: StrPath) -> None:
    """Raise a `DataError` if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise needs(f"{os.fspath(path)}: reading tables", error) from None


def release_memory() -> None:
    """Return the memory that pyarrow keeps for later reads to the system."""
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()
