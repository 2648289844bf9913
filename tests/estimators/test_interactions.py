"""Interactions of additive rankers: grids, screen, penalty and surfaces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import reference
from linrank import AdditiveRanker, load_model
from linrank.choices import BASES
from linrank.data.ranking import RankingData
from linrank.errors import DataError
from linrank.features.basis import Axis
from linrank.features.design import coarse_axis, coarse_cells, find_positions, pure_columns
from linrank.penalties import L1, L2, GroupL1, NoPenalty
from linrank.penalties.group import with_groups
from linrank.problem import Problem
from linrank.solvers import ProximalNewton
from linrank.solvers.fista import FISTA
from linrank.training.additive_trainer import AdditiveTrainer, find_gains, some_queries

TRUE_PAIRS = [(3, 4), (5, 6), (0, 7)]


def interacting(n_queries=120, n_docs=20, d=12, seed=0, strength=1.0) -> RankingData:
    """Documents with a product, an exclusive or, and a product with a feature that has a curve."""
    rng = np.random.default_rng(seed)
    n = n_queries * n_docs
    X = rng.normal(size=(n, d))
    pairs = X[:, 3] * X[:, 4] + np.where((X[:, 5] > 0) ^ (X[:, 6] > 0), 1.0, -1.0)
    pairs += X[:, 0] * X[:, 7]
    score = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] ** 2 + strength * pairs
    score += 0.7 * rng.normal(size=n)
    order = np.argsort(np.argsort(-score.reshape(n_queries, n_docs), axis=1), axis=1).ravel()
    y = np.select([order < 2, order < 6], [2.0, 1.0], 0.0)
    return RankingData(X, y, np.repeat(np.arange(n_queries), n_docs))


def with_gaps(data: RankingData, seed=1) -> RankingData:
    """Data in which feature 5 is a category, and feature 3 is missing or on a knot."""
    rng = np.random.default_rng(seed)
    X = np.array(data.X)
    X[:, 5] = np.round(X[:, 5])
    X[:, 3] = np.round(2 * X[:, 3]) / 2
    X[rng.uniform(size=len(X)) < 0.1, 3] = np.nan
    X[rng.uniform(size=len(X)) < 0.1, 0] = np.nan
    return RankingData(X, data.y, data.qid, allow_missing=True)


def trainer(**options) -> AdditiveTrainer:
    options = {"loss": "logistic", "smooth": 1.0, "interactions": 5} | options
    return AdditiveTrainer.of(**options)


@pytest.mark.parametrize("basis", BASES)
def test_cells_of_pairs_are_those_of_the_axes(basis):
    data = with_gaps(interacting(40))
    prepared = trainer(basis=basis, categories=["6"]).prepare(data)
    found, rows = prepared.data.X.toarray(), prepared.design.owner >= data.n_features
    expected = [reference.pair_columns(pair, data.X) for pair in prepared.design.pairs]
    assert len(expected) == 5
    np.testing.assert_allclose(found[:, rows], np.hstack(expected), atol=1e-12)
    other = with_gaps(interacting(20, seed=5), seed=6)
    other = RankingData(
        3 * other.X, other.y, other.qid, allow_missing=True
    )  # beyond the training range
    expected = [reference.pair_columns(pair, other.X) for pair in prepared.design.pairs]
    found = prepared.apply(other).X.toarray()
    np.testing.assert_allclose(found[:, rows], np.hstack(expected), atol=1e-12)


@pytest.mark.parametrize("basis", BASES)
def test_implicit_columns_are_those_of_an_explicit_matrix(basis):
    own = trainer(basis=basis, categories=["6"])
    prepared = own.prepare(with_gaps(interacting(40)))
    implicit = own._problem(prepared, 0.01)
    dense = replace(prepared, data=prepared.data.replace(X=prepared.data.X.toarray()))
    explicit = own._problem(dense, 0.01)
    w = np.random.default_rng(0).normal(size=implicit.n_features)
    (value, gradient), (other, slope) = implicit.value_grad(w), explicit.value_grad(w)
    np.testing.assert_allclose(value, other, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, atol=1e-8 * np.abs(slope).max())
    H = explicit.hessian()
    np.testing.assert_allclose(implicit.hessian(), H, atol=1e-8 * np.abs(H).max())
    # Hessian products are in single precision within a block of rows.
    np.testing.assert_allclose(implicit.hessp(w), H @ w, atol=1e-5 * np.abs(H @ w).max())
    results = [ProximalNewton(tol=1e-9).solve(problem) for problem in (implicit, explicit)]
    assert results[0].converged
    assert results[0].gap <= 1e-9
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-8)


def test_derivatives_in_the_scores_make_the_gradient():
    prepared = trainer().prepare(interacting(30))
    engine = trainer()._problem(prepared).engine
    w = np.random.default_rng(0).normal(size=engine.n_features)
    loss, gradient = engine.value_grad(w)
    curvature = engine.state.curvature.copy()
    u, found = engine.score_derivatives(w)
    np.testing.assert_allclose(prepared.data.X.toarray().T @ u, gradient, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(found, curvature, rtol=1e-12)
    assert loss > 0


@given(st.integers(0, 1000))
def test_gains_are_those_of_the_quadratic_model(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 4)
    codes = np.array([rng.integers(0, size, 50) for size in sizes], np.uint8)
    if seed % 3 == 0:
        codes[1] = np.minimum(codes[0], sizes[1] - 1)  # cells on a diagonal only
    gradient, curvature = rng.normal(size=50), rng.uniform(0.1, 2.0, 50)
    found = find_gains(codes, sizes, gradient, curvature, 0.3)
    for (j, k), gain, free in zip(*found[:3], strict=True):
        expected, n_free = reference.interaction_gain(
            codes[j].astype(int), codes[k].astype(int), gradient, curvature, 0.3
        )
        np.testing.assert_allclose(gain, expected, rtol=1e-6, atol=1e-6)
        assert free == n_free


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_screen_finds_the_true_pairs(loss):
    data = interacting(200, d=30)
    found = trainer(loss=loss, interactions=10)._screen(data)[0]
    assert {tuple(pair) for pair in found[:3]} == set(TRUE_PAIRS)


@pytest.mark.parametrize("penalty", ["l2", "l1", "group_l1"])
def test_pairs_without_interaction_get_no_weight(penalty):
    data = interacting(200, d=15)
    own = trainer(interactions=20, penalty=penalty)
    prepared = own.prepare(data)
    C = own._grid(own._problem(prepared)).Cs[7]
    training = own.train(data, C)
    assert training.result.converged
    spreads = {surface.features: surface.spread for surface in training.model.surfaces}
    true = min(spreads.pop(pair) for pair in TRUE_PAIRS)
    assert len(spreads) <= 5
    assert max(spreads.values(), default=0.0) < 0.2 * true
    none = own.train(interacting(200, d=15, strength=0.0), C).model.surfaces
    assert len(none) <= 5
    assert all(surface.spread < 0.2 * true for surface in none)


def test_a_threshold_does_not_depend_on_C():
    data = interacting(60)
    own = trainer(interactions=5)
    prepared = own.prepare(data)
    few, many = (own._problem(prepared, C).penalty for C in (1e-3, 1.0))
    more = prepared.design.owner >= data.n_features
    np.testing.assert_allclose(1e3 * few.costs[more], many.costs[more])
    assert (many.costs[more] > 0).all()
    assert not many.costs[~more].any()


@pytest.mark.parametrize("basis", BASES)
def test_surfaces_have_the_mean_0_in_rows_and_columns(basis):
    data = with_gaps(interacting(60))
    model = trainer(basis=basis, categories=["6"]).train(data, 0.02).model
    assert model.surfaces
    for surface in model.surfaces:
        x, z = (data.X[:, j] for j in surface.features)
        values = surface(x, z)
        for axis, own in zip(surface.axes, (x, z), strict=True):
            cells = axis.cells(own)
            means = np.bincount(cells, values) / np.maximum(1, np.bincount(cells))
            np.testing.assert_allclose(means, 0.0, atol=1e-9)
        counted = surface.measured(x, z)
        np.testing.assert_array_equal(surface.counts, counted.counts)
        np.testing.assert_allclose([surface.mean, surface.spread], [counted.mean, counted.spread],
                                   atol=1e-9)  # fmt: skip


@pytest.mark.parametrize(("basis", "accuracy"), [("step", 1e-9), ("ramp", 1e-5), ("spline", 1e-5)])
def test_models_score_as_the_columns_do(basis, accuracy):
    """Positions of ramps and splines are in single precision, which limits the accuracy."""
    data = with_gaps(interacting(60))
    own = trainer(basis=basis, categories=["6"])
    training = own.train(data, 0.02)
    other = with_gaps(interacting(20, seed=5), seed=6)
    other = RankingData(2 * other.X, other.y, other.qid, allow_missing=True)
    prepared = own.prepare(data)
    for part in (data, other):
        columns = prepared.apply(part).X.toarray() @ training.result.coef
        rest = training.model.scores(part.X) - columns
        np.testing.assert_allclose(rest, rest[0], atol=accuracy)
    assert training.weight_names[-1].count(" × ") == 1


def test_model_files_keep_interactions(tmp_path):
    data = with_gaps(interacting(60))
    ranker = AdditiveRanker(C=0.02, interactions=4, categories=["6"]).fit(data.X, data.y, data.qid)
    assert ranker.model_.surfaces
    ranker.model_.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(data.X), ranker.predict(data.X))
    assert again.settings["interactions"] == 4


def test_values_below_a_knot_stay_below_it():
    """A position in single precision must not round up to the next knot."""
    axis = Axis(np.arange(200.0))
    knots = np.arange(1.0, 200.0)
    X = np.column_stack([np.concatenate([np.nextafter(knots, 0.0), knots])])
    found = find_positions(X, [axis], "ramp", np.float32)[0]
    np.testing.assert_array_equal(np.floor(found), np.concatenate([knots - 1, knots]))


@given(st.integers(0, 10_000))
def test_coarse_cells_are_unions_of_cells(seed):
    rng = np.random.default_rng(seed)
    levels = bool(seed % 2)
    axis = Axis(np.unique(rng.integers(0, 40, rng.integers(0, 30))).astype(float), levels)
    counts = rng.integers(0, 5, axis.n_cells)
    coarse = coarse_axis(axis, counts)
    assert coarse.n_cells <= 16
    assert set(coarse.knots) <= set(axis.knots)
    x = np.concatenate([rng.uniform(-5, 45, 50), axis.knots, [np.nan]])
    np.testing.assert_array_equal(coarse_cells(axis, coarse)[axis.cells(x)], coarse.cells(x))


@given(st.integers(0, 1000))
def test_pure_columns_span_all_interactions(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 6, 2)
    counts = rng.integers(0, 4, shape) * rng.integers(1, 1000, shape)
    axes = tuple(Axis(np.arange(n - 2.0), levels=bool(seed % 2)) for n in shape)
    columns = pure_columns(counts, axes).T.reshape(-1, *shape)
    weighted = columns * counts
    scale = 1e-9 * max(1, counts.max())
    np.testing.assert_allclose(weighted.sum(axis=1), 0.0, atol=scale)
    np.testing.assert_allclose(weighted.sum(axis=2), 0.0, atol=scale)
    assert not columns[:, counts == 0].any()
    rows, others = np.nonzero(counts)
    sums = np.hstack([rows[:, None] == np.arange(shape[0]), others[:, None] == np.arange(shape[1])])
    assert len(columns) == len(rows) - np.linalg.matrix_rank(sums.astype(float))


@pytest.mark.parametrize(
    "own", [L2(), L1(bounds="positive"), GroupL1(groups=[0, 0, 1, 1], ratio=0.3), NoPenalty()]
)
def test_joined_penalties_are_sums(own):
    """Ω of all features is the sum of both parts, and so are its parts and its derivatives."""
    own, more = own.for_features(4), GroupL1(np.full(3, 0.6), groups=[0, 0, 1], ridge=0.0)
    both = with_groups(own, np.array([7, 7, 9]), np.full(3, 0.3), l2=0.0).at(2.0).for_features(7)
    more = more.for_features(3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        z, g = rng.normal(size=7), rng.normal(size=7)
        w = both.prox(z, 0.5)
        parts = [own.prox(z[:4], 0.5), more.prox(z[4:], 0.5)]
        np.testing.assert_allclose(w, np.concatenate(parts))
        np.testing.assert_allclose(both.value(w), own.value(w[:4]) + more.value(w[4:]))
        away = [own.distance(w[:4], g[:4]), more.distance(w[4:], g[4:])]
        np.testing.assert_allclose(both.distance(w, g), np.concatenate(away), atol=1e-12)
    some = both.for_some(np.array([0, 4, 5]))
    v = np.array([0.5, 1.0, -2.0])
    np.testing.assert_allclose(some.value(v), both.value(np.array([0.5, 0, 0, 0, 1.0, -2.0, 0])))
    assert both.starts_at_zero == (own.name not in ("l2", "none"))


@pytest.mark.parametrize("own", [L2(), L1()])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_solvers_agree_on_joined_penalties(own, loss):
    data = interacting(30, d=8)
    engine = trainer(loss=loss)._problem(trainer(loss=loss).prepare(data)).engine
    d = engine.n_features
    groups = np.repeat(np.arange(4), 4)
    penalty = with_groups(own.for_features(d - 16), groups, np.full(16, 40.0), l2=1.0)
    problem = Problem(engine, 0.01, penalty)
    newton, other = ProximalNewton(tol=1e-8).solve(problem), FISTA(tol=1e-7).solve(problem)
    assert newton.converged
    assert newton.gap <= 1e-8
    np.testing.assert_allclose(newton.objective, other.objective, rtol=1e-6)
    assert newton.objective <= other.objective * (1 + 1e-9)


def test_sparse_matrices_and_listed_samples():
    data = interacting(60)
    X = np.where(np.abs(data.X) < 0.5, 0.0, data.X)
    dense = AdditiveRanker(C=0.02, interactions=3).fit(X, data.y, data.qid)
    other = AdditiveRanker(C=0.02, interactions=3).fit(sparse.csr_array(X), data.y, data.qid)
    np.testing.assert_allclose(dense.predict(X), other.predict(X), atol=1e-9)
    some = some_queries(data, 200)
    assert some.n_queries == 10
    assert some_queries(data, 10**6) is data


def test_features_with_a_form_have_no_pairs():
    data = interacting(60)
    found = trainer(interactions=5, monotone={"4": "increasing", "1": 1}).prepare(data).design.pairs
    assert not {0, 3} & {j for pair in found for j in pair.features}
    assert (5, 6) in [pair.features for pair in found]


def test_without_interactions_nothing_changes():
    data = interacting(30)
    plain = trainer(interactions=0).train(data, 0.01)
    assert not plain.model.surfaces
    assert plain.model.settings["penalty"]["name"] == "l2"
    assert plain.result.coef.shape == (data.n_features * 8,)


@pytest.mark.parametrize(
    ("options", "d", "sentence"),
    [
        ({"interactions": -1}, 4, "interactions is -1"),
        ({"interactions": 51}, 4, "interactions is 51"),
        ({"interactions": 2.5}, 4, "interactions is 2.5"),
        ({"interactions": 7}, 4, "4 features without a form have 6 pairs. Use interactions=6"),
        ({"interactions": 1}, 1, "1 features without a form have 0 pairs"),
        ({"interactions": 4, "monotone": [1, 0, 0, 0]}, 4, "3 features .* have 3 pairs"),
        ({"interactions": 1, "penalty": "mcp"}, 4, "interactions need a convex penalty"),
        ({"interactions": 1, "solver": "newton"}, 4, "newton"),
    ],
)
def test_wrong_options_are_refused(options, d, sentence):
    data = interacting(20, d=12)
    with pytest.raises(DataError, match=sentence):
        AdditiveRanker(**options).fit(data.X[:, :d], data.y, data.qid)


def test_constant_and_empty_features_have_no_interaction():
    data = interacting(30)
    X = np.array(data.X[:, :4])
    X[:, 0], X[:, 1] = 1.0, np.nan
    model = AdditiveRanker(C=0.01, interactions=6).fit(X, data.y, data.qid).model_
    assert set(model.pairs) <= {(2, 3)}
    assert np.isfinite(model.predict(X)).all()
