"""Which queries lie across workers, and whether there is one that no worker can hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .rows import Census

Ints = NDArray[np.int64]


class Move(NamedTuple):
    """The rows of some queries of a part that go to another group."""

    part: int
    group: int
    ids: NDArray[Any]


class Moves(NamedTuple):
    """All that has to move, so that every query is in one group."""

    moves: list[Move]
    n_rows: int
    n_queries: int


def find_moves(groups: Sequence[Sequence[Census]]) -> Moves:
    """Give each query to the group that has most of its rows; the others' rows move there.

    Groups hold runs of parts, which are numbered through.
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
        for own, run in zip(places, runs, strict=False)  # without places there is one empty run
    ]
    return Moves(moves, int(counts[away].sum()), len(np.unique(query[away])))


def _list_queries(parts: Sequence[Census]) -> tuple[NDArray[Any], Ints, Ints, Ints]:
    """All ids, and for each query of each part: which of the ids, which part, its documents."""
    full = [part for part in parts if len(part.ids)]  # the type of no ids means nothing
    ids, query = np.unique(np.concatenate([part.ids for part in full]), return_inverse=True)
    part = np.repeat(np.arange(len(parts)), [len(part.ids) for part in parts])
    return ids, query, part, np.concatenate([part.counts for part in full])


def _find_homes(query: Ints, group: Ints, counts: Ints, n_groups: int) -> Ints:
    """For each query the group with most of its rows, the first where several have as many."""
    cells, cell = np.unique(query * n_groups + group, return_inverse=True)
    rows = np.bincount(cell, counts)
    query, group = np.divmod(cells, n_groups)
    best = np.lexsort((group, -rows, query))
    return group[best][np.searchsorted(query[best], np.arange(query[-1] + 1))]


def refuse_large_query(parts: Sequence[Census], room: float) -> None:
    """Refuse a query whose features take more bytes than data may take on any worker."""
    ids, query, part, counts = _list_queries(parts)
    row_bytes = np.array([census.n_bytes / max(1, census.n_docs) for census in parts])
    sizes = np.bincount(query, counts * row_bytes[part])
    k = int(np.argmax(sizes))
    if sizes[k] > room:
        n_docs = int(counts[query == k].sum())
        raise DataError(
            f"query {ids[k]} has {n_docs:,} documents, which take {_megabytes(sizes[k])}, but must "
            f"be on one worker, where data may take at most {_megabytes(room)}: give the workers "
            "more memory"
        )


def _megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.{0 if n_bytes >= 1e7 else 2}f} MB"
