"""The sources of the documentation site are complete; ``make test-docs`` tests the site itself."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PUBLIC = (
    "linrank", "linrank.baselines", "linrank.dask", "linrank.fusion", "linrank.losses",
    "linrank.metrics", "linrank.penalties", "linrank.preferences.diagnosis", "linrank.solvers",
    "linrank.study",
)  # fmt: skip


def documented() -> set[str]:
    """Return the full names that the pages of the API reference list."""
    found = {"linrank.training.Trainer"}
    for page in (DOCS / "api").glob("*.md"):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
                module = match[1]
            elif match := re.fullmatch(r"\.\. py:data:: (\S+)", line):
                found.add(match[1])
            elif match := re.fullmatch(r"   (\w+)", line):
                found.add(f"{module}.{match[1]}")
    return found


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    listed = {id(resolve(name)) for name in documented()}  # some are listed with another module
    names = (f"{module}.{name}" for name in importlib.import_module(module).__all__)
    assert not [name for name in names if id(resolve(name)) not in listed]


def resolve(name: str) -> object:
    module, _, short = name.rpartition(".")
    return getattr(importlib.import_module(module), short)


def test_the_reference_lists_public_names_only():
    allowed = {f"{m}.{name}" for m in PUBLIC for name in importlib.import_module(m).__all__}
    assert documented() <= allowed | {"linrank.training.Trainer"}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_of_the_root_folder_lead_to_files_and_headings(page):
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#([^)\s]+))?\)", page.read_text())
    for file, anchor in links:
        target = ROOT / file
        assert target.exists(), file
        if anchor:
            headings = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, f"{file}#{anchor}"


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
