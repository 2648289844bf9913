"""Tables on disk: Parquet, Arrow and CSV files, read into `RankingData`."""

from __future__ import annotations

import io
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .._util.types import Array
from ..errors import DataError, FileFormatError, LinrankError, prefix_file_errors
from .categories import CategoriesLike, chosen_texts, fit_categories
from .columns import Chosen, Columns, no_column
from .frames import (
    CategoryColumn,
    IdColumn,
    Labelled,
    check_features,
    feature_type,
    fill_rows,
    id_columns,
    labelled,
    needs,
    text_columns,
)
from .ids import Ids
from .letor import Allocate, Progress, allocate_in_memory, check_dtype
from .ranking import RankingData
from .source import (
    ARROW,
    PARQUET,
    decompress,
    find_decompressor,
    find_delimiter,
    list_files,
    read_start,
)
from .validation import group_by_query

if TYPE_CHECKING:
    import pyarrow as pa


# --------------------------------------------------------------------------------------------------
# Files of tables: one row per document, one column per feature.
#
# Parquet, Arrow and CSV files differ in how they are opened: a function yields a `TableFile`. This
# module reads the columns of such files into `RankingData`. The features are copied in batches of
# rows, so that little more memory than X is in use.


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


class TableHead(NamedTuple):
    """The columns of files that are not numbers of features, and the shape of these numbers."""

    files: list[str]
    given: list[str]  #: the columns with features
    numbers: list[str]  #: those of them that hold numbers; the others hold text
    dtype: np.dtype[Any]
    others: Labelled
    texts: dict[str, Ids]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the numbers."""
        return len(self.others.y), len(self.numbers)


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
    categories: CategoriesLike = None,
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
    categories : optional
        What becomes of columns of text; see `linrank.RankingData.from_frame`.
    """
    if index_base not in ("auto", 0, 1):
        raise DataError(f"index_base is {index_base!r}; expected 'auto', 0 or 1")
    head = read_head(open_table, path, columns or Columns(), needs_label, categories)
    with prefix_file_errors(path):
        found = fit_categories(categories, head.texts)
    names = found.names(head.given)
    if n_features is not None and n_features != len(names):
        raise FileFormatError(
            f"{os.fspath(path)}: the file has {len(names)} features, but "
            f"{n_features} are expected. Choose the columns with features= or ignore= (--features, "
            "--ignore)"
        )
    with prefix_file_errors(path):
        y, qid, doc_ids, per_row = head.others
        grouping = group_by_query(qid, len(y))
        X = allocate("X", head.shape, head.dtype if dtype is None else check_dtype(dtype))
        places = None if grouping.order is None else np.argsort(grouping.order)
        fill_features(open_table, head, X, places, progress)
        texts = head.texts if grouping.order is None else {
            name: own._replace(codes=own.codes[grouping.order]) for name, own in head.texts.items()
        }  # fmt: skip
        return RankingData(
            found.matrix(X, head.given, texts), y, grouping, doc_ids=doc_ids,  # type: ignore[arg-type]
            feature_names=names, n_threads=n_threads, categories=found,
            index_base=1 if index_base == "auto" else index_base, allow_missing=allow_missing,
            **per_row,
        )  # fmt: skip


def read_head(
    open_table: OpenTable,
    path: StrPath,
    columns: Columns,
    needs_label: bool = True,
    categories: CategoriesLike = None,
) -> TableHead:
    """Read all columns but the numbers of features from a file, or from the files of a folder."""
    import_pyarrow(path)
    import pyarrow as pa

    files, parts = [str(file) for file in list_files(Path(path))], []
    chosen, dtypes, ids = None, set(), dict[str, IdColumn]()
    texts, numbers = dict[str, CategoryColumn](), list[str]()
    for file in files:
        with open_table(file) as table, prefix_file_errors(file):
            if chosen is None:
                chosen = _choose(columns, table.schema.names, needs_label)
                ids = id_columns(chosen)
                texts = _category_columns(table, chosen, categories)
                numbers = [name for name in chosen.features if name not in texts]
            _check_same(chosen, table.schema.names)
            check_features(table.schema, numbers)
            dtypes.add(feature_type(table.schema, numbers))
            parts.append(_read_others(table, chosen, {**ids, **texts}))
    assert chosen is not None
    with prefix_file_errors(path), arrow_errors(path, "one table"):
        whole = pa.concat_tables(parts, promote_options="permissive")
        if not whole.num_rows:
            raise DataError("there are no rows. Use data with at least one row")
        others = labelled(whole, chosen, ids)
    values = {name: column.values() for name, column in texts.items()}
    return TableHead(files, chosen.features, numbers, np.result_type(*dtypes), others, values)


def _category_columns(
    table: TableFile, chosen: Chosen, categories: CategoriesLike
) -> dict[str, CategoryColumn]:
    """Return an empty `CategoryColumn` for each column of text that becomes features."""

    def find() -> list[str]:
        known = set(text_columns(table.schema))
        return [name for name in chosen.features if name in known]

    return {name: CategoryColumn(name) for name in chosen_texts(categories, chosen.features, find)}


def _read_others(
    table: TableFile, chosen: Chosen, ids: Mapping[str, IdColumn | CategoryColumn]
) -> pa.Table:
    """Add ids and texts of a file to `ids`, and return its other columns that are no features."""
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
    head: TableHead,
    X: Array,
    places: Array | None = None,
    progress: Progress | None = None,
) -> None:
    """Copy the features of files into X; row r goes to row ``places[r]``, by default to row r."""
    first = 0 if head.numbers else len(X)
    for file in head.files if head.numbers else ():
        with open_table(file) as table:
            first = fill_rows(table.read(head.numbers, ()), X, places, progress, first)
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


# --------------------------------------------------------------------------------------------------
# CSV and TSV files with a header, plain or compressed.


CSV_SUFFIXES = {".csv": ",", ".tsv": "\t"}  #: suffixes with their usual delimiters
BLOCK_BYTES = 1 << 22  #: text parsed at a time; larger blocks take more memory
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


def is_csv(path: Path) -> bool:
    """Return whether a path is a CSV file: by its content, or by its name if it has none."""
    start = read_start(path)
    if start:
        return find_delimiter(start) is not None
    return _usual_delimiter(path) is not None


def _usual_delimiter(path: Path) -> str | None:
    suffixes = [suffix for suffix in path.suffixes if suffix.lower() not in _COMPRESSED]
    return CSV_SUFFIXES.get(suffixes[-1].lower()) if suffixes else None


@contextmanager
def open_csv(name: str) -> Iterator[TableFile]:
    """Open a CSV file. The types of its columns are those of the first block."""
    path = Path(name)
    with arrow_errors(name, "CSV"):
        import pyarrow as pa

        delimiter = find_delimiter(read_start(path)) or _usual_delimiter(path) or ","
        text = _Text(name, delimiter)
        with text.opened(None) as reader:
            types = {field.name: _wide(field.type) for field in reader.schema}
            names = reader.schema.names
        schema = pa.schema([(column, types[column]) for column in names])
        yield TableFile(schema, partial(_read_csv, text, schema))


def _wide(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column: later blocks may hold decimals where the first has integers."""
    import pyarrow as pa

    is_number = pa.types.is_integer(kind) or pa.types.is_null(kind)
    return pa.float64() if is_number else kind


class _Text(NamedTuple):
    """The text of a CSV file, which is read once for each pass over it."""

    name: str
    delimiter: str

    @contextmanager
    def opened(self, convert: Any) -> Iterator[Any]:
        """Open a reader of record batches."""
        import pyarrow as pa
        from pyarrow import csv

        # A thread of pyarrow reads ahead. If it calls Python while the interpreter exits, the
        # process aborts. Plain files are therefore read without Python, and the reading of a
        # compressed file is brought to its end.
        with Path(self.name).open("rb") as file:
            decompressor = find_decompressor(file.read(8))
            file.seek(0)
            pieces = _CsvPieces(decompress(self.name, file, decompressor) if decompressor else ())
            reader = csv.open_csv(
                io.BufferedReader(pieces) if decompressor else pa.OSFile(self.name),
                read_options=csv.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=csv.ParseOptions(delimiter=self.delimiter),
                convert_options=convert or csv.ConvertOptions(),
            )
            try:
                yield reader
            finally:
                pieces.stop()
                if decompressor:
                    with suppress(Exception):  # No caller asks for these rows.
                        deque(reader, maxlen=0)


def _read_csv(
    text: _Text, schema: pa.Schema, names: Sequence[str], ids: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv

    types = {name: pa.string() if name in ids else schema.field(name).type for name in names}
    options = csv.ConvertOptions(
        include_columns=list(names), column_types=types, strings_can_be_null=True
    )
    if ids:
        options.null_values = [""]  # "NA" and "null" may be ids.
    with text.opened(options) as reader:
        try:
            yield from reader
        except pa.ArrowInvalid as error:
            raise FileFormatError(f"{text.name}: {_problem(str(error), schema)}") from None


def _problem(reason: str, schema: pa.Schema) -> str:
    """Return what is wrong with a CSV file, with the name of the column."""
    found = re.search(r"column #(\d+).*invalid value '(.*)'", reason)
    if found is None:
        return reason
    name, value = schema.names[int(found[1])], found[2]
    return f"column {name!r} holds {value!r}; expected a number"


class _CsvPieces(io.RawIOBase):
    """A file object over pieces of bytes."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = filter(None, pieces)
        self._rest = b""

    def stop(self) -> None:
        """End the file here."""
        self._pieces = iter(())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        n_bytes = min(len(buffer), len(self._rest))
        buffer[:n_bytes], self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return n_bytes


# --------------------------------------------------------------------------------------------------
# Arrow files (Feather of version 2): record batches on disk, which are mapped into memory.


ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")


def is_arrow(path: Path) -> bool:
    """Return whether a path is an Arrow file, by its name or its first bytes."""
    return path.suffix.lower() in ARROW_SUFFIXES or read_start(path).startswith(ARROW)


@contextmanager
def open_arrow(name: str) -> Iterator[TableFile]:
    """Open an Arrow file."""
    with arrow_errors(name, "Arrow"):
        import pyarrow as pa

        with pa.memory_map(name) as file:
            yield TableFile(pa.ipc.open_file(file).schema, partial(_read_arrow, file))


def _read_arrow(
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


# --------------------------------------------------------------------------------------------------
# Parquet files.


PARQUET_SUFFIXES = (".parquet", ".pq")
BATCH_ROWS = 8192  #: rows read at a time; more rows take more memory beside X


def is_parquet(path: Path) -> bool:
    """Return whether a path is a Parquet file, by its name or its first bytes."""
    return path.suffix.lower() in PARQUET_SUFFIXES or read_start(path).startswith(PARQUET)


@contextmanager
def open_parquet(name: str) -> Iterator[TableFile]:
    """Open a Parquet file."""
    with arrow_errors(name, "Parquet"):
        from pyarrow.parquet import ParquetFile

        with ParquetFile(name, pre_buffer=False) as file:
            yield TableFile(file.schema_arrow, partial(_read_parquet, name))


def _read_parquet(name: str, names: Sequence[str], ids: Sequence[str]) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile
    from pyarrow.types import is_nested

    # A buffer for all row groups would keep the bytes of the whole file in memory. Ids stay codes
    # of a dictionary, because a small file can repeat a long id millions of times.
    with ParquetFile(name, pre_buffer=False) as file:
        coded = [one for one in ids if not is_nested(file.schema_arrow.field(one).type)]
    with ParquetFile(name, pre_buffer=False, read_dictionary=coded) as file:
        for batch in file.iter_batches(BATCH_ROWS, columns=list(names)):
            yield batch.select(list(names))
