"""Summary statistics of ranking data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from .._util.parallel import resolve_threads
from .._util.types import Vector
from ..counting.plan import rank_labels
from ..data.ranking import RankingData
from ..data.validation import Matrix

_BLOCK_BYTES = 1 << 24  # bytes of X that are read at a time; X may be larger than memory


@dataclass(frozen=True)
class DataSummary:
    """Summary statistics, as `summarize` returns them.

    Attributes
    ----------
    n_docs, n_queries, n_features : int
    query_size : tuple (smallest, median, largest)
        Documents per query.
    levels : dict of float to int
        Distinct labels in increasing order, with the number of documents of each.
    n_pairs, n_empty_queries : int
        Number of pairs of documents of one query with different labels, and number of queries
        without such pairs.
    density : float
        Share of the entries of X that are not 0.
    n_constant_features : int
        Number of features that have the same value in all documents.
    dtype : str
        Type of the entries of X.
    form : {"dense", "csr"}
        Storage of X.
    index_base : int
        Number of the first feature in LETOR files.
    n_missing : int
        Number of missing entries of X.
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
    form: Literal["dense", "csr"]
    index_base: int
    n_missing: int = 0


def summarize(data: RankingData) -> DataSummary:
    """Compute summary statistics of data in one pass over X.

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
        n_missing=_count_missing(data),
    )


def _count_missing(data: RankingData) -> int:
    if not data.has_missing:
        return 0
    return int(np.isnan(data.X.data if data.is_sparse else data.X).sum())


def _entries_and_constants(X: Matrix) -> tuple[int, int]:
    """Count the entries of X that are not 0, and the constant features."""
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


def _extreme(rows: Matrix, which: Literal["min", "max"]) -> Vector:
    """Return the smallest or largest value of each feature."""
    if sparse.issparse(rows):
        return getattr(rows, f"nan{which}")(axis=0).toarray().ravel()
    return {"min": np.fmin, "max": np.fmax}[which].reduce(
        rows, axis=0
    )  # missing values are left out
