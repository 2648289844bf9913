"""LETOR/SVMlight text files: ``label qid:ID index:value … # comment``."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .._checks import whole_number
from .._files import atomic_write
from .._threads import resolve_threads
from .._typing import Array, Integers
from ..errors import DataError
from ._compression import compressed
from ._letor_reader import (
    Allocate,
    Progress,
    ReadOptions,
    allocate_in_memory,
    read_source,
)
from ._letor_writer import MAX_DECIMALS, LetorWriter
from ._source import CHUNK_BYTES, open_source
from ._source_list import open_text
from .checks import MAX_FEATURES, check_n_features
from .ids import parse_ids
from .names import NameFile
from .ranking import RankingData

StrPath = str | os.PathLike[str]


def read_letor(
    path: StrPath,
    *,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    dtype: DTypeLike = np.float64,
    form: Literal["auto", "dense", "csr"] = "auto",
    n_threads: int | None = None,
    progress: Progress | None = None,
    feature_names: StrPath | None = None,
    allow_missing: bool = False,
) -> RankingData:
    r"""Read ranked data from a LETOR or SVMlight text file.

    A line is ``label [qid:ID] [cost:WEIGHT] index:value … [# comment]``, with ascending indices.
    Empty lines and lines that begin with ``#`` are skipped. If no line has a qid, all lines belong
    to one query. The costs of SVMlight become sample weights; a line without a cost then has the
    weight 1. Every number becomes the nearest double, as in Python.

    Parameters
    ----------
    path : path-like
        The file, or a folder of files that are parts of the data. Each is plain text, or compressed
        with gzip, bzip2, xz or zstandard, whatever its name.
        zstandard needs ``pip install 'linrank[zstd]'``. A compressed file is decompressed twice, so
        that its text is never held in memory.
    n_features : int, optional
        The number of features. A line with a larger index is an error. By default, the largest
        index determines the number.
    index_base : {"auto", 0, 1}
        The index of the first feature. "auto" is 0 if any line has a feature 0, otherwise 1.
        Give the number if the data are for a model that was trained on another file.
    dtype : {np.float64, np.float32}
        The type of the features.
    form : {"auto", "dense", "csr"}
        How the features are stored. "auto" is CSR if that takes less than half of the memory,
        otherwise dense. CSR holds only values other than 0.
    n_threads : int, optional
        Number of threads; by default all cores.
    progress : callable, optional
        Called repeatedly with the fraction of the work that is done.
    feature_names : path-like, optional
        A file with the names of the features: one per line, or lines of an index and a name.
    allow_missing : bool
        Whether a feature may be ``nan``, which stands for a missing value.

    Returns
    -------
    RankingData
        Query ids are integers if each of them is the canonical form of one, as 7 is; otherwise,
        as with 007, they are strings. Comments are kept if there are any.

    Raises
    ------
    FileFormatError
        If the file cannot be read; the message names the file and the line.

    See Also
    --------
    write_letor : Write a LETOR text file.
    linrank.convert : Convert a text file into a store, which opens in no time.

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
    return read_letor_into(
        path, n_features=n_features, index_base=index_base, dtype=dtype, form=form,
        n_threads=n_threads, progress=progress, feature_names=feature_names,
        allow_missing=allow_missing,
    )  # fmt: skip


def read_letor_into(
    path: StrPath,
    *,
    progress: Progress | None = None,
    allocate: Allocate = allocate_in_memory,
    feature_names: StrPath | None = None,
    **options: Any,
) -> RankingData:
    """Read a LETOR text file into arrays that `allocate` provides; see `read_letor`."""
    checked = check_options(**options)
    names = None if feature_names is None else NameFile.read(feature_names)
    with open_text(path) as source:
        data = read_source(source, checked, allocate, progress)
    if names is not None:
        data.feature_names = names.of(data.n_features, data.index_base)
    return data


def write_letor(path: StrPath, data: RankingData, *, decimals: int | None = None) -> None:
    """Write ranked data as a LETOR text file.

    Rows are written in the order in which the caller gave them. `read_letor` returns the same
    data, bit for bit, unless `decimals` is given. Missing values are written as ``nan``. Weights
    and names of features are not written.

    Parameters
    ----------
    path : path-like
        The file. If the name ends in .gz, .bz2, .xz or .zst, the file is compressed. An existing
        file is replaced after the new one is complete; if writing fails, it is kept.
    data : RankingData
        All features of dense data are written; of CSR data, those that are not 0. The first line
        always contains the last feature (and feature 0 if the index base is 0), so that a reader
        finds the number of features.
    decimals : int, optional
        Round features to this many decimals, from 0 to 15. The LETOR data sets have 6.

    Raises
    ------
    DataError
        If the file cannot be written, or if a query id or comment does not fit into a line.

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


class LetorCounts(NamedTuple):
    """What a LETOR text file holds, without the values of the features."""

    query_ids: Array
    n_docs: Integers  #: of each query
    n_entries: int  #: feature values in all lines


def count_letor(path: StrPath) -> LetorCounts:
    r"""Count the documents of each query in a LETOR text file, without parsing the features.

    Memory holds a few chunks of the text and the query ids.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.txt")
    >>> _ = path.write_text("2 qid:7 1:0.5 2:1\n0 qid:7 2:0.25\n")
    >>> count_letor(path)
    LetorCounts(query_ids=array([7]), n_docs=array([2]), n_entries=3)
    """
    counts, n_entries = Counter[bytes](), 0
    with open_source(path) as source:
        for chunk in source.chunks(CHUNK_BYTES):
            for line in chunk.text[chunk.first : chunk.last].tobytes().splitlines():
                words = line.partition(b"#")[0].split()
                has_qid = len(words) > 1 and words[1].startswith(b"qid:")
                if words:
                    counts[words[1][4:] if has_qid else b"0"] += 1
                    n_entries += len(words) - 1 - has_qid
            source.release([chunk])
    ids = parse_ids([qid.decode(errors="replace") for qid in counts])
    return LetorCounts(ids, np.array(list(counts.values())), n_entries)


def check_options(
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    dtype: DTypeLike = np.float64,
    form: str = "auto",
    n_threads: int | None = None,
    allow_missing: bool = False,
) -> ReadOptions:
    """Check the options of `read_letor` and fill in their defaults."""
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
        allow_missing=allow_missing,
    )


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a dtype that the kernels support, or raise a `DataError`."""
    for known in (np.dtype(np.float64), np.dtype(np.float32)):
        if dtype in (known, known.type, known.name):
            return known
    raise DataError(f"dtype is {dtype!r}; expected np.float64 or np.float32")
