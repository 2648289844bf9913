"""Cutting planes: the quadratic program, optima of losses with and without corners, the gap."""

from __future__ import annotations

from itertools import combinations, pairwise

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from linrank import RankingData
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.losses.pairwise import SQUARED_HINGE, PairwiseLoss
from linrank.problem import Problem
from linrank.solvers import Newton, Status, cutting_planes
from linrank.solvers.cutting_planes import CuttingPlanes, PlaneModel, maximise_on_simplex
from linrank.solvers.solver import EXACT_OBJECTIVE
from problems import make_problem_arrays

pytestmark = pytest.mark.interpreted

HINGE = PairwiseLoss("hinge", [(1.0, 1.0, 0.0)])
LOGISTIC = get_loss("logistic")
LOSS = {"hinge": HINGE, "squared hinge": SQUARED_HINGE}


def make_problem(kind="five levels", C=1.0, loss=HINGE, n=40):
    return Problem(ThreadEngine(RankingData(*make_problem_arrays(kind, n=n)), loss), C)


# The quadratic program on the simplex ------------------------------------------------------


def best_on_simplex(G, b):
    """Return the largest b'λ − ½λ'Gλ by trying every set of positive entries."""
    n, best = len(b), -np.inf
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            S = list(chosen)
            border = np.ones((size + 1, size + 1))
            border[:size, :size], border[size, size] = G[np.ix_(S, S)], 0.0
            x = np.linalg.lstsq(border, np.append(b[S], 1.0))[0][:size]
            if x.min() >= -1e-9 and abs(x.sum() - 1) < 1e-9:
                best = max(best, b[S] @ x - 0.5 * x @ G[np.ix_(S, S)] @ x)
    return best


def assert_solves(A, b, start):
    """λ is on the simplex, and no larger entry would raise the objective."""
    x = maximise_on_simplex(A @ A.T, b, start)
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1, abs=1e-14)
    slope = b - A @ (A.T @ x)
    lengths = np.linalg.norm(A, axis=1)
    size = np.abs(b).max() + lengths.max() * (lengths @ x)
    assert (slope - x @ slope).max() <= 1e-12 * size
    return x


def random_planes(rng, n, d, kind):
    A, b = rng.standard_normal((n, d)), rng.standard_normal(n)
    if kind == "duplicates":
        A[n // 2 :], b[n // 2 :] = A[: n - n // 2], b[: n - n // 2]
    elif kind == "parallel":
        A[:] = A[0]
    elif kind == "whole numbers":
        A, b = np.round(A), np.round(b)
    elif kind == "scales":
        A *= 10.0 ** rng.integers(-4, 5, (n, 1))
    return A, b


KINDS = ["random", "duplicates", "parallel", "whole numbers", "scales"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 3, 8])
def test_qp_finds_the_best_of_all_active_sets(kind, d):
    for seed in range(4):
        A, b = random_planes(np.random.default_rng(seed), 6, d, kind)
        x = assert_solves(A, b, np.eye(6)[seed])
        value = b @ x - 0.5 * np.sum((A.T @ x) ** 2)
        assert value == pytest.approx(best_on_simplex(A @ A.T, b), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(40, 5), (40, 60), (25, 25)])
def test_qp_is_solved_from_any_start(kind, n, d):
    rng = np.random.default_rng(0)
    A, b = random_planes(rng, n, d, kind)
    starts = [np.eye(n)[0], np.full(n, 1 / n), rng.dirichlet(np.ones(n))]
    w = [A.T @ assert_solves(A, b, start) for start in starts]
    np.testing.assert_allclose(w[1:], w[:1] * 2, rtol=1e-6, atol=1e-7)


@given(
    arrays_of.arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(2, 6)),
        elements=st.integers(-3, 3) | st.floats(-10, 10, allow_subnormal=False),
    )
)
def test_qp_meets_its_conditions(planes):
    assert_solves(planes[:, 1:], planes[:, 0], np.eye(len(planes))[-1])


def test_qp_with_one_plane():
    np.testing.assert_array_equal(
        maximise_on_simplex(np.ones((1, 1)), -np.ones(1), np.ones(1)), [1.0]
    )


def test_model_keeps_its_least_point_as_planes_come(monkeypatch):
    """Compare with a new solution after each plane, with and without removal of planes."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((60, 3)), rng.standard_normal(60)
    whole = PlaneModel(3)
    values = []
    for t in range(60):
        whole.add(A[t], b[t])
        x = maximise_on_simplex(A[: t + 1] @ A[: t + 1].T, b[: t + 1], np.eye(t + 1)[0])
        np.testing.assert_allclose(whole.w, -A[: t + 1].T @ x, atol=1e-9)
        assert whole.value == pytest.approx(
            np.max(A[: t + 1] @ whole.w + b[: t + 1]) + 0.5 * whole.w @ whole.w
        )
        values.append(whole.value)
    assert whole.n_planes > 16
    assert all(after >= before - 1e-12 for before, after in pairwise(values))
    monkeypatch.setattr(cutting_planes, "IDLE_LIMIT", 0)
    short = PlaneModel(3)
    before = -np.inf
    for t in range(60):
        short.add(A[t], b[t])
        assert before - 1e-12 <= short.value <= values[t] + 1e-12
        assert short.n_planes <= 4
        before = short.value


# The solver --------------------------------------------------------------------------------


def hinge_optimum(problem, X, y, qid):
    """Return the optimum by scikit-learn's dual coordinate descent on explicit pairs."""
    from sklearn.svm import LinearSVC

    differences = np.array([X[i] - X[j] for i, j in reference.preference_pairs(y, qid)])
    svm = LinearSVC(
        loss="hinge", fit_intercept=False, C=problem.C / 2, tol=1e-9, max_iter=10**6, random_state=0
    )
    labels = np.repeat([1, -1], len(differences))
    coef = svm.fit(np.vstack([differences, -differences]), labels).coef_[0]
    return problem.value_grad(coef)[0]


@pytest.mark.parametrize("kind", ["two levels", "five levels", "all distinct", "real labels"])
@pytest.mark.parametrize("C", [1e-3, 0.1])
@pytest.mark.parametrize("damped", [False, True])
def test_hinge_reaches_the_optimum_of_an_independent_solver(kind, C, damped):
    problem = make_problem(kind, C, n=30)
    result = CuttingPlanes(tol=1e-6, damped=damped).solve(problem)
    assert result.status is Status.CONVERGED, result.message
    assert result.gap <= 1e-6
    best = hinge_optimum(problem, *make_problem_arrays(kind, n=30))
    assert best * (1 - 1e-9) <= result.objective <= best * (1 + 1e-6)
    assert problem.value_grad(result.coef)[0] == result.objective


@pytest.mark.parametrize("kind", ["two levels", "all distinct"])
@pytest.mark.parametrize("damped", [False, True])
def test_squared_hinge_reaches_the_optimum_of_an_independent_solver(kind, damped):
    X, y, qid = make_problem_arrays(kind, n=40)
    problem = make_problem(kind, 0.1, SQUARED_HINGE)
    result = CuttingPlanes(tol=1e-8, damped=damped).solve(problem)
    assert result.status is Status.CONVERGED, result.message
    other = reference.ranksvm_optimum(X, y, qid, 0.1)
    assert result.objective <= problem.value_grad(other)[0] * (1 + 1e-8)
    np.testing.assert_allclose(result.coef, other, atol=1e-3)


@pytest.mark.parametrize("C", [0.25, 4.0])
def test_optimum_known_by_hand(C):
    """One pair, one feature: ½w² + C·max(0, 1 − w) is least at w = min(C, 1)."""
    problem = Problem(ThreadEngine(RankingData([[1.0], [0.0]], [1, 0]), HINGE), C)
    result = CuttingPlanes(tol=1e-9).solve(problem)
    assert result.coef == pytest.approx(min(C, 1.0))
    assert result.n_iter <= 3


def test_warm_start_at_the_optimum_of_a_smooth_loss_does_nothing():
    problem = make_problem(loss=SQUARED_HINGE)
    coef = Newton(tol=1e-9).solve(problem).coef
    result = CuttingPlanes(tol=1e-6).solve(problem, coef)
    assert (result.n_iter, result.status) == (0, Status.CONVERGED)
    np.testing.assert_array_equal(result.coef, coef)


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("damped", [False, True])
def test_gap_shrinks_and_is_never_smaller_than_the_distance_to_the_optimum(loss, damped):
    problem = make_problem(C=0.1, loss=LOSS[loss])
    best = CuttingPlanes(tol=1e-10, damped=damped).solve(problem)
    assert best.converged, best.message
    result = CuttingPlanes(tol=1e-5, damped=damped).solve(problem)
    steps = result.history
    assert steps[-1].gap <= 1e-5 < steps[-2].gap
    assert steps[-1].gap <= result.gap <= steps[-1].gap + EXACT_OBJECTIVE  # less for rounding
    for step in steps:
        assert step.objective * (1 - step.gap) <= best.objective * (1 + 1e-12) <= step.objective
    assert all(b.gap <= a.gap and b.objective <= a.objective for a, b in pairwise(steps))
    assert (result.n_products, result.n_evaluations) == (0, result.n_iter + 1)


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("damped", [False, True])
def test_forgetting_planes_leads_to_the_same_optimum(monkeypatch, loss, damped):
    problem = make_problem(C=0.1, loss=LOSS[loss])
    solver = CuttingPlanes(tol=1e-6, damped=damped)
    kept = solver.solve(problem)
    monkeypatch.setattr(cutting_planes, "IDLE_LIMIT", 1)
    forgotten = solver.solve(problem)
    assert forgotten.status is Status.CONVERGED
    assert forgotten.objective == pytest.approx(kept.objective, rel=2e-6)
    assert solver._model.n_planes < forgotten.n_iter


def test_damping_needs_fewer_planes_than_the_plain_method():
    problem = make_problem("all distinct", C=1.0, loss=SQUARED_HINGE)
    plain = CuttingPlanes(tol=1e-3, damped=False).solve(problem)
    damped = CuttingPlanes(tol=1e-3).solve(problem)
    assert damped.converged
    assert 2 * damped.n_iter < plain.n_iter


@pytest.mark.parametrize("loss", LOSS)
def test_weights_of_zero_are_not_a_solution(loss):
    """With a tiny C, w = 0 meets any gap, but ranks nothing."""
    problem = make_problem(C=1e-9, loss=LOSS[loss])
    result = CuttingPlanes().solve(problem)
    assert (result.status, result.n_iter) == (Status.CONVERGED, 1)
    _, gradient = problem.value_grad(np.zeros(4))
    np.testing.assert_allclose(result.coef, -gradient, rtol=1e-6)


def test_nothing_to_learn_is_solved_at_once():
    problem = Problem(ThreadEngine(RankingData(np.ones((4, 2)), [0, 1, 2, 2]), HINGE), 1.0)
    result = CuttingPlanes().solve(problem)
    assert (result.status, result.n_iter) == (Status.CONVERGED, 0)
    assert result.gap < 1e-12
    assert not result.coef.any()


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("damped", [False, True])
def test_more_than_double_precision_can_give_ends_honestly(loss, damped):
    problem = make_problem(C=0.01, loss=LOSS[loss])
    result = CuttingPlanes(tol=1e-300, damped=damped).solve(problem)
    assert result.status in (Status.PRECISION, Status.CONVERGED), result.message
    assert result.gap < 1e-12


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e50])
@pytest.mark.parametrize("damped", [False, True])
def test_extreme_features_end_in_a_result(loss, scale, damped):
    """Planes from distant points, with large rounding in b, must not count as a certificate."""
    X, y, qid = make_problem_arrays("five levels", n=30)
    problem = Problem(ThreadEngine(RankingData(X * scale, y, qid), LOSS[loss]), 1.0)
    result = CuttingPlanes(damped=damped).solve(problem)
    assert np.isfinite(result.coef).all()
    if scale < 1:
        assert result.converged
        assert result.coef.any()
    else:
        assert result.status is Status.STUCK
        assert "No step lowers the objective" in result.message


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("damped", [False, True])
def test_rounding_that_lifts_the_bound_above_the_objective_is_not_called_convergence(loss, damped):
    X, y, qid = make_problem_arrays("five levels")
    problem = Problem(ThreadEngine(RankingData(X + 1e15, y, qid), LOSS[loss]), 1.0)
    result = CuttingPlanes(tol=1e-6, damped=damped).solve(problem)
    assert result.status is Status.STUCK
    assert result.gap is None or result.gap > 1e-6  # None if rounding has disproved the bound


def test_max_iter_counts_planes_and_the_last_is_judged_too():
    problem = make_problem(C=0.1)
    free = CuttingPlanes(tol=1e-4).solve(problem)
    assert CuttingPlanes(tol=1e-4, max_iter=free.n_iter).solve(problem).status is Status.CONVERGED
    held = CuttingPlanes(tol=1e-4, max_iter=free.n_iter - 1).solve(problem)
    assert held.status is Status.MAX_ITER
    assert held.n_iter == free.n_iter - 1


def test_interrupt_keeps_the_best_so_far():
    """The objective rises and falls between iterations; the best point is kept and reported."""
    problem = make_problem("all distinct", C=1.0)
    seen, values = [], []
    evaluate = problem.value_grad

    def watch(w):
        values.append(evaluate(w)[0])
        return evaluate(w)

    def interrupt(step):
        seen.append(step)
        if len(seen) > 5 and values[-1] > min(values):
            raise KeyboardInterrupt

    problem.value_grad = watch
    result = CuttingPlanes(tol=1e-9, callback=interrupt).solve(problem)
    assert result.status is Status.INTERRUPTED
    assert result.objective == seen[-1].objective == min(values)
    assert evaluate(result.coef)[0] == result.objective
    assert result.history == seen
    assert f"{result.accuracy}; gradient" in result.message


def test_interrupt_before_the_first_value_knows_no_gap():
    problem = make_problem()
    solver = CuttingPlanes()
    solver.solve(problem)

    def interrupt(w):
        raise KeyboardInterrupt

    problem.value_grad = interrupt
    result = solver.solve(problem)
    assert (result.status, result.gap) == (Status.INTERRUPTED, None)
    assert "gap" not in result.message


def test_newton_knows_the_gap_at_its_end_only():
    result = Newton().solve(make_problem(loss=SQUARED_HINGE))
    assert result.gap <= 1e-3
    assert {step.gap for step in result.history} == {None}


# Rounding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSS)
@pytest.mark.parametrize("C", [0.001, 1.0, 1000.0])
def test_offsets_of_features_do_not_keep_the_gap_open(loss, C):
    X, y, qid = make_problem_arrays("five levels", n=40)
    problem = Problem(ThreadEngine(RankingData(X + 1e6, y, qid), LOSS[loss]), C)
    assert CuttingPlanes(tol=1e-3).solve(problem).converged


def test_the_bound_holds_where_pair_weights_differ_by_many_orders():
    """Without room for the rounding of slopes, most of these bounds are above the optimum."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = RankingData(
            rng.standard_normal((24, 3)),
            rng.integers(0, 5, 24),
            np.repeat([0, 1], 12),
            sample_weight=10.0 ** rng.uniform(-8, 8, 24),
        )
        problem = Problem(ThreadEngine(data, LOGISTIC), 10.0 ** rng.uniform(-2, 6))
        solver = CuttingPlanes(tol=1e-3, max_iter=300)
        found = solver.solve(problem)
        best = Newton(tol=1e-10).solve(problem, found.coef).objective
        assert solver.bound <= min(best, found.objective), seed
