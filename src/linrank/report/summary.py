"""What ranked data holds, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .._threads import resolve_threads
from ..counting.plan import rank_labels
from ..data.checks import Matrix
from ..data.ranking import RankingData

_BLOCK_BYTES = 1 << 24  # rows of X looked at together: data may be larger than memory


@dataclass(frozen=True)
class DataSummary:
    """The figures of `summarize`.

    Attributes
    ----------
    n_docs, n_queries, n_features : int
    query_size : tuple (smallest, median, largest)
        Documents per query.
    levels : dict of float to int
        The labels, increasing, and how many documents have each.
    n_pairs, n_empty_queries : int
        Pairs of documents of one query with different labels, and queries without any.
    density : float
        The part of the entries of X that are not 0.
    n_constant_features : int
        Features with one and the same value in all documents.
    dtype : str
    form : {"dense", "csr"}
    index_base : int
    """

    n_docs: int
    n_queries: int
    n_features: int
    query_size: tuple[int, float, int]
    levels: dict[float, int]
    n_pairs: int
    n_empty_queries: int
    density: float
    n_constant_features: int
    dtype: str
    form: str
    index_base: int


def summarize(data: RankingData) -> DataSummary:
    """Count what the data holds, in one pass over X.

    Examples
    --------
    >>> data = RankingData([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]], [1, 0, 2], ["a", "a", "b"])
    >>> found = summarize(data)
    >>> found.n_pairs, found.n_empty_queries, found.n_constant_features, found.levels
    (1, 1, 1, {0.0: 1, 1.0: 1, 2.0: 1})
    """
    sizes = np.diff(data.query_ptr)
    levels, counts = np.unique(data.y, return_counts=True)
    ones = np.ones(data.n_queries)
    pairs = rank_labels(data.replace(weight=None), ones, resolve_threads()).mass[:, 0]
    n_entries, n_constant = _entries_and_constants(data.X)
    return DataSummary(
        n_docs=data.n_docs,
        n_queries=data.n_queries,
        n_features=data.n_features,
        query_size=(int(sizes.min()), float(np.median(sizes)), int(sizes.max())),
        levels=dict(zip(levels.tolist(), counts.tolist(), strict=True)),
        n_pairs=int(pairs.sum()),
        n_empty_queries=int(np.count_nonzero(pairs == 0)),
        density=n_entries / (data.n_docs * data.n_features),
        n_constant_features=n_constant,
        dtype=str(data.X.dtype),
        form="csr" if data.is_sparse else "dense",
        index_base=data.index_base,
    )


def _entries_and_constants(X: Matrix) -> tuple[int, int]:
    """Count the entries that are not 0 and the features with one value only."""
    n_entries = 0
    smallest, largest = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    row_bytes = X.shape[1] * X.dtype.itemsize
    step = X.shape[0] if sparse.issparse(X) else max(1, _BLOCK_BYTES // row_bytes)
    for first in range(0, X.shape[0], step):
        rows = X[first : first + step]
        n_entries += int(rows.count_nonzero() if sparse.issparse(X) else np.count_nonzero(rows))
        np.minimum(smallest, _extreme(rows, "min"), out=smallest)
        np.maximum(largest, _extreme(rows, "max"), out=largest)
    return n_entries, int(np.count_nonzero(smallest == largest))


def _extreme(rows: Matrix, which: str) -> NDArray[np.float64]:
    found = getattr(rows, which)(axis=0)
    return found.toarray().ravel() if sparse.issparse(found) else np.asarray(found)
