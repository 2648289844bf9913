"""Lucene ranks documents of an index by exported expressions."""

from __future__ import annotations

import numpy as np
import pytest

from exported import Made
from exported_trees import ramp
from linrank import LinearModel, OrderChangedWarning
from linrank.export import export_model
from linrank.export.targets import check_order, formula_of
from linrank.model import AdditiveModel, Axis, Curve, Term

from .conftest import record

N_DOCS = 3000
WORDS = "red green blue apple pear plum river hill sea wind".split()  # noqa: SIM905
FIELDS = ["clicks", "age", "price"]


class Index:
    """An index of documents with a text and numbers, and the documents that match a query."""

    def __init__(self):
        import jpype

        self.lucene = jpype.JPackage("org").apache.lucene
        rng = np.random.default_rng(0)
        self.values = np.column_stack(
            [rng.poisson(20, N_DOCS), rng.normal(0, 50, N_DOCS), rng.lognormal(3, 2, N_DOCS)]
        ).astype(np.float64)
        directory = self.lucene.store.ByteBuffersDirectory()
        document = self.lucene.document
        config = self.lucene.index.IndexWriterConfig(
            self.lucene.analysis.standard.StandardAnalyzer()
        )
        writer = self.lucene.index.IndexWriter(directory, config)
        for row in self.values.tolist():
            doc = document.Document()
            text = " ".join(rng.choice(WORDS, size=rng.integers(3, 40)))
            doc.add(document.TextField("text", text, document.Field.Store.NO))
            for name, value in zip(FIELDS, row, strict=True):
                doc.add(document.DoubleDocValuesField(name, value))
            writer.addDocument(doc)
        writer.close()
        self.searcher = self.lucene.search.IndexSearcher(
            self.lucene.index.DirectoryReader.open(directory)
        )
        builder = self.lucene.search.BooleanQuery.Builder()
        for word in ("apple", "river"):
            term = self.lucene.search.TermQuery(self.lucene.index.Term("text", word))
            builder.add(term, self.lucene.search.BooleanClause.Occur.SHOULD)
        self.query = builder.build()
        hits = self.search(self.query)
        self.docs = np.array([doc for doc, _ in hits])
        bm25 = np.array([score for _, score in hits])
        self.X = np.column_stack([bm25, self.values[self.docs]])  # `_score` and the fields

    def search(self, query):
        """Return the documents of a query with their scores, the best first."""
        return [
            (int(hit.doc), float(hit.score))
            for hit in self.searcher.search(query, N_DOCS).scoreDocs
        ]

    def compile(self, text):
        """Return an expression and the sources of its variables."""
        expression = self.lucene.expressions.js.JavascriptCompiler.compile(text)
        bindings = self.lucene.expressions.SimpleBindings()
        source = self.lucene.search.DoubleValuesSource
        bindings.add("_score", source.SCORES)
        for name in FIELDS:
            bindings.add(name, source.fromDoubleField(name))
        bindings.validate()
        return expression, bindings

    def rank_by_score(self, text):
        """Replace the score of the query by the expression."""
        expression, bindings = self.compile(text)
        source = expression.getDoubleValuesSource(bindings)
        return self.search(self.lucene.queries.function.FunctionScoreQuery(self.query, source))

    def rerank(self, text):
        """Sort the documents of the query by the expression."""
        expression, bindings = self.compile(text)
        first = self.searcher.search(self.query, N_DOCS)
        hits = expression.getRescorer(bindings).rescore(self.searcher, first, N_DOCS)
        return [int(hit.doc) for hit in hits.scoreDocs]


def open_index():
    """Make the index in the process of Lucene; return the documents and their features."""
    global _index
    _index = Index()
    return _index.docs, _index.X


def use_index(method: str, text: str):
    """Call a method of the index, in the process of Lucene."""
    found = getattr(_index, method)(text)
    return None if method == "compile" else found


class Remote:
    """The index in the process of an engine."""

    def __init__(self, engine):
        self.name, self.engine = f"Lucene {engine.version}", engine
        self.docs, self.X = engine.run(open_index)

    def __getattr__(self, method):
        return lambda text: self.engine.run(use_index, method, text)


@pytest.fixture(scope="module", params=["8", "9", "10"])
def index(request, engines):
    return Remote(engines(f"lucene-{request.param}"))


NAMES = ["bm25", *FIELDS]
MAP = {"bm25": "_score"}


def linear_model(index):
    terms = [
        Term(name, weight, minimum=float(column.min()), maximum=float(column.max()))
        for name, weight, column in zip(NAMES, (1.5, 0.02, -0.01, -1e-4), index.X.T, strict=True)
    ]
    return Made(terms, NAMES)


def bent_model(index):
    forms = [{"log": True}, {"log": True, "low": 1.0}, {"low": -40.0, "high": 60.0}, {"log": True}]
    terms = [
        term._replace(**form) for term, form in zip(linear_model(index).terms(), forms, strict=True)
    ]
    return Made(terms, NAMES)


@pytest.fixture(params=[linear_model, bent_model])
def model(request, index):
    return request.param(index)


def assert_ranked(model, index, docs):
    """The documents are in the order of the model's scores, up to rounding to single precision."""
    scores = dict(zip(index.docs.tolist(), model.predict(index.X).tolist(), strict=True))
    assert sorted(docs) == sorted(scores)
    found = np.array([scores[doc] for doc in docs])
    rise = max(0.0, np.diff(found).max()) / np.abs(found).max()
    assert rise <= 1e-6
    kind = "additive" if isinstance(model, AdditiveModel) else "linear"
    record(f"{index.name}: {kind}", len(docs), rise, 1e-6)


def test_documents_are_reranked_as_by_the_model(model, index):
    assert len(index.docs) > 1000
    assert_ranked(model, index, index.rerank(export_model(model, "lucene", features=MAP)))


def test_shifted_scores_rank_documents_as_the_model(model, index):
    text = export_model(model, "lucene", features=MAP, shift="training")
    hits = index.rank_by_score(text)
    assert_ranked(model, index, [doc for doc, _ in hits])
    constant = formula_of(model, shift="training").constant
    place = {doc: k for k, doc in enumerate(index.docs.tolist())}
    expected = model.predict(index.X)[[place[doc] for doc, _ in hits]] + constant
    np.testing.assert_allclose([score for _, score in hits], expected, rtol=1e-6, atol=1e-6)


def test_negative_scores_tie_and_the_check_counts_the_pairs(index):
    """Without shift, Lucene replaces negative scores by 0."""
    model = linear_model(index)
    hits = index.rank_by_score(export_model(model, "lucene", features=MAP))
    scores = np.array([score for _, score in hits])
    negative = (model.predict(index.X) < 0).sum()
    assert negative > 10
    assert (scores == 0).sum() == negative
    said = check_order("lucene", formula_of(model), index.X)
    assert said.tied >= negative * (negative - 1) / 2
    shifted = check_order("lucene", formula_of(model, shift="training"), index.X)
    assert shifted.tied < said.tied / 100
    with pytest.warns(OrderChangedWarning, match="become ties"):
        export_model(model, "lucene", features=MAP, sample=index.X)


def test_long_expressions_compile(index):
    """Java limits the size of a compiled expression; documents say up to how many features."""
    n = 1500
    model = LinearModel(np.full(n, 1e-3), feature_names=[f"doc['{k}']" for k in range(n)])
    index.compile(model.export("lucene"))


@pytest.fixture
def additive(index):
    """A model with a broken line, steps and levels; missing values count as 0."""
    clicks, price = index.X[:, 1], index.X[:, 3]
    line = ramp(0, np.quantile(index.X[:, 0], [0.1, 0.5, 0.9]), [0.0, 2.0, 2.5], missing=0.0)
    split = Axis(np.quantile(price, [0.2, 0.4, 0.6, 0.8]))
    steps = Curve(3, split, [[0.5], [1.25], [-1.0], [0.25], [0.0], [0.5]])
    levels = Axis(np.unique(clicks)[3:9], levels=True)
    kinds = Curve(1, levels, np.array([[0, 1, 2, 3, 4, 5, 6, 6]]).T)
    return AdditiveModel(4, [line, kinds, steps], feature_names=NAMES)


def test_additive_models_rank_as_linear_ones(additive, index):
    assert_ranked(additive, index, index.rerank(additive.export("lucene", features=MAP)))
    text = additive.export("lucene", features=MAP, shift="training")
    assert_ranked(additive, index, [doc for doc, _ in index.rank_by_score(text)])
