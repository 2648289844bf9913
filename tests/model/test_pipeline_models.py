"""Pipelines of scikit-learn become models with the same scores."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from linrank import DataError, LinearModel, RankSVM, SparseRankSVM, load_model
from linrank.errors import FeatureRangeWarning
from problems import PAPERS

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 3)),
    MinMaxScaler(clip=True),
    RobustScaler(),
    RobustScaler(with_centering=False, quantile_range=(10, 90)),
    RobustScaler(with_scaling=False),
    MaxAbsScaler(),
    "passthrough",
]
IMPUTERS = [
    SimpleImputer(),
    SimpleImputer(strategy="median", add_indicator=True),
    SimpleImputer(strategy="most_frequent"),
    SimpleImputer(strategy="constant", fill_value=-5.0, add_indicator=True),
    SimpleImputer(strategy="constant", fill_value=50.0),
]


def documents(seed=0, n=60, gaps=True):
    """Return X with missing values, y and qid."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * [1.0, 20.0, 0.1, 3.0] + [5.0, 0.0, 1.0, -2.0]
    if gaps:
        X[rng.random(X.shape) < [0.2, 0.1, 0.0, 0.3]] = np.nan
    return X, rng.integers(0, 3, n).astype(float), rng.integers(0, 5, n)


def assert_same(pipe, X, scale=1.0):
    """The model of a pipeline has its scores, up to a constant, also far from the training data."""
    model = LinearModel.from_pipeline(pipe)
    wide = X * scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FeatureRangeWarning)
        expected, found = pipe.predict(wide), model.predict(wide)
    assert np.ptp(expected - found) <= 1e-9 * (1.0 + np.abs(expected).max() + np.abs(found).max())
    return model


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(SCALERS), max_size=2),
    st.sampled_from(IMPUTERS),
    st.lists(st.sampled_from(SCALERS), max_size=2),
    st.sampled_from([1.0, 30.0]),
)
def test_scalers_and_imputers_in_any_order(before, imputer, after, scale):
    X, y, qid = documents()
    steps = [step if isinstance(step, str) else clone(step) for step in (*before, imputer, *after)]
    pipe = make_pipeline(*steps, RankSVM(0.01, **PAPERS))
    pipe.fit(X, y, ranksvm__qid=qid)
    assert_same(pipe, X, scale)


def test_files_keep_the_pipeline(tmp_path):
    X, y, qid = documents()
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    pipe = make_pipeline(
        StandardScaler(), SimpleImputer(add_indicator=True), RankSVM(0.01, **PAPERS)
    )
    model = assert_same(pipe.fit(frame, y, ranksvm__qid=qid), frame)
    model.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.feature_names == ["a", "b", "c", "d"]
    moved = frame[["d", "b", "c", "a"]]
    np.testing.assert_allclose(loaded.predict(moved), model.predict(X))


def test_the_model_knows_the_ranges_of_given_features():
    X, y, qid = documents(gaps=False)
    pipe = make_pipeline(StandardScaler(), VarianceThreshold(), RankSVM(0.01, **PAPERS))
    model = LinearModel.from_pipeline(pipe.fit(X, y, ranksvm__qid=qid))
    np.testing.assert_allclose(model.summary.minimum, X.min(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.summary.maximum, X.max(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.summary.deviation, X.std(axis=0), rtol=1e-9)


def test_the_last_step_alone_warns_of_given_features():
    X, y, qid = documents(gaps=False)
    pipe = make_pipeline(StandardScaler(), RankSVM(0.01, **PAPERS)).fit(
        X * 1e3, y, ranksvm__qid=qid
    )
    with pytest.warns(FeatureRangeWarning, match="far outside its range"):
        pipe[-1].model_.predict(X * 1e3)


def columns(*parts, **options):
    return ColumnTransformer(list(parts), **options)


@pytest.mark.parametrize(
    "step",
    [
        columns(("s", StandardScaler(), ["d", "a"]), ("m", MinMaxScaler(), ["b"])),
        columns(("s", StandardScaler(), ["a"]), remainder="passthrough"),
        columns(("s", StandardScaler(), ["a"]), remainder=RobustScaler()),
        columns(("s", StandardScaler(), slice("b", "d"))),
        columns(("s", StandardScaler(), slice(1, 3)), ("keep", "passthrough", [0])),
        columns(("s", StandardScaler(), [True, False, False, True])),
        columns(("s", StandardScaler(), [-1, 0]), ("no", "drop", [1])),
        columns(("s", StandardScaler(), make_column_selector("[ab]"))),
        columns(("none", PCA(), []), ("s", StandardScaler(), ["a"])),
        columns(("s", StandardScaler(), ["a"]), ("m", MaxAbsScaler(), ["b", "c"]),
                transformer_weights={"s": 7.0}),
        columns(("p", make_pipeline(StandardScaler(), MinMaxScaler(clip=True)), ["a", "c"])),
    ],
)  # fmt: skip
def test_columns_are_transformed_by_parts(step):
    X, y, qid = documents(gaps=False)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    pipe = make_pipeline(step, RankSVM(0.01, **PAPERS)).fit(frame, y, ranksvm__qid=qid)
    assert_same(pipe, frame, 3.0)


@pytest.mark.parametrize("selector", [
    SelectKBest(f_regression, k=2), VarianceThreshold(1.0), SparseRankSVM(0.001, **PAPERS),
])  # fmt: skip
def test_selected_features(selector):
    X, y, qid = documents(gaps=False)
    pipe = make_pipeline(StandardScaler(with_std=False), selector, RankSVM(0.01, **PAPERS))
    model = assert_same(pipe.fit(X, y, ranksvm__qid=qid), X)
    assert len(model.used) == pipe[1].get_support().sum() < 4


def test_steps_that_do_nothing():
    X, y, qid = documents(gaps=False)
    pipe = make_pipeline("passthrough", None, FunctionTransformer(), RankSVM(0.01, **PAPERS))
    np.testing.assert_allclose(
        assert_same(pipe.fit(X, y, ranksvm__qid=qid), X).coef, pipe[-1].coef_
    )
    alone = make_pipeline(RankSVM(0.01, scale="standard", normalize=None)).fit(
        X, y, ranksvm__qid=qid
    )
    assert LinearModel.from_pipeline(alone) is alone[-1].model_


def test_features_without_any_value():
    X, y, qid = documents()
    X[:, 1] = np.nan
    for keep in (False, True):
        imputer = SimpleImputer(strategy="median", keep_empty_features=keep, add_indicator=True)
        pipe = make_pipeline(imputer, MinMaxScaler(clip=True), RankSVM(0.01, **PAPERS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            assert_same(pipe.fit(X, y, ranksvm__qid=qid), X)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (PolynomialFeatures(2), "PolynomialFeatures cannot be folded"),
        (PCA(2), "PCA cannot be folded into the weights; these can: StandardScaler"),
        (FunctionTransformer(np.abs), "FunctionTransformer cannot be folded"),
        (FeatureUnion([("a", StandardScaler())]), "FeatureUnion cannot be folded"),
        (KNNImputer(), "KNNImputer cannot be folded"),
        (SimpleImputer(missing_values=0.0), "it fills 0.0 instead of NaN"),
        (columns(("x", PCA(1), [0, 1])), "its part 'x': PCA cannot be folded"),
    ],
)
def test_other_steps_are_refused_by_name(step, words):
    X, y, qid = documents(gaps=False)
    pipe = Pipeline(
        [("first", StandardScaler()), ("odd", step), ("ranker", RankSVM(0.01, **PAPERS))]
    )
    pipe.fit(X, y, ranker__qid=qid)
    with pytest.raises(DataError, match=f"step 'odd' of the pipeline cannot be saved: {words}"):
        LinearModel.from_pipeline(pipe)


class Doubled(StandardScaler):
    def transform(self, X):
        return 2.0 * super().transform(X)


def test_subclasses_are_refused():
    X, y, qid = documents(gaps=False)
    pipe = make_pipeline(Doubled(), RankSVM(0.01, **PAPERS)).fit(X, y, ranksvm__qid=qid)
    with pytest.raises(DataError, match="Doubled cannot be folded"):
        LinearModel.from_pipeline(pipe)


@pytest.mark.parametrize("scale", ["standard", "minmax", "robust", "maxabs", "auto"])
def test_the_ranker_may_scale_too(scale):
    X, y, qid = documents()
    pipe = make_pipeline(
        MinMaxScaler(), SimpleImputer(), RankSVM(0.01, scale=scale, normalize=None)
    )
    model = assert_same(pipe.fit(X, y, ranksvm__qid=qid), X, 30.0)
    assert model.settings["scale"] == ("standard" if scale == "auto" else scale)


def test_other_pipelines_are_refused():
    X, y, qid = documents(gaps=False)
    with pytest.raises(DataError, match="pipe is a RankSVM; expected a fitted sklearn Pipeline"):
        LinearModel.from_pipeline(RankSVM(C=1.0, **PAPERS))
    with pytest.raises(DataError, match="the last step 'ranksvm' is RankSVM; expected a fitted"):
        LinearModel.from_pipeline(make_pipeline(StandardScaler(), RankSVM(C=1.0, **PAPERS)))
    with pytest.raises(DataError, match="is LinearRegression; expected a fitted linear ranker"):
        LinearModel.from_pipeline(make_pipeline(LinearRegression()).fit(X, y))
    scaled = make_pipeline(StandardScaler(), RankSVM(C=1.0, scale="query", normalize=None)).fit(
        X, y, ranksvm__qid=qid
    )
    with pytest.raises(DataError, match="before a ranker with steps of its own: scaled to 0 … 1"):
        LinearModel.from_pipeline(scaled)
    twice = columns(("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [1, 2]))
    pipe = make_pipeline(twice, RankSVM(C=1.0, **PAPERS)).fit(X, y, ranksvm__qid=qid)
    with pytest.raises(DataError, match="feature 1 of the pipeline is used in two columns"):
        LinearModel.from_pipeline(pipe)
    mixed = make_pipeline(StandardScaler(), RankSVM(C=1.0, **PAPERS)).fit(X, y, ranksvm__qid=qid)
    mixed.steps[-1] = ("ranksvm", RankSVM(C=1.0, **PAPERS).fit(X[:, :2], y, qid=qid))
    with pytest.raises(DataError, match="give 4 features, but the ranker has 2"):
        LinearModel.from_pipeline(mixed)
