"""Digests of source files, which tell whether a compiled kernel on disk is up to date."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any

PACKAGE = os.path.dirname(os.path.abspath(__file__))
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
