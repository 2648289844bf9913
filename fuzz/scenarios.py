"""Commands that replace a file or a store, and what may be under its name afterwards."""

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

SECONDS = 120  #: that a command may take
_MODULE, _FUNCTION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
    "linrank"
].split(":")
#: What the installed command ``linrank`` runs.
COMMAND = f"import sys; from {_MODULE} import {_FUNCTION}; sys.exit({_FUNCTION}())"


def _weights(path: Path) -> bytes:
    return LinearModel.load(path).coef.tobytes()


def _store(path: Path) -> tuple[bytes, ...]:
    data = open_store(path, mmap=False)
    return data.X.tobytes(), data.y.tobytes(), data.query_ptr.tobytes()


@dataclass
class Scenario:
    """A program that replaces `target`; `read` gives the content that counts."""

    name: str
    arguments: list[str]
    target: str
    read: Callable[[Path], Any]
    program: str = COMMAND
    folder: Path = Path()  #: what is there before
    old: Any = None
    new: Any = None
    names: frozenset[str] = frozenset()  #: in the folder after a run that nothing disturbs
    seconds: float = 0.0  #: that such a run takes

    def command(self) -> list[str]:
        """The command, to be started in a copy of the folder."""
        return [sys.executable, "-c", self.program, *self.arguments]

    def copy(self, to: Path) -> Path:
        """A copy of the folder as it is before."""
        return Path(shutil.copytree(self.folder, to, symlinks=True))

    def content(self, folder: Path) -> Any:
        """What is under the name: "old", "new", or a sentence."""
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
        """Names in the folder that a run that nothing disturbs does not leave."""
        return sorted(set(os.listdir(folder)) - self.names)

    def lost(self, folder: Path) -> list[str]:
        """Names that are gone from the folder."""
        return sorted(set(os.listdir(self.folder)) - set(os.listdir(folder)))


def make_scenarios() -> list[Scenario]:
    """Train, convert, predict, and saving by Python."""
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
    """What is in the folder before: inputs, and an older version of every output."""
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
    """Run every scenario undisturbed to learn what it leaves.

    The first run is in this process: it loads all modules and kernels, so that a forked child
    needs milliseconds for what a new process needs a second for. There is one thread, as a fork
    takes no others along.
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
    """How a process ended: its exit code, or −1 times a signal, and what it wrote to stderr."""

    code: int
    said: str


class Child(NamedTuple):
    """A process that was forked from this one and waits for a byte before it begins."""

    pid: int
    go: socket.socket
    said: Path

    def begin(self) -> None:
        """Let it run."""
        self.go.send(b"!")
        self.go.close()

    def wait(self, begin: bool = True) -> Done:
        """Let it run to its end."""
        if begin:
            self.begin()
        status = os.waitpid(self.pid, 0)[1]
        return Done(os.waitstatus_to_exitcode(status), self.said.read_text(errors="replace"))


def execute(scenario: Scenario) -> int:
    """Run the program of a scenario in this process and folder; returns the exit code."""
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
    """A child process that will run the program of a scenario in a folder."""
    assert threading.active_count() == 1, "a fork takes one thread along"
    said = folder.with_name(f"{folder.name}.stderr")
    said.touch()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        ours.recv(1)  # it has set itself up
        return Child(pid, ours, said)
    code = 1
    try:
        ours.close()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(said, os.O_WRONLY), 2)
        theirs.send(b"!")
        theirs.recv(1)
        os.getppid()  # a mark: a trace that has it has all that follows
        code = execute(scenario)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


# strace


def strace_missing() -> str | None:
    """A sentence if strace is not there or not allowed to trace."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian: apt-get install strace)"
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True)
    return f"strace cannot trace here: {tried.stderr.strip()}" if tried.returncode else None
