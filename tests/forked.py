"""Short Python programs, each in a process of its own that has numba imported already.

Importing numba takes longer than what such a program tests, so one process does it and is forked.
It writes no bytecode (-B), because Python would miss two edits of a file within one second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SERVER = """
import json, os, sys, traceback
import numba

def run(request):
    os.environ.clear()
    os.environ.update(request["environment"])
    numba.config.reload_config()
    sys.argv[1:] = request["arguments"]
    sys.path.insert(0, os.environ["PYTHONPATH"])
    try:
        exec(compile(request["code"], "program", "exec"), {"__name__": "__main__"})
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()

numba.njit(lambda x: x)(1)  # what every first compilation sets up
for line in sys.stdin:
    pipes = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for number, (_, end) in enumerate(pipes, 1):
            os.dup2(end, number)
        os._exit(run(json.loads(line)))
    os.waitpid(child, 0)
    answer = []
    for start, end in pipes:
        os.close(end)
        with open(start, newline="") as file:
            answer.append(file.read())
    print(json.dumps(answer), flush=True)
"""


class Forked:
    """Runs programs; what they print is short enough for a pipe to hold."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, code: str, *arguments: str, **environment: str) -> tuple[str, str]:
        """Run a program with ``PYTHONPATH`` in front; return its output and its errors."""
        request = {"code": code, "arguments": arguments, "environment": os.environ | environment}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        out, errors = json.loads(self._process.stdout.readline())
        return out, errors


@contextmanager
def forked() -> Iterator[Forked]:
    """A process to be forked, for a ``with`` block."""
    with subprocess.Popen(
        [sys.executable, "-B", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Forked(process)
        process.stdin.close()
