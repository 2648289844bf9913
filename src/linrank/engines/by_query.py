"""The Hessian as a matrix, from products with the Hessian in the scores of each query."""

from __future__ import annotations

import numpy as np

from .._rows import Columns, KernelMatrix
from .._typing import Integers, Vector
from ..counting.base import Plan, Scratch, State
from ..losses.base import Hinges
from ..losses.kernels import rows_buffer
from .symmetric import add_upper
from .walk import curve_sample

SAMPLE_ROWS = 1024  #: rows of X that are multiplied at a time; more take more memory
SAMPLE_NUMBERS = 2**18  #: entries of these rows; more take more memory


def hessian_by_query(
    X: KernelMatrix, plan: Plan, state: State, hinges: Hinges, query_ptr: Integers,
    queries: Integers, chosen: Columns, scratch: Scratch,
) -> Vector:  # fmt: skip
    """Compute the part X'(MX) of some queries in the Hessian, in blocks of rows.

    Only the upper triangle is computed. The columns are those of `choose_columns`.
    """
    sizes, n_columns = np.diff(query_ptr)[queries], len(chosen[0])
    room = max(1, min(SAMPLE_ROWS, SAMPLE_NUMBERS // n_columns))
    n_rows = min(int(sizes.sum()), room + int(sizes.max()))
    rows, products = np.empty((2, n_rows, n_columns))
    buffer = np.empty(rows_buffer(int(sizes.max()), n_columns))
    total = np.zeros((n_columns, n_columns))
    first = 0
    while first < len(queries):
        starts = np.concatenate([[0], np.cumsum(sizes[first:])])
        n = max(1, int(np.searchsorted(starts, n_rows, side="right")) - 1)
        curve_sample(
            X, plan, state, hinges, queries[first : first + n], starts, chosen, rows, products,
            scratch, buffer,
        )  # fmt: skip
        add_upper(total, rows[: starts[n]].T, products[: starts[n]].T)
        first += n
    return total
