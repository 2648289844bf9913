"""Stochastic gradient descent: draws, steps compared with a slow reference, and convergence."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

import reference
from linrank import DataError, RankingData, make_ranking
from linrank.counting.preferences import Preferences
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.losses.pairwise import SQUARED_HINGE
from linrank.problem import make_problem
from linrank.solvers import Newton, Status, make_solver
from linrank.solvers.sgd import WINDOW, PairSGD, QuerySGD, SGDState, StochasticPass, stream_pass
from problems import as_form, make_problem_arrays

SOLVERS = [PairSGD, QuerySGD]


@pytest.fixture(params=SOLVERS, ids=["pairs", "queries"])
def sgd(request):
    return request.param


@pytest.fixture(params=["pairs", "queries"])
def over(request):
    return request.param


def small_data(weighted=False, seed=0):
    X, y, qid = make_problem_arrays("five levels", n=60, seed=seed)
    if not weighted:
        return RankingData(X, y, qid)
    rng = np.random.default_rng(seed + 1)
    weight = rng.integers(0, 4, len(y)) / 2
    return RankingData(X, y, qid, sample_weight=weight, query_weight=1.0 + qid % 3)


def optimum(problem):
    return Newton(tol=1e-9).solve(problem).objective


# Draws ----------------------------------------------------------------------------------------


def pair_weights(data):
    """Return the weight of every pair (i, j), as a matrix."""
    weights = np.zeros((data.n_docs, data.n_docs))
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    weight = np.ones(data.n_docs) if data.weight is None else data.weight
    query_weight = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
    for i, j in reference.preference_pairs(data.y, qid):
        weights[i, j] = weight[i] * weight[j] * query_weight[qid[i]]
    return weights


@pytest.mark.interpreted
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("counting", ["tables", "two-level", "explicit"])
def test_pairs_are_drawn_by_their_weight(weighted, counting):
    data = small_data(weighted)
    sampler = StochasticPass(ThreadEngine(data, SQUARED_HINGE, counting=counting), "pairs").sampler
    expected = pair_weights(data)
    assert sampler.mass == pytest.approx(expected.sum())
    n, found = 200_000, np.zeros_like(expected)
    pairs = sampler.draw_pairs(np.random.default_rng(0), n)
    np.add.at(found, (pairs.upper, pairs.lower), 1)
    assert not pairs.shift.any()
    assert not found[expected == 0].any()
    expected *= n / expected.sum()
    some = expected > 0
    chi2 = ((found - expected)[some] ** 2 / expected[some]).sum() / np.count_nonzero(some)
    assert 0.8 < chi2 < 1.2
    np.testing.assert_array_equal(sampler.rows, np.flatnonzero(expected.any(0) | expected.any(1)))


@pytest.mark.interpreted
def test_queries_are_drawn_by_the_weight_of_their_pairs():
    data = small_data(weighted=True)
    sampler = StochasticPass(ThreadEngine(data, SQUARED_HINGE), "queries").sampler
    expected = np.add.reduceat(pair_weights(data).sum(axis=1), data.query_ptr[:-1])
    queries, mass = sampler.draw_queries(np.random.default_rng(0), 50_000)
    np.testing.assert_allclose(mass, expected[queries])
    found = np.bincount(queries, minlength=data.n_queries) / 50_000
    np.testing.assert_allclose(found, expected / expected.sum(), atol=0.01)


@pytest.mark.interpreted
@pytest.mark.parametrize("counting", ["tables", "two-level", "explicit"])
@pytest.mark.parametrize("pairs", ["all", "adjacent"])
def test_heavy_documents_take_no_digits_from_later_ones(counting, pairs):
    """A pair of weights 1e17 × 1e-17 weighs 1, like each pair of the next query."""
    if pairs == "adjacent" and counting == "tables":
        counting = "auto"
    weight = np.array([1e17, 1e-17, 1.0, 1.0, 1.0, 1.0])
    data = RankingData(np.eye(6), [1, 0, 1, 0, 1, 0], [0, 0, 1, 1, 1, 1], sample_weight=weight)
    preferences = Preferences(pairs)
    engine = ThreadEngine(data, SQUARED_HINGE, counting=counting, preferences=preferences)
    sampler = StochasticPass(engine, "pairs").sampler
    assert sampler.mass == pytest.approx(5.0)
    assert engine.pair_weight == pytest.approx(5.0)  # what normalize= divides by
    drawn = sampler.draw_pairs(np.random.default_rng(0), 5000)
    found = np.zeros((6, 6))
    np.add.at(found, (drawn.upper, drawn.lower), 1)
    expected = np.zeros((6, 6))
    expected[[0, 2, 2, 4, 4], [1, 3, 5, 3, 5]] = 1000
    np.testing.assert_allclose(found, expected, atol=150)


def test_queries_without_pairs_are_never_drawn():
    X = np.random.default_rng(0).standard_normal((9, 2))
    data = RankingData(X, [1, 1, 1, 0, 1, 0, 2, 3, 1], np.arange(9) // 3)
    steps = StochasticPass(ThreadEngine(data, SQUARED_HINGE), "queries")
    assert steps.n_steps == 2
    assert set(steps.sampler.draw_queries(np.random.default_rng(0), 100)[0]) == {1, 2}
    assert StochasticPass(steps.engine, "pairs").n_steps == 6


def test_real_labels_are_drawn_uniformly():
    """All labels differ, and the labels of each query continue those of the one before."""
    data = RankingData(np.zeros((6, 1)), [0.0, 1.0, 2.0, 1.0, 0.0, 0.5], np.arange(6) // 3)
    sampler = StochasticPass(ThreadEngine(data, SQUARED_HINGE), "pairs").sampler
    upper, lower, _ = sampler.draw_pairs(np.random.default_rng(0), 6000)
    pairs, counts = np.unique(np.column_stack([upper, lower]), axis=0, return_counts=True)
    expected = [[1, 0], [2, 0], [2, 1], [3, 4], [3, 5], [5, 4]]
    assert pairs.tolist() == expected
    np.testing.assert_allclose(counts, 1000, atol=150)


# Steps, compared with a slow reference ----------------------------------------------------------


class Twin:
    """Run the whole algorithm on dense arrays, and keep every iterate."""

    def __init__(self, data, loss, C):
        self.X = data.X.toarray() if data.is_sparse else data.X
        self.qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
        self.data, self.table = data, loss.table
        self.weight = np.ones(data.n_docs) if data.weight is None else data.weight
        weights = np.ones(data.n_queries) if data.query_weight is None else data.query_weight
        self.query_weight = weights[self.qid]
        pairs = [
            (i, j)
            for i, j in reference.preference_pairs(data.y, self.qid)
            if self.weight[i] * self.weight[j] * self.query_weight[i] > 0
        ]
        mass = sum(self.weight[i] * self.weight[j] * self.query_weight[i] for i, j in pairs)
        rows = sorted({row for pair in pairs for row in pair})
        squares, counts = np.zeros((2, data.n_features))
        for row in rows:
            circle = [other for other in rows if self.qid[other] == self.qid[row]]
            following = circle[(circle.index(row) + 1) % len(circle)]
            squares += (self.X[row] - self.X[following]) ** 2
            counts += self.X[row] != self.X[following]
        self.differing = counts.sum() / len(rows)
        scale = np.divide(squares, counts, out=np.zeros_like(counts), where=counts > 0)
        bends = [2 * sum(c for t, _, c in self.table if t >= tau) for tau, _, _ in self.table]
        curvature = max(bends) + sum(a for _, a, _ in self.table)
        self.penalty = 1 / (C * mass)
        self.metric = 1 / (curvature * self.differing * scale + self.penalty)
        self.docs_per_query = len(rows) / len(set(self.qid[rows]))
        self.w = np.zeros(data.n_features)
        self.iterates, self.slopes = [], []

    def step(self, loss, gradient, eta, period):
        warm = max(1, int(np.ceil(30 * self.differing)))
        seen = sum(self.slopes)
        eta *= np.sqrt(sum(self.slopes[:warm]) / seen) if seen else 1.0
        steepness = float(gradient @ (self.metric * gradient))
        part = min(1.0, loss / (eta * steepness)) if steepness else 1.0
        self.slopes.append(part**2 * steepness)
        self.w = self.w - part * eta * self.metric * gradient
        if (len(self.iterates) + 1) % period == 0:
            self.w = self.w / (1 + eta * period * self.penalty * self.metric)
        self.iterates.append(self.w)

    def pair(self, i, j):
        x, y, qid = self.X[[i, j]], np.array([1, 0]), np.zeros(2)
        loss = reference.pairwise_loss(x @ self.w, y, qid, self.table)
        gradient = reference.pairwise_gradient(x @ self.w, y, qid, self.table) @ x
        self.step(loss, gradient, 1.0, period=1 + len(self.w) // 64)

    def query(self, q, mass):
        here = self.qid == q
        known = (
            self.X[here] @ self.w, self.data.y[here], self.qid[here], self.table,
            self.weight[here], self.query_weight[here],
        )  # fmt: skip
        loss = reference.pairwise_loss(*known) / mass
        gradient = reference.pairwise_gradient(*known) @ self.X[here] / mass
        self.step(loss, gradient, np.sqrt(min(self.docs_per_query, self.differing)), period=1)

    def mean(self):
        return np.average(self.iterates, axis=0, weights=np.arange(1, len(self.iterates) + 1))


def twin_data(form, weighted, d):
    """Return few documents, so that the slow reference does not take long."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((18, d)) * (rng.random((18, d)) < 0.05)
    X *= 10.0 ** rng.integers(-3, 4, d)
    y, qid, weights = rng.integers(0, 3, 18), np.arange(18) // 6, {}
    if weighted:
        weights = {"sample_weight": rng.integers(0, 3, 18), "query_weight": 1 + qid}
    return RankingData(as_form(X, form), y, qid, **weights)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.interpreted)])
@pytest.mark.parametrize("loss", ["squared_hinge", "huber", "hinge", "logistic"])
def test_steps_are_those_of_the_twin(over, loss, form, weighted):
    # With more than 64 features, the penalty is applied after every second pair only. A pair may
    # then stay at the corner of the hinge, where rounding decides which derivative it has.
    d, C, n = 40 if loss == "hinge" else 70, 0.3, 300
    data, loss = twin_data(form, weighted, d), get_loss(loss)
    steps, state = StochasticPass(ThreadEngine(data, loss), over), SGDState(d, seed=5)
    steps.join(state)
    steps.run(state, C, n // 2)  # two runs are equivalent to one
    steps.run(state, C, n - n // 2)
    twin, rng = Twin(data, loss, C), np.random.default_rng(5)
    for _ in range(2):
        if over == "pairs":
            pairs = steps.sampler.draw_pairs(rng, n // 2)
            for i, j in zip(pairs.upper, pairs.lower, strict=True):
                twin.pair(i, j)
        else:
            for q, mass in zip(*steps.sampler.draw_queries(rng, n // 2), strict=True):
                twin.query(q, mass)
    assert 30 * twin.differing < n - 30  # the step has become shorter
    assert state.n_steps == n
    np.testing.assert_allclose(state.w, twin.w, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(state.coef, twin.mean(), rtol=1e-7, atol=1e-12)


@pytest.mark.interpreted
def test_dense_and_csr_take_the_same_steps(sgd):
    data = make_ranking(20, 10, 15, random_state=0)
    X = data.X * (np.random.default_rng(0).random(data.X.shape) < 0.5)
    solve = sgd(max_iter=5, seed=3, tol=1e-9).solve
    dense, csr = (
        solve(make_problem(RankingData(form(X), data.y, data.qid), 0.1)).coef
        for form in (np.asarray, sparse.csr_array)
    )
    np.testing.assert_allclose(csr, dense, rtol=1e-10, atol=1e-12)


def test_single_precision_is_close(sgd):
    data = make_ranking(20, 10, 15, random_state=0)
    solve = sgd(max_iter=5, tol=1e-9).solve
    single, double = (
        solve(make_problem(RankingData(data.X.astype(dtype), data.y, data.qid), 0.1)).coef
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(single, double, rtol=1e-3, atol=1e-5)


def test_seed_makes_the_bits(sgd):
    problem = make_problem(small_data(), 0.1)
    first, again, other = (
        sgd(max_iter=20, seed=seed, tol=1e-9).solve(problem).coef for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_weight_0_is_removal(sgd):
    X, y, qid = make_problem_arrays("five levels", n=60)
    weight = 1.0 * (np.arange(60) % 4 > 0)
    kept = weight > 0
    solve = sgd(max_iter=3, tol=1e-9).solve
    one = solve(make_problem(RankingData(X, y, qid, sample_weight=weight), 0.1))
    two = solve(make_problem(RankingData(X[kept], y[kept], qid[kept]), 0.1))
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-12)
    no_query = solve(make_problem(RankingData(X, y, qid, query_weight=1.0 * (qid > 0)), 0.1))
    without = solve(make_problem(RankingData(X[qid > 0], y[qid > 0], qid[qid > 0]), 0.1))
    np.testing.assert_allclose(no_query.coef, without.coef, rtol=1e-12)


# Convergence ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_hinge", "huber", "logistic"])
@pytest.mark.parametrize("C", [1e-3, 0.1])
def test_reaches_the_optimum_of_smooth_losses(sgd, loss, C):
    problem = make_problem(small_data(), C, loss=loss)
    result = sgd(max_iter=1500, tol=1e-6).solve(problem)
    assert result.objective <= optimum(problem) * (1 + 1e-3)


def test_reaches_the_optimum_of_the_hinge(sgd):
    from sklearn.svm import LinearSVC

    data, C = small_data(), 0.01
    problem = make_problem(data, C, loss="hinge")
    pairs = np.array(reference.preference_pairs(data.y, data.qid))
    differences = data.X[pairs[:, 0]] - data.X[pairs[:, 1]]
    svm = LinearSVC(loss="hinge", fit_intercept=False, C=C / 2, tol=1e-6, max_iter=100_000)
    svm.fit(np.vstack([differences, -differences]), np.repeat([1, -1], len(pairs)))
    best = problem.value_grad(svm.coef_[0])[0]
    result = sgd(max_iter=1500, tol=1e-6).solve(problem)
    assert result.objective <= best * (1 + 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "preferences",
    [
        Preferences(pairs="adjacent"),
        Preferences(rescale="slack", delta="gain"),
        Preferences(rescale="margin", delta="label"),
        Preferences(rescale="margin", delta="label-squared"),
    ],
)
@pytest.mark.parametrize("counting", ["auto", "explicit"])
def test_reaches_the_optimum_of_other_preferences(sgd, preferences, counting):
    problem = make_problem(small_data(True), 0.02, preferences=preferences, counting=counting)
    result = sgd(max_iter=1000, tol=1e-6).solve(problem)
    assert result.objective <= optimum(problem) * (1 + 2e-3)


@pytest.mark.parametrize("normalize", ["pairs", "queries"])
def test_reaches_the_optimum_of_normalized_losses(sgd, normalize):
    problem = make_problem(small_data(True), 10.0, normalize=normalize)
    result = sgd(max_iter=1000, tol=1e-6).solve(problem)
    assert result.objective <= optimum(problem) * (1 + 2e-3)


def test_reaches_the_optimum_of_the_exact_logistic_loss(sgd):
    problem = make_problem(small_data(), 0.02, loss="logistic_exact")
    result = sgd(max_iter=1000, tol=1e-6).solve(problem)
    assert result.objective <= optimum(problem) * (1 + 1e-3)


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e-6])
def test_scales_of_features_and_C_hardly_matter(sgd, C, scale):
    data = make_ranking(100, 10, 10, n_levels=3, noise=0.7, random_state=0)
    X = data.X * np.append(scale, np.ones(9))
    problem = make_problem(RankingData(X, data.y, data.qid), C)
    result = sgd(max_iter=20, tol=1e-9).solve(problem)
    assert result.objective <= optimum(problem) * (1 + 0.02)


def test_wild_features_do_not_diverge(sgd):
    """Cauchy features have no finite variance, so any fixed step is too long for some pair."""
    rng = np.random.default_rng(0)
    data = RankingData(rng.standard_cauchy((600, 8)), rng.integers(0, 3, 600), np.arange(600) // 6)
    problem = make_problem(data, 1.0)
    solver = sgd(max_iter=20, tol=1e-9, average=False)
    solver.solve(problem)
    assert max(solver._values) < 1.5 * problem.start()[0]


def test_last_iterate_is_near_the_optimum_too(sgd):
    problem = make_problem(make_ranking(100, 10, 10, random_state=0), 0.1)
    mean, last = (
        sgd(max_iter=30, tol=1e-9, average=average).solve(problem) for average in (True, False)
    )
    assert optimum(problem) < mean.objective < last.objective < 1.1 * mean.objective


def test_constant_features_have_no_weight(sgd):
    X, y, qid = make_problem_arrays("five levels")
    X[:, 1] = 7.0
    result = sgd(max_iter=5, tol=1e-9).solve(make_problem(RankingData(X, y, qid), 0.1))
    assert np.isfinite(result.coef).all()
    assert result.coef[1] == pytest.approx(0.0, abs=1e-9)
    nothing = sgd(max_iter=3).solve(make_problem(RankingData(np.ones((4, 2)), [0, 1, 2, 3])))
    assert nothing.coef.tolist() == [0.0, 0.0]


def test_stops_when_the_objective_has_settled(sgd):
    problem = make_problem(make_ranking(100, 10, 10, random_state=0), 0.1, loss="hinge")
    solver = sgd(tol=1e-3)
    result = solver.solve(problem)
    assert result.status is Status.SETTLED
    last = solver._values[-WINDOW - 1 :]
    assert max(last) <= min(last) * (1 + 1e-3)
    before = solver._values[-WINDOW - 2 : -1]
    assert max(before) > min(before) * (1 + 1e-3)
    assert result.n_iter < 200


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_an_objective_that_settles_far_from_the_optimum_has_not_converged(sgd, loss):
    """The steps 1/t of the paper are too short if C is small, so the objective settles at once."""
    problem = make_problem(make_ranking(100, 10, 10, random_state=0), 1e-4, loss=loss)
    best = make_solver("auto", problem.engine.loss, tol=1e-6).solve(problem).objective
    far, near = (sgd(step=step).solve(problem) for step in ("paper", "adaptive"))
    assert far.objective > 1.02 * best
    assert far.status is Status.FAR
    assert not far.converged
    assert near.objective < 1.01 * best
    assert near.converged


def test_max_iter_counts_epochs(sgd):
    problem = make_problem(small_data(), 0.1)
    result = sgd(max_iter=2, tol=1e-9).solve(problem)
    assert result.status is Status.MAX_ITER
    assert (result.n_iter, result.n_products) == (2, 0)


def test_warm_start_at_the_optimum_does_nothing(sgd):
    problem = make_problem(small_data(), 0.1)
    best = Newton(tol=1e-6).solve(problem)
    again = sgd(tol=1e-4).solve(problem, best.coef)
    assert (again.n_iter, again.status) == (0, Status.CONVERGED)
    np.testing.assert_array_equal(again.coef, best.coef)


def test_history_has_the_best_so_far(sgd):
    problem = make_problem(small_data(), 0.1)
    result = sgd(max_iter=30, tol=1e-9, average=False).solve(problem)
    values = [step.objective for step in result.history]
    assert values == sorted(values, reverse=True)
    assert problem.value_grad(result.coef)[0] == result.objective == values[-1]


def test_interrupt_keeps_the_best(sgd):
    def interrupt(step):
        if step.iteration == 3:
            raise KeyboardInterrupt

    problem = make_problem(small_data(), 0.1)
    result = sgd(tol=1e-9, callback=interrupt).solve(problem)
    assert result.status is Status.INTERRUPTED
    assert result.objective == result.history[-1].objective < result.history[0].objective
    assert problem.value_grad(result.coef)[0] == result.objective


# Streams ----------------------------------------------------------------------------------------


def test_a_stream_gets_close_to_one_fit_of_all(over):
    data, C = make_ranking(1000, 10, 8, noise=0.7, random_state=0), 0.01
    state = None
    for rows in np.split(np.arange(data.n_docs), 10):
        state = stream_pass(state, data.take(rows), SQUARED_HINGE, C, over, seed=1)
    problem = make_problem(data, C)
    assert state.mass == problem.engine.n_pairs
    assert state.n_steps == StochasticPass(problem.engine, over).n_steps
    assert problem.value_grad(state.coef)[0] <= optimum(problem) * 1.02


def test_a_stream_goes_on_from_a_pickle(over):
    first, second = (make_ranking(20, 10, 5, random_state=seed) for seed in (0, 1))
    state = stream_pass(None, first, SQUARED_HINGE, 0.1, over)
    kept = pickle.loads(pickle.dumps(state))
    one, two = (stream_pass(s, second, SQUARED_HINGE, 0.1, over) for s in (state, kept))
    np.testing.assert_array_equal(one.coef, two.coef)


def test_a_batch_without_pairs_changes_nothing(over):
    empty = RankingData(np.ones((3, 5)), [1, 1, 1])
    state = stream_pass(None, empty, SQUARED_HINGE, 0.1, over)
    assert state.coef.tolist() == [0.0] * 5
    stream_pass(state, make_ranking(20, 10, 5, random_state=0), SQUARED_HINGE, 0.1, over)
    before = state.coef.copy()
    assert before.any()
    stream_pass(state, empty, SQUARED_HINGE, 0.1, over)
    np.testing.assert_array_equal(state.coef, before)


# Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": -1}, "seed is -1; expected a whole number"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"average": "yes"}, "average is 'yes'; expected True or False"),
        ({"tol": 0.0}, "tol is 0.0"),
    ],
)
def test_bad_options_get_a_sentence(sgd, options, words):
    with pytest.raises(DataError, match=words):
        sgd(**options)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"C": 0.0}, "C is 0.0; expected a finite number above 0"),
        ({"over": "docs"}, "over is 'docs'; known choices are 'pairs', 'queries'"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"state": SGDState(3)}, "X has 2 features, but the batches before had 3"),
        ({"data": RankingData([[1e200, 0], [0, 1]], [0, 1])}, "feature 0 of X is so large"),
    ],
)
def test_bad_streams_get_a_sentence(change, words):
    data = RankingData([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    options = {"state": None, "data": data, "loss": SQUARED_HINGE, "C": 1.0} | change
    with pytest.raises(DataError, match=words):
        stream_pass(**options)
