"""Studies: the protocol, keys and hashes, the store of results, and faults."""

import importlib
import io
import json
import linecache
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from commandline import PATIENCE, wait_for
from linrank import (
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    evaluate,
    make_ranking,
    write_letor,
)
from linrank.baselines import LambdaMARTRanker, LinearSVRRanker
from linrank.baselines.methods import METHODS, fit_ranker
from linrank.data.trec import Run, run_of
from linrank.errors import DataError, FileFormatError, SplitQueriesWarning
from linrank.study import DataSet, ScoreFiles, Study, parse_entry
from linrank.study import workers as study_lanes
from linrank.study.folds import check_overlap, digest_of, list_folds, shared_queries, split
from linrank.study.protocol import GRIDS, SEED, content_of, entry_of, key_of, package_versions, plan
from linrank.study.results import ResultStore, StoreFailed, outcome_of_scores, scores_of_run
from linrank.study.study import Workspace
from linrank.training.selection import Criterion, mean_metric


@pytest.fixture
def data():
    return make_ranking(n_queries=24, docs_per_query=8, n_features=6, random_state=3)


@pytest.fixture
def folder(data, tmp_path):
    """A data set with three folds, as LETOR has them."""
    for name, *parts in split(data, 3):
        (tmp_path / "set" / name).mkdir(parents=True)
        for part, rows in zip(("train", "vali", "test"), parts, strict=True):
            write_letor(tmp_path / "set" / name / f"{part}.txt", rows)
    return tmp_path / "set"


# The protocol


def test_settings_are_chosen_on_the_validation_part(data):
    results = Study({"made": data}, ["svr:C=0.001|0.1|10"], metric="map", n_folds=3).run(
        n_processes=0
    )
    for name, train, valid, test in split(data, 3):
        rankers = [
            fit_ranker(LinearSVRRanker(C=C, random_state=0), train) for C in (0.001, 0.1, 10)
        ]
        on_valid = [mean_metric(valid, ranker.predict(valid.X), "map") for ranker in rankers]
        best = rankers[int(np.argmax(on_valid))]
        found = results.found["made", name, "svr:C=0.001|0.1|10"]
        assert found.outcome.best.setting == {"C": best.C}
        assert [trial.valid for trial in found.trials] == pytest.approx(on_valid)
        expected = mean_metric(test, best.predict(test.X), "map")
        assert results.fold_means("made", "svr:C=0.001|0.1|10")[int(name[-1]) - 1] == pytest.approx(
            expected
        )


def test_a_path_chooses_the_same_C_as_the_ranker_that_chooses(data):
    results = Study({"made": data}, {"l2": (RankSVM(), {"C": [0.001, 0.1, 10]})}, n_folds=3).run(
        n_processes=0
    )
    for name, train, valid, test in split(data, 3):
        ranker = RankSVMCV([0.001, 0.1, 10]).fit(train.X, train.y, train.qid, valid=valid)
        outcome = results.found["made", name, "l2"].outcome
        assert outcome.best.setting == {"C": ranker.C_}
        np.testing.assert_allclose(outcome.scores, ranker.predict(test.X), rtol=1e-9)
        assert [trial.setting["C"] for trial in outcome.trials] == [0.001, 0.1, 10]
        assert outcome.curve is not None
        assert outcome.weights.path.shape == (3, 6)


def test_sparsity_ratios_leave_out_features_that_are_zero_everywhere(data, tmp_path):
    """Laporte et al. (2014), §V-B: the study has the ratio of the ranker, from any file."""
    X = np.hstack([data.X, np.zeros((data.n_docs, 4))])
    data = RankingData(X, data.y, data.qid)
    method, ranker = "sparse:l1,C=2.0", SparseRankSVM(C=2.0, penalty="l1")
    for _ in range(2):  # the second study reads the results of the first
        study = Study({"made": data}, [method], n_folds=3)
        results = study.run(tmp_path / "a.sqlite", n_processes=0)
        expected = [
            ranker.fit(train.X, train.y, train.qid).sparsity_ratio_
            for _, train, *_ in split(data, 3)
        ]
        found = results.sparsity("made", method).tolist()
        assert found == expected == (results.used("made", method) / 6).tolist()
    assert 0 < expected[0] < 1


@pytest.mark.parametrize("names", [list("abcdef"), None])
def test_weights_have_the_names_of_the_data(data, names):
    named = RankingData(data.X, data.y, data.qid, feature_names=names, index_base=0)
    results = Study({"made": named}, ["ranksvm:C=0.1|1", "svr:C=1"], n_folds=3).run(n_processes=0)
    for found in results.found.values():
        assert found.outcome.weights.names == (names or list("012345"))


def test_values_of_queries_are_those_of_evaluate(data):
    results = Study({"made": data}, ["ranksvm:C=1"], metrics=["p@3"], n_folds=3).run(n_processes=0)
    values = results.per_query("made", "ranksvm:C=1", "p@3")
    assert values.shape == (24,)
    expected = []
    for _, train, _, test in split(data, 3):
        scores = fit_ranker(RankSVM(C=1), train).predict(test.X)
        expected.append(mean_metric(test, scores, "p@3"))
    np.testing.assert_allclose(results.fold_means("made", "ranksvm:C=1", "p@3"), expected)
    assert results.mean("made", "ranksvm:C=1", "p@3") == pytest.approx(np.mean(expected))
    assert len(results.queries("made")) == 24


@pytest.mark.parametrize("name", ["XGBRanker", "LGBMRanker", "Ridge"])
def test_rankers_of_other_libraries(data, name):
    if name == "XGBRanker":
        kind = pytest.importorskip("xgboost").XGBRanker
    elif name == "LGBMRanker":
        kind = pytest.importorskip("lightgbm").LGBMRanker
    else:
        from sklearn.linear_model import Ridge as kind
    options = {"verbose": -1} if name == "LGBMRanker" else {}
    few = data.replace(y=(data.y > np.median(data.y)).astype(float))
    grid = {"alpha": [1.0, 10.0]} if name == "Ridge" else {"n_estimators": [2, 4]}
    results = Study({"few": few}, {name: (kind(**options), grid)}, n_folds=3).run(n_processes=0)
    assert not results.missing
    assert 0.3 < results.mean("few", name) <= 1
    assert len(results.found["few", "Fold1", name].trials) == 2


def test_every_method_has_a_grid_of_its_parameters():
    assert GRIDS.keys() == METHODS.keys()
    for name in METHODS:
        entry = parse_entry(name)
        assert list(entry.settings())
        assert entry.follows_path == (GRIDS[name].get("C", ()) is None)


def test_values_in_a_text_replace_the_grid():
    assert list(parse_entry("svr:C=1").settings()) == [{}]
    assert not parse_entry("ranksvm:C=1").follows_path
    assert parse_entry("ranksvm:C=1|2").grid == {"C": [1, 2]}
    two = parse_entry("forest:min_samples_leaf=1|5,n_estimators=3|4")
    assert len(list(two.settings())) == 4
    scalars = entry_of("x", RankSVM(), {"max_iter": np.array([5, 7]), "C": np.ones(1)})
    assert [repr(setting) for setting in scalars.settings()] == [
        "{'max_iter': 5}", "{'max_iter': 7}"
    ]  # fmt: skip
    named = parse_entry("svr", "mine", {"C": [0.5]})
    assert (named.name, named.grid) == ("mine", {"C": [0.5]})


def test_lists_of_methods_and_metrics_are_also_texts():
    study = Study("set", "svr:C=1,loss=squared,sparse:log", metrics="map, p@5")
    assert [entry.name for entry in study.entries] == ["svr:C=1,loss=squared", "sparse:log"]
    assert study.metrics == ("ndcg@10", "map", "p@5")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: parse_entry("rankvsm"), "'rankvsm' is not known; did you mean ranksvm"),
        (lambda: parse_entry("RankSVM"), "did you mean ranksvm"),
        (lambda: parse_entry("sparse:lgo"), "'sparse:lgo': penalty is 'lgo'; known choices are"),
        (lambda: parse_entry("ranksvm:loss=huber|hubr"), "loss is 'hubr'"),
        (lambda: parse_entry("svr:epsilon=1"), "svr has no parameter 'epsilon'"),
        (lambda: entry_of("x", RankSVM(), {"D": [1]}), "'x' has no parameter 'D'"),
        (lambda: entry_of("x", RankSVM(), {"C": []}), "no values for 'C'"),
        (lambda: entry_of("x", LinearSVRRanker(), {"C": None}), "has None for 'C'; expected"),
        (lambda: entry_of("x", RankSVM(), {"C": 1.0}), r"expected a list .* such as \[1.0\]"),
        (lambda: entry_of("x", RankSVM(), {"loss": "huber"}), "expected a list"),
        (lambda: entry_of("x", RankSVM), r"Pass an object of it: RankSVM\(\)"),
        (lambda: Study("set", {"x": (RankSVM(),)}), "a tuple of 1; expected a ranker and"),
        (lambda: entry_of("x", object()), "has no fit"),
        (lambda: Study([], ["svr"]), "has no data"),
        (lambda: Study("set", []), "has no methods"),
        (lambda: Study(["a/x/set", "b/x/set"], ["svr"]), "two data sets have the name 'x/set'"),
        (
            lambda: Study([DataSet("x", "1"), DataSet("x", "2")], ["svr"]),
            "two data sets have the name 'x'",
        ),
        (lambda: Study("set", ["svr"], metric="nddcg@10"), "ndcg"),
        (lambda: Study("set", ["svr"], flavour="letor"), "flavour"),
        (lambda: ScoreFiles("x", "{folder}/a"), "other names in braces"),
    ],
)
def test_mistakes_have_a_sentence(make, sentence):
    with pytest.raises(DataError, match=sentence):
        make()


# Data sets and folds


def test_folds_of_a_file_are_those_of_letor(data):
    parts = list(split(data, 4))
    tests = [set(test.query_ids.tolist()) for _, _, _, test in parts]
    assert set().union(*tests) == set(data.query_ids.tolist())
    for k, (_, train, valid, test) in enumerate(parts):
        assert set(valid.query_ids.tolist()) == tests[(k + 1) % 4]
        everything = [*train.query_ids, *valid.query_ids, *test.query_ids]
        assert sorted(everything) == sorted(data.query_ids)
    with pytest.raises(DataError, match="at least 3 folds"):
        list(split(data, 2))


def test_a_folder_of_folds_and_one_fold(folder):
    assert list(list_folds(folder)) == ["Fold1", "Fold2", "Fold3"]
    assert list(list_folds(folder / "Fold2")) == ["Fold2"]
    assert list_folds(folder / "Fold2" / "train.txt") is None
    digests = [fold.digest for fold in DataSet("set", folder).folds()]
    assert len(set(digests)) == 3
    assert [fold.digest for fold in DataSet("x", folder / "Fold2").folds()] == [digests[1]]


def test_a_missing_part_is_named(folder):
    (folder / "Fold2" / "vali.txt").unlink()
    with pytest.raises(FileFormatError, match=r"Fold2: the fold has no validation file"):
        list(DataSet("set", folder).folds())
    (folder / "Fold2" / "train.txt").unlink()
    with pytest.raises(FileFormatError, match=r"Fold2: the fold has no training file"):
        list(DataSet("set", folder).folds())


def test_folds_with_other_features_are_refused(folder, data):
    _, *parts = next(split(data.replace(X=data.X[:, :5].copy(), feature_names=None), 3))
    for part, rows in zip(("train", "vali", "test"), parts, strict=True):
        write_letor(folder / "Fold3" / f"{part}.txt", rows)
    sentence = r"set: Fold2 has 6 features, but Fold3 has 5\..*--n-features 6"
    with pytest.raises(DataError, match=sentence):
        list(DataSet("set", folder).folds())
    folds = list(DataSet("set", folder, n_features=6).folds())
    assert {fold.train.n_features for fold in folds} == {6}


def test_parts_with_other_features_are_refused(data):
    _, train, valid, test = next(split(data, 3))
    less = test.replace(X=test.X[:, :4].copy(), feature_names=None)
    with pytest.raises(DataError, match="the test part has 4 features, but the training part has"):
        list(DataSet("set", [(train, valid, less)]).folds())
    for source in ([(train, valid)], (train, valid, test)):
        with pytest.raises(DataError, match=r"fold 1 is not a tuple.*'set': \[\(train"):
            list(DataSet("set", source).folds())


def test_queries_in_two_parts_are_named(data):
    _, train, valid, test = next(split(data, 3))
    both = np.flatnonzero(np.isin(data.qid, [*test.query_ids, train.query_ids[0]]))
    with pytest.raises(DataError, match=rf"share documents of the query: {train.query_ids[0]}\."):
        check_overlap("set, Fold1", train, valid, data.take(both))
    renamed = RankingData(train.X[:8], train.y[:8], ["other"] * 8)
    assert shared_queries(train, renamed) == ["other"]
    other = make_ranking(n_queries=8, docs_per_query=8, n_features=6, random_state=9)
    same_ids = RankingData(other.X, other.y, np.repeat(train.query_ids, 8))
    said = check_overlap("set, Fold1", train, valid, same_ids)
    assert "8 query ids are in the training and in the test part" in said
    with pytest.warns(SplitQueriesWarning, match="set, Fold1: 8 query ids"):
        list(DataSet("set", [(train, valid, same_ids)]).folds())


def test_frames_and_lists_of_files(folder, data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data.X, columns=[f"f{k}" for k in range(6)])
    frame = frame.assign(grade=data.y, query=data.qid)
    columns = {"label": "grade", "qid": "query"}
    (fold, *_) = DataSet("set", frame, 3, options=columns).folds()
    assert (fold.train.n_queries, fold.test.n_queries) == (8, 8)
    files = [folder / "Fold1" / f"{part}.txt" for part in ("train", "vali", "test")]
    (listed,) = DataSet("set", [files]).folds()
    (read, *_) = DataSet("set", folder).folds()
    assert listed.digest == read.digest


@pytest.mark.parametrize("part", ["X", "y", "weight", "query_ptr", "doc_ids", "dtype", "sparse"])
def test_the_hash_depends_on_everything(data, part):
    X = data.X.copy()
    X[0, 0] = np.nextafter(X[0, 0], 10)
    y = data.y.copy()
    y[0] += 1
    qid = data.qid.copy()
    qid[:8] = qid[8]
    changed = {
        "X": lambda: RankingData(X, data.y, data.qid),
        "y": lambda: RankingData(data.X, y, data.qid),
        "weight": lambda: RankingData(data.X, data.y, data.qid, sample_weight=1.0 + y),
        "query_ptr": lambda: RankingData(data.X, data.y, qid),
        "doc_ids": lambda: RankingData(
            data.X, data.y, data.qid, doc_ids=[str(k) for k in range(data.n_docs)]
        ),
        "dtype": lambda: RankingData(data.X.astype(np.float32), data.y, data.qid),
        "sparse": lambda: RankingData(sparse.csr_array(data.X), data.y, data.qid),
    }[part]()
    plain = RankingData(data.X, data.y, data.qid)
    assert digest_of([plain]) == digest_of([RankingData(data.X.copy(), data.y, data.qid)])
    assert digest_of([plain]) != digest_of([changed])


def test_keys_depend_on_what_is_learnt_only():
    def key(ranker=None, chooser=None, Cs=None, digest="d", metric="map", flavour="standard"):
        return key_of(ranker or RankSVM(), chooser, Cs, digest, Criterion(metric, flavour))

    assert key() == key(RankSVM(n_threads=2, verbose=True))
    others = [
        key(RankSVM(C=2.0)), key(RankSVM(loss="huber")), key(LinearSVRRanker()), key(digest="e"),
        key(chooser=RankSVMCV), key(chooser=RankSVMCV, Cs=(1.0,)), key(metric="ndcg@10"),
        key(flavour="letor4"), key(RankSVM(bounds=np.zeros((2, 6)))),
        key(RankSVM(bounds=np.ones((2, 6)))),
    ]  # fmt: skip
    assert len({key(), *others}) == 1 + len(others)


def test_rankers_without_a_seed_get_one_also_within_others(data):
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline

    (fold, *_) = DataSet("made", data, 3).folds()
    entry = entry_of("x", make_pipeline(RandomForestRegressor()))
    (job,) = plan(entry, fold, Criterion("map"), 1)
    assert job.ranker.get_params()["randomforestregressor__random_state"] == SEED
    assert entry.ranker.get_params()["randomforestregressor__random_state"] is None


def _scaled(factor):
    return lambda X: factor * X


def test_content_of_functions_and_nested_rankers():
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    def pipeline(function=np.log, **options):
        return make_pipeline(FunctionTransformer(function), Ridge(**options))

    contents = [
        pipeline(), pipeline(alpha=2.0), pipeline(np.exp), pipeline(_scaled(1)),
        pipeline(_scaled(2)), pipeline(partial(_scaled, 1)), pipeline(partial(_scaled, 2)),
        pipeline(lambda X: X), [Ridge(1.0)], [Ridge(2.0)], Ridge, ("a", 1), ["a", 1], {"a": 1},
    ]  # fmt: skip
    assert len({repr(content_of(one)) for one in contents}) == len(contents)
    assert content_of(pipeline(_scaled(1))) == content_of(pipeline(_scaled(np.int64(1))))
    with pytest.raises(DataError, match="cannot be pickled"):
        content_of(RankSVM(bounds=(x for x in [1])))


def test_keys_depend_on_the_code_of_a_ranker(monkeypatch, tmp_path):
    """Code counts by the version of its package, or by its source if there is none."""
    import sklearn
    from sklearn.linear_model import Ridge

    before = content_of(Ridge()), content_of(LambdaMARTRanker())
    with monkeypatch.context() as patch:
        patch.setattr(sklearn, "__version__", "0.1")
        assert content_of(Ridge()) != before[0]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "lightgbm", SimpleNamespace(__version__="0.1"))
        assert content_of(LambdaMARTRanker()) != before[1]
        assert package_versions(LambdaMARTRanker())["lightgbm"] == "0.1"
    assert (content_of(Ridge()), content_of(LambdaMARTRanker())) == before
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    # The files have other sizes, because Python finds bytecode by the time and size of a file.
    for body in ("return X[:, 0]", "return X[:, 1]  # second", "return X[:, 1]  # the third"):
        source = f"class Mine:\n    def predict(self, X):\n        {body}\n"
        (tmp_path / "my_ranker_of_a_study.py").write_text(source)
        linecache.clearcache()
        sys.modules.pop("my_ranker_of_a_study", None)
        found.append(content_of(importlib.import_module("my_ranker_of_a_study").Mine))
    assert found[0] != found[1] == found[2]


# Scores of other tools


def test_score_files_and_runs_are_methods(folder, data, tmp_path):
    own = Study({"set": folder}, ["ranksvm:C=1"]).run(n_processes=0)
    for fold in own.folds("set"):
        scores = own.found["set", fold, "ranksvm:C=1"].outcome.scores
        np.savetxt(tmp_path / f"set-{fold}.txt", scores, fmt="%.17g")
    files = ScoreFiles("other", str(tmp_path / "{data}-{fold}.txt"))
    both = Study({"set": folder}, {"own": "ranksvm:C=1", "other": files}).run(n_processes=0)
    np.testing.assert_array_equal(both.per_query("set", "own"), both.per_query("set", "other"))
    assert np.isnan(both.found["set", "Fold1", "other"].outcome.train_seconds)


def test_one_file_has_the_scores_of_data_that_are_split(data, tmp_path):
    mixed = np.random.default_rng(0).permutation(data.n_docs)
    whole = RankingData(data.X[mixed], data.y[mixed], data.qid[mixed])  # queries are not grouped
    np.savetxt(tmp_path / "set.txt", data.X[mixed, 0])
    for fold in DataSet("set", whole, 3).folds():
        outcome = outcome_of_scores(
            str(tmp_path / "set.txt"), fold.test, Criterion("ndcg@10"), fold.lines
        )
        np.testing.assert_array_equal(outcome.scores, fold.test.X[:, 0])
    other = ScoreFiles("other", str(tmp_path / "{data}.txt"))
    results = Study({"set": whole}, {"other": other}, n_folds=3).run(n_processes=0)
    expected = evaluate(whole.y, whole.X[:, 0], whole.qid, metrics="ndcg@10").mean["ndcg@10"]
    assert np.nanmean(results.per_query("set", "other")) == pytest.approx(expected)


def test_scores_of_a_run_are_matched_by_ids():
    ids = ["1", "2", "1", "2"]
    data = RankingData(np.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"], doc_ids=ids)
    run = run_of(data, np.array([3.0, 1.0, 2.0, 4.0]))
    assert scores_of_run(run, data).tolist() == [3, 1, 2, 4]
    less = Run(["b", "a"], ["2", "1"], [5.0, -3.0])
    np.testing.assert_equal(scores_of_run(less, data), [-3, np.nan, np.nan, 5])
    with pytest.raises(DataError, match="no document of the query b"):
        scores_of_run(Run(["a"], ["1"], [1.0]), data)


# The store of results


def test_a_finished_study_is_not_repeated(folder, tmp_path):
    file = tmp_path / "study.sqlite"
    news = _News()
    first = Study(folder, ["svr", "adarank:map"]).run(file, n_processes=0, progress=news)
    assert (len(news.ended), news.n_done) == (27, 0)
    assert not Path(f"{file}.parts").exists()
    news = _News()
    again = Study(folder, ["svr", "adarank:map"]).run(file, n_processes=0, progress=news)
    assert (len(news.ended), news.n_done) == (0, 27)
    assert _values(first) == _values(again)
    news = _News()
    more = Study(folder, ["svr", "ranksvm:C=1", "adarank:map"]).run(
        file, n_processes=0, progress=news
    )
    assert [done.job.method for done in news.ended] == ["ranksvm:C=1"] * 3
    assert _values(more).items() > _values(first).items()
    news = _News()
    Study(folder, ["adarank:map"], metric="map").run(file, n_processes=0, progress=news)
    assert len(news.ended) == 3  # another metric chooses other settings


def test_runs_that_methods_share_are_done_once(folder):
    news = _News()
    methods = {"a": "svr:C=1|1.0|1", "b": "svr:C=1", "c": "svr:C=2"}
    results = Study({"x": folder, "y": folder}, methods).run(n_processes=0, progress=news)
    assert len(news.ended) == 3 * 3  # C=1, C=1.0 and C=2 on three folds
    np.testing.assert_array_equal(results.per_query("x", "a"), results.per_query("y", "b"))
    assert len(results.found["x", "Fold1", "a"].trials) == 2


def test_a_failed_run_is_missing_for_each_method_that_needs_it(data):
    results = Study({"made": data}, {"a": _Failing(), "b": _Failing()}, n_folds=3).run(
        n_processes=0
    )
    assert [(one.fold, one.method) for one in results.missing] == [
        (f"Fold{k}", method) for k in (1, 2, 3) for method in ("a", "b")
    ]


class _FirstFeature(BaseEstimator):
    def fit(self, X, y):
        return self

    def predict(self, X):
        return X[:, 0]


class _Failing(_FirstFeature):
    def fit(self, X, y):
        raise ValueError("no luck")


def _values(results):
    return {
        (data, method): tuple(map(repr, results.per_query(data, method).tolist()))
        for data in results.data_sets for method in results.methods
    }  # fmt: skip


class _News:
    def __init__(self):
        self.ended, self.n_done = [], None

    def reading(self, data):
        pass

    def planned(self, jobs, stored):
        self.n_done = len(stored)

    def started(self, job):
        pass

    def finished(self, done):
        self.ended.append(done)


@pytest.mark.parametrize("method", ["ranksvm:C=0.1|1", "lambdamart:n_estimators=3"])
def test_stored_outcomes_are_those_of_the_run(data, tmp_path, method):
    with ResultStore(tmp_path / "a.sqlite") as store:
        news = _News()
        Study({"made": data}, [method], n_folds=3).run(
            tmp_path / "a.sqlite", n_processes=0, progress=news
        )
        for done in news.ended:
            stored = store.get(done.job)
            assert stored.trials == done.outcome.trials
            np.testing.assert_array_equal(stored.scores, done.outcome.scores)
            assert (stored.weights is None) == (done.outcome.weights is None)
            if stored.weights is not None:
                np.testing.assert_array_equal(stored.weights.path, done.outcome.weights.path)
                np.testing.assert_array_equal(stored.curve.objective, done.outcome.curve.objective)
            plain = ("n_used", "train_seconds", "notes", "chosen", "n_features")
            assert [getattr(stored, n) for n in plain] == [getattr(done.outcome, n) for n in plain]


def test_other_files_are_refused(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, but long enough to look at" * 10)
    with pytest.raises(FileFormatError, match=r"text\.sqlite: not a file of results"):
        ResultStore(text)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(FileFormatError, match="an SQLite file of another program"):
        ResultStore(other)
    newer = tmp_path / "newer.sqlite"
    ResultStore(newer).__exit__(None, None, None)
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(FileFormatError, match="written by a newer linrank"):
        ResultStore(newer)
    with pytest.raises(StoreFailed, match="cannot be stored"):
        ResultStore(tmp_path / "no such folder" / "study.sqlite")


# Faults


def test_runs_that_cannot_be_stored_are_kept_in_memory(data, tmp_path, monkeypatch):
    """SQLite says that the disk is full, as it does when the limit of its pages is reached."""

    def prepare(self, whole=ResultStore._prepare):
        whole(self)
        (n_pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        self._connection.execute(f"PRAGMA max_page_count = {n_pages + 4}")

    file = tmp_path / "full.sqlite"
    expected = Study({"made": data}, ["svr"], n_folds=3).run(n_processes=0)
    with monkeypatch.context() as patch:
        patch.setattr(ResultStore, "_prepare", prepare)
        results = Study({"made": data}, ["svr"], n_folds=3).run(file, n_processes=0)
    assert _values(results) == _values(expected)
    full, lost = results.problems
    assert "full.sqlite: results cannot be stored" in full
    assert "finished runs are in this report but not in" in lost
    news = _News()
    again = Study({"made": data}, ["svr"], n_folds=3).run(file, n_processes=0, progress=news)
    assert 0 < len(news.ended) < 24  # those that were stored are not repeated
    assert _values(again) == _values(expected)


@pytest.mark.parametrize("fault", ["error", "memory", "killed", "shape"])
def test_a_method_that_fails_on_one_fold_is_missing_there(data, fault):
    unlucky = next(split(data, 3))[1].y.sum()

    class Faulty(BaseEstimator):
        def __init__(self, fault="", bad=0.0):
            self.fault, self.bad = fault, bad

        def fit(self, X, y, qid=None):
            self.is_bad_ = abs(y.sum() - self.bad) < 1e-9
            if self.is_bad_ and self.fault == "error":
                raise ValueError("no luck\ntoday")
            if self.is_bad_ and self.fault == "memory":
                raise MemoryError
            if self.is_bad_ and self.fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            return self

        def predict(self, X):
            return X[:, :2] if self.is_bad_ and self.fault == "shape" else X[:, 0]

    methods = {"faulty": Faulty(fault, unlucky), "svr": "svr:C=1"}
    results = Study({"made": data}, methods, n_folds=3).run(n_processes=2)
    (missing,) = results.missing
    assert (missing.data, missing.fold, missing.method) == ("made", "Fold1", "faulty")
    assert {
        "error": "ValueError: no luck today", "memory": "not enough memory",
        "killed": "process was killed", "shape": "expected one score for each",
    }[fault] in missing.reason  # fmt: skip
    assert np.isnan(results.fold_means("made", "faulty")).tolist() == [True, False, False]
    assert not np.isnan(results.fold_means("made", "svr")).any()


def test_a_ranker_that_cannot_be_unpickled_is_missing(data):
    class Unreadable(_FirstFeature):
        def __setstate__(self, state):
            raise ValueError("unreadable")

    methods = {"unreadable": Unreadable(), "svr": "svr:C=1"}
    results = Study({"made": data}, methods, n_folds=3).run(n_processes=1)
    assert {one.method for one in results.missing} == {"unreadable"}
    assert "cannot unpickle its ranker" in results.missing[0].reason


def test_a_process_that_ends_between_two_runs_is_replaced(data, monkeypatch):
    """The next run is sent when the executor has noticed the end, however long that takes."""
    lanes, new_lane = [], study_lanes._new_executor

    def recorded():
        lanes.append(new_lane())
        return lanes[-1]

    class Killing(_News):
        def finished(self, done):
            super().finished(done)
            if len(self.ended) == 2:
                for pid in list(lanes[-1]._processes):
                    os.kill(pid, signal.SIGKILL)
                wait_for(lambda: lanes[-1]._flags.broken is not None)

    monkeypatch.setattr(study_lanes, "_new_executor", recorded)
    methods = {"first": _FirstFeature(), "svr": "svr:C=1"}
    results = Study({"made": data}, methods, n_folds=3).run(n_processes=1, progress=Killing())
    assert not results.missing
    assert len(results.found) == 6
    assert len(lanes) == 2


def test_two_studies_at_once_do_not_share_results(data, tmp_path):
    file = tmp_path / "a.sqlite"
    with Workspace(file):
        with pytest.raises(DataError, match=r"a\.sqlite: another study writes its results"):
            Study({"made": data}, ["svr:C=1"], n_folds=3).run(file, n_processes=0)
        assert Path(f"{file}.parts").exists()
    results = Study({"made": data}, ["svr:C=1"], n_folds=3).run(file, n_processes=0)
    assert not results.missing
    assert not results.problems
    assert not Path(f"{file}.parts").exists()


def test_the_folder_of_parts_is_removed_before_another_study_may_use_it(tmp_path, monkeypatch):
    file, removed = tmp_path / "a.sqlite", []

    def remove(folder, whole=shutil.rmtree, **options):
        with pytest.raises(DataError, match="another study writes"), Workspace(file):
            pass
        whole(folder, **options)
        removed.append(folder)

    monkeypatch.setattr(shutil, "rmtree", remove)
    with Workspace(file):
        assert Path(f"{file}.parts").exists()
    monkeypatch.undo()
    assert removed == [Path(f"{file}.parts")]
    assert not removed[0].exists()


def test_parts_without_room_are_written_elsewhere(data, tmp_path):
    file = tmp_path / "a.sqlite"
    Path(f"{file}.parts").write_text("in the way")
    results = Study({"made": data}, ["svr:C=1"], n_folds=3).run(file, n_processes=0)
    assert not results.missing
    (problem,) = results.problems
    assert "a.sqlite.parts: cannot be used" in problem


SCRIPT = """
from linrank import make_ranking
from linrank.study import Study

data = make_ranking(n_queries=40, docs_per_query=10, n_features=8, random_state=3)
methods = ["ranksvm", "svr", "sparse:log", "rankboost:n_rounds=5|10", "adarank"]
Study({{"made": data}}, methods, n_folds=3).run({file!r}, n_processes=2)
print("done")
"""


@pytest.mark.slow
def test_killed_at_random_moments_a_study_ends_in_the_same_results(tmp_path):
    def start(file):
        code = textwrap.dedent(SCRIPT).format(file=str(file))
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)

    whole, broken = tmp_path / "whole.sqlite", tmp_path / "broken.sqlite"
    assert start(whole).communicate(timeout=PATIENCE)[0] == "done\n"
    moments = random.Random(0)
    for _ in range(10):
        process = start(broken)
        time.sleep(moments.uniform(0.5, 4.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert start(broken).communicate(timeout=PATIENCE)[0] == "done\n"
    assert _rows(whole) == _rows(broken)
    assert not Path(f"{broken}.parts").exists()


def _rows(file):
    """Return what was learnt: keys, places, settings, trials without seconds, and scores."""
    question = "SELECT key, data, fold, method, setting, content, arrays FROM run"
    with closing(sqlite3.connect(file)) as connection:
        return {
            tuple(place): (
                [[*trial.values()][:4] for trial in json.loads(content)["trials"]],
                np.load(io.BytesIO(arrays))["scores"].tolist(),
            )
            for *place, content, arrays in connection.execute(question)
        }


def test_processes_end_with_their_parent(tmp_path):
    """A killed study leaves no processes behind."""
    code = (
        textwrap.dedent(SCRIPT)
        .format(file=str(tmp_path / "a.sqlite"))
        .replace('"adarank"', '"forest:n_estimators=3000"')
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: len(_children(process.pid)) > 1)  # a worker beside loky's resource tracker
    children = _children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not any(map(_is_alive, children)))


def _children(pid):
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in found]


def _is_alive(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_ranker_without_a_repr_is_named_by_its_class():
    class Mine:
        fit = predict = None

        def get_params(self, deep=True):
            return {}

        def set_params(self):
            return self

    known = [Mine(), RankSVM(C=2.0)]
    assert next(entry.name for entry in Study("set", known).entries) == "Mine"
    with pytest.raises(DataError, match="is the class RankSVM"):
        _ = Study("set", [RankSVM]).entries
