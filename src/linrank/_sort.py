"""Sorting of the documents of a query: short lists that are often nearly sorted.

Documents with equal keys are ordered by their numbers, in whatever order they were before. Sums
over sorted documents therefore depend on the current scores only, not on earlier ones.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ._jit import njit
from ._threads import run
from ._typing import Vector

RUN = 12  #: length of the runs that a merge sort starts with; longer ones take more moves
MOVES = 4  #: moves per document after which an insertion sort is abandoned for a merge sort


@njit(inner=True)
def sort_by_key(keys, docs, tmp_keys, tmp_docs):  # type: ignore[no-untyped-def]
    """Sort ``docs`` in place by ``keys[doc]``, and documents with equal keys by number.

    Scores change little between two iterations of a solver, so an insertion sort is tried first. If
    it moves too many documents, a merge sort follows. The two buffers have 2·n places.
    """
    if not _insert(keys, docs, tmp_keys):
        _merge_sort(keys, docs, tmp_keys, tmp_docs)


@njit(inner=True)
def _follows(key, doc, other_key, other):  # type: ignore[no-untyped-def]
    """Whether a document comes after another one."""
    return key > other_key or (key == other_key and doc > other)


@njit(inner=True)
def _insert(keys, docs, sorted_keys):  # type: ignore[no-untyped-def]
    """Sort by insertion; return False if more than `MOVES` moves per document are needed."""
    left = MOVES * len(docs)
    for p in range(len(docs)):
        doc = docs[p]
        key = keys[doc]
        r = p
        while r > 0 and _follows(sorted_keys[r - 1], docs[r - 1], key, doc):
            sorted_keys[r] = sorted_keys[r - 1]
            docs[r] = docs[r - 1]
            r -= 1
        sorted_keys[r] = key
        docs[r] = doc
        left -= p - r
        if left < 0:
            return False
    return True


@njit(inner=True)
def _merge_sort(keys, docs, tmp_keys, tmp_docs):  # type: ignore[no-untyped-def]
    """Sort by merging runs that are sorted by insertion; runs already in order are copied."""
    n = len(docs)
    for p in range(n):
        doc = docs[p]
        key = keys[doc]
        r = p
        start = p - p % RUN
        while r > start and _follows(tmp_keys[r - 1], tmp_docs[r - 1], key, doc):
            tmp_keys[r] = tmp_keys[r - 1]
            tmp_docs[r] = tmp_docs[r - 1]
            r -= 1
        tmp_keys[r] = key
        tmp_docs[r] = doc
    source, target, width = 0, n, RUN
    while width < n:
        for a in range(0, n, 2 * width):
            middle, last = min(a + width, n), min(a + 2 * width, n)
            _merge(tmp_keys, tmp_docs, source + a, source + middle, source + last, target + a)
        source, target, width = target, source, 2 * width
    for p in range(n):
        docs[p] = tmp_docs[source + p]


@njit(inner=True)
def _merge(keys, docs, a, middle, last, out):  # type: ignore[no-untyped-def]
    """Merge the sorted ranges a:middle and middle:last into the range that starts at out."""
    b = middle
    if a < middle < last and _follows(keys[b - 1], docs[b - 1], keys[b], docs[b]):
        while a < middle and b < last:
            if _follows(keys[a], docs[a], keys[b], docs[b]):
                keys[out] = keys[b]
                docs[out] = docs[b]
                b += 1
            else:
                keys[out] = keys[a]
                docs[out] = docs[a]
                a += 1
            out += 1
    while a < middle:
        keys[out] = keys[a]
        docs[out] = docs[a]
        a += 1
        out += 1
    while b < last:
        keys[out] = keys[b]
        docs[out] = docs[b]
        b += 1
        out += 1


# One long list, sorted by several threads ------------------------------------------------------


def sort_in_threads(
    keys: Vector,
    docs: NDArray[np.uint32],
    tmp_keys: Vector,
    tmp_docs: NDArray[np.uint32],
    n_threads: int,
) -> None:
    """Sort a long list as `sort_by_key` does, with several threads.

    Each thread sorts a part of the list. Two sorted parts are then merged by all threads: the
    merged list is cut into equal pieces, and a binary search finds where each piece starts in the
    two parts.

    Examples
    --------
    >>> keys, docs = np.array([0.3, 0.1, 0.2]), np.arange(3, dtype=np.uint32)
    >>> sort_in_threads(keys, docs, np.empty(6), np.empty(6, np.uint32), n_threads=2)
    >>> docs.tolist()
    [1, 2, 0]
    """
    n = len(docs)
    edges = [n * k // n_threads for k in range(n_threads + 1)]
    parts = [(keys, docs, tmp_keys, tmp_docs, a, b) for a, b in pairwise(edges)]
    run(_sort_part, parts, n_threads)
    while len(edges) > 2:
        tasks = []
        for a, middle, last in zip(edges[:-2:2], edges[1:-1:2], edges[2::2], strict=True):
            cuts = [(last - a) * k // n_threads for k in range(n_threads + 1)]
            tasks += [(keys, docs, tmp_docs, a, middle, last, *cut) for cut in pairwise(cuts)]
        run(_merge_piece, tasks, n_threads)
        merged = edges[-1] if len(edges) % 2 else edges[-2]
        docs[:merged] = tmp_docs[:merged]
        edges = edges[::2] if len(edges) % 2 else [*edges[::2], edges[-1]]


@njit
def _sort_part(keys, docs, tmp_keys, tmp_docs, a, b):  # type: ignore[no-untyped-def]
    sort_by_key(keys, docs[a:b], tmp_keys[2 * a : 2 * b], tmp_docs[2 * a : 2 * b])


@njit
def _merge_piece(keys, docs, out, a, middle, last, first, end):  # type: ignore[no-untyped-def]
    """Compute places first, …, end − 1 of the merge of docs[a:middle] and docs[middle:last]."""
    low, high = max(0, first - (last - middle)), min(first, middle - a)
    while low < high:  # search how many of the places before `first` come from the first list
        mine = (low + high) // 2
        left, right = docs[a + mine], docs[middle + first - mine - 1]
        if not _follows(keys[left], left, keys[right], right):
            low = mine + 1
        else:
            high = mine
    left, right = a + low, middle + first - low
    for p in range(a + first, a + end):
        if right == last or (
            left < middle
            and not _follows(keys[docs[left]], docs[left], keys[docs[right]], docs[right])
        ):
            out[p] = docs[left]
            left += 1
        else:
            out[p] = docs[right]
            right += 1
