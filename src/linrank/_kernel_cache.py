"""The cache of compiled kernels on disk: one file per kernel, signature, Python and processor.

The name of a file identifies its kernel. The file starts with a stamp, which depends on numba's
version and on the content of all source files that the kernel can depend on. These are its own
file, and all files of the package that this file imports, directly or indirectly. A file with
another stamp is never loaded, and the next process that compiles the kernel replaces it. An upgrade
or an edit therefore leaves no stale kernel in use, and old files do not accumulate.

A file is written under a temporary name and then renamed, and a checksum protects its content, so
several processes may share a folder. If a process is killed while it writes, a later process
removes the temporary file.

Numba's own cache has three drawbacks:

- it considers the file of the kernel only, not the files of functions that the kernel calls;
- it fails if a file is damaged or cannot be written;
- it numbers its files, so that two processes can give one number to two kernels.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from .errors import KernelCacheWarning

PACKAGE = os.path.dirname(os.path.abspath(__file__))
MAGIC = b"linrank kernel 1\n"
DIGEST = hashlib.sha256().digest_size
LEFTOVER_SECONDS = 3600.0  #: age in seconds at which a temporary file is removed as a leftover
_TEMPORARY = re.compile(r".*\.nbc\.[0-9a-f]{16}\.tmp")
_RELATIVE_IMPORT = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


class KernelCache(NullCache):
    """The cache of one kernel, with the interface that numba's dispatcher expects.

    Parameters
    ----------
    function : callable
        A function for which `is_cachable` returns True.
    options : tuple of bool
        Options of the compilation, which distinguish kernels of the same function.
    """

    def __init__(self, function: Callable[..., Any], options: tuple[bool, ...]) -> None:
        file = _source_of(function)
        place = os.path.relpath(file, PACKAGE).removesuffix(".py").replace(os.sep, ".")
        self._name = f"{place}.{function.__qualname__}"
        self._options = options
        self._stamp = _digest(numba.__version__.encode(), source_digest(file))
        self._folder: str | None = None

    @property
    def cache_path(self) -> str | None:
        """The folder in which the kernel was last found or stored."""
        return self._folder

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the kernel for a signature; return None if no file can be used."""
        rtsys.initialize(target_context)  # symbols that compiled kernels call
        name = self._file_name(sig, target_context)
        for folder in FOLDERS:
            try:
                payload = self._read(os.path.join(folder, name))
                if payload is not None:
                    kernel = CompileResult._rebuild(target_context, *pickle.loads(payload))
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
        *parts, environments = data._reduce()
        # To load an environment imports the module of its function, such as one of numba's.
        code = data.library.get_llvm_str()
        parts.append(tuple(each for each in environments if code.count(each.env_name) > 1))
        fault = ""
        for folder in FOLDERS:
            try:
                self._write(os.path.join(folder, name), dumps(tuple(parts)))
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
        return f"{self._name}-{_digest(repr(known).encode()).hex()[:24]}.{version}.nbc"

    def _read(self, path: str) -> bytes | None:
        """Return the content of a file; None if it was compiled from other sources."""
        with open(path, "rb") as file:
            content = file.read()
        body = len(MAGIC) + DIGEST
        if content[:body] != MAGIC + _digest(content[body:]):
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
                file.write(MAGIC + _digest(body) + body)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _remove_leftovers(folder: str) -> None:
    """Remove temporary files of processes that were killed while they stored a kernel."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if _TEMPORARY.fullmatch(entry.name):
                with suppress(OSError):  # another process may remove it at the same time
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFTOVER_SECONDS:
                        os.unlink(entry.path)


def is_cachable(function: Callable[..., Any]) -> bool:
    """Whether the name of a function identifies it, and its file belongs to the package."""
    file = _source_of(function)
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
    named = sorted((os.path.relpath(path, PACKAGE), digest) for path, digest in known.items())
    return _digest(repr(named).encode())


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
    return _digest(text), imported


def _source_of(function: Callable[..., Any]) -> str:
    return os.path.abspath(function.__code__.co_filename)


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def _reason(error: Exception) -> str:
    strerror = getattr(error, "strerror", None)
    return strerror or " ".join(f"{type(error).__name__}: {error}".split())


def _folders() -> list[str]:
    """Return the folders for kernels, in the order in which they are tried."""
    own = f"linrank_{_digest(os.fsencode(PACKAGE)).hex()[:16]}"  # differs between installations
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
