"""DominationRank, DominationRankCV and MultiTopicRanker, as users meet them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from commandline import error_of, run, run_json
from linrank import (
    DataError,
    DominationRank,
    DominationRankCV,
    LinearModel,
    MultiTopicRanker,
    NothingSelectedWarning,
    RankSVM,
    average_precision,
    domination_error,
    make_ranking,
    read_letor,
    sparse_path,
)
from linrank.baselines import RankBoost
from problems import PAPERS, make_problem_arrays

TINY = {"tol": 1e-9, "max_iter": 5000}


@pytest.fixture
def arrays():
    return make_problem_arrays("five levels", n=60)


def slow_ridge(X, y, qid, C, **options):
    """The minimum of ½‖w‖² + C·Σ ℓ_i, over listed documents."""

    def objective(w):
        value, gradient, _ = reference.domination_loss(X @ w, y, qid, **options)
        return 0.5 * w @ w + C * value, w + C * X.T @ gradient

    start = np.zeros(X.shape[1])
    return minimize(objective, start, jac=True, options={"gtol": 1e-10}).x


@pytest.mark.slow
@parametrize_with_checks(
    [
        DominationRank(10.0, **PAPERS),
        DominationRank(C=1.0, penalty="l2", **PAPERS),
        DominationRankCV([10.0, 20.0], cv=3, **PAPERS),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_all_that_a_loss_can_have(arrays):
    X, y, qid = arrays
    rng = np.random.default_rng(0)
    weight, query_weight = rng.random(60) + 0.5, (rng.random(3) + 0.5)[qid]
    propensity = 0.2 + 0.8 * rng.random(60)
    ranker = DominationRank(0.5, penalty="l2", margin=0.7, **PAPERS | TINY).fit(
        X, y, qid, sample_weight=weight, query_weight=query_weight, propensity=propensity
    )
    slow = slow_ridge(
        X, y, qid, 0.5, upper=weight / propensity, lower=weight, query_weight=query_weight,
        margin=0.7 * y,
    )  # fmt: skip
    np.testing.assert_allclose(ranker.coef_, slow, atol=1e-5)


def test_own_margins(arrays):
    X, y, qid = arrays
    s = np.random.default_rng(0).random(60)
    ranker = DominationRank(0.5, penalty="l2", **PAPERS | TINY).fit(X, y, qid, margin=s)
    np.testing.assert_allclose(ranker.coef_, slow_ridge(X, y, qid, 0.5, margin=s), atol=1e-5)
    with pytest.raises(DataError, match=r"per label\. Use fit"):
        DominationRank(C=1.0, margin=1.0, **PAPERS).fit(X, y, qid, margin=s)


def test_binary_levels(arrays):
    X, y, qid = arrays
    ranker = DominationRank(0.5, penalty="l2", levels="binary", **PAPERS | TINY).fit(X, y, qid)
    expected = slow_ridge(X, (y > 0) * 1.0, qid, 0.5)
    np.testing.assert_allclose(ranker.coef_, expected, atol=1e-5)


def test_no_penalty_is_maximum_likelihood(arrays):
    X, y, qid = arrays
    ranker = DominationRank(1.0, penalty="none", **PAPERS | TINY).fit(X, y, qid)
    _, gradient, _ = reference.domination_loss(X @ ranker.coef_, y, qid)
    np.testing.assert_allclose(X.T @ gradient, 0.0, atol=1e-5)


def test_queries_without_a_relevant_document_are_skipped_and_counted(arrays):
    X, y, qid = arrays
    y[qid == 1] = 0
    ranker = DominationRank(1.0, penalty="l2", **PAPERS | TINY).fit(X, y, qid)
    assert ranker.n_empty_queries_ == 1
    others = qid != 1
    expected = DominationRank(1.0, penalty="l2", **PAPERS | TINY).fit(
        X[others], y[others], qid[others]
    )
    np.testing.assert_allclose(ranker.coef_, expected.coef_, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({"margin": -1.0}, {}, "margin is -1.0; expected a finite number ≥ 0"),
        ({"margin": np.inf}, {}, "margin is inf"),
        ({}, {"margin": np.ones(59)}, r"margin has shape \(59,\) but X has 60 rows"),
        ({}, {"margin": np.full(60, np.nan)}, "margin"),
        ({}, {"sample_weight": np.full(60, -1.0)}, "sample_weight"),
        ({"levels": "all"}, {}, "levels is 'all'; known choices are 'multi', 'binary'"),
        ({"penalty": "l3"}, {}, "penalty is 'l3'"),
        ({"penalty": "l2", "shape": 2.0}, {}, "penalty='l2' has no parameter"),
        (
            {"penalty": "none", "feature_cost": np.ones(4)},
            {},
            "penalty='none' takes no feature costs",
        ),
        ({"penalty": "l2", "solver": "sgd-pairs"}, {}, "needs a pairwise loss"),
    ],
)
def test_bad_input_gets_a_sentence(arrays, options, given, words):
    with pytest.raises(DataError, match=words):
        DominationRank(**PAPERS | options).fit(*arrays, **given)


def test_nothing_to_learn_from(arrays):
    X, y, qid = arrays
    with pytest.raises(DataError, match="needs a query with a label above 0"):
        DominationRank(C=1.0, levels="binary", **PAPERS).fit(X, -y, qid)


def test_sparse_path_and_smallest_C():
    data = make_ranking(random_state=0)
    path, _ = sparse_path(data, "l1", loss="domination", tol=1e-5)
    assert path.n_features[0] == 1
    assert path.n_features[-1] > 10
    with pytest.warns(NothingSelectedWarning, match="smallest C that selects one is"):
        ranker = DominationRank(0.9 * path.Cs[0], **PAPERS).fit(data.X, data.y, data.qid)
    assert ranker.zero_weights_ == 1.0


def test_cv_chooses_by_an_error(arrays):
    X, y, qid = arrays
    Cs = [1e-3, 1e-1, 1.0]
    valid = make_problem_arrays("five levels", n=60, seed=1)
    ranker = DominationRankCV(Cs, metric="domination-error", penalty="l2", **PAPERS | TINY)
    ranker.fit(X, y, qid, valid=valid)
    errors = [
        domination_error(valid[1], DominationRank(C, penalty="l2", **PAPERS | TINY).fit(X, y, qid)
                         .predict(valid[0]), valid[2])
        for C in Cs
    ]  # fmt: skip
    np.testing.assert_allclose(ranker.metric_path_[:, 0], errors)
    assert Cs[int(np.argmin(errors))] == ranker.C_
    with pytest.raises(DataError, match="no C to choose"):
        DominationRankCV(penalty="none", **PAPERS).fit(X, y, qid)


def test_model_file(arrays, tmp_path):
    X, y, qid = arrays
    ranker = DominationRank(C=1.0, **PAPERS).fit(X, y, qid)
    ranker.model_.save(tmp_path / "model.json")
    loaded = LinearModel.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), ranker.predict(X))
    assert loaded.settings["loss"] == "domination"


def test_the_command_line(letor, tmp_path):
    model, valid = tmp_path / "model.json", ("--valid", letor / "vali.txt")
    train = letor / "train.txt"
    run("train", train, *valid, "--loss", "domination", "--metric", "domination-error",
        "--out", model)  # fmt: skip
    learnt = LinearModel.load(model)
    data = read_letor(train)
    held_out = read_letor(letor / "vali.txt")
    expected = DominationRankCV(penalty="l2", metric="domination-error").fit(
        data.X, data.y, data.qid, valid=(held_out.X, held_out.y, held_out.qid)
    )
    np.testing.assert_allclose(learnt.coef, expected.coef_)
    found = run_json("evaluate", letor / "test.txt", model, "--metrics", "all-pairs-error")
    assert "all-pairs-error" in str(found)
    found = run_json("path", train, *valid, "--loss", "domination", "--penalty", "l1")
    assert found["chosen"]["C"] > 0
    assert "needs a pairwise loss" in error_of(
        "train", train, "--C", "1", "--loss", "domination", "--solver", "sgd-pairs", "--out", model
    )


def test_streams_are_of_pairs(arrays):
    with pytest.raises(DataError, match="Use fit"):
        RankSVM(C=1.0, loss="domination", **PAPERS).partial_fit(*arrays)


# Many topics ------------------------------------------------------------------------------------


@pytest.fixture
def topics():
    rng = np.random.default_rng(0)
    X = sparse.random_array((150, 12), density=0.4, rng=rng, format="csr")
    Y = (X @ rng.standard_normal((12, 5)) > 1.0).astype(float)
    Y[:, 3] = 0.0
    return X, Y


@pytest.mark.parametrize("n_threads", [1, 2])
def test_topics_are_single_fits(topics, n_threads):
    X, Y = topics
    many = MultiTopicRanker(DominationRank(2.0, **PAPERS), n_threads=n_threads).fit(X, Y)
    assert many.skipped_topics_.tolist() == [3]
    scores = many.predict(X)
    for t in (0, 1, 2, 4):
        single = DominationRank(2.0, **PAPERS).fit(X, Y[:, t])
        np.testing.assert_allclose(scores[:, t], single.predict(X), atol=1e-12)
    assert not scores[:, 3].any()
    assert many.coef_.shape == (5, 12)
    weights = many.coef_.toarray()[[0, 1, 2, 4]]
    assert many.zero_weights_ == pytest.approx(np.mean(weights == 0))
    precisions = [average_precision(Y[:, t], scores[:, t]) for t in (0, 1, 2, 4)]
    assert many.score(X, Y) == pytest.approx(np.mean(precisions))


def test_topics_take_sparse_labels_and_any_ranker(topics):
    X, Y = topics
    one = MultiTopicRanker(RankSVM(0.1, **PAPERS)).fit(X, sparse.csr_array(Y))
    other = MultiTopicRanker(RankSVM(0.1, **PAPERS)).fit(X.toarray(), Y)
    np.testing.assert_allclose(one.coef_.toarray(), other.coef_.toarray(), atol=1e-9)
    found = one.evaluate(X, sparse.csr_array(Y), ["p@10", "domination-error"])
    assert list(found) == ["p@10", "domination-error"]


def test_topics_choose_C_on_held_out_documents(topics):
    X, Y = topics
    template = DominationRankCV([0.01, 1.0], metric="map", **PAPERS)
    many = MultiTopicRanker(template).fit(X[:100], Y[:100], valid=(X[100:], Y[100:]))
    single = DominationRankCV([0.01, 1.0], metric="map", **PAPERS).fit(
        X[:100], Y[:100, 0], np.zeros(100), valid=(X[100:], Y[100:, 0], np.zeros(50))
    )
    assert many.rankers_[0].C_ == single.C_
    np.testing.assert_array_equal(many.coef_[[0]].toarray()[0], single.coef_)


def test_topics_of_the_wrong_shape(topics):
    X, Y = topics
    with pytest.raises(DataError, match="Y has shape"):
        MultiTopicRanker().fit(X, Y[:, 0])
    with pytest.raises(DataError, match=r"expected .150, n_topics."):
        MultiTopicRanker().fit(X, Y[:-1])
    with pytest.raises(DataError, match="Y has 4 topics; expected 5, as in fit"):
        MultiTopicRanker().fit(X, Y).score(X, Y[:, :4])
    with pytest.raises(DataError, match="valid is for rankers that choose C"):
        MultiTopicRanker().fit(X, Y, valid=(X, Y))
    with pytest.raises(DataError, match=r"Y has 5 topics but valid\[1\] has 4"):
        MultiTopicRanker(DominationRankCV(**PAPERS)).fit(X, Y, valid=(X, Y[:, :4]))
    with pytest.raises(DataError, match="expected a linear ranker"):
        MultiTopicRanker(RankBoost()).fit(X, Y)
    with pytest.raises(DataError, match="fit skipped all topics"):
        MultiTopicRanker().fit(X, Y[:, [3]]).score(X, Y[:, [3]])


def test_a_topic_that_cannot_be_learnt_does_not_take_the_others_with_it(topics):
    X, Y = topics
    template = DominationRankCV([0.1, 1.0], metric="map", **PAPERS)
    with pytest.warns(UserWarning, match="skipped: topic 1: C cannot be chosen by map"):
        many = MultiTopicRanker(template).fit(X, Y, valid=(X, Y * [1, 0, 1, 1, 1]))
    assert many.skipped_topics_.tolist() == [1, 3]
    assert many.coef_[[0]].nnz > 0
    with pytest.raises(DataError, match="topic 0: C is -1"):
        MultiTopicRanker(DominationRank(-1.0, **PAPERS)).fit(X, Y[:, :2])


def test_one_thread_per_topic(topics):
    """While topics are learnt, BLAS has one thread, however their fits ask for it."""
    X, Y = topics
    first = MultiTopicRanker(DominationRank(5.0, **PAPERS), n_threads=2).fit(X, Y)
    for _ in range(3):
        again = MultiTopicRanker(DominationRank(5.0, **PAPERS), n_threads=2).fit(X, Y)
        np.testing.assert_array_equal(again.coef_.toarray(), first.coef_.toarray())
