"""The format of a store: a ``meta.json``, and a folder of arrays that it names.

To replace a store, new arrays are written into a new folder, and ``meta.json`` is then replaced in
one step. At every moment, a reader finds either the old or the new store. In version 1 of the
format, the arrays were beside ``meta.json``.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np

Meta: TypeAlias = dict[str, Any]  #: the content of ``meta.json``

FORMAT, VERSION = "linrank-store", 3
WITHOUT_MISSING = 2  #: version of stores without missing values, which earlier readers know
META = "meta.json"
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
