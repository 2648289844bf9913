"""Pages in a real browser.

``make test-browser`` installs Playwright and axe-core. The browser is the chromium of the system.
A test is skipped if its program is not there, and fails instead if the environment variable CI is
set.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

import sample_page
from additive_samples import sample_model
from browsing import DESK, absent
from linrank import make_ranking
from linrank.report.page import write_page
from linrank.study import Study

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(sys.prefix, "node_modules", "axe-core", "axe.min.js")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The chromium of the system."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        absent("chromium")
    with sync_playwright() as playwright:
        # The sandbox of chromium does not work for root, as whom containers run.
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=program, args=args)
        yield found
        found.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, which finds barriers for readers with disabilities."""
    if not AXE.exists():
        absent("axe-core")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of a page like those of studies, one with long words, and two reports."""
    folder = tmp_path_factory.mktemp("pages")
    make_report(folder / "report.html")
    sample_model(500)[0].write_report(folder / "model.html")
    made = {"study": sample_page.make_page(), "long words": sample_page.page_of("x" * 500)}
    for name, page in made.items():
        write_page(folder / f"{name}.html", page)
    return {name: (folder / f"{name}.html").as_uri() for name in (*made, "report", "model")}


def make_report(path: Path) -> None:
    """Write the report of a small study, in which one method fails."""
    data = {
        name: make_ranking(n_queries=24, docs_per_query=8, n_features=6, random_state=seed)
        for name, seed in (("first", 0), ("second", 1))
    }
    methods = ["ranksvm", "sparse:l1", "svr", "adarank:map", "rankboost:n_rounds=-1"]
    results = Study(data, methods, metric="map", n_folds=3).run(n_processes=0)
    assert results.missing
    results.report(path, command="linrank study first second --metric map")


@pytest.fixture
def open_page(browser, pages):
    """Open a page. At the end there must have been no error and no request of anything else."""
    trouble: list[str] = []
    contexts = []

    def refuse(route: Route) -> None:
        if route.request.url in pages.values():
            route.continue_()
        else:
            trouble.append(f"request of {route.request.url}")
            route.abort()

    def open_page(
        size: tuple[int, int] = DESK,
        scheme: str = "light",
        javascript: bool = True,
        name: str = "study",
    ) -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme,
            java_script_enabled=javascript, reduced_motion="reduce",
        )  # fmt: skip
        contexts.append(context)
        context.route("**/*", refuse)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.goto(pages[name])
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not trouble
