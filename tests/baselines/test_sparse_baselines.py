"""FenchelRank, FSMRank, GAS and GASRanker against listed pairs, other solvers and known answers."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from linrank import DataError, LinearModel, NotConvergedWarning, RankSVM, evaluate, make_ranking
from linrank.baselines import GAS, FenchelRank, FSMRank, GASRanker
from linrank.baselines.fenchel_rank import MeanLoss
from linrank.baselines.gas import MAX_FEATURES, concordances
from linrank.data.ranking import RankingData
from linrank.errors import NothingSelectedWarning
from linrank.penalties import L1
from linrank.problem import Problem, make_problem
from linrank.solvers.proximal_newton import ProximalNewton
from linrank.solvers.result import Status
from problems import PAPERS, as_form, make_problem_arrays
from reference import preference_pairs

pytestmark = pytest.mark.slow

RANKERS = [FenchelRank(0.5), FSMRank(0.05), GASRanker(2)]
ALL = [*RANKERS, GAS(2)]
named = pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
named_all = pytest.mark.parametrize("method", ALL, ids=lambda method: type(method).__name__)


@pytest.fixture(scope="module")
def arrays():
    """A problem that can be learnt, with three queries in random row order."""
    X, _, qid = make_problem_arrays("five levels", n=60)
    noise = np.random.default_rng(1).standard_normal(60)
    return X, np.clip(np.round(X[:, 0] - 0.7 * X[:, 1] + 0.5 * noise), 0, 2), qid


def mean_loss(X, y, qid):
    """w ↦ F(w) and its gradient, over listed pairs."""
    pairs = np.array(preference_pairs(y, qid))
    D = X[pairs[:, 0]] - X[pairs[:, 1]]

    def F(w):
        room = np.maximum(0.0, 1.0 - D @ w)
        return np.mean(room**2), -2.0 * D.T @ room / len(D)

    return F


@parametrize_with_checks(
    [
        FenchelRank(0.01),
        FSMRank(importance="pairwise-accuracy", max_iter=10_000),
        GAS(1, importance="pairwise-accuracy"),
        GASRanker(1, importance="pairwise-accuracy"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# FenchelRank -------------------------------------------------------------------------------


@pytest.mark.interpreted
@pytest.mark.parametrize(("r", "weight"), [(0.5, 0.5), (1.0, 1.0), (4.0, 1.0)])
def test_fenchel_rank_of_one_pair(r, weight):
    ranker = FenchelRank(r).fit([[1.0], [0.0]], [1, 0])  # minimises max(0, 1 − w)²
    assert ranker.coef_ == pytest.approx([weight], abs=1e-12)
    assert ranker.result_.objective == pytest.approx((1.0 - weight) ** 2, abs=1e-12)


@pytest.mark.parametrize("r", [0.1, pytest.param(0.6, marks=pytest.mark.interpreted), 1.5])
def test_fenchel_rank_finds_the_optimum_of_a_quadratic_program(arrays, r):
    F, d = mean_loss(*arrays), arrays[0].shape[1]
    found = minimize(  # in w⁺, w⁻ ≥ 0 with Σ(w⁺ + w⁻) ≤ r
        lambda z: F(z[:d] - z[d:])[0],
        np.full(2 * d, r / (4 * d)),
        bounds=[(0, None)] * (2 * d),
        constraints={"type": "ineq", "fun": lambda z: r - z.sum()},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    ranker = FenchelRank(r, max_iter=2000).fit(*arrays)
    result = ranker.result_
    assert np.abs(ranker.coef_).sum() <= r * (1 + 1e-12)
    assert result.objective == pytest.approx(F(ranker.coef_)[0])
    assert found.fun - 1e-8 <= result.objective <= found.fun + 1e-3
    assert result.objective * (1.0 - result.gap) <= found.fun + 1e-8  # the bound is one


def test_fenchel_rank_finds_the_optimum_of_the_penalised_problem():
    data = make_ranking(20, (5, 15), 8, noise=1.0, random_state=3)
    engine = make_problem(data, normalize="pairs").engine
    best = ProximalNewton(tol=1e-9).solve(Problem(engine, 4.0, L1()))
    r = float(np.abs(best.coef).sum())
    loss = engine.value_grad(best.coef)[0]
    assert 0 < np.count_nonzero(best.coef) < 8
    ranker = FenchelRank(r).fit(data.X, data.y, data.qid)
    assert loss - 1e-9 <= ranker.result_.objective <= loss + 1e-3
    np.testing.assert_array_equal(ranker.get_support(), best.coef != 0)


@pytest.mark.interpreted
def test_fenchel_rank_takes_the_steps_of_the_paper(arrays):
    F, r, w = mean_loss(*arrays), 1.5, np.zeros(4)
    for _ in range(6):
        g = F(w)[1]
        j = np.argmax(np.abs(g))
        corner = np.zeros(4)
        corner[j] = -np.sign(g[j]) * r
        step = minimize_scalar(
            lambda mu, w=w, corner=corner: F(w + mu * (corner - w))[0],
            bounds=(0, 1), method="bounded", options={"xatol": 1e-12},
        ).x  # fmt: skip
        w = w + step * (corner - w)
    with pytest.warns(NotConvergedWarning, match="largest number of iterations .* 6 iterations"):
        ranker = FenchelRank(r, tol=1e-9, max_iter=6, corrective=False).fit(*arrays)
    np.testing.assert_allclose(ranker.coef_, w, atol=1e-5)
    assert (ranker.coef_ == 0).sum() == (w == 0).sum()


@pytest.mark.interpreted
@pytest.mark.parametrize("r", [0.3, 1.0, 3.0, 10.0])
def test_fenchel_rank_converges_on_small_data(r):
    """The steps of the paper alternate between the corners of a face of the ball for r = 1.

    They end with MAX_ITER there.
    """
    data = make_ranking(12, 8, 5, random_state=0)
    ranker = FenchelRank(r, tol=1e-4).fit(data.X, data.y, data.qid)
    assert ranker.result_.status is Status.CONVERGED
    assert np.abs(ranker.coef_).sum() <= r * (1 + 1e-12)
    F = mean_loss(data.X, data.y, data.qid)
    value, gradient = F(ranker.coef_)
    assert ranker.coef_ @ gradient + r * np.abs(gradient).max() <= 1.1e-4  # the gap of the paper
    assert ranker.result_.objective == pytest.approx(value)


def test_corrective_steps_end_with_features_of_weight_zero():
    data = make_ranking(30, (5, 15), 10, noise=1.0, random_state=0)
    arrays, r = (data.X, data.y, data.qid), 1.0
    plain = FenchelRank(r, corrective=False, max_iter=5000).fit(*arrays)
    ranker = FenchelRank(r, tol=1e-9).fit(*arrays)
    assert ranker.result_.status is Status.CONVERGED
    assert ranker.n_iter_ < plain.n_iter_ / 5
    assert ranker.n_selected_ <= plain.n_selected_


def test_fenchel_rank_goes_on_until_the_gap_is_small(arrays):
    ranker = FenchelRank(1.0, tol=1e-3).fit(*arrays)
    gaps = [step.gap * step.objective for step in ranker.result_.history[1:-1]]
    assert min(gaps) > 1e-3 >= ranker.result_.gap * ranker.result_.objective
    values = [step.objective for step in ranker.result_.history]
    assert (np.diff(values) < 0).all()


def test_larger_balls_hold_more_features():
    data = make_ranking(30, (5, 15), 10, noise=1.0, random_state=0)
    counts = [
        FenchelRank(r, max_iter=5000).fit(data.X, data.y, data.qid).n_selected_
        for r in (0.1, 0.4, 2.0)
    ]
    assert counts[0] < counts[1] < counts[2]


def test_fenchel_rank_weights_pairs(arrays):
    X, y, qid = arrays
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 60)
    copies = np.repeat(np.arange(60), weight.astype(int))
    found = FenchelRank(0.5).fit(X, y, qid, sample_weight=weight)
    expected = FenchelRank(0.5).fit(X[copies], y[copies], qid[copies])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    one = np.where(qid == 0, 1.0, 0.0)
    found = FenchelRank(0.5).fit(X, y, qid, query_weight=one)
    expected = FenchelRank(0.5).fit(X[qid == 0], y[qid == 0])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)


def test_features_that_never_differ_are_not_picked(arrays):
    _, y, qid = arrays
    with pytest.warns(NothingSelectedWarning, match="no feature lowers the loss"):
        ranker = FenchelRank().fit(np.ones((60, 2)), y, qid)
    assert ranker.coef_.tolist() == [0.0, 0.0]
    assert ranker.result_.converged
    with pytest.warns(NothingSelectedWarning, match="no feature is selected"):
        assert FSMRank().fit(np.ones((60, 2)), y, qid).n_selected_ == 0


# GAS -----------------------------------------------------------------------------------------


def slow_concordances(X, qid):
    """Over listed pairs of documents."""
    queries = [np.flatnonzero(qid == q) for q in np.unique(qid)]
    parts = []
    for rows in (rows for rows in queries if len(rows) > 1):
        above = X[rows, None, :] > X[None, rows, :]
        alike = np.einsum("abi,abj->ij", above.astype(float), above.astype(float))
        parts.append(alike / (len(rows) * (len(rows) - 1) / 2))
    return np.mean(parts, axis=0)


@pytest.mark.interpreted
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["five levels", "all distinct", "pairs of documents"])
def test_concordances_are_those_of_listed_pairs(kind, tied):
    X, y, qid = make_problem_arrays(kind, n=31, tied=tied)
    data = RankingData(X, y, qid)
    for n_threads in (1, 2):
        found = concordances(np.ascontiguousarray(data.X.T), data.query_ptr, n_threads)
        np.testing.assert_allclose(found, slow_concordances(X, qid), rtol=1e-12, atol=1e-15)


def test_concordances_are_kendalls_tau_where_there_are_no_ties():
    X = np.random.default_rng(0).standard_normal((40, 3))
    found = concordances(np.ascontiguousarray(X.T), np.array([0, 40]))
    tau = [[kendalltau(X[:, i], X[:, j])[0] for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(found, 0.5 * (1.0 + np.array(tau)), rtol=1e-12)


def test_concordances_are_positive_semidefinite():
    X, y, qid = make_problem_arrays("five levels", n=60, d=20, tied=True)
    data = RankingData(X, y, qid)
    found = concordances(np.ascontiguousarray(data.X.T), data.query_ptr)
    assert np.linalg.eigvalsh(found).min() > -1e-12


@pytest.mark.interpreted
@pytest.mark.parametrize("metric", ["ndcg@10", "map"])
def test_importance_is_the_metric_of_the_better_direction(arrays, metric):
    X, y, qid = arrays
    gas = GAS(importance=metric).fit(X, y, qid)
    for j in range(4):
        up, down = (evaluate(y, s * X[:, j], qid, metric).mean[metric] for s in (1, -1))
        assert gas.importances_[j] == pytest.approx(max(up, down), rel=1e-12)
        assert gas.directions_[j] == (1 if up >= down else -1)
    assert gas.directions_[:2].tolist() == [1, -1]
    np.testing.assert_allclose(
        gas.similarities_, slow_concordances(X * gas.directions_, qid), rtol=1e-12
    )


def test_turning_a_feature_round_changes_nothing(arrays):
    X, y, qid = arrays
    gas, other = GAS().fit(X, y, qid), GAS().fit(X * [1, -1, -1, 1], y, qid)
    np.testing.assert_allclose(other.importances_, gas.importances_, rtol=1e-12)
    np.testing.assert_allclose(other.similarities_, gas.similarities_, rtol=1e-12)
    np.testing.assert_array_equal(other.ranking_, gas.ranking_)


@pytest.mark.parametrize("c", [0.0, 0.05, 10.0])
def test_every_pick_is_the_best_of_those_left(c):
    data = make_ranking(20, (5, 15), 8, noise=1.0, random_state=0)
    gas = GAS(c=c).fit(data.X, data.y, data.qid)
    v, e = gas.importances_, gas.similarities_
    picked = []
    for j in np.argsort(gas.ranking_):
        left = [k for k in range(8) if k not in picked]
        gains = [v[k] - 2 * c * sum(e[k, i] for i in picked) for k in left]
        assert j == left[int(np.argmax(gains))]
        picked.append(j)
    assert sorted(gas.ranking_) == list(range(1, 9))


def test_similar_features_are_put_off():
    rng = np.random.default_rng(0)
    good, weak = rng.standard_normal((2, 200))
    y = (good + 0.3 * weak > 0.5).astype(int)
    X = np.column_stack([good, 2.0 * good, weak])
    assert GAS(2, c=0.0).fit(X, y).get_support().tolist() == [True, True, False]
    assert GAS(2, c=1.0).fit(X, y).get_support().tolist() == [True, False, True]


def test_gas_selects_columns(arrays):
    X, y, qid = arrays
    gas = GAS(3).fit(X, y, qid)
    np.testing.assert_array_equal(gas.transform(X), X[:, gas.ranking_ <= 3])
    assert GAS().fit(X, y, qid).get_support().sum() == 2  # half of them
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(GAS(3), RankSVM(C=0.1, **PAPERS)).fit(X, y, qid=qid)
    expected = RankSVM(C=0.1, **PAPERS).fit(gas.transform(X), y, qid)
    np.testing.assert_array_equal(pipeline[-1].coef_, expected.coef_)


@pytest.mark.parametrize("form", ["dense64", "csr64"])
def test_gas_ranker_is_ranksvm_on_the_selected_features(form, arrays):
    X, y, qid = arrays
    gas = GAS(3, importance="map", c=0.2).fit(X, y, qid)
    expected = RankSVM(C=0.1, tol=1e-9, **PAPERS).fit(gas.transform(X), y, qid).coef_
    ranker = GASRanker(3, C=0.1, importance="map", c=0.2, tol=1e-9).fit(as_form(X, form), y, qid)
    np.testing.assert_array_equal(ranker.get_support(), gas.get_support())
    np.testing.assert_allclose(ranker.coef_[gas.get_support()], expected, rtol=1e-7)
    assert ranker.coef_[~gas.get_support()].tolist() == [0.0]
    np.testing.assert_array_equal(ranker.selector_.ranking_, gas.ranking_)


# FSMRank ---------------------------------------------------------------------------------------


@pytest.mark.interpreted
@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
def test_fsm_rank_of_one_pair(mu):
    # The feature ranks perfectly and tells the pair apart: (1 − w)² + ½μw².
    ranker = FSMRank(1.0, similarity_weight=mu, tol=1e-6).fit([[1.0], [0.0]], [1, 0])
    assert (ranker.importances_, ranker.similarities_) == ([1.0], [[1.0]])
    assert ranker.coef_ == pytest.approx([1.0 / (1.0 + 0.5 * mu)], abs=1e-5)


def costs_of(name, v):
    return {"difference": 1.0 - v, "ratio": 1.0 / v}[name]


@pytest.mark.parametrize("cost_name", ["difference", "ratio"])
@pytest.mark.parametrize(("lam", "mu"), [(0.2, 0.0), (0.05, 0.05), (0.0, 1.0), (0.3, 2.0)])
def test_fsm_rank_finds_the_optimum(arrays, lam, mu, cost_name):
    X, y, qid = arrays
    F, gas = mean_loss(X, y, qid), GAS(importance="map").fit(X, y, qid)
    cost, S = lam * costs_of(cost_name, gas.importances_), mu * gas.similarities_

    def objective(z):
        value, g = F(z[:4] - z[4:])
        u = z[:4] + z[4:]
        slope = cost + S @ u
        return value + cost @ u + 0.5 * u @ S @ u, np.concatenate([slope + g, slope - g])

    found = minimize(
        objective, np.zeros(8), jac=True, bounds=[(0, None)] * 8, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    ranker = FSMRank(lam, similarity_weight=mu, importance="map", tol=1e-7, cost=cost_name)
    ranker.fit(X, y, qid)
    assert ranker.result_.objective == pytest.approx(found.fun, rel=1e-9)
    np.testing.assert_allclose(ranker.coef_, found.x[:4] - found.x[4:], atol=1e-4)
    np.testing.assert_array_equal(ranker.importances_, gas.importances_)


@pytest.mark.parametrize(("cost_name", "lam"), [("difference", 0.3), ("ratio", 0.05)])
def test_fsm_rank_without_similarity_is_a_weighted_l1(cost_name, lam):
    data = make_ranking(20, (5, 15), 8, noise=1.0, random_state=3)
    ranker = FSMRank(lam, similarity_weight=0.0, tol=1e-7, cost=cost_name)
    ranker.fit(data.X, data.y, data.qid)
    engine = make_problem(data, normalize="pairs").engine
    penalty = L1(weights=lam * costs_of(cost_name, ranker.importances_))
    best = ProximalNewton(tol=1e-12).solve(Problem(engine, 1.0, penalty))
    np.testing.assert_allclose(ranker.coef_, best.coef, atol=1e-5)
    np.testing.assert_array_equal(ranker.coef_ == 0, best.coef == 0)
    assert 0 < ranker.n_selected_ < 8


def test_a_feature_that_is_there_twice_counts_once():
    X, y, qid = make_problem_arrays("two levels", n=60, d=3)
    options = {"similarity_weight": 0.5, "tol": 1e-7, "max_iter": 10_000}
    once = FSMRank(0.1, **options).fit(X, y, qid).coef_
    twice = FSMRank(0.1, **options).fit(X[:, [0, 0, 1, 2]], y, qid).coef_
    assert (once != 0).all()
    np.testing.assert_allclose([twice[:2].sum(), *twice[2:]], once, atol=1e-5)


def test_a_feature_of_no_importance_is_not_selected_by_ratio():
    # The ends of the second feature are not relevant, but it lowers the loss of the last document.
    X, y = [[1.0, 0.5], [0.0, 0.5], [0.5, 1.0], [0.0, -5.0]], [1, 1, 0, 0]
    options = {"importance": "p@1", "similarity_weight": 0.0, "tol": 1e-6}
    ranker = FSMRank(0.01, cost="ratio", **options).fit(X, y)
    assert ranker.importances_[1] == 0 < ranker.importances_[0]
    assert ranker.result_.converged
    assert ranker.coef_[1] == 0
    without = FSMRank(0.0, cost="ratio", **options).fit(X, y)
    expected = FSMRank(0.0, cost="difference", **options).fit(X, y)
    np.testing.assert_array_equal(without.coef_, expected.coef_)
    assert without.coef_[1] > 0


@pytest.mark.parametrize("cost_name", ["difference", "ratio"])
def test_nothing_selected_gives_a_warning_with_the_limit(arrays, cost_name):
    with pytest.warns(
        NothingSelectedWarning, match="importance_weight = 100; use a value below"
    ) as w:
        ranker = FSMRank(100.0, cost=cost_name).fit(*arrays)
    assert ranker.n_selected_ == 0
    limit = float(str(w[0].message).split()[-1])
    assert FSMRank(0.99 * limit, tol=1e-6, cost=cost_name).fit(*arrays).n_selected_ == 1
    with pytest.warns(NothingSelectedWarning):
        FSMRank(1.01 * limit, cost=cost_name).fit(*arrays)


# What all share --------------------------------------------------------------------------------


@named_all
@pytest.mark.parametrize("form", ["dense32", "csr64", "csr32"])
def test_forms_agree(method, arrays, form):
    X, y, qid = arrays
    X = X.astype(np.float32).astype(float)
    expected = clone(method).fit(X, y, qid)
    found = clone(method).fit(as_form(X, form), y, qid)
    np.testing.assert_array_equal(found.get_support(), expected.get_support())
    if method in RANKERS:
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-4, atol=1e-6)


@named_all
def test_names_and_order_of_queries_do_not_matter(method, arrays):
    X, y, qid = arrays
    expected = clone(method).fit(X, y, qid)
    rows = np.argsort(qid, kind="stable")[::-1]
    found = clone(method).fit(X[rows], y[rows], [f"q{-q}" for q in qid[rows]])
    np.testing.assert_array_equal(found.get_support(), expected.get_support())
    if method in RANKERS:
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8, atol=1e-12)


@named_all
def test_fits_repeat_clone_and_name_their_features(method, arrays):
    X, y, qid = arrays
    frame = pd.DataFrame(X, columns=["bm25", "pagerank", "age", "clicks"])
    found = clone(method).fit(frame, y, qid)
    again = pickle.loads(pickle.dumps(clone(found).fit(frame, y, qid)))
    assert clone(found).get_params() == method.get_params()
    np.testing.assert_array_equal(found.get_support(), again.get_support())
    kept = found.get_feature_names_out().tolist()
    assert kept == frame.columns[found.get_support()].tolist()
    assert 0 < len(kept) < 4 or method in RANKERS
    if method in RANKERS:
        np.testing.assert_array_equal(found.coef_, again.coef_)


@named
def test_rankers_have_the_surface_of_ranksvm(ranker, arrays, tmp_path):
    X, y, qid = arrays
    ranker = clone(ranker).fit(X, y, qid)
    scores = ranker.predict(X)
    np.testing.assert_allclose(scores, X @ ranker.coef_, rtol=1e-12, atol=1e-14)
    assert ranker.score(X, y, qid) > evaluate(y, np.zeros(60), qid).mean["ndcg@10"] + 0.05
    assert ranker.n_selected_ == ranker.get_support().sum() == np.count_nonzero(ranker.coef_)
    assert ranker.n_pairs_ == len(preference_pairs(y, qid))
    ranker.model_.save(tmp_path / "model.json")
    model = LinearModel.load(tmp_path / "model.json")
    np.testing.assert_array_equal(model.coef, ranker.coef_)
    assert model.settings["method"] == type(ranker).__name__


@pytest.mark.parametrize("ranker", RANKERS[:2], ids=lambda ranker: type(ranker).__name__)
def test_ctrl_c_keeps_the_best_weights(ranker, arrays, monkeypatch):
    n_calls, value_grad = 0, MeanLoss.value_grad

    def interrupted(self, w):
        nonlocal n_calls
        n_calls += 1
        if n_calls == 4:
            raise KeyboardInterrupt
        return value_grad(self, w)

    monkeypatch.setattr(MeanLoss, "value_grad", interrupted)
    ranker = clone(ranker).set_params(tol=1e-9)
    with pytest.raises(KeyboardInterrupt, match="best weights so far"):
        ranker.fit(*arrays)
    assert ranker.result_.objective < 1.0
    assert ranker.n_selected_ > 0


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (FenchelRank(0.0), "r is 0.0; expected a finite number above 0"),
        (FenchelRank(np.inf), "r is inf; expected a finite number above 0"),
        (FenchelRank(tol=0), "tol is 0; expected a number between 0 and 1"),
        (FenchelRank(max_iter=0), "max_iter is 0; expected a whole number of at least 1"),
        (FSMRank(-1.0), "importance_weight is -1.0; expected a finite number of at least 0"),
        (FSMRank(similarity_weight="x"), "similarity_weight is 'x'; expected a finite number"),
        (FSMRank(cost="linear"), "cost is 'linear'; known choices are 'difference', 'ratio'"),
        (FSMRank(importance="ndgc"), "metric 'ndgc' is unknown; .* did you mean 'ndcg'"),
        (GAS(0), "n_features_to_select is 0; expected a whole number from 1 to 4"),
        (GAS(5), "n_features_to_select is 5; expected a whole number from 1 to 4"),
        (GAS(c=np.nan), "c is nan; expected a finite number of at least 0"),
        (GAS(importance="best"), "metric 'best' is unknown"),
        (GASRanker(5), "n_features_to_select is 5; expected a whole number from 1 to 4"),
        (GASRanker(C=0), "C is 0; expected a finite number above 0"),
    ],
)
def test_bad_options_get_a_sentence(method, words, arrays):
    with pytest.raises(DataError, match=words):
        method.fit(*arrays)


@named_all
def test_labels_that_are_all_equal_get_a_sentence(method, arrays):
    X, _, qid = arrays
    words = "no pair to learn from" if isinstance(method, FenchelRank) else "is undefined for all"
    with pytest.raises(DataError, match=words):
        clone(method).fit(X, np.zeros(60), qid)


@pytest.mark.parametrize("method", [FSMRank(), GAS()])
def test_too_many_features_get_a_sentence(method):
    with pytest.raises(DataError, match=r"X has 4,097 features; .* at most 4,096 features"):
        method.fit(np.zeros((2, MAX_FEATURES + 1)), [1, 0])
