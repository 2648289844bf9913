"""What the modules of the package import and reach into, read from their sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "linrank"
NAMED_TUPLE = {"_replace", "_asdict", "_fields", "_make"}  # public, in spite of their names
LOCKS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier"}


@dataclass(frozen=True)
class Import:
    """One name that a module imports from a module of the package."""

    file: str  # the importing file, relative to the package
    line: int
    module: tuple[str, ...]  # what is imported from, e.g. ("data", "ranking")
    name: str


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of every module, by its path relative to the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only type checkers see."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (node for part in child.orelse for node in (part, *nodes(part)))
            continue
        yield child
        yield from nodes(child)


def imports(file: str) -> Iterator[Import]:
    """Yield what a module imports from the package, function-level imports included."""
    package = file.split("/")[:-1]
    for node in nodes(modules()[file]):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head, *rest = alias.name.split(".")
                if head == "linrank":
                    yield Import(file, node.lineno, tuple(rest), "")
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            if node.level:
                module = package[: len(package) - node.level + 1] + module
            elif module[0] == "linrank":
                module = module[1:]
            else:
                continue
            for alias in node.names:
                yield Import(file, node.lineno, tuple(module), alias.name)


@dataclass(frozen=True)
class Room:
    """A line of the table of rooms in docs/architecture.md."""

    files: tuple[str, ...]  # "data/" is a folder, "problem.py" a file, "_*.py" a pattern
    may_import: frozenset[str]  # names of other rooms; tools are allowed everywhere


def read_rooms() -> list[Room]:
    """Read the table of rooms from docs/architecture.md."""
    rooms: list[Room] = []
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = re.search(r"^\| room \|.*may import \|\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, "docs/architecture.md has no table with the columns 'room' and 'may import'"
    for line in table[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        files = tuple(re.findall(r"`([^`]+)`", cells[0]))
        if cells[-1].startswith("all above"):
            allowed = {name_of(file) for room in rooms for file in room.files}
        else:
            allowed = set(re.findall(r"`([^`]+)`", cells[-1]))
        rooms.append(Room(files, frozenset(map(name_of, allowed))))
    return rooms


def name_of(file: str) -> str:
    """Return the name of a room without the end of its file or folder."""
    return file.removesuffix("/").removesuffix(".py")


def room_of(module: str, rooms: list[Room]) -> Room | None:
    """Return the room of a module or folder at the top of the package; exact names come first."""
    for room in rooms:
        if module in map(name_of, room.files):
            return room
    hidden = module.startswith("_") and not module.startswith("__")
    return next((room for room in rooms if hidden and "_*.py" in room.files), None)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name != "_"


def private_accesses(file: str) -> Iterator[tuple[int, str]]:
    """Yield each ``object._name`` that belongs to no class of the same file."""
    own = own_private_names(modules()[file])
    for node in ast.walk(modules()[file]):
        if not isinstance(node, ast.Attribute) or not is_private(node.attr):
            continue
        of_itself = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        of_parent = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
        if not (of_itself or of_parent or node.attr in own | NAMED_TUPLE):
            yield node.lineno, ast.unparse(node)


def cached_properties(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that take `cached_property` from a module, by whatever name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        else:
            names = [node.attr] if isinstance(node, ast.Attribute) else []
        if "cached_property" in names:
            yield node.lineno


def shared_locks(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that make a lock once for all: not in a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in LOCKS:
            yield node.lineno
        yield from shared_locks(node)


def own_private_names(tree: ast.Module) -> set[str]:
    """Return the private attributes and methods that the classes of a file define."""
    names = set()
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(kind):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                if ast.unparse(node.value) == "self":
                    names.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)  # an entry of __slots__
    return {name for name in names if is_private(name)}
