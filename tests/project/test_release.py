"""What a release needs: one version, a changelog in its usual form, and recorded promises."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from benchmarks.figures import FIGURES

import linrank

ROOT = Path(__file__).parents[2]
CATEGORIES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
DIAGRAMS = {"choose"}  # edited by hand; they show nothing that is measured
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def headings(level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.*)$", CHANGELOG, re.MULTILINE)


def test_the_version_is_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/linrank/_version.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", linrank.__version__)


def test_the_citation_has_the_last_release():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    (version,) = re.findall(r"^version: (.*)$", citation, re.MULTILINE)
    (date,) = re.findall(r"^date-released: (.*)$", citation, re.MULTILINE)
    assert f"[{version}] - {date}" in headings(2)
    if ".dev" not in linrank.__version__:
        assert version == linrank.__version__


def test_the_changelog_has_its_usual_form():
    first, *releases = headings(2)
    assert first == "[Unreleased]"
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})", r) for r in releases]
    assert all(found), releases
    numbers = [tuple(map(int, match.groups()[:3])) for match in found]
    assert numbers == sorted(numbers, reverse=True)
    dates = [match[4] for match in found]
    assert dates == sorted(dates, reverse=True)
    assert set(headings(3)) <= CATEGORIES


def test_one_command_writes_each_figure():
    shown = {path.stem for path in (ROOT / "docs" / "figures").glob("*.svg")}
    assert shown - DIAGRAMS == FIGURES.keys()


def test_the_promises_of_the_last_release_are_recorded():
    *_, last = sorted((ROOT / "tests" / "compat").iterdir())
    release = re.findall(r"^## \[(\d[\d.]*)\]", CHANGELOG, re.MULTILINE)[0]
    assert release.startswith(last.name)
