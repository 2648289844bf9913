"""Run the campaigns: ``make fuzz [MINUTES=M] [SEED=S] [ONLY=NAME] [CASE=K]``.

``python -m fuzz --help`` lists the same options. The exit code is 0 if no defect was found, 1 if a
defect was found, 130 after SIGINT and 143 after SIGTERM. Each defect is printed with the command
that repeats it.

Temporary files are in one folder, which is removed at the end. If a run is killed, the next run
removes its folder.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from linrank._util.files import temporary_folder

from . import ROOT
from .campaign import Campaign
from .campaigns import CAMPAIGNS

HOUR = 60.0  #: minutes of a whole run, to which `Campaign.minutes` refers
MAX_LENGTH = 2000  #: characters of a finding that are printed; the rest is cut
MAX_FINDINGS = 50  #: cases with findings, after which a campaign ends

_signals: list[int] = []  #: received SIGINT and SIGTERM; the first one ends all campaigns


@dataclass
class Tally:
    """Counts and findings of a campaign."""

    campaign: Campaign
    seed: int
    deadline: float
    cases: int = 0
    units: int = 0
    seconds: float = 0.0
    findings: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    skipped: str | None = None
    exhausted: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def done(self) -> bool:
        """Whether the campaign ends: goal reached, time over, many findings, or a signal."""
        goal, ended = self.campaign.goal, bool(_signals) or time.monotonic() > self.deadline
        return ended or self.findings >= MAX_FINDINGS or (goal is not None and self.units >= goal)

    def add(self, case: int, units: int, wrong: list[str], seen: dict[str, int]) -> None:
        """Count a case and print its findings."""
        with self.lock:
            self.cases += 1
            self.units += units
            self.seen.update(seen)
            self.findings += bool(wrong)
            for sentence in wrong:
                repeat = f"make fuzz ONLY={self.campaign.name} SEED={self.seed} CASE={case}"
                print(f"WRONG  {sentence[:MAX_LENGTH]}\n       repeat: {repeat}\n", flush=True)

    def line(self) -> str:
        """Return the line of the campaign in the summary."""
        goal, name = self.campaign.goal, self.campaign.name
        if self.skipped:
            return f"{name:<12} not run: {self.skipped}"
        whole = self.exhausted or (goal is not None and self.units >= goal)
        note = "" if whole else "  (ended early)"
        seen = ", ".join(f"{what} {n:,}" for what, n in sorted(self.seen.items()))
        return (
            f"{name:<12} {self.units:>10,} {self.campaign.unit:<18} {self.cases:>6,} cases "
            f"{self.seconds:>6.0f} s  {self.findings:>3} wrong{note}"
            + (f"\n{'':<12} {seen}" if seen else "")
        )


class Worker:
    """A worker process of `fuzz.worker`, and the case that it is running."""

    def __init__(self, tally: Tally, folder: Path, first: int, step: int) -> None:
        command = [sys.executable, "-m", "fuzz.worker", tally.campaign.name]
        self.process = subprocess.Popen(
            [*command, str(tally.seed), str(first), str(step)],
            cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)},
            stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
        )  # fmt: skip
        self.tally, self.trying, self.buffer = tally, first, b""

    def listen(self) -> str | None:
        """Read the lines of the process until the campaign ends.

        Returns None, or a text that says how the process failed if it dies or hangs.
        """
        patience = time.monotonic() + self.tally.campaign.patience
        while not self.tally.done:
            if time.monotonic() > patience:
                return f"no answer for {self.tally.campaign.patience:.0f} s"
            if not select.select([self.process.stdout], [], [], 1.0)[0]:
                continue
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                return f"the process died with exit code {self.process.wait()}"
            *lines, self.buffer = (self.buffer + piece).split(b"\n")
            patience = time.monotonic() + self.tally.campaign.patience
            for line in lines:
                content = json.loads(line)
                if "end" in content:
                    self.tally.exhausted = True
                    return None
                if "begins" in content:
                    self.trying = content["begins"]
                else:
                    self.tally.add(**content)
        return None

    def stop(self) -> None:
        """Kill the process and all processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def keep_trying(tally: Tally, folder: Path, first: int, step: int) -> None:
    """Run the cases first, first + step, … in a process, and start a new one if it dies."""
    while not tally.done:
        worker = Worker(tally, folder, first, step)
        try:
            ended = worker.listen()
        finally:
            worker.stop()
        if ended is None:
            return
        tally.add(worker.trying, 1, [f"case {worker.trying}: {ended}"], {})
        if not step:
            return
        first = worker.trying + step


def run_campaign(campaign: Campaign, options: argparse.Namespace, folder: Path) -> Tally:
    """Run one campaign in `options.jobs` processes, whose temporary files are in `folder`."""
    seconds = 60 * options.minutes * campaign.minutes / HOUR
    if len(options.only or CAMPAIGNS) == 1:
        seconds = 60 * options.minutes
    tally = Tally(campaign, options.seed, time.monotonic() + seconds)
    tally.skipped = None if campaign.missing is None else campaign.missing()
    if tally.skipped:
        return tally
    print(f"{campaign.name}: at most {seconds / 60:.1f} minutes, seed {options.seed}", flush=True)
    started, jobs = time.monotonic(), 1 if options.case is not None else options.jobs
    threads = [
        threading.Thread(
            target=keep_trying,
            args=(tally, folder, *((k, jobs) if options.case is None else (options.case, 0))),
        )
        for k in range(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.seconds = time.monotonic() - started
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=HOUR, help="time of the whole run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", nargs="+", choices=CAMPAIGNS, metavar="NAME", help="campaigns to run"
    )
    parser.add_argument("--case", type=int, help="repeat one case of the campaign given by --only")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    if options.case is not None and len(options.only or []) != 1:
        parser.error("--case needs --only with one name")
    chosen = [CAMPAIGNS[name] for name in options.only or CAMPAIGNS]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda signum, frame: _signals.append(signum))
    with temporary_folder(Path(tempfile.gettempdir()), 0o700) as folder:
        tallies = [run_campaign(c, options, folder) for c in chosen if not _signals]
    print(f"\nseed {options.seed}")
    for tally in tallies:
        print(tally.line())
    if _signals:
        sys.exit(128 + _signals[0])
    sys.exit(any(tally.findings for tally in tallies))


if __name__ == "__main__":
    main()
