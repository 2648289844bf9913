"""Sources of data for a cluster: Dask collections, folders of files, and linrank's store.

Every source becomes a list of `Part`. A part is a delayed `Rows`: the worker that needs the rows
computes it, and another worker computes it again if the first one is lost.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from .._util.parallel import split
from .._util.types import Array, Integers, Mask, Vector
from ..data.columns import LABEL, QID, Columns, column_names, feature_columns, row_bytes
from ..data.formats import find_format, refuse_columns
from ..data.ids import id_texts, join_strings
from ..data.letor import check_dtype, count_letor, read_letor
from ..data.ranking import RankingData, row_keys
from ..data.source import list_files
from ..data.store import open_store
from ..data.table_files import OpenTable, fill_features, read_head
from ..data.validation import (
    PER_ROW_CHECKS,
    Matrix,
    check_finite,
    check_labels,
    check_matrix,
    check_rows,
    group_by_query,
    one_per_query,
    take_rows,
)
from ..errors import DataError, FileFormatError

# --------------------------------------------------------------------------------------------------
# The rows of one part of the data, and how a worker joins parts.


#: What query ids are called in errors, by the kind of their dtype.
ID_KINDS = dict.fromkeys("iuUO", "whole numbers or text") | {"f": "floats"}


@dataclass
class BlockRows:
    """Checked rows of one part.

    Attributes
    ----------
    X, y, qid : arrays, `qid` may be None
    per_row : dict of str to array
        Weights, margins and propensities, under the names of the arguments of `RankingData`.
    feature_names : list of str or None
    index_base : {0, 1}
    """

    X: Matrix
    y: Vector
    qid: Array | None
    per_row: dict[str, Vector] = field(default_factory=dict)
    feature_names: list[str] | None = None
    index_base: int = 1

    @property
    def n_bytes(self) -> int:
        """The memory that the features take."""
        X = self.X
        if sparse.issparse(X):
            return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
        return int(X.nbytes)

    def take(self, chosen: Mask) -> BlockRows:
        """Return the rows for which `chosen` is true."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen)
        return replace(
            self,
            X=take_rows(self.X, rows),
            y=self.y[rows],
            qid=None if self.qid is None else self.qid[rows],
            per_row={name: values[rows] for name, values in self.per_row.items()},
        )


class QueryCounts(NamedTuple):
    """The distinct queries of a part, their numbers of documents, and the size of the features."""

    ids: Array
    counts: Integers
    n_bytes: float

    @property
    def n_docs(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


class Shape(NamedTuple):
    """What a part, or all parts together, look like."""

    n_features: int
    index_base: int
    is_sparse: bool
    dtype: str
    feature_names: list[str] | None
    qid: str | None  #: the kind of the query ids, as in `ID_KINDS`; None without ids
    per_row: tuple[str, ...]  #: names of weights, margins and propensities

    @property
    def has_qid(self) -> bool:
        """Whether the rows have query ids."""
        return self.qid is not None


class PartSummary(NamedTuple):
    """What the client knows about a part that is loaded."""

    queries: QueryCounts
    shape: Shape


def check_part(
    part: str,
    X: Any,
    y: ArrayLike,
    qid: Any = None,
    *,
    feature_names: Sequence[object] | None = None,
    index_base: int = 1,
    **per_row: ArrayLike | None,
) -> BlockRows:
    """Check the rows of one part; the name `part` begins the message of an error."""
    names = None if feature_names is None else column_names(feature_names, part)
    given = {name: values for name, values in per_row.items() if values is not None}
    if X.shape[0] == 0 and len(np.asarray(y)) == 0:  # A collection may have empty partitions.
        return BlockRows(np.zeros(X.shape), np.zeros(0), None, {}, names, index_base)
    try:
        X = check_matrix(X)
        n = X.shape[0]
        labels = check_labels(y, n)
        if not np.isfinite(row_keys(X, 1)).all():
            check_finite(X, None)
        checked = {name: _check_numbers(name, values, n) for name, values in given.items()}
        return BlockRows(X, labels, check_ids(qid, n), checked, names, index_base)
    except DataError as error:
        raise DataError(f"{part}: {error}") from None


def _check_numbers(name: str, values: ArrayLike, n: int) -> Any:
    may_be_zero = name.endswith("weight") and not np.any(values)  # in one part of the data
    return (check_rows if may_be_zero else PER_ROW_CHECKS[name])(values, n, name)


def check_ids(qid: Any, n: int) -> Array | None:
    """Return query ids as numbers or text, which can be compared with those of other parts."""
    if qid is None:
        return None
    group_by_query(qid, n)  # raises an error for missing or too few ids
    qid = np.asarray(qid)
    return join_strings(id_texts(qid)) if qid.dtype.kind in "OS" else qid


def alike(ids: Sequence[Array]) -> list[Array]:
    """Return ids of several parts as they are if all are of one kind, and otherwise as text.

    Examples
    --------
    >>> [own.tolist() for own in alike([np.array([7]), np.array(["7", "q"])])]
    [['7'], ['7', 'q']]
    """
    kinds = {own.dtype.kind.replace("O", "U") for own in ids}
    return list(ids) if len(kinds) == 1 else [join_strings(id_texts(own)) for own in ids]


def count_queries(qid: Array | None, n_docs: int, n_bytes: float) -> QueryCounts:
    """Count the documents of each query; without ids, all documents belong to one query."""
    ids = np.zeros(n_docs, np.int64) if qid is None else qid
    return QueryCounts(*np.unique(ids, return_counts=True), n_bytes)


def summarize(rows: BlockRows) -> PartSummary:
    """Return the queries and the shape of a part."""
    shape = Shape(
        n_features=int(rows.X.shape[1]),
        index_base=rows.index_base,
        is_sparse=bool(sparse.issparse(rows.X)),
        dtype=str(rows.X.dtype),
        feature_names=rows.feature_names,
        qid=None if rows.qid is None else ID_KINDS.get(rows.qid.dtype.kind, str(rows.qid.dtype)),
        per_row=tuple(sorted(rows.per_row)),
    )
    return PartSummary(count_queries(rows.qid, len(rows.y), rows.n_bytes), shape)


def combine_shapes(parts: Sequence[PartSummary]) -> Shape:
    """Return the shape of all parts together, with every feature that a part has.

    - LETOR parts may have different numbers of features. One part may start with feature 0 while
      the others show no feature 0.
    - The features are sparse if most rows are.
    - Query ids that are whole numbers in one part and text in another are compared as text. Floats
      do not go together with them, because converting large integers to floats would round them.
    """
    filled = [(shape, queries.n_docs) for queries, shape in parts if queries.n_docs]
    if not filled:
        raise DataError(
            "there are no rows: all parts of the data are empty. Use data with at least one row."
        )
    shapes = [shape for shape, _ in filled]
    first = shapes[0]
    for what in ("feature_names", "qid", "per_row"):
        other = next((s for s in shapes if getattr(s, what) != getattr(first, what)), None)
        if other is not None:
            raise DataError(
                f"the parts of the data do not fit together: {what} is {getattr(first, what)} in "
                f"one part and {getattr(other, what)} in another. Write all parts alike"
            )
    base = min(shape.index_base for shape in shapes)
    n_sparse = sum(n_docs for shape, n_docs in filled if shape.is_sparse)
    return first._replace(
        n_features=max(shape.n_features + shape.index_base - base for shape in shapes),
        index_base=base,
        is_sparse=2 * n_sparse > sum(n_docs for _, n_docs in filled),
        dtype=str(np.result_type(*(np.dtype(shape.dtype) for shape in shapes))),
    )


def join_parts(parts: list[BlockRows], shape: Shape, n_threads: int) -> RankingData:
    """Join parts into one data set.

    The list is emptied part by part, so that at most one part is in memory twice.
    """
    parts[:] = [part for part in parts if len(part.y)]
    y = np.concatenate([part.y for part in parts])
    qids = [part.qid for part in parts if part.qid is not None]
    qid = np.concatenate(alike(qids)) if shape.has_qid else None
    per_row = {
        name: np.concatenate([part.per_row[name] for part in parts]) for name in shape.per_row
    }
    X = (_join_sparse if shape.is_sparse else _join_dense)(parts, shape, len(y))
    data = RankingData(
        X, y, qid, feature_names=shape.feature_names, index_base=shape.index_base,
        n_threads=n_threads,
    )  # fmt: skip
    # RankingData refuses weights that are all zero, which those of one worker may be. They are
    # therefore set here instead of being passed as arguments.
    if data.order is not None:
        per_row = {name: values[data.order] for name, values in per_row.items()}
    data.weight, data.propensity = per_row.get("sample_weight"), per_row.get("propensity")
    data.margin = per_row.get("margin")
    if "query_weight" in per_row:
        data.query_weight = one_per_query(per_row["query_weight"], data.query_ptr, data.query_ids)
    return data


def _join_dense(parts: list[BlockRows], shape: Shape, n_docs: int) -> Matrix:
    whole = n_docs, shape.n_features
    if len(parts) == 1 and not sparse.issparse(parts[0].X) and parts[0].X.shape == whole:
        return parts.pop().X.astype(shape.dtype, copy=False)
    X = np.zeros(whole, shape.dtype)  # The system provides pages when they are first written.
    first = 0
    while parts:
        part = parts.pop(0)
        shift, (n, d) = part.index_base - shape.index_base, part.X.shape
        rows = part.X.toarray() if sparse.issparse(part.X) else part.X
        X[first : first + n, shift : shift + d] = rows
        first += n
    return X


def _join_sparse(parts: list[BlockRows], shape: Shape, n_docs: int) -> Matrix:
    found = []
    while parts:
        part = parts.pop(0)
        X, shift = sparse.csr_array(part.X), part.index_base - shape.index_base
        size = X.shape[0], shape.n_features
        found.append(sparse.csr_array((X.data, X.indices + shift, X.indptr), size))
    return check_matrix(sparse.vstack(found, format="csr").astype(shape.dtype, copy=False))


# --------------------------------------------------------------------------------------------------
# Sources of data for a cluster: Dask collections, folders of files, and linrank's store.


if TYPE_CHECKING:  # Workers import this module, and importing pandas would delay their start.
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    Column: TypeAlias = "str | da.Array | dd.Series | None"

STORE_PART_BYTES = 64e6  #: size of a part of a store; larger parts need more memory to load
MIN_STORE_PARTS = 16  #: parts of a store, however small it is


class DataPart(NamedTuple):
    """A part of the data, which is computed later: its rows, or its query ids only."""

    rows: Delayed
    queries: Delayed
    size: int = 1  #: approximate size, in the same unit for all parts


class FileOptions(NamedTuple):
    """How files are read: the columns of tables, the features of LETOR text."""

    columns: Columns
    dtype: np.dtype[Any]
    index_base: Literal["auto", 0, 1]


def find_parts(X: Any, y: Column = None, qid: Column = None, **per_row: Column) -> list[DataPart]:
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
) -> list[DataPart]:
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
        DataPart(delayed(read)(name, options), delayed(count)(name, options), size)
        for name, size in names
    ]


def _read_letor_part(name: str, options: FileOptions) -> BlockRows:
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


def _read_table_part(name: str, options: FileOptions) -> BlockRows:
    open_table = _table_opener(name)
    head = read_head(open_table, name, options.columns)
    X = np.empty(head.shape, head.dtype)
    fill_features(open_table, head, X)
    y, qid, _, per_row = head.others
    ids = None if qid is None else qid.rows
    return check_part(name, X, y, ids, feature_names=head.numbers, **per_row)


def _count_table_part(name: str, options: FileOptions) -> QueryCounts:
    head = read_head(_table_opener(name), name, options.columns)
    y, qid = head.others.y, head.others.qid
    n_bytes = head.shape[1] * head.dtype.itemsize
    return count_column(y if qid is None else qid.rows, qid is not None, n_bytes)


def _store_parts(folder: Path) -> list[DataPart]:
    data, name = open_store(folder), str(folder.resolve())
    n_bytes = sum(file.stat().st_size for file in folder.rglob("X*.npy"))
    n_parts = max(MIN_STORE_PARTS, round(n_bytes / STORE_PART_BYTES))
    return [
        DataPart(
            delayed(_read_store_part)(name, a, b),
            delayed(_count_store_part)(name, a, b),
            int(data.query_ptr[b] - data.query_ptr[a]),
        )
        for a, b in split(data.query_ptr, n_parts)
    ]


def _read_store_part(name: str, first: int, last: int) -> BlockRows:
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
) -> list[DataPart]:
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
        DataPart(
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
) -> BlockRows:
    features = feature_columns(part, frame, named)
    columns = {name: frame[column] for name, column in named.items()}
    arrays: dict[str, Any] = {n: values.to_numpy() for n, values in (columns | others).items()}
    # Numbers are names beside columns that have other names, such as that of the labels.
    names = list(map(str, features.columns)) if named else features.columns.tolist()
    return check_part(part, features.to_numpy(), feature_names=names, **arrays)


def array_parts(
    X: da.Array, y: Column = None, qid: Column = None, **per_row: Column
) -> list[DataPart]:
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
        DataPart(
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


def _read_blocks(part: str, X: Any, columns: dict[str, Any]) -> BlockRows:
    return check_part(part, X, **columns)
