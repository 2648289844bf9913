"""Sparse rankers as estimators, paths and commands."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from commandline import error_of, run, run_json
from linrank import (
    DataError,
    LinearModel,
    NotConvergedWarning,
    NothingSelectedWarning,
    RankingData,
    RankSVM,
    SparseRankSVM,
    SparseRankSVMCV,
    make_problem,
    make_ranking,
    sparse_path,
    write_letor,
)
from linrank.data.ranking import has_values
from linrank.penalties import L1, PENALTIES, Log, make_penalty
from linrank.solvers import make_solver
from linrank.training.selection import first_C
from problems import PAPERS, as_form, make_problem_arrays

NONCONVEX = [name for name, penalty in PENALTIES.items() if penalty.kind == "concave"]
SELECTING = [name for name in PENALTIES if name not in ("l2", "none")]


@pytest.fixture(scope="module")
def data():
    """Data with twenty features, of which the labels depend on a few."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 20))
    X[:, 19] = 0.0
    y = np.digitize(X[:, :3] @ [2.0, -1.0, 0.5] + 0.5 * rng.standard_normal(600), [-1, 1])
    return RankingData(X, y.astype(float), np.arange(600) // 20)


@pytest.mark.parametrize("penalty", SELECTING)
def test_every_penalty_finds_the_features_that_matter(data, penalty):
    ranker = SparseRankSVM(C=1e-2, penalty=penalty, **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert ranker.result_.converged
    assert np.abs(ranker.coef_[:3]).min() > np.abs(ranker.coef_[3:]).max()
    assert ranker.n_selected_ == np.count_nonzero(ranker.coef_) < 19
    assert ranker.sparsity_ratio_ == ranker.n_selected_ / 19  # one feature is zero everywhere
    np.testing.assert_array_equal(ranker.get_support(), ranker.coef_ != 0)
    assert ranker.transform(data.X).shape == (600, ranker.n_selected_)


@pytest.mark.parametrize("penalty", NONCONVEX)
def test_concave_penalties_are_no_worse_than_their_start_and_repeat_themselves(data, penalty):
    ranker = SparseRankSVM(C=3e-3, penalty=penalty, **PAPERS).fit(data.X, data.y, qid=data.qid)
    start = SparseRankSVM(C=3e-3, penalty="l1", **PAPERS).fit(data.X, data.y, qid=data.qid)
    problem = make_problem(data, 3e-3, penalty=make_penalty(penalty))
    assert ranker.result_.objective <= problem.value_grad(start.coef_)[0] * (1 + 1e-12)
    again = clone(ranker).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(again.coef_, ranker.coef_)


def test_costs_and_free_features(data):
    cost = np.ones(20)
    cost[0], cost[5] = 100.0, 0.0
    ranker = SparseRankSVM(C=3e-3, feature_cost=cost, **PAPERS).fit(data.X, data.y, qid=data.qid)
    plain = SparseRankSVM(C=3e-3, **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert abs(ranker.coef_[0]) < abs(plain.coef_[0])
    assert ranker.coef_[5] != 0
    assert ranker.result_.converged


def test_debias_keeps_the_features_and_undoes_the_shrinking(data):
    shrunk = SparseRankSVM(C=3e-4, **PAPERS).fit(data.X, data.y, qid=data.qid)
    free = SparseRankSVM(C=3e-4, debias=True, **PAPERS).fit(data.X, data.y, qid=data.qid)
    np.testing.assert_array_equal(free.get_support(), shrunk.get_support())
    used = np.flatnonzero(shrunk.coef_)
    loss = make_problem(RankingData(data.X[:, used], data.y, data.qid)).engine
    assert loss.value_grad(free.coef_[used])[0] < loss.value_grad(shrunk.coef_[used])[0]
    gradient = loss.value_grad(free.coef_[used])[1]
    assert np.linalg.norm(gradient) < 1e-3 * loss.at_zero[1]
    np.testing.assert_array_equal(free.model_.coef, free.coef_)
    slow = SparseRankSVM(C=3e-4, debias=True, solver="fista", tol=1e-6, **PAPERS)
    slow.fit(data.X, data.y, qid=data.qid)
    np.testing.assert_allclose(slow.coef_, free.coef_, rtol=1e-2)


def test_nothing_selected_gives_a_warning_that_names_the_smallest_C(data):
    least = make_problem(data, penalty=L1()).smallest_C()
    with pytest.warns(NothingSelectedWarning, match=rf"smallest C that selects one is {least:.6g}"):
        ranker = SparseRankSVM(C=0.9 * least, **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert not ranker.coef_.any()
    assert SparseRankSVM(C=1.1 * least, **PAPERS).fit(data.X, data.y, qid=data.qid).n_selected_ == 1


@pytest.mark.parametrize("penalty", ["log", "lp"])
def test_the_C_that_a_concave_penalty_is_told_does_select(data, penalty):
    """The smallest C of a concave penalty is above that of l1."""
    least = make_problem(data, penalty=L1()).smallest_C()
    with pytest.warns(NothingSelectedWarning, match="that selects one is about") as caught:
        SparseRankSVM(C=1.1 * least, penalty=penalty, **PAPERS).fit(data.X, data.y, qid=data.qid)
    smallest = float(str(caught[0].message).split()[-1])
    assert smallest > 1.2 * least
    above = SparseRankSVM(C=1.01 * smallest, penalty=penalty, **PAPERS)
    assert above.fit(data.X, data.y, data.qid).n_selected_
    with pytest.warns(NothingSelectedWarning):
        SparseRankSVM(C=0.9 * smallest, penalty=penalty, **PAPERS).fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize("form", ["dense64", "csr32"])
def test_features_without_values(monkeypatch, form):
    monkeypatch.setattr("linrank.data.ranking.BLOCK_ENTRIES", 9)  # three rows at a time
    X = np.zeros((10, 3))
    X[7, 1] = X[2, 0] = 2.0
    matrix = as_form(X, form)
    if form == "csr32":
        matrix.data[matrix.data == 2.0] = [0.0, -1.0]  # a stored zero
        np.testing.assert_array_equal(has_values(matrix), [False, True, False])
    else:
        np.testing.assert_array_equal(has_values(matrix), [True, True, False])


def test_constant_features_give_a_sentence():
    X, y = np.ones((10, 2)), np.arange(10) % 2
    with pytest.warns(NothingSelectedWarning, match="have the same features"):
        SparseRankSVM(C=1.0, **PAPERS).fit(X, y)
    with pytest.raises(DataError, match="there is nothing to select"):
        sparse_path(RankingData(X, y))


@pytest.mark.parametrize("form", ["dense32", "csr64"])
def test_forms_agree(data, form):
    X = data.X.astype(np.float32).astype(np.float64)
    dense = SparseRankSVM(C=1e-3, tol=1e-8, **PAPERS).fit(X, data.y, qid=data.qid)
    other = SparseRankSVM(C=1e-3, tol=1e-8, **PAPERS).fit(as_form(X, form), data.y, qid=data.qid)
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["l1", "log"])
def test_path_starts_with_one_feature_and_equals_single_fits(data, penalty):
    valid = make_ranking(n_features=20, random_state=1)
    path, values = sparse_path(data, penalty, valid=valid, tol=1e-6)
    assert len(path) == 50
    assert path.n_features[0] > 0
    assert (
        penalty == "log" or path.n_features[0] == 1
    )  # log drops a feature that l1 has just selected
    assert path.n_features[-1] > path.n_features[0]
    assert values.shape == (50,)
    if penalty == "l1":
        for k in (10, 30):
            single = SparseRankSVM(C=path.Cs[k], tol=1e-6, **PAPERS).fit(
                data.X, data.y, qid=data.qid
            )
            assert single.result_.objective == pytest.approx(path.results[k].objective, rel=2e-6)


@pytest.mark.slow
def test_cv_by_folds_and_by_held_out_data(data):
    folds = SparseRankSVMCV(cv=3, **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert folds.metric_path_.shape == (50, 3)
    best = np.argmax(folds.metric_path_.mean(axis=1))
    sparser = SparseRankSVMCV(cv=3, rule="1se", **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert folds.path_.Cs[best] == folds.C_
    assert 0 < sparser.n_selected_ <= folds.n_selected_
    means = folds.metric_path_.mean(axis=1)
    error = folds.metric_path_[best].std(ddof=1) / np.sqrt(3)
    chosen = int(np.flatnonzero(sparser.path_.Cs == sparser.C_)[0])
    assert means[chosen] >= means[best] - error
    held_out = SparseRankSVMCV(rule="1se", penalty=Log(epsilon=0.5), **PAPERS).fit(
        data.X, data.y, qid=data.qid, valid=(data.X, data.y, data.qid)
    )
    assert held_out.n_selected_ > 0


def test_selects_in_a_pipeline_with_names(data):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data.X, columns=[f"f{k}" for k in range(20)])
    ranker = SparseRankSVM(C=1e-3, **PAPERS).fit(frame, data.y, qid=data.qid)
    names = ranker.get_feature_names_out()
    assert list(names) == [f"f{k}" for k in np.flatnonzero(ranker.coef_)]
    assert ranker.model_.feature_names[:2] == ["f0", "f1"]
    short = make_pipeline(ranker, RankSVM(C=1.0, **PAPERS)).fit(
        frame, data.y, ranksvm__qid=data.qid
    )
    assert (
        short[-1].n_features_in_ == SparseRankSVM(C=1e-3, **PAPERS).fit(data.X, data.y).n_selected_
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"penalty": "l0"}, "penalty is 'l0'; known choices are 'l2', 'none', 'l1'"),
        ({"penalty": "lp", "shape": 1.0}, "p is 1.0; expected a number between 0 and 1"),
        ({"penalty": "mcp", "shape": 0.0}, "gamma is 0.0; expected a number above 0"),
        ({"penalty": "l1", "shape": 2.0}, "'l1' has no parameter"),
        ({"feature_cost": [1.0]}, "feature costs have shape"),
        ({"feature_cost": [-1.0, 1, 1, 1]}, "feature cost 0 is -1.0"),
        ({"loss": "hinge", "penalty": "mcp"}, "Use loss='squared_hinge' or loss='huber'"),
        ({"solver": "tron"}, "does not support penalty='l1'. Use solver='proximal-newton'"),
        ({"solver": "reweighted"}, "Use solver='proximal-newton'"),
        ({"solver": "proximal-newton", "penalty": "log"}, "Use solver='reweighted'"),
    ],
)
def test_bad_options_get_a_sentence(options, words):
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match=words):
        SparseRankSVM(**PAPERS | options).fit(X, y, qid)


def test_sparse_solvers_need_a_penalty():
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match=r"does not support penalty='l2'. Use solver='newton'"):
        RankSVM(C=1.0, solver="fista", **PAPERS).fit(X, y, qid)


@pytest.mark.slow
def test_commands(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_letor("train.txt", data)
    write_letor("vali.txt", data)
    shown = run("train", "train.txt", "--penalty", "l1", "--C", "1e-3").stdout
    assert "of 20 selected" in shown or "of 19 selected" in shown
    settings = LinearModel.load("model.json").settings
    assert settings["penalty"]["name"] == "l1"
    found = run_json(
        "train", "train.txt", "--valid", "vali.txt", "--penalty", "log", "--shape", "0.2",
        "--rule", "1se",
    )  # fmt: skip
    assert 0 < found["features"] < 19
    path = run_json(
        "path", "train.txt", "--valid", "vali.txt", "--penalty", "l1", "--plot", "p.png"
    )
    assert len(path["path"]) == 50
    assert path["path"][0]["features"] == 1
    assert (tmp_path / "p.png").stat().st_size > 10_000
    assert "Add --penalty" in run("train", "train.txt", "--shape", "1", code=2).stderr
    sentence = error_of("train", "train.txt", "--penalty", "lp", "--shape", "2")
    assert sentence == "p is 2.0; expected a number between 0 and 1"


def test_commands_show_only_features_with_a_weight(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_letor("train.txt", data)
    for C, few in (("3e-4", True), ("1", False)):
        papers = ("--normalize", "none", "--scale", "none")
        shown = run("train", "train.txt", "--penalty", "l1", "--C", C, *papers).stdout
        model = LinearModel.load("model.json")
        n = np.count_nonzero(model.coef)
        words = ", ".join(f"{name} {weight:.3g}" for name, weight in model.largest(min(n, 5)))
        between = ": " if few else "; the largest: "
        assert (0 < n < 5) == few
        assert f"{n} of {model.n_features} selected{between}{words}\n" in shown


def test_commands_tell_the_best_C_from_the_chosen_one(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_letor("train.txt", data.take(np.arange(300)))
    write_letor("vali.txt", data.take(np.arange(300, 600)))
    arguments = "path", "train.txt", "--valid", "vali.txt", "--penalty", "l1"
    best, found = run_json(*arguments), run_json(*arguments, "--rule", "1se")
    assert best["best"] | {"rule": "best"} == best["chosen"]
    assert found["best"] == best["best"]
    assert found["chosen"]["rule"] == "1se"
    assert found["chosen"]["C"] < found["best"]["C"]
    shown, text = run(*arguments).stdout, run(*arguments, "--rule", "1se").stdout
    marks = {line.split()[-1]: line.split()[0] for line in text.splitlines() if line}
    assert marks["best"] == f"{found['best']['C']:.6g}"
    assert marks["chosen"] == f"{found['chosen']['C']:.6g}"
    assert f"{marks['best']}, the best of 50: " in shown
    assert "chosen" not in shown
    sentence = f"{marks['chosen']}, the sparsest within one standard error of the best of 50: "
    assert sentence in text
    assert sentence in run("train", *arguments[1:], "--rule", "1se").stdout


@pytest.mark.parametrize("penalty", [L1, Log])
def test_a_free_feature_is_in_every_solution_of_a_path(data, penalty):
    cost = np.ones(20)
    cost[3] = 0.0
    path, _ = sparse_path(data, penalty(cost))
    assert path.coefs[:, 3].all()
    others = np.delete(path.coefs, 3, axis=1)
    assert others[2].any()  # at the entry, no feature is within the tolerance
    assert np.count_nonzero(others[-1]) > np.count_nonzero(others[2])
    problem = make_problem(data, penalty=L1(cost))
    below = make_solver("auto", problem.engine.loss, L1(cost), tol=1e-8)
    coef = below.solve(problem.with_C(0.99 * first_C(problem))).coef
    assert np.flatnonzero(coef).tolist() == [3]
    ranker = SparseRankSVMCV(cv=3, feature_cost=cost, **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert ranker.coef_[3] != 0


def test_a_path_without_costs_has_nothing_to_select(data):
    with pytest.raises(DataError, match="no feature has a cost"):
        sparse_path(data, L1(0.0))


@pytest.mark.slow
def test_the_scale_of_features_does_not_empty_a_path(data):
    path, _ = sparse_path(data.replace(X=1e8 * data.X), "lp")
    assert path.n_features[0] > 0


def test_a_search_that_finds_no_C_says_so(data, monkeypatch):
    monkeypatch.setattr("linrank.training.selection.MAX_DOUBLINGS", 1)
    problem = make_problem(data.replace(X=1e8 * data.X), penalty=make_penalty("lp"))
    assert first_C(problem) == np.inf


def test_one_standard_error_never_chooses_no_features():
    rng = np.random.default_rng(4)
    X, qid = rng.standard_normal((400, 8)), np.arange(400) // 20
    y = np.digitize(0.15 * X[:, 0] + rng.standard_normal(400), [-0.5, 0.5]).astype(float)
    ranker = SparseRankSVMCV(penalty="log", rule="1se", cv=4, **PAPERS).fit(X, y, qid)
    assert ranker.n_selected_ > 0


def test_debiased_results_speak_of_their_own_weights(data):
    ranker = SparseRankSVM(1e-3, debias=True, **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert 0 <= ranker.result_.gap < 1e-3  # of the second fit, whose penalty is ½‖w‖²
    problem = make_problem(data)
    loss, _ = problem.engine.value_grad(ranker.coef_)
    assert 0 < loss < problem.engine.at_zero[0]
    plain = SparseRankSVM(1e-3, **PAPERS).fit(data.X, data.y, qid=data.qid)
    assert loss < problem.engine.value_grad(plain.coef_)[0]
    assert ranker.model_.training["debiased"]
    assert ranker.model_.training["objective"] == ranker.result_.objective


def test_ctrl_c_in_the_refit_is_not_swallowed(data, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("linrank.solvers.newton.Newton._minimise", interrupt)
    with pytest.raises(KeyboardInterrupt):
        SparseRankSVM(1e-3, debias=True, **PAPERS).fit(data.X, data.y, qid=data.qid)


@pytest.mark.parametrize("penalty", ["l1", "elastic_net", "log"])
def test_a_warm_start_where_features_say_nothing_ends_at_zero(data, penalty):
    ranker = SparseRankSVM(1e-2, penalty=penalty, warm_start=True, **PAPERS)
    ranker.fit(data.X, data.y, qid=data.qid)
    with pytest.warns(NothingSelectedWarning, match="no feature lowers the loss"):
        ranker.fit(np.ones_like(data.X), data.y, qid=data.qid)
    assert not ranker.coef_.any()


def test_a_large_gap_is_no_convergence():
    X = np.random.default_rng(0).standard_normal((200, 6))
    y, qid = np.digitize(X[:, 0], [-1, 1]).astype(float), np.arange(200) // 20
    with pytest.warns(NotConvergedWarning):
        ranker = SparseRankSVM(1e12, **PAPERS).fit(X, y, qid)
    assert ranker.result_.gap > 1e-3


def test_a_penalty_object_brings_its_own_parameters(data):
    for options in ({"shape": 0.5}, {"feature_cost": np.ones(20)}):
        with pytest.raises(DataError, match="Pass them to its constructor"):
            SparseRankSVM(penalty=L1(), **PAPERS | options).fit(data.X, data.y, qid=data.qid)
