"""The decorator `njit`, through which all kernels are compiled.

A kernel is compiled when it is first called, releases the GIL, and is cached on disk
(`linrank._compile.compiler`). Threads run kernels at the same time on disjoint ranges of queries.
``LINRANK_JIT_CACHE=0`` switches the cache off.

This module declares kernels without numba, because importing numba takes as long as all of linrank.
The first call of a kernel imports `linrank._compile.compiler`, and with it numba.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping
from functools import cache, update_wrapper
from typing import Any

CACHE = os.environ.get("LINRANK_JIT_CACHE", "1") != "0"

#: LLVM may reorder a sum of products, and fuse multiplications with additions. NaN and infinity
#: keep their meaning, unlike with ``fastmath=True``.
FAST = {"reassoc", "contract", "nsz"}

# A thread holds this lock while it imports numba. A process that is forked meanwhile would inherit
# numba half imported, so the fork waits. A fork takes the lock of numba's compiler first
# (`linrank._compile.compiler`). No thread may therefore wait for the compiler while it holds this
# lock.
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
                from .compiler import make_dispatcher, one_at_a_time
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
        only (`linrank._compile.compiler`), and cannot be called from Python.
    allocates : bool
        Whether the kernel allocates arrays. A kernel that allocates none is compiled without
        reference counts of arrays. Slices are then free, while counting references takes longer
        than a short loop. A kernel that allocates arrays does not compile without this flag.

    Examples
    --------
    >>> from linrank._compile.jit import njit
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
            from .compiler import type_of_choice

            self._type = type_of_choice(self)
        return self._type


# --------------------------------------------------------------------------------------------------
# Digests of source files, which tell whether a compiled kernel on disk is up to date.


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_RELATIVE_IMPORT = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


def is_cachable(function: Callable[..., Any]) -> bool:
    """Whether the name of a function identifies it, and its file belongs to the package."""
    file = source_of(function)
    named = "<" not in function.__qualname__  # neither a lambda nor a local function
    return named and file.startswith(PACKAGE + os.sep) and os.path.isfile(file)


@cache
def source_digest(path: str) -> bytes:
    """Return the digest of a source file and of all files of the package that it imports."""
    known: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        path = waiting.pop()
        if path not in known:
            known[path], imported = _read_source(path)
            waiting.extend(imported)
    named = sorted((os.path.relpath(path, PACKAGE), own) for path, own in known.items())
    return digest(repr(named).encode())


@cache
def _read_source(path: str) -> tuple[bytes, list[str]]:
    """Return the digest of a source file, and the files that it imports directly.

    A file is read when its kernels are declared, immediately after Python has read it. Later
    changes of the file do not affect the kernels of this process.
    """
    with open(path, "rb") as file:
        text = file.read()
    imported = []
    for dots, module, names in _RELATIVE_IMPORT.findall(text.decode()):
        base = path
        for _ in dots:
            base = os.path.dirname(base)
        base = os.path.join(base, *module.split("."))
        if os.path.isfile(base + ".py"):
            imported.append(base + ".py")
        else:  # a folder: the names are defined in its __init__.py, or are modules in it
            files = [os.path.join(base, f"{name}.py") for name in re.findall(r"\w+", names)]
            imported += filter(os.path.isfile, [os.path.join(base, "__init__.py"), *files])
    return digest(text), imported


def source_of(function: Callable[..., Any]) -> str:
    """Return the path of the file that defines a function."""
    return os.path.abspath(function.__code__.co_filename)


def digest(*parts: bytes) -> bytes:
    """Return the SHA-256 digest of bytes."""
    return hashlib.sha256(b"".join(parts)).digest()
