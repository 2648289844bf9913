"""Habits of scikit-learn, XGBoost, LightGBM and PyTerrier work here, or a sentence refuses them."""

from __future__ import annotations

import inspect
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from commandline import run, run_json
from linrank import (
    AdditiveRanker,
    AdditiveRankerCV,
    DataError,
    DominationRank,
    ForgottenQueriesWarning,
    KernelRankSVM,
    LinearModel,
    MultiTopicRanker,
    QueryKFold,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    SparseRankSVMCV,
    SplitQueriesWarning,
    SwappedArgumentsWarning,
    auc,
    average_precision,
    baselines,
    load_ranker,
    make_ranking,
    make_ranking_scorer,
    write_letor,
)
from linrank.estimators.ranker import qid_of_group


@pytest.fixture(scope="module")
def data():
    """Thirty queries of eight documents, with rows grouped by query."""
    return make_ranking(n_queries=30, docs_per_query=8, n_features=5, random_state=0)


@pytest.fixture(scope="module")
def valid():
    return make_ranking(n_queries=20, docs_per_query=8, n_features=5, random_state=1)


@pytest.fixture(scope="module")
def binary():
    """Two labels in one query, the case in which a ranker optimises the AUC."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4))
    return X, (X[:, 0] + random.normal(size=300) > 0).astype(int)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def sizes(data):
    return np.diff(data.query_ptr)


# scikit-learn ------------------------------------------------------------------------------------


# Before version 1.9, scikit-learn asks for `decision_function` of classifiers only.
needs_ranker_scores = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="scikit-learn before 1.9 calls no decision_function of a ranker",
)


@needs_ranker_scores
def test_roc_auc_is_a_scorer(binary):
    X, y = binary
    found = cross_val_score(RankSVM(0.01), X, y, scoring="roc_auc", cv=3)
    expected = []
    for train, test in KFold(3).split(X):
        ranker = RankSVM(0.01).fit(X[train], y[train])
        expected.append(roc_auc_score(y[test], ranker.decision_function(X[test])))
    np.testing.assert_allclose(found, expected)


@needs_ranker_scores
@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_scores_become_probabilities(binary, ensemble, method):
    X, y = binary
    model = CalibratedClassifierCV(RankSVM(0.01), method=method, ensemble=ensemble, cv=3).fit(X, y)
    chances = model.predict_proba(X)[:, 1]
    assert ((chances >= 0) & (chances <= 1)).all()
    assert chances.mean() == pytest.approx(y.mean(), abs=0.03)  # calibrated on average
    assert roc_auc_score(y, chances) == pytest.approx(auc(y, RankSVM(0.01).fit(X, y).predict(X)),
                                                      abs=0.02)  # fmt: skip


@needs_ranker_scores
def test_roc_curves_are_drawn(binary):
    X, y = binary
    ranker = RankSVM(0.01).fit(X, y)
    curve = RocCurveDisplay.from_predictions(y, ranker.decision_function(X))
    assert curve.roc_auc == pytest.approx(auc(y, ranker.predict(X)))
    calibrated = CalibratedClassifierCV(RankSVM(0.01), cv=3).fit(X, y)
    assert RocCurveDisplay.from_estimator(calibrated, X, y).roc_auc > 0.7


def test_classes_are_known_for_two_labels_only(binary):
    X, y = binary
    ranker = RankSVM().fit(X, 3 * y - 1)
    assert ranker.classes_.tolist() == [-1, 2]
    ranker.fit(X, np.arange(len(y)) % 3)
    assert not hasattr(ranker, "classes_")


def test_shap_explains_scores(data):
    shap = pytest.importorskip("shap")
    ranker = RankSVM(0.01, scale="standard").fit(data)
    explainer = shap.LinearExplainer(ranker, data.X)
    total = explainer.expected_value + explainer.shap_values(data.X).sum(axis=1)
    np.testing.assert_allclose(total, ranker.predict(data), rtol=1e-9, atol=1e-9)


def test_an_intercept_promises_a_linear_score(data):
    assert RankSVM().fit(data).intercept_ == 0.0
    for scale in ("query", "log1p"):
        ranker = RankSVM(scale=scale).fit(data)
        assert not hasattr(ranker, "intercept_")
        assert len(ranker.feature_importances_) == data.n_features
    assert not hasattr(RankSVM(), "intercept_")
    assert not hasattr(RankSVM(), "feature_importances_")


def test_importances_do_not_depend_on_units(data):
    ranker = RankSVM(0.01, scale="standard", tol=1e-9).fit(data)
    np.testing.assert_allclose(
        ranker.feature_importances_, np.abs(ranker.coef_) * data.X.std(axis=0)
    )
    units = 10.0 ** np.arange(data.n_features)
    other = RankSVM(0.01, scale="standard", tol=1e-9).fit(data.replace(X=data.X * units))
    np.testing.assert_allclose(
        other.feature_importances_, ranker.feature_importances_, rtol=1e-4, atol=1e-6
    )
    alone = baselines.LinearSVRRanker(0.01).fit(data)  # its model has no statistics of features
    np.testing.assert_array_equal(alone.feature_importances_, np.abs(alone.coef_))


@pytest.mark.parametrize("metric", ["map", "all-pairs-error"])
def test_score_measures_any_metric(data, metric):
    ranker = RankSVM(0.01).fit(data)
    expected = ranker.score(data.X, data.y, data.qid, metric=metric)
    assert ranker.score(data, metric=metric) == expected
    if metric == "map":
        assert expected == average_precision(data.y, ranker.predict(data), data.qid)
    with pytest.raises(DataError, match="metric 'mpa' is unknown"):
        ranker.score(data, metric="mpa")


def test_score_names_the_switch_that_loses_qid(data):
    ranker = RankSVM(0.01).fit(data)
    with pytest.raises(DataError, match=r"sklearn.set_config\(enable_metadata_routing=True\)"):
        ranker.score(data.X, data.y)
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(DataError, match=r"needs qid too\. If all rows belong to one query"),
    ):
        ranker.score(data.X, data.y)
    with pytest.raises(DataError, match="score needs the labels"):
        ranker.score(data.X)


@pytest.mark.usefixtures("routing")
def test_scorers_get_the_queries(data):
    scoring = {"map": make_ranking_scorer("map"), "error": make_ranking_scorer("all-pairs-error")}
    pipeline = make_pipeline(StandardScaler(), RankSVM(0.01))
    for estimator in (RankSVM(0.01, scale="query"), pipeline):
        found = cross_validate(
            estimator, data.X, data.y, params={"qid": data.qid}, cv=QueryKFold(3), scoring=scoring
        )
        for k, (train, test) in enumerate(QueryKFold(3).split(data.X, groups=data.qid)):
            if estimator is pipeline:
                break
            ranker = RankSVM(0.01, scale="query").fit(data.X[train], data.y[train], data.qid[train])
            held_out = data.X[test], data.y[test], data.qid[test]
            assert found["test_map"][k] == pytest.approx(ranker.score(*held_out, metric="map"))
            error = ranker.score(*held_out, metric="all-pairs-error")
            assert found["test_error"][k] == pytest.approx(-error)
    by_query = make_pipeline(StandardScaler(), RankSVM(0.01, scale="query"))
    by_query.fit(data.X, data.y, qid=data.qid)
    expected = by_query.score(data.X, data.y, qid=data.qid)
    assert make_ranking_scorer()(by_query, data.X, data.y, qid=data.qid) == expected
    search = GridSearchCV(
        RankSVM(), {"C": [1e-4, 1.0]}, cv=QueryKFold(3), scoring=make_ranking_scorer("p@3")
    )
    search.fit(data.X, data.y, qid=data.qid)
    assert 0 < search.best_score_ <= 1
    assert repr(search.scoring) == "make_ranking_scorer('p@3', flavour='standard')"


def test_a_scorer_without_queries_does_not_guess(data):
    pipeline = make_pipeline(StandardScaler(), RankSVM(0.01))
    pipeline.fit(data.X, data.y, ranksvm__qid=data.qid)
    with pytest.raises(DataError, match="score needs qid too"):
        make_ranking_scorer("map")(pipeline, data.X, data.y)


# RankingData -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ranker",
    [RankSVM(0.01), RankSVMCV([0.01, 0.1], cv=3), SparseRankSVM(10.0), DominationRank(10.0),
     AdditiveRanker(0.01), AdditiveRankerCV([0.01, 0.1], cv=3),
     KernelRankSVM("linear", C=0.01), baselines.LinearSVRRanker(0.01), baselines.RankBoost()],
    ids=lambda ranker: type(ranker).__name__,
)  # fmt: skip
def test_fit_takes_ranking_data(ranker, data):
    shuffle = np.random.default_rng(0).permutation(data.n_docs)
    X, y, qid = data.X[shuffle], data.y[shuffle], data.qid[shuffle]
    whole = RankingData(X, y, qid)
    expected = sklearn.clone(ranker).fit(whole.X, whole.y, whole.qid)
    ranker.fit(whole)
    np.testing.assert_array_equal(ranker.predict(whole), expected.predict(whole.X))
    np.testing.assert_array_equal(ranker.rank(whole), expected.rank(whole.X, whole.qid))
    assert ranker.score(whole) == expected.score(whole.X, whole.y, whole.qid)
    assert ranker.n_features_in_ == 5
    with pytest.raises(DataError, match=r"X is a RankingData, .* so y cannot be given"):
        ranker.fit(whole, y)
    with pytest.raises(DataError, match="so qid cannot be given"):
        ranker.predict(whole, qid)


def test_ranking_data_bring_weights_and_names(data):
    names, weight = list("abcde"), 1.0 + np.arange(data.n_docs) % 3
    rich = RankingData(data.X, data.y, data.qid, feature_names=names, sample_weight=weight)
    ranker = RankSVM(0.01).fit(rich)
    expected = RankSVM(0.01).fit(data.X, data.y, data.qid, sample_weight=weight)
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    assert ranker.feature_names_in_.tolist() == names
    assert ranker.model_.feature_names == names
    with pytest.raises(DataError, match="feature 0 of the data is 'e', but the ranker"):
        ranker.predict(RankingData(data.X, data.y, feature_names=names[::-1]))
    with pytest.raises(DataError, match="the data have 4 features, but the ranker was fitted on 5"):
        ranker.predict(RankingData(data.X[:, 1:], data.y))
    ranker.fit(data)
    assert not hasattr(ranker, "feature_names_in_")


def test_ranking_data_may_hold_missing_values_or_pairs(data):
    X = data.X.copy()
    X[3, 2] = np.nan
    gaps = RankingData(X, data.y, data.qid, allow_missing=True)
    with pytest.raises(DataError, match=r"X\[3, 2\] is NaN"):
        RankSVM().fit(gaps)
    expected = RankSVM(missing="median").fit(X, data.y, data.qid)
    np.testing.assert_array_equal(RankSVM(missing="median").fit(gaps).coef_, expected.coef_)
    pairs = [[0, 1], [2, 1]]
    listed = RankSVM().fit(RankingData.from_pairs(data.X, pairs))
    np.testing.assert_array_equal(listed.coef_, RankSVM().fit_pairs(data.X, pairs).coef_)


# The choice of C ---------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["map", "all-pairs-error"])
@pytest.mark.parametrize("folds", [True, False])
def test_cv_results_have_the_layout_of_a_grid_search(data, valid, metric, folds):
    Cs = [1e-4, 1e-2, 1.0]
    ranker = RankSVMCV(Cs, metric=metric, cv=3).fit(data, valid=None if folds else valid)
    table = pd.DataFrame(ranker.cv_results_)
    splits = table.filter(regex=r"^split\d+_test_score$")
    assert splits.shape == ((3, 3) if folds else (3, 1))
    np.testing.assert_array_equal(splits, ranker.metric_path_)
    np.testing.assert_allclose(table["mean_test_score"], splits.mean(axis=1))
    np.testing.assert_allclose(table["std_test_score"], splits.std(axis=1, ddof=0), atol=1e-15)
    assert table["param_C"].tolist() == Cs
    assert table["params"][0] == {"C": 1e-4}
    ranks = table["mean_test_score"].rank(method="min", ascending=metric != "map")
    assert table["rank_test_score"].tolist() == ranks.tolist()
    best = table[table["rank_test_score"] == 1].iloc[0]
    assert ranker.best_score_ == best["mean_test_score"]
    assert ranker.best_params_ == {"C": ranker.C_} == best["params"]
    assert set(table) <= set(GridSearchCV(
        LogisticRegression(), {"C": [0.1, 1.0]}, cv=3
    ).fit(data.X, data.y > data.y.mean()).cv_results_)  # fmt: skip


def test_the_best_score_is_that_of_the_chosen_C(data):
    ranker = SparseRankSVMCV(cv=3, rule="1se").fit(data)
    results = ranker.cv_results_
    k = results["param_C"].tolist().index(ranker.C_)
    assert ranker.best_score_ == results["mean_test_score"][k]


def test_folds_that_split_queries_are_noticed(data):
    Cs = [0.01, 0.1]
    with pytest.warns(SplitQueriesWarning, match="the folds of cv split 30 of 30 queries"):
        RankSVMCV(Cs, cv=KFold(3, shuffle=True, random_state=0).split(data.X)).fit(data)
    for cv in (3, QueryKFold(3), QueryKFold(3).split(data.X, groups=data.qid)):
        RankSVMCV(Cs, cv=cv).fit(data)  # warnings are errors here
    one = data.X, data.y > data.y.mean()
    RankSVMCV(Cs, cv=KFold(3).split(data.X)).fit(*one)  # a single query must be split


def test_path_by_folds(data, here):
    write_letor("train.txt", data)
    found = run_json("path", "train.txt", "--folds", 3, "--grid", "2^-9:2^-4")
    ranker = RankSVMCV(2.0 ** np.arange(-9, -3), cv=3).fit(data)
    assert [row["C"] for row in found["path"]] == ranker.cv_results_["param_C"].tolist()
    means = [row["mean"] for row in found["path"]]
    np.testing.assert_allclose(means, ranker.cv_results_["mean_test_score"])
    assert found["chosen"]["C"] == ranker.C_
    assert (found["folds"], found["valid"]) == (3, None)
    text = run("path", "train.txt", "--folds", 3, "--grid", "2^-9:2^-4", "--plot", "p.svg",
               "--out", "model.json").stdout  # fmt: skip
    assert "by 3 query folds" in text
    assert "by 3 query folds" in (here / "p.svg").read_text()
    coef = LinearModel.load("model.json").coef
    np.testing.assert_allclose(coef, ranker.coef_, rtol=1e-6, atol=1e-9)


def test_path_needs_one_way_to_compare(here):
    assert "--folds 5" in run("path", "t.txt", code=2).output
    both = run("path", "t.txt", "--folds", 3, "--valid", "v.txt", code=2)
    assert "both choose C" in both.output


# Mistakes ----------------------------------------------------------------------------------------


def grades(n, *values):
    return np.random.default_rng(0).choice(values, n)


@pytest.mark.parametrize(
    ("y", "warns"),
    [
        (grades(1000, 0, 1, 2), True),
        (grades(1000, 0, 1, 2, 3, 4).astype(float), True),
        (grades(999, 0, 1, 2), False),  # few documents
        (grades(1000, 0, 1), False),  # a task for the AUC
        (grades(1000, 1, 2, 3, 4, 5), False),  # ratings
        (grades(1000, 0, 1, 2, 5), False),
        (grades(1000, 0, 0.5, 1), False),
        (np.random.default_rng(0).normal(size=1000), False),  # a regression
    ],
)
def test_a_forgotten_qid_is_noticed(y, warns):
    X = np.random.default_rng(1).normal(size=(len(y), 2))
    n_pairs = sum(int((y < label).sum()) for label in y)
    said = f"all {len(y):,} documents are one query with {n_pairs:,} pairs"
    with pytest.warns(ForgottenQueriesWarning, match=said) if warns else nullcontext():
        RankSVM(0.01).fit(X, y)
    RankSVM(0.01).fit(X, y, qid=np.zeros(len(y)))  # whoever says so means one query
    baselines.LinearSVRRanker(0.01).fit(X, y)  # queries do not matter


def test_a_topic_is_one_query_on_purpose():
    y = grades(1000, 0, 1, 2)
    X = np.random.default_rng(1).normal(size=(1000, 2))
    assert MultiTopicRanker(RankSVM(0.01)).fit(X, y[:, None]).coef_.shape == (1, 2)


IDS = np.repeat(np.arange(100, 130), 8)


@pytest.mark.parametrize(
    ("y", "qid", "warns"),
    [
        (IDS, grades(240, 0, 1, 2), True),
        (np.arange(240), grades(240, 0, 1), True),  # all distinct
        (IDS.astype(float), grades(240, 0, 1, 2).astype(float), True),
        (grades(240, 0, 1, 2), IDS, False),  # the right order
        (np.random.default_rng(0).normal(size=240), grades(240, 0, 1, 2), False),  # a regression
        (IDS, np.repeat([0, 1, 2], 80), False),  # adjacent, as queries are
        (IDS, grades(240, 1, 2, 3), False),
        (IDS, grades(240, 0, 1, 7), False),
        (np.random.default_rng(0).permutation(IDS), grades(240, 0, 1, 2), False),
        (IDS // 8, grades(240, "a", "b"), False),
    ],
)
def test_swapped_labels_and_queries_are_noticed(y, qid, warns):
    X = np.random.default_rng(1).normal(size=(240, 2))
    said = r"If y and qid are swapped, use fit\(X, y, qid\)"
    with pytest.warns(SwappedArgumentsWarning, match=said) if warns else nullcontext():
        RankSVM(1e-4).fit(X, y, qid)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_text_for_labels_is_refused(data, kind):
    names = kind([f"q{q}" for q in data.qid])
    with pytest.raises(DataError, match=r"y\[0\] is 'q1', but qid holds numbers. If y and qid"):
        RankSVM().fit(data.X, names, data.y)


# XGBoost, LightGBM and PyTerrier -----------------------------------------------------------------


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_group_sizes_become_queries(group):
    qid = qid_of_group(group, sum(group))
    assert [int((qid == q).sum()) for q in range(len(group))] == group
    assert qid.tolist() == sorted(qid.tolist())


@pytest.mark.parametrize("group", [[0, 3], [1.5, 1.5], [-1, 4], [[3]], ["3"], [[1], [1, 1]], []])
def test_bad_groups_are_refused(group):
    with pytest.raises(DataError, match="group"):
        qid_of_group(group, 3)


def test_group_is_another_form_of_qid(data):
    ranker = RankSVM(0.01, scale="query").fit(data.X, data.y, group=sizes(data))
    expected = RankSVM(0.01, scale="query").fit(data)
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    group = {"group": sizes(data).tolist()}
    np.testing.assert_array_equal(ranker.rank(data.X, **group), expected.rank(data))
    np.testing.assert_array_equal(ranker.predict(data.X, **group), expected.predict(data))
    assert ranker.score(data.X, data.y, **group) == expected.score(data)
    kernel = KernelRankSVM("linear").fit(data.X, data.y, **group)
    assert kernel.n_queries_ == data.n_queries
    with pytest.raises(DataError, match="qid and group both give the queries"):
        ranker.fit(data.X, data.y, data.qid, **group)
    with pytest.raises(DataError, match="30 queries with 240 documents in total, but X has 239"):
        ranker.fit(data.X[1:], data.y[1:], **group)
    with pytest.raises(DataError, match="looks like a query id per row: pass it as qid"):
        ranker.fit(data.X, data.y, group=data.qid)
    with pytest.raises(DataError, match="Pass y, too"):
        ranker.fit(data, **group)


def test_eval_set_is_another_form_of_valid(data, valid):
    Cs = [1e-4, 1e-2, 1.0]
    expected = RankSVMCV(Cs).fit(data, valid=valid)
    pair = valid.X, valid.y
    for more in (
        {"valid": (*pair, valid.qid)},
        {"eval_set": [pair], "eval_qid": [valid.qid]},
        {"eval_set": [pair], "eval_group": [sizes(valid)]},
        {"eval_set": pair, "eval_group": [sizes(valid)]},
    ):
        ranker = RankSVMCV(Cs).fit(data.X, data.y, data.qid, **more)
        np.testing.assert_array_equal(ranker.metric_path_, expected.metric_path_)
        assert ranker.C_ == expected.C_


def test_held_out_data_are_measured_where_C_is_given(data, valid):
    ranker = RankSVM(0.01).fit(data, valid=valid)
    assert ranker.valid_score_ == pytest.approx(ranker.score(valid))
    assert ranker.model_.training["held_out"]["mean"] == ranker.valid_score_
    np.testing.assert_array_equal(ranker.coef_, RankSVM(0.01).fit(data).coef_)
    assert not hasattr(ranker.fit(data), "valid_score_")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda pair, qid: {"eval_set": [pair]}, "the queries of eval_set are missing"),
        (lambda pair, qid: {"eval_qid": [qid]}, "Pass eval_set"),
        (lambda pair, qid: {"eval_set": [pair, pair]}, "eval_set has 2 entries; expected one pair"),
        (lambda pair, qid: {"eval_set": [(*pair, qid)]}, "expected one pair"),
        (lambda pair, qid: {"eval_set": [pair], "eval_qid": qid}, "eval_qid has 160 entries"),
        (
            lambda pair, qid: {"eval_set": [pair], "eval_qid": [qid], "eval_group": [[160]]},
            "eval_qid and eval_group both",
        ),
        (lambda pair, qid: {"eval_set": [pair], "eval_group": [[159]]}, r"eval_group\[0\] has 1 q"),
        (
            lambda pair, qid: {"eval_set": [pair], "valid": (*pair, qid)},
            "valid and eval_set both give held-out data",
        ),
    ],
)
def test_unclear_held_out_data_are_refused(data, valid, given, said):
    pair = valid.X, valid.y
    with pytest.raises(DataError, match=said):
        RankSVMCV([0.01]).fit(data.X, data.y, data.qid, **given(pair, valid.qid))


@pytest.mark.parametrize(
    "ranker",
    [RankSVM(0.01), RankSVMCV([0.01, 0.1]), AdditiveRanker(0.01), AdditiveRankerCV([0.01, 0.1])],
)
def test_the_calls_of_pyterrier_run(data, valid, ranker):
    """Its LTRTransformer, of ``apply_learned_model(ranker, form="ltr")``, makes these calls."""
    ranker.fit(
        np.stack(list(data.X)), data.y.astype(int), group=sizes(data),
        eval_set=[(np.stack(list(valid.X)), valid.y.astype(int))], eval_group=[sizes(valid)],
    )  # fmt: skip
    assert len(ranker.feature_importances_) == 5
    scores = ranker.predict(np.stack(list(valid.X)))
    np.testing.assert_array_equal(scores, ranker.predict(valid))


def test_calls_by_position_are_those_of_0_1():
    names = list(inspect.signature(RankSVM.fit).parameters)
    assert names[1:5] == ["X", "y", "qid", "sample_weight"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RankSVM().fit(np.eye(3), [2, 1, 0], None, None)


def test_held_out_pairs_are_measured_with_one_C():
    X = np.random.default_rng(0).normal(size=(40, 3))
    pairs = [sorted((i, i + 1), key=lambda row: -X[row, 0]) for i in range(39)]
    ranker = RankSVM().fit_pairs(X[:30], pairs[:29], valid=(X, pairs[30:]))
    assert ranker.valid_score_ == ranker.score_pairs(X, pairs[30:]) > 0.5
    assert not hasattr(ranker.fit_pairs(X[:30], pairs[:29]), "valid_score_")


@pytest.mark.parametrize(
    "ranker",
    [RankSVM(0.01, scale="query", missing="zero"), SparseRankSVM(10.0), AdditiveRanker(0.01),
     KernelRankSVM("linear", C=0.01), baselines.RankBoost(n_rounds=3)],
    ids=lambda ranker: type(ranker).__name__,
)  # fmt: skip
def test_a_saved_ranker_scores_like_the_one_that_was_saved(ranker, tmp_path):
    data = make_ranking(20, 6, 3, n_levels=3, random_state=0)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"])
    ranker.fit(frame, data.y, data.qid).save(tmp_path / "m.json")
    saved = clone(load_ranker(tmp_path / "m.json"))
    np.testing.assert_array_equal(
        saved.predict(frame[["c", "a", "b"]], data.qid), ranker.predict(frame, data.qid)
    )
    np.testing.assert_array_equal(saved.rank(frame, data.qid), ranker.rank(frame, data.qid))
    assert saved.score(frame, data.y, data.qid) == ranker.score(frame, data.y, data.qid)
    assert hasattr(saved, "coef_") == isinstance(ranker.model_, LinearModel)
    assert saved.takes_missing == ranker.takes_missing
    if isinstance(ranker, SparseRankSVM):
        assert saved.export("sql") == ranker.export("sql") == ranker.model_.export("sql")
    with pytest.raises(DataError, match="fitted with qid, so score needs qid"):
        saved.score(frame, data.y)
    with pytest.raises(DataError, match="a saved ranker cannot be fitted again"):
        saved.fit(frame, data.y, data.qid)


def test_only_fitted_rankers_are_saved(tmp_path):
    for call in (RankSVM().save, lambda path: RankSVM().export("sql", path)):
        with pytest.raises(NotFittedError):
            call(tmp_path / "m.json")
    X, Y = np.eye(4), np.eye(4)[:, :2]
    MultiTopicRanker(RankSVM(0.01)).fit(X, Y).model_.save(tmp_path / "topics.json")
    with pytest.raises(DataError, match=r"topics.json: .* Use linrank.load_model"):
        load_ranker(tmp_path / "topics.json")
