"""The tables of docs/papers name parts, tests and benchmarks that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linrank.counting import names as counting
from linrank.engines.names import ENGINES
from linrank.losses.registry import LOSSES
from linrank.penalties import PENALTIES
from linrank.solvers import SOLVER_CHOICES

ROOT = Path(__file__).parents[1]
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
