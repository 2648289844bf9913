"""What the threads of a block do together: sums, prefix sums, a sort.

All are in a fixed order, so a result is the same in every run and on every card. Arrays that
threads share are arguments: a kernel says where they lie.
"""

from __future__ import annotations

import math

from numba import cuda

from .sizes import THREADS

LAST = 2**31 - 1  #: a segment behind all others


@cuda.jit(device=True)
def block_sum(value, partial):  # type: ignore[no-untyped-def]
    """The sum of the threads' values, for every thread; `partial` has a place for each."""
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
    """The largest of the threads' values, for every thread."""
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
    """The sum of the values of the threads `first`, …, i − 1, for thread i.

    Threads have a `first` in common from that one on: sums begin anew where it changes. Threads
    from `used` on have nothing.
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
    """The sum of the values of the threads i + 1, …, `last`, for thread i."""
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
    """Whether an item stands before another one: by segment, key and, of equal keys, number.

    NaN is the largest key, and equal to itself: in no order at all, two items would find one place.
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
    """The first place p of the sorted keys[a:b] with keys[p] − key ≥ τ; b where there is none."""
    while a < b:
        middle = (a + b) // 2
        if keys[middle] - key < tau:
            a = middle + 1
        else:
            b = middle
    return a


@cuda.jit(device=True)
def first_within(keys, a, b, key, tau):  # type: ignore[no-untyped-def]
    """The first place p of the sorted keys[a:b] with key − keys[p] < τ; b where there is none."""
    while a < b:
        middle = (a + b) // 2
        if key - keys[middle] >= tau:
            a = middle + 1
        else:
            b = middle
    return a
