"""Exports of models that scale features within queries score documents as linrank does.

`tests/exports` runs the targets that need other programs.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3

import numpy as np
import pytest
from scipy import sparse

import exported
from linrank import (
    AdditiveRanker,
    DataError,
    LinearModel,
    RankingData,
    RankSVM,
    load_model,
    make_ranking,
)
from linrank.export import TARGETS, export_model, formula_of
from linrank.export.targets import check_order
from linrank.model import Axis, Surface
from problems import PAPERS

pytestmark = pytest.mark.interpreted

NAMES = ["a", 'b "q"', "c", "__proto__"]
ALONE = [name for name, target in TARGETS.items() if target.linear and not target.by_query]
STEPS = [
    {"scale": "query"},
    {"scale": "log1p+query"},
    {"scale": "clip:0.1+query"},
    {"scale": "query", "missing": "zero"},
    {"scale": "log1p+clip:0.05+query", "missing": "indicator"},
    {"scale": "both"},
    {"scale": "log1p+clip:0.05+both", "missing": "indicator"},
]


@pytest.fixture(params=STEPS, ids=str)
def case(request):
    """A trained model and its data; one feature is constant in a query, others have ties."""
    data = make_ranking(9, 8, 4, noise=0.5, random_state=3)
    X = np.round(data.X, 1) * [1.0, 20.0, 0.1, 3.0] + [0.0, 100.0, 2.0, -7.0]
    X[data.qid == data.qid[0], 2] = 5.0
    if "missing" in request.param:
        X[::5, 1] = X[1::7, 3] = np.nan
    rows = RankingData(X, data.y, data.qid, feature_names=NAMES, allow_missing=True)
    model = RankSVM(C=0.1, **PAPERS | (request.param)).fit(X, data.y, data.qid).model_
    model.feature_names = NAMES
    return model, rows


def documents(rows, q):
    first, last = rows.query_ptr[q : q + 2]
    return [dict(zip(NAMES, row, strict=True)) for row in rows.X[first:last].tolist()]


def by_query(rows, score):
    """Return the scores of all rows, given a function of the documents of a query."""
    return [s for q in range(rows.n_queries) for s in score(documents(rows, q))]


def run_python(model, **options):
    space: dict = {}
    exec(export_model(model, "python", **options), space)
    return space


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_formula_is_the_score(case, form):
    model, rows = case
    expected = model.predict(form(rows.X), rows.qid)
    found = formula_of(model).scores(form(rows.X), rows.query_ptr)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_python_scores_all_documents_of_a_query(case):
    model, rows = case
    found = by_query(rows, run_python(model, shift=2.0)["score_query"])
    np.testing.assert_allclose(found, model.predict(rows.X, rows.qid) + 2.0, rtol=1e-10)


def test_python_scores_a_document_between_given_ends(case):
    model, rows = case
    score = run_python(model, name="rank")["rank"]
    # A copy of the lowest and one of the highest values, with the fill, give the same ends.
    for q in range(rows.n_queries):
        found = documents(rows, q)
        fill = model.preprocessing.fill
        known = [
            {n: fill[k] if math.isnan(x[n]) else x[n] for k, n in enumerate(NAMES)} for x in found
        ]
        low, high = ({n: end(x[n] for x in known) for n in NAMES} for end in (min, max))
        at = slice(*rows.query_ptr[q : q + 2])
        expected = model.predict(rows.X[at], rows.qid[at])
        np.testing.assert_allclose([rank for rank in (score(x, low, high) for x in found)],
                                   expected, rtol=1e-10, atol=1e-12)  # fmt: skip


def test_python_takes_no_documents(case):
    assert run_python(case[0])["score_query"]([]) == []


def with_rows(rows):
    """Return a database with the rows and their queries."""
    base = sqlite3.connect(":memory:")
    base.execute('CREATE TABLE docs (id, q, a, "b ""q""", c, "__proto__")')
    q = np.repeat(np.arange(rows.n_queries), np.diff(rows.query_ptr))
    values = [
        (i, int(of), *(None if math.isnan(v) else v for v in row))
        for i, (of, row) in enumerate(zip(q, rows.X.tolist(), strict=True))
    ]
    base.executemany("INSERT INTO docs VALUES (?, ?, ?, ?, ?, ?)", values)
    return base, q


@pytest.mark.parametrize("whole", [True, False])
def test_sqlite_scores_windows_of_rows(case, whole):
    """Without a partition, the rows of the answer are the query."""
    model, rows = case
    text = export_model(model, "sql", dialect="sqlite", partition="" if whole else "q")
    base, q = with_rows(rows)
    if whole:
        found = [s for k in range(rows.n_queries) for (s,) in base.execute(
            f"SELECT {text} FROM docs WHERE q = {k} ORDER BY id")]  # fmt: skip
    else:
        found = [s for (s,) in base.execute(f"SELECT {text} FROM docs ORDER BY id")]
        ranked = [i for (i,) in base.execute(f"SELECT id FROM docs ORDER BY q, {text} DESC, id")]
        scores = model.predict(rows.X, rows.qid)
        falls = np.diff(scores[ranked])[np.diff(q[ranked]) == 0]
        assert (falls <= 1e-12).all()
    np.testing.assert_allclose(found, model.predict(rows.X, rows.qid), rtol=1e-10, atol=1e-12)
    base.close()


def read_global_phase(text):
    """Return a function of the documents of a query, by the rules of Vespa's global phase.

    `LinearNormalizer` gives 0.5 to all documents if their values are equal.
    """
    functions = dict(re.findall(r"function (\w+)\(\) \{\s*expression \{(.*?)\}\s*\}", text, re.S))
    (total,) = re.findall(r"global-phase \{\s*rerank-count: 100\s*expression \{(.*?)\}", text, re.S)

    names = sorted(set(re.findall(r"normalize_linear\((\w+(?:\(\w+\))?)\)", total)))
    for k, name in enumerate(names):
        total = total.replace(f"normalize_linear({name})", f"normalized_{k}")

    def score(found):
        found = [dict(values) for values in found]
        for k, name in enumerate(names):
            inputs = [exported.Vespa(functions.get(name, name), x).evaluate() for x in found]
            low, high = min(inputs), max(inputs)
            for values, x in zip(found, inputs, strict=True):
                values[f"normalized_{k}"] = (x - low) / (high - low) if high > low else 0.5
        return [exported.Vespa(total, values).evaluate() for values in found]

    return score


def test_vespa_scores_in_the_global_phase(case):
    model, rows = case
    features = {name: f"attribute(f{k})" for k, name in enumerate(NAMES)}
    text = export_model(model, "vespa", features=features, shift=1.0)
    score = read_global_phase(text)
    assert "normalize_linear(" in text
    for q in range(rows.n_queries):
        at = slice(*rows.query_ptr[q : q + 2])
        expected = model.predict(rows.X[at], rows.qid[at]) + 1.0
        found = score([{features[n]: v for n, v in x.items()} for x in documents(rows, q)])
        constant = np.ptp(model.preprocessing.transformed(rows.X[at]), axis=0) == 0
        weights = model.scaled_coef[:4] if model.query_coef is None else model.query_coef
        expected += 0.5 * weights[constant].sum()
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_shift_training_makes_scores_positive(case):
    model, rows = case
    found = by_query(rows, run_python(model, shift="training")["score_query"])
    assert min(found) >= 0


@pytest.mark.parametrize("target", ALONE)
def test_targets_that_see_one_document_name_those_that_see_all(target):
    model = RankSVM(C=1.0, scale="query", normalize=None).fit([[1.0], [2.0]], [0, 1]).model_
    with pytest.raises(DataError) as error:
        model.export(target)
    assert f"target='{target}' scores documents one by one" in str(error.value)
    assert "or export it to vespa, sql, onnx, c, java, javascript, rust" in str(error.value)
    assert "score_query" in str(error.value)


def test_features_are_listed(case):
    assert json.loads(export_model(case[0], "features")) == NAMES


def test_the_order_is_checked_within_queries(case):
    model, rows = case
    changes = check_order("sql", formula_of(model), rows)
    assert changes.pairs > 100
    assert changes.reversed == changes.tied == 0


def test_values_far_from_0_tie_in_single_precision():
    model = RankSVM(C=1.0, scale="query", normalize=None).fit([[1.0], [2.0]], [0, 1]).model_
    rows = RankingData(np.array([[1.0], [2.0], [4.0]]) + 1e9, np.zeros(3), np.zeros(3))
    assert check_order("onnx", formula_of(model), rows, dtype="float32").tied == 3
    assert check_order("onnx", formula_of(model), rows).tied == 0


def test_an_indicator_alone_has_a_part():
    data = make_ranking(9, 8, 2, random_state=0)
    X = data.X.copy()
    X[::3, 0] = np.nan
    model = (
        RankSVM(C=1.0, scale="query", missing="indicator", normalize=None)
        .fit(X, data.y, data.qid)
        .model_
    )
    only = model.with_coef(model.scaled_coef * [0.0, 0.0, 1.0])
    formula = formula_of(only)
    assert formula.columns == (0,)
    assert not formula.positions
    np.testing.assert_allclose(formula.scores(X, data.query_ptr), only.predict(X, data.qid))
    assert isinstance(only, LinearModel)


@pytest.fixture(params=["query", "both"])
def bent(request):
    """An additive model; values are missing, one feature is constant in a query, and one absent."""
    data = make_ranking(9, 8, 4, noise=0.5, random_state=3)
    X = np.round(data.X, 1) * [1.0, 20.0, 0.1, 3.0] + [0.0, 100.0, 2.0, -7.0]
    first = data.qid == data.qid[0]
    X[first, 2], X[first, 3], X[::5, 1] = 5.0, np.nan, np.nan
    rows = RankingData(X, data.y, data.qid, feature_names=NAMES, allow_missing=True)
    model = AdditiveRanker(0.1, scale=request.param, n_bins=4).fit(rows).model_
    return with_surface(model, 5 if request.param == "both" else 1), rows


def with_surface(model, feature):
    axes = Axis([0.5]), Axis([0.25, 0.75])
    values = [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]]
    return model.with_functions(model.curves, [Surface((0, feature), axes, values)])


def slow_scores(model, rows):
    """Return the sum of curves and surfaces of values and positions, one number after another."""
    scores = []
    for q in range(rows.n_queries):
        X = rows.X[slice(*rows.query_ptr[q : q + 2])]
        for x in X:
            places = []
            for value, column in zip(x, X.T, strict=True):
                known = column[~np.isnan(column)]
                width = np.ptp(known) if len(known) else 0.0
                places.append((value - known.min()) / width if width else 0.0 * value)
            inputs = [*x, *places] if model.has_positions else places
            total = sum(curve(np.array([inputs[curve.feature]]))[0] for curve in model.curves)
            for one in model.surfaces:
                j, k = one.features
                total += one(np.array([inputs[j]]), np.array([inputs[k]]))[0]
            scores.append(total)
    return scores


def test_curves_of_positions_are_scored_explained_and_saved(bent, tmp_path):
    model, rows = bent
    expected = slow_scores(model, rows)
    np.testing.assert_allclose(model.predict(rows.X, rows.qid), expected, atol=1e-12)
    np.testing.assert_allclose(formula_of(model).scores(rows.X, rows.query_ptr), expected)
    model.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(rows.X, rows.qid), model.predict(rows.X, rows.qid))
    query = rows.X[rows.qid == rows.qid[-1]]
    found = model.explain(query[0], query)
    assert found.base + found.contributions.sum() == pytest.approx(found.score)
    assert found.score == pytest.approx(expected[-len(query)])


def test_curves_of_positions_are_exported(bent):
    model, rows = bent
    expected = model.predict(rows.X, rows.qid)
    found = by_query(rows, run_python(model)["score_query"])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    base, _ = with_rows(rows)
    text = export_model(model, "sql", dialect="sqlite", partition="q")
    found = [s for (s,) in base.execute(f"SELECT {text} FROM docs ORDER BY id")]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    base.close()


def test_vespa_scores_curves_without_surfaces_of_positions():
    data = make_ranking(9, 8, 4, random_state=3)
    rows = RankingData(data.X, data.y, data.qid, feature_names=NAMES)
    model = AdditiveRanker(0.1, scale="query", n_bins=4).fit(rows).model_
    features = {name: f"attribute(f{k})" for k, name in enumerate(NAMES)}
    with pytest.raises(DataError, match="this model has an interaction with it"):
        export_model(with_surface(model, 1), "vespa", features=features)
    score = read_global_phase(export_model(model, "vespa", features=features))
    for q in range(rows.n_queries):
        at = slice(*rows.query_ptr[q : q + 2])
        found = score([{features[n]: v for n, v in x.items()} for x in documents(rows, q)])
        np.testing.assert_allclose(found, model.predict(rows.X[at], rows.qid[at]), rtol=1e-9)


def test_trees_refuse_curves_of_positions(bent):
    with pytest.raises(DataError, match="Train with scale=None, or export it to vespa, sql, onnx"):
        bent[0].export("xgboost")
