"""Every supported combination of loss, counting and solver reaches the reference optimum."""

from __future__ import annotations

import itertools
import re
from functools import cache

import numpy as np
import pytest

import reference
from linrank import DataError, RankingData, RankSVM
from linrank.choices import COUNTINGS
from linrank.losses import LOSSES, get_loss
from linrank.losses.pairwise import PAIRWISE
from linrank.penalties import L2, PENALTIES, make_penalty
from linrank.problem import make_problem
from linrank.solvers import SOLVERS, Solver, Status, make_solver, usable_solvers
from problems import PAPERS, make_problem_arrays

C = 0.1
PROBLEMS = ("five levels", "pairs of documents")
#: Largest relative distance to the optimum for each solver, at the tolerance of the tests.
TOLERANCES = {
    "cutting-planes": (1e-5, 1.1e-5), "smoothing": (1e-7, 1.1e-7), "dual": (1e-7, 1.1e-7)
}  # fmt: skip
ROUGH = {"sgd-pairs": (1e-4, 2e-2), "sgd-queries": (1e-4, 2e-2)}


def is_allowed(loss, counting, solver):
    if loss == "logistic_exact" and counting not in ("auto", "explicit"):
        return False
    return SOLVERS[solver].needs.complaint(get_loss(loss), L2()) is None


#: The paper's stopping rule is tested in test_solvers.py; its steps are those of "tron".
ALGORITHMS = [name for name in SOLVERS if name != "tron-paper"]
ALL = list(itertools.product(PAIRWISE, COUNTINGS, ALGORITHMS))
ALLOWED = [combination for combination in ALL if is_allowed(*combination)]
OTHERS = [combination for combination in ALL if not is_allowed(*combination)]


@cache
def known_optimum(kind, loss):
    X, y, qid = make_problem_arrays(kind, n=50, d=3)
    pairs = reference.preference_pairs(y, qid)
    if loss == "hinge":
        return reference.hinge_optimum(X, pairs, C)[1]
    if loss == "logistic_exact":
        return reference.optimum(X, pairs, C, reference.logistic_loss)[1]
    table = get_loss(loss).table
    return reference.optimum(X, pairs, C, lambda t: reference.hinge_loss(table, t))[1]


@pytest.mark.parametrize(("loss", "counting", "solver"), ALLOWED)
def test_allowed_combinations_reach_the_optimum(loss, counting, solver):
    tol, near = (TOLERANCES | ROUGH).get(solver, (1e-8, 1e-9))
    for kind in PROBLEMS:
        X, y, qid = make_problem_arrays(kind, n=50, d=3)
        problem = make_problem(RankingData(X, y, qid), C, loss=loss, counting=counting)
        result = make_solver(solver, problem.engine.loss, tol=tol, max_iter=2000).solve(problem)
        best = known_optimum(kind, loss)
        far = solver in ROUGH and result.objective > best * (1 + 10 * tol)
        assert result.status is Status.FAR if far else result.converged, result.message
        assert best * (1 - 1e-7) <= result.objective <= best * (1 + near)
        assert result.objective == pytest.approx(problem.value_grad(result.coef)[0], rel=1e-9)


def complaint(X, y, qid, options):
    """Return the error message of a fit with the options, or None."""
    try:
        RankSVM(C, max_iter=2000, **PAPERS | options).fit(X, y, qid)
    except DataError as error:
        return str(error)
    return None


@pytest.mark.parametrize(("loss", "counting", "solver"), OTHERS)
def test_others_say_what_works(loss, counting, solver):
    """The error names other choices, and these choices work."""
    X, y, qid = make_problem_arrays("five levels", n=50, d=3)
    options = {"loss": loss, "counting": counting, "solver": solver}
    while (sentence := complaint(X, y, qid, options)) is not None:
        advice = re.search(r"[Uu]se (loss|counting|solver)='([^']+)'", sentence)
        assert advice, sentence
        assert options[advice[1]] != advice[2], "the advice has been taken already"
        options[advice[1]] = advice[2]
    assert options != {"loss": loss, "counting": counting, "solver": solver}


@pytest.mark.parametrize("bounds", [None, "positive"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_solver_is_made_or_others_are_named(loss, penalty, bounds):
    """The checker accepts exactly the solvers that it lists."""
    chosen, one = get_loss(loss), make_penalty(penalty, bounds=bounds)
    for has_rows in (True, False):
        usable = usable_solvers(chosen, one, has_rows)
        for name in ("auto", *SOLVERS):
            if name in usable or (name == "auto" and usable):
                made = make_solver(name, chosen, one, has_rows=has_rows)
                assert isinstance(made, Solver)
                assert made.name == (usable[0] if name == "auto" else name)
                continue
            with pytest.raises(DataError) as error:
                make_solver(name, chosen, one, has_rows=has_rows)
            named = re.search(r"Use (solver|loss)='([^']+)'", str(error.value))
            assert named, str(error.value)
            if named[1] == "solver":
                assert named[2] == usable[0]
            else:
                assert not usable
                assert usable_solvers(get_loss(named[2]), one, has_rows)


def test_only_the_hinge_with_a_concave_penalty_has_no_solver():
    without = {
        (loss, penalty)
        for loss, one in LOSSES.items() for penalty in PENALTIES
        if not usable_solvers(one, make_penalty(penalty, bounds="positive"))
    }  # fmt: skip
    assert without == {("hinge", penalty) for penalty in ("mcp", "scad", "log", "lp")}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_the_smoothed_hinge_proves_how_near_it_is(C, weighted):
    X, y, qid = make_problem_arrays("five levels")
    weight = np.random.default_rng(0).random(len(y)) if weighted else None
    problem = make_problem(RankingData(X, y, qid, sample_weight=weight), C, loss="hinge")
    best = make_solver("smoothing", get_loss("hinge"), tol=1e-9).solve(problem).objective
    result = make_solver("smoothing", get_loss("hinge"), tol=1e-3).solve(problem)
    assert result.status is Status.CONVERGED
    assert result.gap <= 1e-3
    assert "of the optimum, certified" in result.message
    for step in result.history[1:]:
        assert step.objective * (1 - step.gap) <= best * (1 + 1e-12) <= step.objective * (1 + 1e-9)


def test_the_smoothed_hinge_with_rescaled_margins():
    X, y, qid = make_problem_arrays("five levels", n=50, d=3)
    ranker = RankSVM(C, loss="hinge", rescale="margin", tol=1e-6, **PAPERS).fit(X, y, qid)
    other = RankSVM(C, loss="hinge", rescale="margin", solver="cutting-planes", tol=1e-5, **PAPERS)
    assert ranker.result_.objective == pytest.approx(
        other.fit(X, y, qid).result_.objective, rel=2e-5
    )


@pytest.mark.parametrize(
    ("x", "y", "C"),
    [([0, 5, 8, 5], [2, 1, 0, 1], 2.0**-7), ([4, 2, 3, 2, 4, 7], [2, 1, 1, 0, 1, 2], 2.0**-6)],
)
def test_the_smoothed_hinge_where_its_gradient_is_exactly_zero(x, y, C):
    """When the corner narrows, the last pairs leave it, and w is exactly the optimum."""
    X, y, qid = np.array(x, float)[:, None], np.array(y), np.zeros(len(y))
    problem = make_problem(RankingData(X, y, qid), C, loss="hinge")
    result = make_solver("smoothing", get_loss("hinge"), tol=1e-6).solve(problem)
    assert result.converged
    best = reference.hinge_optimum(X, reference.preference_pairs(y, qid), C)[1]
    assert result.objective == pytest.approx(best, rel=1e-6)


def test_the_smoothed_hinge_keeps_the_best_on_ctrl_c():
    X, y, qid = make_problem_arrays("all distinct")
    seen = []

    def interrupt(step):
        seen.append(step)
        if len(seen) == 4:
            raise KeyboardInterrupt

    problem = make_problem(RankingData(X, y, qid), loss="hinge")
    solver = make_solver("smoothing", get_loss("hinge"), tol=1e-9, callback=interrupt)
    result = solver.solve(problem)
    assert result.status is Status.INTERRUPTED
    assert result.objective == seen[-1].objective
    assert problem.value_grad(result.coef)[0] == pytest.approx(result.objective)


@pytest.mark.parametrize("C", [1e-12, 1e-8, 1e6])
def test_the_smoothed_hinge_at_extreme_C(C):
    """At a tiny C, w = 0 is within the tolerance, but it ranks nothing."""
    X, y, qid = make_problem_arrays("five levels")
    ranker = RankSVM(C, loss="hinge", **PAPERS).fit(X, y, qid)
    assert ranker.result_.converged
    assert ranker.coef_.any()
