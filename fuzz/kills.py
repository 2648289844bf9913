"""Campaign "kills": SIGKILL during writing.

The old or the new content must be there, and a second run must succeed.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .campaign import Campaign, Case
from .scenarios import Scenario, fork, strace_missing
from .scenarios import prepare as prepare_scenarios
from .tracing import Point, find_points, inject


class Targets(NamedTuple):
    """The scenarios, and all system calls by which they change their folders."""

    scenarios: list[Scenario]
    points: list[tuple[Scenario, Point]]


def prepare(folder: Path) -> Targets:
    """Find the system calls of all scenarios."""
    scenarios, points = prepare_scenarios(folder), []
    if strace_missing() is None:
        for number, scenario in enumerate(scenarios):
            there = scenario.copy(folder / f"traced {number}")
            points += [(scenario, point) for point in find_points(scenario, there)]
    order = np.random.default_rng(0).permutation(len(points))
    return Targets(scenarios, [points[k] for k in order])


def kill_at_random(case: Case, scenario: Scenario, folder: Path) -> str:
    """Kill the command at a random moment, and return a description of the moment."""
    delay = float(case.rng.uniform(0.0, 1.1 * scenario.seconds))
    child = fork(scenario, folder)
    child.begin()
    time.sleep(delay)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(begin=False)
    return f"after {delay:.3f} s"


def run(case: Case) -> None:
    """Kill one command, check the folder, and run the command again."""
    targets: Targets = case.state
    n = case.number // 2
    if case.number % 2 == 0 and n < len(targets.points):
        scenario, point = targets.points[n]
        folder = scenario.copy(case.folder / "data")
        done, _ = inject(scenario, folder, point, "signal=SIGKILL")
        how = f"at {point}"
        case.saw("at a system call" if done.code < 0 else "missed")
    else:
        scenario = targets.scenarios[case.rng.integers(len(targets.scenarios))]
        folder = scenario.copy(case.folder / "data")
        how = kill_at_random(case, scenario, folder)
        case.saw("at a random moment")
    case.units += 1
    about = f"{scenario.name} killed {how}"
    content = scenario.content(folder)
    case.saw(content if content in ("old", "new") else "lost or damaged")
    if content not in ("old", "new"):
        case.wrong(f"{about}: {content}; the folder holds {scenario.leftovers(folder)}")
    elif scenario.lost(folder):
        case.wrong(f"{about}: lost {scenario.lost(folder)}")
    repeated = fork(scenario, folder).wait()
    if repeated.code or scenario.content(folder) != "new":
        case.wrong(f"{about}: the repeat ends with {repeated.code}: {repeated.said[-300:]}")
    if scenario.leftovers(folder):
        case.wrong(f"{about}: left over after the repeat: {scenario.leftovers(folder)}")


CAMPAIGN = Campaign("kills", "SIGKILLs", 200, 2.0, run, prepare)
