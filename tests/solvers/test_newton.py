"""Newton's method: the start from a sample, and the step that proves convergence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linrank import RankingData, make_ranking
from linrank.problem import Problem, make_problem
from linrank.solvers import Status
from linrank.solvers.newton import Newton, NewtonSettings
from linrank.solvers.smooth import Estimate, HessianSettings, estimate_hessian
from problems import make_problem_arrays

pytestmark = pytest.mark.interpreted

FROM_SAMPLE = NewtonSettings(sample_share=0.2, sample_rows=1, largest_sample=0.4)
FROM_ZERO = NewtonSettings(largest_sample=0.0)


def many_queries(**options):
    options = {"n_features": 4, "noise": 1.0, "random_state": 0} | options
    return make_ranking(60, docs_per_query=(4, 9), **options)


def problem_of(data, C=0.1, **options):
    return make_problem(data, C, n_threads=1, **options)


# The sample --------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", [None, "pairs", "queries"])
def test_the_loss_of_a_sample_is_that_of_its_queries(normalize):
    data = many_queries()
    engine = problem_of(data, normalize=normalize).engine
    sample = engine.sample(80)
    queries = engine.sample_queries(80)
    rows = np.concatenate([np.arange(*data.query_ptr[q : q + 2]) for q in queries])
    alone = RankingData(data.X[rows], data.y[rows], data.qid[rows])
    w = np.random.default_rng(0).standard_normal(data.n_features)
    expected, gradient = problem_of(alone, normalize=normalize).engine.value_grad(w)
    loss, found = sample.value_grad(w)
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found, gradient, rtol=1e-10)
    assert engine.work.evaluations == 0


def test_a_sample_keeps_weights_margins_and_the_loss():
    data = many_queries()
    rng = np.random.default_rng(1)
    weighted = RankingData(
        data.X, data.y, data.qid, sample_weight=rng.random(data.n_docs) + 0.5,
        query_weight=np.repeat(rng.random(60) + 0.5, np.diff(data.query_ptr)),
        margin=data.y * rng.random(data.n_docs),
    )  # fmt: skip
    engine = problem_of(weighted, loss="huber").engine
    sample, queries = engine.sample(60), engine.sample_queries(60)
    ptr = weighted.query_ptr
    rows = np.concatenate([np.arange(ptr[q], ptr[q + 1]) for q in queries])
    np.testing.assert_array_equal(sample.data.weight, weighted.weight[rows])
    np.testing.assert_array_equal(sample.data.query_weight, weighted.query_weight[queries])
    np.testing.assert_array_equal(sample.data.margin, weighted.margin[rows])
    assert sample.loss is engine.loss
    assert sample.counting == engine.counting


def test_there_is_no_sample_of_large_queries_or_listed_pairs():
    data = many_queries()
    assert problem_of(data).engine.sample(8) is None  # a query has 9 documents
    assert problem_of(data).engine.sample(9) is not None
    X = np.random.default_rng(0).standard_normal((40, 2))
    listed = RankingData.from_pairs(X, np.arange(40).reshape(20, 2))
    assert make_problem(listed).engine.sample(20) is None


@pytest.mark.parametrize("bounds", [None, (0.0, np.inf)])
@pytest.mark.parametrize("loss", ["squared_hinge", "huber", "logistic", "domination"])
def test_a_fit_from_a_sample_reaches_the_same_optimum(loss, bounds):
    from linrank.penalties import L2

    penalty = L2() if bounds is None else L2(bounds=bounds)
    problem = problem_of(many_queries(), loss=loss, penalty=penalty)
    best = Newton(tol=1e-9, settings=FROM_ZERO).solve(problem)
    result = Newton(tol=1e-9, settings=FROM_SAMPLE).solve(problem)
    assert result.converged
    np.testing.assert_allclose(result.coef, best.coef, rtol=1e-6, atol=1e-8)
    assert result.history[0].objective == best.history[0].objective


def test_the_work_and_the_iterations_of_a_sample_are_not_counted():
    problem = problem_of(many_queries())
    for max_iter in (1, 2):
        result = Newton(tol=1e-8, max_iter=max_iter, settings=FROM_SAMPLE).solve(problem)
        assert result.n_iter == max_iter
        assert len(result.history) == max_iter + 1
    products = [step.products for step in result.history]
    assert products == sorted(products)
    assert products[-1] == result.n_products == problem.engine.work.products - products[1]


@pytest.mark.parametrize("with_margin", [0, 1])
def test_a_sample_without_loss_at_zero_is_not_used(with_margin):
    """Pairs without a margin have no loss at w = 0, and most queries have no other pairs."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((200, 3)), np.tile(np.arange(5.0), 40), np.arange(200) // 5
    margin = np.where(qid < with_margin, y, 0.0)
    margin[-5:] = y[-5:]
    problem = problem_of(RankingData(X, y, qid, margin=margin))
    best = Newton(tol=1e-9, settings=FROM_ZERO).solve(problem)
    result = Newton(tol=1e-9, settings=FROM_SAMPLE).solve(problem)
    assert result.converged
    np.testing.assert_allclose(result.coef, best.coef, rtol=1e-5, atol=1e-9)


def test_the_start_depends_on_neither_the_order_of_rows_nor_the_ids():
    data = many_queries()
    order = np.random.default_rng(2).permutation(data.n_docs)
    shuffled = RankingData(data.X[order], data.y[order], [f"q{q}" for q in data.qid[order]])
    first, second = (
        Newton(tol=1e-2, settings=FROM_SAMPLE).solve(problem_of(own)) for own in (data, shuffled)
    )
    np.testing.assert_allclose(first.coef, second.coef, rtol=1e-9)
    assert len(first.history) == len(second.history)


def test_a_warm_start_needs_no_sample(monkeypatch):
    problem = problem_of(many_queries())
    monkeypatch.setattr(type(problem.engine), "sample", lambda *_: pytest.fail("sampled"))
    Newton(settings=FROM_SAMPLE).solve(problem, np.full(4, 0.1))
    Newton().solve(problem)  # too few rows per feature


def test_an_interrupt_in_the_sample_ends_the_fit(monkeypatch):
    problem = problem_of(many_queries())
    inner = Newton._minimise

    def interrupt(solver):
        if solver.problem is problem:
            return inner(solver)
        raise KeyboardInterrupt

    monkeypatch.setattr(Newton, "_minimise", interrupt)
    result = Newton(settings=FROM_SAMPLE).solve(problem)
    assert result.status is Status.INTERRUPTED
    assert not result.coef.any()


def test_a_bad_sample_does_not_raise_the_objective(monkeypatch):
    problem = problem_of(many_queries())
    poor = problem_of(many_queries(random_state=9)).engine
    poor.data.y[:] = -poor.data.y
    monkeypatch.setattr(problem.engine, "sample", lambda _: problem_of(poor.data).engine)
    result = Newton(tol=1e-6, settings=replace(FROM_SAMPLE, sample_tol=1e-6)).solve(problem)
    objectives = [step.objective for step in result.history]
    assert result.converged
    assert objectives == sorted(objectives, reverse=True)


# The proof ---------------------------------------------------------------------------------


def test_no_matrix_is_made_for_the_proof(monkeypatch):
    """A matrix that is not made too early serves the whole fit, and its last step is the proof."""
    settings = HessianSettings(free_work=0, first_share=2.0)
    monkeypatch.setattr("linrank.solvers.smooth.HESSIAN", settings)
    made = []
    monkeypatch.setattr(
        "linrank.solvers.smooth.estimate_hessian",
        lambda *args: made.append(estimate_hessian(*args)) or made[-1],
    )
    data = make_ranking(200, docs_per_query=20, n_features=20, correlation=0.9, random_state=0)
    problem = problem_of(data, 1.0)
    best = Newton(tol=1e-10).solve(problem)
    made.clear()
    result = Newton(tol=1e-4, settings=FROM_ZERO).solve(problem_of(data, 1.0))
    assert result.converged
    assert result.objective <= best.objective * (1 + 1e-6)
    assert [estimate.is_diagonal for estimate in made].count(False) == 1


def test_a_looser_tolerance_takes_no_more_work():
    problem = problem_of(many_queries(n_features=8))
    work = []
    for tol in (1e-1, 1e-3, 1e-5):
        result = Newton(tol=tol).solve(problem)
        work.append(result.n_products + result.n_evaluations)
    assert work == sorted(work)


@pytest.mark.parametrize(
    ("n_rows", "left", "reliable"),
    [(15, 1.0, True), (14, 1.0, False), (15, 0.5, True), (15, 0.49, False), (0, 1.0, False)],
)
def test_a_sample_is_reliable_with_many_rows_and_most_of_its_curvature(n_rows, left, reliable):
    """At least 5 rows for each of 3 features, and half of the curvature."""
    X, y, qid = make_problem_arrays("five levels")
    engine = make_problem(RankingData(X[:, :3], y, qid)).engine
    engine.value_grad(np.zeros(3))
    curvature = engine.total_curvature() / left
    estimate = Estimate(np.eye(3), engine, 1.0, n_rows=n_rows, curvature=curvature)
    assert estimate.is_reliable() is reliable
    assert not estimate._replace(curvature=np.nan).is_reliable()


def test_the_curvature_is_that_of_all_documents():
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid))
    problem.value_grad(np.zeros(problem.n_features))
    upper, lower = np.nonzero((y[:, None] > y) & (qid[:, None] == qid))
    assert problem.engine.total_curvature() == pytest.approx(2 * 2 * len(upper))
    assert len(lower) == problem.engine.n_pairs


def test_a_matrix_that_disagrees_with_the_step_proves_nothing(monkeypatch):
    """½ g'P⁻¹g must be within a factor of 4 of the promise, unless rounding hides both."""
    problem = problem_of(many_queries())
    solver = Newton(tol=1e-3)
    solver.begin(problem, np.zeros(4), 1.0)
    size = float(solver.point.gradient @ solver.point.gradient)
    for factor, expected in ((0.26, 0.13), (3.9, 1.95), (0.24, np.inf), (4.1, np.inf)):
        found = solver._checked_decrement(lambda v, factor=factor: factor * v, 0.5 * size)
        assert found == pytest.approx(expected * size)
    tiny = 1e-13 * solver.point.value / size
    assert solver._checked_decrement(lambda v: tiny * v, size) == pytest.approx(0.5 * tiny * size)


def test_blas_has_one_thread_during_a_fit():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    seen = []

    def look(_):
        pools = threadpoolctl.threadpool_info()
        seen.extend(pool["num_threads"] for pool in pools if pool["user_api"] == "blas")

    before = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    Newton(callback=look).solve(problem_of(many_queries()))
    assert set(seen) == {1}
    assert [pool["num_threads"] for pool in threadpoolctl.threadpool_info()] == before


def test_a_sample_solves_the_problem_with_the_same_penalty_and_scaled_loss(monkeypatch):
    problem, seen = problem_of(many_queries(), 0.5), []
    solve = Newton.solve

    def watch(solver, own, w0=None):
        seen.append(own)
        return solve(solver, own, w0)

    monkeypatch.setattr(Newton, "solve", watch)
    Newton(settings=FROM_SAMPLE).solve(problem)
    sample = seen[1]
    assert isinstance(sample, Problem)
    assert repr(sample.penalty) == repr(problem.penalty)
    assert sample.C * sample.engine.at_zero[0] == pytest.approx(0.5 * problem.engine.at_zero[0])
