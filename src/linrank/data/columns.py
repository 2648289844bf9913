"""Columns of tables: which hold features, and which hold labels and query ids.

Tables are pandas DataFrames here. Parquet files and the partitions of Dask DataFrames share these
checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError

if TYPE_CHECKING:  # pandas is slow to import, and workers of a cluster start often.
    import pandas as pd

LABEL, QID = "label", "qid"  #: default names of the columns with labels and query ids


def feature_columns(
    source: str, frame: pd.DataFrame, named: Mapping[str, str | None]
) -> pd.DataFrame:
    """Return the columns of a table that are features, after checking that they hold numbers.

    Parameters
    ----------
    source : str
        Where the table comes from, for errors: a file or a partition.
    frame : DataFrame
    named : dict of str to str or None
        The column of each other argument, such as ``{"y": "label", "qid": None}``.
    """
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise DataError(f"{source}: there are several columns {twice!r}; names must differ")
    others = [column for column in named.values() if column is not None]
    missing = [column for column in others if column not in frame]
    if missing:
        found = ", ".join(repr(column) for column in list(frame.columns)[:10])
        raise DataError(f"{source}: there is no column {missing[0]!r}; the columns are {found}")
    features = frame.drop(columns=others)
    wrong = [c for c in features.columns if features[c].dtype.kind not in "biuf"]
    if wrong:
        raise DataError(
            f"{source}: column {wrong[0]!r} holds {features[wrong[0]].dtype}; features must be "
            "numbers. Remove the column, or name it as y, qid or a weight"
        )
    return features


def feature_dtype(dtypes: Iterable[object]) -> type[np.floating[Any]]:
    """Return the dtype of X for columns of these dtypes: float32 if all are, otherwise float64."""
    return np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64


def row_bytes(dtypes: Mapping[Any, object], others: Iterable[str]) -> int:
    """Return the bytes that the features of one row take in X; `others` are no features."""
    names = set(others)
    features = [dtype for column, dtype in dtypes.items() if column not in names]
    return len(features) * feature_dtype(features)().itemsize
