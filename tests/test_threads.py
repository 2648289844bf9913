"""Tasks in threads: who runs them, in which order results come, and what errors do."""

import math
import threading
import time
from concurrent.futures import wait

import numpy as np
import pytest

from linrank import DataError
from linrank._rows import aligned_zeros
from linrank._threads import resolve_threads, run


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_tasks", [0, 1, 2, 10])
def test_results_are_in_the_order_of_the_tasks(n_threads, n_tasks):
    def late(k):
        time.sleep(0.001 * (n_tasks - k))  # the first takes longest
        return k * k

    assert run(late, [(k,) for k in range(n_tasks)], n_threads) == [k * k for k in range(n_tasks)]


def test_all_threads_work_and_the_caller_is_one_of_them():
    together = threading.Barrier(3, timeout=30)

    def meet(k):
        together.wait()  # passes only when three threads are here at once
        return threading.current_thread()

    threads = run(meet, [(k,) for k in range(3)], 3)
    assert len(set(threads)) == 3
    assert threading.current_thread() in threads


def test_a_thread_that_is_slow_does_less():
    slow = threading.Event()

    def work(k):
        if k == 0:
            assert slow.wait(30)  # the other thread has done all the rest meanwhile
        elif k == 9:
            slow.set()
        return threading.current_thread()

    first, *others = run(work, [(k,) for k in range(10)], 2)
    assert first not in others


@pytest.mark.parametrize("failing", [0, 1, 5])
def test_an_error_comes_out_when_no_task_is_running_any_more(failing):
    running = set()

    def fail(k):
        running.add(k)
        time.sleep(0.002)
        running.discard(k)
        if k == failing:
            raise IndexError("this one")  # not to be taken for the end of the tasks

    with pytest.raises(IndexError, match="this one"):
        run(fail, [(k,) for k in range(6)], 3)
    assert not running


def test_tasks_may_have_tasks():
    def outer(k):
        return sum(run(pow, [(k, 1), (k, 2), (k, 3)], 2))

    assert run(outer, [(k,) for k in range(8)], 2) == [k + k**2 + k**3 for k in range(8)]


@pytest.mark.parametrize("shape", [(1, 1), (2, 8), (3, 136), (4, 137)])
def test_rows_of_sums_begin_at_cache_lines(shape):
    sums = aligned_zeros(*shape)
    assert sums.shape == shape
    assert not sums.any()
    for row in sums:
        assert row.ctypes.data % 64 == 0
        assert row.flags.c_contiguous
        row[:] = 1.0
    assert sums.sum() == np.prod(shape)


def test_ctrl_c_waits_for_those_that_are_at_work(monkeypatch):
    calls, done, together = [], [], threading.Barrier(2, timeout=30)

    def interrupted(helpers):
        calls.append(helpers)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(helpers)

    def work(k):
        together.wait()
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.1)
            done.append(k)

    monkeypatch.setattr("linrank._threads.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(work, [(0,), (1,)], 2)
    assert len(done) == 1


def test_without_helpers_the_caller_does_it_all(monkeypatch):
    def refuse(*_):
        raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.submit", refuse)
    assert run(pow, [(2, 3), (3, 2)], 2) == [8, 9]


HUGE = pytest.param(10**5000, id="huge")  # Python does not write so many digits


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "2", "x", math.nan, math.inf, 10**20, HUGE, [1]])
def test_numbers_of_threads_that_make_no_sense(n):
    with pytest.raises(DataError, match=r"n_threads is .*; expected a whole number from 1 to 4096"):
        resolve_threads(n)


@pytest.mark.parametrize("text", ["0", "-1", "x", "²", "1" + "0" * 20, "9" * 5000])
def test_the_environment_is_checked_too(text, monkeypatch):
    monkeypatch.setenv("LINRANK_THREADS", text)
    with pytest.raises(DataError, match=r"LINRANK_THREADS is .*; expected a whole number from 1"):
        resolve_threads()
