"""Every kernel compiles for every generation of cards, within bounds, without a card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CAPABILITIES = ["7.5", "8.0", "9.0", "10.0"]
REGISTERS = 168  #: three blocks of 128 threads share the 65,536 of a multiprocessor
RESERVED = 1024  #: bytes of shared memory that newer cards keep for themselves, in every block


def run(script, *arguments, simulated, capability="8.0", text="", more=()):
    """Run a script of this folder in a process of its own."""
    path = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "NUMBA_ENABLE_CUDASIM": str(int(simulated)),
        "NUMBA_FORCE_CUDA_CC": capability,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        **dict(more),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / script), *arguments], env=environment,
        input=text, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def signatures():
    return run("record.py", simulated=True)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile_within_bounds(signatures, capability, record_property):
    lines = run("compile.py", capability, simulated=False, capability=capability, text=signatures)
    rows = [json.loads(line) for line in lines.splitlines()]
    assert {row["kernel"] for row in rows} == set(json.loads(signatures))
    for row in rows:
        counts = ", ".join(f"{row[key]:6d} {key}" for key in ("registers", "spilled", "shared"))
        record_property("summary", f"{capability:>4}  {row['kernel']:32} {counts}")
    for row in rows:
        assert 0 < row["registers"] <= REGISTERS, row
        assert row["spilled"] == row["stack"] == 0, row
        assert row["shared"] <= row["room"] + RESERVED, row
    assert any(row["shared"] > 0 for row in rows)


def test_the_engine_works_where_the_host_compiles_nothing(signatures):
    """NUMBA_DISABLE_JIT=1 is for debuggers: it leaves Python functions on the host."""
    plain = run("record.py", simulated=True, more={"NUMBA_DISABLE_JIT": "1"})
    assert json.loads(plain) == json.loads(signatures)
