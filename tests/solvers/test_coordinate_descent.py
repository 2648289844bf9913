"""Coordinate descent on the domination loss: monotone steps, and convergence to the optimum."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

import reference
from linrank import DataError, RankingData
from linrank.losses import get_loss
from linrank.penalties import L1, MCP, ElasticNet
from linrank.problem import make_problem
from linrank.solvers import CoordinateDescent, Reweighted, Status, make_solver
from linrank.solvers.coordinate_descent import CoordinateRule as Rule
from linrank.solvers.coordinate_descent import CoordinateSteps
from linrank.training.selection import regularization_path
from problems import as_form

pytestmark = pytest.mark.interpreted

N, D = 26, 4
PRICES = np.array([1.0, 30.0, 0.3, 2.0])
PENALTIES = {
    "l2": None,
    "l1": L1(),
    "weighted l1": L1(weights=PRICES),
    "elastic net": ElasticNet(weights=PRICES, ratio=0.4),
    "none": L1(weights=np.zeros(D)),
}
VARIANTS = ("one query", "binary", "levels", "all distinct", "margins", "weights")

every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_penalty = pytest.mark.parametrize("penalty", PENALTIES)


def make_data(variant, form="dense64", scale=1.0):
    """Return the data, the name of the loss, and the options of `reference.domination_loss`."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.7)
    X = (scale * X).astype(np.float32).astype(np.float64)
    y = rng.integers(0, 2 if variant == "one query" else 4, N).astype(float)
    y = rng.permutation(N) / 3.0 if variant == "all distinct" else y
    qid = np.zeros(N, int) if variant in ("one query", "all distinct") else np.arange(N) // 7
    given, needed = {}, {}
    if variant == "margins":
        given["margin"] = needed["margin"] = y + rng.random(N)
    if variant == "weights":
        weight, propensity = rng.random(N) * (rng.random(N) < 0.9), 0.2 + 0.8 * rng.random(N)
        query_weight = np.array([1.0, 0.3, 2.0, 0.0])[qid]
        given = {"sample_weight": weight, "query_weight": query_weight, "propensity": propensity}
        needed = {"upper": weight / propensity, "lower": weight, "query_weight": query_weight}
    data = RankingData(as_form(X, form), y, qid, **given)
    labels = (y > 0).astype(float) if variant == "binary" else y
    loss = "domination_binary" if variant == "binary" else "domination"
    return data, loss, (labels, qid, needed)


def make(variant, penalty, C=1.0, **options):
    data, loss, _ = make_data(variant, **options)
    return make_problem(data, C, loss=loss, penalty=PENALTIES[penalty])


def prices(penalty):
    """Return l1 and l2 of the penalty l1·|w| + ½·l2·w²."""
    found = PENALTIES[penalty]
    if found is None:
        return np.zeros(D), np.ones(D)
    beta = np.ones(D) if found.weights is None else found.weights
    ratio = getattr(found, "ratio", 1.0)
    return ratio * beta, (1 - ratio) * beta


def slow_objective(variant, penalty, w, C=1.0, scale=1.0):
    """Return the objective and the gradient of its smooth part, computed pair by pair."""
    data, _, (labels, qid, needed) = make_data(variant, scale=scale)
    value, slope, _ = reference.domination_loss(data.X @ w, labels, qid, **needed)
    l1, l2 = prices(penalty)
    value = C * value + l1 @ np.abs(w) + 0.5 * l2 @ w**2
    return value, C * data.X.T @ slope + l2 * w


@cache
def optimum(variant, penalty):
    """Minimise over p, q ≥ 0 with w = p − q, with scipy."""
    l1, _ = prices(penalty)

    def value_grad(both):
        w = both[:D] - both[D:]
        value, slope = slow_objective(variant, penalty, w)
        value += l1 @ (both[:D] + both[D:] - np.abs(w))
        return value, np.concatenate([slope, -slope]) + np.tile(l1, 2)

    found = minimize(
        value_grad, np.zeros(2 * D), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * (2 * D),
        options={"maxiter": 10_000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    return found.x[:D] - found.x[D:], found.fun


def start_coordinates(problem, penalty, w):
    """Return the steps with the state of w, and the rule without longer steps."""
    coordinates = CoordinateSteps(problem.engine)
    coordinates.begin(w)
    return coordinates, Rule(problem.C, coordinates.bound, 1.0, *prices(penalty))


@every_variant
@every_penalty
def test_every_single_step_lowers_the_objective(variant, penalty):
    problem = make(variant, penalty)
    w = np.random.default_rng(0).standard_normal(D)
    coordinates, rule = start_coordinates(problem, penalty, w)
    value = slow_objective(variant, penalty, w)[0]
    for step in range(6 * D):
        coordinates._parts = [(step % D, step % D + 1)]
        before = w.copy()
        coordinates.sweep(w, rule)
        assert np.count_nonzero(w != before) <= 1
        value, last = slow_objective(variant, penalty, w)[0], value
        assert value < last if (w != before).any() else value == last
    assert (w != before).any() or penalty != "l2"


@pytest.mark.slow
@every_variant
@every_penalty
def test_reaches_the_optimum_of_an_independent_solver(variant, penalty):
    problem = make(variant, penalty)
    result = CoordinateDescent(tol=1e-8, max_iter=20_000).solve(problem)
    assert result.converged, result.message
    w, best = optimum(variant, penalty)
    assert best * (1 - 1e-9) <= result.objective <= best * (1 + 1e-7)
    assert result.objective == pytest.approx(slow_objective(variant, penalty, result.coef)[0])
    np.testing.assert_allclose(result.coef, w, atol=1e-3 * np.abs(w).max())
    np.testing.assert_array_equal(result.coef[np.abs(w) < 1e-12], 0.0)


def test_the_prices_leave_features_out():
    """Both cases of the lemmas occur, so that the tests above cover them."""
    assert np.count_nonzero(optimum("levels", "weighted l1")[0]) < D


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_the_paper_s_algorithm_reaches_it_too(penalty):
    result = CoordinateDescent(tol=1e-7, max_iter=20_000, relax=False).solve(
        make("levels", penalty)
    )
    assert result.converged
    assert result.objective == pytest.approx(optimum("levels", penalty)[1], rel=1e-6)
    values = [step.objective for step in result.history]
    assert all(b <= a * (1 + 1e-13) for a, b in pairwise(values))  # the last changes are rounding


def test_the_first_sweep_is_that_of_figure_1_1():
    """Follow the paper line by line; m documents are relevant, and Z sums over all others."""
    data, _, (y, _, _) = make_data("one query")
    X, good = data.X, y > 0
    w, rho, m = np.zeros(D), np.zeros(N), good.sum()
    for _ in range(2):
        for r in range(D):
            Z, mu = np.exp(rho[~good]).sum(), np.exp(rho[~good]) @ X[~good, r]
            v = np.sum((Z * X[good, r] - mu) / (Z + np.exp(rho[good])))
            delta = v / (m * (X[:, r] ** 2).max())
            w[r] += delta
            rho += delta * X[:, r]
    problem = make("one query", "none")
    result = CoordinateDescent(tol=1e-12, max_iter=2, relax=False).solve(problem)
    np.testing.assert_allclose(result.coef, w, rtol=1e-12)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_longer_steps_take_fewer_sweeps_and_never_rise(penalty):
    problem = make("levels", penalty)
    short = CoordinateDescent(tol=1e-5, max_iter=20_000, relax=False).solve(problem)
    long = CoordinateDescent(tol=1e-5).solve(problem)
    assert 2 * long.n_iter < short.n_iter
    assert all(b.objective <= a.objective for a, b in pairwise(long.history))


@pytest.mark.parametrize("form", ["dense32", "csr64", "csr32"])
@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_forms_give_the_same_weights(form, penalty):
    solve = CoordinateDescent(tol=1e-9, max_iter=20_000).solve
    dense, other = (solve(make("levels", penalty, form=f)).coef for f in ("dense64", form))
    np.testing.assert_allclose(other, dense, rtol=1e-6, atol=1e-9)


def test_explicit_zeros_are_no_entries():
    data, _, _ = make_data("levels", form="csr64")
    data.X.data[::5] = 0.0
    coordinates = CoordinateSteps(make_problem(data, loss="domination").engine)
    assert np.all(coordinates.columns.data)


@every_variant
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_the_kept_state_is_that_of_the_weights(variant, scale):
    """The state stays exact after many sweeps without `begin`, from scores that moved far."""
    problem = make(variant, "none", scale=scale)
    w = np.random.default_rng(1).standard_normal(D)
    coordinates, rule = start_coordinates(problem, "none", w)
    for _ in range(60):
        coordinates.sweep(w, rule._replace(eta=2.0))
    other, _ = start_coordinates(problem, "none", w)
    kept, new = coordinates.state, other.state
    np.testing.assert_allclose(kept.z, new.z, atol=1e-10 * scale)
    # The floors of levels may be older than the scores. They cancel in the terms of the slope.
    group, upper = other.places.group, other.places.upper
    slopes = [s.share * s.pull[group] - upper * lost(s, group) for s in (kept, new)]
    np.testing.assert_allclose(*slopes, atol=1e-9)
    gradient = problem.engine.value_grad(w)[1]
    np.testing.assert_allclose(
        problem.engine.data.X[other._rows].T @ slopes[0], gradient, atol=1e-9 * scale
    )


def lost(state, group):
    """Return Z_k t_i of each document, which is 0 in the lowest level."""
    total = state.total[group]
    return np.where(total > 0, total / np.where(total > 0, total + state.exp_z, 1.0), 0.0)


def test_scores_may_change_by_any_amount_within_a_sweep():
    """The scores of neighbouring levels start 1e4 apart, in either order."""
    X = np.array([[2.0], [1.0], [0.0], [0.0], [1.5], [2.0]])
    data = RankingData(X, [0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1])
    problem = make_problem(data, loss="domination")
    best = CoordinateDescent(tol=1e-9).solve(problem)
    for start in (-1e4, 1e4):
        result = CoordinateDescent(tol=1e-9).solve(problem, np.array([start]))
        assert result.converged
        np.testing.assert_allclose(result.coef, best.coef, rtol=1e-6)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("scale", [1e-20, 1e4, 1e20])
def test_extreme_features_end_in_a_result(penalty, scale):
    problem = make("levels", penalty, C=min(1.0, 1.0 / scale), scale=scale)
    result = CoordinateDescent(max_iter=200).solve(problem)
    assert np.isfinite(result.coef).all()
    assert np.isfinite(result.objective)
    assert result.objective <= problem.start()[0]


@every_penalty
def test_empty_columns_get_no_weight(penalty):
    data, _, _ = make_data("levels")
    X = data.X.copy()
    X[:, 2] = 0.0
    problem = make_problem(data.replace(X=X), loss="domination", penalty=PENALTIES[penalty])
    for w0 in (None, np.ones(D)):
        result = CoordinateDescent(tol=1e-6, max_iter=5000).solve(problem, w0)
        assert result.converged
        assert result.coef[2] == 0.0


def test_queries_without_pairs_change_nothing():
    data, _, _ = make_data("levels")
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    X, y = np.vstack([9.0 * np.ones((3, D)), data.X]), np.append(np.zeros(3), data.y)
    more = RankingData(X, y, np.append([-1, -1, -2], qid))
    solve = CoordinateDescent(tol=1e-8, max_iter=5000).solve
    one, other = (solve(make_problem(d, loss="domination")).coef for d in (data, more))
    np.testing.assert_allclose(other, one, rtol=1e-12)


def test_a_path_uses_one_copy_of_the_columns(monkeypatch):
    made = []
    original = CoordinateSteps.__init__
    monkeypatch.setattr(
        CoordinateSteps, "__init__", lambda self, e: (made.append(e), original(self, e))[1]
    )
    problem = make("levels", "l2")
    path = regularization_path(problem, [0.1, 1.0], solver="coordinate-descent", tol=1e-8)
    assert made == [problem.engine]
    assert path.results[-1].objective == pytest.approx(optimum("levels", "l2")[1], rel=1e-9)


def test_warm_start_at_the_optimum_does_nothing():
    problem = make("levels", "l1")
    first = CoordinateDescent(tol=1e-8, max_iter=5000).solve(problem)
    again = CoordinateDescent(tol=1e-7).solve(problem, first.coef)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.coef, first.coef)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_the_end_of_precision_is_an_end(penalty):
    result = CoordinateDescent(tol=1e-300, max_iter=20_000).solve(make("levels", penalty))
    assert result.status is not Status.MAX_ITER
    assert result.objective == pytest.approx(optimum("levels", penalty)[1], rel=1e-12)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_interrupt_keeps_the_best_so_far(penalty):
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == 3:
            raise KeyboardInterrupt

    problem = make("levels", penalty)
    result = CoordinateDescent(tol=1e-12, callback=interrupt).solve(problem)
    assert result.status is Status.INTERRUPTED
    assert result.objective == seen[-1].objective < seen[0].objective
    assert problem.value_grad(result.coef)[0] == pytest.approx(result.objective)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_interrupt_before_anything_is_known(penalty, monkeypatch):
    problem = make("levels", penalty)

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(problem, "start", interrupt)
    result = CoordinateDescent().solve(problem)
    assert result.status is Status.INTERRUPTED
    assert not result.coef.any()


def test_max_iter_gives_a_sentence():
    result = CoordinateDescent(tol=1e-12, max_iter=2).solve(make("levels", "l2"))
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 2


def test_sums_over_pairs_are_refused():
    data, _, _ = make_data("levels")
    with pytest.raises(
        DataError, match=r"loss='squared_hinge' is a sum over pairs. Use solver='newton'"
    ):
        make_solver("coordinate-descent")
    with pytest.raises(DataError, match=r"loss='huber' is a sum over pairs"):
        CoordinateDescent().solve(make_problem(data, loss="huber", penalty=L1()))


def test_concave_penalties_are_refused():
    data, _, _ = make_data("levels")
    with pytest.raises(DataError, match=r"penalty='mcp'. Use solver='reweighted'"):
        make_solver("coordinate-descent", get_loss("domination"), MCP())
    problem = make_problem(data, loss="domination", penalty=MCP())
    with pytest.raises(DataError, match=r"penalty='mcp'. Use solver='reweighted'"):
        CoordinateDescent().solve(problem)
    assert Reweighted().solve(problem).coef.any()


def test_options_are_checked():
    solver = make_solver("coordinate-descent", get_loss("domination"), relax=False, tol=0.1)
    assert isinstance(solver, CoordinateDescent)
    assert (solver.relax, solver.tol) == (False, 0.1)
    with pytest.raises(DataError, match=r"relax is 1.5; expected True or False"):
        CoordinateDescent(relax=1.5)
