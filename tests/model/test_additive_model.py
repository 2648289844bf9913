"""Additive models: scores, files, explanations and importance of curves and surfaces."""

from __future__ import annotations

import contextlib
import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from additive_samples import line_pieces, random_model, random_values, sample_model
from linrank import DataError, FileFormatError, RankingData, load_model
from linrank.baselines.methods import count_used
from linrank.features.basis import Axis
from linrank.features.preprocessing import FeatureSteps
from linrank.model.additive import AdditiveModel
from linrank.model.curves import Curve, Surface, sentences_of, text_of_surface
from reference import additive_score

pytestmark = pytest.mark.interpreted

#: Kernels that are not compiled warn of overflow.
overflows = pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")
SIZES = [0, 1, 2, 3, 8, 17, 128, 129, 300]  # knots; above 128, the search halves first


def same_bits(a, b):
    assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("degree", [0, 1, 3])
@pytest.mark.parametrize("n_knots", SIZES)
def test_scores_are_those_of_the_twin_bit_for_bit(n_knots, degree):
    rng = np.random.default_rng(n_knots)
    model = random_model(rng, degree, n_knots)
    X = random_values(rng, model, 60)
    scores = model.predict(X)
    same_bits(scores, [additive_score(model, row) for row in X])
    total = np.zeros(len(X))
    for curve in model.curves:
        total += curve(X[:, curve.feature])
    for surface in model.surfaces:
        total += surface(*(X[:, f] for f in surface.features))
    same_bits(scores, total)


def test_all_forms_of_documents_give_the_same_bits(monkeypatch):
    rng = np.random.default_rng(0)
    model = random_model(rng)
    X = random_values(rng, model, 300).astype(np.float32).astype(np.float64)
    X[rng.uniform(size=X.shape) < 0.3] = 0.0
    expected = model.predict(X)
    forms = [
        X.astype(np.float32), np.asfortranarray(X), X[:, ::-1].copy()[:, ::-1], sparse.csr_array(X),
        sparse.csr_matrix(X.astype(np.float32)), pd.DataFrame(X), X.tolist(),
    ]  # fmt: skip
    for threads in ("1", "3"):
        monkeypatch.setenv("LINRANK_THREADS", threads)
        for form in forms:
            same_bits(model.predict(form), expected)
    same_bits([model.predict(row)[0] for row in X], expected)


@overflows
def test_curves_of_different_degrees():
    """A curve of degree 0 beside one of degree 3 is padded by coefficients of 0."""
    rng = np.random.default_rng(0)
    step, cubic = Curve(0, Axis([0.0]), [[1.0], [2.0], [3.0]]), random_model(rng, 3).curves[1]
    model = AdditiveModel(2, [cubic, step])
    X = rng.normal(size=(50, 2)) * 10.0 ** rng.integers(-300, 300, (50, 1))
    same_bits(model.scores(X), [additive_score(model, row) for row in X])


@overflows
@pytest.mark.parametrize("knots", [[0.0, 1e-300], [-1e300, 1e300], [0.0, 5e-324, 1.0]])
def test_ends_stay_flat_where_places_overflow(knots):
    heights = np.arange(1.0, len(knots) + 1)
    model = AdditiveModel(1, [Curve(0, Axis(knots), line_pieces(heights, 0.5))])
    found = model.predict([[-1.7e308], [1.7e308], [np.nan]])
    assert found.tolist() == [heights[0], heights[-1], 0.5]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12, unique=True), st.data())
def test_monotone_curves_are_monotone_after_rounding(knots, data):
    """Heights are whole numbers, so that the slopes are exact."""
    axis = Axis(np.sort(knots))
    rises = data.draw(st.lists(st.integers(0, 9), min_size=len(knots), max_size=len(knots)))
    curve = Curve(0, axis, line_pieces(np.cumsum(rises).astype(float), 0.0))
    near = [np.nextafter(axis.knots, side) for side in (-np.inf, np.inf)]
    inner = np.concatenate([axis.knots[:-1] + w * np.diff(axis.knots) for w in (0.1, 0.5, 0.999)])
    x = np.sort(np.concatenate([axis.knots, *near, inner, [-2e6, 2e6]]))
    assert (np.diff(AdditiveModel(1, [curve]).predict(x[:, None])) >= 0).all()


def test_infinite_values_are_refused_by_name():
    model = AdditiveModel(
        2, [Curve(0, Axis([0.0]), [[1.0], [2.0], [3.0]])], feature_names=["bm25", "length"]
    )
    assert model.predict([[1.0, np.inf]]).tolist() == [2.0]  # a feature without a part
    for value in (np.inf, -np.inf):
        with pytest.raises(DataError, match="bm25"):
            model.predict([[1.0, 0.0], [value, 0.0]])


@pytest.mark.parametrize("scale", ["standard", "log1p", "query", "log1p+clip:0.2+robust"])
def test_preprocessing_comes_first(scale):
    """Sparse documents become dense before they are shifted."""
    rng = np.random.default_rng(0)
    X = np.where(rng.uniform(size=(40, 3)) < 0.4, 0.0, rng.lognormal(size=(40, 3)))
    qid = np.repeat(np.arange(8), 5)
    data = RankingData(X, rng.integers(0, 2, 40), qid)
    steps = FeatureSteps.parse(scale, None).fit(data)
    curves = [Curve(f, Axis([-0.5, 0.25, 0.7]), rng.normal(size=(5, 2))) for f in range(3)]
    model = AdditiveModel(3, curves, preprocessing=steps)
    expected = AdditiveModel(3, curves).predict(steps.apply(data.X, data.query_ptr))
    np.testing.assert_allclose(model.predict(X, qid), expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict(sparse.csr_array(X), qid), expected, rtol=1e-12)
    order = rng.permutation(40)
    np.testing.assert_allclose(model.predict(X[order], qid[order]), expected[order], rtol=1e-12)
    found = model.explain(X[3], X[:5])
    assert found.contributions.sum() == pytest.approx(expected[3])


def check_sum(found, size=0.0):
    size += np.abs(found.contributions).sum() + abs(found.base) + abs(found.score)
    assert found.base + found.contributions.sum() == pytest.approx(found.score, abs=1e-13 * size)


def test_contributions_sum_to_the_score():
    model, X = sample_model(300)
    scores = model.predict(X)
    mean = model.parts(X).mean(axis=0)
    assert model.mean_parts == pytest.approx(mean, abs=1e-12)
    for i in range(20):
        found = model.explain(X[i])
        check_sum(found)
        assert found.score == scores[i]
        assert found.base == pytest.approx(scores.mean())
        np.testing.assert_allclose(found.contributions, model.parts(X[i : i + 1])[0] - mean)
        pair = model.explain_pair(X[i], X[i + 1])
        check_sum(pair, abs(scores[i]) + abs(scores[i + 1]))
        assert pair.base == 0.0
        np.testing.assert_array_equal(pair.other, X[i + 1])


def test_an_explanation_names_pairs_and_both_values():
    both = Surface((0, 1), (Axis([0.5]), Axis([0.5])), [[0, 0, 0], [0, 4.0, 0], [0, 0, -1.0]])
    step = Curve(0, Axis([0.5]), [[0.0], [1.0], [3.0]])
    model = AdditiveModel(2, [step], [both], feature_names=["a", "b"])
    found = model.explain([1.0, 2.0])
    assert found.largest(2) == [("a × b", 4.0), ("a", 1.0)]
    assert found.columns()["value"].tolist() == ["1 × 2", 1.0, 2.0]
    assert repr(found).splitlines()[2].split() == ["a", "×", "b", "1", "×", "2", "+4.0000"]
    assert "missing × 2" in repr(model.explain([np.nan, 2.0]))
    pair = model.explain_pair([1.0, 2.0], [0.0, 2.0])
    assert pair.columns()["second"].tolist() == ["0 × 2", 0.0, 2.0]
    frame = pair.to_frame()
    assert frame["feature"].tolist() == ["a × b", "a", "b"]
    assert frame["contribution"].tolist() == [4.0, 1.0, 0.0]


def test_means_are_not_needed():
    model = random_model(np.random.default_rng(0))
    found = model.explain(np.zeros(6))
    assert model.mean_parts is None
    assert found.base == 0.0
    check_sum(found)
    assert "average" not in found.title
    known = sample_model(50)[0]
    assert "on average over the training documents" in known.explain(np.zeros(12)).title


def test_importance_is_the_deviation_over_the_training_documents():
    model, X = sample_model(500)
    (column,) = model.columns()
    np.testing.assert_allclose(column.values, model.parts(X).std(axis=0), atol=1e-12)
    order = model.ordered()
    assert (np.diff(column.values[order]) <= 0).all()
    assert repr(model).startswith("AdditiveModel(12 features; curves: 11; knots: ")
    assert f"largest by importance: {model.part_names()[order[0]]}" in repr(model)
    assert "bm25_title × page_rank" in model._repr_html_()
    for curve in model.curves:
        assert curve.counts.sum() == 500


def test_without_training_documents_the_range_says_what_matters():
    line = Curve(1, Axis([0.0, 1.0, 3.0]), line_pieces(np.array([1.0, 5.0, 2.0]), 0.0))
    flat = Curve(2, Axis([0.0]), [[1.0], [1.0], [1.0]])
    surface = Surface((3, 0), (Axis([]), Axis([0.0])), [[1.0, 2.0, 9.0], [1.0, 1.0, 1.0]])
    model = AdditiveModel(5, [flat, line], [surface])
    assert [column.name for column in model.columns()] == ["range"]
    assert model.columns()[0].values.tolist() == [0.0, 5.0, 0.0, 0.0, 0.0, 8.0]
    assert model.used.tolist() == [0, 1, 3]

    class Fitted:
        model_ = model

    assert count_used(Fitted()) == 3


def test_forms_as_text():
    line = Curve(0, Axis([0.0, 1.0, 9.0]), line_pieces(np.array([0.0, 4.0, 0.0]), 1.0))
    level = Curve(1, Axis([3.0, 7.0], levels=True), [[0.0], [4.0], [1.0], [2.0]])
    nothing = Curve(2, Axis([]), [[1.0], [2.0]])
    unused = Curve(3, Axis([], levels=True), [[1.0], [2.0]])
    surface = Surface((0, 1), (line.axis, level.axis), np.arange(20.0).reshape(5, 4))
    model = AdditiveModel(5, [line, level, nothing, unused], [surface])
    remarks = model.remarks(np.arange(6))
    assert remarks["curve"][:2] == ["▁▂▃▄▅▆▇██▇▆▅▄▃▂▁", "▁█"]
    assert remarks["curve"][2:5] == ["▁", "", ""]
    assert [len(group) for group in remarks["curve"][5].split()] == [2] * 4
    assert remarks["first knot"] == ["+0", "", "", "", "", ""]
    assert remarks["missing"] == ["+1", "+2", "+2", "+2", "", ""]
    assert sentences_of("x", level) == "x lies between +0 and +4. Missing values have +2."
    assert sentences_of("x", unused) == "Missing values have +2."
    assert sentences_of("x × z", surface) == "x × z lies between +0 and +19."
    large = Surface((0, 1), (Axis(np.arange(9.0)), Axis(np.arange(9.0))), np.zeros((11, 11)))
    assert text_of_surface(large) == "…"
    assert AdditiveModel(2, []).remarks(np.arange(0))["curve"] == []


@given(st.integers(0, 2**32), st.sampled_from(SIZES), st.sampled_from([0, 1, 3]))
def test_round_trips_are_exact(tmp_path_factory, seed, n_knots, degree):
    rng = np.random.default_rng(seed)
    model = random_model(rng, degree, n_knots)
    X = random_values(rng, model, 20)
    model.curves = [
        replace(curve, band=(curve.pieces - 1.0, curve.pieces + 1.0)).measured(X[:, curve.feature])
        for curve in model.curves
    ]
    model.surfaces = [
        replace(one, band=(one.values - 1.0, one.values + 2.0)) for one in model.surfaces
    ]
    path = tmp_path_factory.mktemp("models") / "model.json"
    model.save(path)
    again = load_model(path)
    assert isinstance(again, AdditiveModel)
    same_bits(again.predict(X), model.predict(X))
    again.save(path.with_name("again.json"))
    assert path.read_bytes() == path.with_name("again.json").read_bytes()
    for a, b in zip(again.curves, model.curves, strict=True):
        assert (a.feature, a.mean, a.spread, a.axis.levels) == (
            b.feature, b.mean, b.spread, b.axis.levels
        )  # fmt: skip
        same_bits(a.counts, b.counts)
        same_bits(a.band, b.band)
    for a, b in zip(again.surfaces, model.surfaces, strict=True):
        same_bits(a.band, b.band)


@pytest.fixture
def saved(tmp_path):
    """A small model in a file, and its content."""
    model, _ = sample_model(30)
    few = AdditiveModel(12, model.curves[6:9], model.surfaces[:1])
    few.save(tmp_path / "model.json")
    return tmp_path / "model.json", json.loads((tmp_path / "model.json").read_text())


def set_entry(content, place, value):
    """Replace an entry of nested lists and objects; `REMOVED` removes it."""
    for key in place[:-1]:
        content = content[key]
    if value == "REMOVED":
        del content[place[-1]]
    else:
        content[place[-1]] = value


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (["n_features"], 0, "n_features is 0; expected a whole number"),
        (["n_features"], "12", "n_features is '12'"),
        (["n_features"], True, "n_features is True"),
        (["n_features"], 10**400, "n_features is a number of more than 40 digits"),
        (["n_features"], 8, "a curve has feature 8, but there are 8 features"),
        (["curves"], "REMOVED", "'curves' is missing"),
        (["curves"], {}, "curves is not a list of objects"),
        (["curves", 0], 3, "curves is not a list of objects"),
        (["curves", 0, "feature"], 99, "a curve has feature 99"),
        (["curves", 0, "feature"], -1, r"curves\[0\]: feature is -1"),
        (["curves", 0, "feature"], 6.0, r"curves\[0\]: feature is 6.0; expected a whole number"),
        (["curves", 0, "feature"], True, "feature is True"),
        (["curves", 0, "feature"], 7, "two curves have the same feature"),
        (["curves", 1, "knots"], "REMOVED", r"curves\[1\]: 'knots' is missing"),
        (["curves", 1, "knots", 0], 1e9, r"curves\[1\]: knots must increase"),
        (["curves", 1, "knots", 0], "x", "knots is not a list of numbers"),
        (["curves", 1, "knots", 0], float("nan"), "knots must be a list of finite numbers"),
        (["curves", 1, "levels"], 1, r"curves\[1\]: levels is 1; expected True or False"),
        (["curves", 1, "levels"], None, "levels is None"),
        (["curves", 0, "pieces"], [], "pieces must be a table"),
        (["curves", 0, "pieces", 0], "REMOVED", r"pieces has \d+ rows for \d+ cells"),
        (["curves", 0, "pieces", 0], [], "pieces cannot be read as numbers"),
        (["curves", 0, "pieces", 0], 1.0, "pieces is not a list of numbers"),
        (["curves", 0, "pieces", 0, 0], float("inf"), "pieces must be a table of finite numbers"),
        (["curves", 0, "pieces", 0, 0], True, "pieces is not a list of numbers"),
        (["curves", 0, "pieces", 0, 0], 10**400, "pieces cannot be read as numbers"),
        (["curves", 1, "counts", 0], -1, "counts must be whole numbers of documents"),
        (["curves", 1, "counts", 0], 0.5, "counts must be whole numbers of documents"),
        (["curves", 1, "counts", 0], 1e300, "counts must be whole numbers of documents"),
        (["curves", 1, "counts"], [1], "counts has the shape"),
        (["curves", 1, "counts"], "1", "counts is not a list of numbers"),
        (["curves", 1, "band"], [[[0.0]]], "band is not a list of two"),
        (["curves", 1, "band", 0], [[0.0]], r"band has 1 rows for \d+ cells"),
        (["curves", 1, "band", 0, 0, 0], None, "band is not a list of numbers"),
        (["curves", 1, "mean"], "0", "mean is '0'; expected a number or null"),
        (["curves", 1, "mean"], float("nan"), "mean is nan; expected a finite number"),
        (["curves", 1, "spread"], -0.5, "spread is -0.5"),
        (["curves", 1, "spread"], 10**400, "damaged"),
        (["surfaces", 0, "features"], [3, 3], r"surfaces\[0\]: a surface needs two features"),
        (["surfaces", 0, "features"], [3], "features is not a list of two"),
        (["surfaces", 0, "features", 1], 12, "a curve has feature 12"),
        (["surfaces", 0, "axes"], None, "axes is not a list of two"),
        (["surfaces", 0, "axes", 0], [], "an axis is not an object"),
        (["surfaces", 0, "values"], [[1.0]], "values has the shape"),
        (["surfaces", 0, "counts"], [[1]], "counts has the shape"),
        (["surfaces", 0, "counts"], [1], "counts is not a list of numbers"),
        (["preprocessing"], 7, "damaged"),
    ],
)
def test_damaged_files_are_refused(saved, place, value, words):
    path, content = saved
    set_entry(content, place, value)
    path.write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match=words) as caught:
        load_model(path)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}: damaged: ")
    assert "\n" not in sentence
    assert len(sentence) < 300 + len(str(path))


def places(content, *above):
    """All entries of nested lists and objects."""
    keys = content if isinstance(content, dict) else range(len(content))
    for key in list(keys):
        yield [*above, key]
        if isinstance(content[key], dict | list):
            yield from places(content[key], *above, key)


HOSTILE = [
    "REMOVED", None, True, "", "x", -1, 0, 1e308, float("nan"), float("inf"), 10**400, [], {}, [[]],
    [None], {"a": 1},
]  # fmt: skip


@overflows
def test_any_entry_may_be_damaged(saved):
    """A model with a wrong entry is refused by a sentence, or it still gives scores."""
    path, content = saved
    for place in list(places(content)):
        if place[0] in ("settings", "training", "linrank"):
            continue
        for value in HOSTILE:
            damaged = copy.deepcopy(content)
            set_entry(damaged, place, value)
            model = None
            with contextlib.suppress(FileFormatError):
                model = AdditiveModel.from_content(damaged, path)
            if model is not None:
                assert model.predict(np.ones((2, model.n_features))).shape == (2,)
                assert repr(model)


def test_every_truncation_is_refused(saved):
    path, _ = saved
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 41):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=r"model\.json"):
            load_model(path)


def test_wrong_parts_are_refused():
    line = Curve(0, Axis([0.0]), [[0.0], [1.0], [0.5]])
    surface = Surface((0, 1), (line.axis, line.axis), np.zeros((3, 3)))
    turned = Surface((1, 0), (line.axis, line.axis), np.zeros((3, 3)))
    with pytest.raises(DataError, match="two surfaces have the same features"):
        AdditiveModel(2, [line], [surface, turned])
    with pytest.raises(DataError, match="band has degree 16; expected 15 at most"):
        replace(line, band=(np.zeros((3, 17)), np.zeros((3, 17))))
    with pytest.raises(DataError, match=r"band must be two tables of the shape \(3, 3\)"):
        replace(surface, band=(np.zeros((3, 3)), np.zeros((3, 2))))
    with pytest.raises(DataError, match="band has 3 parts"):
        replace(line, band=[np.zeros((3, 1))] * 3)
    with pytest.raises(DataError, match="by finite steps"):
        Axis([-1.7e308, 1.7e308])
    data = RankingData(np.eye(3), [0, 1, 2], [0, 0, 0])
    steps = FeatureSteps.parse("standard", None).fit(data)
    with pytest.raises(DataError, match="preprocessing has 3 features where the model has 2"):
        AdditiveModel(2, [line], preprocessing=steps)


def test_bands_are_limits_of_the_curve():
    line = Curve(0, Axis([0.0, 1.0]), line_pieces(np.array([0.0, 1.0]), 0.0))
    assert line.limits([0.5]) is None
    below, above = np.array([1.0, 0.0]), np.array([2.0, 0.0])
    known = replace(line, band=(line.pieces - below, line.pieces + above))
    lower, upper = known.limits([0.5, 9.0, np.nan])
    assert lower.tolist() == [-0.5, 0.0, -1.0]
    assert upper.tolist() == [2.5, 3.0, 2.0]
