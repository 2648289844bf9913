"""L-BFGS reaches known optima, stops by the stopping rule, and reports its status."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import reference
from linrank import RankingData
from linrank.engines.threads import ThreadEngine
from linrank.losses.pairwise import SQUARED_HINGE, PairwiseLoss
from linrank.problem import Problem
from linrank.solvers import Newton, Status
from linrank.solvers.lbfgs import LBFGS
from problems import make_problem_arrays

pytestmark = pytest.mark.interpreted

HUBER = PairwiseLoss("huber", [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)])


def make_problem(kind="five levels", C=1.0, loss=SQUARED_HINGE, n=40):
    return Problem(ThreadEngine(RankingData(*make_problem_arrays(kind, n=n)), loss), C)


@pytest.mark.parametrize("kind", ["two levels", "five levels", "all distinct"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_reaches_the_optimum_of_an_independent_solver(kind, C):
    problem = make_problem(kind, C)
    result = LBFGS(tol=1e-9).solve(problem)
    assert result.converged, result.message
    other = reference.ranksvm_optimum(*make_problem_arrays(kind, n=40), C)
    np.testing.assert_allclose(result.coef, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_huber_reaches_a_point_without_slope(C):
    """The loss is convex, so a gradient of 0 in the reference means an optimum."""
    X, y, qid = make_problem_arrays("five levels", n=40)
    result = LBFGS(tol=1e-9).solve(make_problem(C=C, loss=HUBER))
    assert result.converged, result.message
    hinges = [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)]

    def gradient(w):
        return w + C * X.T @ reference.pairwise_gradient(X @ w, y, qid, hinges)

    slope, start = (np.linalg.norm(gradient(w)) for w in (result.coef, np.zeros(4)))
    assert slope <= 1e-8 * start


def test_stops_as_soon_as_the_rule_is_met():
    problem = make_problem(C=0.1)
    result = LBFGS(tol=1e-3, stop="gradient").solve(problem)
    *before, last = [step.gradient_norm for step in result.history]
    assert result.status is Status.CONVERGED
    assert min(before) > 1e-3 >= last == result.gradient_norm
    assert result.n_products == 0
    early = LBFGS(tol=1e-3).solve(problem)
    assert early.gap <= 1e-3 < early.history[-2].gradient_norm
    assert problem.value_grad(result.coef)[0] == result.objective


def test_history_falls_and_callback_sees_it():
    steps = []
    result = LBFGS(tol=1e-6, callback=steps.append).solve(make_problem("all distinct"))
    assert steps == result.history
    assert all(b.objective < a.objective for a, b in pairwise(steps))
    assert result.n_iter == len(steps) - 1 == steps[-1].iteration


def test_warm_start_at_the_optimum_does_nothing():
    problem = make_problem()
    coef = Newton(tol=1e-9).solve(problem).coef
    result = LBFGS(tol=1e-6).solve(problem, coef)
    assert (result.n_iter, result.n_evaluations) == (0, 0)  # the last evaluation was at this point
    np.testing.assert_array_equal(result.coef, coef)


def test_max_iter_is_kept_and_the_last_iteration_is_judged_too():
    problem = make_problem(C=10.0)
    free = LBFGS(tol=1e-6).solve(problem)
    assert LBFGS(tol=1e-6, max_iter=free.n_iter).solve(problem).status is Status.CONVERGED
    held = LBFGS(tol=1e-6, max_iter=2).solve(problem)
    assert (held.status, held.n_iter) == (Status.MAX_ITER, 2)


def test_interrupt_keeps_the_best_so_far():
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == 4:
            raise KeyboardInterrupt

    problem = make_problem("all distinct", 100.0)
    result = LBFGS(tol=1e-12, callback=interrupt).solve(problem)
    assert result.status is Status.INTERRUPTED
    assert result.objective == seen[-1].objective < seen[0].objective
    assert problem.value_grad(result.coef)[0] == result.objective


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_more_than_double_precision_can_give_ends_honestly(C):
    problem = make_problem(C=C)
    result = LBFGS(tol=1e-300).solve(problem)
    assert result.status is Status.PRECISION, result.message
    best = Newton(tol=1e-9).solve(problem)
    assert result.objective == pytest.approx(best.objective, rel=1e-11)


def test_a_slope_that_leads_nowhere_is_not_called_convergence():
    problem = make_problem()
    evaluate = problem.value_grad

    def mislead(w):
        value, gradient = evaluate(w)
        return value, -gradient

    problem.value_grad = mislead
    result = LBFGS().solve(problem)
    assert result.status is Status.STUCK
    assert not result.converged
    assert "No step lowers the objective" in result.message
    assert not result.coef.any()


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e-20, 1e20])
def test_extreme_features_end_in_a_result(scale):
    X, y, qid = make_problem_arrays("five levels", n=40)
    problem = Problem(ThreadEngine(RankingData(X * scale, y, qid), SQUARED_HINGE), 1.0)
    result = LBFGS().solve(problem)
    assert result.converged, result.message
    assert np.isfinite(result.coef).all()
    assert result.coef.any()
