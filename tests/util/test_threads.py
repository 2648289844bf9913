"""Tasks in threads: which thread runs them, the order of results, errors and forks."""

import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from concurrent.futures import wait
from contextlib import contextmanager

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

from commandline import PATIENCE
from linrank import AdditiveRanker, DataError, make_ranking
from linrank._util import parallel
from linrank._util.parallel import blas_threads, resolve_threads, run
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.matrix.rows import aligned_zeros
from linrank.metrics.ranked_lists import Ranking


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_tasks", [0, 1, 2, 10])
def test_results_are_in_the_order_of_the_tasks(n_threads, n_tasks):
    def late(k):
        time.sleep(0.001 * (n_tasks - k))  # the first task takes longest
        return k * k

    assert run(late, [(k,) for k in range(n_tasks)], n_threads) == [k * k for k in range(n_tasks)]


def test_all_threads_work_and_the_caller_is_one_of_them():
    together = threading.Barrier(3, timeout=PATIENCE)

    def meet(k):
        together.wait()  # returns only if three threads wait at the same time
        return threading.current_thread()

    threads = run(meet, [(k,) for k in range(3)], 3)
    assert len(set(threads)) == 3
    assert threading.current_thread() in threads


def test_a_thread_that_is_slow_does_less():
    slow = threading.Event()

    def work(k):
        if k == 0:
            assert slow.wait(PATIENCE)  # meanwhile, the other thread does all other tasks
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
            raise IndexError("this one")  # must not be mistaken for the end of the tasks

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
    calls, done, together = [], [], threading.Barrier(2, timeout=PATIENCE)

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

    monkeypatch.setattr("linrank._util.parallel.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(work, [(0,), (1,)], 2)
    assert len(done) == 1


def test_without_helpers_the_caller_does_it_all(monkeypatch):
    def refuse(*_):
        raise RuntimeError("cannot schedule new futures after shutdown")

    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.submit", refuse)
    assert run(pow, [(2, 3), (3, 2)], 2) == [8, 9]


HUGE = pytest.param(10**5000, id="huge")  # Python does not convert so many digits to text


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "2", "x", math.nan, math.inf, 10**20, HUGE, [1]])
def test_numbers_of_threads_that_make_no_sense(n):
    with pytest.raises(DataError, match=r"n_threads is .*; expected a whole number from 1 to 4096"):
        resolve_threads(n)


@pytest.mark.parametrize("text", ["0", "-1", "x", "²", "1" + "0" * 20, "9" * 5000])
def test_the_environment_is_checked_too(text, monkeypatch):
    monkeypatch.setenv("LINRANK_THREADS", text)
    with pytest.raises(DataError, match=r"LINRANK_THREADS is .*; expected a whole number from 1"):
        resolve_threads()


# Forks while other threads are working -----------------------------------------------------


def run_in_child(work):
    """Fork, call a function in the child, and return the child's exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it warns of the other threads
        child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that would wait for ever
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def meanwhile(work):
    """Run ``work(pause)`` in a thread that waits in ``pause()`` during the ``with`` block."""
    inside, leave = threading.Event(), threading.Event()

    def pause():
        inside.set()
        assert leave.wait(PATIENCE)

    thread = threading.Thread(target=work, args=(pause,))
    thread.start()
    assert inside.wait(PATIENCE)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_a_fork_while_a_thread_computes_an_attribute():
    data = make_ranking(2, 3, 2, random_state=0)
    slow, other = (ThreadEngine(data, get_loss("squared_hinge"), n_threads=1) for _ in range(2))

    def read_slowly(pause):
        slow.value_grad = lambda w: (pause(), w)
        assert slow.at_zero[1] == 0

    other.value_grad = lambda w: (1.0, w)
    with meanwhile(read_slowly):
        assert run_in_child(lambda: other.at_zero) == 0
    assert other.at_zero == (1.0, 0.0)


def test_a_fork_while_a_thread_sorts_labels():
    slow, other = (
        Ranking(np.arange(3.0), np.arange(3.0), np.array([0, 3]), "average", 1) for _ in range(2)
    )

    def read_slowly(pause):
        slow._sort = lambda *_: (None, pause(), None)
        assert len(slow.ideal) == 3

    other._sort = lambda *_: (0, 1, 2)
    with meanwhile(read_slowly):
        assert run_in_child(lambda: other.ideal) == 0


# What a fit of an `AdditiveRanker` computes on first use.
ADDITIVE = ["anchors", "widths", "starts", "owner", "kernel_form", "_map", "_map_back", "_tables"]


@pytest.mark.parametrize("name", ADDITIVE)
def test_a_fork_while_a_thread_fits_an_additive_ranker(name):
    data = make_ranking(6, 5, 2, random_state=0)

    def fit():
        AdditiveRanker(C=0.1, n_threads=1).fit(data).predict(data.X)

    def fit_slowly(pause):
        def look(frame, event, argument):
            if event == "call" and frame.f_code.co_name == name:
                sys.setprofile(None)
                pause()

        sys.setprofile(look)
        fit()

    fit()  # a kernel that is being compiled would delay the fork
    with meanwhile(fit_slowly):
        assert run_in_child(fit) == 0


def test_a_fork_while_a_thread_compiles():
    """The fork waits for the lock of the compiler, so that the child can take it."""

    def compile_slowly(pause):
        with global_compiler_lock:
            pause()
            time.sleep(0.1)  # the fork may happen before or after the compilation

    def compile():
        with global_compiler_lock:
            pass

    with meanwhile(compile_slowly):
        code = []
        forking = threading.Thread(target=lambda: code.append(run_in_child(compile)))
        forking.start()
    forking.join()
    assert code == [0]


def test_a_fork_while_a_thread_changes_the_limit_of_blas(monkeypatch):
    limits = []

    class Limiter:
        def __init__(self, limits=None):
            limits_of_blas(limits)

        def restore_original_limits(self):
            limits_of_blas(None)

    limits_of_blas = limits.append
    monkeypatch.setattr(parallel, "_blas", lambda: type("Blas", (), {"limit": Limiter}))

    def limit_slowly(pause):
        with blas_threads(1):
            pause()

    def check():
        assert limits[-1] == 2  # the limit of the thread that does not exist here is gone
        with blas_threads(3):
            assert limits[-1] == 3  # the innermost limit of a thread
        assert limits[-1] == 2

    with blas_threads(2), meanwhile(limit_slowly):
        assert limits[-1] == 1
        assert run_in_child(check) == 0
        assert limits[-1] == 1
    assert limits[-1] is None


def test_a_fork_while_a_thread_holds_the_lock_of_the_limits():
    def hold(pause):
        with parallel._blas_lock:
            pause()

    with meanwhile(hold):
        code = []
        forking = threading.Thread(
            target=lambda: code.append(run_in_child(lambda: blas_threads(1).__enter__()))
        )
        forking.start()
    forking.join()
    assert code == [0]


def test_a_child_has_threads_of_its_own():
    run(pow, [(2, 3), (3, 2)], 2)
    assert run_in_child(lambda: run(pow, [(2, 3), (3, 2)] * 50, 2)) == 0
