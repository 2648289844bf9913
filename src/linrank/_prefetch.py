"""Prefetching of rows from memory before they are needed, with an instruction of LLVM."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

CACHE_LINE = 64  #: bytes of a line of the cache


def prefetch_row(X: NDArray[np.floating[Any]], i: int) -> None:
    """Start to load row i of a dense X into the cache, without waiting for it.

    Without compilation the function does nothing. Results are the same.
    """


@overload(prefetch_row)
def _overload_prefetch_row(X, i):  # type: ignore[no-untyped-def]
    step = CACHE_LINE * 8 // X.dtype.bitwidth

    def prefetch(X, i):  # type: ignore[no-untyped-def]
        for f in range(0, X.shape[1], step):
            _prefetch(X, i, f)

    return prefetch


@intrinsic
def _prefetch(typing_context, X, i, f):  # type: ignore[no-untyped-def]
    """Call ``llvm.prefetch`` with the address of ``X[i, f]``, for reading."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = cgutils.get_item_pointer(
            context, builder, signature.args[0], array, arguments[1:], wraparound=False
        )
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, locality, data = number(0), number(2), number(1)
        builder.call(function, [builder.bitcast(address, pointer), read, locality, data])
        return context.get_dummy_value()

    return types.void(X, i, f), generate
