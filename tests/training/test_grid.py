"""The grid of C: its start, its extensions, and the messages about its ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from linrank import C_GRID, DataError, GridEdgeWarning, RankingData, RankSVMCV, make_ranking
from linrank.penalties import L1
from linrank.problem import make_problem
from linrank.training import Trainer
from linrank.training.selection import Criterion, Grid, as_grid, default_grid, search
from linrank.training.settings import AS_GIVEN
from problems import PAPERS


def peak_at(C):
    """A measure with its largest value at one C, equal in two folds."""

    def measure(Cs):
        seen.append(Cs.tolist())
        return np.tile(-np.abs(np.log2(Cs / C))[:, None], 2), False

    seen = []
    return measure, seen


@pytest.mark.parametrize("power", [-19, -16, -15, 0, 10, 11, 23])
def test_the_grid_is_extended_until_the_best_C_is_inside(power):
    measure, _ = peak_at(2.0**power)
    found = search(Grid(np.array(C_GRID), 1e-12, 1e12), Criterion(), measure)
    best = int(np.argmax(found.values[:, 0]))
    assert found.Cs[best] == 2.0**power
    assert found.edge is None
    np.testing.assert_array_equal(
        found.Cs, 2.0 ** np.arange(np.log2(found.Cs[0]), len(found.Cs) + np.log2(found.Cs[0]))
    )
    assert set(C_GRID) <= set(found.Cs.tolist())


def test_an_extension_that_is_no_better_is_left_out():
    """The grid is extended as long as the metric is no worse."""
    tried = []

    def flat(Cs):
        tried.append(len(Cs))
        return np.ones((len(Cs), 1)), False

    found = search(Grid(np.array(C_GRID), 2.0**-23, 1e12), Criterion(), flat)
    assert tried == [26, 5, 5]
    assert found.edge is None
    np.testing.assert_array_equal(found.Cs, C_GRID)


@pytest.mark.parametrize(("C", "edge"), [(1e-3, "smallest"), (1e3, "largest"), (1.0, None)])
def test_an_edge_of_a_given_grid_is_reported(C, edge):
    measure, seen = peak_at(C)
    assert search(as_grid([10.0, 0.1, 1.0]), Criterion(), measure).edge == edge
    assert seen == [[0.1, 1.0, 10.0]]


def test_an_edge_of_two_values_is_reported_but_not_that_of_equal_ones():
    measure, _ = peak_at(1e-3)
    assert search(as_grid([0.1, 1.0]), Criterion(), measure).edge == "smallest"
    flat = search(as_grid([0.1, 1.0, 10.0]), Criterion(), lambda Cs: (np.ones((3, 2)), False))
    assert flat.edge is None


@pytest.mark.parametrize("Cs", ["abc", [1.0, np.nan], [0.0, 1.0], [[1.0, 2.0]], 1.0, [1.0, "x"]])
def test_a_grid_must_be_a_list_of_numbers(Cs):
    with pytest.raises(DataError, match=r"Cs is .*; expected a list of finite numbers above 0"):
        as_grid(Cs)


def test_the_limit_of_an_extension_is_an_edge():
    measure, _ = peak_at(1e-9)
    found = search(Grid(np.array([1.0, 2.0, 4.0]), lowest=0.1), Criterion(), measure)
    assert found.edge == "smallest"
    assert found.Cs[0] == 2.0**-5


def test_the_limit_above_is_an_edge_too():
    measure, seen = peak_at(1e9)
    found = search(Grid(np.array([1.0, 2.0, 4.0]), highest=100.0), Criterion(), measure)
    assert found.edge == "largest"
    assert found.Cs[-1] == 2.0**7
    assert len(seen) == 2
    grid = Grid(np.array([1.0, 2.0, 4.0]), lowest=1.0, highest=4.0)
    assert grid.beyond(grid.Cs, 0) is None
    assert grid.beyond(grid.Cs, 2) is None


def test_an_extension_has_a_fifth_of_the_values():
    grid = Grid(2.0 ** np.arange(50), 0.5, np.inf)
    np.testing.assert_array_equal(grid.beyond(grid.Cs, 0), 2.0 ** np.arange(-10, 0))
    np.testing.assert_array_equal(grid.beyond(grid.Cs, 49), 2.0 ** np.arange(50, 60))
    assert grid.beyond(grid.Cs, 1) is None


def test_an_interrupt_of_an_extension_keeps_what_was_measured():
    """An extension is kept if it is better; an interrupted search reports no edge."""

    def measure(Cs):
        return -np.log2(Cs)[-3:, None], len(Cs) == 5

    found = search(Grid(2.0 ** np.arange(3), 0.0), Criterion(), lambda Cs: measure(Cs))
    assert len(found.Cs) == len(found.values) == 6
    assert found.edge is None


def test_one_value_has_no_end():
    measure, _ = peak_at(1e9)
    assert search(as_grid([1.0]), Criterion(), measure).edge is None


def test_of_errors_the_smallest_is_the_best():
    def error(Cs):
        return np.abs(np.log2(Cs) + 17)[:, None], False

    found = search(Grid(np.array(C_GRID), 0.0), Criterion("domination-error"), error)
    assert found.Cs[np.argmin(found.values)] == 2.0**-17


def test_an_interrupt_ends_the_search_with_what_is_known():
    def interrupted(Cs):
        return np.arange(float(len(Cs)))[:3, None], True

    found = search(Grid(np.array(C_GRID), 0.0, np.inf), Criterion(), interrupted)
    np.testing.assert_array_equal(found.Cs, C_GRID[:3])
    assert found.edge is None


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "domination"])
@pytest.mark.parametrize("scale", [1.0, 2.0**-13, 2.0**-27])
def test_the_grid_starts_where_C_begins_to_matter(loss, scale):
    """With small features, all C of 2^-15 … 2^10 give the same ranking."""
    data = make_ranking(random_state=0)
    grid = default_grid(make_problem(data.replace(X=data.X * scale), loss=loss))
    if scale == 1.0:
        assert grid.Cs.tolist() == list(C_GRID)
    else:
        assert grid.Cs[0] >= 0.5
        assert grid.Cs[0] <= grid.lowest < 2.0 * grid.Cs[0]
        assert len(grid.Cs) == len(C_GRID)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_the_grid_starts_lower_with_large_features(loss):
    """Beyond some C the penalty has no effect, and every C gives the same ranking."""
    data = make_ranking(random_state=0)
    grid = default_grid(make_problem(data.replace(X=1e4 * data.X + 1e8), loss=loss))
    assert 2.0**-50 < grid.Cs[0] < 2.0**-35
    assert len(grid.Cs) == len(C_GRID)


def test_the_ranges_of_C_are_those_of_the_formulas():
    """C‖∇L(0)‖² = L(0)/1000, and the C at which C·H_jj = 1 for the weakest feature j."""
    data = make_ranking(12, n_features=5, random_state=0)
    for weakest in (0, 2, 4):
        X = data.X * np.where(np.arange(5) == weakest, 1e4, 1e6)
        pairs = np.concatenate([
            (X[a:b][:, None] - X[a:b])[data.y[a:b][:, None] > data.y[a:b]]
            for a, b in pairwise(data.query_ptr)
        ])  # fmt: skip
        grid = default_grid(make_problem(data.replace(X=X)))
        slope = -2 * pairs.sum(axis=0)
        assert grid.lowest == pytest.approx(1e-3 * len(pairs) / (slope @ slope), rel=1e-9, abs=0.0)
        balance = 1 / (2 * pairs**2).sum(axis=0).max(initial=0.0, where=np.arange(5) == weakest)
        assert grid.Cs[0] * (1 - 1e-9) <= balance <= 2 * grid.Cs[0]
        assert grid.highest == 2.0**20 * grid.Cs[-1]


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_where_no_feature_tells_documents_apart_the_grid_stays(loss):
    grid = default_grid(make_problem(RankingData(np.ones((4, 2)), [0, 1, 2, 3]), loss=loss))
    assert grid.Cs.tolist() == list(C_GRID)


def test_the_grid_of_sparse_rankers_starts_at_the_first_feature():
    problem = make_problem(make_ranking(random_state=0), penalty=L1())
    grid = default_grid(problem)
    assert grid.beyond(grid.Cs, 0) is None
    assert grid.Cs[0] == pytest.approx(problem.smallest_C(), rel=1e-5)
    assert grid.highest == 2.0**20 * grid.Cs[-1]
    further = grid.beyond(grid.Cs, len(grid.Cs) - 1)
    np.testing.assert_allclose(further / np.r_[grid.Cs[-1], further[:-1]], grid.Cs[1] / grid.Cs[0])


def large_features():
    """Training and held-out data with features of about 30, for which 2^-15 is a large C."""
    data = make_ranking(
        60, n_features=120, n_informative=10, correlation=0.98, noise=1.0, random_state=0
    )
    data = data.replace(X=30.0 * data.X)
    rows = np.arange(data.n_docs)
    cut = data.query_ptr[30]
    return data.take(rows[:cut]), data.take(rows[cut:])


def test_training_finds_a_C_below_the_grid():
    train, valid = large_features()
    training = Trainer(normalize=None, features=AS_GIVEN).train_on_grid(train, valid)
    assert C_GRID[0] > training.C
    assert training.edge is None
    assert training.path.Cs.tolist() == training.Cs.tolist()
    assert len(training.path.results) == len(training.values) == len(training.Cs) > 26
    given = Trainer(normalize=None, features=AS_GIVEN).train_on_grid(train, valid, C_GRID)
    assert training.value > given.value
    assert given.edge == "smallest"


def test_folds_find_a_C_below_the_grid():
    train, _ = large_features()
    training = Trainer(normalize=None, features=AS_GIVEN).train_by_folds(train, 3)
    assert C_GRID[0] > training.C
    assert training.fold_values.shape == (len(training.Cs), 3)


def test_ctrl_c_in_an_extension_keeps_what_the_folds_have_shown():
    train, _ = large_features()
    seen = []

    def interrupt(C, step, fold):
        seen.append((C, fold))
        if C_GRID[0] > C and fold:
            raise KeyboardInterrupt

    training = Trainer(callback=interrupt, normalize=None, features=AS_GIVEN).train_by_folds(
        train, 3
    )
    assert training.interrupted
    assert training.folds_done is None
    assert training.fold_values.shape == (26, 3)
    assert C_GRID[0] == training.C
    assert seen[-1][1] == 0  # fold 0 is all of the data


def test_estimators_warn_at_an_edge():
    train, valid = large_features()
    held_out = (valid.X, valid.y, valid.qid)
    ranker = RankSVMCV(Cs=[0.01, 0.1, 1.0], **PAPERS)
    with pytest.warns(GridEdgeWarning, match="the best C, 0.01, is the smallest of the 3 that wer"):
        ranker.fit(train.X, train.y, qid=train.qid, valid=held_out)
    assert C_GRID[0] > RankSVMCV(**PAPERS).fit(train.X, train.y, qid=train.qid, valid=held_out).C_
