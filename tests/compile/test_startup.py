"""What a process pays before it does anything: imports and compilation."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forked import forked
from linrank._compile import jit
from linrank._util.lazy import postponed
from linrank.matrix.rows import _matvec_dense

compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="compilation is what is tested"
)
SOURCES = Path(jit.PACKAGE)
HEAVY = ("numba", "numpy", "scipy", "sklearn", "matplotlib", "pandas", "rich", "typer")

FIT = """
import json, sys
import numpy as np
from scipy import sparse
from linrank import RankSVM, RankingData, open_store, save_store
from linrank._compile.jit import Kernel
from linrank.training.selection import make_problem
from linrank.solvers import make_solver

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y, qid = np.arange(60) % 3, np.arange(60) // 10
RankSVM().fit(X, y, qid)
RankSVM().fit(X, y, qid, sample_weight=np.ones(60))
X.setflags(write=False)
RankSVM().fit(X, y.astype(float), qid.astype(str))
save_store(RankingData(X, y, qid), sys.argv[1])
make_solver("newton").solve(make_problem(open_store(sys.argv[1])))
kernels = {
    f"{name}.{key}": value.dispatcher
    for name, module in list(sys.modules.items()) if name.startswith("linrank.")
    for key, value in vars(module).items()
    if isinstance(value, Kernel) and value.__module__ == name and not value.inner
    if value.dispatcher.signatures
}
print(json.dumps({
    name: [len(kernel.signatures), sum(kernel.stats.cache_misses.values())]
    for name, kernel in kernels.items()
}))
"""


def python(code, *arguments, **environment):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_nothing_is_imported_before_ctrl_c_is_handled():
    code = "import sys; old = set(sys.modules); {}; print(sorted(set(sys.modules) - old))"
    done = subprocess.run(
        [sys.executable, "-c", code.format("from linrank._start import main")],
        text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == "['linrank', 'linrank._start']\n"


def test_import_is_free():
    code = f"import sys, linrank; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_names_are_free():
    """The command line reads these tuples before it imports anything else."""
    code = (
        "import sys, linrank.choices, linrank.choices\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert python(code).strip() == "[]"


def test_a_ranker_loads_little_of_scipy_and_scikit_learn():
    """These modules take longer to import than all that a ranker needs before it is fitted."""
    heavy = (
        "numba", "llvmlite",
        "sklearn.feature_selection", "sklearn.linear_model", "sklearn.model_selection",
        "sklearn.svm", "scipy.optimize", "scipy.stats", "numpy.f2py", "numpy.testing", "pandas",
    )  # fmt: skip
    loaded = f"[name for name in {heavy!r} if name in sys.modules]"
    assert python(f"import sys; from linrank import RankSVM; print({loaded})").strip() == "[]"


def test_modules_that_were_postponed_are_imported_when_they_are_used():
    code = """
import sys
from linrank import RankSVM
import scipy.stats
from numpy.testing import assert_allclose
from sklearn.utils import fixes
assert_allclose(scipy.stats.norm.cdf(0.0), 0.5)
assert scipy.stats is sys.modules["scipy.stats"] is fixes.scipy.stats
print(*fixes._mode([1, 1, 2], axis=0).mode, type(scipy.stats).__name__)
"""
    assert python(code).split() == ["1", "module"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a module that says when it is imported."""
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "__init__.py").touch()
    (tmp_path / "toys" / "ball.py").write_text("colour = 'red'")
    monkeypatch.syspath_prepend(tmp_path)
    yield "toys"
    for name in ("toys", "toys.ball"):
        sys.modules.pop(name, None)


def test_a_postponed_module_is_imported_on_first_use(package):
    with postponed("toys.ball"):
        import toys.ball as kept

        assert "toys.ball" in sys.modules
    assert "toys.ball" not in sys.modules
    assert not hasattr(sys.modules["toys"], "ball")
    assert kept.colour == "red"
    assert sys.modules["toys.ball"].colour == "red"
    assert sys.modules["toys.ball"] is not kept


def test_a_postponed_package_may_be_missing(package):
    with postponed(package, "toys_that_are_not_there"):
        import toys

        with pytest.raises(ModuleNotFoundError):
            import toys_that_are_not_there  # noqa: F401
    assert package not in sys.modules
    assert toys.__path__ == sys.modules[package].__path__


def test_a_postponed_module_that_is_used_in_the_block_is_imported_there(package):
    with postponed("toys.ball"):
        from toys.ball import colour

        assert colour == "red"
    module = sys.modules["toys.ball"]
    assert type(module).__name__ == "module"
    with postponed("toys.ball"):
        assert sys.modules["toys.ball"] is module
    assert sys.modules["toys"].ball is module


def test_workers_of_a_cluster_load_little():
    """A fit waits for a worker that starts anew; estimators and tables are not its business."""
    heavy = ("sklearn", "pandas", "pyarrow", "dask.dataframe", "matplotlib")
    code = (
        "import sys, linrank.dask.session, linrank.dask.sources, linrank.dask.pool\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    assert python(code).strip() == "[]"


@pytest.mark.slow
@compiled
def test_kernels_are_compiled_once_and_found_again(tmp_path):
    """Lists, read-only and mapped arrays, weights or not: one signature, one compilation."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = json.loads(python(FIT, tmp_path / "store", **cache))
    second = json.loads(python(FIT, tmp_path / "store", **cache))
    assert "linrank.engines.threads.walk_blocks" in first
    assert {name: n for name, (n, _) in first.items() if n != 1} == {}
    assert {name: misses for name, (_, misses) in second.items() if misses} == {}
    assert any(misses for _, misses in first.values())


REGISTRIES = """
import sys
from linrank._kernels import first
print(first(1), "numba.np.linalg" in sys.modules)
"""


@compiled
def test_a_kernel_in_the_cache_is_loaded_without_numbas_library(small, tmp_path):
    """To load numba's implementations of numpy would take longer than to load all kernels."""
    assert python(REGISTRIES).split() == ["2", "True"]
    assert python(REGISTRIES).split() == ["2", "False"]


ALLOCATING = """
import numpy as np
from linrank._compile.jit import njit

@njit(inner=True, allocates=True)
def total(n):
    return np.ones(n).sum()

@njit
def total_of_ones(n):
    return total(n)
"""


@compiled
def test_inner_kernels_allocate_arrays_compiled_or_cached(small):
    """Numba's allocator is set up only for kernels that use it, also by their inner kernels."""
    (small / "_allocating.py").write_text(ALLOCATING)
    call = "from linrank._allocating import total_of_ones; print(total_of_ones(3))"
    for _ in range(2):
        assert python(call) == "3.0\n"


CALLER = """
from ._compile.jit import njit
from ._kernels import first

@njit
def twice(x):
    return 2 * first(x)
"""


@compiled
def test_a_cached_kernel_is_compiled_into_kernels_that_call_it(small):
    (small / "_caller.py").write_text(CALLER)
    python("from linrank._kernels import first; first(1)")
    call = "from linrank._kernels import first; from linrank._caller import twice; "
    for _ in range(2):
        assert python(call + "print(first(1), twice(1))") == "2 4\n"


THREADS = """
import threading
from linrank._kernels import first
results, start = [], threading.Barrier(4)

def call():
    start.wait()
    results.append((first(1), id(first.dispatcher)))

threads = [threading.Thread(target=call) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print({result for result, _ in results}, len({dispatcher for _, dispatcher in results}))
"""


@compiled
def test_threads_that_call_a_kernel_first_share_its_compilation(small):
    assert python(THREADS) == "{2} 1\n"


LOCKED = """
import threading
import time
from numba.core.compiler_lock import global_compiler_lock
from linrank._compile import jit
from linrank._kernels import first
with global_compiler_lock:
    thread = threading.Thread(target=lambda: first.dispatcher)
    thread.start()
    time.sleep(1.0)
    print(jit._importing.acquire(timeout=600.0))
    jit._importing.release()
thread.join()
print(first(1))
"""


@compiled
def test_threads_that_wait_for_the_compiler_do_not_block_a_fork(small):
    """A fork takes the lock of numba's compiler, and then the one of the import."""
    assert python(LOCKED) == "True\n2\n"


def test_kernels_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(_matvec_dense)) is _matvec_dense
    assert copy.deepcopy(_matvec_dense) is _matvec_dense


PRINTING = """
from linrank._compile.jit import njit

@njit(inner=True)
def say(x):
    print(x, "is odd")

@njit
def say_odd(x):
    if x % 2:
        say((x, x))
"""


@compiled
def test_inner_kernels_find_their_python_objects_compiled_or_cached(small):
    (small / "_printing.py").write_text(PRINTING)
    call = "from linrank._printing import say_odd; say_odd(3)"
    for _ in range(2):
        assert python(call) == "(3, 3) is odd\n"


SEVERAL = """
import sys
import time
from linrank import RankSVM, make_ranking
data = make_ranking(n_queries=15, random_state=0)
for word in sys.argv[1:]:
    loss, solver = word.split(":")
    ranker = RankSVM(loss=loss, solver=solver, tol=1e-4).fit(data.X, data.y, data.qid)
    print(ranker.result_.objective)
"""


@pytest.mark.slow
@compiled
def test_kernels_cached_by_several_processes_are_not_mistaken_for_each_other(tmp_path):
    """Numba links them by name: two that share one would silently take each other's place."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    alone = {
        word: float(python(SEVERAL, word, **cache))
        for word in ("squared_hinge:newton", "hinge:auto", "squared_hinge:sgd-queries")
    }
    for words in ([*alone], [*reversed(alone)]):
        together = [float(line) for line in python(SEVERAL, *words, **cache).split()]
        assert together == [alone[word] for word in words]


# The cache on disk ---------------------------------------------------------------------------

KERNELS = """
from ._helper import increase
from ._compile.jit import njit

@njit
def first(x):
    return increase(x)

@njit
def second(x):
    return 10 * increase(x)
"""

HELPER = """
from ._constant import STEP
from ._compile.jit import njit

@njit(inner=True)
def increase(x):
    return x + STEP
"""

TOOLS = ("_compile/*.py", "_util/types.py", "errors.py")

CALL = """
import sys
import time
from linrank._kernels import first, second
for kind in sys.argv[1:]:
    x = {"int": int, "float": float, "bool": bool}[kind](1)
    print(first(x), second(x))
for kernel in (first, second):
    print(sum(kernel.dispatcher.stats.cache_misses.values()))
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A package with the tools of linrank and two kernels, which subprocesses import."""
    package = tmp_path / "sources" / "linrank"
    package.mkdir(parents=True)
    for file in (file for pattern in TOOLS for file in SOURCES.glob(pattern)):
        (package / file.relative_to(SOURCES)).parent.mkdir(exist_ok=True)
        shutil.copy(file, package / file.relative_to(SOURCES))
    for folder in (package, package / "_util"):
        (folder / "__init__.py").touch()
    (package / "_constant.py").write_text("STEP = 1\n")
    (package / "_helper.py").write_text(HELPER)
    (package / "_kernels.py").write_text(KERNELS)
    (package / "_other.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return package


@pytest.fixture(scope="module")
def program():
    with forked() as program:
        yield program


@pytest.fixture
def call(program, small):
    """Runs a process: what both kernels return, how many it compiled, what it warned of."""

    def call(*kinds, before="", **environment):
        out, said = program(before + CALL, *kinds, **environment)
        *results, misses_1, misses_2 = out.splitlines()
        return results, int(misses_1) + int(misses_2), said

    return call


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@compiled
@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("_helper.py", HELPER.replace("x + STEP", "x - STEP"), "0 0"),
        ("_constant.py", "STEP = 2\n", "3 30"),
        ("_kernels.py", "\n" + KERNELS.replace("10", "20"), "2 40"),
    ],
)
def test_a_change_in_any_file_that_a_kernel_depends_on_is_noticed(
    small, call, tmp_path, file, text, expected
):
    assert call("int") == (["2 20"], 2, "")
    (small / "_other.py").write_text("nobody = 'imports this'")
    assert call("int") == (["2 20"], 0, "")
    kept = files(tmp_path / "cache")
    (small / file).write_text(text)
    assert call("int") == ([expected], 2, "")
    assert call("int") == ([expected], 0, "")
    assert files(tmp_path / "cache") == kept  # the old kernels were replaced


@compiled
def test_a_file_that_changes_after_it_was_imported_does_not_stamp_old_kernels_as_new(small, call):
    edit = f"""
import linrank._kernels
with open({str(small / "_constant.py")!r}, "w") as file:
    file.write("STEP = 2")
"""
    assert call("int", before=edit)[0] == ["2 20"]
    assert call("int") == (["3 30"], 2, "")


@compiled
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:20],
        lambda content: bytes(len(content)),
        lambda content: content[:-100] + bytes(100),
        lambda content: b"\x80\x04" + content,
    ],
    ids=["empty", "cut", "cut short", "zeroed", "zeroed at the end", "foreign"],
)
def test_damaged_kernels_are_replaced_with_one_warning(call, tmp_path, damage):
    call("int")
    kernels = files(tmp_path / "cache")
    assert len(kernels) == 2
    for path in kernels:
        path.write_bytes(damage(path.read_bytes()))
    results, misses, said = call("int")
    assert (results, misses) == (["2 20"], 2)
    assert said.count("KernelCacheWarning") == 1
    assert "ValueError: the file is damaged" in said
    assert call("int") == (["2 20"], 0, "")


@compiled
def test_kernels_that_cannot_be_unpickled_are_replaced_with_one_warning(call):
    broken = "import linrank._compile.compiler as cache; cache.dumps = lambda _: b'no pickle'"
    call("int", before=broken)
    results, misses, said = call("int")
    assert (results, misses) == (["2 20"], 2)
    assert said.count("KernelCacheWarning") == 1
    assert "UnpicklingError" in said
    assert call("int") == (["2 20"], 0, "")


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
REFUSING = """
import errno, io, os
def refuse(path, mode="r", *more, **options):
    if str(path).endswith(".nbc"):
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    return io.open(path, mode, *more, **options)
import linrank._compile.compiler
linrank._compile.compiler.open = refuse
"""


@compiled
@pytest.mark.parametrize(
    ("before", "folder", "reason"),
    [
        (FULL, None, "File too large"),
        ("", "/dev/null/cache", "Not a directory"),
        (REFUSING, None, "Input/output error"),
    ],
    ids=["full disk", "no folder", "broken disk"],
)
def test_without_a_usable_cache_kernels_are_compiled_with_one_warning(
    call, tmp_path, before, folder, reason
):
    environment = {} if folder is None else {"NUMBA_CACHE_DIR": folder}
    if before is REFUSING:
        call("int", "float")
    for _ in range(2):
        results, misses, said = call("int", "float", before=before, **environment)
        assert (results, misses) == (["2 20", "2.0 20.0"], 4)
        assert said.count("KernelCacheWarning") == 1
        assert reason in said
    assert [path for path in files(tmp_path) if path.suffix == ".tmp"] == []


@compiled
def test_a_cache_that_cannot_be_written_is_read_in_silence(call):
    call("int")
    assert call("int", before=FULL) == (["2 20"], 0, "")


@compiled
def test_a_cache_that_is_removed_meanwhile_is_made_again(call, tmp_path):
    removing = f"""
import shutil
import signal
from linrank._kernels import first
first(1.0)
shutil.rmtree({str(tmp_path / "cache")!r})
"""
    assert call("int", before=removing) == (["2 20"], 3, "")
    assert call("int") == (["2 20"], 0, "")


@compiled
def test_without_numbas_variable_kernels_are_beside_the_sources_or_with_the_user(
    small, call, tmp_path, monkeypatch
):
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert call("int") == (["2 20"], 2, "")
    assert len(files(small / "__pycache__" / "kernels")) == 2
    assert call("int") == (["2 20"], 0, "")
    shutil.rmtree(small / "__pycache__")
    (small / "__pycache__").touch()  # no folder, so that nothing can be stored in it
    assert call("int") == (["2 20"], 2, "")
    assert len(files(tmp_path / "user")) == 2
    assert call("int") == (["2 20"], 0, "")


@compiled
def test_the_cache_can_be_turned_off(call, tmp_path):
    assert call("int", LINRANK_JIT_CACHE="0") == (["2 20"], 2, "")
    assert not (tmp_path / "cache").exists()


KILLED = """
import os, signal
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


@compiled
def test_what_killed_processes_left_is_removed_an_hour_later(small, call, tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED + CALL, "int"], capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    (left,) = files(tmp_path / "cache")
    assert call("int") == (["2 20"], 2, "")
    assert left.exists()  # another process might still write it
    now = time.time()
    os.utime(left, (now, now - 7200))
    assert call("int", "float") == (["2 20", "2.0 20.0"], 2, "")
    assert not left.exists()
    assert len(files(tmp_path / "cache")) == 4


@compiled
def test_processes_that_store_kernels_at_once_do_not_mix_them_up(call):
    """Each begins with another signature; all store both kernels for all three."""
    kinds = ["int", "float", "bool"]
    processes = [
        subprocess.Popen([sys.executable, "-c", CALL, *kinds[k:], *kinds[:k]],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for k in range(3)
    ]  # fmt: skip
    expected = {"int": "2 20", "float": "2.0 20.0", "bool": "2 20"}
    for k, process in enumerate(processes):
        lines = process.communicate()[0].split("\n")
        assert lines[:3] == [expected[kind] for kind in kinds[k:] + kinds[:k]]
    assert call(*kinds) == ([expected[kind] for kind in kinds], 0, "")


def imports_of(path):
    """The files of the package that a file imports, by Python's own parser."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not any(name.name.split(".")[0] == "linrank" for name in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level or node.module.split(".")[0] != "linrank"
            if node.level:
                package = ".".join(("linrank", *path.relative_to(SOURCES).parts[:-1]))
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                for name in [base, *(f"{base}.{name.name}" for name in node.names)]:
                    place = SOURCES.joinpath(*name.split(".")[1:])
                    yield from filter(Path.is_file, [place.with_suffix(".py"),
                                                     place / "__init__.py"])  # fmt: skip


def test_stamps_follow_every_import():
    n_imports = 0
    for path in SOURCES.rglob("*.py"):
        found = {Path(file) for file in jit._read_source(str(path))[1]}
        expected = set(imports_of(path))
        assert expected <= found, path
        n_imports += len(expected)
    assert n_imports > 500
