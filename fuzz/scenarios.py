"""Scenarios: commands that replace a file or a store, run in processes that can be disturbed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import tomllib
import traceback
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linrank import LinearModel, make_ranking, open_store, save_store, write_letor

from . import ROOT

SECONDS = 120  #: time limit of a command
_MODULE, _FUNCTION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
    "linrank"
].split(":")
#: Python code that the installed command ``linrank`` runs.
COMMAND = f"import sys; from {_MODULE} import {_FUNCTION}; sys.exit({_FUNCTION}())"


def _weights(path: Path) -> bytes:
    return LinearModel.load(path).coef.tobytes()


def _store(path: Path) -> tuple[bytes, ...]:
    data = open_store(path, mmap=False)
    return data.X.tobytes(), data.y.tobytes(), data.query_ptr.tobytes()


@dataclass
class Scenario:
    """A program that replaces `target`; `read` returns the content that is compared."""

    name: str
    arguments: list[str]
    target: str
    read: Callable[[Path], Any]
    program: str = COMMAND
    folder: Path = Path()  #: folder with the files before the run
    old: Any = None
    new: Any = None
    names: frozenset[str] = frozenset()  #: names in the folder after a run without faults
    seconds: float = 0.0  #: duration of a run without faults

    def command(self) -> list[str]:
        """Return the command, which is started in a copy of the folder."""
        return [sys.executable, "-c", self.program, *self.arguments]

    def copy(self, to: Path) -> Path:
        """Copy the folder with the files before the run."""
        return Path(shutil.copytree(self.folder, to, symlinks=True))

    def content(self, folder: Path) -> Any:
        """Return the state of the target: "old", "new", or a text that says what is wrong."""
        path = folder / self.target
        if not path.exists():
            return f"{self.target} is lost"
        try:
            found = self.read(path)
        except Exception as error:
            return f"{self.target} is damaged: {error}"
        if found == self.new:
            return "new"
        return "old" if found == self.old else f"{self.target} is neither the old nor the new one"

    def leftovers(self, folder: Path) -> list[str]:
        """Return the names in the folder that are not there after a run without faults."""
        return sorted(set(os.listdir(folder)) - self.names)

    def lost(self, folder: Path) -> list[str]:
        """Return the names that are missing from the folder."""
        return sorted(set(os.listdir(self.folder)) - set(os.listdir(folder)))


def make_scenarios() -> list[Scenario]:
    """Return scenarios for train, convert, predict, and for functions that save."""
    save = "from linrank import LinearModel; LinearModel([3.0] * 2000).save('model.json')"
    store = (
        "from linrank import open_store, save_store; "
        "data = open_store('new.store'); save_store(data, 'data.store')"
    )
    letor = "from linrank import open_store, write_letor; write_letor('out.txt', open_store(%r))"
    return [
        Scenario("train", ["train", "train.txt", "--valid", "test.txt"], "model.json", _weights),
        Scenario("convert", ["convert", "train.txt", "data.store"], "data.store", _store),
        Scenario("convert gz", ["convert", "new.store", "out.gz"], "out.gz", Path.read_bytes),
        Scenario(
            "predict", ["predict", "model.json", "test.txt", "--out", "scores.txt"], "scores.txt",
            Path.read_bytes,
        ),
        Scenario("save", [], "model.json", _weights, save),
        Scenario("save_store", [], "data.store", _store, store),
        Scenario("write_letor", [], "out.txt", Path.read_bytes, letor % "new.store"),
    ]  # fmt: skip


def _fill(folder: Path) -> None:
    """Write the files before a run: the inputs, and an old version of each output."""
    folder.mkdir()
    train = make_ranking(40, (5, 20), 8, n_levels=3, noise=1.0, random_state=0)
    old = make_ranking(30, (5, 20), 8, n_levels=3, noise=1.0, random_state=1)
    write_letor(folder / "train.txt", train)
    write_letor(folder / "test.txt", old)
    save_store(train, folder / "new.store")
    save_store(old, folder / "data.store")
    LinearModel(np.ones(8)).save(folder / "model.json")
    for name in ("out.gz", "out.txt"):
        write_letor(folder / name, old)
    (folder / "scores.txt").write_text("0.5\n")


def prepare(folder: Path) -> list[Scenario]:
    """Run all scenarios without faults, and record their results.

    The first run is in this process and loads all modules and kernels. A forked child process then
    takes milliseconds where a new process takes a second. All runs use one thread, because threads
    do not survive a fork.
    """
    os.environ["LINRANK_THREADS"] = "1"
    scenarios = make_scenarios()
    _fill(folder / "before")
    for number, scenario in enumerate(scenarios):
        scenario.folder = folder / "before"
        for how in ("here", "forked"):
            there = scenario.copy(folder / f"{how} {number}")
            started = time.monotonic()
            if how == "here":
                with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), chdir(there):
                    assert execute(scenario) == 0, scenario.name
            else:
                done = fork(scenario, there).wait()
                assert done.code == 0, done.said
            scenario.seconds = time.monotonic() - started
        scenario.names = frozenset(os.listdir(there))
        scenario.old = scenario.read(scenario.folder / scenario.target)
        scenario.new = scenario.read(there / scenario.target)
        assert scenario.old != scenario.new, scenario.name
        assert scenario.content(there) == "new", scenario.name
    return scenarios


# Processes


class Done(NamedTuple):
    """Outcome of a process: its exit code, or −1 times a signal, and its stderr."""

    code: int
    said: str


class Child(NamedTuple):
    """A forked child process, which waits for a byte before it runs."""

    pid: int
    go: socket.socket
    said: Path

    def begin(self) -> None:
        """Let the process run."""
        self.go.send(b"!")
        self.go.close()

    def wait(self, begin: bool = True) -> Done:
        """Wait for the end of the process."""
        if begin:
            self.begin()
        status = os.waitpid(self.pid, 0)[1]
        return Done(os.waitstatus_to_exitcode(status), self.said.read_text(errors="replace"))


def execute(scenario: Scenario) -> int:
    """Run the program of a scenario in this process and folder; return the exit code."""
    sys.argv = ["linrank", *scenario.arguments]
    try:
        exec(scenario.program, {"__name__": "__main__"})
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def fork(scenario: Scenario, folder: Path) -> Child:
    """Fork a child process that will run the program of a scenario in a folder."""
    assert threading.active_count() == 1, "threads do not survive a fork"
    said = folder.with_name(f"{folder.name}.stderr")
    said.touch()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        ours.recv(1)  # the child process is ready
        return Child(pid, ours, said)
    code = 1
    try:
        ours.close()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(said, os.O_WRONLY), 2)
        theirs.send(b"!")
        theirs.recv(1)
        os.getppid()  # marks the beginning in a trace
        code = execute(scenario)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


# strace


def strace_missing() -> str | None:
    """Return a text if strace is not installed or not allowed to trace."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian: apt-get install strace)"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
    return f"strace cannot trace here: {tried.stderr.strip()}" if tried.returncode else None
