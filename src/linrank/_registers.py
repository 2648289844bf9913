"""Types of SIMD vectors in numba, and the pieces that their instructions are made of."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model


class VectorType(types.Type):
    """The type of a SIMD vector of numbers."""

    def __init__(self, number: types.Float, width: int) -> None:
        super().__init__(f"vector of {width} {number}")
        self.number, self.width = number, width
        element = ir.DoubleType() if number is types.float64 else ir.FloatType()
        self.form = ir.VectorType(element, width)


class BankType(types.Type):
    """The type of several SIMD vectors."""

    def __init__(self, vector: VectorType, count: int) -> None:
        super().__init__(f"{count} times {vector}")
        self.vector, self.count = vector, count
        self.form = ir.ArrayType(vector.form, count)


@register_model(VectorType)
@register_model(BankType)
class _RegisterModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.form)


def address(context, builder, kind, array, i, i_kind, form):  # type: ignore[no-untyped-def]
    """Return the address of ``array[i]``, as that of a vector."""
    place = context.cast(builder, i, i_kind, types.uintp)
    array = context.make_array(kind)(context, builder, array)
    pointer = cgutils.get_item_pointer(context, builder, kind, array, [place], wraparound=False)
    return builder.bitcast(pointer, form.as_pointer())


def read(context, builder, kind, array, i, i_kind, form):  # type: ignore[no-untyped-def]
    """Return the numbers from ``array[i]`` on as a vector, whatever the type of the array."""
    stored = ir.VectorType(context.get_value_type(kind.dtype), form.count)
    pointer = address(context, builder, kind, array, i, i_kind, stored)
    return convert(builder, builder.load(pointer, align=kind.dtype.bitwidth // 8), form)


def convert(builder, values, form):  # type: ignore[no-untyped-def]
    """Return a vector of unsigned integers or of numbers as one of numbers of another precision."""
    element, wanted = values.type.element, form.element
    if element == wanted:
        return values
    if isinstance(element, ir.IntType):
        return builder.uitofp(values, form)
    if isinstance(wanted, ir.DoubleType):
        return builder.fpext(values, form)
    return builder.fptrunc(values, form)


def spread(builder, x, form):  # type: ignore[no-untyped-def]
    """Return a vector all of whose numbers are x."""
    number, nothing = ir.IntType(32), ir.Constant(form, ir.Undefined)
    first = builder.insert_element(nothing, x, number(0))
    return builder.shuffle_vector(
        first, nothing, ir.Constant(ir.VectorType(number, form.count), None)
    )


def constants(form, values):  # type: ignore[no-untyped-def]
    """Return a vector of given numbers."""
    return ir.Constant(form, [ir.Constant(form.element, float(x)) for x in values])


def add_multiple(builder, total, x, y):  # type: ignore[no-untyped-def]
    """Return total + x·y, in one instruction if there is one."""
    return builder.fadd(total, builder.fmul(x, y, flags=("contract",)), flags=("contract",))


def part(builder, values, places, others=None):  # type: ignore[no-untyped-def]
    """Return the numbers at some places of a vector, or of two vectors in a row, as a vector."""
    others = ir.Constant(values.type, ir.Undefined) if others is None else others
    form = ir.VectorType(ir.IntType(32), len(places))
    return builder.shuffle_vector(values, others, ir.Constant(form, list(places)))
