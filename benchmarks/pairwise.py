"""Pairs, counted and compared: ``make bench-pairwise``, or ``python -m benchmarks.pairwise``.

Sections: ``counting`` (every way to sum over pairs, in TRON), ``levels`` (a Hessian product
where all labels differ), ``hinge`` (against cutting planes and dlib), ``survival`` (against
scikit-survival) and ``auc`` (one query of up to a million sparse rows). Each prints a Markdown
table, and its numbers and plots are kept beside those of the sections run before.
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
