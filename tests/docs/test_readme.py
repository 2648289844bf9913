"""The table of the README: what linrank does that others do not."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from linrank import AdditiveRanker, QueryKFold, RankSVM, make_ranking, pairwise_accuracy


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=40, docs_per_query=12, n_features=4, random_state=0)


def refused(y, sizes):
    """Return the error of LightGBM's ranker for labels and sizes of queries."""
    X = np.random.default_rng(0).random((len(y), 3))
    with pytest.raises(lightgbm.basic.LightGBMError) as error:
        lightgbm.LGBMRanker(n_estimators=2, verbose=-1).fit(X, y, group=sizes)
    return str(error.value)


def test_labels_may_be_any_numbers(data):
    levels = np.argsort(np.argsort(data.X @ [1.0, -1.0, 0.5, 0.0])) / 7.0 - 20.0
    ranker = RankSVM(C=1.0).fit(data.X, levels)
    assert pairwise_accuracy(levels, ranker.predict(data.X)) > 0.99
    assert "label should be int type" in refused([0, 1, 2.5, 1] * 5, [10, 10])
    assert "31 is not less" in refused([0, 1, 31, 1] * 5, [10, 10])


def test_a_query_may_have_any_number_of_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 2))
    y = X[:, 0] > 1.0
    assert RankSVM(C=1e-6).fit(X, y).score(X, y) > 0.99
    assert "exceeds upper limit of 10000" in refused(np.arange(10_001) % 3, [10_001])


def test_query_ids_may_have_any_type_and_order(data):
    names = np.array([f"query {q}" for q in data.qid])
    order = np.random.default_rng(0).permutation(data.n_docs)
    expected = RankSVM(C=0.1, tol=1e-10).fit(data.X, data.y, qid=data.qid).coef_
    found = RankSVM(C=0.1, tol=1e-10).fit(data.X[order], data.y[order], qid=names[order]).coef_
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_scikit_learn_searches_and_validates(data):
    pipe = make_pipeline(StandardScaler(), RankSVM())
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(pipe, {"ranksvm__C": [1e-3, 1e-1]}, cv=QueryKFold(4))
        search.fit(data.X, data.y, qid=data.qid)
        found = cross_validate(
            pipe, data.X, data.y, cv=QueryKFold(4), params={"qid": data.qid}
        )["test_score"]  # fmt: skip
    assert search.best_score_ > 0.7
    assert len(found) == 4


def test_documents_and_queries_have_weights(data):
    """A weight of 0 removes what it weighs."""
    kept = data.qid != data.query_ids[0]
    kept_rows = RankSVM(C=0.1, tol=1e-10).fit(data.X[kept], data.y[kept], qid=data.qid[kept])
    by_query = RankSVM(C=0.1, tol=1e-10).fit(
        data.X, data.y, qid=data.qid, query_weight=kept.astype(float)
    )
    by_document = RankSVM(C=0.1, tol=1e-10).fit(
        data.X, data.y, qid=data.qid, sample_weight=kept.astype(float)
    )
    np.testing.assert_allclose(by_query.coef_, kept_rows.coef_, rtol=1e-6)
    np.testing.assert_allclose(by_document.coef_, kept_rows.coef_, rtol=1e-6)


def test_weights_stay_positive(data):
    assert (RankSVM(C=0.1).fit(-data.X, data.y, qid=data.qid).coef_ < 0).any()
    bounded = RankSVM(C=0.1, bounds="positive").fit(-data.X, data.y, qid=data.qid)
    assert (bounded.coef_ >= 0).all()


def test_curves_are_monotone(data):
    ranker = AdditiveRanker(C=0.1, monotone={"1": "increasing"}).fit(data.X, data.y, qid=data.qid)
    grid = np.zeros((50, 4))
    grid[:, 0] = np.linspace(-3.0, 3.0, 50)
    assert (np.diff(ranker.predict(grid)) >= -1e-12).all()


def test_the_distance_to_the_optimum_is_certified(data):
    tight = RankSVM(C=0.1, tol=1e-12).fit(data).result_.objective
    loose = RankSVM(C=0.1, loss="hinge", tol=1e-4).fit(data).result_
    assert RankSVM(C=0.1, tol=1e-3).fit(data).result_.objective <= tight * (1 + 1e-3)
    assert loose.gap is not None
    assert loose.gap <= 1e-4
