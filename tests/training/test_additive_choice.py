"""The choice among penalties and C, means of fits, and bands of additive rankers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import additive_recovery
from linrank import (
    AdditiveRanker,
    AdditiveRankerCV,
    DataError,
    NothingSelectedWarning,
    make_ranking,
)
from linrank.choices import BASES
from linrank.features.design import Design
from linrank.penalties import ElasticNet
from linrank.penalties.group import GroupL1
from linrank.solvers.result import Status
from linrank.solvers.solver import Solver
from linrank.training.additive_trainer import AdditiveTrainer, mean_of_fits, spread_within
from linrank.training.selection import Criterion, balanced_grid

DATA = make_ranking(n_queries=20, docs_per_query=8, n_features=4, random_state=0)
VALID = make_ranking(n_queries=20, docs_per_query=8, n_features=4, random_state=1)
CS = [0.01, 0.1, 1.0]


@pytest.mark.parametrize("options", [{"average": 0}, {"n_bags": -1}, {"n_bags": 1.5}])
def test_numbers_of_fits_are_checked_before_a_fit(options):
    with pytest.raises(DataError, match=next(iter(options))):
        AdditiveRankerCV(**options).check_settings()


def test_models_of_a_path_are_those_of_the_chosen_penalty():
    penalties = [ElasticNet(ratio=0.1), ElasticNet(ratio=0.9)]
    for order in (penalties, penalties[::-1]):
        ranker = AdditiveRankerCV(CS, penalties=order, average=1).fit(DATA, valid=VALID)
        models = ranker.path_models(DATA)
        chosen = models[CS.index(ranker.C_)]
        assert chosen.settings["penalty"] == ranker.model_.settings["penalty"]
        assert chosen.predict(VALID.X) == pytest.approx(ranker.model_.predict(VALID.X))


def test_the_rule_1se_chooses_a_single_fit():
    criterion = Criterion(rule="1se")
    trainer = AdditiveTrainer.of(penalty="group_l1", criterion=criterion, average=3)
    training = trainer.train_on_grid(DATA, VALID, CS)
    found = [(trainer, training)]
    assert trainer.joined(training, found, DATA) is training
    best = replace(trainer, criterion=Criterion())
    assert best.joined(training, found, DATA).model.training["averaged_fits"] == 3


@pytest.mark.parametrize("choice", [{"valid": VALID.replace(X=np.full_like(VALID.X, 3.0))}, {}])
def test_features_without_variation_give_equal_scores(choice):
    X = np.full_like(DATA.X, 3.0)
    with pytest.warns(NothingSelectedWarning):
        ranker = AdditiveRankerCV().fit(X, DATA.y, qid=DATA.qid, **choice)
    assert np.ptp(ranker.predict(X)) == 0.0


@pytest.mark.parametrize("n_queries", [1, 2, 3])
def test_few_queries_have_few_folds(n_queries):
    data = DATA.take(np.arange(8 * n_queries))
    ranker = AdditiveRankerCV(CS).fit(data)
    assert ranker.metric_path_.shape == (3, 5 if n_queries == 1 else n_queries)


def test_an_interrupt_ends_the_fits_on_resampled_queries(monkeypatch):
    calls = []
    solve = Solver.solve

    def interrupted(self, problem, w0=None):
        calls.append(w0)
        result = solve(self, problem, w0)
        return replace(result, status=Status.INTERRUPTED) if len(calls) > 2 else result

    monkeypatch.setattr(Solver, "solve", interrupted)
    ranker = AdditiveRanker(C=0.1, n_bags=10)
    with pytest.raises(KeyboardInterrupt):
        ranker.fit(DATA)
    assert len(calls) == 3  # the fit, one on resampled queries, and the interrupted one
    assert all(curve.band is None for curve in ranker.model_.curves)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("average", [1, 2])
def test_bands_are_around_their_curves(basis, average):
    """The model may be a mean of fits with different penalties, whose scores have other scales."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(600, 4)), 1)
    y, qid = np.digitize(X[:, 0] * X[:, 3] + X[:, 2], [-1, 0, 1]), np.arange(600) // 10
    X[rng.random(X.shape) < 0.1] = np.nan
    options = {"basis": basis, "average": average, "interactions": 2, "categories": ["2"]}
    ranker = AdditiveRankerCV(CS, n_bags=6, **options).fit(X, y, qid, valid=(X, y, qid))
    for curve in ranker.model_.curves:
        x = np.append(np.linspace(-3.0, 3.0, 200), np.nan)
        low, high = curve.limits(x)
        np.testing.assert_allclose((low + high) / 2, curve(x), atol=1e-9)
        assert (high >= low).all()
    for surface in ranker.model_.surfaces:
        low, high = surface.band
        np.testing.assert_allclose((low + high) / 2, surface.values, atol=1e-9)
    assert ranker.model_.surfaces


def test_means_of_fits_do_not_depend_on_the_scales_of_their_scores():
    prepared = AdditiveTrainer.of().prepare(DATA)
    first, second = np.random.default_rng(0).normal(size=(2, prepared.data.n_features))
    mean = mean_of_fits(prepared.data, [first, second, 0.0 * first])
    again = mean_of_fits(prepared.data, [7.0 * first, 1e-6 * second])
    np.testing.assert_allclose(again, mean, rtol=1e-9)
    assert spread_within(prepared.data, mean) == pytest.approx(1.0)
    assert not mean_of_fits(prepared.data, [0.0 * first]).any()


@pytest.mark.slow
@pytest.mark.parametrize("average", [1, 3])
def test_bands_contain_known_curves(average):
    ranker = AdditiveRankerCV(2.0 ** np.arange(-6, 4), average=average, n_bags=20)
    found = [additive_recovery.covered(seed, ranker) for seed in range(12)]
    assert 0.9 < np.mean(found) < 0.995
    assert np.mean(found, axis=(0, 2)).min() > 0.85


@pytest.mark.parametrize("scale", [None, "both"])
def test_the_model_is_the_mean_of_fits_of_both_normalisations(scale):
    options = {"penalties": ["l2"], "average": 1, "scale": scale}
    ranker = AdditiveRankerCV(CS, penalties=["l2"], average=2, scale=scale).fit(DATA, valid=VALID)
    assert ranker.model_.training["averaged_fits"] == 4
    mean, X, qid = 0.0, VALID.X, VALID.qid
    for normalize in (None, "queries"):
        alone = AdditiveRankerCV(CS, normalize=normalize, **options).fit(DATA, valid=VALID)
        best = np.argsort(-alone.cv_results_["mean_test_score"], kind="stable")[:2]
        for model in (alone.path_models(DATA)[k] for k in best):
            mean = mean + model.predict(X, qid) / spread(model.predict(DATA.X, DATA.qid))
    found = ranker.predict(X, qid)
    assert spread(ranker.predict(DATA.X, DATA.qid)) == pytest.approx(1.0)
    assert np.corrcoef(found, mean)[0, 1] > 1 - 1e-9


def spread(scores):
    """Return the standard deviation within the queries of the training data."""
    means = np.array([scores[DATA.qid == q].mean() for q in DATA.qid])
    return (scores - means).std()


def test_pairs_of_features_are_found_with_one_normalisation():
    ranker = AdditiveRankerCV(CS, penalties=["l2"], average=2, interactions=1)
    ranker.fit(DATA, valid=VALID)
    assert ranker.model_.training["averaged_fits"] == 2
    with pytest.raises(DataError, match=r"^normalize is "):
        AdditiveRankerCV(normalize=()).check_settings()


def test_l1_is_the_total_variation_of_curves():
    model = AdditiveRanker(C=0.02, penalty="l1").fit(DATA).model_
    rises = np.concatenate([curve.pieces[1:-2, 1] for curve in model.curves])
    assert 0 < np.count_nonzero(np.abs(rises) > 1e-9) < len(rises)


@pytest.mark.parametrize("penalty", ["l2", "group_l1"])
def test_turned_columns_have_the_same_optimum(penalty, monkeypatch):
    scores = AdditiveRanker(C=0.05, penalty=penalty, tol=1e-8).fit(DATA).predict(VALID.X)
    monkeypatch.setattr(Design, "with_principal_columns", lambda design: design)
    twin = AdditiveRanker(C=0.05, penalty=penalty, tol=1e-8).fit(DATA).predict(VALID.X)
    np.testing.assert_allclose(scores - scores.mean(), twin - twin.mean(), atol=1e-3)


def test_columns_are_turned_for_norms_only():
    for penalty, turned in [
        ("l2", True), ("group_l1", True), (GroupL1(ratio=0.5), False), ("l1", False),
    ]:  # fmt: skip
        prepared = AdditiveTrainer.of(penalty=penalty).prepare(DATA)
        means = prepared.data.X.toarray().mean(axis=0)
        assert (float(np.abs(means).max()) < 1e-6) is turned


def test_a_path_ends_when_the_metric_falls():
    """The values are those of the whole path, up to its end."""
    trainer = AdditiveTrainer.of(penalty="group_l1")
    grid = balanced_grid(trainer.problem(trainer.prepare(DATA).data))
    whole = trainer.train_on_grid(DATA, VALID, replace(grid, patience=None, highest=0.0))
    ended = trainer.train_on_grid(DATA, VALID, replace(grid, patience=2, highest=0.0))
    n = len(ended.Cs)
    assert n < len(whole.Cs)
    assert not ended.interrupted
    np.testing.assert_allclose(ended.values, whole.values[:n], atol=1e-6)
    stops = [grid.is_past_best(whole.values[:k]) for k in range(len(whole.Cs))]
    assert not any(replace(grid, patience=2).is_past_best(whole.values[:k]) for k in range(n))
    assert not any(stops[:7])


def test_fits_of_different_bases_have_no_common_mean():
    options = {"average": 2, "normalize": None}
    ranker = AdditiveRankerCV(CS, penalties=["l2", "l1"], **options).fit(DATA, valid=VALID)
    assert ranker.model_.training["averaged_fits"] == 2
    alone = AdditiveRankerCV(CS, penalties=[ranker.penalty_], **options).fit(DATA, valid=VALID)
    assert ranker.predict(VALID.X) == pytest.approx(alone.predict(VALID.X))
