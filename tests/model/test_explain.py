"""Contributions of features sum to scores and to score differences."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from linrank import (
    DataError,
    LinearModel,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    make_ranking,
)
from linrank._util.text import BAR_WIDTH, html_table
from linrank.baselines.rankboost import StumpModel, Stumps
from linrank.features.preprocessing import FeatureSteps, Prepared
from problems import PAPERS
from reference import feature_parts

pytestmark = pytest.mark.interpreted

SCALES = [None, "standard", "maxabs", "log1p", "log1p+clip:0.2+robust", "query", "log1p+query"]


def make_model(scale, missing, dtype=np.float64, seed=0):
    """A model with random weights, whose preprocessing is fitted to random documents."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(size=(12, 5)) - 0.5
    X[:, 3] = 2.0  # a constant feature
    if missing is not None:
        X[rng.random(X.shape) < 0.3] = np.nan
    given = RankingData(X.astype(dtype), rng.integers(0, 3, 12), np.arange(12) // 4,
                        allow_missing=missing is not None)  # fmt: skip
    steps = FeatureSteps.parse(scale, missing).fit(given)
    data = given if steps is None else steps.apply_to(given)
    summary = Prepared(given, steps, data).summary()
    coef = rng.standard_normal(data.n_features)
    model = LinearModel(coef, preprocessing=steps, summary=summary, feature_names=list("abcde"))
    return model, given.X[:4]


def check_sum(found, size=0.0):
    """The contributions sum to the score, but for rounding; `size` is that of the two scores."""
    size += np.abs(found.contributions).sum() + abs(found.base) + abs(found.score)
    assert found.base + found.contributions.sum() == pytest.approx(found.score, abs=1e-13 * size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("missing", [None, "zero", "median", "indicator"])
@pytest.mark.parametrize("scale", SCALES)
def test_contributions_are_those_of_the_twin(scale, missing, dtype):
    model, X = make_model(scale, missing, dtype)
    scores = model.predict(X, np.zeros(4))
    parts = [feature_parts(model, row, X) for row in X]
    mean = model.coef * model.summary.mean
    near = {"rel": 1e-5, "abs": 1e-5} if dtype == np.float32 else {"rel": 1e-12, "abs": 1e-12}
    close = {"rtol": near["rel"], "atol": near["abs"]}
    for i, row in enumerate(X):
        found = model.explain(row, X)
        check_sum(found)
        assert found.score == pytest.approx(scores[i], **near)
        np.testing.assert_allclose(found.contributions, parts[i] - mean, **close)
        np.testing.assert_array_equal(found.values, row)
        assert found.base == pytest.approx(mean.sum())
    pair = model.explain_pair(X[2], X[0], X)
    check_sum(pair)
    assert pair.base == 0.0
    assert pair.score == pytest.approx(scores[2] - scores[0], **near)
    np.testing.assert_allclose(pair.contributions, parts[2] - parts[0], **close)
    np.testing.assert_array_equal(pair.other, X[0])


@pytest.mark.parametrize("scale", [None, "standard", "log1p", "query"])
def test_all_forms_of_a_row_give_the_same(scale):
    model, X = make_model(scale, None)
    frame = pd.DataFrame(X, columns=list("abcde"))
    expected = model.explain(X[1], X)
    csr = sparse.csr_array(X)
    forms = [X[1:2], X[1].tolist(), csr[1:2], csr[1], sparse.csr_matrix(X)[1], frame[1:2],
             dict(frame.iloc[1]), frame[1:2][list("edcba")]]  # fmt: skip
    for row in forms:
        for documents in (X, csr, frame):
            found = model.explain(row, documents)
            np.testing.assert_array_equal(found.contributions, expected.contributions)
            np.testing.assert_array_equal(found.values, X[1])
            assert found.score == pytest.approx(expected.score, rel=1e-12)
    mixed = model.explain_pair(csr[1], frame[2:3], csr)
    np.testing.assert_allclose(mixed.contributions, model.explain_pair(X[1], X[2], X).contributions)


def test_documents_may_lack_the_row():
    """A row that is not among the documents is explained as if it were."""
    model, X = make_model("query", None)
    found = model.explain(X[0], X[1:])
    np.testing.assert_array_equal(found.contributions, model.explain(X[0], X).contributions)


@given(st.data())
def test_sums_for_any_numbers(data):
    d = data.draw(st.integers(1, 5))
    numbers = st.floats(-1e6, 1e6)
    coef, a, b = (data.draw(st.lists(numbers, min_size=d, max_size=d)) for _ in range(3))
    model = LinearModel(coef)
    for found in (model.explain(a), model.explain_pair(a, b)):
        check_sum(found, np.abs(coef) @ (np.abs(a) + np.abs(b)))
        assert len(found.largest(3)) == min(3, d)
        sizes = [abs(size) for _, size in found.largest(d)]
        assert sizes == sorted(sizes, reverse=True)
        shown = sum(found.table(2).bars)
        assert shown == pytest.approx(found.contributions.sum(), abs=1e-13 * sum(sizes))


def test_stumps():
    stumps = Stumps(np.array([0, 1, 0]), np.array([0.5, 2.0, 1.5]), np.array([1.0, -0.25, 2.0]))
    model = StumpModel(stumps, n_features=3)
    found = model.explain([2.0, 3.0, 9.0])
    assert found.contributions.tolist() == [3.0, -0.25, 0.0]
    check_sum(found)
    assert model.explain_pair([1.0, 3.0, 0.0], [2.0, 3.0, 0.0]).largest(1) == [("1", -2.0)]
    assert [column.values.tolist() for column in model.columns()] == [[2, 1, 0], [3.0, 0.25, 0.0]]
    assert repr(model) == "StumpModel(3 features; stumps: 3; largest by total weight: 1 3, 2 0.25)"


@pytest.mark.parametrize(
    "ranker", [RankSVM(C=1.0, scale="standard", normalize=None), SparseRankSVM(C=0.01, **PAPERS)]
)
def test_estimators(ranker):
    data = make_ranking(10, 6, 4, random_state=0)
    X = pd.DataFrame(data.X, columns=list("abcd"))
    assert not hasattr(ranker, "standardized_coef_")
    ranker.fit(X, data.y, qid=data.qid)
    found = ranker.explain(X[:1])
    check_sum(found)
    assert found.names == list("abcd")
    assert found.score == pytest.approx(ranker.predict(X[:1])[0])
    pair = ranker.explain_pair(X[:1], X[1:2])
    np.testing.assert_allclose(
        pair.contributions, found.contributions - ranker.explain(X[1:2]).contributions
    )
    np.testing.assert_allclose(ranker.standardized_coef_, ranker.coef_ * data.X.std(axis=0))


def test_standardised_weights_do_not_depend_on_units():
    data = make_ranking(10, 6, 4, random_state=0)
    units = np.array([1e-3, 1.0, 50.0, 1e4])
    one, other = (
        RankSVM(C=0.1, scale="standard", tol=1e-8, normalize=None).fit(X, data.y, qid=data.qid)
        for X in (data.X, data.X * units)
    )
    np.testing.assert_allclose(one.standardized_coef_, other.standardized_coef_, rtol=1e-5)
    assert one.model_.ordered().tolist() == other.model_.ordered().tolist()


def test_a_chosen_C_explains_as_well():
    data = make_ranking(12, 6, 4, random_state=0)
    ranker = RankSVMCV(cv=2, Cs=[0.01, 0.1], **PAPERS).fit(data.X, data.y, qid=data.qid)
    check_sum(ranker.explain(data.X[0]))


def test_sentences():
    model, X = make_model("query", None)
    with pytest.raises(DataError, match=r"pass documents=X\[qid == q\]|Pass documents=X"):
        model.explain(X[0])
    with pytest.raises(DataError, match="there are 2 documents where one is expected"):
        model.explain(X[:2], X)
    with pytest.raises(DataError, match="the model has 5 features"):
        model.explain(X[0][:3], X)
    with pytest.raises(DataError, match=r"X\[0, 1\].* is NaN"):
        LinearModel([1.0, 2.0]).explain([0.0, np.nan])
    with pytest.raises(DataError, match="column is 'none'; known choices are None, 'weight'"):
        model.plot(column="none")


def test_tables():
    model = LinearModel([1.0, -0.5, 0.25], feature_names=["bm25", "<b>\x1b", "url"])
    found = model.explain_pair([3.0, 1.0, 0.0], [1.0, 2.0, 0.0])
    assert repr(found).splitlines() == [
        "score difference 2.5",
        "feature  first  second  contribution",
        "bm25         3       1       +2.0000",
        r"<b>\x1b      1       2       +0.5000",
        "url          0       0       +0.0000",
    ]
    assert found.table(1).rows[-1] == ["1 other", "", "", "+0.5000"]
    frame = found.to_frame()
    assert frame.columns.tolist() == ["feature", "first", "second", "contribution"]
    assert frame["contribution"].tolist() == [2.0, 0.5, 0.0]
    for html in (found._repr_html_(), model._repr_html_()):
        assert r"&lt;b&gt;\x1b" in html
        assert "<b>" not in html
        assert "http" not in html
        assert html.count("<tr>") == 4
    assert model.explain([1.0, 2.0, 3.0]).to_frame()["value"].tolist() == [1.0, 2.0, 3.0]


def test_missing_values_are_named():
    model, _ = make_model("standard", "median")
    row = np.full(5, np.nan)
    assert repr(model.explain(row)).count("missing") == 5


def test_frames_need_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        DataError, match="a data frame needs pandas; install it: pip install pandas"
    ):
        LinearModel([1.0]).explain([1.0]).to_frame()


@pytest.mark.parametrize(
    ("scale", "missing", "words"),
    [
        ("standard", None, "scaled as (x − shift)·factor per feature"),
        ("log1p+clip", "zero", "missing values replaced, sign(x)·log(1 + |x|), limited to a range "
                               "per feature"),
        ("query", "indicator", "missing values replaced (with an indicator for 5 features), scaled "
                               "to 0 … 1 within each query"),
    ],
)  # fmt: skip
def test_preprocessing_in_words(scale, missing, words):
    model, _ = make_model(scale, missing)
    n = len(model.preprocessing.indicators)
    assert model.facts() == {"preprocessing": words.replace("for 5", f"for {n}")}


def test_models_in_one_line():
    summary = make_model(None, None)[0].summary
    names = ["a", "b", "c", "d", "e\n"]
    model = LinearModel([0.0, 2.0, 0.0, 3.0, -1.0], feature_names=names, summary=summary)
    assert repr(model).startswith("LinearModel(5 features; largest by standardized weight: ")
    assert "d 3" not in repr(model)  # it is constant in the training data
    assert r"e\n -" in repr(model)
    assert repr(LinearModel([0.0])) == "LinearModel(1 feature)"
    assert repr(LinearModel([0.5, 2.0])) == "LinearModel(2 features; largest by weight: 2 2, 1 0.5)"


@pytest.mark.parametrize("largest", [1e308, np.inf])
def test_bars_of_huge_numbers_have_the_full_width(largest):
    assert f"width:{BAR_WIDTH}px" in html_table(["f"], [["a"]], bars=[largest])
