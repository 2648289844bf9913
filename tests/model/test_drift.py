"""Drift: profiles of the training data, and the comparison of other data with them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from commandline import error_of, run, run_json
from linrank import AdditiveRanker, LinearModel, RankingData, RankSVM, load_model, make_ranking
from linrank.errors import FileFormatError
from linrank.model.drift import Histogram, stability_index


def slow_index(before, now):
    """The stability index of two lists of values, by its definition."""
    known = sorted(x for x in before if not np.isnan(x))
    edges = sorted({known[int(np.ceil(k * len(known) / 10)) - 1] for k in range(1, 10)})

    def shares(values):
        bins = [0.5] * (len(edges) + 2)
        for x in values:
            bins[-1 if np.isnan(x) else sum(edge < x for edge in edges)] += 1
        return [n / sum(bins) for n in bins], sum(bins)

    (p, n), (q, m) = shares(before), shares(now)
    total = sum((a - b) * np.log(a / b) for a, b in zip(p, q, strict=True))
    return max(0.0, total - (len(p) - 1) * (1 / n + 1 / m))


@pytest.mark.parametrize("seed", range(20))
def test_the_index_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    before, now = (rng.normal(shift, 1 + shift, 200 + seed).round(seed % 3) for shift in (0, 0.3))
    now[: seed * 3] = np.nan
    found = Histogram.of(before)
    assert stability_index(found, Histogram.of(now, found.edges)) == pytest.approx(
        slow_index(before.tolist(), now.tolist()), abs=1e-12
    )


@pytest.fixture
def fitted():
    data = make_ranking(100, 20, 4, random_state=0)
    data = RankingData(data.X, data.y, data.qid, feature_names=["a", "b", "c", "d"])
    return data, RankSVM(C=0.01, missing="median").fit(data)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, "frame", "data"])
def test_the_training_data_have_not_drifted(fitted, kind):
    data, ranker = fitted
    if kind == "data":
        X = data
    elif kind == "frame":
        X = pd.DataFrame(data.X[:, ::-1], columns=["d", "c", "b", "a"])
    else:
        X = kind(data.X)
    found = ranker.model_.check(X)
    assert found.ok, found
    assert found.n_docs == data.n_docs
    assert found.scores < 0.02


def test_each_difference_has_an_alarm(fitted):
    data, ranker = fitted
    X = data.X.copy()
    X[:, 0] += 1.0  # another distribution
    X[::3, 1] = np.nan  # missing values
    X[::8, 2] = 1e6  # values out of range
    found = ranker.model_.check(X)
    assert not found.ok
    texts = {alarm.split(":")[0]: alarm for alarm in found.alarms}
    assert texts.keys() - {"Scores"} == {"a", "b", "c"}
    assert "the stability index is" in texts["a"]
    assert "33.4% of the values are missing" in texts["b"]
    assert "12.5% of the values are outside of the training range" in texts["c"]
    assert [feature.feature for feature in found.features][-1] == "d"
    assert found.to_frame().loc[0, "psi"] == max(feature.psi for feature in found.features)
    assert ranker.model_.check(X, psi=99, missing=1, outside=1).ok
    assert "a: " in repr(found)
    assert "<table" in found._repr_html_()


def test_features_that_the_model_does_not_use_raise_no_alarm(fitted):
    data, _ = fitted
    model = LinearModel([1.0, 0.0, 0.0, 0.0])
    model.remember(data)
    X = data.X.copy()
    X[:, 1] += 5.0
    assert model.check(X).ok


def test_missing_values_that_cannot_be_scored_are_an_alarm(fitted):
    data, _ = fitted
    model = RankSVM(C=0.01).fit(data).model_
    X = data.X.copy()
    X[0, 0] = np.nan
    assert "cannot be scored" in model.check(X).alarms[0]


def test_queries_are_needed_where_features_are_scaled_within_them(fitted):
    data, _ = fitted
    model = RankSVM(C=0.01, scale="query").fit(data).model_
    assert model.check(data).scores < 0.05
    mixed = np.random.default_rng(0).permutation(data.n_docs)
    assert model.check(data.X[mixed], data.qid[mixed]).scores == model.check(data).scores
    assert model.check(data.X).scores is None


def test_a_saved_profile_gives_the_same_numbers(fitted, tmp_path):
    data, ranker = fitted
    for model in (ranker.model_, AdditiveRanker(C=0.01).fit(data).model_):
        model.save(tmp_path / "model.json")
        X = data.X + 0.5
        assert repr(load_model(tmp_path / "model.json").check(X)) == repr(model.check(X))


def test_large_data_are_sampled(fitted, monkeypatch):
    data, ranker = fitted
    monkeypatch.setattr("linrank.model.drift.CHECKED_DOCS", 300)
    assert ranker.model_.check(data.X).n_docs == 300
    assert ranker.model_.check(data.X).ok
    by_query = RankSVM(C=0.01, scale="query").fit(data).model_
    assert by_query.check(data).n_docs == 300  # 15 whole queries


def test_a_model_without_a_profile_knows_its_ranges(fitted, tmp_path):
    data, ranker = fitted
    path = tmp_path / "old.json"
    ranker.save(path)
    content = json.loads(path.read_text())
    del content["profile"]
    path.write_text(json.dumps(content))
    found = load_model(path).check(data.X + np.array([0.0, 0.0, 1e3, 0.0]))
    assert found.alarms == ["c: 100.0% of the values are outside of the training range."]
    assert "no profile" in found.notes[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["features"].pop(),
        lambda p: p["scores"]["counts"].pop(),
        lambda p: p["scores"]["edges"].reverse(),
        lambda p: p["scores"].update(n_missing=-1),
        lambda p: p["scores"].update(low=float("nan")),
        lambda p: p["scores"].pop("high"),
        lambda p: p.pop("scores"),
        lambda p: p.update(features=3),
        lambda p: p.update(gaps=["a"]),
    ],
)
def test_damaged_profiles_are_refused(fitted, tmp_path, change):
    path = tmp_path / "model.json"
    fitted[1].save(path)
    content = json.loads(path.read_text())
    change(content["profile"])
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="damaged"):
        load_model(path)


# The command line --------------------------------------------------------------------------------


@pytest.fixture
def files(fitted, here):
    data, ranker = fitted
    ranker.save("model.json")
    frame = pd.DataFrame(data.X, columns=data.feature_names)
    frame.to_parquet("same.parquet")
    frame.assign(a=frame.a + 2.0).to_csv("moved.csv", index=False)
    frame.drop(columns="b").to_csv("fewer.csv", index=False)


def test_the_exit_code_says_whether_data_have_drifted(files):
    assert "none" in run("check", "model.json", "same.parquet").stdout
    found = run("check", "model.json", "moved.csv", code=1)
    assert "a: the stability index is" in found.stdout
    shown = run_json("check", "model.json", "moved.csv", code=1)
    assert not shown["ok"]
    assert shown["features"][0]["feature"] == "a"
    run("check", "model.json", "moved.csv", "--psi", "99", "--outside", "1")
    assert "'b'" in error_of("check", "model.json", "fewer.csv")


def test_train_keeps_a_profile(here):
    made = make_ranking(30, 10, 3, random_state=0)
    frame = pd.DataFrame(made.X, columns=["x", "y", "z"]).assign(label=made.y, qid=made.qid)
    frame.to_csv("train.csv", index=False)
    run("train", "train.csv", "--C", "0.01")
    assert "profile" in json.loads(Path("model.json").read_text())
    run("check", "model.json", "train.csv")
