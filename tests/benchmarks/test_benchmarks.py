"""What the benchmarks say of figures that are not known."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.choices import CHOICES
from benchmarks.tools import Section, show_spread

from benchmarks import choices, domination_pamir, shapes, tools, topic_collections


def section():
    return Section("choices", "title", "about", ["data", "distance", *CHOICES, "auto / best"])


def test_a_spread_is_in_the_unit_of_its_median():
    assert show_spread([0.33, 0.31, 0.36]) == "330 ms (310–360)"
    assert show_spread([2.0, 0.9, 11.0]) == "2 s (0.9–11)"
    assert show_spread([1.5]) == "1.5 s"


@pytest.mark.parametrize(
    ("found", "measured", "met"),
    [
        ({"web": 1.0, "text": 1.2}, "1.20 (text)", True),
        ({"web": 1.0, "text": 1.4}, "1.40 (text)", False),
        ({"web": 1.0, "text": None}, "1.00 (web), not known for text", True),
        ({"web": None, "text": None}, "nothing, not known for web, text", False),
        ({}, "nothing", False),
    ],
)
def test_the_largest_figure_is_judged(found, measured, met):
    own = section()
    own.aim_at_most("at most 1.3", 1.3, found)
    assert own.goals == [{"goal": "at most 1.3", "measured": measured, "met": met}]


def test_nothing_in_time_is_noted(monkeypatch):
    monkeypatch.setattr(tools, "from_process", lambda function, *arguments, cap: iter(()))
    own = section()
    assert tools.in_time(own, print, "web", 1.0) == []
    assert own.notes == ["Nothing within 600 s: print(web, 1.0)"]


@pytest.mark.parametrize(
    ("auto", "others", "shown", "late"),
    [
        (2.0, 1.0, "2.00", False),
        (None, 1.0, "—", True),
        (1.0, None, "—", False),
        (None, None, "—", False),
    ],
)
@pytest.mark.parametrize("optimum", [[1.0], []])
def test_ratio_of_auto(auto, others, shown, late, optimum, monkeypatch):
    def from_process(function, name, part, threads, *choice, cap):
        if function is choices.run_tight:
            return iter(optimum)
        seconds = auto if choice[0] == "auto" else others
        ends = [] if seconds is None else [(seconds / 2, 1.005, 3), (seconds, 1.0, 5)]
        return iter([{"curve": [(0.0, 3.0, 0), *ends]}] if optimum or ends else [])

    monkeypatch.setattr(choices, "from_process", from_process)
    own = section()
    choices._compare(own, "web", 1.0, 1, 8.0)
    near, row = own.rows
    assert [near[1], row[1]] == ["0.01", "1e-06"]
    for numbers in own.numbers:
        assert numbers["late"] == late
        assert numbers["ratio"] == (None if shown == "—" else float(shown))
    assert near[-1] == row[-1] == shown
    missing = "> 8 s" if optimum else "—"
    assert row[2] == (missing if auto is None else f"{auto:.3g} s (5)")
    assert near[2] == (missing if auto is None else f"{tools.show_seconds(auto / 2)} (3)")


def test_real_data_that_are_missing_are_left_out(tmp_path, monkeypatch, capsys):
    (tmp_path / "a9a").mkdir()
    (tmp_path / "a9a" / "train.txt").write_text("1 1:1\n-1 2:1\n")
    monkeypatch.setenv("LINRANK_DATA", str(tmp_path))
    found = shapes.available.__wrapped__()
    assert {"web", "a9a"} <= set(found)
    assert not {"mq2007", "mq2008", "reuters"} & set(found)
    said = capsys.readouterr().out
    assert said.count("is left out: there is no file") == 3
    assert np.asarray(shapes.SHAPES["a9a"].make(1.0).y).tolist() == [1.0, -1.0]
    monkeypatch.delenv("LINRANK_DATA")
    assert "a9a" not in shapes.available.__wrapped__()


# PAMIR and Domination Rank ---------------------------------------------------------------------


def small_images():
    return next(topic_collections.generated_images(600, 40, 2))


def test_parts_of_a_collection_are_disjoint():
    parts = topic_collections.cut(101)
    assert [len(rows) for rows in parts] == [50, 25, 26]
    assert sorted(np.concatenate(parts)) == list(range(101))
    for part in small_images():
        assert set(np.unique(part.levels)) <= {0.0, 1.0, 2.0}
        np.testing.assert_array_equal(part.levels > 0, part.counts > 0)


@pytest.mark.filterwarnings("ignore::linrank.errors.GridEdgeWarning")
@pytest.mark.parametrize("name", ["PAMIR", "Domination Rank, margin, l2"])
def test_nothing_is_chosen_on_test_data(name, monkeypatch):
    """Whatever the labels of the test part are, the same ranker is measured."""
    rankers = []

    def keep(ranker, test):
        rankers.append(ranker)
        return {}

    monkeypatch.setattr(domination_pamir, "_measure", keep)
    train, valid, test = small_images()
    other = test._replace(counts=test.counts[::-1], levels=test.levels[::-1])
    for last in (test, other):
        split = (train, valid, last)
        domination_pamir.run_method(domination_pamir.METHODS[name], split, domination_pamir.Found())
    one, two = (ranker.coef_.toarray() for ranker in rankers)
    np.testing.assert_array_equal(one, two)


def test_reuters_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("LINRANK_DATA", str(tmp_path))
    assert list(topic_collections.reuters_splits()) == []
    article = (
        "<REUTERS><TOPICS>{}</TOPICS><PLACES><D>usa</D></PLACES><TEXT>&#2;<TITLE>{} news</TITLE>"
        "<BODY>prices &lt;of&gt;\n {}</BODY></TEXT></REUTERS>"
    )
    (tmp_path / "reuters21578").mkdir()
    texts = [article.format(f"<D>{name}</D>", name, name) for name in ("cocoa", "gold") * 60]
    texts += [article.format("", "none", "none")] * 9
    (tmp_path / "reuters21578" / "reut2-000.sgm").write_text("".join(texts))
    ((train, valid, test),) = topic_collections.reuters_splits()
    assert [part.X.shape for part in (train, valid, test)] == [(60, 5), (30, 5), (30, 5)]
    for part in (train, valid, test):
        np.testing.assert_array_equal(part.counts.sum(axis=1), 1.0)
        own = part.X.toarray()[:, [0, 1]] > 0  # the words are cocoa, gold, news, of and prices
        np.testing.assert_array_equal(own, part.counts > 0)
