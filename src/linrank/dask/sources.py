"""Where data can come from: Dask collections, folders of files, and linrank's store.

Every source becomes a list of parts, each a delayed `Rows` that a worker computes where it is
wanted, and computes again should it be lost.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from dask.delayed import Delayed, delayed

from .._threads import split
from ..data._letor_reader import parse_query_ids
from ..data._source import CHUNK_BYTES, open_source
from ..data._store_format import META
from ..data.letor import check_dtype, read_letor
from ..data.store import open_store
from ..errors import DataError, FileFormatError
from .rows import Census, Rows, check_ids, check_part, count

if TYPE_CHECKING:  # workers load this module, and should not wait for pandas
    import dask.array as da
    import dask.dataframe as dd

STORE_PART = 64e6  #: bytes of a part of a store, unless that makes …
LEAST_PARTS = 16  #: … fewer parts than this
PARQUET = (".parquet", ".pq")
SLICE = 8192  #: rows of a table that are read at a time
LABEL, QID = "label", "qid"  #: the columns of a table where others are not named


class Part(NamedTuple):
    """A part of the data: its rows, and its queries without the rows; both are computed later."""

    rows: Delayed
    census: Delayed
    size: int = 1  #: about, in any unit


def find_parts(X: Any, y: Any = None, qid: Any = None, **more: Any) -> list[Part]:
    """The parts of whatever `DaskRankSVM.fit` takes."""
    if isinstance(X, str | os.PathLike):
        unread = [name for name, values in more.items() if values is not None]
        unread += [n for n, v in {"y": y, "qid": qid}.items() if not isinstance(v, str | None)]
        if unread:
            raise DataError(f"{unread[0]} cannot be given beside a folder: it is read from there")
        return folder_parts(X, label=LABEL if y is None else y, qid=QID if qid is None else qid)
    import dask.array as da
    import dask.dataframe as dd

    if isinstance(X, dd.DataFrame):
        return frame_parts(X, y, qid, **more)
    if isinstance(X, da.Array):
        return array_parts(X, y, qid, **more)
    raise DataError(
        f"X is {type(X).__name__}; expected a Dask DataFrame or Array, or the path of a folder "
        "(for arrays in memory use linrank.RankSVM)"
    )


# Files ------------------------------------------------------------------------------------------


def folder_parts(
    path: str | os.PathLike[str],
    *,
    label: str = LABEL,
    qid: str = QID,
    dtype: Any = np.float64,
    index_base: Any = "auto",
) -> list[Part]:
    """The parts of a folder that all workers can read: a store, or LETOR or Parquet files.

    A file alone is one part.
    """
    folder, dtype = Path(path), check_dtype(dtype)
    if (folder / META).is_file():
        return _store_parts(folder)
    if not folder.exists():
        raise FileFormatError(f"{path}: there is no such file or folder")
    files = [folder]
    if folder.is_dir():
        files = sorted(f for f in folder.iterdir() if f.is_file() and f.name[0] not in "._")
    tables = [file for file in files if file.suffix in PARQUET]
    if not files or 0 < len(tables) < len(files):
        what = "Parquet files among others" if files else "no files"
        raise FileFormatError(f"{path}: there are {what}; expected LETOR or Parquet parts")
    names = [(str(file.resolve()), file.stat().st_size) for file in files]
    read: Callable[..., Rows] = _read_table if tables else _read_text
    count_queries: Callable[..., Census] = _count_table if tables else _count_text
    how = (label, qid) if tables else (dtype, index_base)
    return [
        Part(delayed(read)(name, *how), delayed(count_queries)(name, *how), size)
        for name, size in names
    ]


def _read_text(name: str, dtype: Any, index_base: Any) -> Rows:
    data = read_letor(name, dtype=dtype, index_base=index_base, n_threads=1)
    return check_part(name, data.X, data.y, data.qid, index_base=data.index_base)


def _count_text(name: str, dtype: Any, index_base: Any) -> Census:
    """Count line by line; an entry takes at least its number, be it dense or sparse."""
    found, n_entries = Counter[bytes](), 0
    with open_source(name) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            for line in chunk.text[chunk.first : chunk.last].tobytes().splitlines():
                words = line.partition(b"#")[0].split()
                has_qid = len(words) > 1 and words[1].startswith(b"qid:")
                if words:
                    found[words[1][4:] if has_qid else b"0"] += 1
                    n_entries += len(words) - 1 - has_qid
            source.release([chunk])
    counts = np.array(list(found.values()))
    return Census(parse_query_ids(list(found)), counts, n_entries * dtype.itemsize)


def _read_table(name: str, label: str, qid: str) -> Rows:
    """Read a table by slices of rows, so that little more than its features is held at a time."""
    from pyarrow import default_memory_pool

    with _table(name) as file:
        empty = file.schema_arrow.empty_table().to_pandas()
        named = {"y": label, "qid": qid if qid in empty else None}
        features = _check_columns(name, empty, named)
        X = np.empty((file.metadata.num_rows, len(features.columns)), _float_of(features))
        first = 0
        for batch in file.iter_batches(SLICE, columns=list(features.columns), use_threads=False):
            for f, column in enumerate(batch.columns):
                X[first : first + len(column), f] = column.to_numpy(zero_copy_only=False)
            first += batch.num_rows
        arrays = {what: _read_column(file, column) for what, column in named.items() if column}
    default_memory_pool().release_unused()
    return check_part(name, X, feature_names=list(features.columns), **arrays)


def _count_table(name: str, label: str, qid: str) -> Census:
    with _table(name) as file:
        empty = file.schema_arrow.empty_table().to_pandas()
        column = qid if qid in empty else label
        values = _read_column(file, column)
    return count_column(values, column == qid, _row_bytes(empty, {label, column}))


@contextmanager
def _table(name: str) -> Iterator[Any]:
    """A Parquet file; whatever is wrong with it becomes a sentence."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(name) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise FileFormatError(f"{name}: cannot be read as Parquet: {error}") from None


def _read_column(file: Any, column: str) -> Any:
    return file.read([column], use_threads=False).to_pandas()[column].to_numpy()


def _store_parts(folder: Path) -> list[Part]:
    data, name = open_store(folder), str(folder.resolve())
    files = sum(file.stat().st_size for file in folder.rglob("X*.npy"))
    n_parts = max(LEAST_PARTS, round(files / STORE_PART))
    return [
        Part(
            delayed(_read_store)(name, a, b),
            delayed(_count_store)(name, a, b),
            int(data.query_ptr[b] - data.query_ptr[a]),
        )
        for a, b in split(data.query_ptr, n_parts)
    ]


def _read_store(name: str, first: int, last: int) -> Rows:
    data = open_store(name)
    a, b = data.query_ptr[first], data.query_ptr[last]
    X = data.X[a:b] if data.is_sparse else np.array(data.X[a:b])
    more = {
        "sample_weight": data.weight,
        "query_weight": None if data.query_weight is None else np.repeat(
            data.query_weight, np.diff(data.query_ptr)
        ),
        "propensity": data.propensity,
        "margin": data.margin,
    }  # fmt: skip
    given = {key: values[a:b] for key, values in more.items() if values is not None}
    return check_part(
        name, X, data.y[a:b], data.qid[a:b], feature_names=data.feature_names,
        index_base=data.index_base, **given,
    )  # fmt: skip


def _count_store(name: str, first: int, last: int) -> Census:
    data = open_store(name)
    ptr, X = data.query_ptr[first : last + 1], data.X
    n_bytes = (ptr[-1] - ptr[0]) * data.n_features * data.dtype.itemsize
    if data.is_sparse:
        n_entries = X.indptr[ptr[-1]] - X.indptr[ptr[0]]
        n_bytes = n_entries * (X.data.itemsize + X.indices.itemsize)
    return Census(np.array(data.query_ids[first:last]), np.diff(ptr), int(n_bytes))


# Collections ------------------------------------------------------------------------------------


def frame_parts(X: dd.DataFrame, y: Any = None, qid: Any = None, **more: Any) -> list[Part]:
    """The partitions of a Dask DataFrame; other arguments are names of its columns, or Series."""
    y = LABEL if y is None else y
    qid = QID if qid is None and QID in X.columns else qid
    columns = {"y": y, "qid": qid, **more}
    named = {name: value for name, value in columns.items() if isinstance(value, str)}
    for name, column in named.items():
        if column not in X.columns:
            raise DataError(f"{name} is {column!r}, which is no column of X: {list(X.columns)}")
    others = {n: v for n, v in columns.items() if v is not None and n not in named}
    blocks = {name: _series_blocks(name, value, X.npartitions) for name, value in others.items()}
    row_bytes, by_name = _row_bytes(X._meta, set(named.values())), qid is not None
    ids = qid if by_name else y
    counted = (X[ids] if isinstance(ids, str) else ids).to_delayed()
    return [
        Part(
            delayed(_read_frame)(
                f"partition {k}", frame, named, {name: own[k] for name, own in blocks.items()}
            ),
            delayed(count_column)(counted[k], by_name, row_bytes),
        )
        for k, frame in enumerate(X.to_delayed())
    ]


def _row_bytes(frame: Any, others: set[str]) -> int:
    """What a row of the features of a table takes."""
    features = frame.drop(columns=sorted(others))
    return len(features.columns) * _float_of(features)().itemsize


def _float_of(features: Any) -> type[np.floating[Any]]:
    """What all features of a table become: floats of one size."""
    return np.float32 if (features.dtypes == np.float32).all() else np.float64


def count_column(values: Any, has_qid: bool, row_bytes: int) -> Census:
    """Count the ids of a part, or only its rows."""
    values = np.asarray(values)
    n_docs = len(values)
    ids = check_ids(values, n_docs) if has_qid and n_docs else None
    return count(ids, n_docs, row_bytes * n_docs)


def _series_blocks(name: str, values: Any, n: int) -> Sequence[Delayed]:
    import dask.dataframe as dd

    if not isinstance(values, dd.Series) or values.npartitions != n:
        raise DataError(
            f"{name} must be the name of a column of X, or a Dask Series with as many partitions "
            f"as X has, {n}"
        )
    return values.to_delayed()


def _read_frame(part: str, frame: Any, named: dict[str, Any], others: dict[str, Any]) -> Rows:
    features = _check_columns(part, frame, named)
    columns = {name: frame[column] for name, column in named.items() if column is not None}
    arrays = {name: values.to_numpy() for name, values in (columns | others).items()}
    return check_part(part, features.to_numpy(), feature_names=list(features.columns), **arrays)


def _check_columns(part: str, frame: Any, named: dict[str, Any]) -> Any:
    """The columns of features, which must be numbers; those that are named must be there."""
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"{part}: there are several columns {twice!r}")
    others = [column for column in named.values() if column is not None]
    missing = [column for column in others if column not in frame]
    if missing:
        raise DataError(f"{part}: there is no column {missing[0]!r}")
    features = frame.drop(columns=others)
    wrong = [c for c in features.columns if features[c].dtype.kind not in "biuf"]
    if wrong:
        raise DataError(
            f"{part}: column {wrong[0]!r} holds {features[wrong[0]].dtype}; features must be "
            "numbers, and the other columns y, qid or weights by name"
        )
    return features


def array_parts(X: da.Array, y: Any = None, qid: Any = None, **more: Any) -> list[Part]:
    """The blocks of rows of a Dask Array; other arguments are Dask Arrays too."""
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (documents × features), not {X.ndim}")
    if y is None:
        raise DataError("y is None; expected a Dask Array with one label per row")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    given = {"y": y, "qid": qid, **more}
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
        raise DataError(f"{name} must be a Dask Array with one entry per row, as X is one")
    known = not np.isnan(np.array(X.chunks[0] + values.chunks[0], dtype=float)).any()
    if known and values.shape[0] != X.shape[0]:
        raise DataError(f"{name} has {values.shape[0]} entries but X has {X.shape[0]} rows")
    if known:
        values = values.rechunk((X.chunks[0],))
    if values.numblocks[0] != X.numblocks[0]:
        raise DataError(
            f"{name} has {values.numblocks[0]} blocks but X has {X.numblocks[0]}, of sizes that "
            "are not known before they are computed: give them the same blocks"
        )
    return values.to_delayed()


def _read_blocks(part: str, X: Any, columns: dict[str, Any]) -> Rows:
    return check_part(part, X, **columns)
