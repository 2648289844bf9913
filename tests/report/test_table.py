"""Tables say the same in all formats, and texts from elsewhere cannot change the format."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from linrank import DataError
from linrank._util.text import printable
from linrank.report.page import EMPTY, Cell, Table
from linrank.report.page import TableColumn as Column

pytestmark = pytest.mark.interpreted

TEXTS = st.text(max_size=30) | st.text(
    "<>&\"'_%$#{}~^\\[]*|`-+\n\r\t\x00\x1b\ud800,;=", max_size=30
)
NUMBERS = st.none() | st.integers(-(10**20), 10**20) | st.floats()
HOSTILE = "<script>alert(1)</script>\n_ & % $ # { } ~ ^ \\ [x] * | ` \x1b[2J " + "x" * 300
TYPESET = 'method_1 & 50 % $x$ #2 {a} ~ ^ \\alpha <b> "q" | [5pt] *x* ` ± – × ∞ ≤ ≥ Δ † é'


def make_table(texts: list[str], numbers: list[float | int | None] | None = None) -> Table:
    """A table in which every text is one of those given."""
    rows = [
        [text, Cell(number, strong=True, mark=texts[0]), Cell(text, text=text, strong=True)]
        for text, number in zip(texts, numbers or [0.5] * len(texts), strict=False)
    ]
    columns = [Column(texts[0]), Column(texts[-1], "number", help=texts[0]), Column(texts[0])]
    return Table("key", texts[0], columns, rows, note=texts[-1])


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        (Column("a"), "x", "x"),
        (Column("a"), 3, "3"),
        (Column("a", "count"), 1234567, "1,234,567"),
        (Column("a", "number"), 0.51236, "0.5124"),
        (Column("a", "number", 1), np.float64(2), "2.0"),
        (Column("a", "signed", 2), 0.5, "+0.50"),
        (Column("a", "signed", 2), -0.5, "-0.50"),
        (Column("a", "percent"), 0.1234, "12.3 %"),
        (Column("a", "p"), 0.000999, "<0.001"),
        (Column("a", "p"), 0.001, "0.001"),
        (Column("a", "p"), 0.0496, "0.050"),
        (Column("a", "seconds"), 0.0012345, "1.23 ms"),
        (Column("a", "seconds"), 1.5, "1.5 s"),
        (Column("a", "seconds"), 90, "1.5 min"),
        (Column("a", "seconds"), 9e6, "2,500 h"),
        (Column("a", "seconds"), 0.0, "0 ms"),
        (Column("a", "seconds"), 0.9996, "1,000 ms"),
        (Column("a", "seconds", 2), 45.6, "46 s"),
        (Column("a", "seconds", 1), 45.6, "46 s"),
        (Column("a", "number"), "failed", "failed"),
        (Column("a", "number"), None, EMPTY),
        (Column("a", "p"), math.nan, EMPTY),
        (Column("a", "seconds"), math.inf, "∞"),
        (Column("a", "number"), -math.inf, "−∞"),
    ],
)
def test_values_are_shown_as_their_column_says(column, value, shown):
    assert column.format(value) == shown


def test_numbers_of_text_are_aligned_beside_their_marks():
    columns = [Column("method"), Column("ndcg", "number", 2), Column("why")]
    rows = [["a", Cell(0.5, mark="**"), "x"], ["b", 0.25, "long reason"], ["c", None, ""]]
    assert Table("t", "Title", columns, rows, "Note.").to_text().splitlines() == [
        "Title",
        "method    ndcg  why",
        "a       0.50**  x",
        "b       0.25    long reason",
        "c          –",
        "Note.",
    ]


def test_a_table_without_rows_has_all_formats():
    table = Table("t", "", [Column("a"), Column("b", "number")], [])
    assert table.to_text() == "a  b"
    assert table.to_csv() == "a,b\n"
    assert table.to_markdown() == "| a | b |\n| --- | ---: |\n"
    assert json.loads(table.to_json())["rows"] == []
    check_latex(table)


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(NUMBERS, min_size=4, max_size=4))
@example([HOSTILE], [math.nan])
def test_csv_has_the_raw_values(texts, numbers):
    table = make_table(texts, numbers)
    header, *lines = csv.reader(io.StringIO(table.to_csv(), newline=""))
    assert header == [printable(column.name) for column in table.columns]
    for line, text, number in zip(lines, texts, numbers, strict=False):
        assert line[0] == line[2] == printable(text)
        if number is None or math.isnan(number):
            assert line[1] == ""
        else:
            assert type(number)(line[1]) == number
    assert len(lines) == len(texts)
    table.to_csv().encode()  # surrogates are escaped


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(NUMBERS, min_size=4, max_size=4))
@example([HOSTILE], [math.inf])
def test_json_is_strict_and_exact(texts, numbers):
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    found = json.loads(make_table(texts, numbers).to_json(), parse_constant=refuse)
    known = [n if n is not None and math.isfinite(n) else None for n in numbers]
    assert found["rows"] == [[t, n, t] for t, n in zip(texts, known, strict=False)]


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example([HOSTILE, "[5pt]", "*"])
def test_latex_is_balanced(texts):
    check_latex(make_table(texts))


def check_latex(table: Table) -> None:
    """Check that texts can neither open nor close anything, nor add cells or rows."""
    packages, *lines = table.to_latex().splitlines()
    assert packages == r"% \usepackage[T1]{fontenc} \usepackage{booktabs}"
    first, last = lines.index(r"\midrule") + 1, lines.index(r"\bottomrule")
    assert last - first == len(table.rows)
    for row in lines[first:last]:
        assert row.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", row.replace(r"\\", ""))) == len(table.columns) - 1
        assert row[0] not in "[*"
    depth = 0
    for sign in re.findall(r"\\.|[{}%#~^]", "\n".join(lines)):
        assert sign not in "%#~^"
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert "\x00" not in "\n".join(lines)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path):
    table = make_table([TYPESET, "[5pt]", "*"], [-1.5, math.inf, None])
    source = (
        r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs}"
        r"\begin{document}" + table.to_latex() + r"\end{document}"
    )
    (tmp_path / "table.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example([HOSTILE])
def test_markdown_has_one_line_per_row(texts):
    lines = make_table(texts).to_markdown().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 2 + len(texts)
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row.replace("\\\\", ""))) == 4
        assert "<" not in row
        assert ">" not in row


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example([HOSTILE])
def test_text_has_one_line_per_row(texts):
    lines = make_table(texts).to_text().splitlines()
    above_and_below = sum(bool(text) for text in (texts[:1] + texts[-1:]))
    assert len(lines) == 1 + len(texts) + above_and_below


def test_scalars_of_numpy_become_numbers():
    rows = [["a", np.float32(0.5)], ["b", Cell(np.int64(3), mark="*")], ["c", np.float64("nan")]]
    table = Table("t", "", [Column("a"), Column("b", "number")], rows)
    assert json.loads(table.to_json())["rows"] == [["a", 0.5], ["b", 3], ["c", None]]
    assert table.to_csv().splitlines()[1:] == ["a,0.5", "b,3", "c,"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Column("a", "numbers"), "kind is 'numbers'"),
        (lambda: Table("Bad key", "", [Column("a")], []), "key is 'Bad key'"),
        (lambda: Table("t", "", [], []), "table 't' has no columns"),
        (lambda: Table("t", "", [Column("a")], [["x"], ["y", 1]]), "row 1 has 2 cells"),
        (lambda: Table("t", "", [Column("a")], [[[1]]]), "type list"),
    ],
)
def test_mistakes_get_one_sentence(make, message):
    with pytest.raises(DataError, match=re.escape(message)):
        make()
