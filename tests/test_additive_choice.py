"""The choice among penalties and C, means of fits, and bands of additive rankers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linrank import (
    AdditiveRanker,
    AdditiveRankerCV,
    DataError,
    NothingSelectedWarning,
    make_ranking,
)
from linrank.criterion import Criterion
from linrank.penalties import ElasticNet
from linrank.solvers.base import Solver
from linrank.solvers.result import Status
from linrank.training.additive import AdditiveTrainer

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
    assert trainer.joined(training, [training], DATA) is training
    best = replace(trainer, criterion=Criterion())
    assert best.joined(training, [training], DATA).model.training["averaged_fits"] == 3


def test_features_without_variation_give_equal_scores():
    X = np.full_like(DATA.X, 3.0)
    with pytest.warns(NothingSelectedWarning):
        ranker = AdditiveRankerCV(CS).fit(X, DATA.y, qid=DATA.qid, valid=(X, DATA.y, DATA.qid))
    assert np.ptp(ranker.predict(X)) == 0.0


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


def test_l1_is_the_total_variation_of_curves():
    model = AdditiveRanker(C=0.02, penalty="l1").fit(DATA).model_
    rises = np.concatenate([curve.pieces[1:-2, 1] for curve in model.curves])
    assert 0 < np.count_nonzero(np.abs(rises) > 1e-9) < len(rises)


def test_fits_of_different_bases_have_no_common_mean():
    ranker = AdditiveRankerCV(CS, penalties=["l2", "l1"], average=2).fit(DATA, valid=VALID)
    assert ranker.model_.training["averaged_fits"] == 2
    alone = AdditiveRankerCV(CS, penalties=[ranker.penalty_], average=2).fit(DATA, valid=VALID)
    assert ranker.predict(VALID.X) == pytest.approx(alone.predict(VALID.X))
