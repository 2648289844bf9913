"""The campaigns of `make fuzz` notice what they are for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fuzz.lines import difference, fast_data, slow_rows
from fuzz.optimum import TABLES, SlowProblem, solve

import reference
from commandline import PATIENCE
from linrank import RankingData, read_letor
from linrank._files import temporary_folder
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
        cwd=Path(__file__).parent.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 cases" in done.stdout
    assert "0 wrong" in done.stdout


def start_trials(folder, *options):
    """Random trials whose temporary files are in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz", *options], cwd=Path(__file__).parent.parent,
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
