"""The machine code of `_simd` and `_prefetch`: what numba compiles their functions to.

`linrank._compiler` calls `extend_numba` before the first kernel is compiled.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from ._prefetch import CACHE_LINE, prefetch_row
from ._simd import add_product, eight, four, load, store


def extend_numba() -> None:
    """Tell numba what the functions of `_simd` and `_prefetch` are compiled to."""
    overload(four)(_overload_four)
    overload(eight)(_overload_eight)
    overload(load)(_overload_load)
    overload(store)(_overload_store)
    overload(add_product)(_overload_add_product)
    overload(prefetch_row)(_overload_prefetch_row)


# SIMD vectors --------------------------------------------------------------------------------


class _Vector(types.Type):
    def __init__(self, width: int) -> None:
        super().__init__(f"vector of {width} doubles")
        self.form = ir.VectorType(ir.DoubleType(), width)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.form)


def _overload_four():  # type: ignore[no-untyped-def]
    return lambda: _four()


def _overload_eight():  # type: ignore[no-untyped-def]
    return lambda: _eight()


def _overload_load(like, array, i):  # type: ignore[no-untyped-def]
    return lambda like, array, i: _load(like, array, i)


def _overload_store(array, i, values):  # type: ignore[no-untyped-def]
    return lambda array, i, values: _store(array, i, values)


def _overload_add_product(values, x, others):  # type: ignore[no-untyped-def]
    return lambda values, x, others: _add_product(values, x, others)


def _zeros(width: int) -> Any:
    kind = _Vector(width)

    @intrinsic
    def zeros(typing_context):  # type: ignore[no-untyped-def]
        return kind(), lambda *_: ir.Constant(kind.form, None)

    return zeros


_four, _eight = _zeros(4), _zeros(8)


@intrinsic
def _load(typing_context, like, array, i):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(_address(context, builder, signature, arguments, 1, like), align=8)

    return like(like, array, i), generate


@intrinsic
def _store(typing_context, array, i, values):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, arguments, 0, values)
        builder.store(arguments[2], address, align=8)
        return context.get_dummy_value()

    return types.void(array, i, values), generate


@intrinsic
def _add_product(typing_context, values, x, others):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        sums, x, others = arguments
        number, nothing = ir.IntType(32), ir.Constant(values.form, ir.Undefined)
        first = builder.insert_element(nothing, x, number(0))
        zeros = ir.Constant(ir.VectorType(number, values.form.count), None)
        spread = builder.shuffle_vector(first, nothing, zeros)
        product = builder.fmul(spread, others, flags=("contract",))
        return builder.fadd(sums, product, flags=("contract",))

    return values(values, types.float64, others), generate


def _address(context, builder, signature, arguments, at, vector):  # type: ignore[no-untyped-def]
    """Return the address of a place of an array, the arguments `at` and `at` + 1, as a vector's."""
    kind = signature.args[at]
    array = context.make_array(kind)(context, builder, arguments[at])
    place = context.cast(builder, arguments[at + 1], signature.args[at + 1], types.uintp)
    pointer = cgutils.get_item_pointer(context, builder, kind, array, [place], wraparound=False)
    return builder.bitcast(pointer, vector.form.as_pointer())


# Prefetching ---------------------------------------------------------------------------------


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
