"""Rules that docs/architecture.md and CONTRIBUTING.md state hold for the sources."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import Counter

import pytest
from sklearn.base import BaseEstimator

import linrank
import linrank.baselines
import linrank.dask
import prose
import sources
from benchmarks import structure

# Private names of other libraries that have no public counterpart, with the file that uses them.
FOREIGN = {
    # Numba offers no way to give a kernel another cache. The other two are what its own cache uses.
    ("_compile/compiler.py", "dispatcher._cache"),
    ("_compile/compiler.py", "kernel._find_referenced_environments"),
    ("_compile/compiler.py", "self._codegen._engine"),
    ("_compile/compiler.py", "array._getvalue"),  # how every array is returned in numba
    ("_compile/jit.py", "self.dispatcher._numba_type_"),  # what numba asks for
    ("_start.py", "os._exit"),  # documented by Python
    ("baselines/tree_rankers.py", "self.estimator_._baseline_prediction"),  # no public names exist
    ("baselines/tree_rankers.py", "self.estimator_._predictors"),
    ("dask/sources.py", "X._meta"),  # what Dask documents for the type of a block
}
LONG_SENTENCES_IN_SOURCES = 0  # this number may only fall; `python tests/prose.py` lists them

ROOMS = sources.read_rooms()
TOOLS = ROOMS[0]


def test_every_module_has_a_room():
    tops = {file.split("/")[0].removesuffix(".py") for file in sources.modules()}
    homeless = [top for top in tops - {"__init__"} if sources.room_of(top, ROOMS) is None]
    assert not homeless, "docs/architecture.md has no line for them in its table of rooms"


def test_every_room_may_import_rooms_above_it_only():
    above: set[str] = set()
    for room in ROOMS:
        assert room.may_import <= above, f"{room.files} would import rooms below it"
        above |= {sources.name_of(file) for file in room.files}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.files[0])
def test_rooms_import_what_the_table_allows(room):
    wrong = []
    for file in sources.modules():
        top = file.split("/")[0].removesuffix(".py")
        if top == "__init__" or sources.room_of(top, ROOMS) != room:
            continue
        for entry in sources.imports(file):
            name = (*entry.module, entry.name)[0]
            home = sources.room_of(name, ROOMS)
            if home not in (room, TOOLS) and name not in room.may_import:
                wrong.append(f"{file}:{entry.line}: imports {'.'.join(entry.module)}")
    assert not wrong, "\n".join(["not allowed by the table in docs/architecture.md:", *wrong])


def test_private_names_are_not_imported():
    wrong = [
        f"{entry.file}:{entry.line}: {'.'.join(entry.module)} import {entry.name}"
        for file in sources.modules()
        for entry in sources.imports(file)
        if sources.is_private(entry.name) and not is_module(entry)
    ]
    assert not wrong, "\n".join(["private names of other modules:", *wrong])


def is_module(entry: sources.Import) -> bool:
    return (sources.PACKAGE.joinpath(*entry.module) / f"{entry.name}.py").exists()


def test_private_attributes_are_not_used_from_outside():
    wrong = [
        f"{file}:{line}: {text}"
        for file in sources.modules()
        for line, text in sources.private_accesses(file)
        if (file, text) not in FOREIGN
    ]
    assert not wrong, "\n".join(["private attributes of other modules' objects:", *wrong])


def test_names_of_classes_and_files_have_one_meaning():
    sizes = structure.sizes()
    assert sizes["class names in several modules"] == []
    assert sizes["file names in several folders"] == []


def test_the_package_does_not_grow_by_files():
    """These numbers may only fall; `python -m benchmarks.structure` prints them."""
    sizes = structure.sizes()
    assert sizes["files"] <= 210
    assert sizes["root modules"] <= 8
    assert len(sizes["functions over 40 lines"]) <= 3
    # `_compile/compiler.py` imports numba, so `_compile/jit.py` imports it at the first call only.
    assert sizes["modules with one importer, in the same package"] == ["_compile/compiler.py"]


def test_a_file_of_tests_lies_in_a_folder_and_its_name_says_which():
    files = [path.relative_to(sources.ROOT) for path in (sources.ROOT / "tests").rglob("test_*.py")]
    assert not [str(path) for path in files if len(path.parts) == 2], "move it to a folder"
    assert not [name for name, n in Counter(path.name for path in files).items() if n > 1]


def test_few_classes_stand_above_an_estimator():
    estimators = [
        kind
        for module in (linrank, linrank.baselines, linrank.dask)
        for name in module.__all__
        if inspect.isclass(kind := getattr(module, name)) and issubclass(kind, BaseEstimator)
    ]
    assert len(estimators) > 20
    for kind in estimators:
        above = [c for c in kind.__mro__[1:] if c.__module__.startswith("linrank")]
        assert len(above) <= 3, (kind, above)
        by_hand = [c for c in (kind, *above) if "def __init__" in inspect.getsource(c)]
        assert not by_hand, f"the parameters of {by_hand} are not fields"


def test_what_a_reader_looks_up_is_where_the_page_says():
    text = (sources.ROOT / "docs" / "architecture.md").read_text()
    table = text.partition("\n## Where to find it\n")[2].partition("\n## ")[0]
    places = re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", table)
    assert len(places) >= 10
    for file, name in places:
        assert re.search(rf"\b{name}\b", (sources.PACKAGE / file).read_text()), f"{name} in {file}"


def test_attributes_are_computed_without_a_lock():
    wrong = [
        f"{file}:{line}"
        for file, tree in sources.modules().items()
        for line in sources.cached_properties(tree)
    ]
    assert not wrong, "\n".join(
        ["use `lazy_property` of linrank._util.lazy, which says why:", *wrong]
    )


def test_shared_locks_are_released_in_forked_processes():
    wrong = [
        f"{file}:{line}"
        for file, tree in sources.modules().items()
        for line in sources.shared_locks(tree)
        if "register_at_fork" not in ast.unparse(tree)
    ]
    assert not wrong, "\n".join(["use `os.register_at_fork`, as in _util/parallel.py:", *wrong])


def test_locks_that_a_fork_may_inherit_are_found():
    code = """
    from functools import cache, cached_property as lazily
    import functools
    LOCK: object = threading.RLock()
    class Shared:
        lock = Condition()
        @functools.cached_property
        def own(self):
            return Lock()
    """
    tree = ast.parse(textwrap.dedent(code))
    assert list(sources.cached_properties(tree)) == [2, 7]
    assert list(sources.shared_locks(tree)) == [4, 6]


@pytest.mark.parametrize("page", prose.PAGES, ids=lambda page: page.name)
def test_pages_have_no_long_sentences(page):
    found = prose.long_sentences([page])
    assert not found, "\n".join(map(str, found))


def test_sources_have_few_long_sentences():
    found = prose.long_sentences(prose.SOURCES)
    assert len(found) <= LONG_SENTENCES_IN_SOURCES, "\n".join(map(str, found))


def test_long_sentences_are_found():
    words = "word " * prose.LONGEST
    page = f"Short. The {words}ends. Short.\n\n- A {words}item.\n\n```\n{words} code\n```\n"
    assert [p.line for p in prose.of_page(page)] == [1, 3]
    code = f'"""A {words}docstring."""\n# A {words}\n# comment. Short.\nx = 1  # short\n'
    found = [*prose.of_docstrings(code), *prose.of_comments(code)]
    assert [p.line for p in found] == [1, 2, 4]
    assert [prose.count_words(s) for s in prose.split(found[1].text)] == [prose.LONGEST + 2, 1]
