"""The methods that RankSVM is compared with, against the libraries and formulas behind them."""

from __future__ import annotations

import pickle
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from lightgbm import LGBMRanker
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import cross_validate
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info, threadpool_limits

from linrank import (
    DataError,
    LinearModel,
    NotConvergedWarning,
    QueryKFold,
    evaluate,
    ndcg,
    read_letor,
)
from linrank.baselines import (
    GradientBoostingRanker,
    LambdaMARTRanker,
    LinearSVRRanker,
    RandomForestRanker,
)
from problems import as_form, make_problem_arrays

pytestmark = pytest.mark.slow

POINTWISE = [
    LinearSVRRanker(0.1),
    LinearSVRRanker(0.1, loss="absolute", random_state=0),
    RandomForestRanker(n_estimators=5, random_state=0),
    GradientBoostingRanker(n_estimators=5, min_samples_leaf=3, random_state=0),
]
LAMBDAMART = LambdaMARTRanker(n_estimators=5, min_samples_leaf=3, random_state=0)
RANKERS = [*POINTWISE, LAMBDAMART]


def named(rankers):
    names = [type(ranker).__name__ + getattr(ranker, "loss", "").capitalize() for ranker in rankers]
    return pytest.mark.parametrize("ranker", rankers, ids=names)


@pytest.fixture(scope="module")
def arrays():
    """A problem that can be learnt, with three queries in random row order."""
    X, _, qid = make_problem_arrays("five levels", n=120)
    noise = np.random.default_rng(1).standard_normal(120)
    return X, np.clip(np.round(X[:, 0] + X[:, 1] ** 2 + 0.3 * noise), 0, 4), qid


def expected_failures(ranker):
    if isinstance(ranker, RandomForestRanker):
        reason = "a bootstrap sample draws rows, whatever their weights"
        return {f"check_sample_weight_equivalence_on_{s}_data": reason for s in ("dense", "sparse")}
    return {}


@parametrize_with_checks(
    [
        LinearSVRRanker(max_iter=100_000),
        RandomForestRanker(n_estimators=3, random_state=0),
        GradientBoostingRanker(n_estimators=3, random_state=0),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# What all share ----------------------------------------------------------------------------


@named(RANKERS)
def test_the_surface_is_that_of_ranksvm(ranker, arrays, capfd):
    X, y, qid = arrays
    ranker = clone(ranker).fit(X, y, qid=qid)
    scores = ranker.predict(X)
    assert (scores.shape, scores.dtype) == ((120,), np.float64)
    assert ranker.score(X, y, qid) == ndcg(y, scores, qid, k=10)
    with pytest.raises(DataError, match="fitted with qid, so score needs qid too"):
        ranker.score(X, y)
    ranks = ranker.rank(X, qid)
    for q in range(3):
        mine = qid == q
        np.testing.assert_array_equal(
            np.argsort(ranks[mine]), np.argsort(-scores[mine], kind="stable")
        )
    assert ranker.n_queries_ == 3
    assert capfd.readouterr() == ("", "")


@named(RANKERS)
def test_clones_pickles_and_repeats(ranker, arrays):
    X, y, qid = arrays
    first = clone(ranker).fit(X, y, qid)
    assert clone(first).get_params() == ranker.get_params()
    expected = first.predict(X)
    np.testing.assert_array_equal(clone(ranker).fit(X, y, qid).predict(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(X), expected)


@named(RANKERS)
def test_it_learns(ranker, arrays):
    X, y, qid = arrays
    assert clone(ranker).fit(X, y, qid).score(X, y, qid) > ndcg(y, np.zeros(120), qid, k=10) + 0.05


@named(POINTWISE)
def test_pointwise_methods_do_not_see_the_queries(ranker, arrays):
    X, y, qid = arrays
    expected = clone(ranker).fit(X, y).predict(X)
    for names in (qid, -qid, [f"q{q}" for q in qid], [("query", int(q)) for q in qid]):
        np.testing.assert_array_equal(clone(ranker).fit(X, y, names).predict(X), expected)


@named(RANKERS)
def test_weight_zero_is_removal(ranker, arrays):
    X, y, qid = arrays
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.5], 120)
    kept = weight > 0
    expected = clone(ranker).fit(X[kept], y[kept], qid[kept], sample_weight=weight[kept])
    found = clone(ranker).fit(X, y, qid, sample_weight=weight)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    assert (found.predict(X) != clone(ranker).fit(X, y, qid).predict(X)).any()


@named([ranker for ranker in RANKERS if not isinstance(ranker, GradientBoostingRanker)])
def test_sparse_features_give_the_same_scores(ranker, arrays):
    X, y, qid = arrays
    expected = clone(ranker).fit(X, y, qid).predict(X)
    found = clone(ranker).fit(as_form(X, "csr64"), y, qid).predict(as_form(X, "csr64"))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@named(RANKERS)
def test_data_frames_bring_their_names(ranker, arrays):
    X, y, qid = arrays
    frame = pd.DataFrame(X, columns=["bm25", "pagerank", "age", "clicks"])
    found = clone(ranker).fit(frame, pd.Series(y), qid=pd.Series(qid))
    assert found.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(found.predict(frame), clone(ranker).fit(X, y, qid).predict(X))


@named(RANKERS)
def test_queries_travel_with_the_rows(ranker, arrays):
    X, y, qid = arrays
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(ranker, X, y, cv=QueryKFold(3), params={"qid": qid})
        with pytest.raises(TypeError, match="query_weight"):
            cross_validate(ranker, X, y, cv=QueryKFold(3), params={"qid": qid, "query_weight": qid})
    train, test = next(iter(QueryKFold(3).split(X, y, qid)))
    by_hand = clone(ranker).fit(X[train], y[train], qid[train])
    assert found["test_score"][0] == by_hand.score(X[test], y[test], qid[test])


@named(RANKERS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qid": np.zeros(3)}, "qid has shape \\(3,\\) but X has 120 rows"),
        ({"qid": np.full(120, np.nan)}, "qid\\[0\\] is NaN"),
        ({"y": np.full(120, np.inf)}, "y\\[0\\] is inf|Input y contains infinity"),
        ({"sample_weight": np.zeros(120)}, "sample_weight is zero everywhere"),
        ({"X": np.full((120, 4), np.nan)}, "X\\[[0-9]*, 0\\] is NaN"),
        ({"n_threads": 0}, "n_threads is 0"),
    ],
)
def test_bad_input_gets_a_sentence(ranker, arrays, change, words):
    X, y, qid = arrays
    given = {"X": X, "y": y, "qid": qid} | change
    ranker = clone(ranker).set_params(n_threads=given.pop("n_threads", None))
    with pytest.raises(ValueError, match=words):
        ranker.fit(**given)


@named(RANKERS)
def test_nan_is_not_scored(ranker, arrays):
    X, y, qid = arrays
    ranker = clone(ranker).fit(X, y, qid)
    X = X.copy()
    X[7, 2] = np.nan
    with pytest.raises(DataError, match="X\\[7, 2\\] is NaN"):
        ranker.predict(X)


# Linear SVR --------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("form", ["dense32", "csr64"])
def test_squared_loss_is_ridge_regression(arrays, C, form):
    """With ε = 0: (X'SX + I/2C) w = X'Sy, S the weights."""
    X, y, qid = arrays
    X = X.astype(np.float32).astype(np.float64)
    weight = np.random.default_rng(0).integers(1, 4, 120)
    A = (X.T * weight) @ X + np.eye(4) / (2 * C)
    ranker = LinearSVRRanker(C, tol=1e-10).fit(as_form(X, form), y, qid, sample_weight=weight)
    np.testing.assert_allclose(ranker.coef_, np.linalg.solve(A, X.T @ (weight * y)), rtol=1e-6)


@pytest.mark.parametrize("C", [0.01, 0.3])
def test_absolute_loss_reaches_the_optimum_of_the_dual(arrays, C):
    """w = X'α with α in [−C, C] the maximiser of y'α − ½‖X'α‖²."""
    X, y, qid = arrays
    dual = minimize(
        lambda a: (0.5 * np.sum((X.T @ a) ** 2) - y @ a, X @ (X.T @ a) - y),
        np.zeros(120), jac=True, bounds=[(-C, C)] * 120, options={"ftol": 1e-14, "maxiter": 10_000},
    )  # fmt: skip
    ranker = LinearSVRRanker(C, loss="absolute", tol=1e-7, max_iter=10**6, random_state=0)
    w = ranker.fit(X, y, qid).coef_
    objective = 0.5 * w @ w + C * np.abs(X @ w - y).sum()
    assert objective == pytest.approx(-dual.fun, rel=1e-4)


def test_without_intercept_the_zero_of_the_labels_matters(arrays):
    X, y, qid = arrays
    near = LinearSVRRanker(tol=1e-9).fit(X, y, qid).coef_
    assert np.abs(LinearSVRRanker(tol=1e-9).fit(X, y + 5, qid).coef_ - near).max() > 0.1


def test_the_model_is_saved_like_that_of_ranksvm(arrays, tmp_path):
    X, y, qid = arrays
    frame = pd.DataFrame(X, columns=["bm25", "pagerank", "age", "clicks"])
    ranker = LinearSVRRanker(0.5).fit(frame, y, qid)
    ranker.model_.save(tmp_path / "model.json")
    model = LinearModel.load(tmp_path / "model.json")
    np.testing.assert_array_equal(model.coef, ranker.coef_)
    assert model.feature_names == list(frame.columns)
    assert model.settings["C"] == 0.5
    assert model.training == {"iterations": ranker.n_iter_, "queries": 3}


def test_unfinished_training_warns(arrays):
    X, y, qid = arrays
    with pytest.warns(NotConvergedWarning, match="LIBLINEAR stopped at max_iter = 1 iterations"):
        LinearSVRRanker(100.0, loss="absolute", max_iter=1, random_state=0).fit(X, y, qid)


def test_unknown_loss_lists_the_known(arrays):
    with pytest.raises(DataError, match="loss is 'cubic'; known choices are 'squared', 'absolute'"):
        LinearSVRRanker(loss="cubic").fit(*arrays)


@pytest.mark.parametrize(
    ("name", "C", "metric", "published"),
    [
        ("MQ2007", 2.0**-11, "mean-ndcg", 0.5157),
        ("MQ2007", 2.0**-7, "pairwise-accuracy", 0.6856),
        ("MQ2008", 2.0**-4, "mean-ndcg", 0.4450),
        ("MQ2008", 2.0**-1, "pairwise-accuracy", 0.8217),
    ],
)
def test_published_figures(real_data, name, C, metric, published):
    """Lee & Lin 2014, tables 4 and 5, fold 1, at LIBLINEAR's own tolerance."""
    train, test = (
        read_letor(real_data / name / "Fold1" / f"{part}.txt") for part in ("train", "test")
    )
    ranker = LinearSVRRanker(C).fit(train.X, train.y, train.qid)
    found = evaluate(
        test.y, ranker.predict(test.X), test.qid, metrics=[metric], flavour="letor4"
    ).mean[metric]
    assert found == pytest.approx(published, abs=2e-4)


# Trees -------------------------------------------------------------------------------------


def test_forest_is_that_of_scikit_learn_for_any_number_of_threads(arrays):
    X, y, qid = arrays
    twin = RandomForestRegressor(40, max_features="sqrt", random_state=3).fit(X, y)
    expected = RandomForestRanker(random_state=3, n_threads=1).fit(X, y, qid)
    np.testing.assert_allclose(expected.predict(X), twin.predict(X), rtol=1e-12)
    for n_threads in (2, 3):
        other = RandomForestRanker(random_state=3, n_threads=n_threads).fit(X, y, qid)
        np.testing.assert_array_equal(other.predict(X), expected.predict(X))


def test_threads_of_a_forest_leave_the_warning_filters_of_the_process_alone(arrays, monkeypatch):
    """A thread that replaces them while another one restores them would spoil them for good."""
    X, y, qid = arrays
    given, before = warnings.filters, list(warnings.filters)
    ranker = RandomForestRanker(n_estimators=5, random_state=0, n_threads=2)
    fit = RandomForestRegressor.fit

    def spoil(*args, **kwargs):
        fit(*args, **kwargs)
        warnings.filters[:] = []
        return args[0]

    monkeypatch.setattr(RandomForestRegressor, "fit", spoil)
    ranker.fit(X, y, qid)
    assert warnings.filters is given
    assert warnings.filters == before
    monkeypatch.setattr(warnings, "resetwarnings", pytest.fail)
    ranker.predict(X)


def test_boosting_is_that_of_scikit_learn_without_early_stopping():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_100, 2))  # so many that scikit-learn's default would stop early
    y = np.round(X.sum(axis=1) + rng.standard_normal(10_100))
    twin = HistGradientBoostingRegressor(max_iter=9, max_depth=4, early_stopping=False)
    ranker = GradientBoostingRanker(n_estimators=9).fit(X, y)
    with threadpool_limits(1):
        expected = twin.fit(X, y).predict(X)
    np.testing.assert_allclose(ranker.predict(X), expected)


def test_boosting_keeps_to_its_threads(arrays, monkeypatch):
    seen = []

    class Spy(HistGradientBoostingRegressor):
        def fit(self, X, y, sample_weight=None):
            seen.extend(p["num_threads"] for p in threadpool_info() if p["user_api"] == "openmp")
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr("linrank.baselines.tree_rankers.HistGradientBoostingRegressor", Spy)
    GradientBoostingRanker(n_estimators=1, n_threads=3).fit(*arrays)
    assert set(seen) == {3}


def test_boosting_refuses_sparse_features(arrays):
    X, y, qid = arrays
    with pytest.raises(
        DataError, match=r"X is sparse; GradientBoostingRanker supports dense .* 3,840"
    ):
        GradientBoostingRanker().fit(as_form(X, "csr64"), y, qid)
    with pytest.raises(DataError, match="X is sparse"):
        GradientBoostingRanker().fit(X, y, qid).predict(as_form(X, "csr64"))


# LambdaMART --------------------------------------------------------------------------------


def test_lambdamart_is_that_of_lightgbm_in_the_callers_order(arrays):
    X, y, qid = arrays
    order = np.argsort(qid, kind="stable")
    twin = LGBMRanker(
        objective="lambdarank", n_estimators=5, min_child_samples=3, verbosity=-1, n_jobs=1,
        deterministic=True, force_row_wise=True,
    ).fit(X[order], y[order], group=np.bincount(qid))  # fmt: skip
    ranker = clone(LAMBDAMART).set_params(random_state=None).fit(X, y, qid)
    np.testing.assert_array_equal(ranker.predict(X), twin.predict(X))
    alone = clone(LAMBDAMART).fit(X, y)
    assert (alone.predict(X) != ranker.predict(X)).any()


def test_lambdamart_takes_more_labels_with_their_gains(arrays):
    X, y, qid = arrays
    with pytest.raises(DataError, match="labels 0, …, 30, which have a gain by default"):
        clone(LAMBDAMART).fit(X, y * 10, qid)
    gains = np.arange(41.0)
    found = clone(LAMBDAMART).set_params(label_gain=gains).fit(X, y * 10, qid)
    same = clone(LAMBDAMART).set_params(label_gain=10 * np.arange(5.0)).fit(X, y, qid)
    np.testing.assert_array_equal(found.predict(X), same.predict(X))


@pytest.mark.parametrize(
    ("y", "label_gain", "words"),
    [
        ([0, 1, -1], None, "y\\[2\\] is -1; .* labels 0, …, 30"),
        ([0, 1.5, 1], None, "y\\[1\\] is 1.5; .* labels 0, …, 30"),
        ([0, 3, 1], [0, 1, 3], "y\\[1\\] is 3; .* labels 0, …, 2, .* in label_gain"),
        ([2, 2, 2], None, "no pair to learn from"),
    ],
)
def test_lambdamart_refuses_labels_without_gain(y, label_gain, words):
    with pytest.raises(DataError, match=words):
        LambdaMARTRanker(label_gain=label_gain).fit(np.eye(3), y, ["b", "b", "b"])


def test_lambdamart_refuses_what_lightgbm_would():
    X = np.arange(10_002.0)[:, None]
    with pytest.raises(DataError, match="query b has 10,001 documents; LightGBM supports at most"):
        LambdaMARTRanker().fit(X, X[:, 0] % 2, ["a"] + ["b"] * 10_001)


def test_missing_lightgbm_gets_a_sentence(arrays, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(DataError, match=r"pip install 'linrank\[baselines\]'"):
        LambdaMARTRanker().fit(*arrays)
