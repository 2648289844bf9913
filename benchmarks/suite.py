"""All measurements of the README in one run: ``make bench``.

``python -m benchmarks.suite SECTION …`` runs some sections, and ``--quick`` runs them on small
data. Tables, numbers and plots are written to benchmarks/results.
"""

from __future__ import annotations

from . import (
    additive_speed,
    choices,
    comparison,
    defaults,
    larger_than_memory,
    peers,
    scaling,
    single_machine,
    starting,
    stops,
    usage,
)
from .tools import run_sections

SECTIONS = {
    **single_machine.SECTIONS,
    "defaults": defaults.bench_defaults,
    "start": starting.bench_start,
    "scaling": scaling.bench_scaling,
    "choices": choices.bench_choices,
    **comparison.SECTIONS,
    "peers": stops.bench_stops,
    "targets": peers.bench_peers,
    **usage.SECTIONS,
    "additive": additive_speed.bench_additive,
    "larger": larger_than_memory.bench_larger,
}

if __name__ == "__main__":
    run_sections(__doc__, "suite", SECTIONS)
