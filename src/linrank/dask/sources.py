"""Sources of data for a cluster: Dask collections, folders of files, and linrank's store.

Every source becomes a list of `Part`. A part is a delayed `Rows`: the worker that needs the rows
computes it, and another worker computes it again if the first one is lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import ArrayLike, DTypeLike

from .._threads import split
from ..data.columns import LABEL, QID, Columns, feature_columns, row_bytes
from ..data.formats import find_format, refuse_columns
from ..data.letor import check_dtype, count_letor, read_letor
from ..data.parts import list_files
from ..data.store import open_store
from ..data.tables import OpenTable, fill_features, read_head
from ..errors import DataError, FileFormatError
from .rows import QueryCounts, Rows, check_ids, check_part, count_queries

if TYPE_CHECKING:  # Workers import this module, and importing pandas would delay their start.
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    Column: TypeAlias = "str | da.Array | dd.Series | None"

STORE_PART_BYTES = 64e6  #: size of a part of a store; larger parts need more memory to load
MIN_STORE_PARTS = 16  #: parts of a store, however small it is


class Part(NamedTuple):
    """A part of the data, which is computed later: its rows, or its query ids only."""

    rows: Delayed
    queries: Delayed
    size: int = 1  #: approximate size, in the same unit for all parts


class FileOptions(NamedTuple):
    """How files are read: the columns of tables, the features of LETOR text."""

    columns: Columns
    dtype: np.dtype[Any]
    index_base: Literal["auto", 0, 1]


def find_parts(X: Any, y: Column = None, qid: Column = None, **per_row: Column) -> list[Part]:
    """Return the parts of the data that `DaskRankSVM.fit` is given."""
    if isinstance(X, str | os.PathLike):
        surplus = [name for name, values in per_row.items() if values is not None]
        surplus += [n for n, v in {"y": y, "qid": qid}.items() if not isinstance(v, str | None)]
        if surplus:
            raise DataError(
                f"{surplus[0]} cannot be given together with a path: it is read from the files. "
                "For tables, y and qid may be names of columns"
            )
        return folder_parts(X, columns=Columns(label=y, qid=qid))
    import dask.array as da
    import dask.dataframe as dd

    if isinstance(X, dd.DataFrame):
        return frame_parts(X, y, qid, **per_row)
    if isinstance(X, da.Array):
        return array_parts(X, y, qid, **per_row)
    raise DataError(
        f"X is {type(X).__name__}; expected a Dask DataFrame or Array, or the path of a folder. "
        "For arrays in memory, use linrank.RankSVM"
    )


# Files ------------------------------------------------------------------------------------------


def folder_parts(
    path: str | os.PathLike[str],
    *,
    columns: Columns | None = None,
    dtype: DTypeLike = np.float64,
    index_base: Literal["auto", 0, 1] = "auto",
) -> list[Part]:
    """Return the parts of a folder that all workers can read: a store, LETOR text or tables.

    Each file is one part. The path of a single file gives one part.
    """
    folder = Path(path)
    options = FileOptions(columns or Columns(), check_dtype(dtype), index_base)
    if not folder.exists():
        raise FileFormatError(
            f"{folder}: there is no such file or folder. Use a path that all workers can read."
        )
    kind = find_format(folder)
    if kind.open_table is None:
        refuse_columns(folder, kind, options.columns)
    if kind.name == "store":
        return _store_parts(folder)
    read, count = _read_letor_part, _count_letor_part
    if kind.open_table is not None:
        read, count = _read_table_part, _count_table_part
    elif kind.name != "letor":
        raise FileFormatError(
            f"{folder}: {kind.description} cannot be read by the workers of a cluster. Convert it "
            f"with linrank convert {folder} train.store"
        )
    names = [(str(file.resolve()), file.stat().st_size) for file in list_files(folder)]
    return [
        Part(delayed(read)(name, options), delayed(count)(name, options), size)
        for name, size in names
    ]


def _read_letor_part(name: str, options: FileOptions) -> Rows:
    data = read_letor(name, dtype=options.dtype, index_base=options.index_base, n_threads=1)
    return check_part(name, data.X, data.y, data.qid, index_base=data.index_base)


def _count_letor_part(name: str, options: FileOptions) -> QueryCounts:
    """Count the queries; an entry takes at least the size of its number, dense or sparse."""
    ids, n_docs, n_entries = count_letor(name)
    return QueryCounts(ids, n_docs, n_entries * options.dtype.itemsize)


def _table_opener(name: str) -> OpenTable:
    opener = find_format(name).open_table
    if opener is None:
        raise FileFormatError(f"{name}: the file changed while it was being read. Read it again")
    return opener


def _read_table_part(name: str, options: FileOptions) -> Rows:
    open_table = _table_opener(name)
    head = read_head(open_table, name, options.columns)
    X = np.empty(head.shape, head.dtype)
    fill_features(open_table, head, X)
    y, qid, _, per_row = head.others
    ids = None if qid is None else qid.rows
    return check_part(name, X, y, ids, feature_names=head.features, **per_row)


def _count_table_part(name: str, options: FileOptions) -> QueryCounts:
    head = read_head(_table_opener(name), name, options.columns)
    y, qid = head.others.y, head.others.qid
    n_bytes = head.shape[1] * head.dtype.itemsize
    return count_column(y if qid is None else qid.rows, qid is not None, n_bytes)


def _store_parts(folder: Path) -> list[Part]:
    data, name = open_store(folder), str(folder.resolve())
    n_bytes = sum(file.stat().st_size for file in folder.rglob("X*.npy"))
    n_parts = max(MIN_STORE_PARTS, round(n_bytes / STORE_PART_BYTES))
    return [
        Part(
            delayed(_read_store_part)(name, a, b),
            delayed(_count_store_part)(name, a, b),
            int(data.query_ptr[b] - data.query_ptr[a]),
        )
        for a, b in split(data.query_ptr, n_parts)
    ]


def _read_store_part(name: str, first: int, last: int) -> Rows:
    """Read the queries from `first` to `last` (exclusive) of a store."""
    data = open_store(name)
    a, b = data.query_ptr[first], data.query_ptr[last]
    X = data.X[a:b] if data.is_sparse else np.array(data.X[a:b])
    query_weight = data.query_weight
    if query_weight is not None:
        query_weight = np.repeat(query_weight, np.diff(data.query_ptr))
    per_row = {
        "sample_weight": data.weight,
        "query_weight": query_weight,
        "propensity": data.propensity,
        "margin": data.margin,
    }
    given = {key: values[a:b] for key, values in per_row.items() if values is not None}
    return check_part(
        name, X, data.y[a:b], data.qid[a:b], feature_names=data.feature_names,
        index_base=data.index_base, **given,
    )  # fmt: skip


def _count_store_part(name: str, first: int, last: int) -> QueryCounts:
    data = open_store(name)
    ptr, X = data.query_ptr[first : last + 1], data.X
    n_bytes = (ptr[-1] - ptr[0]) * data.n_features * data.dtype.itemsize
    if data.is_sparse:
        n_entries = X.indptr[ptr[-1]] - X.indptr[ptr[0]]
        n_bytes = n_entries * (X.data.itemsize + X.indices.itemsize)
    return QueryCounts(np.array(data.query_ids[first:last]), np.diff(ptr), int(n_bytes))


# Collections ------------------------------------------------------------------------------------


def frame_parts(
    X: dd.DataFrame, y: Column = None, qid: Column = None, **per_row: Column
) -> list[Part]:
    """Return the partitions of a Dask DataFrame; other arguments are column names or Series."""
    y = LABEL if y is None else y
    X = _with_index(X, [y, QID if qid is None else qid, *per_row.values()])
    qid = QID if qid is None and QID in X.columns else qid
    columns = {"y": y, "qid": qid, **per_row}
    named = {name: value for name, value in columns.items() if isinstance(value, str)}
    for name, column in named.items():
        if column not in X.columns:
            raise DataError(
                f"{name} is {column!r}, which is no column of X; the columns are {list(X.columns)}"
            )
    others = {n: v for n, v in columns.items() if v is not None and n not in named}
    blocks = {name: _series_blocks(name, value, X.npartitions) for name, value in others.items()}
    n_bytes, has_qid = row_bytes(X.dtypes, named.values()), qid is not None
    ids: Any = qid if has_qid else y
    counted = (X[ids] if isinstance(ids, str) else ids).to_delayed()
    return [
        Part(
            delayed(_read_frame)(
                f"partition {k}", frame, named, {name: own[k] for name, own in blocks.items()}
            ),
            delayed(count_column)(counted[k], has_qid, n_bytes),
        )
        for k, frame in enumerate(X.to_delayed())
    ]


def _with_index(X: dd.DataFrame, wanted: Sequence[Column]) -> dd.DataFrame:
    """Return a frame whose index is a column if it is named like one of the wanted columns."""
    name = X.index.name
    if name is None or not any(isinstance(column, str) and column == name for column in wanted):
        return X
    if name in X.columns:
        raise DataError(f"X has a column {name!r}, and so has its index. Rename one of them")
    return X.reset_index()


def count_column(values: ArrayLike, has_qid: bool, row_bytes: int) -> QueryCounts:
    """Count the query ids of a part, or if `has_qid` is false only its rows."""
    values = np.asarray(values)
    n_docs = len(values)
    ids = check_ids(values, n_docs) if has_qid and n_docs else None
    return count_queries(ids, n_docs, row_bytes * n_docs)


def _series_blocks(name: str, values: Any, n: int) -> Sequence[Delayed]:
    import dask.dataframe as dd

    if not isinstance(values, dd.Series) or values.npartitions != n:
        raise DataError(
            f"{name} must be the name of a column of X, or a Dask Series with as many partitions "
            f"as X, that is {n}"
        )
    return values.to_delayed()


def _read_frame(
    part: str, frame: pd.DataFrame, named: dict[str, str], others: dict[str, pd.Series]
) -> Rows:
    features = feature_columns(part, frame, named)
    columns = {name: frame[column] for name, column in named.items()}
    arrays: dict[str, Any] = {n: values.to_numpy() for n, values in (columns | others).items()}
    # Numbers are names beside columns that have other names, such as that of the labels.
    names = list(map(str, features.columns)) if named else features.columns.tolist()
    return check_part(part, features.to_numpy(), feature_names=names, **arrays)


def array_parts(X: da.Array, y: Column = None, qid: Column = None, **per_row: Column) -> list[Part]:
    """Return the blocks of rows of a Dask Array; other arguments are Dask Arrays too."""
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (documents × features), not {X.ndim}")
    if y is None:
        raise DataError("y is None; expected a Dask Array with one label per row")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    given = {"y": y, "qid": qid, **per_row}
    blocks = {n: _array_blocks(n, v, X) for n, v in given.items() if v is not None}
    counted = blocks.get("qid", blocks["y"])
    return [
        Part(
            delayed(_read_blocks)(
                f"block {k}", rows, {name: own[k] for name, own in blocks.items()}
            ),
            delayed(count_column)(counted[k], qid is not None, X.shape[1] * X.dtype.itemsize),
        )
        for k, rows in enumerate(X.to_delayed()[:, 0])
    ]


def _array_blocks(name: str, values: Any, X: da.Array) -> Sequence[Delayed]:
    import dask.array as da

    if not isinstance(values, da.Array) or values.ndim != 1:
        raise DataError(f"{name} must be a Dask Array with one entry per row of X")
    known = not np.isnan(np.array(X.chunks[0] + values.chunks[0], dtype=float)).any()
    if known and values.shape[0] != X.shape[0]:
        raise DataError(f"{name} has {values.shape[0]} entries but X has {X.shape[0]} rows")
    if known:
        values = values.rechunk((X.chunks[0],))
    if values.numblocks[0] != X.numblocks[0]:
        raise DataError(
            f"{name} has {values.numblocks[0]} blocks but X has {X.numblocks[0]}, and the sizes of "
            "the blocks are unknown before they are computed. Give both the same blocks"
        )
    return values.to_delayed()


def _read_blocks(part: str, X: Any, columns: dict[str, Any]) -> Rows:
    return check_part(part, X, **columns)
