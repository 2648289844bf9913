"""Tables and figures of papers, published and measured side by side.

``python -m benchmarks.papers PAPER …`` runs some papers. Each gets a page, a file with its numbers
and its plots in docs/papers/results, or in the folder of ``--out``.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.tools import parse_arguments, record_sections

from . import chapelle2010, jin2014, laporte2014, lee2014, stevens2013

PAPERS = {
    "chapelle2010": chapelle2010,
    "lee2014": lee2014,
    "stevens2013": stevens2013,
    "laporte2014": laporte2014,
    "jin2014": jin2014,
}
PAGES = Path(__file__).parents[2] / "docs" / "papers" / "results"


def main() -> None:
    """Write the pages of the papers that the command line names, or of all."""
    names, options = parse_arguments(__doc__ or "", "paper", PAPERS, PAGES)
    for name in names:
        paper = PAPERS[name]
        started = time.perf_counter()
        heading = f"# {paper.TITLE}\n\n{paper.ABOUT}"
        record_sections(list(paper.SECTIONS), name, paper.SECTIONS, options, heading=heading)
        print(f"{name}: {time.perf_counter() - started:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
