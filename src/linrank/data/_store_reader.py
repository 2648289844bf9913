"""Reading of stores, with checks of everything that could make a kernel read out of bounds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from .._maps import map_file
from .._typing import Array
from .._version import __version__
from ..errors import FileFormatError
from ._csr import assemble_csr
from ._store_format import ARRAYS, FOLDER, FORMAT, MAPPED, META, VERSION, Meta, describe
from .checks import (
    check_feature_names,
    check_labels,
    check_n_features,
    check_propensity,
    check_rows,
    check_weight,
)
from .ids import join_strings
from .npy import read_head
from .ranking import RankingData
from .text import TextColumn

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
    comments = None
    if "comments" in arrays or "comments_ptr" in arrays:
        comments = TextColumn(*_take(arrays, "comments", "comments_ptr"))
        _check_pointers("comments_ptr", comments.ptr, n_docs, len(comments.buffer))
    return RankingData.from_parts(
        X=X,
        y=arrays["y"],
        query_ptr=arrays["query_ptr"],
        query_ids=arrays["query_ids"],
        order=arrays.get("order"),
        comments=comments,
        feature_names=check_feature_names(meta.get("feature_names"), n_features),
        index_base=meta["index_base"],
        weight=arrays.get("weight"),
        query_weight=arrays.get("query_weight"),
        propensity=arrays.get("propensity"),
        margin=arrays.get("margin"),
        has_missing=meta.get("has_missing") is True,
        query_keys=arrays["query_keys"],
    )


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
