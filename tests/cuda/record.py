"""Print, as JSON, the types that the engine launches its kernels with; nothing is run.

In a process of its own, under the simulator.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from kernels import all_kernels, describe
from numba.cuda.simulator.kernel import FakeCUDAKernel

from linrank import RankingData
from linrank.engines.engine import make_engine
from linrank.losses import get_loss
from problems import as_form, make_problem_arrays

CASES = [
    ("cuda", "pairs of documents", "dense64", "huber"),
    ("cuda", "pairs of documents", "dense32", "huber"),
    ("cuda", "five levels", "dense64", "huber"),
    ("cuda", "five levels", "dense32", "huber"),
    ("cuda", "five levels", "csr64", "huber"),
    ("cuda", "five levels", "csr32", "huber"),
    ("cuda", "pairs of documents", "dense64", "logistic_exact"),
    ("cuda", "five levels", "dense64", "domination"),
    ("p-swx", "five levels", "dense64", "squared_hinge"),
    ("p-swx-paper", "five levels", "dense64", "squared_hinge"),
]


def main() -> None:
    """Ask each engine for everything it can do."""
    found: dict[str, list[object]] = {}
    names = {id(kernel): name for name, kernel in all_kernels().items()}

    def note(kernel, *arguments):
        kinds = [describe(argument) for argument in arguments]
        if kinds not in found.setdefault(names[id(kernel)], []):
            found[names[id(kernel)]].append(kinds)

    FakeCUDAKernel.__call__ = note
    for name, kind, form, loss in CASES:
        X, y, qid = make_problem_arrays(kind, n=2000, d=3)
        data = RankingData(as_form(X, form), y, qid)
        engine = make_engine(name, data, get_loss(loss), None, 1)
        engine.value_grad(np.zeros(3))
        engine.hessp(np.zeros(3))
        if loss in ("huber", "squared_hinge"):
            engine.gaps(np.zeros(3))
    assert set(found) == set(names.values()), set(names.values()) - set(found)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
