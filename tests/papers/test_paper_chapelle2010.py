"""Algorithms of Chapelle & Keerthi 2010, compared with twins written from the paper."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

import twin_chapelle2010 as twin
from commandline import error_of, run
from linrank import DataError, RankingData, RankSVM, load
from linrank.engines.engine import Engine
from linrank.engines.threads import ThreadEngine
from linrank.losses import get_loss
from linrank.papers.chapelle2010 import line_search, minres
from linrank.problem import make_problem
from linrank.solvers import NonlinearCG, PairSGD, PaperNewton, QuerySGD, Status
from linrank.solvers.sgd import StochasticPass
from linrank.solvers.solver import Iterate
from problems import PAPERS

C = 0.02


def learnable(n, d, seed, share=1.0):
    """Return X, and scores that its features explain up to noise, so that pairs become inactive."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < share)
    return X, X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)


def levels():
    """Dense rows, four levels, three queries."""
    X, scores = learnable(60, 6, seed=1)
    return X, np.digitize(scores, [-1.0, 0.5, 2.0]).astype(float), np.arange(60) // 20


def real_labels():
    """Real-valued labels, features with many ties."""
    X, scores = learnable(48, 5, seed=2)
    return np.round(2 * X) / 2, scores, np.arange(48) // 16


def one_query():
    """Sparse rows of one query with two classes: the area under the ROC curve (§5.2)."""
    X, scores = learnable(60, 8, seed=3, share=0.3)
    return sparse.csr_array(X), (scores > 0.5).astype(float), np.zeros(60, int)


PROBLEMS = pytest.mark.parametrize("arrays", [levels, real_labels, one_query])


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def make_both(arrays, C=C, **options):
    """Return the problem of linrank and the objective of the twin."""
    X, y, qid = arrays()
    return make_problem(RankingData(X, y, qid), C, **options), twin.Objective(dense(X), y, qid, C)


def iterates_of(solver, problem):
    """Return all iterates but the start, and the result."""
    seen = []
    solver.callback = lambda step: seen.append(solver.point.w.copy())
    result = solver.solve(problem)
    return seen[1:], result


def assert_same(found, expected, rel=1e-12):
    """Assert that iterates are equal to 1e-12 of their norms."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert np.linalg.norm(one - other) <= rel * np.linalg.norm(other)


# PRSVM and PRSVM+ -------------------------------------------------------------------------------


@PROBLEMS
@pytest.mark.parametrize("counting", ["explicit", "two-level"])
@pytest.mark.parametrize("system", ["minres", "cg", "exact"])
@pytest.mark.parametrize("search", ["never", "fallback", "always"])
def test_truncated_newton_takes_the_steps_of_the_paper(arrays, counting, system, search):
    """With this tolerance, the last step is still far above the rounding of the gradient."""
    problem, f = make_both(arrays, counting=counting)
    solver = PaperNewton(system=system, line_search=search, tol=2e-5)
    found, result = iterates_of(solver, problem)
    expected, ratios, decrements = twin.truncated_newton(
        f, problem.n_features, system, search, tol=2e-5
    )
    assert len(expected) >= 4
    assert_same(found, expected)
    assert result.history[-1].products == sum(map(len, ratios))
    assert result.status is Status.CONVERGED
    assert decrements[-1] <= 2e-5 < decrements[-2]


def test_the_defaults_are_those_of_the_paper():
    solver = PaperNewton()
    assert (solver.tol, solver.stop, solver.system) == (1e-6, "decrement", "minres")
    assert not solver.warm_starts


def differences(*rows):
    """Return data with one pair per row, whose difference x_i − x_j is this row."""
    X = np.array([half for row in rows for half in (row, [0.0] * len(row))], dtype=float)
    return RankingData(X, np.arange(len(X)) % 2 == 0, np.arange(len(X)) // 2)


def test_a_unit_step_that_raises_the_objective_is_shortened():
    """The second unit step raises the objective from 0.13 to 7.8."""
    problem = make_problem(differences([4, 2], [0, -4], [8, 7]), 4.0)
    runs = {}
    for search in ("never", "fallback"):
        solver = PaperNewton(line_search=search, system="cg", max_iter=20)
        runs[search] = solver.solve(problem)
    plain, shortened = ([step.objective for step in run.history] for run in runs.values())
    assert plain[:2] == shortened[:2]
    assert plain[2] > 50 * plain[1]
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(shortened))
    assert runs["fallback"].converged


@pytest.mark.parametrize("system", ["minres", "cg", "exact"])
@pytest.mark.parametrize("C", [1e-4, 1e-3])
def test_iteration_counts_on_mq2008(real_data, system, C):
    """The counts hold on any machine: no rule is decided within 1 % of its limit."""
    data = load(real_data / "MQ2008" / "Fold1" / "train.txt")
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    f = twin.Objective(np.asarray(data.X), data.y, qid, C)
    iterates, ratios, decrements = twin.truncated_newton(f, data.n_features, system)
    for limit, seen in ((1e-3, np.concatenate(ratios)), (1e-6, decrements)):
        assert (abs(np.log(np.asarray(seen) / limit)) > 0.01).all()
    for counting in ("explicit", "two-level"):
        result = PaperNewton(system=system).solve(make_problem(data, C, counting=counting))
        assert result.n_iter == len(iterates)
        assert [b.products - a.products for a, b in pairwise(result.history)] == [
            len(of) for of in ratios
        ]
        np.testing.assert_allclose(result.coef, iterates[-1], rtol=1e-6, atol=1e-9)


def ill_conditioned():
    """Features whose scales range over three orders of magnitude."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30)) * np.geomspace(1e-3, 1, 30)
    return X, rng.integers(0, 3, 200), np.arange(200) // 20


def test_a_limit_on_the_products_can_end_far_from_the_optimum():
    """With few products per system, the decrement of a step is too small. The status tells."""
    X, y, qid = ill_conditioned()
    problem = make_problem(RankingData(X, y, qid), 1e4)
    short = PaperNewton(cg_iter=2, tol=1e-4).solve(problem)
    long = PaperNewton(cg_iter=500, cg_tol=1e-8).solve(problem)
    assert short.status is Status.FAR
    assert not short.converged
    assert long.status is Status.CONVERGED
    assert long.objective < short.objective


def test_exact_steps_need_no_limit_on_the_products():
    """The same problem: the Newton decrement of an exact step tells the distance to the optimum."""
    X, y, qid = ill_conditioned()
    problem = make_problem(RankingData(X, y, qid), 1e4)
    exact = PaperNewton(system="exact", cg_iter=1).solve(problem)
    iterative = PaperNewton(cg_iter=500, cg_tol=1e-8).solve(problem)
    assert exact.status is Status.CONVERGED
    assert exact.n_products == 0
    assert exact.objective == pytest.approx(iterative.objective, rel=1e-6)


def test_a_hessian_that_is_too_large_gets_a_sentence():
    X = sparse.csr_array(([1.0], ([0], [20_000])), shape=(2, 20_001))
    problem = make_problem(RankingData(X, [1, 0]), C)
    with pytest.raises(DataError, match=r"20,001 × 20,001 .* Use system='minres'"):
        PaperNewton(system="exact").solve(problem)
    assert PaperNewton().solve(problem).converged


def test_minres_has_the_smallest_residual_of_each_krylov_space():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9, 9))
    H, b = A @ A.T + np.eye(9), rng.standard_normal(9)
    for most in range(1, 9):
        found = minres(lambda v: H @ v, b, 1e-15, most)
        expected, _ = twin.krylov_solve(H, b, "minres", 1e-15, most)
        np.testing.assert_allclose(found.x, expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.residual, b - H @ found.x, atol=1e-10)
        assert found.size == pytest.approx(found.residual @ found.residual, rel=1e-6, abs=1e-12)
    nothing = minres(lambda v: H @ v, np.zeros(9), 1e-3, 20)
    assert not nothing.x.any()
    assert nothing.n_products == 0


# §2: the line search and non-linear conjugate gradients -------------------------------------------


@PROBLEMS
@pytest.mark.parametrize("rule", ["secant", "cubic"])
def test_the_line_search_finds_the_minimum_of_the_piecewise_quadratic(arrays, rule):
    problem, f = make_both(arrays)
    w = np.random.default_rng(0).standard_normal(problem.n_features)
    origin = Iterate(w, *problem.value_grad(w))
    for first in (1e-3, 0.1, 5.0):
        found = line_search(problem, origin, -origin.gradient, first, rule, tol=1e-9)
        assert found.t == pytest.approx(twin.exact_minimum(f, w, -origin.gradient), rel=1e-7)
        rough = line_search(problem, origin, -origin.gradient, first, rule, tol=0.5)
        assert abs(rough.point.gradient @ origin.gradient) <= 0.5 * (
            origin.gradient @ origin.gradient
        )
    assert line_search(problem, origin, origin.gradient, 1.0) is None


@PROBLEMS
@pytest.mark.parametrize("beta", ["polak-ribiere", "fletcher-reeves"])
@pytest.mark.parametrize("rule", ["secant", "cubic"])
def test_nonlinear_conjugate_gradients(arrays, beta, rule):
    """Rounding grows with each line search, so that the twins are compared over eight steps."""
    problem, f = make_both(arrays)
    solver = NonlinearCG(beta=beta, line_search=rule, max_iter=8, tol=1e-12)
    found, _ = iterates_of(solver, problem)
    assert_same(found, twin.nonlinear_cg(f, problem.n_features, 8, beta, rule))


def test_a_trial_of_the_line_search_is_no_pass_over_the_rows():
    problem, _ = make_both(levels)
    result = NonlinearCG(max_iter=6, tol=1e-12).solve(problem)
    assert result.n_evaluations == 1 + result.n_iter


@pytest.mark.parametrize("normalize", [None, "pairs"])
def test_the_loss_on_a_line_is_that_of_its_points(normalize):
    """The engine's own function is compared with the one that evaluates gradients."""
    X, y, qid = levels()
    engine = ThreadEngine(RankingData(X, y, qid), get_loss("huber"), normalize)
    w, s = np.random.default_rng(0).standard_normal((2, engine.n_features))
    fast, slow = engine.line(w, s), Engine.line(engine, w, s)
    for t in (0.0, 0.3, -2.0):
        np.testing.assert_allclose(fast(t), slow(t), rtol=1e-11)


# §4: sums over sorted scores ----------------------------------------------------------------------


@PROBLEMS
@pytest.mark.parametrize("counting", ["two-level", "auto"])
def test_sums_of_section_4(arrays, counting):
    X, y, qid = arrays()
    data = RankingData(X, y, qid)
    X, y = dense(data.X), data.y
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    rng = np.random.default_rng(0)
    w, s = rng.standard_normal((2, data.n_features))
    L, g, Hs = 0.0, np.zeros(len(w)), np.zeros(len(w))
    hinge, hinge_g, shifted, shifted_g = 0.0, np.zeros(len(w)), 0.0, np.zeros(len(w))
    for docs, in_A in twin.by_query_and_level(y, qid):
        scores = X[docs] @ w
        value, slope, z = twin.section_4(scores, in_A, X[docs] @ s)
        L, g, Hs = L + value, g + slope @ X[docs], Hs + z @ X[docs]
        value, slope = twin.section_4_hinge(scores, in_A)
        hinge, hinge_g = hinge + value, hinge_g + slope @ X[docs]
        # max(0, −t)² is max(0, 1 − t)² for the score differences t + 1.
        value, slope, _ = twin.section_4(np.where(in_A, scores + 1.0, scores), in_A)
        shifted, shifted_g = shifted + value, shifted_g + slope @ X[docs]
    losses = {
        "squared_hinge": (L, g), "hinge": (hinge, hinge_g), "huber": (L - shifted, g - shifted_g)
    }  # fmt: skip
    for name, (value, gradient) in losses.items():
        engine = ThreadEngine(data, get_loss(name), counting=counting)
        found, slope = engine.value_grad(w)
        assert found == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(slope, gradient, rtol=1e-10, atol=1e-9)
        if name == "squared_hinge":
            np.testing.assert_allclose(engine.hessp(s), Hs, rtol=1e-10, atol=1e-9)


# §6.1: stochastic gradients -----------------------------------------------------------------------


@PROBLEMS
def test_algorithm_2(arrays):
    X, y, qid = arrays()
    data = RankingData(X, y, qid)
    problem = make_problem(data, C)
    solver = PairSGD(step="paper", average=False, seed=4, max_iter=3, tol=1e-12)
    found, _ = iterates_of(_Last(solver), problem)
    rng, pairs = np.random.default_rng(4), []
    steps = StochasticPass(problem.engine, "pairs", "paper")
    for _ in range(3):
        drawn = steps.sampler.draw_pairs(rng, steps.n_steps)
        pairs += zip(drawn.upper, drawn.lower, strict=True)
    expected = twin.algorithm_2(dense(data.X), pairs, problem.engine.n_pairs, C)
    assert_same(found, expected[steps.n_steps - 1 :: steps.n_steps])


@PROBLEMS
def test_algorithm_3(arrays):
    X, y, qid = arrays()
    data = RankingData(X, y, qid)
    problem = make_problem(data, 1e-4)
    solver = QuerySGD(step="paper", average=False, seed=4, max_iter=3, tol=1e-12)
    found, _ = iterates_of(_Last(solver), problem)
    rng, n = np.random.default_rng(4), StochasticPass(problem.engine, "queries").n_steps
    queries = np.concatenate([rng.integers(data.n_queries, size=n) for _ in range(3)])
    qid = np.repeat(np.arange(data.n_queries), np.diff(data.query_ptr))
    expected = twin.algorithm_3(dense(data.X), data.y, qid, queries, data.n_queries, 1e-4)
    assert_same(found, expected[n - 1 :: n])


class _Last:
    """A stochastic solver whose ``point.w`` is the last iterate and not the best one."""

    def __init__(self, solver):
        self.solver, self.callback = solver, None

    @property
    def point(self):
        return Iterate(self.solver._state.w, 0.0, np.zeros(0))

    def solve(self, problem):
        self.solver.callback = self.callback
        return self.solver.solve(problem)


def test_steps_that_diverge_get_a_sentence():
    X, y, qid = levels()
    problem = make_problem(RankingData(1e3 * X, y, qid), 1e3)
    with pytest.raises(DataError, match=r"has diverged.*Use step='adaptive'"):
        QuerySGD(step="paper", max_iter=200).solve(problem)


def test_the_mean_of_the_iterates_of_algorithm_2():
    problem, _ = make_both(levels)
    solver = PairSGD(step="paper", seed=4, max_iter=1, tol=1e-12)
    solver.solve(problem)
    steps, rng = StochasticPass(problem.engine, "pairs", "paper"), np.random.default_rng(4)
    drawn = steps.sampler.draw_pairs(rng, steps.n_steps)
    pairs = zip(drawn.upper, drawn.lower, strict=True)
    expected = twin.algorithm_2(levels()[0], pairs, problem.engine.n_pairs, C)
    mean = np.average(expected, axis=0, weights=np.arange(1, len(expected) + 1))
    np.testing.assert_allclose(solver.weights_of(solver._state), mean, rtol=1e-10)


def test_weighted_pairs_have_the_same_expected_step():
    """Twice the weight of all pairs is twice C."""
    X, y, qid = levels()
    one, two = (
        PairSGD(step="paper", average=False, max_iter=2, tol=1e-12).solve(
            make_problem(RankingData(X, y, qid, query_weight=weight), C)
        )
        for weight, C in ((np.ones(60), 0.02), (np.full(60, 2.0), 0.01))
    )
    np.testing.assert_allclose(one.coef, two.coef, rtol=1e-12)


# Names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["newton-paper", "--counting", "explicit", "--tol", "1e-6"],
        ["newton-paper", "--counting", "two-level", "--solver-option", "system=cg"],
        ["newton-paper", "--solver-option", "line_search=always"],
        ["newton-paper", "--counting", "explicit", "--solver-option", "system=exact"],
        ["nonlinear-cg", "--solver-option", "line_search=cubic"],
        ["sgd-pairs", "--solver-option", "step=paper", "--solver-option", "average=False"],
        ["sgd-queries", "--solver-option", "step=paper", "--max-iter", "5"],
    ],
)
def test_the_command_line_reaches_all_of_them(arguments, letor, here):
    run("train", letor / "train.txt", "--C", "0.001", "--solver", *arguments, code=None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["newton-paper", "--loss", "hinge"], "Use solver='smoothing'"),
        (["nonlinear-cg", "--loss", "hinge"], "Use solver='smoothing'"),
        (["newton-paper", "--penalty", "l1"], "Use solver='proximal-newton'"),
        (["newton-paper", "--solver-option", "system=qr"], "'minres', 'cg', 'exact'"),
        (["newton-paper", "--solver-option", "line_search=armijo"], "'never', 'fallback'"),
        (["newton-paper", "--solver-option", "cg_iter=0"], "cg_iter is 0"),
        (["tron", "--solver-option", "stop=decrement"], "'optimum', 'gradient'"),
        (["nonlinear-cg", "--solver-option", "beta=hs"], "'polak-ribiere'"),
        (["sgd-pairs", "--solver-option", "step=long"], "'adaptive', 'paper'"),
    ],
)
def test_names_that_do_not_fit_get_a_sentence(arguments, words, letor, here):
    assert words in error_of("train", letor / "train.txt", "--C", "1", "--solver", *arguments)


def test_streams_have_steps_of_their_own():
    X, y, qid = levels()
    with pytest.raises(DataError, match="step='adaptive'"):
        RankSVM(C=1.0, solver=PairSGD(step="paper"), **PAPERS).partial_fit(X, y, qid)
