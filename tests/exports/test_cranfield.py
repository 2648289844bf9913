"""Cranfield's text is indexed, features are logged, and a model learns to rerank, in each engine.

The engine is judged by its own answers to queries that the model was not trained on.
"""

from __future__ import annotations

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from linrank import LinearModel, Qrels, RankSVM, Run, evaluate_run, read_qrels

from .conftest import record
from .test_script_score import Node
from .test_solr import Solr

DEPTH = 50  # documents that are reranked
PRECISION = 1e-5  # scores are in single precision
FIELDS = ["body", "title", "pairs"]


class Cranfield(NamedTuple):
    """Documents, queries in words, and judgements of queries to train on and to test on."""

    documents: list[dict]
    queries: dict[str, str]
    train: Qrels
    test: Qrels


@pytest.fixture(scope="module")
def cranfield() -> Cranfield:
    folder = Path(os.environ.get("LINRANK_DATA", ""), "cranfield")
    if not folder.is_dir():
        pytest.skip("LINRANK_DATA has no Cranfield")
    lines = (folder / "documents.jsonl").read_text().splitlines()
    documents = [
        {"id": str(doc["id"]), "title": doc["title"], "body": doc["text"]}
        for doc in map(json.loads, lines)
    ]
    pairs = [line.split("\t") for line in (folder / "queries.tsv").read_text().splitlines()]
    queries = {qid: " ".join(re.findall(r"\w+", text)) for qid, text in pairs}
    judged = read_qrels(folder / "qrels.txt")
    lines = list(zip(judged.qid, judged.doc_ids, judged.y.tolist(), strict=True))
    train, test = (
        Qrels(*zip(*(line for line in lines if int(line[0]) % 2 == odd), strict=True))
        for odd in (1, 0)
    )
    return Cranfield(documents, queries, train, test)


Logged = dict[tuple[str, str], list[float]]  # features of a query and a document


def trained(logged: Logged, qrels: Qrels) -> LinearModel:
    label = dict(zip(zip(qrels.qid, qrels.doc_ids, strict=True), qrels.y.tolist(), strict=True))
    rows = [key for key in logged if key[0] in set(qrels.qid)]
    y = [label.get(key, 0.0) for key in rows]
    X = [logged[key] for key in rows]
    ranker = RankSVM(C=1.0, normalize="queries", scale="standard")
    model = ranker.fit(X, y, [qid for qid, _ in rows]).model_
    model.feature_names = FIELDS
    return model


def to_run(scores: dict[tuple[str, str], float]) -> Run:
    qid, docs = zip(*scores, strict=True)
    return Run(qid, docs, np.array(list(scores.values())))


def check(engine: str, model: LinearModel, logged: Logged, default, found, test: Qrels) -> None:
    """Compare an engine's answers with linrank's scores and with the engine's own ranking."""
    rows = [key for key in logged if key[0] in set(test.qid)]
    expected = model.predict(np.array([logged[key] for key in rows]))
    difference = np.abs(np.array([found[key] for key in rows]) - expected).max()
    assert difference <= PRECISION * np.abs(expected).max()
    mine, theirs, before = (
        evaluate_run(test, to_run(scores)).mean["ndcg@10"]
        for scores in (dict(zip(rows, expected.tolist(), strict=True)), found, default)
    )
    assert theirs == pytest.approx(mine, abs=5e-5)
    assert theirs > before
    relative = float(difference / np.abs(expected).max())
    record(f"{engine}: Cranfield, features of text", len(rows), relative, PRECISION)


QUERIES = {
    "body": "{!edismax qf=body}",
    "title": "{!edismax qf=title}",
    "pairs": "{!edismax qf=body pf2='title body'}",
}


def test_solr_logs_features_and_reranks_text(engines, tmp_path, cranfield):
    solr = Solr(engines("solr"), tmp_path)
    solr.send("update?commit=true", cranfield.documents)
    store = [
        {"store": "text", "name": name, "class": "org.apache.solr.ltr.feature.SolrFeature",
         "params": {"q": f"{QUERIES[name]}${{text}}"}}
        for name in FIELDS
    ]  # fmt: skip
    solr.send("schema/feature-store", store, "PUT")

    def ask(qrels, **more):
        for qid in dict.fromkeys(qrels.qid):
            text = cranfield.queries[qid]
            more_of = {name: value.replace("TEXT", text) for name, value in more.items()}
            for doc in solr.select(q=text, df="body", rows=DEPTH, **more_of):
                yield (qid, doc["id"]), doc

    logged, default = {}, {}
    for qrels in (cranfield.train, cranfield.test):
        for key, doc in ask(qrels, fl="id,score,[features store=text efi.text='TEXT']"):
            values = dict(pair.split("=") for pair in doc["[features]"].split(","))
            logged[key] = [float(values[name]) for name in FIELDS]
            default[key] = doc["score"]
    model = trained(logged, cranfield.train)
    solr.send("schema/model-store", model.export("solr", name="text", store="text"), "PUT")
    rerank = f"{{!ltr model=text reRankDocs={DEPTH} efi.text='TEXT'}}"
    found = {key: doc["score"] for key, doc in ask(cranfield.test, fl="id,score", rq=rerank)}
    check(f"Solr {solr.version}", model, logged, default, found, cranfield.test)


def query_of(name: str, text: str) -> dict:
    """Return the query of OpenSearch whose score is a feature."""
    if name != "pairs":
        return {"match": {name: text}}
    phrases = [" ".join(pair) for pair in pairwise(text.split())]
    return {"bool": {"should": [{"match_phrase": {"body": phrase}} for phrase in phrases]}}


def test_opensearch_reranks_text_by_weights(engines, tmp_path, cranfield):
    """Each feature is the score of a query, and its weight that of a rescorer."""
    node = Node(engines("opensearch"), "OpenSearch", tmp_path)
    lines = [json.dumps(part) for doc in cranfield.documents
             for part in ({"index": {"_id": doc["id"]}}, doc)]  # fmt: skip
    answer = node.send("docs/_bulk?refresh=true", "\n".join(lines) + "\n")
    assert not answer["errors"], str(answer)[:500]

    def ask(qids, search):
        lines = [json.dumps(part) for qid in qids
                 for part in ({}, {"size": DEPTH, "_source": False, **search(qid)})]  # fmt: skip
        answers = node.send("docs/_msearch", "\n".join(lines) + "\n")["responses"]
        return {(qid, hit["_id"]): hit["_score"]
                for qid, answer in zip(qids, answers, strict=True)
                for hit in answer["hits"]["hits"]}  # fmt: skip

    def body(qid):
        return {"query": query_of("body", cranfield.queries[qid])}

    default = ask(list(cranfield.queries), body)
    candidates: dict[str, list[str]] = {}
    for qid, doc in default:
        candidates.setdefault(qid, []).append(doc)
    scores = [
        ask(list(candidates), lambda qid, name=name: {"query": {"bool": {
            "must": query_of(name, cranfield.queries[qid]),
            "filter": {"ids": {"values": candidates[qid]}}}}})
        for name in FIELDS
    ]  # fmt: skip
    logged = {key: [column.get(key, 0.0) for column in scores] for key in default}
    model = trained(logged, cranfield.train)
    weight = {term.name: term.weight for term in model.terms()}

    def reranked(qid):
        first = {"query_weight": weight["body"]}
        rescorers = [
            {"window_size": DEPTH, "query": {
                "rescore_query": query_of(name, cranfield.queries[qid]),
                "rescore_query_weight": weight[name], **(first if name == "title" else {})}}
            for name in FIELDS[1:]
        ]  # fmt: skip
        return body(qid) | {"rescore": rescorers}

    found = ask(list(dict.fromkeys(cranfield.test.qid)), reranked)
    check(node.name, model, logged, default, found, cranfield.test)
