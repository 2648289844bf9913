"""Studies with methods that misbehave: they fail alone and do not change the results of others."""

import ctypes
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from commandline import PATIENCE, wait_for
from linrank import Qrels, RankingData, Run, evaluate_run, make_ranking, read_run, write_run
from linrank.errors import DataError
from linrank.study import DataSet, ScoreFiles, Study, parse_entry
from linrank.study.analysis import Analysis
from linrank.study.folds import split
from linrank.study.protocol import entry_of, key_of, plan
from linrank.study.results import ResultStore, StoreFailed
from linrank.study.study import Workspace
from linrank.study.study_page import small_sentences
from linrank.training.selection import Criterion


@pytest.fixture
def data():
    return make_ranking(n_queries=24, docs_per_query=8, n_features=6, random_state=3)


class Odd(BaseEstimator):
    """Least squares with a bad habit."""

    def __init__(self, habit=""):
        self.habit = habit

    def fit(self, X, y):
        if self.habit == "exit":
            sys.exit(3)
        if self.habit == "interrupt":
            raise KeyboardInterrupt
        if self.habit == "unpicklable error":
            raise NeedsTwo("one", "two")
        if self.habit == "labels":
            y[:] = 0.0
        if self.habit == "folder":
            os.chdir("/")
        self.coef_ = np.linalg.lstsq(X, y, rcond=None)[0]
        if self.habit == "random":
            self.coef_ = np.random.randn(X.shape[1]) + random.random()  # noqa: NPY002
        return self

    def predict(self, X):
        return X @ self.coef_


class NeedsTwo(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


@pytest.mark.parametrize(
    ("habit", "reason", "n_processes"),
    [
        ("exit", "SystemExit: 3", 1),
        ("exit", "SystemExit: 3", 0),
        ("interrupt", "KeyboardInterrupt", 1),
        ("unpicklable error", "NeedsTwo: one and two", 1),
    ],
)
def test_no_error_of_a_method_ends_the_study(data, habit, reason, n_processes):
    methods = {"odd": Odd(habit), "svr": "svr:C=1"}
    results = Study({"made": data}, methods, n_folds=3).run(n_processes=n_processes)
    assert [(one.method, reason in one.reason) for one in results.missing] == [("odd", True)] * 3
    assert not np.isnan(results.fold_means("made", "svr")).any()


def test_ctrl_c_in_the_process_of_the_study_ends_it(data):
    with pytest.raises(KeyboardInterrupt):
        Study({"made": data}, {"odd": Odd("interrupt")}, n_folds=3).run(n_processes=0)


@pytest.mark.parametrize("n_processes", [0, 1])
def test_a_method_that_changes_labels_or_its_folder_does_not_change_others(
    data, tmp_path, monkeypatch, n_processes
):
    monkeypatch.chdir(tmp_path)
    alone = Study({"made": data}, {"good": Odd()}, n_folds=3).run(n_processes=0)
    methods = {"labels": Odd("labels"), "folder": Odd("folder"), "good": Odd()}
    results = Study({"made": data}, methods, n_folds=3).run("a.sqlite", n_processes=n_processes)
    monkeypatch.chdir(tmp_path)
    assert not results.missing
    assert results.mean("made", "good") == alone.mean("made", "good")


def test_random_numbers_do_not_depend_on_the_runs_before(data):
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    found = [
        Study({"made": data}, methods, n_folds=3).run(n_processes=0)
        for methods in ({"r": Odd("random"), "svr": "svr"}, {"svr": "svr", "r": Odd("random")})
    ]
    assert found[0].fold_means("made", "r").tolist() == found[1].fold_means("made", "r").tolist()
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_seeds_within_pipelines_are_set(data):
    entry = entry_of("pipeline", make_pipeline(StandardScaler(), SGDRegressor()))
    (job,) = plan(entry, next(DataSet("made", data).folds()), Criterion(), 1)
    assert job.ranker.get_params()["sgdregressor__random_state"] == 0


HANGING = """
import ctypes, os
from pathlib import Path
from sklearn.base import BaseEstimator
from linrank import make_ranking
from linrank.study import Study

class Hanging(BaseEstimator):
    def fit(self, X, y):
        Path(PLACE).write_text(str(os.getpid()))
        ctypes.PyDLL(None).sleep(600)  # with the interpreter lock

    def predict(self, X):
        return X[:, 0]

Study({"made": make_ranking(random_state=0)}, {"h": Hanging()}, n_folds=3).run(n_processes=1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no prctl")
def test_a_method_that_hangs_in_c_ends_with_the_study(tmp_path):
    place = tmp_path / "pid"
    code = f"PLACE = {str(place)!r}\n" + HANGING
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    wait_for(lambda: place.exists() and place.read_text())
    worker = psutil.Process(int(place.read_text()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    psutil.wait_procs([worker], timeout=PATIENCE)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


# Keys


def _key(ranker):
    return key_of(ranker, None, None, "d", Criterion())


def _make(sign):
    """Return classes of the same name with other code."""
    if sign > 0:

        class Ranker(BaseEstimator):
            def predict(self, X):
                return X[:, 0]

    else:

        class Ranker(BaseEstimator):
            def predict(self, X):
                return -X[:, 0]

    return Ranker


def _add(k):
    return lambda x: x + k


def test_classes_and_functions_are_told_apart_by_their_code():
    assert _key(_make(1)()) == _key(_make(1)())
    assert _key(_make(1)()) != _key(_make(-1)())
    one, same, other = (
        make_pipeline(FunctionTransformer(function), SGDRegressor())
        for function in (lambda x: x + 1, lambda x: x + 1, lambda x: x + 2)
    )
    assert _key(one) == _key(same) != _key(other)
    one, same, other = (FunctionTransformer(_add(k)) for k in (1, 1, 2))
    assert _key(one) == _key(same) != _key(other)


def test_parameters_that_cannot_be_described_have_a_sentence():
    ranker = FunctionTransformer(kw_args={"library": ctypes.CDLL(None)})
    with pytest.raises(
        DataError, match=r"a ranker of a study has the parameter .* which cannot be pickled"
    ):
        _key(ranker)


def test_equal_runs_are_done_once_and_reported_for_each_method(data):
    bad = Odd("exit")
    methods = {"a": parse_entry("svr:C=1"), "b": parse_entry("svr:C=1"), "x": bad, "y": bad}
    done = []

    class News:
        def reading(self, data): ...
        def planned(self, jobs, stored): ...
        def started(self, job): ...

        def finished(self, one):
            done.append(one)

    study = Study({"one": data, "two": data}, methods, n_folds=3)
    results = study.run(n_processes=0, progress=News())
    assert len(done) == 6
    assert results.methods == ["a", "b", "x", "y"]
    assert {(one.data, one.method) for one in results.missing} == {
        (name, method) for name in ("one", "two") for method in "xy"
    }
    assert results.mean("one", "a") == results.mean("two", "b")


def test_settings_of_numpy_are_stored_as_numbers(data):
    methods = {"boost": ("rankboost", {"n_rounds": np.arange(2, 4)})}
    results = Study({"made": data}, methods, n_folds=3).run(n_processes=0)
    trials = results.found["made", "Fold1", "boost"].trials
    assert [trial.setting for trial in trials] == [{"n_rounds": 2}, {"n_rounds": 3}]


# Data and files


def test_scores_of_a_file_with_mixed_queries_are_in_its_order(data, tmp_path):
    rows = np.random.default_rng(0).permutation(data.n_docs)
    X, y, qid = data.X[rows], data.y[rows], data.qid[rows]
    mixed = RankingData(X, y, qid)
    for name, _, _, test in split(mixed, 3):
        np.savetxt(tmp_path / f"{name}.txt", X[np.isin(qid, test.query_ids), 0])

    class First(BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return X[:, 0]

    methods = {"first": First(), "file": ScoreFiles("file", str(tmp_path / "{fold}.txt"))}
    results = Study({"mixed": mixed}, methods, n_folds=3).run(n_processes=0)
    first, file = (results.per_query("mixed", method) for method in methods)
    np.testing.assert_allclose(file, first)


@pytest.mark.parametrize("flavour", ["trec", "standard"])
def test_documents_that_a_run_lacks_count_as_not_found(data, tmp_path, flavour):
    ids = [f"D{k}" for k in range(data.n_docs)]
    data = RankingData(data.X, data.y, data.qid, doc_ids=ids)
    rows = np.flatnonzero(np.random.default_rng(0).random(data.n_docs) < 0.5)
    qid = list(map(str, data.qid.tolist()))
    run = Run([qid[k] for k in rows], [ids[k] for k in rows], data.X[rows, 1])
    write_run(tmp_path / "other.run", run)
    metrics = ["map", "ndcg@5", "domination-error"]
    methods = {"other": ScoreFiles("other", str(tmp_path / "other.run"))}
    results = Study({"made": data}, methods, "map", metrics, flavour, n_folds=3).run(n_processes=0)
    expected = evaluate_run(Qrels(qid, ids, data.y), run, metrics, flavour=flavour)
    order = [query for _, query in results.queries("made")]
    for metric in metrics:
        known = dict(zip(map(str, expected.query_ids), expected.per_query[metric], strict=True))
        found = results.per_query("made", "other", metric)
        np.testing.assert_allclose(found, [known[query] for query in order])
    assert "count as not found" in results.found["made", "Fold1", "other"].outcome.notes[0]
    results.runs(tmp_path / "runs")
    written = [read_run(path) for path in (tmp_path / "runs").glob("*/*/other.run")]
    assert sum(len(one.doc_ids) for one in written) == len(rows)


def test_data_with_listed_pairs_are_refused(data):
    pairs = RankingData.from_pairs(data.X, [[0, 1], [2, 3]])
    with pytest.raises(DataError, match="made: the data have listed pairs instead of labels"):
        Study({"made": pairs}, ["svr:C=1"], n_folds=3).run(n_processes=0)


def test_runs_are_stored_at_the_end_if_there_is_room_again(data, tmp_path, monkeypatch):
    add, n_calls = ResultStore.add, []

    def refuse_some(self, job, outcome):
        n_calls.append(job)
        if len(n_calls) <= 2:
            raise StoreFailed("full")
        add(self, job, outcome)

    monkeypatch.setattr(ResultStore, "add", refuse_some)
    file = tmp_path / "a.sqlite"
    results = Study({"made": data}, ["svr:C=1"], n_folds=3).run(file, n_processes=0)
    assert not results.problems
    with ResultStore(file) as store:
        assert len(store.known(n_calls)) == 3


def test_the_parts_are_removed_while_they_are_locked(tmp_path, monkeypatch):
    found = []

    def remove(folder, ignore_errors=False):
        with pytest.raises(DataError, match="another study writes"), Workspace(tmp_path / "a"):
            pass
        found.append(Path(folder))

    monkeypatch.setattr("linrank.study.study.shutil.rmtree", remove)
    with Workspace(tmp_path / "a"):
        pass
    assert found == [tmp_path / "a.parts"]


def test_metrics_that_weight_queries_have_a_sentence(data):
    study = Study({"made": data}, ["svr:C=1"], "pairwise-accuracy", ["map"], n_folds=3)
    said = " ".join(small_sentences(Analysis(study.run(n_processes=0))))
    assert "pairwise-accuracy: each query counts once in tables and tests." in said
    assert "map" not in said
