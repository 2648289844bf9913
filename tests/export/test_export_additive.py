"""Exports of additive models: trees, formulas, and what targets cannot express.

`tests/exports` scores such models with XGBoost, LightGBM, ONNX Runtime, databases and gcc.
"""

from __future__ import annotations

import json
import math
import sqlite3
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exported
from commandline import error_of, run, write_text
from exported_trees import (
    NAMES,
    awkward_rows,
    curved,
    levels,
    ramp,
    read_native,
    read_plugin_trees,
    read_solr_trees,
    stepped,
)
from linrank import (
    AdditiveRanker,
    DataError,
    LinearModel,
    OrderChangedWarning,
    StaircaseWarning,
    make_ranking,
)
from linrank.export import TARGETS, formula_of
from linrank.export.curve_formula import cell_limits, staircase
from linrank.export.solr import SLACK
from linrank.export.targets import check_order, choose_steps
from linrank.export.tree_models import (
    FLOAT32,
    FLOAT64,
    Leaf,
    grow_trees,
    sum_trees_in_float32,
    tree_parts,
)
from linrank.features.preprocessing import Preprocessing
from linrank.model import AdditiveModel, Axis, Curve, Model

pytestmark = pytest.mark.interpreted

ADDITIVE = [name for name, target in TARGETS.items() if target.additive]
TREES = ["solr", "elasticsearch", "opensearch", "elasticsearch-native", "xgboost", "lightgbm"]
OF_QUERIES = [name for name, target in TARGETS.items() if target.by_query]
EXACT = [name for name in ADDITIVE if name not in TREES]
READERS = {
    "solr": read_solr_trees,
    "elasticsearch": lambda text: read_plugin_trees(text, NAMES),
    "elasticsearch-native": read_native,
}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def as_dicts(X, names=NAMES):
    return [dict(zip(names, row, strict=True)) for row in np.asarray(X).tolist()]


def quietly(model, target, **options):
    """The export of a model whose curves become steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaircaseWarning)
        return model.export(target, **options)


def deviation(model, steps=64):
    return sum(staircase(curve, steps).deviation for curve in model.curves)


# Steps ---------------------------------------------------------------------------------------


@st.composite
def curves(draw, degrees=(0, 1, 3)):
    """Any curve of ordered values."""
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    m, degree = draw(st.integers(0, 12)), draw(st.sampled_from(degrees))
    knots = np.unique(rng.normal(size=m) * 10.0 ** draw(st.integers(-6, 6)))
    pieces = rng.normal(size=(m + 2, degree + 1)) * 10.0 ** draw(st.integers(-3, 3))
    pieces[rng.random(pieces.shape) < draw(st.sampled_from([0.0, 0.4]))] = 0.0
    pieces[[0, m, -1], 1:] = 0.0
    return Curve(0, Axis(knots), pieces)


def between_knots(axis):
    """Values in all cells, at the knots and beside them."""
    knots = axis.knots
    if not len(knots):
        return np.array([-1.0, 0.0, 1.0])
    width = np.ptp(knots) + 1.0
    beside = [np.nextafter(knots, sign) for sign in (-np.inf, np.inf)]
    grid = np.linspace(knots[0] - width, knots[-1] + width, 500)
    inside = np.linspace(knots[0], knots[-1], 2000)
    return np.sort(np.concatenate([knots, *beside, grid, inside]))


@given(curves(), st.integers(2, 80))
def test_steps_are_within_their_deviation_of_the_curve(curve, steps):
    found = staircase(curve, steps)
    x = between_knots(curve.axis)
    size = np.abs(curve.pieces).sum(axis=1).max()
    assert np.abs(found.curve(x) - curve(x)).max() <= found.deviation + 1e-12 * size
    assert found.curve(np.array([np.nan])) == curve(np.array([np.nan]))
    if curve.pieces[:, 1:].any():
        assert found.curve.axis.n_cells <= max(2, steps) + 1
    else:
        assert found.deviation == 0


@pytest.mark.parametrize("steps", [2, 7, 64])
def test_steps_of_a_monotone_line_are_nearly_the_best(steps):
    curve = ramp(0, [0.0, 1.0, 5.0, 6.0], [0.0, 3.0, 3.0, 10.0])
    assert 10 / (2 * steps) <= staircase(curve, steps).deviation < 1.15 * 10 / (2 * steps)


@st.composite
def rising(draw):
    """A rising broken line, flat in parts, with rises of very different sizes."""
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    m = draw(st.integers(2, 12))
    knots = np.sort(rng.normal(size=m)) * 10.0 ** draw(st.integers(-3, 5))
    rises = np.abs(rng.normal(size=m - 1)) * 10.0 ** rng.integers(-12, 3, size=m - 1)
    rises[rng.random(m - 1) < 0.3] = 0.0
    values = draw(st.sampled_from([-1e3, 0.1, 7e5])) + np.concatenate([[0.0], np.cumsum(rises)])
    return ramp(0, knots, values)


@given(rising(), st.integers(2, 70), st.booleans())
def test_steps_of_a_monotone_curve_are_monotone_exactly(curve, steps, falling):
    if falling:
        curve = Curve(0, curve.axis, -curve.pieces)
    model = AdditiveModel(1, [curve], feature_names=["a"])
    sign = -1.0 if falling else 1.0
    x = np.sort(np.concatenate([between_knots(curve.axis), [-1e6, 1e6]]))
    formula = formula_of(model)
    for dtype in (FLOAT32, FLOAT64):
        trees, _ = grow_trees(formula, dtype, steps)
        values = np.unique(x.astype(dtype))
        ((part,),) = [list(tree_parts(trees, {0: values}))]
        assert (np.diff(sign * part) >= 0).all()
    for target, read in READERS.items():
        if target != "elasticsearch":
            score = read(quietly(model, target, steps=steps))
            found = [sign * score({"a": v}) for v in np.unique(x.astype(np.float32))[::40]]
            assert (np.diff(found) >= 0).all()


def test_slopes_beyond_the_knots_are_cut_off_and_named():
    model = curved(slopes=(0.5, 0.0))
    with pytest.warns(StaircaseWarning, match="Beyond the knots, the slope of feature 'bm25' is"):
        model.export("xgboost")
    assert staircase(model.curves[0], 64).flat_ends
    assert not staircase(model.curves[1], 64).flat_ends


def test_a_curve_with_slopes_beyond_its_knots_only():
    found = staircase(ramp(0, [0.0, 1.0], [2.0, 2.0], slopes=(1.0, 1.0)), 8)
    assert found.curve(np.array([-5.0, 0.5, 9.0])).tolist() == [2.0, 2.0, 2.0]
    assert (found.deviation, found.flat_ends) == (0.0, True)


@given(curves())
def test_values_are_within_the_limits_of_their_cells(curve):
    low, high = cell_limits(curve)
    x = between_knots(curve.axis)
    cells, size = curve.axis.cells(x), np.abs(curve.pieces).sum(axis=1).max()
    assert (curve(x) >= low[cells] - 1e-12 * size).all()
    assert (curve(x) <= high[cells] + 1e-12 * size).all()


# Trees ---------------------------------------------------------------------------------------


def slow_value(node, row):
    """The twin of `tree_parts`: one row."""
    while not isinstance(node, Leaf):
        node = node.left if row[node.column] < node.threshold else node.right
    return node.value


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_trees_of_steps_score_as_the_model(dtype, seed, rng):
    model = stepped(seed)
    X = awkward_rows(model, rng, 200, dtype)
    trees, _ = grow_trees(formula_of(model), np.dtype(dtype), 64)
    assert len(trees) == len(model.curves) + len(model.surfaces)
    found = [sum(slow_value(tree, row) for tree in trees) for row in X]
    np.testing.assert_allclose(found, model.predict(X.astype(np.float64)), atol=1e-5)
    parts = list(tree_parts(trees, dict(enumerate(X.T))))
    np.testing.assert_array_equal(parts, [[slow_value(t, row) for row in X] for t in trees])


@given(curves(degrees=(0,)), st.booleans())
def test_single_precision_keeps_the_side_of_each_knot(curve, as_levels):
    """A float32 value is in the cell that the model finds for the same value in float64."""
    knots = np.unique(curve.axis.knots.astype(np.float32)) if as_levels else curve.axis.knots
    axis = Axis(knots.astype(np.float64), as_levels)
    curve = Curve(0, axis, np.arange(axis.n_cells)[:, None])
    trees, _ = grow_trees(formula_of(AdditiveModel(1, [curve])), FLOAT32, 64)
    near = knots.astype(np.float32)
    x = [near, *(np.nextafter(near, np.float32(s * np.inf)) for s in (-1, 1)), [np.nan, 0.0, 1e30]]
    x = np.concatenate(x).astype(np.float32)
    np.testing.assert_array_equal(
        next(tree_parts(trees, {0: x})), curve(x.astype(np.float64)).astype(np.float32)
    )


def test_knots_that_are_one_number_in_single_precision():
    knots = 1.0 + np.array([0.0, 1e-12, 2e-12, 1.0])
    curve = Curve(0, Axis(knots), np.arange(6.0)[:, None])
    model = AdditiveModel(1, [curve], feature_names=["a"])
    score = read_solr_trees(model.export("solr"))
    assert [score({"a": x}) for x in (0.5, 1.0, 1.0000002, 2.0, math.nan)] == [0, 1, 3, 4, 5]


def test_trees_are_balanced_and_equal_cells_share_a_leaf():
    def depth(node):
        return 0 if isinstance(node, Leaf) else 1 + max(depth(node.left), depth(node.right))

    values = np.repeat(np.arange(100.0), 10)
    curve = Curve(0, Axis(np.arange(998.0)), values[:, None])
    ((tree,), _) = grow_trees(formula_of(AdditiveModel(1, [curve])), FLOAT64, 64)
    assert depth(tree) == 7  # 100 leaves; the last one is that of missing values, too


@pytest.mark.parametrize("target", READERS)
@pytest.mark.parametrize("shift", [None, 12.5])
def test_readers_of_steps_score_as_the_model(target, shift, rng):
    model = stepped()
    score = READERS[target](model.export(target, shift=shift))
    apart = 1e-6 if target == "solr" else 0.0  # Solr adds 1e-6 to thresholds, and rounds the sums
    X = awkward_rows(model, rng, 150, np.float32, apart).astype(np.float64)
    found = [score(row) for row in as_dicts(X)]
    np.testing.assert_allclose(found, model.predict(X) + (shift or 0.0), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("target", READERS)
@pytest.mark.parametrize("steps", [8, 64])
def test_readers_of_curves_are_within_the_deviation(target, steps, rng):
    model = curved()
    score = READERS[target](quietly(model, target, steps=steps))
    X = awkward_rows(model, rng, 150, np.float32, 1e-6).astype(np.float64)
    error = np.abs([score(row) for row in as_dicts(X)] - model.predict(X)).max()
    assert error <= deviation(model, steps) + 1e-5
    assert error > 0.1 * deviation(model, steps)


@pytest.mark.parametrize("steps", [8, 300])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_rounded_values_are_within_the_stated_deviation(offset, steps, rng):
    """Values of double precision, also beside knots, are rounded before they reach the trees."""
    for _ in range(20):
        knots = offset + np.sort(rng.normal(size=9)) * 10.0 ** rng.integers(-1, 3)
        line = ramp(0, knots, rng.normal(size=9).cumsum())
        step = Curve(1, Axis(knots[:4]), rng.normal(size=(6, 1)))
        model = AdditiveModel(2, [line, step])
        X = rng.uniform(knots[0] - 1, knots[-1] + 1, (400, 2))
        X[:9, 0] = knots + np.spacing(knots) * rng.integers(-3, 4, size=9)
        found = sum_trees_in_float32(formula_of(model), X, steps=steps)
        stated = json.loads(quietly(model, "xgboost", steps=steps))["learner"]["attributes"]
        assert np.abs(found - model.predict(X)).max() <= float(stated["linrank_deviation"])


def test_a_share_of_flipped_pairs_chooses_the_number_of_steps():
    data = make_ranking(n_queries=40, docs_per_query=20, n_features=6, random_state=0)
    model = AdditiveRanker(C=0.1).fit(data).model_
    formula = formula_of(model)
    for target in ("xgboost", "lightgbm"):
        steps = choose_steps(target, formula, data, 0.002)
        shares = []
        for n in (steps, steps // 2):
            found = check_order(target, formula, data, steps=n)
            shares.append((found.reversed + found.tied) / found.pairs)
        assert shares[0] <= 0.002 < shares[1]
        chosen = quietly(model, target, sample=data, flips=0.002)
        assert chosen == quietly(model, target, steps=steps)


def test_wrong_shares_of_flipped_pairs():
    model, sample = curved(), np.random.default_rng(0).normal(size=(50, len(NAMES)))
    with pytest.raises(DataError, match="flips needs documents whose pairs are counted"):
        model.export("xgboost", flips=0.1)
    with pytest.raises(DataError, match="but target='sql' takes no trees"):
        model.export("sql", sample=sample, flips=0.1)
    with pytest.raises(DataError, match="but the number is given as steps"):
        model.export("xgboost", sample=sample, flips=0.1, steps=9)
    with pytest.raises(DataError, match="pairs of the sample change their order with 4,096 steps"):
        model.export("xgboost", sample=np.random.default_rng(0).normal(size=(900, 6)), flips=0)


def test_xgboost_files_have_names_only_if_the_model_has():
    line = ramp(0, [0.0, 1.0], [0.0, 1.0])
    for names, expected in ((None, []), (["bm25", "2"], ["bm25", "2"])):
        text = quietly(AdditiveModel(2, [line], feature_names=names), "xgboost")
        learner = json.loads(text)["learner"]
        assert learner["feature_names"] == expected
        assert len(learner["feature_types"]) == len(expected)


@given(st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False))
def test_solr_adds_its_slack_to_thresholds(knot):
    curve = Curve(0, Axis([knot]), [[0.0], [1.0], [1.0]])
    score = read_solr_trees(AdditiveModel(1, [curve], feature_names=["a"]).export("solr"))
    at = np.float32(knot)
    below = at - 2 * np.spacing(max(abs(at), SLACK))
    assert [score({"a": x}) for x in (below, at, at + SLACK)] == [0.0, 1.0, 1.0]


def test_names_and_options_of_trees():
    model = stepped()
    content = json.loads(model.export("solr", name="mine", store="ours", features={"age": "x"}))
    assert (content["name"], content["store"]) == ("mine", "ours")
    listed = [feature["name"] for feature in content["features"]]
    assert listed == ["bm25", "clicks", "kind", "price"]  # age and unused have no curve
    text, array = (
        json.loads(model.export("opensearch", definition=form))["model"]["model"]["definition"]
        for form in ("string", "object")
    )
    assert json.loads(text) == array
    assert model.export("elasticsearch") == model.export("opensearch")
    assert json.loads(model.export("features")) == listed
    renamed = json.loads(model.export("elasticsearch-native", features={"bm25": "title_score"}))
    first = renamed["inference_config"]["learning_to_rank"]["feature_extractors"][0]
    assert first["query_extractor"]["feature_name"] == "title_score"


def test_deviations_are_warned_of_and_in_the_files():
    model = curved()
    for target in TREES:
        with pytest.warns(StaircaseWarning, match=f"deviate by {deviation(model, 16):.3g}. Incr"):
            text = model.export(target, steps=16)
        if target == "xgboost":
            said = json.loads(text)["learner"]["attributes"]["linrank_deviation"]
        elif target == "lightgbm":
            said = text.partition("linrank_deviation=")[2].partition("\n")[0]
        elif target == "elasticsearch-native":
            said = json.loads(text)["metadata"]["linrank_deviation"]
        else:
            continue
        assert float(said) == pytest.approx(deviation(model, 16), abs=1e-4)
        assert float(said) > deviation(model, 16)
    stepped().export("xgboost")  # no warning


# Formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [stepped, curved, lambda: curved(slopes=(0.5, -0.25))])
def test_the_formula_of_a_model_is_its_score(make, rng):
    model = make()
    X = awkward_rows(model, rng, 200)
    formula = formula_of(model, shift=1.5)
    np.testing.assert_allclose(formula.scores(X), model.predict(X) + 1.5, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [stepped, curved, lambda: curved(slopes=(0.5, -0.25))])
def test_python_scores_as_the_model(make, rng):
    model, space = make(), {}
    exec(model.export("python"), space)
    X = awkward_rows(model, rng, 200)
    found = [space["score"](row) for row in as_dicts(X)]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-12, atol=1e-12)
    nothing = as_dicts(X[:1])[0] | {"bm25": None}
    X[0, 0] = np.nan
    assert space["score"](nothing) == pytest.approx(model.predict(X[:1])[0])


@given(curves(), st.booleans())
def test_python_scores_any_curve_as_the_model(curve, as_levels):
    curve = Curve(0, Axis(curve.axis.knots, as_levels), curve.pieces)
    if as_levels:
        curve = Curve(0, curve.axis, curve.pieces[:, :1])
    if not curve.pieces.any():
        return
    space = {}
    exec(AdditiveModel(1, [curve], feature_names=["a"]).export("python"), space)
    x = np.append(between_knots(curve.axis)[::23], [*curve.axis.knots, np.nan])
    found = [space["score"]({"a": v}) for v in x.tolist()]
    np.testing.assert_array_equal(found, curve(x))  # the same operations give the same bits


@pytest.mark.parametrize("make", [stepped, curved])
def test_sqlite_scores_as_the_model(make, rng):
    model = make()
    X = awkward_rows(model, rng, 100)
    with sqlite3.connect(":memory:") as base:
        base.execute(f"CREATE TABLE docs ({', '.join(name + ' REAL' for name in NAMES)})")
        rows = [[None if v != v else v for v in row] for row in X.tolist()]
        base.executemany(f"INSERT INTO docs VALUES ({', '.join('?' * len(NAMES))})", rows)
        text = model.export("sql", dialect="sqlite")
        found = [s for (s,) in base.execute(f"SELECT {text} FROM docs ORDER BY rowid")]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [stepped, curved])
def test_vespa_scores_as_the_model(make, rng):
    model = make()
    _, score = exported.read_vespa(model.export("vespa"))
    X = awkward_rows(model, rng, 40)
    found = [score(row) for row in as_dicts(X)]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-12, atol=1e-12)


def test_a_thousand_levels_are_found_by_few_comparisons(rng):
    """A chain of a thousand comparisons would be deeper than Python and SQLite allow."""
    model = AdditiveModel(1, [levels(0, rng, np.arange(1000.0))], feature_names=["a"])
    space = {}
    exec(model.export("python"), space)
    for x in (-1.0, 0.0, 499.0, 499.5, 999.0, 1000.0):
        assert space["score"]({"a": x}) == model.predict([[x]])[0]
    text = model.export("sql", dialect="sqlite")
    with sqlite3.connect(":memory:") as base:
        assert base.execute(f"SELECT {text} FROM (SELECT 7 AS a)").fetchone() == (
            model.predict([[7.0]])[0],
        )


# What targets cannot express -----------------------------------------------------------------


@pytest.mark.parametrize("target", [name for name in TARGETS if name not in ADDITIVE])
def test_targets_of_linear_models_name_others(target):
    with pytest.raises(DataError, match=f"{target}' does not take additive models. Export this"):
        stepped().export(target)


@pytest.mark.parametrize("target", ["xgboost", "lightgbm", "elasticsearch-native"])
def test_targets_of_trees_refuse_linear_models(target):
    with pytest.raises(DataError, match=r"does not take linear models.* solr, .* or features"):
        LinearModel([1.0]).export(target)


@pytest.mark.parametrize("target", [name for name in ADDITIVE if name not in OF_QUERIES])
def test_scaling_within_queries_is_refused(target):
    steps = Preprocessing(6, by_query=True)
    model = AdditiveModel(6, stepped().curves, preprocessing=steps)
    assert model.needs_qid
    with pytest.raises(
        DataError, match=r"scales features within each query.* Train with scale=None"
    ):
        model.export(target)


def test_a_model_of_zeros_is_refused():
    curve = Curve(0, Axis([1.0]), [[0.0], [0.0], [0.0]])
    with pytest.raises(DataError, match="all curves of the model are 0"):
        AdditiveModel(1, [curve]).export("python")


@pytest.mark.parametrize(
    ("target", "name", "message"),
    [
        ("xgboost", "a<b", "contains one of [ ] <, which XGBoost refuses"),
        ("lightgbm", "a b", "which LightGBM refuses"),
        ("lightgbm", 'a"', "special character of JSON"),
        ("vespa", "1", "not a rank feature of Vespa"),
        ("lucene", "a b", "not a variable of a Lucene expression"),
    ],
)
def test_names_that_a_target_cannot_express(target, name, message):
    curve = Curve(0, Axis([1.0]), [[0.0], [1.0], [0.0]])
    with pytest.raises(DataError) as error:
        AdditiveModel(1, [curve], feature_names=[name]).export(target)
    assert message in str(error.value)
    assert "features=" in str(error.value)


@pytest.mark.parametrize("steps", [1, 0, -3, 2.5, True, "many", None])
def test_the_number_of_steps_is_checked(steps):
    with pytest.raises(DataError, match=r"steps is .*; expected a whole number of at least 2"):
        stepped().export("xgboost", steps=steps)


def test_options_of_other_kinds_are_refused():
    with pytest.raises(DataError, match="normalizers is not an option of target='solr', which has"):
        stepped().export("solr", normalizers="fold")
    with pytest.raises(DataError, match="steps is not an option of target='python', which has na"):
        stepped().export("python", steps=8)


def test_lucene_reads_missing_values_as_zero():
    same = [[0.0], [1.0], [1.0]]  # 0 is in the second cell
    assert AdditiveModel(1, [Curve(0, Axis([0.0]), same)], feature_names=["a"]).export("lucene")
    other = Curve(0, Axis([0.0]), [[0.0], [1.0], [0.5]])
    with pytest.raises(DataError, match="Lucene reads missing values of feature 'a' as 0"):
        AdditiveModel(1, [other], feature_names=["a"]).export("lucene")
    unseen = Curve(0, other.axis, other.pieces, counts=[3, 4, 0])
    text = AdditiveModel(1, [unseen], feature_names=["a"]).export("lucene")
    assert text == "(a < 0.0 ? 0.0 : 1.0)\n"
    with pytest.raises(DataError, match="Lucene reads missing values of feature 'kind' as 0"):
        AdditiveModel(6, [], stepped().surfaces[1:], feature_names=NAMES).export("lucene")


def test_limits_of_single_precision():
    large = Curve(0, Axis([0.0]), [[0.0], [1e39], [0.0]])
    with pytest.raises(DataError, match=r"a score of 1e\+39 is too large for single precision"):
        AdditiveModel(1, [large]).export("xgboost")
    close = Curve(0, Axis([1.0, 1.0 + 1e-12], levels=True), [[0.0], [1.0], [2.0], [3.0]])
    with pytest.raises(DataError, match="two levels of feature '1' are equal in single precision"):
        AdditiveModel(1, [close]).export("solr")
    far = Curve(0, Axis([0.0, 1e39]), [[0.0], [1.0], [2.0], [3.0]])
    score = read_solr_trees(AdditiveModel(1, [far], feature_names=["a"]).export("solr"))
    assert [score({"a": x}) for x in (-1.0, 0.0, 3e38, math.nan)] == [0.0, 1.0, 1.0, 3.0]


# Shifts and rounding -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_shift_of_the_training_ranges_makes_scores_positive(seed):
    rng = np.random.default_rng(seed)
    model = curved(seed)
    formula = formula_of(model, shift="training")
    X = awkward_rows(model, rng, 400)
    assert formula.scores(X).min() >= 0
    assert formula.scores(X).astype(np.float32).min() >= 0
    lowest = sum(min(low, 0.0) for low, _ in formula.ranges())
    assert formula.constant <= 1.001 * max(-lowest, 1.0)


def test_the_lowest_value_of_a_curve_may_be_between_its_knots():
    curve = Curve(0, Axis([0.0, 1.0]), [[0, 0, 0], [0, -4, 4], [0, 0, 0], [0, 0, 0]])
    formula = formula_of(AdditiveModel(1, [curve]), shift="training")
    assert formula.constant == pytest.approx(1.0, rel=1e-5)


def test_rounding_and_steps_change_the_order_of_few_pairs():
    data = make_ranking(20, 10, 6, random_state=0)
    model = curved()
    formula = formula_of(model)
    changed = []
    for target in ("sql", "onnx", "lightgbm", "xgboost", "elasticsearch-native"):
        found = check_order(target, formula, data)
        changed.append(found.reversed + found.tied)
    assert changed[:2] == [0, 0]
    coarse, fine = (check_order("solr", formula, data, steps=s).reversed for s in (4, 400))
    assert fine < max(changed) < coarse
    with pytest.warns(StaircaseWarning), pytest.warns(OrderChangedWarning, match="are reversed"):
        model.export("solr", sample=data, steps=4)


def test_the_check_computes_the_scores_of_the_engine(rng):
    from linrank.export.elasticsearch import score_natively
    from linrank.export.tree_models import sum_trees_in_float32

    model = curved()
    X = awkward_rows(model, rng, 100, apart=1e-6)
    formula = formula_of(model, shift=3.0)
    for target, score in (("solr", sum_trees_in_float32), ("elasticsearch-native", score_natively)):
        read = READERS[target](quietly(model, target, shift=3.0))
        found = score(formula, X)
        np.testing.assert_array_equal(found, [float(read(row)) for row in as_dicts(X)])


# The command ---------------------------------------------------------------------------------


def test_the_command_writes_what_the_method_returns(here):
    model = stepped()
    model.save("model.json")
    for target in ADDITIVE:
        if TARGETS[target].binary or target == "lucene":
            continue
        assert run("export", "model.json", "--to", target).stdout == model.export(target)
    assert "does not take additive" in error_of("export", "model.json", "--to", "svmrank")


@pytest.mark.filterwarnings("always::linrank.StaircaseWarning")
def test_options_of_the_command(here):
    model = curved()
    model.save("model.json")
    done = run("export", "model.json", "--to", "xgboost", "--option", "steps=8")
    assert done.stdout == quietly(model, "xgboost", steps=8)
    assert "a score may deviate by" in " ".join(done.stderr.split())
    assert "expected a whole number" in error_of(
        "export", "model.json", "--to", "xgboost", "--option", "steps=few"
    )
    write_text(here / "data.txt", make_ranking(4, 6, 6, random_state=0))
    checked = run("export", "model.json", "--to", "lightgbm", "--check", "data.txt")
    assert "of 60 pairs change their order" in checked.stderr


def test_other_models_cannot_be_exported():
    with pytest.raises(DataError, match="a Model is no sum over features, so it cannot be exp"):
        Model(1, None, 1, None, None).export("sql")
