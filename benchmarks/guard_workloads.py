"""Workloads of `guard`, and the process that runs them for one tree.

``python -P guard_workloads.py SRC PART`` imports linrank from SRC. The data are generated with
numpy only, so that they are the same for all trees.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

Run = Callable[[], object]


@cache
def dense(n_queries: int, n_features: int, distinct: bool = False, dtype: str = "f8") -> Any:
    """Return X, y and qid of queries of 100 documents; adjacent features have correlation ½."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((100 * n_queries, n_features + 1))
    X = (Z[:, 1:] + Z[:, :-1]).astype(dtype)
    utility = X @ rng.standard_normal(n_features) / n_features**0.5
    utility += rng.standard_normal(len(X))
    y = utility if distinct else np.digitize(utility, [0.0, 1.0, 2.0, 3.0]).astype(float)
    return X, y, np.repeat(np.arange(n_queries), 100)


@cache
def text(n_docs: int, n_words: int, per_query: int) -> Any:
    """Return X, y and qid of documents of 75 words with skewed frequencies, and two levels."""
    rng = np.random.default_rng(0)
    words = (n_words * rng.random(75 * n_docs) ** 3).astype(np.int32)
    X = sparse.csr_array(
        (rng.exponential(0.1, len(words)), words, 75 * np.arange(n_docs + 1)), (n_docs, n_words)
    )
    X.sum_duplicates()
    utility = X @ rng.standard_normal(n_words) + 0.3 * rng.standard_normal(n_docs)
    return X, (utility > np.median(utility)).astype(float), np.arange(n_docs) // per_query


@cache
def problem_of(make: Callable[..., Any], *shape: Any, C: float = 1.0) -> Any:
    """Return the problem for some data, evaluated once, so that products can be computed."""
    from linrank import RankingData, make_problem

    problem = make_problem(RankingData(*make(*shape)), C)
    problem.value_grad(weights(problem, 0))
    return problem


def weights(problem: Any, seed: int) -> Any:
    """Return weights at which a substantial share of the pairs is active."""
    return np.random.default_rng(seed).normal(0, 0.5 / problem.n_features**0.5, problem.n_features)


def product(*shape: Any, **more: Any) -> Run:
    problem = problem_of(*shape, **more)
    v = weights(problem, 1)
    return lambda: problem.hessp(v)


def value(*shape: Any, **more: Any) -> Run:
    problem = problem_of(*shape, **more)
    places = cycle(
        [weights(problem, 0), weights(problem, 1)]
    )  # a solver never evaluates the same point twice
    return lambda: problem.value_grad(next(places))


def fit(estimator: str, make: Callable[..., Any], *shape: Any, **settings: Any) -> Run:
    import linrank

    kind = getattr(linrank, estimator)
    ranker = kind(**{"C": 1.0, "normalize": None, "scale": None} | settings)
    X, y, qid = make(*shape)
    return lambda: ranker.fit(X, y, qid)


def path(*shape: Any) -> Run:
    from linrank import regularization_path

    problem = problem_of(dense, *shape)
    return lambda: regularization_path(problem)


def read(*shape: Any) -> Run:
    from linrank import read_letor

    file = Path("letor.txt")  # in the working directory of both processes
    if not file.exists():
        X, y, qid = dense(*shape)
        line = "%d qid:%d " + " ".join(f"{f}:%.6f" for f in range(1, X.shape[1] + 1))
        np.savetxt(file, np.column_stack([y, qid, X]), fmt=line)
    return lambda: read_letor(file)


def evaluate(*shape: Any) -> Run:
    import linrank

    X, y, qid = dense(*shape)
    scores = np.ascontiguousarray(X[:, 0])
    metrics = ["ndcg@10", "mean_ndcg", "map", "err", "mrr", "pairwise_accuracy"]
    return lambda: linrank.evaluate(y, scores, qid, metrics)


def predict(*shape: Any) -> Run:
    from linrank import LinearModel

    X, _, _ = dense(*shape)
    model = LinearModel(np.ones(X.shape[1]))
    return lambda: model.predict(X)


def workloads(part: float) -> dict[str, Callable[[], Run]]:
    """Return the workloads by name: functions that prepare the data and return what is timed.

    Matrices have about 50 MB, which is more than most caches. Smaller matrices stay in the cache to
    a degree that differs between processes by more than the slowdowns that the guard looks for.
    """
    few, n_docs = (int(500 * part), 136), int(50_000 * part)
    single, many = (int(1000 * part), 136, False, "f4"), (int(1500 * part), 46, True)
    one_query = (n_docs, 20_000, n_docs)
    C = 4 / n_docs  # weight per pair, so that the loss is of the size of a sum over documents
    small = int(100 * part), 46
    return {
        "product, dense": lambda: product(dense, *few),
        "value, dense": lambda: value(dense, *few),
        "product, float32": lambda: product(dense, *single),
        "value, float32": lambda: value(dense, *single),
        "product, many levels": lambda: product(dense, *many),
        "value, many levels": lambda: value(dense, *many),
        "product, text": lambda: product(text, *one_query, C=C),
        "value, text": lambda: value(text, *one_query, C=C),
        "fit, dense": lambda: fit("RankSVM", dense, *few, tol=1e-5),
        "fit, text": lambda: fit("RankSVM", text, *one_query, C=C),
        "fit, l1": lambda: fit("SparseRankSVM", dense, *small, C=1e-5 / part),
        "path of 26 C": lambda: path(*small),
        "read LETOR text": lambda: read(*small),
        "evaluate": lambda: evaluate(*few),
        "predict": lambda: predict(*few),
    }


def work(src: Path, part: float) -> None:
    """Read a workload and a number of calls per line of standard input, and print the seconds."""
    import linrank

    if not Path(linrank.__file__).is_relative_to(src):
        sys.exit(f"linrank was imported from {linrank.__file__}; expected one below {src}")
    known, ready = workloads(part), {}
    for line in sys.stdin:
        name, calls = json.loads(line)
        answer: dict[str, Any] = {}
        with redirect_stdout(sys.stderr):
            try:
                if name not in ready:
                    ready[name] = known[name]()
                    ready[name]()  # compiles the kernels and allocates memory
                answer["seconds"] = mean_seconds(ready[name], calls)
            except (ImportError, AttributeError, TypeError, ValueError) as error:
                answer["missing"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


def mean_seconds(function: Run, calls: int) -> float:
    """Return the mean seconds; the minimum would hide a slowdown of only some calls."""
    started = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - started) / calls


if __name__ == "__main__":
    work(Path(sys.argv[1]), float(sys.argv[2]))
