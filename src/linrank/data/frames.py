"""Data frames as arrays: pandas, polars, pyarrow and all that share their columns with Arrow.

A frame of pandas or polars whose columns are numbers becomes an array without other libraries. All
other frames become Arrow tables by way of narwhals and pyarrow (``pip install 'linrank[frames]'``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
from .columns import Columns, no_column

if TYPE_CHECKING:
    import pyarrow as pa


def _is_a(frame: Any, module: str, *names: str) -> bool:
    """Return whether an object is of a class of a module, which is not imported for that."""
    found = sys.modules.get(module)
    return found is not None and isinstance(frame, tuple(getattr(found, name) for name in names))


def is_frame(X: Any) -> bool:
    """Return whether an object is a data frame: it has columns that can be exchanged.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"bm25": [0.5]})), is_frame(np.zeros((1, 1)))
    (True, False)
    """
    if isinstance(X, np.ndarray | list | tuple):
        return False
    if _is_a(X, "polars", "LazyFrame"):
        return True
    kind = type(X)
    shares = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__dataframe__")
    return shares and (hasattr(kind, "columns") or hasattr(kind, "__dataframe__"))


def is_series(X: Any) -> bool:
    """Return whether an object is a pandas Series, such as a row of a frame."""
    return _is_a(X, "pandas", "Series")


def frame_columns(X: Any) -> list[str] | None:
    """Return the names of the columns of a data frame.

    None for arrays, for frames whose columns pandas has numbered from 0 on, and for frames whose
    names are neither strings nor integers. Integers become strings.

    Examples
    --------
    >>> import pandas as pd
    >>> frame_columns(pd.DataFrame({"bm25": [0.5], "pagerank": [2.0]}))
    ['bm25', 'pagerank']
    >>> frame_columns(np.zeros((1, 2))) is None
    True
    """
    if not is_frame(X):
        return None
    if _is_a(X, "pandas", "DataFrame"):
        names = X.columns.tolist()
        if all(isinstance(name, str) for name in names):
            return names
        is_numbered = names == list(range(len(names)))
        known = not is_numbered and all(isinstance(name, str | int) for name in names)
        return list(map(str, names)) if known else None
    if _is_a(X, "polars", "DataFrame"):
        return X.columns
    if _is_a(X, "polars", "LazyFrame"):
        return X.collect_schema().names()
    return arrow_table(X).column_names


def frame_matrix(X: Any, names: Sequence[str] | None = None) -> Array:
    """Return columns of a data frame as an array of shape (n_docs, n_features).

    The array is float32 if all columns are, otherwise float64. Missing values become NaN. The array
    may be a view of the frame, in any memory order.

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
    if _is_a(X, "polars", "LazyFrame"):
        X = (X if names is None else X.select(_existing(frame_columns(X), names))).collect()
    if _is_a(X, "pandas", "DataFrame"):
        if names is not None and X.columns.tolist() != list(names):
            X = choose_columns(X, names)
        values = _pandas_numbers(X)
    elif _is_a(X, "polars", "DataFrame"):
        if names is not None and X.columns != list(names):
            X = X.select(_existing(X.columns, names))
        values = _polars_numbers(X)
    else:
        X, values = arrow_table(X), None
        if names is not None:
            X = X.select(_existing(X.column_names, names))
    return _arrow_numbers(arrow_table(X)) if values is None else values


def choose_columns(X: Any, names: Sequence[str]) -> Any:
    """Return a data frame with some of its columns, in the given order.

    Examples
    --------
    >>> import pandas as pd
    >>> choose_columns(pd.DataFrame({10: [0.5], 20: [2.0]}), ["20"]).columns.tolist()
    ['20']
    """
    if _is_a(X, "pandas", "DataFrame"):
        if not set(names) <= set(X.columns):
            X = X.set_axis(frame_columns(X) or X.columns, axis=1)
        return X[_existing(X.columns.tolist(), names)]
    return (X if _is_a(X, "polars", "DataFrame") else arrow_table(X)).select(list(names))


class FrameParts(NamedTuple):
    """The columns of a data frame as arguments of `RankingData`."""

    X: Array
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
    if not _is_a(frame, "pandas", "DataFrame") and not _is_a(frame, "polars", "DataFrame"):
        frame = arrow_table(frame)
    frame = _with_index(frame, columns)
    names = list(frame.columns) if hasattr(frame, "dtypes") else frame.column_names
    chosen = columns.choose(names)
    if not chosen.features:
        raise DataError("there are no features: every column of the frame has another use")
    others = frame.select(chosen.others) if hasattr(frame, "select") else frame[chosen.others]
    ids = id_columns(chosen)
    table = arrow_table(_with_codes(others, list(ids)))
    for name, column in ids.items():
        column.add_all(table[name])
    return FrameParts(
        frame_matrix(frame, chosen.features), chosen.features, labelled(table, chosen, ids)
    )


def _with_index(frame: Any, columns: Columns) -> Any:
    """Return a frame in which the named levels of a pandas index are columns, as in Parquet files.

    pandas does not write a range to Parquet files. It is a column only if it has a use.
    """
    if not _is_a(frame, "pandas", "DataFrame"):
        return frame
    is_range = _is_a(frame.index, "pandas", "RangeIndex")
    names = [
        name
        for name in frame.index.names
        if name is not None and (not is_range or columns.names(name))
    ]
    twice = [name for k, name in enumerate(names) if name in frame or name in names[:k]]
    if twice:
        raise DataError(
            f"{twice[0]!r} is the name of a level of the index and of another level or column. "
            "Rename one of them"
        )
    frame = frame.copy(deep=False)
    for name in names:
        frame[name] = frame.index.get_level_values(name)
    return frame


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


def _existing(columns: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Return the names, or raise a `DataError` if a column is missing."""
    known = set(columns or ())
    absent = [name for name in names if name not in known]
    if absent:
        raise DataError(no_column(absent[0], columns or ()))
    return list(names)


def _pandas_numbers(frame: Any) -> Array | None:
    """Return a pandas DataFrame of numbers as an array; None if a column needs a conversion."""
    kinds = set(frame.dtypes)
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
