"""Data frames of pandas, polars, pyarrow and others: names, features and `RankingData`."""

from __future__ import annotations

import decimal
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from linrank import DataError, RankingData
from linrank.data.frames import frame_columns, frame_matrix


class Interchanged:
    """A frame that only knows the interchange protocol."""

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, **options):
        return self.table.__dataframe__(**options)


class Streamed:
    """A frame that only knows the Arrow PyCapsule protocol."""

    columns = None

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def batch(table):
    return table.combine_chunks().to_batches()[0]


#: How a frame of each kind is made from an Arrow table.
KINDS = {
    "pandas": pa.Table.to_pandas,
    "pandas-arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "polars-lazy": lambda table: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table: table,
    "pyarrow-batch": batch,
    "interchange": Interchanged,
    "arrow-stream": Streamed,
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@every_kind
def test_names_are_those_of_the_frame(make):
    frame = make(pa.table({"bm25": [0.5, 1.5], "clicks": [3, 4]}))
    assert frame_columns(frame) == ["bm25", "clicks"]
    data = RankingData(frame, [1, 0])
    assert data.feature_names == ["bm25", "clicks"]
    assert data.X.tolist() == [[0.5, 3], [1.5, 4]]
    assert RankingData(frame, [1, 0], feature_names=["a", "b"]).feature_names == ["a", "b"]
    assert RankingData.from_pairs(frame, [[0, 1]]).feature_names == ["bm25", "clicks"]


@every_kind
def test_columns_are_chosen_by_name(make):
    frame = make(pa.table({"a": [0.5, 1.5], "id": ["u", "v"], "b": [3, 4]}))
    assert frame_matrix(frame, ["b", "a"]).tolist() == [[3, 0.5], [4, 1.5]]
    with pytest.raises(DataError, match="no column 'c'; the columns are 'a', 'id', 'b'"):
        frame_matrix(frame, ["a", "c"])
    with pytest.raises(DataError, match=r"column 'id' holds .*string; features must be numbers"):
        frame_matrix(frame)


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_dtype_is_kept(make, dtype):
    values = np.array([[1, 2], [3, 4]], dtype)
    found = frame_matrix(make(pa.table({"a": values[:, 0], "b": values[:, 1]})))
    assert found.dtype == dtype
    assert found.tolist() == values.tolist()


@every_kind
def test_columns_of_several_types_are_double(make):
    columns = {
        "single": pa.array([0.5, None], pa.float32()),
        "tiny": pa.array([1, None], pa.int8()),
        "large": pa.array([2**60, 1], pa.uint64()),
        "half": pa.array(np.array([0.5, 2], np.float16)),
    }
    if make is not Interchanged:  # The protocol has no nulls of booleans and no such types.
        columns["flag"] = pa.array([True, None])
        columns["price"] = pa.array([decimal.Decimal("1.25"), None], pa.decimal128(5, 2))
        columns["grade"] = pa.array([7, 5]).dictionary_encode()
        columns["nothing"] = pa.nulls(2)
    found = frame_matrix(make(pa.table(columns)))
    expected = {
        "single": [0.5, np.nan], "tiny": [1, np.nan], "large": [2.0**60, 1], "half": [0.5, 2],
        "flag": [1, np.nan], "price": [1.25, np.nan], "grade": [7, 5], "nothing": [np.nan] * 2,
    }  # fmt: skip
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.transpose([expected[name] for name in columns]))


def test_objects_of_pandas_are_numbers_if_all_are():
    prices = [decimal.Decimal("1.5"), None]
    frame = pd.DataFrame({"price": prices, "grade": pd.Categorical([3, 1])}, index=[7, 8])
    np.testing.assert_array_equal(frame_matrix(frame), [[1.5, 3], [np.nan, 1]])
    with pytest.raises(DataError, match=r"cannot be read: .* column price with type object"):
        frame_matrix(frame.assign(price=[1, "two"]))


def test_names_that_are_not_strings_are_no_names():
    frame = pd.DataFrame(np.eye(2))
    assert frame_columns(frame) is None
    assert RankingData(frame, [0, 1]).feature_names is None
    assert frame_columns([[1, 2]]) is None
    assert frame_columns(pd.Series([1])) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_of_one_dtype_are_not_copied(dtype):
    frame = pd.DataFrame(np.eye(3, dtype=dtype), columns=list("abc"))
    assert np.shares_memory(frame_matrix(frame, list("abc")), frame.to_numpy())


@every_kind
def test_missing_values_are_named_or_kept(make):
    frame = make(pa.table({"bm25": [0.5, 1.0, 2.0], "clicks": [3, 5, None]}))
    with pytest.raises(DataError, match=r"X\[2, 1\] \(feature 'clicks'\) is NaN; .*'median'"):
        RankingData(frame, [1, 0, 2])
    data = RankingData(frame, [1, 0, 2], [1, 1, 2], allow_missing=True)
    assert data.has_missing
    np.testing.assert_array_equal(data.X, [[0.5, 3], [1, 5], [2, np.nan]])
    full = RankingData([[0.5, 3], [1, 5], [2, 0]], [1, 0, 2], [1, 1, 2])
    np.testing.assert_array_equal(data.query_keys, full.query_keys)


def test_pandas_needs_no_other_library(monkeypatch):
    for name in ("pyarrow", "narwhals", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    frame = pd.DataFrame({"a": [0.5, 1], "b": [1, 2], "c": [True, False]})
    assert RankingData(frame, [0, 1]).X.tolist() == [[0.5, 1, 1], [1, 2, 0]]
    with pytest.raises(DataError, match=r"needs pyarrow .* pip install linrank\[frames\]"):
        RankingData(frame.astype({"b": "category"}), [0, 1])
