"""Losses, penalties and solvers as objects: a name is shorthand for one."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from linrank import (
    DataError,
    DominationRank,
    LinearModel,
    NothingSelectedWarning,
    RankingData,
    RankSVM,
    SparseRankSVM,
    make_problem,
)
from linrank.losses import LOSSES, PairwiseLoss, get_loss
from linrank.losses.registry import describe_loss
from linrank.penalties import L1, L2, MCP
from linrank.solvers import (
    FISTA,
    SOLVERS,
    CoordinateDescent,
    CuttingPlanes,
    Newton,
    PairSGD,
    ProximalNewton,
    QuerySGD,
    Tron,
    make_solver,
)
from linrank.solvers.newton import NewtonSettings
from linrank.training import Trainer
from linrank.training.selection import Criterion
from linrank.training.settings import AS_GIVEN, Settings
from problems import PAPERS, make_problem_arrays

HUBER = PairwiseLoss("mine", [(1.0, 0.0, 1.0), (0.0, 0.0, -1.0)])  # the table of "huber"
#: A ranker with an object, the same with a name, and what the model file says of the object.
PAIRS = {
    "loss": (
        RankSVM(C=1.0, loss=HUBER, **PAPERS),
        RankSVM(C=1.0, loss="huber", **PAPERS),
        "loss",
        {"name": "mine", "table": HUBER.table.tolist()},
    ),
    "newton": (
        RankSVM(C=1.0, solver=Newton(max_iter=50), **PAPERS),
        RankSVM(C=1.0, max_iter=50, **PAPERS),
        "max_iter",
        50,
    ),
    "fista": (
        SparseRankSVM(0.1, solver=FISTA(step="paper", max_iter=9999), **PAPERS),
        SparseRankSVM(0.1, **PAPERS),
        "solver_options",
        {"step": "paper"},
    ),
    "planes": (
        RankSVM(1e-3, solver=CuttingPlanes(damped=False), **PAPERS),
        RankSVM(1e-3, solver="cutting-planes", **PAPERS),
        "solver_options",
        {"damped": False},
    ),
    "coordinates": (
        DominationRank(1.0, solver=CoordinateDescent(relax=False, max_iter=9999), **PAPERS),
        DominationRank(1.0, **PAPERS),
        "solver_options",
        {"relax": False},
    ),
    "penalty": (
        SparseRankSVM(0.1, penalty=MCP(gamma=3.0), **PAPERS),
        SparseRankSVM(0.1, penalty="mcp", shape=3.0, **PAPERS),
        "penalty",
        {"name": "mcp", "shape": 3.0, "weights": None},
    ),
    "seed": (
        RankSVM(0.01, solver=PairSGD(seed=3), **PAPERS),
        RankSVM(0.01, solver="sgd-pairs", random_state=3, **PAPERS),
        "solver_options",
        {"seed": 3},
    ),
}


@pytest.mark.parametrize("part", PAIRS)
def test_objects_do_what_names_do(part, tmp_path):
    given, named, key, described = PAIRS[part]
    X, y, qid = make_problem_arrays("five levels", n=60)
    before = repr(given)
    ranker = pickle.loads(pickle.dumps(clone(given))).fit(X, y, qid)
    assert ranker.result_.converged
    expected = clone(named).fit(X, y, qid)
    assert ranker.result_.objective == pytest.approx(expected.result_.objective, rel=2e-3)
    ranker.model_.save(tmp_path / "model.json")
    assert LinearModel.load(tmp_path / "model.json").settings[key] == described
    assert repr(given) == before
    name = {"loss": "loss", "penalty": "penalty"}.get(part, "solver")
    assert repr(clone(ranker).get_params()[name]) == repr(given.get_params()[name])
    assert clone(given).fit(X, y, qid).coef_.tobytes() == ranker.coef_.tobytes()


def test_a_solver_that_is_given_is_not_changed_by_a_fit():
    solver = Newton(tol=1e-6)
    RankSVM(C=1.0, solver=solver, **PAPERS).fit(*make_problem_arrays("five levels"))
    assert solver == Newton(tol=1e-6)
    assert not hasattr(solver, "problem")


@pytest.mark.parametrize("name", ["tol", "max_iter"])
def test_a_solver_has_its_own_options(name):
    value = {"tol": 1e-5, "max_iter": 7}[name]
    with pytest.raises(DataError, match=rf"{name} is {value}, but solver is an object .*Newton\("):
        RankSVM(solver=Newton(), **PAPERS | {name: value}).fit(*make_problem_arrays("five levels"))
    same = RankSVM(solver=Newton(**{name: value}), **PAPERS | {name: value})
    same.fit(*make_problem_arrays("five levels"))


@pytest.mark.parametrize("solver", SOLVERS)
def test_options_are_compared_and_shown(solver):
    kind = SOLVERS[solver]
    assert kind.name == solver
    assert kind() == kind()
    assert kind(tol=1e-5) != kind()
    assert kind(tol=1e-5).options() == kind().options()
    assert repr(kind(tol=1e-5, max_iter=7)).startswith(f"{kind.__name__}(tol=1e-05, max_iter=7")
    assert pickle.loads(pickle.dumps(kind(max_iter=7))) == kind(max_iter=7)


def test_settings_hold_parts():
    settings = Settings(loss="huber", solver="tron", tol=1e-5, penalty="l2")
    assert settings.loss is get_loss("huber")
    assert settings.solver == Tron(tol=1e-5)
    assert isinstance(settings.penalty, L2)
    assert (
        Settings.of(penalty=L1(), solver=ProximalNewton(tol=0.1), normalize=None, scale=None).tol
        == 0.1
    )
    assert (
        Settings.of(
            solver="tron", solver_options={"stop": "gradient"}, normalize=None, scale=None
        ).solver.stop
        == "gradient"
    )
    trainer = Trainer(
        loss=HUBER,
        solver=Newton(max_iter=50),
        criterion=Criterion("map"),
        normalize=None,
        features=AS_GIVEN,
    )
    assert (trainer.max_iter, trainer.loss, trainer.criterion.metric) == (50, HUBER, "map")
    with pytest.raises(AttributeError):
        settings.tol = 0.1


def test_losses_are_equal_by_their_content():
    assert LOSSES["huber"] != HUBER
    assert PairwiseLoss("huber", HUBER.table) == LOSSES["huber"]
    assert hash(PairwiseLoss("huber", HUBER.table)) == hash(LOSSES["huber"])
    assert describe_loss(PairwiseLoss("huber", HUBER.table)) == "huber"
    assert {loss.name: clone(loss, safe=False) for loss in LOSSES.values()} == LOSSES


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([], "at least one hinge"),
        ([(1.0, 0.0)], "expected hinges"),
        ([(1.0, np.nan, 0.0)], "finite numbers"),
        ([(1.0, -1.0, 0.0)], "not convex below t = 1"),
        ([(1.0, 0.0, 1.0), (0.5, 0.0, -2.0)], "not convex below t = 0.5"),
        ([(1.0, 0.0, 0.0)], "is 0 for every t"),
    ],
)
def test_tables_that_are_no_loss_get_a_sentence(table, words):
    with pytest.raises(DataError, match=words):
        PairwiseLoss("mine", table)


@pytest.mark.parametrize("kind", [PairSGD, QuerySGD])
def test_a_stream_follows_the_options_of_its_solver(kind):
    X, y, qid = make_problem_arrays("five levels")
    fits = {}
    for seed in (3, 4):
        for average in (True, False):
            ranker = RankSVM(0.01, solver=kind(seed=seed, average=average), **PAPERS)
            fits[seed, average] = ranker.partial_fit(X, y, qid)
    assert len({ranker.coef_.tobytes() for ranker in fits.values()}) == 4
    assert fits[3, False].model_.settings["solver_options"] == {"seed": 3, "average": False}
    named = RankSVM(0.01, solver=kind.name, random_state=3, **PAPERS).partial_fit(X, y, qid)
    np.testing.assert_array_equal(named.coef_, fits[3, True].coef_)
    if kind is PairSGD:
        auto = RankSVM(0.01, random_state=3, **PAPERS).partial_fit(X, y, qid)
        np.testing.assert_array_equal(auto.coef_, named.coef_)
        assert auto.model_.settings["solver"] == "sgd-pairs"


def test_constants_of_a_solver_are_plain_data_in_a_model(tmp_path):
    solver = Newton(settings=NewtonSettings(bound_rounds=3))
    ranker = RankSVM(C=1.0, solver=solver, **PAPERS).fit(*make_problem_arrays("five levels"))
    ranker.model_.save(tmp_path / "model.json")
    saved = LinearModel.load(tmp_path / "model.json").settings["solver_options"]["settings"]
    assert NewtonSettings(**saved) == NewtonSettings(bound_rounds=3)
    for wrong in ({"settings": 5}, {"callback": 5}):
        with pytest.raises(DataError, match=f"{next(iter(wrong))} is 5; expected"):
            Newton(**wrong)


def test_an_objective_of_zero_is_the_optimum():
    """All margins are met at w = 0."""
    X, y, qid = make_problem_arrays("five levels")
    for penalty in ("l1", "log", "mcp"):
        with pytest.warns(NothingSelectedWarning, match="no feature lowers the loss"):
            ranker = SparseRankSVM(C=1.0, penalty=penalty, **PAPERS).fit(X, y, qid, margin=-y)
        assert not ranker.coef_.any()


def test_penalties_are_equal_by_their_content():
    assert L1() == L1()
    assert L1([1.0, 2.0]) == L1(np.array([1.0, 2.0]))
    assert L1() != L1(bounds="positive")
    assert MCP() != MCP(gamma=3.0)
    assert Settings() == Settings()
    assert Settings(penalty="l1") != Settings()


def test_a_seed_that_contradicts_the_solver_gets_a_sentence():
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match=r"seed is 5, but solver is an object .*PairSGD\(seed=5\)"):
        RankSVM(C=1.0, solver=PairSGD(), random_state=5, **PAPERS).fit(X, y, qid)
    assert Settings(solver=PairSGD(seed=3)).seed == 3


@pytest.mark.parametrize(
    ("kind", "name"),
    [(CuttingPlanes, "damped"), (FISTA, "restart"), (CoordinateDescent, "relax"),
     (PairSGD, "average")],
)  # fmt: skip
def test_switches_are_true_or_false(kind, name):
    with pytest.raises(DataError, match=f"{name} is 'False'; expected True or False"):
        kind(**{name: "False"})


@pytest.mark.parametrize("options", [{"bounds": "positive"}, {"loss": "domination"}])
def test_a_stream_that_cannot_be_learnt_from_names_fit(options):
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(
        DataError, match=r"partial_fit uses stochastic gradients\. This .* Use fit\."
    ):
        RankSVM(**PAPERS | options).partial_fit(X, y, qid)


def test_problems_take_names_of_penalties():
    data = RankingData(*make_problem_arrays("five levels"))
    assert isinstance(make_problem(data, penalty="l1").penalty, L1)


@pytest.mark.parametrize(
    ("name", "words"), [("hinge", "a loss with another table"), ("", "expected text"), (3, "text")]
)
def test_losses_have_names_of_their_own(name, words):
    with pytest.raises(DataError, match=words):
        PairwiseLoss(name, [(1.0, 0.0, 1.0)])


def test_unknown_parts_get_a_sentence():
    X, y, qid = make_problem_arrays("five levels")
    with pytest.raises(DataError, match="loss is 'sqared'; known choices are 'squared_hinge'"):
        RankSVM(C=1.0, loss="sqared", **PAPERS).fit(X, y, qid)
    with pytest.raises(DataError, match=r"known choices are .* or a Solver, such as Newton"):
        RankSVM(C=1.0, solver=Newton, **PAPERS).fit(X, y, qid)
    with pytest.raises(DataError, match=r"solver='newton' has no option 'damped'\. Its options"):
        make_solver("newton", damped=True)
