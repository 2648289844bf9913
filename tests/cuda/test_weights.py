"""Every loss × penalty has the weights of the thread engine, to 1e-8 of the largest."""

from __future__ import annotations

import json

import numpy as np
import pytest

from commandline import run, write_text
from linrank import (
    DominationRank,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    make_ranking,
    sparse_path,
)
from linrank.losses import LOSSES, get_loss
from linrank.penalties import PENALTIES, make_penalty
from linrank.problem import make_problem
from linrank.solvers import make_solver
from problems import PAPERS

#: Large enough for every penalty to select something: with 0.2 the engines agree as well, to 3e-10,
#: but log and lp leave the domination losses without any feature, and nothing is compared.
C = 2.0
COMBINATIONS = [
    (loss, penalty)
    for loss in LOSSES
    for penalty in (None, *PENALTIES)
    if penalty is None or get_loss(loss).smooth
]


def small_problem():
    rng = np.random.default_rng(3)
    X, qid = rng.standard_normal((22, 3)), np.repeat([0, 1], [4, 18])
    return X, np.clip(np.round(X[:, 0] + rng.standard_normal(22)), -1, 1), qid


@pytest.mark.parametrize(("loss", "penalty"), COMBINATIONS)
def test_weights_are_those_of_the_thread_engine(loss, penalty):
    X, y, qid = small_problem()
    chosen = None if penalty is None else make_penalty(penalty)
    tol = 1e-6 if loss == "hinge" else 1e-10
    found = []
    for engine in ("cuda", "threads"):
        problem = make_problem(
            RankingData(X, y, qid), C, loss=loss, penalty=chosen, engine=engine, n_threads=1
        )
        solver = make_solver(
            "auto", problem.engine.loss, getattr(problem, "penalty", None), tol=tol
        )
        found.append(solver.solve(problem))
    assert found[0].converged, found[0].message
    assert found[0].coef.any()
    size = np.abs(found[1].coef).max()
    np.testing.assert_allclose(found[0].coef, found[1].coef, rtol=0, atol=1e-8 * size)


def test_estimators():
    X, y, qid = small_problem()
    for make in (RankSVM, SparseRankSVM, DominationRank):
        one = make(C, tol=1e-8, engine="cuda").fit(X, y, qid)
        other = make(C, tol=1e-8).fit(X, y, qid)
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-6)
    y = y - y.min()  # Gains of negative labels are 0.
    one = RankSVMCV([0.1, 2.0], cv=2, tol=1e-8, engine="cuda", **PAPERS).fit(X, y, qid)
    other = RankSVMCV([0.1, 2.0], cv=2, tol=1e-8, **PAPERS).fit(X, y, qid)
    assert one.C_ == other.C_
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-6)


def test_a_sparse_path():
    data = RankingData(*small_problem())
    one, other = (
        sparse_path(data, "l1", [0.01, 0.1], engine=engine, tol=1e-8)[0]
        for engine in ("cuda", "threads")
    )
    np.testing.assert_allclose(one.coefs, other.coefs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("command", ["train", "path"])
def test_command_line(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("train.txt", 0), ("vali.txt", 1)):
        write_text(tmp_path / name, make_ranking(4, (3, 6), 3, n_levels=3, random_state=seed))
    how = ["--C", "0.1"] if command == "train" else ["--valid", "vali.txt", "--grid", "0.1,0.2"]
    weights = []
    for engine in ("cuda", "threads"):
        run(
            command, "train.txt", *how, "--tol", "1e-8", "--engine", engine, "--out", "model.json"
        )  # fmt: skip
        weights.append(json.loads((tmp_path / "model.json").read_text())["weights"])
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)
