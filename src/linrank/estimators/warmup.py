"""Compilation of the kernels of the default fit, so that the first real fit does not wait."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from .._compile.jit import Kernel


def warmup() -> float:
    """Read, fit and evaluate toy data of every storage and precision; return the seconds taken.

    Returns
    -------
    seconds : float
        The time it took. It is short if all kernels are on disk already.

    Examples
    --------
    >>> from linrank import warmup
    >>> warmup() > 0  # once after installation, or in the build of a container
    True
    """
    from ..data.letor import read_letor, write_letor
    from ..data.ranking import RankingData
    from ..metrics import evaluate, metric_names
    from .ranksvm import RankSVM

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
    """Return the folder of the compiled kernels; None if they could not be stored."""
    modules = [module for name, module in sys.modules.items() if name.startswith("linrank.")]
    values = [value for module in modules for value in vars(module).values()]
    kernels = [value.dispatcher for value in values if isinstance(value, Kernel)]
    stats = [getattr(kernel, "stats", None) for kernel in kernels]  # only compiled ones have it
    folders = [path for found in stats if (path := getattr(found, "cache_path", None))]
    return os.path.commonpath(folders) if folders else None
