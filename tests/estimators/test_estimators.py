"""Estimators follow the conventions of scikit-learn."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from linrank import (
    AdditiveRanker,
    AdditiveRankerCV,
    DataError,
    NotConvergedWarning,
    QueryKFold,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVMCV,
    average_precision,
    make_ranking,
    ndcg,
    pairwise_accuracy,
)
from linrank.problem import make_problem
from linrank.training.selection import (
    Criterion,
    equal_folds,
    mean_of_folds,
    query_folds,
    regularization_path,
    standard_error,
)
from problems import PAPERS, as_form, make_problem_arrays

#: Weights of documents do not move the knots of curves, which are quantiles of the documents.
WITHOUT_WEIGHTED_KNOTS = {
    f"check_sample_weight_equivalence_on_{form}_data": "knots do not depend on weights"
    for form in ("dense", "sparse")
}


def failing_checks(estimator):
    """The checks of scikit-learn that an estimator fails, with reasons."""
    is_additive = isinstance(estimator, AdditiveRanker | AdditiveRankerCV)
    return WITHOUT_WEIGHTED_KNOTS if is_additive else {}


@parametrize_with_checks(
    [
        RankSVM(C=1.0, **PAPERS), RankSVMCV(Cs=[0.01, 1.0], cv=3, **PAPERS),
        AdditiveRanker(), AdditiveRankerCV(Cs=[0.01, 1.0], cv=3),
    ],
    expected_failed_checks=failing_checks,
)  # fmt: skip
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def arrays():
    """A problem with three queries in random row order."""
    return make_problem_arrays("five levels", n=120)


@pytest.fixture
def routing():
    """Enable metadata routing for one test."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def fit(X, y, qid, **options):
    return RankSVM(tol=1e-9, **{"C": 1.0} | PAPERS | options).fit(X, y, qid=qid)


def test_row_order_and_type_of_qid_do_not_matter(arrays):
    X, y, qid = arrays
    expected = fit(X, y, qid).coef_
    shuffle = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_allclose(fit(X[shuffle], y[shuffle], qid[shuffle]).coef_, expected)
    for names in (
        qid.astype(str),
        -qid * 10**12,
        qid + 0.5,
        [("query", int(q)) for q in qid],
        [int(q) if q else "none" for q in qid],
        [2**63 + int(q) for q in qid],
        np.array([f"q{q}" for q in qid], dtype=object),
        pd.Series(qid).astype("category"),
    ):
        np.testing.assert_allclose(fit(X, y, names).coef_, expected)


def test_order_does_not_matter_at_the_default_tolerance_either():
    """Up to rounding, the whole fit is the same, including the sampled preconditioner."""
    data = make_ranking(n_queries=400, docs_per_query=12, n_features=5, random_state=0)
    names = np.array([f"query {q % 97}/{q}" for q in data.qid])
    expected = RankSVM(C=1.0, **PAPERS).fit(data.X, data.y, data.qid).coef_
    shuffle = np.random.default_rng(0).permutation(data.n_docs)
    other = RankSVM(C=1.0, **PAPERS).fit(data.X[shuffle], data.y[shuffle], names[shuffle]).coef_
    np.testing.assert_allclose(other, expected, rtol=1e-7)


@pytest.mark.parametrize("kind", ["pairs of documents", "two levels", "all distinct"])
def test_the_chosen_C_does_not_depend_on_order_or_names(kind):
    X, y, qid = make_problem_arrays(kind, n=100)
    options = {"Cs": [1e-4, 1e-2, 1.0], "cv": 3, "metric": "pairwise-accuracy"}
    first = RankSVMCV(**PAPERS | options).fit(X, y, qid)
    shuffle = np.random.default_rng(0).permutation(100)
    names = np.array([f"q{-q}" for q in qid])
    for q in (qid, names, names.astype(object)):
        other = RankSVMCV(**PAPERS | options).fit(X[shuffle], y[shuffle], q[shuffle])
        np.testing.assert_allclose(other.metric_path_, first.metric_path_)
        assert other.C_ == first.C_


@pytest.mark.parametrize("cv", [np.int64(3), None])
def test_any_whole_number_means_folds_of_queries(cv):
    X, y, qid = make_problem_arrays("pairs of documents", n=60)
    options = {"Cs": [0.1], "metric": "pairwise-accuracy"}
    expected = RankSVMCV(cv=3 if cv is not None else 5, **PAPERS | options).fit(X, y, qid)
    found = RankSVMCV(cv=cv, **PAPERS | options).fit(X, y, qid)
    np.testing.assert_array_equal(found.metric_path_, expected.metric_path_)


def test_ctrl_c_keeps_the_weights_and_stops_the_caller(arrays, monkeypatch):
    X, y, qid = arrays
    steps = []

    def interrupt(C, step, fold):
        steps.append(step)
        if len(steps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("linrank.estimators.trained.print_step", interrupt)
    ranker = RankSVM(100.0, tol=1e-12, verbose=True, **PAPERS)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(X, y, qid)
    assert ranker.result_.objective == steps[-1].objective
    assert np.isfinite(ranker.predict(X)).all()


def test_same_bits_again(arrays):
    X, y, qid = arrays
    first, second = (
        RankSVM(C=1.0, n_threads=2, **PAPERS).fit(X, y, qid),
        RankSVM(C=1.0, n_threads=2, **PAPERS).fit(X, y, qid),
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_only_the_order_of_labels_matters(arrays):
    X, y, qid = arrays
    np.testing.assert_array_equal(fit(X, y, qid).coef_, fit(X, np.exp(y) * 1e6 - 3, qid).coef_)


def test_weight_zero_is_removal_and_weight_k_is_k_copies(arrays):
    X, y, qid = arrays
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    copies = np.repeat(np.arange(len(y)), weight)
    expected = fit(X[copies], y[copies], qid[copies])
    weighted = RankSVM(C=1.0, tol=1e-9, **PAPERS).fit(X, y, qid, sample_weight=weight)
    np.testing.assert_allclose(weighted.coef_, expected.coef_, rtol=1e-6)
    assert weighted.result_.objective == pytest.approx(expected.result_.objective)


@pytest.mark.parametrize("normalize", [None, "pairs", "queries"])
def test_query_weights_are_copies_of_queries(arrays, normalize):
    X, y, qid = arrays
    times = np.array([0, 1, 3])[qid]
    rows, copy = zip(*[(i, c) for i, t in enumerate(times) for c in range(t)], strict=True)
    rows, copy = np.array(rows), np.array(copy)
    expected = fit(X[rows], y[rows], qid[rows] * 10 + copy, normalize=normalize)
    weighted = RankSVM(C=1.0, tol=1e-9, normalize=normalize, scale=None).fit(
        X, y, qid, query_weight=times
    )
    np.testing.assert_allclose(weighted.coef_, expected.coef_, rtol=1e-6)


def test_rank_counts_from_the_best(arrays):
    X, y, qid = arrays
    ranker = RankSVM(C=1.0, **PAPERS).fit(X, y, qid)
    ranks, scores = ranker.rank(X, qid), ranker.predict(X)
    for q in np.unique(qid):
        mine = qid == q
        np.testing.assert_array_equal(
            np.argsort(ranks[mine]), np.argsort(-scores[mine], kind="stable")
        )
        assert sorted(ranks[mine]) == list(range(1, mine.sum() + 1))


def test_score_is_mean_ndcg_at_10_and_does_not_guess(arrays):
    X, y, qid = arrays
    ranker = RankSVM(C=1.0, **PAPERS).fit(X, y, qid)
    assert ranker.score(X, y, qid) == ndcg(y, ranker.predict(X), qid, k=10)
    with pytest.raises(DataError, match="fitted with qid, so score needs qid too"):
        ranker.score(X, y)
    alone = RankSVM(C=1.0, **PAPERS).fit(X, y)
    assert alone.score(X, y) == ndcg(y, alone.predict(X), k=10)


def test_grid_search_without_routing_cannot_go_wrong_silently(arrays):
    X, y, qid = arrays
    search = GridSearchCV(
        RankSVM(C=1.0, **PAPERS), {"C": [0.1, 1.0]}, cv=QueryKFold(3), error_score="raise"
    )
    with pytest.raises(DataError, match="score needs qid too"):
        search.fit(X, y, groups=qid, qid=qid)


@pytest.mark.usefixtures("routing")
def test_metadata_routing_needs_no_boilerplate(arrays):
    X, y, qid = arrays
    names = np.array([f"q{q}" for q in qid])
    found = cross_validate(RankSVM(C=1.0, **PAPERS), X, y, cv=QueryKFold(3), params={"qid": names})
    by_hand = []
    for train, test in QueryKFold(3).split(X, y, names):
        ranker = RankSVM(C=1.0, **PAPERS).fit(X[train], y[train], names[train])
        by_hand.append(ranker.score(X[test], y[test], names[test]))
    np.testing.assert_allclose(found["test_score"], by_hand)
    pipeline = make_pipeline(StandardScaler(), RankSVM(C=1.0, **PAPERS))
    search = GridSearchCV(pipeline, {"ranksvm__C": [1e-3, 1.0]}, cv=QueryKFold(3))
    search.fit(X, y, qid=names)
    assert 0 < search.best_score_ <= 1
    assert search.score(X, y, qid=names) > 0
    weighted = cross_validate(
        RankSVM(C=1.0, **PAPERS),
        X,
        y,
        cv=QueryKFold(3),
        params={"qid": names, "sample_weight": np.ones(len(y))},
    )
    np.testing.assert_allclose(weighted["test_score"], by_hand)


def test_cv_on_a_validation_set_equals_a_loop(arrays):
    X, y, qid = arrays
    valid = make_problem_arrays("five levels", n=80, seed=5)
    Cs = [1e-4, 1e-2, 1.0]
    ranker = RankSVMCV(Cs, metric="map", tol=1e-8, **PAPERS).fit(X, y, qid, valid=valid)
    loop = [RankSVM(C, tol=1e-8, **PAPERS).fit(X, y, qid).predict(valid[0]) for C in Cs]
    values = [average_precision(valid[1], scores, valid[2]) for scores in loop]
    np.testing.assert_allclose(ranker.metric_path_[:, 0], values)
    assert Cs[int(np.argmax(values))] == ranker.C_
    np.testing.assert_allclose(ranker.predict(valid[0]), loop[int(np.argmax(values))], rtol=1e-5)


def test_folds_of_queries_depend_on_content_only():
    X, _, qid = make_problem_arrays("pairs of documents", n=60)
    shuffle = np.random.default_rng(0).permutation(60)
    names = np.array([f"q{100 - q}" for q in qid])
    expected = [set(qid[test]) for _, test in QueryKFold(4).split(X, groups=qid)]
    for ids in (qid, names, names.astype(object)):
        found = QueryKFold(4).split(X[shuffle], groups=ids[shuffle])
        assert [set(qid[shuffle][test]) for _, test in found] == expected
    with pytest.raises(DataError, match="QueryKFold needs the queries"):
        QueryKFold(4).split(X)


@pytest.mark.parametrize("X", [np.zeros(12), pd.DataFrame({"text": ["x", "y"] * 6}), [None] * 12])
def test_folds_of_queries_need_the_number_of_rows_only(X):
    qid = np.repeat(list("cabd"), 3)
    folds = [set(qid[test]) for _, test in QueryKFold(2).split(X, groups=qid)]
    assert sorted(map(len, folds)) == [2, 2]
    assert set.union(*folds) == set("abcd")


def test_validation_data_without_queries_is_refused(arrays):
    X, y, qid = arrays
    for valid in ((X, y), (X, y, None)):
        with pytest.raises(DataError, match=r"valid must be \(X, y, qid\)"):
            RankSVMCV(**PAPERS).fit(X, y, qid, valid=valid)


def test_validation_data_of_one_query_need_no_qid(arrays):
    X, y, _ = arrays
    found = RankSVM(C=0.01, **PAPERS).fit(X, y, valid=(X, y)).valid_score_
    assert found == RankSVM(C=0.01, **PAPERS).fit(X, y, valid=(X, y, np.zeros(len(y)))).valid_score_


def test_a_broken_sparse_matrix_is_refused(arrays):
    X, y, qid = arrays
    broken = as_form(X, "csr64")
    broken.indices[5] = 9999
    with pytest.raises(DataError, match="X is not a valid sparse matrix"):
        RankSVM(C=1.0, **PAPERS).fit(broken, y, qid)


def test_cv_by_folds_equals_a_loop():
    X, y, qid = make_problem_arrays("pairs of documents", n=120)
    Cs = [1e-3, 1.0]
    ranker = RankSVMCV(Cs, metric="pairwise-accuracy", cv=3, tol=1e-8, **PAPERS).fit(X, y, qid)
    for c, C in enumerate(Cs):
        for fold, (train, test) in enumerate(query_folds(RankingData(X, y, qid), 3)):
            single = RankSVM(C, tol=1e-8, **PAPERS).fit(X[train], y[train], qid[train])
            value = pairwise_accuracy(y[test], single.predict(X[test]), qid[test])
            assert ranker.metric_path_[c, fold] == pytest.approx(value)
    best = Cs[int(np.argmax(ranker.metric_path_.mean(axis=1)))]
    assert best == ranker.C_
    np.testing.assert_allclose(ranker.coef_, RankSVM(best, tol=1e-8, **PAPERS).fit(X, y, qid).coef_,
                               rtol=1e-4)  # fmt: skip


@pytest.mark.parametrize("form", ["dense32", "csr64", "csr32"])
def test_forms(arrays, form):
    X, y, qid = arrays
    X = X.astype(np.float32).astype(np.float64)
    ranker = fit(as_form(X, form), y, qid)
    np.testing.assert_allclose(ranker.coef_, fit(X, y, qid).coef_, rtol=1e-6)
    np.testing.assert_allclose(ranker.predict(as_form(X, form)), X @ ranker.coef_, rtol=1e-5)


def test_data_frames_bring_their_names(arrays):
    X, y, qid = arrays
    frame = pd.DataFrame(X, columns=["bm25", "pagerank", "age", "clicks"])
    ranker = RankSVM(C=1.0, **PAPERS).fit(frame, pd.Series(y), qid=pd.Series(qid))
    assert ranker.model_.feature_names == list(frame.columns)
    assert ranker.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(ranker.coef_, RankSVM(C=1.0, **PAPERS).fit(X, y, qid).coef_)


def test_inputs_are_left_alone(arrays):
    X, y, qid = (np.copy(a) for a in arrays)
    X.setflags(write=False)
    y.setflags(write=False)
    before = X.copy(), y.copy(), qid.copy()
    RankSVM(C=1.0, **PAPERS).fit(X, y, qid, sample_weight=np.ones(len(y)))
    for a, b in zip((X, y, qid), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_clone_pickle_and_warm_start(arrays):
    X, y, qid = arrays
    ranker = RankSVM(0.3, warm_start=True, **PAPERS).fit(X, y, qid)
    assert clone(ranker).get_params() == ranker.get_params()
    other = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(other.predict(X), ranker.predict(X))
    assert ranker.fit(X, y, qid).result_.n_products == 0
    with pytest.raises(DataError, match="the weights to start from have 4 features"):
        ranker.fit(X[:, :3], y, qid)


def test_verbose_prints_a_line_per_iteration(arrays, capsys):
    X, y, qid = arrays
    ranker = RankSVM(C=1.0, verbose=True, **PAPERS).fit(X, y, qid)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == ranker.result_.n_iter + 1
    assert lines[0].startswith("C 1           iteration 0")


def test_verbose_prints_a_line_per_C(arrays, capsys):
    X, y, qid = arrays
    ranker = RankSVMCV(Cs=[0.01, 0.1], metric="map", cv=2, verbose=True).fit(X, y, qid)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["C", "0.01", "map"], ["C", "0.1", "map"]]
    assert lines[0].endswith(f"{ranker.cv_results_['mean_test_score'][0]:.4f}")


def test_progress_is_shown_where_somebody_watches(arrays, capsys, monkeypatch):
    X, y, qid = arrays
    monkeypatch.setattr("linrank.training.trainer.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("linrank.training.trainer.EVERY_SECONDS", 0.0)
    RankSVMCV(Cs=[0.01, 0.1], cv=2).fit(X, y, qid)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    RankSVMCV(Cs=[0.01, 0.1], cv=2).fit(X, y, qid)
    shown = capsys.readouterr().err
    assert "\rfold 1/2, C = 0.01 (1/2), iteration 0" in shown
    assert shown.endswith(" \r")


def test_unfinished_training_warns(arrays):
    X, _, qid = arrays
    with pytest.warns(NotConvergedWarning, match="largest number of iterations"):
        RankSVM(100.0, max_iter=1, tol=1e-12, **PAPERS).fit(X, X.sum(axis=1) > 0, qid)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"qid": np.zeros(3)}, "qid has shape \\(3,\\) but X has 120 rows"),
        ({"qid": np.full(120, np.nan)}, "qid\\[0\\] is NaN"),
        ({"qid": np.array([None] * 120)}, "qid\\[0\\] is None"),
        ({"y": np.ones(120)}, "no pair to learn from"),
        ({"sample_weight": -np.ones(120)}, "sample_weight\\[0\\] is -1.0"),
        ({"sample_weight": np.ones(3)}, "sample_weight has shape \\(3,\\)"),
        ({"sample_weight": np.zeros(120)}, "sample_weight is zero everywhere"),
        ({"query_weight": np.arange(120.0)}, "query_weight differs within query"),
        ({"C": 0}, "C is 0"),
        ({"C": "1"}, "C is '1'"),
        ({"tol": "x"}, "tol is 'x'"),
        ({"tol": -1}, "tol is -1"),
        ({"solver": "magic"}, "known choices"),
        ({"normalize": "all"}, "normalize is 'all'"),
        ({"n_threads": 0}, "n_threads is 0"),
    ],
)
def test_bad_input_gets_a_sentence(arrays, change, words):
    X, y, qid = arrays
    given = {"X": X, "y": y, "qid": qid}
    params = {k: v for k, v in change.items() if k in RankSVM(C=1.0, **PAPERS).get_params()}
    given |= {k: v for k, v in change.items() if k not in params}
    with pytest.raises(DataError, match=words):
        RankSVM(**PAPERS | params).fit(**given)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_the_bad_entry_is_named_in_the_callers_rows(arrays, value, form):
    X, y, qid = arrays
    X = X.copy()
    X[17, 2] = value
    with pytest.raises(DataError, match=r"X\[17, 2\] is (NaN|inf)"):
        RankSVM(C=1.0, **PAPERS).fit(as_form(X, form), y, qid)
    ranker = RankSVM(C=1.0, **PAPERS).fit(*arrays)
    with pytest.raises(DataError, match=r"X\[17, 2\] is (NaN|inf)"):
        ranker.predict(as_form(X, form))


def test_more_features_at_predict_than_at_fit(arrays):
    X, y, qid = arrays
    with pytest.raises(ValueError, match="X has 5 features, but RankSVM is expecting 4"):
        RankSVM(C=1.0, **PAPERS).fit(X, y, qid).predict(np.ones((2, 5)))


@pytest.mark.parametrize("solver", ["auto", "sgd-pairs", "sgd-queries"])
def test_partial_fit_heads_for_the_fit_of_all_batches(solver):
    batches = [make_ranking(random_state=0, n_queries=400).take(np.arange(a, a + 800))
               for a in range(0, 8000, 800)]  # fmt: skip
    ranker = RankSVM(C=1e-3, solver=solver, random_state=1, **PAPERS)
    for batch in batches:
        ranker.partial_fit(batch.X, batch.y, qid=batch.qid)
    whole = make_ranking(random_state=0, n_queries=400)
    exact = RankSVM(C=1e-3, tol=1e-6, **PAPERS).fit(whole.X, whole.y, qid=whole.qid)
    problem = make_problem(whole, 1e-3)
    assert problem.value_grad(ranker.coef_)[0] < 1.1 * exact.result_.objective
    again = RankSVM(C=1e-3, solver=solver, random_state=1, **PAPERS)
    for batch in batches:
        again.partial_fit(batch.X, batch.y, qid=batch.qid)
    np.testing.assert_array_equal(again.coef_, ranker.coef_)
    np.testing.assert_array_equal(ranker.model_.coef, ranker.coef_)
    other = RankSVM(C=1e-3, solver=solver, random_state=2, **PAPERS).fit(
        whole.X, whole.y, qid=whole.qid
    )
    other.partial_fit(batches[0].X, batches[0].y, qid=batches[0].qid)
    first = RankSVM(C=1e-3, solver=solver, random_state=2, **PAPERS)
    first.partial_fit(batches[0].X, batches[0].y, qid=batches[0].qid)
    np.testing.assert_array_equal(other.coef_, first.coef_)  # fit starts again from zero


def test_partial_fit_refuses_what_it_cannot_do():
    batch = make_ranking(random_state=0)
    with pytest.raises(DataError, match="Use solver='sgd-pairs' or 'sgd-queries'"):
        RankSVM(C=1.0, solver="newton", **PAPERS).partial_fit(batch.X, batch.y, qid=batch.qid)
    with pytest.raises(DataError, match="normalize='queries' needs all of the data"):
        RankSVM(C=1.0, normalize="queries", scale=None).partial_fit(batch.X, batch.y, qid=batch.qid)
    ranker = RankSVM(C=1.0, **PAPERS).partial_fit(batch.X, batch.y, qid=batch.qid)
    with pytest.raises(ValueError, match="features"):
        ranker.partial_fit(batch.X[:, 1:], batch.y, qid=batch.qid)


@pytest.mark.parametrize("estimator", [RankSVMCV, partial(SparseRankSVMCV, rule="1se")])
@pytest.mark.parametrize("folds", [True, False])
def test_the_smallest_error_is_the_best(estimator, folds):
    X, y, qid = make_problem_arrays("pairs of documents", n=120)
    valid = None if folds else make_problem_arrays("pairs of documents", n=80, seed=5)
    Cs = [0.1, 0.3, 1.0, 3.0]
    accuracy, error = (
        estimator(Cs, metric=metric, cv=3, **PAPERS).fit(X, y, qid, valid=valid)
        for metric in ("pairwise-accuracy", "all-pairs-error")
    )
    np.testing.assert_allclose(error.metric_path_, 1 - accuracy.metric_path_)
    assert error.C_ == accuracy.C_


def test_one_standard_error_from_the_smallest_error():
    values, n_features = np.array([0.5, 0.31, np.nan, 0.3]), np.array([1, 2, 0, 9])
    for rule, chosen in (("1se", 1), ("best", 3)):
        criterion = Criterion("all-pairs-error", rule=rule)
        assert criterion.choose(values, 0.02, n_features) == chosen


def test_one_standard_error_includes_its_end_and_counts_features():
    values = np.array([0.75, 0.5, 1.0, 1.0])
    criterion = Criterion(rule="1se")
    assert criterion.choose(values, 0.25, np.array([1, 1, 3, 2])) == 0
    assert criterion.choose(values, 0.24, np.array([1, 1, 3, 2])) == 3
    assert criterion.choose(values, 0.25, np.array([0, 0, 2, 2])) == 2  # a model needs features
    assert criterion.choose(values, 0.25, np.zeros(4, int)) == 0
    assert Criterion().choose(values, 9.0, np.array([1, 1, 3, 2])) == 2


def test_a_value_that_is_equal_is_no_improvement():
    for metric, better, worse in (("ndcg", 0.6, 0.4), ("all-pairs-error", 0.4, 0.6)):
        criterion = Criterion(metric)
        assert criterion.improves(np.array([np.nan, worse, better]), 0.5)
        assert not criterion.improves(np.array([np.nan, worse, 0.5]), 0.5)


def test_the_standard_error_is_of_the_queries_that_can_be_measured():
    """Reciprocal ranks are 1 and ½; the third query has no relevant document."""
    y, scores = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]), np.array([2.0, 1.0] * 3)
    data = RankingData(np.zeros((6, 1)), y, np.repeat([0, 1, 2], 2))
    assert Criterion("mrr").measure(data, scores)[1] == pytest.approx(0.25)
    assert standard_error(np.array([1.0, 2.0, 6.0])) == pytest.approx(np.sqrt(7.0 / 3.0))
    assert standard_error(np.array([3.0])) == 0.0


def test_the_criterion_of_trec_breaks_ties_by_document():
    """The relevant document is first in one query and last in the other."""
    y, doc_ids = np.array([1.0, 0.0, 1.0, 0.0]), ["b", "a", "c", "d"]
    data = RankingData(np.zeros((4, 1)), y, [0, 0, 1, 1], doc_ids=doc_ids)
    criterion = Criterion("mrr", flavour="trec")
    assert criterion.mean(data, np.zeros(4)) == pytest.approx(0.75)
    assert criterion.measure(data, np.zeros(4))[1] == pytest.approx(0.25)


def test_the_mean_of_folds_is_over_those_that_are_defined():
    values = np.array([[1.0, 4.0], [np.nan, 3.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(mean_of_folds(values), [2.5, 3.0, np.nan])


def test_the_number_of_folds_has_limits():
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    several = RankingData(np.arange(6.0)[:, None], y, np.repeat([0, 1, 2], 2))
    one = RankingData(np.arange(6.0)[:, None], y)
    for data, most in ((several, 3), (one, 6)):
        for n_folds in (2, most):
            folds = list(query_folds(data, n_folds))
            assert len(folds) == n_folds
            held_out = np.sort(np.concatenate([test for _, test in folds]))
            np.testing.assert_array_equal(held_out, np.arange(6))
        for n_folds in (1, most + 1):
            with pytest.raises(DataError, match=f"{n_folds} folds cannot be made of them"):
                query_folds(data, n_folds)
    for _, test in query_folds(one, 3):
        assert sorted(y[test]) == [0.0, 1.0]  # documents are assigned by label


def equal_folds_twin(groups, n_folds):
    filled, fold_of = [0] * n_folds, {}
    for one in sorted(set(groups), key=lambda one: (groups.count(one), one), reverse=True):
        fold_of[one] = filled.index(min(filled))
        filled[fold_of[one]] += groups.count(one)
    return [fold_of[one] for one in groups]


@pytest.mark.parametrize("n_groups", [3, 20, 300])
def test_folds_of_groups_of_one_size_do_not_depend_on_the_processor(n_groups):
    """Unstable sorts of numpy order equal sizes by the instructions that the processor has."""
    rng = np.random.default_rng(n_groups)
    sizes = rng.integers(1, 4, n_groups)
    groups = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    expected = equal_folds_twin(groups.tolist(), 3)
    assert equal_folds(groups, 3).tolist() == expected
    same = np.repeat(np.arange(n_groups), 2)  # X, so that queries are numbered by content
    for folds in (
        QueryKFold(3).split(1.0 + same[:, None], groups=same),
        query_folds(RankingData(1.0 + same[:, None], np.arange(len(same)), same), 3),
    ):
        for k, (train, test) in enumerate(folds):
            held_out = np.array(equal_folds_twin(same.tolist(), 3)) == k
            np.testing.assert_array_equal(test, np.flatnonzero(held_out))
            np.testing.assert_array_equal(train, np.flatnonzero(~held_out))


@pytest.mark.parametrize("C", [10**400, float("1e400"), float("nan"), 0, -1, "1", None])
def test_C_must_be_a_number_that_can_be_worked_with(C):
    X, y = np.eye(4), [3, 2, 1, 0]
    with pytest.raises(DataError, match=r"C is .*; expected a finite number above 0"):
        RankSVM(C=C, **PAPERS).fit(X, y)
    with pytest.raises(DataError, match=r"C is .*; expected a finite number above 0"):
        regularization_path(make_problem(RankingData(X, y)), [C])
