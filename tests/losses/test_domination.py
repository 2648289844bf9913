"""The domination loss, compared with sums over listed documents at every scale of scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize

import reference
from linrank import DataError, RankingData, make_problem
from linrank.counting.preferences import Preferences
from linrank.engines import threads
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.penalties import L1, ElasticNet, make_penalty
from linrank.solvers import Status, make_solver
from problems import KINDS, as_form, make_problem_arrays

pytestmark = pytest.mark.interpreted

LOSS = get_loss("domination")


def parts_of(engine, w, v):
    value, gradient = engine.value_grad(w)
    return value, gradient, engine.hessp(v), engine.hessian()


def check(engine, X, w, v, slow, rtol=1e-10):
    value, gradient, hessian = slow
    H = X.T @ hessian @ X
    for one, other, scale in zip(
        parts_of(engine, w, v),
        (value, X.T @ gradient, H @ v, H),
        (abs(value), *3 * [np.abs(X).max() * (np.abs(gradient).sum() + np.abs(hessian).sum())]),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * (1e-30 + scale))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("margin", [False, True])
def test_equals_the_sum_over_documents(kind, weighted, margin):
    X, y, qid = make_problem_arrays(kind, n=60, tied=True)
    rng = np.random.default_rng(3)
    weight = rng.integers(0, 3, 60).astype(float) if weighted else None
    query_weight = (rng.integers(0, 3, qid.max() + 1) + 0.5)[qid] if weighted else None
    propensity = 0.1 + 0.9 * rng.random(60) if weighted else None
    s = rng.standard_normal(60) if margin else None
    data = RankingData(
        X, y, qid, sample_weight=weight, query_weight=query_weight, propensity=propensity, margin=s
    )
    engine = ThreadEngine(data, LOSS)
    upper = weight / propensity if weighted else None
    for _ in range(2):
        w, v = rng.standard_normal((2, 4))
        slow = reference.domination_loss(X @ w, y, qid, upper, weight, query_weight, s)
        check(engine, X, w, v, slow)
    pairs = reference.preference_pairs(y, qid)
    assert engine.n_pairs == np.count_nonzero(reference.pair_weights(pairs, weight, query_weight))


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("features", [None, [3, 0], [1]])
def test_the_hessian_by_level(form, features, monkeypatch):
    """Ten documents per level and one document per level use different algorithms."""
    rng = np.random.default_rng(0)
    X, _, _ = make_problem_arrays("two levels", n=200)
    y, qid = rng.integers(0, 3, 200).astype(float), rng.integers(0, 4, 200)
    weight, s = rng.integers(0, 3, 200).astype(float), rng.standard_normal(200)
    data = RankingData(as_form(X, form), y, qid, sample_weight=weight, margin=s)
    chosen = None if features is None else np.array(features)
    w = rng.standard_normal(4)
    found = []
    for few in (8, 10**6):
        monkeypatch.setattr(threads, "MIN_DOCUMENTS_PER_LEVEL", few)
        engine = ThreadEngine(data, LOSS, n_threads=2)
        engine.value_grad(w)
        assert engine.makes_hessian_by_level == (few == 8)
        found.append(engine.hessian(None, chosen))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("kind", ["two levels", "five levels", "all distinct"])
def test_no_scale_of_scores_loses_the_answer(scale, kind):
    X, y, qid = make_problem_arrays(kind, n=40)
    engine = ThreadEngine(RankingData(X, y, qid), LOSS)
    w, v = np.random.default_rng(0).standard_normal((2, 4))
    check(engine, X, scale * w, v, reference.domination_loss(scale * (X @ w), y, qid))


def test_levels_far_apart_are_all_seen():
    """With one scale for all levels, the lower two levels would vanish beside 10,000."""
    X, y = np.array([[1e4], [-1e4 + 1.0], [-1e4]]), np.array([2.0, 1.0, 0.0])
    value, gradient = ThreadEngine(RankingData(X, y), LOSS).value_grad(np.ones(1))
    assert value == pytest.approx(np.log1p(np.exp(-1.0)), rel=1e-12)
    assert gradient[0] == pytest.approx(-1 / (1 + np.e), rel=1e-10)


def test_far_ahead_and_far_behind():
    """The loss is e^{-lead} for a large lead, to full precision, and −lead for a negative one."""
    X, y = np.array([[1.0], [0.0]]), np.array([1.0, 0.0])
    engine = ThreadEngine(RankingData(X, y), LOSS)
    assert engine.value_grad(np.array([50.0]))[0] == pytest.approx(np.exp(-50.0), rel=1e-12)
    assert engine.value_grad(np.array([-1e4]))[0] == 1e4
    assert engine.value_grad(np.array([-1e4]))[1][0] == -1.0


@pytest.mark.parametrize("kind", ["two levels", "five levels", "all distinct"])
@pytest.mark.parametrize("name", ["domination", "domination_binary"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("margin", [False, True])
def test_numeric_derivatives(kind, name, weighted, margin):
    X, y, qid = make_problem_arrays(kind, n=50, d=3)
    rng = np.random.default_rng(0)
    weight, s = rng.random(50) if weighted else None, rng.random(50) if margin else None
    data = RankingData(X, y, qid, sample_weight=weight, margin=s)
    engine = ThreadEngine(data, get_loss(name))
    w = np.array([0.31, -0.22, 0.53])
    numeric = approx_fprime(w, lambda w: engine.value_grad(w)[0], 1e-7)
    np.testing.assert_allclose(engine.value_grad(w)[1], numeric, rtol=1e-4, atol=1e-5)
    numeric = approx_fprime(w, lambda w: engine.value_grad(w)[1], 1e-7)
    engine.value_grad(w)
    np.testing.assert_allclose(engine.hessian(), numeric, rtol=1e-4, atol=1e-4)


def test_weights_are_copies():
    X, y, qid = make_problem_arrays("five levels", n=40)
    times = np.random.default_rng(0).integers(0, 4, 40)
    copies = np.repeat(np.arange(40), times)
    weighted = ThreadEngine(RankingData(X, y, qid, sample_weight=times.astype(float)), LOSS)
    copied = ThreadEngine(RankingData(X[copies], y[copies], qid[copies]), LOSS)
    w, v = np.random.default_rng(1).standard_normal((2, 4))
    for one, other in zip(parts_of(weighted, w, v), parts_of(copied, w, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_binary_tells_labels_above_0_from_the_others():
    X, y, qid = make_problem_arrays("five levels", n=60)
    y -= 2
    w, v = np.random.default_rng(0).standard_normal((2, 4))
    binary = ThreadEngine(RankingData(X, y, qid), get_loss("domination_binary"))
    check(binary, X, w, v, reference.domination_loss(X @ w, (y > 0) * 1.0, qid))


def test_margin_of_the_labels():
    X, y, qid = make_problem_arrays("five levels", n=60)
    w, v = np.random.default_rng(0).standard_normal((2, 4))
    preferences = Preferences(rescale="margin", delta="label-squared")
    engine = ThreadEngine(RankingData(X, y, qid), LOSS, preferences=preferences)
    check(engine, X, w, v, reference.domination_loss(X @ w, y, qid, margin=y))


@pytest.mark.parametrize("form", ["dense32", "csr64", "csr32"])
def test_storages_and_threads(form, monkeypatch):
    X, y, qid = make_problem_arrays("five levels", n=200)
    X = X.astype(np.float32).astype(np.float64)
    w, v = np.random.default_rng(0).standard_normal((2, 4))
    monkeypatch.setattr(threads, "SMALL_BYTES", 0)
    monkeypatch.setattr(threads, "BLOCK_BYTES", 1000)
    engine = ThreadEngine(RankingData(as_form(X, form), y, qid), LOSS, n_threads=3)
    for fused in (True, False):
        engine.fused = fused
        check(engine, X, w, v, reference.domination_loss(X @ w, y, qid))


@settings(deadline=None, max_examples=50)
@given(
    documents=st.lists(
        st.tuples(st.integers(0, 5), st.floats(-1e4, 1e4), st.integers(0, 2)),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_any_labels_and_scores(documents):
    y, s, qid = (np.array(column, dtype=float) for column in zip(*documents, strict=True))
    engine = ThreadEngine(RankingData(s[:, None], y, qid), LOSS)
    value, gradient = engine.value_grad(np.ones(1))
    slow = reference.domination_loss(s, y, qid)
    assert value == pytest.approx(slow[0], rel=1e-9, abs=1e-9)
    scale = 1e-9 * (1 + np.abs(s).max() * np.abs(slow[1]).sum())
    assert gradient[0] == pytest.approx(s @ slow[1], rel=1e-9, abs=scale)


# Solvers ----------------------------------------------------------------------------------------


def slow_optimum(X, y, qid, C, penalty):
    """Minimise with scipy over listed documents; for l1, w is a difference of positive parts."""
    rho = {None: 0.0, "l1": 1.0, "elastic_net": 0.5}[penalty]

    def objective(parts):
        w = parts[:4] - parts[4:]
        value, gradient, _ = reference.domination_loss(X @ w, y, qid)
        slope = C * X.T @ gradient + (1 - rho) * w
        value = C * value + rho * parts.sum() + 0.5 * (1 - rho) * w @ w
        return value, np.concatenate([slope + rho, rho - slope])

    bounds = [(0, None)] * 8 if rho else [(None, None)] * 8
    return minimize(
        objective, np.full(8, 0.1), jac=True, bounds=bounds, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    ).fun  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two levels", "five levels", "all distinct"])
@pytest.mark.parametrize(
    ("solver", "penalty"),
    [
        ("newton", None), ("tron", None), ("lbfgs", None), ("proximal-newton", "l1"),
        ("fista", "l1"), ("proximal-newton", "elastic_net"), ("fista", "elastic_net"),
    ],
)  # fmt: skip
def test_solvers_reach_the_optimum(kind, solver, penalty):
    X, y, qid = make_problem_arrays(kind, n=40)
    made = {None: None, "l1": L1(), "elastic_net": ElasticNet(ratio=0.5)}[penalty]
    problem = make_problem(RankingData(X, y, qid), 0.3, loss="domination", penalty=made)
    result = make_solver(solver, LOSS, made, tol=1e-8, max_iter=5000).solve(problem)
    assert result.converged
    best = slow_optimum(X, y, qid, 0.3, penalty)
    assert result.objective == pytest.approx(best, rel=1e-6)
    if penalty is not None:
        assert result.objective * (1 - result.gap) <= best * (1 + 1e-9)


@pytest.mark.parametrize("name", ["mcp", "scad", "log", "lp"])
@pytest.mark.parametrize("solver", ["reweighted", "fista"])
def test_concave_penalties_end_at_a_critical_point(name, solver):
    X, _, qid = make_problem_arrays("five levels", n=60)
    y = np.digitize(X @ [2.0, -1.0, 0.0, 0.0], [-1.0, 0.0, 1.0]) + (np.arange(60) % 7 == 0) * 1.0
    penalty = make_penalty(name)
    problem = make_problem(RankingData(X, y, qid), 5.0, loss="domination", penalty=penalty)
    result = make_solver(solver, LOSS, penalty, tol=1e-6, max_iter=5000).solve(problem)
    assert result.status is Status.CRITICAL
    assert result.coef.any()
    _, gradient, _ = reference.domination_loss(X @ result.coef, y, qid)
    away = problem.penalty.distance(result.coef, 5.0 * X.T @ gradient)
    assert np.linalg.norm(away) <= 1e-3 * problem.start()[1]
    start = make_solver("auto", LOSS, L1(), tol=1e-6).solve(problem.with_penalty(L1()))
    if solver == "reweighted":
        assert result.objective <= problem.value_grad(start.coef)[0] * (1 + 1e-9)


@pytest.mark.parametrize("solver", ["proximal-newton", "coordinate-descent"])
@pytest.mark.parametrize("name", ["domination", "domination_binary"])
def test_sparse_optima_with_weights_and_margins(solver, name):
    X, y, qid = make_problem_arrays("five levels", n=50)
    y -= 2 * (name == "domination_binary")
    rng = np.random.default_rng(0)
    weight, propensity = rng.random(50) + 0.5, 0.2 + 0.8 * rng.random(50)
    s = rng.standard_normal(50)
    data = RankingData(X, y, qid, sample_weight=weight, propensity=propensity, margin=s)
    problem = make_problem(data, 0.5, loss=name, penalty=L1())
    result = make_solver(solver, get_loss(name), L1(), tol=1e-8, max_iter=5000).solve(problem)
    labels = (y > 0) * 1.0 if name == "domination_binary" else y

    def objective(parts):
        scores = X @ (parts[:4] - parts[4:])
        value, gradient, _ = reference.domination_loss(
            scores, labels, qid, weight / propensity, weight, margin=s
        )
        slope = 0.5 * X.T @ gradient
        return 0.5 * value + parts.sum(), np.concatenate([slope + 1, 1 - slope])

    best = minimize(
        objective, np.full(8, 0.1), jac=True, bounds=[(0, None)] * 8, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    ).fun  # fmt: skip
    assert result.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("solver", ["cutting-planes", "sgd-pairs", "sgd-queries", "smoothing"])
def test_solvers_of_pairs_are_refused(solver):
    with pytest.raises(DataError, match=r"solver='newton' \(the choice of 'auto'\)"):
        make_solver(solver, LOSS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"counting": "tables"}, "Use counting='auto'"),
        ({"preferences": Preferences(pairs="adjacent")}, "pairs='adjacent'"),
        ({"preferences": Preferences(rescale="slack")}, "rescale='slack' with delta='label'"),
    ],
)
def test_what_it_cannot_have_is_refused(options, sentence):
    X, y, qid = make_problem_arrays("two levels", n=20)
    with pytest.raises(DataError, match=sentence):
        make_problem(RankingData(X, y, qid), loss="domination", **options)


def test_given_pairs_are_refused():
    data = RankingData.from_pairs(np.eye(2), [[0, 1]])
    with pytest.raises(DataError, match="pairs are listed one by one"):
        make_problem(data, loss="domination")


def test_normalised_by_terms():
    X, y, qid = make_problem_arrays("five levels", n=60)
    w = np.ones(4)
    engine = ThreadEngine(RankingData(X, y, qid), LOSS, normalize="pairs")
    terms = sum(np.count_nonzero(y[qid == q] > y[qid == q].min()) for q in np.unique(qid))
    slow = reference.domination_loss(X @ w, y, qid)[0]
    assert engine.value_grad(w)[0] == pytest.approx(slow / terms)
