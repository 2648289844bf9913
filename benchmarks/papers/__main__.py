"""Tables and figures of papers, published and measured side by side.

``python -m benchmarks.papers PAPER …`` runs some papers. Each gets a page, a file with its numbers
and its plots in docs/papers/results, or in the folder of ``--out``. The page ``run.md`` has the
revision and the time of all of them.

Pages in docs/papers/results are those of a revision, so the tree must have no other changes. A run
that was ended continues where it was: sections that the same revision has recorded are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.tools import Options, parse_arguments, read_kept, record_sections, revision

from . import chapelle2010, jin2014, laporte2014, lee2014, stevens2013

PAPERS = {
    "chapelle2010": chapelle2010,
    "lee2014": lee2014,
    "stevens2013": stevens2013,
    "laporte2014": laporte2014,
    "jin2014": jin2014,
}
ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "papers" / "results"


def main() -> None:
    """Write the pages of the papers that the command line names, or of all."""
    names, options = parse_arguments(__doc__ or "", "paper", PAPERS, PAGES)
    of = revision(ROOT, besides=str(PAGES.relative_to(ROOT)))
    if of.endswith("-dirty") and options.out.resolve() == PAGES:
        sys.exit(
            "The tree has uncommitted changes, so the pages would be those of no revision. Commit "
            "the changes, or choose another folder with --out."
        )
    for name in names:
        paper = PAPERS[name]
        heading = f"# {paper.TITLE}\n\n{paper.ABOUT}"
        left = sections_left(name, options, of)
        record_sections(left, name, paper.SECTIONS, options, heading=heading, of=of)
    text = summary(options.out)
    (options.out / "run.md").write_text(text)
    print(text)


def sections_left(name: str, options: Options, of: str) -> list[str]:
    """Return the sections of a paper that this revision has not recorded yet."""
    kept = {} if options.quick or of.endswith("-dirty") else read_kept(options.out / name)
    return [one for one in PAPERS[name].SECTIONS if kept.get(one, {}).get("revision") != of]


def summary(folder: Path) -> str:
    """Return a page with the revisions and the times of the pages in a folder."""
    rows = [(name, list(read_kept(folder / name).values())) for name in PAPERS]
    rows.append(("all", [one for _, sections in rows for one in sections]))
    lines = ["# The run that made these pages", "", "| paper | sections | revision | minutes |"]
    lines += ["| --- | --- | --- | --- |"]
    for name, sections in rows:
        revisions = sorted({one.get("revision", "unknown") for one in sections})
        minutes = sum(one.get("seconds", 0.0) for one in sections) / 60
        lines.append(f"| {name} | {len(sections)} | {', '.join(revisions)} | {minutes:.1f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
