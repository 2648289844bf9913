"""The page of a study in a browser: it is sorted, filtered, and read on every screen."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from browsing import SCHEMES, SCREENS, SHOTS, check_axe
from sample_page import HOSTILE, METHODS, N_QUERIES


def means(page: Page) -> Locator:
    return page.locator("#table-means")


def texts(table: Locator, column: int) -> list[str]:
    """The texts of a column, in the order of the visible rows."""
    return table.locator(f"tbody tr:visible > :nth-child({column + 1})").all_inner_texts()


def head(table: Locator, name: str) -> Locator:
    return table.get_by_role("columnheader", name=name, exact=True)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("screen", SCREENS)
def test_it_fits_the_screen(open_page, screen, scheme):
    page = open_page(SCREENS[screen], scheme)
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{screen}-{scheme}.png", full_page=True)
    check_width(page, SCREENS[screen][0])
    red, *_ = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).color")))
    assert (red > 128) == (scheme == "dark")


def open_details(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")


def check_width(page: Page, width: int) -> None:
    """Check that nothing is beside the screen."""
    open_details(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for part in page.locator("h1, h2, h3, p, pre, dd, svg, .scroll, .tools, nav, footer").all():
        box = part.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize("screen", SCREENS)
def test_long_words_fit_the_screen(open_page, screen):
    check_width(open_page(SCREENS[screen], name="long words"), SCREENS[screen][0])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing(open_page, axe, screen, scheme):
    page = open_page(SCREENS[screen], scheme)
    open_details(page)
    head(means(page), "map").get_by_role("button").click()
    page.get_by_label("Filter rows of ndcg@10 of each query").fill("q11")  # each row takes time
    check_axe(page, axe)


def test_a_click_sorts_and_another_one_reverses(open_page):
    table = means(open_page())
    before = texts(table, 3)
    numbers = sorted((float(text.rstrip("†")) for text in before), reverse=True)
    assert [float(text.rstrip("†")) for text in before] != numbers
    button = head(table, "map").get_by_role("button")
    for direction, expected in (("descending", numbers), ("ascending", numbers[::-1])):
        button.click()
        assert [float(text.rstrip("†")) for text in texts(table, 3)] == expected
        expect(head(table, "map")).to_have_attribute("aria-sort", direction)
    head(table, "method").get_by_role("button").click()
    expect(table.locator("[aria-sort]")).to_have_count(1)
    expect(head(table, "method")).to_have_attribute("aria-sort", "ascending")
    assert texts(table, 0) == sorted(METHODS)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_keys_sort(open_page, key):
    page = open_page()
    button = head(means(page), "mrr").get_by_role("button")
    button.focus()
    page.keyboard.press(key)
    expect(head(means(page), "mrr")).to_have_attribute("aria-sort", "descending")
    values = [float(text.rstrip("†")) for text in texts(means(page), 4)]
    assert values == sorted(values, reverse=True)
    expect(button).to_be_focused()


def test_every_control_is_reached_by_the_tab_key(open_page):
    page = open_page()
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    assert "Skip to the content" in reached[0]
    for part in ("Dark colours", 'id="table-means-filter"', 'role="region"', "Copy", "<summary>"):
        assert any(part in text for text in reached), part


def test_numbers_are_sorted_by_their_raw_values(open_page):
    """Times have several units, and p-values below 0.001 have the same text."""
    table = means(open_page())
    for name, column in (("time", 8), ("p", 7)):
        head(table, name).get_by_role("button").click()
        cells = table.locator(f"tbody tr > :nth-child({column + 1})[data-value]")
        values = [float(c.get_attribute("data-value")) for c in cells.all()]
        assert len(values) == len(METHODS) - 1
        assert values == sorted(values, reverse=True)


def test_empty_cells_are_last_in_both_directions(open_page):
    table = means(open_page())
    for _ in range(2):
        head(table, "ndcg@10").get_by_role("button").click()
        assert texts(table, 1)[-2:] == ["failed", "–"]


def test_names_with_numbers_are_in_their_order(open_page):
    table = open_page().locator("#table-per-query")
    head(table, "query").get_by_role("button").click()
    names = [name for name in texts(table, 0) if name.startswith("q")]
    assert names == [f"q{q + 1}" for q in range(N_QUERIES) if q != 7]


def test_the_filter_shows_the_rows_with_all_words(open_page):
    page = open_page()
    table = page.locator("#table-per-query")
    field = page.get_by_label("Filter rows of ndcg@10 of each query")
    status = table.get_by_role("status")
    expect(status).to_have_text(f"{N_QUERIES} rows")
    field.fill("FOLD3 q11")
    assert texts(table, 1) == ["Fold3"] * 2
    assert texts(table, 0) == ["q113", "q118"]
    expect(status).to_have_text(f"2 of {N_QUERIES} rows")
    head(table, "query").get_by_role("button").click()
    head(table, "query").get_by_role("button").click()
    assert texts(table, 0) == ["q118", "q113"]
    field.fill("no such query")
    expect(status).to_have_text(f"0 of {N_QUERIES} rows")
    field.fill("")
    assert len(texts(table, 0)) == N_QUERIES
    expect(means(page).get_by_role("status")).to_have_text("12 rows")


def test_short_tables_have_no_filter(open_page):
    expect(open_page().locator("#table-settings input")).to_have_count(0)


def test_hostile_texts_are_shown(open_page):
    page = open_page()
    assert HOSTILE in texts(page.locator("#table-per-query"), 0)
    expect(page.locator("img")).to_have_count(0)


def test_the_button_changes_the_colours(open_page):
    page = open_page(scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('svg text')).fill"
    before = page.evaluate(f"[{colour}, {line}]")
    page.get_by_role("button", name="Light colours").click()
    after = page.evaluate(f"[{colour}, {line}]")
    assert after[0] == "rgb(255, 255, 255)"
    assert before[0] != after[0]
    assert before[1] != after[1]
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate(f"[{colour}, {line}]") == before


def test_commands_are_copied(open_page):
    page = open_page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy: Command").click()
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("linrank study MQ2007 --methods ranksvm,")
    assert copied.endswith(" \\\n    --metric ndcg@10")


def test_links_lead_to_the_sections(open_page):
    page = open_page()
    page.get_by_role("navigation").get_by_role("link", name="Settings").click()
    expect(page.get_by_role("heading", name="Settings", level=2)).to_be_in_viewport()
    expect(page.get_by_role("navigation")).to_be_in_viewport()  # the contents stay beside the text


def test_pictures_have_names(open_page):
    pictures = open_page().get_by_role("img")
    expect(pictures).to_have_count(3)
    expect(pictures.first).to_have_accessible_name(re.compile("^Mean ndcg@10 of seven methods"))


@pytest.mark.parametrize("screen", SCREENS)
def test_everything_is_shown_without_javascript(open_page, screen):
    page = open_page(SCREENS[screen], javascript=False)
    expect(page.locator("button, input")).to_have_count(0)
    expect(page.locator("#table-per-query tbody tr")).to_have_count(N_QUERIES)
    for part in ("#table-means", "#picture-folds svg", "pre >> nth=1", "footer"):
        expect(page.locator(part)).to_be_visible()


def test_paper_shows_all_rows_in_dark_ink(open_page):
    page = open_page(scheme="dark")
    page.emulate_media(media="print")
    expect(page.locator("button:visible, input:visible, nav:visible")).to_have_count(
        page.locator("th button").count()
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    region = page.locator("#table-per-query .scroll")
    assert region.evaluate("(region) => region.scrollHeight - region.clientHeight") <= 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["report", "model", "linear", "arena"])
def test_a_report_fits_the_screen_without_barriers(open_page, axe, name, screen, scheme):
    page = open_page(SCREENS[screen], scheme, name=name)
    check_width(page, SCREENS[screen][0])
    open_details(page)
    check_axe(page, axe)


@pytest.mark.parametrize("name", ["model", "linear"])
def test_the_browser_scores_a_row(open_page, models, name):
    page, model = open_page(name=name), models[name]
    fields = page.locator("#calculator-score input")
    labels = page.locator("#calculator-score label").all_inner_texts()
    output = page.locator("#calculator-score output")
    places = [model.names().index(label) for label in labels]
    rows = np.random.default_rng(0).normal(size=(3, model.n_features)).round(3)
    for row in rows:
        for k, place in enumerate(places):
            fields.nth(k).fill(repr(float(row[place])))
        assert float(output.inner_text()) == pytest.approx(model.predict(row[None])[0], rel=1e-12)
    fields.nth(0).fill("x")
    expect(fields.nth(0)).to_have_attribute("aria-invalid", "true")


def test_a_row_may_be_pasted(open_page, models):
    page = open_page(name="linear")
    paste = """(text) => {
        const data = new DataTransfer();
        data.setData("text", text);
        document.querySelector("#calculator-score input").dispatchEvent(
            new ClipboardEvent("paste", {clipboardData: data, cancelable: true}));
    }"""
    page.evaluate(paste, "1.5\t2 -3,4 99")
    expected = models["linear"].predict([[1.5, 2.0, -3.0, 4.0]])[0]
    found = page.locator("#calculator-score output").inner_text()
    assert float(found) == pytest.approx(expected, rel=1e-12)
    page.locator("#calculator-score input").first.fill("")
    expect(page.locator("#calculator-score output")).to_have_text("a value is missing")


def test_the_summary_of_a_report_is_first_and_can_be_sorted_and_filtered(open_page):
    page = open_page(name="report")
    assert page.locator("section h2").first.inner_text() == "Summary"
    table = page.locator("#table-summary")
    head(table, "map").get_by_role("button").click()
    values = [float(text.rstrip("*†")) for text in texts(table, 2) if text != "–"]
    assert values == sorted(values, reverse=True)
    page.get_by_label("Filter rows of Summary").fill("svr")
    assert set(texts(table, 1)) == {"svr"}


def test_a_report_has_pictures_settings_versions_and_what_failed(open_page):
    page = open_page(name="report")
    open_details(page)
    assert page.locator("svg[role=img]").count() >= 6
    text = page.locator("main").inner_text()
    for part in ("RankSVM", "numpy", "linrank study first second", "rankboost:n_rounds=-1"):
        assert part in text
