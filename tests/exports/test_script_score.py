"""OpenSearch and Elasticsearch rank documents by exported queries, without any plugin."""

from __future__ import annotations

import json
from functools import cache
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from linrank import LinearModel
from linrank.export import export_model

from .engines import start_node


class Node:
    """A server with an index of documents."""

    def __init__(self, engine, kind, folder):
        self.name = f"{kind} {engine.version}"
        package = kind.lower()
        self.url = f"http://127.0.0.1:{engine.run(start_node, package, str(folder))}"

    def send(self, place, content, method="POST"):
        data = content if isinstance(content, str) else json.dumps(content)
        header = {"Content-type": "application/json"}
        request = Request(f"{self.url}/{place}", data.encode(), header, method=method)
        with urlopen(request) as answer:
            return json.load(answer)

    def fill(self, X, names):
        """Make a new index. A missing value is a field that a document does not have."""
        number = {"dynamic": False, "properties": {name: {"type": "double"} for name in names}}
        settings = {"number_of_shards": 1, "number_of_replicas": 0,
                    "mapping.total_fields.limit": 5000}  # fmt: skip
        if self.indexed:
            with urlopen(Request(f"{self.url}/docs", method="DELETE")):
                pass
        self.send("docs", {"mappings": number, "settings": settings}, "PUT")
        self.indexed = True
        lines = []
        for k, row in enumerate(np.asarray(X, dtype=float).tolist()):
            known = {n: v for n, v in zip(names, row, strict=True) if v == v}
            lines += [json.dumps({"index": {"_id": str(k)}}), json.dumps(known)]
        answer = self.send("docs/_bulk?refresh=true", "\n".join(lines) + "\n")
        assert not answer["errors"], str(answer)[:500]

    indexed = False

    def scores(self, query, n):
        """Return the scores of all documents, whose order is checked."""
        hits = self.send("docs/_search", {"size": n, "query": json.loads(query)})["hits"]["hits"]
        order = [int(hit["_id"]) for hit in hits]
        scores = [hit["_score"] for hit in hits]
        assert sorted(order) == list(range(n))
        assert (np.diff(scores) <= 0).all()
        found = np.empty(n)
        found[order] = scores
        return found


@pytest.fixture(scope="module")
def nodes(engines, tmp_path_factory):
    """Start a node once, whatever the order of the tests."""
    return cache(lambda kind: Node(engines(kind.lower()), kind, tmp_path_factory.mktemp("node")))


@pytest.fixture(params=["OpenSearch", "Elasticsearch"])
def node(request, nodes):
    return nodes(request.param)


PRECISION = 1e-6  # the sum is in double precision, and the score in single precision


def test_models_rank_without_plugins(node, case):
    fields = [f"f{k}" for k in range(len(case.model.names()))]
    node.fill(case.X, fields)
    features = {
        name: f"value(doc, '{field}', Double.NaN)"
        for name, field in zip(case.model.names(), fields, strict=True)
    }
    shift = float(1 - case.scores.min())
    query = export_model(case.model, "script-score", features=features, shift=shift)
    found = node.scores(query, len(case.X))
    case.check(found, shift, rtol=PRECISION, by=f"{node.name}: script_score, {case.kind}")


HOSTILE = ["a 'quoted' \"name\"", "größe", "数", "a b", "x\\y", "<tag>", "$f0", "{name}"]


def test_hostile_names_missing_values_and_many_features(node):
    names = HOSTILE + [f"f{k}" for k in range(500 - len(HOSTILE))]
    model = LinearModel(np.random.default_rng(0).normal(size=500), feature_names=names)
    X = np.random.default_rng(1).random((100, 500))
    X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    node.fill(X, names)
    expected = model.predict(np.nan_to_num(X)) + 100
    found = node.scores(model.export("script-score", shift=100.0), len(X))
    np.testing.assert_allclose(found, expected, rtol=PRECISION)


def test_scores_below_0_are_refused(node):
    model = LinearModel([-1.0], feature_names=["a"])
    node.fill([[1.0], [2.0]], ["a"])
    with pytest.raises(HTTPError, match="400"):
        node.scores(model.export("script-score"), 2)
