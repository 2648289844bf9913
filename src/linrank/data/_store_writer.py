"""Writing of stores: at every moment, the path of a store leads to the old or the new one."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.lib.format import header_data_from_array_1_0, open_memmap, write_array_header_1_0
from numpy.typing import DTypeLike

from .._files import (
    bring_to_disk,
    find_status,
    locked,
    sync_folder,
    temporary_folder,
    write_error,
)
from .._maps import check_maps
from .._typing import Array
from .._version import __version__
from ..errors import DataError
from ._store_format import ARRAYS, FOLDER, FORMAT, META, VERSION, WITHOUT_MISSING, Meta, describe
from .ranking import RankingData
from .text import TextColumn

_FILES = {f"{name}.npy" for name in ARRAYS}
_REPLACED = "replaced"  # key in ``meta.json``: arrays of version 1 that can be removed


@contextmanager
def new_store(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder for `fill`, which becomes the store if the block succeeds."""
    target = Path(os.path.realpath(path))
    try:
        old = find_status(path)
        if old is not None:
            _check_replaceable(path, target, old)
        with temporary_folder(target.parent, 0o777 if old is None else 0o700) as root:
            folder = root / f"arrays-{secrets.token_hex(8)}"
            folder.mkdir(0o777 if old is None else 0o700)
            yield folder
            for file in [*folder.iterdir(), root / META]:
                bring_to_disk(file, target / META)
            bring_to_disk(folder, target)
            if old is not None or not _rename(root, target):
                _check_replaceable(path, target, target.stat())
                _replace(target, folder)
            sync_folder(target.parent)
    except OSError as error:
        raise write_error(path, error) from None


def _rename(root: Path, target: Path) -> bool:
    """Rename a new store; return false if another process has just created its path."""
    try:
        root.rename(target)
    except OSError:
        if target.exists():
            return False
        raise
    return True


def _replace(target: Path, folder: Path) -> None:
    """Move a folder of arrays into a store, and replace the store's ``meta.json``."""
    with locked(target):
        _list_replaced(target, folder.parent / META)
        folder.rename(target / folder.name)
        try:
            (folder.parent / META).replace(target / META)
        except BaseException:
            _remove_folder(target / folder.name)
            raise
        sync_folder(target)
    _remove_unused(target)


def _check_replaceable(path: str | os.PathLike[str], target: Path, old: os.stat_result) -> None:
    """Raise a `DataError` if a path holds anything but a store (even damaged) or nothing."""
    if not stat.S_ISDIR(old.st_mode):
        raise DataError(
            f"{os.fspath(path)}: the path is a file; a file is not replaced. Choose another name"
        )
    names = sorted(os.listdir(target))
    meta = _read_meta(target / META)
    foreign = [name for name in names if name != META and not _is_ours(target / name, meta)]
    if META in names and meta is None:
        foreign.insert(0, META)
    if foreign:
        raise DataError(
            f"{os.fspath(path)}: the folder holds {foreign[0]!r}, which is not part of a linrank "
            "store, so it is not replaced. Choose another name, or move that file elsewhere"
        )


def _read_meta(file: Path) -> Meta | None:
    """Return the content of a ``meta.json`` that linrank has written; None for other files."""
    try:
        is_file = stat.S_ISREG(file.lstat().st_mode)
        content = json.loads(file.read_bytes()) if is_file else None
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def _is_ours(place: Path, meta: Meta | None) -> bool:
    """Return whether a path is part of a store, or was just removed by another process."""
    try:
        if FOLDER.fullmatch(place.name) and stat.S_ISDIR(place.lstat().st_mode):
            with os.scandir(place) as entries:
                return all(e.name in _FILES and e.is_file(follow_symlinks=False) for e in entries)
        return _is_loose(place, place.lstat(), meta or {})
    except FileNotFoundError:
        return True


def _is_loose(file: Path, status: os.stat_result, meta: Meta) -> bool:
    """Return whether a file is an array of a store of version 1, beside its ``meta.json``.

    A store that has replaced one of version 1 lists the old arrays with their size and modification
    time. These distinguish them from files that a user has put there.
    """
    if file.name not in _FILES or not stat.S_ISREG(status.st_mode):
        return False
    if meta.get("version") == 1:
        arrays = meta.get("arrays")
        return isinstance(arrays, dict) and file.stem in arrays
    replaced = meta.get(_REPLACED)
    return isinstance(replaced, dict) and replaced.get(file.name) == _stamp(status)


def _stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns]


def _list_replaced(target: Path, new: Path) -> None:
    """Add to a new ``meta.json`` the list of arrays of version 1 that it replaces."""
    old = _read_meta(target / META) or {}
    found = {name: (target / name).lstat() for name in os.listdir(target) if name in _FILES}
    ours = {name: status for name, status in found.items() if _is_loose(target / name, status, old)}
    if ours:
        replaced = {name: _stamp(status) for name, status in ours.items()}
        _write_meta(new, json.loads(new.read_bytes()) | {_REPLACED: replaced})
        bring_to_disk(new, target / META)


def _remove_unused(target: Path) -> None:
    """Remove arrays that ``meta.json`` does not name: of an older store, or of killed processes.

    A process that replaces the store holds the lock until ``meta.json`` names its arrays.
    """
    with locked(target, wait=False) as is_locked:
        meta = _read_meta(target / META)
        if not is_locked or meta is None or meta.get("version") == 1:
            return
        for name in os.listdir(target):
            place = target / name
            with suppress(OSError):  # The next writer will try again.
                if FOLDER.fullmatch(name) and name != meta.get("folder"):
                    _remove_folder(place)
                elif _is_loose(place, place.lstat(), meta):
                    place.unlink()


def _remove_folder(folder: Path) -> None:
    """Remove a folder of arrays; a folder that holds anything else is kept."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name in _FILES:
                (folder / name).unlink()
        folder.rmdir()


def mapped_file(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    """Map a new ``.npy`` file of zeros, after reserving its space on the disk."""
    # When rows are reordered, the old file is still mapped and read.
    path.unlink(missing_ok=True)
    array = open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate"):
        # Without reserved space, the system kills the process if a write into the map finds the
        # disk full.
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    return np.asarray(array)


def fill(folder: Path, data: RankingData, mapped: dict[str, Array]) -> None:
    """Write all arrays that are not mapped from the folder already, and then ``meta.json``."""
    arrays = arrays_of(data)
    check_maps(*arrays.values())
    for name, array in arrays.items():
        file = folder / f"{name}.npy"
        if name not in mapped or not np.may_share_memory(array, mapped[name]):
            file.unlink(missing_ok=True)  # An array may be mapped but not be used in the end.
            _save(file, array)
    meta = {
        "format": FORMAT,
        "version": VERSION if data.has_missing else WITHOUT_MISSING,
        "linrank": __version__,
        "folder": folder.name,
        "n_features": data.n_features,
        "index_base": data.index_base,
        "feature_names": data.feature_names,
        "has_missing": data.has_missing,
        "arrays": {name: describe(array.dtype, array.shape) for name, array in arrays.items()},
    }
    _write_meta(folder.parent / META, meta)


def _write_meta(file: Path, meta: Meta) -> None:
    file.write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def _save(file: Path, array: Array) -> None:
    """Write a ``.npy`` file.

    `numpy.save` is not used: it writes through a C stream and does not check that closing the
    stream succeeds. On a full disk, up to 4,096 bytes were lost without an error.
    """
    array = np.ascontiguousarray(array)
    with file.open("wb") as opened:
        write_array_header_1_0(opened, header_data_from_array_1_0(array))
        opened.write(array.reshape(-1).view(np.uint8).data)


def arrays_of(data: RankingData) -> dict[str, Array]:
    """Return the arrays of ranked data under their names in the store."""
    arrays: dict[str, Array] = _plain_ids(data.query_ids)
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
        comments = data.comments.packed()
        arrays |= {"comments": comments.buffer, "comments_ptr": comments.ptr}
    return arrays


def _plain_ids(ids: Array) -> dict[str, Array]:
    """Return ids as arrays without objects: numbers, or text as bytes and pointers."""
    if ids.dtype.kind not in "OU":
        return {"query_ids": ids}
    names = [str(name) for name in ids.tolist()]
    if len(set(names)) < len(names):
        raise DataError(
            "query_ids cannot be saved: some of them are the same as strings. Rename them"
        )
    try:
        column = TextColumn.from_strings(names)
    except DataError as error:
        raise DataError(f"query_ids cannot be saved: {error}") from None
    return {"query_ids": column.buffer, "query_ids_ptr": column.ptr}
