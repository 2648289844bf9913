"""The machine code of `_simd` and `_prefetch`: what numba compiles their functions to.

`linrank._compiler` calls `extend_numba` before the first kernel is compiled.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, overload, type_callable
from numba.np.arrayobj import populate_array

from . import _simd
from ._curve_instructions import extend_curves
from ._prefetch import CACHE_LINE, prefetch, prefetch_row
from ._registers import VectorType, add_multiple, address, constants, convert, read, spread
from ._simd import STEPS


def extend_numba() -> None:
    """Tell numba what the functions of `_simd` and `_prefetch` are compiled to."""
    overload(_simd.four)(_overload_four)
    overload(_simd.eight)(_overload_eight)
    overload(_simd.sixteen)(_overload_sixteen)
    type_callable(_simd.buffer)(_type_buffer)
    lower_builtin(_simd.buffer, VectorType, types.IntegerLiteral)(_make_buffer)
    overload(_simd.load)(_overload_load)
    overload(_simd.store)(_overload_store)
    overload(_simd.add_at)(_overload_add_at)
    overload(_simd.add_product)(_overload_add_product)
    extend_curves()
    overload(prefetch)(_overload_prefetch)
    overload(prefetch_row)(_overload_prefetch_row)


# SIMD vectors --------------------------------------------------------------------------------


def _overload_four():  # type: ignore[no-untyped-def]
    return lambda: _four()


def _overload_eight():  # type: ignore[no-untyped-def]
    return lambda: _eight()


def _overload_sixteen():  # type: ignore[no-untyped-def]
    return lambda: _sixteen()


def _overload_load(like, array, i):  # type: ignore[no-untyped-def]
    return lambda like, array, i: _load(like, array, i)


def _overload_store(array, i, values):  # type: ignore[no-untyped-def]
    return lambda array, i, values: _store(array, i, values)


def _overload_add_at(array, i, values):  # type: ignore[no-untyped-def]
    return lambda array, i, values: _add_at(array, i, values)


def _overload_add_product(values, x, others):  # type: ignore[no-untyped-def]
    return lambda values, x, others: _add_product(values, x, others)


def _zeros(number: types.Float, width: int) -> Any:
    kind = VectorType(number, width)

    @intrinsic
    def zeros(typing_context):  # type: ignore[no-untyped-def]
        return kind(), lambda *_: ir.Constant(kind.form, None)

    return zeros


_four, _eight = _zeros(types.float64, 4), _zeros(types.float64, 8)
_sixteen = _zeros(types.float32, 16)


def _type_buffer(context):  # type: ignore[no-untyped-def]
    def kind(like, n):  # type: ignore[no-untyped-def]
        is_constant = isinstance(like, VectorType) and isinstance(n, types.IntegerLiteral)
        return types.Array(like.number, 1, "C") if is_constant else None

    return kind


def _make_buffer(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    """Allocate an array on the stack of the calling kernel; an `overload` would use its own."""
    kind, size = signature.return_type, signature.args[1].literal_value
    element, item = context.get_value_type(kind.dtype), kind.dtype.bitwidth // 8
    place = cgutils.alloca_once(builder, ir.ArrayType(element, size))
    place.align = CACHE_LINE
    array = context.make_array(kind)(context, builder)
    populate_array(
        array,
        data=builder.bitcast(place, element.as_pointer()),
        shape=cgutils.pack_array(builder, [context.get_constant(types.intp, size)]),
        strides=cgutils.pack_array(builder, [context.get_constant(types.intp, item)]),
        itemsize=context.get_constant(types.intp, item),
        meminfo=None,
    )
    return array._getvalue()


@intrinsic
def _load(typing_context, like, array, i):  # type: ignore[no-untyped-def]
    form = like.form
    unit = constants(form, [1.0 / STEPS] * form.count) if array.dtype == types.uint16 else None

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        values = read(context, builder, array, *arguments[1:], i, form)
        return values if unit is None else builder.fmul(values, unit)

    return like(like, array, i), generate


@intrinsic
def _store(typing_context, array, i, values):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = address(context, builder, array, *arguments[:2], i, values.form)
        builder.store(arguments[2], pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, i, values), generate


@intrinsic
def _add_at(typing_context, array, i, values):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        form = ir.VectorType(ir.DoubleType(), values.width)
        pointer = address(context, builder, array, *arguments[:2], i, form)
        total = builder.fadd(builder.load(pointer, align=8), convert(builder, arguments[2], form))
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return types.void(array, i, values), generate


@intrinsic
def _add_product(typing_context, values, x, others):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        sums, x, others = arguments
        return add_multiple(builder, sums, spread(builder, x, values.form), others)

    return values(values, types.float64, others), generate


# Prefetching ---------------------------------------------------------------------------------


def _overload_prefetch(X, i, f):  # type: ignore[no-untyped-def]
    return lambda X, i, f: _prefetch(X, i, f)


def _overload_prefetch_row(X, i):  # type: ignore[no-untyped-def]
    step = CACHE_LINE * 8 // X.dtype.bitwidth

    def prefetch_all(X, i):  # type: ignore[no-untyped-def]
        for f in range(0, X.shape[1], step):
            _prefetch(X, i, f)

    return prefetch_all


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
