"""Headers of numpy's ``.npy`` format, checked before an array is allocated."""

from __future__ import annotations

from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy


class Head(NamedTuple):
    """What the header of an array says of the values that follow."""

    shape: tuple[int, ...]
    is_fortran: bool  #: whether the values are stored by columns
    dtype: np.dtype[Any]


def read_head(opened: BinaryIO, name: str) -> Head:
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
    Head(shape=(2, 3), is_fortran=False, dtype=dtype('float64'))
    """
    try:
        version = npy.read_magic(opened)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        head = Head(*read(opened))
    except Exception as error:  # numpy evaluates the header as a Python literal.
        raise ValueError(f"{name} has an invalid header: {error}") from None
    if head.dtype.hasobject:
        raise ValueError(f"{name} holds objects")
    if any(n < 0 for n in head.shape):
        raise ValueError(f"{name} has a negative size")
    return head
