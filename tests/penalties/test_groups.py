"""Group penalties by their definitions, and their solvers against an independent optimum."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reference
from linrank import DataError, LinearModel, RankingData, SparseRankSVM
from linrank.losses import LOSSES
from linrank.penalties import L1, ElasticNet, GroupL1, make_penalty
from linrank.problem import make_problem
from linrank.solvers import FISTA, ProximalNewton, Status, make_solver
from linrank.solvers.proximal_newton import ProximalSettings, make_terms, minimise_model
from linrank.solvers.proximal_newton import QuadraticModel as Model
from linrank.training import Trainer
from linrank.training.selection import regularization_path, sparse_grid
from linrank.training.settings import Settings
from problems import PAPERS, make_problem_arrays, slow_loss

D = 7
GROUPS = [2, 0, 2, 1, 0, 2, 1]
SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]
SIGNS = (np.array([0, -np.inf, 0, -np.inf, -np.inf, -np.inf, 0]),
         np.array([np.inf, 0, np.inf, np.inf, np.inf, 0, 0]))  # fmt: skip
BOUNDS = {"free": None, "positive": "positive", "mixed": SIGNS}
#: ρ and the ridge: the group lasso, the sparse group lasso, both with a ridge, and l1.
PARTS = [(0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.4, 0.2), (1.0, 0.0), (1.0, 0.3)]
BY_PRODUCTS = ProximalSettings(matrix_limit=0, largest_matrix=0, cheap_matrix=0)

every_part = pytest.mark.parametrize(("ratio", "ridge"), PARTS)
every_bound = pytest.mark.parametrize("bounds", BOUNDS)
seeds = st.integers(0, 2**32 - 1)


def make_group(ratio=0.0, ridge=0.0, bounds="free", groups=GROUPS, weights=None):
    return GroupL1(weights, groups=groups, ratio=ratio, ridge=ridge, bounds=BOUNDS[bounds])


@st.composite
def group_penalties(draw):
    """Penalties of any groups, costs, parts and signs."""
    groups = np.array(draw(st.lists(st.integers(0, 3), min_size=D, max_size=D)))
    costs = np.array(draw(st.lists(st.sampled_from([0.2, 1.0, 3.0]), min_size=4, max_size=4)))
    ratio, ridge = draw(st.sampled_from(PARTS))
    bounds = draw(st.sampled_from(sorted(BOUNDS)))
    return make_group(ratio, ridge, bounds, groups, draw(st.sampled_from([None, costs[groups]])))


def ends(penalty):
    free = np.full(D, np.inf)
    return penalty.limits or (-free, free)


def slow_optimum(penalty, loss):
    """The reference optimum of f + Ω; the parts of Ω are those of the formula."""
    known = penalty.for_features(D)
    root = np.sqrt([np.count_nonzero(known.groups == g) for g in known.groups])
    beta = root if penalty.weights is None else np.asarray(penalty.weights)
    return reference.group_optimum(
        loss, *ends(known), penalty.ratio * beta / root, penalty.ridge * beta / root,
        (1 - penalty.ratio) * beta, known.groups,
    )  # fmt: skip


# The penalty by its definition ---------------------------------------------------------------


@every_part
def test_value_is_the_formula(ratio, ridge):
    w = np.array([0.3, 0.0, -1.2, 2.0, -0.4, 0.5, 0.0])
    beta = np.array([2.0, 0.5, 1.5])[GROUPS]
    for weights in (None, beta):
        expected = 0.0
        for g in range(3):
            inside = w[np.array(GROUPS) == g]
            root = np.sqrt(len(inside))
            cost = root if weights is None else weights[GROUPS.index(g)]
            plain = ratio * np.abs(inside).sum() + 0.5 * ridge * inside @ inside
            expected += cost * ((1 - ratio) * np.sqrt(inside @ inside) + plain / root)
        known = make_group(ratio, ridge, weights=weights).for_features(D)
        assert known.value(w) == pytest.approx(expected, rel=1e-12)
        assert make_terms(known, D).value(w) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(group_penalties(), seeds)
def test_prox_is_the_minimum(penalty, seed):
    rng = np.random.default_rng(seed)
    z, step = 3.0 * rng.standard_normal(D), float(10.0 ** rng.uniform(-1, 1))
    known = penalty.for_features(D)
    w = known.prox(z, step)
    _, best = slow_optimum(penalty, lambda v: (0.5 * np.sum((v - z) ** 2) / step, (v - z) / step))
    assert 0.5 * np.sum((w - z) ** 2) / step + known.value(w) <= best + 1e-9 * (1 + abs(best))
    assert (known.clip(w) == w).all()


@settings(max_examples=60, deadline=None)
@given(group_penalties(), seeds)
def test_distance_is_that_of_a_short_proximal_step(penalty, seed):
    """The step from w divided by its length tends to the least subgradient."""
    rng = np.random.default_rng(seed)
    known = penalty.for_features(D)
    w = known.prox(rng.standard_normal(D), 0.3)
    gradient, step = 2.0 * rng.standard_normal(D), 1e-7
    expected = np.abs(w - known.prox(w - step * gradient, step)) / step
    if (np.abs(w[w != 0]) > 1e-4).all():  # otherwise the step is not short
        np.testing.assert_allclose(known.distance(w, gradient), expected, rtol=1e-2, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(group_penalties(), seeds)
def test_groups_enter_at_the_smallest_C(penalty, seed):
    known = penalty.for_features(D)
    gradient = np.random.default_rng(seed).standard_normal(D)
    least = known.entry_C(gradient)
    if np.isfinite(least):
        assert not known.prox(-least * (1 - 1e-9) * gradient, 1.0).any()
        assert known.prox(-least * (1 + 1e-6) * gradient, 1.0).any()
    else:
        assert not known.prox(-1e9 * gradient, 1.0).any()


@settings(max_examples=60, deadline=None)
@given(group_penalties(), seeds)
def test_the_dual_value_is_the_largest_and_not_more(penalty, seed):
    """With a ridge, Ω* is computed from its maximiser. Without one, it is 0 or infinite."""
    rng = np.random.default_rng(seed)
    known, gradient = penalty.for_features(D), rng.standard_normal(D)
    linear, quadratic, end = float(rng.uniform(-1, 5)), float(rng.choice([0.0, 0.5])), 3.0

    def dual(s):
        u = -s * gradient
        if penalty.ridge == 0:
            inside = not known.prox(u * (1 - 1e-9), 1.0).any()
            return s * (linear - quadratic * s) if inside else -np.inf
        w = known.prox(1e8 * u, 1e8)  # nearly the maximiser of u'w − Ω(w)
        return s * (linear - quadratic * s) - (u @ w - known.value(w))

    found = known.best_dual(linear, quadratic, gradient, end)
    grid = [dual(s) for s in np.linspace(0.0, end, 60)]
    assert found >= max(grid) - 1e-6 * (1 + abs(found))
    wall = min(end, known.entry_C(gradient)) if penalty.ridge == 0 else end
    finer = [dual(s) for s in np.append(np.linspace(0.0, wall, 500), wall)]
    assert found <= max(finer) + 1e-3 * (1 + abs(found))


def test_groups_of_one_feature_are_l1():
    w, z, gradient = np.random.default_rng(0).standard_normal((3, D))
    for known, other in (
        (GroupL1(), L1()), (GroupL1(groups=np.arange(D), ratio=0.4), L1()),
        (GroupL1(ratio=1.0, groups=GROUPS), L1()),
        (GroupL1(weights=0.5, ridge=1.0), ElasticNet(ratio=0.5)),
        (GroupL1(bounds="positive"), L1(bounds="positive")),
    ):  # fmt: skip
        known, other = known.for_features(D), other.for_features(D)
        v = known.prox(z, 0.5)
        np.testing.assert_allclose(v, other.prox(z, 0.5), atol=1e-15)
        assert known.value(w) == pytest.approx(other.value(w))
        np.testing.assert_allclose(
            known.distance(v, gradient), other.distance(v, gradient), atol=1e-15
        )
        assert known.entry_C(gradient) == pytest.approx(other.entry_C(gradient))
        for quadratic, end in ((0.0, 1.0), (0.3, np.inf)):
            duals = [one.best_dual(2.0, quadratic, gradient, end) for one in (known, other)]
            assert duals[0] == pytest.approx(duals[1], rel=1e-9)


@every_part
@every_bound
def test_some_features_have_the_penalty_of_zeros_elsewhere(ratio, ridge, bounds):
    known = make_group(ratio, ridge, bounds).for_features(D)
    z = np.random.default_rng(0).standard_normal(D)
    w = known.clip(z)
    for some in (np.array([0, 3, 6]), np.array([1]), np.array([], int), np.arange(D) < 4):
        mask = np.zeros(D, bool)
        mask[some] = True
        part = known.for_some(some)
        assert part.value(w[mask]) == pytest.approx(known.value(np.where(mask, w, 0.0)))
        whole = known.prox(np.where(mask, z, 0.0), 0.3)
        np.testing.assert_allclose(part.prox(z[mask], 0.3), whole[mask], rtol=1e-12)


def test_companions_are_in_the_group_of_their_feature():
    known = make_group(0.3, 0.1, "positive").for_features(D).with_companions(np.array([1, 3]))
    assert known.groups.tolist() == [*GROUPS, 0, 1]
    again = known.for_features(D + 2)
    w = np.append(np.zeros(D), [-2.0, 0.0])
    l1, l2, norm = 0.3, 0.1, 0.7 * np.sqrt(2)
    for one in (known, again):
        assert one.value(w) == pytest.approx(2 * l1 + 0.5 * l2 * 4 + 2 * norm)
        assert one.limits.low[D:].tolist() == [-np.inf, -np.inf]


def test_a_description_makes_the_same_penalty(tmp_path):
    X, y, qid = make_problem_arrays("five levels", d=D)
    penalty = make_group(0.3, 0.2, "positive")
    model = SparseRankSVM(C=1.0, penalty=penalty, **PAPERS).fit(X, y, qid).model_
    model.save(tmp_path / "model.json")
    saved = LinearModel.load(tmp_path / "model.json").settings["penalty"]
    assert saved == penalty.describe()
    again = make_penalty(saved["name"], saved["shape"], saved["weights"], saved["bounds"])
    again = GroupL1(**vars(again) | {"groups": saved["groups"], "ridge": saved["ridge"]})
    assert again == penalty
    assert GroupL1().describe()["groups"] is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ratio": 1.5}, "ratio is 1.5; expected a number between 0 and 1"),
        ({"ratio": -0.1}, "ratio is -0.1; expected a number between 0 and 1"),
        ({"ridge": -1}, "ridge is -1; expected a number at least 0"),
        ({"ridge": "much"}, "ridge is 'much'; expected a number at least 0"),
    ],
)
def test_bad_parameters_get_a_sentence(options, sentence):
    with pytest.raises(DataError) as error:
        GroupL1(**options)
    assert str(error.value) == sentence


def test_costs_of_a_group_are_equal():
    with pytest.raises(DataError, match="different costs for features of one group"):
        GroupL1([1.0, 2.0], groups=[0, 0]).for_features(2)


# Solvers -------------------------------------------------------------------------------------


def ranking_problem(penalty, multiple, loss="squared_hinge", seed=0, **options):
    """A problem at a multiple of the smallest C that selects a group, with its slow loss."""
    X, y, qid = make_problem_arrays("five levels", n=50, d=D, seed=seed)
    problem = make_problem(RankingData(X, y, qid), loss=loss, penalty=penalty, **options)
    slow = slow_loss(loss, y, qid)
    problem = problem.with_C(multiple * problem.smallest_C())

    def slow_loss_of_weights(w):
        value, slope = slow(X @ w)
        return problem.C * value, problem.C * X.T @ slope

    return problem, slow_loss_of_weights


#: All parts and bounds with one loss, and two of them with each other loss.
CASES = [
    *(("squared_hinge", bounds, *parts) for bounds in BOUNDS for parts in PARTS),
    *((loss, "free", 0.0, 0.0) for loss in SMOOTH[1:]),
    *((loss, "mixed", 0.4, 0.2) for loss in SMOOTH[1:]),
]


@pytest.mark.parametrize(("loss", "bounds", "ratio", "ridge"), CASES)
def test_solvers_reach_the_optimum_and_prove_it(loss, bounds, ratio, ridge):
    problem, slow = ranking_problem(make_group(ratio, ridge, bounds), 8.0, loss)
    _, best = slow_optimum(make_group(ratio, ridge, bounds), slow)
    by_products = ProximalNewton(tol=1e-7, settings=BY_PRODUCTS)
    for solver in (ProximalNewton(tol=1e-8), by_products, FISTA(tol=1e-6, max_iter=50_000)):
        result = solver.solve(problem)
        assert result.status is Status.CONVERGED, result.message
        assert result.gap <= solver.tol
        assert best * (1 - 1e-7) <= result.objective <= best * (1 + 1e-6)
        assert (problem.clip(result.coef) == result.coef).all()


@settings(max_examples=20, deadline=None)
@given(group_penalties(), seeds, st.floats(0.1, 4.0), st.sampled_from(["squared_hinge", "huber"]))
def test_certificates_never_claim_too_much(penalty, seed, digits, loss):
    problem, _ = ranking_problem(penalty, 1.0, loss, seed % 1000)
    if not np.isfinite(problem.C):
        return
    problem = problem.with_C(10.0**digits * problem.C)
    best = ProximalNewton(tol=1e-9).solve(problem).objective
    start = problem.clip(np.random.default_rng(seed).standard_normal(D))
    for solver in (ProximalNewton(tol=1e-5), FISTA(tol=1e-2, max_iter=300)):
        result = solver.solve(problem, start)
        assert result.objective >= best * (1 - 1e-8)
        for step in result.history:
            if step.gap is not None:
                assert step.objective * (1 - step.gap) <= best * (1 + 1e-9)


@settings(max_examples=15, deadline=None)
@given(group_penalties(), seeds, st.booleans())
@example(GroupL1(groups=np.zeros(D, np.int64), ratio=1.0), 0, False)  # groups without norms
def test_the_model_is_minimised(penalty, seed, flat):
    """Also if features are nearly equal, so that descent over blocks is slow."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((20, D)) * (0.01 if flat else 1.0) + rng.standard_normal((20, 1))
    H, gradient = A.T @ A + 1e-6 * np.eye(D), 5.0 * rng.standard_normal(D)
    known = penalty.for_features(D)
    w = known.prox(rng.standard_normal(D), 0.5)

    def smooth(v):
        return (v - w) @ (gradient + 0.5 * H @ (v - w)), gradient + H @ (v - w)

    model = Model(H, gradient, w, make_terms(known, D), 1e-14)
    v = minimise_model(model, 20, 100)
    _, best = slow_optimum(penalty, smooth)
    assert (known.clip(v) == v).all()
    assert model.value(v) == pytest.approx(smooth(v)[0] + known.value(v), rel=1e-9, abs=1e-9)
    assert model.value(v) <= best + 1e-6 * (1 + abs(best))


def test_one_group_is_the_plain_norm():
    """The optimum of ‖w‖ + f solves ∇f = −w/‖w‖."""
    problem, _ = ranking_problem(GroupL1(1.0, groups=np.zeros(D)), 5.0)
    w = ProximalNewton(tol=1e-10).solve(problem).coef
    gradient = problem.value_grad(w)[1]
    np.testing.assert_allclose(gradient, -w / np.linalg.norm(w), atol=1e-4)


def test_groups_of_one_feature_have_the_solution_of_l1():
    plain, _ = ranking_problem(L1(), 10.0)
    grouped = plain.with_penalty(GroupL1())
    w, v = (ProximalNewton(tol=1e-10).solve(one).coef for one in (plain, grouped))
    np.testing.assert_allclose(v, w, atol=1e-6)


def test_groups_without_a_cost_are_free():
    """There is no lower bound, and the distance decides."""
    weights = np.array([1.0, 0.0, 2.0])[GROUPS]
    problem, slow = ranking_problem(make_group(weights=weights), 3.0)
    result = ProximalNewton(tol=1e-8).solve(problem)
    assert result.status is Status.CONVERGED
    assert result.gap is None
    assert result.coef[[3, 6]].all()
    best = slow_optimum(make_group(weights=weights), slow)[1]
    assert result.objective == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("ratio", [0.0, 0.3])
def test_the_hinge_is_smoothed(ratio):
    X, y, qid = make_problem_arrays("five levels", n=40, d=D)
    problem = make_problem(RankingData(X, y, qid), loss="hinge", penalty=make_group(ratio))
    problem = problem.with_C(10.0 * problem.smallest_C())
    solver = make_solver("auto", problem.engine.loss, problem.penalty, tol=1e-5)
    assert solver.name == "proximal-smoothing"
    result = solver.solve(problem)
    assert result.gap <= 1e-5
    values = [problem.value_grad(result.coef + 1e-3 * one)[0]
              for one in np.random.default_rng(0).standard_normal((200, D))]  # fmt: skip
    assert result.objective * (1 - 1e-5) <= min(values)


@pytest.mark.parametrize("bounds", ["free", "positive"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "domination"])
def test_warm_starts_on_a_path_reach_the_same_optima(loss, bounds):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    X = rng.standard_normal((200, 160)) + rng.standard_normal((200, 40))[:, groups]
    y, qid = np.digitize(X[:, :12].sum(axis=1), [-8.0, 0.0, 8.0]), np.arange(200) // 10
    penalty = GroupL1(groups=groups, ratio=0.1, bounds=BOUNDS[bounds])
    problem = make_problem(RankingData(X, y, qid), loss=loss, penalty=penalty)
    Cs = sparse_grid(problem, 6, 300.0)
    path = regularization_path(problem, Cs, tol=1e-4)
    used = [len(np.unique(groups[coef != 0])) for coef in path.coefs]
    assert used[0] == 1 < used[-1]
    for C, result in zip(Cs, path.results, strict=True):
        assert result.converged
        cold = ProximalNewton(tol=1e-8).solve(problem.with_C(C)).objective
        assert cold * (1 - 1e-8) <= result.objective <= cold * (1 + 1e-4)


def test_large_working_sets_take_products_and_reach_the_optimum():
    """Conjugate gradients with fixed signs and directions replace the matrix."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 9)
    X = rng.standard_normal((300, 180)) + rng.standard_normal((300, 20))[:, groups]
    y, qid = np.digitize(X[:, :45].sum(axis=1), [-20.0, 0.0, 20.0]), np.arange(300) // 10
    problem = make_problem(RankingData(X, y, qid), penalty=GroupL1(groups=groups))
    problem = problem.with_C(100.0 * problem.smallest_C())
    by_products = ProximalNewton(tol=1e-4, settings=BY_PRODUCTS).solve(problem)
    assert by_products.n_products > 0
    by_matrix = ProximalNewton(tol=1e-6).solve(problem)
    for result in (by_products, by_matrix):
        assert result.status is Status.CONVERGED, result.message
    assert by_products.objective <= by_matrix.objective * (1 + 1e-4)


def test_settings_and_trainers_take_groups():
    X, y, qid = make_problem_arrays("five levels", n=120, d=D)
    train, held_out = RankingData(X, y, qid), RankingData(X[::2], y[::2], qid[::2])
    penalty = GroupL1(groups=GROUPS, ratio=0.2, bounds="positive")
    assert Settings.of(penalty=penalty, normalize=None, scale=None).solver.name == "proximal-newton"
    found = Trainer.of(penalty=penalty, normalize=None, scale=None).train_on_grid(
        train, held_out, [1e-3, 1e-1]
    )
    assert (found.result.coef >= 0).all()
    assert Settings.of(
        penalty="group_l1", shape=0.3, normalize=None, scale=None
    ).penalty == GroupL1(ratio=0.3)


def test_solvers_without_groups_name_one_with():
    X, y, qid = make_problem_arrays("five levels", d=D)
    ranker = partial(SparseRankSVM, penalty=make_group())
    with pytest.raises(DataError, match=r"penalty='group_l1'\. Use solver='proximal-newton'"):
        ranker(solver="reweighted").fit(X, y, qid)
