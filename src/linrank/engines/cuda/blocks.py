"""Operations that the threads of a block do together: sums, prefix sums, a sort.

All of them add and compare in a fixed order, so a result is the same in every run and on every
card. Kernels allocate the shared arrays and pass them as arguments.
"""

from __future__ import annotations

import math

from numba import cuda

from .sizes import THREADS

LAST = 2**31 - 1  #: number of a segment that comes after all others


@cuda.jit(device=True)
def block_sum(value, partial):  # type: ignore[no-untyped-def]
    """Return the sum of the values of all threads; `partial` has a place for each thread."""
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if i < step:
            partial[i] += partial[i + step]
        cuda.syncthreads()
        step //= 2
    return partial[0]


@cuda.jit(device=True)
def block_max(value, partial):  # type: ignore[no-untyped-def]
    """Return the largest of the values of all threads; `partial` has a place for each thread."""
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if i < step:
            partial[i] = max(partial[i], partial[i + step])
        cuda.syncthreads()
        step //= 2
    return partial[0]


@cuda.jit(device=True)
def sum_before(value, first, used, partial):  # type: ignore[no-untyped-def]
    """Return the sum of the values of the threads `first`, …, i − 1 to thread i.

    Consecutive threads with the same `first` form a segment, and each segment is summed by itself.
    Threads from number `used` on have no values.
    """
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = 1
    while step < used:
        before = partial[i - step] if i - step >= first else 0
        cuda.syncthreads()
        partial[i] += before
        cuda.syncthreads()
        step *= 2
    return partial[i - 1] if i > first else 0


@cuda.jit(device=True)
def sum_behind(value, last, used, partial):  # type: ignore[no-untyped-def]
    """Return the sum of the values of the threads i + 1, …, `last` to thread i."""
    i = cuda.threadIdx.x
    cuda.syncthreads()
    partial[i] = value
    cuda.syncthreads()
    step = 1
    while step < used:
        behind = partial[i + step] if i + step <= last else 0
        cuda.syncthreads()
        partial[i] += behind
        cuda.syncthreads()
        step *= 2
    return partial[i + 1] if i < last else 0


@cuda.jit(device=True)
def precedes(segment, key, item, other_segment, other_key, other):  # type: ignore[no-untyped-def]
    """Whether an item comes before another: by segment, then by key, then by number.

    NaN is the largest key, and equal to itself. Without an order for NaN, two items could be
    written to the same place.
    """
    if segment != other_segment:
        return segment < other_segment
    if key == other_key or (math.isnan(key) and math.isnan(other_key)):
        return item < other
    return key < other_key or math.isnan(other_key)


@cuda.jit(device=True)
def bitonic(segments, keys, items, n):  # type: ignore[no-untyped-def]
    """Sort the first n items (Batcher 1968); the arrays have room for the next power of two."""
    i = cuda.threadIdx.x
    size = 1
    while size < n:
        size *= 2
    for p in range(n + i, size, THREADS):
        segments[p], keys[p], items[p] = LAST, math.inf, p
    cuda.syncthreads()
    width = 2
    while width <= size:
        step = width // 2
        while step > 0:
            for p in range(i, size, THREADS):
                q = p ^ step
                if q > p:
                    out_of_order = precedes(
                        segments[q], keys[q], items[q], segments[p], keys[p], items[p]
                    )
                    if out_of_order == ((p & width) == 0):
                        _swap(segments, p, q)
                        _swap(keys, p, q)
                        _swap(items, p, q)
            cuda.syncthreads()
            step //= 2
        width *= 2


@cuda.jit(device=True)
def _swap(array, p, q):  # type: ignore[no-untyped-def]
    value = array[p]
    array[p] = array[q]
    array[q] = value


@cuda.jit(device=True)
def first_beyond(keys, a, b, key, tau):  # type: ignore[no-untyped-def]
    """Return the first place p of the sorted keys[a:b] with keys[p] − key ≥ τ, or b."""
    while a < b:
        middle = (a + b) // 2
        if keys[middle] - key < tau:
            a = middle + 1
        else:
            b = middle
    return a


@cuda.jit(device=True)
def first_within(keys, a, b, key, tau):  # type: ignore[no-untyped-def]
    """Return the first place p of the sorted keys[a:b] with key − keys[p] < τ, or b."""
    while a < b:
        middle = (a + b) // 2
        if key - keys[middle] >= tau:
            a = middle + 1
        else:
            b = middle
    return a
