"""Stores: ranked data on disk as a folder of arrays, which are mapped into memory."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.lib import format as npy
from numpy.lib.format import header_data_from_array_1_0, open_memmap, write_array_header_1_0
from numpy.typing import DTypeLike

from .._util.files import (
    bring_to_disk,
    find_status,
    locked,
    sync_folder,
    temporary_folder,
    write_error,
)
from .._util.maps import check_maps, map_file
from .._util.types import Array
from .._version import __version__
from ..errors import DataError, FileFormatError, prefix_file_errors
from .categories import Categories
from .ids import TextColumn, join_strings
from .letor import Progress, StrPath
from .ranking import RankingData
from .source import META
from .validation import (
    assemble_csr,
    check_feature_names,
    check_finite,
    check_labels,
    check_n_features,
    check_propensity,
    check_rows,
    check_weight,
)

# --------------------------------------------------------------------------------------------------
# The format of a store: a ``meta.json``, and a folder of arrays that it names.
#
# To replace a store, new arrays are written into a new folder, and ``meta.json`` is then replaced
# in one step. At every moment, a reader finds either the old or the new store. In version 1 of the
# format, the arrays were beside ``meta.json``.


Meta: TypeAlias = dict[str, Any]  #: the content of ``meta.json``

FORMAT, VERSION = "linrank-store", 4
WITH_MISSING = 3  #: version of stores with missing values, whose texts are not shared by rows
WITHOUT_MISSING = 2  #: version of stores without missing values, which earlier readers know
FOLDER = re.compile(r"arrays-[0-9a-f]{16}")  #: names of the folders of arrays

_FLOATS, _POINTERS = ("f4", "f8"), ("i4", "i8")

#: The allowed dtypes (or kinds of dtypes) and the number of dimensions of each array.
ARRAYS: dict[str, tuple[tuple[str, ...], int]] = {
    "X": (_FLOATS, 2),
    "X_indptr": (_POINTERS, 1),
    "X_indices": (("i4",), 1),
    "X_data": (_FLOATS, 1),
    "y": (("f8",), 1),
    "query_ptr": (("i8",), 1),
    "query_ids": (tuple("iufbUSM"), 1),
    "query_ids_ptr": (("i8",), 1),
    "query_keys": (("f8",), 1),
    "order": (("i8",), 1),
    "weight": (("f8",), 1),
    "query_weight": (("f8",), 1),
    "propensity": (("f8",), 1),
    "margin": (("f8",), 1),
    "comments": (("u1",), 1),
    "comments_ptr": (("i8",), 1),
    "comments_rows": (("i8",), 1),  # the text of each row; without it, row r has text r
}
#: The arrays that are mapped into memory; the others take a few bytes per document.
MAPPED = {"X", "X_indptr", "X_indices", "X_data", "comments", "comments_ptr"}


def describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """Return the dtype and shape of an array as text, for ``meta.json``.

    Examples
    --------
    >>> describe(np.dtype(np.float64), (2, 3))
    '<f8 2 × 3'
    """
    return f"{dtype.str} {' × '.join(str(n) for n in shape)}"


# --------------------------------------------------------------------------------------------------
# Headers of numpy's ``.npy`` format, checked before an array is allocated.


class NpyHead(NamedTuple):
    """What the header of an array says of the values that follow."""

    shape: tuple[int, ...]
    is_fortran: bool  #: whether the values are stored by columns
    dtype: np.dtype[Any]


def read_head(opened: BinaryIO, name: str) -> NpyHead:
    """Read the header of the array in a ``.npy`` file, and leave the file at its values.

    Raises
    ------
    ValueError
        If the header is damaged, or if the array holds objects.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((2, 3)))
    >>> _ = file.seek(0)
    >>> read_head(file, "a.npy")
    NpyHead(shape=(2, 3), is_fortran=False, dtype=dtype('float64'))
    """
    try:
        version = npy.read_magic(opened)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        head = NpyHead(*read(opened))
    except Exception as error:  # numpy evaluates the header as a Python literal.
        raise ValueError(f"{name} has an invalid header: {error}") from None
    if head.dtype.hasobject:
        raise ValueError(f"{name} holds objects")
    if any(n < 0 for n in head.shape):
        raise ValueError(f"{name} has a negative size")
    return head


# --------------------------------------------------------------------------------------------------
# Reading of stores, with checks of everything that could make a kernel read out of bounds.


Arrays = dict[str, Array]

_BLOCK = 1 << 20  # entries checked at a time, because an array may be larger than memory


def read_store(folder: Path, mmap: bool) -> RankingData:
    """Read a store; if another process replaces it meanwhile, read the new one."""
    meta = _read_meta(folder)
    while True:
        try:
            return _read(folder, meta, mmap)
        except Exception as error:  # numpy raises many kinds of errors for damaged files.
            now = _read_meta(folder)
            if now == meta:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise FileFormatError(
                    f"{folder}: the store is damaged: {reason}. Write it again with save_store or "
                    "convert"
                ) from None
            meta = now


def array_folder(folder: Path, meta: Meta) -> Path:
    """Return the folder of a store's arrays; in version 1, they are beside ``meta.json``."""
    name = meta.get("folder")
    if meta["version"] == 1:
        return folder
    _require(isinstance(name, str) and bool(FOLDER.fullmatch(name)), f"its folder is {name!r}")
    return folder / str(name)


def _read_meta(folder: Path) -> Meta:
    """Return the content of ``meta.json``, or raise a `FileFormatError`."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise FileFormatError(f"{folder}: {what}; expected a linrank store")
    if not (folder / META).is_file():
        raise FileFormatError(f"{folder}: not a linrank store: it has no {META}")
    try:
        meta = json.loads((folder / META).read_bytes())
    except OSError as error:
        raise FileFormatError(f"{folder}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{folder}: the store is damaged: {META}: {error}") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise FileFormatError(f"{folder}: not a linrank store: {META} has another format")
    version = meta.get("version")
    if type(version) is not int or version < 1:
        found = repr(version)[:40]
        raise FileFormatError(f"{folder}: the store is damaged: its version is {found}")
    if version > VERSION:
        raise FileFormatError(
            f"{folder}: the store was written by a newer linrank ({str(meta.get('linrank'))[:40]}, "
            f"store version {version}); this one ({__version__}) reads up to version {VERSION}. "
            "Update linrank"
        )
    return meta


def _read(folder: Path, meta: Meta, mmap: bool) -> RankingData:
    _check_meta(meta)
    place = array_folder(folder, meta)
    arrays = {
        name: _read_array(place / f"{name}.npy", name, description, mmap)
        for name, description in meta["arrays"].items()
    }
    return _assemble(arrays, meta)


def _check_meta(meta: Meta) -> None:
    """Check the types of the entries of ``meta.json``."""
    _require(isinstance(meta.get("arrays"), dict), "meta.json does not list the arrays")
    names = set(meta["arrays"])
    for name in sorted(names - ARRAYS.keys()):
        raise ValueError(f"it has an unknown array {name[:40]!r}")
    csr = {"X_indptr", "X_indices", "X_data"}
    needed = {"y", "query_ptr", "query_ids", "query_keys"} | ({"X"} if "X" in names else csr)
    for name in sorted(needed - names):
        raise ValueError(f"{name!r} is missing")
    _require("X" not in names or not names & csr, "it has X both dense and sparse")
    n_features, index_base = meta.get("n_features"), meta.get("index_base")
    _require(type(n_features) is int, f"n_features is {str(n_features)[:40]!r}")
    check_n_features(n_features or 0)
    _require(type(index_base) is int and index_base in (0, 1), f"index_base is {index_base!r}")
    titles = meta.get("feature_names")
    are_names = isinstance(titles, list) and all(isinstance(title, str) for title in titles)
    _require(titles is None or are_names, "feature_names is not a list of names")


def _read_array(file: Path, name: str, description: object, mmap: bool) -> Array:
    """Read or map one array, after checking it against ``meta.json`` and `ARRAYS`."""
    _require(file.is_file(), f"{file.name} is missing")
    with file.open("rb") as opened:
        shape, is_fortran, dtype = read_head(opened, file.name)
        _require(not is_fortran, f"{file.name} is stored by columns; expected rows")
        kinds, n_axes = ARRAYS[name]
        known = dtype.kind in kinds if len(kinds[0]) == 1 else dtype.str[1:] in kinds
        found = describe(dtype, shape)
        _require(known and dtype.isnative and not dtype.hasobject, f"{file.name} holds {dtype}")
        _require(len(shape) == n_axes, f"{file.name} has {len(shape)} dimensions, not {n_axes}")
        _require(
            found == description, f"{file.name} holds {found}; expected {str(description)[:80]}"
        )
        n_bytes, start = dtype.itemsize * int(np.prod(shape, dtype=object)), opened.tell()
        size = os.fstat(opened.fileno()).st_size
        _require(
            size == start + n_bytes, f"{file.name} has {size} bytes; expected {start + n_bytes}"
        )
        _require(start % 16 == 0, f"{file.name} has a header of an odd size")
        if n_bytes and mmap and name in MAPPED:
            # The map gets no madvise hint. With MADV_SEQUENTIAL, a Hessian-vector product of data
            # larger than memory took three times as long on Linux.
            return np.asarray(map_file(opened, dtype, shape, start))  # kernels expect plain arrays
        array = np.fromfile(opened, dtype, n_bytes // max(dtype.itemsize, 1))
        _require(array.nbytes == n_bytes, f"{file.name} is truncated")
        return array.reshape(shape)


def _assemble(arrays: Arrays, meta: Meta) -> RankingData:
    """Check that the arrays fit together, and return them as `RankingData`."""
    arrays = _restore_ids(arrays)
    _check_rows(arrays)
    _check_queries(arrays)
    n_docs, n_features = len(arrays["y"]), meta["n_features"]
    if "X" in arrays:
        X = arrays["X"]
    else:
        indptr, indices, data = (arrays[f"X_{part}"] for part in ("indptr", "indices", "data"))
        _check_csr(indptr, indices, data, n_docs, n_features)
        X = assemble_csr(indptr, indices, data, n_features)
    _require(X.shape == (n_docs, n_features), "X has a wrong shape")
    return RankingData.from_parts(
        X=X,
        y=arrays["y"],
        query_ptr=arrays["query_ptr"],
        query_ids=arrays["query_ids"],
        order=arrays.get("order"),
        comments=_assemble_comments(arrays),
        feature_names=check_feature_names(meta.get("feature_names"), n_features),
        categories=Categories.from_description(
            meta.get("categories", []), meta.get("feature_names")
        ),
        index_base=meta["index_base"],
        weight=arrays.get("weight"),
        query_weight=arrays.get("query_weight"),
        propensity=arrays.get("propensity"),
        margin=arrays.get("margin"),
        has_missing=meta.get("has_missing") is True,
        query_keys=arrays["query_keys"],
    )


def _assemble_comments(arrays: Arrays) -> TextColumn | None:
    """Check the arrays of the comments, and return them as one column."""
    if not arrays.keys() & {"comments", "comments_ptr", "comments_rows"}:
        return None
    n_docs, rows = len(arrays["y"]), arrays.get("comments_rows")
    buffer, ptr = _take(arrays, "comments", "comments_ptr")
    n_texts = n_docs if rows is None else len(ptr) - 1
    _check_pointers("comments_ptr", ptr, n_texts, len(buffer))
    if rows is not None:
        inside = len(rows) == n_docs and rows.min() >= 0 and rows.max() < n_texts
        _require(bool(inside), "comments_rows.npy does not fit the other arrays")
    return TextColumn(buffer, ptr, rows)


def _take(arrays: Arrays, *names: str) -> Iterator[Array]:
    for name in names:
        _require(name in arrays, f"{name!r} is missing")
        yield arrays[name]


def _restore_ids(arrays: Arrays) -> Arrays:
    """Decode query ids that are text; they are stored as bytes and pointers."""
    ids = arrays["query_ids"]
    if "query_ids_ptr" in arrays:
        _require(ids.dtype == np.uint8, f"query_ids.npy holds {ids.dtype}")
        ptr = arrays["query_ids_ptr"]
        _check_pointers("query_ids_ptr", ptr, len(ptr) - 1, len(ids))
        text, ends = ids.tobytes(), ptr.tolist()
        names = [text[a:b].decode() for a, b in pairwise(ends)]
        return arrays | {"query_ids": join_strings(names)}
    if ids.dtype.kind == "U" and ids.size:
        largest = ids.view(np.uint32).max(initial=0)
        _require(largest <= 0x10FFFF, "query_ids.npy holds invalid characters")
    _require(not (ids != ids).any(), "query_ids.npy holds missing ids")
    return arrays


def _check_rows(arrays: Arrays) -> None:
    """Check the arrays with one entry per document."""
    n_docs = len(arrays["y"])
    _require(n_docs > 0, "it has no documents")
    check_labels(arrays["y"], n_docs)
    check_weight(arrays.get("weight"), n_docs, "weight")
    check_propensity(arrays.get("propensity"), n_docs)
    check_rows(arrays.get("margin"), n_docs, "margin")
    order = arrays.get("order")
    if order is not None:
        is_order = len(order) == n_docs and np.array_equal(np.sort(order), np.arange(n_docs))
        _require(is_order, "order.npy is not a permutation of the rows")


def _check_queries(arrays: Arrays) -> None:
    n_queries, ptr = len(arrays["query_ids"]), arrays["query_ptr"]
    _check_pointers("query_ptr", ptr, n_queries, len(arrays["y"]))
    _require(bool((ptr[1:] > ptr[:-1]).all()), "query_ptr.npy does not ascend")
    _require(len(arrays["query_keys"]) == n_queries, "query_keys.npy has a wrong length")
    check_weight(arrays.get("query_weight"), n_queries, "query_weight", "there are")


def _check_csr(indptr: Array, indices: Array, data: Array, n_docs: int, n_features: int) -> None:
    """Check that the indices of each row exist and ascend."""
    _require(len(indices) == len(data), "X_indices.npy has a wrong length")
    _check_pointers("X_indptr", indptr, n_docs, len(data))
    for first in range(0, len(indices), _BLOCK):
        block = indices[max(first - 1, 0) : first + _BLOCK]
        inside = block.min() >= 0 and block.max() < n_features
        _require(bool(inside), "X_indices.npy holds indices outside of the features")
        falls = np.flatnonzero(block[1:] <= block[:-1]) + max(first - 1, 0) + 1
        starts = indptr[np.searchsorted(indptr, falls.astype(indptr.dtype))]
        _require(np.array_equal(starts, falls), "X_indices.npy does not ascend within a row")


def _check_pointers(name: str, ptr: Array, n_items: int, last: int) -> None:
    """Check that pointers go from 0 to `last` and never decrease."""
    fits = len(ptr) == n_items + 1 and len(ptr) > 0 and ptr[0] == 0 and ptr[-1] == last
    for first in range(0, len(ptr) - 1, _BLOCK):
        block = ptr[first : first + _BLOCK + 1]
        fits = fits and bool((block[1:] >= block[:-1]).all())
    _require(fits, f"{name}.npy does not fit the other arrays")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


# --------------------------------------------------------------------------------------------------
# Writing of stores: at every moment, the path of a store leads to the old or the new one.


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
    meta = _own_meta(target / META)
    foreign = [name for name in names if name != META and not _is_ours(target / name, meta)]
    if META in names and meta is None:
        foreign.insert(0, META)
    if foreign:
        raise DataError(
            f"{os.fspath(path)}: the folder holds {foreign[0]!r}, which is not part of a linrank "
            "store, so it is not replaced. Choose another name, or move that file elsewhere"
        )


def _own_meta(file: Path) -> Meta | None:
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
    old = _own_meta(target / META) or {}
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
        meta = _own_meta(target / META)
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
        "version": _version(data, arrays),
        "linrank": __version__,
        "folder": folder.name,
        "n_features": data.n_features,
        "index_base": data.index_base,
        "feature_names": data.feature_names,
        "categories": data.categories.describe(),
        "has_missing": data.has_missing,
        "arrays": {name: describe(array.dtype, array.shape) for name, array in arrays.items()},
    }
    _write_meta(folder.parent / META, meta)


def _version(data: RankingData, arrays: dict[str, Array]) -> int:
    """Return the oldest version of the format that has these arrays."""
    if "comments_rows" in arrays:
        return VERSION
    return WITH_MISSING if data.has_missing else WITHOUT_MISSING


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
        comments = data.comments.compact()
        arrays |= {"comments": comments.buffer, "comments_ptr": comments.ptr}
        if comments.rows is not None:
            arrays["comments_rows"] = comments.rows
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


# --------------------------------------------------------------------------------------------------
# Stores: ranked data on disk as a folder of arrays, which are mapped into memory.


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
        with prefix_file_errors(path):
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
