"""Tracing of the system calls of a command, and injection of faults, with strace."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .scenarios import Done, Scenario, fork

#: System calls that change files. The "?" before each name in the options of strace lets it ignore
#: names that it does not know.
CHANGING = (
    "write", "writev", "pwrite64", "pwritev", "sendfile", "copy_file_range", "fsync", "fdatasync",
    "sync_file_range", "msync", "ftruncate", "truncate", "fallocate", "rename", "renameat",
    "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "openat", "chmod",
    "fchmod", "fchmodat", "unlink", "unlinkat", "rmdir",
)  # fmt: skip
_CALL = re.compile(r"(\d+) +(\w+)\((.*)")
_CREATES = re.compile(r"O_CREAT|O_TMPFILE|O_TRUNC")


class Point(NamedTuple):
    """The k-th call of a system call in one thread of a command."""

    name: str
    when: int

    def __str__(self) -> str:
        return f"{self.name} number {self.when}"


def trace(
    scenario: Scenario, folder: Path, calls: Iterable[str], *options: str
) -> tuple[Done, list[str]]:
    """Run a command under strace; return its outcome and the logged system calls."""
    log, child = folder.with_name(f"{folder.name}.strace"), fork(scenario, folder)
    names = ",".join(f"?{name}" for name in ("getppid", *calls))
    command = ["strace", "-f", "-y", "-s", "400", "-o", str(log), "-e", f"trace={names}", *options]
    with subprocess.Popen([*command, "-p", str(child.pid)], stderr=subprocess.PIPE) as tracer:
        assert tracer.stderr is not None
        tracer.stderr.readline()  # strace prints a line when it is attached
        done = child.wait()
        tracer.communicate()
    first, *lines = log.read_text(errors="replace").splitlines()
    assert "getppid" in first, "the trace has begun too late"
    return done, lines


def find_points(scenario: Scenario, folder: Path) -> list[Point]:
    """Return the system calls by which a run without faults changes the folder."""
    counts: Counter[tuple[str, str]] = Counter()
    points = []
    for line in trace(scenario, folder, CHANGING)[1]:
        found = _CALL.match(line)
        if found is None:  # the second part of a call that was split by another thread, or an exit
            continue
        thread, name, arguments = found.groups()
        counts[thread, name] += 1
        if _is_inside(name, arguments, folder):
            points.append(Point(name, counts[thread, name]))
    return list(dict.fromkeys(points))


def inject(scenario: Scenario, folder: Path, point: Point, what: str) -> tuple[Done, bool]:
    """Run a command with a fault at a point; return its outcome, and whether the fault was hit."""
    fault = f"inject={point.name}:{what}:when={point.when}"
    done, lines = trace(scenario, folder, [point.name], "-e", fault)
    hits = [_CALL.match(line) for line in lines if "(INJECTED)" in line]
    inside = [hit is not None and _is_inside(hit[2], hit[3], folder) for hit in hits]
    return done, bool(inside) and all(inside)


def _is_inside(name: str, arguments: str, folder: Path) -> bool:
    """Tell whether a system call changes something in the folder."""
    if name == "openat" and not _CREATES.search(arguments):
        return False
    arguments = re.sub(r"AT_FDCWD<[^>]*>", "", arguments)
    relative = "write" not in name and re.search(r'"[^/"][^"]*"', arguments)
    return str(folder) in arguments or bool(relative)
