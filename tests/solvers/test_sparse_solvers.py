"""Every solver of sparse problems reaches the known optimum, or a critical point."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

import reference
from linrank import DataError, RankingData
from linrank.counting.preferences import Preferences
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.losses.pairwise import PAIRWISE
from linrank.penalties import L1, MCP, SCAD, ElasticNet, Log, Lp, NoPenalty
from linrank.problem import make_problem
from linrank.solvers import FISTA, ProximalNewton, Reweighted, Status
from linrank.solvers.fista import dominating_engine, largest_curvature, trace_of_hessian
from linrank.solvers.proximal_newton import Curvature, ProximalSettings
from linrank.solvers.solver import Iterate
from linrank.training.selection import regularization_path
from problems import as_form

D = 6
PRICES = np.array([1.0, 3.0, 0.3, 1.0, 2.0, 0.5])
CONVEX = {
    "l1": L1(),
    "weighted l1": L1(weights=PRICES),
    "elastic net": ElasticNet(ratio=0.4),
    "weighted elastic net": ElasticNet(weights=PRICES, ratio=0.8),
}
CONCAVE = {"mcp": MCP(), "scad": SCAD(), "log": Log(), "lp": Lp()}


class ByProducts(ProximalNewton):
    """Treat every working set as too large for a Hessian."""

    def _is_large(self, n):
        return True


SOLVERS = {
    "proximal-newton": ProximalNewton,
    "backtracking": FISTA,
    "power": lambda **options: FISTA(step="power", **options),
    "paper": lambda **options: FISTA(step="paper", **options),
    "by products": ByProducts,
}
SMOOTH = ("squared_hinge", "huber", "logistic")

every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_concave = pytest.mark.parametrize("penalty", CONCAVE)


def make_arrays(seed=0, n=60):
    """Three queries and six features, of which the labels depend on two."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = np.digitize(X[:, :2] @ [1.0, -0.6] + 0.7 * rng.standard_normal(n), [-1.0, 0.0, 1.0])
    return X, y.astype(float), rng.integers(0, 3, n)


def collinear(X, seed=1):
    """X with features that are repeated, nearly repeated, negated and rescaled."""
    rng = np.random.default_rng(seed)
    near = X[:, :3] + 1e-3 * rng.standard_normal((len(X), 3))
    return np.hstack([X, X[:, :2], near, -X[:, [1]], 5.0 * X[:, [0]], np.zeros((len(X), 1))])


def sparse_problem(penalty, multiple=10.0, loss="squared_hinge", X=None, **options):
    """The problem of `make_arrays`, at a multiple of the smallest C with which l1 has features."""
    original, y, qid = make_arrays()
    problem = make_problem(
        RankingData(original if X is None else X, y, qid), loss=loss, penalty=L1(), **options
    )
    return problem.with_C(multiple * problem.smallest_C()).with_penalty(penalty)


def solve(solver, problem, tol=1e-6, **options):
    return SOLVERS[solver](tol=tol, max_iter=50_000, **options).solve(problem)


def differences(X=None):
    original, y, qid = make_arrays()
    X = original if X is None else X
    return np.array([X[i] - X[j] for i, j in reference.preference_pairs(y, qid)])


def optimum(penalty, C, loss, X=None):
    """Minimise over p, q ≥ 0 with w = p − q, on explicit differences, with scipy."""
    pairs = differences(X)
    d = pairs.shape[1]
    tau, a, c = get_loss(loss).table.T
    beta = np.ones(d) if penalty.weights is None else np.asarray(penalty.weights)
    rho = getattr(penalty, "ratio", 1.0)

    def value_grad(both):
        w = both[:d] - both[d:]
        gap = np.maximum(0.0, tau - (pairs @ w)[:, None])
        value = C * np.sum(c * gap**2) + rho * beta @ (both[:d] + both[d:])
        slope = -C * pairs.T @ (2 * c * gap).sum(axis=1) + (1 - rho) * beta * w
        value += 0.5 * (1 - rho) * beta @ w**2
        return value, np.concatenate([slope, -slope]) + rho * np.tile(beta, 2)

    assert not a.any()
    found = minimize(
        value_grad, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * (2 * d),
        options={"maxiter": 100_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-10},
    )  # fmt: skip
    return found.x[:d] - found.x[d:], found.fun


@cache
def known_optimum(name, loss, multiple):
    problem = sparse_problem(CONVEX[name], multiple, loss)
    return optimum(CONVEX[name], problem.C, loss)


# Convex penalties --------------------------------------------------------------------------


@every_solver
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("penalty", CONVEX)
@pytest.mark.parametrize("multiple", [2.0, 40.0])
def test_reaches_the_optimum_and_proves_it(solver, loss, penalty, multiple):
    problem = sparse_problem(CONVEX[penalty], multiple, loss)
    result = solve(solver, problem)
    assert result.status is Status.CONVERGED, result.message
    assert result.gap <= 1e-6
    w, best = known_optimum(penalty, loss, multiple)
    assert best * (1 - 1e-7) <= result.objective <= best * (1 + 1e-6)
    assert result.objective == pytest.approx(problem.value_grad(result.coef)[0], rel=1e-12)
    assert problem.value_grad(w)[0] == pytest.approx(best, rel=1e-9)
    np.testing.assert_allclose(result.coef, w, atol=1e-2 * np.abs(w).max())
    for step in result.history:
        if step.gap is not None:  # the bound holds in every iteration
            assert step.objective * (1 - step.gap) <= best * (1 + 1e-9)
            assert step.objective >= best * (1 - 1e-9)


@every_solver
@pytest.mark.parametrize("multiple", [2.0, 40.0])
def test_reaches_the_optimum_of_liblinear(solver, multiple):
    problem = sparse_problem(L1(), multiple)
    pairs = differences()
    svm = LinearSVC(
        penalty="l1", loss="squared_hinge", dual=False, fit_intercept=False, C=problem.C / 2,
        tol=1e-8, max_iter=1_000_000, random_state=0,
    )  # fmt: skip
    w = svm.fit(np.vstack([pairs, -pairs]), np.repeat([1, -1], len(pairs))).coef_[0]
    result = solve(solver, problem, tol=1e-9)
    assert result.objective == pytest.approx(problem.value_grad(w)[0], rel=1e-6)
    np.testing.assert_allclose(result.coef, w, atol=1e-3 * np.abs(w).max())
    np.testing.assert_array_equal(result.coef == 0, w == 0)


@every_solver
def test_optimum_known_by_hand(solver):
    """One pair, one feature: |w| + C·max(0, 1 − w)² is least at w = 1 − 1/2C, or 0."""
    for C in (0.4, 0.6, 1.0, 50.0):
        problem = make_problem(RankingData([[1.0], [0.0]], [1, 0]), C, penalty=L1())
        result = solve(solver, problem, tol=1e-12)  # the gap is about C·(w − w*)²
        np.testing.assert_allclose(result.coef, max(0.0, 1 - 0.5 / C), rtol=1e-5, atol=1e-12)


@pytest.mark.slow
@every_solver
@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
def test_repeated_and_collinear_features(solver, loss):
    X = collinear(make_arrays()[0])
    tol = 1e-8 if solver == "proximal-newton" else 1e-3
    for multiple in (3.0, 300.0):
        problem = sparse_problem(L1(), multiple, loss, X)
        result = solve(solver, problem, tol=tol)
        assert result.converged, result.message
        best = solve("proximal-newton", problem, tol=1e-10)
        assert best.gap <= 1e-10
        assert result.objective <= best.objective * (1 + tol)
        assert best.objective <= optimum(L1(), problem.C, loss, X)[1] * (1 + 1e-9)
        assert result.coef[-1] == 0.0  # a feature without values


@pytest.mark.parametrize("solver", ["proximal-newton", "backtracking"])
def test_losses_that_are_flat_for_most_pairs(solver):
    """If most pairs are on the linear part of huber, the Hessian is singular."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.standard_normal((30, 28)), rng.integers(0, 3, 30), rng.integers(0, 4, 30)
    l1 = make_problem(RankingData(X, y, qid), loss="huber", penalty=L1())
    result = solve(solver, l1.with_C(100.0 * l1.smallest_C()), tol=1e-3)
    assert result.status is Status.CONVERGED, result.message


@every_solver
@pytest.mark.parametrize("kind", [L1, ElasticNet])
def test_free_features(solver, kind):
    """If a feature has no cost, there is no lower bound, and the distance decides."""
    penalty = kind(weights=[0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    problem = sparse_problem(penalty, 3.0)
    result = solve(solver, problem, tol=1e-8)
    assert result.status is Status.CONVERGED
    assert result.gap is None
    assert result.gradient_norm <= 1e-8
    w, best = optimum(penalty, problem.C, "squared_hinge")
    assert result.objective == pytest.approx(best, rel=1e-9)
    np.testing.assert_allclose(result.coef, w, atol=1e-4)
    assert result.coef[[0, 3]].all()
    assert not result.coef[[2, 4, 5]].all()


@every_solver
@pytest.mark.parametrize("penalty", CONVEX)
@pytest.mark.parametrize("loss", SMOOTH)
def test_features_come_in_at_the_smallest_C(solver, penalty, loss):
    problem = sparse_problem(CONVEX[penalty], loss=loss)
    below = solve(solver, problem.with_C(problem.smallest_C() * 0.999))
    assert below.status is Status.CONVERGED
    assert not below.coef.any()
    assert below.gradient_norm == 0
    above = solve(solver, problem.with_C(problem.smallest_C() * 1.001), tol=1e-3)
    assert np.count_nonzero(above.coef) == 1


@every_solver
@pytest.mark.parametrize("form", ["dense32", "csr64", "csr32"])
def test_forms_give_the_same_weights(solver, form):
    X = make_arrays()[0].astype(np.float32).astype(np.float64)
    X[np.abs(X) < 0.5] = 0.0
    dense = solve(solver, sparse_problem(L1(), X=X), tol=1e-8)
    other = solve(solver, sparse_problem(L1(), X=as_form(X, form)), tol=1e-8)
    np.testing.assert_allclose(other.coef, dense.coef, rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(other.coef == 0, dense.coef == 0)


@every_solver
def test_weights_of_documents_and_of_the_loss(solver):
    """Weight 2 equals a second copy, and dividing the loss by the pairs equals another C."""
    X, y, qid = make_arrays()
    weight = 1.0 + (np.arange(len(y)) % 3 == 0)
    C, twice = 1e-2, np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = make_problem(RankingData(X, y, qid, sample_weight=weight), C, penalty=L1())
    repeated = make_problem(RankingData(X[twice], y[twice], qid[twice]), C, penalty=L1())
    assert solve(solver, weighted).objective == pytest.approx(
        solve(solver, repeated).objective, rel=1e-6
    )
    plain = make_problem(RankingData(X, y, qid), C, penalty=L1())
    by_pairs = make_problem(
        RankingData(X, y, qid), C * plain.engine.n_pairs, normalize="pairs", penalty=L1()
    )
    assert solve(solver, by_pairs).objective == pytest.approx(
        solve(solver, plain).objective, rel=1e-6
    )


@every_solver
def test_a_warm_start_at_the_optimum_does_nothing(solver):
    problem = sparse_problem(L1())
    first = solve(solver, problem, tol=1e-8)
    for n_evaluations in (0, 1):
        again = SOLVERS[solver](tol=1e-7).solve(problem, first.coef)
        assert (again.n_iter, again.n_products, again.n_evaluations) == (0, 0, n_evaluations)
        np.testing.assert_array_equal(again.coef, first.coef)
        problem.value_grad(np.ones(D))  # move the engine to another point


@every_solver
def test_a_warm_start_elsewhere_reaches_the_same_optimum(solver):
    problem = sparse_problem(L1())
    cold = solve(solver, problem, tol=1e-8)
    warm = SOLVERS[solver](tol=1e-8, max_iter=50_000).solve(problem, np.full(D, 3.0))
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-3)


@every_solver
def test_history_does_not_rise_and_the_callback_sees_it(solver):
    seen = []
    result = solve(solver, sparse_problem(L1(), 40.0), callback=seen.append)
    assert seen == result.history
    assert result.n_iter == len(seen) - 1
    objectives = [step.objective for step in seen]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(objectives))
    assert seen[-1].products == result.n_products


@every_solver
def test_results_repeat_themselves(solver):
    first, again = (solve(solver, sparse_problem(L1(), 40.0)) for _ in range(2))
    np.testing.assert_array_equal(first.coef, again.coef)


@every_solver
def test_max_iter_gives_a_sentence(solver):
    problem = sparse_problem(L1(), 40.0)
    result = SOLVERS[solver](tol=1e-12, max_iter=2).solve(problem)
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 2
    assert result.objective < problem.start()[0]
    assert problem.value_grad(result.coef)[0] == pytest.approx(result.objective, rel=1e-12)


def interrupt_after(monkeypatch, n_calls):
    """Ctrl-C in the middle of an evaluation."""
    original, calls = ThreadEngine.value_grad, []

    def value_grad(self, w):
        calls.append(w)
        if len(calls) == n_calls + 1:
            raise KeyboardInterrupt
        return original(self, w)

    monkeypatch.setattr(ThreadEngine, "value_grad", value_grad)


@pytest.mark.parametrize("n_calls", [0, 1, 4, 7])
@pytest.mark.parametrize("solver", [*SOLVERS, "reweighted"])
def test_an_interrupt_keeps_the_best_so_far(monkeypatch, solver, n_calls):
    problem = sparse_problem(Log() if solver == "reweighted" else L1(), 40.0)
    problem.start()  # all further evaluations are those of the solver
    problem.value_grad(np.ones(D))  # the first of them is at the start
    interrupt_after(monkeypatch, n_calls)
    method = (SOLVERS | {"reweighted": Reweighted})[solver](tol=1e-12)
    result = method.solve(problem)
    monkeypatch.undo()
    assert result.status is Status.INTERRUPTED
    if n_calls == 0:
        assert not result.coef.any()
        return
    assert problem.value_grad(result.coef)[0] == pytest.approx(result.objective, rel=1e-12)
    assert all(result.objective <= step.objective for step in result.history)
    assert result.coef.any() == (n_calls > 1)


# Reuse of evaluations and Hessians ---------------------------------------------------------------


def test_an_evaluation_is_not_repeated_for_another_C_or_penalty():
    problem, w = sparse_problem(L1()), np.arange(D) - 2.0
    value, gradient = problem.value_grad(w)
    other = problem.with_C(3.0 * problem.C).with_penalty(Log())
    evaluated = problem.engine.work.evaluations
    again = other.value_grad(w)
    assert problem.engine.work.evaluations == evaluated
    np.testing.assert_allclose(again[1], 3.0 * gradient, rtol=1e-12)
    loss = (value - L1().for_features(D).value(w)) / problem.C
    assert again[0] == pytest.approx(other.C * loss + Log().for_features(D).value(w), rel=1e-12)
    problem.engine.value_grad(np.ones(D))  # an evaluation outside of the solver
    assert other.value_grad(w)[0] == again[0]
    assert problem.engine.work.evaluations == evaluated + 2


def count_calls(monkeypatch, name):
    original, calls = getattr(ThreadEngine, name), []

    def counted(self, *arguments):
        calls.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(ThreadEngine, name, counted)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("penalty", CONVEX)
@pytest.mark.parametrize("loss", ["squared_hinge", "huber"])
def test_a_path_makes_few_hessians_and_ends_at_every_optimum(monkeypatch, penalty, loss):
    problem = sparse_problem(CONVEX[penalty], loss=loss)
    Cs = problem.smallest_C() * np.geomspace(1.01, 300.0, 30)
    hessians = count_calls(monkeypatch, "hessian")
    solutions = regularization_path(problem, Cs, tol=1e-5).results
    assert len(hessians) <= 15
    for C, result in zip(Cs, solutions, strict=True):
        assert result.status is Status.CONVERGED
        assert result.gap <= 1e-5
        alone = ProximalNewton(tol=1e-9).solve(problem.with_C(C))
        assert alone.objective * (1 - 1e-9) <= result.objective <= alone.objective * (1 + 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("loss", SMOOTH)
def test_an_old_hessian_does_no_harm(loss):
    """One solver object solves different problems."""
    rng = np.random.default_rng(0)
    solver = ProximalNewton(tol=1e-6)
    first = sparse_problem(L1(), 1.0, loss, collinear(make_arrays()[0]))
    for _ in range(20):
        problem = first.with_C(first.C * 10 ** rng.uniform(-0.5, 3.0))
        start = rng.standard_normal(problem.n_features) * rng.choice([0.0, 0.01, 10.0])
        result = solver.solve(problem, start)
        assert result.status is Status.CONVERGED, result.message
        best = ProximalNewton(tol=1e-9).solve(problem).objective
        assert result.objective <= best * (1 + 1e-6)


def test_a_hessian_belongs_to_its_engine():
    solver = ProximalNewton(tol=1e-9)
    problems = [sparse_problem(L1(), 30.0, X=scale * make_arrays()[0]) for scale in (1.0, 1e3)]
    for problem in problems * 2:
        expected = ProximalNewton(tol=1e-9).solve(problem)
        result = solver.solve(problem)
        assert result.n_iter == expected.n_iter
        np.testing.assert_array_equal(result.coef, expected.coef)


def test_a_sample_will_do_while_the_working_set_grows(monkeypatch):
    settings = ProximalSettings(first_set=1, rows_per_feature=5, least_rows=1)
    problem = sparse_problem(L1(), 30.0)
    hessians = count_calls(monkeypatch, "hessian")
    result = ProximalNewton(tol=1e-9, settings=settings).solve(problem)
    assert result.gap <= 1e-9
    samples = [n_rows for n_rows, _ in hessians]
    assert samples[0] == 5


@pytest.mark.parametrize("promise", [0.0, 0.1])
def test_a_sample_that_was_not_effective_gives_way_near_the_optimum(promise):
    problem = sparse_problem(L1(), 30.0)
    solver = ProximalNewton(settings=ProximalSettings(rows_per_feature=1, least_rows=1))
    solver.problem, solver.point = problem, Iterate(np.zeros(D), *problem.value_grad(np.zeros(D)))
    solver._prepare()
    features = np.arange(D)
    first = solver._make_curvature(features, complete=True)
    assert not first.is_exact
    solver._curvature, solver._promise = first, promise * solver.point.value
    assert solver._make_curvature(features, complete=True).is_exact == (promise == 0.0)
    assert not solver._make_curvature(features, complete=False).is_exact


@pytest.mark.parametrize("seed", range(3))
def test_a_hessian_learns_from_a_step(seed):
    """The rule of BFGS in full: (I − ρys')'H(I − ρsy') of its inverse, and H·step = change."""
    rng = np.random.default_rng(seed)
    features = np.array([0, 2, 3, 5])
    A, B = rng.standard_normal((2, 4, 4))
    H, true = A @ A.T + np.eye(4), B @ B.T + np.eye(4)
    step, change = np.zeros(D), rng.standard_normal(D)
    step[features] = s = rng.standard_normal(4)
    change[features] = y = true @ s
    known = Curvature(features, H.copy(), is_exact=True)
    known.learn(step, change)
    turn = np.eye(4) - np.outer(s, y) / (s @ y)
    inverse = turn @ np.linalg.inv(H) @ turn.T + np.outer(s, s) / (s @ y)
    np.testing.assert_allclose(known.H, np.linalg.inv(inverse), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(known.H @ s, y, rtol=1e-9)


@pytest.mark.parametrize(("factor", "outside"), [(1e3, 0.0), (1e-3, 0.0), (-1.0, 0.0), (1.0, 1.0)])
def test_a_hessian_does_not_learn_from_rounding_or_from_other_features(factor, outside):
    known = Curvature(np.array([0, 2]), np.eye(2), is_exact=True)
    step = np.zeros(D)
    step[:3] = 1.0, outside, 2.0
    known.learn(step, factor * step)
    np.testing.assert_array_equal(known.H, np.eye(2))


def in_other_units(decades, loss):
    """The same problem in other units: features times s, with costs times s."""
    scales = 10.0 ** np.linspace(-decades / 2, decades / 2, D)
    X = make_arrays()[0] * scales
    problem = sparse_problem(L1(weights=scales), 1.0, loss, X)
    return problem.with_C(100.0 * problem.smallest_C())


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
@pytest.mark.parametrize("decades", [0, 8, 16])
def test_scales_of_features_do_not_matter(loss, decades):
    expected = ProximalNewton(tol=1e-9).solve(in_other_units(0, loss))
    result = ProximalNewton(tol=1e-6).solve(in_other_units(decades, loss))
    assert result.converged
    assert result.n_iter <= 3 * expected.n_iter + 10
    assert result.objective <= expected.objective * (1 + 1e-6)
    np.testing.assert_array_equal(result.coef != 0, expected.coef != 0)


@pytest.mark.parametrize("largest", [0, D])
def test_products_that_have_cost_as_much_give_way_to_a_matrix(monkeypatch, largest):
    problem = sparse_problem(L1(), 100.0)
    hessians = count_calls(monkeypatch, "hessian")
    settings = ProximalSettings(matrix_limit=0, largest_matrix=largest)
    result = ProximalNewton(tol=1e-6, settings=settings).solve(problem)
    assert result.gap <= 1e-6
    assert result.n_products > 0
    assert bool(hessians) == (largest == D)


@pytest.mark.parametrize("distance", [1e-4, 1e-6])
def test_nearly_equal_features_and_a_large_C(distance):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((24, 6))
    X[:, 1] = X[:, 0] + distance * rng.standard_normal(24)
    data = RankingData(X, rng.integers(0, 3, 24), np.arange(24) // 6)
    result = ProximalNewton().solve(make_problem(data, 1e5, penalty=L1()))
    assert result.gap <= 1e-3
    assert result.n_iter <= 60


# The certificate ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_highest_dual_value_along_a_ray(seed):
    """Compare with a fine grid of s, and with the definition of the conjugate."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, D)
    ratio = rng.choice([0.3, 1.0])
    penalty = ElasticNet(weights=weights, ratio=ratio).for_features(D)
    linear, quadratic = rng.normal(1.0, 1.0), rng.choice([0.0, 0.7])
    gradient = rng.standard_normal(D) * rng.choice([0.1, 2.0]) * (rng.random(D) < 0.8)
    end = 1.0 if quadratic == 0 else 4.0

    def dual(s):
        excess = np.maximum(np.abs(s * gradient) - ratio * weights, 0.0)
        if ratio == 1.0:
            return s * linear - s * s * quadratic if not (excess > 1e-12).any() else -np.inf
        return s * linear - s * s * quadratic - np.sum(excess**2 / (2 * (1 - ratio) * weights))

    best = max(dual(s) for s in np.linspace(0.0, end, 20_001))  # steps of 2e-4
    found = penalty.best_dual(linear, quadratic, gradient, end)
    assert best - 1e-12 <= found <= best + 1e-3 * (1 + abs(best))


def test_the_dual_value_of_the_squared_hinge_is_that_of_the_pairs():
    """D(α) = Σ α − α²/4C for any α ≥ 0 with |Σ α_p x̃_p| ≤ 1: here s·2C·max(0, 1 − t)."""
    problem, pairs = sparse_problem(L1(), 3.0), differences()
    solver = ProximalNewton(max_iter=1)
    solver.solve(problem)
    alpha = 2 * problem.C * np.maximum(0.0, 1.0 - pairs @ solver.point.w)
    most = 1.0 / np.abs(alpha @ pairs).max()
    values = [s * alpha.sum() - s * s * (alpha @ alpha) / (4 * problem.C)
              for s in np.linspace(0.0, most, 10_001)]  # fmt: skip
    assert solver._dual_value() == pytest.approx(max(values), rel=1e-7)


def solver_at(w, gradient, value, penalty, **options):
    """A solver at a point of two features; ‖∇f(0)‖ is 2, and there is no lower bound yet."""
    solver = ProximalNewton(**options)
    solver.point = Iterate(np.array(w), value, np.array(gradient))
    engine = SimpleNamespace(loss=get_loss("huber"))
    solver.problem = SimpleNamespace(penalty=penalty.for_features(2), engine=engine)
    solver.slope_at_zero, solver.bound, solver._promise = 2.0, -np.inf, np.inf
    return solver


def test_the_gradient_norm_is_the_distance_to_a_critical_point():
    """The unit is ‖∇f(0)‖ or, if that is 0, the norm of the costs."""
    solver = solver_at([1.0, 0.0], [2.0, -5.0], 1.0, L1())  # 2 + 1 for w > 0, 5 − 1 at 0
    assert solver._distance() == pytest.approx(5.0)
    assert solver._relative_norm() == pytest.approx(2.5)
    solver.slope_at_zero = 0.5
    assert solver._relative_norm() == pytest.approx(10.0)
    solver.slope_at_zero = 0.0
    assert solver._relative_norm() == pytest.approx(5.0 / np.sqrt(2.0))
    free = solver_at([1.0, 0.0], [3.0, -4.0], 1.0, L1(weights=np.zeros(2)))
    free.slope_at_zero = 0.0
    assert free._relative_norm() == 0.0


def test_sparse_solvers_stop_by_the_gap():
    """At w = (1, 0) with ∇f = (−1, 0) and f = 1: the dual value is f − w'∇f = 2 of 2."""
    solver = solver_at([1.0, 0.0], [-1.0, 0.0], 2.0, L1())
    assert solver._dual_value() == pytest.approx(2.0)
    assert solver._is_done()
    assert solver.bound == pytest.approx(2.0)
    for bound, done in ((1.51, True), (1.4, False)):
        solver = solver_at([1.0, 0.0], [-1.5, 0.0], 2.0, L1(), tol=0.25)
        solver._dual_value = lambda bound=bound: bound
        assert solver._is_done() is done
    solver.bound, solver._dual_value = 1.51, lambda: 0.0  # the best bound so far is kept
    assert solver._is_done()
    assert solver.bound == 1.51


def test_the_highest_dual_value_of_a_parabola_alone():
    """s − s²/4 is largest at s = 2."""
    penalty = L1().for_features(2)
    assert penalty.best_dual(1.0, 0.25, np.zeros(2), np.inf) == pytest.approx(1.0)
    assert penalty.best_dual(1.0, 0.25, np.zeros(2), 1.0) == pytest.approx(0.75)
    assert penalty.best_dual(-1.0, 0.25, np.zeros(2), np.inf) == 0.0


def test_the_ray_of_the_dual_ends_at_the_gradient():
    """s is at most 1 for any gradient, because s·(f − w'∇f) is no lower bound for s > 1."""
    solver = solver_at([1.0, 0.0], [-0.25, 0.0], 2.0, L1())
    assert solver._dual_value() == pytest.approx(1.25)


def test_no_feature_is_no_ranker_however_small_the_gap():
    for gradient, done in ((1.0, True), (-1.001, False)):
        solver = solver_at([0.0, 0.0], [gradient, 0.0], 1.0, L1(), tol=0.5)
        solver.bound = 1.0
        assert solver._is_done() is done


def test_rounding_may_end_a_sparse_fit_at_a_gap_of_1e_6():
    for tol, gap, small in ((1e-9, 1e-6, True), (1e-9, 2e-6, False), (0.25, 0.25, True)):
        solver = solver_at([1.0, 0.0], [0.0, 0.0], 1.0, L1(), tol=tol)
        solver._gap = lambda gap=gap: gap
        assert solver._gradient_is_small() is small


@pytest.mark.parametrize(
    ("gradient", "value", "promise", "done"),
    [
        (-1.5, 4.0, 1.0, True),  # 0.5 from a critical point, of 2: a quarter, and so the promise
        (-1.501, 4.0, 0.0, False),
        (-1.5, 4.0, 1.001, False),
        (-1.0, 4.0, 9.0, True),  # a critical point
        (-9.0, 0.0, 9.0, True),  # nothing is below 0
        (-1.5, 1e-3, 9.0, False),
    ],
)
def test_without_a_gap_the_model_must_promise_little(gradient, value, promise, done):
    solver = solver_at(
        [1.0, 0.0], [gradient, 0.0], value, L1(weights=np.array([1.0, 0.0])), tol=0.25
    )
    solver._promised_decrease = lambda: promise
    assert solver._is_done() is done


@pytest.mark.parametrize("seed", [2, 1413])
@pytest.mark.parametrize("penalty", [L1(weights=[0.0, 1.0, 1.0]), NoPenalty()])
def test_nearly_equal_features_without_a_gap(seed, penalty):
    """A Hessian of an earlier point promises too little there."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((24, 3))
    X[:, 1] = X[:, 0] + 1e-4 * rng.standard_normal(24)
    y, qid = rng.integers(0, 2, 24), np.arange(24) // 6
    problem = make_problem(RankingData(X, y, qid), 1e-3, penalty=penalty)
    best = ProximalNewton(tol=1e-10).solve(problem).objective
    result = ProximalNewton(tol=1e-3).solve(problem)
    assert result.converged
    assert result.objective <= best * (1 + 1e-3)


# FISTA alone -------------------------------------------------------------------------------


def slow_fista(penalty, C, n_steps):
    """Algorithm 1 of Laporte et al. word by word: the squared hinge on explicit pairs.

    For concave penalties the same without momentum.
    """
    pairs = differences()
    L = 2 * C * np.sum(pairs**2)
    w = z = np.zeros(D)
    t = 1.0
    for _ in range(n_steps):
        gradient = -2 * C * pairs.T @ np.maximum(0.0, 1.0 - pairs @ z)
        new = penalty.prox(z - gradient / L, 1.0 / L)
        t_new = (1 + np.sqrt(1 + 4 * t**2)) / 2
        z = new + (t - 1) / t_new * (new - w) if penalty.convex else new
        w, t = new, t_new
    return w


@pytest.mark.parametrize("n_steps", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("kind", [L1, Log])
def test_paper_steps_are_those_of_the_paper(kind, n_steps):
    problem = sparse_problem(kind(weights=PRICES), 100.0)
    solver = FISTA(step="paper", restart=False, tol=1e-12, max_iter=n_steps)
    expected = slow_fista(problem.penalty, problem.C, n_steps)
    assert expected.any()
    np.testing.assert_allclose(solver.solve(problem).coef, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("step", ["power", "paper"])
def test_a_constant_step_costs_about_one_evaluation(step):
    problem = sparse_problem(L1(), 300.0, X=collinear(make_arrays()[0]))
    result = FISTA(step=step, tol=1e-5).solve(problem)
    assert result.n_iter > 100
    assert result.n_evaluations <= 1.15 * result.n_iter + 10


def test_without_restarts_the_best_point_is_kept():
    """Momentum steps may raise the objective, but the reported objective only falls."""
    problem = sparse_problem(L1(), 300.0, X=collinear(make_arrays()[0]))
    result = FISTA(restart=False, tol=1e-4).solve(problem)
    assert all(b.objective <= a.objective for a, b in pairwise(result.history))
    assert len({step.objective for step in result.history}) < len(result.history)


def test_restarts_save_steps():
    problem = sparse_problem(L1(), 100.0, X=collinear(make_arrays()[0]))
    n_with, n_without = (
        FISTA(step="power", restart=restart).solve(problem).n_iter for restart in (True, False)
    )
    assert n_with < 0.7 * n_without


@pytest.mark.parametrize("name", [name for name, loss in PAIRWISE.items() if loss.smooth])
def test_the_largest_curvature(name):
    """The result is the largest second difference of the loss on a fine grid."""
    t = np.linspace(-8.0, 8.0, 160_001)
    value = get_loss(name)(t)
    second = np.diff(value, 2) / (t[1] - t[0]) ** 2
    assert largest_curvature(get_loss(name)) == pytest.approx(second.max(), rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "options"),
    [(loss, {}) for loss in SMOOTH]
    + [(loss, {"counting": "explicit"}) for loss in (*SMOOTH, "logistic_exact")]
    + [(loss, {"preferences": Preferences(rescale="margin")}) for loss in SMOOTH],
)
def test_one_hessian_is_above_all(loss, options):
    X, y, qid = make_arrays()
    engine = make_problem(RankingData(X, y, qid), loss=loss, **options).engine
    above = dominating_engine(engine)
    pairs = differences()
    expected = largest_curvature(get_loss(loss)) * pairs.T @ pairs
    np.testing.assert_allclose(above.hessian(), expected, rtol=1e-9, atol=1e-9)
    assert trace_of_hessian(above) == pytest.approx(np.trace(expected), rel=1e-12)
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.3, 3.0):
        engine.value_grad(scale * rng.standard_normal(D))
        assert np.linalg.eigvalsh(expected - engine.hessian()).min() > -1e-9 * expected.max()


def test_the_trace_is_summed_by_blocks(monkeypatch):
    monkeypatch.setattr("linrank.solvers.fista.BLOCK", 4)
    engine = dominating_engine(sparse_problem(L1()).engine)
    assert trace_of_hessian(engine) == pytest.approx(2 * np.sum(differences() ** 2), rel=1e-12)


@pytest.mark.parametrize("step", ["backtracking", "power", "paper"])
def test_nothing_to_learn_is_no_trouble(step):
    """No feature distinguishes documents, so any weight only adds to the penalty."""
    data = RankingData(np.ones((4, 2)), [0.0, 1.0, 0.0, 1.0])
    for penalty in (L1(), Log()):
        result = FISTA(step=step).solve(make_problem(data, penalty=penalty), np.array([1.0, -2.0]))
        assert result.converged
        assert not result.coef.any()


def test_an_unknown_step_gets_a_sentence():
    with pytest.raises(DataError, match="step is 'fixed'; known choices are 'backtracking', 'p"):
        FISTA(step="fixed")


# Concave penalties -------------------------------------------------------------------------


def concave_problem(penalty, multiple=30.0, X=None):
    """The loss is divided by the pairs, so that C is near 1 and the penalties differ from l1."""
    return sparse_problem(CONCAVE[penalty], multiple, X=X, normalize="pairs")


def assert_critical(problem, w, accuracy):
    """On the support the slopes of loss and penalty cancel; elsewhere the penalty is steeper."""
    gradient = problem.value_grad(w)[1]
    slope = problem.penalty.slope(np.abs(w))
    used = w != 0
    left = gradient[used] + np.sign(w[used]) * slope[used]
    np.testing.assert_allclose(left, 0.0, atol=accuracy)
    assert (np.abs(gradient[~used]) <= slope[~used] + accuracy).all()


@every_concave
@pytest.mark.parametrize("multiple", [3.0, 30.0, 1000.0])
def test_reweighting_falls_to_a_critical_point(penalty, multiple):
    problem = concave_problem(penalty, multiple)
    result = Reweighted(tol=1e-10).solve(problem)
    assert result.status is Status.CRITICAL, result.message
    objectives = [step.objective for step in result.history[1:]]
    assert all(b <= a * (1 + 1e-13) for a, b in pairwise(objectives))  # but for rounding
    assert objectives[-1] == result.objective
    assert_critical(problem, result.coef, 1e-4)
    start = ProximalNewton(tol=1e-9).solve(problem.with_penalty(L1())).coef
    assert objectives[0] == pytest.approx(problem.value_grad(start)[0], rel=1e-6)
    assert result.objective <= problem.value_grad(start)[0] * (1 + 1e-9)


@every_concave
@pytest.mark.parametrize("seed", range(12))
def test_reweighting_is_never_worse_than_l1_or_nothing(penalty, seed):
    """This holds for any C, for few and many features, and along a path."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(20, 80), rng.integers(2, 12)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) * rng.choice([0.1, 1.0, 10.0])
    data = RankingData(X, rng.integers(0, 3, n), rng.integers(0, 3, n))
    l1 = make_problem(data, penalty=L1(), normalize=rng.choice(["pairs", None]))
    l1 = l1.with_C(l1.smallest_C())
    solver, w0 = Reweighted(), None
    for multiple in (0.5, 1.1, 2.0, 5.0, 30.0, 1000.0):
        problem = l1.with_penalty(CONCAVE[penalty]).with_C(multiple * l1.C)
        start = ProximalNewton(tol=1e-8).solve(problem.with_penalty(L1())).coef
        for result in (Reweighted().solve(problem), solver.solve(problem, w0)):
            assert result.status is Status.CRITICAL, result.message
            assert result.objective == pytest.approx(problem.value_grad(result.coef)[0], rel=1e-12)
            assert result.objective <= problem.start()[0] * (1 + 1e-12)
            assert result.objective <= problem.value_grad(start)[0] * (1 + 1e-6)
        w0 = result.coef


def test_reweighting_goes_on_from_zero_where_that_is_better():
    """Just above the smallest C with weights, the critical points of lp are worse than 0."""
    problem = sparse_problem(Lp(), 1.0)
    found = [Reweighted().solve(problem.with_C(m * problem.C)) for m in np.geomspace(1.2, 6, 40)]
    ends = [result.objective <= result.history[0].objective for result in found]
    assert all(ends)
    assert not found[0].coef.any()
    assert found[-1].coef.any()
    assert any(result.history[-2].objective > result.objective * (1 + 1e-6) and
               not result.coef.any() for result in found)  # fmt: skip


@every_concave
def test_reweighting_repeats_itself(penalty):
    first, again = (Reweighted().solve(concave_problem(penalty)) for _ in range(2))
    np.testing.assert_array_equal(first.coef, again.coef)


@every_concave
def test_reweighting_does_not_depend_on_where_it_starts(penalty):
    problem = concave_problem(penalty)
    cold = Reweighted(tol=1e-8).solve(problem)
    warm = Reweighted(tol=1e-8).solve(problem, np.full(D, -2.0))
    np.testing.assert_allclose(warm.coef, cold.coef, atol=1e-5)


@every_concave
def test_concave_penalties_need_fewer_features_for_the_same_loss(penalty):
    """Two features are informative; the others are noise, and correlated with them."""
    X, y, qid = make_arrays(n=300)
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((300, 12)) + 2.0 * rng.standard_normal((300, 1))
    l1 = make_problem(RankingData(np.hstack([X, noise]), y, qid), normalize="pairs", penalty=L1())
    l1 = l1.with_C(20.0 * l1.smallest_C())
    few = Reweighted().solve(l1.with_penalty(CONCAVE[penalty])).coef
    assert {0, 1} <= set(np.flatnonzero(few))
    goal, C = l1.engine.value_grad(few)[0], l1.C / 20
    many = np.zeros_like(few)
    while l1.engine.value_grad(many)[0] > goal:
        C *= 1.1
        many = ProximalNewton(tol=1e-6).solve(l1.with_C(C), many).coef
    assert np.count_nonzero(few) < np.count_nonzero(many)


def test_lp_chooses_among_the_features_of_l1():
    problem = concave_problem("lp", 100.0)
    start = ProximalNewton(tol=1e-6).solve(problem.with_penalty(L1())).coef
    found = Reweighted().solve(problem).coef
    assert not found[start == 0].any()


def test_the_first_reweighting_begins_at_slope_one():
    """The first problem has g' = 1, as in the paper, and not g'(0), which is 10 for log."""
    problem = concave_problem("log")
    result = Reweighted(max_iter=1).solve(problem)
    plain = ProximalNewton(tol=1e-6).solve(problem.with_penalty(L1()))
    assert result.status is Status.MAX_ITER
    np.testing.assert_allclose(result.coef, plain.coef, atol=1e-3)


@pytest.mark.parametrize("penalty", ["mcp", "scad", "log"])
def test_reweighting_leaves_free_features_free(penalty):
    weights = [0.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    free = type(CONCAVE[penalty])(weights=weights)
    problem = concave_problem(penalty, 3.0).with_penalty(free)
    result = Reweighted(tol=1e-10).solve(problem)
    assert result.converged
    assert result.coef[[0, 3]].all()
    assert np.abs(problem.value_grad(result.coef)[1][[0, 3]]).max() < 1e-6


@every_concave
def test_reweighting_with_collinear_features(penalty):
    problem = concave_problem(penalty, 300.0, X=collinear(make_arrays()[0]))
    result = Reweighted(tol=1e-8).solve(problem)
    assert result.converged, result.message
    assert_critical(problem, result.coef, 1e-3)


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
@pytest.mark.parametrize("seed", range(3))
def test_reweighting_where_the_penalty_is_flat(seed, tol):
    """All pairs are told apart by weights beyond the knot γ/C, where each costs γ/2C.

    Features in use are then free, so there is no duality gap, and ‖∇f(0)‖ is of the order of C.
    """
    rng = np.random.default_rng(seed)
    X, y, C = rng.standard_normal((8, D)), rng.integers(0, 3, 8), 1e4
    problem = make_problem(RankingData(X, y), C, loss="huber", penalty=MCP())
    result = Reweighted(tol=tol).solve(problem)
    assert result.converged
    assert np.abs(result.coef[result.coef != 0]).min() > 2.0 / C
    assert result.objective == pytest.approx(
        np.count_nonzero(result.coef) / C, rel=max(2 * tol, 1e-7)
    )


def test_reweighting_is_for_concave_penalties():
    with pytest.raises(DataError, match="'reweighted' does not support penalty='elastic_net'"):
        Reweighted().solve(sparse_problem(ElasticNet()))


@pytest.mark.slow
@every_concave
@pytest.mark.parametrize("step", ["backtracking", "power", "paper"])
def test_proximal_steps_fall_to_a_critical_point(penalty, step):
    problem = concave_problem(penalty)
    start = ProximalNewton().solve(problem.with_penalty(L1())).coef
    solver = FISTA(step=step, tol=1e-7, max_iter=50_000)
    result = solver.solve(problem, start)
    assert result.status is Status.CRITICAL, result.message
    assert all(b.objective <= a.objective * (1 + 1e-12) for a, b in pairwise(result.history))
    assert result.objective <= problem.value_grad(start)[0]
    assert_critical(problem, result.coef, 1e-5)
    from_zero = solver.solve(problem)
    assert from_zero.status is Status.CRITICAL
    assert_critical(problem, from_zero.coef, 1e-5)


def test_proximal_steps_may_leave_zero_even_where_it_is_critical():
    """With lp, w = 0 is always a critical point, but another one has a far lower objective."""
    problem = concave_problem("lp", 1000.0)
    far = FISTA(tol=1e-6, max_iter=10_000).solve(problem)
    assert far.coef.any()
    assert far.objective < problem.start()[0]
    near = FISTA(tol=1e-6).solve(concave_problem("lp", 0.5))
    assert near.status is Status.CRITICAL
    assert not near.coef.any()
