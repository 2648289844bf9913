"""What a store is made of: a ``meta.json``, and a folder of arrays that it names.

The arrays of another content are written into another folder, and ``meta.json`` is replaced in one
step. So a store is at any moment the old one or the new one. Version 1 had the arrays beside
``meta.json``.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

FORMAT, VERSION = "linrank-store", 2
META = "meta.json"
FOLDER = re.compile(r"arrays-[0-9a-f]{16}")  #: the names of folders of arrays

_FLOATS, _POINTERS = ("f4", "f8"), ("i4", "i8")

#: The arrays with the types they may have (or the kinds of types), and the number of dimensions.
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
#: Those that are mapped; the others take a few bytes per document.
MAPPED = {"X", "X_indptr", "X_indices", "X_data", "comments", "comments_ptr"}


def describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """The type and shape of an array in one word.

    Examples
    --------
    >>> describe(np.dtype(np.float64), (2, 3))
    '<f8 2 × 3'
    """
    return f"{dtype.str} {' × '.join(str(n) for n in shape)}"
