"""The only place that names numba's compiler (`_rows` and `_prefetch` extend it).

Kernels are compiled lazily, release the GIL, and are cached on disk (`_kernel_cache`); threads
run them side by side on disjoint ranges of queries. ``LINRANK_JIT_CACHE=0`` turns the cache off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import AbstractTemplate, infer_global

from ._kernel_cache import KernelCache, is_cachable

CACHE = os.environ.get("LINRANK_JIT_CACHE", "1") != "0"

#: What LLVM may do to a sum of products: reorder and fuse it. NaN and infinity keep
#: their meaning, which ``fastmath=True`` would take away.
FAST = {"reassoc", "contract", "nsz"}

# A child that is forked while another thread compiles would inherit numba's lock, and nobody in it
# could ever release that. The fork waits until the kernel is compiled instead.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


def njit(
    function: Callable[..., Any] | None = None,
    *,
    fast: bool = False,
    inner: bool = False,
    allocates: bool = False,
) -> Any:
    """Compile a kernel of arrays and numbers.

    Parameters
    ----------
    function : callable
    fast : bool
        Let its sums be reordered.
    inner : bool
        It is called by other kernels only. Compiling it is then cheaper: what Python would
        need to call it is left out.
    allocates : bool
        It makes arrays. A kernel that does not, and by default none may, needs no count of who
        holds an array: slices are then free, where counting costs more than a short loop.

    Examples
    --------
    >>> from linrank._jit import njit
    >>> @njit
    ... def double(x):
    ...     return 2 * x
    >>> double(21)
    42
    """
    if function is None:
        return lambda f: njit(f, fast=fast, inner=inner, allocates=allocates)
    options = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": FAST if fast else False,
        "no_cfunc_wrapper": True,  # nobody calls from C
        "no_cpython_wrapper": inner,
        "_nrt": allocates,
    }
    kernel = numba.njit(**options)(function)
    if CACHE and not inner and not numba.config.DISABLE_JIT and is_cachable(function):
        # An inner kernel is stored within those that call it.
        kernel._cache = KernelCache(function, (fast, allocates))
    return kernel


def by_type(position: int, kernels: dict[type, Any], other: Any = None) -> Any:
    """One function for several kernels, chosen by the NamedTuple that an argument is.

    The choice is made when the calling kernel is compiled, so it costs nothing at run time; and
    the chosen kernel is called as if by name, since a function between the two (an `overload`)
    would have all that it calls compiled once more.

    Parameters
    ----------
    position : int
        Of the argument.
    kernels : dict
        By type.
    other : optional
        The kernel of all other types.
    """

    def function(*args):  # type: ignore[no-untyped-def]
        return kernels.get(type(args[position]), other)(*args)

    def chosen(args: tuple[types.Type, ...]) -> types.Dispatcher:
        kind = getattr(args[position], "instance_class", object)
        return types.Dispatcher(kernels.get(kind, other))

    class Call(AbstractTemplate):
        key = function

        def generic(self, args, kws):  # type: ignore[no-untyped-def]
            return chosen(args).get_call_type(self.context, args, kws)

        def get_impl_key(self, signature):  # type: ignore[no-untyped-def]
            return chosen(signature.args).get_impl_key(signature)

    infer_global(function, types.Function(Call))
    return function
