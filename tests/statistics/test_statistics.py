"""Tests, intervals and ranks of per-query values, against scipy and cases from papers."""

from __future__ import annotations

import itertools
import math
import re
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import reference
from linrank import DataError
from linrank.statistics import (
    average_ranks,
    bootstrap_interval,
    friedman_test,
    holm,
    most_changed,
    nemenyi_critical_difference,
    paired_t_test,
    pareto_front,
    randomization_test,
    same_up_to_rounding,
    similar_groups,
    win_tie_loss,
    worst,
)

pytestmark = pytest.mark.interpreted

TESTS = [paired_t_test, randomization_test]
SIDES = ["two-sided", "greater", "less"]

# Ranks of four classifiers on 14 data sets: table 6 of Demšar, Statistical Comparisons of
# Classifiers over Multiple Data Sets, JMLR 7 (2006).
DEMSAR = np.array(
    [
        [4, 3, 2, 1], [1, 2, 3, 4], [4, 1, 2, 3], [4, 1, 3, 2], [4, 2, 3, 1],
        [1, 2.5, 4, 2.5], [3, 2, 4, 1], [2.5, 2.5, 4, 1], [4, 3, 2, 1], [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5], [3, 2, 4, 1], [4, 1, 2, 3], [3, 1, 4, 2],
    ]
)  # fmt: skip

grades = st.sampled_from([0.0, 0.25, 0.5, 1.0, 0.1, 0.1 + 0.2, 0.3, 1e-9, 1e9, math.nan])
values = st.floats(-1e100, 1e100) | grades


def vectors(n, elements=values):
    return hnp.arrays(np.float64, n, elements=elements)


pairs = st.integers(0, 12).flatmap(lambda n: st.tuples(vectors(n), vectors(n)))
graded_pairs = st.integers(0, 7).flatmap(lambda n: st.tuples(*[vectors(n, grades)] * 2))
tables = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 9), st.integers(3, 5)), elements=values, fill=grades
)


def draw(n, seed=0):
    """Values of two methods for n queries, a third of which do not change."""
    rng = np.random.default_rng(seed)
    a = rng.random(n)
    return a, np.where(rng.random(n) < 1 / 3, a, a + rng.normal(0.02, 0.2, n))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("n", [2, 5, 300])
def test_t_test_against_scipy(side, n):
    a, b = draw(n, seed=n)
    found, expected = paired_t_test(a, b, side), scipy.stats.ttest_rel(a, b, alternative=side)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.difference == pytest.approx(np.mean(a - b))
    assert (found.n, found.n_left_out, found.note) == (n, 0, "")


def test_t_test_by_hand():
    """Differences 1, 2 and 3 have the mean 2 and the standard deviation 1."""
    found = paired_t_test([1, 2, 3], [0, 0, 0])
    assert found.statistic == pytest.approx(2 * math.sqrt(3))
    # Student's distribution with two degrees of freedom: P(|T| > t) = 1 − t / √(2 + t²).
    assert found.p_value == pytest.approx(1 - 2 * math.sqrt(3) / math.sqrt(14))


@pytest.mark.parametrize("side", SIDES)
@given(pair=graded_pairs)
def test_few_queries_are_enumerated(side, pair):
    found = randomization_test(*pair, side)
    assert found.p_value == pytest.approx(reference.randomization_p_value(*pair, side))


@pytest.mark.parametrize("side", SIDES)
def test_enumeration_against_scipy(side):
    a, b = draw(9)
    expected = scipy.stats.permutation_test(
        (a, b), lambda a, b, axis: np.mean(a - b, axis=axis), permutation_type="samples",
        alternative=side, n_resamples=10_000,
    )  # fmt: skip
    found = randomization_test(a, b, side)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.statistic == found.difference == pytest.approx(expected.statistic)


@pytest.mark.parametrize("side", SIDES)
def test_sampling_agrees_with_enumeration(side):
    a, b = draw(18, seed=3)
    exact = randomization_test(a, b, side, n_samples=2**18).p_value
    drawn = randomization_test(a, b, side, n_samples=20_000).p_value
    assert abs(drawn - exact) < 5 * math.sqrt(exact * (1 - exact) / 20_000) + 1e-4


@pytest.mark.parametrize("n", [60, 1001])
def test_sampling_agrees_with_the_t_test_for_many_queries(n):
    a, b = draw(n, seed=n)
    drawn, expected = randomization_test(a, b).p_value, paired_t_test(a, b).p_value
    assert drawn == pytest.approx(expected, abs=0.02)


def test_blocks_of_samples_are_of_bounded_size(monkeypatch):
    a, b = draw(40, seed=1)
    whole = randomization_test(a, b, n_samples=1000)
    monkeypatch.setattr("linrank.statistics.paired.BLOCK_SIGNS", 100)
    assert randomization_test(a, b, n_samples=1000) == whole
    monkeypatch.setattr("linrank.statistics.paired.BLOCK_SIGNS", 1)
    assert randomization_test(a, b, n_samples=1000) == whole


def test_a_sampled_p_value_is_never_zero():
    found = randomization_test(np.ones(50), np.zeros(50), n_samples=99)
    assert found.p_value == 0.01
    assert found == randomization_test(np.ones(50), np.zeros(50), n_samples=99, seed=0)


@pytest.mark.parametrize("test", TESTS)
@given(pair=pairs)
def test_tests_have_defined_results(test, pair):
    a, b = pair
    left_out = np.isnan(a) | np.isnan(b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both, greater, less = (test(a, b, side) for side in SIDES)
    assert (both.n, both.n_left_out) == ((~left_out).sum(), left_out.sum())
    for found in (both, greater, less):
        assert 0.0 <= found.p_value <= 1.0
        assert not math.isnan(found.statistic)
        assert math.isnan(found.difference) == (both.n == 0)
        assert found.difference == both.difference or both.n == 0
    assert greater.p_value == pytest.approx(test(b, a, "less").p_value)
    if both.n and not same_up_to_rounding(a, b)[~left_out].all() and not both.note:
        likely = greater if both.difference > 0 else less
        assert likely.p_value <= both.p_value + 1e-9


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("test", TESTS)
class TestDegenerate:
    def test_no_queries(self, test, side):
        for a in ([], [math.nan]):
            found = test(a, np.ones(len(a)), side)
            assert (found.n, found.n_left_out, found.p_value) == (0, len(a), 1.0)
            assert math.isnan(found.difference)
            assert "no query" in found.note

    def test_identical_methods(self, test, side):
        for a, b in (([0.5, 0.7, 0.1], [0.5, 0.7, 0.1]), ([0.1 + 0.2, 0.5], [0.3, 0.5])):
            found = test(a, b, side)
            assert (found.difference, found.statistic, found.p_value) == (0.0, 0.0, 1.0)
            assert "the same value in every query" in found.note

    def test_nan_is_left_out_in_pairs(self, test, side):
        a, b = draw(8)
        kept = test(a[3:], b[3:], side)
        a[0], b[1], a[2], b[2] = [math.nan] * 4
        found = test(a, b, side)
        assert (found.n, found.n_left_out) == (5, 3)
        assert found.p_value == kept.p_value
        assert found.difference == kept.difference


@pytest.mark.parametrize("side", SIDES)
def test_one_query(side):
    found = paired_t_test([0.7], [0.5], side)
    assert (found.statistic, found.p_value, found.n) == (0.0, 1.0, 1)
    assert found.difference == pytest.approx(0.2)
    assert "one query" in found.note
    expected = {"two-sided": 1.0, "greater": 0.5, "less": 1.0}[side]
    assert randomization_test([0.7], [0.5], side).p_value == expected


def test_equal_differences_have_an_infinite_statistic():
    a, b = np.array([0.3, 0.4, 0.7]), np.array([0.2, 0.3, 0.6])  # equal up to rounding errors
    found = [paired_t_test(a, b, side) for side in SIDES]
    assert [test.p_value for test in found] == [0.0, 0.0, 1.0]
    assert [test.p_value for test in (paired_t_test(b, a, side) for side in SIDES)] == [0, 1, 0]
    assert [test.statistic for test in found] == [math.inf] * 3
    assert paired_t_test(b, a).statistic == -math.inf
    assert all("use randomization_test" in test.note for test in found)
    assert [randomization_test(a, b, side).p_value for side in SIDES] == [0.25, 0.125, 1.0]


def test_interval_against_the_normal_distribution():
    a, b = draw(500)
    d = a - b
    low, high = bootstrap_interval(d)
    half = 1.96 * d.std() / math.sqrt(len(d))
    assert low == pytest.approx(d.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(d.mean() + half, abs=0.1 * half)
    narrow = bootstrap_interval(d, level=0.5)
    assert low < narrow.low < d.mean() < narrow.high < high


@pytest.mark.parametrize("values", [[0.0, 1.0, 2.0, 3.0, 20.0], [-9.0, 0.0, 0.0, 1.0, 2.5]])
def test_interval_against_all_resamples(values):
    """The ends are the 10 % and 90 % quantiles of all 5⁵ resamples, up to the chance of a draw."""
    means = np.mean(list(itertools.product(values, repeat=5)), axis=1)
    for end, share in zip(bootstrap_interval(values, level=0.8), (0.1, 0.9), strict=True):
        assert np.mean(means < end - 1e-9) <= share + 0.02
        assert np.mean(means <= end + 1e-9) >= share - 0.02


def test_intervals_contain_the_mean_as_often_as_they_say():
    rng = np.random.default_rng(0)
    samples = rng.exponential(size=(200, 40))
    found = [bootstrap_interval(sample, level=0.9, n_samples=500) for sample in samples]
    assert 0.8 < np.mean([low < 1.0 < high for low, high in found]) < 0.97


@given(values=st.integers(0, 12).flatmap(vectors))
def test_intervals_are_defined(values):
    known = values[~np.isnan(values)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = bootstrap_interval(values, n_samples=50)
    if not len(known):
        assert math.isnan(low)
        assert math.isnan(high)
        return
    slack = 1e-12 * np.abs(known).max()
    assert known.min() - slack <= low <= high <= known.max() + slack


def test_intervals_of_equal_values_and_with_nan():
    assert bootstrap_interval([0.25] * 5) == (0.25, 0.25)
    assert bootstrap_interval([0.25]) == (0.25, 0.25)
    assert bootstrap_interval([0.0, 0.0]) == (0.0, 0.0)
    a, b = draw(30)
    with_nan = np.concatenate([[math.nan], a - b, [math.nan]])
    assert bootstrap_interval(with_nan) == bootstrap_interval(a - b)


def test_holm_by_hand():
    """Sorted: 4·0.005, 3·0.01, 2·0.03 and 1·0.04, of which none may be below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []


@given(p=hnp.arrays(np.float64, st.integers(0, 6), elements=st.floats(0.0, 1.0)))
def test_holm_is_the_closed_test_of_bonferroni(p):
    np.testing.assert_allclose(holm(p), reference.closed_bonferroni(p), rtol=1e-12)


def test_win_tie_loss():
    nan = math.nan
    a, b = [0.5, 0.7, 0.1 + 0.2, nan, 0.2, nan], [0.4, 0.8, 0.3, 0.1, 0.1, nan]
    assert win_tie_loss(a, b) == (2, 1, 1)
    assert win_tie_loss(a, b, greater_is_better=False) == (1, 1, 2)
    assert win_tie_loss([], []) == (0, 0, 0)


def test_ranks_of_demsar():
    """Section 3.2.4 of the paper. Its χ² has no correction for ties."""
    n, k = DEMSAR.shape
    ranks = average_ranks(-DEMSAR)
    np.testing.assert_allclose(ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    np.testing.assert_allclose(average_ranks(DEMSAR, greater_is_better=False), ranks)
    found = friedman_test(-DEMSAR)
    n_tied = [np.unique(row, return_counts=True)[1] for row in DEMSAR]
    correction = 1 - sum((t**3 - t).sum() for t in n_tied) / (n * k * (k**2 - 1))
    assert found.statistic * correction == pytest.approx(9.28, abs=5e-3)
    assert found.p_value == pytest.approx(scipy.stats.chi2.sf(found.statistic, k - 1))
    assert (found.n, found.n_left_out, found.note) == (14, 0, "")
    assert nemenyi_critical_difference(k, n) == pytest.approx(1.25, abs=5e-3)
    assert nemenyi_critical_difference(k, n, alpha=0.10) == pytest.approx(1.12, abs=5e-3)
    assert similar_groups(ranks, 1.25) == [(3, 1, 2, 0)]


# Table 5(a) of the paper: q for α = 0.05 and 0.10.
@pytest.mark.parametrize(("k", "q05", "q10"), [(2, 1.960, 1.645), (5, 2.728, 2.459),
                                               (10, 3.164, 2.920)])  # fmt: skip
def test_critical_values_of_nemenyi(k, q05, q10):
    unit = math.sqrt(k * (k + 1) / 6)
    assert nemenyi_critical_difference(k, 1) / unit == pytest.approx(q05, abs=1e-3)
    assert nemenyi_critical_difference(k, 1, 0.10) / unit == pytest.approx(q10, abs=1e-3)


@given(values=tables)
def test_ranks_have_defined_results(values):
    complete = values[~np.isnan(values).any(axis=1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = friedman_test(values)
    assert (found.n, found.n_left_out) == (len(complete), len(values) - len(complete))
    assert 0.0 <= found.p_value <= 1.0
    if len(complete):
        expected = [[1 + sum(row > v) + (sum(row == v) - 1) / 2 for v in row] for row in complete]
        np.testing.assert_allclose(found.ranks, np.mean(expected, axis=0))
    else:
        assert np.isnan(found.ranks).all()
    assert bool(found.note) == (not np.ptp(complete, axis=1).any() if len(complete) else True)


def test_friedman_notes():
    assert "equal in every row" in friedman_test(np.ones((4, 3))).note
    assert "no row" in friedman_test(np.full((2, 3), np.nan)).note


@given(
    ranks=hnp.arrays(np.float64, st.integers(0, 7), elements=st.sampled_from([1, 1.5, 2, 3, 4.5])),
    cd=st.sampled_from([0.25, 0.5, 1.0, 1.25, 9.0]),
)
def test_similar_groups_are_the_maximal_cliques(ranks, cd):
    found = similar_groups(ranks, cd)
    assert {frozenset(group) for group in found} == reference.maximal_groups(ranks, cd)
    assert len(found) == len({frozenset(group) for group in found})
    for group in found:
        assert list(ranks[list(group)]) == sorted(ranks[list(group)])


@given(
    points=hnp.arrays(
        np.float64, st.tuples(st.integers(0, 7), st.just(2)),
        elements=st.sampled_from([0.0, 1.0, 2.0, math.nan]),
    ),
    directions=st.tuples(*[st.sampled_from(["max", "min"])] * 2),
)  # fmt: skip
def test_no_method_dominates_one_on_the_front(points, directions):
    signs = [1 if direction == "max" else -1 for direction in directions]
    known = ~np.isnan(points).any(axis=1)

    def dominates(i, j):
        gains = [sign * (p - q) for sign, p, q in zip(signs, points[i], points[j], strict=True)]
        return min(gains) >= 0 and max(gains) > 0

    rows = np.flatnonzero(known)
    expected = [known[j] and not any(dominates(i, j) for i in rows) for j in range(len(points))]
    assert pareto_front(points, directions).tolist() == expected


@given(pair=pairs, n=st.integers(0, 5))
def test_most_changed_queries(pair, n):
    a, b = pair
    found = most_changed(a, b, n).tolist()
    d = np.abs(a - b)
    changed = [q for q in range(len(a)) if d[q] > 0 and not same_up_to_rounding(a, b)[q]]
    assert found == sorted(changed, key=lambda q: (-d[q], q))[:n]


@given(a=st.integers(0, 9).flatmap(vectors), n=st.integers(0, 5))
def test_worst_queries(a, n):
    known = [q for q in range(len(a)) if not math.isnan(a[q])]
    assert worst(a, n).tolist() == sorted(known, key=lambda q: (a[q], q))[:n]
    errors = worst(a, n, greater_is_better=False).tolist()
    assert errors == sorted(known, key=lambda q: (-a[q], q))[:n]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: paired_t_test([1, 2], [1]), "a has 2 values but b has 1"),
        (lambda: paired_t_test([1], [1], "larger"), "alternative is 'larger'; known choices are"),
        (lambda: randomization_test([math.inf], [1]), "a has infinite values"),
        (lambda: randomization_test([1], [2], n_samples=0), "n_samples is 0"),
        (lambda: randomization_test([1], [2], seed=-1), "seed is -1"),
        (lambda: win_tie_loss(["x"], [1]), "a cannot be read as numbers"),
        (lambda: worst([[1.0]], 1), "a has the shape (1, 1); expected one number per query"),
        (lambda: bootstrap_interval([1.0], level=95), "level is 95"),
        (lambda: holm([0.1, 1.5]), "p_values holds 1.5"),
        (lambda: holm([math.nan]), "p_values holds nan"),
        (lambda: friedman_test([[1, 2]]), "values has 2 columns; expected at least 3 methods"),
        (lambda: average_ranks([1, 2]), "values has the shape (2,); expected a matrix with"),
        (lambda: nemenyi_critical_difference(1, 5), "k is 1"),
        (lambda: nemenyi_critical_difference(3, 5, 0), "alpha is 0"),
        (lambda: pareto_front([[1, 2]], ["max"]), "points has 2 columns but directions has 1"),
        (lambda: pareto_front([[1]], ["up"]), "directions is 'up'; known choices are"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(DataError, match="^" + re.escape(sentence)):
        call()
