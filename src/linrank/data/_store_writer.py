"""Writing a store: the name of a store leads to the old one or the new one at any moment."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import header_data_from_array_1_0, open_memmap, write_array_header_1_0
from numpy.typing import NDArray

from .._files import find_status, locked, sync_folder, temporary_folder, write_error
from .._maps import check_maps
from .._version import __version__
from ..errors import DataError
from ._store_format import ARRAYS, FOLDER, FORMAT, META, VERSION, describe
from .ranking import RankingData
from .text import TextColumn

_FILES = {f"{name}.npy" for name in ARRAYS}


@contextmanager
def new_store(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to be filled by `fill`, which becomes the store when that has succeeded."""
    target = Path(os.path.realpath(path))
    try:
        old = find_status(path)
        if old is not None:
            _check_replaceable(path, target, old)
            _remove_unused(target)
        with temporary_folder(target.parent, 0o777 if old is None else 0o700) as root:
            folder = root / f"arrays-{secrets.token_hex(8)}"
            folder.mkdir(0o777 if old is None else stat.S_IMODE(old.st_mode))
            yield folder
            sync_folder(folder)
            if old is not None or not _rename(root, target):
                _check_replaceable(path, target, target.stat())
                _replace(target, folder)
            sync_folder(target.parent)
    except OSError as error:
        raise write_error(path, error) from None


def _rename(root: Path, target: Path) -> bool:
    """Give a new store its name; false where another process has just taken the name."""
    try:
        root.rename(target)
    except OSError:
        if target.exists():
            return False
        raise
    return True


def _replace(target: Path, folder: Path) -> None:
    """Move a folder of arrays into a store, and let its ``meta.json`` name it from now on."""
    with locked(target):
        folder.rename(target / folder.name)
        try:
            (folder.parent / META).replace(target / META)
        except BaseException:
            _remove_folder(target / folder.name)
            raise
        sync_folder(target)
    _remove_unused(target)


def _check_replaceable(path: str | os.PathLike[str], target: Path, old: os.stat_result) -> None:
    """Refuse a place that holds anything but a store, whatever its state, or nothing."""
    if not stat.S_ISDIR(old.st_mode):
        raise DataError(f"{os.fspath(path)}: is a file; it is left as it is. Choose another name")
    names = sorted(os.listdir(target))
    foreign = [name for name in names if not _is_ours(target / name)]
    if META in names and not _has_format(target / META):
        foreign.insert(0, META)
    if foreign:
        raise DataError(
            f"{os.fspath(path)}: the folder holds {foreign[0]!r}, which is not part of a linrank "
            "store; it is left as it is. Choose another name, or move that file elsewhere"
        )


def _is_ours(place: Path) -> bool:
    """Whether a place is part of a store, or gone since another process replaced the store."""
    if FOLDER.fullmatch(place.name) and not place.is_symlink():
        try:
            return all(name in _FILES for name in os.listdir(place))
        except NotADirectoryError:
            return False
        except FileNotFoundError:
            return True
    return place.name in _FILES | {META} and not place.is_dir()


def _has_format(meta: Path) -> bool:
    try:
        content = json.loads(meta.read_bytes()) if meta.is_file() else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _remove_unused(target: Path) -> None:
    """Remove arrays that ``meta.json`` does not name: of an older store, or of killed processes.

    Those who replace the store meanwhile hold the lock until their arrays are named.
    """
    with locked(target, wait=False) as is_locked:
        if not is_locked:
            return
        meta = {}
        with suppress(OSError, ValueError, RecursionError):
            meta = json.loads((target / META).read_bytes())
        if META in os.listdir(target) and (not isinstance(meta, dict) or "version" not in meta):
            return  # what is in use cannot be told
        for name in os.listdir(target):
            if FOLDER.fullmatch(name) and name != meta.get("folder"):
                _remove_folder(target / name)
            elif name in _FILES and meta.get("version") != 1:
                (target / name).unlink()


def _remove_folder(folder: Path) -> None:
    """Remove a folder of arrays; a folder with anything else in it stays."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name in _FILES:
                (folder / name).unlink()
        folder.rmdir()


def mapped_file(path: Path, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros in a new ``.npy`` file, for which there is room on the disk."""
    path.unlink(missing_ok=True)  # it is there, and read from, where rows are moved
    array = open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        # Otherwise a full disk would end the process at some later write into the map.
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    return np.asarray(array)


def fill(folder: Path, data: RankingData, mapped: dict[str, NDArray[Any]]) -> None:
    """Write all arrays that are not mapped from there already, and last what they mean."""
    check_maps(data.X)
    arrays = arrays_of(data)
    for name, array in arrays.items():
        file = folder / f"{name}.npy"
        if name not in mapped or not np.may_share_memory(array, mapped[name]):
            file.unlink(missing_ok=True)  # it is there where the data ended up elsewhere
            _save(file, array)
        _sync(file)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "linrank": __version__,
        "folder": folder.name,
        "n_features": data.n_features,
        "index_base": data.index_base,
        "feature_names": data.feature_names,
        "arrays": {name: describe(array.dtype, array.shape) for name, array in arrays.items()},
    }
    text = json.dumps(meta, indent=1) + "\n"
    (folder.parent / META).write_text(text, encoding="utf-8")
    _sync(folder.parent / META)


def _save(file: Path, array: NDArray[Any]) -> None:
    """Write a ``.npy`` file.

    `numpy.save` hands the numbers to a stream of the C library, and does not look at whether
    closing the stream succeeds: on a full disk, up to 4,096 bytes were lost without an error.
    """
    array = np.ascontiguousarray(array)
    with file.open("wb") as opened:
        write_array_header_1_0(opened, header_data_from_array_1_0(array))
        opened.write(array.reshape(-1).view(np.uint8).data)


def arrays_of(data: RankingData) -> dict[str, NDArray[Any]]:
    """The arrays that make up the data, by name."""
    arrays: dict[str, NDArray[Any]] = _plain_ids(data.query_ids)
    arrays |= {"y": data.y, "query_ptr": data.query_ptr, "query_keys": data.query_keys}
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


def _plain_ids(ids: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Ids that need no pickling: numbers, or text as bytes and where each begins."""
    if ids.dtype.kind not in "OU":
        return {"query_ids": ids}
    names = [str(name) for name in ids.tolist()]
    if len(set(names)) < len(names):
        raise DataError("query_ids cannot be saved: as strings some of them are the same")
    try:
        column = TextColumn.from_strings(names)
    except UnicodeEncodeError as error:
        raise DataError(f"query_ids cannot be saved: {error.object[:40]!r} is not text") from None
    return {"query_ids": column.buffer, "query_ids_ptr": column.ptr}


def _sync(file: Path) -> None:
    """Bring a file to disk."""
    with file.open("r+b") as opened:
        os.fsync(opened.fileno())
