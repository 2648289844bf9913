"""The dual problem of appendix A of Lee & Lin 2014, as a check of every primal solver."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from linrank import DataError, RankingData, RankSVM, make_ranking
from linrank.counting.preferences import Preferences
from linrank.losses import PairwiseLoss, get_loss
from linrank.problem import make_problem
from linrank.solvers import Dual, Status, dual, make_solver, usable_solvers
from problems import PAPERS, as_form, make_problem_arrays

#: The tolerance of a solver, and how far from the dual bound it may then be.
RULES = {"cutting-planes": (1e-5, 2e-5), "sgd-pairs": (1e-4, 2e-2), "sgd-queries": (1e-4, 2e-2)}


def make_data(kind="five levels", form="dense64", **weights):
    X, y, qid = make_problem_arrays(kind, n=60, d=4)
    return RankingData(as_form(X, form), y, qid, **weights)


def draw(seed):
    return np.random.default_rng(seed).uniform(0.2, 2.0, 60)


CASES = {
    "plain": {},
    "weights": {"data": make_data(sample_weight=draw(0))},
    "zero weights": {"data": make_data(sample_weight=np.arange(60) % 2 * 1.0)},
    "propensity": {"data": make_data(propensity=np.minimum(1.0, draw(1)))},
    "margins": {"data": make_data(margin=draw(2))},
    "adjacent": {"preferences": Preferences("adjacent")},
    "slack": {"preferences": Preferences("all", "slack")},
    "rescaled": {"preferences": Preferences("all", "margin", "gain")},
    "separable": {"preferences": Preferences("all", "margin", "label-squared")},
    "per pair": {"normalize": "pairs", "C": 10.0},
    "per query": {"normalize": "queries", "C": 3.0},
    "sparse": {"data": make_data(form="csr64")},
    "real labels": {"data": make_data("real labels")},
}


def build(loss, case):
    options = {"data": make_data(), "C": 0.05} | CASES[case]
    return make_problem(options.pop("data"), options.pop("C"), loss=loss, **options)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_every_primal_solver_agrees_with_the_dual(loss, case):
    """No primal objective is below the dual bound, and a converged one is near it."""
    problem = build(loss, case)
    solver = Dual(tol=1e-7, max_iter=20_000)
    result = solver.solve(problem)
    assert result.status is Status.CONVERGED
    assert problem.value_grad(result.coef)[0] == pytest.approx(result.objective, rel=1e-12)
    for name in usable_solvers(get_loss(loss)):
        if name in ("dual", "tron-paper"):  # tron-paper has the steps of tron
            continue
        tol, near = RULES.get(name, (1e-7, 3e-7))
        found = make_solver(name, get_loss(loss), tol=tol, max_iter=5000).solve(problem)
        assert found.converged or name.startswith("sgd"), found.message  # SGD may be far
        assert solver.bound * (1 - 1e-12) <= found.objective <= solver.bound * (1 + near), name


@pytest.mark.parametrize("form", ["dense32", "csr32", "csr64"])
def test_the_storage_of_X_does_not_matter(form):
    X = np.round(8 * make_problem_arrays("five levels", n=60, d=4)[0]) / 8  # exact in float32
    _, y, qid = make_problem_arrays("five levels", n=60, d=4)
    found = [
        Dual(max_iter=3, tol=1e-12).solve(make_problem(RankingData(Z, y, qid), 0.01)).objective
        for Z in (X, as_form(X, form))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_the_bound_and_the_objective_enclose_the_optimum():
    X, y, qid = make_problem_arrays("five levels", n=50, d=3)
    best = reference.hinge_optimum(X, reference.preference_pairs(y, qid), 0.1)[1]
    result = Dual(tol=1e-6).solve(make_problem(RankingData(X, y, qid), 0.1, loss="hinge"))
    assert len(result.history) > 5
    for step in result.history[1:]:
        below = step.objective * (1 - step.gap)
        assert below <= best * (1 + 1e-7)
        assert step.objective >= best * (1 - 1e-7)


def test_listed_pairs_and_a_pair_of_equal_rows():
    """Equal rows have no slope: their multiplier is C for the hinge, and the loss is constant."""
    X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    ranker = RankSVM(0.1, loss="hinge", solver="dual", tol=1e-9, **PAPERS)
    ranker.fit_pairs(X, [[0, 1], [0, 2], [2, 1]], pair_weight=[1.0, 2.0, 0.5])
    other = RankSVM(0.1, loss="hinge", tol=1e-9, **PAPERS)
    other.fit_pairs(X, [[0, 1], [0, 2], [2, 1]], pair_weight=[1.0, 2.0, 0.5])
    assert ranker.result_.gap <= 1e-9
    np.testing.assert_allclose(ranker.coef_, other.coef_, atol=1e-6)


def test_another_margin_and_slope():
    X, y, qid = make_problem_arrays("five levels", n=50, d=3)
    for table in ([(0.5, 3.0, 0.0)], [(2.0, 0.0, 0.25)]):
        loss = PairwiseLoss("mine", table)
        problem = make_problem(RankingData(X, y, qid), 0.02, loss=loss)
        result = Dual(tol=1e-8).solve(problem)
        best = make_solver("auto", loss, tol=1e-9).solve(problem).objective
        assert result.objective == pytest.approx(best, rel=1e-7)


def test_the_seed_decides_the_order():
    problem = make_problem(make_ranking(random_state=0), 0.001, loss="hinge")
    runs = [Dual(tol=1e-9, max_iter=2, seed=seed).solve(problem).coef for seed in (0, 0, 1)]
    assert runs[0].tobytes() == runs[1].tobytes() != runs[2].tobytes()


def test_too_many_pairs(monkeypatch):
    monkeypatch.setattr(dual, "MOST_PAIRS", 100)
    data = make_ranking(random_state=0)
    with pytest.raises(
        DataError, match=r"there are [0-9,]+ pairs.*at most 100\. Use solver='auto'"
    ):
        RankSVM(C=1.0, solver="dual", **PAPERS).fit(data.X, data.y, qid=data.qid)


def test_losses_that_are_not_one_hinge():
    for name in ("huber", "logistic", "logistic_exact", "domination"):
        with pytest.raises(DataError, match=r"needs loss='hinge' or 'squared_hinge'.*Use solver="):
            make_solver("dual", get_loss(name))
    with pytest.raises(DataError, match="seed is -1"):
        Dual(seed=-1)
