"""Data frames of every kind, made from an Arrow table."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa


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
