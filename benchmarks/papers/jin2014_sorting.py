"""The sorting comparison of Jin & Lin 2014 with counted operations, on a simulated card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tools import Options, Section

ROOT = Path(__file__).parents[2]
#: Longest queries of MQ2008, MQ2007, MSLR-WEB10K and MSLR-WEB30K (table 1, l_L).
LENGTHS = (121, 147, 809, 1_251)
MINSIZES = (64, 512)  #: 64 is that of the paper; up to 512 numbers are sorted without a partition


def section_sorting(options: Options) -> Section:
    """Count the comparisons and rounds of GPU-quicksorting and of linrank's sort."""
    section = Section(
        "sorting",
        "Algorithm 3: sorting one query on a card",
        "The paper calls its GPU-quicksorting efficient, and has no table for it. There is no card "
        "here, so operations are counted in numba's simulator, with blocks of 128 threads, and no "
        "seconds are measured. A round is a barrier at which the threads of a block wait for each "
        "other, or a launch after the first. Lengths are those of the longest queries of table 1. "
        "Equal values occur at w = 0, where every fit starts",
        ["numbers", "values", "algorithm", "comparisons", "per n·log2 n", "rounds", "divisions"],
    )
    python = simulating_python()
    if python is None:
        section.notes.append(
            "numba-cuda is not installed, so nothing was counted. `make papers` installs it in "
            ".venv-cuda, as does `make test-cuda`."
        )
        return section
    lengths = LENGTHS[:1] if options.quick else LENGTHS
    rows = _count(python, {"lengths": lengths, "minsizes": MINSIZES})
    for row in rows:
        _add(section, row)
    for kind in ("random", "equal"):
        ours, theirs = (
            _rounds(rows, kind, name) for name in ("linrank's sort", "GPU-quicksorting, minsize 64")
        )
        section.aim(
            f"linrank's sort needs at most half of the rounds of GPU-quicksorting ({kind} values)",
            f"{max(a / b for a, b in zip(ours, theirs, strict=True)):.2f} of them",
            all(2 * a <= b for a, b in zip(ours, theirs, strict=True)),
        )
    return section


def simulating_python() -> str | None:
    """Return a Python with numba-cuda: this one, or that of ``make test-cuda``; None without."""
    if find_spec("numba_cuda") is not None:
        return sys.executable
    found = ROOT / ".venv-cuda" / "bin" / "python"
    return str(found) if found.exists() else None


def _count(python: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    places = [ROOT / "src", ROOT / "tests", ROOT]
    environment = os.environ | {
        "NUMBA_ENABLE_CUDASIM": "1",
        "PYTHONPATH": os.pathsep.join(str(place) for place in places),
    }
    done = subprocess.run(
        [python, "-W", "ignore", str(Path(__file__).with_name("jin2014_simulated.py"))],
        input=json.dumps(asked), env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"the simulated card failed:\n{done.stderr}")
    return json.loads(done.stdout)


def _add(section: Section, row: dict[str, Any]) -> None:
    n = row["n"]
    comparisons = row.get("comparisons")
    section.add(
        f"{n:,}", row["values"], row["name"],
        "—" if comparisons is None else f"{comparisons:,}",
        "—" if comparisons is None else f"{comparisons / (n * np.log2(n)):.1f}",
        f"{row['rounds']:,}" if "rounds" in row else "—",
        f"{row['divisions']:,}" if "divisions" in row else "—", **row,
    )  # fmt: skip


def _rounds(rows: list[dict[str, Any]], kind: str, name: str) -> list[float]:
    return [row["rounds"] for row in rows if row["values"] == kind and row["name"] == name]
