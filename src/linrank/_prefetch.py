"""Prefetching of rows from memory before they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE_LINE = 64  #: bytes of a line of the cache


def prefetch_row(X: NDArray[np.floating[Any]], i: int) -> None:
    """Start to load row i of a dense X into the cache, without waiting for it.

    Kernels use an instruction of LLVM (`linrank._instructions`). Without compilation the function
    does nothing. Results are the same.
    """


def prefetch(X: NDArray[Any], i: int, f: int) -> None:
    """Start to load the cache line of ``X[i, f]``, as `prefetch_row` does; f may be too large."""
