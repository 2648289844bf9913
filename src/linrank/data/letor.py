"""LETOR/SVMlight text files: ``label qid:ID index:value … # comment``."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from .._checks import whole_number
from .._files import atomic_write
from .._threads import resolve_threads
from ..errors import DataError
from ._compression import compressed
from ._letor_reader import Progress, ReadOptions, read_source
from ._letor_writer import MAX_DECIMALS, LetorWriter
from ._source import open_source
from .checks import MAX_FEATURES, check_n_features
from .ranking import RankingData

StrPath = str | os.PathLike[str]


def read_letor(
    path: StrPath,
    *,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    dtype: Any = np.float64,
    form: Literal["auto", "dense", "csr"] = "auto",
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> RankingData:
    r"""Read ranked data from a LETOR or SVMlight text file.

    A line is ``label [qid:ID] index:value … [# comment]``. Indices ascend within a line.
    Empty lines and lines that begin with ``#`` are skipped. Without any qid, all lines
    belong to one query. Every number becomes the double nearest to it, as in Python.

    Parameters
    ----------
    path : path-like
        The file: plain, or compressed with gzip, bzip2, xz or zstandard, whatever its
        name. zstandard needs ``pip install linrank[zstd]``. A compressed text is decompressed
        twice rather than held.
    n_features : int, optional
        The number of features. A line with a larger index is an error. By default, as
        many as the largest index asks for.
    index_base : {"auto", 0, 1}
        The index of the first feature. "auto": 0 if any line has a feature 0, else 1.
        Say which when a file is read for a model that was trained on another one.
    dtype : {np.float64, np.float32}
        The type of the features.
    form : {"auto", "dense", "csr"}
        How the features are stored. "auto": as CSR where that takes less than half the
        memory, counting only values other than 0.
    n_threads : int, optional
        By default, all cores.
    progress : callable, optional
        Called now and then with the fraction of the work that is done.

    Returns
    -------
    RankingData
        Query ids are integers where all of them are, otherwise strings. Comments are
        kept where there are any.

    Raises
    ------
    FileFormatError
        Where the file cannot be read; the message names the file and the line.

    See Also
    --------
    write_letor : the way back.
    linrank.data.store.convert : from text to a store, which opens at once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("2 qid:7 1:0.5 2:1 # docid = A\n0 qid:7 2:0.25 # docid = B\n")
    >>> data = read_letor(path)
    >>> data
    RankingData(2 documents, 1 queries, 2 features, dense float64)
    >>> data.X.tolist(), data.doc_ids
    ([[0.5, 1.0], [0.0, 0.25]], ['A', 'B'])
    """
    options = check_options(n_features, index_base, dtype, form, n_threads)
    with open_source(path) as source:
        return read_source(source, options, progress=progress)


def write_letor(path: StrPath, data: RankingData, *, decimals: int | None = None) -> None:
    """Write ranked data as a LETOR text file.

    Rows are written in the order in which the caller gave them. What is read back is the
    same data, bit for bit, unless `decimals` is given; only weights and names of features
    have no place in such a file.

    Parameters
    ----------
    path : path-like
        The file. A name that ends with .gz, .bz2, .xz or .zst is compressed accordingly.
        An existing file is replaced when all is written; if that fails, it stays.
    data : RankingData
        Of dense data all features are written, of CSR data those that are not 0. The first
        line has the last feature in any case (and the first, if it is number 0), so that
        a reader knows how many there are.
    decimals : int, optional
        Round features to so many decimals, from 0 to 15; LETOR's own files have 6.

    Raises
    ------
    DataError
        Where the file cannot be written, or a query id or comment does not fit into a line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "data.txt")
    >>> data = RankingData([[0.5, 2], [0.25, 1 / 3]], [1, 0], qid=["a", "a"], doc_ids=["A", "B"])
    >>> write_letor(path, data)
    >>> print(path.read_text(), end="")
    1 qid:a 1:0.5 2:2 # docid = A
    0 qid:a 1:0.25 2:0.3333333333333333 # docid = B
    >>> write_letor(path, data, decimals=3)
    >>> print(path.read_text(), end="")
    1 qid:a 1:0.500 2:2.000 # docid = A
    0 qid:a 1:0.250 2:0.333 # docid = B
    """
    if decimals is not None:
        decimals = whole_number("decimals", decimals, least=0, most=MAX_DECIMALS)
    writer = LetorWriter(data, decimals)
    with atomic_write(path, "wb") as file, compressed(file, path) as stream:
        for text in writer.blocks(resolve_threads()):
            stream.write(text)


def check_options(
    n_features: int | None = None,
    index_base: Any = "auto",
    dtype: Any = np.float64,
    form: str = "auto",
    n_threads: int | None = None,
) -> ReadOptions:
    """Check the options of `read_letor`."""
    if n_features is not None:
        n_features = whole_number("n_features", n_features, most=MAX_FEATURES)
        check_n_features(n_features)
    if index_base not in ("auto", 0, 1):
        raise DataError(f"index_base is {index_base!r}; expected 'auto', 0 or 1")
    if form not in ("auto", "dense", "csr"):
        raise DataError(f"form is {form!r}; expected 'auto', 'dense' or 'csr'")
    return ReadOptions(
        n_features=n_features,
        index_base=None if index_base == "auto" else int(index_base),
        dtype=check_dtype(dtype),
        form=form,
        n_threads=resolve_threads(n_threads),
    )


def check_dtype(dtype: Any) -> np.dtype[Any]:
    """Check that features of this type are known to the kernels."""
    for known in (np.dtype(np.float64), np.dtype(np.float32)):
        if dtype in (known, known.type, known.name):
            return known
    raise DataError(f"dtype is {dtype!r}; expected np.float64 or np.float32")
