"""`Loopback`: a Dask scheduler and workers on this machine, started by Dask's commands."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

PATIENCE = 300.0  #: time limit in seconds for the start or end of a process on a busy machine


class Loopback:
    """Context manager of a scheduler on 127.0.0.1 and workers that are started one by one.

    Parameters
    ----------
    folder : Path
        Folder for the address and the log of all processes.

    Attributes
    ----------
    address : str
        Address of the scheduler.
    """

    def __init__(self, folder: Path) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log = folder / "log.txt"
        file = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard",
                    "--dashboard-address", "127.0.0.1:0", "--no-show",
                    "--scheduler-file", file)  # fmt: skip
        self.address = self._wait_for_address(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def start_worker(self, *options: Any, memory_limit: str = "1GB") -> None:
        """Start a worker of one thread; the options are those of ``dask worker``."""
        self._start("worker", self.address, "--nthreads", 1, "--memory-limit", memory_limit,
                    "--no-dashboard", *options)  # fmt: skip

    def log(self) -> str:
        """Return the log of all processes."""
        return self._log.read_text(errors="replace")

    def close(self) -> None:
        """End all processes, the scheduler last."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, *arguments: Any) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "dask", *map(str, arguments)]
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def _wait_for_address(self, file: Path) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                return json.loads(file.read_text())["address"]
            except (OSError, ValueError):  # the file does not exist yet or is incomplete
                time.sleep(0.05)
        self.close()
        raise RuntimeError(f"the scheduler does not start: {self.log()}")
