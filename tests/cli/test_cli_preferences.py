"""Preferences between items on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from commandline import error_of, run, run_json
from linrank import LinearModel, RankSVM, RankSVMCV


@pytest.fixture
def items(here):
    """Items in two queries whose lines alternate, and weighted pairs of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    pairs = rng.integers(0, 30, (120, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    better = X @ [1.0, -1.0, 0.2] + rng.normal(0, 0.3, 30)
    pairs = np.where((better[pairs[:, 0]] > better[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    weight = rng.integers(1, 4, len(pairs)).astype(float)
    lines = (
        f"0 qid:{row % 2} " + " ".join(f"{f}:{v!r}" for f, v in enumerate(x.tolist(), 1))
        for row, x in enumerate(X)
    )
    text = "".join(f"{line} # docid = item{row}\n" for row, line in enumerate(lines))
    Path("items.txt").write_text(text)
    rows = "".join(f"item{i},item{j},{w}\n" for (i, j), w in zip(pairs, weight, strict=True))
    Path("pairs.csv").write_text("winner,loser,weight\n" + rows)
    return X, pairs, weight


def test_a_model_is_learnt_from_pairs(items):
    X, pairs, weight = items
    options = ["--preferences", "pairs.csv", "--C", "0.5", "--tol", "1e-8"]
    text = run("train", "items.txt", *options).stdout
    assert f"1 connected component, 3 features (dense float64), {len(pairs)} pairs" in text
    assert "preferences  pairs.csv" in text
    ranker = RankSVM(C=0.5, tol=1e-8).fit_pairs(X, pairs, weight)
    np.testing.assert_allclose(LinearModel.load("model.json").coef, ranker.coef_, rtol=1e-6)

    expected = ranker.score_pairs(X, pairs, weight)
    run("predict", "model.json", "items.txt", "--out", "scores.txt")
    for scores in ("model.json", "scores.txt"):
        found = run_json("evaluate", "items.txt", scores, "--preferences", "pairs.csv")
        assert found["preferences"]["accuracy"] == pytest.approx(expected)
        assert found["preferences"]["pairs"] == len(pairs)
        assert found["preferences"]["ties"] == 0
    text = run("evaluate", "items.txt", "model.json", "--preferences", "pairs.csv").stdout
    assert f"{expected:.4f}" in text


def test_C_is_chosen_by_folds_of_pairs(items):
    X, pairs, weight = items
    found = run_json("train", "items.txt", "--preferences", "pairs.csv", "--folds", "3")
    ranker = RankSVMCV(cv=3).fit_pairs(X, pairs, weight)
    assert found["C"] == ranker.C_
    assert found["held_out"]["metric"] == "pairwise-accuracy"
    best = np.mean(ranker.metric_path_, axis=1).max()
    assert found["held_out"]["mean"] == pytest.approx(best)
    assert found["preferences"] == "pairs.csv"
    text = run("train", "items.txt", "--preferences", "pairs.csv", "--folds", "3").stdout
    assert "by 3 pair folds" in text


def test_files_that_do_not_fit_get_a_sentence(items):
    Path("other.csv").write_text("item1,nobody\n")
    assert error_of("train", "items.txt", "--preferences", "other.csv") == (
        "other.csv: no document of items.txt has the id 'nobody'. Add the document, or remove the "
        "pairs with this id"
    )
    Path("plain.txt").write_text("0 qid:1 1:1\n0 qid:1 1:2\n")
    sentence = "--preferences: plain.txt: the data has no document ids"
    assert sentence in error_of("train", "plain.txt", "--preferences", "pairs.csv")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("train items.txt --valid items.txt", "chooses C by folds of pairs. Use --folds"),
        ("train items.txt --qrels qrels.txt", "--preferences replaces labels. Leave out --qrels"),
        ("train items.txt --dask local", "--preferences needs all rows in this process"),
        ("train items.txt --metric map", "by the accuracy on pairs. Leave out --metric"),
        ("evaluate items.txt m --qrels q", "Leave out --qrels"),
        ("evaluate items.txt m --per-query q", "Leave out --per-query"),
    ],
)
def test_options_that_do_not_fit_get_a_sentence(items, command, sentence):
    Path("qrels.txt").write_text("0 0 item0 1\n")
    result = run(*command.split(), "--preferences", "pairs.csv", code=2)
    assert sentence in " ".join(result.stderr.replace("│", " ").split())
