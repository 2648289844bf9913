"""What kernels need of numba: dispatchers, types, and the compiler's lock during a fork.

Importing this module imports numba. `linrank._jit` does so when a kernel is first called.
"""

from __future__ import annotations

import os
from typing import Any

import numba
from numba import types
from numba.core.compiler_lock import global_compiler_lock as one_at_a_time
from numba.core.typing.templates import AbstractTemplate

from ._inner import InnerCompiler, OuterCompiler
from ._instructions import extend_numba
from ._jit import FAST, Kernel, by_type
from ._kernel_cache import KernelCache

extend_numba()

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
