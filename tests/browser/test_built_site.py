"""The documentation site that ``make docs`` has built, opened from its files.

Links to other sites are not followed, because tests run without a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from browsing import DESK, SCHEMES, SCREENS, SHOTS, absent, check_axe

ROOT = Path(__file__).parents[2]
SITE = ROOT / "docs" / "_build" / "html"
FEW = {  # pages of each kind
    "landing": "index.html",
    "guide": "guide/choose.html",
    "tables": "guide/losses.html",
    "reference": "api/generated/linrank.RankSVM.html",
    "commands": "api/command-line.html",
    "gallery": "gallery/index.html",
    "development": "architecture.html",
}
# The theme and the gallery write the frame of a page and the small pictures. We write the article.
OURS = {"include": [["article"]], "exclude": [[".sphx-glr-thumbcontainer"]]}
LOADED = {("img", "src"), ("script", "src"), ("link", "href")}  # what a page loads by itself
PERMITTED_OUTSIDE = ("https://", "http://", "mailto:", "data:", "javascript:")


class Parts(HTMLParser):
    """The places of a page that links can lead to, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect identifiers and addresses."""
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.anchors.add(value)
            elif tag == "a" and name == "href":
                self.links.append(value)
            elif (tag, name) in LOADED and dict(attrs).get("rel") != "canonical":
                self.loaded.append(value)


@pytest.fixture(scope="session")
def parts() -> dict[Path, Parts]:
    """The parts of every page."""
    if not (SITE / "index.html").exists():
        absent("the site (make docs)")
    pages = sorted(set(SITE.rglob("*.html")) - set(SITE.glob("_static/**/*.html")))
    return {path: Parts(path) for path in pages}


def test_the_site_is_complete(parts):
    names = {path.relative_to(SITE).as_posix() for path in parts}
    pages = [*ROOT.glob("docs/**/*.md")]
    assert len(pages) > 40
    assert {p.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for p in pages} <= names
    assert set(FEW.values()) <= names
    scripts = {
        f"gallery/{path.relative_to(ROOT / 'examples').with_suffix('.html').as_posix()}"
        for path in (ROOT / "examples").rglob("plot_*.py")
    }
    assert scripts
    assert scripts <= names


def test_links_lead_somewhere(parts):
    broken = []
    for path, page in parts.items():
        for link in (*page.links, *page.loaded):
            if link.startswith(PERMITTED_OUTSIDE):
                continue
            file, anchor = urldefrag(link)
            target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
            known = parts[target].anchors if target in parts else {"", anchor}
            if not target.exists() or unquote(anchor) not in known:
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert not broken, "\n".join(broken)


def test_nothing_is_loaded_from_other_sites(parts):
    foreign = {
        f"{path.relative_to(SITE)}: {address}"
        for path, page in parts.items()
        for address in page.loaded
        if address.startswith(("http:", "https:", "//"))
    }
    assert not foreign


@pytest.fixture
def context_of(browser: Browser) -> Iterator[object]:
    """Make a context of the browser. At the end there must have been no error and no request."""
    trouble: list[str] = []
    contexts: list[BrowserContext] = []

    def context_of(size: tuple[int, int] = DESK, scheme: str = "light") -> BrowserContext:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme,
            reduced_motion="reduce",
        )  # fmt: skip
        contexts.append(context)
        context.on("console", lambda m: trouble.append(m.text) if m.type == "error" else None)
        context.on("weberror", lambda error: trouble.append(str(error.error)))
        context.on("requestfailed", lambda request: trouble.append(f"failed: {request.url}"))
        context.on(
            "request",
            lambda request: (
                request.url.startswith(("file:", "data:")) or trouble.append(request.url)
            ),
        )
        return context

    yield context_of
    for context in contexts:
        context.close()
    assert not trouble


def open_page(context: BrowserContext, name: str) -> Page:
    page = context.new_page()
    page.goto((SITE / name).as_uri())
    return page


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("kind", FEW)
def test_it_is_light_or_dark(parts, context_of, kind, screen, scheme):
    page = open_page(context_of(SCREENS[screen], scheme), FEW[kind])
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/site-{kind}-{screen}-{scheme}.png")
    red, *_ = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).color")))
    assert (red > 128) == (scheme == "dark")


def folder_of(path: Path) -> str:
    return path.relative_to(SITE).parent.as_posix().partition("/")[0]


@pytest.mark.parametrize("folder", [".", "start", "guide", "coming-from", "papers", "gallery"])
def test_no_page_is_wider_than_a_phone(parts, context_of, folder):
    page = context_of(SCREENS["phone"]).new_page()
    wide = []
    for path in (path for path in parts if folder == folder_of(path)):
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > SCREENS["phone"][0]:
            wide.append(path.name)
    assert not wide


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("missing values", "guide/features.html"),
        ("DominationRank", "api/generated/linrank.DominationRank.html"),
    ],
)
def test_search_works_from_files(parts, context_of, words, found):
    page = open_page(context_of(), "index.html")
    page.keyboard.press("Control+k")
    page.locator("dialog input[type=search]").fill(words)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=*")
    result = page.locator(f"#search-results a[href^='{found}']").first
    expect(result).to_be_visible()
    result.click()
    expect(page.locator("h1").first).to_be_visible()
    assert found in page.url


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["landing", "guide", "reference"])
def test_axe_finds_nothing(parts, context_of, axe, kind, scheme):
    check_axe(open_page(context_of(DESK, scheme), FEW[kind]), axe, OURS)
