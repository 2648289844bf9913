"""Sorting of the documents of a query by score.

Documents with equal keys are ordered by their numbers, in whatever order they were before. Sums
over sorted documents therefore depend on the current scores only, not on earlier ones.

1. Scores change little between two iterations of a solver, so an insertion sort is tried first.
2. If it moves too many documents, the documents are distributed over as many buckets as there are
   documents. The bucket is a non-decreasing function of the key.
3. Each bucket is sorted by merging. If keys are spread evenly, most buckets have few documents.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .._compile.jit import njit
from .._util.parallel import run
from .._util.types import Vector

RUN = 12  #: length of the runs that a merge sort starts with; longer ones take more moves
MOVES = 4  #: moves per document after which an insertion sort is abandoned
SAMPLE = 64  #: keys per thread that decide how a long list is split; more make parts more even
PADDING = 8  #: integers between the counters of two threads: one cache line
TINY = 1e-300  #: spread of keys below which they are not distributed; its inverse could overflow
SHORT = 64  #: documents in a list that is sorted by insertion, however many moves it takes


@njit(inner=True)
def sort_by_key(keys, docs, tmp_keys, tmp_docs):  # type: ignore[no-untyped-def]
    """Sort ``docs`` in place by ``keys[doc]``, and documents with equal keys by number.

    The two buffers have 2·n places. The sorted keys are left in the first n places of `tmp_keys`.
    Where keys are NaN, the order is not defined.
    """
    n = len(docs)
    ranked = tmp_keys[:n]
    for p in range(n):
        ranked[p] = keys[docs[p]]
    _sort(ranked, docs, tmp_keys[n : 2 * n], tmp_docs[:n], tmp_docs[n : 2 * n])


@njit(inner=True)
def _sort(ranked, docs, spare_keys, spare_docs, ends):  # type: ignore[no-untyped-def]
    """Sort the keys ``ranked`` and their documents; the other buffers have n places."""
    if _insert(ranked, docs):
        return
    centre, spread = _typical(ranked)
    if not TINY < spread < np.inf:  # equal keys, or keys that are not finite
        _merge_sort(ranked, docs, spare_keys, spare_docs)
        return
    _copy(ranked, docs, spare_keys, spare_docs)
    _distribute(spare_keys, spare_docs, centre, 1.0 / spread, ranked, docs, ends)
    start = 0
    for b in range(len(docs)):
        end = ends[b]
        if end - start > 1:
            here = slice(start, end)
            _merge_sort(ranked[here], docs[here], spare_keys[here], spare_docs[here])
        start = end


@njit(inner=True)
def _follows(key, doc, other_key, other):  # type: ignore[no-untyped-def]
    """Whether a document comes after another one."""
    return key > other_key or (key == other_key and doc > other)


@njit(inner=True)
def _copy(keys, docs, to_keys, to_docs):  # type: ignore[no-untyped-def]
    for p in range(len(docs)):
        to_keys[p] = keys[p]
        to_docs[p] = docs[p]


@njit(inner=True)
def _sink(keys, docs, p, start):  # type: ignore[no-untyped-def]
    """Insert the document at p into the sorted places start, …, p − 1; return its new place."""
    key, doc = keys[p], docs[p]
    r = p
    while r > start and _follows(keys[r - 1], docs[r - 1], key, doc):
        keys[r] = keys[r - 1]
        docs[r] = docs[r - 1]
        r -= 1
    keys[r] = key
    docs[r] = doc
    return r


@njit(inner=True)
def _insert(keys, docs):  # type: ignore[no-untyped-def]
    """Sort by insertion; return False if a long list needs too many moves."""
    n = len(docs)
    left = MOVES * n if n > SHORT else n * n
    for p in range(1, n):
        left -= p - _sink(keys, docs, p, 0)
        if left < 0:
            return False
    return True


# Distribution over buckets ----------------------------------------------------------------------


@njit(fast=True, inner=True)
def _typical(keys):  # type: ignore[no-untyped-def]
    """Return the mean of the keys and their mean distance from it, without far outliers."""
    centre, limit, spread = 0.0, np.inf, np.inf
    for _ in range(2):
        total, count = 0.0, 0
        for p in range(len(keys)):
            near = abs(keys[p] - centre) <= limit
            total += keys[p] if near else 0.0
            count += near
        mean, total = total / max(count, 1), 0.0
        for p in range(len(keys)):
            total += abs(keys[p] - mean) if abs(keys[p] - centre) <= limit else 0.0
        centre, spread = mean, total / max(count, 1)
        limit = 2.0 * spread
    return centre, spread


@njit(inner=True)
def _bucket(key, centre, scale, half):  # type: ignore[no-untyped-def]
    """Return a bucket from 0 to 2·half that does not decrease with the key, however it is rounded.

    With u = (key − centre)·scale, the bucket is half·(1 + u/(1 + |u|)): outliers share the last
    buckets.
    """
    u = (key - centre) * scale
    rest = half / (1.0 + abs(u))
    place = rest if u < 0.0 else 2.0 * half - rest
    return np.uint32(np.int64(place)) if place >= 0.0 else np.uint32(0)  # NaN goes to bucket 0


@njit(inner=True)
def _distribute(keys, docs, centre, scale, to_keys, to_docs, ends):  # type: ignore[no-untyped-def]
    """Move documents to their buckets, in the order that they have; ``ends[b]`` ends bucket b."""
    n = len(docs)
    half = 0.5 * (n - 1)
    for b in range(n):
        ends[b] = 0
    for p in range(n):
        ends[_bucket(keys[p], centre, scale, half)] += 1
    start = np.uint32(0)
    for b in range(n):
        size = ends[b]
        ends[b] = start
        start += size
    for p in range(n):
        b = _bucket(keys[p], centre, scale, half)
        spot = ends[b]
        ends[b] = spot + np.uint32(1)
        to_keys[spot] = keys[p]
        to_docs[spot] = docs[p]


# Merging ----------------------------------------------------------------------------------------


@njit(inner=True)
def _merge_sort(keys, docs, spare_keys, spare_docs):  # type: ignore[no-untyped-def]
    """Sort by merging runs that are sorted by insertion; runs already in order are copied."""
    n, width = len(docs), RUN
    for p in range(1, n):
        _sink(keys, docs, p, p - p % RUN)
    while width < n:
        for a in range(0, n, 2 * width):
            middle, last = min(a + width, n), min(a + 2 * width, n)
            _merge(keys, docs, a, middle, last, spare_keys, spare_docs)
        _copy(spare_keys, spare_docs, keys, docs)
        width *= 2


@njit(inner=True)
def _merge(keys, docs, a, middle, last, to_keys, to_docs):  # type: ignore[no-untyped-def]
    """Merge the sorted ranges a:middle and middle:last into the same places of other arrays."""
    b, out = middle, a
    if a < middle < last and _follows(keys[b - 1], docs[b - 1], keys[b], docs[b]):
        while a < middle and b < last:
            if _follows(keys[a], docs[a], keys[b], docs[b]):
                to_keys[out] = keys[b]
                to_docs[out] = docs[b]
                b += 1
            else:
                to_keys[out] = keys[a]
                to_docs[out] = docs[a]
                a += 1
            out += 1
    rest = out + middle - a
    _copy(keys[a:middle], docs[a:middle], to_keys[out:rest], to_docs[out:rest])
    _copy(keys[b:last], docs[b:last], to_keys[rest:last], to_docs[rest:last])


# One long list, sorted by several threads ------------------------------------------------------


def sort_in_threads(
    keys: Vector,
    docs: NDArray[np.uint32],
    tmp_keys: Vector,
    tmp_docs: NDArray[np.uint32],
    n_threads: int,
) -> None:
    """Sort a long list as `sort_by_key` does, with several threads.

    The list is split into as many ranges of keys as there are threads. The keys of a sample decide
    where a range ends. Each thread moves one part of the list to the ranges, and then sorts one
    range.

    Examples
    --------
    >>> keys, docs = np.array([0.3, 0.1, 0.2]), np.arange(3, dtype=np.uint32)
    >>> sort_in_threads(keys, docs, np.empty(6), np.empty(6, np.uint32), n_threads=2)
    >>> docs.tolist()
    [1, 2, 0]
    """
    n = len(docs)
    sample = np.sort(keys[docs[:: max(1, n // (SAMPLE * n_threads))]])
    splitters = sample[[len(sample) * k // n_threads for k in range(1, n_threads)]]
    ranked, spare_keys, spare_docs = tmp_keys[:n], tmp_keys[n : 2 * n], tmp_docs[:n]
    parts = list(pairwise(n * k // n_threads for k in range(n_threads + 1)))
    # Row k has the sizes of the ranges in part k. The rows of two threads share no cache line.
    sizes, spots = np.zeros((2, n_threads, n_threads + PADDING), np.int64)[..., :n_threads]
    known = splitters, spare_keys, spare_docs
    tasks = [(keys, docs, a, b, *known, own) for (a, b), own in zip(parts, sizes, strict=True)]
    run(_take_part, tasks, n_threads)
    ends = np.cumsum(sizes.T).reshape(n_threads, n_threads).T
    spots[:] = ends - sizes
    tasks = [(ranked, docs, a, b, *known, own) for (a, b), own in zip(parts, spots, strict=True)]
    run(_move_part, tasks, n_threads)
    ranges = pairwise([0, *ends[-1].tolist()])
    run(_sort_range, [(docs, tmp_keys, tmp_docs, a, b) for a, b in ranges], n_threads)


@njit(inner=True)
def _range_of(key, splitters):  # type: ignore[no-untyped-def]
    """Return the range of a key, without branches: half of their predictions would be wrong."""
    r = 0
    for k in range(len(splitters)):
        r += np.int64(key >= splitters[k])
    return r


@njit
def _take_part(keys, docs, a, b, splitters, spare_keys, spare_docs, sizes):  # type: ignore[no-untyped-def]
    """Copy a part of the list with its keys, and count the documents of each range."""
    for p in range(a, b):
        spare_docs[p] = docs[p]
        spare_keys[p] = keys[docs[p]]
        sizes[_range_of(spare_keys[p], splitters)] += 1


@njit
def _move_part(ranked, docs, a, b, splitters, spare_keys, spare_docs, spots):  # type: ignore[no-untyped-def]
    """Move the documents of a part to the next spots of their ranges."""
    for p in range(a, b):
        r = _range_of(spare_keys[p], splitters)
        ranked[spots[r]] = spare_keys[p]
        docs[spots[r]] = spare_docs[p]
        spots[r] += 1


@njit
def _sort_range(docs, tmp_keys, tmp_docs, a, b):  # type: ignore[no-untyped-def]
    c, d = len(docs) + a, len(docs) + b
    _sort(tmp_keys[a:b], docs[a:b], tmp_keys[c:d], tmp_docs[a:b], tmp_docs[c:d])
