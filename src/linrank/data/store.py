"""A store: ranked data on disk as a folder of arrays, mapped into memory when it is opened."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from .._files import write_error
from .._version import __version__
from ..errors import DataError, FileFormatError
from ._csr import assemble_csr
from ._letor_reader import Progress, read_source
from ._source import open_source
from .checks import check_feature_names
from .letor import StrPath, check_options, read_letor
from .ranking import RankingData
from .text import TextColumn

FORMAT, VERSION = "linrank-store", 1
META = "meta.json"

#: The arrays of a store with the kinds of numbers they may hold.
_KINDS = {
    "X": "f",
    "X_indptr": "i",
    "X_indices": "i",
    "X_data": "f",
    "y": "f",
    "query_ptr": "i",
    "query_ids": "iufbUSM",
    "query_keys": "f",
    "order": "i",
    "weight": "f",
    "query_weight": "f",
    "propensity": "f",
    "margin": "f",
    "comments": "u",
    "comments_ptr": "i",
}
#: Those that are mapped; the others take a few bytes per document.
_MAPPED = {"X", "X_indptr", "X_indices", "X_data", "comments", "comments_ptr"}


def save_store(data: RankingData, path: StrPath) -> None:
    """Save ranked data as a store: a folder of ``.npy`` files and a ``meta.json``.

    Parameters
    ----------
    data : RankingData
        Query ids that are neither numbers nor strings are saved as strings.
    path : path-like
        The folder. An older store there is replaced when all is written; any other
        folder or file is left alone.

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
    with _new_store(path) as folder:
        _fill(folder, data, {})


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
    """
    folder = Path(path)
    meta = _read_meta(folder)
    try:
        arrays = {
            name: _read_array(folder, name, description, mmap)
            for name, description in meta["arrays"].items()
        }
        return _assemble(arrays, meta)
    except Exception as error:  # whatever numpy and others raise on damaged files
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise FileFormatError(f"{folder}: the store is damaged: {reason}") from None


def convert(
    source: StrPath, path: StrPath, *, progress: Progress | None = None, **options: Any
) -> RankingData:
    r"""Turn a LETOR text file into a store, without holding the features in memory.

    The text is read twice, and twice decompressed if need be, into mapped files. Whatever its
    size, what is held in memory are up to 32 MB of it for each thread and about 60 bytes per
    document. If the rows of a query do not stand together in the text, the features are moved
    from one file to another, and take twice the room on disk until then.

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
    with open_source(source) as text, _new_store(path) as folder:
        mapped: dict[str, NDArray[Any]] = {}

        def allocate(name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
            mapped[name] = _mapped_file(folder / f"{name}.npy", shape, dtype)
            return mapped[name]

        _fill(folder, read_source(text, checked, allocate, progress), mapped)
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


# Writing


@contextmanager
def _new_store(path: StrPath) -> Iterator[Path]:
    """A folder to be filled, which takes its place only when that has succeeded."""
    target = Path(path).resolve()
    if target.exists() and not _may_be_replaced(target):
        raise DataError(
            f"{os.fspath(path)}: is there already and not a linrank store; it is left as it is"
        )
    token = secrets.token_hex(8)
    folder, old = (target.with_name(f".linrank-{token}.{kind}") for kind in ("tmp", "old"))
    try:
        folder.mkdir()
        yield folder
        try:
            if target.exists():
                target.rename(old)
            folder.rename(target)
        except BaseException:  # Ctrl-C too: between the two, only `old` holds the store
            if old.exists() and not target.exists():
                old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _may_be_replaced(target: Path) -> bool:
    """Whether there is a store, whatever its state, or an empty folder."""
    if not target.is_dir():
        return False
    try:
        meta = json.loads((target / META).read_bytes())
        return isinstance(meta, dict) and meta.get("format") == FORMAT
    except (OSError, ValueError):
        return not any(target.iterdir())


def _mapped_file(path: Path, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros in a new ``.npy`` file, for which there is room on the disk."""
    path.unlink(missing_ok=True)  # it is there, and read from, where rows are moved
    array = open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        # Otherwise a full disk would end the process at some later write into the map.
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    return np.asarray(array)


def _fill(folder: Path, data: RankingData, mapped: dict[str, NDArray[Any]]) -> None:
    """Write all arrays that are not mapped from there already, and last what they mean."""
    arrays = _arrays(data)
    for name, array in arrays.items():
        file = folder / f"{name}.npy"
        if name not in mapped or not np.may_share_memory(array, mapped[name]):
            file.unlink(missing_ok=True)  # it is there where the data ended up elsewhere
            np.save(file, array, allow_pickle=False)
        _sync(file)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "linrank": __version__,
        "n_features": data.n_features,
        "index_base": data.index_base,
        "feature_names": data.feature_names,
        "arrays": {name: _describe(array) for name, array in arrays.items()},
    }
    text = json.dumps(meta, indent=1, ensure_ascii=False) + "\n"
    (folder / META).write_text(text, encoding="utf-8")
    _sync(folder / META)


def _arrays(data: RankingData) -> dict[str, NDArray[Any]]:
    """The arrays that make up the data, by name."""
    arrays = {
        "y": data.y,
        "query_ptr": data.query_ptr,
        "query_ids": _plain_ids(data.query_ids),
        "query_keys": data.query_keys,
    }
    if data.is_sparse:
        X = data.X
        arrays |= {"X_indptr": X.indptr, "X_indices": X.indices, "X_data": X.data}
    else:
        arrays["X"] = data.X
    for name in ("order", "weight", "query_weight", "propensity", "margin"):
        if getattr(data, name) is not None:
            arrays[name] = getattr(data, name)
    if data.comments is not None:
        arrays |= {"comments": data.comments.buffer, "comments_ptr": data.comments.ptr}
    return arrays


def _describe(array: NDArray[Any]) -> str:
    return f"{array.dtype.str} {' × '.join(str(n) for n in array.shape)}"


def _plain_ids(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids that need no pickling: numbers or strings."""
    if ids.dtype.kind != "O":
        return ids
    names = np.array([str(name) for name in ids])
    if len(np.unique(names)) < len(names):
        raise DataError("query_ids cannot be saved: as strings some of them are the same")
    return names


def _sync(file: Path) -> None:
    """Bring a file to disk."""
    with file.open("r+b") as opened:
        os.fsync(opened.fileno())


# Reading


def _read_meta(folder: Path) -> dict[str, Any]:
    """The content of ``meta.json``, if this version knows how to read it."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise FileFormatError(f"{folder}: {what}; expected a linrank store")
    try:
        meta = json.loads((folder / META).read_bytes())
    except FileNotFoundError:
        raise FileFormatError(f"{folder}: not a linrank store: it has no {META}") from None
    except OSError as error:
        raise FileFormatError(f"{folder}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FileFormatError(f"{folder}: the store is damaged: {META}: {error}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise FileFormatError(f"{folder}: not a linrank store: {META} is of another kind")
    version = meta.get("version")
    if not isinstance(version, int) or version < 1:
        raise FileFormatError(f"{folder}: the store is damaged: its version is {version!r}")
    if version > VERSION:
        raise FileFormatError(
            f"{folder}: the store was written by a newer linrank ({meta.get('linrank')}, store "
            f"version {version}); this one ({__version__}) reads up to version {VERSION}"
        )
    return meta


def _read_array(folder: Path, name: str, description: str, mmap: bool) -> NDArray[Any]:
    """One array, which must be as ``meta.json`` says."""
    file = folder / f"{name}.npy"
    _require(name in _KINDS, f"it has an unknown array {name!r}")
    _require(file.is_file(), f"{file.name} is missing")
    # Nothing is said to the system about how the map is read: told that it is sequential, Linux
    # took three times as long for a Hessian product of data larger than memory.
    array = np.load(file, mmap_mode="r" if mmap and name in _MAPPED else None, allow_pickle=False)
    _require(array.dtype.kind in _KINDS[name], f"{file.name} holds {array.dtype}")
    found = _describe(array)
    _require(found == description, f"{file.name} holds {found}; expected {description}")
    return np.asarray(array)  # a plain array, also where it is mapped


def _assemble(arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> RankingData:
    """Put the data together from arrays that fit each other."""
    y, query_ptr, query_ids = (arrays[name] for name in ("y", "query_ptr", "query_ids"))
    _require_pointers("query_ptr", query_ptr, len(query_ids), len(y))
    _require(bool((np.diff(query_ptr) > 0).all()), "query_ptr.npy does not fit: it must ascend")
    for name in ("order", "weight", "query_weight", "propensity", "margin"):
        like = query_ids if name == "query_weight" else y
        _require(len(arrays.get(name, like)) == len(like), f"{name}.npy has a wrong length")
    _require(len(arrays["query_keys"]) == len(query_ids), "query_keys.npy has a wrong length")
    _require(bool(np.isfinite(y).all()), "y.npy holds labels that are not finite")
    order = arrays.get("order", np.arange(len(y)))
    _require(np.array_equal(np.sort(order), np.arange(len(y))), "order.npy is not an order of rows")
    if "X" in arrays:
        X = arrays["X"]
    else:
        indptr, indices, data = (arrays[f"X_{part}"] for part in ("indptr", "indices", "data"))
        _require(len(indices) == len(data), "X_indices.npy has a wrong length")
        _require_pointers("X_indptr", indptr, len(y), len(data))
        inside = len(indices) == 0 or 0 <= indices.min() <= indices.max() < meta["n_features"]
        _require(inside, "X_indices.npy names features that are not there")
        X = assemble_csr(indptr, indices, data, meta["n_features"])
    _require(X.shape == (len(y), meta["n_features"]), "X has a wrong shape")
    comments = None
    if "comments" in arrays:
        comments = TextColumn(arrays["comments"], arrays["comments_ptr"])
        _require_pointers("comments_ptr", comments.ptr, len(y), len(comments.buffer))
    return RankingData.from_parts(
        X=X,
        y=y,
        query_ptr=query_ptr,
        query_ids=query_ids,
        order=arrays.get("order"),
        comments=comments,
        feature_names=check_feature_names(meta["feature_names"], X.shape[1]),
        index_base={0: 0, 1: 1}[meta["index_base"]],
        weight=arrays.get("weight"),
        query_weight=arrays.get("query_weight"),
        propensity=arrays.get("propensity"),
        margin=arrays.get("margin"),
        query_keys=arrays["query_keys"],
    )


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _require_pointers(name: str, ptr: NDArray[np.int64], n_items: int, last: int) -> None:
    _require(
        ptr.shape == (n_items + 1,)
        and ptr[0] == 0
        and ptr[-1] == last
        and bool((np.diff(ptr) >= 0).all()),
        f"{name}.npy does not fit the other arrays",
    )
