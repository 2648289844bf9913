"""Solr's learning-to-rank module ranks documents by exported models.

The steps are those of ``docs/guide/export.md``.
"""

from __future__ import annotations

import json
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import numpy as np
import pytest

from linrank import LinearModel
from linrank.export import export_model

from .engines import start_solr

CONFIG = """<config>
<luceneMatchVersion>LATEST</luceneMatchVersion>
<schemaFactory class="ClassicIndexSchemaFactory"/>
<updateHandler class="solr.DirectUpdateHandler2"/>
<requestHandler name="/select" class="solr.SearchHandler"/>
<queryParser name="ltr" class="org.apache.solr.ltr.search.LTRQParserPlugin"/>
<query><cache name="features" class="solr.search.CaffeineCache" size="4096"/></query>
<transformer name="features"
  class="org.apache.solr.ltr.response.transform.LTRFeatureLoggerTransformerFactory">
<str name="fvCacheName">features</str>
</transformer>
</config>"""
SCHEMA = """<schema name="docs" version="1.6">
<uniqueKey>id</uniqueKey>
<fieldType name="string" class="solr.StrField"/>
<fieldType name="float" class="solr.FloatPointField" docValues="true"/>
<fieldType name="text" class="solr.TextField">
<analyzer><tokenizer class="solr.StandardTokenizerFactory"/>
<filter class="solr.LowerCaseFilterFactory"/><filter class="solr.PorterStemFilterFactory"/>
</analyzer>
</fieldType>
<field name="id" type="string" required="true"/>
<field name="title" type="text" stored="false"/>
<field name="body" type="text" stored="false"/>
<dynamicField name="f*" type="float" stored="false"/>
</schema>"""


class Solr:
    """A server with a core of documents."""

    def __init__(self, engine, folder):
        conf = folder / "docs" / "conf"
        conf.mkdir(parents=True)
        (folder / "solr.xml").write_text("<solr/>")
        (folder / "docs" / "core.properties").write_text("name=docs\n")
        (conf / "solrconfig.xml").write_text(CONFIG)
        (conf / "schema.xml").write_text(SCHEMA)
        self.version = engine.version
        self.url = f"http://localhost:{engine.run(start_solr, str(folder))}/solr/docs"
        self.stores = 0
        self.X = np.empty((0, 0))

    def send(self, place, content, method="POST"):
        """Send JSON as ``curl`` does, and return the answer."""
        data = content if isinstance(content, str) else json.dumps(content)
        header = {"Content-type": "application/json"}
        request = Request(f"{self.url}/{place}", data.encode(), header, method=method)
        with urlopen(request) as answer:
            return json.load(answer)

    def select(self, **parameters):
        data = urlencode({"wt": "json", **parameters}).encode()
        with urlopen(f"{self.url}/select", data) as answer:
            return json.load(answer)["response"]["docs"]

    def fill(self, X):
        """Replace the documents. A missing value is a field that a document does not have."""
        if np.array_equal(X, self.X, equal_nan=True):
            return
        self.X = X
        self.send("update", {"delete": {"query": "*:*"}})
        docs = [
            {"id": str(k)} | {f"f{j}": v for j, v in enumerate(row) if v == v}
            for k, row in enumerate(np.asarray(X, dtype=float).tolist())
        ]
        self.send("update?commit=true", docs)

    def upload(self, names, text, **missing):
        """Upload the features of the fields, and a model; return its name."""
        self.stores += 1
        name = f"model{self.stores}"
        features = [
            {
                "store": name,
                "name": feature,
                "class": "org.apache.solr.ltr.feature.FieldValueFeature",
                "params": {"field": f"f{k}", **missing},
            }
            for k, feature in enumerate(names)
        ]
        self.send("schema/feature-store", features, "PUT")
        self.send("schema/model-store", text(name=name, store=name), "PUT")
        return name

    def rank(self, model, n):
        """Return the numbers of the documents in the order of a model, and their scores."""
        docs = self.select(
            q="*:*", rq=f"{{!ltr model={model} reRankDocs={n}}}", rows=n, fl="id,score"
        )
        return [int(doc["id"]) for doc in docs], [doc["score"] for doc in docs]


@pytest.fixture(scope="module")
def solr(engines, tmp_path_factory):
    return Solr(engines("solr"), tmp_path_factory.mktemp("solr"))


def scores_of(solr, model, n):
    order, scores = solr.rank(model, n)
    assert sorted(order) == list(range(n))
    assert (np.diff(scores) <= 0).all()
    found = np.empty(n)
    found[order] = scores
    return found


PRECISION = 1e-5  # float32, sums of up to a thousand features


@pytest.mark.parametrize("scale", ["standard", "minmax", "maxabs", None])
@pytest.mark.parametrize("normalizers", ["fold", "emit"])
def test_linear_models(solr, data, trained_by, scale, normalizers):
    if scale is None and normalizers == "emit":
        pytest.skip("a model without scaling has no normalisers")
    case = trained_by(scale)
    names = [*case.model.names(), "one"]
    X = np.column_stack([case.X, np.ones(len(case.X))])
    solr.fill(X)
    name = solr.upload(
        names,
        lambda **where: case.model.export(
            "solr", normalizers=normalizers, constant="one", shift=0.0, **where
        ),
    )
    found = scores_of(solr, name, len(X))
    assert (found < 0).any()
    case.check(found, rtol=PRECISION, by=f"Solr {solr.version}: scale={scale}, {normalizers}")


def test_missing_values_are_0(solr, data):
    """A field without a value, and a feature that does not fire, have the value 0."""
    X = np.array(data.X[:300], dtype=float)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    names = [f"f{k}" for k in range(X.shape[1])]
    model = LinearModel(np.linspace(-1, 1, len(names)), feature_names=names)
    solr.fill(X)
    name = solr.upload(names, lambda **where: model.export("solr", **where))
    expected = model.predict(np.nan_to_num(X))
    found = scores_of(solr, name, len(X))
    np.testing.assert_allclose(found, expected, atol=PRECISION * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore::linrank.StaircaseWarning")
@pytest.mark.parametrize("kind", ["steps", "curves"])
def test_additive_models(solr, kind, request):
    case = request.getfixturevalue(kind)
    solr.fill(case.X)
    name = solr.upload(
        case.model.names(),
        lambda **where: export_model(case.model, "solr", steps=4096, **where),
        defaultValue="NaN",
    )
    found = scores_of(solr, name, len(case.X))
    rtol = PRECISION if kind == "steps" else 1e-2
    case.check(found, rtol=rtol, by=f"Solr {solr.version}: additive, {kind}")


HOSTILE = ['a "quoted" name', "it's", "dots.in.it", "größe", "数", "a b", "x\\y", "{!ltr}", "<tag>",
           "{'x': 1}", "$f0"]  # fmt: skip


def test_hostile_names_and_a_thousand_features(solr):
    rng = np.random.default_rng(0)
    names = HOSTILE + [f"feature {k}" for k in range(1000 - len(HOSTILE))]
    model = LinearModel(rng.normal(size=1000), feature_names=names)
    X = rng.random((200, 1000)).astype(np.float32)
    solr.fill(X)
    name = solr.upload(names, lambda **where: model.export("solr", **where))
    expected = model.predict(X)
    np.testing.assert_allclose(
        scores_of(solr, name, len(X)), expected, atol=PRECISION * np.abs(expected).max()
    )


def test_weights_outside_single_precision_do_not_reach_solr():
    model = LinearModel([1e300, 1.0], feature_names=["a", "b"])
    with pytest.raises(Exception, match="too large"):
        model.export("solr")
