"""When solvers stop: near the optimum, as the papers say, or where rounding ends the fit."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numba import config
from scipy.linalg import norm

from linrank import DataError, RankingData, make_ranking
from linrank.engines.threads import ThreadEngine
from linrank.path import make_problem, regularization_path
from linrank.penalties import L1, Log
from linrank.solvers import Status, make_solver
from problems import make_problem_arrays

pytestmark = pytest.mark.interpreted

SMOOTH = ["newton", "tron", "lbfgs"]


def separable_data():
    """Fewer documents than features: with a large C, ‖g‖ ≤ ε‖g(0)‖ holds far from the optimum."""
    X = np.random.default_rng(0).standard_normal((12, 40))
    return RankingData(X, np.arange(12) % 3)


@pytest.mark.skipif(config.DISABLE_JIT, reason="its paths take a minute as plain Python")
@pytest.mark.parametrize("name", SMOOTH)
def test_a_warm_start_does_not_end_a_path_early(name):
    """From one C to the next the gradient is small at once, and the optimum is elsewhere."""
    data = make_ranking(
        40, n_features=30, n_informative=10, correlation=0.98, noise=1.0, random_state=0
    )
    problem, Cs = make_problem(data), 2.0 ** np.arange(-12, 3)
    best = regularization_path(problem, Cs, tol=1e-9)
    path = regularization_path(problem, Cs, solver=name)
    for found, wanted in zip(path.results, best.results, strict=True):
        assert found.status is Status.CONVERGED
        assert found.objective <= wanted.objective * (1 + 2e-5)
        np.testing.assert_allclose(found.coef, wanted.coef, rtol=0, atol=0.03 * norm(wanted.coef))


@pytest.mark.parametrize("name", SMOOTH)
def test_who_claims_the_optimum_is_there(name):
    problem = make_problem(separable_data(), 1e6)
    best = make_solver("newton", tol=1e-9).solve(problem)
    result = make_solver(name).solve(problem)
    assert best.converged
    assert not result.converged or result.objective <= best.objective * (1 + 1e-3)


@pytest.mark.parametrize(("n", "d", "seed", "tol"), [(30, 5, 118, 1e-3), (30, 40, 61, 1e-2)])
@pytest.mark.parametrize("name", SMOOTH)
def test_pairs_that_leave_their_margin_do_not_hide_the_optimum(n, d, seed, tol, name):
    """They add curvature that vanishes along the Newton step: its decrease is no bound."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.1)
    y, qid = rng.integers(0, 3, n), np.sort(rng.integers(0, 3, n))
    problem = make_problem(RankingData(X, y, qid), 10.0 ** rng.uniform(1, 7))
    best = make_solver("newton", tol=1e-10).solve(problem)
    result = make_solver(name, tol=tol).solve(problem)
    assert best.converged
    assert not result.converged or result.objective <= best.objective * (1 + tol)


@pytest.mark.parametrize("name", [*SMOOTH, "coordinate-descent"])
def test_a_hessian_that_rounding_spoils_claims_nothing(name):
    """A feature far from zero cancels in the Hessian of the domination loss."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y, qid = (X[:, 1] > 0).astype(float), np.repeat([0, 1, 2], 20)
    X[:, 0] = 1e3 * (0.3 * X[:, 0] + y)
    near, far = (
        make_problem(RankingData(X + np.array([0.0, offset]), y, qid), loss="domination")
        for offset in (0.0, 1e9)
    )
    best = make_solver("newton", near.engine.loss, tol=1e-9).solve(near)
    result = make_solver(name, far.engine.loss, tol=1e-2, max_iter=300).solve(far)
    assert not result.converged or result.objective <= 1.01 * best.objective


def test_the_rule_of_the_papers_says_when_the_optimum_is_far():
    """Lee & Lin 2014, eq. 38: ‖g(w)‖ ≤ ε‖g(0)‖ alone."""
    far = make_solver("tron-paper").solve(make_problem(separable_data(), 1e6))
    assert far.gradient_norm <= 1e-3
    assert far.status is Status.FAR
    assert not far.converged
    X, y, qid = make_problem_arrays("five levels")
    near = make_solver("tron-paper", tol=1e-6).solve(make_problem(RankingData(X, y, qid)))
    assert near.status is Status.CONVERGED


def test_the_protocol_of_the_paper_starts_every_fit_from_zero():
    """Lee & Lin 2014, §4.4: each C by itself."""
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid))
    path = regularization_path(problem, [0.01, 1.0, 100.0], solver="tron-paper")
    for C, result in zip(path.Cs, path.results, strict=True):
        alone = make_solver("tron-paper").solve(problem.with_C(C))
        np.testing.assert_array_equal(result.coef, alone.coef)


def test_stop_is_one_of_two():
    with pytest.raises(DataError, match="stop is 'soon'; known choices are 'optimum', 'gradient'"):
        make_solver("tron", stop="soon")


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [("squared_hinge", None), ("hinge", None), ("huber", L1()), ("squared_hinge", Log())],
)
def test_every_evaluation_and_product_is_counted(loss, penalty, monkeypatch):
    """Also those of the problems that are solved on the way: other C, losses and penalties."""
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid), 0.01, loss=loss, penalty=penalty)
    calls = Counter()

    def counted(method):
        call = getattr(ThreadEngine, method)
        return lambda engine, w: calls.update([method]) or call(engine, w)

    for method in ("value_grad", "hessp"):
        monkeypatch.setattr(ThreadEngine, method, counted(method))
    result = make_solver("auto", problem.engine.loss, penalty, tol=1e-6).solve(problem)
    assert (result.n_evaluations, result.n_products) == (calls["value_grad"], calls["hessp"])
    assert calls["value_grad"] > 1
