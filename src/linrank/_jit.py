"""The decorator `njit`, through which all kernels are compiled.

A kernel is compiled when it is first called, releases the GIL, and is cached on disk
(`linrank._kernel_cache`). Threads run kernels at the same time on disjoint ranges of queries.
``LINRANK_JIT_CACHE=0`` switches the cache off.

This module declares kernels without numba, because importing numba takes as long as all of linrank.
The first call of a kernel imports `linrank._compiler`, and with it numba.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any

from ._sources import is_cachable, source_digest, source_of

CACHE = os.environ.get("LINRANK_JIT_CACHE", "1") != "0"

#: LLVM may reorder a sum of products, and fuse multiplications with additions. NaN and infinity
#: keep their meaning, unlike with ``fastmath=True``.
FAST = {"reassoc", "contract", "nsz"}

# A thread holds this lock while it imports numba. A process that is forked meanwhile would inherit
# numba half imported, so the fork waits. A fork takes the lock of numba's compiler first
# (`linrank._compiler`). No thread may therefore wait for the compiler while it holds this lock.
_importing = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_importing.acquire,
        after_in_parent=_importing.release,
        after_in_child=_importing.release,
    )


class Kernel:
    """A function that numba compiles when it is first called.

    Kernels and `by_type` functions are global names in other kernels. Numba asks such an object
    for its ``_numba_type_``.

    Parameters
    ----------
    function : callable
    fast, inner, allocates : bool
        See `njit`.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self, function: Callable[..., Any], fast: bool, inner: bool, allocates: bool
    ) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.fast, self.inner, self.allocates = fast, inner, allocates
        self.sources: bytes | None = None  #: digest of the sources; None if it is not cached
        if CACHE and not inner and is_cachable(function):
            # An inner kernel is stored as a part of the kernels that call it.
            self.sources = source_digest(source_of(function))
        self._dispatcher: Any = None

    @property
    def dispatcher(self) -> Any:
        """The object of numba that compiles the kernel; the first use imports numba."""
        if self._dispatcher is None:
            with _importing:
                from ._compiler import make_dispatcher, one_at_a_time
            with one_at_a_time:
                if self._dispatcher is None:
                    self._dispatcher = make_dispatcher(self)
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher(*args)

    def __reduce__(self) -> str:
        """Pickle the kernel by its name; copies are the kernel itself."""
        return self.__qualname__


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
        return lambda f: Kernel(f, fast, inner, allocates)
    return Kernel(function, fast, inner, allocates)


class by_type:
    """A function that calls one of several kernels, chosen by the type of an argument.

    The choice is made when the calling kernel is compiled, so it costs nothing at run time. The
    chosen kernel is called directly. Numba's `overload` would put a function in between, and would
    compile everything below it a second time.

    Parameters
    ----------
    position : int
        The position of the argument that decides.
    kernels : dict
        The kernels, by the NamedTuple class of this argument.
    other : Kernel, optional
        The kernel for all other types.
    """

    def __init__(
        self, position: int, kernels: Mapping[type, Kernel], other: Kernel | None = None
    ) -> None:
        self.position = position
        self._kernels = kernels
        self._other = other
        self._type: Any = None

    def choose(self, kind: type) -> Kernel:
        """Return the kernel for a type of the argument."""
        kernel = self._kernels.get(kind, self._other)
        assert kernel is not None
        return kernel

    def __call__(self, *args: Any) -> Any:
        return self.choose(type(args[self.position]))(*args)

    @property
    def _numba_type_(self) -> Any:
        if self._type is None:
            from ._compiler import type_of_choice

            self._type = type_of_choice(self)
        return self._type
