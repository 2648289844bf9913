"""SIMD vectors of four numbers, as values that kernels keep in a register.

LLVM vectorises simple loops by itself, but not several running sums in one loop, such as the
columns of a table. Without compilation, the same functions work on arrays of four numbers.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

from ._typing import Vector

WIDTH = 4  #: numbers in a SIMD vector
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)

Four: TypeAlias = Vector  #: a SIMD vector; without compilation, an array of four numbers


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__("four doubles")


vector = _Vector()


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def load(array: Vector, i: int) -> Four:
    """Return ``array[i : i + 4]`` as a SIMD vector; i must not be negative."""
    return array[i : i + WIDTH].copy()


def store(array: Vector, i: int, values: Four) -> None:
    """Write a SIMD vector to ``array[i : i + 4]``; i must not be negative."""
    array[i : i + WIDTH] = values


def add_product(values: Four, x: float, others: Four) -> Four:
    """Return values + x·others."""
    return values + x * others


@overload(load)
def _overload_load(array, i):  # type: ignore[no-untyped-def]
    return lambda array, i: _load(array, i)


@overload(store)
def _overload_store(array, i, values):  # type: ignore[no-untyped-def]
    return lambda array, i, values: _store(array, i, values)


@overload(add_product)
def _overload_add_product(values, x, others):  # type: ignore[no-untyped-def]
    return lambda values, x, others: _add_product(values, x, others)


@intrinsic
def _load(typing_context, array, i):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.load(_address(context, builder, signature, arguments), align=8)

    return vector(array, i), generate


@intrinsic
def _store(typing_context, array, i, values):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address = _address(context, builder, signature, arguments)
        builder.store(arguments[2], address, align=8)
        return context.get_dummy_value()

    return types.void(array, i, values), generate


@intrinsic
def _add_product(typing_context, values, x, others):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        values, x, others = arguments
        number = ir.IntType(32)
        first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), x, number(0))
        zeros = ir.Constant(ir.VectorType(number, WIDTH), [0] * WIDTH)
        spread = builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), zeros)
        product = builder.fmul(spread, others, flags=("contract",))
        return builder.fadd(values, product, flags=("contract",))

    return vector(values, types.float64, others), generate


def _address(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    """Return the address of place i of the array, as that of a SIMD vector."""
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, arguments[0])
    place = context.cast(builder, arguments[1], signature.args[1], types.uintp)
    pointer = cgutils.get_item_pointer(context, builder, kind, array, [place], wraparound=False)
    return builder.bitcast(pointer, _VECTOR.as_pointer())
