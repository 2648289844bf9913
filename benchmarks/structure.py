"""Sizes of the package, and how many functions run before the first pass over the data.

``python -m benchmarks.structure`` prints files, lines of code, root modules and modules with one
importer. It then fits with one thread and counts, by `sys.setprofile`, the functions of linrank
that are called before the loss is first evaluated. Imports and the compiler are not counted.
"""

from __future__ import annotations

import ast
import io
import os
import sys
import tempfile
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FrameType

import linrank

PACKAGE = Path(linrank.__file__).parent
LONGEST = 40  #: lines of code of a function
COMPILER = "_compile"  # the package whose functions are no steps of a fit
EVALUATIONS = {"walk_blocks", "walk_scores"}  # kernels that evaluate the loss


def lines_of_code(text: str) -> set[int]:
    """Return the numbers of the lines that are neither blank, nor comments, nor docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            documented |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped and token.type != tokenize.ENDMARKER:
            used |= set(range(token.start[0], token.end[0] + 1))
    return used - documented


def long_functions(texts: dict[Path, str]) -> list[str]:
    """Return the functions with more than `LONGEST` lines of code below their signature."""
    found = []
    for path, text in texts.items():
        lines = lines_of_code(text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
                if len(lines.intersection(own)) > LONGEST:
                    found.append(f"{path.relative_to(PACKAGE).as_posix()}:{node.name}")
    return found


def sizes() -> dict[str, object]:
    """Return the counts of the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    classes = Counter(
        node.name
        for text in texts.values()
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
    )
    stems = Counter(p.stem for p in texts if p.name != "__init__.py" and p.parent.name != "cli")
    return {
        "files": len(texts),
        "lines of code": sum(len(lines_of_code(text)) for text in texts.values()),
        "functions over 40 lines": long_functions(texts),
        "root modules": len(list(PACKAGE.glob("*.py"))),
        "class names in several modules": [name for name, n in classes.items() if n > 1],
        "file names in several folders": [stem for stem, n in stems.items() if n > 1],
        "modules with one importer, in the same package": single_importers(texts),
    }


def single_importers(texts: dict[Path, str]) -> list[str]:
    """Return the modules that only one module imports, and that lies in the same folder.

    Commands, exports and solvers are left out, and so are modules of public names, which an
    ``__init__.py`` lists.
    """
    importers: dict[Path, set[Path]] = defaultdict(set)
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                for place in (base, *(base / alias.name for alias in node.names)):
                    if place.with_suffix(".py") in texts:
                        importers[place.with_suffix(".py")].add(path)
    return sorted(
        path.relative_to(PACKAGE).as_posix()
        for path, users in importers.items()
        if len(users) == 1 and (user := next(iter(users))).parent == path.parent
        if user.name != "__init__.py" and path.parent.name not in {"cli", "export", "solvers"}
    )


def count_hops(call: Callable[[], object]) -> dict[str, int]:
    """Count the functions, files and changes of package before the loss is first evaluated."""
    from linrank._compile.jit import Kernel

    functions: set[tuple[str, str]] = set()
    files: set[str] = set()
    state = {"changes": 0, "depth": 0, "deepest": 0, "done": False}
    last = [""]

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        inside = code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>"
        if state["done"] or not inside:
            return
        place = Path(code.co_filename).relative_to(PACKAGE)
        if event == "call" and code is Kernel.__call__.__code__:
            state["done"] = frame.f_locals["self"].py_func.__name__ in EVALUATIONS
        elif event == "call" and place.parts[0] != COMPILER:
            if not code.co_name.startswith("<"):  # comprehensions and lambdas
                functions.add((code.co_filename, code.co_qualname))
                files.add(code.co_filename)
            state["changes"] += last[0] != place.parts[0]
            last[0] = place.parts[0]
            state["depth"] += 1
            state["deepest"] = max(state["deepest"], state["depth"])
        elif event == "return" and place.parts[0] != COMPILER:
            state["depth"] -= 1

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {
        "functions": len(functions),
        "files": len(files),
        "changes of package": state["changes"],
        "depth": state["deepest"],
    }


def calls() -> dict[str, Callable[[], object]]:
    """Return the calls whose functions are counted."""
    from linrank import AdditiveRankerCV, RankSVM, make_ranking, write_letor
    from linrank.cli.app import app

    data = make_ranking(n_queries=60, docs_per_query=10, n_features=5, random_state=0)
    X, y, qid = data.X, data.y, data.qid
    folder = Path(tempfile.mkdtemp())
    for name in ("train", "vali", "test"):
        write_letor(folder / f"{name}.txt", data)
    train = ["train", str(folder / "train.txt"), "--valid", str(folder / "vali.txt")]
    study = ["study", str(folder / "train.txt"), "--methods", "ranksvm:C=1", "--jobs", "0"]

    def run(words: list[str]) -> Callable[[], object]:
        def call() -> None:
            (folder / "study.sqlite").unlink(missing_ok=True)
            with suppress(SystemExit), redirect_stdout(io.StringIO()):
                app(words)

        return call

    return {
        "RankSVM().fit": lambda: RankSVM().fit(X, y, qid),
        "AdditiveRankerCV().fit": lambda: AdditiveRankerCV().fit(X, y, qid),
        "linrank train a --valid b": run([*train, "--out", str(folder / "model.json")]),
        "linrank study": run([*study, "--results", str(folder / "study.sqlite")]),
    }


if __name__ == "__main__":
    os.sched_setaffinity(0, {0})  # one thread, because calls in others are not seen
    for name, value in sizes().items():
        print(f"{name}: {len(value) if isinstance(value, list) else value}", end="")
        print(f" ({', '.join(map(str, value))})" if isinstance(value, list) and value else "")
    for name, call in calls().items():
        call()  # imports and compiles
        print(f"{name}: {count_hops(call)}")
