"""Pair sums and pairwise solvers: ``make bench-pairwise`` or ``python -m benchmarks.pairwise``.

Sections: ``counting`` (all counting methods, in TRON), ``levels`` (a Hessian-vector product with
distinct labels), ``hinge`` (comparison with cutting planes and dlib), ``survival`` (comparison with
scikit-survival) and ``auc`` (one query of up to a million sparse rows). Each section prints a
Markdown table. Its numbers and plots are stored with those of the sections of earlier runs.
"""

from __future__ import annotations

from .pairwise_auc import bench_auc
from .pairwise_counting import bench_counting, bench_levels
from .pairwise_hinge import bench_hinge
from .pairwise_survival import bench_survival
from .tools import run_sections

SECTIONS = {
    "counting": bench_counting,
    "levels": bench_levels,
    "hinge": bench_hinge,
    "survival": bench_survival,
    "auc": bench_auc,
}
RIVALS = {"hinge": "dlib-bin", "survival": "scikit-survival"}


if __name__ == "__main__":
    run_sections(__doc__, "pairwise", SECTIONS, RIVALS)
