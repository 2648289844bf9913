"""A stable sort for the short, often nearly sorted lists of one query's documents."""

from __future__ import annotations

from ._jit import njit

RUN = 12  #: lists up to this length are sorted by insertion


@njit(inner=True)
def sort_by_key(keys, docs, tmp_keys, tmp_docs):  # type: ignore[no-untyped-def]
    """Sort ``docs`` by ``keys[doc]``, ascending and stable, in place.

    Merge sort over insertion-sorted runs. Runs that already follow each other are not
    merged, so a list that is sorted up to a few places costs little more than one walk:
    scores move little between two steps of a solver. The two buffers hold 2·n items.
    """
    n = len(docs)
    for p in range(n):
        doc = docs[p]
        key = keys[doc]
        r = p
        start = p - p % RUN
        while r > start and tmp_keys[r - 1] > key:
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
    """Merge the sorted ranges a:middle and middle:last into the range that begins at out."""
    b = middle
    if a < middle < last and keys[middle - 1] > keys[middle]:
        while a < middle and b < last:
            if keys[b] < keys[a]:
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
