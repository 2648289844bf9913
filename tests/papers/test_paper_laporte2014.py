"""The algorithms of Laporte et al. 2014 against their twins, and the error of proposition 1."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad

import twin_laporte2014 as twin
from commandline import run, write_text
from linrank import DataError, RankingData, SparseRankSVM, make_problem
from linrank.penalties import L1, MCP, Log, Lp, make_penalty
from linrank.solvers import PaperFISTA, PaperReweighted, ProximalNewton, Reweighted, Status
from problems import PAPERS

N_STEPS = 25  #: steps of algorithm 1 that are compared
INNER, OUTER = 9, 4  #: steps of algorithm 1 in algorithm 2, whose first check would be the tenth
CONCAVE = {"mcp": MCP(), "log": Log(), "lp": Lp()}


def arrays(kind):
    """Dense features and levels; tied features and real labels; one query of sparse features."""
    rng = np.random.default_rng(0)
    n, d = 36, 5
    X = rng.standard_normal((n, d))
    score = X[:, :2] @ [1.0, -0.6] + 0.5 * rng.standard_normal(n)
    if kind == "levels":
        return X, np.digitize(score, [-1.0, 0.0, 1.0]).astype(float), rng.integers(0, 3, n)
    if kind == "real labels":
        return np.round(X), np.round(score, 1), rng.integers(0, 4, n)
    X[rng.random((n, d)) < 0.6] = 0.0
    return X, (score > 0).astype(float), np.zeros(n, int)


KINDS = ("levels", "real labels", "one query")


def problem_of(kind, penalty, multiple=20.0, **options):
    """The problem at a multiple of the first C at which l1 has a feature, and its pairs."""
    X, y, qid = arrays(kind)
    given = sparse.csr_array(X) if kind == "one query" else X
    problem = make_problem(RankingData(given, y, qid), penalty=L1(), **options)
    problem = problem.with_C(multiple * problem.smallest_C()).with_penalty(penalty)
    return problem, twin.preference_rows(X, y, qid)


def constant(pairs, lipschitz):
    return twin.printed_constant(pairs) * (1.0 if lipschitz == "printed" else 2.0)


def assert_equal(found, expected):
    """The weights agree to 1e-12 of the largest."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("lipschitz", ["corrected", "printed"])
@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.3, 2.0, 0.5]])
@pytest.mark.parametrize("kind", KINDS)
def test_algorithm_1_takes_the_steps_of_its_twin(kind, weights, accelerated, lipschitz):
    problem, pairs = problem_of(kind, L1(weights))
    beta = np.ones(5) if weights is None else np.array(weights)
    L, lam, zero = constant(pairs, lipschitz), 1.0 / problem.C, np.zeros(5)
    steps = list(twin.algorithm_1(pairs, lam, beta, L, zero, N_STEPS, accelerated))
    assert np.count_nonzero(steps[-1]) > 1
    for k, expected in enumerate(steps, 1):
        solver = PaperFISTA(1e-12, k, accelerated=accelerated, lipschitz=lipschitz)
        result = solver.solve(problem)
        assert_equal(result.coef, expected)
        value = problem.C * twin.loss(pairs, expected) + beta @ np.abs(expected)
        assert result.objective == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("penalty", CONCAVE)
@pytest.mark.parametrize("kind", KINDS)
def test_algorithm_2_takes_the_steps_of_its_twin(kind, penalty):
    problem, pairs = problem_of(kind, CONCAVE[penalty])
    L, lam = constant(pairs, "corrected"), 1.0 / problem.C
    steps = list(twin.algorithm_2(pairs, lam, penalty, L, INNER, OUTER))
    for k, expected in enumerate(steps, 1):
        solver = PaperReweighted(tol=1e-12, max_iter=k, inner_iter=INNER)
        result = solver.solve(problem)
        assert result.n_iter == k
        assert_equal(result.coef, expected)


@pytest.mark.parametrize("penalty", CONCAVE)
def test_algorithm_2_ends_where_ours_does(penalty):
    problem, _ = problem_of("levels", CONCAVE[penalty], normalize="pairs")
    ours, found = Reweighted().solve(problem), PaperReweighted().solve(problem)
    assert found.status is Status.CRITICAL
    assert found.objective == pytest.approx(ours.objective, rel=1e-3)
    np.testing.assert_array_equal(found.coef != 0, ours.coef != 0)


# Table II and figure 1 -----------------------------------------------------------------------


@pytest.mark.parametrize("penalty", CONCAVE)
@pytest.mark.parametrize("C", [0.2, 5.0])
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # l_p is steep at 0
def test_derivatives_are_those_of_table_2(penalty, C):
    """The penalties of figure 1 are the integrals of these derivatives from 0."""
    given = make_penalty(penalty).at(C)
    for u in (0.0, 0.03, 0.4, 1.0, 7.0):
        expected = twin.derivative(penalty, -u, 1.0 / C)
        assert given.slope(np.array([u])) == pytest.approx(expected, rel=1e-12)
        integral = 0.0
        if u:  # scipy 1.15 evaluates the integrand of an empty interval, and l_p is infinite at 0
            integral = quad(lambda v: twin.derivative(penalty, v, 1.0 / C), 0.0, u, limit=200)[0]
        assert given.curve(np.array([u])) == pytest.approx(integral, rel=1e-6, abs=1e-9)


# The error of proposition 1 ------------------------------------------------------------------


def test_the_printed_bound_oscillates_for_ever():
    """One pair with x̃ = 1: J₁ = (1 − w)², whose gradient has the constant 2, not 1.

    With λ = 4/3 the optimum is 1/3. Steps of length 1 jump over it to 2/3, and back to 0.
    """
    assert twin.printed_constant(np.ones((1, 1))) == 1.0
    assert twin.smallest_constant(np.ones((1, 1))) == 2.0
    problem = make_problem(RankingData([[1.0], [0.0]], [1, 0]), 0.75, penalty=L1())
    ends = [
        PaperFISTA(max_iter=k, accelerated=False, lipschitz="printed").solve(problem)
        for k in (1000, 1001)
    ]
    assert [end.coef[0] for end in ends] == pytest.approx([0.0, 2 / 3], abs=1e-9)
    assert all(end.status is Status.MAX_ITER for end in ends)
    once = PaperFISTA(max_iter=1).solve(problem)
    assert once.converged
    assert once.coef[0] == pytest.approx(1 / 3, rel=1e-12)


def test_the_printed_bound_fails_where_features_agree():
    """One direction has more than half of the trace, so the printed steps are too long.

    Eq. 10 then ends in a cycle of two points above the optimum. Momentum makes the steps chaotic,
    so only the corrected bound is tested with it.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    y = np.digitize(x + 0.6 * rng.standard_normal(40), [-1.0, 0.0, 1.0]).astype(float)
    X = np.column_stack([x, x])
    pairs = twin.preference_rows(X, y, np.zeros(40))
    assert twin.printed_constant(pairs) == pytest.approx(0.5 * twin.smallest_constant(pairs))
    problem = make_problem(RankingData(X, y), penalty=L1())
    problem = problem.with_C(1.5 * problem.smallest_C())
    best = ProximalNewton(tol=1e-10).solve(problem).objective
    for k in (500, 501):
        printed = PaperFISTA(lipschitz="printed", accelerated=False, max_iter=k).solve(problem)
        assert printed.status is Status.MAX_ITER
        assert printed.objective > 1.005 * best
    for accelerated in (False, True):
        corrected = PaperFISTA(tol=1e-6, accelerated=accelerated, max_iter=50).solve(problem)
        assert corrected.converged
        assert corrected.objective <= (1 + 1e-6) * best


@pytest.mark.parametrize("kind", KINDS)
def test_the_printed_bound_holds_where_no_direction_has_half_of_the_trace(kind):
    problem, pairs = problem_of(kind, L1())
    assert twin.printed_constant(pairs) >= twin.smallest_constant(pairs)
    slow, fast = (
        PaperFISTA(lipschitz=name, tol=1e-4, max_iter=5000).solve(problem)
        for name in ("corrected", "printed")
    )
    assert slow.converged
    assert fast.converged
    assert fast.n_iter <= slow.n_iter


# Use -----------------------------------------------------------------------------------------


def test_names_on_the_command_line(tmp_path):
    file = tmp_path / "train.txt"
    write_text(file, RankingData(*arrays("levels")))
    common = ("train", file, "--out", tmp_path / "model.json", "--C")
    option = "--solver-option"
    done = run(
        *common, 0.01, "--penalty", "l1", "--solver", "fista-paper", option, "lipschitz=printed",
        option, "accelerated=False",
    )  # fmt: skip
    assert "The stopping rule is met" in done.stdout
    done = run(
        *common, 0.1, "--penalty", "log", "--solver", "reweighted-paper", option, "inner_iter=2000"
    )
    assert "A critical point is reached" in done.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"solver": "fista-paper", "penalty": "log"},
         r"'fista-paper' does not support penalty='log'\. Use solver='reweighted'"),
        ({"solver": "fista-paper", "loss": "huber"},
         r"needs loss='squared_hinge', unlike loss='huber'\. Use solver='proximal-newton'"),
        ({"solver": "reweighted-paper", "loss": "domination", "penalty": "log"},
         r"needs loss='squared_hinge', unlike loss='domination'\. Use solver='reweighted'"),
        ({"solver": "reweighted-paper", "penalty": "l1"},
         r"does not support penalty='l1'\. Use solver='proximal-newton'"),
        ({"solver": "fista-paper", "bounds": "positive"},
         r"does not support bounds\. Use solver='proximal-newton'"),
    ],
)  # fmt: skip
def test_combinations_that_do_not_fit_get_a_sentence(options, sentence):
    X, y, qid = arrays("levels")
    with pytest.raises(DataError, match=sentence):
        SparseRankSVM(0.1, **PAPERS | options).fit(X, y, qid)


@pytest.mark.parametrize("kind", [PaperFISTA, PaperReweighted])
def test_unknown_bounds_get_a_sentence(kind):
    with pytest.raises(DataError, match="lipschitz is 'half'; known choices are 'corrected', 'pr"):
        kind(lipschitz="half")
