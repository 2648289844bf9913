"""Bounds of the weights: every loss and penalty reaches the optimum of an independent solver."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import linrank
import reference
from linrank import (
    DataError,
    DominationRank,
    LinearModel,
    NothingSelectedWarning,
    RankingData,
    RankSVM,
    RankSVMCV,
    SparseRankSVM,
    SparseRankSVMCV,
    sparse_path,
)
from linrank.losses import LOSSES, PairwiseLoss, get_loss
from linrank.penalties import L1, L2, MCP, ElasticNet, GroupL1, Log, make_penalty
from linrank.penalties.penalty import make_bounds
from linrank.problem import make_problem
from linrank.solvers import FISTA, Newton, ProximalNewton, Reweighted, Status, make_solver
from linrank.solvers.proximal_newton import ProximalSettings
from linrank.solvers.smooth import HessianSettings
from problems import PAPERS, as_form, make_problem_arrays, slow_loss

SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]
PENALTIES = {"l2": (0.0, 1.0), "l1": (1.0, 0.0), "elastic_net": (0.5, 0.5), "none": (0.0, 0.0)}


def random_bounds(rng, d):
    """Random bounds for each feature: a sign constraint, an interval or none."""
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    kind = rng.integers(0, 4, d)
    low[kind == 1] = 0.0
    high[kind == 2] = 0.0
    box = kind == 3
    low[box], high[box] = -rng.random(box.sum()), rng.random(box.sum())
    return low, high


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_reach_the_optimum_within_bounds(name, penalty, form):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y, qid = make_problem_arrays("five levels", n=40, d=6, seed=seed)
        low, high = random_bounds(rng, 6)
        C = float(10.0 ** rng.uniform(-2, 1))
        if penalty == "none":  # the loss alone may have no optimum
            low, high = np.maximum(low, -3.0), np.minimum(high, 3.0)
        l1, l2 = PENALTIES[penalty]
        _, best = reference.bounded_optimum(X, slow_loss(name, y, qid), C, low, high, l1, l2)
        data = RankingData(as_form(X, form), y, qid)
        bounded = make_penalty(penalty, bounds=(low, high))
        problem = make_problem(data, C, loss=name, penalty=bounded)
        result = make_solver("auto", problem.engine.loss, bounded, tol=1e-8).solve(problem)
        assert result.converged, result.message
        assert (result.coef >= low).all()
        assert (result.coef <= high).all()
        assert best * (1 - 1e-6) <= result.objective <= best * (1 + 1e-6)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_the_hinge_reaches_the_optimum_within_bounds(C, form):
    for seed in range(3):
        X, y, qid = make_problem_arrays("five levels", n=30, d=5, seed=seed)
        low, high = random_bounds(np.random.default_rng(seed), 5)
        pairs = reference.preference_pairs(y, qid)
        _, best = reference.bounded_hinge_optimum(X, pairs, C, low, high)
        ranker = RankSVM(C, loss="hinge", bounds=(low, high), tol=1e-7, **PAPERS)
        ranker.fit(as_form(X, form), y, qid)
        assert ranker.result_.gap <= 1e-7
        assert (np.clip(ranker.coef_, low, high) == ranker.coef_).all()
        assert ranker.result_.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_the_hinge_with_l1_reaches_the_optimum_within_bounds(C, form):
    for seed in range(3):
        X, y, qid = make_problem_arrays("five levels", n=30, d=5, seed=seed)
        low, high = random_bounds(np.random.default_rng(seed), 5)
        pairs = reference.preference_pairs(y, qid)
        for limits in ((low, high), (np.full(5, -np.inf), np.full(5, np.inf))):
            _, best = reference.sparse_hinge_optimum(X, pairs, C, *limits)
            ranker = SparseRankSVM(C, loss="hinge", bounds=limits, tol=1e-6, **PAPERS)
            ranker.fit(as_form(X, form), y, qid)
            assert ranker.result_.gap <= 1e-6
            assert (np.clip(ranker.coef_, *limits) == ranker.coef_).all()
            assert best * (1 - 1e-9) <= ranker.result_.objective <= best * (1 + 1e-6)


@pytest.mark.parametrize("C", [30.0, 4e5])
def test_the_hinge_with_l1_ends_exactly_for_few_pairs(C):
    """Smoothing alone makes no progress here: its gap stays the same for hundreds of iterations."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((8, 9)), np.array([1, 0, 0, 0, 0, 0, 0, 0])
        qid = np.array([0, 0, 0, 1, 1, 1, 2, 2])
        free = np.full(9, np.inf)
        pairs = reference.preference_pairs(y, qid)
        _, best = reference.sparse_hinge_optimum(X, pairs, C, -free, free)
        result = SparseRankSVM(C, loss="hinge", tol=1e-7, **PAPERS).fit(X, y, qid).result_
        assert result.status is Status.CONVERGED
        assert result.gap <= 1e-7
        assert result.n_iter < 70
        assert best * (1 - 1e-9) <= result.objective <= best * (1 + 1e-7)


@pytest.mark.parametrize("penalty", ["elastic_net", "none"])
def test_the_hinge_with_other_convex_penalties(penalty):
    """The smoothed loss is below the hinge by at most μ/2 for each pair."""
    X, y, qid = make_problem_arrays("five levels", n=30, d=4)
    pairs, width = reference.preference_pairs(y, qid), 1e-5
    table = get_loss("hinge").smoothed(width).table
    smooth = partial(reference.hinge_loss, table)
    low, high, l1, l2 = np.full(4, -2.0), np.full(4, 2.0), *PENALTIES[penalty]
    _, below = reference.bounded_optimum(
        X, lambda s: reference.sum_over_pairs(s, pairs, smooth)[:2], 0.1, low, high, l1, l2
    )
    ranker = SparseRankSVM(0.1, loss="hinge", penalty=penalty, bounds=(-2, 2), tol=1e-5, **PAPERS)
    objective = ranker.fit(X, y, qid).result_.objective
    assert below * (1 - 1e-6) <= objective <= (below + 0.05 * width * len(pairs)) * (1 + 1e-4)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("limit", [0, 4096])
def test_correlated_features_within_bounds(limit, C, monkeypatch):
    """With nearly equal features, a step of one is undone by another one at its bound."""
    monkeypatch.setattr("linrank.solvers.smooth.HESSIAN", HessianSettings(dense_limit=limit))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((60, 1)) + 0.1 * rng.standard_normal((60, 8))
        y, qid = np.round(2 * X[:, 0] + rng.standard_normal(60)), np.arange(60) // 15
        low, high = random_bounds(rng, 8)
        loss = slow_loss("squared_hinge", y, qid)
        _, best = reference.bounded_optimum(X, loss, C, low, high)
        problem = make_problem(RankingData(X, y, qid), C, penalty=L2(bounds=(low, high)))
        result = Newton(tol=1e-7).solve(problem)
        assert result.converged, result.message
        assert best * (1 - 1e-6) <= result.objective <= best * (1 + 1e-6)


@pytest.mark.parametrize("bounds", [(0.1, 0.5), (None, -0.2), (0.3, 0.3)])
@pytest.mark.parametrize("penalty", ["l2", "l1", "elastic_net"])
def test_bounds_without_zero(penalty, bounds):
    X, y, qid = make_problem_arrays("five levels", n=40, d=4)
    low, high = make_bounds(bounds, 4)
    loss = slow_loss("squared_hinge", y, qid)
    _, best = reference.bounded_optimum(X, loss, 0.1, low, high, *PENALTIES[penalty])
    chosen = make_penalty(penalty, bounds=bounds)
    problem = make_problem(RankingData(X, y, qid), 0.1, penalty=chosen)
    result = make_solver("auto", penalty=chosen, tol=1e-8).solve(problem)
    assert result.converged, result.message
    assert result.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("penalty", [L1(bounds=(-0.1, 0.3)), ElasticNet(bounds="positive")])
def test_the_solvers_of_sparse_problems_agree_within_bounds(penalty):
    X, y, qid = make_problem_arrays("five levels", n=60, d=6)
    problem = make_problem(RankingData(X, y, qid), 0.1, penalty=penalty)
    by_products = ProximalSettings(matrix_limit=0, largest_matrix=0)
    results = [
        solver.solve(problem)
        for solver in (
            ProximalNewton(tol=1e-9), ProximalNewton(tol=1e-7, settings=by_products),
            FISTA(tol=1e-7, max_iter=50_000),
        )
    ]  # fmt: skip
    for result in results:
        assert result.converged, result.message
        assert result.objective == pytest.approx(results[0].objective, rel=1e-6)
        assert result.gap <= 1e-7


@pytest.mark.parametrize("penalty", [MCP, Log])
def test_concave_penalties_within_bounds(penalty):
    X, y, qid = make_problem_arrays("five levels", n=60, d=6)
    bounded = penalty(bounds=(-0.2, 0.4))
    problem = make_problem(RankingData(X, y, qid), 0.1, penalty=bounded)
    for solver in (Reweighted(tol=1e-10), FISTA(tol=1e-6, max_iter=50_000)):
        result = solver.solve(problem)
        assert result.status is Status.CRITICAL
        assert (np.abs(result.coef - 0.1) <= 0.3 + 1e-15).all()
        _, gradient = problem.value_grad(result.coef)
        away = problem.penalty.distance(result.coef, gradient)
        assert np.linalg.norm(away) <= 1e-4 * problem.start()[1]


def test_certificates_hold_within_bounds():
    """½‖g‖² of the free features bounds the distance, and so does the duality gap."""
    X, y, qid = make_problem_arrays("five levels", n=60, d=6)
    for bounded in (L2(bounds="positive"), L1(bounds=(-0.05, 0.05)), ElasticNet(bounds=(0, 1))):
        problem = make_problem(RankingData(X, y, qid), 1.0, penalty=bounded)
        best = make_solver("auto", penalty=bounded, tol=1e-10).solve(problem).objective
        for tol in (0.5, 1e-2, 1e-5):
            result = make_solver("auto", penalty=bounded, tol=tol).solve(problem)
            assert result.objective <= best * (1 + tol)
            if result.gap is not None:
                assert result.objective * (1 - result.gap) <= best * (1 + 1e-9)
            else:
                bound = problem.gap_bound(problem.value_grad(result.coef)[1])
                assert result.objective - bound <= best * (1 + 1e-9)


def test_the_gradient_is_zero_where_a_bound_blocks_the_descent():
    X, y, qid = make_problem_arrays("five levels")
    free = make_problem(RankingData(X, y, qid))
    bounded = make_problem(RankingData(X, y, qid), penalty=L2(bounds="positive"))
    w = np.zeros(4)
    expected = free.value_grad(w)[1]
    np.testing.assert_array_equal(bounded.value_grad(w)[1], np.minimum(expected, 0.0))
    inside = np.full(4, 0.1)
    np.testing.assert_array_equal(bounded.value_grad(inside)[1], free.value_grad(inside)[1])


# Estimators --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ranker",
    [
        RankSVM(C=1.0, bounds="positive", **PAPERS),
        RankSVM(C=1.0, bounds="positive", loss="hinge", **PAPERS),
        RankSVMCV([0.1, 1.0], cv=2, bounds="positive", **PAPERS),
        SparseRankSVM(C=1.0, bounds="positive", **PAPERS),
        SparseRankSVM(C=1.0, penalty="mcp", bounds="positive", **PAPERS),
        SparseRankSVM(C=1.0, bounds="positive", debias=True, **PAPERS),
        SparseRankSVMCV([0.1, 1.0], cv=2, bounds="positive", **PAPERS),
        DominationRank(C=1.0, bounds="positive", **PAPERS),
        DominationRank(C=1.0, penalty="l2", bounds="positive", **PAPERS),
    ],
    ids=lambda ranker: type(ranker).__name__,
)
def test_estimators_keep_their_bounds(ranker):
    X, y, qid = make_problem_arrays("five levels", n=90, d=5)
    ranker = pickle.loads(pickle.dumps(clone(ranker)))
    assert ranker.get_params()["bounds"] == "positive"
    ranker.fit(X, y, qid)
    assert (ranker.coef_ >= 0).all()
    assert (clone(ranker).set_params(bounds=None).fit(X, y, qid).coef_ < 0).any()
    assert ranker.model_.settings["penalty"]["bounds"] == "positive"


@pytest.mark.parametrize("scale", ["standard", "minmax", "robust", "maxabs", "query", "log1p"])
def test_bounds_are_limits_of_the_weights_of_given_features(scale):
    X, y, qid = make_problem_arrays("five levels", n=90, d=5)
    X = X * [1.0, 1e3, 1e-3, 7.0, 0.3]
    free = RankSVM(C=1.0, scale=scale, tol=1e-8, normalize=None).fit(X, y, qid).coef_
    low, high = np.minimum(0.3 * free, 0.0), np.maximum(0.3 * free, 0.0)
    found = (
        RankSVM(C=1.0, scale=scale, tol=1e-8, bounds=(low, high), normalize=None)
        .fit(X, y, qid)
        .coef_
    )
    assert ((low <= found) & (found <= high)).all()
    np.testing.assert_allclose(found, 0.3 * free, rtol=1e-12)  # all weights are at a limit
    if scale == "standard":  # a slow twin
        factor = 1.0 / X.std(axis=0)
        twin = RankSVM(C=1.0, tol=1e-8, bounds=(low / factor, high / factor), **PAPERS).fit(
            X * factor, y, qid
        )
        np.testing.assert_allclose(found, twin.coef_ * factor, rtol=1e-6)


def test_every_linear_estimator_takes_bounds():
    """Except those without weights of features, and `MultiTopicRanker`, which passes them on."""
    names = [name for name in linrank.__all__ if hasattr(getattr(linrank, name), "get_params")]
    without = {n for n in names if "bounds" not in getattr(linrank, n)().get_params()}
    assert without == {
        "AdditiveRanker", "AdditiveRankerCV", "KernelRankSVM", "MultiTopicRanker"
    }  # fmt: skip
    assert len(names) == 11


def test_paths_take_bounds():
    X, y, qid = make_problem_arrays("five levels")
    path, _ = sparse_path(RankingData(X, y, qid), "l1", [0.1, 1.0], bounds=(None, 0.05))
    assert path.coefs.max() == 0.05


def test_no_limits_are_no_bounds():
    X, y, qid = make_problem_arrays("five levels")
    ranker = RankSVM(C=1.0, bounds=(None, None), solver="tron", **PAPERS).fit(X, y, qid)
    assert "bounds" not in ranker.model_.settings["penalty"]


def test_groups_take_bounds_of_zero_only():
    X, y, qid = make_problem_arrays("five levels")
    ranker = SparseRankSVM(C=1.0, penalty=GroupL1(groups=[0, 0, 1, 1]), bounds=(None, 1), **PAPERS)
    with pytest.raises(DataError, match=r"'group_l1' has a bound of 1 for feature 0\. Use"):
        ranker.fit(X, y, qid)
    for groups in ([[0, 1], [2]], [None, 1, 2, 3], [0, 1]):
        with pytest.raises(DataError, match="expected one group for each of the 4 features"):
            SparseRankSVM(C=1.0, penalty=GroupL1(groups=groups), **PAPERS).fit(X, y, qid)


def test_limits_by_feature_name_and_by_array(tmp_path):
    X, y, qid = make_problem_arrays("five levels", n=90, d=3)
    frame = pd.DataFrame(X, columns=["bm25", "age", "length"])
    free = RankSVM(C=1.0, **PAPERS).fit(frame, y, qid).coef_
    named = RankSVM(C=1.0, bounds=({"age": 1.0}, {"bm25": -1.0}), **PAPERS).fit(frame, y, qid).coef_
    assert free[1] < 1.0 == named[1]
    assert free[0] > -1.0 == named[0]
    listed = RankSVM(C=1.0, bounds=([-np.inf, 1.0, -np.inf], [-1.0, np.inf, np.inf]), **PAPERS).fit(
        X, y, qid
    )
    np.testing.assert_array_equal(listed.coef_, named)
    listed.model_.save(tmp_path / "model.json")
    saved = LinearModel.load(tmp_path / "model.json").settings["penalty"]["bounds"]
    assert saved == [[None, 1.0, None], [-1.0, None, None]]


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ("negative", "bounds is 'negative'; expected None, 'positive' or"),
        ((0,), r"bounds is \(0,\)"),
        ((1.0, 0.0), "bounds of feature 0 are 1 and 0; expected numbers with low ≤ high"),
        ((np.nan, 1.0), "bounds of feature 0 are nan"),
        (([0.0, 0.0], None), r"low has shape \(2,\); expected one number for each of the 4"),
        (("x", None), "low is 'x'; expected numbers"),
        (("0", "1"), "low is '0'; expected numbers"),
        ((1j, 2), "low is '1j'; expected numbers"),
        (({"age": 0}, None), "low is given by feature name, but the features have no names"),
    ],
)
def test_bad_bounds_get_a_sentence(bounds, words):
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match=words):
        RankSVM(C=1.0, bounds=bounds, **PAPERS).fit(X, y, qid)


@pytest.mark.parametrize("ranker", [RankSVM, partial(RankSVM, loss="hinge"), DominationRank,
                                    partial(SparseRankSVM, penalty="none"),
                                    partial(SparseRankSVM, penalty="none", solver="fista"),
                                    partial(DominationRank, penalty="l2")])  # fmt: skip
def test_a_start_away_from_zero_where_the_gradient_vanishes(ranker):
    """Pairs that contradict each other have no gradient at w = 0, which the bounds exclude."""
    X = np.array([[1.0, 1.0], [0.0, 0.0]] * 2)
    fitted = ranker(C=10.0, tol=1e-6, bounds=([1.0, -np.inf], None))
    fitted.fit(X, [1, 0, 0, 1], [0, 0, 1, 1])
    assert fitted.result_.converged
    balanced = make_problem(
        RankingData(X, [1, 0, 0, 1], [0, 0, 1, 1]), 10.0,
        loss=fitted.model_.settings["loss"],
    ).engine.value_grad(np.array([1.0, -1.0]))[0]  # fmt: skip
    assert fitted.coef_[0] >= 1.0
    assert fitted.result_.objective <= 10.0 * balanced + 2.0 + 1e-9


def test_series_are_limits_by_feature_name():
    X, y, qid = make_problem_arrays("five levels", d=3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = RankSVM(C=1.0, bounds=({"c": 0.5}, None), **PAPERS).fit(frame, y, qid)
    series = RankSVM(C=1.0, bounds=(pd.Series({"c": 0.5}), None), **PAPERS).fit(frame, y, qid)
    np.testing.assert_array_equal(series.coef_, named.coef_)
    assert series.model_.settings["penalty"]["bounds"] == [{"c": 0.5}, None]
    by_place = RankSVM(C=1.0, bounds=(pd.Series([-9.0, -9.0, 0.5]), None), **PAPERS).fit(
        frame, y, qid
    )
    assert by_place.coef_[2] == 0.5


def test_an_unknown_feature_gets_a_sentence():
    X, y, qid = make_problem_arrays("five levels", d=2)
    frame = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(DataError, match="low names 'c', which is not a feature"):
        RankSVM(C=1.0, bounds=({"c": 0}, None), **PAPERS).fit(frame, y, qid)


def test_bounds_that_leave_no_weight_give_a_warning():
    X, y = np.arange(10.0)[:, None], np.arange(10)
    with pytest.warns(
        NothingSelectedWarning, match="all weights are 0: no feature lowers the loss"
    ):
        RankSVM(C=1.0, bounds=(None, 0.0), **PAPERS).fit(X, y)
    assert RankSVM(C=1.0, bounds=(0.0, 0.5), **PAPERS).fit(X, y).coef_.any()


@pytest.mark.parametrize("solver", ["tron", "lbfgs", "cutting-planes", "sgd-pairs"])
def test_solvers_without_bounds_name_one_with(solver):
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match=r"does not support bounds\. Use solver='newton'"):
        RankSVM(C=1.0, bounds="positive", solver=solver, **PAPERS).fit(X, y, qid)


# Parts as objects --------------------------------------------------------------------------


def test_a_loss_of_ones_own_reaches_its_optimum():
    """Two corners and a parabola: no named loss has these."""
    table = [(1.0, 1.0, 0.5), (0.3, 0.0, 0.25), (-0.5, 2.0, 0.0)]
    X, y, qid = make_problem_arrays("five levels", n=40, d=3)
    pairs = reference.preference_pairs(y, qid)
    ranker = RankSVM(0.1, loss=PairwiseLoss("mine", table), tol=1e-6, **PAPERS).fit(X, y, qid)
    assert ranker.result_.gap <= 1e-6
    other = RankSVM(
        0.1, loss=PairwiseLoss("mine", table), solver="cutting-planes", tol=1e-6, **PAPERS
    )
    assert other.fit(X, y, qid).result_.objective == pytest.approx(
        ranker.result_.objective, rel=2e-6
    )
    scores = X @ ranker.coef_
    slow = reference.sum_over_pairs(scores, pairs, lambda t: reference.hinge_loss(table, t))[0]
    ridge = 0.5 * ranker.coef_ @ ranker.coef_
    assert ranker.result_.objective == pytest.approx(ridge + 0.1 * slow, rel=1e-9)
    assert ranker.model_.settings["loss"] == {"name": "mine", "table": [list(r) for r in table]}


def test_groups_are_chosen_together():
    rng = np.random.default_rng(0)
    X, qid = rng.standard_normal((200, 6)), np.arange(200) // 10
    y = np.round(X[:, 0] + X[:, 1] - X[:, 2])
    penalty = GroupL1(groups=["a", "a", "a", "b", "b", "b"])
    ranker = SparseRankSVM(1e-3, penalty=penalty, tol=1e-6, **PAPERS).fit(X, y, qid)
    assert ranker.result_.gap <= 1e-6
    assert (ranker.coef_[:3] != 0).all()
    assert (ranker.coef_[3:] == 0).all()
    least = make_problem(RankingData(X, y, qid), penalty=penalty).smallest_C()
    with pytest.warns(NothingSelectedWarning):
        SparseRankSVM(0.999 * least, penalty=penalty, **PAPERS).fit(X, y, qid)
    assert SparseRankSVM(1.01 * least, penalty=penalty, **PAPERS).fit(X, y, qid).coef_.any()
