"""The command line: two rankers on the same queries."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from commandline import error_of, run, run_json
from linrank import (
    LinearModel,
    MultiTopicRanker,
    Qrels,
    RankingData,
    RankSVM,
    Run,
    compare,
    make_ranking,
    read_letor,
    save_store,
    write_letor,
    write_qrels,
    write_run,
)


@pytest.fixture
def data(here):
    """Data, two models, their scores and their runs, all in files of the folder."""
    made = make_ranking(20, (4, 9), 4, n_levels=3, noise=1.0, random_state=0)
    ids = [f"D{row:03d}" for row in range(made.n_docs)]
    # Rows of a query are apart, so that scores must be put in the order of the queries.
    mixed = np.random.default_rng(0).permutation(made.n_docs)
    lines = [
        f"{made.y[row]:g} qid:{made.qid[row]} "
        + " ".join(f"{f}:{v!r}" for f, v in enumerate(made.X[row].tolist(), 1))
        + f" # docid = {ids[row]}"
        for row in mixed
    ]
    Path("test.txt").write_text("\n".join(lines) + "\n")
    found = read_letor("test.txt")
    for name, weights in (("a", [1.0, 0.0, 0.0, 0.0]), ("b", [1.0, 1.0, 0.5, 0.0])):
        LinearModel(weights).save(f"{name}.json")
        run("predict", f"{name}.json", "test.txt", "--out", f"{name}.txt")
        write_run(f"{name}.run", Run(found.qid, found.doc_ids, found.X @ np.array(weights), name))
    write_qrels("qrels.txt", Qrels(found.qid, found.doc_ids, found.y))
    return found


def numbers(*arguments):
    """The comparison as JSON, without the names of the files."""
    found = run_json("compare", *arguments)
    return {key: found[key] for key in found.keys() - {"data", "a", "b"}}


def test_models_scores_and_python_agree(data):
    found = numbers("a.json", "b.json", "--data", "test.txt", "--metrics", "ndcg@5,map")
    for a, b in (("a.txt", "b.json"), ("a.json", "b.txt"), ("a.txt", "b.txt")):
        assert found == numbers(a, b, "--data", "test.txt", "--metric", "ndcg@5", "--metric", "map")
    expected = compare(data, LinearModel([1, 0, 0, 0]), LinearModel([1, 1, 0.5, 0]), "ndcg@5,map")
    assert list(found["metrics"]) == ["ndcg@5", "map"]
    for name, one in found["metrics"].items():
        theirs = expected.metrics[name]
        assert one["mean_a"] == pytest.approx(theirs.mean_a)
        assert one["mean_b"] == pytest.approx(theirs.mean_b)
        assert one["difference"] == pytest.approx(theirs.difference)
        assert one["interval"] == pytest.approx(list(theirs.interval))
        assert (one["wins"], one["ties"], one["losses"]) == theirs.counts
        assert one["tests"]["t"]["p_value"] == pytest.approx(theirs.tests["t"].p_value)
        assert one["tests"]["t"]["p_holm"] == pytest.approx(theirs.p_holm["t"])
    assert (found["flavour"], found["queries"], found["level"]) == ("standard", 20, 0.95)
    changed = [query["qid"] for query in found["changed"]["queries"]]
    assert changed == [query.qid for query in expected.most_changed(5)]


def test_runs_have_the_numbers_of_ir_measures_and_scipy(data):
    names = {"ndcg@5": "nDCG@5", "map": "AP", "recall@3": "R@3"}
    found = numbers("a.run", "b.run", "--data", "qrels.txt", "--metrics", ",".join(names))
    assert found["flavour"] == "trec"
    measures = [ir_measures.parse_measure(theirs) for theirs in names.values()]
    per_query = {}
    for side in "ab":
        rows = ir_measures.iter_calc(
            measures,
            ir_measures.read_trec_qrels("qrels.txt"),
            ir_measures.read_trec_run(f"{side}.run"),
        )
        per_query[side] = {(row.query_id, str(row.measure)): row.value for row in rows}
    queries = [str(query) for query in data.query_ids]
    for name, theirs in names.items():
        a, b = (np.array([per_query[side][query, theirs] for query in queries]) for side in "ab")
        one = found["metrics"][name]
        assert one["mean_a"] == pytest.approx(a.mean())
        assert one["mean_b"] == pytest.approx(b.mean())
        for test, side in (("t", "two-sided"), ("t_one_sided", "greater")):
            expected = scipy.stats.ttest_rel(b, a, alternative=side)
            assert one["tests"][test]["p_value"] == pytest.approx(expected.pvalue)
        expected = scipy.stats.permutation_test(
            (b, a), lambda b, a, axis: np.mean(b - a, axis=axis), permutation_type="samples",
            n_resamples=20_000, random_state=np.random.default_rng(0),
        )  # fmt: skip
        assert one["tests"]["randomization"]["p_value"] == pytest.approx(expected.pvalue, abs=0.02)


def test_a_model_and_a_run_are_compared_as_runs(data):
    found = numbers("a.run", "b.run", "--data", "qrels.txt")
    for a, b in (("a.run", "b.run"), ("a.json", "b.run"), ("a.txt", "b.run"), ("a.run", "b.txt")):
        assert numbers(a, b, "--data", "test.txt")["metrics"] == found["metrics"]
    standard = numbers("a.run", "b.run", "--data", "test.txt", "--flavour", "standard")
    expected = numbers("a.json", "b.json", "--data", "test.txt")
    assert standard["metrics"]["ndcg@10"]["mean_a"] == pytest.approx(
        expected["metrics"]["ndcg@10"]["mean_a"]
    )


def test_the_report_for_people(data):
    text = run("compare", "a.json", "b.json", "--data", "test.txt", "--queries", "2").stdout
    lines = [line.split() for line in text.splitlines() if line.strip()]
    rows = {line[0]: line for line in lines}
    found = numbers("a.json", "b.json", "--data", "test.txt", "--queries", "2")
    assert rows["data"][1:4] == ["test.txt:", f"{data.n_docs}", "documents,"]
    assert (rows["A"][1], rows["B"][1], rows["flavour"][1]) == ("a.json", "b.json", "standard")
    one = found["metrics"]["ndcg@10"]
    for number in (f"{one['mean_a']:.4f}", f"{one['difference']:+.4f}"):
        assert number in rows["ndcg@10"]
    assert f"{one['wins']}/{one['ties']}/{one['losses']}" in rows["ndcg@10"]
    assert "largest changes of ndcg@10" in text
    first, second = found["changed"]["queries"]
    assert [line[0] for line in lines[-2:]] == [str(first["qid"]), str(second["qid"])]
    assert lines[-2][3] == f"{first['difference']:+.4f}"
    without = run("compare", "a.json", "b.json", "--data", "test.txt", "--queries", "0").stdout
    assert "largest changes" not in without


def test_the_same_file_twice_gets_a_sentence(data):
    for file, judged in (("a.json", "test.txt"), ("a.txt", "test.txt"), ("a.run", "qrels.txt")):
        text = run("compare", file, file, "--data", judged).stdout
        assert "A and B are the same file" in text
        assert "ndcg@10, map: both methods have the same value in every query" in text
        assert "largest changes" not in text
    one = numbers("a.txt", "a.json", "--data", "test.txt")["metrics"]["map"]
    assert one["interval"] == [0.0, 0.0]
    assert [test["p_value"] for test in one["tests"].values()] == [1.0, 1.0, 1.0]
    assert "the same value" in one["note"]


def test_queries_that_a_run_lacks_are_counted(data):
    gone = str(data.query_ids[0])
    lines = [line for line in Path("b.run").read_text().splitlines() if line.split()[0] != gone]
    Path("part.run").write_text("\n".join([*lines, "999 Q0 D 1 2 t"]) + "\n")
    for judged in ("qrels.txt", "test.txt"):
        text = run("compare", "b.run", "part.run", "--data", judged).stdout
        assert "; 1 query not in the run, counted as 0; 1 query without judgements" in text
    changed = numbers("b.run", "part.run", "--data", "qrels.txt", "--metrics", "mrr")["changed"]
    assert [(query["qid"], query["b"]) for query in changed["queries"]] == [(gone, 0.0)]


def test_models_of_different_columns_read_the_same_table(data):
    pd.DataFrame(
        {"label": data.y, "qid": data.qid, "bm25": data.X[:, 0], "clicks": data.X[:, 1]}
    ).to_parquet("test.parquet")
    LinearModel([1.0], feature_names=["bm25"]).save("one.json")
    LinearModel([1.0, 1.0], feature_names=["clicks", "bm25"]).save("two.json")
    found = numbers("one.json", "two.json", "--data", "test.parquet")
    expected = compare(data, data.X[:, 0], data.X[:, 0] + data.X[:, 1])
    for name, one in found["metrics"].items():
        assert one["mean_a"] == pytest.approx(expected.metrics[name].mean_a)
        assert one["mean_b"] == pytest.approx(expected.metrics[name].mean_b)


def test_data_can_be_a_store(data):
    save_store(data, "store")
    expected = numbers("a.json", "b.json", "--data", "test.txt")
    assert numbers("a.json", "b.json", "--data", "store")["metrics"] == expected["metrics"]


def test_the_plot_is_saved(data):
    text = run("compare", "a.json", "b.json", "--data", "test.txt", "--plot", "d.svg").stdout
    assert "saved as d.svg" in text
    assert "ndcg@10: B is better in" in Path("d.svg").read_text()


def test_files_that_do_not_fit_get_a_sentence(data):
    LinearModel([1.0, 1.0]).save("small.json")
    assert error_of("compare", "a.json", "small.json", "--data", "test.txt") == (
        "test.txt:1: feature 3 was found, but 2 features are expected: 1 to 2. small.json cannot "
        "score these data"
    )
    Path("short.txt").write_text("1\n2\n")
    assert error_of("compare", "short.txt", "b.json", "--data", "test.txt").startswith(
        "short.txt:2: this is the last line, but the data has"
    )
    for arguments, sentence in (
        (("a.json", "b.run", "--data", "qrels.txt"), "a.json: is not a run file, but qrels.txt is"),
        (("qrels.txt", "b.run", "--data", "test.txt"), "qrels.txt: is a qrels file; expected a"),
        (("a.run", "b.run", "--data", "a.run"), "a.run: is a run file; --data takes data with"),
        (("a.json", "b.json", "--data", "a.json"), "a.json: is a model file; --data takes data"),
        (("a.json", "none", "--data", "test.txt"), "none: no such file; expected a model, scores"),
        (("a.json", "b.json", "--data", "none"), "none: no such file"),
        (("a.json", "test.txt", "--data", "test.txt"), "test.txt:1: "),
        (("a.txt", "b.txt", "--data", "test.txt", "--metric", "mapp"), "metric 'mapp' is unknown"),
        (("a.txt", "b.txt", "--data", "test.txt", "--plot", "d.jpg"), "d.jpg: the name of a plot"),
    ):  # fmt: skip
        assert error_of("compare", *arguments).startswith(sentence)


def test_runs_of_other_queries_or_documents_get_a_sentence(data):
    Path("other.run").write_text("none Q0 D 1 2 t\n")
    assert error_of("compare", "a.run", "other.run", "--data", "qrels.txt").startswith(
        "qrels.txt: b: the run has no query of the qrels"
    )
    write_letor("plain.txt", RankingData(data.X, data.y, data.qid))
    assert error_of("compare", "a.json", "b.run", "--data", "plain.txt").startswith(
        "plain.txt: the data has no document ids. Add them"
    )


def test_models_with_topics_get_a_sentence(data):
    topics = np.column_stack([data.y > 0, data.y > 1])
    MultiTopicRanker(RankSVM()).fit(data.X, topics).model_.save("topics.json")
    sentence = "topics.json: is a model with topics; use linrank evaluate"
    assert error_of("compare", "a.json", "topics.json", "--data", "test.txt").startswith(sentence)


def test_a_model_that_may_be_worse_is_not_allowed(data):
    """Model a lacks a feature that matters, so that it is worse than b."""
    run("compare", "a.json", "b.json", "--data", "test.txt", "--allow-loss", "0.5")
    run("compare", "b.json", "b.json", "--data", "test.txt", "--allow-loss", "0")
    result = run("compare", "b.json", "a.json", "--data", "test.txt", "--allow-loss", "0", code=1)
    assert "B is at most" in result.stdout
    found = run_json("compare", "b.json", "a.json", "--data", "test.txt", "--allow-loss", "1")
    assert found["worst_loss"] == -found["metrics"]["ndcg@10"]["interval"][0] > 0
    errors = "--metrics", "all-pairs-error", "--allow-loss", "0"
    run("compare", "b.json", "a.json", "--data", "test.txt", *errors, code=1)
