"""Pages are one valid document, in which texts from elsewhere are texts."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sample_page
from commandline import run
from linrank import DataError, LinearModel
from linrank._util.text import printable
from linrank.model import AdditiveModel
from linrank.plots import COLOURS, STYLE, new_figure
from linrank.report.model_page import FIELDS, model_page
from linrank.report.page import (
    Code,
    Details,
    Page,
    Picture,
    Section,
    Table,
    labelled_svg,
    render_page,
    svg_of,
    write_page,
)
from linrank.report.page import TableColumn as Column

pytestmark = pytest.mark.interpreted

VOID = {"meta", "input", "br", "img"}
CAT = Picture("cat", "A cat.", "A cat on a mat.", sample_page.SVG)
HOSTILE = st.text(max_size=20) | st.sampled_from(
    ["</script><script>alert(1)</script>", '"><img src=x onerror="alert(1)">', "--><!--", "&lt;",
     "</style>", "]]>", "' onload='alert(1)", "\x00\x1b[2J\u202e", "\ud800", "x" * 5000]
)  # fmt: skip


class Reader(HTMLParser):
    """Elements of a document, with their attributes and texts; open elements must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture(scope="module")
def sample() -> str:
    return render_page(sample_page.make_page())


@given(HOSTILE)
def test_texts_make_no_elements(text):
    hostile, harmless = (
        render_page(sample_page.page_of(text)),
        render_page(sample_page.page_of("x")),
    )
    tags = [tag for tag, _ in Reader(hostile).found]
    if text.split():  # lines without a text are left out
        assert tags == [tag for tag, _ in Reader(harmless).found]
    shown = " ".join(printable(" ".join(text.split())).split())
    assert " ".join("".join(Reader(hostile).texts.get("h1", [""])).split()) == shown
    hostile.encode()


def test_names_in_scripts_do_not_end_them():
    names = ["</script><img src=x onerror=alert(1)>", "<!--<script>", 'it\'s "quoted"']
    text = render_page(model_page(LinearModel([1.0, 2.0, 3.0], feature_names=names)))
    assert text.count("</script") == 1
    script = text[text.index("<script>") + len("<script>") : text.index("</script")]
    assert "<!--" not in script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in text.replace("'", "&#39;")


@pytest.mark.parametrize("model", [
    LinearModel(np.zeros(3)), LinearModel(np.ones(FIELDS + 1)), AdditiveModel(2, []),
])  # fmt: skip
def test_models_without_features_or_with_many_have_no_fields(model):
    assert "section-score" not in render_page(model_page(model))


def test_nothing_is_loaded(sample):
    """Browser tests check that there are no requests; here are the places that would make one."""
    reader = Reader(sample)
    for tag, attributes in reader.found:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert "@import" not in sample
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", sample))


def test_ids_are_unique_and_references_lead_to_them(sample):
    reader = Reader(sample)
    ids = [attributes["id"] for _, attributes in reader.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    references = {a["href"][1:] for _, a in reader.found if "href" in a}
    references |= set(re.findall(r"url\(#([^)]*)\)", sample))
    assert references <= set(ids)
    assert len(references) > 8


def test_headings_are_in_order(sample):
    levels = [int(tag[1]) for tag, _ in Reader(sample).found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_tables_have_captions_scopes_and_raw_values(sample):
    reader = Reader(sample)
    assert len(reader.all("caption")) == len(reader.all("table")) == 3
    assert {a.get("scope") for a in reader.all("th")} == {"row", "col"}
    assert len([a for a in reader.all("th") if a["scope"] == "row"]) == 12 + 300 + 3
    filtered = [a["id"] for a in reader.all("div") if "data-filter" in a]
    assert filtered == ["table-means", "table-per-query"]
    text = render_page(sample_page.page_of("x"))
    assert '<td class="number" data-value' not in text
    rows = [["a", 0.1 + 0.2], ["b", None], ["c", float("-inf")], ["d", "failed"], ["e", -2]]
    table = Table("t", "", [Column("a"), Column("b", "number", 1)], rows)
    cells = re.findall("<td.*?</td>", render_page(Page("", [Section("s", "", [table])])))
    assert cells == [
        '<td class="number" data-value="0.30000000000000004">0.3</td>',
        '<td class="number" data-empty>–</td>',
        '<td class="number" data-value="-Infinity">−∞</td>',
        '<td class="number">failed</td>',
        '<td class="number" data-value="-2.0">−2.0</td>',
    ]


def test_regions_and_pictures_have_names(sample):
    reader = Reader(sample)
    regions = [a for a in reader.all("div") if a.get("role") == "region"]
    assert len(regions) == 3
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in regions)
    assert all(a["role"] == "img" and a["aria-label"] for a in reader.all("svg"))


def test_commands_keep_their_lines():
    code = Code("a \\\n\t--b <c>\n", "Command")
    text = render_page(Page("", [Section("s", "", [code])]))
    assert "<code>a \\\n        --b &lt;c&gt;</code>" in text


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ([Section("a", "", []), Section("a", "", [])], "two parts of the page are section 'a'"),
        ([Section("a", "", [CAT, Details("", [CAT])])], "two parts of the page are picture 'cat'"),
        ([Section("a", "", [Picture("p", "", "p", "no svg")])], "is no SVG element"),
    ],
)
def test_mistakes_get_one_sentence(sections, message):
    with pytest.raises(DataError, match=message):
        render_page(Page("", sections))


def test_pictures_need_a_description():
    with pytest.raises(DataError, match="has no alt"):
        Picture("p", "caption", " ", sample_page.SVG)


def test_pages_are_written_whole(tmp_path):
    path = tmp_path / "report.html"
    write_page(path, Page("Old", []))
    with pytest.raises(DataError):
        write_page(path, Page("New", [Section("a", "", []), Section("a", "", [])]))
    assert "<h1>Old</h1>" in path.read_text(encoding="utf-8")
    with pytest.raises(DataError, match="there is no folder"):
        write_page(tmp_path / "absent" / "report.html", Page("New", []))


def draw_svg() -> str:
    with new_figure(2.0) as figure:
        ax = figure.subplots()
        for colour in COLOURS:
            ax.plot([1, 2], color=colour, marker="o", label=colour)
        ax.bar([1], [1], color="none", hatch="//")
        ax.set_title("a <b> & c")
        ax.legend(frameon=True)
        return svg_of(figure)


def test_figures_follow_the_colours_of_the_page():
    svg = draw_svg()
    assert svg == draw_svg()
    drawn = re.sub(r"var\(--\w+, #\w+\)", "variable", svg)
    for colour in COLOURS:
        assert (f": {colour.lower()}" in drawn) == (colour != "#000000")
    assert f": {STYLE['grid.color']}" not in drawn
    assert "white" not in drawn
    assert ": #ffffff" not in drawn
    assert "<text" in svg
    assert "a &lt;b&gt; &amp; c" in svg
    assert "DejaVu" not in svg
    assert "<style" not in svg
    assert "date" not in svg
    assert re.match(r'<svg viewBox="0 0 432 144" ', svg)
    assert set(re.findall(r' id="(.*?)"', svg)) == set(re.findall(r'(?:href="|url\()#(\w+)', svg))
    assert "fill: url(#" in svg  # the hatched bar


def test_figures_are_the_same_whatever_the_settings_of_matplotlib_are():
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": None}):
        assert draw_svg() == draw_svg()


def test_letters_that_the_font_of_matplotlib_lacks_are_drawn_by_the_browser():
    with new_figure(height=2.0) as figure:  # a warning would be an error
        figure.subplots().set_xlabel("größe-模型")
        assert "größe-模型" in svg_of(figure)


def test_ids_of_pictures_get_a_prefix():
    svg = (
        '<svg viewBox="0 0 1 1"><g id="a" /><use href="#a" /><a href="https://x.org/#a" />'
        '<g clip-path="url(#a)" style="stroke: #000000; fill: url(#a)" /></svg>'
    )
    assert labelled_svg(svg, "p", 'A "picture"') == (
        '<svg viewBox="0 0 1 1" role="img" aria-label="A &quot;picture&quot;"><g id="p-a" />'
        '<use href="#p-a" /><a href="https://x.org/#a" />'
        '<g clip-path="url(#p-a)" style="stroke: #000000; fill: url(#p-a)" /></svg>'
    )


@pytest.mark.parametrize("letter", ["\ufffe", "\uffff", "\U0001fffe", "\ufdd0", "\ud800", "\x00"])
def test_names_with_code_points_that_are_no_characters(tmp_path, letter):
    LinearModel([1.0, 2.0], feature_names=["a" + letter, "b"]).save(tmp_path / "m.json")
    run("inspect", tmp_path / "m.json", "--report", tmp_path / "m.html")
    text = (tmp_path / "m.html").read_text()
    assert letter not in text
    assert "a" + repr(letter)[1:-1] in text
