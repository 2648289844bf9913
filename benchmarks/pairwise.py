"""Pairs, counted and compared: ``make bench-pairwise``, or ``python -m benchmarks.pairwise``.

Sections: ``counting`` (every way to sum over pairs, in TRON), ``levels`` (a Hessian product
where all labels differ), ``hinge`` (against cutting planes and dlib), ``survival`` (against
scikit-survival) and ``auc`` (one query of up to a million sparse rows). Each prints a Markdown
table, and its numbers and plots are kept beside those of the sections run before.
"""

from __future__ import annotations

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from linrank._threads import resolve_threads

from .foundation import RESULTS, machine
from .pairwise_auc import bench_auc
from .pairwise_counting import bench_counting, bench_levels
from .pairwise_hinge import bench_hinge
from .pairwise_survival import bench_survival
from .pairwise_tools import Options, Section, markdown

SECTIONS = {
    "counting": bench_counting,
    "levels": bench_levels,
    "hinge": bench_hinge,
    "survival": bench_survival,
    "auc": bench_auc,
}
RIVALS = {"hinge": "dlib-bin", "survival": "scikit-survival"}


def describe(name: str, threads: int) -> str:
    """The machine and the versions that a section is about."""
    rival = RIVALS.get(name)
    return machine(threads) + ("" if rival is None else f", {rival} {version(rival)}")


def keep(section: Section, out: Path) -> None:
    """Put a section's numbers beside those of the others, and write all tables anew."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "pairwise.json"
    sections: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    sections[section.name] = section.as_dict()
    plain = json.dumps(sections, indent=1, allow_nan=False, default=lambda value: value.item())
    file.write_text(plain)
    texts = [markdown(sections[name]) for name in SECTIONS if name in sections]
    (out / "pairwise.md").write_text("\n".join(texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="tiny data, to try the program")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: benchmarks/results")
    parser.add_argument("--threads", type=int, default=resolve_threads())
    arguments = parser.parse_args()
    for name in arguments.sections:
        if name not in SECTIONS:
            parser.error(f"section is {name!r}; known sections are {', '.join(SECTIONS)}")
    out = arguments.out or (RESULTS / "quick" if arguments.quick else RESULTS)
    options = Options(arguments.threads, arguments.quick, out)
    for name in arguments.sections or SECTIONS:
        print(f"{name} …", flush=True)
        section = SECTIONS[name](options)
        section.machine, section.quick = describe(name, options.threads), options.quick
        keep(section, out)
        print("\n" + markdown(section.as_dict()), flush=True)


if __name__ == "__main__":
    main()
