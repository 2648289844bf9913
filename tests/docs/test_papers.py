"""The tables of docs/papers name what exists, and the pages of results are those of one run."""

from __future__ import annotations

import json
import re
import subprocess
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import benchmarks.papers.__main__ as papers
import pytest

from benchmarks import tools
from linrank import choices as counting
from linrank.choices import ENGINES
from linrank.losses.registry import LOSSES
from linrank.penalties import PENALTIES
from linrank.solvers import SOLVER_CHOICES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "papers" / "results"
PAPERS = ("chapelle2010", "lee2014", "stevens2013", "laporte2014", "jin2014")
COLUMNS = ["item", "section", "name here", "verdict", "test"]
VERDICTS = ("as written", "differs: ", "not available: ")
#: Values of settings, by the name of the setting.
CHOICES = {
    "solver": SOLVER_CHOICES,
    "counting": counting.COUNTINGS,
    "pairs": counting.PAIRS,
    "rescale": counting.RESCALES,
    "delta": counting.DELTAS,
    "normalize": counting.NORMALIZATIONS,
    "engine": ENGINES,
    "loss": tuple(LOSSES),
    "penalty": tuple(PENALTIES),
}
SOURCES = "\n".join(
    path.read_text() for room in ("src", "benchmarks") for path in (ROOT / room).rglob("*.py")
)


def items(paper):
    """Return the rows of the table of items of a page."""
    text = (ROOT / "docs" / "papers" / f"{paper}.md").read_text()
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    start = rows.index(COLUMNS) + 2
    return [row for row in rows[start:] if len(row) == len(COLUMNS)]


ITEMS = [
    pytest.param(row, id=f"{paper} {row[0]}")
    for paper in PAPERS
    for row in items(paper)
]  # fmt: skip


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_lists_the_items_of_its_paper(paper):
    assert len(items(paper)) >= 8


@pytest.mark.parametrize("row", ITEMS)
def test_an_item_has_a_verdict(row):
    assert all(row)
    assert row[3].lower().startswith(VERDICTS)


@pytest.mark.parametrize("row", ITEMS)
def test_the_names_of_an_item_exist(row):
    for code in re.findall(r"`([^`]+)`", row[2]):
        for key, value in re.findall(r'(\w+)="([^"]*)"', code):
            assert value in CHOICES.get(key, (value,)), f"{key}={value!r} is not known"
        for name in re.findall(r"[A-Za-z_]\w{2,}", re.sub(r'"[^"]*"', "", code)):
            assert re.search(rf"\b{name}\b", SOURCES), f"{name} is not in the sources"


@pytest.mark.parametrize("row", ITEMS)
def test_the_tests_of_an_item_exist(row):
    if row[3].lower().startswith("not available"):
        return
    places = re.findall(r"`([\w/]+\.py)::(\w+)`", row[4])
    assert places
    for file, name in places:
        assert re.search(rf"^\s*def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


# The pages of results ---------------------------------------------------------------------------


def test_the_pages_of_results_are_those_of_one_revision():
    """`make papers` makes them so. A page of a tree with uncommitted changes cannot be repeated."""
    kept = [json.loads((RESULTS / f"{paper}.json").read_text()) for paper in PAPERS]
    (found,) = {section.get("revision", "unknown") for page in kept for section in page.values()}
    assert re.search(r"[0-9a-f]{7}$", found), found


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit of two files."""
    for name in ("code.py", "pages/page.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("one\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_run_does_not_make_its_own_revision_dirty(repository):
    clean = tools.revision(repository, besides="pages")
    (repository / "pages" / "page.md").write_text("two\n")
    assert tools.revision(repository, besides="pages") == clean
    assert tools.revision(repository) == f"{clean}-dirty"
    (repository / "code.py").write_text("two\n")
    assert tools.revision(repository, besides="pages") == f"{clean}-dirty"


@pytest.fixture
def run_papers(tmp_path, monkeypatch):
    """Return a function that runs `benchmarks.papers` at a revision, and returns what has run."""
    ran = []

    def section(options, name):
        ran.append(name)
        return tools.Section(name, name, "about", ["column"])

    sections = {name: partial(section, name=name) for name in ("one", "two", "three")}
    paper = SimpleNamespace(TITLE="Paper", ABOUT="About.", SECTIONS=sections)
    monkeypatch.setattr(papers, "PAPERS", {"paper": paper})
    monkeypatch.setattr(papers, "ROOT", tmp_path)
    monkeypatch.setattr(papers, "PAGES", tmp_path / "pages")
    monkeypatch.setattr("sys.argv", ["papers"])

    def run(revision, interrupted_at=None):
        ran.clear()
        monkeypatch.setattr(papers, "revision", lambda root, besides: revision)
        monkeypatch.setattr(tools, "machine", partial(stop_at, ran, interrupted_at))
        papers.main()
        return list(ran)

    return run


def stop_at(ran, name, threads, of):
    """Stand for `tools.machine`, which is called at the end of each section."""
    if name in ran:
        raise KeyboardInterrupt
    return f"a machine ({of})"


def test_a_run_that_was_ended_continues_where_it_was(run_papers, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_papers("abc", interrupted_at="two")
    assert list(tools.read_kept(tmp_path / "pages" / "paper")) == ["one"]
    assert run_papers("abc") == ["two", "three"]
    assert run_papers("abc") == []
    assert "| all | 3 | abc |" in (tmp_path / "pages" / "run.md").read_text()
    assert run_papers("def") == ["one", "two", "three"]
    assert "| all | 3 | def |" in (tmp_path / "pages" / "run.md").read_text()


def test_a_tree_with_changes_gets_a_sentence(run_papers, tmp_path, monkeypatch):
    with pytest.raises(SystemExit, match="uncommitted changes"):
        run_papers("abc-dirty")
    monkeypatch.setattr("sys.argv", ["papers", "--out", str(tmp_path / "other")])
    for _ in range(2):  # nothing is left out, because the changes are not known
        assert run_papers("abc-dirty") == ["one", "two", "three"]
    assert not (tmp_path / "pages").exists()
