"""A store: ranked data on disk as a folder of arrays, mapped into memory when it is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import DataError, FileFormatError
from ._letor_reader import Progress, read_source
from ._source import open_source
from ._store_reader import read_store
from ._store_writer import fill, mapped_file, new_store
from .letor import StrPath, check_options, read_letor
from .ranking import RankingData


def save_store(data: RankingData, path: StrPath) -> None:
    """Save ranked data as a store: a folder with a ``meta.json`` and ``.npy`` files.

    Parameters
    ----------
    data : RankingData
        Query ids that are neither numbers nor strings are saved as strings.
    path : path-like
        The folder. An older store there is replaced in one step when all is written: whenever
        the process is killed, the old or the new store is there as a whole. A folder that holds
        anything else, or a file, is left alone.

    Raises
    ------
    DataError
        Where the store cannot be written.

    See Also
    --------
    open_store : the way back.
    convert : from a text file, without holding all of it in memory.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save_store(RankingData([[0.5], [2.0]], [0, 1], qid=["a", "a"]), folder)
    >>> open_store(folder).qid.tolist()
    ['a', 'a']
    """
    if data.pairs is not None:
        raise DataError("a store holds labels; data with pairs given one by one cannot be saved")
    with new_store(path) as folder:
        fill(folder, data, {})


def open_store(path: StrPath, *, mmap: bool = True) -> RankingData:
    """Open a store.

    Parameters
    ----------
    path : path-like
        The folder.
    mmap : bool
        Whether to map the features (and comments) into memory, read-only: opening takes
        no time, and the data may be larger than memory. Otherwise they are read.

    Raises
    ------
    FileFormatError
        Where the folder is not a store, or is damaged, or was written by a newer version.

    Notes
    -----
    Replacing a store, with `save_store`, `convert` or by renaming folders, does not disturb those
    who have opened it. Writing into its files does: linrank looks at their size and time of change
    before each fit and prediction, and refuses what has changed. If a file is cut short while
    a fit is running, the system ends the process. Open with ``mmap=False`` to be safe from that.
    """
    return read_store(Path(path), mmap)


def convert(
    source: StrPath, path: StrPath, *, progress: Progress | None = None, **options: Any
) -> RankingData:
    r"""Turn a LETOR text file into a store, without holding the features in memory.

    The text is read twice, and twice decompressed if need be, into mapped files. Whatever the size
    of the text, memory holds

    - up to 32 MB of the text for each thread,
    - up to 600 MB more where lines are longer than 2 MB (a line may have 128 MiB),
    - about 60 bytes per document,
    - what the decompressor needs, 128 MiB at most.

    If the rows of a query do not stand together in the text, the features are moved from one file
    to another, and take twice the room on disk until then.

    Parameters
    ----------
    source : path-like
        The text file.
    path : path-like
        The store; see `save_store`.
    progress, **options
        See `linrank.read_letor`.

    Returns
    -------
    RankingData
        The store, opened.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n")
    >>> convert(folder / "train.txt", folder / "train")
    RankingData(2 documents, 1 queries, 1 features, dense float64)
    """
    checked = check_options(**options)
    with open_source(source) as text, new_store(path) as folder:
        mapped: dict[str, NDArray[Any]] = {}

        def allocate(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
            mapped[name] = mapped_file(folder / f"{name}.npy", shape, dtype)
            return mapped[name]

        fill(folder, read_source(text, checked, allocate, progress), mapped)
    return open_store(path)


def load(
    path: StrPath,
    *,
    n_features: int | None = None,
    index_base: Any = "auto",
    **options: Any,
) -> RankingData:
    """Open a store, or read a LETOR text file: whichever is there.

    Parameters
    ----------
    path : path-like
        A folder is opened as a store, anything else is read as text.
    n_features, index_base
        See `linrank.read_letor`. A store that was made with others is refused.
    **options
        The other options of `linrank.read_letor`; a store has settled them already.

    Raises
    ------
    FileFormatError
        Where it cannot be read.
    """
    if not Path(path).is_dir():
        return read_letor(path, n_features=n_features, index_base=index_base, **options)
    data = open_store(path)
    if n_features is not None and data.n_features != n_features:
        raise FileFormatError(
            f"{os.fspath(path)}: the store has {data.n_features} features, "
            f"but {n_features} are expected"
        )
    if index_base != "auto" and data.index_base != index_base:
        raise FileFormatError(
            f"{os.fspath(path)}: the store counts features from {data.index_base}, "
            f"but from {index_base} is expected"
        )
    return data
