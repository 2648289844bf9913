"""Every solver reaches the known optimum of every problem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numba import config

import reference
from linrank import DataError, RankingData, pairwise_accuracy
from linrank.problem import make_problem
from linrank.solvers import Status, make_solver
from linrank.solvers.newton import Newton, NewtonSettings
from linrank.solvers.smooth import HessianSettings, estimate_hessian
from linrank.training.selection import C_GRID, regularization_path
from problems import KINDS, as_form, make_problem_arrays

pytestmark = pytest.mark.interpreted
long_as_plain_python = pytest.mark.skipif(
    config.DISABLE_JIT, reason="its products take minutes as plain Python, and others run that too"
)

SOLVABLE = [kind for kind in KINDS if kind not in ("one level", "one document each")]


@pytest.fixture(params=["newton", "tron"])
def solver(request):
    """The name of a solver that uses second derivatives; other solvers have their own files."""
    return request.param


@pytest.mark.parametrize("kind", SOLVABLE)
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_reaches_the_optimum_of_an_independent_solver(solver, kind, C):
    X, y, qid = make_problem_arrays(kind)
    problem = make_problem(RankingData(X, y, qid), C)
    result = make_solver(solver, tol=1e-9).solve(problem)
    assert result.converged, result.message
    other = reference.ranksvm_optimum(X, y, qid, C)
    assert result.objective <= problem.value_grad(other)[0] * (1 + 1e-9)
    np.testing.assert_allclose(result.coef, other, rtol=1e-4, atol=1e-6)


def test_optimum_known_by_hand(solver):
    """One pair, one feature: ½w² + C·max(0, 1 − w)² is least at w = 2C/(1 + 2C)."""
    for C in (0.01, 1.0, 50.0):
        problem = make_problem(RankingData([[1.0], [0.0]], [1, 0]), C)
        result = make_solver(solver, tol=1e-12).solve(problem)
        np.testing.assert_allclose(result.coef, 2 * C / (1 + 2 * C), rtol=1e-10)


@pytest.mark.parametrize("form", ["dense32", "csr64", "csr32"])
def test_forms_give_the_same_weights(solver, form):
    X, y, qid = make_problem_arrays("five levels")
    X = X.astype(np.float32).astype(np.float64)
    solve = make_solver(solver, tol=1e-10).solve
    dense = solve(make_problem(RankingData(X, y, qid))).coef
    other = solve(make_problem(RankingData(as_form(X, form), y, qid))).coef
    np.testing.assert_allclose(other, dense, rtol=1e-6, atol=1e-9)


def use_settings(monkeypatch, **settings):
    """Estimate the Hessian with other settings."""
    monkeypatch.setattr("linrank.solvers.smooth.HESSIAN", HessianSettings(**settings))


def test_more_features_than_documents(solver):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 40)), np.arange(12) % 3
    result = make_solver(solver, tol=1e-8).solve(make_problem(RankingData(X, y)))
    np.testing.assert_allclose(
        result.coef, reference.ranksvm_optimum(X, y, np.zeros(12), 1.0), rtol=1e-3, atol=1e-5
    )


def test_diagonal_preconditioner_reaches_the_same_optimum(monkeypatch):
    X, y, qid = make_problem_arrays("five levels")
    exact = make_solver("newton", tol=1e-9).solve(make_problem(RankingData(X, y, qid)))
    use_settings(monkeypatch, dense_limit=1)
    other = make_solver("newton", tol=1e-9).solve(make_problem(RankingData(X, y, qid)))
    assert other.converged
    np.testing.assert_allclose(other.coef, exact.coef, rtol=1e-6)


def test_a_matrix_replaces_a_diagonal_that_has_cost_as_much(monkeypatch):
    """Strongly correlated features, for which a diagonal preconditioner is not effective."""
    use_settings(monkeypatch, free_work=0)
    monkeypatch.setattr("linrank.solvers.smooth.rows_per_feature", lambda *_: 0.1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 1)) + 1e-4 * rng.standard_normal((600, 30))
    y, qid = np.round(1e4 * (X[:, 0] - X[:, 1])), np.arange(600) // 20
    problem = make_problem(RankingData(X, y, qid), 1e3)
    made = []
    monkeypatch.setattr(
        "linrank.solvers.smooth.estimate_hessian",
        lambda *args: made.append(estimate_hessian(*args)) or made[-1],
    )
    result = make_solver("newton", tol=1e-6).solve(problem)
    assert result.converged
    dimensions = [estimate.of_loss.ndim for estimate in made]
    assert dimensions[0] == 1
    assert dimensions[-1] == 2
    assert dimensions == sorted(dimensions)


@pytest.mark.parametrize("limit", [0, 4096])
def test_a_diagonal_alone_does_not_end_a_fit(limit, monkeypatch):
    """A diagonal underestimates the distance along the difference of two nearly equal features."""
    use_settings(monkeypatch, dense_limit=limit)
    rng = np.random.default_rng(0)
    common, difference = rng.standard_normal((2, 400))
    X = np.column_stack([common + 1e-3 * difference, common - 1e-3 * difference])
    y, qid = np.round(2 * (common + 3 * difference)), np.arange(400) // 20
    problem = make_problem(RankingData(X, y, qid), 1e4)
    best = make_solver("newton", tol=1e-10).solve(problem)
    along_the_common = make_problem(RankingData(X.sum(axis=1)[:, None], y, qid), 1e4)
    w0 = np.repeat(make_solver("newton", tol=1e-10).solve(along_the_common).coef, 2)
    result = make_solver("newton", tol=1e-2).solve(problem, w0)
    assert result.converged
    assert result.n_iter > 0
    assert result.objective <= (1 + 1e-2) * best.objective


@long_as_plain_python
@pytest.mark.parametrize("C", [1e-4, 1e-2])
def test_no_matrix_is_made_that_costs_more_than_the_fit(C, monkeypatch):
    """With more features than documents, a matrix costs as much as hundreds of products."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((200, 1000)), rng.integers(0, 3, 200), np.arange(200) // 20
    problem = make_problem(RankingData(X, y, qid), C)
    best = make_solver("tron", tol=1e-10).solve(problem)
    made = []
    monkeypatch.setattr(
        "linrank.solvers.smooth.estimate_hessian",
        lambda *args: made.append(estimate_hessian(*args)) or made[-1],
    )
    result = make_solver("auto", tol=1e-5).solve(problem)
    assert result.converged
    assert {estimate.of_loss.ndim for estimate in made} == {1}
    assert result.objective <= (1 + 1e-6) * best.objective


@long_as_plain_python
def test_a_long_fit_comes_from_smaller_C(monkeypatch):
    """More features than documents and a large C, so that the active pairs change in every step."""
    use_settings(monkeypatch, dense_limit=0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 200)) * (rng.random((60, 200)) < 0.05)
    problem = make_problem(RankingData(X, rng.integers(0, 3, 60), np.arange(60) // 20), 1e4)
    result = make_solver("newton", tol=1e-6).solve(problem)
    patient = NewtonSettings(continuation_after=10_000)
    straight = make_solver("newton", tol=1e-6, settings=patient).solve(problem)
    assert result.converged
    assert straight.converged
    assert result.n_iter < straight.n_iter / 2
    assert result.objective == pytest.approx(straight.objective, rel=1e-6)


@pytest.mark.slow
@long_as_plain_python
@pytest.mark.parametrize("limit", [0, 4096])
def test_pairs_right_at_their_margin_do_not_stop_a_fit(limit, monkeypatch):
    """At this C nearly all pairs lie on their margin, where the Hessian jumps."""
    use_settings(monkeypatch, dense_limit=limit)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 1000)) * (rng.random((200, 1000)) < 0.05)
        data = RankingData(X, rng.integers(0, 3, 200), np.arange(200) // 20)
        assert make_solver("newton", tol=1e-6).solve(make_problem(data, 1e4)).converged


def test_a_step_that_does_not_help_is_solved_for_again(monkeypatch):
    """The step uses the Hessian further along, from the same point, and reaches the optimum."""
    X, _, qid = make_problem_arrays("two levels")
    problem = make_problem(RankingData(X, X[:, 0] > 0, qid))  # most pairs do not stay active
    best = make_solver("newton", tol=1e-9).solve(problem)
    line_search, steps = Newton._line_search, []

    def stubborn(solver, step):
        steps.append(step)
        if len(steps) == 1:
            solver.problem.value_grad(solver.point.w)
            return False
        return line_search(solver, step)

    monkeypatch.setattr(Newton, "_line_search", stubborn)
    settings = NewtonSettings(corner_step=1.0)
    result = make_solver("newton", tol=1e-9, settings=settings).solve(problem)
    assert (steps[0] != steps[1]).any()
    assert result.converged
    np.testing.assert_allclose(result.coef, best.coef, rtol=1e-8)


def test_where_no_step_helps_the_last_one_says_how_far_the_optimum_is(monkeypatch):
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid))
    best = make_solver("newton", tol=1e-10).solve(problem)
    monkeypatch.setattr(Newton, "_line_search", lambda *_: False)
    monkeypatch.setattr(Newton, "_has_arrived", lambda _: False)
    assert make_solver("newton", tol=1e-3).solve(problem).status is Status.STUCK
    there = make_solver("newton", tol=1e-3).solve(problem, best.coef + 1e-7)
    assert there.status is Status.CONVERGED


def test_gradients_bound_the_distance_to_the_optimum():
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid))
    best = make_solver("newton", tol=1e-10).solve(problem)
    for w in (np.zeros(problem.n_features), best.coef + 0.01, 0.5 * best.coef):
        value, gradient = problem.value_grad(w)
        assert problem.gap_bound(gradient) >= value - best.objective > 0


def test_an_estimate_is_kept_across_C_but_not_across_data(monkeypatch):
    X, y, qid = make_problem_arrays("five levels")
    problems = [make_problem(RankingData(scale * X, y, qid)) for scale in (1.0, 10.0)]
    made = []
    monkeypatch.setattr(
        "linrank.solvers.smooth.estimate_hessian",
        lambda *args: made.append(estimate_hessian(*args)) or made[-1],
    )
    solver = make_solver("newton", tol=1e-3)
    solver.solve(problems[0])
    first = len(made)
    solver.solve(problems[0].with_C(1.0001))
    assert len(made) == first
    again = solver.solve(problems[1])
    assert len(made) > first
    assert again.converged


def test_an_old_matrix_does_not_end_a_fit():
    """Pairs become inactive during the fit, so a matrix of the start has too much curvature."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 1)) + 1e-5 * rng.standard_normal((300, 20))
    y, qid = np.round(1e5 * (X[:, 0] - X[:, 1])), np.arange(300) % 8
    problem = make_problem(RankingData(X, y, qid), 100.0)
    best = make_solver("newton", tol=1e-10).solve(problem)
    for tol in (1e-3, 1e-6):
        result = make_solver("newton", tol=tol).solve(problem)
        assert result.converged
        assert result.objective <= (1 + tol) * best.objective


def test_sampled_preconditioner_reaches_the_same_optimum(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 5)) * 10.0 ** np.arange(-4, 6, 2)
    y, qid = np.round(X @ (1 / X.std(axis=0)) + rng.standard_normal(6000)), np.arange(6000) // 20
    problem = make_problem(RankingData(X, y, qid))
    exact = make_solver("newton", tol=1e-9).solve(problem)
    monkeypatch.setattr("linrank.solvers.smooth.rows_per_feature", lambda *_: 60)
    use_settings(monkeypatch, free_work=0)
    sampled = make_solver("newton", tol=1e-9).solve(problem)
    assert exact.converged
    assert sampled.converged
    np.testing.assert_allclose(sampled.coef, exact.coef, rtol=1e-5)


def test_warm_start_at_the_optimum_does_nothing(solver):
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid))
    first = make_solver(solver, tol=1e-8).solve(problem)
    again = make_solver(solver, tol=1e-7).solve(problem, first.coef)
    assert (again.n_iter, again.n_products) == (0, 0)
    np.testing.assert_array_equal(again.coef, first.coef)


def test_history_falls_and_callback_sees_it(solver):
    X, y, qid = make_problem_arrays("all distinct")
    steps = []
    result = make_solver(solver, tol=1e-6, callback=steps.append).solve(
        make_problem(RankingData(X, y, qid))
    )
    assert steps == result.history
    objectives = [step.objective for step in steps]
    assert all(b < a for a, b in pairwise(objectives))
    assert steps[0].gradient_norm == pytest.approx(1.0)
    assert steps[-1].products == result.n_products
    assert result.n_iter == len(steps) - 1


def test_max_iter_gives_a_sentence(solver):
    X, _, qid = make_problem_arrays("two levels")
    result = make_solver(solver, tol=1e-12, max_iter=1).solve(
        make_problem(RankingData(X, X.sum(axis=1) > 0, qid), 100.0)
    )
    assert result.status is Status.MAX_ITER
    assert "largest number of iterations" in result.message


def test_interrupt_keeps_the_best_so_far(solver):
    X, y, qid = make_problem_arrays("all distinct")
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == 2:
            raise KeyboardInterrupt

    problem = make_problem(RankingData(X, y, qid), 100.0)
    result = make_solver(solver, tol=1e-12, callback=interrupt).solve(problem)
    assert result.status is Status.INTERRUPTED
    assert result.objective == seen[-1].objective < seen[0].objective
    assert problem.value_grad(result.coef)[0] == pytest.approx(result.objective)


def test_an_interrupt_on_the_way_from_smaller_C_ends_the_fit(monkeypatch):
    X, _, qid = make_problem_arrays("two levels")
    problem = make_problem(RankingData(X, X[:, 0] > 0, qid), 100.0)
    settings = NewtonSettings(continuation_after=1)
    value_grad, direct = type(problem).value_grad, []

    def interrupted_once(some, w):
        direct.append(some is problem)
        if direct.count(False) == 2:
            direct.append(False)
            raise KeyboardInterrupt
        return value_grad(some, w)

    monkeypatch.setattr(type(problem), "value_grad", interrupted_once)
    result = make_solver("newton", tol=1e-12, settings=settings).solve(problem)
    assert direct.count(False) == 3
    assert result.status is Status.INTERRUPTED


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e-20, 1e20, 1e100, 1e150])
def test_extreme_features_end_in_a_result_or_a_sentence(solver, scale):
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X * scale, y, qid))
    if scale > 1e60:
        with pytest.raises(DataError, match="Scale the features"):
            make_solver(solver).solve(problem)
    else:
        result = make_solver(solver).solve(problem)
        assert result.converged
        assert np.isfinite(result.coef).all()
        assert result.coef.any()


@pytest.mark.parametrize("C", [1e-12, 1e12])
def test_extreme_C_ends_in_a_result(solver, C):
    X, y, qid = make_problem_arrays("five levels")
    result = make_solver(solver, max_iter=200).solve(make_problem(RankingData(X, y, qid), C))
    assert np.isfinite(result.coef).all()
    if C < 1:
        assert result.converged


def test_raw_features_are_solved_to_the_optimum_by_newton():
    """If scales differ by 1e8, the rule ‖g‖ ≤ ε‖g₀‖ alone stops far above the optimum."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((3000, 6))
    y = np.round(Z.sum(axis=1) + rng.standard_normal(3000))
    data = RankingData(Z * 10.0 ** np.arange(0, 9, 1.6), y, np.arange(3000) // 30)
    best = make_solver("newton", tol=1e-9).solve(make_problem(data)).objective
    assert make_solver("newton").solve(make_problem(data)).objective < best * (1 + 1e-3)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_features_far_from_zero_are_solved(offset):
    X, y, qid = make_problem_arrays("five levels")
    plain = make_solver("newton", tol=1e-6).solve(make_problem(RankingData(X, y, qid)))
    far = make_solver("newton", tol=1e-5).solve(make_problem(RankingData(X + offset, y, qid)))
    assert far.converged
    assert far.objective == pytest.approx(plain.objective, rel=1e-3)


def test_hopeless_rounding_is_not_called_convergence():
    """Scores around 1e15 are multiples of ⅛, so rounding hides the slope from every solver."""
    rng = np.random.default_rng(0)
    X = np.round(1e15 + 1e3 * rng.standard_normal((200, 1)))
    y = np.round(rng.standard_normal(200))
    result = make_solver("newton", max_iter=50).solve(make_problem(RankingData(X, y)))
    assert np.isfinite(result.coef).all()
    assert result.converged == (result.gradient_norm < 1e-2)


def test_the_last_iteration_is_judged_too(solver):
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid))
    free = make_solver(solver, tol=1e-6).solve(problem)
    held = make_solver(solver, tol=1e-6, max_iter=free.n_iter).solve(problem)
    assert held.status is Status.CONVERGED
    assert held.history[-1].products == held.n_products


def test_large_queries_are_sampled_by_document(monkeypatch):
    """A sample has at least one query, and the Hessian of a huge query costs too much."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9000, 20)) @ rng.standard_normal((20, 20)), rng.integers(0, 2, 9000)
    problem = make_problem(RankingData(X, y), 1e-6)
    diagonal = make_solver("tron", tol=1e-6).solve(problem)
    use_settings(monkeypatch, free_work=0)
    monkeypatch.setattr(type(problem.engine), "hessian", None)
    result = make_solver("newton", tol=1e-6).solve(problem)
    assert result.converged
    assert 3 * result.n_products < diagonal.n_products
    assert result.objective == pytest.approx(diagonal.objective, rel=1e-6)


@pytest.mark.parametrize("numbers", [2**21, 50])
@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_the_hessian_of_documents_is_exact_for_a_full_comparison(form, numbers, monkeypatch):
    """With two documents per query and all pairs active, x_i − μ is half the difference."""
    monkeypatch.setattr("linrank.engines.threads.BLOCK_NUMBERS", numbers)
    X, y, qid = make_problem_arrays("pairs of documents")
    engine = make_problem(RankingData(as_form(X, form), y, qid)).engine
    engine.value_grad(np.zeros(4))
    # The squares of both halves sum to half the square of the difference: half the Hessian.
    np.testing.assert_allclose(2 * engine.hessian_of_documents(len(y)), engine.hessian())


def test_path_equals_single_fits(solver):
    X, y, qid = make_problem_arrays("five levels")
    problem = make_problem(RankingData(X, y, qid))
    path = regularization_path(problem, [1.0, 0.01, 0.1], solver=solver, tol=1e-9)
    assert path.Cs.tolist() == [0.01, 0.1, 1.0]
    for C, coef in zip(path.Cs, path.coefs, strict=True):
        single = make_solver(solver, tol=1e-9).solve(problem.with_C(C)).coef
        np.testing.assert_allclose(coef, single, rtol=1e-5, atol=1e-8)


def test_path_is_evaluated_on_other_data():
    X, y, qid = make_problem_arrays("five levels")
    other = RankingData(*make_problem_arrays("five levels", seed=1))
    path = regularization_path(make_problem(RankingData(X, y, qid)), [0.01, 1.0])
    found = path.evaluate(other, "pairwise-accuracy")
    by_hand = [pairwise_accuracy(other.y, other.X @ coef, other.qid) for coef in path.coefs]
    np.testing.assert_allclose(found, by_hand)


def test_path_is_cut_short_by_an_interrupt():
    X, y, qid = make_problem_arrays("five levels")
    seen = set()

    def interrupt(C, step):
        seen.add(C)
        if len(seen) == 3:
            raise KeyboardInterrupt

    path = regularization_path(make_problem(RankingData(X, y, qid)), callback=interrupt)
    assert path.interrupted
    assert path.Cs.tolist() == list(C_GRID[:3])
    assert path.coefs.shape == (3, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tol": 0.0}, "tol is 0.0"),
        ({"tol": 2.0}, "tol is 2.0"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"name": "magic"}, "known choices are 'auto', 'newton', 'tron', 'tron-paper'"),
    ],
)
def test_bad_options_get_a_sentence(options, words):
    options = {"name": "newton"} | options
    with pytest.raises(DataError, match=words):
        make_solver(**options)


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, np.inf])
def test_bad_C_gets_a_sentence(C):
    with pytest.raises(DataError, match="C is"):
        make_problem(RankingData([[1.0], [0.0]], [1, 0]), C)


def test_no_pairs_get_a_sentence():
    with pytest.raises(DataError, match="no pair to learn from"):
        make_problem(RankingData(np.eye(3), [1, 1, 2], qid=[0, 0, 1]))
