"""Data sets of the benchmarks, generated or real, each kept as a store.

A store is created once and then mapped by all processes that use it, so that all of them see the
same numbers. The stores are in the folder ``LINRANK_BENCH``, or in ``benchmarks/results/data``.
They take about 12 GB at full size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

from linrank import RankingData, read_letor, save_store
from linrank._compile.jit import njit
from linrank.data.generate import make_ranking
from linrank.data.ranking import read_content
from linrank.data.validation import assemble_csr

from .tools import RESULTS


@dataclass(frozen=True)
class Shape:
    """A data set of the benchmarks.

    Attributes
    ----------
    make : callable
        Function from a share of the full size (1 for all data) to the data.
    C : float or None
        None: the number of documents divided by the number of pairs, so that the loss is of the
        size of a sum over documents.
    file : str or None
        Path of real data in the folder ``LINRANK_DATA``.
    """

    name: str
    about: str
    make: Callable[[float], RankingData]
    C: float | None = 1.0
    file: str | None = None

    def weight_of_loss(self, data: RankingData, n_pairs: int) -> float:
        """Return C for data of this shape."""
        return data.n_docs / n_pairs if self.C is None else self.C


def _web(part: float, n_queries: int, raw: bool = True) -> RankingData:
    data = make_ranking(
        max(8, int(n_queries * part)), (80, 160), 136, n_levels=5, correlation=0.7,
        heavy_tails=True, random_state=0,
    )  # fmt: skip
    if not raw:
        _scale_by_query(data.X, data.query_ptr)
    return data


def _standardized(data: RankingData) -> RankingData:
    """Shift and scale each feature to mean 0 and standard deviation 1."""
    data.X[:] -= data.X.mean(axis=0)
    data.X[:] /= data.X.std(axis=0)
    return data


def _in_float32(data: RankingData) -> RankingData:
    return data.replace(X=data.X.astype(np.float32))


def _dense(part: float, n_queries: int, **options: Any) -> RankingData:
    return make_ranking(max(8, int(n_queries * part)), random_state=0, **options)


@njit(allocates=True)
def _scale_by_query(X, query_ptr):  # type: ignore[no-untyped-def]
    """Scale each feature to the range from 0 to 1 within each query, as LETOR does."""
    low, high = np.empty(X.shape[1]), np.empty(X.shape[1])
    for q in range(len(query_ptr) - 1):
        a, b = query_ptr[q], query_ptr[q + 1]
        low[:], high[:] = X[a], X[a]
        for i in range(a, b):
            for f in range(X.shape[1]):
                low[f], high[f] = min(low[f], X[i, f]), max(high[f], X[i, f])
        for i in range(a, b):
            for f in range(X.shape[1]):
                if high[f] > low[f]:
                    X[i, f] = (X[i, f] - low[f]) / (high[f] - low[f])


# Text: few words are frequent, most are rare ----------------------------------------------------


@njit(allocates=True)
def _draw_words(rng, n_docs, n_words, per_doc, flat):  # type: ignore[no-untyped-def]
    """Draw sorted distinct words of each document; word k has probability ∝ 1/(k + flat)."""
    words = np.empty(n_docs * per_doc, np.int32)
    span = np.log((n_words + flat) / flat)
    for i in range(n_docs):
        mine = words[i * per_doc : (i + 1) * per_doc]
        n = 0
        while n < per_doc:
            word = min(n_words - 1, np.int32(flat * np.exp(rng.random() * span) - flat))
            place = np.searchsorted(mine[:n], word)
            if place == n or mine[place] != word:
                mine[place + 1 : n + 1] = mine[place:n].copy()
                mine[place] = word
                n += 1
    return words


def _words(
    rng: np.random.Generator, part: float, n_docs: int, n_words: int, per_doc: int, flat: float
) -> Any:
    n_docs = max(1000, int(n_docs * part))
    n_words = max(10 * per_doc, int(n_words * min(1.0, 4 * part)))
    words = _draw_words(rng, n_docs, n_words, per_doc, flat)
    return n_docs, n_words, words


def _text(part: float) -> RankingData:
    """Return one query with two levels: tf-idf text with rows of length 1."""
    rng = np.random.default_rng(1)
    n_docs, n_words, words = _words(rng, part, 800_000, 47_000, 75, 50.0)
    rarity = np.log((n_words + 50.0) / (np.arange(n_words) + 50.0)) + 0.5
    values = (rarity[words] * (1 + rng.exponential(1.0, len(words)))).reshape(n_docs, -1)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    X = assemble_csr(75 * np.arange(n_docs + 1), words, values.ravel(), n_words)
    utility = X @ (rng.standard_normal(n_words) * (rng.random(n_words) < 0.3))
    utility += 0.3 * utility.std() * rng.standard_normal(n_docs)
    return _from_parts(X, (utility > np.median(utility)).astype(float), np.array([0, n_docs]))


def _clicks(part: float) -> RankingData:
    """Return lists of 10 documents with real-valued labels and hashed binary features."""
    rng = np.random.default_rng(2)
    n_docs, n_words, words = _words(rng, part, 5_000_000, 1_000_000, 20, 20.0)
    n_docs = n_docs // 10 * 10
    words = words[: 20 * n_docs]
    X = assemble_csr(20 * np.arange(n_docs + 1), words, np.ones(len(words)), n_words)
    utility = X @ (rng.standard_normal(n_words) * (rng.random(n_words) < 0.1))
    utility += utility.std() * rng.standard_normal(n_docs)
    return _from_parts(X, utility, np.arange(0, n_docs + 1, 10))


def _from_parts(X: Any, y: NDArray[np.float64], query_ptr: NDArray[np.int64]) -> RankingData:
    return RankingData.from_parts(
        X=X,
        y=y,
        query_ptr=query_ptr.astype(np.int64),
        query_ids=np.arange(1, len(query_ptr)),
        **read_content(X, query_ptr),
    )


# Real data --------------------------------------------------------------------------------------


def _letor(name: str, about: str, file: str) -> Shape:
    return Shape(name, about, lambda part: read_letor(_place(file)), file=file)


def _auc(name: str, about: str, file: str) -> Shape:
    def make(part: float) -> RankingData:
        X, y = load_svmlight_file(str(_place(file)))
        return RankingData(X, y)

    return Shape(name, about, make, C=None, file=file)


def _place(file: str) -> Path:
    return Path(os.environ["LINRANK_DATA"], file)


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("web", "web search, 240 k × 136, 5 levels, raw", lambda part: _web(part, 2000)),
        Shape("web-scaled", "the same, each query scaled to [0, 1]",
              lambda part: _web(part, 2000, raw=False)),
        Shape("web-standard", "the same, each feature with mean 0 and standard deviation 1",
              lambda part: _standardized(_web(part, 2000))),
        Shape("web-float32", "web-scaled in float32",
              lambda part: _in_float32(_web(part, 2000, raw=False))),
        Shape("web-large", "web search, 2.3 M × 136, raw", lambda part: _web(part, 19_000)),
        Shape("web-large-scaled", "the same, each query scaled to [0, 1]",
              lambda part: _web(part, 19_000, raw=False)),
        Shape("many-levels", "740 k × 46, all labels distinct",
              lambda part: _dense(part, 1000, docs_per_query=740, n_features=46, n_levels=None)),
        Shape("wide", "35 k × 600, 5 levels",
              lambda part: _dense(part, 1266, docs_per_query=(5, 50), n_features=600,
                                  correlation=0.7)),
        Shape("wide-large", "470 k × 520, 5 levels",
              lambda part: _dense(part, 20_000, docs_per_query=(5, 42), n_features=520,
                                  correlation=0.7)),
        Shape("text", "one query, two levels, 800 k × 47 k sparse, 75 non-zeros a row", _text,
              C=None),
        Shape("clicks", "5 M × 1 M sparse, 20 non-zeros a row, real-valued labels", _clicks,
              C=0.1),
        _letor("mq2008", "MQ2008 fold 1", "MQ2008/Fold1/train.txt"),
        _letor("mq2007", "MQ2007 fold 1", "MQ2007/Fold1/train.txt"),
        _auc("a9a", "a9a, one query, two levels, sparse", "a9a/train.txt"),
        _auc("reuters", "reuters, one query, two levels, sparse text", "reuters/train.txt"),
    )
}  # fmt: skip

QUICK = 0.01  #: share of the full size in a quick run


@cache
def available() -> tuple[str, ...]:
    """Return the shapes that are available; real data must be in the folder ``LINRANK_DATA``."""
    return tuple(name for name, shape in SHAPES.items() if shape.file is None or _found(shape))


def _found(shape: Shape) -> bool:
    """Tell whether real data are available; print a line if their file is missing."""
    if shape.file is None or "LINRANK_DATA" not in os.environ:
        return False
    if _place(shape.file).is_file():
        return True
    print(f"{shape.name} is left out: there is no file {_place(shape.file)}", flush=True)
    return False


def kept(name: str, part: float = 1.0) -> Path:
    """Return the store of a shape, which is created if it does not exist."""
    folder = Path(os.environ.get("LINRANK_BENCH", RESULTS / "data"))
    path = folder / (name if part == 1.0 else f"{name}-{part:g}")
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        save_store(SHAPES[name].make(part), path)
    return path
