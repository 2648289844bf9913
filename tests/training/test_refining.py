"""Refinement of linear models by line searches of a metric."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from commandline import error_of, run, run_json
from linrank import (
    AdditiveRanker,
    DataError,
    NothingSelectedWarning,
    RankingData,
    RankSVM,
    RefinedRankSVM,
    SparseRankSVM,
    evaluate,
    make_ranking,
    write_letor,
)
from linrank.baselines import CoordinateAscent
from linrank.training.refining import MetricAscent
from problems import PAPERS


@pytest.fixture
def data():
    return make_ranking(n_queries=25, docs_per_query=10, n_features=6, noise=2.0, random_state=2)


def mean(data, coef, metric="ndcg@3"):
    scores = data.X @ coef
    return evaluate(data.y, scores, metrics=metric, query_ptr=data.query_ptr).mean[metric]


@pytest.mark.parametrize("metric", ["ndcg@3", "map", "mrr"])
def test_refined_weights_are_not_worse_in_training(data, metric):
    start = RankSVM(C=0.1, **PAPERS).fit(data).coef_
    found = MetricAscent(data, metric).refine(start, n_restarts=2)
    assert found.value == pytest.approx(mean(data, found.coef, metric))
    assert found.value > mean(data, start, metric)


def test_no_step_along_a_feature_improves_the_result(data):
    found = MetricAscent(data, "ndcg@3").ascend(np.zeros(6), np.random.default_rng(0))
    for k in range(6):
        for step in np.linspace(-2, 2, 41):
            other = found.coef + step * np.abs(found.coef).max() * np.eye(6)[k]
            assert mean(data, other) < found.value + 1e-4


def test_threads_and_storage_do_not_change_the_result(data):
    one = MetricAscent(data, "ndcg@3", n_threads=1).refine(np.ones(6), n_restarts=1)
    two = MetricAscent(data, "ndcg@3", n_threads=2).refine(np.ones(6), n_restarts=1)
    np.testing.assert_array_equal(one.coef, two.coef)
    stored = RankingData(sparse.csr_array(data.X), data.y, data.qid)
    other = MetricAscent(stored, "ndcg@3").refine(np.ones(6), n_restarts=1)
    assert other.value == pytest.approx(one.value, abs=0.02)


def test_limits_of_weights_and_unused_features_stay(data):
    ranker = (
        RankSVM(C=0.1, bounds=(0.0, 0.2), **PAPERS)
        .fit(data)
        .refine(data, metric="ndcg@3", valid=data)
    )
    assert ranker.refinement_.kept
    assert ranker.coef_.min() >= 0
    assert ranker.coef_.max() <= 0.2
    sparse_one = SparseRankSVM(C=2e-3, **PAPERS).fit(data)
    unused = sparse_one.coef_ == 0
    assert unused.any()
    sparse_one.refine(data, metric="ndcg@3", valid=data)
    assert (sparse_one.coef_[unused] == 0).all()


@pytest.mark.parametrize("scale", [None, "standard", "query"])
def test_held_out_data_decide(data, scale):
    held_out = make_ranking(25, 10, 6, noise=2.0, random_state=9)
    fitted = RankSVM(C=0.1, scale=scale, normalize=None).fit(data)
    before = fitted.coef_
    ranker = fitted.refine(data, metric="ndcg@3", valid=held_out)
    found = ranker.refinement_
    assert found.kept == (found.held_out[1] > found.held_out[0])
    assert np.array_equal(before, ranker.coef_) != found.kept
    scores = ranker.predict(data.X, qid=data.qid)
    measured = evaluate(data.y, scores, data.qid, metrics="ndcg@3").mean["ndcg@3"]
    assert measured == pytest.approx(found.after if found.kept else found.before)
    assert ranker.model_.training["refined"]["kept"] == found.kept


def test_folds_decide_without_held_out_data(data):
    ranker = RefinedRankSVM([0.01, 0.1], metric="ndcg@3", cv=2, **PAPERS).fit(data)
    found = ranker.refinement_
    assert found.after >= found.before
    assert found.kept == (found.held_out[1] > found.held_out[0])


def test_coordinate_ascent_from_scratch(data):
    ranker = CoordinateAscent("ndcg@3", n_ascents=2).fit(data)
    assert ranker.value_ == pytest.approx(mean(data, ranker.coef_))
    assert ranker.value_ > mean(data, RankSVM(C=0.1, **PAPERS).fit(data).coef_)


def test_what_cannot_be_refined_is_said(data):
    with pytest.raises(DataError, match="err cannot be optimised directly"):
        RankSVM(**PAPERS).fit(data).refine(data, metric="err")
    with pytest.raises(DataError, match="needs a linear model of labels, not a AdditiveModel"):
        AdditiveRanker().fit(data).refine(data)


def test_the_command_refines(data, here):
    write_letor("train.txt", data)
    found = run_json("train", "train.txt", "--C", "0.1", "--refine", "ndcg@3")["refined"]
    assert found["after"] >= found["before"]
    text = run("train", "train.txt", "--C", "0.1", "--refine", "ndcg@3").stdout
    assert "on training data" in text
    wrong = error_of("train", "train.txt", "--C", "0.1", "--refine", "err")
    assert "err cannot be optimised directly" in wrong
    run("train", "train.txt", "--refine", "map", "--method", "svr", code=2)


def test_constant_features_are_not_refined():
    data = make_ranking(20, 8, 3, random_state=0)
    X = np.ones_like(data.X)
    with pytest.warns(NothingSelectedWarning):
        ranker = (
            RankSVM()
            .fit(X, data.y, qid=data.qid)
            .refine(X, data.y, data.qid, metric="ndcg@10", cv=3)
        )
    assert not ranker.refinement_.kept
    assert not ranker.coef_.any()
