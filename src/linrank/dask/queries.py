"""Queries whose rows lie on several workers, and queries too large for any worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._typing import Array, Integers
from ..errors import DataError
from .rows import QueryCounts, alike


class Move(NamedTuple):
    """Queries of one part whose rows go to another group."""

    part: int
    group: int
    ids: Array


class Moves(NamedTuple):
    """All moves that bring the rows of every query into one group."""

    moves: list[Move]
    n_rows: int
    n_queries: int


def find_moves(groups: Sequence[Sequence[QueryCounts]]) -> Moves:
    """Assign each query to the group that has most of its rows, and list the rows to move.

    Each group is a sequence of consecutive parts. Parts are numbered across all groups.
    """
    parts = [part for group in groups for part in group]
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    ids, query, part, counts = _list_queries(parts)
    home = _find_homes(query, owner[part], counts, len(groups))[query]
    away = np.flatnonzero(home != owner[part])
    places, place = np.unique(part[away] * len(groups) + home[away], return_inverse=True)
    order = np.argsort(place, kind="stable")
    runs = np.split(away[order], np.cumsum(np.bincount(place))[:-1])
    moves = [
        Move(int(own // len(groups)), int(own % len(groups)), ids[query[run]])
        for own, run in zip(places, runs, strict=False)  # Without moves there is one empty run.
    ]
    return Moves(moves, int(counts[away].sum()), len(np.unique(query[away])))


def _list_queries(
    parts: Sequence[QueryCounts],
) -> tuple[Array, Integers, Integers, Integers]:
    """List the queries of all parts.

    Returns
    -------
    ids : array
        The distinct ids.
    query, part, counts : arrays with one entry for each query of each part
        The place of the query in `ids`, the number of the part, and the number of documents.
    """
    filled = [part for part in parts if len(part.ids)]  # The dtype of empty arrays is arbitrary.
    together = np.concatenate(alike([part.ids for part in filled]))
    ids, query = np.unique(together, return_inverse=True)
    part = np.repeat(np.arange(len(parts)), [len(part.ids) for part in parts])
    return ids, query, part, np.concatenate([part.counts for part in filled])


def _find_homes(query: Integers, group: Integers, counts: Integers, n_groups: int) -> Integers:
    """Return for each query the group with most of its rows, the first such group in a tie."""
    cells, cell = np.unique(query * n_groups + group, return_inverse=True)
    rows = np.bincount(cell, counts)
    query, group = np.divmod(cells, n_groups)
    best = np.lexsort((group, -rows, query))
    return group[best][np.searchsorted(query[best], np.arange(query[-1] + 1))]


def check_largest_query(parts: Sequence[QueryCounts], limit: float) -> None:
    """Raise a `DataError` if the features of a query take more than `limit` bytes."""
    ids, query, part, counts = _list_queries(parts)
    row_bytes = np.array([own.n_bytes / max(1, own.n_docs) for own in parts])
    sizes = np.bincount(query, counts * row_bytes[part])
    k = int(np.argmax(sizes))
    if sizes[k] > limit:
        n_docs = int(counts[query == k].sum())
        raise DataError(
            f"query {ids[k]} has {n_docs:,} documents, which take {_megabytes(sizes[k])}, but a "
            f"query must fit on one worker, where data may take at most {_megabytes(limit)}. Give "
            "the workers more memory"
        )


def _megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.{0 if n_bytes >= 1e7 else 2}f} MB"
