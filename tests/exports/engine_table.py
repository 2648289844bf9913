"""Write the table of ``docs/guide/engines.md`` from the records of ``make test-exports``.

Usage: ``python tests/exports/engine_table.py RECORDS PAGE``. The table is below the line of dashes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HEAD = "| engine | what was scored | documents | largest difference | stated precision |\n"


def table(lines: list[str]) -> str:
    """Return one row for each engine and kind of models."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    for by, *numbers in map(json.loads, lines):
        found.setdefault(by, []).append(tuple(numbers))
    text = HEAD + "|---|---|---|---|---|\n"
    for by, rows in sorted(found.items()):
        engine, _, what = by.partition(": ")
        documents, differences, precisions = zip(*rows, strict=True)
        text += (
            f"| {engine} | {what} | {sum(documents):,} | {max(differences):.0e} | "
            f"{max(precisions):g} |\n"
        )
    return text


if __name__ == "__main__":
    records, page = map(Path, sys.argv[1:])
    above = page.read_text().split(HEAD)[0]
    page.write_text(above + table(records.read_text().splitlines()))
