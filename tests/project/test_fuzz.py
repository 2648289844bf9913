"""The campaigns of `make fuzz` notice what they are for."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzz import damage, forks, frames, models, results, sentences, table_files, tables
from fuzz.campaign import Case
from fuzz.lines import difference, fast_data, slow_rows
from fuzz.optimum import TABLES, SlowProblem, solve
from fuzz.scenarios import Done

import reference
from commandline import PATIENCE
from linrank import DataError, LinearModel, RankingData, load, read_letor
from linrank._util.files import temporary_folder
from linrank.study.results import ResultStore
from problems import make_problem_arrays

TEXT = b"2 qid:1 1:0.5 3:2 # A\n0 qid:2 2:-1e-3\n1 qid:1 1:.5 #B\n"


@pytest.fixture
def data(tmp_path) -> RankingData:
    (tmp_path / "data.txt").write_bytes(TEXT)
    return read_letor(tmp_path / "data.txt")


def test_the_same_documents_are_the_same(data):
    assert difference(data, slow_rows(TEXT, single=False), single=False) is None


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (TEXT.replace(b"0.5", b"0.6"), "other features"),
        (TEXT.replace(b"2 qid", b"3 qid"), "other labels"),
        (TEXT.replace(b"qid:2", b"qid:3"), "other query ids"),
        (TEXT.replace(b"#B", b"#C"), "other comments"),
        (TEXT + b"x\n", "refused by the slow parser"),
    ],
)
def test_other_documents_are_noticed(data, other, what):
    assert difference(data, slow_rows(other, single=False), single=False) == what
    assert "linrank" in difference(None, slow_rows(TEXT, single=False), single=False)


def test_a_refusal_must_be_a_sentence():
    from linrank import FileFormatError

    def refuse():
        raise FileFormatError("two\nlines")

    with pytest.raises(AssertionError, match="not one line"):
        fast_data(refuse)


def make_case(folder, state=None) -> Case:
    return Case(0, np.random.default_rng(0), folder, state)


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (DataError("X is empty; expected rows"), True),
        (DataError("two\nlines"), False),
        (ValueError("raised here, and not by linrank"), False),
        (MemoryError(), False),
    ],
)
def test_only_a_sentence_is_a_refusal(tmp_path, error, is_refusal):
    def refuse():
        raise error

    case = make_case(tmp_path)
    assert sentences.tried(case, "a call", refuse) is None
    assert bool(case.complaints) is not is_refusal
    assert sentences.tried(case, "a call", pow, 2, 3) == 8


class FirstFeature:
    """Stands for a ranker of the features a and b, whose score is the first of them."""

    def __init__(self, by_name):
        self.by_name = by_name

    def predict(self, X):
        if X.shape[1] != 2:
            raise DataError("X has one feature; expected two")
        if self.by_name and isinstance(X, pd.DataFrame):
            X = X[["a", "b"]]
        return np.asarray(X)[:, 0]

    def rank(self, X, qid):
        return self.predict(X)


@pytest.mark.parametrize("by_name", [True, False])
def test_columns_that_are_taken_by_place_are_noticed(tmp_path, monkeypatch, by_name):
    monkeypatch.setattr(frames, "FORMS", ["pandas"])
    rng = np.random.default_rng(0)
    columns = [frames.make_column("float64", rng.standard_normal(8), rng) for _ in "ab"]
    table = frames.Table(["a", "b"], ["float64"] * 2, columns)
    case = make_case(tmp_path)
    frames.check_scores(case, "", table, FirstFeature(by_name), FirstFeature(True), False)
    assert bool(case.complaints) is not by_name


@pytest.mark.parametrize("form", [form for form in frames.FORMS if form != "array"])
def test_all_forms_of_a_table_have_the_same_numbers(form):
    rng = np.random.default_rng(0)
    kinds = ["float64", "bool", "int64"]
    columns = [frames.make_column(kind, np.array([1.5, -2.0]), rng) for kind in kinds]
    found = frames.Table(["a", 7, "c"], kinds, columns).take([2, 0]).form(form)
    frame = pd.DataFrame(found) if form in ("dicts", "mapping", "records") else found
    rows = frame.to_numpy() if hasattr(frame, "to_numpy") else frame.to_pandas().to_numpy()
    assert rows.tolist() == [[2.0, 1.5], [-2.0, -2.0]]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["7", "-16", "0"], [7, -16, 0]),
        (["7", "07"], ["7", "07"]),
        (["-0"], ["-0"]),
        (["+7"], ["+7"]),
        (["1_0"], ["1_0"]),
        (["0x10"], ["0x10"]),
        (["\u0667"], ["\u0667"]),
        (["7\x00"], ["7\x00"]),
        ([str(2**63 - 1), str(-(2**63))], [2**63 - 1, -(2**63)]),
        ([str(2**63)], [str(2**63)]),
    ],
)
def test_ids_are_integers_only_in_their_canonical_form(ids, expected):
    assert reference.ids_of_texts(ids) == expected


@pytest.mark.parametrize("name", tables.WRITERS)
def test_merged_queries_are_noticed_in_every_format(tmp_path, name):
    ids, y, x = ["a", "b", "a"], np.array([1.0, 0.0, 2.0]), np.array([0.5, 1.0, 2.0])
    tables.WRITERS[name](tmp_path / name, y, ids, x)
    data, case = load(tmp_path / name), make_case(tmp_path)
    tables.check_queries(case, name, data, ids)
    assert case.complaints == []
    tables.check_queries(case, name, data, ["a", "b", "c"])
    tables.check_queries(case, name, None, ids)
    assert len(case.complaints) == 3  # another id, another number of queries, and a refusal


def test_other_scores_of_damaged_tables_are_noticed(tmp_path):
    data = RankingData(np.arange(12.0).reshape(2, 6), [1, 0], feature_names=list("abcdéf"))
    table_files.write_tables(tmp_path, data)
    coef, expected = np.arange(6.0), data.X @ np.arange(6.0)
    for kind in damage.KINDS:
        if kind.name.endswith(("parquet", "arrow", "csv")):
            clean, case = damage.Clean(tmp_path, coef, expected), make_case(tmp_path)
            case.state = clean
            for error in (0.0, 1.0):
                printed = "\n".join(map(str, expected + error))
                damage.check_scores(case, kind.name, kind, tmp_path / kind.name, printed)
                assert len(case.complaints) == error, kind.name


@pytest.mark.parametrize("change", sorted(set(models.DAMAGE), key=lambda one: one.__name__))
def test_model_files_are_changed_and_refused_or_used(tmp_path, change):
    LinearModel([1.0, -1.0], feature_names=["a", "b"], settings={"C": 1.0}).save(tmp_path / "a")
    text = (tmp_path / "a").read_text()
    changed = change(np.random.default_rng(0), text)
    assert changed != text
    case = make_case(tmp_path, models.Models([], tmp_path, np.eye(2)))
    models.use(case, "", tmp_path / "a")
    assert case.complaints == []


def test_models_that_fail_after_they_were_loaded_are_noticed(tmp_path, monkeypatch):
    LinearModel([1.0, -1.0]).save(tmp_path / "a")
    case = make_case(tmp_path, models.Models([], tmp_path, np.eye(2)))
    monkeypatch.setattr(LinearModel, "__repr__", lambda model: "x" * (1 << 62))
    monkeypatch.setattr(LinearModel, "predict", lambda model, X, qid: np.array([np.nan]))
    models.use(case, "", tmp_path / "a")
    assert {text.split(":")[1].strip() for text in case.complaints} == {
        "shown", "scores that are not finite",
    }  # fmt: skip
    monkeypatch.setattr(models, "BUDGET", -1.0)
    assert models.timed(case, "a call", pow, 2, 3) == 8
    assert "CPU time" in case.complaints[-1]


@pytest.mark.parametrize(
    ("done", "interrupted", "is_wrong"),
    [
        (Done(2, "error: study.sqlite: damaged\n"), False, False),
        (Done(2, "6 of 6 runs are stored already\nerror: study.sqlite: damaged\n"), False, False),
        (Done(2, "error: one\nerror: two\n"), False, True),
        (Done(2, "error: there is not enough memory\n"), False, True),
        (Done(1, "Traceback (most recent call last):\n  …\nTypeError: None\n"), False, True),
        (Done(130, "interrupted\n"), True, False),
        (Done(130, "interrupted\n"), False, True),
        (Done(-signal.SIGKILL, ""), True, True),
    ],
)
def test_ends_of_studies_are_judged(tmp_path, done, interrupted, is_wrong):
    case = make_case(tmp_path)
    results.judge(case, "", tmp_path, done, interrupted)
    assert bool(case.complaints) is is_wrong


@pytest.fixture
def stored(tmp_path) -> Path:
    """A file of results with two runs."""
    path = tmp_path / results.FILE
    with ResultStore(path):
        np.savez(tmp_path / "arrays.npz", scores=np.arange(3.0))
    content, arrays = json.dumps({"chosen": 0}), (tmp_path / "arrays.npz").read_bytes()
    with closing(sqlite3.connect(path)) as connection, connection:
        for key in "ab":
            row = (key, "data", "1", "svm", "{}", content, arrays, "", '{"numpy": "2"}')
            connection.execute(f"INSERT INTO run VALUES ({', '.join('?' * 9)})", row)
    return path


@pytest.mark.parametrize("edit", sorted(set(results.EDITS), key=lambda one: one.__name__))
def test_results_are_edited(stored, edit):
    before, found = stored.read_bytes(), set()
    for seed in range(20):
        stored.write_bytes(before)
        assert edit(np.random.default_rng(seed), stored)
        found.add(stored.read_bytes())
    assert len(found - {before}) > 2


@pytest.mark.parametrize("name", results.SCHEMAS)
def test_tables_of_results_are_changed(stored, name):
    before = stored.read_bytes()
    results._execute(stored, *results.SCHEMAS[name])
    assert stored.read_bytes() != before


@pytest.mark.parametrize("ignores", [True, False])
def test_a_study_that_hangs_is_noticed(tmp_path, monkeypatch, ignores):
    class Sleeper:
        pid = 0

        def wait(self, begin):
            return Done(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), "")

    monkeypatch.setattr(results, "HANGS", 0.2)
    monkeypatch.setattr(results, "GRACE", 0.2 if ignores else PATIENCE)
    action = signal.SIG_IGN if ignores else signal.SIG_DFL
    before = signal.signal(signal.SIGINT, action)  # the child process inherits it
    try:
        process = subprocess.Popen(["sleep", "600"])
    finally:
        signal.signal(signal.SIGINT, before)
    case, sleeper = make_case(tmp_path), Sleeper()
    sleeper.pid = process.pid
    results.wait(case, "a study", sleeper)
    process.returncode = 0  # the campaign has waited for it
    assert case.complaints == ["a study: hangs" + (", even after SIGINT" if ignores else "")]


@pytest.mark.parametrize("trouble", [None, "other scores", "hangs"])
def test_children_that_hang_or_err_are_noticed(tmp_path, monkeypatch, trouble):
    parent = os.getpid()

    class Fitted:
        def fit(self, X, y, qid):
            if os.getpid() != parent and trouble == "hangs":
                signal.pause()
            return self

        def predict(self, X):
            return np.zeros(2) + (os.getpid() != parent and trouble == "other scores")

    monkeypatch.setattr(forks, "RANKERS", {"Fitted": Fitted})
    monkeypatch.setattr(forks, "FORKS", 1)
    if trouble == "hangs":
        monkeypatch.setattr(forks, "HANGS", 1)
    case = make_case(tmp_path, (RankingData([[1.0], [2.0]], [1, 0]), {"Fitted": np.zeros(2)}))
    forks.run(case)
    assert bool(case.complaints) is (trouble is not None)
    assert trouble != "hangs" or "hangs" in case.complaints[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number"), [("frames", 0), ("tables", 0), ("models", 0), ("results", 0), ("forks", 0)]
)
def test_a_case_of_each_campaign_ends_without_findings(tmp_path, name, number):
    with start_trials(tmp_path, "--only", name, "--case", str(number)) as process:
        out = process.communicate(timeout=PATIENCE)[0]
    assert "0 wrong" in out


@pytest.mark.parametrize("loss", TABLES)
@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_slow_optima_are_those_of_others_and_proved(loss, C):
    X, y, qid = make_problem_arrays("five levels", n=30, d=3)
    pairs = reference.preference_pairs(y, qid)
    i, j = np.array(pairs).T
    slow = SlowProblem(
        X[i] - X[j], np.full(len(i), C), np.ones(len(i)), TABLES[loss], np.zeros(3), np.ones(3)
    )
    value, bound = solve(slow)
    assert value == pytest.approx(bound, rel=1e-6)
    if loss == "hinge":
        assert value == pytest.approx(reference.hinge_optimum(X, pairs, C)[1], rel=1e-6)
    else:
        found = reference.optimum(X, pairs, C, lambda t: reference.hinge_loss(TABLES[loss], t))
        assert value == pytest.approx(found[1], rel=1e-7)


def test_one_case_can_be_repeated():
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--only", "problems", "--case", "3", "--seed", "5"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 cases" in done.stdout
    assert "0 wrong" in done.stdout


def start_trials(folder, *options):
    """Random trials whose temporary files are in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz", *options], cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(folder)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_trials_that_are_ended_leave_nothing(tmp_path, number):
    with start_trials(tmp_path, "--only", "problems", "--jobs", "2") as process:
        deadline = time.monotonic() + PATIENCE
        while not list(tmp_path.rglob("linrank-fuzz-*")):  # until a worker has begun
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        out, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (128 + number, "")
    assert "(ended early)" in out
    assert list(tmp_path.iterdir()) == []


def test_what_killed_trials_left_is_removed_by_the_next(tmp_path):
    with temporary_folder(tmp_path) as live:
        left = live.with_name(".linrank-0123456789abcdef.tmp")
        (left / "case").mkdir(parents=True)
        with start_trials(tmp_path, "--only", "problems", "--case", "3") as process:
            assert "0 wrong" in process.communicate(timeout=PATIENCE)[0]
        assert list(tmp_path.iterdir()) == [live]
