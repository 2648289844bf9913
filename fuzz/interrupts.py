"""Campaign "interrupts": Ctrl-C at random moments.

The command must end without a traceback, and no data may be lost.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from linrank import LinearModel

from .campaign import Campaign, Case
from .scenarios import SECONDS, Scenario
from .scenarios import prepare as prepare_scenarios

QUIET = (0, 1, 130)  #: allowed exit codes: success, not converged, interrupted


def prepare(folder: Path) -> list[Scenario]:
    """Return the scenarios of the command line, with the time of each in a new process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # background processes would ignore SIGINT
    commands = [scenario for scenario in prepare_scenarios(folder) if scenario.arguments]
    for number, scenario in enumerate(commands):
        there, started = scenario.copy(folder / f"timed {number}"), time.monotonic()
        subprocess.run(scenario.command(), cwd=there, check=True, stdout=subprocess.DEVNULL)
        scenario.seconds = time.monotonic() - started
    return commands


def run(case: Case) -> None:
    """Interrupt one command of the command line."""
    scenario = case.state[case.rng.integers(len(case.state))]
    folder = scenario.copy(case.folder / "data")
    delay = float(case.rng.uniform(0.0, scenario.seconds))
    process = subprocess.Popen(
        scenario.command(), cwd=folder, text=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=SECONDS)[1]
    case.units += 1
    about = f"{scenario.name} interrupted after {delay:.3f} s"
    started = "Failed to import the site module" not in said
    if (process.returncode == -signal.SIGINT and not said) or not started:
        case.saw("before linrank starts")  # the operating system or Python has ended the process
    else:
        case.saw(f"exit {process.returncode}")
        if process.returncode not in QUIET or "Traceback" in said or said.count("\n") > 1:
            case.wrong(f"{about}: exit code {process.returncode}: {said[-1500:]}")
    content = scenario.content(folder)
    if content not in ("old", "new") and not _best_so_far(scenario, folder):
        case.wrong(f"{about}: {content}")
    if scenario.leftovers(folder) or scenario.lost(folder):
        case.wrong(f"{about}: left {scenario.leftovers(folder)}, lost {scenario.lost(folder)}")


def _best_so_far(scenario: Scenario, folder: Path) -> bool:
    """Tell whether an interrupted training has saved its best model so far."""
    if scenario.name != "train":
        return False
    return LinearModel.load(folder / scenario.target).training.get("status") == "interrupted"


CAMPAIGN = Campaign("interrupts", "SIGINTs", 100, 3.0, run, prepare)
