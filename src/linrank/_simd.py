"""SIMD vectors of four or eight numbers, as values that kernels keep in registers.

LLVM vectorises simple loops by itself, but not several running sums in one loop, such as the
columns of a table. Without compilation, the same functions work on arrays. A processor without
vectors of eight numbers uses two vectors of four.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from ._typing import Vector

Few: TypeAlias = Vector  #: a SIMD vector; without compilation, an array of four or eight numbers


class _Vector(types.Type):
    def __init__(self, width: int) -> None:
        super().__init__(f"vector of {width} doubles")
        self.form = ir.VectorType(ir.DoubleType(), width)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.form)


def four() -> Few:
    """Return a SIMD vector of four zeros."""
    return np.zeros(4)


def eight() -> Few:
    """Return a SIMD vector of eight zeros."""
    return np.zeros(8)


def load(like: Few, array: Vector, i: int) -> Few:
    """Return ``array[i : i + n]`` for a SIMD vector of n numbers; i must not be negative."""
    return array[i : i + len(like)].copy()


def store(array: Vector, i: int, values: Few) -> None:
    """Write a SIMD vector to ``array[i : i + n]``; i must not be negative."""
    array[i : i + len(values)] = values


def add_product(values: Few, x: float, others: Few) -> Few:
    """Return values + x·others."""
    return values + x * others


@overload(four)
def _overload_four():  # type: ignore[no-untyped-def]
    return lambda: _four()


@overload(eight)
def _overload_eight():  # type: ignore[no-untyped-def]
    return lambda: _eight()


@overload(load)
def _overload_load(like, array, i):  # type: ignore[no-untyped-def]
    return lambda like, array, i: _load(like, array, i)


@overload(store)
def _overload_store(array, i, values):  # type: ignore[no-untyped-def]
    return lambda array, i, values: _store(array, i, values)


@overload(add_product)
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
