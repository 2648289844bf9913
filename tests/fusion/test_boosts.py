"""Boosts of clauses: logs of search engines, sums and maxima of clauses, requests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commandline import error_of, run, run_json
from linrank import DataError, Qrels, write_qrels
from linrank.fusion import Boosting, fuse, read_clauses, write_boosts

FIELDS = ["title", "text"]


def hit(kind, doc, scores):
    """Return a document of a response in which an engine has logged scores of clauses."""
    if kind == "named":
        return {"_id": doc, "matched_queries": scores}
    if kind == "ltrlog":
        entry = [{"name": name, "value": value} for name, value in scores.items()]
        return {"_id": doc, "fields": {"_ltrlog": [{"log_entry1": [*entry, {"name": "none"}]}]}}
    if kind == "solr":
        return {"id": doc, "[features]": ",".join(f"{k}={v!r}" for k, v in scores.items())}
    terms = [
        {"value": part * value, "description": f"weight({name}:word{part} in 7) [BM25], result of:",
         "details": [{"value": 9.0, "description": "score(freq=1.0)", "details": []}]}
        for name, value in scores.items() for part in (0.25, 0.75)
    ]  # fmt: skip
    return {"_id": doc, "_explanation": {"value": 1.0, "description": "sum of:", "details": terms}}


@pytest.fixture
def logged():
    """Scores of two clauses for documents of queries, and judgements."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, (12, 15))
    y[:, 0] = 1
    scores = np.stack([3 * y + 4 * rng.random(y.shape), 0.3 * y + 0.5 * rng.random(y.shape)], -1)
    scores[rng.random(scores.shape) < 0.2] = 0.0
    rows = [
        (f"q{q}", f"D{d:02d}", {f: float(scores[q, d, k]) for k, f in enumerate(FIELDS)
                                if scores[q, d, k]})
        for q in range(12) for d in range(15)
    ]  # fmt: skip
    qrels = Qrels([q for q, _, _ in rows], [d for _, d, _ in rows], y.ravel().astype(float))
    return rows, qrels


def write_log(path, rows, kind):
    lines = []
    for qid in dict.fromkeys(q for q, _, _ in rows):
        hits = [hit(kind, d, clauses) for q, d, clauses in rows if q == qid]
        found = {"response": {"docs": hits}} if kind == "solr" else {"hits": {"hits": hits}}
        response = found["response"] if kind == "solr" else found
        lines.append(json.dumps({"qid": qid, "response": response}))
    Path(path).write_text("\n".join(lines))


@pytest.mark.parametrize("kind", ["named", "ltrlog", "solr", "explained"])
def test_responses_of_engines_hold_the_scores_of_clauses(kind, logged, here):
    rows, qrels = logged
    write_log("log.jsonl", rows, kind)
    found = read_clauses("log.jsonl", qrels)
    given = {(q, d): clauses for q, d, clauses in rows}
    assert sorted(found.names) == sorted(FIELDS)
    query = np.repeat(found.names_of_queries, np.diff(found.query_ptr))
    for row, (qid, doc) in enumerate(zip(query, found.doc_ids, strict=True)):
        expected = given[qid, doc.decode()]
        for name, score in zip(found.names, found.scores[row], strict=True):
            assert np.nan_to_num(score) == pytest.approx(expected.get(name, 0.0))


def test_a_table_with_a_column_per_clause(logged, here):
    rows, qrels = logged
    lines = [f"{q},{d},{c.get('title', '')},{c.get('text', '')}" for q, d, c in rows]
    Path("log.csv").write_text("\n".join(["qid,doc_id,title,text", *lines]) + "\n")
    write_log("log.jsonl", rows, "named")
    ours, theirs = read_clauses("log.csv", qrels), read_clauses("log.jsonl", qrels)
    order = [theirs.names.index(name) for name in ours.names]
    np.testing.assert_allclose(ours.scores, theirs.scores[:, order])


@pytest.mark.parametrize("combine", ["sum", "dis-max"])
@pytest.mark.parametrize("tie", [0.0, 0.4])
def test_boosts_are_as_good_as_those_of_a_grid(combine, tie, logged, here):
    rows, qrels = logged
    write_log("log.jsonl", rows, "named")
    found = read_clauses("log.jsonl", qrels)
    boosting = Boosting(metric="ndcg@5", combine=combine, tie_breaker=tie)
    X = boosting.features(found)

    def slow_scores(weights):
        parts = X * weights
        most, total = parts.max(axis=1), parts.sum(axis=1)
        return total if combine == "sum" else most + tie * (total - most)

    def mean(weights):
        return found.measure(slow_scores(weights), ["ndcg@5"]).mean["ndcg@5"]

    grid = [mean(np.array([np.cos(a), np.sin(a)])) for a in np.linspace(0, np.pi / 2, 200)]
    weights = boosting.train(found, X)
    np.testing.assert_allclose(boosting.combined(X, weights), slow_scores(weights))
    assert mean(weights) > max(grid) - 0.003
    fused = fuse(found, boosting, folds=3, metrics=["ndcg@5"])
    assert [rule.name for rule in fused.rankings] == ["fused", "best single", "equal boosts"]


def test_requests_have_the_boosts():
    boosts = {"title": 0.5, "text": 0.1, "authors": 0.0, "pf:text": 1.0}
    assert write_boosts("solr", boosts, Boosting()).split("\n")[2:] == [
        "qf=title^5 text^1", "pf=text^10",
    ]  # fmt: skip
    fields = {name: boosts[name] for name in ("title", "text")}
    found = json.loads(write_boosts("multi-match", fields, Boosting()))["multi_match"]
    assert (found["type"], found["fields"]) == ("most_fields", ["title^5", "text^1"])
    most = Boosting(combine="dis-max", tie_breaker=0.3)
    found = json.loads(write_boosts("multi-match", fields, most))["multi_match"]
    assert (found["type"], found["tie_breaker"]) == ("best_fields", 0.3)
    found = json.loads(write_boosts("bool", fields, Boosting()))["bool"]["should"]
    assert found[0]["match"] == {"title": {"query": "<query>", "boost": 5.0}}
    assert "dis_max" in json.loads(write_boosts("bool", fields, most))
    with pytest.raises(DataError, match="the maximum for each word"):
        write_boosts("solr", fields, most)


def test_the_command_prints_a_request_that_can_be_pasted(logged, here):
    rows, qrels = logged
    write_log("log.jsonl", rows, "named")
    write_qrels("qrels", qrels)
    given = ("boosts", "log.jsonl", "--qrels", "qrels", "--folds", "3", "--for", "multi-match")
    found = run_json(*given)
    assert max(found["weights"].values()) == 1.0
    text = run(*given).stdout
    assert json.loads(text[text.index("{") :]) == json.loads(found["request"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "log.jsonl:1: is not a response; expected an object with qid and response"),
        ('{"qid": "1", "hits": {"hits": [{"_id": "A"}]}}', "document 'A' has no id or no scores"),
        ('{"qid": "1", "hits": {"hits": []}}', "has scores of 0 clauses"),
    ],
)
def test_logs_without_scores_are_refused(here, content, words):
    Path("log.jsonl").write_text(content)
    Path("qrels").write_text("1 0 A 1\n")
    assert words in error_of("boosts", "log.jsonl", "--qrels", "qrels")
