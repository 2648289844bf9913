"""Campaign "forks": forks while another thread fits.

The child process must fit and score, with the same result, and end. A lock that the other thread
holds at the moment of the fork is never released in the child.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from linrank import make_ranking

from .campaign import Campaign, Case
from .rankers import RANKERS

FORKS = 10  #: forks per case
HANGS = 60  #: seconds after which a child process counts as hanging; a fit takes milliseconds
SWITCH = 1e-4  #: seconds between switches of threads, so that a fork can come at any step


def _scores(name: str, state: Any) -> Any:
    data, _ = state
    return RANKERS[name]().fit(data.X, data.y, data.qid).predict(data.X)


def prepare(folder: Path) -> Any:
    """Fit all rankers, which loads their modules and kernels, and keep their scores."""
    warnings.simplefilter("ignore")
    data = make_ranking(12, (4, 8), 6, n_levels=3, noise=1.0, random_state=0)
    return data, {name: _scores(name, (data, None)) for name in RANKERS}


def child(name: str, state: Any) -> None:
    """Fit a ranker in a child process, which ends with exit code 0 if the scores are right."""
    signal.alarm(HANGS)
    code = 1
    try:
        found, expected = _scores(name, state), state[1][name]
        code = 0 if np.allclose(found, expected, rtol=1e-6, atol=1e-9) else 3
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run(case: Case) -> None:
    """Fork at random moments while another thread fits rankers of one kind again and again."""
    names = list(RANKERS)
    busy = names[case.number % len(names)]
    ended = threading.Event()

    def keep_fitting() -> None:
        while not ended.is_set():
            _scores(busy, case.state)

    thread, before = threading.Thread(target=keep_fitting), sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    thread.start()
    try:
        for _ in range(FORKS):
            other = busy if case.rng.random() < 0.7 else str(case.rng.choice(names))
            time.sleep(float(case.rng.uniform(0.0, 0.02)))
            pid = os.fork()
            if pid == 0:
                child(other, case.state)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            case.units += 1
            case.saw(f"exit {code}")
            if code:
                how = "hangs" if code == -signal.SIGALRM else f"ends with exit code {code}"
                case.wrong(f"a child that fits {other} {how}, while a thread fits {busy}")
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(before)


CAMPAIGN = Campaign("forks", "forks", 1500, 7.0, run, prepare, patience=FORKS * HANGS + 180.0)
