"""Configure the CUDA simulator with small blocks, so that small data have many blocks and tiles."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

import cuda_simulator
from linrank.engines.cuda import device

device.WARP, device.THREADS, device.GROUP, device.BLOCKS, device.MINSIZE = 2, 4, 16, 3, 4
device.SHARED_BYTES = 1000

collect_ignore = ["compile.py", "record.py"]  # they are run in processes of their own


@pytest.fixture(scope="session", autouse=True)
def _quick_simulator():
    cuda_simulator.install()


@pytest.fixture
def backwards():
    """Return a context manager in which the last block of a launch runs first."""

    @contextmanager
    def turned():
        cuda_simulator.run_block.backwards = True
        try:
            yield
        finally:
            cuda_simulator.run_block.backwards = False

    return turned


def pytest_terminal_summary(terminalreporter):
    """Print the registers and bytes that the tests recorded for each kernel."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    lines = [text for r in reports for name, text in r.user_properties if name == "summary"]
    if lines:
        terminalreporter.section("kernels by compute capability: bytes but for registers")
        for line in sorted(lines):
            terminalreporter.write_line(line)
