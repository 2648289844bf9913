"""Stopping rules: near the optimum, by the rule of the papers, or because of rounding."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config
from scipy.linalg import norm

from linrank import DataError, RankingData, make_ranking
from linrank.engines.threads import ThreadEngine, rounding_error
from linrank.penalties import L1, Log
from linrank.problem import make_problem
from linrank.solvers import Status, make_solver
from linrank.solvers.result import Result
from linrank.solvers.smooth import (
    Distance,
    HessianSettings,
    certifying_step,
    distance_to_optimum,
    invert,
)
from linrank.solvers.solver import Iterate, Solver
from linrank.training.selection import regularization_path
from problems import make_problem_arrays

pytestmark = pytest.mark.interpreted

SMOOTH = ["newton", "tron", "lbfgs"]


def separable_data():
    """With fewer documents than features and a large C, ‖g‖ ≤ ε‖g(0)‖ holds far from f*."""
    X = np.random.default_rng(0).standard_normal((12, 40))
    return RankingData(X, np.arange(12) % 3)


@pytest.mark.skipif(config.DISABLE_JIT, reason="its paths take a minute as plain Python")
@pytest.mark.parametrize("name", SMOOTH)
def test_a_warm_start_does_not_end_a_path_early(name):
    """After a warm start from another C, the gradient is small at once, far from the optimum."""
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
    """These pairs add curvature that vanishes along the step, so its decrease is no bound."""
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
    """The values of a feature far from 0 cancel in the Hessian of the domination loss."""
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
    """The stopping rule is ‖g(w)‖ ≤ ε‖g(0)‖ alone (Lee & Lin 2014, eq. 38)."""
    far = make_solver("tron-paper").solve(make_problem(separable_data(), 1e6))
    assert far.gradient_norm <= 1e-3
    assert far.status is Status.FAR
    assert not far.converged
    X, y, qid = make_problem_arrays("five levels")
    near = make_solver("tron-paper", tol=1e-6).solve(make_problem(RankingData(X, y, qid)))
    assert near.status is Status.CONVERGED


@pytest.mark.parametrize("step", ["backtracking", "paper"])
def test_a_small_gradient_without_a_lower_bound_claims_nothing(step):
    """A feature without a cost leaves no duality gap. ‖∇f(0)‖ grows with C, unlike the optimum."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 6)) * np.geomspace(1e-2, 1, 6)
    y, qid = np.digitize(X @ np.geomspace(100, 1, 6), [-1.0, 1.0]), np.arange(120) // 12
    cost = L1([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    problem = make_problem(RankingData(X, y, qid), 1e3, penalty=cost)
    best = make_solver("proximal-newton", penalty=cost, tol=1e-9).solve(problem).objective
    result = make_solver("fista", penalty=cost, tol=0.1, step=step).solve(problem)
    assert result.gap is None
    assert result.status is Status.FAR
    tight = make_solver("fista", penalty=cost, tol=1e-5, max_iter=20_000).solve(problem)
    assert not tight.converged or tight.objective <= best * (1 + 1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic_exact"])
def test_the_objective_where_features_have_an_offset(loss):
    """Scores of 1e8 have eight digits behind the point. The objective is that of the weights."""
    X, y, qid = make_problem_arrays("five levels")
    offset = np.zeros(X.shape[1])
    offset[0] = 1e8
    shifted = X + offset
    problem = make_problem(RankingData(shifted, y, qid), 10.0, loss=loss)
    result = make_solver("auto", problem.engine.loss, tol=1e-3).solve(problem)
    near = make_problem(RankingData(shifted - offset, y, qid), 10.0, loss=loss)  # is exact
    expected = near.value_grad(result.coef)[0]
    assert result.objective == pytest.approx(expected, rel=1e-9)


def test_the_objective_where_heavy_pairs_cancel_in_the_sums():
    """The pairs that are in order weigh 1e16 times as much as those that are not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = (X[:, 0] > 0).astype(float)
    weight = np.where(np.abs(X[:, 0]) > 0.5, 1e8, 1e-8)
    y[weight < 1] = rng.integers(0, 2, int((weight < 1).sum()))
    data = RankingData(X, y, sample_weight=weight)
    problem, listed = (
        make_problem(data, 1e3, loss="huber", counting=counting)
        for counting in ("auto", "explicit")
    )
    result = make_solver("newton", tol=1e-3).solve(problem)
    assert result.objective == pytest.approx(listed.value_grad(result.coef)[0], rel=1e-8)


@pytest.mark.parametrize("name", ["smoothing", "cutting-planes", "dual"])
def test_a_lower_bound_is_below_the_optimum(name):
    """The terms of the bounds cancel, so each bound leaves room for its rounding error."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((12, 3)), rng.integers(0, 2, 12)
        problem = make_problem(RankingData(X, y), 10.0 ** rng.uniform(-4, 2), loss="hinge")
        solver = make_solver(name, problem.engine.loss, tol=1e-12, max_iter=300)
        result = solver.solve(problem)
        best = make_solver("smoothing", problem.engine.loss, tol=1e-9).solve(problem, result.coef)
        assert solver.bound < min(result.objective, best.objective)


def test_the_protocol_of_the_paper_starts_every_fit_from_zero():
    """Each C of a path starts from w = 0 (Lee & Lin 2014, §4.4)."""
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
    """The counts include inner problems with another C, loss or penalty."""
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


NO_PENALTY = SimpleNamespace(value=lambda w: 0.0)


def solver_at(value, gradient, distance, **options):
    """A solver at a point with this objective and gradient, f(w) − f* given; ‖g(0)‖ is 1."""
    solver = make_solver("tron", **options)
    solver.point = Iterate(np.ones(1), value, np.array([gradient]))
    solver.slope_at_zero, solver.value_at_zero = 1.0, np.inf
    solver.problem = SimpleNamespace(penalty=NO_PENALTY)
    solver._prepare()
    solver.asked = []
    solver._distance_to_optimum = lambda goal, affordable=None: (
        solver.asked.append(goal) or Distance(distance)
    )
    return solver


@pytest.mark.parametrize(
    ("gradient", "bound", "distance", "arrived"),
    [
        (0.9, 1.0, 9.0, True),  # the bound is a certificate
        (0.5, 1.1, 0.25, True),  # an estimate of a quarter of ε·f(w)
        (0.5, 1.1, 0.26, False),
        (0.51, 1.1, 0.0, False),  # no estimate before ‖g‖ ≤ √ε‖g(0)‖
    ],
)
def test_a_certificate_or_an_estimate_ends_a_fit(gradient, bound, distance, arrived):
    """f(w) − f* ≤ ε·f(w) = 1, by the bound ½‖g‖² or by an estimate."""
    solver = solver_at(4.0, gradient, distance, tol=0.25)
    solver.problem = SimpleNamespace(gap_bound=lambda g: bound, penalty=NO_PENALTY)
    assert solver._has_arrived() is arrived
    assert solver._confirmed(Status.CONVERGED) is Status.CONVERGED
    assert solver.asked == ([0.25] if gradient == 0.5 else [])
    alone = solver_at(4.0, gradient, distance, tol=0.25, stop="gradient")
    assert alone._has_arrived() is False
    assert alone.asked == []


@pytest.mark.parametrize(
    ("at_zero", "square", "size"),
    [(np.inf, 0.0, 4.0), (9.0, 0.0, 4.0), (5.0, 0.0, 1.0), (5.0, 2.0, 2.0), (4.0, 1e-9, 1e-9)],
)
def test_a_fit_near_zero_is_measured_by_its_fall(at_zero, square, size):
    """The unit is f(w) = 4, or the fall from w = 0, which is at least the penalty."""
    solver = solver_at(4.0, 0.0, 0.0)
    solver.value_at_zero = at_zero
    solver.problem = SimpleNamespace(penalty=SimpleNamespace(value=lambda w: square))
    assert solver._size() == size


@pytest.mark.parametrize(("gradient", "arrived"), [(0.25, True), (0.251, False)])
def test_the_rule_of_the_papers_compares_gradients(gradient, arrived):
    """‖g(w)‖ ≤ ε‖g(0)‖ is met with equality, or just not met."""
    solver = solver_at(4.0, gradient, 9.0, tol=0.25, stop="gradient")
    assert solver._has_arrived() is arrived
    assert solver.asked == []


@pytest.mark.parametrize(
    ("distance", "status"), [(0.1, Status.CONVERGED), (0.101, Status.FAR), (1.0, Status.FAR)]
)
def test_the_distance_beyond_which_the_rule_of_the_papers_is_far(distance, status):
    """The limit of the distance is 0.1·ε·f(w)."""
    solver = solver_at(16.0, 0.0, distance, tol=2.0**-4, stop="gradient")
    assert solver._confirmed(Status.CONVERGED) is status


@pytest.mark.parametrize(("factor", "later", "next_at"), [(16.0, 0.51, 0.5), (1.21, 0.95, 0.9)])
def test_an_estimate_waits_until_the_gradient_has_fallen(factor, later, next_at):
    """‖g‖ must fall by √(goal/distance), but at most by half."""
    solver = solver_at(1.0, 1.0, factor, tol=0.5)
    solver.slope_at_zero = 2.0
    assert not solver._is_near_optimum(1.0)
    solver.point.gradient[:] = later
    assert not solver._is_near_optimum(1.0)
    assert len(solver.asked) == 1
    solver.point.gradient[:] = next_at
    assert not solver._is_near_optimum(1.0)
    assert len(solver.asked) == 2
    solver._prepare()  # a new fit estimates at once
    solver.point.gradient[:] = 1.0
    assert not solver._is_near_optimum(1.0)
    assert len(solver.asked) == 3


@pytest.mark.parametrize(
    ("gradient", "distance", "noise", "status"),
    [
        (0.0, 0.25, 0.0, Status.CONVERGED),
        (0.0, 0.251, 0.0, Status.STUCK),
        (1.0, 0.25, 0.0, Status.STUCK),
        (1.0, 0.25, 0.25, Status.PRECISION),
        (1.0, 0.25, 0.249, Status.STUCK),
        (0.0, 0.5, 0.5, Status.PRECISION),
        (1.0, 16e-12, 0.0, Status.PRECISION),
        (1.0, 17e-12, 0.0, Status.STUCK),
    ],
)
def test_the_status_where_no_step_helps(gradient, distance, noise, status):
    """The distance is small, within rounding (at least 1e-12 of f), or neither."""
    rounding = max(noise, 16e-12)
    for stop in ("gradient", "optimum"):
        solver = solver_at(16.0, gradient, distance, tol=2.0**-4, stop=stop)
        solver.problem = SimpleNamespace(value_grad=lambda w: None, penalty=NO_PENALTY)
        solver._noise = lambda: noise
        if stop == "gradient" or gradient == 0.0:
            assert solver._status_at_rest() is status
            assert solver.asked == [max(rounding, 0.25) if gradient == 0.0 else rounding]
        else:  # the gradient has no effect
            assert solver._status_at_rest() is (Status.CONVERGED if distance <= 0.25 else status)


@pytest.mark.parametrize(
    ("after", "value", "remainder", "holds"),
    [
        (0.0, 15.5, 0.0, True),  # ½·0² + ½ = ε·f
        (0.1, 15.5, 0.0, False),
        (1.0, 16.5, 0.0, True),  # a rise of the objective has no effect
        (2.0, 16.0, 0.25, True),
        (2.1, 16.0, 0.25, False),
    ],
)
def test_the_gradient_behind_a_newton_step_confirms_the_distance(after, value, remainder, holds):
    """The check is f(w) − f(w + s) + ½‖g(w + s)‖² ≤ ε·f(w), or the remainder of g'P⁻¹g."""
    solver = solver_at(16.0, 4.0, 0.0, tol=2.0**-5)
    solver.problem = SimpleNamespace(
        value_grad=lambda w: (value, np.array([after])),
        gap_bound=lambda g: 0.5 * float(g @ g),
        clip=np.asarray,
        penalty=NO_PENALTY,
    )
    found = Distance(1e-3, np.ones(1), np.asarray, remainder)
    assert solver._model_holds(found) is holds
    assert solver._model_holds(Distance(1e-3))
    assert solver._model_holds(found._replace(distance=1e-12))


@pytest.mark.parametrize("seed", [15, 19, 20, 55])
def test_narrow_corners_leave_the_bound_room_for_rounding(seed):
    """The hinge has no loss at the optimum, so the sums of narrow corners cancel in the bound."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 6)) * (rng.random((12, 6)) < 0.4)
    qid = rng.integers(0, 4, 12)
    qid[0] = qid[-1]
    problem = make_problem(RankingData(X, np.arange(12) < 6, qid), 365.0, loss="hinge")
    solver = make_solver("smoothing", problem.engine.loss, tol=1e-7)
    solver.solve(problem)
    best = make_solver("dual", problem.engine.loss, tol=1e-12, max_iter=20_000).solve(problem)
    assert -np.inf < solver.bound <= best.objective


def near_an_optimum():
    """A problem, its optimum, and the objective and gradient at a point near the optimum."""
    problem = make_problem(RankingData(*make_problem_arrays("five levels")), 0.5)
    best = make_solver("newton", tol=1e-10).solve(problem)
    value, gradient = problem.value_grad(best.coef + 1e-4)
    return problem, value - best.objective, gradient


def test_the_distance_to_the_optimum_by_a_matrix():
    problem, distance, gradient = near_an_optimum()
    bound = problem.gap_bound(gradient)
    assert bound > 2 * distance
    assert distance_to_optimum(problem, gradient, bound, 0) == Distance(bound)
    before = problem.engine.work.products
    found = distance_to_optimum(problem, gradient, 0.99 * bound, 0)
    assert found.distance == pytest.approx(distance, 0.01)
    assert found.remainder == 1e-6
    assert problem.engine.work.products == before


def test_the_distance_to_the_optimum_without_a_matrix(monkeypatch):
    """A diagonal can show that the optimum is far; only a Newton step shows that it is near."""
    monkeypatch.setattr("linrank.solvers.smooth.HESSIAN", HessianSettings(dense_limit=0))
    problem, distance, gradient = near_an_optimum()
    by_diagonal = 0.5 * gradient @ (gradient / problem.hessian(problem.engine.hessian_diagonal()))
    far = distance_to_optimum(problem, gradient, 0.99 * by_diagonal, 99).distance
    assert far == pytest.approx(by_diagonal, rel=1e-12)
    before = problem.engine.work.products
    goal = max(1.01 * by_diagonal, 1e-3 * problem.gap_bound(gradient))
    found = distance_to_optimum(problem, gradient, goal, 99).distance
    assert problem.engine.work.products > before
    assert 0.99 * distance <= found <= 1.01 * (distance + goal)


def test_the_inverse_of_a_singular_matrix_keeps_features_of_small_scale():
    """The lift of a singular matrix is relative to the scale of each feature."""
    P = np.diag([1e16, 1e16, 1e-12])
    P[0, 1] = P[1, 0] = 1e16 * (1 + 1e-15)
    np.testing.assert_allclose(invert(P)(np.array([0.0, 0.0, 1.0])), [0.0, 0.0, 1e12], rtol=1e-6)


def test_an_indefinite_matrix_gets_a_larger_diagonal():
    """The inverse is that of the scaled matrix plus the smallest lift with a Cholesky factor."""
    rng = np.random.default_rng(0)
    A, v = rng.standard_normal((6, 4)), rng.standard_normal(6)
    P = A @ A.T  # of rank 4, and a little less than semidefinite after the next line
    P -= 3e-9 * np.diag(P.diagonal())
    scale = 1.0 / np.sqrt(P.diagonal())
    scaled, lift = P * scale * scale[:, None], 1e-14
    while np.linalg.eigvalsh(scaled).min() + lift <= 0:
        lift *= 10
    expected = scale * np.linalg.solve(scaled + lift * np.eye(6), scale * v)
    np.testing.assert_allclose(invert(P)(v), expected, rtol=1e-5)


def test_a_newton_step_certifies_the_distance():
    """The estimate is −½ g's + ½‖r‖² with r = −g − Hs, and ½‖r‖² is at most half the goal."""
    problem = make_problem(RankingData(*make_problem_arrays("five levels")), 0.5)
    w = np.zeros(problem.n_features)
    _, gradient = problem.value_grad(w)
    P = problem.hessian(problem.engine.hessian_diagonal())
    arguments = problem, gradient, invert(P), P.max()
    for goal in (1.0, 1e-6):
        before = problem.engine.work.products
        step, distance = certifying_step(*arguments, goal, 99)
        assert problem.engine.work.products - before < 99
        left = problem.gap_bound(-gradient - problem.hessp(step))
        assert left <= 0.5001 * goal
        assert distance == pytest.approx(left - 0.5 * gradient @ step)
    for spent, products in ((0, 1), (1, 1), (2, 2)):
        before = problem.engine.work.products
        certifying_step(*arguments, 1e-30, spent)
        assert problem.engine.work.products - before == products


def test_the_work_of_a_fit_is_that_since_its_start():
    problem = make_problem(RankingData(*make_problem_arrays("five levels")))
    for C in (1.0, 2.0):
        solver, started = make_solver("tron"), time.perf_counter()
        result = solver.solve(problem.with_C(C))
        first, *_, last = result.history
        assert 0.0 <= first.seconds <= last.seconds <= result.seconds
        assert result.seconds <= time.perf_counter() - started
        assert result.n_iter == len(result.history) - 1 == last.iteration
        assert 0 == first.products < last.products == result.n_products
        assert solver._spent_work() == result.n_evaluations + result.n_products


# What all solvers share --------------------------------------------------------------------


def any_solver(value=0.0, evaluate=None, **options):
    solver = Solver(**options)
    solver.point = Iterate(np.ones(1), value, np.zeros(1))
    solver.bound = -np.inf
    solver.problem = SimpleNamespace(value_grad=evaluate, C=1.0, clip=np.asarray)
    return solver


@pytest.mark.parametrize("value", [5.0, -5.0])
def test_rounding_is_at_least_1e_13_of_the_objective(value):
    solver = any_solver(value, lambda w: (value, None))
    assert solver._noise() == pytest.approx(5e-13, rel=1e-9, abs=0.0)


def test_rounding_is_measured_one_unit_beside_the_weights():
    """The objective changes by 3 if the weight changes by one unit in its last place."""
    seen = []

    def evaluate(w):
        seen.append(w)
        return 10.0 + 3.0 * (w[0] - 1.0) / np.finfo(float).eps, None

    solver = any_solver(10.0, evaluate)
    solver.point.w = np.ones(64)
    assert solver._noise() == 3.0
    assert len(seen) == 4
    eps = np.finfo(float).eps
    assert set(np.concatenate(seen[:3]).tolist()) == {1.0 - eps, 1.0 + eps}
    assert seen[-1] is solver.point.w
    assert solver._status_at_rest() is Status.STUCK
    for bound, status in ((7.0, "PRECISION"), (13.0, "PRECISION"), (6.9, "STUCK")):
        solver.bound = bound
        assert solver._status_at_rest() is Status[status]


def test_the_gap_is_a_part_of_the_objective():
    solver = any_solver(-4.0)
    assert solver._gap() is None
    solver.bound = -5.0
    assert solver._gap() == 0.25
    solver.bound = -3.0
    assert solver._gap() == 0.25
    solver = any_solver(0.0)
    solver.bound = 0.0
    assert solver._gap() == 0.0


@pytest.mark.parametrize("slope", [0.0, 2e-150, 1.0, 9e69])
def test_gradients_that_double_precision_can_work_with(slope):
    solver = any_solver()
    solver.value_at_zero, solver.slope_at_zero = 1.0, slope
    solver._check_scale()


@pytest.mark.parametrize("slope", [1e-150, 1e70, np.inf, np.nan])
def test_gradients_beyond_double_precision_get_a_sentence(slope):
    solver = any_solver()
    solver.value_at_zero, solver.slope_at_zero = 1.0, slope
    with pytest.raises(DataError, match="the gradient at w = 0 has norm"):
        solver._check_scale()


def test_an_interrupt_before_the_first_evaluation_ends_in_a_result(monkeypatch):
    problem = make_problem(RankingData(*make_problem_arrays("five levels")))

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(problem, "start", interrupt)
    result = make_solver("newton").solve(problem)
    assert result.status is Status.INTERRUPTED
    assert (result.n_iter, result.n_products, result.n_evaluations) == (0, 0, 0)
    assert (result.objective, result.gradient_norm, result.gap) == (np.inf, 0.0, None)
    assert result.history == []
    assert not result.coef.any()


def test_the_limits_of_the_options():
    assert (Solver().tol, Solver().max_iter) == (1e-3, 1000)
    assert make_solver("newton", tol=None).tol == make_solver("lbfgs").tol == 1e-6
    assert Solver(np.float32(0.5), np.int64(1)).max_iter == 1
    for tol in (0, 0.0, 1, 1.0, np.nan, "1e-3"):
        with pytest.raises(DataError, match=r"tol is .*; expected a number between 0 and 1"):
            Solver(tol)
    for max_iter in (0, 1.5, "9"):
        with pytest.raises(DataError, match=r"max_iter is .*; expected a whole number"):
            Solver(max_iter=max_iter)


def test_the_message_of_a_result():
    result = Result(np.array([0.0, 2.0, -1.0]), Status.FAR, 3.5, 0.25, 4, 5, 6, 0.125, [])
    start, end = "4 iterations, 5 Hessian products, objective 3.5, ", "gradient at 2.5e-01 of its"
    assert result.message == f"{Status.FAR.value} {start}{end} start, 0.12 s."
    assert result.n_selected == 2
    result.gap = 0.41
    assert f"{start}within 0.5 of the optimum, certified; {end}" in result.message
    result.status, result.tol = Status.CONVERGED, 0.1
    assert "within 0.1 of the optimum by an estimate (certified: within 0.5); " in result.message
    result.gap = 1.0  # says nothing
    assert result.accuracy == "within 0.1 of the optimum by an estimate"


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "huber", "logistic", "domination"])
@pytest.mark.parametrize("name", ["auto", "tron", "lbfgs", "sgd-pairs"])
def test_the_certified_gap_is_a_bound(loss, name):
    """The gap is at least the distance to the optimum, also for rough fits and raw features."""
    rng = np.random.default_rng(0)
    for C, spread, offset in ((1e-3, 0, 0.0), (1.0, 0, 1e3), (10.0, 3, 0.0)):
        X = rng.standard_normal((24, 4)) * 10.0 ** rng.uniform(-spread, spread, 4) + offset
        data = RankingData(X, rng.integers(0, 3, 24), np.repeat([0, 1, 2], 8))
        problem = make_problem(data, C, loss=loss)
        try:
            solver = make_solver(name, problem.engine.loss, tol=0.03, max_iter=30)
        except DataError:
            continue
        best = make_solver("auto", problem.engine.loss, tol=1e-9).solve(problem)
        result = solver.solve(problem)
        assert result.gap is not None
        assert result.objective * (1 - result.gap) <= best.objective * (1 + 1e-8)
        if name == "auto" and not spread and not offset:
            assert result.gap <= 0.03


def test_the_statuses_that_count_as_converged():
    def converged(status):
        return Result(np.zeros(1), status, 0.0, 0.0, 0, 0, 0, 0.0, []).converged

    good = {Status.CONVERGED, Status.CRITICAL, Status.SETTLED, Status.PRECISION}
    assert {status for status in Status if converged(status)} == good


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_the_rounding_of_sums_that_cancel_is_seen_even_if_moved_scores_do_not_change_them(offset):
    rng = np.random.default_rng(0)
    for away in 10.0 ** rng.uniform(-7, -4, 50):  # how far the only pair is within the margin
        X = offset + np.array([[rng.normal()], [0.0]])
        w = (1.0 - away) / (X[:1] - X[1:]).ravel()
        engine = make_problem(RankingData(X, [1.0, 0.0])).engine
        wide = X.astype(np.longdouble)
        exact = float(max(0.0, 1.0 - (wide[0] - wide[1]) @ w) ** 2)
        assert abs(engine.value_grad(w)[0] - exact) <= 1.001 * rounding_error(engine, w)
