"""Metrics against slow twins, other libraries, hand-computed values and the flavours' facts."""

from __future__ import annotations

import inspect
import math
import pickle
import re
import subprocess
import sys
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import ndcg_score, roc_auc_score

import reference
from linrank.errors import DataError
from linrank.metrics import (
    all_pairs_error,
    auc,
    average_precision,
    binary,
    domination_error,
    err,
    evaluate,
    gains,
    hit_rate,
    kendall,
    mean_ndcg,
    metric_names,
    ndcg,
    pair_counts,
    pairwise_accuracy,
    parse_metric,
    parse_metrics,
    precision,
    r_precision,
    ranked_lists,
    rbp,
    recall,
    reciprocal_rank,
    spearman,
    strict_pairwise_accuracy,
)

# Random labels are negative, too; tests/estimators/test_mistakes.py has tests of the warning.
pytestmark = [
    pytest.mark.interpreted,
    pytest.mark.filterwarnings("ignore::linrank.NegativeLabelsWarning"),
]

PUBLIC = {
    "ndcg": ndcg,
    "mean-ndcg": mean_ndcg,
    "map": average_precision,
    "p": precision,
    "mrr": reciprocal_rank,
    "err": err,
    "recall": recall,
    "r-precision": r_precision,
    "hit-rate": hit_rate,
    "rbp": rbp,
}
WITHOUT_CUTOFF = ("mean-ndcg", "r-precision")
PAIRS = ["pairwise-accuracy", "strict-pairwise-accuracy", "all-pairs-error", "domination-error"]
CORRELATIONS = {"spearman": (spearman, reference.spearman), "kendall": (kendall, reference.kendall)}
close = pytest.approx


@st.composite
def ranked_data(draw, max_docs=14, max_queries=3):
    """Documents of a few short queries with many ties, in shuffled rows."""
    n = draw(st.integers(1, max_docs))
    labels = st.sampled_from([0, 0, 0, 1, 2, 3, 4]) | st.floats(-1, 4, width=16)
    y = draw(st.lists(labels, min_size=n, max_size=n))
    scores = draw(st.lists(st.sampled_from([-1.5, 0.0, 0.5, 2.0]), min_size=n, max_size=n))
    qid = draw(st.lists(st.integers(0, max_queries - 1), min_size=n, max_size=n))
    return np.array(y, float), np.array(scores), np.array(qid)


def queries_in_order(qid):
    return list(dict.fromkeys(np.asarray(qid).tolist()))


def by_query(y, scores, qid):
    for q in queries_in_order(qid):
        yield y[qid == q].tolist(), scores[qid == q].tolist()


def few_orders(y, scores, qid):
    """Whether trying every order of ties is quick."""
    counts = [np.unique(s, return_counts=True)[1] for _, s in by_query(y, scores, qid)]
    return all(math.prod(math.factorial(int(t)) for t in count) <= 720 for count in counts)


@pytest.mark.slow
@pytest.mark.parametrize("ties", ["average", "stable", "pessimistic", "optimistic"])
@pytest.mark.parametrize("name", list(PUBLIC))
@given(data=ranked_data(), k=st.none() | st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_metrics_against_enumeration(name, ties, data, k):
    y, scores, qid = data
    if not few_orders(y, scores, qid):
        return
    options = {} if name in WITHOUT_CUTOFF else {"k": k}
    twin = {"max_label": y.max()} if name == "err" else {}
    values = PUBLIC[name](y, scores, qid, ties=ties, per_query=True, **options)
    expected = [
        reference.metric_of_query(name, labels, s, ties, **twin, **options)
        for labels, s in by_query(y, scores, qid)
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)
    mean = PUBLIC[name](y, scores, qid, ties=ties, **options)
    known = [value for value in expected if not math.isnan(value)]
    assert mean == close(np.mean(known), rel=1e-12) if known else math.isnan(mean)


@given(data=ranked_data(), k=st.integers(1, 8), gain=st.sampled_from(["exp2", "linear"]))
@settings(max_examples=60, deadline=None)
def test_ndcg_gain_and_letor_discount_against_enumeration(data, k, gain):
    y, scores, qid = data
    if not few_orders(y, scores, qid):
        return
    choice = {"gain": gain, "discount": "letor"}
    for name, options in (("ndcg", {"k": k}), ("mean-ndcg", {})):
        values = PUBLIC[name](y, scores, qid, per_query=True, **choice, **options)
        expected = [
            reference.metric_of_query(name, labels, s, **choice, **options)
            for labels, s in by_query(y, scores, qid)
        ]
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


@given(data=ranked_data(max_docs=60))
@settings(max_examples=100, deadline=None)
def test_pairwise_accuracy_against_all_pairs(data):
    y, scores, qid = data
    right, pairs = np.array([reference.pair_counts(*part) for part in by_query(y, scores, qid)]).T
    values = pairwise_accuracy(y, scores, qid, per_query=True)
    np.testing.assert_allclose(values[pairs > 0], (right / np.maximum(pairs, 1))[pairs > 0])
    assert np.isnan(values[pairs == 0]).all()
    if pairs.any():
        assert pairwise_accuracy(y, scores, qid) == close(right.sum() / pairs.sum())
        assert pairwise_accuracy(y, scores, qid, average="queries") == close(np.nanmean(values))
        assert pairwise_accuracy(-y, -scores, qid) == close(right.sum() / pairs.sum())
    else:
        assert math.isnan(pairwise_accuracy(y, scores, qid))
    for flavour in ("letor4", "trec"):  # whose other metrics do not average ties
        mean = evaluate(y, scores, qid, "pairwise-accuracy", flavour=flavour).mean
        assert mean["pairwise-accuracy"] == close(pairwise_accuracy(y, scores, qid), nan_ok=True)


@given(data=ranked_data(max_docs=60))
@settings(max_examples=60, deadline=None)
def test_strict_pairwise_accuracy_against_all_pairs(data):
    y, scores, qid = data
    counts = [reference.strict_pair_counts(*part) for part in by_query(y, scores, qid)]
    right, pairs = np.array(counts).T
    values = strict_pairwise_accuracy(y, scores, qid, per_query=True)
    np.testing.assert_allclose(values[pairs > 0], right[pairs > 0] / pairs[pairs > 0])
    assert np.isnan(values[pairs == 0]).all()
    total = strict_pairwise_accuracy(y, scores, qid)
    assert total == close(right.sum() / pairs.sum()) if pairs.any() else math.isnan(total)


@pytest.mark.parametrize("name", list(CORRELATIONS))
@given(data=ranked_data(max_docs=40))
@settings(max_examples=60, deadline=None)
def test_correlations_against_all_pairs(name, data):
    y, scores, qid = data
    metric, twin = CORRELATIONS[name]
    expected = np.array([twin(*part) for part in by_query(y, scores, qid)])
    np.testing.assert_allclose(metric(y, scores, qid, per_query=True), expected, atol=1e-12)
    known = expected[~np.isnan(expected)]
    for flavour in ("standard", "letor4", "trec"):
        mean = evaluate(y, scores, qid, name, flavour=flavour).mean[name]
        assert mean == close(known.mean(), abs=1e-12) if len(known) else math.isnan(mean)


@given(data=ranked_data(max_docs=60))
@settings(max_examples=60, deadline=None)
def test_all_pairs_error_against_all_pairs(data):
    y, scores, qid = data
    right, pairs = np.array([reference.pair_counts(*part) for part in by_query(y, scores, qid)]).T
    values = all_pairs_error(y, scores, qid, per_query=True)
    np.testing.assert_allclose(values[pairs > 0], 1 - right[pairs > 0] / pairs[pairs > 0])
    assert np.isnan(values[pairs == 0]).all()
    if pairs.any():
        assert all_pairs_error(y, scores, qid) == close(1 - right.sum() / pairs.sum())
        assert all_pairs_error(y, scores, qid, average="queries") == close(np.nanmean(values))
    else:
        assert math.isnan(all_pairs_error(y, scores, qid))


@given(data=ranked_data())
@settings(max_examples=60, deadline=None)
def test_expected_domination_is_the_mean_over_orders_of_ties(data):
    if not few_orders(*data):
        return
    for part in by_query(*data):
        expected = reference.domination_counts_by_orders(*part)
        assert reference.domination_counts(*part) == close(expected)


DOCUMENTS = {
    "random": lambda rng: (rng.integers(0, 5, 60), rng.normal(size=60), rng.integers(0, 4, 60)),
    "tied": lambda rng: (rng.integers(0, 5, 60), rng.integers(0, 4, 60), rng.integers(0, 4, 60)),
    "distinct": lambda rng: (rng.permutation(60), rng.permutation(60), np.zeros(60)),
    "one level": lambda rng: (np.ones(9), rng.normal(size=9), rng.integers(0, 2, 9)),
    "one score": lambda rng: (rng.integers(0, 3, 30), np.zeros(30), np.zeros(30)),
    "one document": lambda rng: (np.array([2]), np.array([1.0]), np.array([0])),
}


def check_domination(y, scores, qid):
    counts = [reference.domination_counts(*part) for part in by_query(y, scores, qid)]
    errors, documents = np.array(counts).T
    values = domination_error(y, scores, qid, per_query=True)
    some = documents > 0
    np.testing.assert_allclose(values[some], errors[some] / documents[some], rtol=1e-12)
    assert np.isnan(values[~some]).all()
    if some.any():
        assert domination_error(y, scores, qid) == close(np.mean(values[some]))
        pooled = domination_error(y, scores, qid, average="documents")
        assert pooled == close(errors.sum() / documents.sum())
    else:
        assert math.isnan(domination_error(y, scores, qid))
    for flavour in ("letor4", "trec"):  # whose other metrics do not average ties
        mean = evaluate(y, scores, qid, "domination-error", flavour=flavour).mean
        assert mean["domination-error"] == close(domination_error(y, scores, qid), nan_ok=True)


@given(data=ranked_data(max_docs=60))
@settings(max_examples=100, deadline=None)
def test_domination_error_against_all_pairs(data):
    check_domination(*data)


@pytest.mark.parametrize("kind", list(DOCUMENTS))
def test_domination_error_of_kinds_of_data(kind, rng):
    check_domination(*DOCUMENTS[kind](rng))


@given(hnp.arrays(np.float64, st.integers(2, 300), elements=st.sampled_from([0.0, 1.0, 2.5, 3.0])))
@settings(max_examples=50, deadline=None)
def test_long_lists_are_sorted_stably(scores):
    n = len(scores)
    rows = np.arange(n, dtype=float)
    ranking = ranked_lists.Ranking(rows, scores, np.array([0, n]), "stable")
    np.testing.assert_array_equal(ranking.lists.labels, np.argsort(-scores, kind="stable"))
    np.testing.assert_array_equal(ranking.ideal, rows[::-1])


# Other libraries and values found by hand.


def test_ndcg_agrees_with_scikit_learn(rng):
    y = rng.integers(0, 5, (30, 12)).astype(float)
    scores = np.round(rng.normal(size=y.shape), 1)
    qid = np.repeat(np.arange(30), 12)
    for k in (1, 3, 10, None):
        ours = ndcg(y.ravel(), scores.ravel(), qid, k=k, gain="linear", no_relevant=0)
        assert ours == close(ndcg_score(y, scores, k=k))


def test_auc_agrees_with_scikit_learn(rng):
    y = rng.choice([-1, 1], 500)
    scores = np.round(rng.normal(size=500) + 0.5 * y, 1)
    expected = roc_auc_score(y, scores)
    assert auc(y, scores) == close(expected)
    assert pairwise_accuracy(y, scores) == close(expected)
    assert auc(y == 1, scores) == close(expected)
    qid = rng.integers(0, 5, 500)
    values = auc(y, scores, qid, per_query=True)
    parts = [roc_auc_score(y[qid == q], scores[qid == q]) for q in queries_in_order(qid)]
    np.testing.assert_allclose(values, parts)
    assert auc(y, scores, qid, average="queries") == close(np.mean(parts))


def test_hand_computed_values():
    y, scores = [3, 2, 3, 0, 1, 2], [6, 5, 4, 3, 2, 1]  # the textbook list of Järvelin's measure
    assert ndcg(y, scores, gain="linear") == close(0.961, abs=5e-4)
    assert ndcg(y, scores) == close(0.949, abs=5e-4)
    assert average_precision([1, 0, 1, 0, 1], [5, 4, 3, 2, 1]) == close((1 + 2 / 3 + 3 / 5) / 3)
    assert average_precision([1, 0, 1, 0, 1], [5, 4, 3, 2, 1], k=3) == close((1 + 2 / 3) / 3)
    assert precision([1, 0, 2, 0], [4, 3, 2, 1], k=3) == close(2 / 3)
    assert precision([1, 0, 2, 0], [4, 3, 2, 1]) == 0.5
    assert precision([1, 0, 2, 0], [4, 3, 2, 1], k=8) == 0.25
    assert reciprocal_rank([0, 0, 1], [3, 2, 1]) == close(1 / 3)
    assert reciprocal_rank([0, 0, 1], [3, 2, 1], k=2) == 0
    assert err([1, 0, 2], [3, 2, 1], max_label=4) == close(1 / 16 + 15 / 16 * 3 / 16 / 3)
    assert pairwise_accuracy([2, 1, 0, 0], [1, 2, 2, 0]) == close((0 + 0 + 1 + 0.5 + 1) / 5)
    assert all_pairs_error([2, 1, 0, 0], [1, 2, 2, 0]) == close((1 + 1 + 0 + 0.5 + 0) / 5)
    assert domination_error([2, 1, 0, 0], [1, 2, 2, 0]) == close((1 + 0.5) / 2)
    assert domination_error([1, 1, 1, 0], [3, 2, 0, 1]) == close(1 / 3)
    assert domination_error([0, 1, 1], [2, 1, 0]) == domination_error([0, 0, 1], [2, 1, 0]) == 1
    assert domination_error([2, 2, 1, 0], [4, 3, 2, 1]) == 0
    assert recall([1, 0, 2, 1], [4, 3, 2, 1], k=3) == close(2 / 3)
    assert recall([1, 0, 2, 1], [4, 3, 2, 1], k=3, rel=2) == 1
    assert recall([1, 1, 0, 1], [4, 3, 3, 1], k=2) == close(1.5 / 3)
    assert r_precision([1, 0, 2, 1], [4, 3, 2, 1]) == close(2 / 3)
    assert r_precision([1, 0, 2, 1], [4, 3, 2, 1], rel=2) == 0
    assert hit_rate([0, 1], [2, 1], k=1) == 0
    assert hit_rate([0, 1, 1, 0, 0], [2, 1, 1, 1, 1], k=3) == close(1 - 2 / 4 * 1 / 3)
    assert rbp([1, 0, 1], [3, 2, 1]) == close(0.2 * (1 + 0.64))
    assert rbp([2, 0, 1], [3, 2, 1], p=0.5, rel=2) == 0.5
    assert rbp([1, 0, 1], [3, 2, 1], p=0.5, k=2) == 0.5
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    assert kendall([1, 2, 2], [1, 2, 3]) == close(2 / math.sqrt(2 * 3))
    assert strict_pairwise_accuracy([2, 1, 0, 0], [1, 2, 2, 0]) == close((0 + 0 + 1 + 0 + 1) / 5)


def test_correlations_of_lists_without_an_order():
    y, scores = [1, 0, 2, 2, 3], [1.0, 1.0, 3.0, 4.0, 0.0]
    qid = ["equal scores", "equal scores", "equal labels", "equal labels", "one document"]
    for metric in (spearman, kendall):
        np.testing.assert_array_equal(
            metric(y, scores, qid, per_query=True), [0, math.nan, math.nan]
        )
        assert metric(y, scores, qid) == 0
    assert evaluate(y, scores, qid, "kendall").n_skipped == {"kendall": 2}


def test_average_weighs_pairs_or_queries():
    y, scores, qid = [1, 0, 2, 1, 0], [2, 1, 1, 2, 3], ["a", "a", "b", "b", "b"]
    assert pairwise_accuracy(y, scores, qid) == 0.25
    assert pairwise_accuracy(y, scores, qid, average="queries") == 0.5
    assert pairwise_accuracy(y, scores, qid, per_query=True).tolist() == [1.0, 0.0]
    assert all_pairs_error(y, scores, qid) == 0.75
    assert all_pairs_error(y, scores, qid, average="queries") == 0.5
    assert domination_error(y, scores, qid) == 0.5
    assert domination_error(y, scores, qid, average="documents") == close(2 / 3)
    assert domination_error(y, scores, qid, per_query=True).tolist() == [0.0, 1.0]


# Labels, gains, ties.


def test_huge_labels_do_not_overflow():
    y, scores = [1330, 1329, 0], [2.0, 3.0, 1.0]
    best = 1 + 0.5 / math.log2(3)
    assert ndcg(y, scores) == close((0.5 + 1 / math.log2(3)) / best)
    assert mean_ndcg(y, scores) == close((0.5 + 2 * ndcg(y, scores)) / 3)
    assert err(y, scores) == close(0.5 + 0.5 / 2)
    assert err([1330, 1, 1, 1], [0, 1, 1, 1]) == close(1 / 4)  # stops at 1 with 2^-1329
    assert err([1020, 1, 1, 1], [0, 1, 1, 1]) == close(1 / 4)  # at 2^-1020, above 0
    assert ndcg([1e308, 1e308], [1, 2], gain="linear") == 1.0


def test_tiny_and_negative_labels():
    assert ndcg([1e-12, 2e-12], [2.0, 1.0], k=1) == close(0.5, rel=1e-9)
    assert ndcg([-5, 1, -1], [1, 3, 2]) == 1.0
    assert math.isnan(ndcg([-5, -1], [1, 2]))
    assert math.isnan(err([-5, -1], [1, 2]))


def test_own_gains():
    y, scores = [0, 1, 2, 1], [4.0, 3.0, 2.0, 1.0]
    expected = ndcg([0, 10, 1, 10], scores, gain="linear")
    assert ndcg(y, scores, gain={0: 0, 1: 10, 2: 1}) == close(expected)
    assert ndcg(y, scores, gain=lambda label: [0, 10, 1][int(label)]) == close(expected)
    tied = np.zeros(4)  # the best order is that of the gains, not of the labels
    assert ndcg(y, tied, gain={0: 0, 1: 10, 2: 1}, ties="optimistic") == close(1.0)
    assert mean_ndcg(y, scores, gain=lambda label: 2**label - 1) == close(mean_ndcg(y, scores))


def test_docno_breaks_ties_in_descending_order():
    y, ids = [0, 0, 1, 1], ["a", "b", "c", "b"]
    assert reciprocal_rank(y, np.zeros(4), ties="docno", doc_ids=ids) == 1.0
    assert reciprocal_rank(y, np.zeros(4), ties="docno", doc_ids=["b", "d", "c", "a"]) == 0.5
    assert reciprocal_rank(y, np.zeros(4), flavour="trec", doc_ids=[9, 80, 10, 11]) == 1 / 3
    assert reciprocal_rank(y, np.zeros(4), flavour="trec") == close(1 / 3)
    qid = [1, 0, 1, 0]
    values = reciprocal_rank(
        y, np.zeros(4), qid, flavour="trec", doc_ids=["b", "d", "c", "a"], per_query=True
    )
    assert values.tolist() == [1.0, 0.5]


def test_large_groups_of_equal_scores():
    """Expectations over groups that are too large to enumerate, by their known form."""
    t, r = 5000, 3
    y = np.repeat([1.0, 0.0], [r, t - r])
    hypergeometric = sum(math.comb(t - i, r - 1) / math.comb(t, r) / i for i in range(1, t - r + 2))
    assert reciprocal_rank(y, np.zeros(t)) == close(hypergeometric, rel=1e-12)
    assert ndcg(y, np.zeros(t), k=1) == close(r / t)
    assert average_precision(np.ones(t), np.zeros(t)) == close(1.0)
    assert domination_error(y, np.zeros(t)) == close((t - r) / (t - r + 1), rel=1e-14)
    assert all_pairs_error(y, np.zeros(t)) == 0.5
    # All members alike: a geometric distribution.
    stop = 0.5
    expected = sum(stop * (1 - stop) ** (i - 1) / i for i in range(1, 60))
    assert err(np.ones(t), np.zeros(t)) == close(expected, rel=1e-12)


def test_err_of_a_group_below_others():
    labels, scores = [2, 4, 1, 0, 3, 0, 2], [5, 1, 1, 1, 1, 1, 0]
    for k in (None, 2, 4, 6):
        expected = reference.metric_of_query("err", labels, scores, k=k, max_label=4)
        assert err(labels, scores, k=k) == close(expected, rel=1e-13)


# Flavours.


@pytest.mark.parametrize("flavour", ["letor3", "letor4", "mslr"])
def test_perfect_short_list_is_zero_beyond_its_end(flavour):
    y, scores = [2, 2, 0], [3.0, 2.0, 1.0]
    for k in range(1, 11):
        assert ndcg(y, scores, k=k, flavour=flavour) == (1.0 if k <= 3 else 0.0)
        padded = min(k, 2) / k if k <= 3 or flavour != "letor3" else 0.0
        assert precision(y, scores, k=k, flavour=flavour) == close(padded)
        assert ndcg(y, scores, k=k) == 1.0
    assert mean_ndcg(y, scores, flavour=flavour) == 1.0
    assert ndcg(y, scores, flavour=flavour) == 1.0


def test_letor_discount_keeps_the_second_rank_whole():
    assert ndcg([0, 1], [2, 1], flavour="letor4") == 1.0
    assert ndcg([0, 0, 1], [3, 2, 1], flavour="letor4") == close(1 / math.log2(3))
    expected = [0 / 1, 1 / 2, (1 + 1 / math.log2(3)) / 2]
    assert mean_ndcg([0, 1, 1], [3, 2, 1], flavour="mslr") == close(np.mean(expected))


def test_relevance_level_of_flavours():
    y, scores = [1, 2, 0], [3.0, 2.0, 1.0]
    assert reciprocal_rank(y, scores) == 1.0
    assert reciprocal_rank(y, scores, flavour="mslr") == 0.5
    assert reciprocal_rank(y, scores, flavour="mslr", rel=1) == 1.0
    assert average_precision(y, scores, rel=np.int64(2)) == 0.5


@pytest.mark.parametrize("name", list(PUBLIC))
def test_query_without_relevant_documents(name):
    y, scores, qid = [0, 0, 1, 0], [1.0, 2.0, 2.0, 1.0], ["none", "none", "one", "one"]
    metric = PUBLIC[name]
    one = metric(y, scores, qid, per_query=True)[1]
    assert metric(y, scores, qid) == one
    assert metric(y, scores, qid, no_relevant=0) == close(one / 2)
    assert metric(y, scores, qid, no_relevant=1) == close((1 + one) / 2)
    assert math.isnan(metric(y, scores, qid, no_relevant=math.nan))
    assert np.isnan(metric(y, scores, qid, per_query=True)[0])
    assert metric(y, scores, qid, no_relevant=1, per_query=True)[0] == 1
    assert metric(y, scores, qid, flavour="trec") == close(one / 2)
    assert metric(y, scores, qid, flavour="trec", no_relevant="skip") == close(one)
    assert math.isnan(metric([0, 0], [1, 2]))


def test_trec_has_linear_gain_and_stable_ties():
    y, scores = [3, 1, 0], [1.0, 2.0, 3.0]
    assert ndcg(y, scores, flavour="trec") == close(ndcg(y, scores, gain="linear"))
    assert ndcg(y, np.zeros(3), flavour="trec") == close(1.0)
    assert ndcg(y, np.zeros(3), flavour="trec", ties="pessimistic") < 1.0


# Rows, queries, threads.


@given(data=ranked_data(max_docs=40), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_row_order_and_type_of_qid_do_not_matter(data, seed):
    y, scores, qid = data
    names = ["ndcg@5", "mean-ndcg", "map", "p@3", "mrr", "err", "recall@3", "hit-rate@3", "rbp"]
    names += ["r-precision", *CORRELATIONS, *PAIRS]
    expected = evaluate(y, scores, qid, names)
    order = np.random.default_rng(seed).permutation(len(y))
    for ids in (qid - 7, qid * 0.5, [f"q{q}" for q in qid], [("q", int(q)) for q in qid]):
        ids_array = np.empty(len(y), object)
        ids_array[:] = ids
        ids = ids_array if isinstance(ids[0], tuple) else np.asarray(ids)
        shuffled = evaluate(y[order], scores[order], ids[order], names)
        # Not even in the last bit: groups of ties are sorted and sums are rounded once.
        assert repr(shuffled.mean) == repr(expected.mean)
        assert shuffled.n_skipped == expected.n_skipped
        where = {q: i for i, q in enumerate(queries_in_order(qid))}
        back = [where[q] for q in queries_in_order(qid[order])]
        for name in names:
            values = expected.per_query[name][back]
            np.testing.assert_array_equal(shuffled.per_query[name], values)


def test_per_query_is_in_order_of_first_appearance():
    y, scores, qid = [1, 0, 0, 1, 1], [1, 1, 2, 1, 2], ["z", "a", "z", "a", "m"]
    result = evaluate(y, scores, qid, "mrr", flavour="letor4")
    assert result.query_ids.tolist() == ["z", "a", "m"]
    assert result.per_query["mrr"].tolist() == [0.5, 0.5, 1.0]
    assert reciprocal_rank(y, scores, qid, flavour="letor4", per_query=True).tolist() == [
        0.5,
        0.5,
        1,
    ]


def test_number_of_threads_changes_no_bit(rng):
    n = 30_000
    y, scores, qid = rng.integers(0, 5, n), rng.integers(0, 50, n), np.sort(rng.integers(0, 500, n))
    names = ["ndcg@10", "mean-ndcg", "map", "p@5", "mrr", "err@10", "recall@5", "hit-rate@2"]
    names += ["r-precision", "rbp@10", *CORRELATIONS, *PAIRS]
    one = evaluate(y, scores, qid, names, n_threads=1)
    three = evaluate(y, scores, qid, names, n_threads=3)
    assert one.mean == three.mean
    for name in names:
        np.testing.assert_array_equal(one.per_query[name], three.per_query[name])


def test_evaluate_agrees_with_single_metrics(rng):
    n = 400
    y, scores, qid = rng.integers(0, 5, n), np.round(rng.normal(size=n), 1), rng.integers(0, 20, n)
    names = ["ndcg@10", "ndcg", "mean-ndcg", "map", "map(rel=2)", "p(rel=3)@5", "mrr@3", "err@10"]
    names += ["recall(rel=2)@4", "r-precision(rel=3)", "hit-rate@2", "rbp(rel=2, p=0.5)@7", "rbp"]
    for flavour in ("standard", "letor3", "letor4", "mslr", "trec"):
        result = evaluate(y, scores, qid, names, flavour=flavour)
        for name in names:
            assert result.mean[name] == parse_metric(name)(y, scores, qid, flavour=flavour)
    assert result.n_queries == 20
    assert result.flavour == "trec"


def test_evaluate_with_query_ptr(rng):
    y, scores, qid = rng.integers(0, 3, 50), rng.normal(size=50), np.sort(rng.integers(0, 9, 50))
    ptr = np.concatenate([[0], np.flatnonzero(np.diff(qid)) + 1, [50]])
    ptr.flags.writeable = False  # as in a memory-mapped store
    by_id = evaluate(y, scores, qid, "ndcg@10,map")
    by_ptr = evaluate(y, scores, metrics="ndcg@10,map", query_ptr=ptr)
    assert by_id.mean == by_ptr.mean
    assert by_ptr.query_ids.tolist() == list(range(len(ptr) - 1))
    assert evaluate([1, 0], [2, 1], metrics="map", query_ptr=[0, 2]).mean == {"map": 1.0}


def test_evaluate_counts_the_queries_that_are_skipped():
    y, scores, qid = [1, 0, 1, 0, 0, 0], [2, 1, 2, 1, 2, 1], [1, 1, 2, 2, 3, 3]
    found = evaluate(y, scores, qid, "map, pairwise-accuracy")
    assert found.n_skipped == {"map": 1, "pairwise-accuracy": 1}
    assert evaluate(y, scores, qid, "map", flavour="letor4").n_skipped == {"map": 0}


def test_evaluation_prints_as_a_table():
    text = str(evaluate([1, 0, 0], [1.0, 0.0, 2.0], [1, 1, 2], ["ndcg@10", "pairwise-accuracy"]))
    assert text.splitlines()[1].split() == ["ndcg@10", "1.0000", "1", "1"]
    assert len({len(line) for line in text.splitlines()}) == 1


def test_arrays_of_the_caller_are_not_changed(rng):
    y, scores, qid = rng.integers(0, 5, 20).astype(float), rng.normal(size=20), np.zeros(20)
    for array in (y, scores, qid):
        array.flags.writeable = False
    evaluate(y, scores, qid, ["ndcg", "map", "err", "pairwise-accuracy"])


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_kernels_are_compiled_for_one_signature(rng):
    y, qid = rng.integers(0, 2, 20), np.repeat([0, 1], 10)
    for scores in (rng.normal(size=20).astype(np.float32), np.arange(40)[::2], np.zeros(20)):
        for flavour in ("standard", "trec"):
            evaluate(y, scores, qid, metric_names(), flavour=flavour)
    kernels = [ranked_lists._sort_range, gains._ndcg_range, binary._precision_range]
    kernels += [gains._cascade_range, pair_counts._pairs_range, pair_counts._domination_range]
    kernels += [binary._recall_range, binary._hit_range, binary._rbp_range]
    kernels += [pair_counts._mean_ranks_range, pair_counts._spearman_range]
    for kernel in kernels:
        assert len(kernel.dispatcher.signatures) == 1


@pytest.mark.parametrize("name", list(PUBLIC))
def test_one_document(name):
    assert PUBLIC[name]([1], [0.0]) == close({"err": 0.5, "rbp": 0.2}.get(name, 1.0))
    assert math.isnan(PUBLIC[name]([0], [0.0]))


# Signatures.


@pytest.mark.parametrize("name", list(PUBLIC))
def test_every_metric_lists_its_parameters(name):
    parameters = inspect.signature(PUBLIC[name]).parameters.values()
    assert all(p.kind is not p.VAR_KEYWORD and p.annotation != "Any" for p in parameters)


def test_a_metric_is_declared_in_one_place():
    """The decorator makes the arguments, the checks and the mean of a function of a ranking."""

    @ranked_lists.metric("first", ranked_lists.CutoffOptions, greater_is_better=False)
    def first(ranking, rules, k):
        """Return the first label, and 0 if a list is shorter than k."""
        lists = ranking.lists
        values = np.where(ranking.sizes < (k or 0), 0.0, lists.labels[lists.query_ptr[:-1]])
        return ranked_lists.PerQuery.fill(values, rules.no_relevant)

    y, scores, qid = [1, 3, 5], [0.1, 0.2, 0.3], ["b", "b", "a"]
    assert first(y, scores, qid) == 4.0
    assert first(y, scores, qid, k=2, per_query=True).tolist() == [3.0, 0.0]
    assert list(inspect.signature(first).parameters) == [
        "y", "scores", "qid", "k", "flavour", "no_relevant", "ties", "per_query", "doc_ids",
    ]  # fmt: skip
    assert first.__doc__.startswith("Return the first label")
    kind = ranked_lists.metric_kinds(SimpleNamespace(first=first, other=1))[0]
    assert (kind.name, kind.greater_is_better) == ("first", False)
    with pytest.raises(
        TypeError, match=re.escape("first() got an unexpected keyword argument 'p'")
    ):
        first(y, scores, qid, p=3)
    with pytest.raises(DataError, match="k is 0"):
        first([], scores, k=0)


def test_an_option_of_a_named_metric_is_given_once():
    with pytest.raises(TypeError, match="multiple values for keyword argument 'k'"):
        parse_metric("ndcg@3")([1, 0], [0.1, 0.2], k=2)


def test_public_names_are_loaded_on_first_use():
    code = """
import sys, linrank.metrics
def loaded():
    return [name for name in sys.modules if name.startswith("linrank.metrics.")]
print(loaded())
linrank.metrics.ndcg, hasattr(linrank.metrics, "_ndcg"), hasattr(linrank.metrics, "binary")
print(loaded(), "numba" in sys.modules)
from linrank.metrics import *
print(auc.__name__, hasattr(linrank.metrics, "acu"), "numba" in sys.modules)
linrank.metrics.acu
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "[]",
        "['linrank.metrics.ranked_lists', 'linrank.metrics.gains'] False",
        "auc False False",
    ]
    assert "module 'linrank.metrics' has no attribute 'acu'" in done.stderr


def test_the_order_of_names_does_not_depend_on_imports():
    code = "import linrank; linrank.kendall; print(*linrank.metrics.metric_names())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert tuple(done.stdout.split()) == metric_names()


def test_names_are_known_without_a_compiler():
    code = "import sys, linrank.choices; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Names.


@pytest.mark.parametrize(
    ("text", "name", "k", "rel"),
    [
        ("ndcg", "ndcg", None, None),
        ("nDCG@10", "ndcg@10", 10, None),
        ("mean_ndcg", "mean-ndcg", None, None),
        ("MAP", "map", None, None),
        ("ap(rel=2)", "map(rel=2)", None, 2.0),
        ("P(rel=2)@5", "p(rel=2)@5", 5, 2.0),
        (" precision ( rel = 1.5 ) @ 5 ", "p(rel=1.5)@5", 5, 1.5),
        ("map(rel=-1)", "map(rel=-1)", None, -1.0),
        ("ndcg@010", "ndcg@10", 10, None),
        ("ndcg@" + "9" * 18, "ndcg@" + "9" * 18, 10**18 - 1, None),
        ("rr", "mrr", None, None),
        ("ERR@20", "err@20", 20, None),
        ("Pairwise_Accuracy", "pairwise-accuracy", None, None),
        ("auc", "auc", None, None),
        ("All_Pairs_Error", "all-pairs-error", None, None),
        ("domination-error", "domination-error", None, None),
        ("R@100", "recall@100", 100, None),
        ("Rprec", "r-precision", None, None),
        ("Success(rel=2)@3", "hit-rate(rel=2)@3", 3, 2.0),
        ("hit_rate@10", "hit-rate@10", 10, None),
        ("rbp( p = 0.50 , rel=2 )@10", "rbp(rel=2, p=0.5)@10", 10, 2.0),
        ("kendall-tau-b", "kendall", None, None),
        ("ndcg_cut_10", "ndcg@10", 10, None),
        ("P_5", "p@5", 5, None),
        ("recall.100", "recall@100", 100, None),
        ("recip_rank", "mrr", None, None),
        ("tau", "kendall", None, None),
        ("strict_pairwise_accuracy", "strict-pairwise-accuracy", None, None),
    ],
)
def test_parse_metric(text, name, k, rel):
    metric = parse_metric(text)
    assert (metric.name, metric.k, metric.rel, str(metric)) == (name, k, rel, name)
    assert parse_metric(metric) is metric
    assert parse_metric(name) == metric
    assert pickle.loads(pickle.dumps(metric)) == metric


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ncdg@10", "all-pairs-error, domination-error; did you mean 'ndcg'?"),
        ("bpref", "Write the ranking with write_run, and use trec_eval"),
        ("pairwise", "did you mean 'pairwise-accuracy'?"),
        ("", "metric '' is unknown"),
        ("ndcg@", "unknown"),
        ("ndcg@0", "the cut-off is '0'; expected a whole number of at least 1"),
        ("ndcg@1.5", "the cut-off is '1.5'"),
        ("auc@5", "auc has no cut-off; use 'auc'"),
        ("domination-error@5", "domination-error has no cut-off"),
        ("ndcg(rel=2)", "ndcg has no relevance level"),
        ("map(rel=two)", "rel is 'two'; expected a number"),
        ("map(rel=1" + "0" * 400 + ")", "expected a number"),
        ("ndcg@1" + "0" * 18, "at most 18 digits"),
        ("map(p=0.5)", "map has no persistence p"),
        ("r-precision@5", "r-precision has no cut-off"),
        ("rbp(p=1)", "p is 1.0; expected a probability between 0 and 1"),
        ("rbp(p=half)", "p is 'half'; expected a number, such as 0.8"),
        ("rbp(p=0.5, p=0.6)", "expected rel=2 or p=0.8, each at most once"),
        ("rbp(q=0.5)", "'q=0.5' is not an option"),
        ("rbp()", "'' is not an option"),
    ],
)  # fmt: skip
def test_unknown_metric_gets_a_sentence(text, sentence):
    with pytest.raises(DataError, match=re.escape(sentence)):
        parse_metric(text)


def test_a_list_of_metrics_may_have_options_with_commas():
    names = [metric.name for metric in parse_metrics("rbp(rel=2,p=0.5)@10,map, p(rel=2)@5")]
    assert names == ["rbp(rel=2, p=0.5)@10", "map", "p(rel=2)@5"]


def test_every_name_can_be_evaluated():
    result = evaluate([1, 0, 1], [1.0, 2.0, 3.0], metrics=metric_names())
    assert list(result.mean) == list(metric_names())
    low = dict.fromkeys(CORRELATIONS, -1)
    assert all(low.get(name, 0) <= value <= 1 for name, value in result.mean.items())


@pytest.mark.parametrize("name", metric_names())
def test_direction_is_that_of_better_rankings(name):
    y = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    k = "@2" if name in ("p", "recall", "hit-rate") else ""
    right, wrong = (parse_metric(name + k)(y, scores) for scores in (y, -y))
    assert right != wrong
    assert parse_metric(name).greater_is_better == (right > wrong)


# Bad input.


@pytest.mark.parametrize(
    ("y", "scores", "qid", "options", "sentence"),
    [
        ([1, 0], [1.0], None, {}, "scores has 1 entries but y has 2"),
        ([1, 0], [1.0, 2.0], [1], {}, "qid has 1 entries but y has 2"),
        ([1, 0], [1.0, 2.0], 7, {}, "qid is 7; expected one entry per document"),
        ([1, 0], [1.0, math.nan], None, {}, "scores[1] is nan; expected finite numbers"),
        ([1, 0], [math.inf, 0.0], None, {}, "scores[0] is inf"),
        ([math.nan, 0], [1.0, 0.0], None, {}, "y[0] is nan"),
        ([], [], None, {}, "y is empty"),
        ([[1, 0]], [1.0, 0.0], None, {}, "y has 2 dimensions"),
        ([1j, 0], [1.0, 0.0], None, {}, "y has the dtype complex128; expected real numbers"),
        (["1", "0"], [1.0, 0.0], None, {}, "expected real numbers"),
        (np.array([1, None]), [1.0, 0.0], None, {}, "y[1] is nan"),
        (np.array([1, "x"], object), [1.0, 0.0], None, {}, "y cannot be read as numbers"),
        ([1, 0], [1.0, 2.0], None, {"k": 0}, "k is 0; expected a whole number of at least 1"),
        ([1, 0], [1.0, 2.0], None, {"k": 2.5}, "k is 2.5"),
        ([1, 0], [1.0, 2.0], None, {"k": True}, "k is True"),
        (
            [1, 0],
            [1.0, 2.0],
            None,
            {"flavour": "letor"},
            "known choices are 'standard', 'letor3', 'letor4', 'mslr', 'trec'",
        ),
        (
            [1, 0],
            [1.0, 2.0],
            None,
            {"ties": "random"},
            "'average', 'stable', 'pessimistic', 'optimistic'",
        ),
        (
            [1, 0],
            [1.0, 2.0],
            None,
            {"gain": "exp"},
            "known choices are 'exp2', 'linear' or a function",
        ),
        ([1, 0], [1.0, 2.0], None, {"gain": {1: 1}}, "gain has no entry for the label 0"),
        ([1, 0], [1.0, 2.0], None, {"gain": lambda y: -1}, "gains must be finite and at least 0"),
        ([1, 0], [1.0, 2.0], None, {"gain": {0: 0, 1: math.inf}}, "gain of the label 1 is inf"),
        ([1, 0], [1.0, 2.0], None, {"discount": "log"}, "known choices are 'log2', 'letor'"),
        ([1, 0], [1.0, 2.0], None, {"no_relevant": 2}, 'expected 0, 1, "skip" or nan'),
        ([1, 0], [1.0, 2.0], None, {"no_relevant": "no"}, 'expected 0, 1, "skip" or nan'),
        ([1, 0], [1.0, 2.0], None, {"ties": "docno"}, 'ties="docno" needs doc_ids'),
        ([1, 0], [1.0, 2.0], None, {"doc_ids": ["a"]}, "doc_ids has 1 entries but y has 2"),
    ],
)
def test_bad_input_gets_a_sentence(y, scores, qid, options, sentence):
    with pytest.raises(DataError, match=re.escape(sentence)):
        ndcg(y, scores, qid, **options)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: auc([0, 1, 2], [1, 2, 3]), "y has 0, 1 and 2; for graded labels use pairwise_acc"),
        (lambda: auc([0, 1], [1, 2], average="docs"), "are 'pairs', 'queries'"),
        (lambda: pairwise_accuracy([0, 1], [1, 2], average=1), "average is 1"),
        (lambda: all_pairs_error([0, 1], [1, 2], average="docs"), "are 'pairs', 'queries'"),
        (lambda: domination_error([0, 1], [1, 2], average="pairs"), "are 'queries', 'documents'"),
        (lambda: err([0, 3], [1, 2], max_label=2), "max_label is 2; expected a finite number of"),
        (lambda: err([0, 3], [1, 2], max_label="x"), "max_label is 'x'"),
        (lambda: precision([0, 1], [1, 2], rel=math.nan), "rel is nan"),
        (lambda: rbp([0, 1], [1, 2], p=1.0), "p is 1.0; expected a probability between 0 and 1"),
        (lambda: rbp([0, 1], [1, 2], p=math.nan), "p is nan"),
        (lambda: evaluate([0, 1], [1, 2], metrics=[]), "metrics is empty"),
        (lambda: evaluate([0, 1], [1, 2], [1, 1], query_ptr=[0, 2]), "cannot both be given"),
        (lambda: evaluate([0, 1], [1, 2], query_ptr=[0, 1]), "rise from 0 to 2"),
        (lambda: evaluate([0, 1], [1, 2], query_ptr=[0, 2, 2]), "rise from 0 to 2"),
        (lambda: evaluate([0, 1], [1, 2], query_ptr=[0.0, 2.0]), "whole numbers"),
        (lambda: evaluate([0, 1], [1, 2], query_ptr=[1, 2]), "rise from 0 to 2"),
        (lambda: evaluate([0, 1], [1, 2], query_ptr=[0]), "rise from 0 to 2"),
        (lambda: evaluate([0, 1], [1, 2], query_ptr=[[0, 2]]), "rise from 0 to 2"),
        (lambda: err([0, 3], [1, 2], max_label=math.inf), "max_label is inf"),
        (lambda: precision([0, 1], [1, 2], rel=True), "rel is True"),
        (lambda: evaluate([0, 1], [1, 2], n_threads=0), "n_threads is 0"),
    ],
)  # fmt: skip
def test_bad_arguments_get_a_sentence(call, sentence):
    with pytest.raises(DataError, match=re.escape(sentence)):
        call()


def test_pairs_of_one_label_have_no_accuracy():
    assert math.isnan(pairwise_accuracy([1, 1], [1, 2]))
    assert math.isnan(auc([1, 1], [1, 2]))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@given(ranked_data(max_docs=60), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_values_at_a_cutoff_do_not_depend_on_documents_below_it(data, k):
    """With cut-offs only, documents below the largest one are not sorted."""
    y, scores, qid = data
    scores = scores + np.where(y > 2, 0.25 * y, 0.0)  # some scores are distinct
    names = [name for name in PUBLIC if name not in WITHOUT_CUTOFF]
    cut = ", ".join(f"{name}@{depth}" for name in names for depth in (k, 1 + k // 2))
    for flavour in ("standard", "letor4", "trec"):
        some = evaluate(y, scores, qid, cut, flavour=flavour).per_query
        everything = evaluate(y, scores, qid, f"{cut}, mean-ndcg", flavour=flavour).per_query
        for name, values in some.items():
            np.testing.assert_array_equal(values, everything[name], name)
        for name in names:
            alone = PUBLIC[name](y, scores, qid, k=k, flavour=flavour, per_query=True)
            np.testing.assert_array_equal(alone, some[f"{name}@{k}"], name)
