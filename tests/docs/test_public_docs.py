"""Every public name is documented, with an example that runs."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from doctest import SKIP, DocTestFinder
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from compatibility import PACKAGES

MODULES = ("linrank", *(f"linrank.{name}" for name in PACKAGES))
# Public names that no `__all__` above lists: the deprecation policy names them, or public functions
# return them.
MORE = {
    "linrank.training.Trainer",
    "linrank.training.selection.RegularizationPath",
    "linrank.comparison.Comparison",
}
# Methods that users call first. Each is shown in its own example, or in that of its class.
SHOWN = {
    "decision_function", "explain", "explain_pair", "export", "fit", "fit_pairs", "from_frame",
    "from_pairs", "from_pipeline", "from_toml", "load", "partial_fit", "plot", "plot_curve",
    "plot_metric", "predict", "rank", "report", "run", "save", "score", "score_pairs", "solve",
    "split", "staged_predict", "summary", "take", "to_frame", "train", "write_report",
}  # fmt: skip
HEADING = re.compile(r"^(?P<name>[A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)


@cache
def public() -> dict[str, Any]:
    """Return every public object by its full name; names of one object are listed once."""
    names = {f"{home}.{name}" for home in MODULES for name in import_module(home).__all__}
    found: dict[int, tuple[str, Any]] = {}
    for name in sorted(names | MORE, key=lambda name: (name.count("."), name)):
        home, _, last = name.rpartition(".")
        value = getattr(import_module(home), last)
        found.setdefault(id(value), (name, value))
    return dict(found.values())


def described() -> dict[str, Any]:
    return {n: v for n, v in public().items() if inspect.isclass(v) or inspect.isfunction(v)}


def is_exception(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def parametrize(objects: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("value", [pytest.param(v, id=n) for n, v in objects.items()])


def sections(value: Any) -> dict[str, str]:
    """Return the sections of a docstring by their headings; the text before them is "Summary"."""
    text = inspect.cleandoc(value.__doc__ or "")
    first, *rest = HEADING.split(text)
    return {"Summary": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def names_in(section: str) -> list[str]:
    """Return the names that a section describes: lines that are not indented."""
    lines = [line for line in section.splitlines() if line and not line.startswith(" ")]
    names = [name for line in lines for name in line.split(" : ")[0].split(",")]
    return [name.strip().lstrip("*") for name in names if name.strip()]


def parameters(value: Any) -> list[str]:
    return [name for name in inspect.signature(value).parameters if name != "self"]


def examples(value: Any) -> list[str]:
    """Return the statements of the examples of an object that the suite runs."""
    module = sys.modules[value.__module__]
    tests = DocTestFinder(recurse=False).find(value, value.__qualname__, module, globs={})
    return [
        example.source
        for test in tests
        for example in test.examples
        if not example.options.get(SKIP, False)
    ]


@cache
def methods() -> dict[str, tuple[Any, type]]:
    """Return the methods of the public classes, each with the first class that has it."""
    found: dict[Any, tuple[str, Any, type]] = {}
    for kind in filter(inspect.isclass, public().values()):
        for name in dir(kind):
            method = inspect.getattr_static(kind, name)
            method = getattr(method, "fget", None) or getattr(method, "__func__", method)
            own = inspect.isfunction(method) and method.__module__.startswith("linrank")
            if own and not name.startswith("_"):
                found.setdefault(method, (f"{kind.__qualname__}.{name}", method, kind))
    return {name: (method, kind) for name, method, kind in found.values()}


def test_the_public_names_are_found():
    assert len(public()) > 150
    assert all(f"linrank.{name}" in public() for name in ("RankSVM", "ndcg", "DataError", "load"))
    assert len(methods()) > 150


@parametrize(described())
def test_docstrings_begin_with_a_sentence(value):
    summary = sections(value)["Summary"].split("\n\n")[0]
    assert re.fullmatch(r"[A-Z½`].*[.:]", summary, re.DOTALL), summary


@parametrize({n: v for n, v in described().items() if not is_exception(v)})
def test_all_parameters_are_described(value):
    if inspect.isclass(value) and issubclass(value, Enum):
        return
    found = sections(value)
    if "Parameters" in found:
        listed = names_in(found["Parameters"])
    else:  # the fields of a class of results; properties are computed from them
        listed = [n for n in names_in(found.get("Attributes", "")) if not is_property(value, n)]
    missing = set(parameters(value)) - set(listed) - inherited(value)
    unknown = set(listed) - set(parameters(value))
    assert not missing, "not described"
    assert not unknown, "described, but not in the signature"


def inherited(value: Any) -> set[str]:
    """Return the parameters that base classes describe, such as `tol` of all solvers."""
    bases = [base for base in getattr(value, "__mro__", ())[1:] if base.__module__ != "builtins"]
    return {name for base in bases for name in names_in(sections(base).get("Parameters", ""))}


def is_property(value: Any, name: str) -> bool:
    return "property" in type(inspect.getattr_static(value, name, None)).__name__


@parametrize({n: v for n, v in described().items() if inspect.isfunction(v)})
def test_all_results_are_described(value):
    returns = inspect.signature(value).return_annotation
    assert returns in (None, "None") or {"Returns", "Yields"} & sections(value).keys()


@parametrize(described())
def test_every_class_and_function_has_an_example_that_runs(value):
    assert "Examples" in sections(value)
    assert examples(value)
    # `--doctest-modules` finds the objects that their own module holds.
    assert getattr(sys.modules[value.__module__], value.__name__) is value


@pytest.mark.parametrize("name", methods())
def test_every_method_has_a_docstring(name):
    method, _ = methods()[name]
    assert re.match(r"[A-Z0-9½]", method.__doc__ or ""), "the docstring is missing"


@pytest.mark.parametrize("name", [name for name in methods() if name.split(".")[-1] in SHOWN])
def test_important_methods_are_shown(name):
    method, kind = methods()[name]
    own = [base for base in kind.__mro__ if base.__module__.startswith("linrank")]
    shown = examples(method) + [line for base in own for line in examples(base)]
    assert any(f".{method.__name__}(" in line for line in shown)


@pytest.mark.parametrize("name", sorted(public().keys() - described().keys()))
def test_constants_have_a_comment(name):
    """A line ``#:`` above the assignment, or behind it, is what documentation tools read."""
    home, _, last = name.rpartition(".")
    assert any(has_comment(Path(path), last) for path in sources_below(home))


def sources_below(home: str) -> list[Path]:
    module = import_module(home)
    folder = Path(module.__file__).parent
    return sorted(folder.glob("*.py" if home != "linrank" else "**/*.py"))


def has_comment(path: Path, name: str) -> bool:
    """Tell whether a module assigns the name, with a comment that begins with ``#:``."""
    text = path.read_text(encoding="utf-8")
    if name not in text:
        return False
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            own = lines[node.lineno - 1 : node.end_lineno]
            return lines[node.lineno - 2].strip().startswith("#:") or "#:" in " ".join(own)
    return False
