"""Data frames as arrays: pandas, polars, pyarrow and all that share their columns with Arrow.

A frame of pandas or polars whose columns are numbers becomes an array without other libraries, and
so does a structured array of numpy. All other frames become Arrow tables by way of narwhals and
pyarrow (``pip install 'linrank[frames]'``).

The names of columns are text everywhere. `column_names` makes them text, and knows which columns
are only numbered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from .._util.types import Array, Integers
from ..errors import DataError
from .categories import Categories, CategoriesLike, chosen_texts, fit_categories
from .columns import Chosen, Columns, column_names, no_column, no_numbers
from .ids import IdReader, Ids
from .validation import Matrix, check_feature_names, check_matrix

if TYPE_CHECKING:
    import pyarrow as pa


# --------------------------------------------------------------------------------------------------
# Columns of Arrow tables as arrays: features, labels, weights and ids.
#
# Frames of all kinds and files of tables share these functions. pyarrow is imported when they are
# called.


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


def text_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that hold text, or categories of any values."""
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_dictionary)
    return [field.name for field in schema if any(test(field.type) for test in tests)]


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def feature_type(schema: pa.Schema, names: Sequence[str]) -> np.dtype[Any]:
    """Return the dtype of X: float32 if all columns of features are, otherwise float64."""
    import pyarrow as pa

    single = len(names) > 0 and all(schema.field(name).type == pa.float32() for name in names)
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
        from pyarrow import types

        if part.null_count:
            raise self._missing(np.flatnonzero(part.is_null().to_numpy(zero_copy_only=False))[0])
        kind = part.type.value_type if types.is_dictionary(part.type) else part.type
        if types.is_nested(kind):
            raise DataError(f"{self._name} holds {kind}; expected numbers or strings")
        if types.is_dictionary(part.type) and _is_number(part.type):
            part = part.cast(kind)
        if types.is_integer(part.type) or types.is_floating(part.type):
            self._reader.add_numbers(part.to_numpy(zero_copy_only=False))
            return
        values, codes = distinct(part, self._name)
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


def distinct(part: pa.Array, name: str) -> tuple[list[Any], Integers]:
    """Return the values in a column that differ, and the place of each row's value among them.

    A missing value is None. `name` is what errors call the column.
    """
    import pyarrow as pa
    from pyarrow import types

    try:
        coded = part if types.is_dictionary(part.type) else part.dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise DataError(f"{name} holds {part.type}; expected numbers or strings") from None
    places = coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used, codes = np.unique(places, return_inverse=True)
    # A dictionary may hold many values that these rows lack.
    return [None if k < 0 else coded.dictionary[k].as_py() for k in used.tolist()], codes


class CategoryColumn:
    """A column of text, which comes in batches and becomes features. Equal texts are held once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reader = IdReader()

    def add(self, part: pa.Array) -> None:
        """Add the values of some rows."""
        self._reader.add(*distinct(part, self._name))

    def values(self) -> Ids:
        """Return all values; missing ones are None."""
        return self._reader.given()


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


# --------------------------------------------------------------------------------------------------
# Data frames as arrays: pandas, polars, pyarrow and all that share their columns with Arrow.


def _is_a(frame: Any, module: str, *names: str) -> bool:
    """Return whether an object is of a class of a module, which is not imported for that."""
    found = sys.modules.get(module)
    return found is not None and isinstance(frame, tuple(getattr(found, name) for name in names))


def is_frame(X: Any, whose: str = "X") -> bool:
    """Return whether an object is a data frame: it has columns that can be exchanged.

    A structured array of numpy is one, too. `whose` is what errors call the object.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"bm25": [0.5]})), is_frame(np.zeros((1, 1)))
    (True, False)
    """
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None and X.ndim == 1
    if isinstance(X, list | tuple | Mapping):
        _refuse_mappings(X, whose)
        return False
    if _is_a(X, "polars", "LazyFrame"):
        return True
    kind = type(X)
    shares = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__dataframe__")
    return shares and (hasattr(kind, "columns") or hasattr(kind, "__dataframe__"))


def _refuse_mappings(X: Any, whose: str) -> None:
    """Raise a `DataError` for a mapping and a list of mappings, whose names would be lost."""
    first = X[0] if isinstance(X, list | tuple) and len(X) else X
    if not isinstance(first, Mapping) or sparse.issparse(first):  # dok_array is a mapping, too
        return
    what, fix = ("a mapping" if first is X else "a list of mappings"), f"pandas.DataFrame({whose})"
    if first is X and all(np.ndim(value) == 0 for value in X.values()):  # one row
        frame = f"pandas.DataFrame([{whose}])"
        fix = f"model_.predict, which takes a mapping, or a frame such as {frame}"
    raise DataError(f"{whose} is {what}; expected an array or a frame. Use {fix}.")


def is_series(X: Any) -> bool:
    """Return whether an object is a pandas Series, such as a row of a frame."""
    return _is_a(X, "pandas", "Series")


def frame_columns(X: Any, whose: str = "X") -> list[str] | None:
    """Return the names of the columns of a data frame as text; see `column_names`.

    None for anything but frames, and for frames whose columns pandas has numbered from 0 on.
    `whose` is what errors call the frame.

    Examples
    --------
    >>> import pandas as pd
    >>> frame_columns(pd.DataFrame({"bm25": [0.5], "pagerank": [2.0]}))
    ['bm25', 'pagerank']
    >>> frame_columns(np.zeros((1, 2))) is None
    True
    """
    return column_names(given_columns(X), whose) if is_frame(X, whose) else None


def given_columns(X: Any) -> list[Any]:
    """Return the names of the columns of a data frame as the frame has them."""
    if isinstance(X, np.ndarray):
        return list(X.dtype.names or ())
    if _is_a(X, "pandas", "DataFrame"):
        return X.columns.tolist()
    if _is_a(X, "polars", "DataFrame"):
        return X.columns
    if _is_a(X, "polars", "LazyFrame"):
        return X.collect_schema().names()
    return arrow_table(X).column_names


def frame_matrix(X: Any, names: Sequence[str] | None = None) -> Matrix:
    """Return columns of a data frame as an array of shape (n_docs, n_features).

    The array is float32 if all columns are, otherwise float64. Missing values become NaN. The array
    may be a view of the frame, in any memory order. Sparse columns of pandas become a CSR matrix.

    Parameters
    ----------
    X : data frame
    names : sequence of str, optional
        The columns, in their order in the array; by default all columns.

    Raises
    ------
    DataError
        If a column is missing or holds no numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"bm25": [0.5], "id": ["A"], "clicks": [3]})
    >>> frame_matrix(frame, ["clicks", "bm25"])
    array([[3. , 0.5]])
    """
    if names is not None:
        X = choose_columns(X, names)
    if _is_a(X, "polars", "LazyFrame"):
        X = X.collect()
    values = None
    if isinstance(X, np.ndarray):
        values = _record_numbers(X)
    elif _is_a(X, "pandas", "DataFrame"):
        values = _pandas_numbers(X)
    elif _is_a(X, "polars", "DataFrame"):
        values = _polars_numbers(X)
    return _arrow_numbers(arrow_table(X)) if values is None else values


class Features(NamedTuple):
    """A matrix, the names of its columns if they have any, and what became of columns of text."""

    X: Matrix
    names: list[str] | None
    categories: Categories


def frame_features(X: Any, names: Sequence[str], categories: CategoriesLike = None) -> Features:
    """Return columns of a data frame as features.

    Parameters
    ----------
    X : data frame
    names : sequence of str
        The columns, in their order.
    categories : optional
        What becomes of columns of text; see `linrank.RankingData.from_frame`. None: an error.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"lang": ["fr", "de"], "clicks": [3, 4]})
    >>> found = frame_features(frame, ["clicks", "lang"], "onehot")
    >>> found.names, found.X.tolist()
    (['clicks', 'lang=de', 'lang=fr'], [[3.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    """
    X = choose_columns(X, names)
    if _is_a(X, "polars", "LazyFrame"):
        X = X.collect()
    texts = chosen_texts(categories, names, lambda: _text_columns(X))
    columns = {name: _text_column(X, name) for name in texts}
    found = fit_categories(categories, columns)
    numbers = [name for name in names if name not in columns]
    matrix = frame_matrix(X, numbers) if numbers else np.empty((len(X), 0))
    return Features(found.matrix(matrix, names, columns), found.names(names), found)


def _text_columns(X: Any) -> list[str]:
    """Return the columns of a data frame that hold text or categories."""
    if _is_a(X, "pandas", "DataFrame"):
        numbers = [name for name, kind in X.dtypes.items() if kind.kind in "biufmMc"]
        X = X.drop(columns=numbers)
    elif _is_a(X, "polars", "DataFrame"):
        X = X.select([name for name, kind in X.schema.items() if not kind.is_numeric()])
    return text_columns(arrow_table(X).schema)


def _text_column(X: Any, name: str) -> Ids:
    """Return the values of one column of a data frame, as a `CategoryColumn` does."""
    column = CategoryColumn(name)
    for part in arrow_table(_with_codes(choose_columns(X, [name]), [name]))[name].chunks:
        column.add(part)
    return column.values()


def choose_columns(X: Any, names: Sequence[str]) -> Any:
    """Return a data frame with some of its columns, in the given order.

    Examples
    --------
    >>> import pandas as pd
    >>> choose_columns(pd.DataFrame({10: [0.5], 20: [2.0]}), ["20"]).columns.tolist()
    ['20']
    """
    found, names = list(map(str, given_columns(X))), list(names)
    absent = set(names) - set(found)
    if absent:
        raise DataError(no_column(next(name for name in names if name in absent), found))
    if _is_a(X, "pandas", "DataFrame"):
        X = X if found == X.columns.tolist() else X.set_axis(found, axis=1)
        return X if found == names else X[names]
    if isinstance(X, np.ndarray):
        return X[names]
    return (X if _is_a(X, "polars", "DataFrame", "LazyFrame") else arrow_table(X)).select(names)


def column_values(X: Any, name: str) -> list[Any]:
    """Return the values of one column of a data frame as a list.

    Examples
    --------
    >>> import pandas as pd
    >>> column_values(pd.DataFrame({"id": ["A", "B"], "clicks": [3, 4]}), "id")
    ['A', 'B']
    """
    chosen = choose_columns(X, [name])
    if isinstance(X, np.ndarray) or _is_a(X, "pandas", "DataFrame"):
        return chosen[name].tolist()
    return arrow_table(chosen)[name].to_pylist()


def read_frame(
    frame: Any, columns: Columns, categories: CategoriesLike
) -> tuple[Features, Labelled]:
    """Return the columns of a data frame as arrays."""
    if not is_frame(frame):
        raise DataError(
            f"the frame is {type(frame).__name__}; expected a data frame. For arrays, use "
            "RankingData(X, y, qid)"
        )
    if _is_a(frame, "polars", "LazyFrame"):
        frame = frame.collect()
    if not (isinstance(frame, np.ndarray) or _is_a(frame, "pandas", "DataFrame")
            or _is_a(frame, "polars", "DataFrame")):  # fmt: skip
        frame = arrow_table(frame)
    frame = _with_index(frame, columns)
    chosen = columns.choose(list(map(str, given_columns(frame))))
    if not chosen.features:
        raise DataError("there are no features: every column of the frame has another use")
    ids = id_columns(chosen)
    table = arrow_table(_with_codes(choose_columns(frame, chosen.others), list(ids)))
    for name, column in ids.items():
        column.add_all(table[name])
    return frame_features(frame, chosen.features, categories), labelled(table, chosen, ids)


def _with_index(frame: Any, columns: Columns) -> Any:
    """Return a frame in which levels of a pandas index that have a use are columns.

    Other levels are left out. An index of document ids would otherwise become a feature.
    """
    if not _is_a(frame, "pandas", "DataFrame"):
        return frame
    levels = enumerate(frame.index.names)
    used = {k: str(name) for k, name in levels if name is not None and columns.names(str(name))}
    if not used:
        return frame
    frame, names = frame.set_axis(list(map(str, frame.columns)), axis=1), list(used.values())
    twice = [name for k, name in enumerate(names) if name in frame or name in names[:k]]
    if twice:
        raise DataError(
            f"{twice[0]!r} is the name of a level of the index and of another level or column. "
            "Rename one of them"
        )
    return frame.assign(**{name: frame.index.get_level_values(k) for k, name in used.items()})


def _with_codes(frame: Any, ids: list[str]) -> Any:
    """Return a frame in which ids that are text are codes; Arrow would repeat each text."""
    if _is_a(frame, "pandas", "DataFrame"):
        objects = [name for name in ids if frame[name].dtype == object]
        with suppress(TypeError):  # Lists are refused later.
            return frame.astype(dict.fromkeys(objects, "category"))
    if _is_a(frame, "polars", "DataFrame"):
        polars = sys.modules["polars"]
        texts = [name for name in ids if frame.schema[name] == polars.String]
        return frame.with_columns(polars.col(texts).cast(polars.Categorical))
    return frame


def _record_numbers(records: Array) -> Array | None:
    """Return a structured array of numbers as an array; None if a field needs a conversion."""
    fields = [records.dtype[name] for name in given_columns(records)]
    if not all(field.kind in "biuf" for field in fields):  # A field that holds arrays has kind V.
        return None
    from numpy.lib.recfunctions import structured_to_unstructured

    single = all(field == np.float32 for field in fields)
    return structured_to_unstructured(records, np.float32 if single else np.float64)


def _pandas_numbers(frame: Any) -> Matrix | None:
    """Return a pandas DataFrame of numbers as an array; None if a column needs a conversion.

    If all columns are sparse and their missing entries are 0, the result is a CSR matrix.
    """
    kinds, sparse_type = set(frame.dtypes), sys.modules["pandas"].SparseDtype
    for name, kind in frame.dtypes.items():
        if kind.kind in "mMc":  # dates, durations and complex numbers
            raise DataError(no_numbers(name, kind))
    if all(isinstance(kind, sparse_type) and kind.fill_value == 0 for kind in kinds):
        return frame.sparse.to_coo().tocsr()
    if not all(kind.kind in "biuf" for kind in kinds):
        return None
    if kinds in ({np.dtype(np.float32)}, {np.dtype(np.float64)}):
        return frame.to_numpy()
    # The types of nullable columns and of Arrow columns name the type of their numbers.
    single = {getattr(kind, "numpy_dtype", kind) for kind in kinds} == {np.dtype(np.float32)}
    return frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)


def _polars_numbers(frame: Any) -> Array | None:
    """Return a polars DataFrame of numbers as an array; None if a column needs a conversion."""
    polars, kinds = sys.modules["polars"], set(frame.dtypes)
    if not all(kind.is_numeric() and not kind.is_decimal() for kind in kinds - {polars.Boolean}):
        return None
    if kinds not in ({polars.Float32}, {polars.Float64}):
        frame = frame.cast(polars.Float64)
    return frame.to_numpy()


def _arrow_numbers(table: pa.Table) -> Array:
    names = table.column_names
    check_features(table.schema, names)
    X = np.empty((table.num_rows, len(names)), feature_type(table.schema, names))
    fill_rows(table.to_batches(), X)
    return X


def arrow_table(frame: Any) -> pa.Table:
    """Return a data frame of any kind as an Arrow table."""
    try:
        import pyarrow as pa

        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatch):
            return pa.Table.from_batches([frame])
        if isinstance(frame, np.ndarray):
            return pa.table({name: frame[name] for name in frame.dtype.names or ()})
        if _is_a(frame, "pandas", "DataFrame"):
            return pa.Table.from_pandas(frame, preserve_index=False)
        return _exchanged(frame)
    except ImportError as error:
        raise needs(f"a frame of type {type(frame).__name__}", error) from None
    except (pa.ArrowException, TypeError, OverflowError) as error:
        reason = "; ".join(map(str, error.args))
        raise DataError(f"the frame cannot be read: {reason}") from None


def _exchanged(frame: Any) -> pa.Table:
    """Return a frame as an Arrow table: by narwhals if it knows the frame, or by its protocols."""
    import narwhals
    import pyarrow as pa
    from pyarrow.interchange import from_dataframe

    known: Any = narwhals.from_native(frame, pass_through=True)
    if isinstance(known, narwhals.LazyFrame):
        return known.collect(backend="pyarrow").to_native()
    if isinstance(known, narwhals.DataFrame):
        bad = next((name for name in known.columns if "\0" in str(name)), None)
        if bad is not None:  # polars panics, and its exception is no `Exception`
            raise DataError(f"column {bad!r} has a NUL letter in its name. Rename it")
        return known.to_arrow()
    return pa.table(frame) if hasattr(frame, "__arrow_c_stream__") else from_dataframe(frame)


def features_of(
    X: Any, feature_names: Sequence[str] | None, categories: CategoriesLike = None
) -> Features:
    """Return a checked matrix, and the names of its features if they are given or X has them.

    Unless X is a frame, `categories` are those that X was made with.
    """
    if is_frame(X):
        columns = frame_columns(X)
        X, names, found = frame_features(X, list(map(str, given_columns(X))), categories)
        feature_names = (
            names if feature_names is None and (columns or found.columns) else feature_names
        )
    else:
        found = categories if isinstance(categories, Categories) else Categories()
    X = check_matrix(X)
    if feature_names is not None:
        feature_names = check_feature_names(feature_names, X.shape[1])
    return Features(X, feature_names, found)
