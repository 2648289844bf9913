"""XGBoost and LightGBM load and score exported trees; ONNX Runtime keeps curves monotone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exported_trees import NAMES, awkward_rows, curved, ramp, stepped
from linrank import StaircaseWarning
from linrank.export import formula_of
from linrank.export.curve_formula import staircase
from linrank.export.tree_models import sum_trees, sum_trees_in_float32
from linrank.model import AdditiveModel, Axis, Curve

pytestmark = pytest.mark.filterwarnings("ignore::linrank.StaircaseWarning")

TARGETS = ["xgboost", "lightgbm"]
SCORERS = {"xgboost": sum_trees_in_float32, "lightgbm": sum_trees}
TYPES = {"xgboost": np.float32, "lightgbm": np.float64}


@pytest.fixture(scope="module")
def score(needs):
    """Score rows with a program, given the text of a model."""
    xgboost, lightgbm = needs("xgboost", "lightgbm")

    def score(target, text, X):
        if target == "lightgbm":
            return lightgbm.Booster(model_str=text).predict(np.asarray(X, np.float64))
        booster = xgboost.Booster()
        booster.load_model(bytearray(text, "utf-8"))
        data = xgboost.DMatrix(np.asarray(X, np.float32), feature_names=booster.feature_names)
        return booster.predict(data)

    return score


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shift", [None, -2.5])
def test_steps_score_as_the_model(steps, score, target, shift):
    text = steps.model.export(target, shift=shift)
    steps.check(score(target, text, steps.X), shift or 0.0, 1e-6 if target == "xgboost" else 1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_single_rows_score_as_many(steps, score, target):
    """XGBoost scores blocks of rows in one way, and a row that is left over in another."""
    text = steps.model.export(target)
    alone = np.concatenate([score(target, text, row[None]) for row in steps.X[:60]])
    np.testing.assert_array_equal(alone, score(target, text, steps.X)[:60])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(3))
def test_numbers_beside_knots_and_levels(score, target, seed):
    model = stepped(seed)
    X = awkward_rows(model, np.random.default_rng(seed), 500, TYPES[target]).astype(np.float64)
    X[np.abs(X) < 1e-30] = 0.0  # LightGBM reads tiny numbers as 0
    found = score(target, model.export(target), X)
    np.testing.assert_allclose(found, model.predict(X), atol=3e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [8, 64])
def test_curves_are_within_the_deviation(curves, score, target, steps):
    with pytest.warns(StaircaseWarning):
        text = curves.model.export(target, steps=steps)
    found = score(target, text, curves.X)
    most = sum(staircase(curve, steps).deviation for curve in curves.model.curves)
    error = np.abs(found - curves.scores).max()
    assert 0.3 * most < error < most + 1e-5


@pytest.mark.parametrize("target", TARGETS)
def test_the_check_of_the_order_computes_the_scores_of_the_program(curves, score, target):
    """Sums are computed in the same order and precision, so that the scores are the same."""
    found = score(target, curves.model.export(target, shift=4.0), curves.X)
    expected = SCORERS[target](formula_of(curves.model, shift=4.0), curves.X)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if target == "xgboost" else 1e-14)


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 40), levels=st.booleans())
def test_random_steps(score, target, seed, m, levels):
    rng = np.random.default_rng(seed)
    knots = np.unique((rng.normal(size=m) * 10.0 ** rng.integers(-4, 5)).astype(np.float32))
    axis = Axis(knots.astype(np.float64), levels)
    model = AdditiveModel(1, [Curve(0, axis, rng.normal(size=(axis.n_cells, 1)))])
    X = awkward_rows(model, rng, 300, TYPES[target]).astype(np.float64)
    found = score(target, model.export(target), X)
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-6)


@pytest.mark.parametrize("target", [*TARGETS, "onnx"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_monotone_curve_is_monotone_exactly(score, needs, target, seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 12))
    rises = np.abs(rng.normal(size=m - 1)) * 10.0 ** rng.integers(-9, 2, size=m - 1)
    knots = np.sort(rng.normal(size=m)) * 10.0 ** rng.integers(-2, 4)
    curve = ramp(0, knots, 0.1 + np.concatenate([[0.0], np.cumsum(rises)]))
    model = AdditiveModel(1, [curve])
    grid = np.linspace(knots[0] - 1, knots[-1] + 1, 20_000)
    near = [knots, *(np.nextafter(knots.astype(np.float32), np.float32(s)) for s in (-1e9, 1e9))]
    x = np.unique(np.concatenate([grid, *near]).astype(np.float32))[:, None]
    if target == "onnx":
        session = needs("onnxruntime").InferenceSession(model.export("onnx", dtype="float32"))
        found = session.run(["score"], {"features": x})[0]
    else:
        found = score(target, model.export(target), x)
    assert (np.diff(found) >= 0).all()


def test_names_and_attributes(needs):
    xgboost, lightgbm = needs("xgboost", "lightgbm")
    booster = xgboost.Booster()
    booster.load_model(bytearray(curved().export("xgboost", features={"age": "ж"}), "utf-8"))
    names = [name.replace("age", "ж") for name in NAMES]
    assert booster.feature_names == names
    assert float(booster.attr("linrank_deviation")) > 0
    assert booster.num_boosted_rounds() == 7  # 5 curves and 2 surfaces
    model = lightgbm.Booster(model_str=curved().export("lightgbm", features={"age": "ж"}))
    assert model.feature_name() == names
    assert model.num_trees() == 7
    assert lightgbm.Booster(model_str=model.model_to_string()).num_trees() == 7


def test_xgboost_writes_the_model_that_it_read(needs, score, steps, tmp_path):
    booster = needs("xgboost").Booster()
    text = steps.model.export("xgboost", tmp_path / "model.json")
    booster.load_model(tmp_path / "model.json")
    booster.save_model(tmp_path / "again.json")
    again = (tmp_path / "again.json").read_text()
    np.testing.assert_array_equal(*(score("xgboost", t, steps.X) for t in (text, again)))
