"""Campaign "faults": every write fails with a full or broken disk.

The command must print one error message, and the old file must stay.
"""

from __future__ import annotations

from pathlib import Path

from .campaign import Campaign, Case
from .scenarios import Scenario, strace_missing
from .scenarios import prepare as prepare_scenarios
from .tracing import Point, find_points, inject

ERRORS = ("ENOSPC", "EIO")
#: System calls that only clean up. If they fail, a leftover stays, but no data are lost.
CLEANING = ("unlink", "unlinkat", "rmdir")


def prepare(folder: Path) -> list[tuple[Scenario, Point, str]]:
    """Return all system calls of all scenarios that change the folder, with each error."""
    faults = []
    for number, scenario in enumerate(prepare_scenarios(folder)):
        points = find_points(scenario, scenario.copy(folder / f"traced {number}"))
        writes = [point for point in points if point.name not in CLEANING]
        faults += [(scenario, point, error) for error in ERRORS for point in writes]
    return faults


def run(case: Case) -> None:
    """Let one system call fail."""
    scenario, point, error = case.state[case.number]
    folder = scenario.copy(case.folder / "data")
    done, hit = inject(scenario, folder, point, f"error={error}")
    if not hit:
        case.saw("missed")
        return
    case.units += 1
    about = f"{scenario.name} with {error} at {point}"
    content, said = scenario.content(folder), done.said
    case.saw(f"{error} {content if content in ('old', 'new') else 'lost or damaged'}")
    if content not in ("old", "new") or scenario.lost(folder):
        case.wrong(f"{about}: {content}, lost {scenario.lost(folder)}")
    if set(scenario.leftovers(folder)):
        case.wrong(f"{about}: left {scenario.leftovers(folder)}")
    if done.code == 0 and content == "new" and not said:
        case.saw(f"done without {point.name}")
        return
    if scenario.arguments:
        clear = done.code == 2 and said.startswith("error: ") and said.count("\n") == 1
    else:  # a Python program must end with an exception of linrank
        last = said.strip().rsplit("\n", 1)[-1]
        clear = done.code == 1 and last.startswith("linrank.errors.DataError: ")
    if not clear or content != "old":
        case.wrong(f"{about}: {content}, exit code {done.code}: {said[-1000:]}")


CAMPAIGN = Campaign(
    "faults", "failing writes", None, 2.0, run, prepare, size=len, missing=strace_missing
)
