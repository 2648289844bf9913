"""The decorator `njit`, through which all kernels are compiled.

A kernel is compiled when it is first called, releases the GIL, and is cached on disk
(`linrank._kernel_cache`). Threads run kernels at the same time on disjoint ranges of queries.
``LINRANK_JIT_CACHE=0`` switches the cache off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numba
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import AbstractTemplate, infer_global

from ._inner import InnerCompiler, OuterCompiler
from ._kernel_cache import KernelCache, is_cachable

CACHE = os.environ.get("LINRANK_JIT_CACHE", "1") != "0"

#: LLVM may reorder a sum of products, and fuse multiplications with additions. NaN and infinity
#: keep their meaning, unlike with ``fastmath=True``.
FAST = {"reassoc", "contract", "nsz"}

# A process that is forked while another thread compiles would inherit numba's lock, and none of its
# threads could release the lock. The fork therefore waits until the kernel is compiled.
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
        Whether LLVM may reorder sums (see `FAST`).
    inner : bool
        Whether only other kernels call this one. It is then compiled as a part of these kernels
        only (`linrank._inner`), and cannot be called from Python.
    allocates : bool
        Whether the kernel allocates arrays. A kernel that allocates none is compiled without
        reference counts of arrays. Slices are then free, while counting references takes longer
        than a short loop. A kernel that allocates arrays does not compile without this flag.

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
        "no_cfunc_wrapper": True,  # no C code calls kernels
        "no_cpython_wrapper": inner,
        "_nrt": allocates,
        "pipeline_class": InnerCompiler if inner else OuterCompiler,
    }
    kernel = numba.njit(**options)(function)
    if CACHE and not inner and not numba.config.DISABLE_JIT and is_cachable(function):
        # An inner kernel is stored as a part of the kernels that call it.
        kernel._cache = KernelCache(function, (fast, allocates))
    return kernel


def by_type(
    position: int,
    kernels: Mapping[type, Callable[..., Any]],
    other: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Return a function that calls one of several kernels, chosen by the type of an argument.

    The choice is made when the calling kernel is compiled, so it costs nothing at run time. The
    chosen kernel is called directly. Numba's `overload` would put a function in between, and would
    compile everything below it a second time.

    Parameters
    ----------
    position : int
        The position of the argument that decides.
    kernels : dict
        The kernels, by the NamedTuple class of this argument.
    other : callable, optional
        The kernel for all other types.
    """

    def function(*args):  # type: ignore[no-untyped-def]
        kernel = kernels.get(type(args[position]), other)
        assert kernel is not None
        return kernel(*args)

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
