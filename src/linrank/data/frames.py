"""Data frames as arrays: pandas, polars, pyarrow and all that share their columns with Arrow.

A frame of pandas or polars whose columns are numbers becomes an array without other libraries, and
so does a structured array of numpy. All other frames become Arrow tables by way of narwhals and
pyarrow (``pip install 'linrank[frames]'``).

The names of columns are text everywhere. `column_names` makes them text, and knows which columns
are only numbered.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from .._typing import Array
from ..errors import DataError
from ._arrow import (
    Labelled,
    check_features,
    feature_type,
    fill_rows,
    id_columns,
    labelled,
    needs,
)
from .checks import Matrix, check_feature_names, check_matrix
from .columns import Columns, column_names, no_column, no_numbers

if TYPE_CHECKING:
    import pyarrow as pa


def _is_a(frame: Any, module: str, *names: str) -> bool:
    """Return whether an object is of a class of a module, which is not imported for that."""
    found = sys.modules.get(module)
    return found is not None and isinstance(frame, tuple(getattr(found, name) for name in names))


def is_frame(X: Any) -> bool:
    """Return whether an object is a data frame: it has columns that can be exchanged.

    A structured array of numpy is one, too.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"bm25": [0.5]})), is_frame(np.zeros((1, 1)))
    (True, False)
    """
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None and X.ndim == 1
    if isinstance(X, list | tuple | Mapping):
        _refuse_mappings(X)
        return False
    if _is_a(X, "polars", "LazyFrame"):
        return True
    kind = type(X)
    shares = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__dataframe__")
    return shares and (hasattr(kind, "columns") or hasattr(kind, "__dataframe__"))


def _refuse_mappings(X: Any) -> None:
    """Raise a `DataError` for a mapping and a list of mappings, whose names would be lost."""
    first = X[0] if isinstance(X, list | tuple) and len(X) else X
    if isinstance(first, Mapping) and not sparse.issparse(first):  # dok_array is a mapping, too
        what, fix = ("a mapping", "[X]") if first is X else ("a list of mappings", "X")
        raise DataError(
            f"X is {what}; expected an array or a frame. Use model_.predict, which takes a "
            f"mapping, or a frame such as pandas.DataFrame({fix})."
        )


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
    return column_names(given_columns(X), whose) if is_frame(X) else None


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


class FrameParts(NamedTuple):
    """The columns of a data frame as arguments of `RankingData`."""

    X: Matrix
    feature_names: list[str]
    others: Labelled


def read_frame(frame: Any, columns: Columns) -> FrameParts:
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
    return FrameParts(
        frame_matrix(frame, chosen.features), chosen.features, labelled(table, chosen, ids)
    )


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
    except (pa.ArrowException, TypeError) as error:
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
        return known.to_arrow()
    return pa.table(frame) if hasattr(frame, "__arrow_c_stream__") else from_dataframe(frame)


def checked_matrix(X: Any, feature_names: Sequence[str] | None) -> tuple[Matrix, list[str] | None]:
    """Return a checked matrix, and the names of its features if they are given or X has them."""
    if is_frame(X):
        feature_names = frame_columns(X) if feature_names is None else feature_names
        X = frame_matrix(X)
    X = check_matrix(X)
    return X, check_feature_names(feature_names, X.shape[1])
