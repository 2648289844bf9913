"""Stores: ranked data on disk as a folder of arrays, which are mapped into memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from numpy.typing import DTypeLike

from .._typing import Array
from ..errors import DataError, FileFormatError, about_file
from ._letor_reader import Progress
from ._store_format import META
from ._store_reader import read_store
from ._store_writer import fill, mapped_file, new_store
from .checks import check_finite
from .letor import StrPath
from .ranking import RankingData


def save_store(data: RankingData, path: StrPath) -> None:
    """Save ranked data as a store: a folder with a ``meta.json`` and ``.npy`` files.

    Parameters
    ----------
    data : RankingData
        Query ids that are neither numbers nor strings are saved as strings.
    path : path-like
        The folder. An existing store is replaced in one step after the new one is written. If
        the process is killed, either the old or the new store is complete. It is an error if the
        path is a file, or a folder that holds anything else.

    Raises
    ------
    DataError
        If the store cannot be written.

    See Also
    --------
    open_store : Open a store.
    convert : Convert a text file into a store without holding all of it in memory.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save_store(RankingData([[0.5], [2.0]], [0, 1], qid=["a", "a"]), folder)
    >>> open_store(folder).qid.tolist()
    ['a', 'a']
    """
    if data.pairs is not None:
        raise DataError(
            "a store holds labels; data made by RankingData.from_pairs cannot be saved as one"
        )
    with new_store(path) as folder:
        fill(folder, data, {})


def open_store(path: StrPath, *, mmap: bool = True, allow_missing: bool = False) -> RankingData:
    """Open a store.

    Parameters
    ----------
    path : path-like
        The folder.
    mmap : bool
        Whether to map the features and comments into memory, read-only, instead of reading
        them. Opening then takes almost no time, and the data may be larger than memory.
    allow_missing : bool
        Whether features may be NaN.

    Returns
    -------
    RankingData

    Raises
    ------
    FileFormatError
        If the folder is not a store, is damaged, or was written by a newer version.

    Notes
    -----
    A store may be replaced while others have it open, by `save_store`, by `convert`, or by renaming
    folders: they keep the old files. Its files must not be modified in place. Before each fit and
    prediction, linrank compares their size and modification time, and raises an error if they have
    changed. If a file is truncated during a fit, the system kills the process. Use ``mmap=False``
    if other programs write into the files of a store.

    Examples
    --------
    >>> import tempfile
    >>> from linrank import RankingData, open_store, save_store
    >>> folder = tempfile.mkdtemp()
    >>> save_store(RankingData([[0.5], [2.0]], [0, 1]), folder)
    >>> open_store(folder)
    RankingData(2 documents, 1 queries, 1 features, dense float64)
    """
    data = read_store(Path(path), mmap)
    if data.has_missing and not allow_missing:
        with about_file(path):
            check_finite(data.X, data.order, data.feature_names)
    return data


def is_store(path: StrPath) -> bool:
    """Return whether a folder is a store, or claims to be one: it has a ``meta.json``."""
    return Path(path, META).is_file()


def convert(
    source: StrPath, path: StrPath, *, progress: Progress | None = None, **options: Any
) -> RankingData:
    r"""Convert a file or a folder of files into a store, without holding the features in memory.

    Features are written into mapped files. Of tables, memory holds some batches of rows, and the
    columns that are not features. LETOR text is read (and decompressed) twice. Whatever the size of
    the text, memory holds

    - up to 32 MB of the text for each thread,
    - up to 600 MB more if lines are longer than 2 MB (the limit is 128 MiB per line),
    - about 60 bytes per document,
    - the buffers of the decompressor, at most 128 MiB.

    If the rows of a query are not adjacent in the text, the features are copied from one file to
    another, which takes twice the disk space for a while.

    Parameters
    ----------
    source : path-like
        LETOR text, a Parquet, Arrow or CSV file, a folder of such files, or a store.
    path : path-like
        The store; see `save_store`.
    progress, **options
        See `linrank.load`.

    Returns
    -------
    RankingData
        The data of the new store, opened with `open_store`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n")
    >>> convert(folder / "train.txt", folder / "train")
    RankingData(2 documents, 1 queries, 1 features, dense float64)
    """
    from .formats import open_reader

    read = open_reader(source, options)
    with new_store(path) as folder:
        mapped: dict[str, Array] = {}

        def allocate(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
            mapped[name] = mapped_file(folder / f"{name}.npy", shape, dtype)
            return mapped[name]

        data = read(allocate=allocate, progress=progress)
        fill(folder, data, mapped)
    return open_store(path, allow_missing=data.has_missing)


def open_expected_store(
    path: StrPath,
    *,
    n_features: int | None = None,
    index_base: Literal["auto", 0, 1] = "auto",
    allow_missing: bool = False,
    **unused: object,
) -> RankingData:
    """Open a store, and raise a `FileFormatError` if its features are not the expected ones.

    Parameters
    ----------
    path : path-like
    n_features : int, optional
        The expected number of features.
    index_base : {"auto", 0, 1}
        The expected index of the first feature.
    allow_missing : bool
        See `open_store`.
    **unused
        Options of other readers. They have no effect, because the arrays exist already.
    """
    data = open_store(path, allow_missing=allow_missing)
    if n_features is not None and data.n_features != n_features:
        raise FileFormatError(
            f"{os.fspath(path)}: the store has {data.n_features} features, "
            f"but {n_features} are expected"
        )
    if index_base != "auto" and data.index_base != index_base:
        raise FileFormatError(
            f"{os.fspath(path)}: the features of the store are numbered from {data.index_base}, "
            f"but numbers from {index_base} are expected"
        )
    return data
