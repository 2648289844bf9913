"""Pages in a real browser.

``make test-browser`` installs Playwright and axe-core. The browser is the chromium of the system.
A test is skipped if its program is not there, and fails instead if the environment variable CI is
set.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

import sample_page
from additive_samples import sample_model
from browsing import DESK, absent
from commandline import PATIENCE
from linrank import LinearModel, PreferenceModel, SeparationWarning, make_ranking
from linrank.model import Model
from linrank.report.arena_page import Display, write_arena_page
from linrank.report.page import write_page
from linrank.study import Study

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
expect.set_options(timeout=1000.0 * PATIENCE)  # otherwise 5 seconds
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
def models() -> dict[str, Model]:
    """Models that have a page: an additive one, and a linear one with hostile names."""
    names = ["bm25", sample_page.HOSTILE, 'it\'s "quoted" <!-- not closed', "größe"]
    linear = LinearModel([0.5, -2.0, 1e-3, 40.0], feature_names=names)
    return {"model": sample_model(500)[0], "linear": linear}


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Model]) -> dict[str, str]:
    """Addresses of a page like those of studies, one with long words, and reports."""
    folder = tmp_path_factory.mktemp("pages")
    make_report(folder / "report.html")
    for name, model in models.items():
        model.write_report(folder / f"{name}.html")
    make_arena(folder / "arena.html")
    made = {"study": sample_page.make_page(), "long words": sample_page.page_of("x" * 500)}
    for name, page in made.items():
        write_page(folder / f"{name}.html", page)
    names = (*made, *models, "report", "arena")
    return {name: (folder / f"{name}.html").as_uri() for name in names}


def make_arena(path: Path) -> None:
    """Write the page of votes between items with long names, of which one always wins."""
    items = [f"model-{k}{'-with-a-long-name' * (k % 2)}" for k in range(5)]
    rng = np.random.default_rng(0)
    a = rng.integers(5, size=400)
    b = (a + rng.integers(1, 5, 400)) % 5
    outcome = np.where(a == 0, "a", np.where(b == 0, "b", rng.choice(["a", "b", "tie"], 400)))
    names = np.array(items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeparationWarning)
        model = PreferenceModel(order_effect=True).fit(
            names[a], names[b], outcome, judge=rng.integers(20, size=400)
        )
    write_arena_page(path, model, "votes.csv", Display(scale=400, half_width=30.0))


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
        context.set_default_timeout(1000.0 * PATIENCE)
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
