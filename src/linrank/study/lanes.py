"""Runs on several processes; the end of a process ends one run only."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import suppress
from typing import Any, NamedTuple

from .fitting import run
from .jobs import Job
from .outcomes import Outcome

PARENT_CHECK = 1.0  #: seconds between two checks that the main process still exists
PR_SET_PDEATHSIG = 1  #: number of prctl(2): the signal that a process gets when its parent ends
IDLE = 600.0  #: seconds after which a process without work ends


class Finished(NamedTuple):
    """A job with its outcome, or with the sentence that says why it failed."""

    job: Job
    outcome: Outcome | None
    error: str | None


def run_all(
    jobs: Iterable[Job], n_processes: int, started: Callable[[Job], None] = lambda job: None
) -> Iterator[Finished]:
    """Do the runs, and yield each one when it is finished, in any order.

    A run that raises an error, or whose process ends (as when memory is exhausted), yields the
    reason. The other runs go on. Each process does one run at a time.

    Parameters
    ----------
    jobs : iterable of Job
    n_processes : int
        0: the runs are done in this process, one after the other.
    started : callable
        Called with each job when it begins.
    """
    if n_processes == 0:
        yield from _run_here(jobs, started)
        return
    waiting = iter(jobs)
    lanes: dict[Future[Outcome | str], tuple[Job, Any]] = {}
    free = [_new_lane() for _ in range(n_processes)]
    try:
        while True:
            while free and (job := next(waiting, None)) is not None:
                started(job)
                future, lane = _submit(free.pop(), job)
                lanes[future] = job, lane
            if not lanes:
                return
            for future in wait(lanes, return_when=FIRST_COMPLETED).done:
                job, lane = lanes.pop(future)
                found, alive = _result(future)
                free.append(lane if alive else _replace(lane))
                yield _finished(job, found)
    finally:
        for lane in [*free, *(lane for _, lane in lanes.values())]:
            lane.shutdown(wait=False, kill_workers=True)


def _run_here(jobs: Iterable[Job], started: Callable[[Job], None]) -> Iterator[Finished]:
    for job in jobs:
        started(job)
        try:
            found: Outcome | str = run(job)
        except (Exception, SystemExit) as error:  # an interrupt of the user ends the study
            found = _reason(error)
        yield _finished(job, found)


def _finished(job: Job, found: Outcome | str) -> Finished:
    return Finished(job, None, found) if isinstance(found, str) else Finished(job, found, None)


def _new_lane() -> Any:
    """Return an executor with one process.

    A process that ends breaks its executor, so each executor has only one.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(1, timeout=IDLE, initializer=_follow, initargs=(os.getpid(),))


def _replace(lane: Any) -> Any:
    lane.shutdown(wait=False, kill_workers=True)
    return _new_lane()


def _submit(lane: Any, job: Job) -> tuple[Future[Outcome | str], Any]:
    """Send a run to a process, or to a new one if the process has ended without work."""
    try:
        return lane.submit(_attempt, job), lane
    except BrokenExecutor:
        lane = _replace(lane)
        return lane.submit(_attempt, job), lane


def _attempt(job: Job) -> Outcome | str:
    """Do a run in a process of its own, and return its outcome or the reason why it failed.

    Exceptions stay in the process. Some of them cannot be sent to another process, and others, such
    as `SystemExit`, would end the study.
    """
    try:
        return run(job)
    except BaseException as error:  # a study goes on whatever one method raises
        return _reason(error)


def _result(future: Future[Outcome | str]) -> tuple[Outcome | str, bool]:
    """Return the outcome or the reason why there is none, and whether the process is alive."""
    try:
        return future.result(), True
    except BrokenExecutor as error:
        return _why_broken(error), False
    except Exception as error:  # the run or its outcome cannot be sent to another process
        return _reason(error), True


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there was not enough memory"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _why_broken(error: BrokenExecutor) -> str:
    """Tell whether a process was killed, or could not read its task or return its result."""
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if isinstance(error, TerminatedWorkerError):
        return "its process was killed, perhaps because memory was exhausted"
    return (
        "another process cannot unpickle its ranker. Move the class to a module that processes can "
        "import, or use no other process (--jobs 0, or n_processes=0)"
    )


def _follow(parent: int) -> None:
    """End this process when its parent ends, even if the parent is killed.

    The thread that watches the parent cannot run while other code holds the interpreter lock, such
    as a ranker that hangs in C. Linux therefore gets the same request.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK)
        os.kill(os.getpid(), signal.SIGTERM)

    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=watch, daemon=True).start()
