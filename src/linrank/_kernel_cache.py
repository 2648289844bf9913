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

import os
import pickle
import re
import sys
import time
import warnings
from contextlib import suppress
from typing import Any

import numba
from llvmlite.binding import parse_bitcode
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import compile_result
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

from ._jit import Kernel
from ._sources import PACKAGE, digest, source_of
from .errors import KernelCacheWarning

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
