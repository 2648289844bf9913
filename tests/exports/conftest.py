"""Rows and models that other programs score.

``make test-exports`` installs the programs. A test is skipped if its program is not there, and
fails instead if the environment variable CI is set.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from typing import NamedTuple

import numpy as np
import pytest

from exported import Made, shaped
from exported_trees import awkward_rows, curved, stepped
from linrank import AdditiveRanker, LinearModel, RankSVM, load, make_ranking
from linrank.data.ranking import RankingData
from linrank.model import AdditiveModel

from .engines import Engine, Missing

N_ROWS = 2000


def absent(what: str) -> None:
    """Skip a test whose program is not installed; fail where everything must be installed."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed")


@pytest.fixture(scope="session")
def needs():
    """Import a module or find a program, if it is there."""

    def needs(*modules: str, program: str | None = None):
        if program is not None and shutil.which(program) is None:
            absent(program)
        found = []
        for name in modules:
            try:
                found.append(importlib.import_module(name))
            except ImportError:
                absent(name)
        return found[0] if len(found) == 1 else found

    return needs


@pytest.fixture(scope="module")
def engines():
    """Start an engine of ``engines.xml``, if it is there. It runs until the module ends."""
    running: dict[str, Engine] = {}

    def engines(name: str) -> Engine:
        try:
            return running.setdefault(name, running.get(name) or Engine(name))
        except Missing as missing:
            absent(str(missing))

    yield engines
    for engine in running.values():
        engine.stop()


@pytest.fixture(scope="session")
def data() -> RankingData:
    """Held-out documents of MQ2007 where they are, and generated ones elsewhere."""
    folder = os.environ.get("LINRANK_DATA")
    if not folder:
        return make_ranking(N_ROWS // 20, 20, 20, noise=1.0, random_state=1)
    whole = load(f"{folder}/MQ2007/Fold1/test.txt")
    end = int(whole.query_ptr[np.searchsorted(whole.query_ptr, N_ROWS)])
    return RankingData(whole.X[:end], whole.y[:end], whole.qid[:end])


class Case(NamedTuple):
    """A model, and the rows that it scores; NaN is a missing value."""

    model: LinearModel | AdditiveModel | Made
    X: np.ndarray
    qid: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        if getattr(self.model, "needs_qid", False):
            return self.model.predict(self.X, self.qid)
        return self.model.predict(self.X)

    @property
    def kind(self) -> str:
        """The kind of the model, for the table of engines."""
        return "additive" if isinstance(self.model, AdditiveModel) else "linear"

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest values in the query of each row, with fills."""
        X = self.model.preprocessing.filled(np.asarray(self.X, dtype=float))
        low, high = np.empty_like(X), np.empty_like(X)
        for query in np.unique(self.qid):
            rows = self.qid == query
            low[rows] = np.fmin.reduce(X[rows], axis=0)
            high[rows] = np.fmax.reduce(X[rows], axis=0)
        return low, high

    def check(self, scores, constant: float = 0.0, rtol: float = 1e-9, by: str = "") -> None:
        """Check the scores of another program, and that it orders all pairs in the same way.

        If the program is an engine, `by` says which, and what it scored.
        """
        expected = self.scores + constant
        size = np.abs(expected).max()
        np.testing.assert_allclose(scores, expected, rtol=rtol, atol=rtol * size)
        for query in np.unique(self.qid):
            mine, others = expected[self.qid == query], np.asarray(scores)[self.qid == query]
            apart = np.subtract.outer(mine, mine) > 2 * rtol * size
            assert (np.subtract.outer(others, others)[apart] > 0).all()
        if by:
            record(by, len(expected), float(np.abs(scores - expected).max() / size), rtol)


def record(by: str, documents: int, difference: float, precision: float) -> None:
    """Add a line to the file that the table of engines is made from, if one is named."""
    path = os.environ.get("LINRANK_ENGINES")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps([by, documents, difference, precision]) + "\n")


@pytest.fixture(scope="session")
def linear(data) -> Case:
    """A model as it is trained, with names that need quoting."""
    names = [f'feature "{k}" of <docs>' for k in range(data.n_features)]
    named = RankingData(data.X, data.y, data.qid, feature_names=names)
    return Case(trained(named, scale="standard"), data.X, data.qid)


def trained(data: RankingData, **steps) -> LinearModel:
    """Fit a ranker with preprocessing."""
    model = RankSVM(C=0.1, **steps).fit(data.X, data.y, data.qid).model_
    model.feature_names = data.feature_names
    return model


@pytest.fixture(scope="session")
def trained_by(data):
    """Return a model with a scaling of features, and the rows that it scores."""

    def trained_by(scale: str | None) -> Case:
        names = [f"f{k}" for k in range(data.n_features)]
        named = RankingData(data.X, data.y, data.qid, feature_names=names)
        return Case(trained(named, scale=scale), data.X, data.qid)

    return trained_by


def with_holes(X, columns) -> np.ndarray:
    """Rows on another scale, in which a fifth of the values of some features is missing."""
    X = np.array(X, dtype=np.float64) * 4 - 1
    rng = np.random.default_rng(0)
    for column in columns:
        X[rng.random(len(X)) < 0.2, column] = np.nan
    return X


@pytest.fixture(scope="session")
def prepared(data) -> Case:
    """A trained model with logarithms, limits, scaling and missing values."""
    X = with_holes(data.X, range(0, data.n_features, 3))
    rows = RankingData(X, data.y, data.qid, allow_missing=True)
    steps = {"scale": "log1p+clip:0.05+standard", "missing": "indicator"}
    return Case(trained(rows, **steps), X, data.qid)


@pytest.fixture(scope="session")
def bent(data) -> Case:
    """A model with every form of a term."""
    names = [f"f{k}" for k in range(data.n_features)]
    model = shaped(names)
    columns = [names.index(term.name) for term in model.terms() if term.missing is not None]
    return Case(model, with_holes(data.X, columns), data.qid)


SCALES_IN_QUERIES = [
    "query", "log1p+clip:0.05+query", "log1p+clip:0.05+both", "curves query", "curves both"
]  # fmt: skip


@pytest.fixture(scope="session", params=SCALES_IN_QUERIES)
def in_queries(request, data) -> Case:
    """A model that scales features within queries; a feature is constant in the first query."""
    X, missing = np.array(data.X, dtype=np.float64) * 4 - 1, None
    kind, _, scale = request.param.rpartition(" ")
    if "+" in scale or kind:
        X, missing = with_holes(data.X, range(0, data.n_features, 3)), "indicator"
    X[data.qid == data.qid[0], 1] = 2.0
    rows = RankingData(X, data.y, data.qid, allow_missing=True)
    if kind:
        ranker = AdditiveRanker(0.01, scale=scale, n_bins=4, interactions=2)
        return Case(ranker.fit(rows).model_, X, data.qid)
    return Case(trained(rows, scale=scale, missing=missing), X, data.qid)


@pytest.fixture(scope="session", params=["linear", "prepared", "bent"])
def weighted(request) -> Case:
    """A linear model."""
    return request.getfixturevalue(request.param)


def additive(model: AdditiveModel) -> Case:
    """An additive model, with rows at its knots and beside them that float32 can hold."""
    rng = np.random.default_rng(0)
    X = awkward_rows(model, rng, N_ROWS, np.float32, apart=1e-6).astype(np.float64)
    return Case(model, X, np.arange(N_ROWS) // 20)


@pytest.fixture(scope="session")
def steps() -> Case:
    return additive(stepped())


@pytest.fixture(scope="session")
def curves() -> Case:
    return additive(curved())


@pytest.fixture(scope="session")
def lines_beyond() -> Case:
    """A model with slopes beyond its knots, and rows that are not as far as 1e9."""
    case = additive(curved(slopes=(0.5, -0.25)))
    return case._replace(X=np.clip(case.X, -1e3, 1e3))


CASES = ["linear", "prepared", "bent", "steps", "curves", "lines_beyond"]


@pytest.fixture(scope="session", params=CASES)
def case(request) -> Case:
    """A model of any kind."""
    return request.getfixturevalue(request.param)
