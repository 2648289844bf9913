"""What kernels need of numba: dispatchers, types, and the compiler's lock during a fork.

Importing this module imports numba. `linrank._compile.jit` does so when a kernel is first called.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

import numba
from llvmlite import ir
from llvmlite.binding import parse_bitcode
from numba import types
from numba.core import cgutils
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, compile_result
from numba.core.compiler_lock import global_compiler_lock as one_at_a_time
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typing.templates import AbstractTemplate
from numba.extending import (
    intrinsic,
    lower_builtin,
    models,
    overload,
    register_model,
    type_callable,
)
from numba.misc.appdirs import AppDirs
from numba.np.arrayobj import populate_array

from ..errors import KernelCacheWarning
from . import simd
from .jit import FAST, PACKAGE, Kernel, by_type, digest, source_of
from .simd import CACHE_LINE, LOOKUP, SHRINK, STEPS, prefetch, prefetch_row

# --------------------------------------------------------------------------------------------------
# The cache of compiled kernels on disk: one file per kernel, signature, Python and processor.
#
# The name of a file identifies its kernel. The file starts with a stamp, which depends on numba's
# version and on the content of all source files that the kernel can depend on. These are its own
# file, and all files of the package that this file imports, directly or indirectly. A file with
# another stamp is never loaded, and the next process that compiles the kernel replaces it. An
# upgrade or an edit therefore leaves no stale kernel in use, and old files do not accumulate.
#
# A file is written under a temporary name and then renamed, and a checksum protects its content, so
# several processes may share a folder. If a process is killed while it writes, a later process
# removes the temporary file.
#
# Numba's own cache has three drawbacks:
#
# - it considers the file of the kernel only, not the files of functions that the kernel calls;
# - it fails if a file is damaged or cannot be written;
# - it numbers its files, so that two processes can give one number to two kernels.


MAGIC = b"linrank kernel 1\n"
DIGEST = len(digest())
LEFTOVER_SECONDS = 3600.0  #: age in seconds at which a temporary file is removed as a leftover
_TEMPORARY = re.compile(r".*\.nbc\.[0-9a-f]{16}\.tmp")


class KernelCache(NullCache):
    """The cache of one kernel, with the interface that numba's dispatcher expects.

    Parameters
    ----------
    kernel : Kernel
        A kernel whose `sources` are known.
    """

    def __init__(self, kernel: Kernel) -> None:
        file = source_of(kernel.py_func)
        place = os.path.relpath(file, PACKAGE).removesuffix(".py").replace(os.sep, ".")
        self._name = f"{place}.{kernel.__qualname__}"
        self._options = kernel.fast, kernel.allocates
        self._stamp = digest(numba.__version__.encode(), kernel.sources or b"")
        self._folder: str | None = None

    @property
    def cache_path(self) -> str | None:
        """The folder in which the kernel was last found or stored."""
        return self._folder

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the kernel for a signature; return None if no file can be used."""
        name = self._file_name(sig, target_context)
        for folder in FOLDERS:
            try:
                payload = self._read(os.path.join(folder, name))
                if payload is not None:
                    kernel = _rebuild(target_context, *pickle.loads(payload))
                    self._folder = folder
                    return kernel
            except (FileNotFoundError, NotADirectoryError):
                continue
            except Exception as error:
                _warn(
                    f"{os.path.join(folder, name)}: this compiled kernel cannot be loaded "
                    f"({_reason(error)}). linrank compiles it again and replaces the file."
                )
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a kernel in the first folder that can be written."""
        global _storing
        if not _storing or data.library.has_dynamic_globals:
            return
        name = self._file_name(sig, data.target_context)
        payload = dumps(_reduce(data))
        fault = ""
        for folder in FOLDERS:
            try:
                self._write(os.path.join(folder, name), payload)
                self._folder = folder
                return
            except Exception as error:
                fault = fault or f"{folder}: {_reason(error)}"
        _storing = False
        _warn(
            f"compiled kernels cannot be stored ({fault}). Each process compiles them again. Set "
            "NUMBA_CACHE_DIR to a folder that can be written, or LINRANK_JIT_CACHE=0 to work "
            "without a cache."
        )

    def _file_name(self, sig: Any, target_context: Any) -> str:
        known = (sig, self._options, target_context.codegen().magic_tuple())
        version = sys.implementation.cache_tag
        return f"{self._name}-{digest(repr(known).encode()).hex()[:24]}.{version}.nbc"

    def _read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it was compiled from other sources."""
        with open(path, "rb") as file:
            content = file.read()
        body = len(MAGIC) + DIGEST
        if content[:body] != MAGIC + digest(content[body:]):
            raise ValueError("the file is damaged")
        if content[body : body + DIGEST] != self._stamp:
            return None
        return content[body + DIGEST :]

    def _write(self, path: str, payload: bytes) -> None:
        body = self._stamp + payload
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _remove_leftovers(os.path.dirname(path))
        temporary = f"{path}.{os.urandom(8).hex()}.tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(MAGIC + digest(body) + body)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


class StoredLibrary(JITCodeLibrary):
    """Machine code from a file, and the same code as bitcode of LLVM.

    Only the compilation of another kernel that calls this one needs the bitcode. It is parsed then,
    because this takes longer than everything else that loads a kernel.
    """

    def __init__(self, codegen: Any, name: str, machine_code: bytes, bitcode: bytes) -> None:
        super().__init__(codegen, name)
        self._shared_module: Any = None
        self._bitcode = bitcode
        self.enable_object_caching()
        self._set_compiled_object(machine_code)
        self._finalize_final_module()

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function; numba's method would look for it in the bitcode."""
        return self._codegen._engine.get_function_address(name)

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self._bitcode)
        return self._shared_module


def _reduce(kernel: Any) -> tuple[Any, ...]:
    """Return the parts of a compiled kernel that are stored."""
    name, _, code = kernel.library.serialize_using_object_code()
    kernel.fndesc.typemap = kernel.fndesc.calltypes = None  # not needed, and not always picklable
    # To load an environment imports the module of its function, such as one of numba's.
    text = kernel.library.get_llvm_str()
    environments = kernel._find_referenced_environments()
    used = [each for each in environments if text.count(each.env_name) > 1]
    allocates = "@NRT_" in text  # also if only an inner kernel allocates arrays
    return allocates, (name, *code), kernel.fndesc, kernel.environment, kernel.signature, used


def _rebuild(
    target_context: Any, allocates: bool, code: tuple[str, bytes, bytes], fndesc: Any,
    environment: Any, signature: Any, used: list[Any],
) -> Any:  # fmt: skip
    """Make a kernel of the parts that `_reduce` returned."""
    if allocates:
        rtsys.initialize(target_context)  # compiles numba's functions for arrays, in 30 ms
    library = StoredLibrary(target_context.codegen(), *code)
    kernel = compile_result(
        target_context=target_context,
        typing_context=target_context.typing_context,
        library=library,
        environment=environment,
        entry_point=target_context.get_executable(library, fndesc, environment),
        fndesc=fndesc,
        signature=signature,
        objectmode=False,
        lifted=(),
        referenced_envs=used,
    )
    for each in used:
        library.codegen.set_env(each.env_name, each)
    return kernel


def _remove_leftovers(folder: str) -> None:
    """Remove temporary files of processes that were killed while they stored a kernel."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if _TEMPORARY.fullmatch(entry.name):
                with suppress(OSError):  # another process may remove it at the same time
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFTOVER_SECONDS:
                        os.unlink(entry.path)


def _reason(error: Exception) -> str:
    strerror = getattr(error, "strerror", None)
    return strerror or " ".join(f"{type(error).__name__}: {error}".split())


def _folders() -> list[str]:
    """Return the folders for kernels, in the order in which they are tried."""
    own = f"linrank_{digest(os.fsencode(PACKAGE)).hex()[:16]}"  # differs between installations
    if numba.config.CACHE_DIR:
        return [os.path.join(os.path.abspath(numba.config.CACHE_DIR), own)]
    beside = os.path.join(PACKAGE, "__pycache__", "kernels")
    user = AppDirs(appname="linrank", appauthor=False).user_cache_dir
    return [beside, os.path.join(user, own)] if os.path.isabs(user) else [beside]


def _warn(sentence: str) -> None:
    """Warn once per process, because a problem with one file often affects all files."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(sentence, KernelCacheWarning, stacklevel=2)


FOLDERS = _folders()
_storing = True  #: becomes False when no folder can be written
_warned = False


# --------------------------------------------------------------------------------------------------
# What kernels need of numba: dispatchers, types, and the compiler's lock during a fork.


# --------------------------------------------------------------------------------------------------
# Compilation of inner kernels: the kernels that only other kernels call.
#
# LLVM optimises an inner kernel and makes machine code of it as a part of each kernel that calls
# it. Numba would also do both for the inner kernel alone, and that code would never run.
#
# An *environment* holds the Python objects that a kernel uses, for example to print. Machine code
# finds it at an address that is known when the code is loaded. Inner kernels get their environments
# when a kernel that calls them is loaded.


class InnerCompiler(Compiler):
    """Numba's compiler, which leaves the code of a kernel unoptimised in an `InnerLibrary`."""

    def define_pipelines(self) -> Any:
        """Return numba's passes; the last of them fills the library."""
        state = self.state
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()


class OuterCompiler(Compiler):
    """Numba's compiler for the kernels that are called from Python."""

    def _compile_core(self) -> Any:
        kernel = super()._compile_core()
        for environment in kernel._find_referenced_environments():
            kernel.codegen.set_env(environment.env_name, environment)
        return kernel


class InnerLibrary(JITCodeLibrary):
    """Code that is linked into other libraries, and that cannot be run by itself."""

    @property
    def codegen(self) -> _Later:
        """The object that numba asks to register the environment of this kernel."""
        return _Later()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _Later:
    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: `OuterCompiler` registers the environments of inner kernels."""


# --------------------------------------------------------------------------------------------------
# What kernels need of numba: dispatchers, types, and the compiler's lock during a fork.


# A process that is forked while another thread compiles would inherit numba's lock, and none of its
# threads could release the lock. The fork therefore waits until the kernel is compiled.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=one_at_a_time.acquire,
        after_in_parent=one_at_a_time.release,
        after_in_child=one_at_a_time.release,
    )


def make_dispatcher(kernel: Kernel) -> Any:
    """Return numba's dispatcher of a kernel; without compilation, its Python function."""
    dispatcher = numba.njit(
        nogil=True,
        error_model="numpy",
        fastmath=FAST if kernel.fast else False,
        no_cfunc_wrapper=True,  # no C code calls kernels
        no_cpython_wrapper=kernel.inner,
        _nrt=kernel.allocates,
        pipeline_class=InnerCompiler if kernel.inner else OuterCompiler,
    )(kernel.py_func)
    if kernel.sources is not None and not numba.config.DISABLE_JIT:
        dispatcher._cache = KernelCache(kernel)
    return dispatcher


def type_of_choice(choice: by_type) -> types.Function:
    """Return the type of a `by_type` function, which finds the kernel for types of arguments."""

    def chosen(args: tuple[types.Type, ...]) -> types.Dispatcher:
        kind = getattr(args[choice.position], "instance_class", object)
        return types.Dispatcher(choice.choose(kind).dispatcher)

    class Call(AbstractTemplate):
        key = choice

        def generic(self, args, kws):  # type: ignore[no-untyped-def]
            return chosen(args).get_call_type(self.context, args, kws)

        def get_impl_key(self, signature):  # type: ignore[no-untyped-def]
            return chosen(signature.args).get_impl_key(signature)

    return types.Function(Call)


# --------------------------------------------------------------------------------------------------
# The machine code of the functions in `linrank._compile.simd`: what numba compiles them to.


# --------------------------------------------------------------------------------------------------
# Types of SIMD vectors in numba, and the pieces that their instructions are made of.


class VectorType(types.Type):
    """The type of a SIMD vector of numbers."""

    def __init__(self, number: types.Float, width: int) -> None:
        super().__init__(f"vector of {width} {number}")
        self.number, self.width = number, width
        element = ir.DoubleType() if number is types.float64 else ir.FloatType()
        self.form = ir.VectorType(element, width)


class VectorsType(types.Type):
    """The type of several SIMD vectors."""

    def __init__(self, vector: VectorType, count: int) -> None:
        super().__init__(f"{count} times {vector}")
        self.vector, self.count = vector, count
        self.form = ir.ArrayType(vector.form, count)


@register_model(VectorType)
@register_model(VectorsType)
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


# --------------------------------------------------------------------------------------------------
# The machine code of `simd` for curves that are linear between nodes.
#
# A look-up uses instructions of AVX-512 by name. All
# else is made of operations that LLVM has for every processor.


def extend_curves() -> None:
    """Tell numba what the functions of `simd` for curves are compiled to."""
    overload(simd.has_lookup)(_overload_has_lookup)
    overload(simd.slopes)(_overload_slopes)
    overload(simd.offsets)(_overload_offsets)
    overload(simd.interpolate)(_overload_interpolate)
    overload(simd.hinges, prefer_literal=True)(_overload_hinges)
    overload(simd.add_hinges)(_overload_add_hinges)
    overload(simd.store_hinges)(_overload_store_hinges)


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
    kind = VectorsType(like, 2 * n.literal_value)
    return kind(like, n), lambda *_: ir.Constant(kind.form, None)


@intrinsic
def _add_hinges(typing_context, sums, u, z0, z1, first):  # type: ignore[no-untyped-def]
    form = sums.vector.form
    wide = ir.VectorType(ir.DoubleType(), form.count)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        totals, u, *z, first = arguments
        from_zero = signature.args[4] is types.none
        for m in range(sums.count):
            curve, k = divmod(m, sums.count // 2)
            node = ir.Constant(ir.DoubleType(), float(k))
            node = spread(builder, node if from_zero else builder.fadd(first, node), wide)
            node = convert(builder, node, form)
            above = builder.fcmp_ordered(">", z[curve], node)
            larger = builder.select(above, z[curve], node) if k or not from_zero else z[curve]
            total = add_multiple(builder, builder.extract_value(totals, m), u, larger)
            totals = builder.insert_value(totals, total, m)
        return totals

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


# --------------------------------------------------------------------------------------------------
# The machine code of `simd`: what numba compiles their functions to.
#
# `linrank._compile.compiler` calls `extend_numba` before the first kernel is compiled.


def extend_numba() -> None:
    """Tell numba what the functions of `simd` are compiled to."""
    overload(simd.four)(_overload_four)
    overload(simd.eight)(_overload_eight)
    overload(simd.sixteen)(_overload_sixteen)
    type_callable(simd.buffer)(_type_buffer)
    lower_builtin(simd.buffer, VectorType, types.IntegerLiteral)(_make_buffer)
    overload(simd.load)(_overload_load)
    overload(simd.store)(_overload_store)
    overload(simd.add_at)(_overload_add_at)
    overload(simd.add_product)(_overload_add_product)
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


extend_numba()
