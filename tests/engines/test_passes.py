"""Passes over X in several parts per thread, and the row kernels that they use."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from linrank import RankingData, make_ranking
from linrank._compile.jit import njit
from linrank.matrix.rows import advance, aligned_zeros, kernel_matrix, matvec, n_tasks, rmatvec
from linrank.problem import make_problem
from problems import as_form, make_problem_arrays

pytestmark = pytest.mark.interpreted


@njit
def advance_blocks(X, first, last, u, out, next_first, next_last, v, s):
    advance(X, first, last, u, out, next_first, next_last, v, s)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_parts_does_not_change_the_sums(form, threads, monkeypatch):
    data = make_ranking(60, docs_per_query=(3, 9), n_features=5, random_state=0)
    if form == "csr":
        data = data.replace(X=sparse.csr_array(data.X))
    monkeypatch.setattr("linrank.engines.threads.SMALL_BYTES", 0)
    rng = np.random.default_rng(0)
    w, v = rng.standard_normal((2, 5))
    whole = make_problem(data, n_threads=1)
    monkeypatch.setattr("linrank.matrix.rows.TASK_BYTES", 64)
    monkeypatch.setattr("linrank.engines.threads.SUM_ENTRIES", 1)
    parts = make_problem(data, n_threads=threads)
    assert len(parts.engine.scratch) == 4 * threads
    value, gradient = whole.value_grad(w)
    found, own = parts.value_grad(w)
    assert found == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(own, gradient, rtol=1e-10)
    np.testing.assert_allclose(parts.hessp(v), whole.hessp(v), rtol=1e-10)
    np.testing.assert_allclose(parts.engine.hessian(), whole.engine.hessian(), rtol=1e-9)
    np.testing.assert_allclose(
        parts.engine.hessian_diagonal(), whole.engine.hessian_diagonal(), rtol=1e-10
    )
    np.testing.assert_allclose(parts.engine.gaps(w), whole.engine.gaps(w), rtol=1e-10)
    again = make_problem(data, n_threads=threads)
    np.testing.assert_array_equal(again.value_grad(w)[1], own)  # the same bits


@pytest.mark.parametrize("form", ["dense64", "dense32", "csr64"])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("margin", [False, True])
def test_equal_scores_need_no_product(form, fused, margin, monkeypatch):
    """At w = 0, X is read for X'u only. `score_derivatives` computes the scores."""
    X, y, qid = make_problem_arrays("five levels")
    offsets = np.random.default_rng(1).standard_normal(len(y)) if margin else None
    monkeypatch.setattr("linrank.engines.threads.BLOCK_BYTES", 400)
    engine = make_problem(RankingData(as_form(X, form), y, qid, margin=offsets)).engine
    engine.fused = fused
    zero = np.zeros(engine.n_features)
    loss, gradient = engine.value_grad(zero)
    product = engine.hessp(np.ones(engine.n_features))
    u, _ = engine.score_derivatives(zero)
    np.testing.assert_allclose(gradient, engine.data.X.T @ u, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(product, engine.hessp(np.ones(engine.n_features)), rtol=1e-9)
    assert loss == pytest.approx(engine.value_grad(zero + 1e-12)[0], rel=1e-9)


def test_large_queries_and_many_features_take_one_part_per_thread(monkeypatch):
    monkeypatch.setattr("linrank.engines.threads.SMALL_BYTES", 0)
    monkeypatch.setattr("linrank.matrix.rows.TASK_BYTES", 64)
    monkeypatch.setattr("linrank.engines.threads.SUM_ENTRIES", 1)
    large = make_ranking(6, docs_per_query=20, n_features=2, random_state=0)
    assert len(make_problem(large, n_threads=2).engine.scratch) == 2
    wide = make_ranking(60, docs_per_query=(3, 5), n_features=100, random_state=0)
    monkeypatch.setattr("linrank.engines.threads.SUM_ENTRIES", 32)
    assert len(make_problem(wide, n_threads=2).engine._partial) == 7  # 241 rows // 32


def test_parts_are_not_too_small():
    assert n_tasks(np.zeros((1000, 2)), 2) == 2
    assert n_tasks(np.zeros((400_000, 2)), 2) == 3  # 6.4 MB in parts of at least 2 MB
    assert n_tasks(np.zeros((4_000_000, 2)), 2) == 8
    assert n_tasks(np.zeros((4_000_000, 2)), 1) == 1
    assert n_tasks(sparse.eye_array(1_000_000, format="csr"), 2) == 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [1, 3, 46, 300])
@pytest.mark.parametrize(("n", "m"), [(0, 4), (4, 0), (1, 1), (7, 7), (8, 5), (5, 8), (40, 39)])
def test_rows_of_two_blocks_in_one_loop(dtype, n_features, n, m):
    """X'u of the first n rows, and the scores of the m rows behind them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + m, n_features)).astype(dtype)
    u, v = rng.standard_normal(n), rng.standard_normal(n_features)
    out, s = aligned_zeros(1, n_features)[0], np.empty(m)
    advance_blocks(kernel_matrix(X), 0, n, u, out, n, n + m, v, s)
    np.testing.assert_allclose(out, X[:n].T.astype(float) @ u, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(s, X[n:].astype(float) @ v, rtol=1e-9, atol=1e-12)
    apart, own = aligned_zeros(1, n_features)[0], np.empty(m)
    rmatvec(kernel_matrix(X), 0, n, u, apart)
    matvec(kernel_matrix(X), n, n + m, v, own)
    np.testing.assert_allclose(out, apart, rtol=1e-9, atol=1e-12)
