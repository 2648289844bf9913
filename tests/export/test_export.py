"""Exports: what is written is what the readers of other programs accept, and scores the same.

`tests/exports` scores real rows with those programs, as far as they can be installed.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exported
from commandline import error_of, run, write_text
from exported import Made, shaped, slow_score
from linrank import DataError, LinearModel, OrderChangedWarning, RankingData, RankSVM, make_ranking
from linrank.export import TARGETS, export_model
from linrank.export.formula import LinearFormula
from linrank.export.targets import check_order, formula_of
from linrank.model import Term
from problems import PAPERS

pytestmark = pytest.mark.interpreted

NAMES = [f"f{k}" for k in range(12)]
LINEAR = [name for name, target in TARGETS.items() if target.linear]
TEXTS = [name for name in LINEAR if not TARGETS[name].binary]
LINEAR_ONLY = ("solr", "elasticsearch", "opensearch", "liblinear", "svmrank")


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, len(NAMES)))


@pytest.fixture
def plain():
    """A model without preprocessing, in which one feature has no weight."""
    coef = np.random.default_rng(1).normal(size=len(NAMES))
    coef[4] = 0.0
    return LinearModel(coef, feature_names=NAMES)


def scaled_model(kind="standard"):
    """A model whose features were scaled in training, with ranges."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 5)) * [1, 10, 0.1, 3, 1] + [0, 100, -5, 1, 2]
    X[:, 4] = np.abs(X[:, 4])
    terms = []
    for k, column in enumerate(X.T):
        low, high = float(column.min()), float(column.max())
        shift, factor = float(column.mean()), 1 / float(column.std())
        if kind == "min_max":
            shift, factor = low, 1 / (high - low)
        weight = -1.0 if k == 1 else float(rng.normal())
        terms.append(Term(f"f{k}", weight, shift=shift, factor=factor, minimum=low, maximum=high))
    return Made(terms, [f"f{k}" for k in range(5)]), X


def as_dicts(names, X):
    return [dict(zip(names, row, strict=True)) for row in np.asarray(X).tolist()]


def with_holes(X):
    """Rows in which some values of features with a rule for missing values are missing."""
    X = X.copy()
    X[::3, 0] = X[1::4, 2] = X[::5, 4] = np.nan
    return X


# The formula ---------------------------------------------------------------------------------


def test_the_formula_of_a_model_is_its_score(plain, X):
    np.testing.assert_allclose(formula_of(plain).scores(X), plain.predict(X), rtol=1e-12)


def test_the_formula_against_its_slow_twin(X):
    model = shaped(NAMES)
    found = formula_of(model, shift=2.5).scores(with_holes(X))
    expected = [slow_score(model, row, 2.5) for row in with_holes(X).tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_sparse_rows_score_as_dense_ones(plain, X):
    from scipy import sparse

    X[X < 0.5] = 0.0
    dense = formula_of(plain).scores(X)
    np.testing.assert_allclose(formula_of(plain).scores(sparse.csr_array(X)), dense, rtol=1e-12)


def test_limits_and_rules_without_effect_are_left_out():
    terms = [
        Term("a", 1.0, low=-math.inf, high=math.inf),
        Term("b", 0.0, missing=math.nan),
        Term("c", 2.0, missing=math.nan),
    ]
    assert export_model(Made(terms, list("abc")), "solr") == export_model(
        Made([Term("a", 1.0), Term("c", 2.0)], list("abc")), "solr"
    )


# Trained models ------------------------------------------------------------------------------


def train(**steps):
    """A ranker on features of different scales, and its data."""
    data = make_ranking(12, 8, 4, noise=0.5, random_state=3)
    X = data.X * [1.0, 20.0, 0.1, 3.0] + [0.0, 100.0, 2.0, -7.0]
    if steps.get("missing"):
        X[::5, 1] = X[1::7, 3] = np.nan
    names = ["a", "b", "c", "d"]
    rows = RankingData(X, data.y, data.qid, feature_names=names, allow_missing=True)
    model = RankSVM(C=0.1, **PAPERS | steps).fit(X, data.y, data.qid).model_
    model.feature_names = names
    return model, rows


@pytest.mark.parametrize("scale", [None, "standard", "minmax", "robust", "maxabs"])
@pytest.mark.parametrize("target", ["solr", "elasticsearch"])
def test_trained_models_rank_the_same_in_engines(scale, target):
    model, data = train(scale=scale)
    expected = model.predict(data.X)
    for normalizers in ["fold"] if scale is None else ["fold", "emit"]:
        text = model.export(target, normalizers=normalizers, shift="training", constant="one")
        names = [*model.names(), "one"]
        read = exported.read_solr(text) if target == "solr" else exported.read_elasticsearch(
            text, names)  # fmt: skip
        found = [read(row | {"one": 1.0}) for row in as_dicts(model.names(), data.X)]
        constant = formula_of(model, shift="training").constant
        tolerance = 1e-5 * (constant + np.abs(expected).max())
        np.testing.assert_allclose(found, expected + constant, atol=tolerance)
        assert min(found) >= 0


@pytest.mark.parametrize("scale", ["log1p", "clip:0.1+minmax", "log1p+clip+standard"])
@pytest.mark.parametrize("missing", [None, "zero", "median", "indicator"])
def test_trained_models_with_preprocessing_score_the_same(scale, missing):
    model, data = train(scale=scale, missing=missing)
    space = {}
    exec(model.export("python", shift="training"), space)
    _, vespa = exported.read_vespa(model.export("vespa", shift="training"))
    constant = formula_of(model, shift="training").constant
    expected = model.predict(data.X) + constant
    for score in (space["score"], vespa):
        found = [score(row) for row in as_dicts(model.names(), data.X)]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        assert min(found) >= 0


# The engines' own rules ----------------------------------------------------------------------


@pytest.mark.parametrize("normalizers", ["fold", "emit"])
@pytest.mark.parametrize("kind", ["standard", "min_max"])
def test_solr_and_the_plugin_score_as_the_model(normalizers, kind):
    model, X = scaled_model(kind)
    expected = model.predict(X)
    solr = exported.read_solr(export_model(model, "solr", normalizers=normalizers))
    plugin = exported.read_elasticsearch(
        export_model(model, "elasticsearch", normalizers=normalizers), ["other", *model.names()]
    )
    for score in (solr, plugin):
        found = np.array([score({"other": 9.0} | row) for row in as_dicts(model.names(), X)])
        difference = found - expected
        assert np.ptp(difference) < 1e-3 * np.ptp(expected)  # scores may differ by a constant
        if normalizers == "fold":
            assert abs(difference).max() < 1e-3 * np.ptp(expected)


@pytest.mark.parametrize("normalizers", ["fold", "emit"])
@pytest.mark.parametrize("target", ["solr", "elasticsearch", "opensearch"])
def test_a_constant_feature_carries_the_shift(normalizers, target):
    model, X = scaled_model()
    text = export_model(model, target, shift="training", constant="one", normalizers=normalizers)
    names = [*model.names(), "one"]
    score = exported.read_solr(text) if target == "solr" else exported.read_elasticsearch(
        text, names)  # fmt: skip
    found = [score(row | {"one": 1.0}) for row in as_dicts(model.names(), X)]
    constant = formula_of(model, shift="training").constant
    assert constant > 100
    np.testing.assert_allclose(found, model.predict(X) + constant, atol=1e-5 * constant)
    assert min(found) >= 0


def test_solr_lists_features_with_a_weight_only(plain):
    content = json.loads(plain.export("solr", name="mine", store="ours"))
    assert (content["name"], content["store"]) == ("mine", "ours")
    assert [f["name"] for f in content["features"]] == [n for n in NAMES if n != "f4"]
    assert "store" not in json.loads(plain.export("solr"))


def test_the_plugin_gets_weights_as_text_or_object(plain):
    texts = [plain.export("opensearch", definition=form) for form in ("string", "object")]
    found = [json.loads(text)["model"]["model"]["definition"] for text in texts]
    assert isinstance(found[0], str)
    assert json.loads(found[0]) == found[1]


def test_min_max_with_a_negative_minimum_is_standard_in_the_plugin():
    model, _ = scaled_model("min_max")
    text = export_model(model, "elasticsearch", normalizers="emit")
    norms = json.loads(text)["model"]["model"]["feature_normalizers"]
    kinds = {name: next(iter(norm)) for name, norm in norms.items()}
    for term in model.terms():
        assert kinds[term.name] == ("min_max" if term.minimum >= 0 else "standard")
    assert len(set(kinds.values())) == 2


def test_a_feature_with_deviation_0_has_no_normaliser():
    terms = [Term("a", 1.0, shift=0.5, factor=0.0), Term("b", 2.0, shift=0.0, factor=2.0)]
    content = json.loads(export_model(Made(terms, ["a", "b"]), "solr", normalizers="emit"))
    assert [("norm" in feature) for feature in content["features"]] == [False, True]


@pytest.mark.parametrize("phase", ["first-phase", "second-phase"])
def test_vespa_scores_as_the_model(X, phase):
    model = shaped(NAMES)
    features = {name: f"attribute({name})" for name in NAMES} | {"f3": "fieldMatch(title,x).y"}
    text = export_model(model, "vespa", features=features, phase=phase, name="mine", shift=3.0)
    name, score = exported.read_vespa(text, phase)
    assert name == "mine"
    for row in with_holes(X).tolist():
        values = {features[name]: value for name, value in zip(NAMES, row, strict=True)}
        assert score(values) == pytest.approx(slow_score(model, row, 3.0), rel=1e-9, abs=1e-9)


def test_svmrank_scores_as_the_model(plain, X):
    weights, threshold = exported.read_svmrank(plain.export("svmrank", shift=7.5))
    found = [sum(w * row[n - 1] for n, w in weights.items()) - threshold for row in X.tolist()]
    np.testing.assert_allclose(found, plain.predict(X) + 7.5, rtol=1e-5)


def test_python_scores_as_the_model(X):
    model = shaped(NAMES)
    space = {}
    exec(export_model(model, "python", shift=1.0), space)
    for row in with_holes(X).tolist():
        found = space["score"](dict(zip(NAMES, row, strict=True)))
        assert found == pytest.approx(slow_score(model, row, 1.0), rel=1e-9)
    nothing = dict.fromkeys(NAMES, 0.5) | {"f0": None}
    row = [0.5 if name != "f0" else math.nan for name in NAMES]
    assert space["score"](nothing) == pytest.approx(slow_score(model, row, 1.0))
    assert math.isnan(space["score"](dict.fromkeys(NAMES, 0.5) | {"f1": math.nan}))


def test_long_sums_are_nested_in_groups():
    names = [f"f{k}" for k in range(5000)]
    model = LinearModel(np.arange(1.0, 5001.0), feature_names=names)
    space = {}
    exec(model.export("python"), space)
    assert space["score"](dict.fromkeys(names, 1.0)) == 5000 * 5001 / 2


def test_features_lists_what_must_be_computed(plain):
    assert json.loads(plain.export("features")) == [n for n in NAMES if n != "f4"]


# Names ---------------------------------------------------------------------------------------

HOSTILE = ['a"; DROP TABLE docs; --', "x'y", "*/ }", "\\", "<&>", "ж", "a b", "{x}", '"""', "`"]


@pytest.mark.parametrize("target", ["python", "sql", "c", "pmml", "solr", "features"])
def test_names_of_features_cannot_break_out(target):
    text = LinearModel(np.ones(len(HOSTILE)), feature_names=HOSTILE).export(target)
    if target == "python":
        space = {}
        exec(text, space)
        assert space["score"](dict.fromkeys(HOSTILE, 2.0)) == 2 * len(HOSTILE)
    if target == "sql":
        import sqlite3

        with sqlite3.connect(":memory:") as base:
            columns = ", ".join('2 AS "' + n.replace('"', '""') + '"' for n in HOSTILE)
            text = LinearModel(np.ones(10), feature_names=HOSTILE).export("sql", dialect="sqlite")
            assert base.execute(f"SELECT {text} FROM (SELECT {columns})").fetchone() == (20.0,)
    if target == "c":
        assert text.count("*/") == 1
    if target == "pmml":
        from xml.etree import ElementTree

        fields = ElementTree.fromstring(text).iter("{http://www.dmg.org/PMML-4_4}DataField")
        assert [field.get("name") for field in fields] == HOSTILE


@pytest.mark.parametrize("name", ["max", "math", "class", "a b"])
def test_functions_in_python_need_a_free_name(name, plain):
    with pytest.raises(DataError, match="expected a free identifier of Python"):
        plain.export("python", name=name)


def test_a_column_that_does_not_exist_is_an_error_in_sqlite():
    import sqlite3

    text = LinearModel([1.0], feature_names=["clicks"]).export("sql", dialect="sqlite")
    with sqlite3.connect(":memory:") as base, pytest.raises(sqlite3.OperationalError):
        base.execute(f"SELECT {text} FROM (SELECT 1 AS views)").fetchone()


def test_the_output_of_pmml_has_a_name_of_its_own():
    text = LinearModel([1.0, 2.0], feature_names=["score", "score contribution"]).export("pmml")
    assert re.findall('OutputField name="([^"]*)"', text) == ["score_"]


@given(st.text(min_size=1, max_size=12))
def test_any_name_is_written_or_refused(name):
    model = LinearModel([1.5], feature_names=[name])
    space = {}
    exec(model.export("python"), space)
    assert space["score"]({name: 2.0}) == 3.0
    for target in ("lucene", "vespa", "pmml", "sql"):
        try:
            text = model.export(target)
        except DataError as error:
            assert "features=" in str(error)  # noqa: PT017
        else:
            assert text.isprintable() or "\n" in text


@pytest.mark.parametrize(
    ("target", "name", "message"),
    [
        ("lucene", "1", "feature '1' is not a variable of a Lucene expression"),
        ("lucene", "a b", "features={'a b': 'popularity'}"),
        ("vespa", "1", "feature '1' is not a rank feature of Vespa"),
        ("vespa", "a) { }", "not a rank feature"),
        ("vespa", "a # b", "not a rank feature"),
        ("sql", "a\0", "contains a NUL"),
        ("pmml", "a\x01", "characters that XML cannot hold"),
    ],
)
def test_names_that_a_target_cannot_express(target, name, message):
    with pytest.raises(DataError, match=re.escape(message)):
        LinearModel([1.0], feature_names=[name]).export(target)


@pytest.mark.parametrize("name", ["_score", "doc['a b'].value", "a.b[0].c", "$x"])
def test_variables_of_lucene(name):
    assert LinearModel([2.0]).export("lucene", features={"1": name}) == f"2.0 * {name}\n"


def test_names_of_functions_and_profiles_are_checked(plain):
    for target, name in (("c", "1x"), ("javascript", "1x"), ("python", "class"), ("vespa", "a-b")):
        with pytest.raises(DataError, match=f"{name}'"):
            plain.export(target, name=name)


def test_features_must_be_known_and_distinct(plain):
    with pytest.raises(DataError, match="'nobody', which is not a feature of the model"):
        plain.export("solr", features={"nobody": "x"})
    with pytest.raises(DataError, match="2 features with the name 'x'"):
        plain.export("solr", features={"f1": "x", "f2": "x"})
    with pytest.raises(DataError, match=r"features\['f1'\] is ''"):
        plain.export("solr", features={"f1": ""})
    with pytest.raises(DataError, match="2 features with the name 'a'"):
        LinearModel([1.0, 2.0], feature_names=["a", "a"]).export("solr")


# What cannot be expressed --------------------------------------------------------------------


@pytest.mark.parametrize("target", LINEAR_ONLY)
@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"log": True}, "is replaced by its logarithm"),
        ({"low": 0.0}, "is clipped"),
        ({"high": 1.0}, "is clipped"),
        ({"missing": 0.5}, "has a contribution of its own"),
    ],
)
def test_what_is_not_linear_is_refused_with_a_way_out(target, form, reason):
    with pytest.raises(DataError, match=rf"'a' {reason}.*\. Export to vespa, sql"):
        export_model(Made([Term("a", 1.0, **form)], ["a"]), target)


def test_missing_values_that_count_as_0_need_no_rule():
    model = Made([Term("a", 2.0, missing=0.0)], ["a"])
    for target in (*LINEAR_ONLY, "lucene"):
        assert export_model(model, target)
    with pytest.raises(DataError, match="Lucene reads missing values of feature 'a' as 0"):
        export_model(Made([Term("a", 2.0, missing=1.0)], ["a"]), "lucene")


def test_a_model_without_weights_is_refused():
    with pytest.raises(DataError, match="no weight other than 0"):
        LinearModel([0.0, 0.0]).export("solr")


@pytest.mark.parametrize("target", ["solr", "elasticsearch", "svmrank"])
@pytest.mark.parametrize("weight", [1e39, -1e300])
def test_weights_beyond_single_precision_are_refused(target, weight):
    with pytest.raises(DataError, match="too large for"):
        export_model(Made([Term("a", weight)], ["a"]), target)


@pytest.mark.parametrize("target", ["solr", "elasticsearch"])
def test_limits_of_single_precision(target):
    narrow = Made([Term("a", 1.0, shift=0.0, factor=1e45)], ["a"])
    with pytest.raises(DataError, match="Use normalizers='fold'"):
        export_model(narrow, target, normalizers="emit")
    with pytest.raises(DataError, match="needs a model whose features were scaled"):
        export_model(Made([Term("a", 1.0)], ["a"]), target, normalizers="emit")


def test_options_belong_to_targets(plain):
    with pytest.raises(DataError, match="dialect is not an option of target='solr', which has n"):
        plain.export("solr", dialect="sqlite")
    with pytest.raises(DataError, match="name is not an option of target='lucene', which has none"):
        plain.export("lucene", name="x")
    with pytest.raises(DataError, match="dialect is 'mysql'; known choices are"):
        plain.export("sql", dialect="mysql")
    with pytest.raises(DataError, match="target is 'word'; known choices are 'solr'"):
        plain.export("word")
    with pytest.raises(DataError, match="name is 3; expected a text"):
        plain.export("solr", name=3)
    with pytest.raises(DataError, match="is the name of another feature"):
        plain.export("solr", constant="f1", shift=1.0)
    with pytest.raises(DataError, match="version is"):
        plain.export("svmrank", version="6\n")


# Shifts and rounding -------------------------------------------------------------------------


@given(st.integers(0, 10**6))
def test_the_shift_of_the_training_ranges_makes_scores_positive(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 6)) * 10.0 ** rng.integers(-3, 4, size=6)
    terms = [
        term._replace(minimum=float(column.min()), maximum=float(column.max()))
        for term, column in zip(shaped(NAMES[:6]).terms(), X.T, strict=True)
    ]
    model = Made(terms, NAMES[:6])
    X[::4, [0, 2, 4]] = np.nan
    corners = np.where(rng.random(X.shape) < 0.5, np.nanmin(X, axis=0), np.nanmax(X, axis=0))
    for rows in (X, corners):
        scores = formula_of(model, shift="training").scores(rows)
        assert scores.min() >= 0
        assert scores.astype(np.float32).min() >= 0


def test_the_shift_is_no_larger_than_the_lowest_corner_and_rounding():
    terms = {
        0: Term("a", 2.0, minimum=-1.0, maximum=3.0),
        1: Term("b", -1.0, minimum=0.0, maximum=4.0),
    }
    shift = LinearFormula((0, 1), ("a", "b"), terms=terms).shifted("training").constant
    assert shift == pytest.approx(6.0, rel=1e-5)
    assert shift > 6.0


@pytest.mark.parametrize("shift", [math.nan, math.inf, "trained", True])
def test_other_shifts_are_refused(plain, shift):
    with pytest.raises(DataError, match="expected a finite number or 'training'"):
        plain.export("lucene", shift=shift)


def test_shifts_that_are_impossible(plain):
    with pytest.raises(DataError, match="Pass a number, such as shift=100"):
        plain.export("lucene", shift="training")
    with pytest.raises(DataError, match="such as constant='one'"):
        plain.export("solr", shift=1.0)


def count_changes(exact, rounded, qid):
    """The twin of `order_changes`: all pairs."""
    pairs = turned = tied = 0
    for i in range(len(exact)):
        for j in range(len(exact)):
            if qid[i] == qid[j] and exact[i] > exact[j]:
                pairs += 1
                turned += rounded[i] < rounded[j]
                tied += rounded[i] == rounded[j]
    return pairs, turned, tied


@pytest.mark.parametrize("seed", range(4))
def test_changes_of_order_against_all_pairs(seed):
    rng = np.random.default_rng(seed)
    X = 1e3 + rng.integers(0, 50, size=(120, 3)) * 1e-5  # differences that float32 cannot hold
    qid = rng.integers(0, 4, size=120)
    model = LinearModel([1.0, -1.0, 0.5], feature_names=["a", "b", "c"])
    data = RankingData(X, np.zeros(120), qid)
    found = check_order("solr", formula_of(model), data)
    solr = exported.read_solr(model.export("solr"))
    rounded = [float(solr(row)) for row in as_dicts("abc", data.X)]
    expected = count_changes(formula_of(model).scores(data.X), rounded, data.qid)
    assert tuple(found) == expected
    assert found.reversed
    assert found.tied
    assert check_order("sql", formula_of(model), data)[1:] == (0, 0)


def test_lucene_clips_negative_scores_and_the_check_says_so():
    data = make_ranking(5, 8, 3, random_state=0)
    model = LinearModel([1.0, -2.0, 0.5], feature_names=["a", "b", "c"])
    with pytest.warns(OrderChangedWarning, match="with target='lucene', .* become ties"):
        model.export("lucene", sample=data)
    model.export("lucene", sample=data, shift=1e3)  # no warning


def test_a_sample_without_queries_is_one_query(plain, X):
    found = check_order("solr", formula_of(plain), X)
    assert found.pairs == 40 * 39 / 2
    assert str(found).endswith("are reversed and 0 become ties")
    assert check_order("solr", formula_of(plain), X[:1]).pairs == 0
    with pytest.raises(DataError, match="the sample has 3 features but the model has 12"):
        plain.export("solr", sample=X[:, :3])


@pytest.mark.parametrize("target", LINEAR)
def test_missing_values_in_a_sample(target):
    model, data = train(missing="zero")
    found = check_order(target, formula_of(model, shift=1e3), data, **(
        {"constant": "one"} if target in LINEAR_ONLY[:3] else {}))  # fmt: skip
    assert found.reversed + found.tied < found.pairs / 100
    with pytest.raises(DataError, match="for which the model has no rule"):
        check_order(target, formula_of(LinearModel(model.coef)), data)


def test_scores_that_overflow_in_single_precision():
    with pytest.raises(DataError, match="overflow in the single precision"):
        LinearModel([1.0], feature_names=["a"]).export("solr", sample=[[1e39], [0.0]])


@pytest.mark.parametrize("target", ["svmrank", "onnx"])
def test_other_targets_round_too(target):
    X = 1e3 + np.random.default_rng(0).normal(size=(50, 2)) * 1e-5
    formula = formula_of(LinearModel([1.0, -1.0], feature_names=["a", "b"]))
    options = {"dtype": "float32"} if target == "onnx" else {}
    assert check_order(target, formula, X, **options).tied
    if target == "onnx":
        assert check_order(target, formula, X)[1:] == (0, 0)


# The command ---------------------------------------------------------------------------------


@pytest.fixture
def model_file(here):
    model = LinearModel([0.5, 0.0, -2.0], feature_names=["bm25", "age", "length"])
    model.save("model.json")
    return model


@pytest.mark.parametrize("target", TEXTS)
def test_the_command_writes_what_the_method_returns(model_file, here, target):
    expected = model_file.export(target)
    assert run("export", "model.json", "--to", target).stdout == expected
    run("export", "model.json", "--to", target, "--out", "f.txt")
    assert (here / "f.txt").read_text() == expected


def test_options_of_the_command(model_file, here):
    (here / "map.json").write_text('{"bm25": "bm25(title)", "length": "attribute(length)"}')
    text = run("export", "model.json", "--to", "vespa", "--feature-map", "map.json", "--name", "p",
               "--shift", "2.5", "--option", "inherits=other").stdout  # fmt: skip
    features = {"bm25": "bm25(title)", "length": "attribute(length)"}
    assert text == model_file.export("vespa", features=features, name="p", shift=2.5,
                                     inherits="other")  # fmt: skip
    sql = run("export", "model.json", "--to", "sql", "--dialect", "sqlite").stdout
    assert sql == model_file.export("sql", dialect="sqlite")


def test_the_command_checks_the_order(model_file, here):
    write_text(here / "data.txt", make_ranking(4, 6, 3, random_state=0))
    done = run("export", "model.json", "--to", "lucene", "--check", "data.txt")
    assert done.stdout == model_file.export("lucene")
    assert re.search(r"^data.txt: \d+ of 60 pairs change their order: 0 are reversed", done.stderr)


def test_errors_of_the_command(model_file, here):
    assert "binary file. Use --out" in error_of("export", "model.json", "--to", "onnx")
    assert "dialect is not an option" in error_of(
        "export", "model.json", "--to", "c", "--dialect", "sqlite"
    )
    (here / "map.json").write_text("[1]")
    export = ("export", "model.json", "--to", "solr")
    assert "expected an object of texts" in error_of(*export, "--feature-map", "map.json")
    (here / "map.json").write_text("{")
    assert "not JSON" in error_of(*export, "--feature-map", "map.json")
    assert "no.json: cannot be read" in error_of(*export, "--feature-map", "no.json")
    assert "neither a number" in run(*export, "--shift", "high", code=2).stderr
    assert "such as store=mine" in run(*export, "--option", "store", code=2).stderr


def test_scripts_quote_fields_and_take_expressions():
    model = LinearModel([1.0, -2.0], feature_names=["bm25", "it's \\"])
    query = json.loads(model.export("script-score", features={"bm25": "_score"}, shift=3.0))
    lines = query["script_score"]["script"]["source"].split("\n")
    assert lines[1:] == [
        "double x0 = _score;",
        r"double x1 = value(doc, 'it\'s \\', 0.0);",
        "return 3.0",
        "+ 1.0 * x0",
        "- 2.0 * x1;",
    ]


def test_features_that_never_were_missing_do_not_prevent_an_export():
    made = make_ranking(20, 10, 3, random_state=0)
    X, names = made.X + 1.0, ["a", "b", "c"]  # medians are not 0
    ranker = RankSVM(C=0.01, missing="median", scale=None)
    data = RankingData(X, made.y, made.qid, feature_names=names)
    assert "linear" in ranker.fit(data).model_.export("opensearch")
    X[3, 1] = np.nan
    data = RankingData(X, made.y, made.qid, feature_names=names, allow_missing=True)
    with pytest.raises(DataError, match=r"feature 'b' has a contribution .* missing='zero'"):
        ranker.fit(data).model_.export("opensearch")
