"""Samples of queries that do not depend on the order of the data."""

from __future__ import annotations

import numpy as np

from .._typing import Integers, Vector
from .ranking import RankingData


def evenly_spaced(keys: Vector, n: int) -> Integers:
    """Return the places of n numbers that are evenly spaced in the order of their sizes.

    With the keys of queries (`RankingData.query_keys`), the sample depends neither on the order of
    the rows nor on the names of the queries.

    Examples
    --------
    >>> evenly_spaced(np.array([3.0, 1.0, 2.0, 4.0]), 2)
    array([2, 3])
    """
    picks = ((np.arange(n) + 0.5) * len(keys) / n).astype(np.int64)
    return np.sort(np.argsort(keys, kind="stable")[picks])


def take_queries(data: RankingData, queries: Integers) -> RankingData:
    """Return a copy of the documents of some queries, without comments."""
    ptr = data.query_ptr
    rows = np.concatenate([np.arange(ptr[q], ptr[q + 1]) for q in queries])
    return data.replace(comments=None).take(rows, data.query_keys[queries])
