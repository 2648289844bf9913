"""Comparisons of two rankers: which numbers, which queries, and what they refuse."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression

from linrank import (
    DataError,
    LinearModel,
    Qrels,
    RankingData,
    RankSVM,
    Run,
    compare,
    compare_evaluations,
    evaluate,
    make_ranking,
)
from linrank.statistics import bootstrap_interval, holm, randomization_test
from problems import PAPERS

METRICS = ["ndcg@5", "map", "all-pairs-error"]

pytestmark = pytest.mark.interpreted


@pytest.fixture(scope="module")
def data():
    """Queries of which the last has no relevant document."""
    found = make_ranking(25, 7, 4, n_levels=3, noise=1.0, random_state=0)
    y = np.where(found.qid == found.qid[-1], 0.0, found.y)
    return RankingData(found.X, y, found.qid, doc_ids=[f"D{row}" for row in range(len(y))])


@pytest.fixture(scope="module")
def found(data):
    return compare(data, data.X[:, 0], data.X[:, 1], METRICS)


def values(data, column, metric):
    per_query = evaluate(data.y, data.X[:, column], data.qid, metric).per_query[metric]
    return per_query[~np.isnan(per_query)]


@pytest.mark.parametrize("metric", METRICS)
def test_numbers_against_scipy(data, found, metric):
    one, a, b = found.metrics[metric], values(data, 0, metric), values(data, 1, metric)
    assert (one.metric, one.n_queries, one.n_left_out) == (metric, 24, 1)
    assert (one.mean_a, one.mean_b) == (pytest.approx(a.mean()), pytest.approx(b.mean()))
    assert one.difference == pytest.approx(b.mean() - a.mean())
    assert one.interval == bootstrap_interval(b - a)
    better = "less" if metric == "all-pairs-error" else "greater"
    for name, side in (("t", "two-sided"), ("t_one_sided", better)):
        expected = scipy.stats.ttest_rel(b, a, alternative=side)
        assert one.tests[name].p_value == pytest.approx(expected.pvalue)
        assert one.tests[name].statistic == pytest.approx(expected.statistic)
    assert one.tests["randomization"].p_value == randomization_test(b, a).p_value
    sign = -1 if better == "less" else 1
    assert one.counts == tuple(int(np.sum(np.sign(sign * (b - a)) == s)) for s in (1, 0, -1))


@pytest.mark.parametrize("test", ["t", "t_one_sided", "randomization"])
def test_p_values_are_adjusted_over_the_metrics(found, test):
    p_values = [one.tests[test].p_value for one in found.metrics.values()]
    adjusted = [one.p_holm[test] for one in found.metrics.values()]
    assert adjusted == holm(p_values).tolist()


def test_rankers_models_and_scores_are_the_same(data):
    ranker = RankSVM(C=0.01, scale="query", normalize=None).fit(data)
    model = LinearModel([0.0, 1.0, 0.0, 0.0])
    expected = compare(data, ranker.predict(data.X, data.qid), data.X[:, 1], "mrr")
    assert compare(data, ranker, model, "mrr").metrics == expected.metrics
    assert compare(data, ranker.model_, data.X[:, 1].tolist(), "mrr").metrics == expected.metrics


def test_runs_scores_and_judgements_are_the_same(data):
    """If one ranking is a run, both are evaluated as runs."""
    a, b = (Run(data.qid, data.doc_ids, data.X[:, column]) for column in (0, 1))
    qrels = Qrels(data.qid, data.doc_ids, data.y)
    expected = compare(qrels, a, b, METRICS)
    assert expected.a.flavour == "trec"
    for first, second in ((a, b), (a, data.X[:, 1]), (data.X[:, 0], b)):
        assert compare(data, first, second, METRICS).metrics == expected.metrics
    assert (
        compare(data, data.X[:, 0], data.X[:, 1], METRICS, flavour="trec").metrics["map"]
        == (expected.metrics["map"])
    )


def test_a_query_that_a_run_lacks_counts_as_0(data):
    keep = data.qid != data.qid[0]
    docs = np.array(data.doc_ids)[keep]
    whole = Run(data.qid, data.doc_ids, data.X[:, 0])
    part = Run(data.qid[keep], docs.tolist(), data.X[keep, 0])
    changed = compare(data, whole, part, "mrr").most_changed()
    assert [(query.qid, query.b) for query in changed] == [(str(data.qid[0]), 0.0)]


def test_queries_that_change_most(data, found):
    a, b = found.a.per_query["map"], found.b.per_query["map"]
    changed = found.most_changed(4, "map")
    best = np.argsort(-np.abs(np.nan_to_num(b - a)), kind="stable")[:4]
    assert [query.qid for query in changed] == data.query_ids[best].tolist()
    assert [query.difference for query in changed] == (b - a)[best].tolist()
    assert [query.a for query in changed] == a[best].tolist()
    assert found.most_changed(2) == found.most_changed(2, "ndcg@5")


def test_tables_in_several_forms(found):
    lines = repr(found).splitlines()
    assert lines[0].split()[:3] == ["metric", "A", "B"]
    assert [line.split()[0] for line in lines[1:4]] == METRICS
    one = found.metrics["map"]
    for number in (f"{one.mean_a:.4f}", f"{one.difference:+.4f}", "/".join(map(str, one.counts))):
        assert number in lines[2]
        assert number in found._repr_html_()
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert frame["metric"].tolist() == METRICS
    row = frame.set_index("metric").loc["map"]
    assert (row["a"], row["low"], row["wins"]) == (one.mean_a, one.interval.low, one.counts.wins)
    assert row["p_randomization_holm"] == one.p_holm["randomization"]


def test_small_p_values_are_not_shown_as_0():
    rng = np.random.default_rng(0)
    y, qid = np.tile([1, 0, 0], 60), np.repeat(np.arange(60), 3)
    found = compare(RankingData(rng.random((180, 1)), y, qid), rng.random(180), y, "mrr")
    assert found.metrics["mrr"].tests["t"].p_value < 1e-4
    assert found.table().rows[0][5] == "<0.0001"


def test_notes_explain_numbers(data, found):
    weighted = evaluate(data.y, data.X[:, 0], data.qid, "all-pairs-error").mean["all-pairs-error"]
    assert found.metrics["all-pairs-error"].mean_a != pytest.approx(weighted)
    assert found.notes() == [
        "all-pairs-error: each query counts once, but evaluate weights queries by their pairs or "
        "documents"
    ]
    same = compare(data, data.X[:, 0], data.X[:, 0], ["ndcg@5", "map"])
    assert same.notes() == [
        "ndcg@5, map: both methods have the same value in every query, so p_value is 1"
    ]
    assert repr(same).endswith(same.notes()[0])
    assert same.most_changed() == []
    nothing = compare(data.replace(y=np.zeros(data.n_docs)), data.X[:, 0], data.X[:, 1], "map")
    assert "no query has a value" in nothing.notes()[0]
    assert math.isnan(nothing.metrics["map"].mean_a)
    assert nothing.metrics["map"].p_holm["t"] == 1.0


def test_plot_shows_the_differences_in_order(found):
    ax = found.plot(Figure().subplots(), "map")
    d = found.b.per_query["map"] - found.a.per_query["map"]
    d = np.sort(d[~np.isnan(d)])[::-1]
    gains, losses = (patch.get_data().values for patch in ax.patches)
    np.testing.assert_array_equal(gains + losses, d)
    assert (gains >= 0).all()
    assert (losses <= 0).all()
    assert ax.get_ylabel() == "map: B − A"
    wins, ties, losses = found.metrics["map"].counts
    expected = f"map: B is better in {wins} queries, equal in {ties}, worse in {losses}"
    assert ax.get_title(loc="left") + ax.get_title() == expected


def test_rankings_that_do_not_fit_are_refused(data):
    qrels = Qrels(data.qid, data.doc_ids, data.y)
    run = Run(data.qid, data.doc_ids, data.X[:, 0])
    with pytest.raises(DataError, match=r"^b: scores has 3 entries but y has"):
        compare(data, data.X[:, 0], [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match=r"^b: this is a list, but data is a Qrels; expected a Run"):
        compare(qrels, run, [1.0])
    with pytest.raises(DataError, match=r"^b: the run has no query of the qrels"):
        compare(qrels, run, Run(["none"], ["D"], [1.0]))
    with pytest.raises(DataError, match=r"^the data has no document ids"):
        compare(RankingData(data.X, data.y, data.qid), run, data.X[:, 0])
    with pytest.raises(DataError, match="metric is 'mrr'; this comparison has 'map'"):
        compare(data, data.X[:, 0], data.X[:, 1], "map").most_changed(metric="mrr")


def test_evaluations_that_do_not_fit_are_refused(data):
    one = evaluate(data.y, data.X[:, 0], data.qid, "map")
    for other, sentence in (
        (evaluate(data.y, data.X[:, 0], data.qid, "mrr"), "a has the metrics map, but b has mrr"),
        (replace(one, flavour="trec"), "a has the flavour 'standard', but b has 'trec'"),
        (replace(one, query_ids=one.query_ids[::-1]), "a and b have different queries"),
    ):
        with pytest.raises(DataError, match=sentence):
            compare_evaluations(one, other)


# --------------------------------------------------------------------------------------------------
# Rankers of other libraries.


class FirstFeature:
    """A ranker whose ``predict`` knows no queries."""

    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_any_object_that_predicts_can_be_compared():
    data = make_ranking(random_state=0)
    found = compare(data, FirstFeature(), data.X[:, 0])
    assert found.metrics["map"].difference == 0.0


def test_a_ranker_gets_the_features_by_name_without_a_warning():
    data = make_ranking(n_features=3, random_state=0)
    data = data.replace(feature_names=("a", "b", "c"))
    frame = pd.DataFrame(data.X, columns=list("abc"))[["c", "a", "b"]]
    for ranker in (
        LinearRegression().fit(frame, data.y),
        RankSVM(C=1.0, **PAPERS).fit(frame, data.y, qid=data.qid),
    ):
        queries = (data.qid,) if isinstance(ranker, RankSVM) else ()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = compare(data, ranker, ranker.predict(frame, *queries))
        assert found.metrics["ndcg@10"].difference == 0.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (lambda data, s: (s, s, data), "The order is compare"),
        (lambda data, s: (data, s, data), "b: this is a RankingData"),
        (lambda data, s: (data, RankSVM, s), "a: this is the class RankSVM"),
    ],
)
def test_wrong_kinds_of_objects_get_a_sentence(arguments, sentence):
    data = make_ranking(random_state=0)
    with pytest.raises(DataError, match=sentence):
        compare(*arguments(data, data.X[:, 0]))
