"""What a process pays before it does anything: imports and compilation."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("numba", "numpy", "scipy", "sklearn", "matplotlib", "pandas", "rich", "typer")

FIT = """
import json, sys
import numpy as np
from scipy import sparse
from linrank import RankSVM, RankingData, open_store, save_store
from linrank.path import make_problem
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
    f"{name}.{key}": value
    for name, module in list(sys.modules.items()) if name.startswith("linrank.")
    for key, value in vars(module).items()
    if hasattr(value, "signatures") and value.__module__ == name and value.signatures
}
print(json.dumps({
    name: [len(kernel.signatures), sum(kernel.stats.cache_misses.values())]
    for name, kernel in kernels.items()
    if not kernel.targetoptions.get("no_cpython_wrapper")
}))
"""


def python(code, *arguments, **environment):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_import_is_free():
    code = f"import sys, linrank; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code).strip() == "[]"


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="compilation is what is tested"
)
def test_kernels_are_compiled_once_and_found_again(tmp_path):
    """Lists, read-only and mapped arrays, weights or not: one signature, one compilation."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = json.loads(python(FIT, tmp_path / "store", **cache))
    second = json.loads(python(FIT, tmp_path / "store", **cache))
    assert "linrank.engines.threads._walk_blocks" in first
    assert {name: n for name, (n, _) in first.items() if n != 1} == {}
    assert {name: misses for name, (_, misses) in second.items() if misses} == {}
    assert any(misses for _, misses in first.values())


SEVERAL = """
import sys
from linrank import RankSVM, make_ranking
data = make_ranking(n_queries=15, random_state=0)
for word in sys.argv[1:]:
    loss, solver = word.split(":")
    ranker = RankSVM(loss=loss, solver=solver, tol=1e-4).fit(data.X, data.y, data.qid)
    print(ranker.result_.objective)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="compilation is what is tested"
)
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
