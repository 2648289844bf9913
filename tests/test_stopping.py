"""When solvers stop: near the optimum, as the papers say, or where rounding ends the fit."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import norm

from linrank import DataError, RankingData, make_ranking
from linrank.engines.threads import ThreadEngine
from linrank.path import make_problem, regularization_path
from linrank.penalties import L1, Log
from linrank.solvers import Status, make_solver
from linrank.solvers.base import Iterate
from linrank.solvers.smooth import distance_to_optimum
from problems import make_problem_arrays

pytestmark = pytest.mark.interpreted

SMOOTH = ["newton", "tron", "lbfgs"]


def separable_data():
    """Fewer documents than features: with a large C, ‖g‖ ≤ ε‖g(0)‖ holds far from the optimum."""
    X = np.random.default_rng(0).standard_normal((12, 40))
    return RankingData(X, np.arange(12) % 3)


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


# The rule itself ---------------------------------------------------------------------------


def solver_at(value, gradient, distance, **options):
    """A solver at a point with this objective and gradient, f(w) − f* given; ‖g(0)‖ is 1."""
    solver = make_solver("tron", **options)
    solver.point = Iterate(np.ones(1), value, np.array([gradient]))
    solver.slope_at_zero = 1.0
    solver._prepare()
    solver.asked = []
    solver._distance_to_optimum = lambda goal: solver.asked.append(goal) or distance
    return solver


@pytest.mark.parametrize(
    ("gradient", "distance", "arrived"),
    [(2.0**-4, 0.01, True), (0.07, 0.01, False), (2.0**-4, 0.0101, False), (0.07, 0.0101, False)],
)
def test_both_conditions_end_a_fit(gradient, distance, arrived):
    """‖g(w)‖ ≤ ε‖g(0)‖ and f(w) − f* ≤ 0.01·ε·f(w), each met with equality or just not met."""
    solver = solver_at(16.0, gradient, distance, tol=2.0**-4)
    assert solver._has_arrived() is arrived
    assert solver._status_on_arrival() is Status.CONVERGED
    alone = solver_at(16.0, gradient, distance, tol=2.0**-4, stop="gradient")
    assert alone._has_arrived() is (gradient <= 2.0**-4)
    assert alone.asked == []


@pytest.mark.parametrize(
    ("distance", "status"), [(0.1, Status.CONVERGED), (0.101, Status.FAR), (1.0, Status.FAR)]
)
def test_the_distance_beyond_which_the_rule_of_the_papers_is_far(distance, status):
    """0.1·ε·f(w)."""
    solver = solver_at(16.0, 0.0, distance, tol=2.0**-4, stop="gradient")
    assert solver._status_on_arrival() is status


@pytest.mark.parametrize(("factor", "later", "next_at"), [(16.0, 0.51, 0.5), (1.21, 0.95, 0.9)])
def test_an_estimate_waits_until_the_gradient_has_fallen(factor, later, next_at):
    """By √(goal/distance), at most by half."""
    solver = solver_at(1.0, 1.0, factor)
    assert not solver._is_near_optimum(1.0)
    solver.point.gradient[:] = later
    assert not solver._is_near_optimum(1.0)
    assert len(solver.asked) == 1
    solver.point.gradient[:] = next_at
    assert not solver._is_near_optimum(1.0)
    assert len(solver.asked) == 2
    solver._prepare()  # another fit asks at once
    solver.point.gradient[:] = 1.0
    assert not solver._is_near_optimum(1.0)
    assert len(solver.asked) == 3


@pytest.mark.parametrize(
    ("gradient", "distance", "noise", "status"),
    [
        (0.0, 0.01, 0.0, Status.CONVERGED),
        (0.0, 0.0101, 0.0, Status.STUCK),
        (1.0, 0.01, 0.0, Status.STUCK),
        (1.0, 0.01, 0.01, Status.PRECISION),
        (1.0, 0.01, 0.0099, Status.STUCK),
        (0.0, 0.02, 0.02, Status.PRECISION),
        (1.0, 16e-12, 0.0, Status.PRECISION),
        (1.0, 17e-12, 0.0, Status.STUCK),
    ],
)
def test_the_status_where_no_step_helps(gradient, distance, noise, status):
    """Near the optimum, within rounding (at least 1e-12 of f), or neither."""
    solver = solver_at(16.0, gradient, distance, tol=2.0**-4)
    evaluated = []
    solver.problem = SimpleNamespace(value_grad=evaluated.append)
    solver._noise = lambda: noise
    assert solver._status_at_rest() is status
    assert solver.asked == [max(noise, 0.01)]
    assert evaluated == [solver.point.w]


def near_an_optimum():
    """A problem, the optimum, and the objective and gradient a little beside it."""
    problem = make_problem(RankingData(*make_problem_arrays("five levels")), 0.5)
    best = make_solver("newton", tol=1e-10).solve(problem)
    value, gradient = problem.value_grad(best.coef + 1e-6)
    return problem, value - best.objective, gradient


def test_the_distance_to_the_optimum_by_a_matrix():
    problem, distance, gradient = near_an_optimum()
    bound = problem.gap_bound(gradient)
    assert bound > 2 * distance
    assert distance_to_optimum(problem, gradient, bound, 0) == bound
    assert distance_to_optimum(problem, gradient, 0.99 * bound, 0) == pytest.approx(distance, 0.01)


def test_the_distance_to_the_optimum_without_a_matrix(monkeypatch):
    """A diagonal may only say that the optimum is far; a Newton step has to prove that it is near."""
    monkeypatch.setattr("linrank.solvers.preconditioner.DENSE_LIMIT", 0)
    problem, distance, gradient = near_an_optimum()
    by_diagonal = 0.5 * gradient @ (gradient / problem.hessian(problem.engine.hessian_diagonal()))
    assert distance_to_optimum(problem, gradient, 0.99 * by_diagonal, 99) == by_diagonal
    goal = max(by_diagonal, 1e-3 * problem.gap_bound(gradient))
    found = distance_to_optimum(problem, gradient, goal, 99)
    assert 0.99 * distance <= found <= 1.01 * (distance + goal)
