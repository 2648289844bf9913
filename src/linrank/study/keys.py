"""Keys of runs: hashes of everything that the outcome of a run depends on."""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from ..criterion import Criterion
from ..errors import DataError

#: Parameters that do not change what is learnt.
WITHOUT_EFFECT = {"n_threads", "n_jobs", "verbose", "verbosity"}
KEY_VERSION = 2  #: raised when the same settings mean something else than before

Content: TypeAlias = "str | list[Content]"  #: a value as JSON, such that equal values are equal


def key_of(
    ranker: Any, chooser: Any, Cs: tuple[float, ...] | None, digest: str, criterion: Criterion
) -> str:
    """Return a hash of everything that the outcome of a run depends on.

    These are the ranker with its parameters and its code, the way in which C is chosen, the digest
    of the data, and the metric. Code counts by the versions of its packages, and code of modules
    without a version, such as a notebook, by its instructions.
    """
    content = [
        KEY_VERSION, content_of(ranker), chooser and chooser.__name__, Cs, digest,
        criterion.metric, criterion.flavour,
    ]  # fmt: skip
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def content_of(value: Any) -> Content:
    """Describe a ranker or a parameter by its content and its code.

    Raises
    ------
    DataError
        If an object cannot be pickled, so that its content is not known.

    Examples
    --------
    >>> content_of([1, np.float64(0.5), "map"])
    ['list', '1', '0.5', "'map'"]
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, type):
        return _class_content(value)
    if inspect.isfunction(value):
        return _function_content(value)
    if isinstance(value, partial):
        return ["partial", content_of([value.func, value.args, value.keywords])]
    if hasattr(value, "get_params"):
        return [_class_content(type(value)), *_parameters(value)]
    if type(value) in (list, tuple):
        return [type(value).__name__, *map(content_of, value)]
    if type(value) is dict:
        return ["dict", *map(content_of, value.items())]
    return [_class_content(type(value)), _hash_of(value)]


def _parameters(ranker: Any) -> list[Content]:
    """Describe the parameters that have an effect."""
    known = sorted(ranker.get_params(deep=False).items())
    return [[name, content_of(value)] for name, value in known if name not in WITHOUT_EFFECT]


def _hash_of(value: Any) -> str:
    from joblib import hash as content_hash

    try:
        return str(content_hash(value))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise DataError(
            f"a ranker of a study has the parameter {value!r}, which cannot be pickled: "
            f"{error.args[0]}. Use a class or function of a module instead."
        ) from None


def _class_content(kind: type) -> Content:
    releases = {_release(one) for one in kind.__mro__} | set(_backend(kind).items())
    texts = [text for release in sorted(releases) for text in release]
    return [f"{kind.__module__}.{kind.__qualname__}", *texts]


def _function_content(function: Any) -> Content:
    """Describe a function by its code, default values and the variables that it encloses."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    enclosed = [value for value in cells if value is not function]  # it may call itself
    return [
        function.__qualname__, *_release(function),
        content_of([function.__defaults__, function.__kwdefaults__, enclosed]),
    ]  # fmt: skip


def _release(definition: Any) -> tuple[str, str]:
    """Return the package and version of a class or function; without a version, its code."""
    package = definition.__module__.partition(".")[0]
    if package in sys.stdlib_module_names:
        return "", ""
    number = package_version(package)
    return package, number or json.dumps(_code_of(definition))


def _code_of(definition: Any) -> Content:
    """Describe a class or function without a version by its code, wherever it stands in a file."""
    if inspect.isfunction(definition):
        return _instructions(definition.__code__)
    found: list[Content] = []
    for name, value in sorted(vars(definition).items()):
        value = getattr(value, "fget", None) or getattr(value, "__func__", value)
        value = inspect.unwrap(value) if callable(value) else value
        if inspect.isfunction(value):
            found.append([name, _instructions(value.__code__)])
        elif isinstance(value, bool | int | float | str) and not name.startswith("__"):
            found.append([name, repr(value)])
    return found


def _instructions(code: CodeType) -> Content:
    constants: list[Content] = [
        _instructions(one) if isinstance(one, CodeType)
        else ["frozenset", *sorted(map(repr, one))] if isinstance(one, frozenset)
        else repr(one)
        for one in code.co_consts
    ]  # fmt: skip
    return [code.co_code.hex(), list(code.co_names), constants]


def _backend(kind: type) -> dict[str, str]:
    """Return the package that a ranker of linrank wraps, with its version."""
    package = getattr(kind, "backend", None)
    return {package: package_version(package)} if isinstance(package, str) else {}


def package_versions(ranker: Any) -> dict[str, str]:
    """Return the versions of the packages that hold the class of a ranker and its bases.

    Examples
    --------
    >>> from linrank import RankSVM
    >>> sorted(package_versions(RankSVM()))
    ['linrank', 'sklearn']
    """
    packages = [kind.__module__.partition(".")[0] for kind in type(ranker).__mro__]
    found = {package: package_version(package) for package in packages
             if package not in sys.stdlib_module_names}  # fmt: skip
    return {name: number for name, number in (found | _backend(type(ranker))).items() if number}


def package_version(package: str) -> str:
    """Return the version of a package; an empty text if it has none."""
    number = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(number, str):
        return number
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
