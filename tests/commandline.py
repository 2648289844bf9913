"""Running the command line in tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linrank.cli.app import app

PATIENCE = 600.0  # seconds after which something counts as hung, also on a busy machine

PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
from linrank.__main__ import main
main()
"""


def write_text(path: Path, data) -> None:
    """Write LETOR text, without the library's own writer."""
    lines = (
        f"{y:g} qid:{q} " + " ".join(f"{f}:{v!r}" for f, v in enumerate(row.tolist(), 1))
        for y, q, row in zip(data.y, data.qid, data.X, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")


def run(*arguments, code: int | None = 0):
    """Run a command in this process; None allows that a model has not converged."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in ((0, 1) if code is None else (code,)), result.output
    return result


def run_json(*arguments, code: int = 0):
    """Run a command with --json; nothing else may be on stdout, and no NaN."""
    return json.loads(run(*arguments, "--json", code=code).stdout, parse_constant=pytest.fail)


def error_of(*arguments) -> str:
    """Run a command that must fail with one line on stderr and nothing on stdout."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr[len("error: ") :].strip()


class Command(subprocess.Popen):
    """A process that ends with a ``with`` block in which a test fails."""

    def __exit__(self, kind, *error):
        if kind is not None:
            self.kill()
        return super().__exit__(kind, *error)


def start(*arguments, **options) -> Command:
    """Start a command in a process of its own."""
    return Command([sys.executable, "-c", PROGRAM, *map(str, arguments)], text=True, **options)


def wait_for(event: Callable[[], object]) -> None:
    """Wait until something has happened; a test fails if it takes longer than `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not event():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_until(terminal: int, pattern: str) -> str:
    """What a program writes to its terminal, until a pattern appears."""
    deadline, text = time.monotonic() + PATIENCE, ""
    while not re.search(pattern, text):
        assert time.monotonic() < deadline, text
        text += os.read(terminal, 4096).decode()
    return text
