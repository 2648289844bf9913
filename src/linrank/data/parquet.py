"""Parquet files: one row per document, one column per feature."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .._typing import Array
from ..errors import DataError, FileFormatError
from .columns import LABEL, QID, feature_columns, feature_dtype, row_bytes
from .letor import check_dtype
from .ranking import RankingData

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

StrPath = str | os.PathLike[str]

SUFFIXES = (".parquet", ".pq")
MAGIC = b"PAR1"  #: the first bytes of every Parquet file
SLICE_ROWS = 8192  #: rows read at a time; more rows take more memory beside X


class Table(NamedTuple):
    """The columns of a Parquet file."""

    X: Array
    y: Array
    qid: Array | None
    feature_names: list[str]


class IdColumn(NamedTuple):
    """The query ids of a Parquet file, or its labels if it has no query ids."""

    values: Array
    has_qid: bool
    row_bytes: int  #: memory that the features of one row take


def is_parquet(path: Path) -> bool:
    """Return whether a path is a Parquet file, by its name or its first bytes."""
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        if not path.is_file():
            return False  # Reading would take bytes away from a pipe.
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # The reader of text files reports the error.
        return False


def read_parquet(
    path: StrPath,
    *,
    label: str = LABEL,
    qid: str = QID,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    dtype: DTypeLike | None = None,
    n_threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> RankingData:
    """Read ranked data from a Parquet file.

    All columns other than `label` and `qid` are features and must hold numbers.

    Parameters
    ----------
    path : path-like
    label, qid : str
        The columns with the labels and the query ids. Without a column `qid`, all documents belong
        to one query.
    n_features : int, optional
        The expected number of features; it is an error if the file has another number.
    index_base : {"auto", 0, 1}
        The index of the first feature in LETOR files written from the data; "auto" is 1.
    dtype : {np.float64, np.float32}, optional
        The type of the features. By default, float32 if all columns of features are, otherwise
        float64.
    n_threads : int, optional
        Threads for the check of the features; by default all cores.
    progress : callable, optional
        Called at the end with 1.0.

    Raises
    ------
    FileFormatError
        If the file cannot be read.
    DataError
        If pyarrow or pandas is not installed, or if a column is missing or holds no numbers.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pandas as pd
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.parquet")
    >>> pd.DataFrame({"label": [1, 0], "qid": [7, 7], "bm25": [0.5, 0.25]}).to_parquet(path)
    >>> data = read_parquet(path)
    >>> data, data.feature_names
    (RankingData(2 documents, 1 queries, 1 features, dense float64), ['bm25'])
    """
    if index_base not in ("auto", 0, 1):
        raise DataError(f"index_base is {index_base!r}; expected 'auto', 0 or 1")
    table = read_table(path, label=label, qid=qid)
    if n_features is not None and n_features != len(table.feature_names):
        raise FileFormatError(
            f"{os.fspath(path)}: the file has {len(table.feature_names)} features, but "
            f"{n_features} are expected"
        )
    X = table.X if dtype is None else table.X.astype(check_dtype(dtype), copy=False)
    try:
        data = RankingData(
            X, table.y, table.qid, feature_names=table.feature_names,
            index_base=1 if index_base == "auto" else index_base, n_threads=n_threads,
        )  # fmt: skip
    except DataError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from None
    if progress is not None:
        progress(1.0)
    return data


def read_table(path: StrPath, *, label: str = LABEL, qid: str = QID) -> Table:
    """Read the columns of a Parquet file, without further checks of their content.

    The features are read in slices of rows, so that little more memory than X is in use.
    """
    name = os.fspath(path)
    with _opened(name) as file:
        empty = file.schema_arrow.empty_table().to_pandas()
        named = {"y": label, "qid": qid if qid in empty else None}
        features = feature_columns(name, empty, named)
        columns = list(features.columns)
        X = np.empty((file.metadata.num_rows, len(columns)), feature_dtype(features.dtypes))
        first = 0
        for batch in file.iter_batches(SLICE_ROWS, columns=columns, use_threads=False):
            for f, column in enumerate(batch.columns):
                X[first : first + len(column), f] = column.to_numpy(zero_copy_only=False)
            first += batch.num_rows
        y = _read_column(file, label)
        ids = _read_column(file, qid) if qid in empty else None
    _release_memory()
    return Table(X, y, ids, columns)


def read_ids(path: StrPath, *, label: str = LABEL, qid: str = QID) -> IdColumn:
    """Read the query ids of a Parquet file without its features."""
    with _opened(os.fspath(path)) as file:
        empty = file.schema_arrow.empty_table().to_pandas()
        column = qid if qid in empty else label
        feature_columns(os.fspath(path), empty, {"y": label, "qid": qid if qid in empty else None})
        values = _read_column(file, column)
    return IdColumn(values, column == qid, row_bytes(empty.dtypes, {label, column}))


@contextmanager
def _opened(name: str) -> Iterator[ParquetFile]:
    """Open a Parquet file, and turn errors of pyarrow into a `FileFormatError`."""
    try:
        import pandas  # noqa: F401  # pyarrow needs it to describe the columns.
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise DataError(
            f"{name}: reading Parquet files needs pyarrow and pandas ({error}). Run pip install "
            "pyarrow pandas"
        ) from None
    try:
        with ParquetFile(name) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise FileFormatError(f"{name}: cannot be read as Parquet: {error}") from None


def _read_column(file: ParquetFile, column: str) -> Array:
    return file.read([column], use_threads=False).to_pandas()[column].to_numpy()


def _release_memory() -> None:
    """Return the memory that pyarrow keeps for later reads to the system."""
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()
