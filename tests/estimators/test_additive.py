"""Additive rankers: optima, forms, curves, solvers and paths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import reference
from linrank import AdditiveRanker, RankingData
from linrank.choices import BASES
from linrank.features.basis import FORMS
from linrank.losses import get_loss
from linrank.model import AdditiveModel
from linrank.penalties import GroupL1, make_penalty
from linrank.problem import make_problem
from linrank.solvers import SOLVERS, make_solver, usable_solvers
from linrank.training.additive_trainer import AdditiveTrainer, curves_of

PENALTIES = {
    "l2": "l2",
    "l1": "l1",
    "elastic_net": "elastic_net",
    "group_l1": "group_l1",
    "sparse group": GroupL1(ratio=0.4),
    "group and ridge": GroupL1(ratio=0.2, ridge=0.3),
}
SMOOTH = ["squared_hinge", "logistic", "huber", "domination"]
N_BINS, C = 5, 0.3


def make_data(missing=False, n=120, seed=0, **more):
    """Data whose positions are numbers of single precision, so that nothing is rounded."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([
        rng.standard_normal(n), rng.integers(0, 5, n), rng.lognormal(0, 1.5, n),
        rng.standard_normal(n) * (rng.random(n) < 0.4), rng.integers(0, 2, n), np.full(n, 2.0),
    ])  # fmt: skip
    truth = np.abs(X[:, 0]) + np.sin(X[:, 1]) + 0.4 * np.log(X[:, 2]) + X[:, 3]
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
        X[:, 4] = np.nan
    y = np.digitize(truth + 0.6 * rng.standard_normal(n), [0.0, 1.0, 2.0])
    return RankingData(X, y, np.arange(n) // 12, allow_missing=True, **more)


def exact_positions(trainer, data):
    """The data with values whose positions do not change if they are rounded."""
    design = trainer.prepare(data).design
    X = np.array(data.X)
    for x, axis in zip(X.T, design.axes, strict=True):
        cells = axis.cells(x)
        inside = (cells > 0) & (cells < len(axis.knots)) & (not axis.levels)
        t = np.float32(axis.places(x, cells) + cells) - np.float64(cells)
        x[inside] = (axis.anchors[cells] + t * axis.widths[cells])[inside]
    return data.replace(X=X)


def explicit_optimum(trainer, data, forms=None, C=C):
    """Solve the same problem on the columns of `reference.additive_design`."""
    axes = trainer.prepare(data).design.axes
    X, low, high, owner = reference.additive_design(
        data.X, axes, trainer.design.basis, trainer.describe(C)["smooth"], forms
    )
    bounds = None if np.isinf([low, high]).all() else (low, high)
    penalty = trainer.penalty
    more = {"groups": owner} if penalty.kind == "group" else {}
    penalty = type(penalty)(
        **{"bounds": bounds} | more | {k: getattr(penalty, k) for k in ("ratio", "ridge", "alpha")
                                       if hasattr(penalty, k)}
    )  # fmt: skip
    problem = make_problem(
        data.replace(X=X, feature_names=None, has_missing=False), C, loss=trainer.loss,
        penalty=penalty, preferences=trainer.preferences, normalize=trainer.normalize,
    )  # fmt: skip
    solver = make_solver("auto", trainer.loss, penalty, tol=trainer.tol, max_iter=5000)
    return X, owner, solver.solve(problem)


def check_optimum(data, near=1e-8, forms=None, tol=1e-9, **options):
    """Compare the objective and the scores with those of the explicit columns."""
    trainer = AdditiveTrainer.of(n_bins=N_BINS, tol=tol, max_iter=5000, **options)
    data = exact_positions(trainer, data)
    X, owner, expected = explicit_optimum(trainer, data, forms)
    training = trainer.train(data, C)
    assert training.result.converged, training.result.message
    assert training.result.objective == pytest.approx(expected.objective, rel=near)
    assert len(training.result.coef) == X.shape[1]
    prepared = trainer.prepare(data)
    np.testing.assert_array_equal(prepared.design.owner, owner)
    columns = prepared.data.X.toarray()
    check_columns(columns, X, 1e-9)
    check_scores(training, data, columns @ training.result.coef, 1e-9)
    return training


def check_columns(columns, X, error):
    """The columns are X up to means and an orthogonal matrix: distances of documents are equal."""
    columns, X = (own - own.mean(axis=0) for own in (columns, X))
    np.testing.assert_allclose(columns @ columns.T, X @ X.T, atol=error * (X**2).sum())


def check_scores(training, data, scores, error):
    """The scores of the model are those of the columns, up to a constant."""
    found = training.model.scores(data.X, data.query_ptr)
    size = max(1.0, np.ptp(scores))
    np.testing.assert_allclose(found - found.mean(), scores - scores.mean(), atol=error * size)


# The optimum -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("basis", BASES)
def test_the_optimum_is_that_of_explicit_columns(basis, penalty, loss):
    data = make_data(missing=loss == "huber")
    rescale = None if loss == "domination" else "slack"
    check_optimum(data, basis=basis, penalty=PENALTIES[penalty], loss=loss, rescale=rescale)


@pytest.mark.parametrize(
    ("basis", "penalty"), list(zip(BASES, ["l2", "l1", "group_l1"], strict=True))
)
def test_the_optimum_of_the_hinge(basis, penalty):
    check_optimum(make_data(), 2e-5, tol=1e-5, basis=basis, penalty=penalty, loss="hinge")


@pytest.mark.parametrize("basis", BASES)
def test_the_optimum_without_a_penalty(basis):
    check_optimum(make_data(), 1e-6, tol=1e-8, basis=basis, penalty="none", loss="squared_hinge")


OPTIONS = {
    "missing": {},
    "categories": {"categories": ["2"]},
    "normalize": {"normalize": "queries"},
    "all pairs": {"rescale": None},
    "margins": {"rescale": "margin", "delta": "label"},
    "adjacent": {"pairs": "adjacent", "rescale": None},
    "not smooth": {"smooth": 0.0},
    "very smooth": {"smooth": 30.0},
}


@pytest.mark.parametrize("penalty", ["l2", "group_l1"])
@pytest.mark.parametrize("basis", ["ramp", "step"])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_optimum_with_options(name, basis, penalty):
    options = {"loss": "squared_hinge"} | OPTIONS[name]
    check_optimum(make_data(name != "categories"), basis=basis, penalty=penalty, **options)


@pytest.mark.parametrize("penalty", ["l2", "group_l1"])
def test_the_optimum_with_weights(penalty):
    rng = np.random.default_rng(1)
    n = 120
    weights = {
        "sample_weight": rng.uniform(0.5, 2.0, n), "propensity": rng.uniform(0.2, 1.0, n),
        "query_weight": rng.uniform(0.5, 2.0, 10)[np.arange(n) // 12],
    }  # fmt: skip
    check_optimum(make_data(True, **weights), penalty=penalty, loss="huber")


@pytest.mark.parametrize("penalty", ["l2", "l1", "group_l1"])
@pytest.mark.parametrize("form", FORMS)
def test_the_optimum_with_forms(form, penalty):
    data = make_data(missing=True)
    forms = {0: form, 2: form, 3: form}
    given = {str(1 + j): form for j, form in forms.items()}
    check_optimum(data, forms=forms, monotone=given, penalty=penalty, loss="squared_hinge")


def test_costs_are_those_of_features():
    data = make_data()
    costs = np.array([1.0, 1e6, 1.0, 1.0, 1.0, 1.0])
    for penalty in ("l1", "group_l1"):
        trainer = AdditiveTrainer.of(penalty=penalty, feature_cost=costs, loss="squared_hinge")
        features = [curve.feature for curve in trainer.train(data, 10.0).model.curves]
        assert 1 not in features
        assert 0 in features


# Models ------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("basis", BASES)
def test_the_model_has_the_scores_of_its_columns(basis, missing):
    """Positions of any values are rounded to single precision, and nothing else is."""
    data = make_data(missing, n=240)
    trainer = AdditiveTrainer.of(basis=basis, loss="squared_hinge", categories=["2"])
    training = trainer.train(data, C)
    prepared = trainer.prepare(data)
    X, *_ = reference.additive_design(
        data.X, prepared.design.axes, basis, trainer.describe(C)["smooth"]
    )
    columns = prepared.data.X.toarray()
    check_columns(columns, X, 1e-6)
    scores = columns @ training.result.coef
    check_scores(training, data, scores, 1e-5)
    found = training.model.scores(data.X)
    far = np.abs(scores[:, None] - scores) > 1e-4 * np.ptp(scores)
    order = np.sign(found[:, None] - found) == np.sign(scores[:, None] - scores)
    assert order[far].all()


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("basis", BASES)
def test_statistics_of_curves(basis, missing):
    data = make_data(missing)
    trainer = AdditiveTrainer.of(basis=basis, loss="squared_hinge", categories=["2"])
    data = exact_positions(trainer, data)
    model = trainer.train(data, 1.0).model
    assert len(model.curves) >= 4
    for curve in model.curves:
        x = data.X[:, curve.feature]
        values = curve(x)
        assert values.mean() == pytest.approx(0.0, abs=1e-9)
        assert curve.spread == pytest.approx(values.std(), rel=1e-6)
        cells = np.bincount(curve.axis.cells(x), minlength=curve.axis.n_cells)
        np.testing.assert_array_equal(curve.counts, cells)


def test_storages_give_the_same_model():
    data = make_data()
    dense = AdditiveTrainer.of().train(data, C).model
    csr = AdditiveTrainer.of().train(data.replace(X=sparse.csr_array(data.X)), C).model
    np.testing.assert_allclose(csr.scores(data.X), dense.scores(data.X), atol=1e-9)


# Forms -------------------------------------------------------------------------------------


def grid_of(knots):
    """Values around knots, one number apart, and between and beyond them."""
    near = [np.nextafter(knots, -np.inf), knots, np.nextafter(knots, np.inf)]
    between = np.linspace(knots[0] - 1, knots[-1] + 1, 400)
    return np.unique(np.concatenate([*near, between, [-1e300, 1e300]]))


@pytest.mark.parametrize("ends", ["flat", "linear"])
@pytest.mark.parametrize(
    ("basis", "form"),
    [*(("ramp", form) for form in FORMS), ("step", "increasing"), ("step", "decreasing")],
)
@pytest.mark.parametrize("missing", [False, True])
def test_forms_hold_exactly(basis, form, ends, missing):
    data = make_data(missing, seed=3)
    trainer = AdditiveTrainer.of(
        basis=basis, ends=ends, monotone={"1": form, "3": form, "4": form},
        loss="squared_hinge", normalize="pairs",
    )  # fmt: skip
    model = trainer.train(data, 100.0).model
    for curve in (c for c in model.curves if c.feature in (0, 2, 3)):
        x = grid_of(curve.axis.knots)
        rows = np.tile(np.nan_to_num(data.X[5]), (len(x), 1))
        rows[:, curve.feature] = x
        for values in (curve(x), model.scores(rows)):
            rises = np.diff(values)
            assert (rises >= 0).all() or "increasing" not in form
            assert (rises <= 0).all() or "decreasing" not in form
        check_bend(form, curve, ends)


@pytest.mark.parametrize("basis", ["ramp", "step"])
def test_rises_that_are_lost_in_rounding_do_not_become_falls(basis):
    """Columns have means that are not 0 if values are missing, and weights of any size."""
    data, rng = make_data(missing=True), np.random.default_rng(0)
    trainer = AdditiveTrainer.of(basis=basis, monotone={"1": 1, "3": 1})
    design = trainer.prepare(data).design
    for _ in range(100):
        coef = 10.0 ** rng.uniform(-20, 0, len(design.owner))
        for curve in curves_of(design, coef, "flat"):
            if curve.feature in (0, 2):
                assert (np.diff(curve(grid_of(curve.axis.knots))) >= 0).all()


def check_bend(form, curve, ends):
    knots = curve.axis.knots
    x = np.append(knots, [knots[0] - 2.0, knots[-1] + 3.0] if ends == "linear" else [])
    x = np.unique(x)
    slopes = np.diff(curve(x)) / np.diff(x)
    room = 1e-9 * max(1.0, np.abs(slopes).max(initial=0.0))
    if "convex" in form:
        assert (np.diff(slopes) >= -room).all()
    if "concave" in form:
        assert (np.diff(slopes) <= room).all()


@pytest.mark.parametrize("basis", BASES)
def test_curves_beyond_their_ends(basis):
    data = make_data()
    for ends in ("flat", "linear"):
        model = AdditiveTrainer.of(basis=basis, ends=ends).train(data, 1.0).model
        curve = model.curves[0]
        a, b = curve.axis.knots[[0, -1]]
        beyond = curve(np.array([a - 4.0, a - 2.0, b + 2.0, b + 4.0]))
        if ends == "flat" or basis == "step":
            np.testing.assert_array_equal(beyond[::2], beyond[1::2])
            continue
        h = 1e-6
        left, right = np.diff(curve(np.array([a, a + h, b - h, b])))[::2] / h
        assert beyond[1] - beyond[0] == pytest.approx(2 * left, rel=1e-3, abs=1e-6)
        assert beyond[3] - beyond[2] == pytest.approx(2 * right, rel=1e-3, abs=1e-6)
        assert curve(np.array([a]))[0] - beyond[1] == pytest.approx(2 * left, rel=1e-3, abs=1e-6)


# Solvers and engines -----------------------------------------------------------------------

#: Tolerance and largest relative distance to the optimum of solvers that are slow to get near.
ROUGH = {
    "cutting-planes": (1e-4, 2e-4), "sgd-pairs": (1e-3, 5e-2), "sgd-queries": (1e-3, 5e-2),
    "smoothing": (1e-5, 1e-5), "proximal-smoothing": (1e-5, 2e-5), "fista": (1e-6, 1e-4),
}  # fmt: skip
CASES = [("huber", "l2"), ("huber", "l1"), ("huber", "group_l1"), ("hinge", "l2"),
         ("domination", "l2"), ("domination", "l1")]  # fmt: skip


@pytest.mark.parametrize(("loss", "penalty"), CASES)
def test_every_solver_reaches_the_optimum(loss, penalty):
    data, found = make_data(missing=True), {}
    for solver in usable_solvers(get_loss(loss), make_penalty(penalty)):
        if solver == "tron-paper":
            continue  # the steps of tron with another rule for stopping
        tol, near = ROUGH.get(solver, (1e-6, 1e-6))
        trainer = AdditiveTrainer.of(
            loss=loss, penalty=penalty, solver=solver, tol=tol, max_iter=20_000, rescale=None
        )
        is_explicit = isinstance(trainer.prepare(data).data.X, np.ndarray)
        assert is_explicit == SOLVERS[solver].needs.rows
        found[solver] = trainer.train(data, 0.05).result.objective, near
    best = min(objective for objective, _ in found.values())
    for objective, near in found.values():
        assert objective <= best * (1 + near)
    assert len(found) > 1


# Recovery ----------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", BASES)
def test_known_curves_are_recovered(basis):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (20_000, 3))
    curves = [lambda x: np.sin(2 * x), lambda x: np.abs(x), lambda x: 1.0 / (1 + np.exp(-4 * x))]
    score = sum(curve(x) for curve, x in zip(curves, X.T, strict=True))
    y = np.digitize(score + 0.3 * rng.standard_normal(len(X)), [0.5, 1.5, 2.5])
    data = RankingData(X, y, np.arange(len(X)) // 10)
    n_bins = 16 if basis == "step" else 8
    model = AdditiveTrainer.of(basis=basis, n_bins=n_bins).train(data, 0.01).model
    x = np.linspace(-1.95, 1.95, 300)
    for found, truth in zip(model.curves, curves, strict=True):
        assert np.corrcoef(found(x), truth(x))[0, 1] > 0.98


# Paths -------------------------------------------------------------------------------------


def split_data():
    data = make_data(missing=True, n=240)
    return data.take(np.arange(144)), data.take(np.arange(144, 240))


def test_a_grid_of_C():
    data, valid = split_data()
    trainer = AdditiveTrainer.of(loss="squared_hinge")
    Cs = [0.001, 0.01, 0.1, 1.0]
    training = trainer.train_on_grid(data, valid, Cs)
    np.testing.assert_array_equal(training.Cs, Cs)
    for C, value in zip(Cs, training.values, strict=True):
        model = trainer.train(data, C).model
        own = trainer.criterion.mean(valid, model.scores(valid.X))
        assert value == pytest.approx(own, abs=0.02)
    assert training.value == training.values.max()
    found = trainer.criterion.mean(valid, training.model.scores(valid.X))
    assert found == pytest.approx(training.value, abs=1e-6)


def test_folds():
    data, _ = split_data()
    training = AdditiveTrainer.of(penalty="group_l1").train_by_folds(data, 3, [0.01, 0.1, 1.0])
    assert training.fold_values.shape == (3, 3)
    assert training.C in (0.01, 0.1, 1.0)
    assert isinstance(training.model, AdditiveModel)
    again = AdditiveTrainer.of(penalty="group_l1").train(data, training.C).model
    np.testing.assert_allclose(again.scores(data.X), training.model.scores(data.X), atol=0.05)


@pytest.mark.parametrize("by_folds", [False, True])
def test_an_interrupted_path_keeps_the_best_model(by_folds):
    data, valid = split_data()
    seen = []

    def stop(C, step, fold):
        seen.append((C, fold))
        if C == 1.0 and fold == int(by_folds):
            raise KeyboardInterrupt

    trainer = AdditiveTrainer.of(callback=stop)
    if by_folds:
        training = trainer.train_by_folds(data, 3, [0.01, 0.1, 1.0])
        assert training.folds_done == 0
    else:
        training = trainer.train_on_grid(data, valid, [0.01, 0.1, 1.0])
        assert training.value == np.nanmax(training.values)
    assert training.interrupted
    assert isinstance(training.model, AdditiveModel)
    assert np.isfinite(training.model.scores(valid.X)).all()
    assert max(C for C, _ in seen) == 1.0


def test_the_estimator_takes_bad_input():
    """Constant features, two values, all missing, and values that training did not have."""
    data = make_data(missing=True)
    ranker = AdditiveRanker(0.1, categories=["2"])
    ranker.fit(data.X, data.y, data.qid)
    X = np.array([[np.nan] * 6, [1e300] * 6, [-1e300] * 6, [0.5] * 6])
    assert np.isfinite(ranker.predict(X)).all()
