"""Tables, sentences, pictures, pages and files of studies."""

from __future__ import annotations

import csv
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from linrank import evaluate_run, make_ranking, read_qrels, read_run
from linrank.errors import DataError
from linrank.plots import new_figure
from linrank.report.page import render_page
from linrank.statistics import bootstrap_interval
from linrank.study import Study, StudyResults, study_page, summary_tables
from linrank.study.analysis import RESAMPLES, Analysis
from linrank.study.protocol import safe_names
from linrank.study.results import FoldResult, Missing, Outcome, TestPart, Trial
from linrank.study.study_page import FoldedPart as Folded
from linrank.study.study_page import (
    along_C_drawing,
    best_sentences,
    convergence_drawing,
    cost_sentences,
    difference_drawing,
    gap_sentences,
    small_sentences,
    study_parts,
    walk,
    weight_drawing,
    write_report,
    write_runs,
    write_tables,
)

pytestmark = pytest.mark.interpreted

DOCS = 5  # documents of a query, of which one is relevant


def fold_result(ranks, *, used=3, seconds=0.5, setting=None):
    """A method that puts the relevant document of each query at a rank; others keep their order."""
    scores = np.concatenate([[DOCS - rank + 0.5, *range(DOCS - 1, 0, -1)] for rank in ranks])
    trial = Trial(setting or {}, 0.5, 0.5, used, seconds)
    outcome = Outcome([trial], 0, scores, 10, used, seconds, 0.01, 2 * seconds)
    return FoldResult(outcome, [trial, trial], 2 * seconds)


def make(ranks, *, metric="mrr", metrics=(), data="made", **options):
    """Results of methods, given the ranks of relevant documents by fold; None: a missing fold."""
    n_folds = len(next(iter(ranks.values())))
    sizes = [next(len(found[k]) for found in ranks.values() if found[k]) for k in range(n_folds)]
    tests, found = {}, {}
    for k, n in enumerate(sizes):
        y = np.tile([1.0] + [0.0] * (DOCS - 1), n)
        ids = [f"q{k}-{q}" for q in range(n)]
        docs = [f"{query}-d{d}" for query in ids for d in range(DOCS)]
        tests[data, f"Fold{k + 1}"] = TestPart(y, np.arange(n + 1) * DOCS, ids, docs)
        for method, folds in ranks.items():
            if folds[k] is not None:
                found[data, f"Fold{k + 1}", method] = fold_result(folds[k], **options)
    valued = dict.fromkeys(tests, 10)
    return StudyResults(
        metric, [metric, *metrics], "standard", list(ranks), tests, found, n_valued=valued
    )


def random_ranks(seed, n_folds=3, n_queries=12, best=1):
    rng = np.random.default_rng(seed)
    return [rng.integers(best, DOCS + 1, n_queries).tolist() for _ in range(n_folds)]


def joined(*parts):
    """One study of the results of several, which are on different data sets."""
    first = parts[0]
    tests = {key: test for part in parts for key, test in part.tests.items()}
    found = {key: one for part in parts for key, one in part.found.items()}
    valued = {key: n for part in parts for key, n in part.n_valued.items()}
    return StudyResults(
        first.metric, first.metrics, "standard", first.methods, tests, found, n_valued=valued
    )


def column(table, name):
    """The raw values of a column by the first cells of the rows."""
    k = table.names.index(name)
    return {row[0].value: row[k].value for row in table.cells}


def cells(table, name):
    k = table.names.index(name)
    return {row[0].value: row[k] for row in table.cells}


def tables_of(results, **options):
    parts = study_parts(Analysis(results, **options))
    contents = walk(content for part in parts for content in part.contents)
    return {c.key: c for c in contents if isinstance(c, summary_tables.Table)}


THREE = {"good": random_ranks(0), "bad": random_ranks(1, best=2), "other": random_ranks(2)}


def values_of(ranks):
    return 1.0 / np.concatenate(ranks)


def test_summary_has_the_means_of_the_folds():
    results = make(THREE, metrics=["p@1"])
    table = results.summary()
    means = {m: np.mean([np.mean(1 / np.array(fold)) for fold in f]) for m, f in THREE.items()}
    assert column(table, "mrr") == pytest.approx(means)
    first = {m: np.mean([np.mean(np.array(fold) == 1) for fold in f]) for m, f in THREE.items()}
    assert column(table, "p@1") == pytest.approx(first)
    low, high = bootstrap_interval(values_of(THREE["good"]), 0.95, RESAMPLES)
    assert column(table, "95 % low")["good"] == pytest.approx(low)
    assert column(table, "95 % high")["good"] == pytest.approx(high)
    assert column(table, "features")["good"] == 3
    assert column(table, "training")["good"] == 0.5
    best = max(means, key=means.get)
    assert {m for m, cell in cells(table, "mrr").items() if cell.strong} == {best}
    assert table.cells[0][0].value == best


def expected_p(best, other):
    return stats.ttest_rel(values_of(THREE[best]), values_of(THREE[other]), alternative="greater")[
        1
    ]


def test_tests_are_those_of_scipy():
    analysis = Analysis(make(THREE))
    best = analysis.best("made")
    others = [method for method in THREE if method != best]
    table = summary_tables.test_table(analysis, "mrr")
    p = {other: expected_p(best, other) for other in others}
    assert column(table, "one-sided p") == pytest.approx(p)
    ordered = sorted(p, key=p.get)
    smaller = min(1.0, 2 * p[ordered[0]])
    holm = {ordered[0]: smaller, ordered[1]: max(smaller, p[ordered[1]])}
    assert column(table, "Holm p") == pytest.approx(holm)
    a = values_of(THREE[best])
    two = {other: stats.ttest_rel(values_of(THREE[other]), a)[1] for other in others}
    assert column(table, "two-sided p") == pytest.approx(two)
    for other, found in column(table, "randomised p").items():
        assert found == pytest.approx(two[other], abs=0.05)
    marks = {
        m: cell.mark for m, cell in cells(summary_tables.summary_table(analysis), "mrr").items()
    }
    assert marks == {m: "*" if holm.get(m, 1.0) < 0.05 else "" for m in THREE}
    assert "*" in marks.values()


def test_differences_count_wins_ties_and_losses():
    analysis = Analysis(make(THREE))
    best = analysis.best("made")
    table = summary_tables.difference_table(analysis, "mrr")
    a = values_of(THREE[best])
    for other in column(table, "wins"):
        b = values_of(THREE[other])
        counts = [column(table, name)[other] for name in ("wins", "ties", "losses", "queries")]
        assert counts == [(b > a).sum(), (b == a).sum(), (b < a).sum(), len(a)]
        assert column(table, "difference")[other] == pytest.approx((b - a).mean())
        assert column(table, "relative")[other] == pytest.approx(b.mean() / a.mean() - 1)
        low, high = (column(table, name)[other] for name in ("95 % low", "95 % high"))
        assert low < (b - a).mean() < high


def test_decrease_is_shown_if_it_is_significant():
    """Tables V and VI of Laporte et al. (2014), by the same rule as the stars of the summary."""
    analysis = Analysis(make(THREE))
    best = analysis.best("made")
    table = summary_tables.decrease_table(analysis, "mrr")
    assert "adjusted for the number of methods by Holm" in table.note
    shown = {row[0].value: row[1] for row in table.cells}
    adjusted = column(summary_tables.test_table(analysis, "mrr"), "Holm p")
    for method in set(THREE) - {best}:
        p = adjusted[method]
        relative = values_of(THREE[method]).mean() / values_of(THREE[best]).mean() - 1
        assert shown[method].value == pytest.approx(relative)
        told = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
        assert shown[method].text == (f"{100 * relative:+.1f} % ({told})" if p < 0.05 else "~")
    assert shown[best].strong
    assert shown[best].text == f"{analysis.mean('made', best):.4f}"
    assert {cell.text == "~" for m, cell in shown.items() if m in set(THREE) - {best}} == {
        True,
        False,
    }


def test_tables_mark_the_same_differences():
    """One of these four methods has p = 0.02, and 0.06 after the adjustment."""
    ranks = {f"m{k}": random_ranks(20 + k) for k in range(4)}
    analysis = Analysis(make(ranks))
    stars = cells(summary_tables.summary_table(analysis), "mrr")
    shown = {
        row[0].value: row[1].text for row in summary_tables.decrease_table(analysis, "mrr").cells
    }
    best = analysis.best("made")
    assert {m for m in ranks if stars[m].mark} == {m for m in ranks if shown[m] != "~"} - {best}
    unadjusted = column(summary_tables.test_table(analysis, "mrr"), "one-sided p")
    assert any(p < 0.05 and not stars[m].mark for m, p in unadjusted.items())


def test_a_baseline_is_compared_with_in_the_other_direction():
    ranks = {"base": random_ranks(1, best=2), "new": random_ranks(0)}
    table = summary_tables.test_table(Analysis(make(ranks), "base"), "mrr")
    a, b = (values_of(ranks[name]) for name in ("new", "base"))
    p = stats.ttest_rel(a, b, alternative="greater")[1]
    assert column(table, "one-sided p") == pytest.approx({"new": p})
    assert p < 0.5
    assert "better than base" in table.note
    with pytest.raises(DataError, match="baseline is 'x'; expected a method of the study: base"):
        Analysis(make(ranks), "x")


def test_small_errors_are_good():
    results = make(THREE, metric="all-pairs-error")
    analysis = Analysis(results)
    means = {m: results.mean("made", m) for m in THREE}
    assert analysis.order("made") == sorted(THREE, key=means.get)
    best, *_, last = analysis.order("made")
    found = analysis.against_best("made", "all-pairs-error")[last]
    errors = [(np.concatenate(THREE[m]) - 1) / (DOCS - 1) for m in (last, best)]
    assert found.difference == pytest.approx((errors[0] - errors[1]).mean())
    p = stats.ttest_rel(*errors, alternative="greater").pvalue  # the best has smaller errors
    assert found.one_sided == pytest.approx(p)
    assert found.counts.losses > found.counts.wins
    assert "ahead of" in best_sentences(analysis, "made")[0]


def test_the_picture_of_errors_says_who_is_better():
    analysis = Analysis(make(THREE, metric="all-pairs-error"))
    first, second = analysis.order("made")[:2]
    with new_figure(3.0) as figure:
        difference_drawing(analysis, "made").draw(figure)
        legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    counts = analysis.against_best("made", "all-pairs-error")[second].counts
    assert f"{first} is better: {counts.losses} queries" in legend
    assert f"{second} is better: {counts.wins} queries" in legend
    assert counts.losses != counts.wins


def test_folds_have_their_means():
    table = summary_tables.fold_table(Analysis(make(THREE)), "mrr")
    assert table.names == ["method", "Fold1", "Fold2", "Fold3", "mean"]
    fold = {m: np.mean(1 / np.array(f[1])) for m, f in THREE.items()}
    assert column(table, "Fold2") == pytest.approx(fold)


def test_ranks_are_those_of_scipy():
    results = joined(make(THREE), make({m: f[::-1] for m, f in THREE.items()}, data="second"))
    analysis = Analysis(results)
    values = np.concatenate([
        np.column_stack([results.fold_means(data, m) for m in THREE]) for data in results.data_sets
    ])  # fmt: skip
    ranks = stats.rankdata(-values, axis=1).mean(axis=0)
    table = summary_tables.rank_table(analysis)
    assert column(table, "average rank") == pytest.approx(dict(zip(THREE, ranks, strict=True)))
    statistic = stats.friedmanchisquare(*values.T).statistic
    assert f"chi-squared = {statistic:.2f}" in table.note
    assert "in each of 6 blocks; a block is a fold of a data set" in table.note
    two = summary_tables.rank_table(Analysis(make({m: THREE[m] for m in ("good", "bad")})))
    assert "needs at least three methods" in two.note


def test_sparsity_and_seconds():
    one, two = make(THREE, used=2, seconds=4.0), make(THREE, data="second", used=None)
    analysis = Analysis(joined(one, two))
    ratios = summary_tables.sparsity_table(analysis)
    unknown = pytest.approx(math.nan, nan_ok=True)
    ratio = pytest.approx(0.2)
    found = {name: column(ratios, name)["good"] for name in ratios.names[1:]}
    assert found == {"made": ratio, "second": unknown, "mean": ratio}
    seconds = summary_tables.seconds_table(analysis)
    first = dict(zip(seconds.names, (cell.value for cell in seconds.cells[0]), strict=True))
    assert first["training"] == 4.0
    assert first["all settings"] == 8.0
    assert first["settings"] == 2
    assert first["scoring"] == pytest.approx(0.01)
    fewest = summary_tables.feature_table(Analysis(one))
    assert column(fewest, "fewest")["good"] == column(fewest, "most")["good"] == 2


def test_front_of_quality_sparsity_and_time():
    ranks = {"slow": [[1, 1, 2]], "sparse": [[2, 2, 2]], "weak": [[2, 3, 2]], "told": [[1] * 3]}
    results = make(ranks)
    costs_of = {"slow": (9, 9.0), "sparse": (2, 1.0), "weak": (2, 2.0), "told": (None, 1.0)}
    for method, (used, seconds) in costs_of.items():
        found = fold_result(ranks[method][0], used=used, seconds=seconds)
        results.found["made", "Fold1", method] = found
    table = summary_tables.pareto_table(Analysis(results))
    found = column(table, "on the front")
    assert found == {"slow": "yes", "sparse": "yes", "weak": "no", "told": "unknown"}


def test_queries():
    ranks = {"a": [[1, 5, 1], [2, 1, 1]], "b": [[1, 5, 3], [1, 1, 1]]}
    analysis = Analysis(make(ranks))
    assert analysis.order("made") == ["a", "b"]
    worst = summary_tables.worst_table(analysis, "made")
    places = [(row[0].value, row[1].value) for row in worst.cells]
    assert places[:2] == [("q0-1", "Fold1"), ("q1-0", "Fold2")]
    assert column(worst, "documents")["q0-1"] == DOCS
    assert column(worst, "label > 0")["q0-1"] == 1
    changed = summary_tables.changed_table(analysis, "made")
    assert column(changed, "difference") == pytest.approx({"q0-2": 2 / 3, "q1-0": -1 / 2})


def test_settings_failures_and_warnings_are_listed():
    results = make({"a": [[1, 2]], "b": [[2, 2]]}, setting={"C": 1 / 3})
    outcome = results.found["made", "Fold1", "a"].outcome
    outcome.notes.append("the best C is the smallest.")
    results.missing.append(Missing("made", "Fold1", "b", {"C": 0.5}, "out of memory"))
    results.settings.update(a="RankSVM()", b="SVR()")
    results.made.append(("2026-01-02T03:04:05+00:00", {"linrank": "0.2"}))
    results.problems.append("the disk is full")
    tables = tables_of(results)
    assert column(tables["chosen"], "Fold1") == {"a": "C=0.3333", "b": "C=0.3333"}
    assert column(tables["methods"], "settings") == {"a": "RankSVM()", "b": "SVR()"}
    assert column(tables["missing"], "reason") == {"b": "out of memory"}
    assert column(tables["warnings"], "warning") == {"a": "the best C is the smallest."}
    assert column(tables["versions"], "version") == {"linrank": "0.2"}
    said = gap_sentences(Analysis(results))
    assert said[0] == "the disk is full"
    assert said[1].startswith("1 run failed")
    text = render_page(study_page.study_page(results, "linrank study <data>"))
    assert "linrank study &lt;data&gt;" in text
    assert "from 2026-01-02 03:04 to 2026-01-02 03:04 (UTC)" in text


def test_missing_folds_are_named_and_other_folds_are_compared():
    ranks = {"whole": [[1, 2, 3], [2, 2, 1]], "half": [[1, 1, 1], None]}
    analysis = Analysis(make(ranks))
    assert analysis.best("made") == "whole"  # a mean of fewer folds is not the best
    table = summary_tables.summary_table(analysis)
    assert column(table, "mrr")["half"] == 1.0
    assert cells(table, "mrr")["half"].mark == "†"
    assert not cells(table, "mrr")["half"].strong
    assert "Some folds are missing" in table.note
    differences = summary_tables.difference_table(analysis, "mrr")
    assert column(differences, "queries") == {"half": 3}
    assert (
        "in the 3 queries that both have; 3 queries have a result of only one" in differences.note
    )
    (said,) = gap_sentences(analysis)
    assert said.startswith("half has no result on 1 of 2 folds of made: Fold2.")
    assert "behind half" in best_sentences(analysis, "made")[0]
    assert "1 blocks are left out" in summary_tables.rank_table(analysis).note
    assert math.isnan(column(summary_tables.fold_table(analysis, "mrr"), "Fold2")["half"])
    assert "whole" in render_page(study_page.study_page(analysis.results))


def test_a_method_without_any_result():
    results = make({"a": [[1, 2, 1]], "none": [None]})
    analysis = Analysis(results)
    assert analysis.order("made") == ["a"]
    assert "No other method has a result" in best_sentences(analysis, "made")[0]
    text = render_page(study_page.study_page(results))
    assert "There is one method with results, so nothing is tested." in text
    nothing = make({"a": [[1, 2, 1]]})
    nothing.found.clear()
    assert best_sentences(Analysis(nothing), "made") == ["made: no method has a value of mrr."]
    render_page(study_page.study_page(nothing))


def test_a_method_without_any_result_leaves_the_ranks_of_others():
    complete = make(THREE)
    with_failure = make(THREE | {"none": [None] * 3})
    expected, found = Analysis(complete).ranks(), Analysis(with_failure).ranks()
    assert (found.n, found.methods) == (3, list(THREE))
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    assert found.groups == expected.groups
    table = summary_tables.rank_table(Analysis(with_failure))
    assert "Methods without any result are left out: none." in table.note
    summary = summary_tables.summary_table(Analysis(with_failure))
    assert (cells(summary, "mrr")["none"].mark, summary.note.count("†")) == ("", 0)
    assert gap_sentences(Analysis(with_failure)) == ["none has no result on made."]


def test_methods_without_queries_in_common():
    ranks = {"a": [[1, 2, 2], None], "b": [None, [1, 1, 1]]}
    analysis = Analysis(make(ranks))
    assert "no query in common" in best_sentences(analysis, "made")[0]
    assert (
        "no query has a value for both methods" in summary_tables.test_table(analysis, "mrr").note
    )
    render_page(study_page.study_page(analysis.results))


def test_one_query():
    results = make({"a": [[1]], "b": [[2]], "c": [[3]]})
    said = small_sentences(Analysis(results))
    assert said == ["made has one query. Tests and intervals say nothing about it."]
    tests = summary_tables.test_table(Analysis(results), "mrr")
    assert column(tests, "one-sided p") == {"b": 1.0, "c": 1.0}
    assert "there is one query" in tests.note
    render_page(study_page.study_page(results))


def test_identical_methods():
    ranks = random_ranks(0)
    analysis = Analysis(make({"a": ranks, "b": ranks, "c": random_ranks(1, best=2)}))
    shown = cells(summary_tables.summary_table(analysis), "mrr")
    assert [m for m, cell in shown.items() if cell.strong] == ["a", "b"]
    assert column(summary_tables.test_table(analysis, "mrr"), "one-sided p")["b"] == 1.0
    assert "made: b and a have the same value in every query." in small_sentences(analysis)
    assert "both methods have the same value in every query" in best_sentences(analysis, "made")[0]
    changed = summary_tables.changed_table(analysis, "made")
    assert not changed.rows
    assert changed.note == "a and b have the same value in every query."
    render_page(study_page.study_page(analysis.results))


def test_one_method():
    results = make({"only": [[1, 2, 3], [1, 1, 1]]})
    tables = tables_of(results)
    assert "ranks" not in tables
    assert not any(key.startswith(("tests", "decrease", "differences")) for key in tables)
    assert "nothing is compared" in best_sentences(Analysis(results), "made")[0]
    assert "1 method on made" in render_page(study_page.study_page(results))


def test_queries_in_which_the_metric_is_undefined():
    results = make({"a": [[1, 2, 1], [2, 1, 3]], "b": [[2, 2, 1], [1, 1, 1]]})
    for (_, fold), test in results.tests.items():
        test.y[: DOCS if fold == "Fold1" else None] = 0.0  # no relevant document
    analysis = Analysis(results)
    assert analysis.mean("made", "a") == pytest.approx(0.75)
    assert math.isnan(results.mean("made", "a"))
    assert column(summary_tables.difference_table(analysis, "mrr"), "queries") == {"b": 2}
    assert small_sentences(analysis)[0] == (
        "made: mrr is undefined in 4 of 6 queries, which are left out of means and tests."
    )
    render_page(study_page.study_page(results))


def test_costs_are_named_in_sentences():
    results = make({"a": [[1, 1, 2]], "b": [[2, 3, 2]]}, used=2, seconds=0.25)
    sparsest, fastest = cost_sentences(Analysis(results), "made")
    assert "uses 2 features on average (20 %)" in sparsest
    assert "A fit takes 250 ms on average" in fastest
    unknown = make({"a": [[1, 1, 2]], "b": [[2, 3, 2]]}, used=None, seconds=math.nan)
    assert cost_sentences(Analysis(unknown), "made") == []
    assert Analysis(unknown).front("made").tolist() == [False, False]
    render_page(study_page.study_page(unknown))


@pytest.mark.parametrize("decimals", [2, 3])
@pytest.mark.parametrize("seconds", [0.25, 0.9996, 59.99, 250.0])
def test_seconds_have_no_exponent(seconds, decimals):
    assert "e" not in summary_tables.TableColumn("time", "seconds", decimals).format(seconds)


def test_results_are_shown_as_a_table():
    results = make(THREE)
    assert repr(results) == results.summary().to_text()
    shown = results._repr_html_()
    assert "good" in shown
    assert "<table" in shown


def test_results_as_a_data_frame():
    pytest.importorskip("pandas")
    results = make({"a": [[1, 2], [1, 1]], "b": [[2, 2], None]}, metrics=["p@1"])
    frame = results.to_frame()
    assert len(frame) == 2 * 2 * 2
    rows = frame.set_index(["data", "fold", "method", "metric"])
    assert rows.loc[("made", "Fold1", "a", "mrr"), "value"] == 0.75
    assert rows.loc[("made", "Fold1", "a", "mrr"), "n_queries"] == 2
    assert rows.loc[("made", "Fold2", "b", "p@1"), "n_queries"] == 0
    assert math.isnan(rows.loc[("made", "Fold2", "b", "p@1"), "value"])


def test_tables_are_written_in_four_forms(tmp_path):
    results = make(THREE, metrics=["p@1"])
    results.tables(tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    for key, table in tables_of(results).items():
        assert (folder / f"{key}.txt").read_text() == table.to_text() + "\n"
        assert (folder / f"{key}.csv").read_text() == table.to_csv()
        assert r"\toprule" in (folder / f"{key}.tex").read_text()
        assert json.loads((folder / f"{key}.json").read_text()) == table.to_dict()
    with open(folder / "per_query.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 36
    assert rows[0]["query"] == "q0-0"
    found = [float(row["mrr"]) for row in rows if row["method"] == "bad"]
    assert found == results.per_query("made", "bad").tolist()


def test_pictures_are_written(tmp_path):
    pytest.importorskip("matplotlib")
    write_tables(tmp_path, make(THREE))
    names = {path.name for path in tmp_path.iterdir() if path.name.startswith("picture-")}
    keys = ("cutoffs-made", "differences-made", "ranks", "sparsity", "time-made")
    assert names == {f"picture-{key}{suffix}" for key in keys for suffix in (".svg", ".pdf")}
    assert (tmp_path / "picture-ranks.pdf").read_bytes().startswith(b"%PDF")


def test_a_page_without_matplotlib(tmp_path, monkeypatch):
    from linrank.study import study_page

    for module in (study_page, study_page):
        monkeypatch.setattr(module, "has_matplotlib", lambda: False)
    text = render_page(study_page.study_page(make(THREE)))
    assert "<svg" not in text
    assert "no pictures, because matplotlib is not installed" in text
    write_tables(tmp_path, make(THREE))
    assert not list(tmp_path.glob("picture-*"))


def test_runs_can_be_evaluated(tmp_path):
    results = make(THREE)
    results.runs(tmp_path)
    folder = tmp_path / "made" / "fold2"
    qrels, run = read_qrels(folder / "qrels.txt"), read_run(folder / "bad.run")
    found = evaluate_run(qrels, run, metrics=["mrr"])
    assert found.mean["mrr"] == pytest.approx(results.fold_means("made", "bad")[1])
    assert run.tag == "bad"


def test_runs_without_ids_are_numbered(tmp_path):
    results = make({"a b": [[1, 2]], "none": [None]})
    test = results.tests["made", "Fold1"]
    results.tests["made", "Fold1"] = TestPart(test.y, test.query_ptr, ["new york", "x"], None)
    write_runs(tmp_path, results)
    run = read_run(tmp_path / "made" / "fold1" / "a-b.run")
    assert set(run.qid) == {"1", "2"}
    assert set(run.doc_ids) == {f"{q}-{d}" for q in (1, 2) for d in range(1, DOCS + 1)}
    said = (tmp_path / "README.txt").read_text()
    assert "queries are numbered" in said
    assert "documents of each query are numbered" in said
    assert "a-b.run: a b" in said
    assert not (tmp_path / "made" / "fold1" / "none.run").exists()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    for write in (write_tables, write_runs):
        with pytest.raises(DataError, match="cannot be written"):
            write(tmp_path / "file", make({"a": [[1]]}))


HOSTILE = ["</script><b>", "../../etc", 'a"b', "a\n\x1b[2J", "$x$", "=cmd", "_x", "ü" * 300]


def test_hostile_names(tmp_path):
    ranks = {name: random_ranks(k, 2, 4) for k, name in enumerate(HOSTILE)}
    results = make(ranks, data="<i>&\\")
    results.report(tmp_path / "report.html", command="rm -rf <x>")
    text = (tmp_path / "report.html").read_text()
    assert "</script><b>" not in text
    assert "<i>&" not in text
    assert "\x1b" not in text
    results.tables(tmp_path / "tables")
    results.runs(tmp_path / "runs")
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "tables", "runs"}
    assert len(list((tmp_path / "runs").rglob("*.run"))) == 2 * len(HOSTILE)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(), unique=True, max_size=12))
def test_safe_names_are_distinct(names):
    found = safe_names(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name) for name in found.values())
    assert not {"con", "nul", "com1"} & set(found.values())


def test_the_report_loads_nothing(tmp_path):
    write_report(tmp_path / "report.html", make(THREE), "linrank study made")
    text = (tmp_path / "report.html").read_text()
    rest = text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert not re.search(r"https?:|<link|<img|@import|src=", rest)
    titles = re.findall(r"<h2>(.*?)</h2>", text)
    assert titles[0] == "Summary"
    expected = "Quality Tests Sparsity Time Ranks Queries Settings Repeat"
    assert titles[1:] == expected.split()


def test_other_metrics_and_data_sets_are_folded():
    second = make({m: f[::-1] for m, f in THREE.items()}, data="second", metrics=["p@1"])
    results = joined(make(THREE, metrics=["p@1"]), second)
    parts = {part.key: part for part in study_parts(Analysis(results))}
    folded = [c.title for c in parts["tests"].contents if isinstance(c, Folded)]
    assert folded == ["Other metrics", "second"]
    table = summary_tables.difference_table(Analysis(results), "mrr")
    assert table.names[:2] == ["data set", "method"]
    pytest.importorskip("matplotlib")
    assert 'id="picture-removed"' in render_page(study_page.study_page(results))


@pytest.fixture(scope="module")
def studied():
    data = make_ranking(n_queries=24, docs_per_query=6, n_features=5, random_state=0)
    methods = ["ranksvm", "sparse:l1", "svr:C=0.1|1", "adarank:map"]
    study = Study({"made": data}, methods, metric="map", metrics=["ndcg@5"], n_folds=3)
    return study.run(n_processes=1)


def test_pictures_of_a_study(studied):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    analysis = Analysis(studied)
    figure = Figure()
    along_C_drawing(analysis, "made").draw(figure)
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert labels == ["ranksvm", "sparse:l1", "svr:C=0.1|1"]
    # The values of C of a sparse path depend on the fold. Those that all folds cover are drawn.
    paths = [studied.found["made", fold, "sparse:l1"].trials for fold in studied.folds("made")]
    low = max(min(trial.setting["C"] for trial in trials) for trials in paths)
    high = min(max(trial.setting["C"] for trial in trials) for trials in paths)
    drawn = next(a for a in figure.axes[0].get_lines() if a.get_label() == "sparse:l1")
    assert low <= drawn.get_xdata().min()
    assert drawn.get_xdata().max() <= high
    for make_drawing in (weight_drawing, convergence_drawing):
        figure = Figure()
        make_drawing(analysis, "made").draw(figure)
        assert figure.axes[0].get_lines()


def test_the_page_of_a_study(studied, tmp_path):
    studied.report(tmp_path / "report.html", command="linrank study made")
    text = (tmp_path / "report.html").read_text()
    assert "4 methods on made" in text
    if "<svg" in text:
        keys = set(re.findall(r'<figure class="picture" id="picture-([^"]*)"', text))
        assert {"path-made", "weights-made", "convergence-made", "cutoffs-made"} <= keys
    best = Analysis(studied).best("made")
    assert f"{best} has the best mean map on made" in text
