"""The memory limit of this process."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .checks import whole_number
from .types import Integers

# --------------------------------------------------------------------------------------------------
# Threads that run serial kernels on contiguous ranges, with results in a fixed order.


T = TypeVar("T")

MAX_THREADS = 4096  #: largest number of threads; each thread takes memory
MAX_DIGITS = 40  #: digits of a number in the environment; Python rejects very long numbers

_pools: dict[int, ThreadPoolExecutor] = {}
_blas_lock = threading.Lock()
_blas_limits: dict[int, list[int]] = {}  #: by thread id: the limits of active `blas_threads`
_blas_limiter: Any = None


def resolve_threads(n_threads: int | None = None) -> int:
    """Return the number of threads: the argument, ``LINRANK_THREADS``, or the usable cores.

    Examples
    --------
    >>> resolve_threads(3)
    3
    """
    if n_threads is None:
        text = os.environ.get("LINRANK_THREADS", "")
        if not text:
            return (
                len(os.sched_getaffinity(0))
                if hasattr(os, "sched_getaffinity")
                else (os.cpu_count() or 1)
            )
        number = int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else text
        return whole_number("LINRANK_THREADS", number, most=MAX_THREADS)
    return whole_number("n_threads", n_threads, most=MAX_THREADS)


def run(function: Callable[..., T], tasks: Sequence[tuple[Any, ...]], n_threads: int) -> list[T]:
    """Call ``function(*task)`` for every task in threads, and return the results in order.

    The calling thread works too. A thread takes the next task when it has finished one. With more
    tasks than threads, a core that is busy with other processes therefore gets fewer tasks.
    Functions may call `run` themselves.

    Examples
    --------
    >>> run(pow, [(2, 3), (3, 2)], n_threads=2)
    [8, 9]
    """
    if n_threads == 1 or len(tasks) == 1:
        return [function(*task) for task in tasks]
    results: list[Any] = [None] * len(tasks)
    waiting = deque(enumerate(tasks))

    def work() -> None:
        while waiting:
            try:
                k, task = waiting.popleft()
            except IndexError:  # another thread has taken the last task
                return
            results[k] = function(*task)

    pool = _pools.get(n_threads)
    if pool is None:
        pool = _pools[n_threads] = ThreadPoolExecutor(n_threads - 1, "linrank")
    helpers: list[Future[None]] = []
    with suppress(RuntimeError):  # while Python shuts down, the pool accepts no tasks
        for _ in range(min(n_threads, len(tasks)) - 1):
            helpers.append(pool.submit(work))
    try:
        work()
    finally:
        waiting.clear()
        helpers = [helper for helper in helpers if not helper.cancel()]
        try:
            wait(helpers)
        except KeyboardInterrupt:  # other threads may still be writing to the caller's arrays
            wait(helpers)
            raise
    for helper in helpers:
        helper.result()
    return results


def split(ptr: Integers, n_chunks: int) -> list[tuple[int, int]]:
    """Cut the items of a pointer array into contiguous chunks of about equal weight.

    Item i has the weight ``ptr[i + 1] - ptr[i]``. Empty chunks are left out.

    Examples
    --------
    >>> split(np.array([0, 10, 11, 12, 22]), 2)
    [(0, 2), (2, 4)]
    """
    goals = ptr[0] + (int(ptr[-1]) - int(ptr[0])) * np.arange(1, n_chunks) // n_chunks
    goals = goals.astype(ptr.dtype)  # with another type, the search would copy all pointers
    cuts = np.searchsorted(ptr, goals)
    edges = [0, *(int(cut) for cut in cuts), len(ptr) - 1]
    return [(a, b) for a, b in pairwise(edges) if a < b]


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(n_threads: int) -> Iterator[None]:
    """Limit the BLAS of numpy and scipy to that many threads, within a ``with`` block.

    The limit applies to the whole process. Of nested blocks in one thread, the innermost applies.
    If several threads have active blocks, the smallest of their limits applies.
    """
    own = threading.get_ident()
    with _blas_lock:
        _blas_limits.setdefault(own, []).append(n_threads)
        _limit_blas()
    try:
        yield
    finally:
        with _blas_lock:
            _blas_limits[own].pop()
            if not _blas_limits[own]:
                del _blas_limits[own]
            _limit_blas()


def _limit_blas() -> None:
    """Apply the smallest active limit, or none; the caller must hold the lock."""
    global _blas_limiter
    if _blas_limiter is not None:
        _blas_limiter.restore_original_limits()
    least = min((limits[-1] for limits in _blas_limits.values()), default=None)
    _blas_limiter = None if least is None else _blas().limit(limits=least)


def _forget_other_threads() -> None:
    """Reset the pools and the limits of other threads in a forked process, which has one thread."""
    _pools.clear()
    own = threading.get_ident()
    if _blas_limits.keys() - {own}:
        for other in _blas_limits.keys() - {own}:
            del _blas_limits[other]
        _limit_blas()
    _blas_lock.release()


if hasattr(os, "register_at_fork"):  # no thread may change the limits during a fork
    os.register_at_fork(
        before=_blas_lock.acquire,
        after_in_parent=_blas_lock.release,
        after_in_child=_forget_other_threads,
    )


# --------------------------------------------------------------------------------------------------
# The memory limit of this process.


_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_limit() -> int:
    """Return the bytes of memory of this machine, or the limit of a container or ``ulimit -v``."""
    limits = [2**63 - 1]
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS:
        with suppress(OSError, ValueError):  # "max" means that there is no limit.
            limits.append(int(Path(file).read_text()))
    with suppress(ImportError, OSError):
        import resource

        limits.append(resource.getrlimit(resource.RLIMIT_AS)[0])
    return min(limit for limit in limits if limit > 0)
