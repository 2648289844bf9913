"""The defaults of linear rankers, and the choice of C that prefers them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from commandline import run, run_json
from linrank import (
    AdditiveRanker,
    DominationRank,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    evaluate,
    make_ranking,
    write_letor,
)
from linrank.cli import fitting
from linrank.training import Trainer, trainer
from linrank.training.selection import (
    Criterion,
    Grid,
    error_of_folds,
    grid_around,
    query_folds,
    search,
)
from problems import PAPERS

DATA = make_ranking(40, 10, 5, noise=1.0, random_state=0)


def test_linear_rankers_and_the_trainer_have_the_same_defaults():
    for ranker, C in ((RankSVM(), 10.0), (SparseRankSVM(), 100.0), (DominationRank(), 100.0)):
        assert (ranker.C, ranker.normalize, ranker.scale) == (C, "pairs", "auto")
        own = Trainer.of(penalty=getattr(ranker, "penalty", None))
        assert (own.default_C, own.normalize, own.features.name) == (C, "pairs", "auto")
    additive = AdditiveRanker()
    assert (additive.C, additive.normalize, additive.scale) == (1.0, None, None)


def test_the_default_is_a_mean_over_pairs_of_standardised_features():
    X = DATA.X * [1.0, 1e3, 1e-3, 1e6, 1.0]
    found = RankSVM(tol=1e-8).fit(X, DATA.y, DATA.qid)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    twin = RankSVM(10.0 / found.n_pairs_, **PAPERS, tol=1e-8).fit(scaled, DATA.y, DATA.qid)
    np.testing.assert_allclose(found.coef_ * X.std(axis=0), twin.coef_, rtol=1e-5)
    assert found.model_.settings["scale"] == "standard"
    assert found.predict(X).shape == DATA.y.shape  # no queries are needed
    found.export("sql")


@pytest.mark.parametrize("unit", [1.0, 1e4])
def test_a_sparse_matrix_is_scaled_by_one_number(unit):
    X = sparse.random_array((400, 50), density=0.1, rng=np.random.default_rng(0), format="csr")
    y = X @ np.arange(50.0)
    found = RankSVM(tol=1e-8).fit(unit * X, y, DATA.qid)
    factor = np.sqrt(300.0 / X.toarray().var(axis=0).sum())
    twin = RankSVM(10.0, normalize="pairs", scale=None, tol=1e-8).fit(factor * X, y, DATA.qid)
    np.testing.assert_allclose(found.coef_ * unit, factor * twin.coef_, rtol=1e-4, atol=1e-6)
    assert found.model_.settings["scale"] == "common"


def test_a_common_factor_of_constant_features_is_1():
    ranker = RankSVM(scale="common", missing="zero")
    with pytest.warns(UserWarning, match="all weights are 0"):
        ranker.fit(np.ones((4, 2)), [0, 1, 0, 1])
    assert ranker.model_.preprocessing.factor.tolist() == [1.0, 1.0]


def by_hand(ranker, X, y, qid):
    """Return the C nearest to 10 within one standard error of the best mean over the queries."""
    folds, means, errors = ranker.metric_path_.shape[1], [], []
    for C in ranker.cv_results_["param_C"]:
        parts = []
        for train, test in query_folds(DATA, folds):
            fitted = RankSVM(C).fit(X[train], y[train], qid[train])
            scores = fitted.predict(X[test])
            values = evaluate(y[test], scores, qid[test], "ndcg@10").per_query["ndcg@10"]
            parts.append(values[~np.isnan(values)])
        means.append(np.mean([part.mean() for part in parts]))
        own = [part.std(ddof=1) / np.sqrt(len(part)) for part in parts]
        errors.append(np.sqrt(np.sum(np.square(own))) / len(parts))
    means, Cs = np.array(means), np.array(ranker.cv_results_["param_C"])
    best = int(np.argmax(means))
    near = np.abs(means - means[best]) <= max(errors[best], 1e-3 * means[best])
    return min(Cs[near], key=lambda C: abs(np.log(C / 10.0))), means


def test_folds_choose_the_C_nearest_to_the_default_within_one_standard_error():
    found = RankSVMCV(cv=4).fit(DATA)
    C, means = by_hand(found, DATA.X, DATA.y, np.asarray(DATA.qid))
    assert found.C_ == C
    assert found.cv_results_["param_C"].tolist() == [0.625, 2.5, 10.0, 40.0, 160.0]
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], means, atol=0.02)
    best = RankSVMCV([0.625, 2.5, 10.0, 40.0, 160.0], cv=4).fit(DATA)
    assert best.cv_results_["param_C"][np.argmax(best.cv_results_["mean_test_score"])] == best.C_


def test_held_out_data_choose_in_the_same_way():
    train, held_out = DATA.split(test=0.5)
    found = RankSVMCV().fit(train, valid=held_out)
    values = np.array(
        [
            evaluate(held_out.y, held_out.X @ (coef * factor), held_out.qid, "ndcg@10").per_query[
                "ndcg@10"
            ]
            for coef, factor in ((c, found.model_.preprocessing.factor) for c in found.path_.coefs)
        ]
    )
    means, best = values.mean(axis=1), values.mean(axis=1).argmax()
    error = values[best].std(ddof=1) / np.sqrt(values.shape[1])
    near = found.path_.Cs[np.abs(means - means[best]) <= max(error, 1e-3 * means[best])]
    assert min(near, key=lambda C: abs(np.log(C / 10.0))) == found.C_


@pytest.mark.parametrize(
    ("values", "errors", "error"),
    [
        ([0.5, 0.7], [0.03, 0.04], 0.025),
        ([0.5, np.nan], [0.03, np.nan], 0.03),
        ([0.4, 0.6], [np.nan, np.nan], 0.1),  # of the two values
        ([0.4], [np.nan], 0.0),
    ],
)
def test_standard_errors_of_folds(values, errors, error):
    assert error_of_folds(np.array(values), np.array(errors)) == pytest.approx(error)


def test_a_grid_ends_where_a_larger_C_no_longer_helps():
    grid, asked = Grid(10.0 * 4.0 ** np.arange(-2.0, 3.0), highest=1e9, preferred=10.0), []

    def measure(Cs):
        asked.extend(Cs)
        return 0.9 - 0.1 / (1.0 + Cs[:, None]) ** 2, False  # flat from 10 on

    assert grid.Cs[search(grid, Criterion(), measure).chosen] == 10.0
    assert len(asked) == 5
    found = search(grid, Criterion(), lambda Cs: (np.log(Cs)[:, None] / 30.0, False))
    assert found.Cs[found.chosen] > 1e6  # it helps throughout


def test_the_grid_moves_if_features_are_so_small_that_no_C_matters():
    problem = Trainer.of(scale=None).problem(DATA.replace(X=1e-4 * DATA.X))
    grid = grid_around(problem, 10.0)
    assert grid.preferred > 1e4
    assert grid.Cs[2] == grid.preferred
    assert RankSVMCV(scale=None).fit(DATA.replace(X=1e-4 * DATA.X)).C_ > 1e4


def test_one_query_of_many_documents_has_one_held_out_part(monkeypatch):
    monkeypatch.setattr(trainer, "ONE_PART_DOCS", 400)
    found = RankSVMCV(metric="auc").fit(DATA.X, DATA.y > 1)
    assert found.metric_path_.shape[1] == 1
    fewer = RankSVMCV(metric="auc").fit(DATA.X[:399], DATA.y[:399] > 1)
    assert fewer.metric_path_.shape[1] == 5


def test_a_stream_has_the_mean_over_its_pairs():
    X = (DATA.X - DATA.X.mean(axis=0)) / DATA.X.std(axis=0)
    ranker = RankSVM(C=1.0)
    for _ in range(60):
        ranker.partial_fit(X, DATA.y, DATA.qid)
    whole = RankSVM(C=1.0, scale=None).fit(X, DATA.y, DATA.qid)
    assert np.corrcoef(ranker.coef_, whole.coef_)[0, 1] > 0.95
    assert np.linalg.norm(ranker.coef_) == pytest.approx(np.linalg.norm(whole.coef_), rel=0.3)
    assert (ranker.model_.settings["scale"], ranker.model_.settings["normalize"]) == (None, "pairs")


def settings_of(file):
    return json.loads(Path(file).read_text())["settings"]


def test_train_chooses_C_by_folds(here, monkeypatch):
    write_letor("train.txt", DATA)
    found = run_json("train", "train.txt")
    assert found["held_out"]["folds"] == 5
    assert len(found["grid"]) >= 5
    said = run("train", "train.txt").stdout
    assert "the nearest to the default within one standard error of the best of 5" in " ".join(
        said.split()
    )
    single = run_json("train", "train.txt", "--C", "10")
    assert single["held_out"] is None
    settings = settings_of("model.json")
    assert (settings["C"], settings["normalize"], settings["scale"]) == (10.0, "pairs", "standard")
    run("train", "train.txt", "--C", "1", "--normalize", "none", "--scale", "none")
    settings = settings_of("model.json")
    assert (settings["normalize"], settings["scale"]) == (None, None)
    run("train", "train.txt", "--additive")
    settings = settings_of("model.json")
    assert (settings["C"], settings["normalize"], settings["scale"]) == (1.0, None, None)


def test_large_data_are_not_copied_for_folds(monkeypatch):
    assert fitting.usual_folds(DATA, Trainer.of()) == 5
    monkeypatch.setattr(fitting, "MOST_BYTES", 1000)
    assert fitting.usual_folds(DATA, Trainer.of()) is None
    monkeypatch.undo()
    assert fitting.usual_folds(DATA, Trainer.of(penalty="none")) is None
    assert fitting.usual_folds(DATA.replace(y=np.zeros(len(DATA.y))), Trainer.of()) is None
    assert fitting.usual_folds(DATA.take(np.arange(30)), Trainer.of()) == 3
