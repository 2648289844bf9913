"""Strengths of items from votes, beside figures of R and slow twins."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime, linprog, minimize
from scipy.special import expit, log_expit
from sklearn.exceptions import NotFittedError

import vote_tables
from linrank import DataError, PreferenceModel, SeparationWarning
from linrank.preferences.inference import Strengths, quasi_variances
from linrank.preferences.likelihood import DAVIDSON, RAO_KUPPER, Likelihood, fit_sample
from linrank.preferences.votes import join, make_votes


def column(table, items, name="strength"):
    return table.set_index("item")[name][list(items)].tolist()


def printed(values, n=7):
    """Return numbers as they are printed with n digits."""
    return pytest.approx(values, abs=0.7 * 10.0**-n)


@pytest.fixture(scope="module")
def league():
    return PreferenceModel(order_effect=True, reference="Baltimore").fit(*vote_tables.baseball())


def test_bias_reduction_has_the_figures_of_r():
    """brglm2 0.9 with type="AS_mean": x − y 3:0, x − z 2:0, y − z 4:1."""
    with pytest.warns(SeparationWarning, match="the estimates of 'x' are infinite"):
        model = PreferenceModel(reference="z").fit(
            ["x", "x", "y"], ["y", "z", "z"], [[3, 0, 0], [2, 0, 0], [4, 1, 0]]
        )
    table = model.table()
    assert column(table, ("x", "y")) == printed([3.1250, 1.0819], 4)
    assert column(table, ("x", "y"), "se") == printed([1.7929, 0.9955], 4)
    assert table["note"].tolist() == ["needs the penalty", "", ""]
    assert model.separated_ == ["x"]


def log_probabilities(kind, d, e):
    """Return the logarithms of the probabilities of three outcomes, by their definitions."""
    if kind == DAVIDSON:
        logits = np.array([d / 2, -d / 2, e])
        return logits - np.logaddexp.reduce(logits)
    a, b = log_expit(d - e), log_expit(-d - e)
    return np.array([a, b, np.log(expit(d + e) - expit(d - e))])


def random_votes(rng, n_items=5, n_votes=300, covariates=True):
    a = rng.integers(n_items, size=n_votes)
    b = (a + rng.integers(1, n_items, n_votes)) % n_items
    words = rng.choice(["a", "b", "tie"], n_votes, p=[0.5, 0.3, 0.2])
    Z = rng.standard_normal((n_votes, 2)) if covariates else None
    return make_votes(a, b, words, covariates=Z)


@pytest.mark.parametrize("kind", [DAVIDSON, RAO_KUPPER])
@pytest.mark.parametrize("joined", [True, False])
def test_value_gradient_and_hessian_against_a_slow_twin(kind, joined):
    rng = np.random.default_rng(0)
    votes = random_votes(rng, covariates=not joined)
    likelihood = Likelihood(join(votes, True), 5, kind, penalty=0.3)
    theta = rng.standard_normal(likelihood.n_theta)
    theta[-1] = 0.4

    def value(theta):
        total = 0.15 * (theta[:5] ** 2).sum()
        for v in range(len(votes)):
            z = [1.0, *(votes.covariates[v] if not joined else ())]
            d = theta[votes.a[v]] - theta[votes.b[v]] + np.dot(z, theta[5:-1])
            total -= votes.wins[v] @ log_probabilities(kind, d, theta[-1])
        return total

    found, grad = likelihood.value_grad(theta)
    assert found == pytest.approx(value(theta), rel=1e-12)
    assert grad == pytest.approx(approx_fprime(theta, value, 1e-6), abs=1e-3)
    numeric = approx_fprime(theta, lambda t: likelihood.value_grad(t)[1], 1e-6)
    assert likelihood.hessian(theta) == pytest.approx(numeric, abs=1e-3)
    assert likelihood.hessian(theta) == pytest.approx(likelihood.hessian(theta).T)


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper", "half", "drop"])
def test_the_optimum_is_that_of_a_general_optimiser(ties):
    votes = random_votes(np.random.default_rng(1))
    model = PreferenceModel(ties, penalty=0.5, order_effect=True).fit(votes)
    likelihood = model._likelihood
    found = minimize(likelihood.value_grad, likelihood.start(), jac=True, method="BFGS",
                     options={"gtol": 1e-7})  # fmt: skip
    assert model.objective_ == pytest.approx(found.fun, abs=1e-8)
    assert model.objective_ <= found.fun + 1e-9


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper", "half"])
@pytest.mark.parametrize("penalty", [None, 0.5])
def test_the_certificate_bounds_the_distance_to_the_optimum(ties, penalty):
    votes = random_votes(np.random.default_rng(2))
    model = PreferenceModel(ties, penalty=penalty, order_effect=True).fit(votes)
    assert model.certificate_ < 1e-10
    likelihood, best = model._likelihood, model._optimum.theta
    rng = np.random.default_rng(0)
    for size in (1e-6, 1e-3, 0.02):
        theta = best + size * rng.standard_normal(len(best))
        bound = likelihood.certificate(theta, likelihood.inverse(theta))
        distance = likelihood.value_grad(theta)[0] - model.objective_
        assert distance <= bound < 2 * distance + 1e-10
    far = best + 30.0 * rng.standard_normal(len(best))
    far[-1] = abs(far[-1])
    assert likelihood.certificate(far, likelihood.inverse(best)) == np.inf
    assert PreferenceModel("half", penalty="firth").fit(votes).certificate_ is None


def test_products_and_matrices_have_one_optimum(monkeypatch):
    votes = random_votes(np.random.default_rng(3))
    dense = PreferenceModel(penalty=0.1).fit(votes)
    monkeypatch.setattr("linrank.preferences.likelihood.DENSE", 0)
    sparse = PreferenceModel(penalty=0.1).fit(votes)
    assert sparse.strengths_.values == pytest.approx(dense.strengths_.values, abs=1e-6)
    assert np.isnan(sparse.table()["low"]).all()
    with pytest.raises(DataError, match="at most 3,000 parameters"):
        sparse.bootstrap(10)


def test_features_with_and_without_deviations():
    rng = np.random.default_rng(4)
    votes = random_votes(rng, covariates=False)
    features = {item: rng.standard_normal(2) for item in votes.items}
    only = PreferenceModel(features=features, deviations=False, penalty=None).fit(votes)
    F = np.array([features[item] for item in votes.items])
    values = F @ list(only.weights_.values())
    assert only.strengths_.values == pytest.approx(values - values.mean())
    free = PreferenceModel().fit(votes)
    both = [PreferenceModel(features=features, penalty=p).fit(votes) for p in (1e-6, 1e6)]
    assert both[0].strengths_.values == pytest.approx(free.strengths_.values, abs=1e-3)
    assert both[1].strengths_.values == pytest.approx(only.strengths_.values, abs=1e-3)
    for penalty in (None, "firth"):
        with pytest.raises(DataError, match="features and deviations need a number as penalty"):
            PreferenceModel(features=features, penalty=penalty).fit(votes)
    with pytest.raises(DataError, match="features has no row for"):
        PreferenceModel(features={0: [1.0]}).fit(votes)


def test_repeated_votes_are_joined():
    votes = vote_tables.single_votes(*vote_tables.baseball())
    assert len(join(make_votes(*votes), order_effect=False).a) == 21
    assert len(join(make_votes(*votes), order_effect=True).a) == 42


def test_scales_move_strengths_only(league):
    plain = league.table()
    elo = league.table(scale=400, base=1000)
    anchored = league.table(scale=400, anchor={"Boston": 1500})
    factor = 400 / np.log(10)
    assert elo["strength"].to_numpy() == pytest.approx(1000 + factor * plain["strength"])
    gap = anchored["strength"].to_numpy() - elo["strength"].to_numpy()
    assert gap == pytest.approx(gap[0])
    assert anchored.set_index("item").loc["Boston", "se"] == 0.0


def test_ranks_count_items_that_differ():
    C = np.diag([0.01, 0.01, 4.0])
    found = Strengths(["x", "y", "z"], np.array([1.0, 0.0, 0.5]), C)
    assert found.ranks(0.95).tolist() == [[1, 2], [2, 3], [1, 3]]


def test_quasi_variances_fit_the_variances_of_differences():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 6))
    C = A @ A.T / 6 + np.eye(6)
    pairs = list(itertools.combinations(range(6), 2))
    target = np.array([C[i, i] + C[j, j] - 2 * C[i, j] for i, j in pairs])

    def error(logs):
        q = np.exp(logs)
        return sum((np.log(q[i] + q[j]) - np.log(v)) ** 2
                   for (i, j), v in zip(pairs, target, strict=True))  # fmt: skip

    best = minimize(error, np.zeros(6), options={"gtol": 1e-8})
    assert error(np.log(quasi_variances(C))) == pytest.approx(best.fun, rel=1e-6)


def test_probabilities_and_their_intervals(league):
    p = league.predict_proba(["Toronto"], ["Boston"])
    assert p.sum() == pytest.approx(1.0)
    found = league.win_probability("Toronto", "Boston")
    assert found.probability == pytest.approx(p[0, 0])
    margin = 1.3271104 - 1.1438027 + 0.3022607
    assert found.probability == pytest.approx(expit(margin), abs=1e-6)
    rng = np.random.default_rng(0)
    drawn = rng.multivariate_normal(league._x, league.covariance(), 20_000)
    places = [league.votes_.items.index(team) for team in ("Toronto", "Boston")]
    chance = expit(drawn[:, places[0]] - drawn[:, places[1]] + drawn[:, -1])
    assert np.quantile(chance, [0.025, 0.975]) == pytest.approx(found[1:], abs=0.02)


def test_held_out_likelihood_by_its_definition(league):
    votes = make_votes(*vote_tables.baseball())
    mean = -league.objective_ / votes.wins.sum()
    assert league.log_likelihood(votes) == pytest.approx(mean)


@pytest.mark.parametrize(("arguments", "said"), [
    ((["x", "x"], ["y", "y"], ["tie", "tie"]), "all votes are ties"),
    ((["x", "u"], ["y", "v"], ["a", "a"]), "2 components of items that no vote connects"),
    ((["x", "x"], ["y", "x"], ["a", "a"]), "vote 1 compares 'x' with itself"),
    ((["x"], ["y"], ["modle_a"]), "did you mean 'model_a'"),
    ((["x"], ["y"], [-0.5]), "outcome[0] is -0.5; expected the share of a"),
    ((["x"], ["y"], [None]), "outcome[0] is None; expected"),
    ((["x"], ["y"], [[1, 2]]), "outcome has shape (1, 2); expected"),
    ((["x"], ["y"], [[1, -2, 0]]), "outcome[0, 1] is -2.0; expected a count"),
    ((["x"], ["y", "z"], ["a"]), "a has 1 entries but b has 2"),
    ((["x"], ["y"], ["a", "b"]), "outcome has 2 entries but a has 1"),
    (([], [], []), "there are no votes"),
    ((["x"], [None], ["a"]), "b has a missing item"),
    (("x", ["y"], ["a"]), "a is the text 'x'"),
    ((["a"], ["b"], ["b"]), None),
    ((["b"], ["a"], ["b"]), "both an outcome and the name of an item"),
    ((["x"], None, None), "b and outcome are missing"),
])  # fmt: skip
def test_bad_votes_get_a_sentence(arguments, said):
    model = PreferenceModel(penalty=1.0) if said is None else PreferenceModel()
    if said is None:
        assert model.fit(*arguments).table()["item"].tolist() == ["b", "a"]
        return
    with pytest.raises(DataError) as error:
        model.fit(*arguments)
    assert said in str(error.value)


@pytest.mark.parametrize(("options", "more", "said"), [
    ({"ties": "davison"}, {}, "ties is 'davison'; known choices"),
    ({"penalty": "ridge"}, {}, "penalty is 'ridge'; known choices"),
    ({"penalty": -1.0}, {}, "penalty is -1.0; expected a finite number"),
    ({"reference": "w"}, {}, "'w' is no item"),
    ({"covariates": ["length"]}, {}, "covariates has 'length'; the votes have []"),
    ({"ties": "rao-kupper", "penalty": "firth"}, {}, "does not support ties='rao-kupper'"),
    ({}, {"weight": [0, 0, 0]}, "weight is zero everywhere"),
    ({}, {"covariates": np.array([1.0, np.nan, 2.0])}, "covariates[1, 0] is nan"),
    ({"penalty": 1.0}, {"covariates": np.zeros(3)}, "covariates or features are collinear"),
    ({}, {"covariates": [["long"], ["short"], ["long"]]}, "covariates cannot be read as numbers"),
])  # fmt: skip
def test_bad_options_get_a_sentence(options, more, said):
    def call():
        model = PreferenceModel(**options)
        return model.fit(["x", "x", "y"], ["y", "z", "z"], ["a", "tie", "a"], **more).table()

    with pytest.raises(DataError) as error:
        call()
    assert said in str(error.value)


def has_no_finite_optimum(kind, X, W):
    """Solve a linear program: a direction in which no vote loses likelihood and one gains."""
    rows = []
    for x, wins in zip(X, W, strict=True):
        d, e = np.append(x, 0.0), np.append(0.0 * x, 1.0 if kind == RAO_KUPPER else 2.0)
        if kind not in (DAVIDSON, RAO_KUPPER):
            e = 0.0 * e
        gains = [[d - e, d] if kind == DAVIDSON else [d - e],
                 [-d - e, -d] if kind == DAVIDSON else [-d - e], [e - d, e + d]]  # fmt: skip
        rows += [row for k in range(3) if wins[k] for row in gains[k]]
    A = np.array(rows)
    found = linprog(-A.sum(axis=0), -A, np.zeros(len(A)), bounds=(-1, 1))
    return found.fun < -1e-6


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper", "half"])
def test_infinite_estimates_are_found_as_by_a_linear_program(ties):
    seen = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n_votes = int(rng.integers(4, 14))
        a = rng.integers(3, size=n_votes)
        b = (a + rng.integers(1, 3, n_votes)) % 3
        words = rng.choice(["a", "b", "tie"], n_votes, p=[0.5, 0.2, 0.3])
        Z = np.round(rng.standard_normal(n_votes), 1)[:, None]
        votes = make_votes(a, b, words, covariates=Z)
        model = PreferenceModel(ties, penalty=None, reference=votes.items[0])
        try:
            is_finite = bool(model.fit(votes).certificate_ < 1e-6)
        except DataError as error:
            if "are infinite" not in str(error):
                continue  # The votes do not connect the items, or all of them are ties.
            is_finite = False
        X = np.zeros((n_votes, 4))
        X[np.arange(n_votes), votes.a] += 1
        X[np.arange(n_votes), votes.b] -= 1
        X[:, 3] = Z[:, 0]
        W = votes.wins.copy()
        if ties == "half":
            W = W[:, :2] + W[:, 2:] / 2
            W = np.column_stack([W, 0 * W[:, 0]])
        kind = {"davidson": DAVIDSON, "rao-kupper": RAO_KUPPER}.get(ties, 0)
        kind = kind if W[:, 2].any() else 0
        assert is_finite != has_no_finite_optimum(kind, X, W)
        seen.add(is_finite)
    assert seen == {True, False}


def test_long_chains_of_finite_strengths_are_not_called_infinite():
    counts = [[12, 1, 0]] * 12 + [[1, 0, 0]]
    a, b = [*range(12), 0], [*range(1, 13), 12]
    table = PreferenceModel(penalty=None).fit(a, b, counts).table()
    assert np.ptp(table["strength"]) == pytest.approx(12 * np.log(12), rel=0.01)  # about 30


def test_an_order_effect_without_limits_is_named():
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=100)
    b = (a + rng.integers(1, 4, 100)) % 4
    words = rng.choice(["a", "tie"], 100)  # the first item never loses
    with pytest.warns(SeparationWarning, match="'order effect', 'log tie' are infinite"):
        found = PreferenceModel(order_effect=True).fit(a, b, words).coefficients()
    assert found["note"].tolist() == ["needs the penalty"] * 2
    assert np.isfinite(found[["low", "high"]]).all(axis=None)
    with pytest.raises(DataError, match="Use penalty='firth' or "):
        PreferenceModel(order_effect=True, penalty=None).fit(a, b, words)


def test_infinite_strengths_of_many_items_get_a_penalty():
    """Bias reduction takes a matrix of all parameters, which has no room for many items."""
    items = list(range(3500))
    votes = items[:-1], items[1:], ["a"] * 3499
    with pytest.warns(SeparationWarning, match="by penalty=1.0, because bias reduction needs"):
        model = PreferenceModel().fit(*votes)
    assert model.penalty_ == 1.0
    again = PreferenceModel(penalty=1.0).fit(*votes)
    assert model.strengths_.values.tolist() == again.strengths_.values.tolist()
    with pytest.raises(DataError, match="at most 3,000 parameters; the model has 3,500"):
        PreferenceModel(penalty="firth").fit(*votes)


@pytest.mark.filterwarnings("ignore::linrank.SeparationWarning")
@pytest.mark.parametrize("penalty", ["auto", 1.0])
def test_intervals_of_an_item_that_always_wins_are_not_too_narrow(penalty):
    """Its votes are equal, so that they hardly differ between judges or samples."""
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=600)
    b = (a + rng.integers(1, 4, 600)) % 4
    words = rng.choice(["a", "b", "tie"], 600)
    words[a == 3], words[b == 3] = "a", "b"
    judge = rng.integers(30, size=600)
    model = PreferenceModel(penalty=penalty).fit(a, b, words, judge=judge)
    assert model.separated_ == [3]
    expected = model.table(errors="model").set_index("item")["se"]
    for table in (model.table(errors="sandwich"), model.table(resamples=400)):
        se = table.set_index("item")["se"]
        assert 0.8 * expected[3] < se[3] < 1.3 * expected[3]
        assert se[[0, 1, 2]].max() < 2.0 * expected[[0, 1, 2]].max()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_strengths_do_not_depend_on_the_unit_of_weights(scale):
    votes = random_votes(np.random.default_rng(0))
    given = (votes.a, votes.b, votes.wins)
    expected = PreferenceModel().fit(*given).strengths_
    found = PreferenceModel().fit(*given, weight=np.full(len(votes), scale)).strengths_
    assert found.values == pytest.approx(expected.values, abs=1e-7)
    errors = expected.standard_errors()
    assert found.standard_errors() == pytest.approx(errors / np.sqrt(scale), rel=1e-6)


@pytest.mark.parametrize(("size", "offset"), [(1.0, 1e8), (1e8, 0.0), (1e-8, 0.0), (1e200, 0.0)])
def test_covariates_of_any_size_give_the_same_model(size, offset):
    votes = random_votes(np.random.default_rng(1))
    given, length = (votes.a, votes.b, votes.wins), votes.covariates[:, :1]
    plain = PreferenceModel(order_effect=True).fit(*given, covariates=length)
    moved = PreferenceModel(order_effect=True).fit(*given, covariates=size * length + offset)
    assert moved.strengths_.values == pytest.approx(plain.strengths_.values, abs=1e-6)
    found, expected = moved.coefficients(), plain.coefficients()
    assert found["estimate"][1] * size == pytest.approx(expected["estimate"][1], rel=1e-5)
    assert found["se"][1] * size == pytest.approx(expected["se"][1], rel=1e-5)
    p = [model.win_probability(0, 1) for model in (plain, moved)]
    if offset == 0:
        assert p[1] == pytest.approx(p[0], rel=1e-6)
    at = [0.5], [0.5 * size + offset]
    pairs = [
        model.predict_proba([0], [1], [z]) for model, z in zip((plain, moved), at, strict=True)
    ]
    assert pairs[1] == pytest.approx(pairs[0], rel=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("form", ["mapping", "pandas", "polars", "array", "float32", "sparse"])
def test_features_in_any_form(form, offset):
    if offset and form == "float32":
        pytest.skip("float32 has no digits left")
    rng = np.random.default_rng(2)
    votes = random_votes(rng, covariates=False)
    F = np.round(rng.standard_normal((6, 2)), 2)  # there is no vote with item 5
    forms = {
        "mapping": lambda X: dict(enumerate(X.tolist())),
        "pandas": lambda X: pd.DataFrame(X, columns=["u", "v"]),
        "polars": lambda X: pl.DataFrame({"u": X[:, 0], "item": range(6), "v": X[:, 1]}),
        "array": lambda X: X, "float32": np.float32, "sparse": sparse.csr_array,
    }  # fmt: skip
    model = PreferenceModel(features=forms[form](F + offset), deviations=False, penalty=None)
    found = model.fit(votes).coefficients()
    X = F[votes.items][:, None] - F[votes.items]
    likelihood = [
        lambda w: -(votes.wins * np.array([
            log_probabilities(DAVIDSON, d, w[2]) for d in X[votes.a, votes.b] @ w[:2]
        ])).sum()
    ]  # fmt: skip
    best = minimize(likelihood[0], [0.0, 0.0, -1.0])
    assert found["estimate"].tolist() == pytest.approx(best.x, abs=1e-4)
    assert found["se"].tolist() == pytest.approx(np.sqrt(np.diag(best.hess_inv)), rel=0.1)
    assert model.table()["se"].max() > 0


def test_features_of_float32_are_not_copied(monkeypatch):
    F = np.ones((50, 3), np.float32)
    F[:25, 1:] = np.random.default_rng(0).standard_normal((25, 2))
    model = PreferenceModel(features=F, deviations=False, penalty=1.0)
    model.fit([0, 1, 2], [1, 2, 0], ["a", "b", "a"])
    assert np.shares_memory(model._likelihood.features.X, F)


@pytest.mark.parametrize(("features", "said"), [
    ({0: [1.0], 1: [1.0, 2.0], 2: [0.0]}, "expected lists of equal length"),
    ({0: ["x"], 1: ["y"], 2: ["z"]}, "features cannot be read as numbers"),
    ({0: [1.0], 1: [2.0]}, "features has no row for '2'"),
    ({0: [1.0], 1: [np.nan], 2: [0.0]}, "not finite in column 0"),
    ({0: [1.0], 1: [1.0], 2: [1.0]}, "covariates or features are collinear"),
    (pd.DataFrame({"u": [1.0, 2.0, 3.0, 4.0]}, index=[0, 1, 2, 2]), "two rows for 2"),
    (pl.DataFrame({"u": [1.0, 2.0]}), "features has no column 'item'"),
])  # fmt: skip
def test_bad_features_get_a_sentence(features, said):
    model = PreferenceModel(features=features, deviations=False)
    with pytest.raises(DataError) as error:
        model.fit([0, 1, 2, 0], [1, 2, 0, 1], ["a", "b", "a", "b"])
    assert said in str(error.value)


def test_one_judge_says_nothing_of_dependence():
    votes = random_votes(np.random.default_rng(3), covariates=False)
    model = PreferenceModel().fit(votes.a, votes.b, votes.wins, judge=["u"] * len(votes))
    errors = model.strengths("model").standard_errors()
    assert model.strengths_.standard_errors() == pytest.approx(errors)
    with pytest.raises(DataError, match="at least two judges"):
        model.table(errors="sandwich")


def test_intervals_with_few_judges_are_those_of_student():
    votes = random_votes(np.random.default_rng(4), covariates=False)
    judge = np.arange(len(votes)) % 3
    model = PreferenceModel().fit(votes.a, votes.b, votes.wins, judge=judge)
    table = model.table()
    width = (table["high"] - table["low"]) / 2
    assert width.to_numpy() == pytest.approx(4.302653 * table["se"])  # 2 degrees of freedom


def test_votes_without_a_judge_are_judges_of_their_own():
    votes = random_votes(np.random.default_rng(5), covariates=False)
    judge = [None if k % 2 else f"u{k % 6}" for k in range(len(votes))]
    alone = [k if k % 2 else f"u{k % 6}" for k in range(len(votes))]
    found = [PreferenceModel().fit(votes.a, votes.b, votes.wins, judge=who).strengths_
             for who in (judge, alone)]  # fmt: skip
    assert found[0].covariance == pytest.approx(found[1].covariance)


def test_comparison_intervals_of_two_items_that_just_differ_touch():
    """Without correlation, √(q_i² + q_j²) is the error of the difference."""
    model = PreferenceModel(order_effect=True).fit(*vote_tables.baseball())
    table = model.table().set_index("item")
    z = 1.959964
    assert (table["quasi_high"] - table["quasi_low"]).to_numpy() == pytest.approx(
        2 * z * table["quasi_se"]
    )


def test_tables_of_many_items_take_little_memory():
    n = 100_000
    model = PreferenceModel("half", penalty=1.0).fit(np.arange(n), np.arange(n) + 1, np.ones(n))
    table = model.table()
    assert len(table) == n + 1
    assert table["rank_high"].eq(n + 1).all()
    assert np.isnan(table["low"]).all()


def test_models_that_are_not_fitted_say_so():
    with pytest.raises(NotFittedError, match="Call fit first"):
        PreferenceModel().table()
    assert not hasattr(PreferenceModel(), "votes_")


@pytest.mark.parametrize(("call", "said"), [
    (lambda model: model.table(level=95), "level is 95; expected a number between 0 and 1"),
    (lambda model: model.table(scale=0), "scale is 0; expected a finite number above 0"),
    (lambda model: model.table(scale=400, base=np.nan), "base is nan; expected a finite number"),
    (lambda model: model.table(anchor={"Boston": 1, "Toronto": 2}), "expected one item"),
    (lambda model: model.table(anchor={"Bostn": 1}), "did you mean 'Boston'"),
    (lambda model: model.table(errors="robust"), "errors is 'robust'; known choices"),
    (lambda model: model.win_probability("Boston", "Boston"), "expected two different items"),
    (lambda model: model.predict_proba(["Boston"], []), "a has 1 entries but b has 0"),
    (lambda model: model.predict_proba(["Boston"], ["Milan"]), "'Milan' is no item"),
    (lambda model: model.bootstrap(1), "n_samples is 1; expected a whole number of at least 2"),
])  # fmt: skip
def test_bad_questions_get_a_sentence(league, call, said):
    with pytest.raises(DataError) as error:
        call(league)
    assert said in str(error.value)


def test_infinite_strengths_are_named():
    with pytest.raises(DataError, match=r"'x', 'y', 'z' are infinite.*penalty='firth'"):
        PreferenceModel(penalty=None).fit(["x", "x", "y"], ["y", "z", "z"], ["a", "a", "a"])


def test_a_million_items_with_one_vote_each_get_a_sentence():
    n = 500_000
    with pytest.raises(DataError, match="500,000 components"):
        PreferenceModel().fit(np.arange(n), np.arange(n) + n, np.ones(n))


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper", "half", "drop"])
@pytest.mark.parametrize("judged", [True, False])
def test_sandwich_errors_against_a_slow_twin(ties, judged):
    """A sum over votes of scores, each a numeric derivative; judges' scores are added first."""
    rng = np.random.default_rng(5)
    votes = random_votes(rng, n_votes=120, covariates=False)
    judge = rng.integers(15, size=len(votes)) if judged else np.arange(len(votes))
    given = make_votes(votes.a, votes.b, votes.wins, judge=judge if judged else None)
    model = PreferenceModel(ties, order_effect=True).fit(given)
    x = model._x
    used = given.wins[:, :2].any(axis=1) if ties == "drop" else np.ones(len(votes), bool)
    scores = np.zeros((15 if judged else len(votes), len(x)))
    for v in np.flatnonzero(used):
        one = PreferenceModel(ties, order_effect=True)
        one.votes_, one._kind, one._x, one._units = given, model._kind, x, model._units

        def value(x, v=v, one=one):
            one._x = x
            p = one.probabilities_of(given.take(np.array([v])))[0]
            wins = given.wins[v].copy()
            if ties == "half":
                wins = np.array([*(wins[:2] + wins[2] / 2), 0.0])
            return -sum(w * np.log(q) for w, q in zip(wins, p, strict=True) if w)

        scores[judge[v]] += approx_fprime(x, value, 1e-6)
    n_groups = len(scores)
    C = model.covariance("model")
    slow = C @ scores.T @ scores @ C * n_groups / (n_groups - 1)
    found = np.sqrt(np.diag(slow))[: len(given.items)]
    table = model.table(errors="sandwich").set_index("item")
    assert [table["se"][item] for item in given.items] == pytest.approx(found, rel=0.02)


@pytest.mark.parametrize("judged", [True, False])
def test_bootstrap_errors_are_near_those_of_the_sandwich(judged):
    rng = np.random.default_rng(6)
    n, n_votes = 6, 4000
    a = rng.integers(n, size=n_votes)
    b = (a + rng.integers(1, n, n_votes)) % n
    judge = rng.integers(200, size=n_votes)
    taste = 0.7 * rng.standard_normal((200, n))[judge]
    rows = np.arange(n_votes)
    margin = 0.3 * (a - b) + taste[rows, a] - taste[rows, b]
    outcome = np.where(rng.random(n_votes) < 0.2, "tie",
                       np.where(rng.random(n_votes) < expit(margin), "a", "b"))  # fmt: skip
    model = PreferenceModel().fit(a, b, outcome, judge=judge if judged else None)
    found = model.bootstrap(400, seed=1)
    errors = model.strengths("sandwich").standard_errors()
    assert found.standard_errors() == pytest.approx(errors, rel=0.2)
    if judged:  # the model-based errors ignore what a judge's votes have in common
        assert (errors > 1.05 * model.strengths("model").standard_errors()).all()
    low, high = found.intervals(0.95)
    assert (high - low) == pytest.approx(2 * 1.96 * errors, rel=0.25)


def test_bootstrap_samples_are_refitted_exactly(league):
    """The strengths of a sample are those of a fit to its weights."""
    weights = np.random.default_rng(0).poisson(league._rows.W).astype(float)
    likelihood, theta = league._likelihood, league._optimum.theta
    factor = likelihood.factor(likelihood.hessian(theta))
    found = fit_sample(likelihood, factor, theta, lambda rng: weights, np.random.SeedSequence(0))
    rows = league._rows
    names = league.votes_.items
    again = PreferenceModel(order_effect=True).fit(
        [names[k] for k in rows.a], [names[k] for k in rows.b], weights
    )
    order = [again.votes_.items.index(name) for name in names]
    n = len(names)
    assert found[:n] - found[:n].mean() == pytest.approx(again._x[order], abs=1e-3)
    assert found[-1] == pytest.approx(again._x[-1], abs=1e-3)


def test_intervals_of_separated_votes_are_finite():
    counts = [[9, 0, 0], [9, 0, 0], [5, 3, 1]]
    with pytest.warns(SeparationWarning):
        model = PreferenceModel().fit(["x", "x", "y"], ["y", "z", "z"], counts)
    table = model.table()
    assert np.isfinite(table[["strength", "low", "high"]]).all(axis=None)
    assert table["high"].max() < 15
    assert np.abs(model.bootstrap(50).draws).max() < 15


def test_intervals_cover_with_ties_and_clusters():
    """`benchmarks.arena` has 1,000 simulations; the bounds for these 60 are wide."""
    truth = np.array([0.0, 0.4, 0.8, 1.2])
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a = rng.integers(4, size=1500)
        b = (a + rng.integers(1, 4, 1500)) % 4
        d = truth[a] - truth[b]
        e = np.log(0.6)
        top = np.exp([d / 2, -d / 2, np.full(1500, e)])
        drawn = (rng.random(1500) > np.cumsum(top / top.sum(axis=0), axis=0)).sum(axis=0)
        model = PreferenceModel(reference=0).fit(a, b, np.array(["a", "b", "tie"])[drawn])
        table = model.table().set_index("item").loc[[1, 2, 3]]
        covered.append((table["low"] < truth[1:]) & (truth[1:] < table["high"]))
    assert 0.89 <= np.mean(covered) <= 0.99
