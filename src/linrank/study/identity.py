"""Descriptions of rankers as texts, from which the keys of runs are made."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from inspect import unwrap
from types import CodeType, FunctionType
from typing import Any

from ..errors import DataError

#: Parameters that do not change what is learnt.
WITHOUT_EFFECT = {"n_threads", "n_jobs", "verbose", "verbosity"}


def describe_ranker(ranker: Any) -> list[Any]:
    """Return the class of a ranker, and the parameters that have an effect.

    Arrays and objects are described by their content, and functions by their code. So are classes
    of packages that have no version, such as those of a script.
    """
    parameters = {}
    for name, value in sorted(ranker.get_params(deep=False).items()):
        if name in WITHOUT_EFFECT:
            continue
        try:
            parameters[name] = _describe(value)
        except Exception as error:  # whatever pickle raises for an object
            raise DataError(
                f"the parameter {name!r} of {type(ranker).__name__} cannot be described "
                f"({' '.join(str(error).split())}), so its results could not be found again. Pass "
                "numbers, texts, arrays, functions or objects that pickle can write."
            ) from None
    return [*_describe_class(type(ranker)), parameters]


def _describe(value: Any) -> Any:
    from joblib import hash as content_hash

    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_describe, value)]
    if isinstance(value, FunctionType):
        return _describe_function(value)
    if hasattr(value, "get_params") and not isinstance(value, type):
        return describe_ranker(value)
    return content_hash(value)


def _describe_class(kind: type) -> list[Any]:
    """Return the name of a class with the version of its package, or else with its code."""
    found = [kind.__module__, kind.__qualname__]
    number = _version_of(kind.__module__.partition(".")[0])
    if number:
        return [*found, number]
    return [*found, *(_code_of_class(one) for one in kind.__mro__)]


def _code_of_class(kind: type) -> Any:
    """Return the code of the methods of a class; a version if its package has one."""
    number = _version_of(kind.__module__.partition(".")[0])
    if number or kind is object:
        return number
    functions = {
        name: unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
        for name, value in sorted(vars(kind).items())
    }
    return {
        name: _code_of(function.__code__)
        for name, function in functions.items() if isinstance(function, FunctionType)
    }  # fmt: skip


def _describe_function(function: FunctionType) -> list[Any]:
    """Return the name of a function, its code, its defaults and the values that it encloses."""
    number = _version_of(function.__module__.partition(".")[0])
    if number:
        return [function.__module__, function.__qualname__, number]
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items(), *enclosed]
    return [
        function.__module__, function.__qualname__, _code_of(function.__code__),
        # A function may enclose itself, so enclosed functions have no further description.
        *(_code_of(one.__code__) if isinstance(one, FunctionType) else _describe(one)
          for one in values),
    ]  # fmt: skip


def _code_of(code: CodeType) -> list[Any]:
    """Return what a piece of code does, without its place in a file."""
    constants = [
        _code_of(one) if isinstance(one, CodeType)
        else sorted(map(repr, one)) if isinstance(one, frozenset)  # its order varies
        else repr(one)
        for one in code.co_consts
    ]  # fmt: skip
    return [code.co_code.hex(), code.co_names, constants]


def _version_of(package: str) -> str:
    """Return the version of a package; empty if it has none."""
    found = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(found, str):
        return found
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
