"""Compile the kernels of the default path, so that the first real call does not wait."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse


def warmup() -> float:
    """Read, fit and evaluate toy data of every kind; return the seconds that it took."""
    from .data.letor import read_letor, write_letor
    from .data.ranking import RankingData
    from .estimators.ranksvm import RankSVM
    from .metrics import evaluate, metric_names

    started = time.perf_counter()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 3))
    y, qid = np.arange(24.0) % 3, np.arange(24) // 6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "toy.txt")
        write_letor(path, RankingData(X, y, qid))
        for dtype in (np.float64, np.float32):
            read_letor(path, dtype=dtype)
            for matrix in (X.astype(dtype), sparse.csr_array(X.astype(dtype))):
                RankSVM().fit(matrix, y, qid)
    evaluate(y, y, qid, [name for name in metric_names() if name != "auc"])
    return time.perf_counter() - started


def cache_folder() -> str | None:
    """The folder below which compiled kernels are kept; None where they cannot be."""
    modules = [module for name, module in sys.modules.items() if name.startswith("linrank.")]
    values = [value for module in modules for value in vars(module).values()]
    stats = [getattr(value, "stats", None) for value in values]  # which compiled kernels have
    folders = [path for found in stats if (path := getattr(found, "cache_path", None))]
    return os.path.commonpath(folders) if folders else None
