"""`load`: read a file or a folder in any known format.

`FORMATS` is the registry. To add a format, write its reader in a module of this package, and add
one line to `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..errors import DataError, FileFormatError
from .columns import Columns
from .letor import read_letor_into
from .ranking import RankingData
from .source import list_files
from .store import is_store, open_expected_store
from .table_files import (
    OpenTable,
    is_arrow,
    is_csv,
    is_parquet,
    open_arrow,
    open_csv,
    open_parquet,
    read_tables,
)

StrPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Format:
    """A data format that `load` can read.

    Attributes
    ----------
    name : str
        Short name, such as ``"parquet"``.
    description : str
        What the format is called in messages.
    recognises : callable
        Takes a path, and returns whether the file or folder there is of this format.
    read : callable
        Takes a path and the options of `load`, and returns `RankingData`.
    open_table : callable, optional
        Opens a file as a `TableFile`; None for files that are no tables.
    """

    name: str
    description: str
    recognises: Callable[[Path], bool]
    read: Callable[..., RankingData]
    open_table: OpenTable | None = None


def _table(
    name: str, description: str, recognises: Callable[[Path], bool], open_table: OpenTable
) -> Format:
    return Format(name, description, recognises, partial(read_tables, open_table), open_table)


#: All formats. The first one that recognises a path reads it, so the last one takes all others.
FORMATS = (
    Format("store", "a linrank store", is_store, open_expected_store),
    _table("parquet", "a Parquet file", is_parquet, open_parquet),
    _table("arrow", "an Arrow file", is_arrow, open_arrow),
    _table("csv", "a CSV file", is_csv, open_csv),
    Format("letor", "a LETOR text file", lambda path: True, read_letor_into),
)


def find_format(path: StrPath) -> Format:
    """Return the format of a file or folder; the files of a folder must have one format.

    Examples
    --------
    >>> find_format("train.txt").name, find_format("train.parquet").name
    ('letor', 'parquet')
    """
    path = Path(path)
    if path.is_dir() and not is_store(path):
        found = {known.name: known for known in map(find_format, list_files(path))}
        if len(found) > 1:
            raise FileFormatError(
                f"{path}: the folder holds files of different formats ({', '.join(sorted(found))});"
                " expected one format. Move other files elsewhere"
            )
        return next(iter(found.values()))
    return next(known for known in FORMATS if known.recognises(path))


def load(
    path: StrPath,
    *,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    **options: Any,
) -> RankingData:
    r"""Read ranked data: a store, LETOR text, or a Parquet, Arrow or CSV file.

    Parameters
    ----------
    path : path-like
        A file, a store, or a folder of files that have one format. The format is recognised by
        the content, and by the name if there is no content.
    n_features, index_base
        See `linrank.read_letor`. It is an error if a store was made with other values.
    **options
        - The columns of a table: ``label``, ``qid``, ``doc_id``, ``features``, ``ignore``,
          ``sample_weight``, ``query_weight``, ``propensity`` and ``margin``. See
          `linrank.RankingData.from_frame`.
        - ``allow_missing=True`` if features may be NaN.
        - ``categories="onehot"`` if a table has features that are text; see
          `linrank.RankingData.from_frame`.
        - The other options of the reader: `linrank.read_letor`, or for tables
          `linrank.data.table_files.read_tables`. They have no effect on a store, whose arrays exist
          already.

    Returns
    -------
    RankingData

    Raises
    ------
    FileFormatError
        If the file or folder cannot be read.

    See Also
    --------
    linrank.read_letor, linrank.open_store, linrank.RankingData.from_frame

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.csv")
    >>> _ = path.write_text("grade,query,bm25\n1,a,0.5\n0,a,0.25\n")
    >>> load(path, label="grade", qid="query")
    RankingData(2 documents, 1 queries, 1 features, dense float64)
    """
    return open_reader(path, options)(n_features=n_features, index_base=index_base)


def open_reader(path: StrPath, options: dict[str, Any]) -> Callable[..., RankingData]:
    """Return the function that reads a path, with the options of `load` that its format has.

    Options are checked against the format: only tables have columns.
    """
    if not os.path.exists(path):
        raise FileFormatError(
            f"{os.fspath(path)}: no such file or folder; expected LETOR text, a Parquet, Arrow or "
            "CSV file, or a store"
        )
    found = find_format(path)
    columns, rest = Columns.split(options)
    if "feature_names" in rest and found.name != "letor":
        raise DataError(
            f"{os.fspath(path)}: feature_names is for LETOR text, but the path is "
            f"{found.description}, which has names. Leave out feature_names (--feature-names)"
        )
    if found.open_table is not None:
        return partial(found.read, path, columns=columns, **rest)
    refuse_columns(path, found, columns)
    if isinstance(rest.pop("categories", None), str):
        raise DataError(
            f"{os.fspath(path)}: categories is about columns of text, but {found.description} "
            "holds numbers. Leave out categories (--categories)"
        )
    rest.pop("needs_label", None)
    return partial(found.read, path, **rest)


def refuse_columns(path: StrPath, found: Format, columns: Columns) -> None:
    """Raise a `DataError` if columns are named, for a format that has none."""
    for name in columns.given():
        raise DataError(
            f"{os.fspath(path)}: {name} names a column, but {found.description} has no columns "
            f"to choose. Leave out {name} (--{name.replace('_', '-')})"
        )
