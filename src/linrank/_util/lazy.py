"""Attributes, public names and modules that are loaded on first use, without a lock."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

#: Modules that scipy and scikit-learn import, and of which they use nothing for a ranker.
UNUSED = ("numpy.f2py", "numpy.testing", "pandas", "scipy.stats")


class lazy_property(Generic[T]):
    """Compute an attribute on first use, and keep its value in the instance.

    `functools.cached_property` does the same. Before Python 3.12 it holds a lock during the
    computation, which all instances of the class share. If a process is forked while another
    thread holds the lock, the new process waits for ever. Without a lock, two threads that read
    the attribute at the same time may both compute it.

    Examples
    --------
    >>> class Circle:
    ...     radius = 2
    ...
    ...     @lazy_property
    ...     def diameter(self):
    ...         print("computed")
    ...         return 2 * self.radius
    >>> circle = Circle()
    >>> circle.diameter, circle.diameter
    computed
    (4, 4)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...
    def __get__(self, instance: object, owner: type | None = None) -> lazy_property[T] | T:
        """Compute the value, and store it in the instance, where Python finds it next time."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


def lazy_names(package: str, homes: dict[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its public names on first use.

    Importing a light module of a package, such as `linrank.losses.hinge_tables`, then imports none
    of its heavy modules.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    homes : dict
        The module of the package that defines each public name.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{homes[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def lazy_listed(package: str, files: tuple[str, ...]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose modules list its public names in `__all__`.

    The modules are imported one after the other until one lists the name.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    files : tuple of str
        The modules of the package, in the order in which they import each other.
    """

    def load(name: str) -> Any:
        if name == "__all__":
            modules = [import_module(f".{file}", package) for file in files]
            return sorted(listed for module in modules for listed in module.__all__)
        for file in () if name.startswith("_") or name in files else files:
            module = import_module(f".{file}", package)
            if name in module.__all__:
                value = getattr(module, name)
                setattr(sys.modules[package], name, value)
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


class ClassesByName(Mapping[str, type[T]]):
    """Classes by name; the module of a class is imported when its name is looked up.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    places : mapping
        For each name the module, relative to the package, and the class: ``"newton.Newton"``.

    Examples
    --------
    >>> from linrank.penalties import PENALTIES
    >>> PENALTIES["l1"].__name__, len(PENALTIES)
    ('L1', 9)
    """

    def __init__(self, package: str | None, places: Mapping[Any, str]) -> None:
        self._package, self._places = package, places

    def __getitem__(self, name: str) -> type[T]:
        module, _, kind = self._places[name].rpartition(".")
        return getattr(import_module(f".{module}", self._package), kind)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def import_lightly(name: str) -> ModuleType:
    """Import a module that needs scipy, in less time than an import statement.

    The modules of `UNUSED` are not imported.

    Parameters
    ----------
    name : str
        The full name of the module.
    """
    if name in sys.modules:
        return sys.modules[name]
    with postponed(*UNUSED):
        return import_module(name)


@contextmanager
def postponed(*names: str) -> Iterator[None]:
    """Replace the import of modules in the block by stand-ins, which import them on first use.

    Afterwards, the next import of such a module is an ordinary one. Modules that were imported in
    the block may keep a stand-in.

    Parameters
    ----------
    *names : str
        Full names. Modules that are loaded already, and packages that are not installed, are left
        as they are.
    """
    absent = [name for name in names if name not in sys.modules]
    stand_ins = {name: _StandIn(name) for name in absent if "." in name or find_spec(name)}
    for name, stand_in in stand_ins.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(import_module(parent), child, stand_in)
        sys.modules[name] = stand_in
    try:
        yield
    finally:
        for stand_in in stand_ins.values():
            stand_in.withdraw()


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        self.withdraw()
        return getattr(import_module(self.__name__), name)

    def withdraw(self) -> None:
        """Leave the place to the module itself."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        parent, _, child = self.__name__.rpartition(".")
        if parent and vars(sys.modules[parent]).get(child) is self:
            delattr(sys.modules[parent], child)
