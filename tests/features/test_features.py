"""Preprocessing: the steps, their statistics, missing values, and what a model keeps of them."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

import reference
from commandline import error_of, run, run_json, write_text
from linrank import (
    DataError,
    DominationRank,
    FileFormatError,
    LinearModel,
    MultiTopicRanker,
    QueryKFold,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    convert,
    load_model,
    make_ranking,
    open_store,
)
from linrank.data.ranking import RankingData
from linrank.errors import FeatureRangeWarning
from linrank.features.preprocessing import FeatureSteps, Preprocessing
from linrank.matrix.summary import multiply_and_summarise, outside, quantiles, summarise
from linrank.penalties import GroupL1
from problems import PAPERS, as_form

FORMS = ["dense64", "dense32", "csr64", "csr32"]
SCALERS = {
    "standard": StandardScaler,
    "minmax": MinMaxScaler,
    "robust": RobustScaler,
    "maxabs": MaxAbsScaler,
}
SCALES = [*SCALERS, "query", "log1p", "clip", "clip:0.2+minmax", "log1p+clip:0.1+robust"]
NOT_BY_QUERY = [scale for scale in SCALES if scale != "query"]

numbers = st.integers(-8, 8).map(float) | st.sampled_from([0.25, -1e3, 1e6])
tables = hnp.arrays(np.float64, st.tuples(st.integers(2, 9), st.integers(1, 3)), elements=numbers)
with_gaps = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 9), st.integers(1, 3)),
    elements=numbers | st.just(np.nan),
)


def data_of(X, qid=None):
    return RankingData(X, np.zeros(X.shape[0]), qid, allow_missing=True)


def fitted(X, scale, missing=None, qid=None):
    """Return fitted steps, and the preprocessed training data."""
    data = data_of(X, qid)
    steps = FeatureSteps.parse(scale, missing).fit(data)
    return steps, steps.apply_to(data)


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.fixture(scope="module")
def problem():
    """X with offsets, tails, zeros and missing values; y; and qid in random order."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4)) * [1.0, 100.0, 1e-3, 5.0] + [3.0, 0.0, 0.0, 0.0]
    X[:, 1] = np.exp(np.abs(X[:, 1]) / 80)
    X[rng.random(90) < 0.5, 3] = 0.0
    return X, rng.integers(0, 3, 90).astype(float), rng.integers(0, 6, 90)


@pytest.fixture(scope="module")
def gaps(problem):
    X, y, qid = problem
    X = X.copy()
    X[np.random.default_rng(1).random(X.shape) < [0.2, 0.0, 0.1, 0.1]] = np.nan
    return X, y, qid


@given(tables, st.sampled_from(sorted(SCALERS)))
def test_scales_as_scikit_learn(X, scale):
    if scale == "robust":  # scikit-learn leaves a feature as it is if its quartiles are equal
        low, high = np.quantile(X, (0.25, 0.75), axis=0)
        X = X[:, high > low]
        if not X.shape[1]:
            return
    expected = SCALERS[scale]().fit_transform(X)
    np.testing.assert_allclose(fitted(X, scale)[1].X, expected, rtol=1e-9, atol=1e-9)


@given(with_gaps, st.sampled_from([None, *sorted(SCALERS)]))
def test_fills_and_scales_as_scikit_learn(X, scale):
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    filled = imputer.fit_transform(X)
    d = X.shape[1]
    if scale == "robust":
        low, high = np.quantile(filled[:, :d], (0.25, 0.75), axis=0)
        if (low == high).any():
            return
    expected = filled if scale is None else SCALERS[scale]().fit_transform(filled[:, :d])
    steps, data = fitted(X, scale, "indicator")
    np.testing.assert_allclose(data.X[:, :d], expected[:, :d], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(data.X[:, d:], filled[:, d:])
    assert steps.indicators.tolist() == np.flatnonzero(np.isnan(X).any(axis=0)).tolist()
    zeros = fitted(X, None, "zero")[1].X
    np.testing.assert_array_equal(zeros, np.nan_to_num(X, nan=0.0))


@given(with_gaps, st.sampled_from(SCALES), st.data())
def test_sparse_rows_differ_from_dense_ones_by_a_constant(X, scale, data):
    qid = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(X), max_size=len(X))))
    steps, _ = fitted(X, scale, "indicator")
    given = data_of(X, qid)
    full = steps.apply_to(given).X
    thin = steps.apply_to(given.replace(X=sparse.csr_array(given.X))).X
    assert sparse.issparse(thin)
    difference = full - thin.toarray()
    rows = zip(given.query_ptr[:-1], given.query_ptr[1:], strict=True)
    for a, b in rows if scale == "query" else [(0, len(X))]:
        scale_of_values = 1.0 + np.abs(full[a:b]).max(axis=0) + np.abs(difference[a])
        assert (np.ptp(difference[a:b], axis=0) <= 1e-9 * scale_of_values).all()


@given(with_gaps, st.sampled_from(NOT_BY_QUERY))
def test_fits_the_same_to_sparse_data(X, scale):
    one, _ = fitted(X, scale, "median")
    other, _ = fitted(sparse.csr_array(X), scale, "median")
    for name in ("fill", "low", "high", "shift", "factor"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@given(tables, st.data())
def test_query_is_query_level_norm(X, data):
    qid = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X))))
    scaled = fitted(X, "query", qid=qid)[1]
    expected = reference.query_level_norm(X, qid)
    np.testing.assert_allclose(scaled.restore(scaled.X), expected, rtol=1e-12, atol=1e-15)


@given(hnp.arrays(np.float64, (6, 2), elements=st.floats(-1e300, 1e300)))
def test_logarithm(X):
    expected = [[reference.signed_log(x) for x in row] for row in X.tolist()]
    np.testing.assert_allclose(fitted(X, "log1p")[1].X, expected, rtol=1e-9, atol=0)


def test_clip():
    X = np.arange(11.0)[:, None]
    steps, data = fitted(X, "clip:0.1")
    assert (data.X.min(), data.X.max()) == (1.0, 9.0)
    assert steps.apply(np.array([[-5.0], [50.0]])).tolist() == [[1.0], [9.0]]
    steps, data = fitted(X, "clip")
    np.testing.assert_array_equal(data.X, X)
    assert steps.apply(np.array([[-5.0], [50.0]])).tolist() == [[0.0], [10.0]]


@pytest.mark.parametrize("scale", SCALES)
def test_float32(problem, scale):
    X = problem[0].astype(np.float32)
    single, double = fitted(X, scale)[1].X, fitted(X.astype(np.float64), scale)[1].X
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_scores_do_not_depend_on_the_precision_of_scaled_values(gaps, scale, kind):
    X, y, qid = gaps
    data = RankingData(kind(X.astype(np.float32)), y, qid, allow_missing=True)
    model = RankSVM(0.1, scale=scale, missing="indicator", normalize=None).fit(data).model_
    expected = model.predict(data.X.astype(np.float64), data.qid)
    np.testing.assert_allclose(model.predict(data.X, data.qid), expected, rtol=1e-12, atol=1e-12)


def test_robust_uses_the_deviation_if_the_quartiles_are_equal():
    X = np.array([[0.0]] * 9 + [[10.0]])
    assert fitted(X, "robust")[0].factor[0] == pytest.approx(1 / X.std())


@pytest.mark.parametrize("scale", SCALERS)
@pytest.mark.parametrize("value", [0.0, 7.0, 1e8, 5e-324])
def test_features_without_width_keep_their_scale(scale, value):
    X = np.column_stack([np.full(6, value), np.arange(6.0)])
    steps, data = fitted(X, scale)
    assert np.isfinite(data.X).all()
    if scale != "maxabs" or value < 1e-300:
        assert steps.factor[0] == 1.0


@pytest.mark.parametrize("scale", SCALERS)
def test_rounding_errors_are_not_scaled_up(scale):
    X = np.column_stack([1e8 + np.arange(6) * 2e-8, np.arange(6.0)])
    assert fitted(X, scale)[0].factor[0] <= 1.0


@pytest.mark.parametrize("scale", SCALES)
def test_reads_maps_and_read_only_arrays(problem, scale, tmp_path):
    X, y, qid = problem
    X = X.copy()
    X.flags.writeable = False
    expected = fitted(X, scale, qid=qid)[1]
    data = RankingData(X, y, qid)
    write_text(tmp_path / "data.txt", data)
    convert(tmp_path / "data.txt", tmp_path / "store")
    stored = open_store(tmp_path / "store")
    steps = FeatureSteps.parse(scale, None).fit(stored)
    np.testing.assert_array_equal(steps.apply_to(stored).X, expected.X)
    np.testing.assert_array_equal(stored.X, data.X)


@pytest.mark.parametrize(
    "scale", ["standard", "log1p", "clip", "clip:0.25", "log1p+query", "log1p+clip:0.01+robust"]
)
def test_texts_of_steps(scale):
    assert FeatureSteps.parse(scale, "zero").name == scale
    assert FeatureSteps.parse(f" {scale.replace('+', ' + ')}", "zero").name == scale


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("other", "expected log1p, clip"),
        ("standard+log1p", "in this order"),
        ("standard+minmax", "one of auto, standard, minmax"),
        ("", "scale is ''"),
        ("clip:0.5", "0 ≤ QUANTILE < 0.5"),
        ("clip:x", "'clip:x' in scale"),
        ("clipped", "'clipped' in scale"),
        (True, "scale is True"),
    ],
)
def test_other_texts_of_steps_are_refused(scale, words):
    with pytest.raises(DataError, match=words):
        FeatureSteps.parse(scale, None)


def test_other_fillings_are_refused():
    with pytest.raises(DataError, match="missing is 'mean'; known choices are 'zero'"):
        RankSVM(C=1.0, missing="mean", **PAPERS).fit(np.eye(2), [0, 1])


@given(with_gaps, st.sampled_from(["dense64", "csr64"]))
def test_statistics_of_features(X, form):
    found = summarise(as_form(X, form))
    for f, column in enumerate(X.T):
        values = column[~np.isnan(column)]
        values = values if len(values) else np.zeros(1)
        assert (found.minimum[f], found.maximum[f]) == (values.min(), values.max())
        assert found.mean[f] == pytest.approx(values.mean(), rel=1e-12, abs=1e-9)
        assert found.deviation[f] == pytest.approx(values.std(), rel=1e-9, abs=1e-9)


@given(with_gaps, st.sampled_from(["dense64", "csr64"]), st.data())
def test_a_row_of_weight_two_counts_as_two_rows(X, form, data):
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)))
    if not any(times):
        return
    found = summarise(as_form(X, form), weight=np.array(times, float))
    expected = summarise(as_form(np.repeat(X, times, axis=0), form))
    for name, values in vars(found).items():
        np.testing.assert_allclose(values, getattr(expected, name), rtol=1e-9, atol=1e-6)


def test_rows_of_weight_zero_do_not_count_in_a_scaling(problem):
    X, y, qid = problem
    weight = np.where(np.arange(len(y)) % 5 < 2, 0.0, 1.0)
    kept = weight > 0
    weighted = RankSVM(0.01, scale="standard", normalize=None).fit(X, y, qid, sample_weight=weight)
    expected = RankSVM(0.01, scale="standard", normalize=None).fit(X[kept], y[kept], qid[kept])
    np.testing.assert_allclose(weighted.coef_, expected.coef_, rtol=1e-6)
    of_queries = np.where(qid % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(y)), of_queries.astype(int))
    own = qid[twice] + 1000 * np.concatenate([np.arange(n) for n in of_queries.astype(int)])
    weighted = RankSVM(0.01, scale="standard", normalize=None).fit(
        X, y, qid, query_weight=of_queries
    )
    expected = RankSVM(0.01, scale="standard", normalize=None).fit(X[twice], y[twice], own)
    np.testing.assert_allclose(weighted.coef_, expected.coef_, rtol=1e-6)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize(("scale", "missing"), [("auto", None), ("log1p+auto", "median")])
def test_auto_scales_sparse_features_by_one_number(problem, form, scale, missing):
    X, y, qid = problem
    chosen = scale.replace("auto", "standard" if form == "dense64" else "common")
    found, expected = (
        RankSVM(0.01, scale=one, missing=missing, normalize=None).fit(as_form(X, form), y, qid)
        for one in (scale, chosen)
    )
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    assert found.model_.settings["scale"] == chosen
    assert found.model_.settings["chosen_for_data"] == ["scale"]
    assert "chosen_for_data" not in expected.model_.settings
    assert found.get_params()["scale"] == scale  # the parameter stays for the next fit


@pytest.mark.parametrize("form", ["dense64", "dense32", "csr64"])
def test_a_large_matrix_is_scaled_without_a_copy(problem, form, monkeypatch):
    X, y, qid = problem
    X = as_form(X * 10.0 ** np.arange(X.shape[1]), form)
    valid = X[:40], y[:40], qid[:40]
    rankers = [
        RankSVM(C=1.0, scale="standard", tol=1e-9, normalize=None),
        RankSVM(C=1.0, scale="minmax", loss="hinge", tol=1e-7, normalize=None),
        SparseRankSVM(0.1, scale="maxabs", debias=True, tol=1e-9, normalize=None),
        DominationRank(C=1.0, scale="robust", tol=1e-9, normalize=None),
        RankSVM(C=1.0, scale="standard", solver="dual", normalize=None),
        RankSVMCV([0.01, 0.1], scale="standard", cv=2, tol=1e-9, normalize=None),
        SparseRankSVM(
            0.1,
            scale="standard",
            bounds=(0.0, 1e-3),
            penalty="elastic_net",
            tol=1e-9,
            normalize=None,
        ),
    ]
    for ranker in rankers:
        expected = clone(ranker).fit(X, y, qid, valid=None if ranker.chooses else valid)
        with monkeypatch.context() as patch:
            patch.setattr("linrank.features.preprocessing.COPIED_BYTES", -1)
            found = clone(ranker).fit(X, y, qid, valid=None if ranker.chooses else valid)
        tolerance = 1e-3 if form.endswith("32") or ranker.solver == "dual" else 1e-5
        scores = expected.predict(X)
        np.testing.assert_allclose(found.predict(X), scores, atol=tolerance * np.ptp(scores))
        if not ranker.chooses:
            assert found.valid_score_ == pytest.approx(expected.valid_score_, abs=1e-3)
        for name, values in vars(found.model_.summary).items():
            np.testing.assert_allclose(values, getattr(expected.model_.summary, name), rtol=1e-5)


def test_a_large_matrix_may_lack_values_in_held_out_data_only(problem, monkeypatch):
    X, y, qid = problem
    held_out = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    options = {"scale": "standard", "missing": "median", "tol": 1e-9}
    expected = RankSVM(0.01, **PAPERS | options).fit(X, y, qid, valid=(held_out, y, qid))
    monkeypatch.setattr("linrank.features.preprocessing.COPIED_BYTES", -1)
    found = RankSVM(0.01, **PAPERS | options).fit(X, y, qid, valid=(held_out, y, qid))
    assert found.valid_score_ == pytest.approx(expected.valid_score_, abs=1e-3)
    scores = expected.predict(held_out)
    np.testing.assert_allclose(found.predict(held_out), scores, atol=1e-6 * np.ptp(scores))


@pytest.mark.parametrize("form", FORMS)
def test_statistics_in_several_parts(form):
    X = np.random.default_rng(0).standard_normal((300_000, 3))
    X[:, 1] += 10.0
    X[:150_000, 2] += 50.0
    X[::3, 0] = 0.0
    found = summarise(as_form(X, form), n_threads=2)
    tolerance = 1e-5 if form.endswith("32") else 1e-12
    np.testing.assert_allclose(found.mean, X.mean(axis=0), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.deviation, X.std(axis=0), rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [1, 3, 40_000])  # blocks of many rows, and of one row
def test_products_with_statistics(dtype, n_features):
    rng = np.random.default_rng(0)
    n = 30 if n_features > 3 else 70_001
    X = rng.standard_normal((n, n_features)).astype(dtype)
    X[rng.integers(n, size=20), rng.integers(n_features, size=20)] = np.nan
    X[0, 0] = X[n // 2, -1] = np.nan
    v = rng.uniform(1.0, 2.0, n_features)
    product, found = multiply_and_summarise(X, v, n_threads=2)
    np.testing.assert_allclose(product, X.astype(np.float64) @ v, rtol=1e-6, atol=1e-6)
    X = X.astype(np.float64)
    assert found.minimum.tolist() == np.nanmin(X, axis=0).tolist()
    assert found.maximum.tolist() == np.nanmax(X, axis=0).tolist()
    np.testing.assert_allclose(found.mean, np.nanmean(X, axis=0), atol=1e-12)
    np.testing.assert_allclose(found.deviation, np.nanstd(X, axis=0), rtol=1e-9)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_offsets_cost_no_digits(form):
    values = np.random.default_rng(0).standard_normal(1000)
    X = np.column_stack([np.append(np.nan, values[1:]), values]) + 1e8
    found = summarise(as_form(X, form))
    np.testing.assert_allclose(found.deviation, [values[1:].std(), values.std()], rtol=1e-6)


@given(with_gaps, st.sampled_from(["dense64", "csr64"]))
def test_quantiles(X, form):
    q = (0.0, 0.25, 0.5, 0.9, 1.0)
    for some in (q, q[2:3]):
        found = quantiles(as_form(X, form), some)
        for f, column in enumerate(X.T):
            known = column[~np.isnan(column)]
            expected = np.quantile(known, some) if len(known) else np.zeros(len(some))
            np.testing.assert_allclose(found[:, f], expected, rtol=1e-12, atol=1e-12)


def test_quantiles_of_very_many_sparse_features():
    X = sparse.random_array((50, 200_000), density=1e-3, format="csr", rng=0)
    assert not quantiles(X, (0.25, 0.5, 0.75)).any()


@pytest.mark.parametrize("form", FORMS)
def test_features_far_outside(form):
    trained = summarise(np.array([[0.0, 5.0, 1.0, 0.0], [2.0, 6.0, 1.0, 4.0]]))
    X = as_form(np.tile([[1.0, 5.5, 9.0, 2.0]], (100, 1)), form)
    assert outside(X, trained).tolist() == [False] * 4
    X = np.tile([[5.0, 0.0, 9.0, 2.0]], (100, 1))
    X[3, 3] = 50.0
    assert outside(as_form(X, form), trained).tolist() == [True, True, False, True]
    X[3, 3] = 40.0
    assert not outside(as_form(X, form), trained)[3]


@pytest.fixture(scope="module", params=SCALES)
def scaled(request, gaps):
    X, y, qid = gaps
    names = [f"f{f}" for f in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    return RankSVM(0.1, scale=request.param, missing="indicator", normalize=None).fit(
        frame, y, qid=qid
    )


@pytest.mark.parametrize("form", FORMS)
def test_scores_are_those_of_the_scaled_form(scaled, gaps, form):
    X, _, qid = gaps
    model = scaled.model_
    data = data_of(X, qid)
    scaled = model.preprocessing.apply_to(data)
    expected = scaled.restore(scaled.X @ model.scaled_coef)
    if model.is_linear or not model.needs_qid:  # weights are folded, without a constant
        constant = model.preprocessing.apply(np.zeros((1, X.shape[1]))) @ model.scaled_coef
        constant -= model.coef @ model.preprocessing.at_zero()
        expected = expected - constant
    found = model.predict(as_form(X, form), qid)
    tolerance = 1e-4 if form.endswith("32") else 1e-10
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_scores_are_the_sums_of_terms(scaled, gaps):
    X, _, _ = gaps
    model = scaled.model_
    if model.needs_qid:
        with pytest.raises(DataError, match="no formula of one document"):
            model.terms()
        return
    rows = [dict(zip(model.feature_names, row, strict=True)) for row in X.tolist()]
    expected = [reference.score_by_terms(model.terms(), row) for row in rows]
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-9, atol=1e-12)
    one = [model.predict(row)[0] for row in rows[:9]]
    np.testing.assert_allclose(one, expected[:9], rtol=1e-9, atol=1e-12)


def test_files_keep_every_bit(scaled, gaps, tmp_path):
    X, _, qid = gaps
    scaled.model_.save(tmp_path / "model.json")
    model = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(model.predict(X, qid), scaled.model_.predict(X, qid))
    assert model.preprocessing.describe() == scaled.model_.preprocessing.describe()
    assert model.preprocessing.indicators.tolist() == [0, 2, 3]
    if not model.needs_qid:
        assert model.terms() == scaled.model_.terms()
    model.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()


def test_pickle_and_clone(scaled, gaps):
    X, _, qid = gaps
    other = pickle.loads(pickle.dumps(scaled))
    np.testing.assert_array_equal(other.model_.predict(X, qid), scaled.model_.predict(X, qid))
    assert clone(scaled).get_params() == scaled.get_params()


def test_one_row_is_scored_as_many(scaled, gaps):
    X, _, _ = gaps
    model = scaled.model_
    if model.needs_qid:
        return
    for row in X[:20]:
        expected = model.predict(np.vstack([row, row]))[0]
        for form in (row, row[None], row.tolist(), row.astype(object)):
            assert model.predict(form)[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_summary_describes_what_weights_multiply(scaled, gaps):
    X, _, _ = gaps
    model = scaled.model_
    np.testing.assert_array_equal(model.summary.minimum, np.nanmin(X, axis=0))
    np.testing.assert_array_equal(model.summary.maximum, np.nanmax(X, axis=0))
    if not model.needs_qid:
        values = model.preprocessing.transformed(X)
        np.testing.assert_allclose(model.summary.mean, values.mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose(model.summary.deviation, values.std(axis=0), rtol=1e-9)
        np.testing.assert_allclose(
            model.standardized_coef, model.coef * values.std(axis=0), rtol=1e-9
        )


@pytest.mark.parametrize("form", ["csr64", "dense32"])
def test_training_on_other_forms_gives_the_same_ranking(scaled, gaps, form):
    X, y, qid = gaps
    other = clone(scaled).fit(as_form(X, form), y, qid=qid)
    found, expected = other.model_.predict(X, qid), scaled.model_.predict(X, qid)
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2 * np.std(expected))


@pytest.mark.parametrize("form", FORMS)
def test_missing_values_are_refused_by_default_with_their_column(gaps, form):
    X, y, qid = gaps
    with pytest.raises(DataError, match=r"is NaN; .* Train with missing='median'"):
        RankSVM(C=1.0, **PAPERS).fit(as_form(X, form), y, qid=qid)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["a"] = 0.0
    frame["c"] = 0.0
    with pytest.raises(DataError, match=r"\(feature 'd'\) is NaN"):
        RankSVM(C=1.0, **PAPERS).fit(frame, y, qid=qid)


@pytest.mark.parametrize("missing", ["zero", "median", "indicator"])
def test_infinite_values_are_refused(problem, missing):
    X, y, qid = problem
    X = X.copy()
    X[5, 2] = -np.inf
    with pytest.raises(DataError, match=r"X\[5, 2\] is -inf"):
        RankSVM(C=1.0, missing=missing, **PAPERS).fit(X, y, qid=qid)


def test_missing_values_may_appear_after_training(problem):
    X, y, qid = problem
    ranker = RankSVM(C=1.0, scale="standard", missing="indicator", normalize=None).fit(
        X, y, qid=qid
    )
    row = X[:1].copy()
    row[0, 1] = np.nan
    filled = X[:1].copy()
    filled[0, 1] = np.median(X[:, 1])
    assert ranker.predict(row)[0] == pytest.approx(ranker.predict(filled)[0])
    with pytest.raises(DataError, match=r"X\[0, 1\] is NaN"):
        RankSVM(C=1.0, scale="standard", normalize=None).fit(X, y, qid=qid).predict(row)


@pytest.mark.parametrize("missing", ["zero", "median", "indicator"])
@pytest.mark.parametrize("scale", [None, "robust", "log1p+clip:0.1+standard", "query"])
def test_features_without_any_value(problem, missing, scale):
    X, y, qid = problem
    X = np.column_stack([X, np.full(len(X), np.nan)])
    ranker = RankSVM(C=1.0, scale=scale, missing=missing, normalize=None).fit(X, y, qid=qid)
    assert np.isfinite(ranker.predict(X, qid)).all()


def test_an_error_names_a_value_that_is_not_filled():
    steps = Preprocessing(2, fill=np.array([1.0, np.nan]))
    model = LinearModel([1.0, 1.0], feature_names=["a", "b"], preprocessing=steps)
    assert model.predict([[np.nan, 2.0]]).tolist() == [3.0]
    assert model.terms()[0].missing == 1.0
    assert model.terms()[1].missing is None
    for rows in ([[np.nan, np.nan]], sparse.csr_array([[np.nan, np.nan]])):
        with pytest.raises(DataError, match=r"feature 'b'\) is NaN"):
            model.predict(rows)


def test_missing_values_in_listed_pairs(gaps):
    X, y, _ = gaps
    best, worst = np.argmax(y), np.argmin(y)
    ranker = RankSVM(C=1.0, scale="standard", missing="indicator", normalize=None)
    scores = ranker.fit_pairs(X, [[best, worst]]).predict(X)
    assert scores[best] > scores[worst]
    with pytest.raises(DataError, match="is NaN"):
        RankSVM(C=1.0, scale="standard", normalize=None).fit_pairs(X, [[best, worst]])
    with pytest.raises(DataError, match="fit_pairs has no qid"):
        RankSVM(C=1.0, scale="query", normalize=None).fit_pairs(X, [[best, worst]])


def test_bounds_with_indicators_are_of_given_features(gaps):
    X, y, qid = gaps
    limits = [([0.0, None, 0.0, None], None), ({"a": 0.0, "c": 0.0}, None)]
    frame = pd.DataFrame(X, columns=list("abcd"))
    coefs = [
        RankSVM(1.0, missing="indicator", scale="standard", bounds=bounds, tol=1e-8, normalize=None)
        .fit(frame, y, qid=qid).model_.scaled_coef
        for bounds in limits
    ]  # fmt: skip
    np.testing.assert_allclose(coefs[0], coefs[1])
    assert (coefs[0][[0, 2]] >= 0).all()
    positive = RankSVM(
        C=1.0, missing="indicator", scale="standard", bounds="positive", normalize=None
    )
    coef = positive.fit(X, -y, qid=qid).model_.scaled_coef
    assert (coef[:4] >= 0).all()
    assert (coef[4:] < 0).any()


def test_costs_with_indicators_are_of_given_features(gaps):
    X, y, qid = gaps
    ranker = SparseRankSVM(
        0.1,
        scale="standard",
        missing="indicator",
        feature_cost=[1e6, 1.0, 1.0, 1e6],
        normalize=None,
    ).fit(X, y, qid=qid)
    assert ranker.model_.scaled_coef[[0, 3, 4, 6]].tolist() == [0.0] * 4
    assert ranker.get_support().tolist() == [False, True, True, False]
    assert (ranker.n_selected_, ranker.zero_weights_) == (2, 0.5)


def test_groups_contain_indicators(gaps):
    X, y, qid = gaps
    penalty = GroupL1(groups=["a", "b", "b", "c"])
    for C in (0.01, 0.02, 0.05):
        ranker = SparseRankSVM(
            C, scale="standard", missing="indicator", penalty=penalty, normalize=None
        )
        used = ranker.fit(X, y, qid=qid).model_.scaled_coef != 0
        assert used[0] == used[4]
        assert used[1] == used[2] == used[5]
        assert used[3] == used[6]


def test_selected_features_are_fitted_again(gaps):
    X, y, qid = gaps
    options = {"scale": "standard", "missing": "indicator"}
    plain = SparseRankSVM(0.02, **PAPERS | options).fit(X, y, qid=qid)
    again = SparseRankSVM(0.02, debias=True, **PAPERS | options).fit(X, y, qid=qid)
    zero = plain.model_.scaled_coef == 0
    assert zero.any()
    np.testing.assert_array_equal(again.model_.scaled_coef == 0, zero)
    assert np.linalg.norm(again.coef_) > np.linalg.norm(plain.coef_)


def test_warm_starts_may_change_the_data(gaps, problem):
    X, y, qid = gaps
    ranker = RankSVM(
        C=1.0, scale="standard", missing="indicator", warm_start=True, tol=1e-6, normalize=None
    )
    first = ranker.fit(X, y, qid=qid).result_
    again = ranker.fit(X, y, qid=qid).result_
    assert again.objective == pytest.approx(first.objective, rel=1e-6)
    other = ranker.fit(problem[0], y, qid=qid)  # it has no indicators
    cold = clone(ranker).fit(problem[0], y, qid=qid)
    assert other.result_.objective == pytest.approx(cold.result_.objective, rel=1e-6)


def test_grid_search_over_scale(gaps):
    X, y, qid = gaps
    grid = {"scale": [None, "standard", "query"], "missing": ["zero", "indicator"]}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(RankSVM(0.01, **PAPERS), grid, cv=QueryKFold(3), error_score="raise")
        search.fit(np.nan_to_num(X), y, qid=qid)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_a_pipeline_passes_queries_to_predict(problem):
    X, y, qid = problem
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), RankSVM(C=1.0, scale="query", normalize=None)).fit(
            X, y, qid=qid
        )
        scores = pipe.predict(X, qid=qid)
    alone = RankSVM(C=1.0, scale="query", normalize=None).fit(X, y, qid=qid).predict(X, qid)
    np.testing.assert_allclose(scores, alone, rtol=1e-3, atol=1e-3 * np.std(alone))


@pytest.mark.parametrize("scale", ["standard", "log1p+minmax"])
def test_folds_fit_their_own_preprocessing(problem, scale):
    X, y, qid = problem
    folds = list(QueryKFold(3).split(X, y, qid))
    options = {"scale": scale, "tol": 1e-8}
    ranker = RankSVMCV([0.01, 1.0], cv=folds, **PAPERS | options).fit(X, y, qid=qid)
    for k, (train, test) in enumerate(folds):
        for c, C in enumerate(ranker.path_.Cs[:1]):
            one = RankSVM(C, **PAPERS | options).fit(X[train], y[train], qid=qid[train])
            expected = one.score(X[test], y[test], qid=qid[test])
            assert ranker.metric_path_[c, k] == pytest.approx(expected, abs=1e-6)


def test_held_out_frames_are_aligned(gaps):
    X, y, qid = gaps
    frame = pd.DataFrame(X, columns=list("abcd"))
    options = {"Cs": [0.01, 1.0], "scale": "standard", "missing": "median"}
    plain = RankSVMCV(**PAPERS | options).fit(frame, y, qid=qid, valid=(frame, y, qid))
    moved = frame[["d", "b", "a", "c"]].assign(title=1.0)
    other = RankSVMCV(**PAPERS | options).fit(frame, y, qid=qid, valid=(moved, y, qid))
    np.testing.assert_array_equal(other.metric_path_, plain.metric_path_)
    with pytest.raises(DataError, match=r"the X of valid lacks 1 of the 4 features .*: 'd'"):
        RankSVMCV(**PAPERS | options).fit(frame, y, qid=qid, valid=(frame[["a", "b", "c"]], y, qid))
    filled = frame.fillna(0.0)
    with pytest.raises(DataError, match="is NaN"):
        RankSVMCV([0.1], scale="standard", normalize=None).fit(
            filled, y, qid=qid, valid=(frame, y, qid)
        )


@pytest.mark.parametrize("scale", SCALERS)
def test_topics_take_linear_scales(problem, scale):
    X, y, _ = problem
    Y = np.column_stack([y > 1, y > 0])
    topics = MultiTopicRanker(DominationRank(C=1.0, scale=scale, normalize=None)).fit(X, Y)
    one = DominationRank(C=1.0, scale=scale, n_threads=1, normalize=None).fit(X, Y[:, 0])
    np.testing.assert_allclose(topics.predict(X)[:, 0], one.predict(X), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", [{"scale": "log1p"}, {"scale": "clip+standard"},
                                     {"scale": "query"}, {"missing": "zero"}])  # fmt: skip
def test_topics_refuse_other_steps(problem, options):
    X, y, _ = problem
    with pytest.raises(DataError, match="scores documents by their weights alone"):
        MultiTopicRanker(DominationRank(**PAPERS | options)).fit(X, np.column_stack([y > 1, y > 0]))


def test_clusters_refuse_steps():
    pytest.importorskip("distributed")
    from linrank.dask.estimator import DaskTrainer

    with pytest.raises(DataError, match="leave out scale and missing"):
        DaskTrainer.of(scale="standard")


def test_streams_refuse_steps(problem):
    X, y, qid = problem
    with pytest.raises(DataError, match="scale and missing need all of the data"):
        RankSVM(C=1.0, scale="standard", normalize=None).partial_fit(X, y, qid=qid)


@pytest.fixture(scope="module")
def named(gaps):
    X, y, qid = gaps
    frame = pd.DataFrame(X, columns=list("abcd"))
    return RankSVM(0.1, scale="standard", missing="indicator", normalize=None).fit(
        frame, y, qid=qid
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_frames_are_aligned_by_name(named, gaps, kind):
    expected = named.model_.predict(gaps[0])
    moved = kind(pd.DataFrame(gaps[0], columns=list("abcd"))[["c", "a", "d", "b"]])
    np.testing.assert_allclose(named.model_.predict(moved), expected)
    np.testing.assert_allclose(named.predict(moved), expected)


def test_a_row_of_a_frame(named, gaps):
    frame = pd.DataFrame(gaps[0], columns=list("abcd"))
    expected = named.model_.predict(gaps[0])[:3]
    moved = frame[["d", "c", "b", "a"]].assign(title="x")
    found = [named.model_.predict(moved.iloc[i])[0] for i in range(3)]
    np.testing.assert_allclose(found, expected)


def test_mappings(named, gaps):
    frame = pd.DataFrame(gaps[0], columns=list("abcd"))
    found = named.model_.predict(frame.to_dict("list"))
    np.testing.assert_allclose(found, named.predict(frame))
    row = {"d": 1, "c": None, "b": 2.0, "a": np.float32(3), "id": "x"}
    assert named.model_.predict(row) == named.model_.predict([[3.0, 2.0, np.nan, 1.0]])
    with pytest.raises(DataError, match=r"X lacks 1 of the 4 features .*: 'd'"):
        named.model_.predict({"a": 1.0, "b": 1.0, "c": 1.0})
    with pytest.raises(DataError, match="the model has no feature names"):
        LinearModel([1.0]).predict({"a": 1.0})
    with pytest.raises(DataError, match="cannot be read as columns of numbers"):
        named.model_.predict({"a": [1.0, 2.0], "b": 1.0, "c": 1.0, "d": 1.0})


def test_repeated_names_are_refused(named, problem):
    X, y, qid = problem
    twice = pd.DataFrame(np.column_stack([X, X]), columns=list("abcdabcd"))
    for predict in (named.predict, named.model_.predict):
        with pytest.raises(DataError, match="X has several columns 'a'"):
            predict(twice)
    with pytest.raises(DataError, match="X has several columns 'a'"):
        RankSVM(C=1.0, **PAPERS).fit(twice, y, qid=qid)


def test_numbered_frames_have_no_names(problem):
    X, y, qid = problem
    ranker = RankSVM(0.1, **PAPERS).fit(pd.DataFrame(X), y, qid=qid)
    assert ranker.model_.feature_names is None
    np.testing.assert_allclose(ranker.model_.predict(pd.DataFrame(X)), ranker.predict(X))


def test_sparse_frames(problem):
    X, y, qid = problem
    thin = pd.DataFrame(X, columns=list("abcd")).astype(pd.SparseDtype(np.float64, 0.0))
    ranker = RankSVM(0.1, scale="maxabs", normalize=None).fit(thin, y, qid=qid)
    np.testing.assert_allclose(ranker.model_.predict(thin), ranker.predict(thin))


@pytest.mark.parametrize("shape", [(4, 1), (1, 1, 4), (2, 2), (5,), (0, 4)])
def test_other_shapes_are_refused(named, shape):
    with pytest.raises(DataError):
        named.model_.predict(np.ones(shape))


def test_complex_numbers_are_refused(named):
    with pytest.raises(DataError, match="complex"):
        named.model_.predict(np.ones(4, complex))


def test_unsorted_queries(problem):
    X, y, qid = problem
    ranker = RankSVM(0.1, scale="query", normalize=None).fit(X, y, qid=qid)
    order = np.argsort(qid, kind="stable")
    np.testing.assert_allclose(ranker.predict(X, qid)[order],
                               ranker.model_.predict(X[order], qid[order]))  # fmt: skip
    assert (ranker.predict(X, np.arange(len(X))) == 0).all()  # a query per document
    with pytest.raises(DataError, match="predict needs qid"):
        ranker.predict(X)


def places_in_queries(X, qid):
    """Return the place of each value between the lowest and the highest of its query."""
    out = np.zeros(X.shape)
    for i, j in np.ndindex(X.shape):
        column = X[qid == qid[i], j]
        if column.max() > column.min():
            out[i, j] = (X[i, j] - column.min()) / (column.max() - column.min())
    return out


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_and_places_have_a_weight_each(problem, form, tmp_path):
    X, y, qid = problem
    X = np.where(np.abs(X) < 0.3 * X.std(axis=0), 0.0, X)
    ranker = RankSVM(0.1, scale="both", tol=1e-8, normalize=None).fit(form(X), y, qid=qid)
    unit = np.ones(X.shape[1]) if form is sparse.csr_array else X.std(axis=0)
    both = np.hstack([X / unit, places_in_queries(X, qid)])
    alone = RankSVM(0.1, tol=1e-8, **PAPERS).fit(both, y, qid=qid)
    model = ranker.model_
    expected = alone.coef_ / np.append(unit, np.ones_like(unit))
    np.testing.assert_allclose(np.append(model.coef, model.query_coef), expected, rtol=1e-4)
    scores = ranker.predict(form(X), qid)
    np.testing.assert_allclose(scores, both @ model.scaled_coef, rtol=1e-9, atol=1e-9)
    model.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(form(X), qid), scores)
    rows = X[qid == qid[0]]
    found = loaded.explain(rows[1], rows)
    assert len(found.contributions) == X.shape[1]
    assert found.base + found.contributions.sum() == pytest.approx(found.score)
    titles = [column.name for column in loaded.columns()]
    assert titles == ["weight", "weight_in_query", "importance"]
    if form is np.asarray:  # places of sparse values are known up to a number per query
        assert found.base == pytest.approx(scores.mean())
        sizes = np.abs(model.scaled_coef * both.std(axis=0)).reshape(2, -1).sum(axis=0)
        np.testing.assert_allclose(loaded.columns()[-1].values, sizes)


def test_bounds_and_costs_of_a_feature_hold_for_its_place(problem):
    X, y, qid = problem
    bounds = ([0.0, -np.inf, -np.inf, -np.inf], [np.inf, 0.0, np.inf, np.inf])
    model = RankSVM(0.1, scale="both", bounds=bounds, normalize=None).fit(X, y, qid=qid).model_
    assert model.coef[0] >= 0 <= model.query_coef[0]
    assert model.coef[1] <= 0 >= model.query_coef[1]
    cost = [1e9, 1.0, 1.0, 1.0]
    found = (
        SparseRankSVM(10.0, scale="both", feature_cost=cost, normalize=None)
        .fit(X, y, qid=qid)
        .model_
    )
    assert found.used.tolist() == [1, 2, 3]


def test_a_warning_names_features_far_outside(problem):
    X, y, qid = problem
    model = RankSVM(0.1, **PAPERS).fit(X, y, qid=qid).model_
    for rows in (X[:1] * 1e4, X * 1e4, sparse.csr_array(X * 1e4), X[0] * 1e4):
        with pytest.warns(FeatureRangeWarning, match="feature 1 .*far outside its range"):
            model.predict(rows)


@pytest.mark.parametrize("scale", [None, "standard"])
@pytest.mark.parametrize("feature", range(4))
def test_one_value_of_one_row_far_outside_gives_a_warning(problem, scale, feature):
    """The weights of the other features do not hide it."""
    X, y, qid = problem
    model = RankSVM(0.1, scale=scale, normalize=None).fit(X, y, qid=qid).model_
    row = X.mean(axis=0)
    row[feature] = X[:, feature].max() + 11 * np.ptp(X[:, feature])
    for form in (row, row[None], row.astype(np.float32)):
        with pytest.warns(FeatureRangeWarning, match=f"feature {feature + 1} "):
            scores = model.predict(form)
        assert scores[0] == pytest.approx(form.ravel() @ model.coef)


@pytest.mark.parametrize("scale", [None, *SCALES])
def test_training_data_give_no_warning(problem, scale, recwarn):
    X, y, qid = problem
    model = RankSVM(0.1, scale=scale, normalize=None).fit(X, y, qid=qid).model_
    model.predict(X, qid)
    model.predict(sparse.csr_array(X), qid)
    for row in X[:5]:
        model.predict(row, [0])
    assert not [w for w in recwarn if issubclass(w.category, FeatureRangeWarning)]


def test_features_without_weight_give_no_warning(recwarn):
    X = np.array([[0.0, 1.0], [1.0, 1.5], [0.5, 2.0]])
    model = LinearModel([1.0, 0.0], summary=summarise(X))
    model.predict(np.array([[0.5, 1e9], [0.5, 1e9]]))
    assert not recwarn


@pytest.fixture(scope="module")
def content(gaps, tmp_path_factory):
    X, y, qid = gaps
    path = tmp_path_factory.mktemp("model") / "model.json"
    RankSVM(C=1.0, scale="clip:0.1+standard", missing="indicator", normalize=None).fit(
        X, y, qid=qid
    ).model_.save(path)
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("preprocessing", [], "preprocessing is not an object"),
        ("preprocessing", "x", "preprocessing is not an object"),
        ("preprocessing n_features", True, "n_features of preprocessing is True"),
        ("preprocessing n_features", 10**30, "n_features of preprocessing"),
        ("preprocessing n_features", None, "'n_features' is missing"),
        ("preprocessing power", 2, "the unknown step 'power'. Upgrade linrank"),
        ("preprocessing log", "yes", "log of preprocessing is 'yes'"),
        ("preprocessing by_query", True, "both by query and by factor"),
        ("preprocessing low", None, "both low and high, or neither"),
        ("preprocessing low", [1e9] * 4, "a limit low above high"),
        ("preprocessing shift", [0.0] * 3, "shift of preprocessing has 3 entries"),
        ("preprocessing factor", [1.0, 1.0, 1.0, "1"], "not a list of numbers"),
        ("preprocessing factor", [1.0, 1.0, 1.0, float("nan")], "not finite"),
        ("preprocessing factor", [1.0, 1.0, 1.0, 10**400], "damaged"),
        ("preprocessing factor", [2.0] * 4, "contradict each other"),
        ("preprocessing fill", None, "indicators, but fills no missing values"),
        ("preprocessing fill", [0.0, 0.0, 0.0, False], "not a list of numbers"),
        ("preprocessing indicators", [0, 0, 2], "not different features from 0 to 3"),
        ("preprocessing indicators", [0, 1, 4], "not different features from 0 to 3"),
        ("preprocessing indicators", [[0], 1, 2], "not different features"),
        ("preprocessing indicators", [0], "coef has 7 weights"),
        ("scaled_weights", None, "'scaled_weights' is missing"),
        ("weights", [1.0], "contradict each other"),
        ("summary", [], "summary must have the entries"),
        ("summary mean", None, "summary must have the entries"),
        ("summary mean", ["1"] * 4, "mean of summary is not a list of numbers"),
        ("summary mean", [1.0], "mean of summary has 1 entries"),
        ("summary minimum", [1e12] * 4, "a minimum above the maximum"),
        ("summary deviation", [-1.0] * 4, "negative deviation"),
        ("summary deviation", [float("inf")] * 4, "not finite"),
    ],
)
def test_damaged_entries_are_refused(content, tmp_path, place, value, words):
    *parents, name = place.split()
    content = json.loads(json.dumps(content))
    part = content
    for parent in parents:
        part = part[parent]
    part[name] = value
    if value is None:
        del part[name]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=words):
        load_model(path)


def test_files_without_preprocessing_have_the_first_version(problem, content, tmp_path):
    X, y, qid = problem
    RankSVM(C=1.0, **PAPERS).fit(X, y, qid=qid).model_.save(tmp_path / "model.json")
    first = json.loads((tmp_path / "model.json").read_text())
    assert (first["version"], content["version"]) == (1, 2)
    del first["summary"]
    (tmp_path / "model.json").write_text(json.dumps(first))
    assert load_model(tmp_path / "model.json").summary is None


@pytest.fixture(scope="module")
def ranked():
    return make_ranking(n_queries=12, docs_per_query=8, n_features=4, random_state=0)


@pytest.mark.parametrize("scale", SCALES)
def test_scores_are_those_of_python(ranked, scale, tmp_path):
    write_text(tmp_path / "train.txt", ranked)
    model, scores = tmp_path / "model.json", tmp_path / "scores.txt"
    run("train", tmp_path / "train.txt", "--C", 0.1, "--scale", scale, "--out", model)
    run("predict", model, tmp_path / "train.txt", "--out", scores)
    ranker = RankSVM(0.1, scale=scale).fit(ranked.X, ranked.y, qid=ranked.qid)
    expected = ranker.predict(ranked.X, ranked.qid)
    np.testing.assert_allclose(np.loadtxt(scores), expected, rtol=1e-9, atol=1e-12)
    assert json.loads(model.read_text())["settings"]["scale"] == scale
    by_model, by_scores = (
        run_json("evaluate", tmp_path / "train.txt", source)["metrics"]
        for source in (model, scores)
    )
    assert by_model == by_scores


@pytest.mark.parametrize("missing", ["zero", "median", "indicator"])
def test_missing_values_on_the_command_line(ranked, missing, tmp_path):
    X = ranked.X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    gaps = RankingData(X, ranked.y, ranked.qid, allow_missing=True)
    train, model, scores = (tmp_path / name for name in ("t.txt", "m.json", "s.txt"))
    write_text(train, gaps)
    assert "nan" in error_of("train", train, "--out", model)
    options = ("--C", 0.1, "--scale", "standard", "--missing", missing)
    run("train", train, *options, "--valid", train, "--out", model)
    run("predict", model, train, "--out", scores)
    ranker = RankSVM(0.1, scale="standard", missing=missing).fit(X, ranked.y, qid=ranked.qid)
    np.testing.assert_allclose(np.loadtxt(scores), ranker.predict(X), rtol=1e-9, atol=1e-12)
    assert run_json("evaluate", train, model) != {}
    run("train", train, "--C", 0.1, "--missing", missing, "--warm-start", model, "--out", model)


def test_a_file_with_fewer_features_gives_a_warning(ranked, tmp_path):
    write_text(tmp_path / "train.txt", ranked)
    fewer = ranked.replace(X=ranked.X[:, :3])
    write_text(tmp_path / "fewer.txt", fewer)
    run("train", tmp_path / "train.txt", "--C", 0.1, "--out", tmp_path / "model.json")
    assert run("predict", tmp_path / "model.json", tmp_path / "train.txt").stderr == ""
    few, model = tmp_path / "fewer.txt", tmp_path / "model.json"
    for arguments in (("predict", model, few), ("evaluate", few, model)):
        found = run(*arguments)
        assert "warning: " in found.stderr
        assert "the file has 3 features, but the model has 4" in found.stderr


def test_tables_are_aligned_by_name(ranked, tmp_path):
    frame = pd.DataFrame(ranked.X, columns=list("abcd")).assign(label=ranked.y, qid=ranked.qid)
    frame.to_parquet(tmp_path / "train.parquet")
    frame[["d", "qid", "b", "a", "label", "c"]].to_parquet(tmp_path / "moved.parquet")
    model = tmp_path / "model.json"
    run("train", tmp_path / "train.parquet", "--C", 0.1, "--scale", "standard",
        "--valid", tmp_path / "moved.parquet", "--out", model)  # fmt: skip
    scores = [run("predict", model, tmp_path / f"{name}.parquet").stdout
              for name in ("train", "moved")]  # fmt: skip
    assert scores[0] == scores[1]


def test_the_command_line_refuses_other_texts(ranked, tmp_path):
    write_text(tmp_path / "train.txt", ranked)
    found = error_of("train", tmp_path / "train.txt", "--scale", "x", "--out", tmp_path / "m")
    assert "scale is 'x'; expected log1p" in found
