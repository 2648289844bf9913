"""The machine code of `_simd` for curves that are linear between nodes.

`linrank._instructions` calls `extend_curves`. A look-up uses instructions of AVX-512 by name. All
else is made of operations that LLVM has for every processor.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

from . import _simd
from ._registers import (
    BankType,
    VectorType,
    add_multiple,
    address,
    constants,
    convert,
    part,
    read,
    spread,
)
from ._simd import LOOKUP, SHRINK


def extend_curves() -> None:
    """Tell numba what the functions of `_simd` for curves are compiled to."""
    overload(_simd.has_lookup)(_overload_has_lookup)
    overload(_simd.slopes)(_overload_slopes)
    overload(_simd.offsets)(_overload_offsets)
    overload(_simd.interpolate)(_overload_interpolate)
    overload(_simd.hinges, prefer_literal=True)(_overload_hinges)
    overload(_simd.add_hinges)(_overload_add_hinges)
    overload(_simd.store_hinges)(_overload_store_hinges)


def _overload_has_lookup():  # type: ignore[no-untyped-def]
    if "+avx512f" in cpu_target.target_context.codegen().magic_tuple()[2].split(","):
        return lambda: True
    return lambda: False


def _overload_slopes(like, table, i, factor):  # type: ignore[no-untyped-def]
    return lambda like, table, i, factor: _slopes(like, table, i, factor)


def _overload_offsets(like, table, i, shift, factor):  # type: ignore[no-untyped-def]
    return lambda like, table, i, shift, factor: _offsets(like, table, i, float(shift), factor)


def _overload_interpolate(total, offset, slope, z, shift):  # type: ignore[no-untyped-def]
    return lambda total, offset, slope, z, shift: _interpolate(
        total, offset, slope, z, float(shift)
    )


def _overload_hinges(like, n):  # type: ignore[no-untyped-def]
    size = n.literal_value
    return lambda like, n: _hinges(like, size)


def _overload_add_hinges(sums, u, z0, z1, first):  # type: ignore[no-untyped-def]
    if first is types.none:
        return lambda sums, u, z0, z1, first: _add_hinges(sums, u, z0, z1, first)
    return lambda sums, u, z0, z1, first: _add_hinges(sums, u, z0, z1, float(first))


def _overload_store_hinges(array, sums):  # type: ignore[no-untyped-def]
    return lambda array, sums: _store_hinges(array, sums)


_PIECES = ir.VectorType(ir.DoubleType(), LOOKUP)


def _differences(context, builder, table, array, i, i_kind):  # type: ignore[no-untyped-def]
    """Return the nodes at which pieces begin, and the slopes of the pieces."""
    place = context.cast(builder, i, i_kind, types.intp)
    after = builder.add(place, context.get_constant(types.intp, 1))
    starts = read(context, builder, table, array, place, types.intp, _PIECES)
    ends = read(context, builder, table, array, after, types.intp, _PIECES)
    return starts, builder.fsub(ends, starts)


@intrinsic
def _slopes(typing_context, like, table, i, factor):  # type: ignore[no-untyped-def]
    kind = VectorType(like.number, LOOKUP)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        _, differences = _differences(context, builder, table, *arguments[1:3], i)
        values = builder.fmul(differences, spread(builder, arguments[3], _PIECES))
        return convert(builder, values, kind.form)

    return kind(like, table, i, types.float64), generate


@intrinsic
def _offsets(typing_context, like, table, i, shift, factor):  # type: ignore[no-untyped-def]
    kind = VectorType(like.number, LOOKUP)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        starts, differences = _differences(context, builder, table, *arguments[1:3], i)
        shift, factor = (spread(builder, x, _PIECES) for x in arguments[3:])
        back = builder.fsub(shift, constants(_PIECES, range(LOOKUP)))
        values = builder.fmul(add_multiple(builder, starts, back, differences), factor)
        return convert(builder, values, kind.form)

    return kind(like, table, i, types.float64, types.float64), generate


@intrinsic
def _interpolate(typing_context, total, offset, slope, z, shift):  # type: ignore[no-untyped-def]
    """Look up pieces with AVX-512; on other processors the result is undefined."""
    form = z.form

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        if "+avx512f" not in context.codegen().magic_tuple()[2].split(","):
            return ir.Constant(form, ir.Undefined)
        total, offset, slope, z, shift = arguments
        piece = _pieces(builder, z, shift)
        total = add_multiple(builder, total, _look_up(builder, slope, piece), z)
        return builder.fadd(total, _look_up(builder, offset, piece))

    return total(total, offset, slope, z, types.float64), generate


def _pieces(builder, z, shift):  # type: ignore[no-untyped-def]
    """Return integers whose last bits are the pieces in which positions z lie.

    The product with `SHRINK` is added to a large number, in which the last bit counts for 1, and
    the sum is rounded down.
    """
    form, number = z.type, ir.IntType(32)
    double = isinstance(form.element, ir.DoubleType)
    large = builder.fadd(shift, ir.Constant(ir.DoubleType(), 2.0**52 if double else 2.0**23))
    if not double:
        large = builder.fptrunc(large, form.element)
    name = "llvm.x86.avx512.vfmadd." + ("pd.512" if double else "ps.512")
    kind = ir.FunctionType(form, [form, form, form, number])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    shrink, down = constants(form, [SHRINK] * form.count), number(9)  # down, without exceptions
    found = builder.call(function, [z, shrink, spread(builder, large, form), down])
    return builder.bitcast(found, ir.VectorType(ir.IntType(64 if double else 32), form.count))


def _look_up(builder, table, piece):  # type: ignore[no-untyped-def]
    """Return the numbers of a table in two registers (double precision) or one (single)."""
    if isinstance(table.type.element, ir.FloatType):
        kind = ir.FunctionType(table.type, [table.type, piece.type])
        name, tables = "llvm.x86.avx512.permvar.sf.512", [table, piece]
    else:
        half = ir.VectorType(ir.DoubleType(), 8)
        kind = ir.FunctionType(half, [half, piece.type, half])
        lower, upper = (part(builder, table, range(8 * k, 8 * k + 8)) for k in (0, 1))
        name, tables = "llvm.x86.avx512.vpermi2var.pd.512", [lower, piece, upper]
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), tables)


@intrinsic(prefer_literal=True)
def _hinges(typing_context, like, n):  # type: ignore[no-untyped-def]
    kind = BankType(like, 2 * n.literal_value)
    return kind(like, n), lambda *_: ir.Constant(kind.form, None)


@intrinsic
def _add_hinges(typing_context, sums, u, z0, z1, first):  # type: ignore[no-untyped-def]
    form = sums.vector.form
    wide = ir.VectorType(ir.DoubleType(), form.count)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bank, u, *z, first = arguments
        from_zero = signature.args[4] is types.none
        for m in range(sums.count):
            curve, k = divmod(m, sums.count // 2)
            node = ir.Constant(ir.DoubleType(), float(k))
            node = spread(builder, node if from_zero else builder.fadd(first, node), wide)
            node = convert(builder, node, form)
            above = builder.fcmp_ordered(">", z[curve], node)
            larger = builder.select(above, z[curve], node) if k or not from_zero else z[curve]
            total = add_multiple(builder, builder.extract_value(bank, m), u, larger)
            bank = builder.insert_value(bank, total, m)
        return bank

    return sums(sums, u, z0, z1, first), generate


@intrinsic
def _store_hinges(typing_context, array, sums):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        width = sums.vector.width
        wide, block = ir.VectorType(ir.DoubleType(), width), width
        vectors = [builder.extract_value(arguments[1], m) for m in range(sums.count)]
        while block > 1:
            vectors = _halve(builder, vectors, block)
            block //= 2
        for m, vector in enumerate(vectors):
            place = context.get_constant(types.intp, m * width)
            pointer = address(context, builder, array, arguments[0], place, types.intp, wide)
            builder.store(convert(builder, vector, wide), pointer, align=8)
        return context.get_constant(types.intp, sums.count // 2)

    return types.intp(array, sums), generate


def _halve(builder, vectors, block):  # type: ignore[no-untyped-def]
    """Add the halves of each block of numbers, and join the results of two vectors in one."""
    width = vectors[0].type.count
    lower = [s + i for s in range(0, 2 * width, block) for i in range(block // 2)]
    upper = [i + block // 2 for i in lower]
    pairs = zip(vectors[::2], vectors[1::2] + vectors[-1:], strict=False)  # perhaps the last twice
    return [builder.fadd(part(builder, a, lower, b), part(builder, a, upper, b)) for a, b in pairs]
