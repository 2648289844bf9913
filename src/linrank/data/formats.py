"""`load`: read a file or a folder in any known format.

`FORMATS` is the registry. To add a format, write its reader in a module of this package, and add
one line to `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .letor import read_letor
from .parquet import is_parquet, read_parquet
from .ranking import RankingData
from .store import open_expected_store

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
    """

    name: str
    description: str
    recognises: Callable[[Path], bool]
    read: Callable[..., RankingData]


#: All formats. The first one that recognises a path reads it, so the last one takes all others.
FORMATS = (
    Format("store", "a linrank store", Path.is_dir, open_expected_store),
    Format("parquet", "a Parquet file", is_parquet, read_parquet),
    Format("letor", "a LETOR text file", lambda path: True, read_letor),
)


def find_format(path: StrPath) -> Format:
    """Return the format of a file or folder.

    Examples
    --------
    >>> find_format("train.txt").name, find_format("train.parquet").name
    ('letor', 'parquet')
    """
    return next(known for known in FORMATS if known.recognises(Path(path)))


def load(
    path: StrPath,
    *,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    **options: Any,
) -> RankingData:
    r"""Read ranked data: a store, a Parquet file or a LETOR text file.

    Parameters
    ----------
    path : path-like
        A folder is opened as a store. A file is read as Parquet if its name ends in ``.parquet``
        or ``.pq``, or if its content is Parquet; otherwise as LETOR text.
    n_features, index_base
        See `linrank.read_letor`. It is an error if a store was made with other values.
    **options
        The other options of the reader: `linrank.read_letor`, or for Parquet
        `linrank.data.parquet.read_parquet`. They have no effect on a store, whose arrays exist
        already.

    Raises
    ------
    FileFormatError
        If the file or folder cannot be read.

    See Also
    --------
    linrank.read_letor, linrank.open_store, linrank.data.parquet.read_parquet

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n")
    >>> load(path)
    RankingData(2 documents, 1 queries, 1 features, dense float64)
    """
    read = find_format(path).read
    return read(path, n_features=n_features, index_base=index_base, **options)
