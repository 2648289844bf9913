"""The commands that show models: explain and inspect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from commandline import error_of, run, run_json, write_text
from linrank import LinearModel, RankSVM, load_model, make_ranking, read_letor
from linrank.baselines.rankboost import StumpModel, Stumps
from linrank.estimators.kernel_ranksvm import KernelModel
from linrank.estimators.topics import TopicsModel
from linrank.model import FORMATS, AdditiveModel, Axis, Curve

DOCUMENTS = """\
1 qid:7 1:2 2:1 # docid = A
0 qid:7 1:1 2:3 # docid = B
0 qid:8 1:9 2:9 # docid = C
2 qid:7 1:4 2:0 # docid = D
"""


@pytest.fixture
def files(here):
    Path("d.txt").write_text(DOCUMENTS)
    LinearModel([1.0, -0.5], feature_names=["bm25", "length"]).save("m.json")
    return here


def explain(*arguments):
    return run("explain", "m.json", "d.txt", "--query", "7", *arguments).stdout


def explain_json(*arguments):
    return run_json("explain", "m.json", "d.txt", "--query", "7", *arguments)


def test_a_pair(files):
    """Documents are counted within the query, although another query is between them."""
    lines = [line.split() for line in explain("--pair", "2", "3").splitlines()]
    assert " ".join(lines[0]) == "document 2 (B) is below document 3 (D) by 4.5:"
    assert ["bm25", "1", "4", "-3.0000"] in [line[:4] for line in lines]
    assert ["length", "3", "0", "-1.5000"] in [line[:4] for line in lines]
    assert "is above document 2 (B) by 4.5:" in explain("--pair", "3", "2")
    assert "have the same score" in explain("--pair", "3", "3")
    found = explain_json("--pair", "3", "2")
    assert [row["document"] for row in found["pair"]] == [3, 2]
    assert [row["rank"] for row in found["pair"]] == [1, 3]
    assert found["difference"] == 4.5
    assert found["contributions"] == [
        {"feature": "bm25", "first": 4.0, "second": 1.0, "contribution": 3.0},
        {"feature": "length", "first": 0.0, "second": 3.0, "contribution": 1.5},
    ]


def test_a_document(files):
    text = explain("--document", "1", "--top", "1")
    assert text.startswith("document 1 (A), rank 2 of 3, label 1: score 1.5\n")
    assert "1 other" in text
    assert "█" in text
    (found,) = explain_json("--document", "1")["documents"]
    assert (found["id"], found["score"], found["base"], found["rank"]) == ("A", 1.5, 0.0, 2)
    assert sum(row["contribution"] for row in found["contributions"]) == 1.5


def test_the_best_documents(files):
    text = explain("--top", "2")
    rows = [line.split() for line in text.splitlines() if line][-2:]
    assert rows[0][:5] == ["1", "3", "D", "2", "4"]
    assert rows[1] == ["2", "1", "A", "1", "1.5", "bm25", "+2,", "length", "-0.5"]
    found = explain_json()["documents"]
    assert [row["document"] for row in found] == [3, 1, 2]
    for row in found:
        assert sum(part["contribution"] for part in row["contributions"]) == row["score"]


def test_plots(files):
    assert "plot  saved as p.png" in explain("--pair", "1", "2", "--plot", "p.png")
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    explain_json("--document", "1", "--plot", "q.svg")
    assert Path("q.svg").is_file()


@pytest.mark.parametrize("scale", ["standard", "query"])
def test_contributions_are_those_of_python(letor, here, scale):
    train = read_letor(letor / "train.txt")
    ranker = RankSVM(scale=scale).fit(train.X, train.y, qid=train.qid)
    ranker.model_.save("m.json")
    last = train.X[train.query_ptr[-2] :]
    arguments = ["explain", "m.json", letor / "train.txt", "--query", train.query_ids[-1]]
    found = run_json(*arguments, "--pair", "1", "2")
    expected = ranker.explain_pair(last[0], last[1], last)
    assert found["difference"] == pytest.approx(expected.score)
    assert {row["feature"]: row["contribution"] for row in found["contributions"]} == pytest.approx(
        dict(zip(expected.names, expected.contributions.tolist(), strict=True))
    )
    text = run(*arguments).stdout
    assert "the score at the training means" in text


def test_ids_of_queries_may_be_text(files):
    Path("text.txt").write_text(DOCUMENTS.replace("qid:", "qid:q_"))
    arguments = ("explain", "m.json", "text.txt", "--query", "q_7")
    assert run_json(*arguments)["documents"] == explain_json()["documents"]


def test_sentences(files):
    sentence = error_of("explain", "m.json", "d.txt", "--query", "9")
    assert sentence == "d.txt: there is no query '9'. Use --query with one of 7, 8."
    Path("many.txt").write_text("".join(f"1 qid:{q} 1:1 2:1\n" for q in range(9)))
    sentence = error_of("explain", "m.json", "many.txt", "--query", "x")
    assert sentence.endswith("one of 0, 1, 2, 3, 4 and 4 others.")
    for number in ("0", "4", "-1"):
        sentence = error_of("explain", "m.json", "d.txt", "--query", "7", "--document", number)
        assert sentence == f"d.txt: query 7 has no document {number}. Use a number from 1 to 3."
    assert "must end in" in error_of(
        "explain", "m.json", "d.txt", "--query", "7", "--document", "1", "--plot", "p.jpeg"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--document", "1", "--pair", "1", "2"], "cannot be combined"),
        (["--plot", "p.png"], "--plot needs --document or --pair"),
        (["--pair", "1"], "--pair"),
    ],
)
def test_usage(files, arguments, words):
    result = run("explain", "m.json", "d.txt", "--query", "7", *arguments, code=2)
    assert words in " ".join(result.stderr.split())
    assert not Path("p.png").exists()


def test_control_characters_are_escaped(files):
    LinearModel([1.0, -0.5], feature_names=["a\x1b[2J", "b"]).save("m.json")
    for text in (explain(), explain("--document", "1"), explain("--pair", "1", "2")):
        assert "\x1b" not in text
        assert r"a\x1b[2J" in text


# Every kind of model ----------------------------------------------------------------------


def save_stumps():
    stumps = Stumps(np.array([1, 1, 0]), np.array([0.5, 2.0, 1.5]), np.array([1.0, -0.25, 2.0]))
    StumpModel(stumps, n_features=2, feature_names=["bm25", "length"]).save("m.json")


def test_stumps(files):
    save_stumps()
    text = run("inspect", "m.json").stdout
    rows = [line.split()[:3] for line in text.splitlines()]
    assert ["stumps", "3"] in rows
    assert ["kind", "StumpModel"] in rows
    assert ["bm25", "1", "+2.0000"] in rows
    assert ["length", "2", "+1.2500"] in rows
    found = run_json("inspect", "m.json", "--top", "1")
    assert found["format"] == "linrank-stumps"
    assert found["stumps"] == 3
    assert found["largest"] == [{"feature": "bm25", "stumps": 1, "total_weight": 2.0}]
    assert explain_json("--pair", "3", "2")["difference"] == pytest.approx(2.0 - 0.75)


def test_preprocessing_in_words(letor, here):
    run("train", letor / "train.txt", "--scale", "log1p+query")
    words = "sign(x)·log(1 + |x|), scaled to 0 … 1 within each query"
    assert words in run("inspect", "model.json").stdout
    assert run_json("inspect", "model.json")["preprocessing"] == words


def test_models_without_statistics(files):
    found = run_json("inspect", "m.json")
    assert found["largest"] == [
        {"feature": "bm25", "weight": 1.0}, {"feature": "length", "weight": -0.5}
    ]  # fmt: skip
    assert "standardized" not in run("inspect", "m.json").stdout


def save_model(kind):
    """Save a small model of a format."""
    if kind == "linrank-stumps":
        save_stumps()
    elif kind == "linrank-kernel":
        KernelModel(np.eye(2), [1.0, -1.0], "rbf", {"gamma": 0.5}).save("m.json")
    elif kind == "linrank-topics":
        TopicsModel(np.eye(2), ["sport", "politics"]).save("m.json")
    elif kind == "linrank-additive":
        step = Curve(0, Axis([1.5]), [[0.0], [2.0], [0.5]])
        AdditiveModel(2, [step], feature_names=["bm25", "length"]).save("m.json")
    elif kind in ("linrank-lightgbm", "linrank-trees"):
        name = "lambdamart" if kind == "linrank-lightgbm" else "forest"
        write_text(Path("t.txt"), make_ranking(20, 8, 2, random_state=0))
        run("train", "t.txt", "--method", f"{name}:n_estimators=2", code=None)
        Path("model.json").replace("m.json")
    return load_model("m.json")


ADDITIVE = {"linrank-additive", "linrank-model", "linrank-stumps"}
WORDS = {
    "linrank-model": "LinearModel",
    "linrank-additive": "curves  1",
    "linrank-stumps": "stumps  3",
    "linrank-kernel": "kernel  rbf(gamma=0.5)",
    "linrank-topics": "topics  2",
    "linrank-lightgbm": "trees  2",
    "linrank-trees": "trees  2",
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_kind_of_model_is_inspected(files, kind):
    model = save_model(kind)
    assert model.format == kind
    text = run("inspect", "m.json").stdout
    assert WORDS[kind].split() in [line.split()[-2:] for line in text.splitlines()] or (
        WORDS[kind] in text
    )
    found = run_json("inspect", "m.json")
    assert found["format"] == kind
    assert len(found["largest"]) == (2 if model.columns() else 0)
    assert repr(model).startswith(type(model).__name__ + "(2 features")
    assert type(model).__name__ in model._repr_html_()
    if kind not in ADDITIVE:
        sentence = error_of("explain", "m.json", "d.txt", "--query", "7")
        assert "are no sum over features" in sentence


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_models(files, kind):
    save_model(kind)
    text = Path("m.json").read_text()
    Path("m.json").write_text(text.replace('"index_base": 1', '"index_base": "x"'))
    for command in (["inspect", "m.json"], ["explain", "m.json", "d.txt", "--query", "7"]):
        assert error_of(*command).startswith("m.json: damaged: ")
