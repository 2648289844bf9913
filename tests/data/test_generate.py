"""Generated data: the requested shape, reproducible by seed, ranked by the true weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from linrank import DataError, make_ranking, read_letor
from linrank.data.generate import make_letor_folder


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


@pytest.mark.parametrize(
    "options", [{}, {"density": 0.3}, {"heavy_tails": True}, {"n_levels": None}]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_noise_the_truth_ranks_perfectly(options, dtype):
    data, coef = make_ranking(
        30, (1, 40), 12, noise=0, dtype=dtype, random_state=0, return_coef=True, **options
    )
    assert data.X.dtype == dtype
    assert data.is_sparse == ("density" in options)
    scores = dense(data.X).astype(np.float64) @ coef
    np.testing.assert_allclose(scores.std(), 1)
    for first, last in itertools.pairwise(data.query_ptr):
        labels = data.y[first:last][np.argsort(scores[first:last])]
        assert (np.diff(labels) >= 0).all()


def test_same_seed_same_data():
    for options in ({}, {"density": 0.2}):
        a, b = (make_ranking(random_state=7, **options) for _ in range(2))
        assert (dense(a.X) == dense(b.X)).all()
        assert (a.y == b.y).all()
    c = make_ranking(random_state=np.random.default_rng(7))
    assert (c.X == make_ranking(random_state=7).X).all()
    assert (make_ranking(random_state=8).X != c.X).all()


def test_noise_changes_labels_only():
    a, coef = make_ranking(random_state=0, noise=0, return_coef=True)
    b, same = make_ranking(random_state=0, noise=1, return_coef=True)
    assert (a.X == b.X).all()
    assert (coef == same).all()
    assert (a.y != b.y).any()


def test_sizes():
    data = make_ranking(50, (3, 6), 2, random_state=0)
    sizes = np.diff(data.query_ptr)
    assert (sizes.min(), sizes.max(), len(sizes)) == (3, 6, 50)
    assert data.query_ids.tolist() == list(range(1, 51))
    assert np.diff(make_ranking(4, 7, 2).query_ptr).tolist() == [7] * 4


def test_levels_are_skewed():
    _, counts = np.unique(make_ranking(160, 100, 3, n_levels=4).y, return_counts=True)
    assert counts.tolist() == [8000, 4000, 2000, 2000]
    assert len(np.unique(make_ranking(n_levels=None).y)) == 2000


def test_features():
    dense_data = make_ranking(100, 100, 5, correlation=0.6, random_state=0)
    np.testing.assert_allclose(dense_data.X.std(axis=0), 1, atol=0.03)
    correlation = np.corrcoef(dense_data.X.T)
    np.testing.assert_allclose(correlation[0], 0.6 ** np.arange(5), atol=0.04)
    sparse_data = make_ranking(100, 100, 50, density=0.1, random_state=0)
    np.testing.assert_allclose(sparse_data.X.nnz / 500_000, 0.1, rtol=0.02)
    X = sparse_data.X
    assert sparse.csr_array((X.data, X.indices, X.indptr), X.shape).has_canonical_format
    per_feature = np.bincount(sparse_data.X.indices, minlength=50)
    np.testing.assert_allclose(per_feature, 1000, rtol=0.15)
    heavy = make_ranking(100, 100, 200, heavy_tails=True, random_state=0)
    assert (heavy.X > 0).all()
    medians = np.median(heavy.X, axis=0)
    assert medians.max() / medians.min() > 1e6
    assert (heavy.X.max(axis=0) > 50 * medians).all()


def test_informative_features():
    _, coef = make_ranking(n_features=30, n_informative=4, return_coef=True)
    assert np.count_nonzero(coef) == 4


def test_hardly_any_entries():
    data = make_ranking(2, 2, 3, density=1e-9)
    assert data.X.nnz == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_queries": 0}, "n_queries is 0; expected at least 1"),
        ({"n_features": 0}, "n_features is 0; expected 1 to"),
        ({"docs_per_query": 0}, "docs_per_query is 0; expected"),
        ({"docs_per_query": (5, 4)}, r"docs_per_query is \(5, 4\); expected"),
        ({"n_levels": 1}, "n_levels is 1; expected at least 2"),
        ({"density": 0}, "density is 0; expected"),
        ({"density": 1.5}, "density is 1.5; expected"),
        ({"noise": -1}, "noise is -1; expected at least 0"),
        ({"query_effect": -1}, "query_effect is -1; expected at least 0"),
        ({"n_informative": 21}, "n_informative is 21; expected 1 to 20"),
        ({"correlation": 1}, "correlation is 1; expected"),
        ({"correlation": 0.5, "density": 0.5}, "need density=1"),
        ({"dtype": int}, "dtype is .*; expected np.float64 or np.float32"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(DataError, match=message):
        make_ranking(**options)


def test_letor_folder(tmp_path):
    files = make_letor_folder(
        tmp_path / "a" / "fold", n_queries=20, docs_per_query=5, n_features=4, random_state=0
    )
    whole = make_ranking(20, 5, 4, random_state=0)
    data = [read_letor(file) for file in files]
    assert [part.n_queries for part in data] == [12, 4, 4]
    np.testing.assert_allclose(np.vstack([part.X for part in data]), whole.X, atol=5.1e-7)
    assert np.concatenate([part.y for part in data]).tolist() == whole.y.tolist()
    assert np.concatenate([part.query_ids for part in data]).tolist() == list(range(1, 21))
    with pytest.raises(DataError, match="n_queries is 2; expected at least 3"):
        make_letor_folder(tmp_path, n_queries=2)
    with pytest.raises(DataError, match=r"train\.txt: cannot be written: "):
        make_letor_folder(files[0])
